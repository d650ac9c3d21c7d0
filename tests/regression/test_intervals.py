"""Intervals for labels: from released counts, they hold as often as they say."""

import math

import dask.array as da
import numpy as np
import pytest
from scipy import stats
from scipy.sparse import csr_array

from discreet.environments.datasets import DATA
from discreet.regression import AdaSSP, PrivateLinearRegression
from discreet.regression.intervals import Residuals

UNIT = {"norm_bound": 1.0, "label_bound": 1.0, "fit_intercept": False}
THETA = np.array([0.3, -0.2, 0.1])


def data(n, seed, errors):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n, 3)) / math.sqrt(3)
    return X, np.clip(X @ THETA + errors(rng, n), -1, 1)


ERRORS = {
    "normal": lambda rng, n: 0.1 * rng.standard_normal(n),
    "heavy tails": lambda rng, n: 0.05 * rng.standard_t(3, n),
    "two values": lambda rng, n: 0.2 * rng.choice([-1.0, 1.0], n),
    "one-sided": lambda rng, n: 0.1 * (rng.exponential(size=n) - 1),
}


@pytest.mark.parametrize("name", ERRORS)
@pytest.mark.parametrize("coverage", [0.5, 0.8, 0.95])
def test_interval__holds_as_often_as_it_says_whatever_the_errors(name, coverage):
    inside, widths = [], []
    for seed in range(4):
        X, y = data(10_000, seed, ERRORS[name])
        model = PrivateLinearRegression(2.0, random_state=seed, **UNIT).fit(X, y)
        X, y = data(4000, seed + 100, ERRORS[name])
        low, high = model.predict_interval(X, coverage).T
        inside.append(np.mean((low <= y) & (y <= high)))
        widths.append(np.mean(high - low))
    assert np.mean(inside) >= coverage - 0.01
    if name == "normal":  # and is not much wider than it must be
        least = 2 * 0.1 * stats.norm.ppf((1 + coverage) / 2)
        assert least < np.mean(widths) < 1.35 * least


@pytest.mark.parametrize("rows", ["diabetes", "randhie", "diamonds"])
def test_interval__holds_on_real_data(rows):
    X, y = DATA[rows]()
    order = np.random.default_rng(0).permutation(len(y))
    test, train = np.split(order, [len(y) // 5])
    model = PrivateLinearRegression(
        3.0, norm_bound=math.sqrt(X.shape[1]), label_bound=1.0, fit_intercept=True, random_state=0
    ).fit(X[train], y[train])
    low, high = model.predict_interval(X[test], 0.9).T
    covered = np.mean((low <= y[test]) & (y[test] <= high))
    # Three standard errors of the fraction below; 354 rows are too few to tell anything.
    assert covered >= 0.9 - 3 * math.sqrt(0.09 / len(test))
    assert rows == "diabetes" or np.mean(high - low) < 1.2


def test_interval__is_the_whole_range_of_labels_where_the_counts_are_noise():
    X, y = data(100, 0, ERRORS["normal"])
    model = PrivateLinearRegression(0.1, random_state=0, **UNIT).fit(X, y)
    assert np.array_equal(model.predict_interval(X), np.tile([-1.0, 1.0], (100, 1)))


def test_interval__grows_with_the_distance_from_the_rows_and_scales_with_the_bounds():
    X, y = data(5000, 0, ERRORS["normal"])
    model = PrivateLinearRegression(1.0, random_state=0, **UNIT).fit(X, y)
    near, far = np.diff(model.predict_interval([[0.0, 0.0, 0.0], [0.9, 0.0, 0.0]]), axis=1)
    assert far > near
    large = PrivateLinearRegression(
        1.0, random_state=0, norm_bound=10.0, label_bound=50.0, fit_intercept=False
    ).fit(10 * X, 50 * y)
    np.testing.assert_allclose(
        large.predict_interval(10 * X[:9]), 50 * model.predict_interval(X[:9])
    )


def test_interval__of_a_plain_fit_is_the_quantile_of_its_residuals():
    X, y = data(20_000, 0, ERRORS["normal"])
    model = PrivateLinearRegression(math.inf, **UNIT).fit(X, y)
    low, high = model.predict_interval(X, 0.9).T
    # Densities fall within a bin, so spreading residuals evenly over it errs to the wide side.
    assert 0.9 <= np.mean((low <= y) & (y <= high)) <= 0.92
    exact = PrivateLinearRegression(math.inf, **UNIT).fit(X, X @ THETA)
    assert (np.diff(exact.predict_interval(X, 0.9), axis=1) < 1e-9).all()


def test_interval__needs_released_residuals_and_a_probability():
    X, y = data(400, 0, ERRORS["normal"])
    for model in (
        PrivateLinearRegression(method="sgd", random_state=0, **UNIT),
        PrivateLinearRegression(trust="local", random_state=0, **UNIT),
    ):
        with pytest.raises(ValueError, match="releases no residuals"):
            model.fit(X, y).predict_interval(X)
    with pytest.raises(ValueError, match="coverage"):
        PrivateLinearRegression(random_state=0, **UNIT).fit(X, y).predict_interval(X, 1.0)
    assert not hasattr(AdaSSP(), "predict_interval")


@pytest.mark.parametrize("to", [csr_array, lambda X: X])
def test_interval__of_rows_elsewhere_is_the_same(to):
    X, y = data(3000, 0, ERRORS["normal"])
    plain = PrivateLinearRegression(random_state=0, **UNIT).fit(X, y)
    blocks = PrivateLinearRegression(random_state=0, **UNIT).fit(
        da.from_array(X, chunks=(700, 3)), da.from_array(y, chunks=700)
    )
    np.testing.assert_allclose(blocks.predict_interval(to(X)), plain.predict_interval(X), rtol=1e-6)


def test_quantile__is_the_least_edge_beyond_which_few_enough_rows_are_counted():
    counts = np.array([50.0, 30.0, 15.0, 5.0])
    seen = Residuals(np.array([1.0, 2.0, 3.0, 4.0]), counts, 0.0, 100, 1.0)
    assert [seen.quantile(q) for q in (0.5, 0.8, 0.95)] == pytest.approx([1.0, 2.0, 3.0])
    assert seen.quantile(0.25) == pytest.approx(0.5)  # evenly spread within a bin
    assert seen.quantile(0.96) == math.inf  # the last bin has no upper edge
    noisy = Residuals(seen.edges, counts, 2.0, 100, 1.0)
    assert all(noisy.quantile(q) > seen.quantile(q) for q in (0.5, 0.8))
    assert noisy.quantile(0.95) == math.inf
    # A count below zero is noise: it does not make a tail shorter than a part of it.
    odd = Residuals(seen.edges, np.array([95.0, 10.0, -9.0, 4.0]), 0.0, 100, 1.0)
    assert odd.quantile(0.96) == pytest.approx(2.0)
