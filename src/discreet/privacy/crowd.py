"""Shuffled trust: reports hide in a batch, whose order a relay has thrown away.

A window is one batch, and everybody in it answers the same questions through the same channels with
the same epsilon_0, once. `privacy/shuffle.py` proves what that is worth.
"""

import math
from dataclasses import dataclass
from functools import lru_cache

from discreet.arrays import integer, positive, real
from discreet.state import value

LARGEST_BATCH = 10**9  # reports


@value
@dataclass(frozen=True)
class Crowd:
    """What the batches of a learner are counted on for.

    minimum         of the planned reports of a batch; one with fewer is not released
    honest          of the planned reports: so many arrive that are drawn as they should be. The
                    promise counts on these alone, and nobody can check it
    local_epsilon   the most that a report costs by itself, against the relay and the server
                    together, however large a batch is

    >>> batch = Crowd().batch(20_000, 1.0, 1e-6)
    >>> batch.minimum, batch.honest, round(batch.report_epsilon(1), 2)
    (16000, 10000, 5.47)
    """

    minimum: float = 0.8
    honest: float = 0.5
    local_epsilon: float = 8.0

    def __post_init__(self) -> None:
        for name in ("minimum", "honest"):
            object.__setattr__(self, name, float(real(name, getattr(self, name))))
        object.__setattr__(self, "local_epsilon", positive("local_epsilon", self.local_epsilon))
        if not 0 < self.honest <= self.minimum <= 1:
            raise ValueError("expected 0 < honest <= minimum <= 1, fractions of a batch")
        if not self.local_epsilon <= 25:
            raise ValueError("local_epsilon must be at most 25: beyond, a report hides nothing")

    def batch(self, size: int, epsilon: float, delta: float) -> "PlannedBatch":
        """A batch of this planned size, whose people are promised (epsilon, delta)."""
        size = integer("size", size)
        return PlannedBatch(
            size=size,
            minimum=math.ceil(self.minimum * size),
            honest=max(1, math.floor(self.honest * size)),
            epsilon=epsilon,
            delta=delta,
            local_epsilon=self.local_epsilon,
        )


@value
@dataclass(frozen=True)
class PlannedBatch:
    """What a public state says about the crowd that a report will hide in.

    size            planned reports
    minimum         fewer are not released
    honest          reports that the promise counts on
    epsilon         promised against everybody but the relay, for all reports of one person
    delta           of that promise
    local_epsilon   the most that a report may cost by itself, in any window
    """

    size: int
    minimum: int
    honest: int
    epsilon: float
    delta: float
    local_epsilon: float

    def __post_init__(self) -> None:
        for name in ("size", "minimum", "honest"):
            object.__setattr__(self, name, integer(name, getattr(self, name)))
        object.__setattr__(self, "epsilon", positive("epsilon", self.epsilon, allow_inf=True))
        object.__setattr__(self, "local_epsilon", positive("local_epsilon", self.local_epsilon))
        object.__setattr__(self, "delta", real("delta", self.delta))
        if not self.honest <= self.minimum <= self.size <= LARGEST_BATCH:
            raise ValueError(
                f"expected honest <= minimum <= size <= {LARGEST_BATCH}: numbers of reports"
            )
        if not 0 < self.delta < 1:  # False for NaN
            raise ValueError("delta must lie strictly between 0 and 1 under shuffled trust")
        if not self.local_epsilon <= 25:
            raise ValueError("local_epsilon must be at most 25")

    @property
    def off(self) -> bool:
        """Whether privacy is switched off."""
        return math.isinf(self.epsilon)

    @property
    def crowd(self) -> Crowd:
        """What batches of such a learner are counted on for, from this one."""
        return Crowd(self.minimum / self.size, self.honest / self.size, self.local_epsilon)

    @property
    def honest_fraction(self) -> float:
        """The most of a planned batch that a crowd with this batch counts on: numbers are rounded.

        >>> Crowd(0.8, 0.5).batch(101, 1.0, 1e-6).honest_fraction == 51 / 101
        True
        """
        return min(1.0, (self.honest + 1) / self.size)

    @property
    def minimum_fraction(self) -> float:
        """The least of a planned batch that a crowd with this batch releases."""
        return (self.minimum - 1) / self.size

    def report_epsilon(self, contributions: int) -> float:
        """The epsilon_0 of each report: the largest that keeps the promise."""
        if self.off:
            return math.inf
        from discreet.privacy.shuffle import batch_local_epsilon  # slow to import: scipy.stats

        return batch_local_epsilon(
            self.epsilon,
            self.delta,
            self.honest,
            reports=contributions,
            most=self.local_epsilon,
        )

    def keeps_promise(self, report_epsilon: float, contributions: int) -> bool:
        """Whether reports of this epsilon_0 cost no more than is promised: computed, not believed.

        >>> batch = Crowd().batch(20_000, 1.0, 1e-6)
        >>> batch.keeps_promise(5.4, 1), batch.keeps_promise(5.5, 1)
        (True, False)
        """
        if self.off:
            return True
        return report_epsilon <= self.local_epsilon and _keeps(
            self.epsilon, self.delta, report_epsilon, self.honest, contributions
        )


@lru_cache(maxsize=4096)
def _keeps(epsilon: float, delta: float, report_epsilon: float, honest: int, k: int) -> bool:
    from discreet.privacy.shuffle import batch_keeps_promise

    return batch_keeps_promise(epsilon, delta, report_epsilon, honest, reports=k)
