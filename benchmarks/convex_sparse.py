"""SparseBandit: regret against rounds, with and without privacy; what epsilon it takes; speed.

    OMP_NUM_THREADS=1 python benchmarks/convex_sparse.py [curve] [paper] [late] [speed] [--seeds 4]

The world: 5 arms, d = 10,000, theta_i with 10 entries of +-.1, rewards <x, theta_i> + .1 z, cut to
[-1, 1]. "signs" has contexts of +-1; "uniform" has them in [-1, 1], a third of the signal;
"correlated" is +-1 with correlation 1/4 of all pairs. All learners of one seed meet the same people
and reward noise. Regret is expected regret.

curve   T = 20,000: regret over time for epsilon = 1, 3, 10, inf and uniform play
paper   the paper's step in every round (papers/every_round.py), T = 4,000
late    epsilon and T: what fraction of the regret of uniform play is left in the last fifth
speed   rounds a second, decide and learn, and the memory that the learner holds
"""

import argparse
import math
import time
import tracemalloc

import numpy as np
from kit import CONSOLE, new_table, run, with_error

from discreet.bandits import SparseBandit
from discreet.environments import play
from discreet.experiments.measure import grid
from discreet.privacy import SeededNoise
from papers.every_round import EveryRound
from papers.sparse_arms import sparse_arms

ARMS = 5
DIM = 10_000
NONZERO = 10
FIRST = 100  # seed; the defaults were tuned on smaller ones
POINTS = (0.05, 0.1, 0.25, 0.5, 0.75, 1.0)


def regret(
    *, rounds: int, dim: int, contexts: str, epsilon: float, method: str, seed: int
) -> dict[str, np.ndarray]:
    """Regret at the points and in the last fifth, of the learner and of uniform play."""
    world = sparse_arms(ARMS, dim, nonzero=NONZERO, contexts=contexts, seed=seed)
    kind = {"windows": SparseBandit, "every-round": EveryRound}[method]
    bandit = kind(ARMS, dim, rounds, epsilon, 1e-6, seed=seed, noise=SeededNoise(seed))
    played = play(bandit, world, rounds, seed=seed)
    places = [int(point * rounds) - 1 for point in POINTS]
    late = slice(rounds - rounds // 5, None)
    return {
        "value": played.regret.cumsum()[places],
        "uniform": played.uniform.cumsum()[places],
        "late": played.regret[late].sum(),
        "uniform late": played.uniform[late].sum(),
    }


def curve(seeds: range) -> None:
    T = 20_000
    kinds = ("signs", "uniform", "correlated")
    epsilons = (1.0, 3.0, 10.0, math.inf)
    found = run(grid(regret, seeds=seeds, rounds=(T,), dim=(DIM,), contexts=kinds,
                     epsilon=epsilons, method=("windows",)))  # fmt: skip
    for contexts in kinds:
        show = new_table(
            f"regret up to round t, contexts {contexts}, d = {DIM:,}, {len(seeds)} seeds",
            ("learner", "forced", *(f"t = {int(point * T):,}" for point in POINTS)),
        )
        setting = {"rounds": T, "dim": DIM, "contexts": contexts, "method": "windows"}
        for epsilon in epsilons:
            runs = found.over(regret, epsilon=epsilon, **setting)  # (seeds, points)
            forced = f"{ARMS * SparseBandit(ARMS, DIM, T, epsilon).forced_rounds:,}"
            show.add_row(f"epsilon = {epsilon:g}", forced, *map(with_error, runs.T))
        uniform = found.over(regret, "uniform", epsilon=epsilons[0], **setting)
        show.add_row("uniform play", "-", *map(with_error, uniform.T))
        CONSOLE.print(show)


def paper(seeds: range) -> None:
    T = 4000
    epsilons = (1.0, 10.0, 100.0, math.inf)
    setting = {"rounds": T, "dim": 1000, "contexts": "signs"}
    found = run(grid(regret, seeds=seeds[:1], epsilon=epsilons, method=("every-round", "windows"),
                     **{name: (value,) for name, value in setting.items()}))  # fmt: skip
    show = new_table(f"the paper's step in every round, d = 1,000, T = {T:,}, one seed",
                     ("epsilon", "every-round", "windows", "uniform play"))  # fmt: skip
    for epsilon in epsilons:
        theirs, ours = (found.over(regret, epsilon=epsilon, method=method, **setting)[0, -1]
                        for method in ("every-round", "windows"))  # fmt: skip
        uniform = found.over(regret, "uniform", epsilon=epsilon, method="windows", **setting)
        show.add_row(f"{epsilon:g}", f"{theirs:.0f}", f"{ours:.0f}", f"{uniform[0, -1]:.0f}")
    CONSOLE.print(show)


def late(seeds: range) -> None:
    epsilons = (0.5, 1.0, 2.0, 4.0, 8.0)
    kinds = ("signs", "uniform")
    horizons = (10_000, 20_000, 40_000)
    found = run(grid(regret, seeds=seeds[:1], rounds=horizons, dim=(DIM,), contexts=kinds,
                     epsilon=epsilons, method=("windows",)))  # fmt: skip
    show = new_table(f"regret of the last fifth, as a fraction of uniform play's; d = {DIM:,}",
                     ("contexts", "T", *(f"epsilon = {e:g}" for e in epsilons)))  # fmt: skip
    for contexts in kinds:
        for T in horizons:
            setting = {"rounds": T, "dim": DIM, "contexts": contexts, "method": "windows"}
            left = [found.mean(regret, "late", epsilon=e, **setting)
                    / found.mean(regret, "uniform late", epsilon=e, **setting)
                    for e in epsilons]  # fmt: skip
            show.add_row(contexts, f"{T:,}", *(f"{each:.2f}" for each in left))
    CONSOLE.print(show)


def speed() -> None:
    T = 4000
    dim = DIM
    world = sparse_arms(ARMS, dim, nonzero=NONZERO, seed=0)
    X = world.contexts(1000, np.random.default_rng(0))
    show = new_table(f"decide and learn, d = {dim:,}, {ARMS} arms",
                     ("rounds a second", "memory, MB", "K d floats, MB"))  # fmt: skip
    tracemalloc.start()
    bandit = SparseBandit(ARMS, dim, T, 1.0, seed=0, noise=SeededNoise(0))
    for t in range(T):
        bandit.learn(bandit.decide(X[t % 1000]), 0.5)
    held = tracemalloc.get_traced_memory()[0] / 1e6
    tracemalloc.stop()
    bandit = SparseBandit(ARMS, dim, T, 1.0, seed=0, noise=SeededNoise(0))
    start = time.perf_counter()
    for t in range(T):
        bandit.learn(bandit.decide(X[t % 1000]), 0.5)
    rate = T / (time.perf_counter() - start)
    show.add_row(f"{rate:,.0f}", f"{held:.2f}", f"{ARMS * dim * 8 / 1e6:.2f}")
    CONSOLE.print(show)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", nargs="*", default=["curve", "paper", "late", "speed"])
    parser.add_argument("--seeds", type=int, default=4)
    asked = parser.parse_args()
    seeds = range(FIRST, FIRST + asked.seeds)
    for name in asked.what:
        {"curve": lambda: curve(seeds), "paper": lambda: paper(seeds),
         "late": lambda: late(seeds), "speed": speed}[name]()  # fmt: skip


if __name__ == "__main__":
    main()
