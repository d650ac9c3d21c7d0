"""An experiment: environments x learners x budgets x seeds. What is run is a list of cells."""

import difflib
import hashlib
import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from functools import partial
from typing import Any

from discreet.experiments.source import data_digest, digest

FIRST_SEED = 1000  # the defaults of the learners were tuned on smaller ones
POINTS = 40  # of a curve
MOST = 10**9  # rounds, seeds or points; more would not end
Keys = tuple[str | int, ...]  # to a value of an experiment: ("learners", 0, "policy")


class ExperimentError(ValueError):
    """A mistake in an experiment: where it is, and what to do.

    path      keys that lead to the value; none: the whole file
    message   what was expected, and what to do
    """

    def __init__(self, path: Keys, message: str) -> None:
        self.path = path
        self.message = message
        super().__init__(f"{place(path)}: {message}" if path else message)


def place(path: Keys) -> str:
    """A path as people write it.

    >>> place(("learners", 0, "policy"))
    'learners[1].policy'
    """
    parts = [f"[{part + 1}]" if isinstance(part, int) else f".{part}" for part in path]
    return "".join(parts).lstrip(".")


@dataclass(frozen=True)
class Choice:
    """An environment or a learner of an experiment: its name, its options, its title in tables."""

    name: str  # in the registry
    options: Mapping[str, Any] = field(default_factory=dict)  # arguments beside the defaults
    title: str = ""  # by default the name with its options

    def __post_init__(self) -> None:
        # Numbers and words tell two of a kind apart; lists and tables would fill the page.
        options = [_word(value) for value in self.options.values()]
        shown = ", ".join(filter(None, options))
        title = self.title or (f"{self.name} ({shown})" if shown else self.name)
        printable = "".join(mark if mark.isprintable() else " " for mark in title)
        object.__setattr__(self, "title", " ".join(printable.split()) or self.name)


@dataclass(frozen=True)
class Cell:
    """One run: nothing but these values decides its numbers."""

    task: str  # by name
    environment: Choice  # and its options
    learner: Choice  # and its options
    epsilon: float  # inf for one without privacy
    delta: float  # 0 for a pure learner
    rounds: int  # or rows
    points: int  # of its curve
    seed: int  # of people, learner and noise
    data: str = ""  # digest of the files that the environment is read from
    code: str = ""  # digest of the source of learners and worlds that are not the library's

    @property
    def key(self) -> str:
        """The name of the file of its outcome: titles do not matter, source and data files do."""
        plain = asdict(self)
        for part in (plain["environment"], plain["learner"]):
            del part["title"]
        text = json.dumps({"source": digest(), **plain}, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:24]


@dataclass(frozen=True)
class Experiment:
    """Environments x learners x budgets x seeds, all of one task.

    >>> experiment = Experiment.from_dict({
    ...     "environments": [{"name": "sphere", "dim": 5}],
    ...     "learners": [{"name": "LinearBandit"}, {"name": "LinUCB"}],
    ...     "epsilons": [0.5, 2.0], "rounds": 1000, "seeds": 3,
    ... })
    >>> experiment.seeds, experiment.environments[0].title
    ((1000, 1001, 1002), 'sphere (5)')
    """

    environments: tuple[Choice, ...]  # each on its own
    learners: tuple[Choice, ...]  # each in every environment
    epsilons: tuple[float, ...] = (0.3, 1.0, 3.0)  # budgets of private learners
    rounds: int = 20_000  # most rows, for regression
    seeds: tuple[int, ...] = tuple(range(FIRST_SEED, FIRST_SEED + 10))  # one run for each
    delta: float = 1e-6  # of learners that are not pure
    task: str = "bandits"  # "bandits", "online" or "regression"
    name: str = "What privacy costs"  # title of the report
    points: int = POINTS  # of each curve
    note: str = ""  # for readers of the report: how options were chosen, what the data are

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> "Experiment":
        """An experiment from plain values, as a TOML file has them."""
        for key in data:
            if key not in CHECKS:
                raise ExperimentError((key,), f"no such key{suggestion(key, tuple(CHECKS))}")
        for key in ("environments", "learners"):
            if key not in data:
                raise ExperimentError(
                    (), f"an experiment needs {key}: add a [[{key}]] table with a name"
                )
        return cls(**{key: CHECKS[key]((key,), value) for key, value in data.items()})

    def to_dict(self) -> dict[str, Any]:
        """Plain values from which `from_dict` makes the same experiment."""
        plain = {each.name: getattr(self, each.name) for each in fields(self)}
        for key in ("environments", "learners"):
            plain[key] = [
                {"name": each.name, "title": each.title, **each.options} for each in plain[key]
            ]
        return {
            key: list(value) if isinstance(value, tuple) else value for key, value in plain.items()
        }

    def cells(
        self, private: Iterable[str], code: Callable[[str, str], str] = lambda *names: ""
    ) -> list[Cell]:
        """All runs, seed by seed; learners that are not `private` have no budgets to run at.

        `code` says what source a learner and an environment have besides the library's.
        """
        private = set(private)
        data = {each.title: data_digest(each.options) for each in self.environments}
        return [
            Cell(
                self.task,
                environment,
                learner,
                epsilon,
                self.delta,
                self.rounds,
                self.points,
                seed,
                data[environment.title],
                code(learner.name, environment.name),
            )
            for seed in self.seeds
            for environment in self.environments
            for learner in self.learners
            for epsilon in (self.epsilons if learner.name in private else (math.inf,))
        ]


