"""From a bandit learner to a private one (Agarwal and Singh 2017, Algorithm 4).

    paper   A             x~_t       <l_t, x~_t>   <l_t, x~_t> + <Z_t, x~_t>
    here    self.bandit   `choice`   `loss`        `BinaryChannel.report(loss)`

Only the scalar <l_t, x~_t> is ever seen, so noise on the scalar is enough: it is smaller than
<Z_t, x~_t>, leaves the learner unbiased and makes each report private by itself (local trust).
Central trust waits instead: `Batches` holds one choice for several rounds and gives the learner
one noisy mean of their losses (Asi, Raman, Talwar 2025).
"""

import json
import math
import os
import secrets
from typing import Any, Generic, Self, TypeVar

import numpy as np

from discreet.online.feedback import (
    Decision,
    Feedback,
    Reports,
    ScalarBandit,
)
from discreet.privacy import BinaryChannel, Budget, Guarantee, Noise, SeededNoise
from discreet.privacy.checks import finite, one_of
from discreet.privacy.noise import source, source_named
from discreet.privacy.state import expect, keeps, load_state, save_state

Made = TypeVar("Made", bound=Decision)


class PrivateBandit(Generic[Made]):
    """decide and learn over a private feedback; save and load. What these learners share."""

    _decision: type[Made]
    _feedback: Feedback

    def __init__(
        self,
        bandit: Any,
        horizon: int | None,
        loss_range: tuple[float, float],
        noise: Noise | None,
        config: dict[str, Any],
    ) -> None:
        self.bandit, self.horizon, self.loss_range = bandit, horizon, loss_range
        self._noise = source(noise).spawn(1)[0]  # its own: a saved state goes on from its place
        self._config = json.dumps({**config, "noise": type(self._noise).__name__})
        self._name = secrets.token_hex(8)
        self._learned = bytearray()  # one byte for each decision: whether its loss has come

    @property
    def rounds(self) -> int:
        """Decisions made."""
        return len(self._learned)

    @property
    def guarantee(self) -> Guarantee:
        """The computed promise."""
        return self._feedback.guarantee(1 in self._learned)

    def decide(self) -> Made:
        """Choose; reads nothing but what was released. Past the horizon it raises ValueError."""
        t = len(self._learned)
        if self.horizon is not None and t >= self.horizon:
            raise ValueError(
                f"the horizon of {self.horizon} rounds is over; build a learner with a longer one, "
                "or use Doubling"
            )
        decision = self._decision(t, self._name, self._feedback.choose(t))
        self._learned.append(0)
        return decision

    def learn(self, decision: Made, loss: float) -> bool:
        """Take the loss of a decision: any time later, in any order, once; it may never come.

        Returns whether it counted: under central trust a loss can be too late for its batch. A
        second loss, one outside the range, NaN, or a decision of another learner raises
        ValueError and changes nothing.
        """
        if not isinstance(decision, self._decision) or decision.learner != self._name:
            raise ValueError("expected a decision that this learner made")
        if not 0 <= decision.round < len(self._learned):
            raise ValueError("this learner never made that decision; was an old state loaded?")
        if self._learned[decision.round]:
            raise ValueError("this decision has had its loss; each counts once")
        try:
            value = float(loss)
        except (TypeError, ValueError, OverflowError):
            raise ValueError("loss must be a number") from None
        low, high = self.loss_range
        if not low <= value <= high:
            slack = 1e-9 * (high - low)  # rounding: a loss <l, x> at the border of the domain
            if not low - slack <= value <= high + slack:
                raise ValueError(f"loss must lie in [{low:g}, {high:g}]; rescale it")
            value = min(max(value, low), high)
        # Before the report is drawn: two reports of one loss would cost twice.
        self._learned[decision.round] = 1
        return self._feedback.take(decision, value)

    def record(self, decision: Made) -> dict[str, Any]:
        """A decision as plain values, ready for JSON: for losses that come in another process."""
        choice = self.bandit.pack(decision.choice).tolist()
        return {"round": decision.round, "learner": decision.learner, "choice": choice}

    def recall(self, record: dict[str, Any]) -> Made:
        """The decision that `record` described; a damaged record raises ValueError."""
        try:
            t, name, row = record["round"], record["learner"], finite("choice", record["choice"])
            if isinstance(t, bool) or not isinstance(t, int):
                raise ValueError("a round is a whole number")
            return self._decision(t, str(name), self.bandit.unpack(row))
        except (KeyError, TypeError, ValueError):
            raise ValueError("not a decision record of such a learner; use `record`") from None

    def state_dict(self) -> dict[str, Any]:
        """Arrays and plain values from which `load_state_dict` goes on."""
        return {
            "format": 1,
            "kind": type(self).__name__,
            "config": self._config,
            "name": self._name,
            "rounds": self.rounds,
            "learned": np.packbits(np.frombuffer(self._learned, dtype=np.uint8)),
            "noise": self._noise.state(),
            **self._feedback.state(),
            **{f"bandit.{name}": value for name, value in self.bandit.state_dict().items()},
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from a saved state; one that is older than this learner is refused."""
        expect(state, format=1, kind=type(self).__name__, config=self._config)
        if self.rounds and state["name"] != self._name:
            raise ValueError("the state is of another learner; load it into a new one")
        rounds, bits = state.get("rounds"), np.asarray(state.get("learned"))
        if (
            not isinstance(rounds, int)
            or not 0 <= rounds <= (rounds if self.horizon is None else self.horizon)
            or bits.dtype != np.uint8
            or bits.shape != ((rounds + 7) // 8,)
        ):
            raise ValueError("this state is damaged: rounds or learned are missing or do not fit")
        if rounds < self.rounds:
            raise ValueError(
                f"the state is at round {rounds}, this learner at {self.rounds}: "
                "releasing its batch again, with the same noise, would show exact differences"
            )
        learned = np.unpackbits(bits, count=rounds)
        keeps(np.frombuffer(self._learned, dtype=np.uint8), learned)
        noise = self._noise
        if isinstance(noise, SeededNoise):
            noise = SeededNoise.restored(state["noise"])
        read = self._feedback.read(state)
        head = "bandit."
        inner = {name.removeprefix(head): state[name] for name in state if name.startswith(head)}
        self.bandit.load_state_dict(inner)  # the last that can fail: nothing is changed before
        self._feedback.__dict__.update(read, noise=noise)
        self._name, self._learned, self._noise = state["name"], bytearray(learned), noise

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the state to a file, for the owner's eyes only. A state may go on once."""
        save_state(path, self.state_dict())

    @classmethod
    def _loaded(cls, path: str | os.PathLike[str], *parts: Any) -> Self:
        state = load_state(path)
        expect(state, format=1, kind=cls.__name__)
        config = json.loads(state["config"])
        loaded = cls(*parts, **{**config, "noise": source_named(config["noise"])})
        loaded.load_state_dict(state)
        return loaded


class PrivateReduction(PrivateBandit[Decision]):
    """Makes any bandit learner with scalar feedback locally private (Algorithm 4).

    `bandit.decide()` chooses; `learn(decision, loss)` turns the loss into a report of pure
    epsilon and calls `bandit.learn(choice, report)`. Reports are unbiased and lie outside the
    range of losses: the bandit must take any number. Saving needs its `state_dict`.

    Requires   every loss in `loss_range`; the bandit learns of losses in no other way.
    Guarantee  epsilon, local: each report is private by itself; with contributions=k each of a
               person's k reports runs at epsilon/k.

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

    _decision = Decision

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
        self.channel = BinaryChannel(epsilon, low=low, high=high, contributions=contributions)
        config = {
            "epsilon": self.channel.epsilon,
            "loss_range": [self.channel.low, self.channel.high],
            "contributions": self.channel.contributions,
        }
        bounds = (self.channel.low, self.channel.high)
        super().__init__(bandit, None, bounds, noise, config)
        self._feedback = Reports(bandit, self.channel, self._noise)

    @classmethod
    def load(cls, path: str | os.PathLike[str], bandit: ScalarBandit) -> Self:
        """Go on from a file, with a new bandit of the same kind to load its part into."""
        return cls._loaded(path, bandit)


def batch_size(rounds: float, horizon: int, budget: Budget, trust: str) -> int:
    """How many rounds a batch holds: about `rounds`/epsilon; one under local trust."""
    one_of("trust", trust, ("local", "central"))
    if trust == "local":
        return 1
    return min(horizon, max(1, math.ceil(rounds * budget.contributions / budget.epsilon)))
