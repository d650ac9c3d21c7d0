"""Attacks on ProjectionFreeBandit: below the claim, showing a part of it, and catching bugs.

The attacks are those of `discreet audit`; refuted or caught at 99.99% confidence each.
"""

import pytest

from discreet.audit import ATTACKS, audit, audit_scores
from discreet.domains import Cube
from discreet.online.projection_free import ProjectionFreeBandit

SURE = 0.9999
EPSILON = 8.0  # a budget at which few runs have power
NAMES = ["projection-free bandit", "projection-free bandit, two rounds of one user"]


@pytest.mark.parametrize("name", NAMES)
def test_audit__sums_and_points_stay_below_the_claim_and_half_the_noise_is_caught(name):
    """Views: the whitened sums; their mean; the centre of the points, which follows from them."""
    each = ATTACKS[name].at(EPSILON)
    delta = each.claim.delta
    first, second = (each.scores(600, neighbour, 1) for neighbour in (0, 1))
    sums, points = (
        audit_scores(
            first[:, view], second[:, view], delta=delta, confidence=SURE, method="gdp"
        ).lower_bound
        for view in (0, 2)
    )
    assert 0.3 * EPSILON <= sums <= EPSILON
    assert points <= EPSILON
    assert audit(each.halved(), 600, confidence=SURE).lower_bound > EPSILON


def test_audit__a_pure_sum_stays_below_the_claim_and_half_the_noise_is_caught():
    each = ATTACKS["projection-free bandit pure"].at(2.0)
    assert 0.5 * 2.0 <= audit(each, 2000, confidence=SURE).lower_bound <= 2.0
    assert audit(each.halved(), 2000, confidence=SURE).lower_bound > 2.0


def test_audit__a_long_run_has_filtered_sums_and_a_pure_one_a_tree():
    kinds = {
        delta: ProjectionFreeBandit(Cube(9), 10**4, 1.0, delta).guarantee.releases[0].what
        for delta in (1e-6, 0.0)
    }
    assert "blt" in kinds[1e-6]
    assert "tree" in kinds[0.0]
