import json
import math

import numpy as np
import pytest

from discreet.bandits import Decision, LinearBandit
from discreet.bandits.policies import Greedy, SquareCB, Uniform
from discreet.decisions import Decisions
from discreet.privacy import SeededNoise

MEAN = np.array([0.6, -0.2])


def features(n, actions=4, seed=0):
    return np.random.default_rng(seed).uniform(-0.7, 0.7, (n, actions, 2))


def made(X, policies):
    actions = np.arange(len(X)) % 3
    rows = np.array([each[a] for each, a in zip(X, actions, strict=True)])
    return Decisions(np.arange(10, 10 + len(X)), actions, rows, "me", X, policies)


def record(**change):
    (offered,) = features(1)
    decision = Decision(7, 2, offered[2], "me", offered, SquareCB(MEAN, 0.1))
    return decision, {**decision.to_dict(), **change}


def test_decision__to_dict_and_back_through_json_keeps_everything_but_the_offer():
    decision, plain = record()
    back = Decision.from_dict(json.loads(json.dumps(plain)))
    assert (back.round, back.action, back.learner) == (7, 2, "me")
    assert np.array_equal(back.row, decision.row)
    assert np.array_equal(back.probabilities, decision.probabilities)
    assert back.probability == decision.probability > 0
    assert back.to_dict() == plain
    assert back.offered is None


def test_decision__probabilities_are_those_of_its_policy_and_computed_when_asked_for():
    class Counting(Uniform):
        asked = 0

        def probabilities(self, features):
            Counting.asked += 1
            return super().probabilities(features)

    (offered,) = features(1)
    decision = Decision(0, 1, offered[1], "me", offered, Counting())
    assert Counting.asked == 0
    assert decision.probability == 0.25
    assert decision.probabilities.tolist() == [0.25] * 4
    assert Counting.asked == 1


def test_decision__is_frozen_and_its_repr_shows_no_features():
    decision, _ = record()
    with pytest.raises(AttributeError):
        decision.action = 0
    assert repr(decision) == "Decision(round=7, action=2)"


BROKEN = [
    {"round": -1}, {"round": 1.5}, {"round": None}, {"round": True}, {"action": -1},
    {"action": 4}, {"action": "2"}, {"features": [math.nan, 0.0]}, {"features": [math.inf, 0.0]},
    {"features": None}, {"features": [[0.1, 0.2]]}, {"features": "ab"}, {"features": 0.3},
    {"probabilities": [math.nan] * 4}, {"probabilities": []}, {"probabilities": "x"},
]  # fmt: skip


@pytest.mark.parametrize("change", BROKEN, ids=str)
def test_decision__a_damaged_record_raises_value_error(change):
    with pytest.raises(ValueError, match=r"must|record"):
        Decision.from_dict(record(**change)[1])


@pytest.mark.parametrize("name", ["round", "action", "features", "probabilities", "learner"])
def test_decision__a_record_with_a_part_missing_says_which(name):
    _, plain = record()
    del plain[name]
    with pytest.raises(ValueError, match=name):
        Decision.from_dict(plain)


@pytest.mark.parametrize(
    "change",
    [
        {"probabilities": [[0.25] * 4]},
        {"probabilities": [5.0] * 4},
        {"probabilities": [-1.0, 0.5, 1.0, 0.5]},
    ],
    ids=str,
)
def test_decision__a_record_with_impossible_probabilities_is_damaged(change):
    with pytest.raises(ValueError, match="record"):
        Decision.from_dict(record(**change)[1])


def test_decisions__single_ones_have_their_own_policy_row_and_round():
    X = features(6)
    policies = ((0, Uniform()), (2, Greedy(MEAN)), (5, SquareCB(MEAN, 0.1)))
    many = made(X, policies)
    assert len(many) == len(list(many)) == 6
    expected = [0, 0, 1, 1, 1, 2]
    for i, decision in enumerate(many):
        assert decision.round == 10 + i
        assert decision.action == i % 3
        assert np.array_equal(decision.row, X[i, i % 3])
        assert decision.learner == "me"
        probabilities = policies[expected[i]][1].probabilities(X[i][None])[0]
        assert np.array_equal(decision.probabilities, probabilities)
        assert many.probability[i] == decision.probability
    assert many[-1].round == 15
    with pytest.raises(IndexError):
        many[6]


def test_decisions__probability_is_the_same_for_an_array_and_for_a_list():
    X, policies = features(5), ((0, Uniform()), (3, SquareCB(MEAN, 0.1)))
    assert np.array_equal(made(X, policies).probability, made(list(X), policies).probability)


@pytest.mark.parametrize("nobody", [[], np.zeros((0, 3, 2))], ids=["list", "array"])
def test_decisions__nobody_is_fine(nobody):
    bandit = LinearBandit(2, seed=0, noise=SeededNoise(0))
    chosen = bandit.decide_many(nobody)
    assert len(chosen) == bandit.rounds == 0
    assert chosen.rows.shape == (0, 2)
    assert bandit.learn_many(chosen, []) == 0
    assert chosen.probability.shape == (0,)
