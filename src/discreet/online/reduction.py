"""From a bandit learner to a private one (Agarwal and Singh 2017, Algorithm 4).

    paper   A             x~_t       <l_t, x~_t>   <l_t, x~_t> + <Z_t, x~_t>
    here    self.bandit   `choice`   `loss`        `BinaryChannel.report(loss)`

Only the scalar <l_t, x~_t> is ever seen, so noise on the scalar is enough: it is smaller than
<Z_t, x~_t>, leaves the learner unbiased and makes each report private by itself (local trust).
Central trust waits instead: `Batches` holds one choice for several rounds and gives the learner
one noisy mean of their losses (Asi, Raman, Talwar 2025).
"""

import hmac
import math
from secrets import token_hex
from typing import Any, ClassVar, Generic, TypeVar

from discreet.arrays import number_within, one_of
from discreet.decisions import LossDecision, Rounds, seal
from discreet.online.feedback import Batches, Feedback, Reports, ScalarBandit
from discreet.privacy import Budget, Guarantee
from discreet.privacy.channels import BinaryChannel
from discreet.privacy.noise import Noise, source
from discreet.state import damaged

Made = TypeVar("Made", bound=LossDecision)


class PrivateBandit(Rounds, Generic[Made]):
    """decide and learn: a bandit that hears of losses through a private feedback only.

    bandit       the learner that is not private
    feedback     how it hears of losses
    horizon      rounds in which it learns; None: no limit
    loss_range   public bounds of a loss
    """

    _state = ("rounds", "_rewarded", "bandit", "_feedback", "_key")
    _feedback_is = "loss"
    _decision: ClassVar[type[Any]]

    def __init__(
        self,
        bandit: Any,
        feedback: Feedback,
        horizon: int | None,
        loss_range: tuple[float, float],
    ) -> None:
        self.bandit = bandit
        self.horizon = horizon
        self.loss_range = loss_range
        self._feedback = feedback
        self._key = token_hex(32)  # of the seals of decision records
        self._begin()

    @property
    def learning(self) -> bool:
        """Whether a loss can still count; past the horizon the policy stays as it is."""
        return self.horizon is None or self.rounds <= self.horizon

    @property
    def guarantee(self) -> Guarantee:
        """The computed promise."""
        return self._feedback.guarantee(taken=bool(self._rewarded.packed().any()))

    @property
    def heard_by(self) -> type[Feedback]:
        """How losses are heard of: single reports, or means of batches."""
        return type(self._feedback)

    def decide(self) -> Made:
        """Choose; reads nothing but what was released. Past the horizon by the last policy."""
        with self._live:
            t = self.rounds
            choice = self._feedback.choose(self.bandit, t)
            self.rounds = t + 1
            made: Made = self._decision(t, self._run, choice, self._key)
            return made

    def learn(self, decision: Made, loss: float) -> bool:
        """Take the loss of a decision: any time later, in any order, once; it may never come.

        Returns whether it counted: not past the horizon, and under central trust not if it is too
        late for its batch. A second loss, one outside the range, NaN, or a decision of another
        learner raises ValueError and changes nothing. If the bandit inside raises when it is told a
        report (local trust), call again: it is told the same report, and nothing is drawn anew.
        """
        with self._live:
            self._assert_mine(decision)
            if not self._feedback.holds(decision.round):
                self._assert_first(decision.round)
            # Rounding of <l, x> at the border is forgiven.
            value = number_within("loss", loss, self.loss_range, slack=1e-9)
            t = decision.round
            horizon = self.horizon
            if horizon is not None and (t >= horizon or self.rounds > horizon):
                self._rewarded.add(t)
                return False
            report = self._feedback.held(t)
            if report is None:
                report = self._feedback.report(value)  # may fail: nothing has changed
                self._rewarded.add(t)  # from here on it is never told again
            try:
                return self._feedback.accept(self.bandit, decision, report)
            except Exception:
                self._feedback.hold(t, report)
                raise

    def decision(self, record: dict[str, Any]) -> Made:
        """The decision of this learner that `to_dict` wrote; whatever else raises ValueError.

        A choice says what an estimate is made of (probabilities, directions): one that was forged
        could move the learner by any amount, so a record counts only with this learner's seal.
        """
        try:
            stated = str(record["seal"]).encode()
            if not hmac.compare_digest(stated, seal(self._key, record).encode()):
                raise ValueError("changed, or made elsewhere")
            t, learner = record["round"], record["learner"]
            made: Made = self._decision(t, learner, self.bandit.choice(record), self._key)
            return made
        except (AttributeError, KeyError, TypeError, ValueError, OverflowError):
            raise ValueError(
                "not a decision record of this learner, or changed since; use to_dict()"
            ) from None

    def _assert_mine(self, decision: Made) -> None:
        super()._assert_mine(decision)
        if not decision.is_sealed_by(self._key):
            raise ValueError("expected a decision that this learner made")

    def _validate(self) -> None:
        super()._validate()
        if not isinstance(self._feedback, Feedback):
            raise damaged("feedback")
        if not isinstance(self._key, str) or len(self._key) != 64:
            raise damaged("key")


