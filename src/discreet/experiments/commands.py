"""The commands of `discreet`: what they are called, what they take, how they explain themselves."""

import os
import sys
import webbrowser
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from discreet import __version__
from discreet.experiments.command_audit import audit
from discreet.experiments.command_plan import plan
from discreet.experiments.plan import Plan

app = typer.Typer(
    rich_markup_mode="rich",
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("plan")(plan)
app.command("audit")(audit)

Out = Annotated[Path, typer.Option(help="Folder for everything that is written.")]
Workers = Annotated[
    int | None, typer.Option(min=1, help="Processes; as many as there are cores, unless told.")
]
Cluster = Annotated[
    str | None,
    typer.Option(help="A Dask scheduler, tcp://HOST:PORT: its workers run the cells."),
]
Show = Annotated[
    bool, typer.Option("--open/--no-open", help="Open the report where there is a display.")
]


@app.callback(invoke_without_command=True)
def start(context: typer.Context) -> None:
    """Differentially private online learning, regression and bandits.

    \b
    Start with
      discreet demo                          what privacy costs, in a minute
      discreet plan --rounds 50000 --dim 5   what it would cost you
      discreet run plan.toml                 your own comparison
      discreet audit                         attacks: do the promises hold?
    """
    if context.invoked_subcommand is None:
        print(context.get_help())


@app.command()
def demo(
    out: Out = Path("out/demo"),
    rounds: Annotated[int, typer.Option(min=100, help="People, one after the other.")] = 50_000,
    seeds: Annotated[int, typer.Option(min=1, help="Runs of everything; more are surer.")] = 10,
    workers: Workers = None,
    show: Show = True,
) -> None:
    """Private and non-private bandits side by side, at three budgets: what does privacy cost?

    One world is made after a real experiment: people were drawn by lot into
    health insurance plans (RAND, 1974-1982), and the learner has to find out
    which plan suits whom. The other is synthetic. A table fills while runs
    finish; then there is a report, one HTML page.

    Stop it when you like: the same command goes on where it was.
    """
    from discreet.experiments.demo import demo_plan

    _run(demo_plan(rounds, seeds), out, workers, show)


@app.command()
def run(
    plan_file: Annotated[Path, typer.Argument(metavar="PLAN", help="A plan, as TOML.")],
    out: Annotated[
        Path | None, typer.Option(help="Folder; out/NAME OF THE FILE, unless told.")
    ] = None,
    workers: Workers = None,
    cluster: Cluster = None,
    show: Show = True,
) -> None:
    """Run a plan: environments x learners x budgets x seeds, in parallel.

    A plan is a small TOML file:

    \b
      name = "Which plan for whom"
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
    one small file for each finished cell. A run that was killed goes on when
    it is started again; cells that are done are not run again. Mistakes in
    the file are told with their line before anything is run.
    """
    from discreet.experiments.plan_file import read_plan

    _run(read_plan(plan_file), out or Path("out") / plan_file.stem, workers, show, cluster)


@app.command()
def report(
    folder: Annotated[Path, typer.Argument(help="Where a run wrote its results.")],
    show: Show = True,
) -> None:
    """Write the report of a run again, from what is finished; also of one that was stopped."""
    from discreet.experiments.report import write_report
    from discreet.experiments.runner import load

    show_page(write_report(load(folder), folder), show)


@app.command()
def datasets() -> None:
    """The worlds and data sets that a plan can name, where they are from, and what they need."""
    from discreet.environments import WORLDS
    from discreet.environments.losses import NAMES
    from discreet.environments.regression_data import DATA

    table = Table("name", "who comes, what is chosen, what it brings", show_lines=True,
                  title='environments of task = "bandits"', title_justify="left")  # fmt: skip
    for each in WORLDS.values():
        words = f"{each.person}\nactions: {each.actions}\nreward: {each.reward}"
        if each.licence and each.name != "table":
            words += f"\nrows: {each.size}, from {each.source}. {each.licence}"
        if each.options:
            words += f"\noptions: {', '.join(each.options)}"
        if each.extra:
            words += f"\nneeds: pip install 'discreet[{each.extra}]'"
        table.add_row(each.name, Text(words))
    Console().print(table)
    Console().print(
        Text("task = \"regression\": sphere (dim, noise), table, " + ", ".join(DATA)
             + "\ntask = \"online\": " + ", ".join(NAMES) + " (n, gap)")
    )  # fmt: skip


@app.command()
def learners() -> None:
    """The learners that a plan can name, whom they protect, and the papers they come from.

    \b
    trust    joint    everything shown to anybody but the person concerned is private
             central  everything that is published is private
             local    every report is private before it leaves its device
             none     no privacy: to compare with
    """
    from discreet.experiments.tasks import TASKS

    for task in TASKS.values():
        table = Table("name", "trust", "what it does", show_lines=True,
                      title=f'learners of task = "{task.name}"', title_justify="left")  # fmt: skip
        for name, entry in task.learners.items():
            words = f"{entry.about}\nreference: {entry.reference}"
            if entry.options:
                words += f"\noptions: {', '.join(entry.options)}"
            table.add_row(name, entry.trust, Text(words))
        Console().print(table)


@app.command()
def version() -> None:
    """Print the version."""
    print(f"discreet {__version__}")


def _run(
    plan: Plan, out: Path, workers: int | None, show: bool, cluster: str | None = None
) -> None:
    from discreet.experiments.live import live_table
    from discreet.experiments.report import headline, write_report
    from discreet.experiments.runner import run as run_plan

    console = Console()
    with live_table(plan, console) as watch:
        results = run_plan(plan, out, workers=workers, cluster=cluster, watch=watch)
    console.print("\n[bold]What privacy costs here[/bold]")
    for sentence in headline(results):
        console.print(sentence, highlight=False)
    console.print(f"\nNumbers: {out / 'results.parquet'}", highlight=False)
    show_page(write_report(results, out), show)


def show_page(path: Path, show: bool) -> None:
    """Open a page where there is a display; tell its path in any case."""
    print(f"Report: {path}")
    display = sys.platform in ("darwin", "win32") or any(
        os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY")
    )
    if show and display and sys.stdout.isatty():
        webbrowser.open(path.resolve().as_uri())
