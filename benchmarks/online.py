"""Online linear optimisation under full information: FTRL and FTPL against themselves without
privacy. Prints tables of means and standard deviations over noise draws.

    python benchmarks/online.py [--draws 16] [--rounds 1000000] [--parts experts pure ...]

Losses are the same for every draw, so a deviation is that of the privacy noise (and of FTPL's own
perturbation) alone.
"""

import argparse
import math
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from discreet.domains import Domain, Simplex
from discreet.environments.losses import (
    NAMES,
    LeaderPunisher,
    expert_losses,
    regret,
)
from discreet.online import FTPL, FTRL
from discreet.privacy import SeededNoise

CONSOLE = Console(width=110)
N, EPSILON, DELTA = 10, 1.0, 1e-6


class CappedFTRL(FTRL):
    """The rate never above 1/(deviation of the noise): what FTRL does not do, and why."""

    def learning_rate(self, t: Any) -> Any:
        """The smaller of the two."""
        deviation = self.deviation(np.maximum(np.asarray(t) - 1, 1))
        return np.minimum(super().learning_rate(t), 1 / deviation)


def linear_regret(domain: Domain, L: np.ndarray, X: np.ndarray) -> float:
    """Against the best fixed point."""
    total = L.sum(axis=0)
    return float(np.einsum("ij,ij->", L, X) - total @ domain.linear_minimizer(total))


def draws(make: Callable[[int], Any], L: np.ndarray, count: int) -> np.ndarray:
    """The regret of `count` learners with different noise on the same losses."""
    learners = (make(seed) for seed in range(count))
    return np.array([linear_regret(one.domain, L, one.run(L)) for one in learners])


def shown(values: np.ndarray) -> str:
    return f"{values.mean():.0f} ± {values.std(ddof=1):.0f}"


def experts(count: int, T: int) -> None:
    """Five sequences, fixed and decreasing rate."""
    simplex = Simplex(N)
    for rate in ("fixed", "decreasing"):
        table = Table(title=f"FTRL, {N} experts, epsilon 1, delta 1e-6, T = {T:,}, {rate} rate")
        for column in ("losses", "no privacy", "private", "ratio ± error", "surcharge"):
            table.add_column(column, justify="right")
        ratios = []
        for name in NAMES:
            L = expert_losses(name, T, N, seed=0)
            plain = regret(L, FTRL(simplex, T, math.inf, rate=rate).run(L))
            private = draws(
                lambda s, rate=rate: FTRL(
                    simplex, T, EPSILON, DELTA, rate=rate, noise=SeededNoise(s)
                ),
                L,
                count,
            )
            ratios.append(private.mean() / plain)
            error = private.std(ddof=1) / math.sqrt(count) / plain
            table.add_row(
                name,
                f"{plain:.0f}",
                shown(private),
                f"{ratios[-1]:.3f} ± {error:.3f}",
                f"{private.mean() - plain:.0f}",
            )
        table.add_row("mean", "", "", f"{np.mean(ratios):.3f}", "")
        CONSOLE.print(table)


