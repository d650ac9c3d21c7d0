"""One person, many visits: ways to protect people, side by side (a table of docs/bandits-why.md).

    python benchmarks/bandits_people.py [seeds]

50,000 rounds of few or many people, in random order; epsilon = 1, delta = 1e-6 for all that a
person ever does. Regret is pseudo-regret, summed over rounds. Set OMP_NUM_THREADS=1.
"""

import sys
from itertools import islice

import numpy as np
from kit import CONSOLE, new_table, run, with_interval

from discreet.bandits import LinearBandit
from discreet.environments import play
from discreet.environments.linear import linear_world
from discreet.experiments.measure import grid
from discreet.privacy import SeededNoise

FIRST = 1000  # seed; shares and growth were chosen on seeds 300 to 311
T = 50_000
SEEDS = 6
PEOPLE = (50_000, 5_000, 500)
WORLDS = ("sphere", "half")
WAYS = {  # arguments of LinearBandit; None stands for the visits of a person
    "first visit": {"unit": "person", "visits": "first"},
    "all visits": {"unit": "person", "visits": "all"},
    "all visits, horizon": {"unit": "person", "visits": "all", "horizon": T},
    "contributions": {"contributions": None},
    "rounds only": {},
}


def regret(*, seed: int, world: str, people: int, way: str) -> dict[str, np.ndarray]:
    """Regret at the end; the same people in the same order for all ways."""
    here = linear_world(world, 5, seed=seed)
    arguments = dict(WAYS[way])
    if "contributions" in arguments:
        arguments["contributions"] = T // people
    bandit = LinearBandit(
        5, reward_range=here.reward_range, seed=seed, noise=SeededNoise(seed), **arguments
    )
    order = np.random.default_rng([seed, 9]).permutation(np.arange(T) % people)
    names = iter(order.tolist())
    who = None if bandit.unit == "round" else lambda n: list(islice(names, n))
    played = play(bandit, here, T, seed=seed, who=who)
    return {"value": np.array([played.regret.sum()])}


def main(seeds: int) -> None:
    chosen = range(FIRST, FIRST + seeds)
    found = run(list(grid(regret, seeds=chosen, world=WORLDS, people=PEOPLE, way=tuple(WAYS))))
    table = new_table(
        f"Regret at T = {T:,}, d = 5, 10 actions, epsilon = 1: mean ± 95% (largest), {seeds} seeds",
        ("world", "people x visits", *WAYS),
    )
    for world in WORLDS:
        for people in PEOPLE:
            cells = []
            for way in WAYS:
                values = found.over(regret, world=world, people=people, way=way).ravel()
                cells.append(f"{with_interval(values)} ({values.max():,.0f})")
            table.add_row(world, f"{people:,} x {T // people}", *cells)
    CONSOLE.print(table)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else SEEDS)
