"""Online linear optimisation under full information: FTRL and FTPL against themselves without
privacy. Prints tables of means and standard deviations over noise draws.

    python benchmarks/online.py [--draws 16] [--rounds 1000000] [--parts experts pure ...]

Losses are the same for every draw, so a deviation is that of the privacy noise (and of FTPL's own
perturbation) alone.
"""

import argparse
import math
import time
from functools import lru_cache
from typing import Any

import numpy as np
from kit import CONSOLE, new_table, run, with_std

from discreet.domains import Simplex
from discreet.environments.losses import NAMES, LeaderPunisher, expert_losses
from discreet.environments.losses import regret as expert_regret
from discreet.experiments.measure import grid
from discreet.experiments.statistics import standard_error
from discreet.online import FTPL, FTRL
from discreet.privacy import SeededNoise

N = 10
EPSILON = 1.0
DELTA = 1e-6


class CappedFTRL(FTRL):
    """The rate never above 1/(std of the noise): what FTRL does not do, and why."""

    def learning_rate(self, t: Any) -> Any:
        """The smaller of the two."""
        std = self.std(np.maximum(np.asarray(t) - 1, 1))
        return np.minimum(super().learning_rate(t), 1 / std)


LEARNERS = {"FTRL": FTRL, "FTPL": FTPL, "capped": CappedFTRL}


@lru_cache(maxsize=1)
def losses_of(name: str, rounds: int) -> np.ndarray:  # (rounds, N)
    return expert_losses(name, rounds, N, seed=0)


def learner_of(learner: str, rounds: int, epsilon: float, delta: float, rate: str, seed: int):
    extra = {} if learner == "FTPL" else {"rate": rate}
    noise = SeededNoise(seed)
    return LEARNERS[learner](Simplex(N), rounds, epsilon, delta, seed=seed, noise=noise, **extra)


def regret(
    *, learner: str, name: str, rounds: int, epsilon: float, delta: float, rate: str, seed: int
) -> dict[str, float]:
    """Against the best expert; the seed decides the noise, not the losses."""
    losses = losses_of(name, rounds)
    made = learner_of(learner, rounds, epsilon, delta, rate, seed)
    return {"value": expert_regret(losses, made.run(losses))}


def punished(
    *, learner: str, rounds: int, epsilon: float, delta: float, rate: str, seed: int
) -> dict[str, float]:
    """Regret against an adversary that answers every decision."""
    made = learner_of(learner, rounds, epsilon, delta, rate, seed)
    adversary = LeaderPunisher(N)
    suffered = 0.0
    total = np.zeros(N)
    for _ in range(rounds):
        decision = made.decide()
        loss = adversary.loss(decision)
        made.learn(loss)
        suffered += float(decision @ loss)
        total += loss
    return {"value": suffered - total.min()}


def experts(count: int, T: int) -> None:
    """Five sequences, fixed and decreasing rate."""
    rates = ("fixed", "decreasing")
    common = {"learner": ("FTRL",), "name": NAMES, "rounds": (T,), "rate": rates}
    found = run([
        *grid(regret, seeds=range(1), epsilon=(math.inf,), delta=(0.0,), **common),
        *grid(regret, seeds=range(count), epsilon=(EPSILON,), delta=(DELTA,), **common),
    ])  # fmt: skip
    for rate in rates:
        table = new_table(
            f"FTRL, {N} experts, epsilon 1, delta 1e-6, T = {T:,}, {rate} rate",
            ("losses", "no privacy", "private", "ratio ± error", "surcharge"),
        )
        ratios = []
        for name in NAMES:
            setting = {"learner": "FTRL", "name": name, "rounds": T, "rate": rate}
            plain = found.mean(regret, epsilon=math.inf, delta=0.0, **setting)
            private = found.over(regret, epsilon=EPSILON, delta=DELTA, **setting)
            ratios.append(private.mean() / plain)
            table.add_row(
                name,
                f"{plain:.0f}",
                with_std(private),
                f"{ratios[-1]:.3f} ± {standard_error(private) / plain:.3f}",
                f"{private.mean() - plain:.0f}",
            )
        table.add_row("mean", "", "", f"{np.mean(ratios):.3f}", "")
        CONSOLE.print(table)


