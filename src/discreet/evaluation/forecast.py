"""How many people an experiment needs, with privacy and without, before anybody came."""

import math
from dataclasses import dataclass

import scipy

from discreet.arrays import integer, number_within
from discreet.evaluation.intervals import Interval
from discreet.evaluation.looks import Reader
from discreet.evaluation.totals import BatchTotals, RunningTotals
from discreet.privacy import Budget, SeededNoise

MOST = 2**26  # people


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
