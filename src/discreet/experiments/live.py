"""A live table of a run: means so far, and how much is left."""

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
from rich.console import Console, Group
from rich.live import Live
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from discreet.experiments.experiment import Cell, Experiment
from discreet.experiments.runner import Watch
from discreet.experiments.statistics import interval
from discreet.experiments.tasks import TASKS, cells_of
from discreet.words import percent, plus_minus


@contextmanager
def live_table(experiment: Experiment, console: Console, then: Watch) -> Iterator[Watch]:
    """While inside, shows what `run` tells it; without a terminal only the last table is printed.

    with live_table(experiment, console, then) as watch:  # `then` is told of each cell after that
        run(experiment, out, watch=watch)
    """
    cells = cells_of(experiment)
    found: dict[tuple[str, float, str], list[tuple[float, float]]] = {}
    bar = Progress(
        TextColumn("cells"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(),
        console=console,
    )  # fmt: skip
    total = bar.add_task("cells", total=len(cells))

    def view() -> Group | Table:
        table = _table(experiment, found)
        return Group(table, bar) if console.is_terminal else table

    with Live(console=console, refresh_per_second=4, get_renderable=view):

        def watch(cell: Cell, record: Mapping[str, Any]) -> None:
            key = (cell.learner.title, cell.epsilon, cell.environment.title)
            found.setdefault(key, []).append((record["value"][-1], record["blind"][-1]))
            bar.advance(total)
            then(cell, record)

        yield watch


def _table(
    experiment: Experiment, found: Mapping[tuple[str, float, str], list[tuple[float, float]]]
) -> Table:
    """A block of rows for each environment, a row for each learner and budget."""
    task = TASKS[experiment.task]
    title = (
        f"{experiment.name}: {task.measure} after {experiment.rounds:,} {task.axis}, mean "
        f"± 95%, and fraction {task.gains[1]} {task.gains[2]}"
    )
    table = Table(title=escape(title), title_justify="left")
    for name in ("environment", "learner"):
        table.add_column(name, overflow="fold")
    for name in ("epsilon", task.measure, task.gains[1]):
        table.add_column(name, justify="right", no_wrap=True)
    for environment in experiment.environments:
        for learner in experiment.learners:
            private = task.learner_entry(learner).private
            epsilons = sorted(experiment.epsilons, reverse=True) if private else [math.inf]
            for epsilon in epsilons:
                key = (learner.title, epsilon, environment.title)
                table.add_row(
                    Text(environment.title if epsilon == epsilons[0] else ""),
                    Text(learner.title if epsilon == epsilons[0] else ""),
                    f"{epsilon:g}" if private else "-",
                    *_numbers(found.get(key, [])),
                )
        table.add_section()
    return table


def _numbers(pairs: list[tuple[float, float]]) -> tuple[str, str]:
    if not pairs:
        return "[dim]…[/dim]", ""
    values, blind = np.array(pairs).T
    gained = percent(1 - values.mean() / blind.mean(), 1) if blind.mean() > 0 else ""
    return plus_minus(*interval(values)), gained
