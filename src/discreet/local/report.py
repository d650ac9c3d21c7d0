"""What leaves a device: private already. And sums of it: all that a server keeps."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np

from discreet.arrays import Array, finite, integer
from discreet.local.questions import NAME, answer
from discreet.local.state import PublicState
from discreet.privacy.noise import Noise
from discreet.state import value

MEMORY = 2**20  # numbers of one piece of work


@dataclass(frozen=True)
class Report:
    """What a device sends: one private answer to one question of a window.

    >>> Report.from_dict(Report(0, "moment", np.ones((1, 2))).to_dict()).question
    'moment'
    """

    window: int  # in which it was asked
    question: str  # its name
    values: Array = field(repr=False)  # (1, *shape of an answer)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        return {"window": self.window, "question": self.question, "values": self.values.tolist()}

    @classmethod
    def from_dict(cls, record: dict[str, Any]) -> "Report":
        """A report from `to_dict`; a damaged record raises ValueError."""
        try:
            window, question, values = record["window"], record["question"], record["values"]
        except (KeyError, TypeError):
            raise ValueError("not a report; use Report.to_dict") from None
        if not isinstance(question, str) or len(question) > NAME:
            raise ValueError("not a report: question must be the name of a question")
        return cls(integer("window", window, least=0), question, finite("values", values))


@dataclass(frozen=True)
class Answers:
    """Answers of n people to one question, where devices and server are one process: simulations.

    A device sends a `Report`, and a server that takes reports takes no answers for one: one sender
    would count n times. They have a door of their own, `Server.take_answers`.
    """

    window: int  # in which it was asked
    question: str  # its name
    values: Array = field(repr=False)  # (n, *shape of an answer), each private


def report_many(
    rows: Array, outcomes: Array, state: PublicState, coins: Array, noise: Noise
) -> Iterator[Answers]:  # (n, d), (n,), one coin each
    """What n people send, one answer each, epsilon-DP before anyone sees it.

    `coins` say who answers which question. Where reports are shuffled among several questions they
    must be private, drawn from the noise: the promise counts on a crowd that hides the question.

    Rows are in units of the norm bound, outcomes in units of the largest outcome. A single person's
    `Device` sends the same.
    """
    asked = state.asked(coins)
    for number, question in enumerate(state.questions):
        (people,) = np.nonzero(asked == number)
        channel = state.channels[question.name]
        for piece in pieces(len(people), state.dim**2):
            some = people[piece]
            values = answer(rows[some], outcomes[some], question, state.theta, state.whitening)
            private = channel.send(values, noise)
            yield Answers(state.window, question.name, private)


def pieces(n: int, width: int) -> list[slice]:
    """n people in pieces whose answers of this width fit the memory."""
    size = max(1, MEMORY // width)
    return [slice(i, i + size) for i in range(0, n, size)]


@value
@dataclass
class ReportSum:
    """The number of reports, their sum and the sum of their squares: O(d^2) numbers.

    squares   sum of their squares, entry by entry
    """

    count: int = 0  # reports
    total: Array = field(default_factory=lambda: np.zeros(()))  # their sum
    squares: Array = field(default_factory=lambda: np.zeros(()))

    def add(self, values: Array) -> None:
        """Add reports, one in each row."""
        products = values.T @ values if values.ndim == 2 else np.sum(values * values)
        self._add(len(values), values.sum(axis=0), np.asarray(products))

    def merge(self, other: Self) -> None:
        self._add(other.count, other.total, other.squares)

    def _add(self, count: int, total: Array, squares: Array) -> None:
        both = (self.count + count, self.total + total, self.squares + squares)
        self.count, self.total, self.squares = both

    @property
    def mean(self) -> Array:
        return np.asarray(self.total / self.count)

    @property
    def variance(self) -> Array:
        """Of the mean: a matrix for vectors, the sum over all entries otherwise."""
        mean = self.mean
        square = np.outer(mean, mean) if mean.ndim == 1 else np.sum(mean * mean)
        return np.asarray((self.squares / self.count - square) / max(self.count - 1, 1))


@value
@dataclass
class BatchSum:
    """The sums of one batch. Nothing in them depends on the order in which reports came.

    window    in which it was asked
    sums      of the parts of the reports that a device could have sent
    count     how many these are
    refused   the others
    """

    window: int
    sums: dict[str, ReportSum] = field(default_factory=dict)
    count: int = 0
    refused: int = 0

    @classmethod
    def empty(cls, state: PublicState) -> "BatchSum":
        """Of the open window, before any report."""
        return cls(state.window, empty_sums(state))

    def plus(self, reports: Iterable[Report], state: PublicState) -> "BatchSum":
        """With these reports; what no device sends in this window is left out alone."""
        return self._plus(reports, state, many=False)

    def plus_answers(self, answers: Iterable[Answers], state: PublicState) -> "BatchSum":
        """With what many people answered in this process."""
        return self._plus(answers, state, many=True)

    def _plus(
        self, told: Iterable[Report | Answers], state: PublicState, *, many: bool
    ) -> "BatchSum":
        after = BatchSum(self.window, empty_sums(state), self.count, self.refused)
        for total, kept in self.sums.items():
            after.sums[total].merge(kept)
        for each in told:
            count, refused = add_up(after.sums, each, state, many=many)
            after.count += count
            after.refused += refused
        return after


def empty_sums(state: PublicState) -> dict[str, ReportSum]:
    """One for each total that the questions of a state ask for."""
    return {total: ReportSum() for question in state.questions for total in question.totals}


def add_up(
    sums: dict[str, ReportSum], told: Report | Answers, state: PublicState | None, *, many: bool
) -> tuple[int, int]:
    """Add what devices could have sent to this state: how many counted, and how many did not."""
    kept = np.empty(0) if state is None else _sound(told, state, many)
    if state is not None and len(kept):
        question = state.question(told.question)
        assert question is not None
        for total, part in question.split(kept, state.dim).items():
            sums[total].add(part)
    sent = len(told.values) if many else 1
    return len(kept), sent - len(kept)


def _sound(told: object, state: PublicState, many: bool) -> Array:
    """The values that devices could have sent to this state: real numbers, in the right shape.

    A report has one answer, whatever somebody sends: one of many would count as many people.
    """
    nothing = np.empty(0)
    if not isinstance(told, Report | Answers) or isinstance(told, Answers) != many:
        return nothing
    values = told.values
    if type(values) is not np.ndarray or values.dtype != np.float64 or values.ndim == 0:
        return nothing
    asked = isinstance(told.question, str) and type(told.window) is int
    question = state.question(told.question) if asked else None
    if question is None or told.window != state.window or (len(values) != 1 and not many):
        return nothing
    if values.shape[1:] != question.shape(state.dim):
        return nothing
    return np.asarray(values[state.channels[question.name].possible(values)])
