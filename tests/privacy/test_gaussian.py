import math
import time

import dp_accounting
import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import expit, ndtri

from discreet.privacy import gaussian_mu, gaussian_std
from discreet.privacy.gaussian import (
    bounded_range_mu,
    gaussian_delta,
    gaussian_epsilon,
    zcdp_delta,
    zcdp_epsilon,
    zcdp_rho,
)

EPSILONS = [1e-4, 1e-3, 0.01, 0.1, 0.5, 1.0, 3.0, 10.0, 30.0, 100.0]
DELTAS = [1e-15, 1e-12, 1e-9, 1e-6, 1e-3, 0.05, 0.5]


def exact_delta(epsilon: float, mu: float) -> mpmath.mpf:
    with mpmath.workdps(60):
        e, m = mpmath.mpf(epsilon), mpmath.mpf(mu)
        return mpmath.ncdf(-e / m + m / 2) - mpmath.exp(e) * mpmath.ncdf(-e / m - m / 2)


def test_gaussian_std__check_value():
    assert gaussian_std(1, 1e-6, 1) == pytest.approx(4.224678889, abs=1e-9)


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("delta", DELTAS)
def test_gaussian_mu__solves_the_equation_and_errs_on_the_private_side(epsilon, delta):
    mu = gaussian_mu(epsilon, delta)
    assert exact_delta(epsilon, mu) <= delta
    assert exact_delta(epsilon, mu * (1 + 1e-9)) > delta
    assert gaussian_delta(epsilon, mu) == pytest.approx(delta, rel=1e-9)
    assert gaussian_epsilon(mu, delta) == pytest.approx(epsilon, rel=1e-9, abs=1e-11)


@pytest.mark.parametrize("epsilon", [0.01, 0.1, 1.0, 5.0, 20.0])
@pytest.mark.parametrize("delta", [1e-10, 1e-6, 1e-3, 0.1])
def test_gaussian_std__agrees_with_dp_accounting(epsilon, delta):
    theirs = dp_accounting.get_sigma_gaussian(epsilon, delta)
    assert gaussian_std(epsilon, delta, 1.0) == pytest.approx(theirs, rel=1e-6)


def test_gaussian_std__agrees_with_numerical_composition():
    accountant = dp_accounting.pld.PLDAccountant(
        dp_accounting.NeighboringRelation.ADD_OR_REMOVE_ONE
    )
    accountant.compose(dp_accounting.GaussianDpEvent(gaussian_std(1.0, 1e-6, 2.0) / 2.0))
    assert accountant.get_epsilon(1e-6) == pytest.approx(1.0, abs=1e-6)


@given(st.floats(1e-4, 100), st.floats(1e-15, 0.5), st.floats(1e-3, 1e3))
def test_gaussian_std__is_proportional_to_sensitivity(epsilon, delta, sensitivity):
    one = gaussian_std(epsilon, delta, 1.0)
    assert gaussian_std(epsilon, delta, sensitivity) == pytest.approx(one * sensitivity)


def test_gaussian_mu__is_fast():
    times = []
    for epsilon in np.geomspace(1e-4, 100, 50):
        start = time.perf_counter()
        gaussian_mu(epsilon, 1e-9)
        times.append(time.perf_counter() - start)
    assert np.median(times) < 1e-3


def test_gaussian__no_privacy_means_no_noise():
    assert gaussian_mu(math.inf, 1e-6) == math.inf
    assert gaussian_std(math.inf, 1e-6, 3.0) == 0.0
    assert gaussian_epsilon(math.inf, 1e-6) == math.inf
    assert gaussian_delta(1.0, math.inf) == 1.0
    assert gaussian_delta(1.0, 0.0) == 0.0
    assert gaussian_epsilon(0.0, 1e-6) == 0.0


def test_gaussian__delta_zero_is_a_clear_error():
    with pytest.raises(ValueError, match="cannot give delta = 0; set delta"):
        gaussian_mu(1.0, 0.0)


