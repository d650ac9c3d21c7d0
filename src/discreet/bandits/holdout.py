"""The hold-out: rounds that play a baseline, so that a bandit can tell what it is worth.

Which rounds are held out follows from their numbers: it is public, whatever anybody does.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from discreet.arrays import integer
from discreet.state import value

BLOCK = 2**20  # rounds that are counted together


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

    def count(self, first: int, end: int, key: int) -> int:
        """How many rounds from `first` up to `end` are held out; there may be very many.

        >>> Holdout(0.05).count(0, 100_000, key=7)
        4981
        """
        starts = range(first, end, BLOCK)
        parts = (np.arange(start, min(start + BLOCK, end)) for start in starts)
        return sum(int(self.holds(part, key).sum()) for part in parts)

    def coins(self, held: Any, coins: Any) -> Any:
        """Uniform coins of the part that `Mixed(fraction, ...)` gives to the baseline, or not."""
        f = self.fraction
        low = np.minimum(coins * f, np.nextafter(f, 0.0))
        return np.where(held, low, f + coins * (1 - f))
