"""What one release costs, in every currency, against formulas and an independent accountant."""

import math

import dp_accounting
import pytest

from discreet.privacy.gaussian import bounded_range_mu, gaussian_delta
from discreet.privacy.release import Release

ABOUT = {"what": "a value", "sampler": "float, simulation only"}


def costs(release):
    return release.epsilon, release.mu, release.rho


def test_gaussian__costs_its_ratio_and_half_its_square():
    release = Release.gaussian(sensitivity=3.0, scale=2.0, **ABOUT)
    assert costs(release) == (math.inf, 1.5, 1.125)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0])
def test_pure__costs_epsilon_half_its_square_and_a_mu_that_covers_randomised_response(epsilon):
    release = Release.pure(
        mechanism="laplace", norm="l1", sensitivity=2 * epsilon, scale=2.0, **ABOUT
    )
    assert costs(release) == (epsilon, release.mu, epsilon**2 / 2)
    # No pure mechanism is worse than randomised response: delta(t) = (e^eps - e^t)/(e^eps + 1).
    for t in (0.0, epsilon / 2, 0.9 * epsilon):
        worst = (math.exp(epsilon) - math.exp(t)) / (math.exp(epsilon) + 1)
        assert gaussian_delta(t, release.mu) >= worst * (1 - 1e-6)
    assert release.mu == pytest.approx(2 * -_quantile(1 / (1 + math.exp(epsilon))))


def _quantile(p):
    from scipy.stats import norm

    return float(norm.ppf(p))


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0])
def test_selection__has_bounded_range(epsilon):
    release = Release.selection(sensitivity=epsilon / 2, scale=1.0, **ABOUT)
    assert costs(release) == (epsilon, bounded_range_mu(epsilon), epsilon**2 / 8)


def test_concentrated__has_no_finite_price_but_rho():
    release = Release.concentrated(
        rho=0.5, mechanism="exponential", norm="linf", sensitivity=1.0, scale=1.0, **ABOUT
    )
    assert costs(release) == (math.inf, math.inf, 0.5)


def test_composed__adds_up_each_currency_in_its_own_way():
    parts = [Release.pure(mechanism="laplace", norm="l1", sensitivity=s, scale=1.0, **ABOUT)
             for s in (0.3, 0.4)]  # fmt: skip
    whole = Release.composed(parts, what="both")
    assert whole.epsilon == pytest.approx(0.7)
    assert whole.mu == pytest.approx(math.hypot(*(each.mu for each in parts)))
    assert whole.rho == pytest.approx((0.3**2 + 0.4**2) / 2)


def test_gaussian__is_what_an_independent_accountant_says():
    accountant = dp_accounting.pld.PLDAccountant()
    accountant.compose(dp_accounting.GaussianDpEvent(2.0))
    release = Release.gaussian(sensitivity=1.0, scale=2.0, **ABOUT)
    assert accountant.get_delta(1.0) == pytest.approx(gaussian_delta(1.0, release.mu), rel=1e-3)


def test_composed__what_all_rows_saw_adds_to_the_dearest_scope():
    scopes = (None, "a", "b", "a")
    parts = [Release.gaussian(sensitivity=s, scale=1.0, scope=scope, **ABOUT)
             for s, scope in zip((0.3, 0.4, 0.6, 0.5), scopes, strict=True)]  # fmt: skip
    whole = Release.composed(parts, what="all")
    dearest = 0.4**2 + 0.5**2  # that of "a"
    assert whole.mu == pytest.approx(math.sqrt(0.3**2 + dearest))
    assert whole.rho == pytest.approx((0.3**2 + dearest) / 2)
