"""Private logistic regression: sensitivities, the guarantee, limits, and scikit-learn's rules."""

import math
import warnings
from collections import deque
from functools import partial

import dask.array as da
import dp_accounting
import numpy as np
import pytest
from dp_accounting.pld import PLDAccountant
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from scipy.sparse import csr_array
from scipy.special import log_softmax, softmax
from sklearn.exceptions import DataConversionWarning

from discreet.least_squares import Whitening
from discreet.privacy import Budget, Ledger, SeededNoise
from discreet.regression import PrivateGLM, PrivateLogisticRegression
from discreet.regression.base import Problem, _checked_units
from discreet.regression.classes import ToNumbers
from discreet.regression.logistic import multinomial
from discreet.regression.newton import stage
from discreet.regression.sample import Sample
from discreet.regression.scores import GRAM_COST, SoftmaxScore, Weighting
from discreet.regression.validation import checked_rows

UNIT = {"norm_bound": 1.0, "random_state": 0}
NAMES = np.array(["blue", "green", "red"])
DIM = 3


def world(n, k=3, d=2, seed=0, size=4.0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    X /= np.maximum(1, np.linalg.norm(X, axis=1, keepdims=True))
    B = rng.standard_normal((d, k)) * size / math.sqrt(d)
    P = softmax(X @ B, axis=1)
    return X, (P.cumsum(axis=1) < rng.random((n, 1))).sum(axis=1).clip(0, k - 1), P


# -- sensitivities ---------------------------------------------------------------------------------

seeds = st.integers(0, 10**6)


def objects(labels):
    return np.fromiter(labels, dtype=object, count=len(labels))


def row(rng):
    """Zero, on the sphere, along an axis, or tiny."""
    x = rng.standard_normal(DIM) * rng.choice([0.0, 1e-3, 1.0, 1.0])
    if rng.random() < 0.3:
        x = np.eye(DIM)[rng.integers(DIM)] * rng.choice([-1.0, 1.0])
    return x / max(1.0, np.linalg.norm(x)) if rng.random() < 0.5 else x / max(np.linalg.norm(x), 1)


@given(st.integers(2, 6), seeds, st.sampled_from([0.0, 1.0, 20.0]), st.sampled_from([0.1, 1, 50]))
@settings(max_examples=200)
def test_softmax__a_replaced_row_moves_gradient_and_information_within_their_bounds(
    k, seed, size, tau
):
    rng = np.random.default_rng(seed)
    score = SoftmaxScore(k)
    Q = np.linalg.qr(rng.standard_normal((DIM, DIM)))[0]
    matrix = (Q * np.exp(2 * rng.standard_normal(DIM))) @ Q.T
    weighting = Weighting(Whitening(matrix), tau, rng.choice([1, 4, math.inf]))
    theta = size * rng.standard_normal(DIM * (k - 1))
    first, second = row(rng), row(rng)
    if rng.random() < 0.3:
        second = -first
    (g, H), (g2, H2) = (
        score.statistics(weighting, theta, x[None], np.array([float(rng.integers(k))]))
        for x in (first, second)
    )
    moves_g, moves_H = score.sensitivities(weighting)
    move = np.linalg.norm(g - g2) / moves_g
    information = np.linalg.norm(H - H2) / moves_H
    assert move <= 1 + 1e-9
    assert information <= 1 + 1e-9
    assert move**2 + GRAM_COST * information**2 <= score.joint * (1 + 1e-9)
    assert np.linalg.eigvalsh(H)[0] >= -1e-9  # PSD terms: that is why sqrt(2) is enough


@pytest.mark.parametrize("k", [2, 3, 5])
def test_softmax__the_bounds_are_reached(k):
    score, weighting = SoftmaxScore(k), Weighting(Whitening.identity(1), 1.0)
    at = [
        score.statistics(weighting, np.zeros(k - 1), np.array([[x]]), np.zeros(1))[0]
        for x in (1.0, -1.0)
    ]
    assert np.linalg.norm(at[0] - at[1]) == pytest.approx(score.sensitivities(weighting)[0])
    # Two classes share all probability: |S|_F = 1/2.
    far = (-40 * (np.arange(k) > 1)) @ score.basis
    H = score.statistics(weighting, far, np.array([[1.0]]), np.zeros(1))[1]
    surprise = math.sqrt(1.5 if k > 2 else 0.5) / score.half_range
    assert np.linalg.norm(H) == pytest.approx(0.5 / surprise, rel=1e-6)


def test_softmax__statistics_are_the_derivatives_of_the_likelihood():
    rng = np.random.default_rng(0)
    X, y, _ = world(50, 4, 2, 3)
    score, weighting = SoftmaxScore(4), Weighting(Whitening.identity(2), math.inf)
    theta = rng.standard_normal(6)

    def loss(theta):
        logits = X @ theta.reshape(2, 3) @ score.basis.T
        return -log_softmax(logits, axis=1)[np.arange(50), y].sum()

    g, H = score.statistics(weighting, theta, X, y.astype(float))
    step = 1e-5
    up = np.array([loss(theta + step * e) for e in np.eye(6)])
    down = np.array([loss(theta - step * e) for e in np.eye(6)])
    np.testing.assert_allclose(-g, (up - down) / (2 * step), atol=1e-6)
    turned = [
        score.statistics(weighting, theta + step * e, X, y.astype(float))[0] for e in np.eye(6)
    ]
    np.testing.assert_allclose(H, (g - np.array(turned)) / step, atol=1e-3)


def test_softmax__noise_is_what_was_booked():
    X, y, _ = world(30)
    score, weighting = SoftmaxScore(3), Weighting(Whitening.identity(2), 1.0)
    task = Problem(X, y * 1.0, Ledger(Budget(10.0, 1e-6)), SeededNoise(1), np.random.default_rng(0))
    task.ledger._limit = math.inf
    exact = score.statistics(weighting, np.zeros(4), X, y * 1.0)[0]
    seen = []
    for _ in range(400):
        made = stage(Sample(task, X, task.y, 0.5), score, weighting, np.zeros(4), "one")
        seen.append(made.g - exact)
    scale = 2 * score.half_range * math.sqrt(score.joint) / 0.5
    # 1600 normal draws: a standard deviation 10% off is five standard errors away.
    assert np.std(seen) == pytest.approx(scale, rel=0.1)


# -- limits ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("k", [2, 3, 5])
def test_epsilon_inf__is_penalised_maximum_likelihood(k):
    X, y, _ = world(400, k, 2, k)
    model = PrivateLogisticRegression(
        math.inf, classes=range(k), coef_bound=40.0, fit_intercept=False, norm_bound=1.0
    ).fit(X, y)
    score = SoftmaxScore(k)

    def loss(theta):
        logits = X @ theta.reshape(2, k - 1) @ score.basis.T
        prior = 2 / (40.0**2 / 2) * theta @ theta / 2
        return -log_softmax(logits, axis=1)[np.arange(400), y].sum() + prior

    best = minimize(loss, np.zeros(2 * (k - 1)), tol=1e-12).x.reshape(2, k - 1) @ score.basis.T
    np.testing.assert_allclose(model.predict_proba(X), softmax(X @ best, axis=1), atol=2e-4)


def test_two_classes__are_the_logistic_glm():
    X, y, _ = world(3000, 2)
    model = PrivateLogisticRegression(classes=(0, 1), **UNIT).fit(X, y)
    glm = PrivateGLM(label_bound=1.0, fit_intercept=True, **UNIT).fit(X, y)
    np.testing.assert_allclose(model.coef_[0], glm.coef_, rtol=1e-12)
    np.testing.assert_allclose(model.predict_proba(X)[:, 1], glm.predict(X))


@pytest.mark.parametrize("k", [2, 4])
def test_private__comes_close_to_the_truth(k):
    X, y, P = world(30_000, k)
    model = PrivateLogisticRegression(2.0, classes=range(k), **UNIT).fit(X, y)
    assert np.abs(model.predict_proba(X) - P).mean() < 0.02
    assert model.score(X, y) > 0.97 * np.mean(P.argmax(axis=1) == y)


# -- the promise -----------------------------------------------------------------------------------


@pytest.mark.parametrize("k", [2, 3])
def test_guarantee__agrees_with_an_independent_accountant(k):
    X, y, _ = world(500, k)
    model = PrivateLogisticRegression(0.7, 1e-5, classes=range(k), **UNIT).fit(X, y)
    accountant = PLDAccountant(dp_accounting.NeighboringRelation.ADD_OR_REMOVE_ONE)
    for release in model.guarantee_.releases:
        accountant.compose(dp_accounting.GaussianDpEvent(release.scale / release.sensitivity))
    assert accountant.get_epsilon(1e-5) == pytest.approx(0.7, rel=1e-3)
    assert model.guarantee_.epsilon_at(1e-5) == pytest.approx(0.7, rel=1e-6)


@pytest.mark.parametrize("to", [np.asarray, csr_array])
def test_label_that_is_not_declared__makes_a_row_of_nothing(to):
    X, y, _ = world(800)
    named = NAMES[y].astype(object)
    named[::7] = "purple"
    zero = PrivateLogisticRegression(classes=NAMES, **UNIT).fit(to(X), named)
    model = PrivateLogisticRegression(classes=NAMES, **UNIT)
    rows = model._rows(to(X), named)[0]
    dense = rows if to is np.asarray else rows._dense(slice(None))
    assert (dense[::7] == 0).all()
    assert (dense[1::7] != 0).any(axis=1).all()
    for odd in ([1, 2], None, 3.5, ["a"]):  # of no kind that was declared: the same, no error
        other = named.copy()
        for at in range(0, 800, 7):
            other[at] = odd
        again = PrivateLogisticRegression(classes=NAMES, **UNIT).fit(to(X), other)
        np.testing.assert_array_equal(again.coef_, zero.coef_)


class Odd:
    """A label that nothing can be done with."""

    def __hash__(self):
        return hash(1)

    def __eq__(self, other):
        raise RuntimeError("not to be compared")


@pytest.mark.parametrize("kind", [list, tuple, deque, objects, "object", "category"])
@pytest.mark.parametrize("odd", ["x", None, math.nan, 2.5, 1j, b"1", [0, 1], (), 10**400, Odd()])
def test_label_of_another_type__moves_no_row_but_its_own(kind, odd):
    """In a list of numbers, text made text of all labels, and every row was left out."""
    if isinstance(kind, str):
        pandas = pytest.importorskip("pandas")
        if kind == "category" and (isinstance(odd, list | Odd) or odd == ()):
            pytest.skip("no category of pandas")
        kind = partial(pandas.Series, dtype=kind)
    X, y, _ = world(60, 2)
    labels = y.tolist()
    expected = ToNumbers(np.array([0, 1]))(y)
    np.testing.assert_array_equal(ToNumbers(np.array([0, 1]))(kind(labels)), expected)
    labels[7] = odd
    expected[7] = -1
    np.testing.assert_array_equal(ToNumbers(np.array([0, 1]))(kind(labels)), expected)
    model = PrivateLogisticRegression(classes=(0, 1), **UNIT)
    rows, numbers, _, _ = model._rows(X, kind(labels))
    whole, _, _, _ = model._rows(X, y)
    whole[7] = 0.0
    np.testing.assert_array_equal(rows, whole)
    np.testing.assert_array_equal(numbers, np.maximum(expected, 0.0))


@pytest.mark.parametrize("dtype", ["category", "Int64", "float64"])
def test_label_that_is_missing__does_not_round_those_of_others(dtype):
    """Beside a missing one, pandas gives whole numbers as floats: 2^53 + 1 would be 2^53."""
    pandas = pytest.importorskip("pandas")
    large = (0, 2**53 + 1) if dtype != "float64" else (0, 1)
    column = pandas.Series([*large, None] * 3, dtype=dtype)
    numbers = ToNumbers(np.array(large))
    np.testing.assert_array_equal(numbers(column), [0.0, 1.0, -1.0] * 3)
    with pytest.warns(DataConversionWarning, match="column-vector"):
        np.testing.assert_array_equal(numbers(column.to_frame()), [0.0, 1.0, -1.0] * 3)
    for y in (column, column.to_frame()):  # a block of a dask collection
        _, found = _checked_units(1, numbers, lambda X, y: (X, y), np.zeros((9, 1)), y)
        np.testing.assert_array_equal(found, [0.0, 1.0, -1.0] * 3)


def test_labels__in_lists_or_arrays_of_one_count_as_what_is_in_them():
    """Each for itself: whether the others come so too does not matter."""
    labels = [[0], (1,), np.array(1), np.array([0]), np.int64(1), np.float32(0.0), [[0]], 1]
    expected = [0.0, 1.0, 1.0, 0.0, 1.0, 0.0, -1.0, 1.0]
    np.testing.assert_array_equal(ToNumbers(np.array([0, 1]))(labels), expected)
    for wrong in ("01", 1, {0: 1}):
        with pytest.raises(ValueError, match="must be a vector"):
            ToNumbers(np.array([0, 1]))(wrong)


def test_rows__a_value_of_another_type_changes_no_other_row():
    """As one array they had one type: 5 s became 5000 beside a ms, single floats became text."""
    for one, odd in ((np.timedelta64(5, "s"), np.timedelta64(1, "ms")), (np.float32(0.1), "0.2")):
        rows = [checked_rows([[one], [last]]) for last in (1, odd)]
        assert rows[0][0] == rows[1][0] == np.asarray([one], dtype=np.float64)


def test_score__of_labels_of_other_types_counts_the_others():
    X, y, _ = world(500, 2)
    model = PrivateLogisticRegression(math.inf, classes=(0, 1), norm_bound=1.0).fit(X, y)
    labels = y.tolist()
    labels[0] = "x"
    right = (model.predict(X) == y)[1:]
    assert model.score(X, labels) == pytest.approx(right.sum() / 500)


def test_classes__must_be_declared():
    X, y, _ = world(500)
    with pytest.raises(TypeError, match="classes"):
        PrivateLogisticRegression()
    declared = PrivateLogisticRegression(classes=["red", "blue", "green"], **UNIT).fit(X, NAMES[y])
    assert list(declared.classes_) == list(NAMES)  # sorted, as scikit-learn's scorers expect
    assert "the public classes" in declared.guarantee_.statement()
    pairs = (("a", "b"), ("c", "d"))
    for wrong in ("data", None, 2, (), ("a",), ("a", "a"), pairs, (0, "a"), (0, None)):
        with pytest.raises(ValueError, match="classes must be"):
            PrivateLogisticRegression(classes=wrong, **UNIT).fit(X, y)


def test_labels__of_any_kind():
    X, y, _ = world(500, 2)
    fits = [
        PrivateLogisticRegression(classes=classes, **UNIT).fit(X, labels)
        for classes, labels in (
            ((0, 1), y),
            ((False, True), y == 1),
            ((-1.0, 1.0), 2.0 * y - 1),
            (("no", "yes"), np.where(y == 1, "yes", "no")),
            (("no", "yes"), np.where(y == 1, "yes", "no").astype(object)),
        )
    ]
    for model in fits:
        np.testing.assert_array_equal(model.coef_, fits[0].coef_)
        assert set(model.predict(X)) <= set(model.classes_)


# -- what is predicted -----------------------------------------------------------------------------


@pytest.mark.parametrize("k", [2, 4])
def test_predictions__fit_together(k):
    X, y, _ = world(2000, k)
    model = PrivateLogisticRegression(classes=range(k), **UNIT).fit(X, y)
    P = model.predict_proba(X)
    assert P.shape == (2000, k)
    np.testing.assert_allclose(P.sum(axis=1), 1.0)
    np.testing.assert_allclose(np.log(P), model.predict_log_proba(X), atol=1e-9)
    np.testing.assert_array_equal(model.classes_[P.argmax(axis=1)], model.predict(X))
    assert model.decision_function(X).shape == ((2000,) if k == 2 else (2000, k))
    assert model.coef_.shape == ((1, 2) if k == 2 else (k, 2))
    assert model.intercept_.shape == ((1,) if k == 2 else (k,))


@pytest.mark.parametrize("k", [2, 3])
def test_interval__holds_the_probability_as_often_as_it_says(k):
    inside, widths = [], []
    for seed in range(10):
        X, y, P = world(8000, k, 2, seed, size=2.0)
        model = PrivateLogisticRegression(
            2.0, classes=range(k), norm_bound=1.0, random_state=seed
        ).fit(X, y)
        low, high = np.moveaxis(model.predict_proba_interval(X[:300], 0.9), 2, 0)
        inside.append(np.mean((low <= P[:300]) & (P[:300] <= high)))
        widths.append(np.mean(high - low))
    assert 0.85 <= np.mean(inside) <= 0.995
    assert 0.01 < np.mean(widths) < 0.2
    wide = model.predict_proba_interval(X[:5], 0.99)
    assert (wide[..., 0] <= model.predict_proba(X[:5])).all()
    assert ((wide >= 0) & (wide <= 1)).all()
    with pytest.raises(ValueError, match="coverage"):
        model.predict_proba_interval(X, 0.0)


@pytest.mark.parametrize("k", [2, 3])
def test_rows_elsewhere__give_the_same_model(k):
    X, y, _ = world(6000, k)
    names = NAMES[:k]
    make = dict(classes=names, **UNIT)
    plain = PrivateLogisticRegression(**make).fit(X, names[y])
    sparse = PrivateLogisticRegression(**make).fit(csr_array(X), names[y])
    blocks = PrivateLogisticRegression(**make).fit(
        da.from_array(X, chunks=(1000, 2)), da.from_array(names[y], chunks=1000)
    )
    for other in (sparse, blocks):
        np.testing.assert_allclose(other.coef_, plain.coef_, rtol=1e-6)
    np.testing.assert_allclose(
        sparse.predict_proba_interval(csr_array(X)), plain.predict_proba_interval(X), rtol=1e-5
    )


def test_multinomial__is_a_release_for_each_stage():
    X, y, _ = world(400)
    ledger = Ledger(Budget(1.0, 1e-6))
    task = Problem(X, y * 1.0, ledger, SeededNoise(0), np.random.default_rng(0))
    estimate = multinomial(task, 3, 10.0)
    assert estimate.theta.shape == (4,)
    assert len(ledger.releases) == 4
    assert ledger.spent() == pytest.approx(1.0)


class DeclaresLabels(PrivateLogisticRegression):
    """Declares the labels of each data set of scikit-learn's checks, which are not private."""

    def fit(self, X, y):
        # One check brings real numbers: 200 classes would take minutes.
        labels = (0, 1) if y is None else np.unique(np.asarray(y))[:10]
        if len(labels) < 2:
            raise ValueError("one class cannot be declared")
        if len(labels) > 20:  # numbers, not classes: most of them are not declared
            labels = labels[:2]
        model = PrivateLogisticRegression(**self.get_params() | {"classes": labels}).fit(X, y)
        vars(self).update({k: v for k, v in vars(model).items() if k not in self.get_params()})
        return self


def test_scikit_learn__every_check_passes():
    checks = pytest.importorskip("sklearn.utils.estimator_checks")
    # It wants an error for labels that are no classes; whether there are any is private.
    refused = {"check_classifiers_regression_target": "labels that are not declared add nothing"}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        results = checks.check_estimator(
            DeclaresLabels(classes=(0, 1)), on_fail=None, expected_failed_checks=refused
        )
    assert [r["check_name"] for r in results if r["status"] == "failed"] == []
    skipped = {r["check_name"] for r in results if r["status"] == "skipped"}
    assert skipped <= {"check_pipeline_consistency", "check_array_api_input"}


def test_scikit_learn__scores_and_pipelines():
    sklearn = pytest.importorskip("sklearn")
    from sklearn.metrics import get_scorer
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import FunctionTransformer

    X, y, _ = world(5000, 2)
    model = sklearn.base.clone(PrivateLogisticRegression(3.0, classes=("no", "yes"), **UNIT))
    named = np.array(["no", "yes"])[y]
    fitted = make_pipeline(FunctionTransformer(), model).fit(X, named)
    for name in ("accuracy", "roc_auc", "neg_log_loss", "balanced_accuracy"):
        assert math.isfinite(get_scorer(name)(fitted, X, named))
    assert get_scorer("roc_auc")(fitted, X, named) > 0.8


def test_weights__of_classes_are_costs_of_predictions_and_others_are_refused_with_a_reason():
    X, y, _ = world(2000, 3)
    given = {"classes": (0, 1, 2), "random_state": 0}
    plain = PrivateLogisticRegression(3.0, **given).fit(X, y)
    costly = PrivateLogisticRegression(3.0, class_weight={2: 5.0}, **given).fit(X, y)
    p = plain.predict_proba(X)
    np.testing.assert_array_equal(costly.predict_proba(X), p)
    np.testing.assert_array_equal(costly.predict(X), np.argmax(p * [1, 1, 5.0], axis=1))
    for wrong in ("balanced", {7: 1.0}, {1: -1.0}):
        with pytest.raises(ValueError, match="class_weight"):
            PrivateLogisticRegression(class_weight=wrong, **given).fit(X, y)
    with pytest.raises(TypeError, match="takes no sample_weight: noise hides one row of weight 1"):
        plain.fit(X, y, sample_weight=np.ones(2000))
    with pytest.raises(TypeError, match="unexpected keyword argument 'weights'"):
        plain.fit(X, y, weights=1)
