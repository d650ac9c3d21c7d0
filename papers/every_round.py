"""Han et al. (2022), Algorithm 3 as printed: every arm chooses a vertex in every round.

    paper   K        t_0             h_sub   zeta   theta_{t_0,i}   theta_{t,i}   v_{t,i}
    here    n_arms   forced_rounds   gap     link   self._first     self.theta    `VertexDirection`

    lines 3-10   the arms in turn, t_0 times each: a schedule that no context enters
    line 13      arms whose forced-sample estimate is within h/2 of the best
    line 14      the greedy one among them
    lines 16-17  a step of Algorithm 2 for every arm: the row for the chosen one, zeros for others

`discreet.bandits.SparseBandit` is ours. The noise here is calibrated exactly, not as printed.
"""

import math

import numpy as np
from numpy.typing import ArrayLike

from discreet.arrays import Array, finite, number_within, positive
from discreet.bandits import SparseBandit
from discreet.decisions import Decision
from discreet.optimization.directions import VertexDirection
from discreet.privacy import Guarantee
from discreet.privacy.noise import Noise, source


class EveryRound:
    """One of K arms for each person, whose reward comes before the next decision.

    In the forced rounds of one arm the others stand still, so an arm makes n = T - (K-1) t_0
    choices, epsilon_m = sqrt(8 rho/(m H_n)). Arguments are those of `SparseBandit`, radius 1.
    Guarantee  (epsilon, delta): everything shown to everybody except the person concerned.

    gap   only arms within gap/2 of the best forced-sample estimate are played; None: all

    >>> from discreet.privacy import SeededNoise
    >>> bandit = EveryRound(2, 3, horizon=40, epsilon=1.0, seed=0, noise=SeededNoise(0))
    >>> for _ in range(40):
    ...     bandit.learn(bandit.decide([1.0, -1.0, 0.5]), 0.3)
    >>> bandit.theta.shape, bandit.guarantee.epsilon
    ((2, 3), 1.0)
    """

    def __init__(
        self,
        n_arms: int,
        dim: int,
        horizon: int,
        epsilon: float,
        delta: float = 1e-6,
        *,
        link: str = "identity",
        forced: int | None = None,
        gap: float | None = None,
        seed: int | None = None,
        noise: Noise | None = None,
    ) -> None:
        ours = SparseBandit(n_arms, dim, horizon, epsilon, delta, link=link, forced=forced)
        self.n_arms = n_arms
        self.dim = dim
        self.horizon = horizon
        self.forced_rounds = ours.forced_rounds
        self.reward_range = ours.reward_range
        self.gap = None if gap is None else positive("gap", gap)
        self._link = ours._link
        slope = self._link.slopes(-1.0, 1.0)[1]
        # |y - nu| <= 1 or 2, and the recursion adds the slope times the diameter of the set.
        worst = (1.0 if link == "logistic" else 2.0) + 2 * slope
        self.bound = worst if ours.budget.off else worst / 4  # of the entries of a step
        n = horizon - (n_arms - 1) * self.forced_rounds
        # Each alone is calibrated for the replacement of a row that stays in its arm; a row that
        # changes arms moves two sums by half of that, at half the price together.
        self._directions = [
            VertexDirection(dim, n, ours.budget, bound=self.bound, noise=own, choices=n)
            for own in source(noise).spawn(n_arms)
        ]
        self._rng = np.random.default_rng(seed)
        self.rounds = 0  # whose reward has come
        self.theta = np.zeros((n_arms, dim))
        self._before = np.zeros((n_arms, dim))
        self._first: Array | None = None

    @property
    def guarantee(self) -> Guarantee:
        """That of one arm: two arms together cost no more."""
        return self._directions[0].guarantee

    def decide(self, x: ArrayLike) -> Decision:  # (dim,), entries in [-1, 1]
        """Lines 3-10, 13 and 14; ties are broken by a coin."""
        row = np.clip(finite("x", x), -1.0, 1.0)
        coin = self._rng.random()
        t = self.rounds
        best = [t % self.n_arms] if t < self.n_arms * self.forced_rounds else self._best(row)
        return Decision(t, best[int(coin * len(best))], row, "")

    def learn(self, decision: Decision, reward: float) -> None:
        """Lines 16 and 17. A round without a reward does not end: arms step by the round alone."""
        if decision.round != self.rounds:
            raise ValueError("expected the reward of the last decision, once")
        value = number_within("reward", reward, self.reward_range)
        forced = self.rounds < self.n_arms * self.forced_rounds
        if self.rounds < self.horizon:
            for i in [decision.action] if forced else range(self.n_arms):
                row = decision.row if i == decision.action else np.zeros(self.dim)
                self._step(i, row, value)
        self.rounds += 1
        if self.rounds == self.n_arms * self.forced_rounds:
            self._first = self.theta.copy()

    def _best(self, x: Array) -> list[int]:
        worth = self.theta @ x
        if self.gap is not None and self._first is not None:
            early = self._link.mean(self._first @ x)
            worth = np.where(early > early.max() - self.gap / 2, worth, -math.inf)
        return np.flatnonzero(worth == worth.max()).tolist()

    def _step(self, i: int, x: Array, reward: float) -> None:
        """Algorithm 2 for arm i."""
        self._directions[i].add(self._gradient(i, x, reward))
        m = self._directions[i].rounds
        after = self.theta[i] + (self._directions[i].point - self.theta[i]) / (m + 1)
        self._before[i], self.theta[i] = self.theta[i], after

    def _gradient(self, i: int, x: Array, reward: float) -> Array:
        """(m+1) grad f(theta_m; x) - m grad f(theta_{m-1}; x), entries within +-bound."""
        m = self._directions[i].rounds + 1
        at = np.array([x.dot(self.theta[i]), x.dot(self._before[i])])
        now, before = self._link.mean(at) - reward
        slope = float((m + 1) * now - m * before)
        size = abs(slope) * float(np.abs(x).max())
        return (slope * min(1.0, self.bound / size) if size else 0.0) * x
