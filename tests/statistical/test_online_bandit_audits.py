"""Attacks on private bandits: on one report (local trust) and on the actions (central trust).

A claim is refuted, or a bug caught, at 99.99% confidence: a false alarm in one of 10,000 runs of
each; how close the attack comes is measured at 95%.
"""

import numpy as np
import pytest

from discreet.audit import audit_scores
from discreet.domains import Ball
from discreet.online.adversarial import AdversarialBandit
from discreet.online.barrier import BarrierBandit
from discreet.privacy import SeededNoise

RUNS, EPSILON, SURE = 10_000, 1.0, 0.9999


class Listener:
    """Stands where the bandit stands, and keeps all it is told."""

    def __init__(self):
        self.heard = []

    def decide(self):
        return 0

    def learn(self, choice, loss):
        self.heard.append(loss)


def heard(make, losses):
    """What reaches the inner bandit when every loss is the first, or the second, of two."""
    for seed, loss in enumerate(losses):
        learner, listener = make(SeededNoise(seed)), Listener()
        learner.bandit = listener
        for _ in range(RUNS):
            learner.learn(learner.decide(), loss)
        yield np.array(listener.heard)


LOCAL = {
    "arms": (lambda e, noise: AdversarialBandit(3, RUNS, e, seed=0, noise=noise), (0.0, 1.0)),
    "ball": (lambda e, noise: BarrierBandit(Ball(3), RUNS, e, seed=0, noise=noise), (-1.0, 1.0)),
}


@pytest.mark.parametrize("which", LOCAL)
def test_audit__one_report_stays_below_the_claim_and_comes_close(which):
    make, losses = LOCAL[which]
    found = list(heard(lambda noise: make(EPSILON, noise), losses))
    assert audit_scores(*found, confidence=SURE).lower_bound <= EPSILON
    assert audit_scores(*found, confidence=0.95).lower_bound >= 0.8 * EPSILON


@pytest.mark.parametrize("which", LOCAL)
def test_audit__a_report_at_twice_epsilon_is_caught(which):
    make, losses = LOCAL[which]
    found = heard(lambda noise: make(2 * EPSILON, noise), losses)
    assert audit_scores(*found, confidence=SURE).lower_bound > EPSILON


def first_law(make, halve=1.0):
    """The released state after one batch, of which the next actions are drawn.

    The first person's loss is 0 or 1, all others' are 1/2: the worst neighbours.
    """
    for seed, loss in enumerate((0.0, 1.0)):
        noise, scores = SeededNoise(seed), []
        for _ in range(RUNS):
            bandit = make(noise)
            scale, own = bandit._feedback.release.scale, bandit._feedback._noise
            own.laplace = lambda _, size, spacing, s=scale, draw=own.laplace: draw(s * halve, size)
            for t in range(bandit.batch_size):
                d = bandit.decide()
                bandit.learn(d, loss if t == 0 else 0.5)
            after = bandit.decide()
            # The log odds of the arm held in the batch, in the law it published next.
            p = after.probabilities[d.action] - bandit.bandit.explore / 2
            scores.append(np.log(p / (1 - bandit.bandit.explore - p)))
        yield np.array(scores)


def make_central(noise):
    return AdversarialBandit(2, 60, EPSILON, trust="central", seed=0, noise=noise)


def test_audit__central_actions_stay_below_the_claim_and_come_close():
    found = list(first_law(make_central))
    assert audit_scores(*found, confidence=SURE).lower_bound <= EPSILON
    assert audit_scores(*found, confidence=0.95).lower_bound >= 0.8 * EPSILON


def test_audit__halved_noise_in_the_centre_is_caught():
    found = first_law(make_central, halve=0.5)
    assert audit_scores(*found, confidence=SURE).lower_bound > EPSILON


def first_centre(halve=1.0):
    """Where a BarrierBandit stands after one batch; the first person's loss is -1 or 1."""
    for seed, loss in enumerate((-1.0, 1.0)):
        noise, scores = SeededNoise(seed), []
        for _ in range(RUNS):
            bandit = BarrierBandit(Ball(1), 60, 4.0, trust="central", seed=0, noise=noise)
            scale, own = bandit._feedback.release.scale, bandit._feedback._noise
            own.laplace = lambda _, size, spacing, s=scale, draw=own.laplace: draw(s * halve, size)
            for t in range(bandit.batch_size):
                d = bandit.decide()
                bandit.learn(d, loss if t == 0 else 0.0)
            scores.append(bandit.decide().choice.centre[0])
        yield np.array(scores)


def test_audit__central_points_stay_below_the_claim_and_come_close():
    found = list(first_centre())
    assert audit_scores(*found, confidence=SURE).lower_bound <= 4.0
    best = max(audit_scores(s * found[0], s * found[1]).lower_bound for s in (-1, 1))
    assert best >= 0.8 * 4.0


def test_audit__halved_noise_in_central_points_is_caught():
    found = list(first_centre(halve=0.5))
    sure = (audit_scores(s * found[0], s * found[1], confidence=SURE) for s in (-1, 1))
    assert max(audit.lower_bound for audit in sure) > 4.0
