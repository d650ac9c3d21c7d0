"""From a bandit learner to a private one (Agarwal and Singh 2017, Algorithm 4).

    paper   A             x~_t       <l_t, x~_t>   <l_t, x~_t> + <Z_t, x~_t>
    here    self.bandit   `choice`   `loss`        `ScalarChannel.report(loss)`

Only the scalar <l_t, x~_t> is ever seen, so noise on the scalar is enough: it is smaller than
<Z_t, x~_t>, leaves the learner unbiased and makes each report private by itself (local trust).
Central trust waits instead: `Batches` holds one choice for several rounds and gives the learner
one noisy mean of their losses (Asi, Raman, Talwar 2025).
"""

import json
import math
import os
import secrets
from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from typing import Any, Generic, Protocol, Self, TypeVar

import numpy as np

from discreet.privacy import Budget, Guarantee, Noise, SeededNoise
from discreet.privacy.checks import Array, one_of
from discreet.privacy.ledger import Ledger
from discreet.privacy.local import _Channel
from discreet.privacy.mechanisms import laplace
from discreet.privacy.noise import source, source_named
from discreet.privacy.release import Release
from discreet.privacy.state import expect, load_state, save_state

RESPONSE, LAPLACE = "randomized response", "laplace"
UNPROTECTED = ("that a loss came, and when", "the horizon and the public bounds")
ONE_PROCESS = (
    "the decision served, to whoever serves it",
    "anything, against whoever runs this process: device and learner are one here",
)


class ScalarChannel(_Channel):
    """Unbiased, pure epsilon-LDP reports of one number in [low, high].

    Randomised response reports one of two values, c half widths from the middle,
    c = (e^epsilon + 1)/(e^epsilon - 1); Laplace noise has scale (high - low)/epsilon.
    mechanism="auto" takes the smaller second moment for a number that is uniform on the interval:
    randomised response up to epsilon = 3.

    >>> from discreet.privacy import SeededNoise
    >>> channel = ScalarChannel(1.0, low=0.0, high=1.0)
    >>> reports = [channel.report(0.3, SeededNoise(seed)) for seed in range(1000)]
    >>> channel.mechanism, abs(sum(reports) / 1000 - 0.3) < 0.15
    ('randomized response', True)
    """

    reference = "Warner (1965); Dwork, McSherry, Nissim and Smith (2006)"

    def __init__(
        self,
        epsilon: float,
        *,
        low: float,
        high: float,
        contributions: int = 1,
        mechanism: str = "auto",
    ) -> None:
        super().__init__(epsilon, contributions)
        self.low, self.high = float(low), float(high)
        if not -math.inf < self.low < self.high < math.inf:
            raise ValueError(f"expected finite low < high, got low={low!r}, high={high!r}")
        self.middle, self.half = (self.low + self.high) / 2, (self.high - self.low) / 2
        self._c = 1 / math.tanh(self.report_epsilon / 2)
        # Two numbers in [-1, 1] differ by at most 2, so Laplace noise has scale 2/epsilon.
        spread = 2 / self.report_epsilon
        smaller = RESPONSE if self._c**2 <= 1 / 3 + 2 * spread**2 else LAPLACE
        one_of("mechanism", mechanism, ("auto", RESPONSE, LAPLACE))
        self.mechanism = smaller if mechanism == "auto" else mechanism
        if self.off:
            moment, reach = 1.0, 1.0
        elif self.mechanism == RESPONSE:
            moment, reach = self._c**2, self._c
        else:
            moment, reach = 1 + 2 * spread**2, 1 + 2 * spread
        self.second_moment = self.half**2 * moment  # of report - middle, at the worst number
        self.reach = self.half * reach  # |report - middle|; Laplace goes beyond it 1 time in 7

    def report(self, value: float, noise: Noise) -> float:
        """One report of a number that lies in [low, high]."""
        if self.off:
            return value
        if not self._samplers:
            self._source(noise)
        if self.mechanism == LAPLACE:
            # Two numbers in [low, high] differ by at most its length.
            width = self.high - self.low
            released = laplace(value, sensitivity=width, epsilon=self.report_epsilon, noise=noise)
            return float(released.value)
        x = min(max((value - self.middle) / self.half, -1.0), 1.0)
        up = float(noise.uniform(1)[0]) < (1 + x / self._c) / 2
        return self.middle + (self._c if up else -self._c) * self.half