def pure(count: int, T: int) -> None:
    """The gap sequence with epsilon = 1, delta = 0, and the surcharge of the decreasing rate."""
    table = Table(title=f"Gap sequence, {N} experts, epsilon 1")
    for column in ("T", "rate", "delta", "no privacy", "private", "ratio", "surcharge", "capped"):
        table.add_column(column, justify="right")
    for rounds in (T // 10, T):
        L = expert_losses("gap", rounds, N, seed=0)
        for rate, delta in (("fixed", 0.0), ("decreasing", 0.0), ("decreasing", DELTA)):
            fixed = {"domain": Simplex(N), "horizon": rounds, "rate": rate, "delta": delta}
            plain = regret(L, FTRL(epsilon=math.inf, **fixed).run(L))
            private, capped = (
                draws(
                    lambda s, k=kind, f=fixed: k(epsilon=EPSILON, noise=SeededNoise(s), **f), L, n
                )
                for kind, n in ((FTRL, count), (CappedFTRL, min(count, 8)))
            )
            table.add_row(
                f"{rounds:,}", rate, f"{delta:g}", f"{plain:.0f}", shown(private),
                f"{private.mean() / plain:.2f}", f"{private.mean() - plain:.0f}", shown(capped),
            )  # fmt: skip
    CONSOLE.print(table)


def perturbed(count: int, T: int) -> None:
    """FTPL on the five sequences."""
    table = Table(title=f"FTPL, {N} experts, delta 1e-6")
    for column in ("losses", "T", "no privacy", "epsilon 1", "FTRL, epsilon 1"):
        table.add_column(column, justify="right")
    for rounds in (T // 10, T):
        for name in NAMES:
            L = expert_losses(name, rounds, N, seed=0)
            columns = [
                draws(
                    lambda s, k=kind, e=epsilon, r=rounds: k(
                        Simplex(N), r, e, DELTA, seed=s, noise=SeededNoise(s)
                    ),
                    L,
                    count if rounds < T else min(count, 8),
                )
                for kind, epsilon in ((FTPL, math.inf), (FTPL, EPSILON), (FTRL, EPSILON))
            ]
            table.add_row(name, f"{rounds:,}", *(shown(each) for each in columns))
    CONSOLE.print(table)


def adaptive(count: int, T: int) -> None:
    """An adversary that sees the decisions: no theorem for private learners, and it shows."""
    table = Table(title="Loss 1 for the expert with most weight, 0 for the others: regret")
    for column in ("learner", "1,000 rounds", "10,000 rounds"):
        table.add_column(column, justify="right")
    for name, kind, epsilon in (
        ("FTRL, no privacy", FTRL, math.inf),
        ("FTRL, epsilon 1", FTRL, EPSILON),
        ("capped FTRL, epsilon 1", CappedFTRL, EPSILON),
        ("FTPL, epsilon 1", FTPL, EPSILON),
    ):
        results = []
        for rounds in (1000, 10_000):
            values = []
            for seed in range(min(count, 3)):
                learner = kind(
                    Simplex(N), rounds, epsilon, DELTA, seed=seed, noise=SeededNoise(seed)
                )
                adversary, suffered, total = LeaderPunisher(N), 0.0, np.zeros(N)
                for _ in range(rounds):
                    decision = learner.decide()
                    loss = adversary.loss(decision)
                    learner.learn(loss)
                    suffered += float(decision @ loss)
                    total += loss
                values.append(suffered - total.min())
            results.append(shown(np.array(values)))
        table.add_row(name, *results)
    CONSOLE.print(table)


def speed(count: int, T: int) -> None:
    """A whole run, and one step; processor time, best of three."""
    table = Table(title=f"Speed, {N} experts, SeededNoise (processor time)")
    for column in ("learner", f"run of {T:,} rounds, s", "one step, microseconds"):
        table.add_column(column, justify="right")
    L = expert_losses("gap", T, N, seed=0)
    for name, kind, delta in (
        ("FTRL", FTRL, DELTA),
        ("FTRL, pure", FTRL, 0.0),
        ("FTPL", FTPL, DELTA),
    ):
        runs, steps = [], []
        for seed in range(3):
            learner = kind(Simplex(N), T, EPSILON, delta, seed=0, noise=SeededNoise(seed))
            start = time.process_time()
            learner.run(L)
            runs.append(time.process_time() - start)
            learner = kind(Simplex(N), T, EPSILON, delta, seed=0, noise=SeededNoise(seed))
            start = time.process_time()
            for loss in L[:10_000]:
                learner.decide()
                learner.learn(loss)
            steps.append((time.process_time() - start) / min(T, 10_000))
        table.add_row(name, f"{min(runs):.2f}", f"{1e6 * min(steps):.1f}")
    CONSOLE.print(table)


PARTS = {each.__name__: each for each in (experts, pure, perturbed, adaptive, speed)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=16)
    parser.add_argument("--rounds", type=int, default=10**6)
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    options = parser.parse_args()
    for part in options.parts:
        PARTS[part](options.draws, options.rounds)


if __name__ == "__main__":
    main()
