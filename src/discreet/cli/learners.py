"""`discreet learners`: what an experiment can name as a learner."""


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
            if entry.options:
                words += f"\noptions: {', '.join(entry.options)}"
            table.add_row(name, entry.trust, Text(words))
        Console().print(table)
