"""`discreet run`: an experiment from a file."""

import functools
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option

from discreet.cli.options import Cluster, Show, Workers

if TYPE_CHECKING:
    from collections.abc import Callable

    from discreet.experiments.cells import Record
    from discreet.experiments.experiment import Cell, Experiment
    from discreet.experiments.worth import Worth


def run(
    file: Annotated[Path, Argument(metavar="EXPERIMENT", help="An experiment, as TOML.")],
    out: Annotated[Path | None, Option(help="Folder; by default out/NAME OF THE FILE.")] = None,
    workers: Workers = None,
    cluster: Cluster = None,
    show: Show = True,
) -> None:
    """Run an experiment: environments x learners x budgets x seeds, in parallel.

    An experiment is a small TOML file:

    \b
      name = "Which insurance for whom"
      task = "bandits"                # or "regression", "online"
      epsilons = [0.3, 1.0, 3.0]
      rounds = 20000
      seeds = 10
      \\[\\[environments]]
      name = "randhie"                # see: discreet datasets
      \\[\\[learners]]
      name = "LinearBandit"           # see: discreet learners
      \\[\\[learners]]
      name = "LinUCB"

    Written to the folder: results.parquet (a tidy table), report.html, and
    one small file for each finished cell. A run that was killed resumes when
    it is started again; cells that are done are not run again. Mistakes in
    the file are told by their key before anything is run.
    """
    from discreet.experiments.experiment_file import read_experiment

    experiment = read_experiment(file)
    run_and_show(experiment, out or Path("out") / file.stem, workers, show, cluster)


def run_and_show(
    experiment: "Experiment",
    out: Path,
    workers: int | None,
    show: bool,
    cluster: str | None = None,
    beside: "Callable[[], Worth] | None" = None,
) -> None:
    """Run an experiment below a live table, then print what privacy costs and write the report.

    `beside` makes what stands beside the results: on the page, and in a few lines at the end.
    """
    from rich.console import Console

    from discreet.cli.report import show_page
    from discreet.experiments.cells import write_atomically
    from discreet.experiments.live import live_table
    from discreet.experiments.report import BESIDE, headline, not_private, write_report
    from discreet.experiments.runner import load, run
    from discreet.experiments.tasks import cells_of

    @functools.cache
    def worth() -> "Worth | None":
        if beside is None:
            return None
        found = beside()
        write_atomically(out / BESIDE, found.html())
        return found

    console = Console()
    first = {cell.key for cell in cells_of(experiment) if cell.seed == experiment.seeds[0]}
    try:
        with live_table(experiment, console) as watch:

            def watch_and_show(cell: "Cell", record: "Record") -> None:
                watch(cell, record)
                if cell.key in first:
                    first.remove(cell.key)
                    if not first and len(experiment.seeds) > 1:  # all of one seed: a first picture
                        worth()  # other processes go on meanwhile
                        path = write_report(load(out), out)
                        console.print(f"First pictures, of one seed: {path}", highlight=False)

            results = run(experiment, out, workers=workers, cluster=cluster, watch=watch_and_show)
    except KeyboardInterrupt:
        console.print(
            f"\nStopped. Finished cells are kept in {out}: the same command resumes there. "
            f"What is finished: discreet report {out}",
            highlight=False,
            markup=False,
        )
        raise
    if warning := not_private(results):
        console.print(f"\n{warning}", style="bold red", highlight=False, markup=False)
    console.print("\n[bold]What privacy costs here[/bold]")
    for sentence in headline(results):
        console.print(sentence, highlight=False, markup=False)
    if (told := worth()) is not None:
        console.print("\n[bold]What it is worth[/bold]")
        for sentence in told.sentences:
            console.print(sentence, highlight=False, markup=False)
    console.print(f"\nNumbers: {out / 'results.parquet'}", highlight=False, markup=False)
    show_page(write_report(results, out), show)
