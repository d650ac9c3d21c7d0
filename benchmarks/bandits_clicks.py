"""What a publicly stated `typical_reward` is worth where rewards are clicks of 2 to 5%.

    python benchmarks/bandits_clicks.py [seeds] [from=SEED]

The world is "clicks" of calibration.py: 2 to 6 actions, 5 kinds of people. Gain is over blind
choice, as a fraction of what there is to gain; a run is below blind choice if it gains less than
nothing. All models see the same people and the same luck. Set OMP_NUM_THREADS=1.
"""

import sys

import numpy as np
from calibration import place
from kit import CONSOLE, new_table, run

from discreet.bandits import LinearBandit, Model
from discreet.experiments.measure import grid
from discreet.privacy import SeededNoise

FIRST = 97000  # seed; tuning used 95000 to 95219
SEEDS = 100
SETTINGS = ((20_000, 1.0), (60_000, 1.0), (20_000, 3.0))  # rounds, epsilon
STATED = {"none": None, "too high, .09": 0.09, "right, .03": 0.03, "too low, .01": 0.01}


def clicks(*, seed: int, stated: str, setting: tuple[int, float]) -> dict[str, float]:
    """One run: gain over all rounds, and over their last quarter."""
    rounds, epsilon = setting
    here = place("clicks", seed)
    learner = LinearBandit(
        here.world.dim,
        rounds,
        epsilon,
        reward_range=here.world.reward_range,
        model=Model(blocks=here.blocks, typical_reward=STATED[stated]),
        seed=seed,
        noise=SeededNoise(seed),
    )
    who, luck = np.random.default_rng([seed, 1]), np.random.default_rng([seed, 2])
    missed = np.empty(rounds)
    blind = np.empty(rounds)
    people = here.world.people(rounds, who)
    while learner.rounds < rounds:
        start = learner.rounds
        stop = min(start + learner.rounds_until_release, rounds)
        some = people[start:stop]
        decided = learner.decide_many(some.features)
        learner.learn_many(decided, some.rewards(decided.action, luck))
        missed[start:stop] = some.regret(decided.action)
        blind[start:stop] = some.best - some.means.mean(axis=1)
    last = slice(3 * rounds // 4, None)
    return {
        "gain": float(1 - missed.sum() / blind.sum()),
        "last": float(1 - missed[last].sum() / blind[last].sum()),
    }


def main(seeds: int, first: int) -> None:
    found = run(grid(clicks, seeds=range(first, first + seeds), setting=SETTINGS, stated=STATED))
    table = new_table(
        f"Gain from clicks, {seeds} seeds from {first}",
        ("rounds", "epsilon", "typical_reward", "gain", "last quarter", "10% of runs", "below"),
    )
    for rounds, epsilon in SETTINGS:
        for stated in STATED:
            gain, last = (
                found.over(clicks, name, setting=(rounds, epsilon), stated=stated)
                for name in ("gain", "last")
            )
            table.add_row(
                f"{rounds:,}",
                f"{epsilon:g}",
                stated,
                f"{gain.mean():.3f}",
                f"{last.mean():.3f}",
                f"{np.quantile(gain, 0.1):.2f}",
                f"{(gain < 0).mean():.2f}",
            )
    CONSOLE.print(table)


if __name__ == "__main__":
    start = next((int(each[5:]) for each in sys.argv[1:] if each.startswith("from=")), FIRST)
    main(next((int(each) for each in sys.argv[1:] if each.isdigit()), SEEDS), start)
