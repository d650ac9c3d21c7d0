"""ProjectionFreeBandit: regret beside the same learner without noise and the paper's own noise.

    OMP_NUM_THREADS=1 python benchmarks/convex_bandits.py [regret] [growth] [options] [speed]
                                                          [--seeds 10] [--first 100] [--rounds ...]

regret   five domains, absolute-value and linear losses, T = 10^5, epsilon = 1, delta = 10^-6 and 0;
         the paper's algorithm with its Lemmas 7 (Laplace) and 10 (Gaussian); staying at x_0
growth   T = 10^4, 10^5, 10^6: the slope of the regret, and what privacy adds
options  directions="frames", shrink=True, smaller epsilon
speed    microseconds a round

Losses are 1-Lipschitz (discreet.environments.convex). Constants were tuned on seeds 0 to 5.
"""

import argparse
import math
import os
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import lru_cache, partial
from typing import NamedTuple

import numpy as np
from rich.console import Console
from rich.table import Table

from discreet.domains import (
    BasePolytope,
    Domain,
    FlowPolytope,
    MatroidPolytope,
    Simplex,
    nearest_point,
)
from discreet.environments.convex import ConvexLosses, convex_losses
from discreet.online.projection_free import ProjectionFreeBandit
from discreet.privacy import SeededNoise

CONSOLE = Console(width=130)
DELTA = 1e-6


def grid(k: int) -> list[tuple[str, str]]:
    """Edges of a k x k grid, rightwards and downwards."""
    right = [(f"{i},{j}", f"{i},{j + 1}") for i in range(k) for j in range(k - 1)]
    down = [(f"{i},{j}", f"{i + 1},{j}") for i in range(k - 1) for j in range(k)]
    return right + down


def root_of_weights(S: frozenset[int]) -> float:
    """Submodular: the square root of the total weight, weights 1, 2, ..., 8."""
    return math.sqrt(sum(i + 1 for i in S))


DOMAINS: dict[str, Callable[[], Domain]] = {
    "simplex(10)": lambda: Simplex(10),
    "trees of K5": lambda: MatroidPolytope.graphic(
        [(i, j) for i in range(5) for j in range(i)], bases=True
    ),
    "trees of 4x4 grid": lambda: MatroidPolytope.graphic(grid(4), bases=True),
    "flows of 4x4 grid": lambda: FlowPolytope(grid(4), "0,0", "3,3"),
    "base polytope(8)": lambda: BasePolytope(8, root_of_weights),
}
LOSSES = ("absolute", "linear")


@lru_cache
def domain_named(name: str) -> Domain:
    return DOMAINS[name]()


class Outcome(NamedTuple):
    """What one run gives."""

    regret: float
    calls: float  # of the linear minimiser, a round


class Setting(NamedTuple):
    """A world and its public bounds."""

    domain: Domain
    world: ConvexLosses
    loss_range: tuple[float, float]


def setting(name: str, kind: str, rounds: int, seed: int) -> Setting:
    """Losses are bounded where the paper's radius D n^1/2/T^1/4, at most D/4, leads."""
    domain = domain_named(name)
    n, D = domain.affine_hull.basis.shape[1], domain.diameter()
    world = convex_losses(kind, domain, rounds, seed=seed)
    return Setting(domain, world, world.loss_range(min(D * math.sqrt(n) / rounds**0.25, D / 4)))


def ours(
    seed: int,
    *,
    name: str,
    kind: str,
    rounds: int,
    epsilon: float,
    delta: float,
    shrink: bool = False,
    directions: str = "independent",
) -> Outcome:
    """One run of the learner."""
    domain, world, loss_range = setting(name, kind, rounds, seed)
    bandit = ProjectionFreeBandit(
        domain,
        rounds,
        epsilon,
        delta,
        loss_range=loss_range,
        shrink=shrink,
        directions=directions,
        seed=seed,
        noise=SeededNoise(seed),
    )
    suffered = 0.0
    for t in range(rounds):
        decision = bandit.decide()
        loss = world.loss(t, decision.point)
        suffered += loss
        bandit.learn(decision, loss)
    best = float(world.losses(world.best).sum())
    return Outcome(suffered - best, bandit.oracle_calls / rounds)


