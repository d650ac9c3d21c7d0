"""SparseBandit: regret against rounds, with and without privacy; what epsilon it takes; speed.

    OMP_NUM_THREADS=1 python benchmarks/convex_sparse.py [curve] [reach] [speed] [--seeds 4]

The world: 5 arms, d = 10,000, theta_i with 10 entries of +-.1, rewards <x, theta_i> + .1 z, cut to
[-1, 1]. "signs" has contexts of +-1; "uniform" has them in [-1, 1], a third of the signal;
"correlated" is +-1 with correlation 1/4 of all pairs. All learners of one seed meet the same people
and the same luck. Regret is expected regret.

curve   T = 20,000: regret over time for epsilon = 1, 3, 10, inf and uniform play; the paper's step
reach   epsilon and T: what share of the regret of uniform play is left in the last fifth
speed   rounds a second, decide and learn, and the memory that the learner holds
"""

import argparse
import math
import time
import tracemalloc

import numpy as np
from rich.console import Console
from rich.table import Table

from discreet.bandits.sparse import SparseBandit
from discreet.environments.sparse_arms import sparse_arms
from discreet.privacy import SeededNoise

CONSOLE = Console(width=120)
ARMS, DIM, NONZERO = 5, 10_000, 10
FIRST = 100  # seed; the defaults were tuned on smaller ones
POINTS = (0.05, 0.1, 0.25, 0.5, 0.75, 1.0)


def play(
    kinds: list[dict[str, object]], T: int, seed: int, contexts: str, dim: int = DIM
) -> np.ndarray:
    """(kinds + 1, T): the regret of each round, of learners and of uniform play (the last)."""
    world = sparse_arms(ARMS, dim, nonzero=NONZERO, contexts=contexts, seed=seed)
    people, luck = (np.random.default_rng([seed, i]) for i in (1, 2))
    bandits = [
        SparseBandit(ARMS, dim, T, **{"delta": 1e-6, **kind}, seed=seed, noise=SeededNoise(seed))
        for kind in kinds
    ]
    regret = np.zeros((len(bandits) + 1, T))
    for start in range(0, T, 500):
        X = world.contexts(min(500, T - start), people)
        M = world.means(X)
        for i, (x, means) in enumerate(zip(X, M, strict=True)):
            noise = world.noise * luck.standard_normal()
            for b, bandit in enumerate(bandits):
                d = bandit.decide(x)
                bandit.learn(d, min(max(means[d.action] + noise, -1.0), 1.0))
                regret[b, start + i] = means.max() - means[d.action]
            regret[-1, start + i] = means.max() - means.mean()
    return regret


def mean_and_error(values: np.ndarray) -> str:
    error = values.std(ddof=1) / math.sqrt(len(values)) if len(values) > 1 else math.nan
    return f"{values.mean():.0f} +- {error:.0f}"


def curve(seeds: range) -> None:
    T = 20_000
    kinds: list[dict[str, object]] = [{"epsilon": e} for e in (1.0, 3.0, 10.0, math.inf)]
    names = [f"epsilon = {kind['epsilon']:g}" for kind in kinds] + ["uniform play"]
    for contexts in ("signs", "uniform", "correlated"):
        runs = np.array([play(kinds, T, s, contexts).cumsum(axis=1) for s in seeds])
        show = Table(
            title=f"regret up to round t, contexts {contexts}, d = {DIM:,}, {len(seeds)} seeds"
        )
        show.add_column("learner")
        show.add_column("forced", justify="right")
        for point in POINTS:
            show.add_column(f"t = {int(point * T):,}", justify="right")
        for k, name in enumerate(names):
            forced = "-"
            if k < len(kinds):
                forced = f"{ARMS * SparseBandit(ARMS, DIM, T, **kinds[k]).forced:,}"
            cells = [mean_and_error(runs[:, k, int(point * T) - 1]) for point in POINTS]
            show.add_row(name, forced, *cells)
        CONSOLE.print(show)
    paper = [{"epsilon": e, "method": "every-round"} for e in (1.0, 10.0, 100.0, math.inf)]
    short = 4000
    regret = play(paper, short, seeds.start, "signs", dim=1000).sum(axis=1)
    ours = play([{"epsilon": e} for e in (1.0, 10.0, 100.0, math.inf)], short, seeds.start, "signs",
                dim=1000).sum(axis=1)  # fmt: skip
    show = Table(title=f"the paper's step in every round, d = 1,000, T = {short:,}, one seed")
    for column in ("epsilon", "every-round", "windows", "uniform play"):
        show.add_column(column, justify="right")
    for kind, theirs, mine in zip(paper, regret, ours, strict=False):
        show.add_row(f"{kind['epsilon']:g}", f"{theirs:.0f}", f"{mine:.0f}", f"{regret[-1]:.0f}")
    CONSOLE.print(show)


def reach(seeds: range) -> None:
    show = Table(title=f"regret of the last fifth, as a share of uniform play's; d = {DIM:,}")
    epsilons = (0.5, 1.0, 2.0, 4.0, 8.0)
    show.add_column("contexts")
    show.add_column("T", justify="right")
    for epsilon in epsilons:
        show.add_column(f"epsilon = {epsilon:g}", justify="right")
    for contexts in ("signs", "uniform"):
        for T in (10_000, 20_000, 40_000):
            kinds: list[dict[str, object]] = [{"epsilon": e} for e in epsilons]
            regret = play(kinds, T, seeds.start, contexts)[:, T - T // 5 :].sum(axis=1)
            show.add_row(contexts, f"{T:,}", *(f"{r / regret[-1]:.2f}" for r in regret[:-1]))
    CONSOLE.print(show)


def speed() -> None:
    T, dim = 4000, DIM
    world = sparse_arms(ARMS, dim, nonzero=NONZERO, seed=0)
    X = world.contexts(1000, np.random.default_rng(0))
    show = Table(title=f"decide and learn, d = {dim:,}, {ARMS} arms")
    for column in ("method", "rounds a second", "memory, MB", "K d floats, MB"):
        show.add_column(column, justify="right")
    for method in ("windows", "every-round"):
        tracemalloc.start()
        bandit = SparseBandit(ARMS, dim, T, 1.0, method=method, seed=0, noise=SeededNoise(0))
        n = T if method == "windows" else 1500
        for t in range(n):
            bandit.learn(bandit.decide(X[t % 1000]), 0.5)
        held = tracemalloc.get_traced_memory()[0] / 1e6
        tracemalloc.stop()
        bandit = SparseBandit(ARMS, dim, T, 1.0, method=method, seed=0, noise=SeededNoise(0))
        start = time.perf_counter()
        for t in range(n):
            bandit.learn(bandit.decide(X[t % 1000]), 0.5)
        rate = n / (time.perf_counter() - start)
        show.add_row(method, f"{rate:,.0f}", f"{held:.2f}", f"{ARMS * dim * 8 / 1e6:.2f}")
    CONSOLE.print(show)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", nargs="*", default=["curve", "reach", "speed"])
    parser.add_argument("--seeds", type=int, default=4)
    asked = parser.parse_args()
    seeds = range(FIRST, FIRST + asked.seeds)
    for name in asked.what:
        {"curve": lambda: curve(seeds), "reach": lambda: reach(seeds), "speed": speed}[name]()


if __name__ == "__main__":
    main()
