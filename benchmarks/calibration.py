"""Whether LinearBandit's belief is as sure as it may be, and how many runs get stuck.

    python benchmarks/calibration.py [seeds] [from=SEED]

z is the distance of what an action is worth from what the belief expects, in the belief's standard
deviations: its root mean square is 1 if the belief is calibrated. An action is played if it has 3%
of a window's rounds, else it is abandoned. Coverage is that of `predict`'s 95% intervals at the
end. Gain is over blind choice, as a fraction of what there is to gain; a run is stuck if it is
below .7 in the last fifth of the rounds and no longer rises. epsilon = 1; set OMP_NUM_THREADS=1.

    even     4 actions with weights of their own for 3 features and a constant; 0/1, mean about .5
    rare     5 actions, 2 features, mean about .08
    steep    3 actions, 2 features, weights far larger: means from nearly 0 to nearly 1
    clicks   2 to 6 actions, 5 kinds of people, mean .02 to .05; 20,000 rounds
    long     as sphere, rows a fifth as long and theta five times as long (for ablations.py)

The last table has the worlds with weights for every action once more, without Model(blocks=).
"""

import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import matplotlib
import numpy as np
from kit import CONSOLE, new_table, run
from scipy.special import expit, ndtr

from discreet.arrays import Array
from discreet.bandits import LinearBandit, Model
from discreet.environments.linear import LinearWorld, linear_world
from discreet.environments.people import generator
from discreet.experiments.measure import Found, Measure, grid
from discreet.least_squares.posterior import root
from discreet.privacy import SeededNoise

matplotlib.use("Agg")
import matplotlib.pyplot as plt

FIRST = 91000  # seed
SEEDS = 100
T = 50_000
MARKS = (2_000, 10_000, 50_000)
# Actions, features, logit of the mean, std of the weights of an action in logits.
LOGISTIC = {
    "even": (4, 3, 0.0, 0.45),
    "rare": (5, 2, np.log(0.08 / 0.92), 0.45),
    "steep": (3, 2, 0.0, 3.0),
}
PROBES = 20  # people whose actions are looked at
PLAYED = 0.03  # of a window's rounds
STUCK = 0.7  # of what there is to gain
FIXED = ("fixed", "basis")  # lists of actions that everybody has
BLOCKS = (*LOGISTIC, "clicks")  # weights for every action
WORLDS = (*FIXED, "even", "rare", "clicks", "sphere")
UNSAID = ("even", "rare")  # where a run without Model(blocks=) is measured too


@dataclass(frozen=True)
class Place:
    """A world, and rows at which a belief about it is looked at."""

    world: LinearWorld
    rows: Array  # (actions, probes, dim)
    truth: Array  # (actions, probes), expected rewards
    action_of: Callable[[Array, Array], Array]  # (actions, rows) of decisions -> what was played
    blocks: tuple[int, ...] | None = None  # of the features
    rounds: int = T

    @property
    def model(self) -> Model:
        """What is publicly known of it."""
        return Model(blocks=self.blocks)


def place(name: str, seed: int) -> Place:
    """By name; the seed decides its parameter."""
    if name in BLOCKS:
        return block_place(name, seed)
    world = long_world(seed) if name == "long" else linear_world(name, 5, seed=seed)
    if name == "basis":
        rows = np.eye(5)[:, None]
        return Place(world, rows, clipped_mean(rows @ world.theta), by_feature)
    offered = world.people(PROBES, np.random.default_rng(seed)).features.transpose(1, 0, 2)
    rows = offered[:, :1] if name == "fixed" else offered
    return Place(world, rows, clipped_mean(rows @ world.theta), by_action)


def long_world(seed: int) -> LinearWorld:
    """Rows a fifth as long, for a theta five times as long as it is thought to be."""
    world = linear_world("sphere", 5, seed=seed)
    return replace(
        world, theta=5 * world.theta, contexts=lambda n, rng: 0.2 * world.contexts(n, rng)
    )


