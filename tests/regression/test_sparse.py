"""Sparse rows give the fits of dense ones, a few rows at a time."""

import math

import numpy as np
import pytest
import scipy.sparse
from scipy.sparse import csc_array, csr_array, csr_matrix

from discreet.arrays import in_unit_ball
from discreet.regression import (
    OLS,
    AdaSSP,
    PrivateGLM,
    PrivateLinearRegression,
    PrivateLogisticRegression,
)
from discreet.regression import rows as rows_module
from discreet.regression.base import unit_rows
from discreet.regression.baselines import SSP, DPGradientDescent
from discreet.regression.rows import SparseRows, sums

UNIT = {"norm_bound": 1.0, "fit_intercept": False, "random_state": 0}
LINEAR = {**UNIT, "label_bound": 1.0}


def data(n=9000, d=12, seed=0):
    rng = np.random.default_rng(seed)
    X = np.where(rng.random((n, d)) < 0.2, rng.standard_normal((n, d)), 0.0)
    y = np.clip(X @ np.linspace(-0.5, 0.5, d) / 2 + 0.1 * rng.standard_normal(n), -1, 1)
    return X, y


FITS = {
    "information-weighted": PrivateLinearRegression(**LINEAR),
    "intercept": PrivateLinearRegression(**{**LINEAR, "fit_intercept": True}),
    "single-pass": PrivateLinearRegression(method="single-pass", **LINEAR),
    "reweighted": PrivateLinearRegression(method="reweighted", **LINEAR),
    "sgd": PrivateLinearRegression(method="sgd", **LINEAR),
    "public": PrivateLinearRegression(public_X=data(seed=5)[0], **LINEAR),
    "plain": PrivateLinearRegression(math.inf, **LINEAR),
    "adassp": AdaSSP(**LINEAR),
    "ssp": SSP(**LINEAR),
    "ols": OLS(norm_bound=1.0, label_bound=1.0, fit_intercept=False),
    "newton": PrivateGLM(**LINEAR),
    "logistic": PrivateLogisticRegression(classes=(0, 1), **UNIT),
    "classes": PrivateLogisticRegression(classes=(0, 1, 2), **{**UNIT, "fit_intercept": True}),
}


@pytest.mark.parametrize("name", FITS)
def test_sparse__fits_as_dense(name):
    X, y = data()
    if name in ("newton", "logistic"):
        y = (y > 0) * 1.0
    if name == "classes":
        y = np.digitize(y, [-0.1, 0.1])
    model = FITS[name]
    dense = np.copy(model.fit(X, y).coef_)
    at = model.predict(X)
    for kind in (csr_array, csr_matrix, csc_array):
        model.fit(kind(X), y)
        np.testing.assert_allclose(model.coef_, dense, rtol=1e-6, atol=1e-9)
        np.testing.assert_allclose(model.predict(kind(X)), at, rtol=1e-6, atol=1e-9)


def test_sparse__widths_are_those_of_dense_rows():
    X, y = data()
    for intercept in (False, True):
        model = PrivateLinearRegression(**{**LINEAR, "fit_intercept": intercept}).fit(X, y)
        np.testing.assert_allclose(
            model.confidence_width(csr_array(X)), model.confidence_width(X), rtol=1e-9
        )


@pytest.mark.parametrize("intercept", [False, True])
def test_sparse__rows_are_clipped_as_dense_ones(intercept):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((50, 4)) * rng.choice([0.0, 1e-3, 1.0, 1e200], (50, 4))
    sparse = unit_rows(csr_array(X), 2.0, intercept)
    np.testing.assert_allclose(sparse._dense(slice(None)), unit_rows(X, 2.0, intercept))
    assert np.linalg.norm(sparse._dense(slice(None)), axis=1).max() <= 1 + 1e-12
    assert in_unit_ball(X, 2.0).shape == (50, 4)


def test_sparse__only_a_block_is_dense_at_a_time(monkeypatch):
    monkeypatch.setattr(rows_module, "SPARSE_BLOCK", 100)
    shapes = []
    kept = SparseRows._dense

    def watched(self, block):
        made = kept(self, block)
        shapes.append(made.shape)
        return made

    monkeypatch.setattr(SparseRows, "_dense", watched)
    monkeypatch.setattr(csr_array, "todense", None)
    X, y = data(950)
    PrivateLinearRegression(**LINEAR).fit(csr_array(X), y)
    assert shapes
    assert max(rows for rows, _ in shapes) == 100


def test_sparse__a_hundred_thousand_columns_fit_in_memory():
    """Dense, these rows would take 16 GB."""
    X = scipy.sparse.random_array((20_000, 100_000), density=1e-4, format="csr", rng=0)
    y = np.asarray(X.sum(axis=1)).ravel().clip(-1, 1)
    rows = unit_rows(X, 1.0, False)
    (total,) = sums(lambda x, y: (x.T @ y,), rows[:500], y[:500])
    assert total.shape == (100_000,)


def test_sparse__methods_that_need_the_rows_themselves_say_so():
    X, y = data(300)
    labels = (y > 0) * 1.0
    for model in (
        PrivateGLM(method="erm", **LINEAR),
        PrivateGLM(method="sgd", **LINEAR),
        PrivateGLM(trust="local", **LINEAR),
        PrivateLinearRegression(trust="local", **LINEAR),
        DPGradientDescent(**LINEAR),
    ):
        with pytest.raises(TypeError, match="on sparse rows: "):
            model.fit(csr_array(X), labels)
    with pytest.raises(TypeError, match="toarray"):
        PrivateLinearRegression(public_X=csr_array(X), **LINEAR).fit(X, y)


def test_sparse__bad_values_and_repeated_entries():
    X, y = data(300)
    broken = csr_array(X)
    broken.data[0] = np.nan
    with pytest.raises(ValueError, match="finite"):
        PrivateLinearRegression(**LINEAR).fit(broken, y)
    model = PrivateLinearRegression(**LINEAR).fit(X, y)
    with pytest.raises(ValueError, match="expecting 12 features"):
        model.predict(csr_array(X[:, :5]))
    # Entries at the same place add up before the row is clipped, not after.
    twice = scipy.sparse.coo_array(
        (np.array([3.0, -3.0, 0.5]), (np.array([0, 0, 1]), np.array([0, 0, 0]))), shape=(2, 1)
    )
    assert unit_rows(twice.tocsr(), 1.0, False)._dense(slice(None)).ravel().tolist() == [0.0, 0.5]
    before = X.copy()
    given = csr_array(X)
    PrivateLinearRegression(**LINEAR).fit(given, y)
    np.testing.assert_array_equal(given.toarray(), before)  # the user's matrix is left alone
