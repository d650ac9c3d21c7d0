"""Attacks on one report of a local bandit: below the claim, close to it, catching twice epsilon.

A claim is refuted, or a bug caught, at 99.99% confidence: a false alarm in one of 10,000 runs of
each; how close the attack comes is measured at 95%.
"""

import numpy as np
import pytest

from discreet.audit import audit_scores
from discreet.bandits import PublicPolicy
from discreet.bandits.local_protocol import FRACTIONS
from discreet.local import report_many
from discreet.local.questions import answer
from discreet.privacy import SeededNoise
from discreet.privacy.mechanisms import symmetric_to_vector

RUNS, EPSILON, SURE = 10_000, 1.0, 0.9999
E1, E2 = np.eye(3)[:2]
# The two records that a question tells apart best: (row, reward) twice.
PAIRS = {
    "gram": ((E1, 0.0), (E2, 0.0)),
    "moment": ((E1, 1.0), (E1, -1.0)),
    "scale": ((E1, 1.0), (E1, 0.0)),
}
# What the attack can prove of the claim. Answers uu' and vv' are orthogonal, not opposite: the
# worst ratio needs opposite answers, and a Gram is never the opposite of another.
CLOSE = {"gram": 0.2, "moment": 0.8, "scale": 0.8}


def _answer(rows, rewards, name, policy):
    return answer(rows, rewards, policy.question(name), policy.theta, policy.whitening)[0]


def scores(question, run_at):
    """log-likelihood ratios of RUNS reports of each record, as the device really sends them."""
    policy = PublicPolicy.start(3, run_at, clip=0.5)
    coin = {"gram": 0.1, "scale": 0.22, "moment": 0.9}[question]
    channel, sent, answers = policy.channels[question], [], []
    for seed, (row, reward) in enumerate(PAIRS[question]):
        rows, rewards = np.tile(row, (RUNS, 1)), np.full(RUNS, reward)
        (report,) = [
            r
            for r in report_many(rows, rewards, policy, np.full(RUNS, coin), SeededNoise(seed))
            if len(r.values)
        ]
        assert report.question == question
        sent.append(report.values)
        answers.append(_answer(rows[:1], rewards[:1], question, policy))
    if question == "gram":
        channel = channel.vectors
        sent, answers = [[symmetric_to_vector(v) for v in each] for each in (sent, answers)]
    return [
        channel.log_density(values, answers[1]) - channel.log_density(values, answers[0])
        for values in sent
    ]


@pytest.mark.parametrize("question", FRACTIONS)
def test_audit__one_report_stays_below_the_claim_and_comes_close(question):
    found = scores(question, EPSILON)
    assert audit_scores(*found, confidence=SURE).lower_bound <= EPSILON
    assert audit_scores(*found, confidence=0.95).lower_bound >= CLOSE[question] * EPSILON


@pytest.mark.parametrize("question", ["moment", "scale"])
def test_audit__twice_epsilon_is_caught(question):
    assert audit_scores(*scores(question, 2 * EPSILON), confidence=SURE).lower_bound > EPSILON
