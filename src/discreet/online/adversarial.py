"""Adversarial bandits: exponential weights inside the private reduction.

    paper   p_t                  q_t       gamma          mu       eta         l~_t
    here    arm.probabilities    weights   self.explore   1/N      self.rate   `estimate`

EXP2 on the N arms (Agarwal and Singh 2017, Algorithm 5), fed loss - 1/2 so that estimates are
small on both sides. Local trust (Algorithm 4): every loss is a private report before EXP2 sees it.
Central trust (Asi, Raman, Talwar 2025): an arm is held for a batch, and EXP2 sees the batch's
noisy mean.
"""

import json
import math
import os
from typing import Any, NamedTuple, Self

import numpy as np

from discreet.online.feedback import Batches, Decision, Reports
from discreet.online.reduction import PrivateBandit, batch_size
from discreet.privacy import BinaryChannel, Budget, Noise
from discreet.privacy.checks import Array, positive, whole

# Tuned at N = 10, gap 0.1, T = 10^6 (benchmarks/online_bandits.py); the regret bound has 1 and 1.
# A batch's mean is seldom as far from 1/2 as a single loss: there less exploration will do.
RATE, EXPLORE = 3.0, {"local": 1.0, "central": 0.25}
# Batches of sqrt(8)/epsilon balance the worst losses and the noise; twice that costs 12% on the
# worst losses by the formula, and saved a tenth on the gap sequence at epsilon = 0.1.
BATCH = 2 * math.sqrt(8)


class Arm(NamedTuple):
    """An arm, and the law it was drawn from."""

    action: int
    probabilities: Array  # (arms,)
    sign: int = 1


class Exp2:
    """Exponential weights with uniform exploration, p = (1 - explore) q + explore/N (Algorithm 5).

    Takes any number as a loss, noisy ones too; `middle` is subtracted from each. Not private.

    >>> plain = Exp2(3, rate=0.1, explore=0.05, seed=0)
    >>> for _ in range(500):
    ...     arm = plain.decide()
    ...     plain.learn(arm, 0.2 if arm.action == 1 else 0.8)
    >>> int(plain.decide().probabilities.argmax())
    1
    """

    def __init__(
        self,
        n_arms: int,
        *,
        rate: float,
        explore: float,
        middle: float = 0.5,
        seed: int | None = None,
    ) -> None:
        self.n_arms = whole("n_arms", n_arms, least=2)
        self.rate, self.explore, self.middle = positive("rate", rate), float(explore), float(middle)
        if not 0 < self.explore <= 1:
            raise ValueError(f"explore must lie in (0, 1], got {explore!r}")
        self._total = np.zeros(self.n_arms)  # sum of the estimates of loss - middle
        self._coins = np.random.default_rng(seed)
        self._law: Array | None = None

    def decide(self) -> Arm:
        """Line 3: p = (1 - explore) q + explore/N, in the log domain."""
        if self._law is None:
            weights = np.exp((self._total.min() - self._total) * self.rate)
            weights *= (1 - self.explore) / weights.sum()
            self._law = weights + self.explore / self.n_arms
            self._law.setflags(write=False)  # decisions show it
            self._steps = self._law.cumsum()
        coin = self._coins.random() * self._steps[-1]
        return Arm(int(self._steps.searchsorted(coin, side="right")), self._law)

    def learn(self, arm: Arm, loss: float) -> None:
        """Lines 4 and 5: the estimate is (loss - middle)/p for the arm played, 0 elsewhere."""
        estimate = (loss - self.middle) / arm.probabilities[arm.action]
        self._total[arm.action] += estimate
        self._law = None

    def again(self, arm: Arm) -> Arm:
        """The same arm."""
        return arm

    def pack(self, arm: Arm) -> Array:
        """The action, then the law."""
        return np.append(float(arm.action), arm.probabilities)

    def unpack(self, numbers: Array) -> Arm:
        """The arm that `pack` wrote."""
        action, law = int(numbers[0]), np.array(numbers[1:])
        if law.shape != (self.n_arms,) or not (0 <= action < self.n_arms and law[action] > 0):
            raise ValueError(f"expected an arm of {self.n_arms} and its law")
        return Arm(action, law)

    def state_dict(self) -> dict[str, Any]:
        """Totals and coins."""
        return {"total": self._total.copy(), "coins": json.dumps(self._coins.bit_generator.state)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from `state_dict`."""
        total = np.array(state["total"], dtype=np.float64)
        if total.shape != (self.n_arms,):
            raise ValueError(f"expected a state of {self.n_arms} arms, got shape {total.shape}")
        self._coins.bit_generator.state = json.loads(state["coins"])
        self._total, self._law = total, None


class ArmDecision(Decision):
    """A decision for an arm; under central trust its law is that of the batch's one draw."""

    __slots__ = ()

    @property
    def action(self) -> int:
        """The arm to play."""
        return int(self.choice.action)

    @property
    def probabilities(self) -> Array:  # (arms,)
        """The probability with which each arm was drawn."""
        return np.array(self.choice.probabilities)

    @property
    def probability(self) -> float:
        """The probability with which this arm was drawn."""
        return float(self.choice.probabilities[self.choice.action])


class AdversarialBandit(PrivateBandit[ArmDecision]):
    """A bandit on N arms whose losses may be chosen by an adversary.

    Requires   losses in [0, 1]; one person's round is one loss.
    Guarantee  epsilon (pure). trust="local": each loss becomes a report of `BinaryChannel`
               (randomised response) before anything else sees it; regret about
               sqrt(N T log N)/epsilon. trust="central": the sequence of actions, by one Laplace
               release for each batch of 2 sqrt(8)/epsilon rounds; regret about
               sqrt(N T log N/epsilon).

    epsilon=inf is EXP2 itself. Reference: Agarwal and Singh (2017), Algorithms 4 and 5; Asi, Raman
    and Talwar (2025).

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
        trust: str = "local",
        contributions: int = 1,
        seed: int | None = None,
        noise: Noise | None = None,
    ) -> None:
        self.n_arms, horizon = whole("n_arms", n_arms, least=2), whole("horizon", horizon)
        budget = Budget(epsilon, 0.0, contributions)
        seed = None if seed is None else whole("seed", seed, least=0)
        self.batch_size = batch_size(BATCH, horizon, budget, trust)
        channel = BinaryChannel(epsilon, low=0.0, high=1.0, contributions=contributions)
        # What EXP2 is fed, minus 1/2: its second moment, and its size.
        moment, reach = channel.second_moment, channel.reach
        if trust == "central":
            scale = contributions / (self.batch_size * budget.epsilon)
            moment, reach = 1 / 4 + 2 * scale**2, 1 / 2 + 2 * scale
        updates = math.ceil(horizon / self.batch_size)
        rate = RATE * math.sqrt(2 * math.log(n_arms) / (updates * n_arms * moment))
        explore = min(0.5, EXPLORE[trust] * rate * n_arms * reach)
        bandit = Exp2(n_arms, rate=rate, explore=explore, seed=seed)
        config = {
            "n_arms": self.n_arms,
            "horizon": horizon,
            "epsilon": budget.epsilon,
            "trust": trust,
            "contributions": budget.contributions,
            "seed": seed,
        }
        super().__init__(bandit, horizon, (0.0, 1.0), noise, config)
        self._feedback = (
            Reports(bandit, channel, self._noise)
            if trust == "local"
            else Batches(bandit, self.batch_size, horizon, budget, self.loss_range, self._noise)
        )

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Go on from a file, with the same kind of noise."""
        return cls._loaded(path)
