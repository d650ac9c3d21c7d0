"""Locally private bandits: the tables of docs/local.md.

    python benchmarks/bandits_local.py [local] [lists] [seeds] [from=SEED]

local   beside other locally private bandits, sphere
lists   the same few actions for everybody: does a run stay with a wrong one?
"""

import sys

import bandits
import numpy as np
from bandits import Case, main, runs
from kit import CONSOLE, new_table, with_interval

MARKS = (100_000, 1_000_000)
TARGETS = {1.0: (3_000, 3_500), 3.0: (700, 800)}
LEARNERS = {
    "local": "LinearBandit(trust='local')",
    "LocalLinUCB": "LocalLinUCB (Zheng et al. 2020)",
    "LocalSGD": "LocalSGDBandit (Han et al. 2021)",
    "LinUCB": "LinUCB, not private",
}


def local(seeds: int) -> None:
    cases = {(name, epsilon): Case(name, epsilon=epsilon, marks=MARKS)
             for epsilon in TARGETS for name in LEARNERS}  # fmt: skip
    found = runs(cases.values(), seeds)
    table = new_table(
        f"Local trust, sphere, d = 5, pure epsilon: regret, mean ± 95% (largest), {seeds} seeds",
        ("epsilon", "learner", *(f"T = {mark:,}" for mark in MARKS), "target", "/ ours at the end"),
    )
    for epsilon, targets in TARGETS.items():
        ours = found[cases["local", epsilon]][:, -1].mean()
        for name, title in LEARNERS.items():
            regret = found[cases[name, epsilon]]
            goal = " / ".join(f"{target:,}" for target in targets) if name == "local" else ""
            table.add_row(
                f"{epsilon:g}", title,
                *(f"{with_interval(column)} ({column.max():,.0f})" for column in regret.T),
                goal, "" if name == "LinUCB" else f"{regret[:, -1].mean() / ours:.1f}",
            )  # fmt: skip
    CONSOLE.print(table)


def lists(seeds: int) -> None:
    marks = (24_000, 30_000)
    found = runs((Case("local", world, marks=marks) for world in ("fixed", "basis")), seeds)
    table = new_table(
        f"Local trust, lists of actions, d = 5, epsilon = 1, T = {marks[1]:,}: {seeds} seeds from "
        f"{bandits.FIRST}",
        ("world", "regret", "median", "largest", "runs that still lose .1 a round at the end"),
    )
    for case, curve in found.items():
        late = (curve[:, 1] - curve[:, 0]) / (marks[1] - marks[0])
        end = curve[:, 1]
        table.add_row(case.world, with_interval(end), f"{np.median(end):,.0f}",
                      f"{end.max():,.0f}", str(int((late > 0.1).sum())))  # fmt: skip
    CONSOLE.print(table)


if __name__ == "__main__":
    main({"local": local, "lists": lists}, sys.argv[1:])
