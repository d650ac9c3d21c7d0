"""What the dashboard says a bandit has learnt: right without noise, honest with it."""

import json
from types import SimpleNamespace

import numpy as np
import pytest

from discreet.bandits import LinearBandit
from discreet.bandits.predictions import Weights
from discreet.privacy import SeededNoise
from discreet.service import definitions, demo, offers
from discreet.service.dashboard import reading
from discreet.service.dashboard.learnt import (
    ERRORS,
    Estimate,
    Model,
    coefficients,
    comparisons,
    mean_reward,
)
from discreet.service.replies import PublishedWindow

NOISE = 50.0  # std, as at epsilon = 1


def played(epsilon: float | None, people: int, seed: int = 0):
    """The learner of the demo after so many people, and its feature map."""
    privacy = {**demo.DEFINITION["privacy"], "epsilon": epsilon}
    definition = definitions.parsed(json.dumps({**demo.DEFINITION, "privacy": privacy}).encode())
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


def model_of(learner) -> Model:
    belief = learner.belief
    return Model(Weights.of(belief), learner.reward_unit, learner.reward_middle, belief.gram)


def test_coefficients__are_those_of_the_world_without_noise():
    learner, feature_map = played(None, 20_000)
    found = coefficients(model_of(learner), feature_map)
    assert list(found) == demo.DEFINITION["actions"]
    effect = {
        (action, each.column): each.estimate for action, some in found.items() for each in some
    }
    # demo.visitors: from the middle to the top of the range age takes .35 from an email's mean and
    # adds it to a call's; gold adds .7 to nothing's.
    for action, truth in (("email", -0.35), ("call", 0.35), ("nothing", 0.0)):
        age = effect[action, "age"]
        assert age.low <= truth <= age.high
        assert age.high - age.low < 0.25
    gold = effect["nothing", "plan=gold"].value - effect["nothing", "plan=basic"].value
    assert gold == pytest.approx(0.7, abs=0.1)


def test_comparisons__are_worth_what_the_world_pays_without_noise():
    learner, feature_map = played(None, 20_000)
    _, crowd = demo.visitors(50_000, np.random.default_rng(1))
    now = Estimate(0.73, 0.005)
    blindly, always = comparisons(model_of(learner), feature_map, now, "nothing")
    assert blindly.name == "choosing blindly"
    assert always.name == "always nothing"
    for found, truth in ((blindly, crowd.means.mean()), (always, crowd.means[:, 2].mean())):
        assert found.value.low <= truth <= found.value.high
        assert found.value.high - found.value.low < 0.2
    assert blindly.gain.clear
    assert blindly.gain.value == now.value - blindly.value.value


def test_model__does_not_read_the_open_window():
    learner, feature_map = played(1.0, 1000)
    before = model_of(learner).effects(1.0)
    rows = feature_map.many([{"age": 90, "plan": "gold"}] * 50)[:, 0]
    learner.window.fold(rows, np.ones(50))
    assert model_of(learner).effects(1.0) == before


def test_mean_reward__its_interval_holds_the_mean_and_is_not_much_too_wide():
    """2,000 windows of 800 coins; false alarm rate below 1e-6 at the bounds used."""
    rng = np.random.default_rng(0)
    errors, stated = [], []
    for _ in range(2000):
        total = rng.binomial(800, 0.3)
        count = Estimate(800 + NOISE * rng.standard_normal(), NOISE)
        found = mean_reward(count, Estimate(total + NOISE * rng.standard_normal(), NOISE), (0, 1))
        assert found is not None
        errors.append(found.value - 0.3)
        stated.append(found.error)
    held = np.mean(np.abs(errors) <= ERRORS * np.array(stated))
    assert held > 0.975
    assert 0.85 < np.std(errors) / np.mean(stated) < 1.15  # 25% off would show


def test_mean_reward__is_not_told_where_the_count_drowns_in_its_noise():
    assert mean_reward(Estimate(150, NOISE), Estimate(90, NOISE), (0, 1)) is None
    assert mean_reward(Estimate(0, 0), Estimate(0, 0), (0, 1)) is None
    found = mean_reward(Estimate(300, NOISE), Estimate(400, NOISE), (0, 1))
    assert found is not None
    assert (found.value, found.high) == (1.0, 1.0)  # never outside the range of rewards


def test_windows__that_share_a_budget_are_listed_each_with_its_own_cost():
    bandit = LinearBandit(2, epsilon=1.0, unit="person", visits="all", noise=SeededNoise(0))
    for _ in range(4):
        bandit.turn()
        bandit.advance(bandit.rounds_until_release)
    releases = [PublishedWindow(i + 1, 10, 0.0) for i in range(len(bandit.totals))]
    privacy = {"epsilon": 1.0, "unit": "person", "visits": "all"}
    plain = {"dim": 2, "reward": {"range": [-1, 1]}, "privacy": privacy}
    definition = definitions.parsed(json.dumps(plain).encode())
    found = SimpleNamespace(
        promise=bandit.guarantee, totals=bandit._totals, releases=releases, definition=definition
    )
    windows = reading._windows(found)
    assert [each.number for each in windows] == [1, 2, 3]
    assert all(0 < each.epsilon < 1.0 for each in windows)
