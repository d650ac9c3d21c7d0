"""Attacks on the decisions of FTRL and FTPL: below the claim, and catching halved noise.

A claim is refuted, or a bug caught, at 99.99% confidence each. Two experts, a first loss (1, 0)
against (0, 1): the two are sqrt(2) apart in l2 and 1 in linf, the whole sensitivity, and nothing of
it is lost to the simplex, on which only differences of sums show. A learner that is promised twice
the mu (Gaussian noise) or epsilon (K-norm noise) has half the noise: the planted bug.
"""

import math

import numpy as np
import pytest

from discreet.audit import audit_scores
from discreet.domains import Ball, Simplex
from discreet.online import FTPL, FTRL
from discreet.privacy import SeededNoise, gaussian_mu
from discreet.privacy.gaussian import gaussian_epsilon

RUNS, T = 4000, 6
EPSILON, DELTA = 1.0, 1e-6
HALVED = gaussian_epsilon(2 * gaussian_mu(EPSILON, DELTA), DELTA)  # half the Gaussian noise
SURE = 0.9999


def gdp(scores, confidence=SURE):
    return audit_scores(*scores, delta=DELTA, confidence=confidence, method="gdp").lower_bound


def decisions(kind, domain, canary, epsilon, delta, mechanism, noise, horizon=T):
    """All decisions after the first loss, the canary; the other losses are known."""
    learner = kind(domain, horizon, epsilon, delta, mechanism=mechanism, seed=0, noise=noise)
    known = np.full(domain.dim, 0.5 if domain.loss_set == "box" else 0.0)
    learner.learn(canary)
    later = [learner.decide()]
    for _ in range(horizon - 1):
        learner.learn(known)
        later.append(learner.decide())
    return np.array(later)


def sums_scores(epsilon):
    """The best attack on the noisy sums, which FTRL's decisions show exactly:
    log(x_2/x_1) = rate (L~_1 - L~_2)."""
    noise, scores = SeededNoise(1), []
    probe = FTRL(Simplex(2), T, epsilon, DELTA, mechanism="blt", noise=SeededNoise(0))
    B = probe._sums._calibration.design.filter(T).steps(np.eye(T))
    weights = np.linalg.solve(B @ B.T, np.ones(T)) / probe.learning_rate(np.arange(2, T + 2))
    for canary in ([0.0, 1.0], [1.0, 0.0]):
        X = [decisions(FTRL, Simplex(2), canary, epsilon, DELTA, "blt", noise) for _ in range(RUNS)]
        scores.append(np.log(X) @ [-1.0, 1.0] @ weights)
    return scores


def choice_scores(epsilon):
    """One round: which of two experts FTPL follows after it."""
    noise, scores = SeededNoise(4), []
    for canary in ([0.0, 1.0], [1.0, 0.0]):
        X = [
            decisions(FTPL, Simplex(2), canary, epsilon, DELTA, "blt", noise, horizon=1)[0]
            for _ in range(RUNS)
        ]
        scores.append(np.array(X)[:, 1])
    return scores


def test_audit__ftrl_on_experts_reads_its_noisy_sums():
    scores = sums_scores(EPSILON)
    assert gdp(scores) <= EPSILON
    assert gdp(scores, 0.95) >= 0.4 * EPSILON
    assert gdp(sums_scores(HALVED)) > EPSILON


def test_audit__ftpl_on_experts_reads_its_choices():
    assert gdp(choice_scores(EPSILON)) <= EPSILON
    assert gdp(choice_scores(HALVED)) > EPSILON


def pure_scores(epsilon):
    """One round: the difference of K-norm noise in two coordinates, from one decision."""
    noise, scores = SeededNoise(2), []
    for canary in ([0.0, 1.0], [1.0, 0.0]):
        X = [
            decisions(FTRL, Simplex(2), canary, epsilon, 0.0, "tree", noise, horizon=1)[0]
            for _ in range(RUNS)
        ]
        scores.append(np.log(X) @ [-1.0, 1.0])
    return scores


def test_audit__ftrl_with_pure_privacy():
    def bound(scores, confidence=SURE):
        return audit_scores(*scores, confidence=confidence).lower_bound

    scores = pure_scores(EPSILON)
    assert 0.5 * EPSILON <= bound(scores) <= EPSILON
    assert bound(pure_scores(2 * EPSILON)) > EPSILON


@pytest.mark.parametrize(("epsilon", "caught"), [(EPSILON, False), (HALVED, True)])
def test_audit__ftrl_on_the_ball_shows_directions_only(epsilon, caught):
    """Opposite unit losses are 2 apart; a decision on the sphere shows where the sum points."""
    noise, scores = SeededNoise(3), []
    for sign in (-1.0, 1.0):
        canary = sign * np.eye(2)[0]
        sample = [
            decisions(FTRL, Ball(2), canary, epsilon, DELTA, "blt", noise, horizon=1)[0]
            for _ in range(RUNS)
        ]
        scores.append(-np.array(sample)[:, 0])
    assert (gdp(scores) > EPSILON) == caught
    assert math.isfinite(gdp(scores))
