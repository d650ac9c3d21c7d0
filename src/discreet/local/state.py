"""What a server publishes: all that a device needs to answer, in numbers that are checked."""

import math
from dataclasses import asdict, dataclass, fields
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from discreet.arrays import Array, finite, finite_range, integer, positive, public_bound
from discreet.decisions import Policy
from discreet.local.questions import LARGEST, Channel, Question, Shape
from discreet.privacy.release import plain
from discreet.privacy.shuffle import PlannedBatch

FORMAT = 1
MOST_QUESTIONS = 64
MOST_WINDOWS = 2**31
MOST_CONTRIBUTIONS = 10**6


@dataclass(frozen=True, eq=False, kw_only=True)
class PublicState:
    """The questions of the open window, and what was learned before it.

    Every number is checked here, before any record is in sight, and the arrays are read-only
    copies: a state that exists is one that a device can answer whatever its record is.

    window          counts up
    theta           (d,), the estimate that residuals refer to
    whitening       (d, d)
    questions       each person answers one of them
    epsilon         of all reports of one person together; each runs at epsilon/contributions
    contributions   the most reports of one person
    norm_bound      features are shortened to this Euclidean norm
    outcome_range   labels or rewards are clipped to it
    batch           the crowd that a report will hide in, under shuffled trust. `epsilon` is what
                    reports cost by themselves, against relay and server together; what they cost
                    against everybody else is `batch.epsilon`

    >>> question = Question("moment", "moment", clip=1.0, fraction=1.0)
    >>> state = PublicState.start(2, 1.0, (question,))
    >>> PublicState.from_dict(state.to_dict()).questions == (question,)
    True
    """

    window: int
    theta: Array
    whitening: Array
    questions: tuple[Question, ...]
    epsilon: float
    contributions: int = 1
    norm_bound: float = 1.0
    outcome_range: tuple[float, float] = (-1.0, 1.0)
    batch: PlannedBatch | None = None

    def __post_init__(self) -> None:
        self._set("theta", bounded("theta", self.theta, (None,)))
        d = self.dim
        self._set("whitening", bounded("whitening", self.whitening, (d, d)))
        if np.abs(self.whitening).max() < 1 / LARGEST:
            raise ValueError("the whitening is zero, up to rounding: nobody could answer")
        self._set("window", integer("window", self.window, least=0))
        self._set("contributions", integer("contributions", self.contributions))
        if self.window > MOST_WINDOWS or self.contributions > MOST_CONTRIBUTIONS:
            raise ValueError(
                f"expected at most {MOST_WINDOWS} windows and {MOST_CONTRIBUTIONS} contributions"
            )
        self._set("epsilon", positive("epsilon", self.epsilon, allow_inf=True))
        self._set("norm_bound", public_bound("norm_bound", self.norm_bound))
        low, high = finite_range("outcome_range", self.outcome_range)
        self._set("outcome_range", (low, high))
        public_bound("the size of outcome_range", max(abs(low), abs(high)))
        self._set("questions", tuple(self.questions))
        if not all(isinstance(question, Question) for question in self.questions):
            raise ValueError("questions must be a sequence of Question")
        names = {question.name for question in self.questions}
        if not 0 < len(self.questions) == len(names) <= MOST_QUESTIONS:
            raise ValueError(f"expected 1 to {MOST_QUESTIONS} questions of different names")
        if abs(math.fsum(question.fraction for question in self.questions) - 1) > 1e-6:
            raise ValueError("the fractions of the questions must add up to 1")
        if not isinstance(self.batch, PlannedBatch | None):
            raise ValueError("batch must be a PlannedBatch, or None where reports are not shuffled")
        self.channels  # noqa: B018  (they refuse an epsilon that is too small)

    def _set(self, name: str, value: Any) -> None:
        object.__setattr__(self, name, value)

    @classmethod
    def start(cls, dim: int, epsilon: float, questions: tuple[Question, ...], **more: Any) -> Self:
        """What is public before anyone has reported: nothing but bounds."""
        d = integer("dim", dim)
        return cls(window=0, theta=np.zeros(d), whitening=np.eye(d), questions=questions,
                   epsilon=epsilon, **more)  # fmt: skip

    @property
    def dim(self) -> int:
        """The number of features."""
        return len(self.theta)

    @cached_property
    def rule(self) -> Policy:
        """How to choose an action, which a bandit's policy says."""
        raise ValueError("this state asks about records and chooses nothing: use answer")

    @cached_property
    def channels(self) -> dict[str, Channel]:
        """What the answer to each question goes through before it leaves the device."""
        made: dict[str, Channel] = {}
        channels = {}
        for question in self.questions:
            if question.kind not in made:
                made[question.kind] = question.channel(self.dim, self.epsilon, self.contributions)
            channels[question.name] = made[question.kind]
        return channels

    def question(self, name: str) -> Question | None:
        """The question of that name, if it is asked."""
        return next((question for question in self.questions if question.name == name), None)

    def shape(self, name: str) -> Shape | None:
        """Of one answer to the question of that name."""
        question = self.question(name)
        return None if question is None else question.shape(self.dim)

    def question_of(self, total: str) -> Question:
        """The question whose answers enter the sum of that name."""
        return next(each for each in self.questions if total in each.totals)

    def std(self, total: str) -> float:
        """The largest root-mean-square error of one report in the sum of that name, per entry."""
        question = self.question_of(total)
        return float(self.channels[question.name].std) / math.sqrt(question.totals[total])

    @property
    def report_epsilon(self) -> float:
        """What one report costs by itself."""
        return self.epsilon / self.contributions

    def asked(self, coins: ArrayLike) -> Any:  # (n,) in [0, 1)
        """Which question each person answers, by its place: coins decide, never data."""
        ends = np.cumsum([question.fraction for question in self.questions])[:-1]
        return np.searchsorted(ends, coins, side="right")

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        record: dict[str, Any] = {"format": FORMAT}
        for each in fields(self):
            value = getattr(self, each.name)
            if each.name == "batch":
                if value is not None:
                    batch = {name: plain(item) for name, item in asdict(value).items()}
                    record["batch"] = batch
                continue
            if isinstance(value, np.ndarray):
                value = value.tolist()
            elif each.name == "questions":
                value = [asdict(question) for question in value]
            elif isinstance(value, tuple):
                value = list(value)
            record[each.name] = plain(value)
        return record

    @classmethod
    def from_dict(cls, record: dict[str, Any]) -> Self:
        """A state from `to_dict`; a record that is damaged or hostile raises ValueError.

        A policy that is served to devices in any language states `channels` too. Under shuffled
        trust they must be those that this device draws by: a crowd needs one channel for all.
        """
        try:
            if record["format"] != FORMAT:
                raise ValueError(f"expected a public state of format {FORMAT}")
            batch = record.get("batch")
            values = {each.name: record[each.name] for each in fields(cls) if each.name != "batch"}
            values["questions"] = tuple(Question(**each) for each in values["questions"])
            values["epsilon"] = float(values["epsilon"])
            if batch is not None:
                values["batch"] = PlannedBatch(**{**batch, "epsilon": float(batch["epsilon"])})
            state = cls(**values)
            if batch is not None and "channels" in record:
                state._expect_channels(record["channels"])
            return state
        except (KeyError, TypeError, OverflowError, AttributeError, RecursionError):
            raise ValueError(f"not a public state; use {cls.__name__}.to_dict") from None

    def _expect_channels(self, stated: dict[str, dict[str, float]]) -> None:
        # By comparison and not by cost: another channel of the same epsilon hides nobody here.
        for question in self.questions:
            if stated[question.kind] != self.channels[question.name].thresholds:
                raise ValueError(
                    "the document states other channels than this device draws by, which would "
                    "split the crowd; the state is refused. If the server is honest, use its "
                    "release of discreet and scipy"
                )


def bounded(name: str, value: ArrayLike, shape: tuple[int | None, ...]) -> Array:
    """A read-only copy of numbers of this shape that are finite and at most LARGEST."""
    array = np.array(finite(name, value))
    fits = len(shape) == array.ndim and array.size > 0
    if not fits or any(n not in (None, m) for n, m in zip(shape, array.shape, strict=True)):
        expected = ", ".join("n" if n is None else str(n) for n in shape)
        raise ValueError(f"{name} must have shape ({expected}), got {array.shape}")
    if np.abs(array).max() > LARGEST:
        raise ValueError(f"{name} must be at most {LARGEST:g} in size: rescale it")
    array.setflags(write=False)
    return array
