"""Do the dashboard's intervals hold the truth, and when does a hold-out tell something?

The world of `discreet serve --demo`.
"""

import json

import numpy as np
from kit import CONSOLE, new_table

from discreet.privacy import SeededNoise
from discreet.service import definitions, demo, offers

SEEDS = 20
EPSILONS = (0.5, 1.0, 3.0)
PEOPLE = (2000, 20_000)
AGE = {"email": -0.35, "call": 0.35, "nothing": 0.0}  # demo.visitors, middle to top of the range


def held(epsilon, people, seed):
    """Whether each kind of interval holds its truth: mean rewards, effects of age."""
    privacy = {**demo.DEFINITION["privacy"], "epsilon": epsilon}
    wanted = {**demo.DEFINITION, "privacy": privacy, "holdout": None}
    definition = definitions.parsed(json.dumps(wanted).encode())
    learner = definitions.learner(definition, SeededNoise(seed))
    feature_map = offers.features(definition).map
    rng = np.random.default_rng(seed)
    learner.turn()
    means = []
    earned = []
    while learner.rounds < people:
        n, window = learner.rounds_until_release, learner.window
        contexts, crowd = demo.visitors(n, rng)
        rows = feature_map.many(contexts)
        actions = learner.policy.choose(rows, rng.random(n))
        window.fold(rows[np.arange(n), actions], crowd.rewards(actions, rng))
        learner.advance(n)
        learner.turn()
        earned.extend(crowd.best - crowd.regret(actions))
        mean = learner.value.mean
        if mean is not None:
            truth = np.mean(earned[-learner.value.rounds :])
            means.append((mean.low <= truth <= mean.high, mean.high - mean.low))
    effects = {each.name: each for each in learner.summary(feature_map).effects}
    ages = [(effects[f"age * action={action}"], truth) for action, truth in AGE.items()]
    return means, [(each.low <= truth <= each.high, each.high - each.low) for each, truth in ages]


def intervals():
    columns = ("epsilon", "people", "mean reward", "its width", "effect", "its width")
    table = new_table(f"Intervals that hold the truth, {SEEDS} seeds", columns)
    for epsilon in EPSILONS:
        for people in PEOPLE:
            parts = [held(epsilon, people, seed) for seed in range(SEEDS)]
            shown = []
            for kind in (0, 1):
                found = np.array([each for part in parts for each in part[kind]])
                hold, width = found.mean(axis=0) if len(found) else (np.nan, np.nan)
                shown += [f"{hold:.0%}", f"{width:.2f}"] if len(found) else ["-", "-"]
            table.add_row(f"{epsilon:g}", f"{people:,}", *shown)
    CONSOLE.print(table)


def measured():
    """The gain over always doing nothing, by 5% of decisions that are held out."""
    definition = definitions.parsed(json.dumps(demo.DEFINITION).encode())
    learner = definitions.learner(definition, SeededNoise(0))
    feature_map = offers.features(definition).map
    rng = np.random.default_rng(0)
    table = new_table("A hold-out of 5% at epsilon = 1", ("decisions", "gain", "from", "to"))
    learner.turn()
    while learner.rounds < 250_000:
        n = learner.rounds_until_release
        contexts, crowd = demo.visitors(n, rng)
        rows = feature_map.many(contexts)
        rounds = np.arange(learner.rounds, learner.rounds + n)
        held_out = learner.held_out(rounds)
        actions = learner.policy.choose(rows, learner.holdout.coins(held_out, rng.random(n)))
        rewards = np.asarray(crowd.rewards(actions, rng))
        learner.window.fold(rows[np.arange(n), actions], rewards, rounds)
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