def _word(value: Any) -> str:
    """An option in a title: a number, or text (of a path the last part); "" for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return ""
    return value.rpartition("/")[2] if isinstance(value, str) else f"{value:g}"


def suggestion(wrong: str, known: Sequence[str]) -> str:
    """What may have been meant.

    >>> suggestion("sead", ["seeds", "rounds"])
    "; did you mean 'seeds'?"
    """
    close = difflib.get_close_matches(wrong, known, n=1, cutoff=0.5)
    return f"; did you mean {close[0]!r}?" if close else f"; there are {', '.join(known)}"


def _choices(path: Keys, tables: Any) -> tuple[Choice, ...]:
    if not isinstance(tables, Sequence) or isinstance(tables, str) or not tables:
        raise ExperimentError(path, f"write one [[{path[0]}]] table for each")
    choices: dict[str, Choice] = {}
    for i, table in enumerate(tables):
        if not isinstance(table, Mapping) or not isinstance(table.get("name"), str):
            raise ExperimentError((*path, i), 'it needs a name: name = "..."')
        title = _text((*path, i, "title"), table.get("title", ""))
        options = {name: value for name, value in table.items() if name not in ("name", "title")}
        choice = Choice(table["name"], options, title)
        if choices.setdefault(choice.title, choice) is not choice:
            raise ExperimentError(
                (*path, i), f"{choice.title!r} is there twice; give one of them a title"
            )
    return tuple(choices.values())


def _list(path: Keys, value: Any) -> Sequence[Any]:
    if not isinstance(value, Sequence) or isinstance(value, str) or not value:
        raise ExperimentError(path, f"{path[-1]} must be a list such as [0.3, 1.0, 3.0]")
    if len(set(map(str, value))) < len(value):
        raise ExperimentError(path, f"{path[-1]} has a value twice; leave one out")
    return value


def _seeds(path: Keys, value: Any) -> tuple[int, ...]:
    if isinstance(value, int) and not isinstance(value, bool):
        return tuple(range(FIRST_SEED, FIRST_SEED + _integer(path, value, 1)))
    return tuple(_integer((*path, i), each, 0) for i, each in enumerate(_list(path, value)))


def _integer(path: Keys, value: Any, least: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ExperimentError(path, f"must be an integer of at least {least}, got {value!r}")
    if value > MOST:
        raise ExperimentError(path, f"must be at most {MOST:,}, got {value:,}")
    return value


def _epsilons(path: Keys, values: Any) -> tuple[float, ...]:
    for i, each in enumerate(_list(path, values)):
        if isinstance(each, bool) or not isinstance(each, int | float) or not each > 0:
            raise ExperimentError((*path, i), f"epsilon must be a number above 0, got {each!r}")
    return tuple(map(float, values))


def _delta(path: Keys, value: Any) -> float:
    if not isinstance(value, float) or not 0 < value < 1:
        raise ExperimentError(path, f"delta must be above 0 and below 1; take 1e-6; got {value!r}")
    return value


def _text(path: Keys, value: Any) -> str:
    if not isinstance(value, str):
        raise ExperimentError(path, f"a {path[-1]} must be text in quotes")
    return value


CHECKS: Mapping[str, Callable[[Keys, Any], Any]] = {
    "environments": _choices,
    "learners": _choices,
    "epsilons": _epsilons,
    "rounds": partial(_integer, least=10),
    "points": partial(_integer, least=2),
    "seeds": _seeds,
    "delta": _delta,
    **dict.fromkeys(("task", "name", "note"), _text),
}