class ScalarBandit(Protocol):
    """A bandit learner that chooses something, then sees one number: less is better."""

    def decide(self) -> Any:
        """Choose; the choice holds all that `learn` needs to know about this round."""

    def learn(self, choice: Any, loss: float) -> None:
        """Take the loss of a choice, at any later time; any finite number must do."""


class BatchBandit(ScalarBandit, Protocol):
    """A bandit learner whose choices can be held for a whole batch."""

    def again(self, choice: Any) -> Any:
        """The same choice for one more round; only `sign`, +1 or -1, may be drawn afresh."""

    def pack(self, choice: Any) -> Array:
        """A choice as numbers, the same count for each."""

    def unpack(self, numbers: Array) -> Any:
        """The choice that `pack` wrote."""

    def state_dict(self) -> dict[str, Any]:
        """Arrays and plain values."""

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from `state_dict`."""


@dataclass(frozen=True, eq=False, slots=True)
class Decision:
    """One choice. Keep it until its loss comes."""

    round: int
    learner: str = field(repr=False)  # whose decision this is
    choice: Any  # what the bandit chose


Made = TypeVar("Made", bound=Decision)


class Feedback(ABC):
    """How losses reach the bandit: the only place where private data meets anything else."""

    @abstractmethod
    def choose(self, t: int) -> Any:
        """The choice of round t."""

    @abstractmethod
    def take(self, decision: Decision, loss: float) -> bool:
        """Take a loss; False if it came too late to count."""

    @abstractmethod
    def guarantee(self, taken: bool) -> Guarantee:
        """The computed promise."""

    def state(self) -> dict[str, Any]:
        """Arrays and plain values that `read` understands."""
        return {}

    def read(self, state: dict[str, Any]) -> dict[str, Any]:
        """The attributes that `state` described; changes nothing."""
        return {}


class Reports(Feedback):
    """Local trust: the loss becomes a report at once, and the bandit sees the report."""

    def __init__(self, bandit: ScalarBandit, channel: ScalarChannel, noise: Noise) -> None:
        self.bandit, self.channel, self.noise = bandit, channel, noise

    def choose(self, t: int) -> Any:
        """Whatever the bandit chooses."""
        return self.bandit.decide()

    def take(self, decision: Decision, loss: float) -> bool:
        """Forward a report of the loss (Algorithm 4, lines 3 to 5)."""
        self.bandit.learn(decision.choice, self.channel.report(loss, self.noise))
        return True

    def guarantee(self, taken: bool) -> Guarantee:
        """The channel's."""
        if taken and not self.channel.off:
            self.channel._source(self.noise)
        promise, k = self.channel.guarantee, self.channel.contributions
        limit = f"people in more than {k} rounds (whoever calls must enforce that limit)"
        return replace(
            promise,
            releases=promise.releases if taken else (),
            unprotected=(*UNPROTECTED, *ONE_PROCESS, *((limit,) if k > 1 else ())),
            reference="Agarwal and Singh (2017), Algorithm 4, noise on the scalar loss",
        )


@dataclass(slots=True)
class _Batch:
    choice: Any
    total: float  # noise + sum of sign (loss - middle)
    due: int = 0  # losses that have not come


