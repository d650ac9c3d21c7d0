"""A person's device: it answers in private, and no server can make it say more than it promised."""

import math
from dataclasses import asdict, dataclass, fields, replace
from secrets import token_hex
from typing import Any, Never

import numpy as np
from numpy.typing import ArrayLike

from discreet.arrays import Array, integer, positive
from discreet.decisions import Decision
from discreet.local.questions import answer, scaled_outcomes, scaled_rows
from discreet.local.report import Report
from discreet.local.server import local_guarantee
from discreet.local.state import PublicState
from discreet.privacy import Guarantee, Shuffled
from discreet.privacy.noise import Noise, source
from discreet.privacy.shuffle import PlannedBatch
from discreet.state.claims import Live, resume, taken
from discreet.state.values import Part


@dataclass(frozen=True)
class Promise:
    """The person's own limits: at most `contributions` reports, each of epsilon/contributions.

    With a delta reports are shuffled: (epsilon, delta) is promised against everybody but the relay.
    That promise counts on others: `honest` and `minimum` say on how many, as fractions of a batch
    of any size, and it may not count on more.

    epsilon         of everything that a device will ever send; inf: bare records
    delta           of everything, where reports are shuffled; 0: they are private by themselves
    local_epsilon   where reports are shuffled, the most that one of them costs by itself

    What is None below holds as the first state says it, from then on.

    contributions   the most reports
    dim             number of features
    norm_bound      features are shortened to this Euclidean norm
    outcome_range   labels or rewards are clipped to it
    honest          of a planned batch, the most that may be counted on to be drawn honestly
    minimum         of a planned batch, the least that may be released
    """

    epsilon: float
    delta: float = 0.0
    local_epsilon: float = Shuffled.local_epsilon
    contributions: int | None = None
    dim: int | None = None
    norm_bound: float | None = None
    outcome_range: tuple[float, float] | None = None
    honest: float | None = None
    minimum: float | None = None

    def __post_init__(self) -> None:
        positive("epsilon", self.epsilon, allow_inf=True)
        positive("local_epsilon", self.local_epsilon)
        if self.contributions is not None:
            integer("contributions", self.contributions)
        if not 0 <= self.delta < 1:
            raise ValueError(f"delta must lie in [0, 1), got {self.delta!r}")
        for name in ("honest", "minimum"):
            fraction = getattr(self, name)
            if fraction is not None and not 0 <= fraction <= 1:  # False for NaN
                raise ValueError(f"{name} must lie in [0, 1], a part of a batch, got {fraction!r}")

    def to(self, state: PublicState) -> "Promise":
        """This promise to those who answer a state, which says what the promise leaves open."""
        if state.batch is not None and self.delta == 0:
            raise ValueError(
                "reports of this state are shuffled: state delta too, the person's own limit"
            )
        self.check(state)
        open_to = ("contributions", "dim", "norm_bound", "outcome_range")
        stated = {name: getattr(state, name) for name in open_to}
        if state.batch is not None:
            stated["honest"] = state.batch.honest_fraction
            stated["minimum"] = state.batch.minimum_fraction
        return replace(self, **{k: v for k, v in stated.items() if getattr(self, k) is None})

    def check(self, state: PublicState) -> None:
        """Refuse a state that asks for more, or for something else."""
        k = self._most(state)
        for name in ("dim", "norm_bound", "outcome_range"):
            if getattr(self, name) not in (None, getattr(state, name)):
                raise ValueError(f"this device was promised another {name}; the state is refused")
        if (state.batch is None) != (self.delta == 0):
            raise ValueError(
                "this device was promised that its reports are shuffled, or that they are not; a "
                "state with the other trust is refused"
            )
        if state.contributions > k:
            raise ValueError(f"this device was promised contributions={k} at most, not more")
        if state.batch is not None:
            self._check_batch(state, state.batch, k)
            return
        if not state.epsilon <= self.epsilon:
            raise ValueError(f"this device answers up to epsilon={self.epsilon:g} in all, not more")
        most = self.epsilon / k
        if not state.epsilon / state.contributions <= most:
            raise ValueError(
                f"this device sends up to {k} reports of epsilon={most:g} each: a state with fewer "
                "contributions must ask for a smaller epsilon too"
            )

    def includes(self, stated: "Promise") -> bool:
        """Whether it says what a person states, who may leave some of it open."""
        return all(
            getattr(stated, each.name) in (None, getattr(self, each.name)) for each in fields(self)
        )

    def _most(self, state: PublicState) -> int:
        return state.contributions if self.contributions is None else self.contributions

    def _check_batch(self, state: PublicState, batch: PlannedBatch, k: int) -> None:
        """The bound is computed here, from the person's own limits and the stated batch."""
        if not (batch.epsilon <= self.epsilon and batch.delta <= self.delta):
            raise ValueError(
                f"this device answers up to epsilon={self.epsilon:g}, delta={self.delta:g} in all, "
                "not more"
            )
        # As they are said, not as a batch of some size rounds them: the numbers follow.
        honest = 1.0 if self.honest is None else self.honest
        minimum = 0.0 if self.minimum is None else self.minimum
        if not (batch.honest_fraction <= honest and batch.minimum_fraction >= minimum):
            raise ValueError(
                "this device was promised a crowd of which fewer need to be honest, or more need "
                "to arrive; the state is refused"
            )
        each = state.report_epsilon
        if math.isinf(self.epsilon):
            return
        if not each <= self.local_epsilon:
            raise ValueError(
                f"this device sends reports of epsilon={self.local_epsilon:g} by themselves, not "
                "more"
            )
        mine = replace(batch, epsilon=self.epsilon, delta=self.delta,
                       local_epsilon=self.local_epsilon)  # fmt: skip
        if not mine.keeps_promise(each, k):
            raise ValueError(
                "the stated batch is too small for reports of this epsilon: the promise would not "
                "hold; the state is refused"
            )


