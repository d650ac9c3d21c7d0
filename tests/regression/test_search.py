"""Private search: one budget, votes of disjoint blocks, nothing else released."""

import math

import dp_accounting
import numpy as np
import pytest
from dp_accounting.pld import PLDAccountant
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array

from discreet.privacy import Budget, BudgetSpent, Ledger, SecureNoise
from discreet.privacy.release import observed
from discreet.regression import (
    AdaSSP,
    PrivateGLM,
    PrivateLinearRegression,
    PrivateLogisticRegression,
    PrivateSearchCV,
)
from discreet.regression.search import default_score, grid

BOUNDS = {"norm_bound": 1.0, "label_bound": 1.0, "fit_intercept": False, "random_state": 0}
QUICK = BOUNDS | {"method": "single-pass"}  # where the search around the fits is tested


def data(n=1200, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n, 2)) / math.sqrt(2)
    return X, np.clip(X @ [0.5, -0.3] + 0.1 * rng.standard_normal(n), -1, 1)


def by_sign(model, X, y):
    """A score by which one label of a fold can choose the candidate."""
    return float(np.sum(np.sign(y))) * (model.norm_bound - 1.5)


@given(st.integers(0, 10**6), st.integers(1, 3))
@settings(max_examples=25)
def test_votes__a_replaced_row_moves_them_by_sqrt_2_at_most(seed, rows):
    rng = np.random.default_rng(seed)
    X, y = rng.standard_normal((40, 1)), rng.choice([-1.0, 1.0], 40)
    other = y.copy()
    other[rng.choice(40, rows, replace=False)] *= -1
    counts = []
    for labels in (y, other):
        model = PrivateLinearRegression(math.inf, **QUICK)
        search = PrivateSearchCV(model, {"norm_bound": [1.0, 2.0]}, blocks=8, scoring=by_sign)
        counts.append(search.fit(X, labels).votes_)
    assert np.linalg.norm(counts[0] - counts[1]) <= rows * math.sqrt(2) + 1e-9
    assert counts[0].sum() == counts[1].sum() == 8


@pytest.mark.parametrize("odd", ["x", None, math.nan])
def test_votes__one_label_of_another_type_in_a_list_moves_one_at_most(odd):
    """It made text of all labels: the votes of all blocks moved."""
    X, y = data(300)
    labels = (y > 0).astype(int).tolist()
    other = [odd, *labels[1:]]
    model = PrivateLogisticRegression(math.inf, classes=(0, 1), norm_bound=1.0, random_state=0)
    search = PrivateSearchCV(model, {"coef_bound": [0.01, 10.0]}, blocks=8)
    votes = [search.fit(X.tolist(), each).votes_ for each in (labels, other)]
    assert votes[0][1] >= 6
    assert np.linalg.norm(votes[0] - votes[1]) <= math.sqrt(2)


def test_guarantee__is_one_budget_as_an_independent_accountant_says():
    X, y = data()
    model = PrivateLinearRegression(1.3, 1e-5, **BOUNDS)
    search = PrivateSearchCV(model, {"norm_bound": [0.5, 1.0, 2.0]}, blocks=4).fit(X, y)
    votes, fit = search.guarantee_.releases
    assert votes.what == "votes of 4 blocks"
    assert votes.sensitivity == pytest.approx(math.sqrt(2))
    assert votes.mu**2 / (votes.mu**2 + fit.mu**2) == pytest.approx(0.15, rel=1e-6)
    accountant = PLDAccountant(dp_accounting.NeighboringRelation.ADD_OR_REMOVE_ONE)
    for mu in (votes.scale / votes.sensitivity, *(r.scale / r.sensitivity for r in
               search.best_estimator_.guarantee_.releases)):  # fmt: skip
        accountant.compose(dp_accounting.GaussianDpEvent(mu))
    assert accountant.get_epsilon(1e-5) == pytest.approx(1.3, rel=1e-3)
    assert search.guarantee_.epsilon_at(1e-5) == pytest.approx(1.3, rel=1e-6)
    assert (search.guarantee_.epsilon, search.guarantee_.delta) == (1.3, 1e-5)
    assert "candidates, which must be public" in search.guarantee_.statement()


def test_observer__sees_the_votes_and_the_last_fit_alone():
    X, y = data()
    model = PrivateLinearRegression(**QUICK)
    with observed() as seen:
        search = PrivateSearchCV(model, {"norm_bound": [0.5, 1.0]}, blocks=4).fit(X, y)
    np.testing.assert_array_equal(seen[0].value, search.votes_)
    assert len(seen) == 1 + len(search.best_estimator_.guarantee_.releases)


