"""What the noise must cost: LinearBandit against itself with the true Gram matrix, and no noise.

    python benchmarks/bandits_limit.py [seeds] [from=SEED]

"true Gram" is no private learner: the rows' Gram matrix is known without noise, and moments and
sums of squares have theirs. It shows how much the release of that matrix costs at most, hence what
better estimates of it can gain. Regret at T = 50,000, epsilon = 1. Set OMP_NUM_THREADS=1.
"""

import math
import sys
from contextlib import ExitStack
from unittest.mock import patch

import numpy as np
from kit import CONSOLE, new_table, run, with_interval

from discreet.arrays import upper_triangle
from discreet.bandits import LinearBandit, release
from discreet.bandits.estimators import InformationWeighted
from discreet.environments import play
from discreet.environments.linear import linear_world
from discreet.experiments.measure import grid
from discreet.least_squares.shrinkage import shrunk
from discreet.privacy import SeededNoise

FIRST = 73000  # seed
T = 50_000
SEEDS = 40
WORLDS = ("sphere", "sign", "half", "tenth", "fixed", "basis")
opened = InformationWeighted.open


def open_without_gram_noise(self, belief, size, noise, share=None):
    """A window whose sum holds no noise where the Gram matrix is."""
    window = opened(self, belief, size, noise, share)
    n = len(belief.mean)
    first, second, _ = upper_triangle(n + 2)
    value = np.array(window.total._value)
    value[: len(first)][(first < n) & (second < n)] = 0.0
    window.total._value = value
    return window


def as_it_is(noisy, expected, noise_std, earlier, blocks=None):
    """No shrinkage: there is no noise."""
    return shrunk(noisy, expected, 0.0, earlier, blocks)


def regret(*, seed: int, world: str, learner: str) -> dict[str, float]:
    """At the end, on the same people."""
    here = linear_world(world, 5, seed=seed)
    bandit = LinearBandit(
        5,
        T,
        math.inf if learner == "no noise" else 1.0,
        reward_range=here.reward_range,
        seed=seed,
        noise=SeededNoise(seed),
    )
    with ExitStack() as stack:
        if learner == "true Gram":
            stack.enter_context(patch.object(InformationWeighted, "open", open_without_gram_noise))
            stack.enter_context(patch.object(release, "shrunk", as_it_is))
        return {"value": float(play(bandit, here, T, seed=seed).regret.sum())}


def main(seeds: int, first: int) -> None:
    learners = ("private", "true Gram", "no noise")
    found = run(grid(regret, seeds=range(first, first + seeds), world=WORLDS, learner=learners))
    table = new_table(
        f"Regret at T = {T:,}, d = 5, if the Gram matrix were known: {seeds} seeds from {first}",
        ("world", *learners),
    )
    for world in WORLDS:
        cells = (found.over(regret, world=world, learner=each) for each in learners)
        table.add_row(world, *(with_interval(values.ravel()) for values in cells))
    CONSOLE.print(table)


if __name__ == "__main__":
    start = next((int(each[5:]) for each in sys.argv[1:] if each.startswith("from=")), FIRST)
    main(next((int(each) for each in sys.argv[1:] if each.isdigit()), SEEDS), start)
