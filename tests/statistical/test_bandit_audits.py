"""Attacks on bandits: the attacker sees everything but the canary's own action.

Refuted or caught at 99.99% confidence each, as in test_audits.py.
"""

import numpy as np

from discreet.audit import audit_scores
from discreet.bandits.baselines import ContinualLinUCB
from discreet.privacy import SeededNoise
from discreet.privacy.gaussian import gaussian_epsilon, gaussian_mu

# A budget at which few runs have power: a learner is slower than a mechanism.
RUNS, EPSILON, DELTA, SURE = 1200, 4.0, 1e-6, 0.9999


def gdp(first, second, confidence=SURE):
    report = audit_scores(first, second, delta=DELTA, confidence=confidence, method="gdp")
    return report.lower_bound


def continual_linucb_scores(*, halved=False):
    """The sum after each of three rounds, where the first person is one of two opposites.

    [phi; y] and [-phi; y] are orthogonal at |phi| = |y| = 1: the worst pair. Each is offered one
    action, so that one's own choice tells nothing; the others' rows are known and zero.
    """
    canary = np.array([[1.0, 0.0], [-1.0, 0.0]])
    # Halved noise: a learner with twice the privacy parameter mu that claims EPSILON.
    spent = gaussian_epsilon(2 * gaussian_mu(EPSILON, DELTA), DELTA) if halved else EPSILON
    scores = []
    for which in (0, 1):
        outputs = []
        for run in range(RUNS):
            learner = ContinualLinUCB(
                2, 3, spent, DELTA, mechanism="blt", noise=SeededNoise(2 * run + which)
            )
            seen = []
            for t in range(3):
                features = canary[[which]] if t == 0 else np.zeros((1, 2))
                learner.learn(learner.decide(features), 1.0 if t == 0 else 0.0)
                seen.append(learner._sums.estimate)
            outputs.append(seen)
        out = np.array(outputs)  # (runs, rounds, coordinates)
        B = learner._sums._calibration.design.filter(3).steps(np.eye(3))
        # Only the moment of coordinate 0 differs, by sqrt(2) 2; the best linear score over rounds.
        scores.append(out[:, :, 2] @ np.linalg.solve(B @ B.T, np.ones(3)))
    return scores


def test_audit__continual_linucb():
    scores = continual_linucb_scores()
    assert gdp(*scores) <= EPSILON
    assert gdp(*scores, 0.95) >= 0.5 * EPSILON
    assert gdp(*continual_linucb_scores(halved=True)) > EPSILON
