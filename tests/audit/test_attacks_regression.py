"""Attacks on regression: how near they can come is computed, and channels come that near.

Moves of releases are computed exactly, given the noise: those tests are never wrong. Each bound
from an audit holds with the stated confidence, and seeds are fixed.
"""

import math
from dataclasses import replace

import numpy as np
import pytest

from discreet.audit import ATTACKS, audit
from discreet.audit.attacks.regression import FITS, Fit
from discreet.audit.rows import noise_of
from discreet.audit.transcript import compare
from discreet.audit.views import Likelihood
from discreet.privacy.gaussian import gaussian_epsilon
from discreet.privacy.mechanisms import Mechanisms

SURE = 0.9999


def lives(name):
    """Fewer of slow fits: what a pair moves differs little from noise to noise."""
    return 30 if ATTACKS[name].effort == 1 else 10


@pytest.mark.parametrize("name", FITS)
def test_near__is_what_the_pair_reaches(name):
    attack = ATTACKS[name]
    realised = math.sqrt(np.mean(attack.draw.realised(attack.claim, lives(name)) ** 2))
    assert abs(realised - attack.attainable) < 0.05


def test_compared__mu_of_known_releases_is_their_moves_over_their_noise():
    def run(neighbour, noise):
        for mu, move in ((0.3, 1.0), (0.4, 0.5)):
            Mechanisms(noise).gaussian([0.0, neighbour * move], sensitivity=1.0, mu=mu)

    found = compare(run, 1, noise_of(0, 0))
    assert found.mu == pytest.approx(math.hypot(0.3, 0.4 * 0.5))
    assert compare(run, 1, noise_of(0, 0), limit=1).mu == pytest.approx(0.3)


def random_row(coins, dim):
    """Boundary rows, opposite labels and zeros are as frequent as anything between."""
    length = coins.choice([0.0, 1e-9, 1.0, 1.0, coins.random()])
    direction = coins.standard_normal(dim)
    features = length * direction / np.linalg.norm(direction)
    return features, float(coins.choice([-1.0, 0.0, 1.0, coins.uniform(-1, 1)]))


@pytest.mark.parametrize("name", FITS)
def test_fit__no_pair_moves_its_releases_further_than_it_promised(name):
    fit, claim = FITS[name], ATTACKS[name].claim
    limit = ATTACKS[name].draw.limit
    coins, noise = np.random.default_rng(1), noise_of(1, 0)
    largest = 0.0
    for _ in range(lives(name)):
        pair = tuple(random_row(coins, fit.rows[0].shape[1]) for _ in range(2))
        seen = Likelihood(replace(fit, pair=pair).run, limit).compared(claim, 0, noise)
        assert [each.scale for each in seen.here] == [each.scale for each in seen.there]
        largest = max(largest, seen.mu)
    assert 0.3 * claim.mu < largest <= claim.mu * (1 + 1e-9)


def test_fit__the_check_above_sees_a_sensitivity_that_is_too_small():
    honest = FITS["ssp"]
    X, y = honest.rows
    claim = ATTACKS["ssp"].claim
    twice = Fit(lambda _, noise: honest.make(claim, noise), (X, y), honest.pair, places=(0, 1))
    two = replace(claim, contributions=2)  # rows, promised for one
    seen = Likelihood(twice.run).compared(two, 0, noise_of(0, 0))
    assert seen.mu == pytest.approx(2 * claim.mu)


SLOW = ("logistic regression, four classes", "search cv", "glm newton, poisson")


@pytest.mark.parametrize(
    "name",
    [
        "glm newton, logistic",
        "linear regression reweighted",
        *(pytest.param(name, marks=pytest.mark.thorough) for name in SLOW),
    ],
)
def test_attack__catches_half_the_noise(name):
    claim = ATTACKS[name].at(4.0).claim
    twice = gaussian_epsilon(2 * claim.mu, claim.delta)
    assert audit(ATTACKS[name].at(twice), 500, confidence=SURE).lower_bound > 4.0


# Epsilon of one report, proved by 10^4 runs at 95%.
REPORTS = {
    "moment report": 0.85, "moment report, later phase": 0.85, "gram report": 0.85,
    "scale report": 0.85,
    "known covariates": 0.85, "moment report, three of one person": 0.75, "sgd": 0.22,
}  # fmt: skip


@pytest.mark.parametrize("name", REPORTS)
def test_local_attack__comes_close_and_catches_twice_the_epsilon(name):
    attack = replace(ATTACKS[f"local regression {name}"], effort=1.0)
    report = audit(attack, 10_000)
    assert REPORTS[name] <= report.lower_bound <= 1.0
    if attack.attainable == 1:
        assert audit(attack.at(2.0), 5000, confidence=SURE).lower_bound > 1.0
