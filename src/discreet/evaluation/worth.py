"""What a bandit is worth: what a decision earns, against a hold-out, from released sums alone.

Every window releases the sum of what its decisions earned under the policy and, apart, in held-out
rounds; how many decisions each group has is public. A decision earns its reward, if that comes
before its window ends, and else the reward of the range that is closest to 0. The intervals are
those of an experiment with two arms (`looks.py`): they hold for all windows together.

A window counts from the first on whose held-out decisions speak above the noise: that is public
and known before the window opens. Means are over all decisions of the windows that count.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

from discreet.evaluation.intervals import Interval, confident
from discreet.evaluation.looks import TOP, Reader
from discreet.state import decode, encode, register

CONFIDENCE = 0.95
GROWTH = 0.5  # of the windows of a forecast, relative to the decisions before
MOST = 10**9  # decisions that are forecast


@dataclass(frozen=True)
class Totals:
    """Of one window, as released, in the user's units."""

    rounds: int  # decisions, public
    held: int  # of these in held-out rounds, public
    count: float  # of rewards, whenever their decisions were
    sum: float  # of rewards - zero of decisions under the policy
    held_sum: float  # the same of held-out decisions
    variances: tuple[float, float, float]  # of the noise in these three
    zero: float = 0.0  # the reward of the range that is closest to 0
    # Of e (low + high - 2 zero - e) with e = reward - zero: under the policy, and held out. The
    # noise is 1 / SPREAD of that in the sums. None where nothing of it was released: 0 would say
    # that every reward was `zero`.
    spreads: tuple[float, float] | None = None  # sums of e (low + high - 2 zero - e)

    def published(self) -> dict[str, float]:
        """Number and sum of all rewards."""
        return {"count": self.count, "sum": self.sum + self.held_sum + self.zero * self.count}

    @property
    def noise_stds(self) -> tuple[float, float]:
        count, total, held = self.variances
        return math.sqrt(count), math.sqrt(total + held + self.zero**2 * count)


def _decoded(plain: dict[str, Any]) -> Totals:
    """A stored window; version 0.3 wrote the same sums, and a noisy count of held-out rewards."""
    record = {name: decode(each) for name, each in plain.items()}
    if "held_count" in record:
        count, total, held_count, held_sum = record["variances"]
        if record.pop("held_count") or held_count or held_sum:
            raise ValueError("a hold-out of version 0.3 cannot go on")
        record |= {"held": 0, "variances": (count, total, 0.0)}
    return Totals(**record)


register(
    Totals,
    lambda each: {field.name: encode(getattr(each, field.name)) for field in fields(Totals)},
    _decoded,
)


@dataclass(frozen=True)
class Value:
    """What a bandit is worth after so many windows; all from released numbers.

    The intervals of all windows hold together, with probability `confidence`.
    """

    windows: int  # released so far
    rounds: int  # decisions of those that count
    mean: Interval | None  # what a decision under the policy earns; None: nothing counts yet
    holdout: Interval | None  # what a held-out decision earns; None without a hold-out
    uplift: Interval | None  # the difference
    confidence: float  # that all intervals hold
    proved: int | None = None  # decisions after which the uplift was proved to be above 0
    needed: int | None = None  # so many in all may prove it; None: proved, or out of sight

    def __str__(self) -> str:
        if self.mean is None:
            return "too few decisions to say what one earns"
        parts = [f"a decision earns {self.mean}, over {self.rounds:,} rounds"]
        if self.uplift is not None:
            parts.append(f"held out {self.holdout}, uplift {self.uplift}")
        if self.proved is not None:
            parts.append(f"proved after {self.proved:,} decisions")
        elif self.needed is not None:
            parts.append(f"may be proved after about {self.needed:,} decisions")
        return "; ".join(parts)


def values(
    windows: Sequence[Totals],
    reward_range: tuple[float, float],
    *,
    held_out: float = 0.0,
    horizon: int | None = None,
    confidence: float = CONFIDENCE,
) -> tuple[Value, ...]:
    """What was known about the worth after each window.

    `held_out` is the fraction of rounds; `horizon` is known beforehand, or None.
    """
    low, high = reward_range
    span = high - low
    reader = _reader(held_out, horizon, confidence)
    found: list[Value] = []
    decisions, proved = 0, None
    for k, each in enumerate(windows, start=1):
        reader.take(*_groups(each, reward_range, held_out))
        decisions += each.rounds
        if not reader.speaks:
            found.append(Value(k, 0, None, None, None, confidence))
            continue
        means = [interval.scaled(span, low) for interval in reader.shown]
        uplift = next((u.scaled(span) for u in reader.differences().values()), None)
        if proved is None and uplift is not None and uplift.low > 0:
            proved = decisions
        counted = int(sum(mean.count for mean in reader.means))
        holdout = means[1] if held_out else None
        found.append(Value(k, counted, means[0], holdout, uplift, confidence, proved))
    return tuple(found)


def needed(
    windows: Sequence[Totals],
    reward_range: tuple[float, float],
    *,
    held_out: float,
    horizon: int | None = None,
    confidence: float = CONFIDENCE,
) -> int | None:
    """After how many decisions the uplift may be proved, if all goes on as it is estimated.

    A forecast from released numbers, not a bound; None where it is out of sight.
    """
    reader = _reader(held_out, horizon, confidence)
    for each in windows:
        reader.take(*_groups(each, reward_range, held_out))
    if not (held_out and reader.speaks) or reader.means[0].estimate <= reader.means[1].estimate:
        return None
    stds = _groups(windows[-1], reward_range, held_out)[2]
    decisions = sum(each.rounds for each in windows)
    means = [each.estimate for each in reader.means]
    calm = [TOP * each.estimate for each in reader.spreads]
    while min(reader.p_values.values()) >= 1 - confidence:
        if decisions > MOST:
            return None
        size = max(GROWTH * decisions, 1.0)
        groups = [(1 - held_out) * size, held_out * size]
        sums, spreads = ([n * each for n, each in zip(groups, of, strict=True)]
                         for of in (means, calm))  # fmt: skip
        reader.take(groups, sums, stds, spreads)
        decisions += math.ceil(size)
    return decisions


def _reader(held_out: float, horizon: int | None, confidence: float) -> Reader:
    smallest = None if horizon is None else (held_out or 1.0) * horizon
    return Reader(0, 1 - confident(confidence), 2 if held_out else 1, smallest)


def _groups(
    window: Totals, reward_range: tuple[float, float], held_out: float
) -> tuple[list[float], ...]:
    """Of y, rewards scaled to [0, 1]: decisions, sums, stds of their noise, and sums of y (1 - y).

    Each of the policy, and of the hold-out.
    """
    low, high = reward_range
    span = high - low
    zero = (window.zero - low) / span
    sizes = [float(window.rounds - window.held), float(window.held)]
    totals = (window.sum, window.held_sum)
    sums = [s / span + n * zero for s, n in zip(totals, sizes, strict=True)]
    stds = [math.sqrt(variance) / span for variance in window.variances[1:]]
    calm = [0.0, 0.0]  # no more than it is
    if window.spreads is not None:
        known = zip(window.spreads, sizes, strict=True)
        calm = [s / span**2 + n * zero * (1 - zero) for s, n in known]
    groups = 2 if held_out else 1
    return sizes[:groups], sums[:groups], stds[:groups], calm[:groups]
