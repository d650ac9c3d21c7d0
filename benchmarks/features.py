"""Declared or hashed features: two facts about each person of the RAND experiment, five plans.

Gain over blind choice, as a fraction of what the best choice for each person gains, over all
rounds; mean ± standard error over seeds. "Length" is the root mean square length of a row: noise is
made for rows of length 1, whatever people bring.
"""

import argparse
import math

import numpy as np
from kit import CONSOLE, new_table

from discreet.bandits import LinearBandit
from discreet.environments import play
from discreet.environments.people import People
from discreet.environments.randhie import PLANS, randhie_world
from discreet.features import Category, FeatureMap, Number
from discreet.hashed import HashedFeatures
from discreet.privacy import SeededNoise

ROUNDS = 20_000
MOST = 60  # diseases


def declared(context, intercept):
    return FeatureMap(context, PLANS, intercept=intercept)


def ways():
    """Name and features of each way, for a problem (0 or 1) and a number of diseases."""
    numbers = {"problem": Number(0, 1), "diseases": Number(0, MOST)}
    category = {"problem": Category(0, 1), "diseases": Number(0, MOST)}

    def facts(problem, diseases):
        return {"problem": problem, "diseases": diseases}

    for name, phi in (
        ("declared, both as numbers, with an intercept", declared(numbers, True)),
        ("declared, the problem as a category, no intercept", declared(category, False)),
        (
            "declared, the problem alone, as a category",
            declared({"problem": Category(0, 1)}, False),
        ),
    ):
        yield name, phi.dim, lambda p, d, phi=phi: phi(facts(p, d))
    for columns in (8, 16, 32, 64):
        phi = HashedFeatures(columns)
        yield (
            "hashed",
            columns,
            lambda p, d, phi=phi: phi({"problem": bool(p), "diseases": d / MOST}, PLANS),
        )


class Described:
    """People of the real experiment, drawn at random, described in one way; rewards are 0 or 1."""

    def __init__(self, rows, means):
        self.rows, self.means = rows, means
        self.n_actions, self.dim = rows.shape[1:]

    def people(self, n, rng, start=0):
        some = rng.integers(len(self.rows), size=n)
        return People(self.rows[some], self.means[some], "zero-one", reward_range=(0.0, 1.0))


def gain(dim, rows, means, epsilon, seed):
    """What a bandit gains over blind choice, of what the best choice gains."""
    noise = SeededNoise(seed)
    bandit = LinearBandit(dim, None, epsilon, reward_range=(0.0, 1.0), seed=seed, noise=noise)
    played = play(bandit, Described(rows, means), ROUNDS, seed=seed)
    return 1 - played.regret.sum() / played.uniform.sum()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=10)
    seeds = parser.parse_args().seeds
    world = randhie_world()
    problems = world.features._columns["problem"].astype(int)
    diseases = world.features._columns["diseases"]
    pairs, places = np.unique(np.column_stack([problems, diseases]), axis=0, return_inverse=True)
    table = new_table(
        f"Declared and hashed features of randhie, {ROUNDS:,} people, seeds 0 .. {seeds - 1}",
        ("features", "columns", "length", "epsilon = 3", "epsilon = 1", "not private"),
    )
    for name, dim, phi in ways():
        known = np.array([phi(int(problem), float(number)) for problem, number in pairs])
        rows = known[places.ravel()]
        length = math.sqrt((rows**2).sum(axis=-1).mean())
        cells = []
        for epsilon in (3.0, 1.0, math.inf):
            found = np.array([gain(dim, rows, world.means, epsilon, seed) for seed in range(seeds)])
            error = found.std(ddof=1) / math.sqrt(seeds)
            cells.append(f"{found.mean():.2f} ± {error:.2f}".replace("0.", "."))
        table.add_row(name, str(dim), f"{length:.2f}", *cells)
    CONSOLE.print(table)


if __name__ == "__main__":
    main()
