"""Run papers and write their pages.

    python -m papers [PAPER ...] [--quick] [--out out/papers] [--workers N | --cluster tcp://...]

Stop it when you like: the same command resumes where it was.
"""

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from papers import run
from papers.exhibit import VERDICTS

MINUTE = 60.0  # seconds between lines


class Lines:
    """Progress where the output is a file: a line at the beginning, and one a minute."""

    def __init__(self) -> None:
        self._next = 0.0

    def __call__(self, done: int, total: int) -> None:
        """So many cells are done."""
        if time.monotonic() >= self._next or done == total:
            self._next = time.monotonic() + MINUTE
            print(f"{time.strftime('%H:%M')}  {done} of {total} cells", file=sys.stderr, flush=True)


def main(arguments: Sequence[str] | None = None) -> None:
    """The command; a mistake leaves with status 2."""
    parser = argparse.ArgumentParser(
        prog="python -m papers",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("papers", nargs="*", help=f"of {', '.join(run.PAPERS)}; by default all")
    parser.add_argument("--quick", action="store_true", help="short runs and few seeds")
    parser.add_argument("--out", type=Path, default=Path("out/papers"), help="folder of the pages")
    parser.add_argument("--workers", type=int, help="processes; by default one for each core")
    parser.add_argument("--cluster", help="a Dask scheduler whose workers run the cells")
    asked = parser.parse_args(arguments)
    try:
        _run(asked)
    except (ValueError, OSError) as error:
        print(f"papers: {error}", file=sys.stderr)
        sys.exit(2)


def _run(asked: argparse.Namespace) -> None:
    papers = run.chosen(asked.papers)
    console = Console()
    bar = Progress(TextColumn("cells"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(),
                   console=console, disable=not console.is_terminal)  # fmt: skip
    lines = Lines()

    def watch(done: int, total: int) -> None:
        bar.update(task, completed=done, total=total)
        if not console.is_terminal:
            lines(done, total)

    with bar:
        task = bar.add_task("cells", total=None)
        found = run.reproduce(
            papers,
            asked.out,
            quick=asked.quick,
            workers=asked.workers,
            cluster=asked.cluster,
            watch=watch,
        )
    for paper, exhibits in found.items():
        table = Table("", *VERDICTS, title=paper.reference, title_justify="left")
        for exhibit in exhibits:
            table.add_row(exhibit.title, *(str(exhibit.count(v) or "") for v in VERDICTS))
        console.print(table)
    print(f"Pages: {asked.out / 'quick' if asked.quick else asked.out}")


if __name__ == "__main__":
    main()
