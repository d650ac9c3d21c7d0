"""Attacks on the joint-private LinearBandit: the attacker sees all but the canary's own action.

The attacks are those of `discreet audit`. Refuted or caught at 99.99% confidence each; how close
an attack comes is measured at 95%.
"""

import pytest

from discreet.audit import ATTACKS, audit_scores
from discreet.bandits import estimators
from discreet.bandits.window import sensitivity

# A budget at which few runs have power: a learner is slower than a mechanism.
RUNS, EPSILON, DELTA, SURE = 250, 12.0, 1e-6, 0.9999


def scores(name, runs=RUNS):
    attack = ATTACKS[name].at(EPSILON)
    return [attack.scores(runs, neighbour, 5).reshape(runs, -1) for neighbour in (0, 1)]


def bound(sides, view=0, confidence=SURE):
    first, second = (side[:, view] for side in sides)
    report = audit_scores(first, second, delta=DELTA, confidence=confidence, method="gdp")
    return report.lower_bound


@pytest.fixture
def halved(monkeypatch):
    """Plants the bug "half the noise" when called."""
    return lambda: monkeypatch.setattr(estimators, "sensitivity", lambda *of: sensitivity(*of) / 2)


def test_audit__the_sum_of_a_window_and_what_follows_from_it(halved):
    """Views: the released sum; theta; others' later actions. The last two follow from the first."""
    seen = scores("linear bandit")
    for view, least in ((0, 0.5), (1, 0.3), (2, 0.3)):
        assert bound(seen, view) <= EPSILON
        assert bound(seen, view, 0.95) >= least * EPSILON, "the attack is on something"
    halved()
    assert bound(scores("linear bandit", RUNS // 2)) > EPSILON


@pytest.mark.thorough
def test_audit__a_reward_that_comes_in_another_window(halved):
    name = "linear bandit, reward in another window"
    seen = scores(name)
    assert bound(seen) <= EPSILON
    assert bound(seen, confidence=0.95) >= 0.5 * EPSILON
    halved()
    assert bound(scores(name, RUNS // 2)) > EPSILON


def test_audit__gradient_steps():
    """The pair shows .69 of mu at most: two steps in one direction of the four that are booked."""
    seen = scores("linear bandit sgd", RUNS // 2)
    assert bound(seen) <= EPSILON
    assert bound(seen, confidence=0.95) > 0.1 * EPSILON