class Batches(Feedback):
    """Central trust: one choice is held for `size` rounds, and one noisy mean is released.

    A batch is released when a new one begins and all its losses have come; one that misses losses
    is released without them when the batch `patience` places later has ended. A missing loss
    counts as the middle of the range. Which round is in which batch is public, so the batches
    are disjoint and each has the whole budget.
    """

    def __init__(
        self,
        bandit: BatchBandit,
        size: int,
        horizon: int,
        budget: Budget,
        loss_range: tuple[float, float],
        noise: Noise,
    ) -> None:
        self.bandit, self.size, self.noise = bandit, size, noise
        self.patience = min(64, max(1, horizon // size // 32))
        self.ledger = Ledger(budget)
        low, high = loss_range
        self.middle, k = (low + high) / 2, budget.contributions
        self._spacing = noise.spacing(LAPLACE, k * (high - low) / budget.epsilon, size * high)
        # A replaced loss moves its batch's sum by at most high - low, whatever its sign, and by
        # one spacing more when losses are rounded to the lattice; k rounds of one person by k
        # times that, in one batch or spread over several (their costs k_i/k epsilon add up).
        sensitivity = k * (high - low + self._spacing)
        self.release = Release.pure(
            what=f"sum of the losses of {size} round(s), for every batch; a round is in one batch",
            mechanism=LAPLACE,
            norm="l1",
            sensitivity=sensitivity,
            scale=sensitivity / budget.epsilon,
            sampler=noise.sampler(LAPLACE),
        )
        self._open: dict[int, _Batch] = {}

    def choose(self, t: int) -> Any:
        """The batch's choice; the first round of a batch makes it, after the releases due."""
        if t % self.size == 0:
            return self._turn(t // self.size)
        batch = self._open[t // self.size]
        batch.due += 1
        return self.bandit.again(batch.choice)

    def take(self, decision: Decision, loss: float) -> bool:
        """Add a loss to its batch, unless the batch has been released."""
        batch = self._open.get(decision.round // self.size)
        if batch is None:
            return False
        term = loss - self.middle
        if self._spacing:
            term = round(term / self._spacing) * self._spacing
        batch.total += term if decision.choice.sign > 0 else -term
        batch.due -= 1
        return True

    def guarantee(self, taken: bool) -> Guarantee:
        """The ledger's."""
        return self.ledger.guarantee(
            trust="central",
            unprotected=UNPROTECTED,
            reference="Asi, Raman and Talwar (2025), batches; Agarwal and Singh (2017)",
        )

    def _turn(self, index: int) -> Any:
        """Release what is due, then open the next batch with its noise already in the sum."""
        if not index:
            self.ledger.spend(self.release)
        for old, batch in list(self._open.items()):
            if batch.due == 0 or index - old > self.patience:
                del self._open[old]
                mean = batch.choice.sign * batch.total / self.size
                self.bandit.learn(batch.choice, self.middle + mean)
        scale, start = self.release.scale, 0.0
        if scale:
            start = float(self.noise.laplace(scale, 1, self._spacing)[0])
        batch = self._open[index] = _Batch(self.bandit.decide(), start, due=1)
        return batch.choice

    def state(self) -> dict[str, Any]:
        """The noisy sums of open batches, and what was spent."""
        batches = self._open.values()
        return {
            "batch.index": np.array(list(self._open), dtype=np.int64),
            "batch.total": np.array([batch.total for batch in batches]),
            "batch.due": np.array([batch.due for batch in batches], dtype=np.int64),
            "batch.choice": np.array([self.bandit.pack(batch.choice) for batch in batches]),
            "ledger": json.dumps(self.ledger.state_dict()),
        }

    def read(self, state: dict[str, Any]) -> dict[str, Any]:
        """The attributes that `state` described."""
        ledger = Ledger(self.ledger.budget)
        ledger.load_state_dict(json.loads(state["ledger"]))
        rows = zip(state["batch.choice"], state["batch.total"], state["batch.due"], strict=True)
        batches = [_Batch(self.bandit.unpack(row), float(x), int(due)) for row, x, due in rows]
        index = [int(i) for i in state["batch.index"]]
        return {"ledger": ledger, "_open": dict(zip(index, batches, strict=True))}


class PrivateBandit(Generic[Made]):
    """decide and learn over a private feedback; save and load. What these learners share."""

    _decision: type[Made]
    _feedback: Feedback

    def __init__(
        self,
        bandit: Any,
        horizon: int | None,
        loss_range: tuple[float, float],
        noise: Noise,
        config: dict[str, Any],
    ) -> None:
        self.bandit, self.horizon, self.loss_range = bandit, horizon, loss_range
        self._noise = noise
        self._config = json.dumps({**config, "noise": type(noise).__name__})
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
        if t == self.horizon:
            raise ValueError(
                f"the horizon of {t} rounds is over; build a learner with a longer one, "
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
        if state["rounds"] < self.rounds:
            raise ValueError(
                f"the state is at round {state['rounds']}, this learner at {self.rounds}: "
                "releasing its batch again, with the same noise, would show exact differences"
            )
        learned = np.unpackbits(state["learned"], count=state["rounds"])
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
        mechanism: str = "auto",
        contributions: int = 1,
        noise: Noise | None = None,
    ) -> None:
        noise, (low, high) = source(noise), loss_range
        self.channel = ScalarChannel(
            epsilon, low=low, high=high, contributions=contributions, mechanism=mechanism
        )
        config = {
            "epsilon": self.channel.epsilon,
            "loss_range": [self.channel.low, self.channel.high],
            "mechanism": mechanism,
            "contributions": self.channel.contributions,
        }
        bounds = (self.channel.low, self.channel.high)
        super().__init__(bandit, None, bounds, noise, config)
        self._feedback = Reports(bandit, self.channel, noise)

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