def test_ledger__counts_the_search_as_one_and_refuses_before_the_data_are_read():
    X, y = data()
    with Ledger(Budget(1.3, 1e-6)) as ledger:
        model = PrivateLinearRegression(1.0, **BOUNDS)
        search = PrivateSearchCV(model, {"norm_bound": [0.5, 1.0]}, blocks=3)
        search.fit(X, y, ledger=ledger)
        assert [r.mu for r in ledger.releases] == pytest.approx([Budget(1.0, 1e-6).mu])
        with pytest.raises(BudgetSpent, match="a search over fits of PrivateLinearRegression"):
            search.fit(None, None, ledger=ledger)


def test_search__finds_what_is_clearly_better():
    X, y = data(3000)
    model = AdaSSP(3.0, **BOUNDS)
    search = PrivateSearchCV(model, {"label_bound": [0.02, 1.0]}).fit(X, y)
    assert search.best_params_ == {"label_bound": 1.0}
    assert search.best_index_ == 1
    assert search.score(X, y) == search.best_estimator_.score(X, y) > 0.5
    np.testing.assert_array_equal(search.coef_, search.best_estimator_.coef_)
    assert search.intercept_ == 0.0


def test_search__classifiers_pipelines_frames_and_sparse_rows():
    pandas = pytest.importorskip("pandas")
    from sklearn.pipeline import make_pipeline

    from discreet.features import DeclaredEncoder, Number

    rng = np.random.default_rng(0)
    table = pandas.DataFrame({"a": rng.uniform(0, 10, 2000), "b": rng.uniform(0, 10, 2000)})
    y = np.where(rng.random(2000) < 1 / (1 + np.exp(10 - 2 * table["a"])), "yes", "no")
    pipeline = make_pipeline(
        DeclaredEncoder({"a": Number(0, 10)}),
        PrivateLogisticRegression(3.0, classes=("no", "yes"), norm_bound=1.0, random_state=0),
    )
    tried = [DeclaredEncoder({name: Number(0, 10)}, sparse=name == "a") for name in ("b", "a")]
    # A step that reads no rows may itself be a candidate: which columns to use.
    search = PrivateSearchCV(pipeline, {"declaredencoder": tried}).fit(table, y)
    assert list(search.best_params_["declaredencoder"].columns) == ["a"]
    assert search.score(table, y) > 0.8
    assert search.predict_proba(table).shape == (2000, 2)
    assert list(search.classes_) == ["no", "yes"]
    X, z = data(600)
    fits = [
        PrivateSearchCV(PrivateLinearRegression(**QUICK), {"norm_bound": [0.5, 1.0]}, blocks=3)
        .fit(rows, z)
        .coef_
        for rows in (X, csr_array(X), pandas.DataFrame(X, columns=["a", "b"]))
    ]
    np.testing.assert_allclose(fits[1], fits[0], rtol=1e-6)
    np.testing.assert_allclose(fits[2], fits[0], rtol=1e-9)


def test_block__a_candidate_that_fails_has_the_lowest_score_and_no_error_shows():
    X, y = data(400)

    def fails(model, X, y):
        if model.norm_bound == 2.0:
            raise RuntimeError(str(y))
        return math.nan if model.norm_bound == 3.0 else 0.0

    model = PrivateLinearRegression(math.inf, **BOUNDS)
    tried = {"norm_bound": [2.0, 3.0, 1.0]}
    search = PrivateSearchCV(model, tried, blocks=5, scoring=fails).fit(X, y)
    assert search.votes_.tolist() == [0.0, 0.0, 5.0]


def test_noise__of_votes_is_not_that_of_the_fit():
    X, y = data(400)
    with observed() as seen:
        PrivateSearchCV(PrivateLinearRegression(**QUICK), {"norm_bound": [1.0, 2.0]}, blocks=2).fit(
            X, y
        )
    votes, first = seen[0], seen[1]
    z = (votes.value - np.round(votes.value)) / votes.release.scale
    assert not np.isclose(z[0], first.value / first.release.scale).any()
    one, same = (
        PrivateSearchCV(PrivateLinearRegression(**QUICK), {"norm_bound": [1.0, 2.0]}, blocks=2)
        .fit(X, y)
        .votes_
        for _ in range(2)
    )
    np.testing.assert_array_equal(one, same)  # random_state makes it reproducible
    exact = PrivateLinearRegression(noise=SecureNoise(), **{**BOUNDS, "random_state": None})
    search = PrivateSearchCV(exact, {"norm_bound": [1.0, 2.0]}, blocks=2).fit(X, y)
    assert search.guarantee_.sampler == "exact lattice, OS entropy"


