"""What benchmarks share: measurements by the one runner, and tables ready for the docs.

Finished cells are kept in out/benchmarks: a benchmark that was stopped resumes, and one whose code
and learners have not changed prints its table again at once. Every table that is printed is kept in
docs/figures too, by the script's name and its title, with digests of the code that made it, a few
of its runs (`probes.py`) and processor time; `make figures-check` compares the documents.
"""

import json
import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import figures_check
import numpy as np
import probes
from rich.box import MARKDOWN
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn
from rich.table import Table

from discreet import __version__
from discreet.experiments.measure import Found, Measure, Measurement, records
from discreet.experiments.statistics import interval, standard_error
from discreet.experiments.writing import write_atomically

FOLDER = Path("out/benchmarks")
FIGURES = Path(__file__).parents[1] / "docs" / "figures"


class Known(Found):
    """What measurements found; notes which of them are asked for."""

    def __init__(self, runs: Iterable[probes.Ran]) -> None:
        runs = list(runs)
        super().__init__(runs)
        self._first = {(cell.measure, cell.parameters): (cell, record)
                       for cell, record in reversed(runs)}  # fmt: skip

    def over(self, measure: Measure, name: str = "value", /, **parameters: Any) -> np.ndarray:
        """As of all that is found."""
        place = (measure, tuple(sorted(parameters.items())))
        _KEEPER.asked[place] = self._first[place]
        return super().over(measure, name, **parameters)


class Keeper:
    """Puts each table that is printed into the results file of the script that runs.

    asked     runs that were asked for since a table was printed
    shown     those that the last table had asked for: the next may show the same numbers
    seconds   that the runs of cells took, all of them
    """

    def __init__(self) -> None:
        self.asked: dict[Any, probes.Ran] = {}
        self.shown: list[probes.Ran] = []
        self.seconds = 0.0
        self._told = 0.0

    def keep(self, table: Table) -> None:
        """Beside the other tables of its script."""
        self.shown = list(self.asked.values()) or self.shown
        self.asked.clear()
        spent = self.seconds + time.process_time()
        script = Path(sys.argv[0]).stem
        path = FIGURES / f"{script}.json"
        known = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
        cells = [[str(cell) for cell in column.cells] for column in table.columns]
        known[str(table.title)] = {
            "version": __version__,
            "code": figures_check.code(sys.modules, script),
            "columns": [str(column.header) for column in table.columns],
            "rows": [list(row) for row in zip(*cells, strict=True)],
            "seconds": round(spent - self._told, 1),
            "probe": probes.probe(self.shown),
        }
        self._told = spent
        path.parent.mkdir(exist_ok=True)
        text = json.dumps(known, indent=1, sort_keys=True, ensure_ascii=False)
        write_atomically(path, text + "\n")


_KEEPER = Keeper()


class KeepingConsole(Console):
    """Prints, and keeps every table that it prints in docs/figures."""

    def print(self, *objects: Any, **options: Any) -> None:
        """As every console does."""
        for each in objects:
            if isinstance(each, Table):
                _KEEPER.keep(each)
        super().print(*objects, **options)


CONSOLE = KeepingConsole(width=190)  # the widest table: no cell is cut


def run(cells: Sequence[Measurement]) -> Known:
    """Run what is not yet done, below a bar."""
    console = Console(stderr=True)
    columns = (BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, disable=not console.is_terminal) as bar:
        task = bar.add_task("cells", total=None)
        done = records(
            cells, FOLDER, watch=lambda done, total: bar.update(task, completed=done, total=total)
        )
    found = Known((cell, done[cell.key]) for cell in cells)
    _KEEPER.seconds += found.seconds
    return found


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
