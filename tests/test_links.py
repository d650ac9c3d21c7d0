"""Links: derivatives by finite differences, bounds by brute force."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from discreet.links import LINKS, link

NAMES = tuple(LINKS)
GRID = np.linspace(-4.0, 4.0, 161)


@pytest.mark.parametrize("name", NAMES)
def test_link__slope_is_the_derivative_of_the_mean_and_mean_of_the_integral(name):
    nu, h = link(name), 1e-5
    slope = (nu.mean(GRID + h) - nu.mean(GRID - h)) / (2 * h)
    np.testing.assert_allclose(nu.slope(GRID), slope, rtol=1e-6, atol=1e-9)
    mean = (nu.integral(GRID + h) - nu.integral(GRID - h)) / (2 * h)
    np.testing.assert_allclose(nu.mean(GRID), mean, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("name", NAMES)
def test_link__loss_has_derivative_mean_minus_label_and_is_convex(name):
    for nu in (link(name), link(name).within(2.0, 1.0 if name != "poisson" else 3.0)):
        h, y = 1e-5, 0.3
        derivative = (nu.loss(GRID + h, y) - nu.loss(GRID - h, y)) / (2 * h)
        np.testing.assert_allclose(derivative, nu.mean(GRID) - y, rtol=1e-5, atol=1e-7)
        assert (np.diff(nu.mean(GRID)) >= 0).all()


@given(
    name=st.sampled_from(NAMES),
    low=st.floats(-6, 5.9),
    width=st.floats(0.05, 8),
)
def test_link__slopes_and_range_are_the_extremes_over_an_interval(name, low, width):
    nu, high = link(name), low + width
    t = np.linspace(low, high, 2001)
    least, largest = nu.slopes(low, high)
    assert least == pytest.approx(nu.slope(t).min(), rel=1e-9)
    assert largest == pytest.approx(nu.slope(t).max(), rel=1e-3)
    assert largest >= nu.slope(t).max() * (1 - 1e-12)
    assert nu.range(low, high) == pytest.approx((nu.mean(t).min(), nu.mean(t).max()))


@given(
    name=st.sampled_from(NAMES),
    bound=st.floats(0.1, 12),
    label_bound=st.sampled_from([1.0, 2.5, 20.0]),
    fraction=st.floats(0, 1.5),
)
def test_bounded_link__residual_and_slope_bounds_hold_everywhere(
    name, bound, label_bound, fraction
):
    nu = link(name).within(bound, label_bound if name in ("identity", "poisson") else 1.0)
    least, most = nu.labels
    t = np.linspace(-fraction * bound, fraction * bound, 501)
    worst = np.maximum(np.abs(most - nu.mean(t)), np.abs(least - nu.mean(t)))
    assert worst.max() <= nu.residual(fraction * bound) + 1e-12
    np.testing.assert_allclose(nu.residuals(t), worst, atol=1e-12)
    assert nu.residuals(t).min() >= (most - least) / 2 - 1e-12
    assert nu.slope(t).max() <= nu.largest * (1 + 1e-12)
    assert nu.slope(t).min() >= nu.least * (1 - 1e-12)
    assert nu.mean(t).min() >= least - 1e-12
    assert nu.mean(t).max() <= most + 1e-12


@pytest.mark.parametrize("name", ["logistic", "probit"])
def test_link__dispersion_bounds_the_variance_of_binary_labels(name):
    nu = link(name)
    p = nu.mean(GRID)
    assert (p * (1 - p) <= nu.dispersion * nu.slope(GRID) * (1 + 1e-9)).all()


@pytest.mark.parametrize("name", NAMES)
def test_link__inverse_undoes_the_mean(name):
    nu = link(name)
    for t in (-1.5, 0.0, 0.7):
        assert nu.inverse(float(nu.mean(np.array([t]))[0])) == pytest.approx(t)


def test_link__unknown_name_and_empty_domains_are_clear_errors():
    with pytest.raises(ValueError, match="identity, logistic, probit, poisson"):
        link("cauchit")
    with pytest.raises(ValueError, match="low < high"):
        link("logistic").slopes(1.0, 1.0)
    with pytest.raises(ValueError, match="raise label_bound"):
        link("poisson").within(1.0, math.exp(-2.0))
