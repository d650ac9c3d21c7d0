"""How many people an experiment needs, with privacy and without, before anybody came."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import scipy

from discreet.arrays import integer, number_within
from discreet.evaluation.looks import Reader
from discreet.evaluation.totals import BatchTotals, RunningTotals
from discreet.privacy import Budget, SeededNoise

MOST = 2**26  # people


@dataclass(frozen=True)
class Needed:
    """People in all arms together; None: more than an experiment may have."""

    private: int | None  # with this promise
    plain: int | None  # without privacy, and as many looks

    @property
    def price(self) -> float | None:
        """So many times as many people."""
        if self.private is None or self.plain is None:
            return None
        return self.private / self.plain


def people_needed(
    baseline: float,
    lift: float,
    *,
    epsilon: float,
    delta: float = 1e-6,
    arms: int = 2,
    looks: int = 50,
    power: float = 0.8,
    confidence: float = 0.95,
) -> Needed:
    """To prove that one arm's chance is baseline + lift and another's baseline, by the last look.

    From the noise that `ABTest` would draw at its defaults and the spread of coins of these
    chances: the interval at the expected sums must be clear of 0 by what chance may take away.

    >>> found = people_needed(0.10, 0.02, epsilon=1.0)
    >>> found.private > found.plain > 10_000
    True
    """
    baseline = number_within("baseline", baseline, (0.0, 1.0))
    if not (0 <= baseline + lift <= 1 and lift):
        raise ValueError("lift must not be 0, and baseline + lift must be a chance between 0 and 1")
    if not 0 < power < 1:
        raise ValueError(f"power must lie between 0 and 1, got {power!r}")
    arms = integer("arms", arms, least=2)

    chances = [baseline] * (arms - 1) + [baseline + lift]
    proves = partial(_proves, chances=chances, looks=looks, power=power, alpha=1 - confidence)
    budgets = (Budget(epsilon, delta), Budget(math.inf, delta))
    return Needed(*(_least(partial(proves, budget=each), arms) for each in budgets))


def _proves(
    people: int, *, chances: list[float], budget: Budget, looks: int, power: float, alpha: float
) -> bool:
    """Whether so many in each arm are enough."""
    arms = len(chances)
    running = budget.epsilon <= 1
    batch = people / looks
    reader = Reader(looks if running else 0, alpha, arms)
    noise = SeededNoise(0)  # only its size counts
    if running:
        std = float(RunningTotals(1, budget, looks, noise)._sums.std(looks))
        reader.take([people] * arms, [people * p for p in chances], [std] * arms)
    else:
        std = BatchTotals(1, budget, noise).std
        for _ in range(looks):
            reader.take([batch] * arms, [batch * p for p in chances], [std] * arms)
        std *= math.sqrt(looks)
    found = reader.differences()[0, arms - 1]
    spread = sum(people * p * (1 - p) + std * std for p in (chances[0], chances[-1]))
    slack = float(scipy.special.ndtri(power)) * math.sqrt(spread) / people
    return found.low > slack or found.high < -slack


def _least(proves: Callable[[int], bool], arms: int) -> int | None:
    """The least number in all arms, to a hundredth."""
    low, high = 1, 64
    while not proves(high):
        low, high = high, 2 * high
        if high * arms > MOST:
            return None
    while high - low > max(high // 100, 1):
        middle = (low + high) // 2
        low, high = (low, middle) if proves(middle) else (middle, high)
    return arms * high
