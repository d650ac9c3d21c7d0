"""All tasks by name; experiments as TOML files; whether one can be run, before it is."""

import functools
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from discreet.experiments.experiment import (
    Cell,
    Choice,
    Experiment,
    ExperimentError,
    Keys,
    suggestion,
)
from discreet.experiments.own import code_of, look_in
from discreet.experiments.task import Task
from discreet.experiments.task_bandits import Bandits
from discreet.experiments.task_online import Online
from discreet.experiments.task_regression import Regression

TASKS: Mapping[str, Task] = {task.name: task for task in (Bandits(), Regression(), Online())}


def cells_of(experiment: Experiment) -> list[Cell]:
    task = TASKS[experiment.task]
    private = {each.name for each in experiment.learners if task.learner_entry(each).private}
    return experiment.cells(private, functools.cache(code_of))


def check(experiment: Experiment) -> None:
    """Make every environment, and every learner for it at every budget; run nothing.

    A mistake is an ExperimentError with the path to it.
    """
    if experiment.task not in TASKS:
        raise ExperimentError(
            ("task",), f"no task {experiment.task!r}{suggestion(experiment.task, tuple(TASKS))}"
        )
    task = TASKS[experiment.task]
    for j, learner in enumerate(experiment.learners):
        try:
            options = task.options(task.learner_entry(learner))
        except ValueError as error:
            raise ExperimentError(("learners", j, "name"), str(error)) from None
        for option in learner.options:
            if option not in options:
                about = f"{learner.name} has no option {option!r}{suggestion(option, options)}"
                raise ExperimentError(("learners", j, option), about)
    made: dict[int, Any] = {}
    cells = [cell for cell in cells_of(experiment) if cell.seed == experiment.seeds[0]]
    for cell in cells:
        i = experiment.environments.index(cell.environment)
        j = experiment.learners.index(cell.learner)
        if i not in made:
            made[i] = _made(("environments", i), cell.environment, task.environment,
                            cell.environment, experiment.rounds, cell.seed)  # fmt: skip
        _made(("learners", j), cell.learner, task.learner, cell, made[i])


def read_experiment(path: Path) -> Experiment:
    """The experiment of a TOML file, checked: every environment and learner in it can be made.

    A mistake is an ExperimentError that names the key (`learners[2].policy`) and what to do.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise ExperimentError((), f"cannot read {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ExperimentError((), f"{path} is not text; an experiment is a TOML file") from None
    look_in(path.parent)  # learners and worlds of one's own stand beside the file
    try:
        experiment = Experiment.from_dict(tomllib.loads(text))
        check(experiment)
    except tomllib.TOMLDecodeError as error:
        raise ExperimentError((), f"{path} is not valid TOML: {error}") from None
    except ExperimentError as error:
        raise ExperimentError((), f"{path}: {error}") from None
    return experiment


def _made(path: Keys, choice: Choice, make: Any, *arguments: Any) -> Any:
    """What `make` makes; its complaint gets the path of the option that it begins with."""
    try:
        return make(*arguments)
    except (TypeError, ValueError, OSError, ImportError) as error:
        raise ExperimentError(
            (*path, *_culprit(str(error), choice)), f"{choice.name}: {error}"
        ) from None


def _culprit(message: str, choice: Choice) -> Keys:
    """The option that a message begins with, or that holds what it quotes; () if none does."""
    first = re.match(r"[\w.]+", message)
    keys = tuple(first[0].split(".")) if first else ()
    if keys and keys[0] in choice.options:
        return keys
    for quoted in re.findall(r"'([^']+)'", message):
        for option, value in choice.options.items():
            if isinstance(value, Mapping) and quoted in value:
                return (option, quoted)
            if option == quoted or quoted in (value if isinstance(value, list) else [value]):
                return (option,)
        if quoted == choice.name:
            return ("name",)
    return ()
