"""A bandit for many features of which few matter (Han et al. 2022, Algorithm 3).

    paper   K        t_0      zeta   theta_{t,i}         a_t
    here    n_arms   forced   link   self._arms.theta    `decide`

    lines 3-10   the arms in turn, t_0 times each: a schedule that no context enters
    line 14      the greedy arm; line 13, fewer arms to choose among, has no part here
    lines 16-17  the row enters the sums of its arm, zeros those of the others   `sparse_windows.py`

Better than printed: parameters move at the ends of public windows that grow, a few entries at
a time, each window with the whole budget.
"""

import math
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from discreet.arrays import (
    Array,
    integer,
    integer_or_none,
    number_within,
    numbers,
    one_of,
    positive,
)
from discreet.decisions import Decision, Rounds, is_row
from discreet.links import link as link_named
from discreet.optimization.sparse_windows import SELECTING, SIGNAL, WindowArms
from discreet.privacy import Budget, Guarantee
from discreet.privacy.noise import Noise, source
from discreet.state import damaged

REWARDS = {"identity": (-1.0, 1.0), "logistic": (0.0, 1.0)}
BOUND = 0.2  # of residuals, identity link
UNPROTECTED = (
    "one's own action, which may depend on one's own context",
    "decision records: they hold the context",
    "that a reward came, and when",
    "the horizon and the public bounds",
    "anything of the open window, against whoever sees a stolen state: its sums hold no noise yet",
    "anything, against whoever sees what a state resumed twice publishes",
)


