"""The command `discreet reproduce`, added to those of the experiments."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from discreet.experiments.commands import Cluster, Out, Show, Workers, app, show_page
from discreet.reproduce import NAMES

__all__ = ["app"]


@app.command()
def reproduce(
    paper: Annotated[str, typer.Argument(help=f"{', '.join(NAMES)}, or all.")],
    quick: Annotated[
        bool, typer.Option("--quick", help="Short runs and few seeds: minutes for all papers.")
    ] = False,
    out: Out = Path("out/reproduce"),
    workers: Workers = None,
    cluster: Cluster = None,
    show: Show = True,
) -> None:
    """The headline tables and figures of five papers, ours beside theirs, each in one HTML page.

    With all of them there is a page that sums up where we are better, equal
    or worse, and where a paper is wrong.

    Stop it when you like: the same command goes on where it was.
    """
    from discreet.reproduce import run
    from discreet.reproduce.exhibit import VERDICTS

    papers, console = run.chosen(paper), Console()
    bar = Progress(TextColumn("cells"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(),
                   console=console, disable=not console.is_terminal)  # fmt: skip
    with bar:
        task = bar.add_task("cells", total=None)

        def watch(done: int, total: int) -> None:
            bar.update(task, completed=done, total=total)

        found = run.reproduce(
            papers, out, quick=quick, workers=workers, cluster=cluster, watch=watch
        )
    for each, exhibits in found.items():
        table = Table("", *VERDICTS, title=each.reference, title_justify="left")
        for exhibit in exhibits:
            table.add_row(exhibit.title, *(str(exhibit.count(v) or "") for v in VERDICTS))
        console.print(table)
    pages = out / "quick" if quick else out
    name = "index" if len(papers) > 1 else papers[0].name
    show_page(pages / f"{name}.html", show)
