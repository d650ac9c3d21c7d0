"""Agarwal and Singh's Tables 1 and 2 as measured curves: regret against T, N and epsilon.

    OMP_NUM_THREADS=1 python benchmarks/online_curves.py [experts ball ...] [--draws 10]

Defaults everywhere, delta = 1e-6 under full information. T runs at N = 10, N at T = 20,000.
Prints mean and standard deviation over draws of the noise (full information: losses stay the
same; bandits: losses are drawn again too), fitted slopes beside the theory's, and draws
docs/online.png.
"""

import argparse
import functools
import math
from dataclasses import asdict, dataclass
from pathlib import Path

import matplotlib
import numpy as np
from kit import CONSOLE, new_table, run, with_std

from discreet.domains import Ball, Cube, Domain, Simplex
from discreet.environments.losses import expert_losses
from discreet.environments.playing import play_losses
from discreet.experiments.measure import grid
from discreet.online import FTRL, AdversarialBandit, BarrierBandit
from discreet.privacy import SeededNoise
from papers.linear_losses import linear_losses
from papers.slopes import slope as fitted

matplotlib.use("Agg")
import matplotlib.pyplot as plt

FIGURE = Path(__file__).parents[1] / "docs" / "online.png"
TIMES = (10**3, 10**4, 10**5, 10**6)
SIZES = (10, 100, 1000)
EPSILONS = (math.inf, 1.0, 0.1)
SHORT = 20_000  # rounds for the curve in N
COLOURS = {math.inf: "#5b8e7d", 1.0: "#2f4b7c", 0.1: "#d08c2f"}


@dataclass(frozen=True)
class World:
    """A row of the paper's tables; slopes of log regret (or surcharge) that theory has."""

    name: str
    title: str
    in_rounds: str  # regret against T
    in_size: str  # private surcharge against N
    in_privacy: str  # private surcharge against 1/epsilon


@dataclass(frozen=True)
class Case:
    """One point of a curve."""

    world: str
    rounds: int
    n: int
    epsilon: float


WORLDS = [
    World("experts", "experts, one better by .1", "<= .5", ".5", "1"),
    World("killer", "experts, leader-killer", ".5", ".5", "1"),
    World("ball", "sphere, drift", "<= .5", ".5", "1"),
    World("ball still", "sphere, no drift", ".5", ".5", "1"),
    World("cube", "cube, drift", "<= .5", "1", "1"),
    World("cube still", "cube, no drift", ".5", "1", "1"),
    World("arms local", "arms, local", ".5", ".5", "1"),
    World("arms central", "arms, central", ".5", ".5", ".5"),
    World("points local", "linear bandit on the ball, local", ".5", "1", "1"),
    World("points central", "linear bandit on the ball, central", ".5", "1", ".5"),
]
LARGEST = {"points local": 100, "points central": 100}  # N; beyond it so few rounds teach nothing


@functools.lru_cache(maxsize=1)
def known_losses(world: str, rounds: int, n: int) -> tuple[Domain, np.ndarray]:
    if world in ("experts", "killer"):
        name = "gap" if world == "experts" else "killer"
        return Simplex(n), expert_losses(name, rounds, n, seed=0)
    drift = 0.0 if world.endswith("still") else 0.5
    ball = world.startswith("ball")
    losses = linear_losses("l2" if ball else "l1", rounds, n, drift=drift, seed=0)
    return (Ball(n) if ball else Cube(n)), losses


def full_information(case: Case, seed: int) -> float:
    domain, losses = known_losses(case.world, case.rounds, case.n)
    learner = FTRL(domain, case.rounds, case.epsilon, 1e-6, noise=SeededNoise(seed))
    total = losses.sum(axis=0)
    suffered = np.einsum("ij,ij->", losses, learner.run(losses))
    return float(suffered - total @ domain.linear_minimizer(total))


def arms(case: Case, seed: int) -> float:
    losses = expert_losses("gap", case.rounds, case.n, gap=0.1, seed=seed)
    bandit = AdversarialBandit(
        case.n, case.rounds, case.epsilon, trust=case.world.split()[1], seed=seed,
        noise=SeededNoise(seed),
    )  # fmt: skip
    suffered = play_losses(bandit, lambda t, d: losses.item(t, d.action), case.rounds)
    return float(suffered.sum() - losses.sum(axis=0).min())


def points(case: Case, seed: int) -> float:
    """Loss vectors z_t u with u a random direction, z_t = 1 with probability 3/4, else -1."""
    rng = np.random.default_rng([seed, 1])
    direction = rng.normal(size=case.n)
    direction /= np.linalg.norm(direction)
    signs = np.where(rng.random(case.rounds) < 0.75, 1.0, -1.0)
    bandit = BarrierBandit(
        Ball(case.n), case.rounds, case.epsilon, trust=case.world.split()[1], seed=seed,
        noise=SeededNoise(seed),
    )  # fmt: skip
    suffered = play_losses(
        bandit, lambda t, d: signs.item(t) * float(direction.dot(d.point)), case.rounds
    )
    return float(suffered.sum() + abs(signs.sum()))


def regret(*, world: str, rounds: int, n: int, epsilon: float, seed: int) -> dict[str, float]:
    kind = {"arms": arms, "points": points}.get(world.split()[0], full_information)
    return {"value": kind(Case(world, rounds, n, epsilon), seed)}


