"""Attacks on what SparseBandit releases: below the claim, and catching half the noise.

The attacks are those of `discreet audit`. zCDP turned into (epsilon, delta) is loose for one
release, so selections and measurements are held to their own price: epsilon of bounded range, and
mu. Refuted or caught at 99.99% confidence each. Bugs in the code (Gumbel noise of the wrong sign,
residuals that are not clipped, arms that release only if they were chosen) are planted in
tests/mutation.
"""

import math

import pytest

from discreet.audit import ATTACKS, audit, audit_scores
from discreet.optimization.sparse_windows import CURVATURE
from discreet.privacy.gaussian import gaussian_epsilon

SURE = 0.9999


# (claim, runs): a rare choice among few runs needs a small epsilon, a measurement a large one.
PRICES = {
    "sparse bandit selection": (2.0, 3000),
    "sparse bandit measurement": (8.0, 600),
}


@pytest.mark.parametrize("name", PRICES)
def test_audit__stays_below_its_price_and_half_the_noise_is_caught(name):
    epsilon, runs = PRICES[name]
    each = ATTACKS[name].at(epsilon)
    assert 0.3 * epsilon <= audit(each, runs, confidence=SURE).lower_bound <= epsilon
    assert audit(each.halved(), runs, confidence=SURE).lower_bound > epsilon


def test_audit__leaving_one_arm_for_another_costs_less_than_a_replacement_within_one():
    """Two moves of half the size each; and which arms moved tells nothing."""
    each = ATTACKS["sparse bandit, arm switch"].at(4.0)
    sides = [each.scores(400, neighbour, 1) for neighbour in (0, 1)]
    first, second = (side[:, 0] for side in sides)
    found = audit_scores(first, second, delta=1e-6, confidence=SURE, method="gdp").lower_bound
    switch = math.sqrt((4 + 2 * CURVATURE**2) / (8 + CURVATURE**2))
    assert found <= gaussian_epsilon(switch * each.claim.mu, 1e-6)
    assert all((side[:, 1] == 0).all() for side in sides)