class SparseBandit(Rounds):
    """Chooses one of K arms for each person; rewards, more is better. Noise grows with log(dim).

    The expected reward of arm i is nu(<x, theta_i>), nu = `link`: the context x has entries in
    [-1, 1] (beyond, they are clipped), theta_i has few entries that matter and l1 norm at most
    `radius`. Rewards lie in [-1, 1], with link="logistic" in [0, 1].

    Guarantee  (epsilon, delta), joint: everything shown to everybody except the person concerned.
               One person's round is one context and its reward; with contributions=k, k of them.

    Why: others see functions of their own contexts and of the released thetas. Given what was
    released before, another context or reward of one person changes the sums of one arm by two
    terms, or of two arms by one term (they choose another arm); everybody else decides as before.
    When which arm releases how much is fixed in advance. `sparse_windows.py` prices both changes.

    n_arms           K
    dim              of a context
    horizon          rounds in which it learns; it goes on deciding after that
    epsilon          of one person; inf switches privacy off
    delta            above 0
    link             "identity" or "logistic"
    radius           l1 norm of theta_i, at most
    forced           rounds for each arm at the start. None is a public rule: as many as a few
                     strong entries need to stand out of chance and noise, at most a quarter of
                     the horizon in all
    contributions    rounds of one person
    seed             of the coins that break ties, one in every round
    noise            None, `SecureNoise()`, or `SeededNoise(seed)` for simulation

    It learns fastest if the entries of contexts are little correlated; if they are, slower.
    With the identity link residuals are cut to `bound`, a public rule (.2, more for a large
    epsilon): that needs less noise, but biases estimates if noise is skewed. For rewards of two
    values use link="logistic", which cuts nothing.

    Rewards may come late, in any order, once, or never: a missing one adds nothing. A late one
    enters the window that is open. Past the horizon the policy stays and rewards no longer count.

    >>> from discreet.privacy import SeededNoise
    >>> rng, thetas = np.random.default_rng(0), np.zeros((2, 50))
    >>> thetas[0, 3], thetas[1, 7] = 0.8, -0.8
    >>> bandit = SparseBandit(2, 50, horizon=4000, epsilon=2.0, seed=0, noise=SeededNoise(0))
    >>> for _ in range(4000):
    ...     x = rng.uniform(-1, 1, 50)
    ...     d = bandit.decide(x)
    ...     _ = bandit.learn(d, float(x @ thetas[d.action]))
    >>> x = np.zeros(50); x[3] = 1.0
    >>> bandit.decide(x).action, bandit.guarantee.trust
    (0, 'joint')
    """

    _state = ("rounds", "_rewarded", "_advanced", "_arms", "_rng")

    def __init__(
        self,
        n_arms: int,
        dim: int,
        horizon: int,
        epsilon: float,
        delta: float = 1e-6,
        *,
        link: str = "identity",
        radius: float = 1.0,
        forced: int | None = None,
        contributions: int = 1,
        seed: int | None = None,
        noise: Noise | None = None,
    ) -> None:
        self.n_arms = integer("n_arms", n_arms)
        self.dim = integer("dim", dim)
        self.horizon = integer("horizon", horizon)
        self.budget = Budget(epsilon, delta, contributions)
        if self.budget.pure:
            raise ValueError("delta must be above 0 (for example 1e-6): selections add up in zCDP")
        self.epsilon = self.budget.epsilon
        self.delta = self.budget.delta
        self.contributions = self.budget.contributions
        self.link = one_of("link", link, tuple(REWARDS))
        self.reward_range = REWARDS[link]
        self._link = link_named(link)
        self.radius = positive("radius", radius)
        self.forced = forced
        self.forced_rounds = self._forced_rule() if forced is None else integer("forced", forced)
        self._assert_forced_rounds_fit()
        self.bound = self._bound_rule()
        self.seed = integer_or_none("seed", seed, least=0)
        self.noise = source(noise)
        self._begin()
        self._advanced = 0  # rounds whose end the arms have seen
        self._rng = np.random.default_rng(self.seed)
        self._arms = WindowArms(
            self.n_arms,
            self.dim,
            self.horizon,
            self.budget,
            forced=self.forced_rounds,
            link=self._link,
            bound=self.bound,
            radius=self.radius,
            noise=self.noise.spawn(1)[0],
        )

    def _assert_forced_rounds_fit(self) -> None:
        if self.n_arms * self.forced_rounds > self.horizon:
            raise ValueError(
                f"{self.n_arms} arms, {self.forced_rounds} forced rounds each, do not fit in a "
                f"horizon of {self.horizon}"
            )

    @property
    def theta(self) -> Array:  # (arms, dim)
        """The released parameters."""
        return self._arms.theta.copy()

    @property
    def learning(self) -> bool:
        """Whether a reward can still count; past the last window the policy stays."""
        return self._arms.learning

    @property
    def guarantee(self) -> Guarantee:
        """The promise over the whole life, with what has been released so far."""
        return replace(
            self._arms.guarantee,
            trust="joint",
            unprotected=UNPROTECTED,
            reference="Han, Liang, Liang, Wang, Yao and Zhang (2022), Algorithm 3",
        )

    def decide(self, x: ArrayLike) -> Decision:  # (dim,)
        """Choose an arm for one person; reads released parameters and this context only.

        One coin in every round, needed or not: how many coins are used must tell nothing of
        anybody's context.
        """
        row = numbers("x", x)
        if row.shape != (self.dim,):
            raise ValueError(f"x must have shape ({self.dim},), got {row.shape}")
        row = np.clip(row, -1.0, 1.0)  # a copy; NaN stays
        if math.isnan(float(np.add.reduce(row))):
            raise ValueError("x must be finite: it holds NaN; drop or impute first")
        with self._live:
            self._advance()
            t = self.rounds
            coin = self._rng.random()
            best = self._best(row) if t >= self.n_arms * self.forced_rounds else [t % self.n_arms]
            probabilities = np.zeros(self.n_arms)
            probabilities[best] = 1 / len(best)
            self._commit(rounds=t + 1)
            action = int(best[int(coin * len(best))])
            decision = Decision(t, action, row, self._run)
            decision.__dict__["probabilities"] = probabilities
            return decision

    def learn(self, decision: Decision, reward: float) -> bool:
        """Take the reward of a decision: any time later, in any order, once; whether it counted.

        A second one, one outside the range, NaN, or a decision of another learner raises
        ValueError and changes nothing.
        """
        with self._live:
            self._assert_mine(decision)
            self._assert_first(decision.round)
            value = number_within("reward", reward, self.reward_range)
            self._rewarded.add(decision.round)  # from here on it is never counted again
            return self._arms.take(decision.action, decision.row, value)

    def decision(self, record: dict[str, Any]) -> Decision:
        """The decision that `to_dict` described; a damaged record raises ValueError."""
        try:
            return Decision.from_dict(record)
        except ValueError:
            raise ValueError("not a decision record of such a learner; use to_dict()") from None

    def _assert_mine(self, decision: Decision) -> None:
        super()._assert_mine(decision)
        arm = decision.action
        fits = type(arm) is int and is_row(decision.row, self.dim)
        if not fits or not 0 <= arm < self.n_arms:
            raise ValueError("this learner never made that decision; was an old state loaded?")
        if not float(np.maximum.reduce(np.abs(decision.row))) <= 1:
            raise ValueError("this decision record is damaged: its context is out of bounds")

    def _advance(self) -> None:
        """Let the arms see the end of the last round; never before the next decision is asked."""
        while self._advanced < min(self.rounds, self.horizon):
            self._arms.advance(self._advanced + 1)
            self._commit(_advanced=self._advanced + 1)

    def _best(self, x: Array) -> list[int]:
        """Line 14. The link increases, so it need not be applied."""
        worth = self._arms.theta @ x
        return np.flatnonzero(worth == worth.max()).tolist()

    def _needs(self) -> tuple[float, float]:
        """Rows of one arm that strong entries need to stand out: of chance, of privacy's noise."""
        log = max(1.0, math.log(self.dim))
        # Chance: an entry of .1 among `dim` entries, residuals of .3.
        # Privacy: four such entries in one window, see `WindowArms.entries`.
        spend = math.sqrt(8 * self.budget.rho * SELECTING) / self.contributions
        return 20 * log, 8 * log / (SIGNAL * spend)

    def _forced_rule(self) -> int:
        return max(1, min(math.ceil(math.hypot(*self._needs())), self.horizon // (4 * self.n_arms)))

    def _bound_rule(self) -> float:
        # |y - nu| <= 1 for the logistic link, else 1 + radius.
        worst = 1.0 if self.link == "logistic" else 1.0 + self.radius
        if self.budget.off or self.link == "logistic":
            return worst
        chance, privacy = self._needs()
        return min(worst, BOUND * max(1.0, math.sqrt(chance / privacy)))

    def _validate(self) -> None:
        super()._validate()
        if not 0 <= self._advanced <= min(self.rounds, self.horizon):
            raise damaged("advanced")