def block_place(name: str, seed: int) -> Place:
    """Actions with weights of their own: a row holds the person's features in its action's block.

    LOGISTIC: logits b + w'x for x uniform in [-1, 1]^k, b of half the deviation of w.
    clicks: for each action and kind of person a rate base exp(.5 N(0, 1)).
    """
    rng = generator(seed, b"cali")
    if name == "clicks":
        actions, kinds = int(rng.integers(2, 7)), 5
        base = np.exp(rng.uniform(np.log(0.02), np.log(0.05)))
        rates = np.minimum(base * np.exp(0.5 * rng.standard_normal((actions, kinds))), 0.9)
        theta = np.log(rates / (1 - rates)).ravel()
        draw = partial(one_hot, kinds)
        rounds = 20_000
    else:
        actions, k, middle, swing = LOGISTIC[name]
        levels = middle + 0.5 * swing * rng.standard_normal(actions)
        slopes = swing * rng.standard_normal((actions, k))
        theta = np.sqrt(k + 1) * np.column_stack([slopes, levels]).ravel()
        draw = partial(numbers, k)
        rounds = T
    world = LinearWorld(
        name, theta, partial(in_blocks, draw, actions), actions, "zero-one", link="logistic"
    )
    people = world.people(PROBES, np.random.default_rng(seed))
    rows = people.features.transpose(1, 0, 2)
    labels = tuple(np.repeat(np.arange(actions), len(theta) // actions).tolist())
    return Place(world, rows, expit(rows @ theta), by_action, labels, rounds)


def numbers(k: int, n: int, rng: np.random.Generator) -> Array:
    """k numbers and a constant, in the unit ball."""
    return np.column_stack([rng.uniform(-1, 1, (n, k)), np.ones(n)]) / np.sqrt(k + 1)


def one_hot(kinds: int, n: int, rng: np.random.Generator) -> Array:
    """A kind of person."""
    return np.eye(kinds)[rng.integers(kinds, size=n)]


def in_blocks(draw: Callable[..., Array], actions: int, n: int, rng: np.random.Generator) -> Array:
    """A person's features x in the block of each action."""
    return np.einsum("ab,nk->nabk", np.eye(actions), draw(n, rng)).reshape(n, actions, -1)


def clipped_mean(mean: Array, std: float = 0.1) -> Array:
    """Of a normal reward, cut to [-1, 1]."""
    low, high = (-1 - mean) / std, (1 - mean) / std
    inside = mean * (ndtr(high) - ndtr(low))
    inside += std * (np.exp(-(low**2) / 2) - np.exp(-(high**2) / 2)) / np.sqrt(2 * np.pi)
    return inside + ndtr(-high) - ndtr(low)


def by_action(actions: Array, rows: Array) -> Array:
    """The action itself."""
    return actions


def by_feature(actions: Array, rows: Array) -> Array:
    """The unit vector."""
    return rows.argmax(axis=1)


def calibration(
    *,
    seed: int,
    world: str,
    epsilon: float = 1.0,
    rounds: int | None = None,
    link: str = "identity",
    blocks: bool = True,
) -> dict[str, float | list[float]]:
    """One run: gains by fifths of the rounds, regret; z at the marks and coverage, without link."""
    here = place(world, seed)
    if not blocks:
        here = replace(here, blocks=None)
    if rounds is not None:
        here = replace(here, rounds=rounds)
    learner = LinearBandit(
        here.world.dim,
        here.rounds,
        epsilon,
        reward_range=here.world.reward_range,
        model=replace(here.model, link=link),
        seed=seed,
        noise=SeededNoise(seed),
    )
    who, luck = np.random.default_rng([seed, 1]), np.random.default_rng([seed, 2])
    missed = np.empty(here.rounds)
    blind = np.empty(here.rounds)
    played = np.ones(len(here.rows))
    window = np.zeros(len(here.rows))
    found: dict[str, float | list[float]] = {}
    marks = marks_of(here.rounds) if link == "identity" else []
    people = here.world.people(here.rounds, who)  # the same, whoever learns
    while learner.rounds < here.rounds:
        start = learner.rounds
        stop = min([start + learner.rounds_until_release, *(m for m in marks if m > start)])
        some = people[start:stop]
        windows = learner.belief.windows
        decided = learner.decide_many(some.features)
        if learner.belief.windows > windows:
            played, window = window, np.zeros(len(here.rows))
        learner.learn_many(decided, some.rewards(decided.action, luck))
        missed[start:stop] = some.regret(decided.action)
        blind[start:stop] = some.best - some.means.mean(axis=1)
        window += np.bincount(here.action_of(decided.action, decided.rows), minlength=len(window))
        if stop in marks:
            found |= looked_at(learner, here, played >= PLAYED * played.sum(), stop)
    fifths = 1 - missed.reshape(5, -1).sum(axis=1) / blind.reshape(5, -1).sum(axis=1)
    return found | {
        "gain": float(1 - missed.sum() / blind.sum()),
        "fifths": fifths.tolist(),
        "regret": float(missed.sum()),
    }


def marks_of(rounds: int) -> list[int]:
    """When the belief is looked at."""
    return [*(mark for mark in MARKS if mark < rounds), rounds]


def looked_at(learner: LinearBandit, here: Place, played: Array, rounds: int) -> dict[str, float]:
    """Sums of z^2 and numbers of looks, for played and abandoned actions; coverage."""
    belief = learner.belief
    error, aside = belief.split(root(belief.covariance))
    std = learner.reward_unit * np.linalg.norm(here.rows @ error + aside, axis=-1)
    z = (here.truth - here.rows @ learner.theta - learner.intercept) / std
    intervals = learner.predict(here.rows.reshape(-1, here.world.dim))
    truth = here.truth.ravel()
    inside = (intervals.low - 1e-12 <= truth) & (truth <= intervals.high + 1e-12)
    found = {f"covered {rounds}": float(inside.mean())}
    for kind, which in (("played", played), ("abandoned", ~played)):
        found[f"{kind} {rounds}"] = float((z[which] ** 2).sum())
        found[f"{kind} {rounds} looks"] = float(z[which].size)
    return found


def unsaid(*, seed: int, world: str) -> dict[str, float | list[float]]:
    """A run of somebody who does not say which features belong to one action alone."""
    return calibration(seed=seed, world=world, blocks=False)


def rms(found: Found, world: str, kind: str, rounds: int) -> str:
    """Root mean square of z over all seeds."""
    total = found.over(calibration, f"{kind} {rounds}", world=world).sum()
    looks = found.over(calibration, f"{kind} {rounds} looks", world=world).sum()
    return f"{np.sqrt(total / looks):.2f}" if looks else ""


def is_stuck(found: Found, measure: Measure, world: str) -> Array:
    """Of each seed; of fixed lists the runs with a regret above 1,500."""
    if world not in BLOCKS:
        return found.over(measure, "regret", world=world) > 1500
    fifths = found.over(measure, "fifths", world=world)
    return np.asarray((fifths[:, -1] < STUCK) & (fifths[:, -1] < fifths[:, -2] + 0.05))


def z_table(found: Found, title: str) -> None:
    """z and coverage."""
    columns = [f"{kind} {mark:,}" for mark in MARKS for kind in ("played", "abandoned")]
    table = new_table(title, ("world", *columns, "coverage"))
    for world in WORLDS:
        marks = marks_of(place(world, 0).rounds)
        cells = [
            rms(found, world, kind, mark) for mark in marks for kind in ("played", "abandoned")
        ]
        cells += [""] * (len(columns) - len(cells))
        covered = found.over(calibration, f"covered {marks[-1]}", world=world)
        table.add_row(world, *cells, f"{covered.mean():.2f}")
    CONSOLE.print(table)


def gain_table(found: Found, measure: Measure, worlds: tuple[str, ...], title: str) -> None:
    """What runs gain, and which are stuck."""
    table = new_table(
        title, ("world", "gain", "last fifth", "10% of runs", "stuck", "regret", "largest")
    )
    for world in worlds:
        last = found.over(measure, "fifths", world=world)[:, -1]
        regret = found.over(measure, "regret", world=world)
        table.add_row(
            world,
            f"{found.mean(measure, 'gain', world=world):.3f}",
            f"{last.mean():.3f}",
            f"{np.quantile(last, 0.1):.2f}",
            f"{is_stuck(found, measure, world).mean():.3f}",
            f"{regret.mean():,.0f}",
            f"{regret.max():,.0f}",
        )
    CONSOLE.print(table)


def draw(found: Found) -> None:
    """docs/calibration.png: z against rounds."""
    picture, places = plt.subplots(1, 2, figsize=(9, 3.6), sharey=True)
    for panel, kind in zip(places, ("played", "abandoned"), strict=True):
        panel.axhspan(0.9, 1.2, color="#b0b4ba", alpha=0.4, linewidth=0)
        for world in (*FIXED, "even", "rare"):
            values = [float(rms(found, world, kind, mark)) for mark in MARKS]
            panel.plot(MARKS, values, marker="o", label=world)
        panel.set(xscale="log", xlabel="rounds", title=f"{kind} actions", ylim=(0, 2))
        panel.set_xticks(MARKS, [f"{mark:,}" for mark in MARKS])
        panel.minorticks_off()
    places[0].set_ylabel("root mean square of z")
    places[0].legend(frameon=False)
    picture.tight_layout()
    picture.savefig(Path(__file__).parents[1] / "docs" / "calibration.png", dpi=150)


def main(seeds: int, first: int) -> None:
    chosen = range(first, first + seeds)
    cells = grid(calibration, seeds=chosen, world=WORLDS)
    found = run(cells + grid(unsaid, seeds=chosen, world=UNSAID))
    where = f"epsilon = 1, {seeds} seeds from {first}"
    z_table(found, f"Root mean square of z, {where}")
    gain_table(found, calibration, WORLDS, f"Gain over blind choice, {where}")
    gain_table(found, unsaid, UNSAID, f"The same without blocks, {where}")
    draw(found)


if __name__ == "__main__":
    start = next((int(each[5:]) for each in sys.argv[1:] if each.startswith("from=")), FIRST)
    main(next((int(each) for each in sys.argv[1:] if each.isdigit()), SEEDS), start)
