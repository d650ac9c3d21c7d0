"""A forecast from question to readers: a table in the terminal, a picture, a page, numbers."""

import base64
import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from discreet import __version__
from discreet.arrays import one_of, positive
from discreet.experiments.pages import render
from discreet.experiments.writing import assert_new, write_atomically

Setting = tuple[str, float]  # trust and epsilon; ("none", inf) is without privacy
Tick = Callable[[int], object]  # told how much was done


@dataclass(frozen=True)
class Files:
    """Where a forecast goes besides the terminal.

    >>> Files(Path("out")).figure.name
    'forecast.png'
    """

    folder: Path  # of the figure
    html: Path | None = None  # a page that does not exist yet
    json: Path | None = None  # a file that does not exist yet

    @property
    def figure(self) -> Path:
        """The picture, which the next forecast replaces."""
        return self.folder / "forecast.png"

    def prepare(self) -> None:
        """Before anything is computed: refuse what would be overwritten, make the folder."""
        for path in (self.html, self.json):
            if path is not None:
                assert_new(path)
        self.folder.mkdir(parents=True, exist_ok=True)


@dataclass(frozen=True)
class Sheet:
    """A table with its title and what its columns mean."""

    title: str  # above the table
    columns: Sequence[str]  # their heads
    rows: Sequence[Sequence[str]]  # as shown
    lines: Sequence[int]  # rows after which a line is drawn
    note: str  # what the columns mean
    caption: str  # of the picture
    question: Mapping[str, Any]  # what was asked, plain
    answers: Sequence[Mapping[str, Any]]  # all numbers, plain

    def tell(self, files: Files) -> None:
        from rich.console import Console
        from rich.table import Table

        shown = Table(title=self.title, title_justify="left")
        for column in self.columns:
            shown.add_column(column, justify="right", overflow="fold")
        for i, row in enumerate(self.rows):
            shown.add_row(*row, end_section=i in self.lines)
        console = Console()
        console.print(shown)
        console.print(self.note)
        print(f"\nFigure: {files.figure}")
        if files.html is not None:
            write_atomically(files.html, self.html(files.figure.read_bytes()), new=True)
            print(f"Page: {files.html}")
        if files.json is not None:
            write_atomically(files.json, json.dumps(self.record(), indent=2) + "\n", new=True)
            print(f"Numbers: {files.json}")

    def html(self, picture: bytes) -> str:
        return render(
            "forecast.html",
            title=self.title,
            sheet=self,
            lines=[i + 1 for i in self.lines],
            picture=base64.b64encode(picture).decode(),
        )

    def record(self) -> dict[str, Any]:
        """Plain values; an infinite number is the string "inf"."""
        return {
            "format": 1,
            "version": __version__,
            "question": plain(self.question),
            "answers": [plain(answer) for answer in self.answers],
        }


def plain(item: Any) -> Any:
    """`item` for JSON; of a public sample its shape.

    >>> plain({"a": math.inf, "b": np.zeros((3, 2)), "c": (1, None)})
    {'a': 'inf', 'b': {'sample': [3, 2]}, 'c': [1, None]}
    """
    if isinstance(item, Mapping):
        return {str(name): plain(each) for name, each in item.items()}
    if isinstance(item, np.ndarray):
        return {"sample": list(item.shape)}
    if isinstance(item, tuple | list):
        return [plain(each) for each in item]
    if isinstance(item, np.generic):
        item = item.item()
    if isinstance(item, float) and math.isinf(item):
        return "inf"
    return item


class Question(Protocol):
    """What is forecast, and how its answers are told: `run` says in which order."""

    @property
    def trusts(self) -> tuple[str, ...]: ...  # from whoever holds the data to nobody

    @property
    def axes(self) -> tuple[str, str]: ...  # of the picture, both logarithmic

    def work(self, settings: Sequence[Setting]) -> int: ...  # how often answers and draw will tick

    def answers(self, settings: Sequence[Setting], tick: Tick) -> Sequence[Any]: ...

    def sheet(self, answers: Sequence[Any]) -> Sheet: ...

    def draw(self, axis: Any, trust: str, answers: Sequence[Any], tick: Tick) -> None: ...


def run(question: Question, epsilons: Sequence[float], *, trust: str | None, files: Files) -> None:
    """Forecast, print the table, save the figure and what else is asked for."""
    first = question.trusts[0]
    named = {None: (first,), "both": (first, question.trusts[-1]), "all": question.trusts}
    if trust is not None:
        one_of("trust", trust, (*question.trusts, "both", "all"))
    trusts = named.get(trust) or (str(trust),)
    budgets = sorted({positive("epsilon", each) for each in epsilons})
    settings = [("none", math.inf), *((each, e) for each in trusts for e in budgets)]
    files.prepare()
    with _progress(question.work(settings)) as tick:
        answers = question.answers(settings, tick)
        draw(files.figure, question, trusts, answers, tick)
    question.sheet(answers).tell(files)


@contextmanager
def _progress(total: int) -> Iterator[Tick]:
    """A bar while forecasts are made, on a terminal only."""
    from rich.console import Console
    from rich.progress import Progress

    console = Console(stderr=True)
    with Progress(console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task("forecasting", total=total)
        yield lambda done: progress.advance(task, done)


def draw(
    path: Path,
    question: Question,
    trusts: Sequence[str],
    answers: Sequence[Any],
    tick: Tick = lambda done: None,
) -> None:
    """The picture: a panel for each trust."""
    from matplotlib.figure import Figure

    from discreet.experiments.figures import logarithmic

    picture = Figure(figsize=(6.2 * len(trusts), 4.2), layout="constrained")
    axes = picture.subplots(1, len(trusts), squeeze=False, sharey=True)[0]
    for axis, trust in zip(axes, trusts, strict=True):
        question.draw(axis, trust, answers, tick)
        x, y = question.axes
        axis.set(xlabel=x, ylabel=y, title=f"{trust} trust")
        axis.label_outer()
        axis.spines[["top", "right"]].set_visible(False)
        axis.legend(frameon=False)
    for axis in axes:
        logarithmic(axis, "xy")
    picture.savefig(path, dpi=110)
