"""`discreet abtest`: experiments on people, without a bandit."""

from pathlib import Path
from typing import Annotated

import typer
from typer import Argument, Option

from discreet.cli.options import Show

abtest = typer.Typer(help="A/B tests that tell about nobody.")


@abtest.callback()
def start() -> None:
    """A/B tests that tell about nobody: looks at any time, intervals that hold at all of them."""


@abtest.command()
def run(
    file: Annotated[Path, Argument(metavar="TEST", help="An A/B test, as TOML.")],
    out: Annotated[Path | None, Option(help="Folder; by default out/NAME OF THE FILE.")] = None,
    show: Show = True,
) -> None:
    """Add whoever is new in the tables, take a look, and write the report.

    \b
      name = "Checkout button"
      people = "people.csv"           # a row each, also who did nothing
      person = "id"                   # the column of ids ("person")
      arms = ["old", "new"]
      salt = "checkout-1"             # of the public split; never used again
      epsilon = 1.0
      \\[metrics]                      # the first decides, the others guard
      bought = \\[0, 1]
      spent = \\[0, 200]

    Run it again when the tables have grown: people who were added are known,
    and each run is one look. In the folder: report.html, looks.json, and the
    state, which is as secret as the data.
    """
    from discreet.experiments.abtests import PAGE, Plan
    from discreet.experiments.abtests import run as run_plan

    folder = out or Path("out") / file.stem
    report = run_plan(Plan.read(file), folder)
    if report is None:
        print("Too few people to look above the noise: run it again when there are more.")
        return
    print(f"Look {report.look.number}: {'; '.join(report.look.verdicts)}.")
    from discreet.cli.run import show_page

    show_page(folder / PAGE, show)