def still(seed: int, *, name: str, kind: str, rounds: int) -> Outcome:
    """Playing x_0 in every round."""
    domain, world, _ = setting(name, kind, rounds, seed)
    return Outcome(world.regret(domain.interior_point), 0.0)


def lemma_7(T: int, n: int, L: float, rng: np.random.Generator, count: int) -> np.ndarray:
    """Laplace(T^1/2 n L log T/epsilon) for each node, epsilon = 1."""
    return rng.laplace(scale=math.sqrt(T) * n * L * math.log(T), size=(count, n))


def lemma_10(T: int, n: int, L: float, rng: np.random.Generator, count: int) -> np.ndarray:
    """The Gaussian calibration, epsilon = 1."""
    log = math.log((n + T) / DELTA)
    norm = log + math.sqrt((1 + math.sqrt(T) / n) * log)
    std = T**0.25 * math.sqrt(n) * L * math.log(T) * math.log(T / DELTA) * norm
    return std * rng.standard_normal((count, n))


LEMMAS = {"lemma 7": lemma_7, "lemma 10": lemma_10}


def paper(seed: int, *, name: str, kind: str, rounds: int, lemma: str) -> Outcome:
    """Algorithm 1 as printed, except that line 14 minimises and u is in the affine hull.

    Every running sum carries the noise of ceil(log T) nodes (Theorem 4).
    """
    domain, world, _ = setting(name, kind, rounds, seed)
    rng = np.random.default_rng([seed, 7])
    basis, D, T = domain.affine_hull.basis, domain.diameter(), rounds
    n, size = basis.shape[1], math.isqrt(T)
    radius, rate = D * math.sqrt(n) / T**0.25, D / (T**0.75 * math.sqrt(n))
    nodes = math.ceil(math.log2(math.ceil(T / size)))
    start = domain.interior_point
    centre, late, total, suffered, calls = start, start, np.zeros(n), 0.0, 0
    points = np.empty((T, domain.dim))
    for first in range(0, T, size):
        last = min(T, first + size)
        units = rng.standard_normal((last - first, n))
        units /= np.linalg.norm(units, axis=1, keepdims=True)
        points[first:last] = late + radius * units @ basis.T
        rows = world.slopes[world.which[first:last]]
        values = np.einsum("ij,ij->i", rows, points[first:last]) - world.offsets[first:last]
        values = np.abs(values) if kind == "absolute" else values
        suffered += float(values.sum())
        noisy = total + LEMMAS[lemma](T, n, 1.0, rng, nodes).sum(axis=0)
        found = nearest_point(
            domain, start - rate * (basis @ noisy), centre, gap=D**2 / size, max_calls=size
        )
        late, centre, calls = centre, found.point, calls + found.calls
        total = total + n / radius * values @ units
    return Outcome(suffered - float(world.losses(world.best).sum()), calls / T)


class Mean(NamedTuple):
    """Mean and standard error over seeds."""

    regret: float
    error: float
    calls: float

    def __str__(self) -> str:
        return f"{self.regret:,.0f} +- {self.error:,.0f}"


def over_seeds(run: Callable[[int], Outcome], seeds: range) -> Mean:
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        rows = np.array(list(pool.map(run, seeds)))
    error = float(rows[:, 0].std(ddof=1) / math.sqrt(len(rows)))
    return Mean(float(rows[:, 0].mean()), error, float(rows[:, 1].mean()))


def table(title: str, columns: tuple[str, ...], rows: Iterator[tuple[str, ...]]) -> None:
    shown = Table(title=title)
    for column in columns:
        shown.add_column(column, justify="right")
    for row in rows:
        shown.add_row(*row)
        print(" | ".join(row), flush=True)
    CONSOLE.print(shown)


