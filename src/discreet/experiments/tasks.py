"""All tasks by name; and whether a plan can be run, before it is."""

import re
from collections.abc import Mapping
from typing import Any

from discreet.experiments.plan import Cell, Choice, Keys, Plan, PlanError, suggestion
from discreet.experiments.task import Task
from discreet.experiments.task_bandits import Bandits
from discreet.experiments.task_online import Online
from discreet.experiments.task_regression import Regression

TASKS: Mapping[str, Task] = {task.name: task for task in (Bandits(), Regression(), Online())}


def cells_of(plan: Plan) -> list[Cell]:
    """All runs of a plan."""
    learners = TASKS[plan.task].learners
    return plan.cells(name for name, entry in learners.items() if entry.private)


def check(plan: Plan) -> None:
    """Make every environment, and every learner for it at every budget; run nothing.

    A mistake is a PlanError with the path to it.
    """
    if plan.task not in TASKS:
        raise PlanError(("task",), f"no task {plan.task!r}{suggestion(plan.task, tuple(TASKS))}")
    task = TASKS[plan.task]
    for j, learner in enumerate(plan.learners):
        try:
            options = task.learner_entry(learner).options
        except ValueError as error:
            raise PlanError(("learners", j, "name"), str(error)) from None
        for option in learner.options:
            if option not in options:
                about = f"{learner.name} has no option {option!r}{suggestion(option, options)}"
                raise PlanError(("learners", j, option), about)
    made: dict[int, Any] = {}
    cells = [cell for cell in cells_of(plan) if cell.seed == plan.seeds[0]]
    for cell in cells:
        i = plan.environments.index(cell.environment)
        j = plan.learners.index(cell.learner)
        if i not in made:
            made[i] = _made(("environments", i), cell.environment, task.environment,
                            cell.environment, plan.rounds, cell.seed)  # fmt: skip
        _made(("learners", j), cell.learner, task.learner, cell, made[i])


def _made(path: Keys, choice: Choice, make: Any, *arguments: Any) -> Any:
    """What `make` makes; its complaint gets the path of the option that it begins with."""
    try:
        return make(*arguments)
    except (TypeError, ValueError, OSError, ImportError) as error:
        raise PlanError((*path, *_culprit(str(error), choice)), f"{choice.name}: {error}") from None


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
