"""Adversarial bandits: a plain learner on arms inside the private reduction.

    paper   p_t                  q_t       gamma          mu       eta         l~_t
    here    arm.probabilities    weights   self.explore   1/N      self.rate   `estimate`

`Exp2` is the paper's learner on N arms (Agarwal and Singh 2017, Algorithm 5), `Tsallis` the one
that `AdversarialBandit` uses: the same but for q, which is that of Tsallis entropy (Zimmert and
Seldin 2021), and for its rate, which falls with the rounds and needs no horizon. Both are fed
loss - 1/2 so that estimates are small on both sides. Local trust (Algorithm 4): every loss is a
private report before the learner sees it. Shuffled trust: the same reports, and it sees the sums of
a batch of them with one policy. Central trust (Asi, Raman, Talwar 2025): an arm is held for a
batch, and it sees the batch's noisy mean; where reports tell it more it sees them here too.
"""

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from discreet.arrays import Array, finite, integer, integer_or_none, positive
from discreet.decisions import ArmDecision
from discreet.online.feedback import Batches, Feedback, Reports, ShuffledReports
from discreet.online.reduction import PrivateBandit, batch_size, mean_noise, reduced
from discreet.privacy import Budget, Shuffled
from discreet.privacy.channels import BinaryChannel
from discreet.privacy.noise import Noise, source
from discreet.privacy.shuffle import trusted
from discreet.state import Stateful, value


@value
@dataclass(frozen=True, eq=False, slots=True)
class Arm:
    """An arm, and the probabilities it was drawn with."""

    action: int  # the arm played
    probabilities: Array  # (arms,)
    sign: ClassVar[int] = 1  # its loss enters a batch as it is


class Exp2(Stateful):
    """Exponential weights with uniform exploration, p = (1 - explore) q + explore/N (Algorithm 5).

    Takes any number as a loss, noisy ones too; `middle` is subtracted from each. Not private.

    n_arms    N
    rate      eta
    explore   gamma, the probability of a uniform draw
    middle    subtracted from every loss
    seed      of the coins, one for each decision that brings none

    >>> plain = Exp2(3, rate=0.1, explore=0.05, seed=0)
    >>> for _ in range(500):
    ...     arm = plain.decide()
    ...     plain.learn(arm, 0.2 if arm.action == 1 else 0.8)
    >>> int(plain.decide().probabilities.argmax())
    1
    """

    _state = ("updates", "_total", "_rng")

    def __init__(
        self,
        n_arms: int,
        *,
        rate: float,
        explore: float,
        middle: float = 0.5,
        seed: int | None = None,
    ) -> None:
        self.n_arms = integer("n_arms", n_arms, least=2)
        self.rate = positive("rate", rate)
        self.explore = float(explore)
        if not 0 < self.explore <= 1:
            raise ValueError(f"explore must lie in (0, 1], got {explore!r}")
        self.middle = float(middle)
        self.seed = seed
        self.updates = 0  # losses learned
        self._total = np.zeros(self.n_arms)  # sum of the estimates of loss - middle
        self._rng = np.random.default_rng(seed)
        self._held = (np.empty(0), np.empty(0), np.empty(0))  # total, its probabilities, their sums

    def decide(self, coin: float | None = None) -> Arm:
        """Line 3: draw from p = (1 - explore) q + explore/N, q ~ exp(-rate total).

        By a coin in [0, 1) of the caller's, or one of `seed`.
        """
        p = self.probabilities()
        cumulative = self._held[2]
        coin = (self._rng.random() if coin is None else coin) * cumulative.item(-1)
        return Arm(int(cumulative.searchsorted(coin, "right")), p)

    def probabilities(self) -> Array:  # (arms,)
        total, p, cumulative = self._held
        if total is not self._total:
            total = self._total
            p = self._policy(total)
            p.setflags(write=False)  # decisions show it
            cumulative = p.cumsum()
            self._held = (total, p, cumulative)
        return p

    def _policy(self, total: Array) -> Array:
        # argmin and reduce: of few numbers they take a third of what min and sum do.
        weights = np.exp((total.item(total.argmin()) - total) * self.rate)
        weights *= (1 - self.explore) / float(np.add.reduce(weights))
        return np.asarray(weights + self.explore / self.n_arms)

    def learn(self, arm: Arm, loss: float) -> None:
        """Lines 4 and 5: the estimate is (loss - middle)/p for the arm played, 0 elsewhere."""
        estimate = (loss - self.middle) / arm.probabilities[arm.action]
        total = self._total.copy()
        total[arm.action] += estimate
        self._commit(_total=total, updates=self.updates + 1)

    def learn_sums(self, sums: Array) -> None:  # (arms,)
        """The same for many rounds with the present policy: sums of loss - middle for each arm."""
        p = self.probabilities()
        self._commit(_total=self._total + sums / p, updates=self.updates + 1)

    def again(self, arm: Arm) -> Arm:
        return arm

    def choice(self, record: dict[str, Any]) -> Arm:
        action = record["action"]
        p = finite("probabilities", record["probabilities"])
        if isinstance(action, bool) or not isinstance(action, int) or p.shape != (self.n_arms,):
            raise ValueError(f"expected one of {self.n_arms} arms and their probabilities")
        if not (0 <= action < self.n_arms and p[action] > 0):
            raise ValueError("an arm that could not be drawn")
        return Arm(action, p)


