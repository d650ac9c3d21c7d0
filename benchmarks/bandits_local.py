"""Locally private bandits: the local table of docs/local.md.

python benchmarks/bandits_local.py [seeds]
"""

import sys

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


if __name__ == "__main__":
    main({"local": local}, sys.argv[1:])
