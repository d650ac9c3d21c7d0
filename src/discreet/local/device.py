"""A person's device: it answers in private, and no server can make it say more than it promised."""

import math
from dataclasses import asdict, dataclass, replace
from typing import Any, Never

import numpy as np
from numpy.typing import ArrayLike

from discreet.arrays import Array, integer, positive
from discreet.local.questions import answer
from discreet.local.record import scaled_outcomes, scaled_rows
from discreet.local.report import Report
from discreet.local.server import local_guarantee
from discreet.local.state import PublicState
from discreet.privacy import Crowd, Guarantee, Noise
from discreet.privacy.crowd import PlannedBatch
from discreet.privacy.noise import source
from discreet.state.claims import Live


@dataclass(frozen=True)
class Promise:
    """What a device keeps to: at most `contributions` reports, each of epsilon/contributions.

    With a delta reports are shuffled: (epsilon, delta) is promised against everybody but the relay,
    and `local_epsilon` is the most that one report costs by itself. That promise counts on others:
    `honest` and `minimum` are what it was first said to count on, as fractions of a batch of any
    size, and it may not count on more.
    """

    dim: int  # of a feature row
    epsilon: float  # of all reports together
    delta: float  # of all reports together; 0: they are not shuffled
    local_epsilon: float  # of one report by itself, where they are shuffled
    contributions: int  # the most reports
    norm_bound: float  # of a feature row
    outcome_range: tuple[float, float]  # of an outcome
    honest: float = 1.0  # of a planned batch, the most that may be counted on to be honest
    minimum: float = 0.0  # of a planned batch, the least that may be released

    def check(self, state: PublicState) -> None:
        """Refuse a state that asks for more, or for something else."""
        k = self.contributions
        for name in ("dim", "norm_bound", "outcome_range"):
            if getattr(state, name) != getattr(self, name):
                raise ValueError(f"this device was promised another {name}; the state is refused")
        if (state.batch is None) != (self.delta == 0):
            raise ValueError(
                "this device was promised that its reports are shuffled, or that they are not; a "
                "state with the other trust is refused"
            )
        if state.batch is not None:
            self._check_batch(state, state.batch)
            return
        if not state.epsilon <= self.epsilon:
            raise ValueError(f"this device answers up to epsilon={self.epsilon:g} in all, not more")
        if state.contributions > k:
            raise ValueError(f"this device was promised contributions={k} at most, not more")
        most = self.epsilon / k
        if not state.epsilon / state.contributions <= most:
            raise ValueError(
                f"this device sends up to {k} reports of epsilon={most:g} each: a state with fewer "
                "contributions must ask for a smaller epsilon too"
            )

    def _check_batch(self, state: PublicState, batch: PlannedBatch) -> None:
        """The bound is computed here, from the person's own limits and the stated batch."""
        if not (batch.epsilon <= self.epsilon and batch.delta <= self.delta):
            raise ValueError(
                f"this device answers up to epsilon={self.epsilon:g}, delta={self.delta:g} in all, "
                "not more"
            )
        if state.contributions > self.contributions:
            raise ValueError(
                f"this device was promised contributions={self.contributions} at most, not more"
            )
        # As they are said, not as a batch of some size rounds them: the numbers follow.
        if not (batch.honest_fraction <= self.honest and batch.minimum_fraction >= self.minimum):
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
        if not mine.keeps_promise(each, self.contributions):
            raise ValueError(
                "the stated batch is too small for reports of this epsilon: the promise would not "
                "hold; the state is refused"
            )


