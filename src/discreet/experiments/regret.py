"""One learner in one world: what it misses, as a mean with its interval."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from discreet.arrays import Array, integer
from discreet.environments import World, play, world
from discreet.environments.playing import Learner
from discreet.experiments.experiment import FIRST_SEED
from discreet.experiments.statistics import interval


@dataclass(frozen=True)
class Regret:
    """The regret of several runs; `mean` ± `half` is a 95% interval (Student) of its mean."""

    runs: Array  # (seeds,), the regret at the end of each
    blind: Array  # (seeds,), of choosing blindly, on the same people

    @property
    def mean(self) -> float:
        """Over the runs."""
        return interval(self.runs)[0]

    @property
    def half(self) -> float:
        """Half the width of the interval; NaN for a single run."""
        return interval(self.runs)[1]

    @property
    def gained(self) -> float:
        """The fraction of what there was to gain over choosing blindly."""
        return float(1 - self.runs.mean() / self.blind.mean())

    def __str__(self) -> str:
        return (
            f"regret {self.mean:,.1f} ± {self.half:,.1f} (95%, {len(self.runs)} runs, worst "
            f"{self.runs.max():,.1f}); choosing blindly {self.blind.mean():,.1f}"
        )


def expected_regret(
    make_learner: Callable[[int], Learner],
    place: str | World | Callable[[int], World],
    rounds: int,
    seeds: int | Sequence[int] = 10,
) -> Regret:
    """Play a learner in a world once for each seed: mean regret, and its interval.

    `make_learner(seed)` returns a new learner. `place` is the name of a world of the library, a
    world, or a function from a seed to one. Learners that are given the same seeds meet the same
    people with the same reward noise.

    >>> from discreet.bandits import LinearBandit
    >>> from discreet.privacy import SeededNoise
    >>> def private(seed):
    ...     return LinearBandit(5, 2000, epsilon=1.0, seed=seed, noise=SeededNoise(seed))
    >>> found = expected_regret(private, "sphere", 2000, seeds=5)
    >>> 0 < found.mean - found.half, found.gained > 0.8
    (True, True)
    """
    if isinstance(seeds, int):
        seeds = range(FIRST_SEED, FIRST_SEED + integer("seeds", seeds))
    regrets, blind = [], []
    for seed in seeds:
        if isinstance(place, str):
            here = world(place, seed=seed)
        else:
            here = place(seed) if callable(place) else place
        played = play(make_learner(seed), here, rounds, seed=seed)
        regrets.append(played.regret.sum())
        blind.append(played.uniform.sum())
    return Regret(np.array(regrets), np.array(blind))
