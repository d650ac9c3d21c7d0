"""A task: what is run in a cell, and what is measured. Less is better in every task.

A task makes an environment and a learner from their names, and plays one against the other. What
it hands back is a curve: `value` after `n` rounds (or rows), and what somebody who learns nothing
would have on the same people (`blind`).
"""

import inspect
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np

from discreet.arrays import Array
from discreet.experiments.experiment import Cell, Choice, suggestion
from discreet.privacy import Guarantee


@dataclass(frozen=True)
class Learner:
    """An entry of a task's list of learners."""

    make: Callable[..., Any]  # builds it
    trust: str  # "joint", "central", "local"; "none" without privacy; "own": its guarantee says it
    about: str  # one line for a list
    reference: str  # where it comes from
    given: tuple[str, ...]  # arguments that the task gives; an experiment may set the others

    @property
    def options(self) -> tuple[str, ...]:
        """What an experiment may set."""
        return tuple(name for name in inspect.signature(self.make).parameters
                     if name not in self.given)  # fmt: skip

    @property
    def private(self) -> bool:
        """Whether it is run once for each budget."""
        return self.trust != "none"


class Clock:
    """Processor time by part: that of the learner, of the environment, and of the rest.

    part   whose time counts first

    >>> clock = Clock("runner")
    >>> clock.to("learner")
    >>> clock.to("runner")
    >>> sorted(clock.seconds)
    ['learner', 'runner']
    """

    def __init__(self, part: str) -> None:
        self.seconds: dict[str, float] = {}
        self._part = part
        self._since = time.process_time()

    def to(self, part: str) -> None:
        """From now on, time counts for this part."""
        now = time.process_time()
        self.seconds[self._part] = self.seconds.get(self._part, 0.0) + now - self._since
        self._part = part
        self._since = now


@dataclass(frozen=True)
class Outcome:
    """What a cell found."""

    n: Array  # (points,), rounds or rows so far
    value: Array  # (points,), less is better
    blind: Array  # (points,), of somebody who learns nothing
    guarantee: Guarantee  # of the learner, at the end
    seconds: Mapping[str, float] = field(default_factory=dict)  # processor time, by part


class Task(ABC):
    """Makes environments and learners by name, and runs a cell."""

    name: ClassVar[str]
    measure: ClassVar[str]  # what a value is, for people
    axis: ClassVar[str]  # what n counts
    gains: ClassVar[tuple[str, str, str]]  # what 1 - value/blind is: "gains", "gained", "of ..."
    blind: ClassVar[str]  # who learns nothing
    meaning: ClassVar[str]  # of the measure, a sentence for people who decide
    logarithmic: ClassVar[bool] = False  # axes of the curves
    learners: ClassVar[Mapping[str, Learner]]
    given: ClassVar[tuple[str, ...]]  # arguments that the task gives to whoever takes them

    def learner_entry(self, choice: Choice) -> Learner:
        """The entry that an experiment names; unknown names and options raise ValueError."""
        from discreet.experiments.own import offered, own_learner

        if choice.name in self.learners:
            return self.learners[choice.name]
        found = own_learner(choice.name, self.given)
        if found is None:
            known = (*self.learners, *offered("learner"))
            raise ValueError(
                f"no learner {choice.name!r} in the task {self.name!r}"
                f"{suggestion(choice.name, known)} See: discreet learners. One of your own: "
                "'module:Class'"
            )
        return found

    @abstractmethod
    def about(self, choice: Choice) -> str:
        """What is decided here, for whom, and what it brings: a sentence for people who decide."""

    @abstractmethod
    def environment(self, choice: Choice, rounds: int, seed: int) -> Any:
        """The environment that an experiment names."""

    @abstractmethod
    def learner(self, cell: Cell, environment: Any) -> Any:
        """A new learner for this environment."""

    @abstractmethod
    def play(self, cell: Cell, environment: Any, learner: Any, clock: Clock) -> Outcome:
        """Run the learner in the environment; the clock is told whose turn it is."""

    def run(self, cell: Cell) -> Outcome:
        """Run a cell from its values alone."""
        clock = Clock("environment")
        environment = self.environment(cell.environment, cell.rounds, cell.seed)
        clock.to("learner")
        learner = self.learner(cell, environment)
        clock.to("runner")
        outcome = self.play(cell, environment, learner, clock)
        clock.to("runner")
        return replace(outcome, seconds=clock.seconds)


def marks(rounds: int, points: int, *, first: int = 10) -> Array:
    """Where a curve is read: geometric from `first` to `rounds`, integers.

    >>> marks(1000, 3)
    array([  10,  100, 1000])
    """
    return np.unique(np.round(np.geomspace(min(first, rounds), rounds, points)).astype(np.int64))
