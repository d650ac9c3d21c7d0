"""One person, many visits: ways to protect people, side by side (a table of docs/bandits-why.md).

    python benchmarks/bandits_people.py [seeds]

50,000 rounds of few or many people, in random order; epsilon = 1, delta = 1e-6 for all that a
person ever does. Regret is pseudo-regret, summed over rounds. Set OMP_NUM_THREADS=1.
"""

import sys

import numpy as np
from kit import CONSOLE, new_table, run, with_interval

from discreet.bandits import LinearBandit
from discreet.environments import generators, linear_world, play
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


class Visiting:
    """A learner that is told who comes."""

    def __init__(self, bandit: LinearBandit, people: np.ndarray) -> None:
        self.bandit = bandit
        self.people = people

    @property
    def rounds_until_release(self) -> int:
        return self.bandit.rounds_until_release

    def decide(self, features):
        return self.bandit.decide(features)

    def learn(self, decision, reward):
        return self.bandit.learn(decision, reward, self._named(decision.round))

    def decide_many(self, features):
        return self.bandit.decide_many(features)

    def learn_many(self, decisions, rewards):
        return self.bandit.learn_many(decisions, rewards, self._named(decisions.round))

    def _named(self, rounds):
        return None if self.bandit.unit == "round" else self.people[rounds]


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
    played = play(Visiting(bandit, order), here, T, *generators(seed))
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
