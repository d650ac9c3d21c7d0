"""W and U solve their equations; forecasts keep the order that theory demands."""

import math
import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import expit

from discreet.regression import NoisyFitWarning, PrivateLogisticRegression, information
from discreet.regression.information import (
    error_limit,
    expected_error,
    information_matrix,
    price_of_privacy,
    rows_for_classes,
    rows_needed,
)


def balance(W, X, gamma, lam):
    """E[W phi phi^T W w(phi)] + lam W, row by row, as the paper writes it."""
    total = np.zeros_like(W)
    for phi in X:
        z = W @ phi
        if math.isinf(gamma):
            total += np.outer(z, z) / np.linalg.norm(z) if z.any() else 0.0
        else:
            total += np.outer(z, z) / (1 + gamma * np.linalg.norm(z))
    return total / len(X) + lam * W


def awkward_rows(seed, rows=40, d=4):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((rows, d)) * np.exp(2 * rng.standard_normal((rows, 1)))
    X *= np.exp(2 * rng.standard_normal(d))
    X[rng.random(rows) < 0.2] = 0.0
    return X / max(np.linalg.norm(X, axis=1).max(), 1e-300)


@given(
    seed=st.integers(0, 10**6),
    gamma=st.sampled_from([0.0, 1e-3, 0.3, 30.0, 1e4, math.inf]),
    lam=st.sampled_from([1e-5, 1e-2, 1.0, 100.0]),
)
def test_information_matrix__solves_its_equation(seed, gamma, lam):
    X = awkward_rows(seed)
    W = information_matrix(X, gamma=gamma, lam=lam)
    assert np.allclose(W, W.T)
    assert np.linalg.eigvalsh(W).min() > 0
    off = balance(W, X, gamma, lam) - np.eye(4)
    assert np.linalg.norm(off, 2) <= 1.1e-8


@pytest.mark.parametrize("lam", [0.0, 0.2])
@pytest.mark.parametrize("gamma", [0.0, 0.5, 7.0, math.inf])
def test_information_matrix__one_dimension_in_closed_form(gamma, lam):
    # |phi| = x:  w^2 x^2 + (lam w - 1)(1 + gamma w x) = 0;  U = 1/(E|phi| + lam)
    x = 0.3
    found = information_matrix(np.array([[x], [-x]]), gamma=gamma, lam=lam)[0, 0]
    if math.isinf(gamma):
        assert found == pytest.approx(1 / (x + lam), rel=1e-8)
    else:
        a, b = x**2 + lam * gamma * x, lam - gamma * x
        assert found == pytest.approx((-b + math.sqrt(b**2 + 4 * a)) / (2 * a), rel=1e-8)
    spread = np.array([[0.1], [0.7], [-0.4], [0.0]])
    assert information_matrix(spread, gamma=math.inf, lam=0.1)[0, 0] == pytest.approx(1 / 0.4)


def test_information_matrix__gamma_zero_is_the_whitening():
    X = awkward_rows(3)
    sigma = X.T @ X / len(X)
    W = information_matrix(X, gamma=0.0, lam=0.0)
    assert np.allclose(W @ sigma @ W, np.eye(4), atol=1e-9)
    ridge = information_matrix(X, gamma=0.0, lam=0.05)
    assert np.allclose(ridge @ sigma @ ridge + 0.05 * ridge, np.eye(4), atol=1e-9)
    near = information_matrix(X, gamma=1e-9, lam=0.05)
    assert np.allclose(near, ridge, rtol=1e-5)


@pytest.mark.parametrize("gamma", [0.7, math.inf])
def test_information_matrix__scale_and_rotation(gamma):
    # phi -> c phi:  W(gamma, c lam) of c phi is W(gamma, lam) / c;  Q phi turns W into Q W Q^T
    X, c = awkward_rows(5), 0.01
    W = information_matrix(X, gamma=gamma, lam=0.1)
    assert np.allclose(information_matrix(c * X, gamma=gamma, lam=c * 0.1), W / c, rtol=1e-6)
    Q = np.linalg.qr(np.random.default_rng(0).standard_normal((4, 4)))[0]
    assert np.allclose(information_matrix(X @ Q.T, gamma=gamma, lam=0.1), Q @ W @ Q.T, rtol=1e-5)
    twice = np.vstack([X, X])
    assert np.allclose(information_matrix(twice, gamma=gamma, lam=0.1), W, rtol=1e-6)


