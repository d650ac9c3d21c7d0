"""What a forecast says, for all its readers: a table in the terminal, a page, a file of numbers."""

import base64
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from discreet import __version__
from discreet.experiments.pages import assert_new, render, write_new


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
        """Print the table and write the files."""
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
            write_new(files.html, self.html(files.figure.read_bytes()))
            print(f"Page: {files.html}")
        if files.json is not None:
            write_new(files.json, json.dumps(self.record(), indent=2) + "\n")
            print(f"Numbers: {files.json}")

    def html(self, picture: bytes) -> str:
        """The page; the picture is a PNG."""
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
