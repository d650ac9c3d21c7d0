"""The server's side: it asks, adds reports up, and learns from sums. It never sees a record."""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Generic, TypeVar

import numpy as np

from discreet.arrays import Array
from discreet.local.report import Report, ReportSum
from discreet.local.state import PublicState
from discreet.privacy import Guarantee, Noise, Release
from discreet.privacy.noise import source

UNPROTECTED = (
    "that a report was sent, when, and which question it answers",
    "the public bounds",
)
REFERENCE = "Chen, Li, Rakhlin, Simchi-Levi (2025), with residual reports"
Belief = TypeVar("Belief")
State = TypeVar("State", bound=PublicState)


class Server(ABC, Generic[State, Belief]):
    """`ask` publishes, `take` adds reports up, `close` learns from the sums and asks anew.

    A report of an earlier window, or such as no device sends, is left out alone and counted
    (`refused`): its sender must not answer again, which would spend the budget twice. A subclass
    says what is learned (`_learn`), from sums of reports and from nothing else.

    state    what is asked first; None: no window is open
    belief   what is known before any report
    """

    def __init__(self, state: State | None, belief: Belief) -> None:
        self.taken = 0  # reports
        self.refused = 0
        self._published = state
        self._belief = belief
        self._sums = _empty(state)

    @property
    def done(self) -> bool:
        """Whether nothing is asked any more."""
        return self._published is None

    @property
    def belief(self) -> Belief:
        """What closed windows have taught: made of private reports, safe to publish."""
        return self._belief

    def ask(self) -> State:
        """The questions of the open window."""
        if self._published is None:
            raise ValueError("all windows are closed: nothing is asked; read the estimate")
        return self._published

    def take(self, report: Report) -> bool:
        """Add reports; False if any was left out."""
        if not isinstance(report, Report) or not isinstance(report.values, np.ndarray):
            raise TypeError(f"the server takes a Report, never a {type(report).__name__}")
        n = len(report.values) if report.values.ndim else 1
        kept = self._possible(report)
        if len(kept):
            self._sums[report.question].add(kept)
        self.taken += len(kept)
        self.refused += n - len(kept)
        return len(kept) == n

    def take_many(self, reports: Iterable[Report]) -> int:
        """Add reports; returns how many values were left out."""
        before = self.refused
        for report in reports:
            self.take(report)
        return self.refused - before

    def take_sum(self, window: int, question: str, reports: ReportSum, refused: int) -> int:
        """Add reports that were checked and added up elsewhere; returns how many were left out."""
        left_out = reports.count
        is_open = self._published is not None and window == self._published.window
        if is_open and question in self._sums:
            self._sums[question].merge(reports)
            left_out = 0
        self.taken += reports.count - left_out
        self.refused += refused + left_out
        return refused + left_out

    def close(self) -> State | None:
        """End the window: learn from its sums, and publish the next questions (None: the end)."""
        if self._published is None:
            raise ValueError("all windows are closed; read the estimate")
        belief, state = self._learn()
        # All or nothing: an interrupted close has learned nothing and can be repeated.
        self._belief, self._published, self._sums = belief, state, _empty(state)
        return state

    @abstractmethod
    def _learn(self) -> tuple[Belief, State | None]:
        """What is known after this window and the next state; changes nothing."""

    def _possible(self, report: Report) -> Array:
        """The values that a device could have sent in the open window."""
        if self._published is None or report.window != self._published.window:
            return np.empty(0)
        shape = self._published.shape(report.question)
        if shape is None or report.values.ndim == 0 or report.values.shape[1:] != shape:
            return np.empty(0)
        return report.values[self._published.channels[report.question].possible(report.values)]


def _empty(state: PublicState | None) -> dict[str, ReportSum]:
    return {} if state is None else {question.name: ReportSum() for question in state.questions}


def local_guarantee(
    state: PublicState,
    noise: Noise | None = None,
    *,
    sent: bool = True,
    unprotected: tuple[str, ...] = UNPROTECTED,
    reference: str = REFERENCE,
) -> Guarantee:
    """What each person is promised who answers the questions of a state.

    One report answers one question, so the questions are disjoint scopes; k reports of one person
    run at epsilon/k each and add up to epsilon, whichever questions they answer.
    """
    k = state.contributions
    drawn = source(noise)
    releases = []
    for question, channel in state.channels.items() if sent else ():
        (release,) = channel.guarantee.releases
        releases.append(
            Release.pure(
                what=f"{k} report(s) of one person, on {question}",
                mechanism=release.mechanism,
                norm=release.norm,
                sensitivity=release.sensitivity,
                scale=release.scale,
                sampler=drawn.sampler(release.mechanism),
                scope=question,
            )
        )
    limit = f"people in more than {k} round(s) (whoever calls must enforce that limit)"
    return Guarantee(
        epsilon=state.epsilon,
        delta=0.0,
        trust="local",
        contributions=k,
        releases=tuple(releases),
        unprotected=unprotected if k == 1 else (*unprotected, limit),
        reference=reference,
    )