def test_blocks__come_from_public_quantities():
    search = PrivateSearchCV(PrivateLinearRegression(), {"norm_bound": [1.0]})
    assert search._blocks(10**6, 0.1, 1) == 60
    assert search._blocks(10**6, 0.1, 2) == 120
    assert search._blocks(600, 0.1, 1) == 10
    assert search._blocks(30, 0.1, 1) == 1
    assert search._blocks(10**6, math.inf, 1) == 10


def test_grid__and_what_is_refused():
    assert len(grid([{"a": [1, 2], "b": [3, 4]}, {"a": [5]}])) == 5
    X, y = data(100)
    model = PrivateLinearRegression(**BOUNDS)
    for wrong, message in (
        ({}, "at least one candidate|sequence"),
        ({"norm_bound": []}, "non-empty sequence"),
        ({"method": "sgd"}, "needs to be a list"),
        ({"epsilon": [1.0, 2.0]}, "has the budget"),
        ([{"norm_bound": [1.0]}, {"contributions": [1]}], "has the budget"),
        ({"random_state": [0, 1]}, "noise of its estimator"),
        ({"alpha": [1.0]}, "Invalid parameter"),
    ):
        if wrong:
            with pytest.raises(ValueError, match=message):
                PrivateSearchCV(model, wrong).fit(X, y)
    with pytest.raises(ValueError, match="central trust"):
        PrivateSearchCV(PrivateGLM(trust="local"), {"norm_bound": [1.0]}).fit(X, y)
    with pytest.raises(ValueError, match="selection"):
        PrivateSearchCV(model, {"norm_bound": [1.0]}, selection=1.0).fit(X, y)
    with pytest.raises(ValueError, match="not fitted"):
        PrivateSearchCV(model, {"norm_bound": [1.0]}).predict(X)


def test_default_score__is_the_likelihood_of_a_classifier_and_the_error_of_a_regressor():
    X, y = data(400)
    model = PrivateLinearRegression(math.inf, **BOUNDS).fit(X, y)
    assert default_score(model, X, y) == pytest.approx(-np.mean((y - model.predict(X)) ** 2))
    classes = PrivateLogisticRegression(math.inf, classes=(0, 1), norm_bound=1.0).fit(X, y > 0)
    P = classes.predict_proba(X)[np.arange(400), (y > 0).astype(int)]
    assert default_score(classes, X, y > 0) == pytest.approx(np.mean(np.log(P)))
    labels = [
        "x",
        *(y > 0).astype(int).tolist()[1:],
    ]  # unlikely itself, the others are what they are
    P[0] = 1e-6
    assert default_score(classes, X, labels) == pytest.approx(np.mean(np.log(P)))


def test_scikit_learn__parameters_are_nested():
    search = PrivateSearchCV(PrivateLinearRegression(2.0), {"norm_bound": [1.0]})
    assert search.get_params()["estimator__epsilon"] == 2.0
    assert search.set_params(estimator__epsilon=0.5).estimator.epsilon == 0.5
    sklearn = pytest.importorskip("sklearn")
    assert sklearn.base.is_regressor(search)
    assert sklearn.base.clone(search).param_grid == {"norm_bound": [1.0]}


def test_save__keeps_the_choice_and_the_promise_of_the_whole_search(tmp_path):
    X, y = data(400)
    search = PrivateSearchCV(
        PrivateLinearRegression(**QUICK), {"norm_bound": [0.5, 1.0]}, blocks=3
    ).fit(X, y)
    search.save(tmp_path / "search")
    loaded = PrivateSearchCV.load(tmp_path / "search", estimator=None, scoring=None)
    assert loaded.guarantee_ == search.guarantee_
    assert loaded.best_params_ == search.best_params_
    np.testing.assert_array_equal(loaded.predict(X), search.predict(X))
    sklearn_pipeline = pytest.importorskip("sklearn.pipeline")
    pipeline = sklearn_pipeline.make_pipeline(PrivateLinearRegression(**BOUNDS))
    tried = {"privatelinearregression__norm_bound": [0.5, 1.0]}
    fitted = PrivateSearchCV(pipeline, tried, blocks=3).fit(X, y)
    with pytest.raises(ValueError, match="no file can hold a pipeline"):
        fitted.save(tmp_path / "pipeline")


def test_votes__of_people_with_several_rows_have_the_noise_of_all_of_them():
    X, y = data()
    model = PrivateLinearRegression(**{**BOUNDS, "contributions": 3}, epsilon=1.0)
    with observed() as seen:
        PrivateSearchCV(model, {"norm_bound": [0.5, 1.0]}, blocks=4).fit(X, y)
    assert seen[0].release.sensitivity == pytest.approx(3 * math.sqrt(2))