def test_information_matrix__large_gamma_is_gamma_times_u():
    # W(gamma, lam) ~ gamma U(gamma lam) as gamma -> infinity (Lemma 5.7)
    X, gamma = awkward_rows(7), 1e7
    W = information_matrix(X[X.any(axis=1)], gamma=gamma, lam=0.1 / gamma)
    U = information_matrix(X[X.any(axis=1)], gamma=math.inf, lam=0.1)
    assert np.allclose(W / gamma, U, rtol=1e-4)


@given(seed=st.integers(0, 10**6))
def test_information_matrix__grows_with_gamma_and_shrinks_with_lam(seed):
    X = awkward_rows(seed)
    W = information_matrix(X, gamma=0.5, lam=0.1)
    more = information_matrix(X, gamma=2.0, lam=0.1)
    flat = information_matrix(X, gamma=0.5, lam=0.4)
    assert np.linalg.eigvalsh(more @ more - W @ W).min() > -1e-6
    assert np.linalg.eigvalsh(W @ W - flat @ flat).min() > -1e-6


def test_information_matrix__a_dimension_stands_for_the_sphere():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((50_000, 4))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    sphere = information_matrix(X, gamma=0.5, lam=0.1)
    basis = information_matrix(np.eye(4), gamma=0.5, lam=0.1)
    assert np.abs(sphere - basis).max() < 0.05 * basis[0, 0]
    assert expected_error(X, 3000, 1.0) == pytest.approx(expected_error(4, 3000, 1.0), rel=0.02)


def test_information_matrix__the_iteration_is_short(monkeypatch):
    monkeypatch.setattr(information, "STEPS", 20)
    for gamma in (1e-3, 0.3, 3.0, math.inf):
        for seed in range(20):
            W = information_matrix(awkward_rows(seed), gamma=gamma, lam=1e-4)
            assert np.linalg.eigvalsh(W)[0] > 0  # it would have raised after 20 steps


@pytest.mark.parametrize(
    ("X", "options", "message"),
    [
        (np.eye(2), {"gamma": -1.0, "lam": 1.0}, "gamma must be at least 0"),
        (np.eye(2), {"gamma": 1.0, "lam": -1.0}, "lam must be at least 0"),
        (np.eye(2)[:1], {"gamma": 1.0, "lam": 0.0}, "do not span"),
        (np.ones(3), {"gamma": 1.0, "lam": 1.0}, "matrix"),
        (np.full((2, 2), np.nan), {"gamma": 1.0, "lam": 1.0}, "finite"),
        (awkward_rows(0), {"gamma": 1.0, "lam": 0.1, "tol": 1e-30}, "raise lam"),
    ],
)
def test_information_matrix__says_what_is_wrong(X, options, message):
    with pytest.raises(ValueError, match=message):
        information_matrix(X, **options)


def test_expected_error__least_squares_on_the_sphere_is_exact():
    # E|<phi, e>| = sqrt(2/pi) sigma sqrt(d/n), up to the prior, which hardly matters here
    exact = math.sqrt(2 / math.pi) * 0.1 * math.sqrt(8 / 20_000)
    assert expected_error(8, 20_000) == pytest.approx(exact, rel=1e-3)
    assert expected_error(8, 20_000, norm="l2") == pytest.approx(0.1 * math.sqrt(8 / 2e4), rel=1e-3)


@pytest.mark.parametrize(("n", "low", "high"), [(2000, 1.6, 2.2), (20_000, 1.05, 1.15)])
def test_expected_error__agrees_with_fits_on_the_sphere(n, low, high):
    # private over plain: what benchmarks/planning.py measures, within a factor 1.5
    ratio = expected_error(8, n, 1.0) / expected_error(8, n)
    assert low / 1.5 <= ratio <= high * 1.5


