"""What benchmarks share: measurements by the one runner, and tables ready for the docs.

Finished cells are kept in out/benchmarks: a benchmark that was stopped resumes, and one whose code
and learners have not changed prints its table again at once. Every table that is printed is kept in
docs/figures too, by the script's name and its title; `make figures-check` compares the documents.
"""

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import figures_check
import numpy as np
from rich.box import MARKDOWN
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn
from rich.table import Table

from discreet import __version__
from discreet.experiments.measure import Found, Measurement, measured
from discreet.experiments.runner import write_atomically
from discreet.experiments.statistics import interval, standard_error

sys.path.insert(0, str(Path(__file__).parents[1]))  # papers/ stands beside this folder
FOLDER = Path("out/benchmarks")
FIGURES = Path(__file__).parents[1] / "docs" / "figures"


class KeepingConsole(Console):
    """Prints, and keeps every table that it prints in docs/figures."""

    def print(self, *objects: Any, **options: Any) -> None:
        """As every console does."""
        for each in objects:
            if isinstance(each, Table):
                keep(each)
        super().print(*objects, **options)


CONSOLE = KeepingConsole(width=190)  # the widest table: no cell is cut


def keep(table: Table) -> None:
    """Put a table into the results file of the script that runs, beside its other tables."""
    script = Path(sys.argv[0]).stem
    path = FIGURES / f"{script}.json"
    known = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    cells = [[str(cell) for cell in column.cells] for column in table.columns]
    known[str(table.title)] = {
        "version": __version__,
        "code": figures_check.code(sys.modules, script),
        "columns": [str(column.header) for column in table.columns],
        "rows": [list(row) for row in zip(*cells, strict=True)],
    }
    path.parent.mkdir(exist_ok=True)
    write_atomically(path, json.dumps(known, indent=1, sort_keys=True, ensure_ascii=False) + "\n")


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
