"""The demo's own figures, for docs/experiments.md: fractions gained, and processor time.

python benchmarks/demo.py
"""

import math

from kit import CONSOLE, FOLDER, new_table

from discreet.experiments.demo import demo_experiment
from discreet.experiments.runner import run


def main() -> None:
    experiment = demo_experiment()
    results = run(experiment, FOLDER.parent / "demo")
    summary = results.summary()
    epsilons = sorted(experiment.epsilons, reverse=True)
    columns = (
        "environment",
        "learner",
        "no privacy (LinUCB)",
        *(f"epsilon = {e:g}" for e in epsilons),
    )
    table = new_table("The demo: fraction gained over choosing blindly", columns)
    gained = summary.set_index(["environment", "learner", "epsilon"])["gained"]
    for environment in (each.title for each in experiment.environments):
        plain = gained[environment, "LinUCB", math.inf]
        for learner in (each.title for each in experiment.learners if each.title != "LinUCB"):
            cells = (gained[environment, learner, epsilon] for epsilon in epsilons)
            table.add_row(environment, learner, *(f"{100 * cell:.1f}%" for cell in (plain, *cells)))
    CONSOLE.print(table)
    seconds = results.seconds()
    time = new_table("The demo: processor time", ("cells", "seconds", *seconds))
    each = (f"{part:.0f}" for part in seconds.values())
    time.add_row(str(len(results.found)), f"{sum(seconds.values()):.0f}", *each)
    CONSOLE.print(time)


if __name__ == "__main__":
    main()
