"""What each tuned number of the joint bandit is worth: paired runs with and without it.

    python benchmarks/ablations.py [seeds] [from=SEED]

Every row sets one field of `discreet.bandits.tuning.Tuning` to a value at which its rule does
nothing, or to half or twice the number where a number is needed. Differences are means over seeds
+- 1.96 standard errors, for the same people, rewards and noise: regret in the lists of actions
(less is better), gain over blind choice in points where actions have weights of their own (more is
better), and how many runs are stuck. epsilon = 1, 20,000 rounds; set OMP_NUM_THREADS=1.
"""

import math
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict

import calibration as worlds
import numpy as np
from kit import CONSOLE, new_table, run

from discreet.arrays import Array
from discreet.bandits.tuning import TUNING
from discreet.experiments.measure import Found, grid
from discreet.experiments.statistics import standard_error

FIRST = 97000  # seed
SEEDS = 60
ROUNDS = 20_000
FREE = "even, no privacy"
WORLDS = ("fixed", "basis", "sphere", "long", "short", "sign", "even", "rare", FREE)
AS_IT_IS = "as it is"
WITHOUT: dict[str, tuple[str, float]] = {
    "no prior of the residuals' scale": ("spread", 10.0),
    "residuals always look normal": ("heavy", math.inf),
    "nu may fall at once": ("fall", 1e-9),
    "nothing recent stays": ("recent", 0.0),
    "all that is recent stays": ("recent", 1.0),
    "noise may be all signal": ("rest", 1e-3),
    "windows are alike": ("unlike", 0.0),
    "every direction counts for the radius": ("visible", -math.inf),
    "theta is never longer": ("evidence", 1e300),
    "whitened as finely as noise allows": ("isotropy", 1e-3),
    "whitened so where nothing is clipped": ("even", 0.3),
    "residual as long as the row": ("balance", 1.0),
    "first window half as long": ("first", 2.0),
    "first window twice as long": ("first", 8.0),
    "windows half as long": ("growth", 0.25),
    "windows twice as long": ("growth", 1.0),
    "prior of nu ten times less": ("noise", 0.01),
    "prior of nu ten times more": ("noise", 1.0),
    "a constant as long as rows": ("constant", 1.0),
    "greedy": ("exploring", 0.0),
    "half the optimism": ("optimism", 1.25),
    "twice the optimism": ("optimism", 5.0),
    "exploring up to all of a window": ("exploring", 1.0),
    "no more exploring where unclipped": ("unclipped_tries", 1.0),
    "no least number of tries": ("tries", 0.0),
}


@contextmanager
def varied(field: str, value: float) -> Iterator[None]:
    """Another number for a while; the frozen object is the one that all modules have."""
    before = asdict(TUNING)[field]
    object.__setattr__(TUNING, field, value)
    try:
        yield
    finally:
        object.__setattr__(TUNING, field, before)


def ablation(*, seed: int, world: str, case: str) -> dict[str, float]:
    """One run: regret, gain in points, and whether it is stuck."""
    field, value = WITHOUT.get(case, ("spread", TUNING.spread))
    with varied(field, value):
        name, epsilon = ("even", math.inf) if world == FREE else (world, 1.0)
        found = worlds.calibration(seed=seed, world=name, epsilon=epsilon, rounds=ROUNDS)
    fifths = np.asarray(found["fifths"])
    stuck = fifths[-1] < worlds.STUCK and fifths[-1] < fifths[-2] + 0.05
    if not in_points(world):
        stuck = float(found["regret"]) > 1500  # type: ignore[arg-type]
    return {
        "regret": float(found["regret"]),  # type: ignore[arg-type]
        "points": 100 * float(found["gain"]),  # type: ignore[arg-type]
        "stuck": float(stuck),
    }


def in_points(world: str) -> bool:
    """Whether gain is shown, and not regret."""
    return world == FREE or world in worlds.BLOCKS


def paired(found: Found, world: str, case: str) -> Array:
    """Differences from the runs as they are."""
    key = "points" if in_points(world) else "regret"
    return np.asarray(
        found.over(ablation, key, world=world, case=case)
        - found.over(ablation, key, world=world, case=AS_IT_IS)
    )


def cell(found: Found, world: str, case: str) -> str:
    """Difference, its error, and stuck runs."""
    stuck = int(found.over(ablation, "stuck", world=world, case=case).sum())
    if case == AS_IT_IS:
        key = "points" if in_points(world) else "regret"
        return f"{found.mean(ablation, key, world=world, case=case):,.0f} ({stuck})"
    difference = paired(found, world, case)
    error = 1.96 * standard_error(difference)
    return f"{difference.mean():+,.1f} ± {error:,.1f} ({stuck})"


def main(seeds: int, first: int) -> None:
    cases = (AS_IT_IS, *WITHOUT)
    found = run(grid(ablation, seeds=range(first, first + seeds), world=WORLDS, case=cases))
    title = f"Without a tuned number, epsilon = 1, {ROUNDS:,} rounds, {seeds} seeds from {first}"
    table = new_table(title, ("without", "field", *WORLDS))
    for case in cases:
        field, value = WITHOUT.get(case, ("", 0.0))
        named = f"{field} = {value:g}" if field else ""
        table.add_row(case, named, *(cell(found, world, case) for world in WORLDS))
    CONSOLE.print(table)


if __name__ == "__main__":
    start = next((int(each[5:]) for each in sys.argv[1:] if each.startswith("from=")), FIRST)
    main(next((int(each) for each in sys.argv[1:] if each.isdigit()), SEEDS), start)
