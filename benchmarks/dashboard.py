"""Do the dashboard's intervals hold the truth? The world of `discreet serve --demo`, many seeds."""

import json

import numpy as np

from discreet.bandits.window import VALUE
from discreet.privacy import SeededNoise
from discreet.service import definitions, demo
from discreet.service.dashboard.learnt import (
    Estimate,
    Weights,
    coefficients,
    comparisons,
    mean_reward,
)

SEEDS = 40
EPSILONS = (0.5, 1.0, 3.0)
PEOPLE = (2000, 20_000)
AGE = {"email": -0.35, "call": 0.35, "nothing": 0.0}  # demo.visitors, middle to top of the range


def held(epsilon, people, seed):
    """Whether each kind of interval holds its truth: means, coefficients of age, blind value."""
    privacy = {**demo.DEFINITION["privacy"], "epsilon": epsilon}
    definition = definitions.parsed(json.dumps({**demo.DEFINITION, "privacy": privacy}).encode())
    learner = definitions.learner(definition, SeededNoise(seed))
    feature_map = definitions.features(definition).map
    rng = np.random.default_rng(seed)
    learner.turn()
    means, last = [], None
    while learner.rounds < people:
        n, window = learner.rounds_until_release, learner.window
        contexts, crowd = demo.visitors(n, rng)
        rows = feature_map.many(contexts)
        actions = learner.policy.choose(rows, rng.random(n))
        window.fold(rows[np.arange(n), actions], crowd.rewards(actions, rng))
        learner.advance(n)
        published = window.published()
        std = window.total.release.scale / VALUE
        learner.turn()
        found = mean_reward(
            Estimate(published["count"], std), Estimate(published["sum"], std), (0, 1)
        )
        truth = float((crowd.best - crowd.regret(actions)).mean())
        if found is not None:
            means.append(found.low <= truth <= found.high)
            last = found
    weights = Weights.from_releases(learner._belief, learner.reward_range, learner._unit)
    table = coefficients(weights, feature_map)
    ages = [
        each.estimate.low <= AGE[action] <= each.estimate.high
        for action, some in table.items()
        for each in some
        if each.column == "age"
    ]
    widths = [
        each.estimate.high - each.estimate.low
        for some in table.values()
        for each in some
        if each.column == "age"
    ]
    blind = []
    if last is not None:
        _, crowd = demo.visitors(50_000, np.random.default_rng(0))
        for each in comparisons(weights, feature_map, last, None):
            blind.append(each.value.low <= crowd.means.mean() <= each.value.high)
    return means, ages, blind, widths


def main():
    print(f"{SEEDS} seeds; share of intervals that hold the truth")
    print("epsilon  people   mean reward   coefficient (width)   choosing blindly")
    for epsilon in EPSILONS:
        for people in PEOPLE:
            parts = [held(epsilon, people, seed) for seed in range(SEEDS)]
            means, ages, blind, widths = ([x for part in parts for x in part[i]] for i in range(4))
            shares = [f"{np.mean(each):.0%}" if each else "-" for each in (means, ages, blind)]
            print(
                f"{epsilon:7g} {people:7,d} {shares[0]:>13s} {shares[1]:>13s} "
                f"({np.mean(widths):.2f}) {shares[2]:>18s}"
            )


if __name__ == "__main__":
    main()
