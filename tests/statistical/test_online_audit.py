"""Attacks on the decisions of FTRL and FTPL: below the claim, and catching halved noise.

The attacks are those of `discreet audit`; refuted or caught at 99.99% confidence each. A learner
that is promised twice the mu (Gaussian noise) or epsilon (K-norm noise) has half the noise: the
planted bug.
"""

import pytest

from discreet.audit import ATTACKS, audit
from discreet.privacy.gaussian import gaussian_epsilon

RUNS, SURE = 2000, 0.9999


@pytest.mark.parametrize("name", ["ftrl", "ftpl", "ftrl pure", "ftrl on the ball"])
def test_audit__decisions_stay_below_the_claim_and_half_the_noise_is_caught(name):
    each = ATTACKS[name]
    claim = each.claim
    assert audit(each, RUNS, confidence=SURE).lower_bound <= claim.epsilon
    pure = claim.kind == "pure"
    halved = 2 * claim.epsilon if pure else gaussian_epsilon(2 * claim.mu, claim.delta)
    assert audit(each.at(halved), RUNS, confidence=SURE).lower_bound > claim.epsilon
