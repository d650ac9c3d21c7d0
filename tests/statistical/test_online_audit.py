"""Attacks on the decisions of FTRL and FTPL: below the claim, and catching halved noise.

The attacks are those of `discreet audit`; refuted or caught at 99.99% confidence each.
"""

import pytest

from discreet.audit import ATTACKS, audit

SURE = 0.9999

# (epsilon, runs): Gaussian sums need a larger epsilon for as much power.
AT = {
    "ftrl": (4.0, 500),
    "ftpl": (4.0, 500),
    "ftrl pure": (2.0, 1000),
    "ftrl on the ball": (4.0, 500),
}


@pytest.mark.parametrize("name", AT)
def test_audit__decisions_stay_below_the_claim_and_half_the_noise_is_caught(name):
    epsilon, runs = AT[name]
    each = ATTACKS[name].at(epsilon)
    assert audit(each, runs, confidence=SURE).lower_bound <= epsilon
    assert audit(each.halved(), runs, confidence=SURE).lower_bound > epsilon
