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
        table = _table(experiment, found, console.width)
        return Group(table, bar) if console.is_terminal else table

    with Live(console=console, refresh_per_second=4, get_renderable=view):

        def watch(cell: Cell, record: Mapping[str, Any]) -> None:
            key = (cell.learner.title, cell.epsilon, cell.environment.title)
            found.setdefault(key, []).append((record["value"][-1], record["blind"][-1]))
            bar.advance(total)
            then(cell, record)

        yield watch


CELL = len("0.000123 ± 0.000012  100.0%")


def _table(
    experiment: Experiment,
    found: Mapping[tuple[str, float, str], list[tuple[float, float]]],
    width: int,
) -> Table:
    """A column for each environment where that fits; else a block of rows for each."""
    task = TASKS[experiment.task]
    title = (
        f"{experiment.name}: {task.measure} after {experiment.rounds:,} {task.axis}, mean "
        f"± 95%, and fraction {task.gains[1]} {task.gains[2]}"
    )
    table = Table(title=escape(title), title_justify="left")
    environments = [each.title for each in experiment.environments]
    columns = len(environments) + 2
    left = width - len("epsilon") - CELL * len(environments) - 3 * columns - 1
    blocks = [environments] if left >= 12 else [[each] for each in environments]
    if len(blocks) > 1:
        left = width - len("epsilon") - CELL - 3 * 4 - 1
    named = max(left if len(blocks) == 1 else left // 2, 4)
    table.add_column("learner", overflow="fold", max_width=named)
    table.add_column("epsilon", justify="right", width=len("epsilon"))
    if len(blocks) == 1:
        for name in environments:
            table.add_column(Text(name), justify="right", overflow="fold", width=CELL)
    else:
        table.add_column("environment", overflow="fold", max_width=named)
        table.add_column(task.measure, justify="right", overflow="fold", width=CELL)
    for block in blocks:
        for learner in experiment.learners:
            private = task.learner_entry(learner).private
            epsilons = sorted(experiment.epsilons, reverse=True) if private else [math.inf]
            for epsilon in epsilons:
                first = epsilon == epsilons[0]
                where = [] if len(blocks) == 1 else [Text(block[0] if first else "")]
                table.add_row(
                    Text(learner.title if first else ""),
                    f"{epsilon:g}" if private else "-",
                    *where,
                    *(_cell(found.get((learner.title, epsilon, each), [])) for each in block),
                    end_section=epsilon == epsilons[-1],
                )
    return table


def _cell(pairs: list[tuple[float, float]]) -> str:
    if not pairs:
        return "[dim]…[/dim]"
    values, blind = np.array(pairs).T
    mean, half = interval(values)
    gained = f"  {percent(1 - mean / blind.mean(), 1):>6}" if blind.mean() > 0 else ""
    return plus_minus(mean, half) + gained
