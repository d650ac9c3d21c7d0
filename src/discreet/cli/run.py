"""`discreet demo`, `run` and `report`: experiments."""

import functools
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option

from discreet.cli.options import Cluster, Out, Show, Workers

if TYPE_CHECKING:
    from collections.abc import Callable

    from rich.console import Console

    from discreet.experiments.demo import Worth
    from discreet.experiments.experiment import Cell, Experiment
    from discreet.experiments.results import Results
    from discreet.experiments.runner import Record


def demo(
    out: Out = Path("out/demo"),
    rounds: Annotated[int, Option(min=100, max=10**8, help="People, one by one.")] = 50_000,
    seeds: Annotated[int, Option(min=1, help="Runs of everything; more are surer.")] = 10,
    workers: Workers = None,
    show: Show = True,
) -> None:
    """Private and non-private bandits side by side, at three budgets: what does privacy cost?

    One world is made after a real experiment: people were drawn by lot into
    health insurance plans (RAND, 1974-1982), and the learner has to find out
    which plan suits whom. The other is synthetic. A table fills while runs
    finish; then there is a report, one HTML page. It also says what the
    bandit would tell about itself: what it gains over a hold-out, and what
    it has learnt.

    Stop it when you like: the same command resumes where it was.
    """
    from discreet.experiments.demo import FIRST_SEED, demo_experiment, demo_worth

    run_and_show(
        demo_experiment(rounds, seeds),
        out,
        workers,
        show,
        beside=lambda: demo_worth(rounds, FIRST_SEED),
    )


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
    from discreet.experiments.tasks import read_experiment

    experiment = read_experiment(file)
    run_and_show(experiment, out or Path("out") / file.stem, workers, show, cluster)


def report(
    folder: Annotated[Path, Argument(help="Where a run wrote its results.")],
    show: Show = True,
) -> None:
    """Write the report of a run again, from what is finished; also of one that was stopped."""
    from discreet.experiments.report import write_report
    from discreet.experiments.runner import load

    show_page(write_report(load(folder), folder), show)


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

    from discreet.experiments.live import live_table
    from discreet.experiments.report import BESIDE, write_report
    from discreet.experiments.runner import load, run
    from discreet.experiments.tasks import cells_of
    from discreet.experiments.writing import write_atomically

    @functools.cache
    def worth() -> "Worth | None":
        if beside is None:
            return None
        found = beside()
        write_atomically(out / BESIDE, found.html())
        return found

    console = Console()
    first = {cell.key for cell in cells_of(experiment) if cell.seed == experiment.seeds[0]}

    def show_first(cell: "Cell", record: "Record") -> None:
        if cell.key in first:
            first.remove(cell.key)
            if not first and len(experiment.seeds) > 1:  # all of one seed: a first picture
                worth()  # other processes go on meanwhile
                path = write_report(load(out), out)
                console.print(f"First pictures, of one seed: {path}", highlight=False)

    try:
        with live_table(experiment, console, show_first) as watch:
            results = run(experiment, out, workers=workers, cluster=cluster, watch=watch)
    except KeyboardInterrupt:
        kept = f"Stopped. Finished cells are kept in {out}: the same command resumes there."
        console.print(f"\n{kept} What is finished: discreet report {out}", markup=False)
        raise
    _tell(console, results, worth())
    console.print(f"\nNumbers: {out / 'results.parquet'}", highlight=False, markup=False)
    show_page(write_report(results, out), show)


def _tell(console: "Console", results: "Results", worth: "Worth | None") -> None:
    """What privacy costs, in sentences."""
    from discreet.experiments.report import headline, not_private

    if warning := not_private(results):
        console.print(f"\n{warning}", style="bold red", highlight=False, markup=False)
    console.print("\n[bold]What privacy costs here[/bold]")
    for sentence in headline(results):
        console.print(sentence, highlight=False, markup=False)
    if worth is not None:
        console.print("\n[bold]What it is worth[/bold]")
        for sentence in worth.sentences:
            console.print(sentence, highlight=False, markup=False)


def show_page(path: Path, show: bool) -> None:
    """Open a page where there is a display; print its path in any case."""
    print(f"Report: {path}")
    display = sys.platform in ("darwin", "win32") or any(
        os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY")
    )
    if show and display and sys.stdout.isatty():
        import webbrowser

        webbrowser.open(path.resolve().as_uri())
