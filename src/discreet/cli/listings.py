"""Commands that only tell: what an experiment can name, what a file promises, the version."""

import json
from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from discreet import __version__
from discreet.cli.options import Given, read_file


def datasets() -> None:
    """The worlds and data sets that an experiment can name, their sources, and what they need."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from discreet.environments import WORLDS
    from discreet.environments.datasets import DATA
    from discreet.environments.losses import NAMES

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
    console = Console()
    console.print(table)
    console.print(
        Text("task = \"regression\": sphere (dim, noise), table, " + ", ".join(DATA)
             + "\ntask = \"online\": " + ", ".join(NAMES) + " (n, gap)")
    )  # fmt: skip


def learners() -> None:
    """The learners that an experiment can name, whom they protect, and the papers they come from.

    \b
    trust    joint    everything shown to anybody but the person concerned is private
             central  everything that is published is private
             local    every report is private before it leaves its device
             none     no privacy: to compare with
    """
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from discreet.experiments.tasks import TASKS

    for task in TASKS.values():
        table = Table("name", "trust", "what it does", show_lines=True,
                      title=f'learners of task = "{task.name}"', title_justify="left")  # fmt: skip
        for name, entry in task.learners.items():
            words = f"{entry.about}\nreference: {entry.reference}"
            if options := task.options(entry):
                words += f"\noptions: {', '.join(options)}"
            table.add_row(name, entry.trust, Text(words))
        Console().print(table)


def statement(
    state: Annotated[
        Path, Argument(help="What a learner, a model, a ledger or a running sum has saved.")
    ],
    as_json: Annotated[
        bool, Option("--json", help="All of the guarantee, every release too, for machines.")
    ] = False,
    given: Given = None,
) -> None:
    """What a saved learner promises each person, what it has released, what it does not protect.

    The state is read and left as it is; it may be in use. Nothing but the
    promise is printed, and that is public.
    """
    from discreet.privacy import Ledger

    saved = read_file(state, given or [])
    promise = saved.guarantee
    if as_json:
        print(json.dumps(promise.to_dict(), indent=2))
        return
    print(promise.statement())
    if isinstance(saved.item, Ledger):
        for each in promise.releases:
            print(f"  {each.what}: {saved.item.share(each):.1%} of the budget")
        print(promise.spent())


def version() -> None:
    """Print the version."""
    print(f"discreet {__version__}")