def regret_rows(seeds: range, rounds: int) -> Iterator[tuple[str, ...]]:
    for kind in LOSSES:
        for name in DOMAINS:
            world = {"name": name, "kind": kind, "rounds": rounds}
            plain = over_seeds(partial(ours, **world, epsilon=math.inf, delta=0.0), seeds)
            private = over_seeds(partial(ours, **world, epsilon=1.0, delta=DELTA), seeds)
            pure = over_seeds(partial(ours, **world, epsilon=1.0, delta=0.0), seeds)
            lemmas = [over_seeds(partial(paper, **world, lemma=lemma), seeds) for lemma in LEMMAS]
            idle = over_seeds(partial(still, **world), seeds)
            below = min(lemma.regret for lemma in lemmas) / private.regret
            yield (
                f"{kind}, {name}",
                str(plain),
                str(private),
                f"{private.regret / plain.regret:.2f}",
                str(pure),
                f"{pure.regret / plain.regret:.2f}",
                *(str(lemma) for lemma in lemmas),
                f"{below:.1f}",
                f"{idle.regret:,.0f}",
                f"{private.calls:.4f}",
            )


def growth_rows(seeds: range) -> Iterator[tuple[str, ...]]:
    horizons = (10**4, 10**5, 10**6)
    for kind in LOSSES:
        for name in ("simplex(10)", "trees of K5"):
            cells, privates, extras = [], [], []
            for rounds in horizons:
                world = {"name": name, "kind": kind, "rounds": rounds}
                plain = over_seeds(partial(ours, **world, epsilon=math.inf, delta=0.0), seeds)
                private = over_seeds(partial(ours, **world, epsilon=1.0, delta=DELTA), seeds)
                cells += [f"{plain.regret:,.0f}", str(private)]
                privates.append(private.regret)
                extras.append(private.regret - plain.regret)
            slope = math.log10(privates[-1] / privates[0]) / 2
            extra = [f"{e / math.sqrt(T):.2f}" for e, T in zip(extras, horizons, strict=True)]
            yield f"{kind}, {name}", *cells, f"{slope:.2f}", " ".join(extra)


def option_rows(seeds: range, rounds: int) -> Iterator[tuple[str, ...]]:
    for kind in LOSSES:
        for name in ("simplex(10)", "trees of K5"):
            world = {"name": name, "kind": kind, "rounds": rounds, "delta": DELTA}
            for label, options in {
                "as it is": {},
                "frames": {"directions": "frames"},
                "shrink": {"shrink": True},
            }.items():
                run = partial(ours, **world, **options)
                figures = [over_seeds(partial(run, epsilon=e), seeds) for e in (math.inf, 1, 0.1)]
                yield f"{kind}, {name}", label, *(str(figure) for figure in figures)


def speed_rows() -> Iterator[tuple[str, ...]]:
    for name in DOMAINS:
        bandit = ProjectionFreeBandit(
            domain_named(name), 10**5, 1.0, DELTA, seed=0, noise=SeededNoise(0)
        )
        losses = np.random.default_rng(0).random(10**5).tolist()
        start = time.process_time()
        for loss in losses:
            bandit.learn(bandit.decide(), loss)
        yield name, f"{(time.process_time() - start) * 10:.2f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", default=["regret", "growth", "options", "speed"])
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--first", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=10**5)
    chosen = parser.parse_args()
    seeds, rounds = range(chosen.first, chosen.first + chosen.seeds), chosen.rounds
    if "regret" in chosen.parts:
        columns = ("losses, domain", "no noise", "delta = 1e-6", "ratio", "delta = 0", "ratio")
        columns += (*LEMMAS, "times below", "still", "calls")
        table(f"regret, T = {rounds:,}, epsilon = 1", columns, regret_rows(seeds, rounds))
    if "growth" in chosen.parts:
        columns = ("losses, domain", "10^4 plain", "private", "10^5 plain", "private")
        columns += ("10^6 plain", "private", "slope", "surcharge/sqrt(T)")
        table("growth, epsilon = 1, delta = 1e-6", columns, growth_rows(seeds))
    if "options" in chosen.parts:
        columns = ("losses, domain", "option", "no noise", "epsilon = 1", "epsilon = 0.1")
        table(f"options, T = {rounds:,}, delta = 1e-6", columns, option_rows(seeds, rounds))
    if "speed" in chosen.parts:
        table("microseconds a round (CPU)", ("domain", "decide + learn"), speed_rows())


if __name__ == "__main__":
    main()