class PrivateReduction(PrivateBandit[LossDecision]):
    """Makes any bandit learner with scalar feedback locally private (Algorithm 4).

    `bandit.decide()` chooses; `learn(decision, loss)` turns the loss into a report of pure
    epsilon and calls `bandit.learn(choice, report)`. Reports are unbiased and lie outside the
    range of losses: the bandit must take any number.

    Requires   every loss in `loss_range`; the bandit learns of losses in no other way.
    Guarantee  epsilon, local: each report is private by itself; with contributions=k each of a
               person's k reports runs at epsilon/k.

    bandit          decide() and learn(choice, loss); to be saved it must be
                    `discreet.state.Stateful`, for records it needs `choice(record)`
    epsilon         of one person; inf switches privacy off
    loss_range      public bounds of one loss
    contributions   rounds of one person
    noise           None, `SecureNoise()`, or `SeededNoise(seed)` for simulation

    >>> from discreet.online.adversarial import Exp2
    >>> from discreet.privacy import SeededNoise
    >>> learner = PrivateReduction(Exp2(2, rate=0.05, explore=0.1, seed=0), epsilon=1.0,
    ...                            loss_range=(0.0, 1.0), noise=SeededNoise(0))
    >>> d = learner.decide()
    >>> learner.learn(d, 0.25)
    True
    >>> learner.guarantee.trust, round(learner.guarantee.epsilon_at(0.0), 9)
    ('local', 1.0)
    """

    _decision = LossDecision

    def __init__(
        self,
        bandit: ScalarBandit,
        epsilon: float,
        *,
        loss_range: tuple[float, float] = (0.0, 1.0),
        contributions: int = 1,
        noise: Noise | None = None,
    ) -> None:
        low, high = loss_range
        channel = BinaryChannel(epsilon, low=low, high=high, contributions=contributions)
        self.epsilon = channel.epsilon
        self.contributions = channel.contributions
        self.noise = source(noise)
        feedback = Reports(channel, self.noise.spawn(1)[0])
        super().__init__(bandit, feedback, None, (channel.low, channel.high))


def batch_size(rounds: float, horizon: int, budget: Budget, trust: str) -> int:
    """How many rounds a batch holds: about `rounds`/epsilon; one under local trust."""
    one_of("trust", trust, ("local", "central"))
    if trust == "local":
        return 1
    return min(horizon, max(1, math.ceil(rounds * budget.contributions / budget.epsilon)))


def mean_noise(width: float, size: int, budget: Budget) -> float:
    """The scale of the noise in the mean of a batch of losses in a range of this width."""
    return width * budget.contributions / (size * budget.epsilon)


def reduced(
    trust: str,
    channel: BinaryChannel,
    size: int,
    horizon: int,
    noise: Noise,
) -> Feedback:
    """The private reduction: reports of single losses, or noisy means of `size` losses."""
    if trust == "local":
        return Reports(channel, noise)
    budget = Budget(channel.epsilon, 0.0, channel.contributions)
    return Batches(size, horizon, budget, (channel.low, channel.high), noise)