class Tsallis(Exp2):
    """Tsallis entropy instead of Shannon's: q_i = 4/(rate_t (total_i - x))^2 with sum q = 1.

    Its regret is of the order sqrt(N T) without a logarithm, and log T where one arm is the best
    by a gap, with the same rate a/sqrt(t); arms that seem bad keep more weight than exponential
    weights leave them, so that little exploration is needed. Not private.

    n_arms    N
    rate      rate_t is rate/sqrt(t + delay),
    delay     t the losses so far
    explore   exploration in units of rate_t
    losses    in one update
    seed      of the coins, one for each decision
    """

    def __init__(
        self,
        n_arms: int,
        *,
        rate: float,
        explore: float,
        delay: float = 0.0,
        losses: int = 1,
        seed: int | None = None,
    ) -> None:
        super().__init__(n_arms, rate=rate, explore=1.0, seed=seed)
        self.explore = positive("explore", explore)
        self.delay = float(delay)
        self.losses = integer("losses", losses)

    def _policy(self, total: Array) -> Array:
        rate = self.rate / math.sqrt(self.losses * self.updates + 1 + self.delay)
        above = (total - total.item(total.argmin())) * rate
        # x = least total - depth/rate. At depth 2 the best arm alone has weight 1, so the sum is
        # too large; the sum is convex and falls with the depth: Newton's steps never overshoot.
        depth = 2.0
        for _ in range(64):
            roots = 2.0 / (above + depth)
            weights = roots * roots
            excess = float(roots.dot(roots)) - 1.0  # of few numbers in a fifth of a sum's time
            if excess < 1e-12:
                break
            depth += excess / float(weights.dot(roots))
        explore = min(0.5, self.explore * rate)
        weights *= (1 - explore) / float(np.add.reduce(weights))
        return np.asarray(weights + explore / self.n_arms)


