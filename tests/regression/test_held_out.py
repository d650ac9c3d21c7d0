"""Private metrics on held-out rows: sensitivities, what they say, and how often intervals hold."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import brier_score_loss, confusion_matrix, r2_score, roc_auc_score

from discreet.privacy import Budget, BudgetSpent, Ledger, SeededNoise
from discreet.regression import (
    PrivateLinearRegression,
    PrivateLogisticRegression,
    PrivateSearchCV,
    score_private,
)
from discreet.regression.held_out import _Classes, _Numbers


class Fixed:
    """A model whose predictions are its rows."""

    def predict_proba(self, X):
        return np.column_stack([1 - X[:, 0], X[:, 0]])

    def predict(self, X):
        return X[:, 0]


unit = st.floats(0, 1)
signed = st.floats(-2, 2)


@given(unit, unit, st.sampled_from([0, 1, "x"]), st.sampled_from([0, 1, None]))
def test_classes__a_replaced_row_moves_sums_within_the_bound(p, q, label, other):
    tally = _Classes(np.array([0, 1]))
    sums = [tally.sums(Fixed(), np.array([[a]]), [b]) for a, b in ((p, label), (q, other))]
    assert np.linalg.norm(sums[0] - sums[1]) <= tally.sensitivity + 1e-12


@given(signed, signed, signed, signed, st.sampled_from([0.1, 2.0]))
def test_numbers__a_replaced_row_moves_sums_within_the_bound(p, q, y, z, error):
    tally = _Numbers(1.0, error)
    sums = [tally.sums(Fixed(), np.array([[a]]), [b]) for a, b in ((p, y), (q, z))]
    assert np.linalg.norm(sums[0] - sums[1]) <= tally.sensitivity + 1e-12


def test_classes__a_model_whose_probabilities_are_none_moves_sums_no_further():
    class Odd:
        def predict_proba(self, X):
            return np.column_stack([X[:, 0], -X[:, 0]])

    tally = _Classes(np.array([0, 1]))
    sums = [tally.sums(Odd(), np.array([[p]]), [0]) for p in (1.0, -50.0)]
    assert np.linalg.norm(sums[0] - sums[1]) <= tally.sensitivity


def test_sensitivities__are_reached_within_a_tenth():
    tally = _Classes(np.array([0, 1]))
    far = [tally.sums(Fixed(), np.array([[a]]), [b]) for a, b in ((0.0, 0), (0.0, 1))]
    assert np.linalg.norm(far[0] - far[1]) > 0.9 * tally.sensitivity
    numbers = _Numbers(1.0, 2.0)
    far = [numbers.sums(Fixed(), np.array([[1.0]]), [b]) for b in (1.0, -1.0)]
    assert np.linalg.norm(far[0] - far[1]) > 0.9 * numbers.sensitivity


LONG = 1.7e308


def test_classes__a_row_whose_prediction_overflows_adds_nothing():
    for labels in ((0, 1), (0, 1, 2)):
        model = PrivateLogisticRegression(1.0, classes=labels, random_state=0)
        model.fit(np.eye(16), [0, 1] * 8)
        X = np.eye(16)
        X[0] = LONG * np.sign(model.coef_[0] - model.coef_[-1] + model.coef_[-1] / 2)
        X[0, ::2] *= -1
        tally = _Classes(model.classes_)
        y = [0, 1] * 8
        with np.errstate(all="ignore"):
            assert not np.isfinite(model.predict_proba(X)[0]).all()
            found = tally.sums(model, X, y)
        np.testing.assert_allclose(found, tally.sums(model, X[1:], y[1:]))


@given(signed, signed)
def test_numbers__a_row_whose_prediction_overflows_adds_nothing(p, y):
    tally = _Numbers(1.0, 2.0)
    for odd in (np.nan, np.inf, -np.inf):
        sums = [tally.sums(Fixed(), np.array([[a]]), [y]) for a in (p, odd)]
        assert np.isfinite(sums[1]).all()
        assert np.linalg.norm(sums[0] - sums[1]) <= tally.sensitivity + 1e-12
    np.testing.assert_array_equal(tally.sums(Fixed(), np.array([[np.nan]]), [y]), np.zeros(8))


def classes(seed, n=12_000):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n, 2)) / 2
    return X, (rng.random(n) < 1 / (1 + np.exp(-X @ [4.0, -2.0]))) * 1


def numbers(seed, n=12_000):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n, 2)) / 2
    return X, X @ [0.8, -0.4] + 0.2 * rng.standard_normal(n)


def test_classes__without_noise_they_are_scikit_learns():
    X, y = classes(0)
    model = PrivateLogisticRegression(math.inf, classes=(0, 1)).fit(X, y)
    score = score_private(model, X, y, math.inf)
    p = model.predict_proba(X)[:, 1]
    assert score["auc"].estimate == pytest.approx(roc_auc_score(y, p), abs=0.01)  # in bins
    assert score["brier"].estimate == pytest.approx(brier_score_loss(y, p))
    assert score["accuracy"].estimate == pytest.approx(np.mean(model.predict(X) == y))
    np.testing.assert_array_equal(score.confusion, confusion_matrix(y, model.predict(X)))
    curve = score.calibration.effects
    assert sum(each.low <= float(each.term.split(" to ")[1]) for each in curve) >= len(curve) - 1
    assert "auc" in repr(score)
    assert "<table>" in score._repr_html_()


def test_numbers__without_noise_they_are_scikit_learns():
    X, y = numbers(0)
    model = PrivateLinearRegression(math.inf, label_bound=2.0).fit(X, y)
    score = score_private(model, X, y, math.inf)
    assert score["r2"].estimate == pytest.approx(r2_score(y, model.predict(X)))
    assert score["rmse"].estimate == pytest.approx(0.2, rel=0.05)
    assert score.confusion is None


def test_error_bound__that_is_too_short_or_none_is_refused_before_anything_is_released():
    X, y = numbers(0, 200)
    model = PrivateLinearRegression(1.0, label_bound=1e70, random_state=0).fit(X, y)
    ledger = Ledger(Budget(1.0, 1e-6))
    for bound in (1e-100, 1e19, 0.0):
        with pytest.raises(ValueError, match="error_bound"):
            score_private(model, X, y, 1.0, error_bound=bound, ledger=ledger)
    assert not ledger.releases
    short = score_private(model, X, y, 1.0, error_bound=1e20, ledger=ledger)
    assert short["rmse"].high >= 0


def test_error_bound__beyond_the_longest_error_is_that():
    X, y = numbers(0, 200)
    model = PrivateLinearRegression(1.0, label_bound=1e100, random_state=0).fit(X, y)
    assert score_private(model, X, y, 1.0)["rmse"].high < math.inf
    model = PrivateLinearRegression(1.0, label_bound=1.0, random_state=0).fit(X, y)
    found = [
        score_private(model, X, y, 1.0, error_bound=bound, noise=SeededNoise(0))["rmse"]
        for bound in (None, 2.0, 1e100)
    ]
    assert found[0] == found[1] == found[2]


@pytest.mark.parametrize("make", [classes, numbers])
def test_intervals__hold_what_many_rows_would_say(make):
    X, y = make(100)
    kind = PrivateLogisticRegression if make is classes else PrivateLinearRegression
    options = {"classes": (0, 1)} if make is classes else {"label_bound": 2.0}
    model = kind(1.0, random_state=0, **options).fit(X, y)
    far = score_private(model, *make(101, 50_000), math.inf)
    inside = []
    for seed in range(12):
        score = score_private(model, *make(seed, 3000), 2.0, noise=SeededNoise(seed))
        inside += [
            each.low <= far[each.term].estimate <= each.high for each in score.metrics.effects
        ]
    assert np.mean(inside) >= 0.86


def test_r2__intervals_are_as_wide_as_estimates_vary():
    X, y = numbers(100, 4000)
    model = PrivateLinearRegression(1.0, label_bound=2.0, random_state=0).fit(X, y)
    found = [
        score_private(model, *numbers(seed, 4000), 8.0, noise=SeededNoise(seed))["r2"]
        for seed in range(30)
    ]
    spread = np.std([each.estimate for each in found])  # known to an eighth
    assert 0.6 < np.median([each.std_error for each in found]) / spread < 1.6


def test_r2__is_unbounded_below_where_noise_hides_the_variance_of_labels():
    """It was -20,000, in an interval from -47,000 to 1."""
    X, y = numbers(0, 1000)
    model = PrivateLinearRegression(1.0, label_bound=200.0, random_state=0).fit(X, y)
    r2 = score_private(model, X, y, 0.5, noise=SeededNoise(0))["r2"]
    assert (r2.low, r2.std_error) == (-math.inf, math.inf)
    assert r2.high <= 1
    assert math.isfinite(score_private(model, X, y, math.inf)["r2"].low)


def test_score__costs_its_budget_and_is_refused_before_the_rows_are_read():
    X, y = classes(0, 2000)
    model = PrivateLogisticRegression(1.0, classes=(0, 1), random_state=0).fit(X, y)
    score = score_private(model, X, y, 0.7, contributions=2, noise=SeededNoise(0))
    assert score.guarantee.epsilon_at(1e-6) == pytest.approx(0.7)
    ledger = Ledger(Budget(0.5, 1e-6))
    with pytest.raises(BudgetSpent):
        score_private(model, None, [], 1.0, ledger=ledger)


def test_search__scores_the_chosen_fit_on_rows_held_out_within_one_budget():
    X, y = numbers(0, 3000)
    model = PrivateLinearRegression(3.0, label_bound=2.0, random_state=0)
    grid = {"label_bound": [1.0, 2.0]}
    search = PrivateSearchCV(model, grid, blocks=3, test=0.3).fit(X, y)
    assert search.guarantee_.epsilon_at(1e-6) == pytest.approx(3.0, abs=1e-6)
    assert search.score_["r2"].low < 0.5 < search.score_["r2"].high
    with pytest.raises(ValueError, match="test must lie"):
        PrivateSearchCV(model, grid, test=0.9).fit(X, y)
    assert not hasattr(PrivateSearchCV(model, grid, blocks=3).fit(X, y), "score_")