def pure(count: int, T: int) -> None:
    """The gap sequence with epsilon = 1, delta = 0, and the surcharge of the decreasing rate."""
    choices = (("fixed", 0.0), ("decreasing", 0.0), ("decreasing", DELTA))
    cases = [(rounds, rate, delta) for rounds in (T // 10, T) for rate, delta in choices]
    kinds = (("FTRL", math.inf, 1), ("FTRL", EPSILON, count), ("capped", EPSILON, min(count, 8)))
    found = run([
        cell for rounds, rate, delta in cases for learner, epsilon, draws in kinds
        for cell in grid(regret, seeds=range(draws), learner=(learner,), name=("gap",),
                         rounds=(rounds,), epsilon=(epsilon,), delta=(delta,), rate=(rate,))
    ])  # fmt: skip
    table = new_table(
        f"Gap sequence, {N} experts, epsilon 1",
        ("T", "rate", "delta", "no privacy", "private", "ratio", "surcharge", "capped"),
    )
    for rounds, rate, delta in cases:
        plain, private, capped = (
            found.over(regret, learner=learner, name="gap", rounds=rounds, epsilon=epsilon,
                       delta=delta, rate=rate)
            for learner, epsilon, _ in kinds
        )  # fmt: skip
        table.add_row(
            f"{rounds:,}", rate, f"{delta:g}", f"{plain.mean():.0f}", with_std(private),
            f"{private.mean() / plain.mean():.2f}", f"{private.mean() - plain.mean():.0f}",
            with_std(capped),
        )  # fmt: skip
    CONSOLE.print(table)


def perturbed(count: int, T: int) -> None:
    """FTPL on the five sequences."""
    kinds = (("FTPL", math.inf), ("FTPL", EPSILON), ("FTRL", EPSILON))
    draws = {T // 10: count, T: min(count, 8)}
    found = run([
        cell for rounds, many in draws.items() for learner, epsilon in kinds
        for cell in grid(regret, seeds=range(many), learner=(learner,), name=NAMES,
                         rounds=(rounds,), epsilon=(epsilon,), delta=(DELTA,),
                         rate=("decreasing",))
    ])  # fmt: skip
    table = new_table(f"FTPL, {N} experts, delta 1e-6",
                      ("losses", "T", "no privacy", "epsilon 1", "FTRL, epsilon 1"))  # fmt: skip
    for rounds in draws:
        for name in NAMES:
            columns = (
                found.over(regret, learner=learner, name=name, rounds=rounds, epsilon=epsilon,
                           delta=DELTA, rate="decreasing")
                for learner, epsilon in kinds
            )  # fmt: skip
            table.add_row(name, f"{rounds:,}", *map(with_std, columns))
    CONSOLE.print(table)


def adaptive(count: int, T: int) -> None:
    """An adversary that sees the decisions: no theorem for private learners, and it shows."""
    kinds = {
        "FTRL, no privacy": ("FTRL", math.inf),
        "FTRL, epsilon 1": ("FTRL", EPSILON),
        "capped FTRL, epsilon 1": ("capped", EPSILON),
        "FTPL, epsilon 1": ("FTPL", EPSILON),
    }
    horizons = (1000, 10_000)
    found = run([
        cell for learner, epsilon in kinds.values()
        for cell in grid(punished, seeds=range(min(count, 3)), learner=(learner,), rounds=horizons,
                         epsilon=(epsilon,), delta=(DELTA,), rate=("decreasing",))
    ])  # fmt: skip
    table = new_table("Loss 1 for the expert with most weight, 0 for the others: regret",
                      ("learner", *(f"{rounds:,} rounds" for rounds in horizons)))  # fmt: skip
    for name, (learner, epsilon) in kinds.items():
        columns = (found.over(punished, learner=learner, rounds=rounds, epsilon=epsilon,
                              delta=DELTA, rate="decreasing") for rounds in horizons)  # fmt: skip
        table.add_row(name, *map(with_std, columns))
    CONSOLE.print(table)


def speed(count: int, T: int) -> None:
    """A whole run, and one step; processor time, best of three."""
    table = new_table(f"Speed, {N} experts, SeededNoise (processor time)",
                      ("learner", f"run of {T:,} rounds, s", "one step, microseconds"))  # fmt: skip
    L = expert_losses("gap", T, N, seed=0)
    for name, kind, delta in (
        ("FTRL", FTRL, DELTA),
        ("FTRL, pure", FTRL, 0.0),
        ("FTPL", FTPL, DELTA),
    ):
        runs = []
        steps = []
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