class AdversarialBandit(PrivateBandit[ArmDecision]):
    """A bandit on N arms whose losses may be chosen by an adversary.

    Requires   losses in [0, 1]; one person's round is one loss.
    Guarantee  epsilon (pure). trust="local": each loss becomes a report of `BinaryChannel`
               (randomised response) before anything else sees it; regret about
               sqrt(N T)/epsilon. trust="shuffled": (epsilon, delta) against everybody but a
               relay, by batches of about 2 sqrt(T) such reports; regret about sqrt(N T) for
               long horizons. trust="central": the sequence of actions, by one Laplace
               release for each batch of 2 sqrt(8)/epsilon rounds, regret about
               sqrt(N T/epsilon); or, from an epsilon of about 1 on, by the reports of local
               trust, which are private by themselves and tell more there.

    n_arms          N
    horizon         rounds in which it learns; after that it decides by its last policy
    epsilon         of one person; inf is the plain learner itself
    trust           "local", "central" or "shuffled"; Shuffled(minimum=0.8, honest=0.5) says what
                    the batches of the last are counted on for
    contributions   rounds of one person; under trust="shuffled" at most one in a batch
    delta           under trust="shuffled", 1e-6 unless stated; 0 otherwise
    seed            of the exploration; refused under trust="shuffled": there the arm is part of
                    what the crowd hides, and `noise` draws it
    noise           None, `SecureNoise()`, or `SeededNoise(seed)` for simulation

    Reference: Agarwal and Singh (2017), Algorithms 4 and 5; Asi, Raman and Talwar (2025).

    >>> from discreet.privacy import SeededNoise
    >>> bandit = AdversarialBandit(3, 3000, epsilon=2.0, seed=0, noise=SeededNoise(1))
    >>> for _ in range(3000):
    ...     d = bandit.decide()
    ...     _ = bandit.learn(d, 0.1 if d.action == 1 else 0.9)
    >>> int(d.probabilities.argmax()), bandit.guarantee.releases[0].mechanism
    (1, 'randomized response')
    """

    _decision = ArmDecision

    def __init__(
        self,
        n_arms: int,
        horizon: int,
        epsilon: float,
        *,
        trust: str | Shuffled = "local",
        contributions: int = 1,
        delta: float | None = None,
        seed: int | None = None,
        noise: Noise | None = None,
    ) -> None:
        self.n_arms = integer("n_arms", n_arms, least=2)
        self.trust = trust
        kind, self.shuffled = trusted(trust, ("local", "shuffled", "central"))
        shuffled = self.shuffled is not None
        if delta and not shuffled:
            raise ValueError("delta belongs to trust='shuffled'; the others are pure")
        if shuffled and seed is not None:
            raise ValueError(
                "under trust='shuffled' nobody may foretell arms: noise draws them; leave seed out"
            )
        self.delta = (1e-6 if delta is None else delta) if shuffled else 0.0
        self.budget = Budget(epsilon, self.delta, contributions)
        self.epsilon = self.budget.epsilon
        self.contributions = self.budget.contributions
        self.seed = integer_or_none("seed", seed, least=0)
        self.noise = source(noise)
        T = integer("horizon", horizon)
        feedback, moment, largest = self._reduced(T, kind)
        updates = T if shuffled else math.ceil(T / self.batch_size)
        # The regret bound has rate 2/sqrt(t) for estimates whose second moment is 1/p. Twice or
        # three times that, and the other numbers, are tuned at N = 10 and 60, gap .1, T = 10^5 and
        # 10^6, epsilon = 1. Without the delay, 400 N rounds or a tenth of all, single large
        # estimates can end exploration for good.
        held = isinstance(feedback, Batches)
        plain = Tsallis(
            n_arms,
            rate=(6.0 if held else 4.0) / math.sqrt(4 * moment),
            explore=0.1 * n_arms * largest,
            delay=min(400 * n_arms, updates / 10),
            losses=self.batch_size if shuffled else 1,
            seed=0 if shuffled else self.seed,  # its coins are not used there
        )
        super().__init__(plain, feedback, T, (0.0, 1.0))

    def _is_held(self, mean: float, report: float) -> bool:
        """Whether means of batches tell more than reports, by their second moments: public.

        By the bounds the regret is about sqrt(N T m b) where b rounds are told at once, of second
        moment m. Measured, means are worth 1.5 times that: 10 arms, gap .1, regret under local over
        central trust with batches at epsilon = .5, .7 and 1 1.59, 1.55 and .94 (10^5 rounds, 2 or 3
        seeds), at epsilon = 1 and 10^6 rounds .71.
        """
        return mean * self.batch_size < 1.5 * report

    def _reduced(self, T: int, trust: str) -> tuple[Feedback, float, float]:
        """The feedback; the second moment and the size of what it tells, less 1/2."""
        stream = self.noise.spawn(1)[0]
        if self.shuffled is not None:
            size = self.batch_size = min(T, math.ceil(2 * math.sqrt(T)))
            told = ShuffledReports(self.n_arms, size, T, self.budget, self.shuffled, stream)
            return told, told.channel.second_moment, told.channel.report_bound
        channel = BinaryChannel(self.epsilon, low=0.0, high=1.0, contributions=self.contributions)
        # Batches of sqrt(8)/epsilon balance the worst losses and the noise; twice that costs 12% on
        # the worst losses by the formula, and saved a tenth on the gap sequence at epsilon = 0.1.
        self.batch_size = batch_size(2 * math.sqrt(8), T, self.budget, trust)
        scale = mean_noise(1.0, self.batch_size, self.budget)
        moment = 1 / 4 + 2 * scale**2
        if trust == "central" and self._is_held(moment, channel.second_moment):
            means = reduced("central", channel, self.batch_size, T, stream)
            return means, moment, 1 / 2 + 2 * scale
        self.batch_size = 1
        return Reports(channel, stream, trust), channel.second_moment, channel.report_bound