@pytest.mark.parametrize(
    ("epsilon", "delta"), [(0.0, 1e-6), (-1.0, 1e-6), (math.nan, 1e-6), (1, 1.0), (1, math.nan)]
)
def test_gaussian__bad_arguments_are_refused(epsilon, delta):
    with pytest.raises(ValueError, match="must"):
        gaussian_mu(epsilon, delta)


def test_gaussian_delta_and_zcdp__bad_arguments_are_refused():
    with pytest.raises(ValueError, match="epsilon must be at least 0"):
        gaussian_delta(-1.0, 1.0)
    with pytest.raises(ValueError, match="mu must be at least 0"):
        gaussian_delta(1.0, -1.0)


@given(st.floats(0.01, 8.0), st.floats(-12, 12))
def test_bounded_range_mu__no_two_outcome_release_of_that_width_exceeds_it(width, centre):
    # A privacy loss in {high, high - width} is the worst case; mu is its distance of quantiles.
    p, q = expit(centre + width / 2), expit(centre - width / 2)
    assert ndtri(p) - ndtri(q) <= bounded_range_mu(width) * (1 + 1e-9)


@pytest.mark.parametrize("width", [1e-16, 1e-8, 0.3, 0.999, 1.0, 5.0, 50.0, 76.0, 200.0])
def test_bounded_range_mu__is_accurate_at_both_ends_and_rounded_up(width):
    with mpmath.workdps(60):
        corner = 1 / (1 + mpmath.exp(mpmath.mpf(width) / 2))
        exact = mpmath.findroot(
            lambda mu: mpmath.log(mpmath.ncdf(-mu / 2)) - mpmath.log(corner),
            mpmath.mpf(bounded_range_mu(width)),
        )
        excess = float(bounded_range_mu(width) / exact - 1)
    assert 0 <= excess < 1e-11
    assert bounded_range_mu(0.0) == 0.0
    assert bounded_range_mu(math.inf) == math.inf


def test_bounded_range_mu__pure_release_implies_its_epsilon_curve():
    # mu-GDP must be implied by, not imply, epsilon-DP: its delta curve lies above the pure one.
    for epsilon in (0.1, 1.0, 4.0):
        mu = bounded_range_mu(2 * epsilon)
        for smaller in np.linspace(0, epsilon, 20):
            pure = max(0.0, (math.exp(epsilon) - math.exp(smaller)) / (1 + math.exp(epsilon)))
            assert gaussian_delta(smaller, mu) >= pure - 1e-12


@pytest.mark.parametrize("rho", [1e-4, 0.01, 0.1, 1.0, 5.0])
@pytest.mark.parametrize("delta", [1e-9, 1e-6, 1e-3])
def test_zcdp__agrees_with_dp_accounting(rho, delta):
    accountant = dp_accounting.rdp.RdpAccountant(
        orders=(1 + np.geomspace(1e-3, 1e4, 4000)).tolist()
    )
    accountant.compose(dp_accounting.ZCDpEvent(rho))
    epsilon = zcdp_epsilon(rho, delta)
    assert epsilon == pytest.approx(accountant.get_epsilon(delta), rel=2e-3)
    assert zcdp_rho(epsilon, delta) == pytest.approx(rho, rel=1e-6)


def test_zcdp__limits():
    assert zcdp_delta(1.0, 0.0) == 0.0
    assert zcdp_delta(1.0, math.inf) == 1.0
    assert zcdp_rho(math.inf, 1e-6) == math.inf
    assert zcdp_epsilon(0.0, 1e-6) == 0.0
    assert zcdp_epsilon(math.inf, 1e-6) == math.inf
    # A Gaussian release is mu^2/2-zCDP; the conversion is valid, hence never below the exact one.
    for mu in (0.1, 0.5, 2.0):
        assert zcdp_epsilon(mu**2 / 2, 1e-6) >= gaussian_epsilon(mu, 1e-6)
