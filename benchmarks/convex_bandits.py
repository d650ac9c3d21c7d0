"""ProjectionFreeBandit: regret beside the same learner without noise and the paper's own noise.

    OMP_NUM_THREADS=1 python benchmarks/convex_bandits.py [regret] [growth] [options] [speed]
                                                          [--seeds 10] [--first 100] [--rounds ...]

regret   five domains, absolute-value and linear losses, T = 10^5, epsilon = 1, delta = 10^-6 and 0;
         the paper's algorithm with its Lemmas 7 (Laplace) and 10 (Gaussian); staying at x_0
growth   T = 10^4, 10^5, 10^6: the slope of the regret, and what privacy adds
options  shrink=True, smaller epsilon
speed    microseconds a round

Losses are 1-Lipschitz (papers/convex_losses.py). Constants were tuned on seeds 0 to 5.
"""

import argparse
import math
import time
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from kit import CONSOLE, new_table, run, with_error

from discreet.domains import (
    BasePolytope,
    Domain,
    FlowPolytope,
    MatroidPolytope,
    Simplex,
)
from discreet.domains.conditional_gradient import nearest_point
from discreet.environments.playing import play_losses
from discreet.experiments.measure import Measurement, grid
from discreet.online.projection_free import ProjectionFreeBandit
from discreet.privacy import SeededNoise
from papers.convex_losses import ConvexLosses, convex_losses

DELTA = 1e-6


def lattice(k: int) -> list[tuple[str, str]]:
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
    "trees of 4x4 grid": lambda: MatroidPolytope.graphic(lattice(4), bases=True),
    "flows of 4x4 grid": lambda: FlowPolytope(lattice(4), "0,0", "3,3"),
    "base polytope(8)": lambda: BasePolytope(8, root_of_weights),
}
LOSSES = ("absolute", "linear")


@lru_cache
def domain_named(name: str) -> Domain:
    return DOMAINS[name]()


class Setting(NamedTuple):
    """A world and its public bounds."""

    domain: Domain
    world: ConvexLosses
    loss_range: tuple[float, float]


def setting(name: str, kind: str, rounds: int, seed: int) -> Setting:
    """Losses are bounded where the paper's radius D n^1/2/T^1/4, at most D/4, leads."""
    domain = domain_named(name)
    n = domain.affine_hull.basis.shape[1]
    D = domain.diameter()
    world = convex_losses(kind, domain, rounds, seed=seed)
    return Setting(domain, world, world.loss_range(min(D * math.sqrt(n) / rounds**0.25, D / 4)))


def ours(
    *,
    name: str,
    kind: str,
    rounds: int,
    epsilon: float,
    delta: float,
    shrink: bool,
    seed: int,
) -> dict[str, float]:
    """Regret of the learner, and calls of the linear minimiser a round."""
    domain, world, loss_range = setting(name, kind, rounds, seed)
    bandit = ProjectionFreeBandit(
        domain,
        rounds,
        epsilon,
        delta,
        loss_range=loss_range,
        shrink=shrink,
        seed=seed,
        noise=SeededNoise(seed),
    )
    suffered = play_losses(bandit, lambda t, decision: world.loss(t, decision.point), rounds)
    best = float(world.losses(world.best).sum())
    return {"value": float(suffered.sum()) - best, "calls": bandit.oracle_calls / rounds}


def still(*, name: str, kind: str, rounds: int, seed: int) -> dict[str, float]:
    """Playing x_0 in every round."""
    domain, world, _ = setting(name, kind, rounds, seed)
    return {"value": world.regret(domain.interior_point)}


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


def paper(*, name: str, kind: str, rounds: int, lemma: str, seed: int) -> dict[str, float]:
    """Algorithm 1 as printed, except that line 14 minimises and u is in the affine hull.

    Every running sum carries the noise of ceil(log T) nodes (Theorem 4).
    """
    domain, world, _ = setting(name, kind, rounds, seed)
    rng = np.random.default_rng([seed, 7])
    basis = domain.affine_hull.basis
    D = domain.diameter()
    T = rounds
    n = basis.shape[1]
    size = math.isqrt(T)
    radius = D * math.sqrt(n) / T**0.25
    rate = D / (T**0.75 * math.sqrt(n))
    nodes = math.ceil(math.log2(math.ceil(T / size)))
    start = domain.interior_point
    centre = late = start
    total = np.zeros(n)
    suffered = 0.0
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
        late = centre
        centre = found.point
        total = total + n / radius * values @ units
    return {"value": suffered - float(world.losses(world.best).sum())}


AS_IT_IS = {"shrink": False}