class Device(Part):
    """One person's device: it keeps the record to itself and sends one report for each.

    No server sets the promise. A state beyond it is refused, by `update` too, before any record is
    seen. Where reports are shuffled, the device computes from the stated batch what its report will
    cost, and answers once in each window.

    Where the state is a bandit's policy, `decide` chooses by it and `report` tells the reward; a
    late one answers the question that is open when it comes. `answer` tells of any record.

    A device that restarts needs its promise and what it has sent: keep `memory()` and go on with
    `Device.restarted(state, memory)`. One memory restarts one device, which then takes the place of
    the one before.

    state     what the server published, checked (`PublicState.from_dict`)
    promise   the person's own limits
    noise     of the reports; None is the operating system's entropy
    seed      of the public coins: actions, and which question is answered. Where reports are
              shuffled the question is hidden too, and its coin comes from `noise`

    Total: after the shapes are checked, which are public, every record leads to exactly one report.
    Features and outcomes beyond the public bounds are cut; those that are not finite answer 0.

    >>> from discreet.local.questions import Question
    >>> from discreet.local.state import PublicState
    >>> from discreet.privacy import SeededNoise
    >>> question = Question("moment", "moment", clip=1.0, fraction=1.0)
    >>> state = PublicState.start(2, 1.0, (question,))
    >>> device = Device(state, Promise(epsilon=1.0), noise=SeededNoise(0), seed=0)
    >>> device.answer([0.6, 0.8], 0.5).values.shape, device.sent
    ((1, 2), 1)
    """

    def __init__(
        self,
        state: PublicState,
        promise: Promise,
        *,
        noise: Noise | None = None,
        seed: int | None = None,
    ) -> None:
        _expect_state(state)
        if not isinstance(promise, Promise):
            raise TypeError(f"expected the person's Promise, got {type(promise).__name__}")
        self.promise = promise.to(state)
        self.sent = 0
        self.answered = -1  # the last window, where reports are shuffled
        self._public = state
        self._rng = np.random.default_rng(seed)
        self._noise = source(noise)
        self._live = Live()
        self._run = token_hex(8)
        self._name = token_hex(8)
        self._rounds = 0
        self._pending: set[int] = set()

    @classmethod
    def restarted(
        cls,
        state: PublicState,
        memory: dict[str, Any],
        *,
        noise: Noise | None = None,
        seed: int | None = None,
    ) -> "Device":
        """The device that this memory was taken from, which ends with it."""
        try:
            limits = dict(memory["promise"])
            low, high = limits["outcome_range"]
            promise = Promise(**{**limits, "outcome_range": (low, high)})
            sent = integer("sent", memory["sent"], least=0)
            answered = integer("answered", memory["answered"], least=-1)
            run = memory["run"]
        except (KeyError, TypeError):
            raise ValueError("not the memory of a device; use Device.memory()") from None
        device = cls(state, promise, noise=noise, seed=seed)
        device.sent, device.answered, device._run = sent, answered, run
        resume(run, device._encoded(), device)
        return device

    @property
    def state(self) -> PublicState:
        """What this device answers to."""
        return self._public

    @property
    def guarantee(self) -> Guarantee:
        """What the person is promised."""
        return local_guarantee(self._public, self._noise, sent=self.sent > 0)

    def update(self, state: PublicState) -> None:
        """Follow a newer state, within the limits of this device."""
        _expect_state(state)
        if not isinstance(state, type(self._public)):
            raise TypeError(
                f"expected a {type(self._public).__name__}, which this device decides by"
            )
        self.promise.check(state)
        with self._live:
            if state.window < self._public.window:
                raise ValueError(
                    "expected a newer state: window numbers only grow; the state is refused"
                )
            self._public = state

    def decide(self, features: ArrayLike) -> Decision:  # (actions, dim)
        """Choose an action by a bandit's policy; nothing leaves the device."""
        state = self._public
        rule = state.rule
        offered = scaled_rows(features, state.dim, state.norm_bound)
        action = int(rule.choose(offered[None], self._rng.random(1))[0])
        with self._live:
            number = self._rounds
            self._pending.add(number)
            self._rounds += 1
        return Decision(number, action, offered[action], self._name, offered, rule)

    def report(self, decision: Decision, reward: float) -> Report:
        """The one report of a round."""
        row = self._shaped(decision.row, reward)
        with self._live:
            if decision.learner != self._name or decision.round not in self._pending:
                raise ValueError("expected a decision of this device that has not been reported")
            state = self._count()
            self._pending.remove(decision.round)
        return self._send(state, scaled_rows(row, state.dim, 1.0), reward)

    def answer(self, features: ArrayLike, outcome: float) -> Report:  # (d,)
        """The report of one record."""
        row = self._shaped(features, outcome)
        with self._live:
            state = self._count()
        return self._send(state, scaled_rows(row, state.dim, state.norm_bound), outcome)

    def _shaped(self, features: ArrayLike, outcome: float) -> Any:  # (d,) -> (1, d)
        """Shapes are public."""
        row = np.array(features)
        if row.shape != (self._public.dim,) or np.shape(outcome) != ():
            raise ValueError(f"expected features of shape ({self._public.dim},) and one outcome")
        return row[None]

    def memory(self) -> dict[str, Any]:
        """What a restarted device must be given; plain values."""
        with self._live.looking():
            taken(self, self._encoded())
            return {**self._encoded(), "run": self._run}

    def _encoded(self) -> dict[str, Any]:
        return {"promise": asdict(self.promise), "sent": self.sent, "answered": self.answered}

    def _count(self) -> PublicState:
        """The state to answer to, under the lock; the report that it counts answers to no other.

        Counted before it is sent: an interruption costs a report, and never sends two.
        """
        state = self._public
        if self.sent >= self.promise._most(state):
            raise ValueError(f"this device has sent its {self.sent} report(s): no budget is left")
        if state.batch is not None:
            if state.window <= self.answered:
                raise ValueError(
                    "this device has answered in this window: a second report in the same batch "
                    "would not be covered; wait for a newer state"
                )
            self.answered = state.window
        self.sent += 1
        return state

    def _send(self, state: PublicState, row: Array, outcome: float) -> Report:  # (1, d)
        """One answer to one question, of a row in units of the norm bound.

        A coin says to which; never the record. Where the report hides in a crowd the coin is
        private: a question that others could foretell would leave the crowd that answers it.
        """
        private_coin = state.batch is not None
        coin = float(self._noise.uniform(1)[0]) if private_coin else self._rng.random()
        question = state.questions[int(state.asked(coin))]
        y = scaled_outcomes([outcome], state.outcome_range)
        values = answer(row, y, question, state.theta, state.whitening)
        private = state.channels[question.name].send(values, self._noise)
        return Report(state.window, question.name, private)

    def __reduce_ex__(self, protocol: Any) -> Never:
        raise TypeError("a copy of a device would report twice; restart one from memory()")


def _expect_state(state: object) -> None:
    if not isinstance(state, PublicState):
        raise TypeError(f"expected a PublicState, got {type(state).__name__}; use from_dict")
