"""What a bandit is worth: its mean reward against a hold-out, from released numbers only.

Every window releases how many rewards it had and their sum, of rounds under the policy and of
held-out rounds apart. Both are noisy; the noise is known. For k windows together and one group of
rounds, of n rewards in [low, high] with the sum S and c = (high - low)/2,

    |S - sum of E[y_i | what came before]|  <=  c sqrt((n + r) log((n + r)/(r a^2)))
    |released S - S|  <=  z std of its noise,     |released n - n|  <=  z std of its noise

with probability 1 - a each, z the normal quantile of 1 - a/2. The first (Robbins 1970, a mixture of
normal martingales) holds for all n at once: when rewards come, and whether they do, may depend on
those before. Its weight r is known before the first of these windows: MIXTURE of the decisions that
it will have in this group.

Only recent windows count, from the first on that is at least RECENT as long as the longest so far:
short ones add as much noise as long ones. Lengths follow from earlier releases, so all k starts of
the recent ones must be allowed for. There are three events for each of two groups: with
a = (1 - confidence) / (6 k^2 (k + 1)) all of them hold for all k and all starts together, and
intervals may be looked at after every window.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
import scipy

from discreet.arrays import integer
from discreet.state import value

CONFIDENCE = 0.95
RECENT = 0.25
EVENTS = 6  # three for each group of rounds
MIXTURE = 2 / 3  # the interval is the narrowest where r is n/12, and n is often 8 first windows


@value
@dataclass(frozen=True)
class Holdout:
    """A part of all rounds, chosen by chance, that plays a baseline.

    fraction   of rounds, between 0 and 1/2
    baseline   the place of an action, or "uniform"
    """

    fraction: float = 0.05
    baseline: int | str = "uniform"

    def __post_init__(self) -> None:
        if not 0 < float(self.fraction) <= 0.5:
            raise ValueError(f"fraction of a Holdout must lie in (0, 1/2], got {self.fraction!r}")
        if self.baseline != "uniform":
            if isinstance(self.baseline, str):
                raise ValueError("baseline must be the place of an action, or 'uniform'")
            integer("baseline", self.baseline, least=0)

    @property
    def actions(self) -> int:
        """How many must be offered."""
        return 1 if isinstance(self.baseline, str) else self.baseline + 1

    def holds(self, rounds: Any, key: int) -> Any:
        """Whether rounds are held out: by a hash of their number alone (splitmix64 under a key).

        >>> held = Holdout(0.05).holds(np.arange(100_000), key=7)
        >>> round(float(held.mean()), 2)
        0.05
        """
        with np.errstate(over="ignore"):
            z = np.asarray(rounds).astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
            z = z + np.uint64(key)
            for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
                z = (z ^ (z >> np.uint64(shift))) * np.uint64(factor)
            z = z ^ (z >> np.uint64(31))
        return (z >> np.uint64(11)) * 2.0**-53 < self.fraction

    def coins(self, held: Any, coins: Any) -> Any:
        """Uniform coins of the part that `Mixed(fraction, ...)` gives to the baseline, or not."""
        f = self.fraction
        low = np.minimum(coins * f, np.nextafter(f, 0.0))
        return np.where(held, low, f + coins * (1 - f))


@value
@dataclass(frozen=True)
class Totals:
    """Of one window or several, as released: rewards in the user's units."""

    rounds: int  # decisions
    count: float  # of rewards under the policy
    sum: float  # of these rewards
    held_count: float  # of rewards in held-out rounds
    held_sum: float  # of these
    variances: tuple[float, float, float, float]  # of the noise in these four

    def published(self) -> dict[str, float]:
        """Number and sum of all rewards."""
        return {"count": self.count + self.held_count, "sum": self.sum + self.held_sum}

    def plus(self, other: "Totals") -> "Totals":
        """Both together."""
        return Totals(
            self.rounds + other.rounds,
            self.count + other.count,
            self.sum + other.sum,
            self.held_count + other.held_count,
            self.held_sum + other.held_sum,
            tuple(a + b for a, b in zip(self.variances, other.variances, strict=True)),  # type: ignore[arg-type]
        )


