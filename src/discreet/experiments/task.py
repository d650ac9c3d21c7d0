"""A task: what is run in a cell, and what is measured. Less is better in every task.

A task makes an environment and a learner from their names, and plays one against the other. What
it hands back is a curve: `value` after `n` rounds (or rows), and what somebody who learns nothing
would have on the same people (`blind`).
"""

import inspect
import math
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from discreet.arrays import Array
from discreet.experiments.experiment import Cell, Choice, suggestion
from discreet.experiments.own import made, needs, offered, own
from discreet.privacy import Guarantee, SeededNoise

Curve = tuple[Array, Array, Array]  # n, value, blind


@dataclass(frozen=True)
class Learner:
    """An entry of a task's list of learners."""

    make: Callable[..., Any]  # builds it
    trust: str  # "joint", "central", "local"; "none" without privacy; "own": its guarantee says it
    about: str  # one line for a list
    reference: str  # where it comes from

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
    seconds: Mapping[str, float]  # processor time, by part


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
    does: ClassVar[tuple[str, ...]] = ("decide", "learn")  # what a learner must have

    def learner_entry(self, choice: Choice) -> Learner:
        """The entry that an experiment names; unknown names and options raise ValueError."""
        if choice.name in self.learners:
            return self.learners[choice.name]
        make = own("learner", choice.name)
        if make is None:
            known = (*self.learners, *offered("learner"))
            raise ValueError(
                f"no learner {choice.name!r} in the task {self.name!r}"
                f"{suggestion(choice.name, known)} See: discreet learners. One of your own: "
                "'module:Class'"
            )
        # It has privacy to speak of, and is run at every budget, if its constructor takes epsilon.
        trust = "own" if "epsilon" in inspect.signature(make).parameters else "none"
        about = (inspect.getdoc(make) or choice.name).splitlines()[0]
        return Learner(make, trust, about, choice.name)

    def options(self, entry: Learner) -> tuple[str, ...]:
        names = inspect.signature(entry.make).parameters
        return tuple(name for name in names if name not in self.given)

    def own_world(self, choice: Choice, known: Iterable[str]) -> Callable[..., Any]:
        """The function that makes a world which is not among the known ones."""
        make: Callable[..., Any] | None = own("world", choice.name)
        if make is None:
            raise ValueError(
                f"no environment {choice.name!r} in the task {self.name!r}"
                f"{suggestion(choice.name, (*known, *offered('world')))} See: discreet datasets. "
                "One of your own: 'module:function'"
            )
        return make

    def learner(self, cell: Cell, environment: Any) -> Any:
        """A new learner for this environment, which gets what its constructor names."""
        entry = self.learner_entry(cell.learner)
        options = dict(cell.learner.options)
        given = {
            "epsilon": cell.epsilon,
            "noise": SeededNoise(cell.seed),
            "seed": cell.seed,
            **self.offers(cell, environment),
        }
        if entry.private and "local" not in (entry.trust, options.get("trust")):
            given["delta"] = cell.delta  # local reports are pure
        return needs(made(entry.make, given, options), "a learner", self.does)

    def promise(self, learner: Any, cell: Cell) -> Guarantee:
        """What a learner promises at the end; one of your own without epsilon may say nothing."""
        found = getattr(learner, "guarantee_", None) or getattr(learner, "guarantee", None)
        if isinstance(found, Guarantee):
            return found
        entry = self.learner_entry(cell.learner)
        if entry.private:
            raise ValueError(
                f"{type(learner).__name__} takes epsilon, so it must promise something: give it a "
                "property `guarantee` (`guarantee_` after fit) that is a discreet.privacy.Guarantee"
            )
        return Guarantee(math.inf, 0.0, reference=entry.reference)

    @abstractmethod
    def offers(self, cell: Cell, environment: Any) -> dict[str, Any]:
        """What learners of this task may ask for by name, besides budget, noise and seed."""

    @abstractmethod
    def about(self, choice: Choice) -> str:
        """What is decided here, for whom, and what it brings: a sentence for people who decide."""

    @abstractmethod
    def environment(self, choice: Choice, rounds: int, seed: int) -> Any:
        """The environment that an experiment names."""

    @abstractmethod
    def play(self, cell: Cell, environment: Any, learner: Any, clock: Clock) -> Curve:
        """Run the learner in the environment; the clock is told whose turn it is."""

    def run(self, cell: Cell) -> Outcome:
        clock = Clock("environment")
        environment = self.environment(cell.environment, cell.rounds, cell.seed)
        clock.to("learner")
        learner = self.learner(cell, environment)
        clock.to("runner")
        n, value, blind = self.play(cell, environment, learner, clock)
        clock.to("runner")
        return Outcome(n, value, blind, self.promise(learner, cell), clock.seconds)


def marks(rounds: int, points: int, *, first: int = 10) -> Array:
    """Where a curve is read: geometric from `first` to `rounds`, integers.

    >>> marks(1000, 3)
    array([  10,  100, 1000])
    """
    return np.unique(np.round(np.geomspace(min(first, rounds), rounds, points)).astype(np.int64))
