"""A warm start: what an old log is worth (a table of docs/service.md).

    python benchmarks/bandits_warm.py [seeds]

A log of uniformly chosen actions, read before the first decision; then 2,000 decisions in the same
world (sphere, d = 8, 10 actions). Regret of a decision: mean, and the worst seed.
"""

import sys

import numpy as np
from kit import CONSOLE, new_table, run

from discreet.bandits import LinearBandit
from discreet.environments import play
from discreet.environments.linear import linear_world
from discreet.experiments.measure import grid
from discreet.privacy import SeededNoise

FIRST = 500  # seed
T = 2000
D = 8
ROWS = (300, 1000, 5000)
EPSILONS = (0.5, 2.0)
WAYS = ("no log", "private log", "public log")


def regret(*, seed: int, rows: int, epsilon: float, way: str) -> dict[str, np.ndarray]:
    """Regret of a decision after the log."""
    world, rng = linear_world("sphere", D, seed=seed), np.random.default_rng([seed, 1])
    bandit = LinearBandit(
        D, epsilon=epsilon, reward_range=world.reward_range, seed=seed, noise=SeededNoise(seed)
    )
    people = world.people(rows, rng)
    actions = rng.integers(0, people.features.shape[1], rows)
    if way != "no log":
        chosen = people.features[np.arange(rows), actions]
        bandit.warm_start(chosen, people.rewards(actions, rng), public=way == "public log")
    return {"value": np.array([play(bandit, world, T, seed=seed).regret.mean()])}


def main(seeds: int) -> None:
    """Print the table."""
    chosen = range(FIRST, FIRST + seeds)
    found = run(grid(regret, seeds=chosen, rows=ROWS, epsilon=EPSILONS, way=WAYS))
    title = f"Regret of the first 2,000 decisions after a log: mean (worst of {seeds} seeds)"
    table = new_table(title, ["rows of the log", "epsilon", *WAYS])
    for rows in ROWS:
        for epsilon in EPSILONS:
            shown = []
            for way in WAYS:
                values = found.over(regret, rows=rows, epsilon=epsilon, way=way).ravel()
                shown.append(f"{np.mean(values):.4f} ({np.max(values):.4f})")
            table.add_row(f"{rows:,}", f"{epsilon:g}", *shown)
    CONSOLE.print(table)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 20)