def learner_cells(
    seeds: range,
    names: tuple[str, ...],
    rounds: tuple[int, ...],
    budgets: tuple[tuple[float, float], ...],
    options: dict[str, Any] = AS_IT_IS,
) -> list[Measurement]:
    """The learner at (epsilon, delta) pairs, on all losses."""
    return [
        cell
        for epsilon, delta in budgets
        for cell in grid(ours, seeds=seeds, name=names, kind=LOSSES, rounds=rounds,
                         epsilon=(epsilon,), delta=(delta,),
                         **{option: (value,) for option, value in options.items()})
    ]  # fmt: skip


def regret_rows(seeds: range, rounds: int) -> Iterator[tuple[str, ...]]:
    names = tuple(DOMAINS)
    budgets = ((math.inf, 0.0), (1.0, DELTA), (1.0, 0.0))
    everywhere = {"name": names, "kind": LOSSES, "rounds": (rounds,)}
    found = run([
        *learner_cells(seeds, names, (rounds,), budgets),
        *grid(paper, seeds=seeds, lemma=tuple(LEMMAS), **everywhere),
        *grid(still, seeds=seeds, **everywhere),
    ])  # fmt: skip
    for kind in LOSSES:
        for name in DOMAINS:
            world = {"name": name, "kind": kind, "rounds": rounds}
            plain, private, pure = (
                found.over(ours, epsilon=e, delta=delta, **world, **AS_IT_IS)
                for e, delta in budgets
            )
            lemmas = [found.over(paper, lemma=lemma, **world) for lemma in LEMMAS]
            below = min(lemma.mean() for lemma in lemmas) / private.mean()
            calls = found.mean(ours, "calls", epsilon=1.0, delta=DELTA, **world, **AS_IT_IS)
            yield (
                f"{kind}, {name}",
                with_error(plain),
                with_error(private),
                f"{private.mean() / plain.mean():.2f}",
                with_error(pure),
                f"{pure.mean() / plain.mean():.2f}",
                *(with_error(lemma) for lemma in lemmas),
                f"{below:.1f}",
                f"{found.mean(still, **world):,.0f}",
                f"{calls:.4f}",
            )


def growth_rows(seeds: range) -> Iterator[tuple[str, ...]]:
    horizons = (10**4, 10**5, 10**6)
    names = ("simplex(10)", "trees of K5")
    found = run(learner_cells(seeds, names, horizons, ((math.inf, 0.0), (1.0, DELTA))))
    for kind in LOSSES:
        for name in names:
            cells = []
            privates = []
            extras = []
            for rounds in horizons:
                world = {"name": name, "kind": kind, "rounds": rounds, **AS_IT_IS}
                plain = found.over(ours, epsilon=math.inf, delta=0.0, **world)
                private = found.over(ours, epsilon=1.0, delta=DELTA, **world)
                cells += [f"{plain.mean():,.0f}", with_error(private)]
                privates.append(private.mean())
                extras.append(private.mean() - plain.mean())
            slope = math.log10(privates[-1] / privates[0]) / 2
            extra = [f"{e / math.sqrt(T):.2f}" for e, T in zip(extras, horizons, strict=True)]
            yield f"{kind}, {name}", *cells, f"{slope:.2f}", " ".join(extra)


def option_rows(seeds: range, rounds: int) -> Iterator[tuple[str, ...]]:
    names = ("simplex(10)", "trees of K5")
    budgets = tuple((epsilon, DELTA) for epsilon in (math.inf, 1.0, 0.1))
    options = {
        "as it is": AS_IT_IS,
        "shrink": {**AS_IT_IS, "shrink": True},
    }
    found = run([cell for chosen in options.values()
                 for cell in learner_cells(seeds, names, (rounds,), budgets, chosen)])  # fmt: skip
    for kind in LOSSES:
        for name in names:
            for label, chosen in options.items():
                world = {"name": name, "kind": kind, "rounds": rounds, **chosen}
                figures = [
                    found.over(ours, epsilon=e, delta=delta, **world) for e, delta in budgets
                ]
                yield f"{kind}, {name}", label, *(with_error(figure) for figure in figures)


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


def table(title: str, columns: tuple[str, ...], rows: Iterator[tuple[str, ...]]) -> None:
    shown = new_table(title, columns)
    for row in rows:
        shown.add_row(*row)
    CONSOLE.print(shown)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", default=["regret", "growth", "options", "speed"])
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--first", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=10**5)
    chosen = parser.parse_args()
    seeds = range(chosen.first, chosen.first + chosen.seeds)
    rounds = chosen.rounds
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
