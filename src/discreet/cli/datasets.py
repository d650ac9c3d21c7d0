"""`discreet datasets`: what an experiment can name as an environment."""


def datasets() -> None:
    """The worlds and data sets that an experiment can name, their sources, and what they need."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

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
    console = Console()
    console.print(table)
    console.print(
        Text("task = \"regression\": sphere (dim, noise), table, " + ", ".join(DATA)
             + "\ntask = \"online\": " + ", ".join(NAMES) + " (n, gap)")
    )  # fmt: skip
