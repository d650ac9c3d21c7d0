"""The commands, put together. Each imports what it runs when it is run."""

from typing import Annotated

import typer

from discreet.cli.abtest import abtest
from discreet.cli.audit import audit
from discreet.cli.dossier import dossier
from discreet.cli.forecast import forecast
from discreet.cli.listings import datasets, learners, statement, version
from discreet.cli.run import demo, report, run
from discreet.cli.service import backup, keys, relay, restore, serve, witness

app = typer.Typer(
    rich_markup_mode="rich",
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback(invoke_without_command=True)
def start(
    context: typer.Context,
    show_version: Annotated[
        bool, typer.Option("--version", help="Print the version and leave.", is_eager=True)
    ] = False,
) -> None:
    """Differentially private online learning, regression and bandits.

    \b
    Start with
      discreet demo                              what privacy costs, in a minute
      discreet forecast --rounds 50000 --dim 5   what it would cost you
      discreet run experiment.toml               your own comparison
      discreet audit                             attacks: do the promises hold?
      discreet serve --demo                      decisions over HTTP
    """
    if show_version:
        version()
        raise typer.Exit
    if context.invoked_subcommand is None:
        print(context.get_help())


for command in (demo, run, report, audit, statement, dossier, datasets, learners):
    app.command()(command)
app.add_typer(forecast, name="forecast")
app.add_typer(abtest, name="abtest")
for service in (serve, relay, backup, restore, witness):
    app.command(rich_help_panel="The decision service")(service)
app.add_typer(keys, name="keys", rich_help_panel="The decision service")
app.command()(version)
