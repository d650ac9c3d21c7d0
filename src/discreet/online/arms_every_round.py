"""The paper's own step for the arms of `SparseBandit` (Han et al. 2022, Algorithms 2 and 3)."""

from typing import Any

import numpy as np

from discreet.links import Link
from discreet.online.directions import VertexDirection
from discreet.online.restore import array
from discreet.privacy import Budget, Guarantee
from discreet.privacy.checks import Array
from discreet.privacy.noise import Noise


class VertexArms:
    """The paper's step: every arm takes a Frank-Wolfe step in every round (Algorithms 2 and 3).

    g = (m+1) grad f(theta_m; x) - m grad f(theta_{m-1}; x) for the arm that was chosen, m its own
    number of steps, and zero for the others; all arms then choose a vertex from their sums and
    move by 1/(m+1) towards it. In the forced rounds of one arm the others stand still, so an arm
    makes n = T - (K-1) t_0 choices, epsilon_m = sqrt(8 rho/(m H_n)).
    """

    def __init__(
        self,
        n_arms: int,
        dim: int,
        horizon: int,
        budget: Budget,
        *,
        forced: int,
        link: Link,
        clip: float,
        radius: float,
        noise: Noise,
    ) -> None:
        self._link, self.clip, self._forced = link, clip, n_arms * forced
        n = horizon - (n_arms - 1) * forced
        # Each alone is calibrated for the replacement of a row that stays in its arm; a row that
        # changes arms moves two sums by half of that, at half the price together.
        self._directions = [
            VertexDirection(
                dim, n, budget, bound=clip, noise=own, radius=radius, signed=True, choices=n
            )
            for own in noise.spawn(n_arms)
        ]
        self.theta, self._before = np.zeros((n_arms, dim)), np.zeros((n_arms, dim))
        self._new = np.zeros((n_arms, dim))  # gradients that have come in this round

    @property
    def guarantee(self) -> Guarantee:
        """That of one arm: two arms together cost no more."""
        return self._directions[0].guarantee

    def take(self, arm: int, x: Array, reward: float) -> None:
        """Add one gradient; its entries are within +-clip."""
        m = self._directions[arm].rounds + 1
        if m > self._directions[arm].horizon:
            return
        at = np.array([x.dot(self.theta[arm]), x.dot(self._before[arm])])
        now, before = self._link.mean(at) - reward
        slope = float((m + 1) * now - m * before)
        size = abs(slope) * float(np.abs(x).max())
        self._new[arm] += (slope * min(1.0, self.clip / size) if size else 0.0) * x

    def advance(self, t: int) -> None:
        """The end of round t: a step of the forced arm, or of all."""
        arms = len(self.theta)
        for i in [(t - 1) % arms] if t <= self._forced else range(arms):
            step = self._directions[i]
            if step.rounds < step.horizon:
                v = step.add(self._new[i])
                self._before[i] = self.theta[i]
                self.theta[i] += (v - self.theta[i]) / (step.rounds + 1)
                self._new[i] = 0.0

    def state_dict(self) -> dict[str, Any]:
        """The exact sums, in the clear."""
        state: dict[str, Any] = {"theta": self.theta.copy(), "before": self._before.copy()}
        state["new"] = self._new.copy()
        for i, each in enumerate(self._directions):
            state |= {f"arm {i}.{name}": value for name, value in each.state_dict().items()}
        return state

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from `state_dict`."""
        for i, each in enumerate(self._directions):
            head = f"arm {i}."
            inner = {k.removeprefix(head): v for k, v in state.items() if k.startswith(head)}
            each.load_state_dict(inner)
        shape = self.theta.shape
        self.theta, self._before, self._new = (
            array(state, name, shape) for name in ("theta", "before", "new")
        )
