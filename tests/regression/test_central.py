"""Central regression: what all methods keep to, their limits, and what they are worth."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from discreet.audit import audit_scores
from discreet.privacy import Budget, Ledger, SeededNoise
from discreet.regression import PrivateLinearRegression, Problem
from discreet.regression.central import (
    information_weighted,
    least_squares,
    public_covariates,
    single_pass,
)
from discreet.regression.descent import CLIP, descent
from discreet.regression.reweighted import _transformed, reweighted

METHODS = [information_weighted, single_pass, reweighted, descent, public_covariates]


def sphere(n, d, seed=0):
    X = np.random.default_rng(seed).standard_normal((n, d))
    return X / np.linalg.norm(X, axis=1, keepdims=True)


def labels(X, theta, seed=1, noise=0.1):
    rng = np.random.default_rng(seed)
    return np.clip(X @ theta + noise * rng.standard_normal(len(X)), -1, 1)


def problem(X, y, budget=None, seed=0, public=None):
    budget = budget or Budget(1.0, 1e-6)
    return Problem(X, y, Ledger(budget), SeededNoise(seed), np.random.default_rng(seed), public)


@given(arrays(np.float64, (3, 4), elements=st.floats(-1, 1)), st.integers(0, 50))
def test_reweighted__views_are_bounded_for_any_normalisation(raw, seed):
    X = raw / np.maximum(1.0, np.linalg.norm(raw, axis=1, keepdims=True))
    root = np.random.default_rng(seed).standard_normal((4, 4))
    z, direction = _transformed(X, root @ root.T + 0.01 * np.eye(4))
    assert (np.einsum("ij,ij->i", z, z) <= np.linalg.norm(X, axis=1) + 1e-9).all()
    assert (np.linalg.norm(direction, axis=1) <= 1 + 1e-9).all()


@pytest.mark.parametrize("place", [0, 250, 499])
def test_descent__replacing_a_row_moves_the_average_by_at_most_two_steps(place):
    rng = np.random.default_rng(3)
    X, y = sphere(500, 6), np.sign(rng.standard_normal(500))
    budget = Budget(1.0, 1e-6)
    outputs = []
    for row, label in ((X[place], y[place]), (-X[place], y[place]), (0 * X[place], 0.0)):
        X2, y2 = X.copy(), y.copy()
        X2[place], y2[place] = row, label
        p = problem(X2, y2, budget)
        outputs.append(descent(p).theta)
        (release,) = p.ledger.releases
    # Same order of rows and same noise: what is left is the row.
    for other in outputs[1:]:
        assert np.linalg.norm(outputs[0] - other) <= release.sensitivity + 1e-12
    assert release.sensitivity <= 2 * CLIP


@pytest.mark.parametrize("method", METHODS, ids=lambda m: m.__name__)
def test_methods__spend_the_budget_once_and_no_more(method):
    X = sphere(3000, 4)
    p = problem(X, labels(X, np.ones(4) / 2), public=sphere(500, 4, seed=9))
    method(p)
    assert p.ledger.spent() <= 1 + 1e-9
    assert p.ledger.guarantee().epsilon_at(1e-6) == pytest.approx(1.0, abs=2e-2)
    if method is single_pass:
        assert len({release.scope for release in p.ledger.releases}) == 5


@pytest.mark.parametrize("method", METHODS, ids=lambda m: m.__name__)
def test_methods__contributions_multiply_every_sensitivity(method):
    X = sphere(2500, 4)
    y = labels(X, np.ones(4) / 2)
    first = []
    for k in (1, 3):
        p = problem(X, y, Budget(1.0, 1e-6, k), public=sphere(500, 4, seed=9))
        method(p)
        first.append(p.ledger.releases[0])
        assert p.ledger.spent() <= 1 + 1e-9
    if method is descent:  # the step is shortened as well
        assert first[1].scale > first[0].scale
    else:
        assert first[1].sensitivity == pytest.approx(3 * first[0].sensitivity)


@pytest.mark.parametrize("method", METHODS, ids=lambda m: m.__name__)
def test_methods__without_privacy_they_are_least_squares(method):
    X = sphere(500, 4)
    y = labels(X, np.ones(4) / 2)
    p = problem(X, y, Budget(math.inf), public=X)
    expected = np.linalg.lstsq(X, y, rcond=None)[0]
    assert np.allclose(method(p).theta, expected)
    assert p.ledger.releases == ()


@pytest.mark.parametrize("method", [information_weighted, single_pass, public_covariates],
                         ids=lambda m: m.__name__)  # fmt: skip
def test_methods__approach_least_squares_as_epsilon_grows(method):
    X = sphere(20_000, 4)
    y = labels(X, np.array([0.6, 0.3, -0.5, 0.2]))
    p = problem(X, y, Budget(200.0, 1e-6), public=X)
    expected = least_squares(p).theta
    tolerance = 0.004 if method is single_pass else 0.002
    assert np.abs(method(p).theta - expected).max() < tolerance


def test_information_weighted__close_to_least_squares_at_real_sizes():
    theta = np.ones(8) / math.sqrt(8)
    ratios = []
    for seed in range(20):
        X = sphere(20_000, 8, seed)
        y = labels(X, theta, seed + 100)
        p = problem(X, y, seed=seed)
        private, plain = (np.abs(X @ (m(p).theta - theta)).mean()
                          for m in (information_weighted, least_squares))  # fmt: skip
        ratios.append(private / plain)
    assert np.median(ratios) < 1.25


def test_information_weighted__skewed_labels_are_not_clipped_away():
    rng = np.random.default_rng(0)
    X = sphere(20_000, 8)
    theta = 0.1 * np.ones(8) / math.sqrt(8)
    y = (rng.random(20_000) < 0.12 + X @ theta).astype(float)
    errors = [np.abs(X @ (information_weighted(problem(X, y, seed=s)).theta - theta)).mean()
              for s in range(4)]  # fmt: skip
    assert np.median(errors) < 0.012  # predicting zero: 0.028


@pytest.mark.parametrize("fraction", [0.0, 0.01, 0.03])
def test_information_weighted__a_direction_that_few_rows_have_stays_uncertain(fraction):
    # theta lies along a direction that hardly anyone has; the other directions say nothing of it.
    inside, errors = [], []
    for seed in range(8):
        rng = np.random.default_rng(seed)
        X = np.zeros((10_000, 4))
        rare = rng.random(10_000) < fraction
        X[:, 1:] = sphere(10_000, 3, seed)
        X[rare] = [1.0, 0.0, 0.0, 0.0]
        y = np.clip(0.9 * X[:, 0] + 0.1 * rng.standard_normal(10_000), -1, 1)
        estimate = information_weighted(problem(X, y, seed=seed))
        error = abs(estimate.theta[0] - 0.9)
        inside.append(error <= 1.96 * math.sqrt(estimate.covariance[0, 0]))
        errors.append(error)
    assert np.mean(inside) >= 0.6
    if fraction:
        assert np.median(errors) < {0.01: 0.3, 0.03: 0.03}[fraction]


@pytest.mark.parametrize("method", [information_weighted, single_pass])
def test_methods__skewed_labels_with_an_intercept_are_covered(method):
    inside = []
    for seed in range(6):
        rng = np.random.default_rng(seed)
        X = np.column_stack([sphere(60_000, 3, seed), np.ones(60_000)]) / math.sqrt(2)
        theta = np.array([0.05, 0.0, 0.02, 0.1 * math.sqrt(2)])
        y = (rng.random(60_000) < X @ theta).astype(float)
        e = method(problem(X, y, seed=seed))
        width = 1.96 * np.sqrt(np.einsum("ij,jk,ik->i", X[:99], e.covariance, X[:99]))
        inside.append(np.mean(np.abs(X[:99] @ (e.theta - theta)) <= width))
    assert np.mean(inside) >= 0.85


@given(st.integers(1, 60), st.sampled_from([5e-324, 1.6e-162, 1e-160, 1e-151, 1e-20]))
def test_reweighted__tiny_rows_keep_the_bound(d, size):
    X = np.full((2, d), size)
    X[1, 0] *= 1.02
    z, direction = _transformed(X, np.eye(d))
    assert (np.linalg.norm(direction, axis=1) <= 1 + 1e-9).all()
    assert (np.linalg.norm(z, axis=1) <= 1 + 1e-9).all()


def test_information_weighted__labels_of_plus_and_minus_one_are_not_biased():
    private, plain = [], []
    for seed in range(8):
        X, rng = sphere(20_000, 4, seed), np.random.default_rng(seed)
        theta = 0.9 * np.array([0.6, 0.0, 0.8, 0.0])
        y = np.where(rng.random(20_000) < (1 + X @ theta) / 2, 1.0, -1.0)
        p = problem(X, y, seed=seed)
        for errors, method in ((private, information_weighted), (plain, least_squares)):
            errors.append(np.mean((X @ (method(p).theta - theta)) ** 2))
    # 1.16; if the side of the prediction is not looked at 1.76
    assert np.mean(private) < 1.5 * np.mean(plain)


def test_audit__the_whole_estimator_hides_one_row():
    # The attacker knows all rows but one and looks along the canary's direction.
    X, rng = sphere(200, 2), np.random.default_rng(1)
    y = np.clip(X @ [0.5, 0.2] + 0.1 * rng.standard_normal(200), -1, 1)
    X[0] = [1.0, 0.0]
    scores = []
    for label in (-1.0, 1.0):
        y[0] = label
        scores.append([
            information_weighted(problem(X, y, seed=s)).theta[0] for s in range(400)
        ])  # fmt: skip
    assert audit_scores(*scores, delta=1e-6, confidence=0.9999, method="gdp").lower_bound <= 1.0


def test_information_weighted__widths_cover_where_the_slope_is_known_least():
    # Only the last stage sees all rows; the slope comes from a sketch of a few, and its error acts
    # on the whole last step. Coverage of these fits: .79 if the slope is taken for known.
    inside = []
    for seed in range(6):
        X = sphere(300_000, 8, seed)
        theta = sphere(1, 8, seed + 200)[0]
        y = labels(X, theta, seed + 100)
        e = information_weighted(problem(X, y, Budget(0.03, 1e-6), seed=seed))
        width = 1.96 * np.sqrt(np.einsum("ij,jk,ik->i", X[:200], e.covariance, X[:200]))
        inside.append(np.mean(np.abs(X[:200] @ (e.theta - theta)) <= width))
    assert np.mean(inside) >= 0.88


@pytest.mark.parametrize("epsilon", [0.3, 1.0])
@pytest.mark.parametrize("kind", ["revenue", "coin"])
def test_information_weighted__what_clipping_hides_of_skewed_labels_is_in_the_width(kind, epsilon):
    # Arms as one-hot rows without an intercept; at this size no fit sees the tail. What it cannot
    # exclude it must state: widths without that covered a tenth of these means.
    inside = []
    for seed in range(6):
        rng = np.random.default_rng(seed)
        X = np.eye(4)[rng.integers(4, size=3_000)]
        bought = rng.random(3_000) < 0.04
        y = bought * (1.0 if kind == "coin" else np.exp(3 + 0.5 * rng.standard_normal(3_000)) / 200)
        mean = 0.04 * (1.0 if kind == "coin" else np.exp(3 + 0.125) / 200)
        model = PrivateLinearRegression(epsilon, random_state=seed).fit(X, y)
        inside.append(np.abs(model.coef_ - mean) <= model.confidence_width(np.eye(4)))
    assert np.mean(inside) >= 0.85


@pytest.mark.parametrize(
    ("rows", "epsilon", "widest"), [(3_000, 0.3, 0.055), (10_000, 1.0, 0.0075)]
)
def test_information_weighted__normal_errors_do_not_pay_for_skewed_ones(rows, epsilon, widest):
    # Where nothing is irregular nothing is hidden. Widths of .134 and .0136 if noise of the sums of
    # what is clipped stands for what it could hide. (The few rows cannot tell normal errors from
    # exponential ones: .04 if they need not.)
    inside, widths = [], []
    for seed in range(6):
        rng = np.random.default_rng(seed)
        arm = rng.integers(4, size=rows)
        y = 0.1 * arm + 0.1 * rng.standard_normal(rows)
        model = PrivateLinearRegression(epsilon, random_state=seed).fit(np.eye(4)[arm], y)
        width = model.confidence_width(np.eye(4))
        inside.append(np.abs(model.coef_ - 0.1 * np.arange(4)) <= width)
        widths.append(width.mean())
    assert np.mean(inside) >= 0.85
    assert np.median(widths) < widest
