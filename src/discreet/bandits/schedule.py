"""How long windows are, and what of the budget each has: public, by earlier releases alone."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from discreet.bandits.estimators import Estimator
from discreet.privacy import Ledger

FRACTION = 0.25  # of what is left of mu^2, for each window, where they share it without a horizon
RESERVE = 1e-3  # of what is left, that the last window up to a horizon leaves


@dataclass(frozen=True)
class Schedule:
    """Of the windows to come."""

    estimator: Estimator  # says how many decisions it wants
    horizon: int | None  # rounds that count; None: for ever
    shares: bool  # whether windows share the budget, or each has all of it

    @classmethod
    def of(
        cls, recipe: Callable[[float | None], Estimator], horizon: int | None, shares: bool
    ) -> "Schedule":
        """By the estimator whose windows fit the share of mu^2 that it is made for."""
        if not shares:
            return cls(recipe(None), horizon, shares)
        if horizon is None:
            return cls(recipe(FRACTION), horizon, shares)
        windows = 1  # the more windows, the noisier each, and the longer the first
        while True:
            found = cls(recipe(1 / windows), horizon, shares)
            if found.windows(found.estimator.prior) <= windows:
                return found
            windows += 1

    def size(self, belief: Any, rounds: int, opened: int) -> int:
        """How many decisions the next window wants."""
        return self._at_first(self.estimator.size_after(belief, rounds, opened), rounds)

    def _at_first(self, size: int, rounds: int) -> int:
        if rounds or self.horizon is None:
            return size
        return min(size, max(1, self.horizon // 3))  # some rounds must be left to profit

    def windows(self, belief: Any, rounds: int = 0, opened: int = 0) -> int:
        """How many are to come, up to the horizon."""
        assert self.horizon is not None
        count = 0
        while rounds < self.horizon:
            size = self.estimator.planned(belief, rounds, opened + count)
            rounds += self._at_first(size, rounds)
            count += 1
        return count

    def share(
        self, belief: Any, ledger: Ledger, rounds: int, opened: int, size: int
    ) -> float | None:
        """Of mu^2 for a window of this size; None, all of it, where windows are disjoint.

        What is left, by this window and those that follow it; without a horizon a fraction of what
        is left. Something always stays: a window that is dropped (`discard`) is opened again.
        """
        if not self.shares:
            return None
        left = 1 - ledger.spent()
        if self.horizon is None:
            return FRACTION * left
        windows = 1 + self.windows(belief, rounds + size, opened + 1)
        return min(1 / windows, 1 - RESERVE) * left
