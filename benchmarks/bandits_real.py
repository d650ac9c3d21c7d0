"""Weights for every action on real data, with and without blocks (a table of docs/bandits-why.md).

    python benchmarks/bandits_real.py [seeds] [from=SEED]

What was gained of what there was to gain over choosing blindly, in 50,000 rounds, delta = 1e-6.
digits-50 are the digits with 10 actions and 5 fixed projections of the image for each, under a
norm bound of 2. LinUCB is not private and has the better of two widths. Set OMP_NUM_THREADS=1.
"""

import sys
from dataclasses import dataclass
from functools import cache

import numpy as np
from kit import CONSOLE, new_table, run

from discreet.bandits import LinearBandit, Model, baselines
from discreet.environments import play
from discreet.environments.datasets import digits_world, flights_world
from discreet.environments.people import People
from discreet.environments.randhie import randhie_world
from discreet.environments.tables import package
from discreet.experiments.measure import grid
from discreet.experiments.statistics import interval
from discreet.privacy import SeededNoise

FIRST = 71000  # seed; balance and blocks were tried on seeds 100 to 105
T = 50_000
SEEDS = 10
EPSILONS = (3.0, 1.0, 0.3)
WIDTHS = (0.3, 1.0)  # of LinUCB
PROJECTED = 5  # features of an action in digits-50


@dataclass(frozen=True)
class Projected:
    """Digits by a few fixed projections of their pixels."""

    features: np.ndarray  # (images, PROJECTED)
    means: np.ndarray  # (images, 10)
    reward_range: tuple[float, float] = (0.0, 1.0)
    n_actions: int = 10

    @classmethod
    @cache
    def digits(cls) -> "Projected":
        data = package("sklearn.datasets").load_digits()
        directions = np.random.default_rng(0).standard_normal((64, PROJECTED)) / 8
        return cls(data.data / 16 @ directions, np.eye(10)[data.target])

    @property
    def dim(self) -> int:
        return 10 * PROJECTED

    @property
    def block_of(self) -> tuple[int, ...]:
        return tuple(np.repeat(range(10), PROJECTED).tolist())

    def people(self, n, rng, start=0) -> People:
        some = rng.integers(len(self.features), size=n)
        rows = np.einsum("ab,nk->nabk", np.eye(10), self.features[some]).reshape(n, 10, self.dim)
        return People(rows, self.means[some], "known", reward_range=self.reward_range)


WORLDS = {
    "flights": flights_world,
    "randhie": randhie_world,
    "digits": digits_world,
    "digits-50": Projected.digits,
}


def gained(*, seed: int, world: str, learner: str, epsilon: float) -> dict[str, float]:
    """Percent of what there was to gain; `epsilon` is the width of LinUCB."""
    here = WORLDS[world]()
    known = {"reward_range": here.reward_range, "seed": seed}
    if world == "digits-50":
        labels = here.block_of
        known["norm_bound"] = 2.0
    else:
        labels = here.features.phi.block_of
    if learner == "LinUCB":
        bandit = baselines.LinUCB(here.dim, T, width=epsilon, **known)
    else:
        blocks = labels if learner == "blocks" else None
        bandit = LinearBandit(
            here.dim, T, epsilon, model=Model(blocks=blocks), noise=SeededNoise(seed), **known
        )
    lost = play(bandit, here, T, seed=seed).regret.sum()
    blind = T * float(np.mean(here.means.max(axis=1) - here.means.mean(axis=1)))
    return {"value": 100 * (1 - float(lost) / blind)}


def main(seeds: int, first: int) -> None:
    chosen = range(first, first + seeds)
    cells = grid(
        gained, seeds=chosen, world=tuple(WORLDS), learner=("plain", "blocks"), epsilon=EPSILONS
    )
    plain = grid(gained, seeds=chosen, world=tuple(WORLDS), learner=("LinUCB",), epsilon=WIDTHS)
    found = run([*cells, *plain])
    table = new_table(
        f"Gained over choosing blindly, %: mean ± 95%, {seeds} seeds from {first}",
        ("world", "d", "blocks", *(f"epsilon = {e:g}" for e in EPSILONS), "LinUCB"),
    )
    for world, make in WORLDS.items():
        best = max(
            found.over(gained, world=world, learner="LinUCB", epsilon=width).mean()
            for width in WIDTHS
        )
        for learner, name in (("plain", "no"), ("blocks", "yes")):
            cells = []
            for epsilon in EPSILONS:
                mean, half = interval(
                    found.over(gained, world=world, learner=learner, epsilon=epsilon).ravel()
                )
                cells.append(f"{mean:.1f} ± {half:.1f}")
            table.add_row(world, str(make().dim), name, *cells, f"{best:.1f}")
    CONSOLE.print(table)


if __name__ == "__main__":
    start = next((int(each[5:]) for each in sys.argv[1:] if each.startswith("from=")), FIRST)
    main(next((int(each) for each in sys.argv[1:] if each.isdigit()), SEEDS), start)
