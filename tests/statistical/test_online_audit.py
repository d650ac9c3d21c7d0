"""Attacks on the decisions of FTRL and FTPL: below the claim, and catching halved noise.

The attacks are those of `discreet audit`; refuted or caught at 99.99% confidence each.
"""

import pytest

from discreet.audit import ATTACKS, audit

RUNS, SURE = 2000, 0.9999


@pytest.mark.parametrize("name", ["ftrl", "ftpl", "ftrl pure", "ftrl on the ball"])
def test_audit__decisions_stay_below_the_claim_and_half_the_noise_is_caught(name):
    each = ATTACKS[name]
    epsilon = each.claim.epsilon
    assert audit(each, RUNS, confidence=SURE).lower_bound <= epsilon
    assert audit(each.halved(), RUNS, confidence=SURE).lower_bound > epsilon
