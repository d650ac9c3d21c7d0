"""Attacks on bandits and on one user's rounds: computed ceilings, and what they catch.

Ceilings are computed from what the code adds up and how much noise it draws, not from runs.
"""

import math

import numpy as np
import pytest

from discreet.audit import ATTACKS, audit
from discreet.audit.attacks.bandits import E1, canary_term, joint_bandit
from discreet.audit.attacks.sums import ATTAINABLE, WHEN, T
from discreet.audit.rows import noise_of
from discreet.audit.views import whitening
from discreet.bandits import People
from discreet.bandits.baselines import ContinualLinUCB
from discreet.bandits.window import sensitivity
from discreet.privacy import Budget, PrefixSum, Tree
from discreet.privacy.gaussian import gaussian_epsilon

SENSITIVITY = sensitivity(None, People(rounds=1))

SURE = 0.9999


def ceiling(sums: PrefixSum, move, size: float) -> float:
    """mu of the best linear attack on all sums so far, as a share of what was promised."""
    plan = sums._calibration
    assert plan.accounting == "gaussian"
    mechanism = plan.design if isinstance(plan.design, Tree) else plan.mechanism
    reach = math.sqrt(float(np.cumsum(move) @ whitening(mechanism, move))) * size
    return reach / plan.unit / sums.budget.mu


@pytest.mark.parametrize("name", ATTAINABLE)
def test_running_sums__near_is_the_ceiling_of_the_best_linear_attack(name):
    for (_, rounds), near in zip(WHEN.items(), ATTAINABLE[name], strict=True):
        budget = Budget(1.0, 1e-6, len(rounds))
        mechanism = Tree(2) if name == "tree" else name
        sums = PrefixSum(T, 1000, budget, sensitivity=1.0, bound=1000, mechanism=mechanism)
        move = np.zeros(T)
        move[list(rounds)] = 1.0
        assert ceiling(sums, move, 1.0) == pytest.approx(near, abs=0.01)


def test_adaptive__nine_sums_show_the_whole_change():
    budget = Budget(1.0, 1e-6)
    sums = PrefixSum(9, 1000, budget, sensitivity=1.0, bound=1000, mechanism=Tree(3))
    assert ceiling(sums, np.eye(9)[0], 1.0) == pytest.approx(
        ATTACKS["prefix sum adaptive"].attainable
    )


@pytest.mark.parametrize("name", ["blt", "tree"])
def test_continual__four_sums_show_the_whole_change(name):
    mechanism = Tree(2) if name == "tree" else name
    sums = ContinualLinUCB(6, 4, 1.0, mechanism=mechanism)._sums
    # [e1; 1] and [-e1; 1] are at right angles: 2 sqrt(2) apart, all of it in one moment.
    assert ceiling(sums, np.eye(4)[0], 2 * math.sqrt(2)) == pytest.approx(1.0, abs=1e-6)


def test_linear_bandit__near_is_the_move_over_the_sensitivity():
    learner = joint_bandit(ATTACKS["linear bandit"].claim, noise_of(0, 0))
    learner.decide(E1)
    view = learner._window.transform
    opposite = np.linalg.norm(canary_term(view, 1.0) - canary_term(view, -1.0)) / SENSITIVITY
    assert opposite == pytest.approx(ATTACKS["linear bandit"].attainable, abs=0.005)
    moved = math.sqrt(2) * np.linalg.norm(canary_term(view, 1.0)) / SENSITIVITY
    assert moved == pytest.approx(
        ATTACKS["linear bandit, reward in another window"].attainable, abs=1e-6
    )


def test_sgd__near_is_the_realised_mu_and_no_run_has_more_than_its_ceiling():
    attack = ATTACKS["linear bandit sgd"]
    seen = attack.draw.realised(attack.claim, 60)
    assert np.mean(seen) == pytest.approx(attack.attainable, abs=0.01)
    assert max(seen) <= 1 / math.sqrt(2) + 1e-6  # sqrt(2) 2 steps of the 4 that are booked


@pytest.mark.parametrize(
    ("name", "share"),
    [("local linucb, three reports of one user", 0.85), ("interval channel", 0.85),
     ("ball channel, three reports of one user", 0.85), ("selection", 0.7),
     ("snapshot of a tree", 0.65), ("gaussian symmetric", 0.65)],
)  # fmt: skip
def test_attack__comes_close_and_catches_half_the_noise(name, share):
    assert share <= audit(ATTACKS[name], 10_000).fraction <= 1.0
    claim = ATTACKS[name].claim
    twice = 2.0 if claim.kind == "pure" else gaussian_epsilon(2 * claim.mu, claim.delta)
    assert audit(ATTACKS[name].at(twice), 5000, confidence=SURE).lower_bound > 1.0


@pytest.mark.parametrize(
    "name",
    ["linear bandit, three rounds of one user", "continual linucb tree", "continual linucb blt"],
)
def test_bandits__half_the_noise_is_caught(name):
    claim = ATTACKS[name].at(8.0).claim
    twice = gaussian_epsilon(2 * claim.mu, claim.delta)
    assert audit(ATTACKS[name].at(twice), 400, confidence=SURE).lower_bound > 8.0


def test_generalised_gaussian__is_held_to_the_concentrated_privacy_it_claims():
    attack = ATTACKS["streaming frank-wolfe generalised gaussian, ten dimensions"].at(8.0)
    report = audit(attack, 1500)
    assert report.method.startswith("zCDP")
    assert 0.3 < report.fraction < attack.attainable