@dataclass(frozen=True)
class Interval:
    """An estimate, and where the truth lies."""

    estimate: float  # the middle
    low: float  # end of the interval
    high: float  # the same, above

    def minus(self, other: "Interval") -> "Interval":
        """The difference."""
        return Interval(
            self.estimate - other.estimate, self.low - other.high, self.high - other.low
        )

    def __str__(self) -> str:
        return f"{self.estimate:.3g} ({self.low:.3g} to {self.high:.3g})"


@dataclass(frozen=True)
class Value:
    """What a bandit is worth after so many windows; all from released numbers.

    The intervals of all windows hold together, with probability `confidence`: for the mean, over
    recent rounds, of what a reward was expected to be. None: the number of rewards is hidden by its
    noise.
    """

    windows: int  # released so far
    rounds: int  # decisions of the recent ones
    mean: Interval | None  # of rewards under the policy
    holdout: Interval | None  # of rewards in held-out rounds
    uplift: Interval | None  # the difference
    confidence: float  # that all intervals hold

    def __str__(self) -> str:
        parts = [f"mean reward of the last {self.rounds:,} rounds {self.mean}"]
        if self.holdout is not None:
            parts.append(f"hold-out {self.holdout}, uplift {self.uplift}")
        return "; ".join(parts)


def values(
    windows: Sequence[Totals],
    reward_range: tuple[float, float],
    held_out: float,
    confidence: float,
) -> tuple[Value, ...]:
    """What was known about the worth after each window; `held_out` is the fraction of rounds."""
    if not 0 < confidence < 1:
        raise ValueError(f"confidence must lie between 0 and 1, got {confidence!r}")
    found: list[Value] = []
    for k in range(1, len(windows) + 1):
        longest = max(each.rounds for each in windows[:k])
        start = next(i for i in range(k) if windows[i].rounds >= RECENT * longest)
        so_far = reduce(Totals.plus, windows[start:k])
        a = (1 - confidence) / (EVENTS * k * k * (k + 1))
        r = MIXTURE * windows[start].rounds
        v = so_far.variances
        mean = _mean(so_far.count, so_far.sum, v[0], v[1], a, reward_range, (1 - held_out) * r)
        holdout = None
        if held_out:
            holdout = _mean(
                so_far.held_count, so_far.held_sum, v[2], v[3], a, reward_range, held_out * r
            )
        uplift = None if mean is None or holdout is None else mean.minus(holdout)
        found.append(Value(k, so_far.rounds, mean, holdout, uplift, confidence))
    return tuple(found)


def _mean(
    count: float,
    total: float,
    count_variance: float,
    sum_variance: float,
    a: float,
    reward_range: tuple[float, float],
    r: float,
) -> Interval | None:
    """The mean of rewards; None if there may have been no rewards at all. r as above."""
    low, high = reward_range
    z = -float(scipy.special.ndtri(a / 2))
    fewest = count - z * math.sqrt(count_variance)
    most = count + z * math.sqrt(count_variance)
    if fewest < 1:
        return None
    # Around the middle of the range, where an error of the count moves the mean least.
    middle = (low + high) / 2
    centred = total - middle * count
    error = z * math.sqrt(sum_variance) + abs(middle) * z * math.sqrt(count_variance)
    error += (high - low) / 2 * math.sqrt((most + r) * (math.log((most + r) / r) - 2 * math.log(a)))
    ends = [(centred + side) / n for side in (-error, error) for n in (fewest, most)]
    clipped = np.clip([centred / count, min(ends), max(ends)], low - middle, high - middle)
    estimate, least, largest = (middle + clipped).tolist()
    return Interval(estimate, least, largest)
