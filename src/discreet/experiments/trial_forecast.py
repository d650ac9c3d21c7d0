"""How many people an A/B test needs, with privacy and without, before anybody came."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import scipy

from discreet.arrays import integer, number_within
from discreet.evaluation.intervals import Interval
from discreet.evaluation.looks import Reader
from discreet.evaluation.totals import MOST, BatchTotals, RunningTotals
from discreet.experiments.sheet import Setting, Sheet, Tick
from discreet.privacy import Budget, SeededNoise

POINTS = 13  # of a curve
BESIDE = 3.0  # times as much privacy and a third of it, where a single budget is asked for


@dataclass(frozen=True)
class Trial:
    """An experiment to come: one arm's chance is baseline + lift, that of all others baseline.

    Forecast from the noise that `ABTest` would draw at its defaults and the spread of coins of
    these chances, at the last of so many looks. An infinite epsilon is without privacy.

    >>> trial = Trial(0.10, 0.02)
    >>> trial.people_needed(1.0) > trial.people_needed(float("inf")) > 10_000
    True
    """

    baseline: float  # chance without the change
    lift: float  # what the change adds to it
    arms: int = 2  # of equal size
    looks: int = 50  # at most
    power: float = 0.8  # chance that the difference is proved
    delta: float = 1e-6  # chance that epsilon may fail
    confidence: float = 0.95  # that all intervals hold

    trusts: ClassVar[tuple[str, ...]] = ("central",)
    axes: ClassVar[tuple[str, str]] = (
        "people in all arms", "half width of the interval of the difference"
    )  # fmt: skip

    def __post_init__(self) -> None:
        number_within("baseline", self.baseline, (0.0, 1.0))
        if not (0 <= self.baseline + self.lift <= 1 and self.lift):
            raise ValueError(
                "lift must not be 0, and baseline + lift must be a chance between 0 and 1"
            )
        if not 0 < self.power < 1:
            raise ValueError(f"power must lie between 0 and 1, got {self.power!r}")
        integer("arms", self.arms, least=2)
        integer("looks", self.looks)

    def interval(self, people: int, epsilon: float) -> Interval:
        """Of the lift, where so many in all arms together earn what is expected of them."""
        return self._seen(people // self.arms, epsilon)[0]

    def people_needed(self, epsilon: float) -> int | None:
        """In all arms together, to a hundredth; None: more than an experiment may have.

        The interval must be clear of 0 by what chance may take away.
        """
        low, high = 1, 64
        while not self._proves(high, epsilon):
            low, high = high, 2 * high
            if high * self.arms > MOST:
                return None
        while high - low > max(high // 100, 1):
            middle = (low + high) // 2
            low, high = (low, middle) if self._proves(middle, epsilon) else (middle, high)
        return self.arms * high

    def _proves(self, each: int, epsilon: float) -> bool:
        found, std = self._seen(each, epsilon)
        chances = (self.baseline, self.baseline + self.lift)
        spread = sum(each * p * (1 - p) + std * std for p in chances)
        slack = float(scipy.special.ndtri(self.power)) * math.sqrt(spread) / each
        return found.low > slack or found.high < -slack

    def _seen(self, each: int, epsilon: float) -> tuple[Interval, float]:
        """The interval with so many in each arm, and the noise in an arm's sum."""
        budget = Budget(epsilon, self.delta)
        chances = [self.baseline + self.lift] + [self.baseline] * (self.arms - 1)
        noise = SeededNoise(0)  # only its size counts
        if epsilon <= 1:
            reader = Reader(self.looks, 1 - self.confidence, self.arms)
            std = float(RunningTotals(1, budget, self.looks, noise)._sums.std(self.looks))
            reader.take([each] * self.arms, [each * p for p in chances], [std] * self.arms)
        else:
            reader = Reader(0, 1 - self.confidence, self.arms)
            std = BatchTotals(1, budget, noise).std
            for batches in (1, self.looks - 1):  # the first decides how bets are placed
                n = each / self.looks * batches
                stds = [math.sqrt(batches) * std] * self.arms
                reader.take([n] * self.arms, [n * p for p in chances], stds)
            std *= math.sqrt(self.looks)
        return reader.differences()[0, 1], std

    # -- as people read it -----------------------------------------------------------------------

    def work(self, settings: Sequence[Setting]) -> int:
        return len(settings)

    def answers(self, settings: Sequence[Setting], tick: Tick) -> "Sequence[Needed]":
        """The first setting is without privacy."""
        found: list[Needed] = []
        for _, epsilon in settings:
            people = self.people_needed(epsilon)
            half = None if people is None else self.interval(people, epsilon).half_width
            found.append(Needed(epsilon, people, found[0].people if found else people, half))
            tick(1)
        return found

    def sheet(self, answers: "Sequence[Needed]") -> Sheet:
        return Sheet(
            title=f"An experiment with {self.arms} arms: {self.baseline:.4g} against "
            f"{self.baseline + self.lift:.4g}",
            columns=("epsilon", "people needed", "price of privacy", "half width then"),
            rows=[each.row for each in answers],
            lines=[0],
            note=f"people needed: in all arms together, so that the difference is proved with "
            f"probability {self.power:g} by the last of {self.looks} looks. price of privacy: so "
            f"many times as many as without. half width then: of the interval of the difference "
            f"between two arms, in percentage points. Intervals hold at all looks together; "
            f"delta = {self.delta:g}.",
            caption="Half width of the interval against the number of people. Both axes are "
            "logarithmic.",
            question=vars(self),
            answers=[{**vars(each), "price": each.price} for each in answers],
        )

    def draw(self, axis: Any, trust: str, answers: "Sequence[Needed]", tick: Tick) -> None:
        """Width against people: without privacy, at the budgets, and beside a single one."""
        from discreet.experiments.figures import colour_of

        known = [each.people for each in answers if each.people is not None]
        middle = float(np.median(known)) if known else 1e5
        people = np.geomspace(middle / 30, 10 * middle, POINTS).astype(int)
        budgets = [each.epsilon for each in answers[1:]]
        if len(budgets) == 1:
            budgets = [budgets[0] / BESIDE, budgets[0], budgets[0] * BESIDE]
        for epsilon in (math.inf, *budgets):
            half = [self.interval(int(n), epsilon).half_width for n in people]
            name = "without privacy" if math.isinf(epsilon) else f"epsilon = {epsilon:.3g}"
            axis.plot(people, half, color=colour_of(epsilon), label=name)
        axis.axhline(abs(self.lift), color="grey", linewidth=0.6)


@dataclass(frozen=True)
class Needed:
    """One line of the table."""

    epsilon: float  # inf without privacy
    people: int | None  # in all arms together; None: more than an experiment may have
    plain: int | None  # without privacy
    half_width: float | None  # of the interval with so many people

    @property
    def price(self) -> float | None:
        """So many times as many people as without privacy."""
        return self.people / self.plain if self.people and self.plain else None

    @property
    def row(self) -> tuple[str, ...]:
        return (
            "without privacy" if math.isinf(self.epsilon) else f"{self.epsilon:g}",
            "too many" if self.people is None else f"{self.people:,}",
            "-" if self.price is None else f"{self.price:.2f}",
            "-" if self.half_width is None else f"{100 * self.half_width:.2f}",
        )
