"""Where rows are few: what a step moves by, what all of them cost, and what they are worth."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from discreet.least_squares import Posterior, Whitening
from discreet.privacy import Budget, Ledger, SeededNoise
from discreet.regression import PrivateLinearRegression, Problem
from discreet.regression.baselines import DPGradientDescent
from discreet.regression.few_rows import (
    FEW,
    GRAM_BOUND,
    LIMIT,
    SKETCHED,
    WEIGHTED,
    LabelNoise,
    _covariates,
    few_rows,
    has_few_rows,
)
from discreet.regression.skew import SkewPosterior
from discreet.regression.stages import (
    LEVELS,
    Predictive,
    Sketch,
    Stage,
    clippings,
    step_sums,
    weighted_gram,
)

UNIT = {"norm_bound": 1.0, "label_bound": 1.0, "fit_intercept": False}


def sphere(n, d, seed):
    X = np.random.default_rng(seed).standard_normal((n, d))
    return X / np.linalg.norm(X, axis=1, keepdims=True)


def world(n, seed, d=8):
    rng = np.random.default_rng([seed, n])
    X, theta = sphere(n, d, seed), sphere(1, d, seed + 1)[0]
    return X, np.clip(X @ theta + 0.1 * rng.standard_normal(n), -1, 1), theta


def problem(X, y, budget=None, seed=0):
    budget = budget or Budget(1.0, 1e-6)
    return Problem(X, y, Ledger(budget), SeededNoise(seed), np.random.default_rng(seed))


unit_rows = arrays(np.float64, (1, 3), elements=st.floats(-1, 1)).map(
    lambda rows: rows / np.maximum(1.0, np.linalg.norm(rows, axis=1, keepdims=True))
)


@given(unit_rows, st.sampled_from([-1.0, 1.0, 0.2]), st.integers(0, 50),
       st.sampled_from([0.6, 1.4, 2.0]), st.floats(0.05, 30.0))  # fmt: skip
def test_step__a_row_is_at_most_one_clip_and_rest_one_count_one_weight(X, y, seed, clip, stretch):
    rng = np.random.default_rng(seed)
    root = 0.4 * rng.standard_normal((3, 3))
    predictive = Predictive(rng.standard_normal(3), root @ root.T, 10 ** rng.uniform(-4, 0))
    whitening = Whitening(stretch * np.diag([1.0, 2.0, 5.0]))
    stage = Stage(whitening, clip, 0.5, 0.01, GRAM_BOUND, 0.0, 1.0)
    moment, inside, trace, rest = step_sums(stage, predictive, LIMIT, X, np.array([y]))
    length = np.linalg.norm(moment) / stage.largest(predictive)
    assert math.hypot(length, rest[0]) <= 1 + 1e-9
    assert inside[0] in (0.0, 1.0)
    assert 0 <= trace[0] <= GRAM_BOUND * (1 + 1e-9)
    for tau in (1.0, 3.0, GRAM_BOUND):
        assert np.linalg.norm(weighted_gram(whitening, tau, X, np.zeros(1))[0]) <= tau * (1 + 1e-9)


@pytest.mark.parametrize(("n", "contributions"), [(200, 1), (200, 3), (1200, 1), (6000, 1)])
def test_few_rows__all_releases_together_cost_the_budget(n, contributions):
    X, y, _ = world(n, 0, d=3)
    p = problem(X, y, Budget(1.0, 1e-6, contributions))
    few_rows(p)
    sketched = any("sketch" in release.what for release in p.ledger.releases)
    assert sketched is (n * p.budget.mu / (3 * contributions) > SKETCHED)
    assert p.ledger.spent() == pytest.approx(1.0)
    weighted = n * p.budget.mu / (3 * contributions) > WEIGHTED
    least = contributions * math.sqrt(2)
    assert p.ledger.releases[0].sensitivity >= (1.5 * least if weighted else least * (1 - 1e-9))


def rare(n, fraction, seed):
    """All of theta lies along a direction that a fraction of the rows has."""
    rng = np.random.default_rng([seed, n])
    X = np.column_stack([np.zeros(n), sphere(n, 3, seed)])
    X[rng.random(n) < fraction] = np.eye(4)[0]
    return X, np.clip(0.7 * X[:, 0] + 0.1 * rng.standard_normal(n), -1, 1)


def test_covariates__a_rare_direction_has_the_information_that_steps_give_it():
    """Rows of it are long when whitened: each weighs little, and steps must know how little."""
    for seed in range(5):
        X, y = rare(12_000, 0.03, seed)
        covariates = _covariates(problem(X, y, seed=seed))
        H = covariates.whitening.matrix @ covariates.gram @ covariates.whitening.matrix
        (true,) = weighted_gram(covariates.whitening, GRAM_BOUND, X, y)
        assert 0.4 < H[0, 0] / true[0, 0] < 1.4  # .01 where rows are cut at length 1


def test_few_rows__a_direction_of_one_row_in_a_hundred_is_found():
    off = []
    for seed in range(12):
        X, y = rare(10_000, 0.01, seed)
        model = PrivateLinearRegression(random_state=seed, **UNIT).fit(X, y)
        off.append(model.coef_[0] - 0.7)
    assert math.sqrt(np.mean(np.square(off))) < 0.12  # .05; stages .15


def test_step__a_label_at_its_bound_against_the_prediction_is_not_cut():
    predictive = Predictive(np.array([0.5, 0.0]), 1e-6 * np.eye(2), 0.9)
    stage = Stage(Whitening.identity(2), 2.0, 1.0, 0.9, GRAM_BOUND, 0.0, 1.0)
    X = np.array([[1.0, 0.0], [0.3, 0.1], [-0.7, 0.0]])
    y = -np.sign(X[:, 0])
    assert step_sums(stage, predictive, LIMIT, X, y)[1] == 3


def test_few_rows__clips_follow_small_label_noise():
    """Label noise of .003 is far below what a sketch after five steps resolves."""
    squares = []
    for seed in range(6):
        X, theta = sphere(8_000, 5, seed), 0.7 * sphere(1, 5, seed + 1)[0]
        y = X @ theta + 0.003 * np.random.default_rng(seed).standard_normal(8_000)
        model = PrivateLinearRegression(random_state=seed, **UNIT).fit(X, y)
        squares.append(np.mean((X @ (model.coef_ - theta)) ** 2))
    assert math.sqrt(np.mean(squares)) < 2.5e-4  # .00013; .0004 if they did not


def test_clippings__rare_labels_far_beyond_the_last_level_may_stay_uncut():
    levels = np.append(0.97, np.zeros(len(LEVELS) - 1))
    levels[-1] = 0.03
    excess = np.zeros((2, len(LEVELS)))
    excess[0, -1] = 0.03
    narrow = Predictive(np.zeros(2), 1e-6 * np.eye(2), 0.002)  # labels of 1 are 22 std away
    clips = clippings(Sketch(np.zeros(0), levels, excess), narrow)
    assert clips.at[-1] * math.sqrt(narrow.noise) == pytest.approx(narrow.limit)
    assert clips.tilt[-1] == 0 < clips.tilt[-2]


def test_few_rows__are_few_by_public_numbers_alone():
    rows = [np.zeros((400, 2)), sphere(400, 2, 0)]
    assert len({has_few_rows(problem(X, X[:, 0])) for X in rows}) == 1
    mu = Budget(1.0, 1e-6).mu
    enough = math.ceil(FEW * 2 / mu) + 1
    for n, contributions, few in ((enough, 1, False), (enough - 2, 1, True), (enough, 2, True)):
        X = np.zeros((n, 2))
        assert has_few_rows(problem(X, X[:, 0], Budget(1.0, 1e-6, contributions))) is few


@pytest.mark.parametrize("n", [1, 7, 60])
def test_few_rows__rows_that_say_nothing_give_finite_answers(n):
    for X, y in ((np.zeros((n, 3)), np.zeros(n)), (np.eye(3)[[0] * n], np.ones(n))):
        for budget in (Budget(1.0, 1e-6), Budget(1e-4, 1e-9), Budget(1.0, 1e-6, 20)):
            estimate = few_rows(problem(X, y, budget))
            assert np.isfinite(estimate.theta).all()
            assert np.isfinite(estimate.covariance).all()


def test_few_rows__noise_that_leaves_no_eigenvalue_is_survived():
    X, y, _ = world(60, 0, d=2)
    p = problem(X, y)
    p.noise.gaussian = lambda std, size, spacing: np.full(size, -8.0 * std)
    assert np.isfinite(few_rows(p).theta).all()


def test_few_rows__err_less_than_stages_and_than_descent_with_good_steps():
    # 500 rows, 8 features: .034 in trials; stages .17, predicting zero .35.
    private, descent = [], []
    for seed in range(8):
        X, y, theta = world(500, seed)
        model = PrivateLinearRegression(random_state=seed, **UNIT).fit(X, y)
        private.append(np.mean((X @ (model.coef_ - theta)) ** 2))
        other = DPGradientDescent(steps=30, gradient_clip=0.3, random_state=seed, **UNIT).fit(X, y)
        descent.append(np.mean((X @ (other.coef_ - theta)) ** 2))
    assert math.sqrt(np.mean(private)) < 0.06
    assert np.mean(private) < np.mean(descent)


def test_few_rows__widths_cover():
    inside = []
    for seed in range(12):
        X, y, theta = world(600, seed)
        model = PrivateLinearRegression(random_state=seed, **UNIT).fit(X, y)
        inside.append(np.mean(np.abs(X @ (model.coef_ - theta)) <= model.confidence_width(X)))
    assert np.mean(inside) > 0.93


def test_few_rows__skewed_errors_do_not_bias_the_intercept():
    # Exponential errors of std .25, mean zero: off by -.003 on average; clipped alone by -.023.
    bounds = {"norm_bound": 1.0, "label_bound": 1.0, "fit_intercept": True}
    off = []
    for seed in range(8):
        rng = np.random.default_rng(seed)
        X = rng.standard_normal((2_000, 3))
        X /= np.linalg.norm(X, axis=1, keepdims=True)
        y = X @ [0.2, -0.1, 0.0] - 0.4 + 0.25 * (rng.exponential(size=2_000) - 1)
        model = PrivateLinearRegression(random_state=seed, **bounds).fit(X, np.clip(y, -1, 1))
        off.append(model.intercept_ + 0.4)
    assert abs(np.mean(off)) < 0.012


def test_skew_posterior__believes_kappa_as_far_as_it_stands_out_of_its_noise():
    def variance(deviations):
        design = np.eye(2)
        observed = np.array([0.0, 0.1 * deviations])
        unknown = SkewPosterior.of_theta(Posterior.unobserved(np.eye(1)))
        return unknown.observe(design, observed, 0.01 * np.eye(2)).variance

    assert variance(2.9) < 1e-10
    assert 0 < variance(3.1) < 0.01
    assert variance(30.0) == pytest.approx(9.0, rel=0.02)


def test_skew_posterior__nothing_hidden_leaves_the_posterior_as_it_is():
    rng = np.random.default_rng(0)
    both = SkewPosterior.of_theta(Posterior.unobserved(np.eye(3)))
    plain = Posterior.unobserved(np.eye(3))
    for _ in range(5):
        design = np.eye(4)
        design[:3, :3] = rng.standard_normal((3, 3))
        design[:3, 3] = rng.standard_normal(3)
        observed = np.append(rng.standard_normal(3), 0.0)
        both = both.observe(design, observed, 0.1 * np.eye(4))
        plain = plain.observe(design[:3, :3], observed[:3], 0.1 * np.eye(3))
    np.testing.assert_allclose(both.theta().mean, plain.mean, atol=1e-6)


def test_few_rows__labels_are_in_intervals():
    X, y, _ = world(600, 0, d=4)
    model = PrivateLinearRegression(3.0, random_state=0, **UNIT).fit(X[:400], y[:400])
    low, high = model.predict_interval(X[400:], 0.9).T
    assert np.mean((low <= y[400:]) & (y[400:] <= high)) > 0.85


def test_label_noise__is_found_from_counts():
    """Normal residuals of std .1, counted without noise, from a guess of .25."""
    noise = LabelNoise(2 * math.log(0.25), 1 / 1.5**2)
    for _ in range(40):
        ratio = math.sqrt(noise.variance) * 0.6 / 0.1  # the clip, in true standard deviations
        surprise = math.erf(ratio / math.sqrt(2)) - math.erf(0.6 / math.sqrt(2))
        noise = noise.seen(surprise, 0.05, -0.6 * math.exp(-0.18) / math.sqrt(2 * math.pi))
    assert math.sqrt(noise.variance) == pytest.approx(0.1, rel=0.1)
