"""Attacks on the joint-private LinearBandit: the attacker sees all but the canary's own action.

Everybody else's rows are public and the same on both sides; the canary is offered one action, so
that its own choice tells nothing. Refuted or caught at 99.99% confidence each, as in
test_audits.py; how close an attack comes is measured at 95%.
"""

import math

import numpy as np
import pytest

from discreet.audit import audit_scores
from discreet.bandits import LinearBandit, estimators
from discreet.bandits.window import SENSITIVITY, totals
from discreet.privacy import SeededNoise
from discreet.privacy.mechanisms import symmetric_to_vector

# A budget at which few runs have power: a learner is slower than a mechanism.
RUNS, EPSILON, DELTA, SURE = 1000, 4.0, 1e-6, 0.9999
DIM = 2
E1 = np.eye(DIM)[:1]  # on the boundary


def bound(first, second, confidence=SURE):
    report = audit_scores(first, second, delta=DELTA, confidence=confidence, method="gdp")
    return report.lower_bound


def bandit(run, **more):
    return LinearBandit(DIM, epsilon=EPSILON, delta=DELTA, seed=0, noise=SeededNoise(run), **more)


def term(view, row, reward):
    """What a row adds to a window's sum under a transform; both are known to the attacker."""
    v, weight = view.rows(row, np.array([reward]))
    beside = totals(weight, np.array([reward]))[0]
    return np.append(symmetric_to_vector(np.outer(v[0], v[0])), beside)


def window(learner, canary=None, reward=None):
    """One window of people with nothing to say, the canary first if it has its reward here."""
    n = learner.rounds_until_release
    first = learner.decide(E1)
    if reward is not None:
        learner.learn(first, reward)
    if canary is not None:
        learner.learn(*canary)
    learner.decide_many(np.zeros((n - 1, 1, DIM)))
    view, total = learner.window.transform, learner.window.total
    learner.decide(np.zeros((1, DIM)))  # the release happens here
    return first, view, total.value


def opposite_reward(run, which):
    """One person's reward is 1 or -1 for a row on the boundary: the worst pair in one window.

    Three attacks on the same runs: the released sum along the canary; theta; later actions of
    others, between e1 and -e1. The last two are post-processing of the first, so they are weaker.
    """
    learner = bandit(run, policy="greedy")
    _, view, value = window(learner, reward=(1.0, -1.0)[which])
    direction = term(view, E1, -1.0) - term(view, E1, 1.0)
    assert np.linalg.norm(direction) == pytest.approx(math.sqrt(8.25))
    later = learner.decide_many(np.tile([E1[0], -E1[0]], (3, 1, 1)))
    return value @ direction, learner.theta[0], later.action.sum()


def other_window(run, which):
    """One person's reward comes at once, or only after the first release: the worst pair of all.

    The second window's transform depends on the first release, which the attacker has seen. What
    counts is the likelihood ratio over both releases.
    """
    learner = bandit(run)
    first, view, value = window(learner, reward=None if which else 1.0)
    # The release was made by a decide, so that the second window has one decision less.
    _, later, second = window(learner, canary=(first, 1.0) if which else None)
    a, b = term(view, E1, 1.0), term(later, E1, 1.0)
    assert np.linalg.norm(np.append(a, b)) <= SENSITIVITY * (1 + 1e-9)
    scale = learner.guarantee.releases[0].scale
    # log p(both | late) - log p(both | at once), up to what is the same on both sides
    late = -(value @ value + (second - b) @ (second - b))
    early = -((value - a) @ (value - a) + second @ second)
    return (late - early) / (2 * scale**2)


def gradient(run, which):
    """Gradient steps: the whole average, along the canary's direction; claimed is sqrt(2) more."""
    learner = bandit(run, estimator="sgd", policy="greedy")
    n = learner.rounds_until_release
    learner.learn(learner.decide(E1), (1.0, -1.0)[which])
    learner.decide_many(np.zeros((n - 1, 1, DIM)))
    learner.decide(np.zeros((1, DIM)))
    return learner.theta[0]


def scores(attack, runs=RUNS):
    return [np.array([attack(2 * run + which, which) for run in range(runs)]) for which in (0, 1)]


@pytest.fixture
def halved(monkeypatch):
    """Plants the bug "half the noise" when called."""
    return lambda: monkeypatch.setattr(estimators, "SENSITIVITY", SENSITIVITY / 2)


def test_audit__the_sum_of_a_window_and_what_follows_from_it(halved):
    whole = scores(opposite_reward)
    seen, theta, actions = ([side[:, k] for side in whole] for k in range(3))
    assert bound(*seen) <= EPSILON
    assert bound(*seen, 0.95) >= 0.5 * EPSILON
    # A window with one reward hardly counts: what follows from it tells less than the sum.
    for weaker, least in ((theta, 0.05), (actions, 0.0)):
        assert bound(*weaker) <= EPSILON
        assert bound(*weaker, 0.95) >= least * EPSILON, "the attack is on something"
    halved()
    assert bound(*(side[:, 0] for side in scores(opposite_reward, RUNS // 2))) > EPSILON


def test_audit__a_reward_that_comes_in_another_window(halved):
    seen = scores(other_window)
    assert bound(*seen) <= EPSILON
    assert bound(*seen, 0.95) >= 0.5 * EPSILON
    halved()
    assert bound(*scores(other_window, RUNS // 2)) > EPSILON


def test_audit__gradient_steps():
    seen = scores(gradient)
    assert bound(*seen) <= EPSILON
    # A first reward of 1 or -1 moves the average by half of the claimed 2 REACH, over sqrt(2).
    assert bound(*seen, 0.95) > 0
