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

from discreet.domains import Cube, Simplex
from discreet.environments.losses import NAMES, expert_losses
from discreet.environments.losses import regret as expert_regret
from discreet.experiments.measure import grid
from discreet.experiments.statistics import standard_error
from discreet.online import FTPL, FTRL
from discreet.privacy import PrefixSum, SeededNoise
from papers.linear_losses import LeaderPunisher, linear_losses

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
    extra = {"seed": seed} if learner == "FTPL" else {"rate": rate}
    noise = SeededNoise(seed)
    return LEARNERS[learner](Simplex(N), rounds, epsilon, delta, noise=noise, **extra)


def regret(
    *, learner: str, name: str, rounds: int, epsilon: float, delta: float, rate: str, seed: int
) -> dict[str, float]:
    """Against the best expert; the seed decides the noise, not the losses."""
    losses = losses_of(name, rounds)
    made = learner_of(learner, rounds, epsilon, delta, rate, seed)
    return {"value": expert_regret(losses, made.run(losses))}


def punished(
    *, learner: str, rounds: int, epsilon: float, delta: float, rate: str, late: bool, seed: int
) -> dict[str, float]:
    """Regret against an adversary that answers every decision, or (late) the one before it."""
    made = learner_of(learner, rounds, epsilon, delta, rate, seed)
    adversary = LeaderPunisher(N)
    suffered = 0.0
    total = np.zeros(N)
    before = np.full(N, 1 / N)
    for _ in range(rounds):
        decision = made.decide()
        loss = adversary.loss(before if late else decision)
        before = decision
        made.learn(loss)
        suffered += float(decision @ loss)
        total += loss
    return {"value": suffered - total.min()}


@lru_cache(maxsize=1)
def cube_losses(rounds: int) -> np.ndarray:  # (rounds, 100)
    return linear_losses("l1", rounds, 100, drift=0.5, seed=0)


class SeldomFTRL(FTRL):
    """Decides by the last private sum of a multiple of `batch` rounds, with their smaller noise.

    Simulated: noise of so many fewer releases on the sums, which is what such a learner would have.
    """

    batch = 1

    def run(self, losses: np.ndarray) -> np.ndarray:
        """Decisions of all rounds."""
        T, n = losses.shape
        count = T // self.batch
        sums = PrefixSum(count, n, self.budget, sensitivity=2.0, bound=float(T), noise=self.noise)
        totals = sums.add_many(losses[: count * self.batch].reshape(count, -1, n).sum(axis=1))
        known = np.vstack([np.zeros((1, n)), totals])
        place = np.arange(T) // self.batch
        return self._leader(known[place], 1 + np.arange(T)[:, None])


def on_cube(*, rounds: int, epsilon: float, batch: int, seed: int) -> dict[str, float]:
    """Regret of FTRL on the cube, 100 coordinates; a release every `batch` rounds."""
    losses = cube_losses(rounds)
    kind = SeldomFTRL if batch > 1 else FTRL
    made = kind(Cube(100), rounds, epsilon, DELTA, noise=SeededNoise(seed))
    made.batch = batch
    total = losses.sum(axis=0)
    suffered = np.einsum("ij,ij->", losses, made.run(losses))
    return {"value": float(suffered - total @ made.domain.linear_minimizer(total))}


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
    """An adversary that sees the decisions; what a rate that bears it costs on easy losses."""
    kinds = {
        "FTRL, no privacy": ("FTRL", math.inf, "decreasing"),
        "FTRL, epsilon 1": ("FTRL", EPSILON, "decreasing"),
        "FTRL, robust, epsilon 1": ("FTRL", EPSILON, "robust"),
        "capped FTRL, epsilon 1": ("capped", EPSILON, "decreasing"),
        "FTPL, epsilon 1": ("FTPL", EPSILON, "decreasing"),
    }
    horizons = (1000, 10_000)
    few = range(min(count, 3))
    found = run([
        *(cell for learner, epsilon, rate in kinds.values()
          for cell in grid(punished, seeds=few, learner=(learner,), rounds=horizons,
                           epsilon=(epsilon,), delta=(DELTA,), rate=(rate,), late=(False, True))),
        *(cell for learner, epsilon, rate in kinds.values()
          for cell in grid(regret, seeds=few, learner=(learner,), name=("gap",),
                           rounds=horizons[-1:], epsilon=(epsilon,), delta=(DELTA,),
                           rate=(rate,))),
    ])  # fmt: skip
    table = new_table(
        "Loss 1 for the expert with most weight, 0 for the others: regret",
        ("learner", *(f"{rounds:,} rounds" for rounds in horizons),
         f"of the decision before, {horizons[-1]:,}", f"gap sequence, {horizons[-1]:,}"),
    )  # fmt: skip
    for name, (learner, epsilon, rate) in kinds.items():
        place = {"learner": learner, "epsilon": epsilon, "delta": DELTA, "rate": rate}
        seen = [found.over(punished, rounds=rounds, late=False, **place) for rounds in horizons]
        late = found.over(punished, rounds=horizons[-1], late=True, **place)
        easy = found.over(regret, name="gap", rounds=horizons[-1], **place)
        table.add_row(name, *map(with_std, (*seen, late, easy)))
    CONSOLE.print(table)


def flat(count: int, T: int) -> None:
    """The cube, 100 coordinates: when the private surcharge is flat, and at what noise."""
    sizes = (10**4, 3 * 10**4, 10**5, 3 * 10**5)
    few = range(min(count, 4))
    found = run([
        *grid(on_cube, seeds=range(1), rounds=sizes, epsilon=(math.inf,), batch=(1,)),
        *grid(on_cube, seeds=few, rounds=sizes, epsilon=(EPSILON, 10.0), batch=(1,)),
        *grid(on_cube, seeds=few, rounds=sizes, epsilon=(EPSILON,), batch=(100,)),
    ])  # fmt: skip
    table = new_table(f"cube, N = 100, drift, delta 1e-6: surcharge, {len(few)} draws",
                      ("learner", *(f"T = {size:,}" for size in sizes)))  # fmt: skip
    for name, epsilon, batch in (
        ("epsilon 1", EPSILON, 1),
        ("epsilon 1, a release each 100 rounds", EPSILON, 100),
        ("epsilon 10", 10.0, 1),
    ):
        extra = [
            found.mean(on_cube, rounds=size, epsilon=epsilon, batch=batch)
            - found.mean(on_cube, rounds=size, epsilon=math.inf, batch=1)
            for size in sizes
        ]
        table.add_row(name, *(f"{each:,.0f}" for each in extra))
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
            learner = kind(Simplex(N), T, EPSILON, delta, noise=SeededNoise(seed))
            start = time.process_time()
            learner.run(L)
            runs.append(time.process_time() - start)
            learner = kind(Simplex(N), T, EPSILON, delta, noise=SeededNoise(seed))
            start = time.process_time()
            for loss in L[:10_000]:
                learner.decide()
                learner.learn(loss)
            steps.append((time.process_time() - start) / min(T, 10_000))
        table.add_row(name, f"{min(runs):.2f}", f"{1e6 * min(steps):.1f}")
    CONSOLE.print(table)


PARTS = {each.__name__: each for each in (experts, pure, perturbed, adaptive, flat, speed)}


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
