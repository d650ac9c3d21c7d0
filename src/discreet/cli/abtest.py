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
      people = "people.csv"           # a row for each person, also who did nothing
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


@abtest.command()
def forecast(
    baseline: Annotated[
        float, Option(metavar="P", help="Chance of the metric without the change.")
    ],
    lift: Annotated[float, Option(metavar="D", help="What the change adds to that chance.")],
    arms: Annotated[int, Option(min=2, help="Arms, of equal size.")] = 2,
    epsilon: Annotated[float, Option(metavar="E", help="Privacy budget.")] = 1.0,
    delta: Annotated[float, Option(help="Chance that epsilon may fail.")] = 1e-6,
    looks: Annotated[int, Option(min=1, help="Looks that will be taken.")] = 50,
    power: Annotated[float, Option(help="Chance that the difference is proved.")] = 0.8,
) -> None:
    """Before any data: how many people an experiment needs, and what privacy adds to that.

    \b
      discreet abtest forecast --baseline .10 --lift .02 --arms 2 --epsilon 1
    """
    from discreet.evaluation.forecast import people_needed

    found = people_needed(
        baseline, lift, epsilon=epsilon, delta=delta, arms=arms, looks=looks, power=power
    )
    for name, people in (("with privacy", found.private), ("without", found.plain)):
        print(f"people needed {name}: {'too many' if people is None else f'{people:,}'}")
    if found.price is not None:
        print(f"price of privacy: {found.price:.2f} times as many")
