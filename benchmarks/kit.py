"""What benchmarks share: measurements by the one runner, and tables ready for the docs.

Finished cells are kept in out/benchmarks: a benchmark that was stopped resumes, and one whose code
and learners have not changed prints its table again at once.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from rich.box import MARKDOWN
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn
from rich.table import Table

from discreet.experiments.measure import Found, Measurement, measured
from discreet.experiments.statistics import interval, standard_error

FOLDER = Path("out/benchmarks")
CONSOLE = Console(width=190)  # the widest table: no cell is cut


def run(cells: Sequence[Measurement]) -> Found:
    """Run what is not yet done, below a bar."""
    console = Console(stderr=True)
    columns = (BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, disable=not console.is_terminal) as bar:
        task = bar.add_task("cells", total=None)
        return measured(
            cells, FOLDER, watch=lambda done, total: bar.update(task, completed=done, total=total)
        )


def new_table(title: str, columns: Sequence[str]) -> Table:
    """A table of numbers in Markdown."""
    table = Table(title=title, title_justify="left", box=MARKDOWN)
    for column in columns:
        table.add_column(column, justify="right", no_wrap=True)
    return table


def with_interval(values: np.ndarray) -> str:
    """Mean ± half the width of its 95% interval."""
    mean, half = interval(values)
    digits = 1 if mean < 10 else 0
    return f"{mean:,.{digits}f} ± {half:,.{digits}f}"


def with_error(values: np.ndarray) -> str:
    """Mean +- standard error."""
    return f"{values.mean():,.0f} +- {standard_error(values):,.0f}"


def with_std(values: np.ndarray) -> str:
    """Mean ± standard deviation of single runs."""
    return f"{values.mean():,.0f} ± {values.std(ddof=1):,.0f}"