class Device:
    """One person's device: it sends at most `contributions` reports, one for each record.

    The limits are the person's own: no server sets epsilon, nor delta. What else is not stated is
    taken from the first state. A state beyond the limits is refused, by `update` too, before any
    record is seen. Where reports are shuffled, the device computes from the stated batch what its
    report will cost, and answers once in each window.

    A device that restarts needs the limits and the number of reports that it has sent: keep
    `memory()` and pass it on, `Device(state, **memory)`.

    state           what the server published, checked (`PublicState.from_dict`)
    epsilon         of everything that this device will ever send; inf: bare records
    contributions   the most reports
    norm_bound      features are shortened to this Euclidean norm
    outcome_range   labels or rewards are clipped to it
    delta           of everything, where reports are shuffled; epsilon is then what everybody but
                    the relay can learn. 0: reports are private by themselves
    local_epsilon   where reports are shuffled, the most that one of them costs by itself
    honest          where reports are shuffled, the most of a planned batch that the promise may
                    count on to be drawn honestly
    minimum         where reports are shuffled, the least of a planned batch that may be released
    sent            reports sent before
    answered        the last window that was answered, where reports are shuffled
    seed            of the public coins: which question is answered. Where reports are shuffled the
                    question is hidden too, and its coin comes from `noise`
    noise           of the reports; None is the operating system's entropy

    Total: after the shapes are checked, which are public, every record leads to exactly one report.
    Features or an outcome that are not finite answer 0.

    >>> from discreet.local import PublicState, Question
    >>> from discreet.privacy import SeededNoise
    >>> question = Question("moment", "moment", clip=1.0, fraction=1.0)
    >>> state = PublicState.start(2, 1.0, (question,))
    >>> device = Device(state, epsilon=1.0, seed=0, noise=SeededNoise(0))
    >>> device.answer([0.6, 0.8], 0.5).values.shape, device.sent
    ((1, 2), 1)
    """

    def __init__(
        self,
        state: PublicState,
        *,
        epsilon: float,
        contributions: int | None = None,
        norm_bound: float | None = None,
        outcome_range: tuple[float, float] | None = None,
        delta: float = 0.0,
        local_epsilon: float = Crowd.local_epsilon,
        honest: float | None = None,
        minimum: float | None = None,
        sent: int = 0,
        answered: int = -1,
        seed: int | None = None,
        noise: Noise | None = None,
    ) -> None:
        _expect_state(state)
        batch = state.batch
        if batch is not None and delta == 0:
            raise ValueError(
                "reports of this state are shuffled: state delta too, the person's own limit"
            )
        if batch is not None and honest is None:
            honest = batch.honest_fraction
        if batch is not None and minimum is None:
            minimum = batch.minimum_fraction
        bound = state.norm_bound if norm_bound is None else norm_bound
        low, high = state.outcome_range if outcome_range is None else outcome_range
        self.promise = Promise(
            dim=state.dim,
            epsilon=positive("epsilon", epsilon, allow_inf=True),
            delta=_fraction("delta", delta),
            local_epsilon=positive("local_epsilon", local_epsilon),
            contributions=integer(
                "contributions", state.contributions if contributions is None else contributions
            ),
            norm_bound=positive("norm_bound", bound),
            outcome_range=(float(low), float(high)),
            honest=1.0 if honest is None else _part("honest", honest),
            minimum=0.0 if minimum is None else _part("minimum", minimum),
        )
        self.promise.check(state)
        self.sent = integer("sent", sent, least=0)
        self.answered = integer("answered", answered, least=-1)
        self._state = state
        self._rng = np.random.default_rng(seed)
        self._noise = source(noise)
        self._live = Live()

    @property
    def state(self) -> PublicState:
        """What this device answers to."""
        return self._state

    @property
    def guarantee(self) -> Guarantee:
        """What the person is promised."""
        return local_guarantee(self._state, self._noise, sent=self.sent > 0)

    def update(self, state: PublicState) -> None:
        """Follow a newer state, within the limits of this device."""
        _expect_state(state)
        self.promise.check(state)
        with self._live:
            if state.window < self._state.window:
                raise ValueError(
                    "expected a newer state: window numbers only grow; the state is refused"
                )
            self._state = state

    def answer(self, features: ArrayLike, outcome: float) -> Report:  # (d,)
        """The report of one record."""
        if np.shape(features) != (self.promise.dim,) or np.shape(outcome) != ():
            raise ValueError(f"expected features of shape ({self.promise.dim},) and one outcome")
        with self._live:
            state = self._count()
        row = scaled_rows(np.reshape(np.array(features), (1, -1)), self.promise.dim,
                          self.promise.norm_bound)  # fmt: skip
        return self._send(state, row, outcome)

    def memory(self) -> dict[str, Any]:
        """What a restarted device must be given; plain values."""
        limits = asdict(self.promise)
        del limits["dim"]
        return {**limits, "sent": self.sent, "answered": self.answered}

    def _count(self) -> PublicState:
        """The state to answer to, under the lock; the report that it counts answers to no other.

        Counted before it is sent: an interruption costs a report, and never sends two.
        """
        state = self._state
        if self.sent >= self.promise.contributions:
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
        y = scaled_outcomes([outcome], self.promise.outcome_range)
        values = answer(row, y, question, state.theta, state.whitening)
        private = state.channels[question.name].send(values, self._noise)
        return Report(state.window, question.name, private)

    def __reduce_ex__(self, protocol: Any) -> Never:
        raise TypeError("a copy of a device would report twice; restart one from memory()")


def _fraction(name: str, value: float) -> float:
    if not 0 <= value < 1:
        raise ValueError(f"{name} must lie in [0, 1), got {value!r}")
    return float(value)


def _part(name: str, value: float) -> float:
    if not 0 <= value <= 1:  # False for NaN
        raise ValueError(f"{name} must lie in [0, 1], a part of a batch, got {value!r}")
    return float(value)


def _expect_state(state: object) -> None:
    if not isinstance(state, PublicState):
        raise TypeError(f"expected a PublicState, got {type(state).__name__}; use from_dict")