@pytest.mark.parametrize("trust", ["central", "local"])
def test_expected_error__falls_with_rows_and_epsilon_and_stays_above_the_limit(trust):
    X = awkward_rows(1, rows=200)
    rows = [30, 100, 300, 1000, 10**4, 10**5, 10**6, 10**8]
    by_epsilon = []
    for epsilon in (0.2, 1.0, 4.0):
        errors = [expected_error(X, n, epsilon, trust=trust) for n in rows]
        limits = [error_limit(X, n, epsilon, trust=trust) for n in rows]
        plain = [expected_error(X, n) for n in rows]
        assert all(np.diff(errors) < 0)
        assert all(np.array(errors) > limits)
        assert all(np.array(errors) > 0.99 * np.array(plain))
        assert error_limit(X, 1000, epsilon, trust=trust, norm="l2") > 0
        by_epsilon.append(errors)
    assert (np.diff(by_epsilon, axis=0) < 0).all()


def test_expected_error__without_rows_is_what_the_prior_says():
    prior = math.sqrt(2 / math.pi) / math.sqrt(8)  # theta ~ N(0, I/8), |phi| = 1
    assert expected_error(8, 1, 0.1) == pytest.approx(prior, rel=0.02)
    assert expected_error(8, 1, 0.1) < prior


def test_expected_error__privacy_off_is_least_squares():
    for trust in ("central", "local"):
        assert expected_error(5, 1000, math.inf, trust=trust) == expected_error(5, 1000)
        assert price_of_privacy(5, 1000, math.inf, trust=trust) == 1.0
    assert expected_error(5, 10**6, 30.0) == pytest.approx(expected_error(5, 10**6), rel=0.02)


def test_price_of_privacy__is_one_with_rows_enough_under_central_trust_only():
    prices = [price_of_privacy(awkward_rows(2), n, 1.0) for n in (10**3, 10**5, 10**7, 10**12)]
    assert all(np.diff(prices) < 0)
    assert 1 < prices[-1] < 1.01
    local = [price_of_privacy(4, n, 1.0, trust="local") for n in (10**6, 10**12)]
    assert local[0] == pytest.approx(local[1], rel=0.05)
    assert local[1] > 20


def test_rows_needed__reaches_the_target_and_no_more():
    for options in ({}, {"epsilon": 1.0}, {"epsilon": 1.0, "trust": "local"}):
        n = rows_needed(6, 0.004, **options)
        assert (
            expected_error(6, int(n), **options)
            <= 0.004
            < expected_error(6, int(0.97 * n), **options)
        )
    assert rows_needed(6, 1.0) <= 2
    assert rows_needed(6, 1e-9, 0.1, trust="local") == math.inf


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"X": 2 * np.eye(3), "n": 10}, "norm at most 1"),
        ({"X": 0, "n": 10}, "d must be at least 1"),
        ({"X": 3, "n": 0}, "n must be at least 1"),
        ({"X": 3, "n": 10, "epsilon": 0.0}, "epsilon must be positive"),
        ({"X": 3, "n": 10, "label_noise": 0.0}, "label_noise must be positive"),
        ({"X": 3, "n": 10, "trust": "blind"}, "trust must be one of"),
        ({"X": 3, "n": 10, "norm": "l3"}, "norm must be one of"),
        ({"X": 3, "n": 10, "epsilon": 1.0, "delta": 0.0}, "delta"),
    ],
)
def test_expected_error__says_what_is_wrong(arguments, message):
    with pytest.raises(ValueError, match=message):
        expected_error(**arguments)


@pytest.mark.parametrize("epsilon", [0.3, 1.0])
def test_rows_for_classes__is_where_a_fit_begins_to_warn(epsilon):
    n = rows_for_classes(8, epsilon)
    warned = []
    for rows in (int(0.7 * n), int(1.4 * n)):
        rng = np.random.default_rng(0)
        X = rng.standard_normal((rows, 8))
        X /= np.linalg.norm(X, axis=1, keepdims=True)
        y = rng.random(rows) < expit(8**0.5 * X[:, 0])  # log-odds of variance 1
        model = PrivateLogisticRegression(epsilon, classes=(0, 1), random_state=0)
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            model.fit(X, y)
        warned.append(any(each.category is NoisyFitWarning for each in seen))
    assert warned == [True, False]
