"""Gradient steps as an estimator: one pass, and the noisy average is released at the end.

After Chen, Li, Rakhlin, Simchi-Levi (2025), Algorithm 16.
"""

import math
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from discreet.arrays import Array
from discreet.bandits.belief import Point
from discreet.bandits.estimators import Estimator, EstimatorWindow, scope
from discreet.bandits.policies import Stage
from discreet.decisions import Policy
from discreet.privacy import Budget
from discreet.privacy.accumulator import NoisySum
from discreet.privacy.noise import Noise
from discreet.privacy.release import Release
from discreet.state import damaged


@dataclass(frozen=True)
class Descent(Estimator):
    """One pass of projected gradient steps, averaged (Algorithm 16): the dimension does not matter.

    Noise of standard deviation s in every coordinate moves <phi, theta> by s |phi|, however many
    there are.
    """

    dim: int  # number of features
    budget: Budget  # of one person
    limits: tuple[float, float]  # of rewards, in units of the largest
    share: float | None = None  # of mu^2, about, that each window has; None: all

    @property
    def first(self) -> int:  # type: ignore[override]
        """Enough rounds for noise to be smaller than 1."""
        return max(64, math.ceil(16 * self.budget.contributions / self.mu(self.share)))

    @property
    def prior(self) -> Point:
        """theta = 0."""
        return Point(np.zeros(self.dim), 1.0)

    def open(
        self, belief: Point, size: int, noise: Noise, share: float | None = None
    ) -> "DescentWindow":
        """A window that begins at what is known, with the noise of its release."""
        start = belief.mean / max(float(np.linalg.norm(belief.mean)), 1.0)
        total = NoisySum(
            self.dim,
            sensitivity=self.sensitivity(size, share),
            mu=self.mu(share),
            noise=noise,
            what="averaged iterate",
            scope=scope(belief, share),
            contributions=self.budget.contributions,  # in as many windows is the average rounded
        )
        return DescentWindow(size, start, share, total)

    def policy(self, name: str, stage: Stage) -> Policy:
        """SquareCB: there are no confidence widths."""
        return super().policy("squarecb", stage)

    def step(self, size: int, share: float | None = None) -> float:
        """Bias 1/sqrt(step n) against noise step/mu, and no more than the gradients' own noise."""
        mu = self.mu(share) / self.budget.contributions
        rho = self.limits[1] - self.limits[0]
        private = float((mu / (2 * rho * math.sqrt(size))) ** (2 / 3))
        return min(1 / math.sqrt(size), private, 1.0)

    def sensitivity(self, size: int, share: float | None = None) -> float:
        """How far one person's row can move the average, and those of all windows together.

        Let rho = high - low. Expected and observed rewards lie in [low, high], so that a step moves
        by at most step rho |phi| <= step rho. Steps are not expansive (the loss is 1-smooth, step
        <= 1; projecting is not either).
        - Replaced, or moved to another place of the same window: iterates of the same place differ
          by at most 2 step rho; if rows i+1..j move up by one place, by m = j - i of them, the
          places i..j-1 differ in sum by (m - 1) step rho + (m + 1) step rho = 2 m step rho.
        - Gone: iterate k+1 with it and iterate k without it differ by at most step rho. So the sums
          differ by (size - 1) step rho and by two iterates that are left over, both in the unit
          ball: the average moves by less than step rho + 2 / size. The row may enter another window
          at the same price there: sqrt(2) of it for both, since squares add up.
        """
        low, high = self.limits
        rho = high - low
        step = self.step(size, share)
        move = max(2 * rho, math.sqrt(2) * (rho + 2 / (size * step)))
        return self.budget.contributions * step * move


class DescentWindow(EstimatorWindow):
    """Iterates theta_i, and the average of `size` of them; the last one stands for rows to come.

    Row i moves the average by (size - i + 1) / size times its step: one beyond the window's length
    has no weight, so that it cannot move what is released.

    size    decisions of the window
    start   the first iterate
    share   of mu^2 that the release spends; None: all
    total   the noise of the release, to which the average is added
    """

    _state: ClassVar[tuple[str, ...]] = ("size", "theta", "average", "taken", "share", "total")
    step: float
    limits: tuple[float, float]

    def __init__(self, size: int, start: Array, share: float | None, total: NoisySum) -> None:
        self.size = size
        self.theta = start.copy()
        self.average = start.copy()
        self.taken = 0  # rows
        self.share = share
        self.total = total

    @property
    def opening(self) -> tuple[Release, ...]:
        """The average to come, whose noise is drawn."""
        return (self.total.release,)

    @property
    def released(self) -> bool:
        """Whether the average is out."""
        return self.total._published

    def attach(self, estimator: Any, noise: Noise) -> Self:
        """What bounds a row's influence comes from the learner's arguments, never from a state."""
        self.step = estimator.step(self.size, self.share)
        self.limits = estimator.limits
        calibrated = (estimator.sensitivity(self.size, self.share), estimator.mu(self.share))
        if (self.total.sensitivity, self.total.mu) != calibrated:
            raise damaged("the noise of the open window")
        return super().attach(estimator, noise)

    def fold(self, rows: Array, rewards: Array, held: Any = None, late: Any = None) -> None:
        """A step for each row, up to the length of the window."""
        with self._live:
            self._fold(rows, rewards)

    def _fold(self, rows: Array, rewards: Array) -> None:
        theta, average = self.theta.copy(), self.average.copy()
        low, high = self.limits
        room = self.size - self.taken
        for i, (phi, y) in enumerate(zip(rows[:room], rewards[:room], strict=True)):
            expected = min(max(float(phi @ theta), low), high)
            moved = theta + (self.step * (y - expected)) * phi
            moved /= max(math.sqrt(moved @ moved), 1.0)
            average += (max(room - i, 0) / self.size) * (moved - theta)
            theta = moved
        taken = min(self.taken + len(rows), self.size)
        self._commit(theta=theta, average=average, taken=taken)

    def close(self, belief: Point) -> tuple[Point, None]:
        """Release the average, with the noise that the window has had from the start."""
        released = self.total.publish(self.average)
        error = math.sqrt(self.total.release.scale**2 + 1 / (self.step * self.size))
        return Point(released, min(error, 1.0), belief.windows + 1), None
