"""Do the dashboard's intervals hold the truth, and when does a hold-out tell something?

The world of `discreet serve --demo`.
"""

import json
import math

import numpy as np
from kit import CONSOLE, new_table

from discreet.bandits.predictions import Weights
from discreet.privacy import SeededNoise
from discreet.service import definitions, demo, offers
from discreet.service.dashboard.learnt import (
    Estimate,
    Model,
    coefficients,
    comparisons,
    mean_reward,
)

SEEDS = 20
EPSILONS = (0.5, 1.0, 3.0)
PEOPLE = (2000, 20_000)
AGE = {"email": -0.35, "call": 0.35, "nothing": 0.0}  # demo.visitors, middle to top of the range


def held(epsilon, people, seed):
    """Whether each kind of interval holds its truth: means, coefficients of age, blind value."""
    privacy = {**demo.DEFINITION["privacy"], "epsilon": epsilon}
    definition = definitions.parsed(json.dumps({**demo.DEFINITION, "privacy": privacy}).encode())
    learner = definitions.learner(definition, SeededNoise(seed))
    feature_map = offers.features(definition).map
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
        learner.turn()
        total = learner._totals[-1]
        std = math.sqrt(total.variances[0])
        found = mean_reward(Estimate(total.count, std), Estimate(total.sum, std), (0, 1))
        truth = float((crowd.best - crowd.regret(actions)).mean())
        if found is not None:
            means.append(found.low <= truth <= found.high)
            last = found
    belief = learner._belief
    model = Model(Weights.of(belief), learner._unit, learner._middle, belief.gram)
    table = coefficients(model, feature_map)
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
        for each in comparisons(model, feature_map, last, None):
            blind.append(each.value.low <= crowd.means.mean() <= each.value.high)
    return means, ages, blind, widths


def intervals():
    columns = ("epsilon", "people", "mean reward", "coefficient", "its width", "choosing blindly")
    table = new_table(f"Intervals that hold the truth, {SEEDS} seeds", columns)
    for epsilon in EPSILONS:
        for people in PEOPLE:
            parts = [held(epsilon, people, seed) for seed in range(SEEDS)]
            means, ages, blind, widths = ([x for part in parts for x in part[i]] for i in range(4))
            shares = [f"{np.mean(each):.0%}" if each else "-" for each in (means, ages, blind)]
            table.add_row(
                f"{epsilon:g}", f"{people:,}", *shares[:2], f"{np.mean(widths):.2f}", shares[2]
            )
    CONSOLE.print(table)


def measured():
    """The gain over always doing nothing, by 5% of decisions that are held out."""
    wanted = {**demo.DEFINITION, "baseline": "nothing", "holdout": 0.05}
    definition = definitions.parsed(json.dumps(wanted).encode())
    learner = definitions.learner(definition, SeededNoise(0))
    feature_map = offers.features(definition).map
    rng = np.random.default_rng(0)
    table = new_table("A hold-out of 5% at epsilon = 1", ("decisions", "gain", "from", "to"))
    learner.turn()
    while learner.rounds < 250_000:
        n = learner.rounds_until_release
        contexts, crowd = demo.visitors(n, rng)
        rows = feature_map.many(contexts)
        held_out = learner.held_out(np.arange(learner.rounds, learner.rounds + n))
        actions = learner.policy.choose(rows, learner.holdout.coins(held_out, rng.random(n)))
        rewards = np.asarray(crowd.rewards(actions, rng))
        learner.window.fold(rows[np.arange(n), actions], rewards, held_out)
        learner.advance(n)
        learner.turn()
        if learner.rounds > 50_000:
            found = learner.value.uplift
            ends = (f"{each:.2f}" for each in (found.estimate, found.low, found.high))
            table.add_row(f"{learner.rounds:,}", *ends)
    CONSOLE.print(table)


if __name__ == "__main__":
    intervals()
    measured()
