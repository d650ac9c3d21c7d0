"""Shuffled trust: reports hide in a batch, whose order a relay has thrown away.

A window is one batch, and everybody in it answers the same questions through the same channels with
the same epsilon_0, once. `privacy/shuffle.py` proves what that is worth.
"""

import math
from dataclasses import asdict, dataclass
from functools import lru_cache

from discreet.arrays import integer, positive, real
from discreet.state import register, value

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
            minimum_fraction=self.minimum,
            honest_fraction=self.honest,
        )


@dataclass(frozen=True)
class PlannedBatch:
    """What a public state says about the crowd that a report will hide in.

    size               planned reports
    minimum            fewer are not released
    honest             reports that the promise counts on
    epsilon            promised against everybody but the relay, for all reports of one person
    delta              of that promise
    local_epsilon      the most that a report may cost by itself, in any window
    minimum_fraction   `Crowd.minimum` as it was said: what a device holds later batches to. NaN: a
                       state that was stored earlier does not say it; the largest that is certain
    honest_fraction    `Crowd.honest` as it was said; NaN: the smallest that is certain

    >>> batch = Crowd(0.8, 0.5).batch(1, 1.0, 1e-6)
    >>> batch.honest, batch.honest_fraction
    (1, 0.5)
    """

    size: int
    minimum: int
    honest: int
    epsilon: float
    delta: float
    local_epsilon: float
    minimum_fraction: float = math.nan
    honest_fraction: float = math.nan

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
        self._check_fractions()

    def _check_fractions(self) -> None:
        """The numbers must be those of the fractions, up to rounding."""
        # One honest report may be the rounding of any fraction below 2 / size.
        certain = {
            "minimum_fraction": self.minimum / self.size,
            "honest_fraction": (self.honest if self.honest > 1 else 1 / LARGEST_BATCH) / self.size,
        }
        for name, least in certain.items():
            said = real(name, getattr(self, name))
            object.__setattr__(self, name, least if math.isnan(said) else said)
        if not 0 < self.honest_fraction <= self.minimum_fraction <= 1:
            raise ValueError("expected 0 < honest_fraction <= minimum_fraction <= 1")
        # A report may always count on itself.
        counted = max(1.0, self.honest_fraction * self.size * (1 + 1e-12))
        if not (
            self.honest <= counted
            and self.minimum >= self.minimum_fraction * self.size * (1 - 1e-12)
        ):
            raise ValueError("minimum and honest are not those of the stated fractions of the size")

    @property
    def off(self) -> bool:
        """Whether privacy is switched off."""
        return math.isinf(self.epsilon)

    @property
    def crowd(self) -> Crowd:
        """What batches of such a learner are counted on for, as it was said."""
        return Crowd(self.minimum_fraction, self.honest_fraction, self.local_epsilon)

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


# Not @value: states that were stored earlier lack the fractions.
register(PlannedBatch, asdict, lambda plain: PlannedBatch(**plain))


@lru_cache(maxsize=4096)
def _keeps(epsilon: float, delta: float, report_epsilon: float, honest: int, k: int) -> bool:
    from discreet.privacy.shuffle import batch_keeps_promise

    return batch_keeps_promise(epsilon, delta, report_epsilon, honest, reports=k)
