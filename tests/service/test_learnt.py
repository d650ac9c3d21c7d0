"""What the dashboard says a bandit has learnt: its summary and value, under the names it has."""

import json

import numpy as np
import pytest

from discreet.bandits import LinearBandit, People
from discreet.privacy import SeededNoise
from discreet.service import definitions, demo, offers
from discreet.service.dashboard import reading
from discreet.service.replies import PublishedWindow


def played(epsilon: float | None, people: int, seed: int = 0):
    """The learner of the demo after so many people, and its feature map."""
    privacy = {**demo.DEFINITION["privacy"], "epsilon": epsilon}
    wanted = {**demo.DEFINITION, "privacy": privacy, "holdout": None}
    definition = definitions.parsed(json.dumps(wanted).encode())
    learner = definitions.learner(definition, SeededNoise(seed))
    feature_map = offers.features(definition).map
    rng = np.random.default_rng(seed)
    learner.turn()
    while learner.rounds < people:
        n = learner.rounds_until_release
        contexts, found = demo.visitors(n, rng)
        rows = feature_map.many(contexts)
        actions = learner.policy.choose(rows, rng.random(n))
        learner.window.fold(rows[np.arange(n), actions], found.rewards(actions, rng))
        learner.advance(n)
        learner.turn()
    return learner, feature_map


def test_effects__of_each_action_are_those_of_the_world_without_noise():
    learner, feature_map = played(None, 20_000)
    found = reading._by_part(learner.summary(feature_map).effects, feature_map)
    assert list(found) == demo.DEFINITION["actions"]
    effect = {(action, column): each for action, some in found.items() for column, each in some}
    # demo.visitors: from the middle to the top of the range age takes .35 from an email's mean and
    # adds it to a call's; gold adds .7 to nothing's.
    for action, truth in (("email", -0.35), ("call", 0.35), ("nothing", 0.0)):
        age = effect[action, "age"]
        assert age.effect == pytest.approx(truth, abs=0.1)
        assert age.high - age.low < 0.25
    gold = effect["nothing", "plan=gold"].effect - effect["nothing", "plan=basic"].effect
    assert gold == pytest.approx(0.7, abs=0.1)


def test_effects__do_not_read_the_open_window():
    learner, feature_map = played(1.0, 1000)
    before = learner.summary(feature_map)
    rows = feature_map.many([{"age": 90, "plan": "gold"}] * 50)[:, 0]
    learner.window.fold(rows, np.ones(50))
    assert learner.summary(feature_map) == before


def test_windows__that_share_a_budget_are_listed_each_with_its_own_cost():
    bandit = LinearBandit(2, epsilon=1.0, noise=SeededNoise(0), people=People(visits="all"))
    for _ in range(4):
        bandit.turn()
        bandit.advance(bandit.rounds_until_release)
    releases = [PublishedWindow(i + 1, 10, 0.0) for i in range(len(bandit.totals))]
    windows = reading.windows_of(bandit.guarantee, releases, bandit.totals)
    assert [each.published.window for each in windows] == [1, 2, 3]
    assert all(0 < each.epsilon < 1.0 for each in windows)
