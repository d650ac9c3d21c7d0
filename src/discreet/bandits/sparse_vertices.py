"""The paper's own step for the arms of `SparseBandit` (Han et al. 2022, Algorithms 2 and 3)."""

from dataclasses import dataclass

import numpy as np

from discreet.arrays import Array
from discreet.links import Link
from discreet.optimization.directions import VertexDirection
from discreet.privacy import Budget, Guarantee
from discreet.privacy.noise import Noise
from discreet.state import Stateful, damaged, value


@value
@dataclass(frozen=True, eq=False, slots=True)
class Gradients:
    """The sum of the gradients that came for one step."""

    step: int  # which: the number of steps before it
    total: Array  # (dim,)


class VertexArm(Stateful):
    """One arm: theta moves by 1/(m+1) towards the vertex of its m-th step.

    direction   chooses the vertex, in private
    """

    _state = ("direction", "theta", "_before", "_steps", "_new")

    def __init__(self, direction: VertexDirection) -> None:
        self.direction = direction
        self.theta = np.zeros(direction.dim)
        self._before = np.zeros(direction.dim)
        self._steps = 0  # that theta has followed
        self._new = Gradients(0, np.zeros(direction.dim))

    def take(self, link: Link, bound: float, x: Array, reward: float) -> bool:
        """Add g = (m+1) grad f(theta_m; x) - m grad f(theta_{m-1}; x), entries within +-bound."""
        m = self.direction.rounds + 1
        if m > self.direction.horizon:
            return False
        at = np.array([x.dot(self.theta), x.dot(self._before)])
        now, before = link.mean(at) - reward
        slope = float((m + 1) * now - m * before)
        size = abs(slope) * float(np.abs(x).max())
        g = (slope * min(1.0, bound / size) if size else 0.0) * x
        self._new = Gradients(self.direction.rounds, self._gradient() + g)
        return True

    def advance(self, steps: int) -> None:
        """Make the steps that are due, as many as `steps` in all; again makes no more."""
        if self.direction.rounds < min(steps, self.direction.horizon):
            self.direction.add(self._gradient())
        m = self.direction.rounds
        if self._steps < m:  # it reads the chosen vertex alone
            theta = self.theta + (self.direction.point - self.theta) / (m + 1)
            self._commit(theta=theta, _before=self.theta, _steps=m)

    def _gradient(self) -> Array:
        """What has come since the last step."""
        if self._new.step == self.direction.rounds:
            return self._new.total
        return np.zeros(self.direction.dim)

    def _validate(self) -> None:
        new = self._new
        if not isinstance(new, Gradients) or np.shape(new.total) != self.theta.shape:
            raise damaged("new")
        if not 0 <= self.direction.rounds - self._steps <= 1:
            raise damaged("steps")


class VertexArms(Stateful):
    """The paper's step: every arm takes a Frank-Wolfe step in every round (Algorithms 2 and 3).

    g for the arm that was chosen, zero for the others; all arms then choose a vertex from their
    sums and move towards it. In the forced rounds of one arm the others stand still, so an arm
    makes n = T - (K-1) t_0 choices, epsilon_m = sqrt(8 rho/(m H_n)).

    n_arms    number of arms
    dim       number of features
    horizon   rounds in all
    budget    of one person
    forced    rounds in which each arm is played at first
    link      nu
    bound     of the entries of a step: longer ones are shortened
    radius    of the l1 ball that holds theta
    noise     where the noise comes from
    """

    _state = ("_each",)

    def __init__(
        self,
        n_arms: int,
        dim: int,
        horizon: int,
        budget: Budget,
        *,
        forced: int,
        link: Link,
        bound: float,
        radius: float,
        noise: Noise,
    ) -> None:
        self._link = link
        self.bound = bound
        self._forced = n_arms * forced
        n = horizon - (n_arms - 1) * forced
        # Each alone is calibrated for the replacement of a row that stays in its arm; a row that
        # changes arms moves two sums by half of that, at half the price together.
        directions = [
            VertexDirection(
                dim, n, budget, bound=bound, noise=own, radius=radius, signed=True, choices=n
            )
            for own in noise.spawn(n_arms)
        ]
        self._each = tuple(VertexArm(direction) for direction in directions)

    @property
    def theta(self) -> Array:  # (arms, dim)
        """The released parameters."""
        return np.array([arm.theta for arm in self._each])

    @property
    def learning(self) -> bool:
        """Whether some arm has steps to make."""
        return any(arm.direction.rounds < arm.direction.horizon for arm in self._each)

    @property
    def guarantee(self) -> Guarantee:
        """That of one arm: two arms together cost no more."""
        return self._each[0].direction.guarantee

    def take(self, arm: int, x: Array, reward: float) -> bool:
        """Add one row to the gradients of its arm."""
        return self._each[arm].take(self._link, self.bound, x, reward)

    def advance(self, t: int) -> None:
        """The end of round t: a step of the forced arm, or of all."""
        arms = len(self._each)
        in_turn = min(t, self._forced)
        for i, arm in enumerate(self._each):
            arm.advance((in_turn - i + arms - 1) // arms + t - in_turn)