def cases(world: str) -> list[Case]:
    sizes = [(t, SIZES[0]) for t in TIMES] + [(SHORT, n) for n in SIZES]
    most = LARGEST.get(world, SIZES[-1])
    return [Case(world, t, n, e) for t, n in sizes if n <= most for e in EPSILONS]


def collect(worlds: list[str], draws: int) -> dict[Case, np.ndarray]:
    """The regret of every draw of every case, the dearest first."""
    wanted = [case for world in worlds for case in cases(world)]
    wanted.sort(key=lambda case: -case.rounds)
    # Without noise full information has nothing to draw.
    count = {
        case: 1 if math.isinf(case.epsilon) and not case.world.startswith(("arms", "points"))
        else draws
        for case in wanted
    }  # fmt: skip
    found = run([
        cell for case in wanted
        for cell in grid(regret, seeds=range(count[case]),
                         **{name: (value,) for name, value in asdict(case).items()})
    ])  # fmt: skip
    return {case: np.resize(found.over(regret, **asdict(case)), draws) for case in wanted}


def slope(x: list[float], y: list[float]) -> str:
    """Of log y against log x; none where y is not positive."""
    return f"{fitted(x, y).value:.2f}" if min(y) > 0 else "-"


def show(worlds: list[World], found: dict[Case, np.ndarray], draws: int) -> None:
    def mean(world: World, rounds: int, n: int, epsilon: float) -> float:
        return float(np.mean(found[Case(world.name, rounds, n, epsilon)]))

    table = new_table(f"Regret, mean ± standard deviation of {draws} draws",
                      ("world", "T", "N", "no privacy", "epsilon 1", "epsilon .1"))  # fmt: skip
    slopes = new_table(
        "Fitted slopes / theory",
        ("world", "T, no privacy", "T, epsilon 1", "T, epsilon .1", "theory", "surcharge in N",
         "theory", "surcharge in 1/epsilon", "theory"),
    )  # fmt: skip
    for world in worlds:
        for case in cases(world.name)[:: len(EPSILONS)]:
            cells = [with_std(found[Case(world.name, case.rounds, case.n, epsilon)])
                     for epsilon in EPSILONS]  # fmt: skip
            table.add_row(world.title, f"{case.rounds:,}", f"{case.n:,}", *cells)
        in_rounds = [slope(list(TIMES), [mean(world, t, 10, e) for t in TIMES]) for e in EPSILONS]
        sizes = [n for n in SIZES if n <= LARGEST.get(world.name, SIZES[-1])]
        extra = [mean(world, SHORT, n, 1.0) - mean(world, SHORT, n, math.inf) for n in sizes]
        dear = [mean(world, 10**6, 10, e) - mean(world, 10**6, 10, math.inf) for e in (1.0, 0.1)]
        slopes.add_row(world.title, *in_rounds, world.in_rounds, slope(sizes, extra),
                       world.in_size, slope([1, 10], dear), world.in_privacy)  # fmt: skip
    CONSOLE.print(table)
    CONSOLE.print(slopes)


def draw(worlds: list[World], found: dict[Case, np.ndarray]) -> None:
    columns = math.ceil(len(worlds) / 2)
    figure, axes = plt.subplots(2, columns, figsize=(3.1 * columns, 5.6), sharex=True)
    for axis, world in zip(axes.T.flat, worlds, strict=False):
        for epsilon in EPSILONS:
            runs = [found[Case(world.name, t, 10, epsilon)] for t in TIMES]
            values = np.maximum([np.mean(each) for each in runs], 1.0)
            spread = np.array([np.std(each, ddof=1) for each in runs])
            label = "no privacy" if math.isinf(epsilon) else f"epsilon = {epsilon:g}"
            axis.plot(TIMES, values, marker="o", ms=3, color=COLOURS[epsilon], label=label)
            low = np.maximum(values - spread, values / 3)
            axis.fill_between(TIMES, low, values + spread, color=COLOURS[epsilon], alpha=0.15)
        middle = np.mean(found[Case(world.name, 10**4, 10, 1.0)])
        axis.plot(TIMES, max(middle, 1) * np.sqrt(np.array(TIMES) / 10**4), ":", color="#999999",
                  lw=1, label="slope 1/2")  # fmt: skip
        axis.set(xscale="log", yscale="log")
        axis.set_title(world.title, fontsize=9)
        axis.grid(alpha=0.2)
    for axis in axes[-1]:
        axis.set_xlabel("rounds")
    for axis in axes[:, 0]:
        axis.set_ylabel("regret")
    figure.legend(
        *axes[0, 0].get_legend_handles_labels(), loc="lower center", ncol=4, frameon=False
    )
    figure.tight_layout(rect=(0, 0.05, 1, 1))
    figure.savefig(FIGURE, dpi=130)
    CONSOLE.print(f"Figure: docs/{FIGURE.name}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("worlds", nargs="*", default=[world.name for world in WORLDS])
    parser.add_argument("--draws", type=int, default=10)
    options = parser.parse_args()
    worlds = [world for world in WORLDS if world.name in options.worlds]
    found = collect([world.name for world in worlds], options.draws)
    show(worlds, found, options.draws)
    if worlds == WORLDS:
        draw(worlds, found)


if __name__ == "__main__":
    main()
