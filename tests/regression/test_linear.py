import math
import pickle
import warnings
from functools import partial

import numpy as np
import pytest

from discreet.privacy import SecureNoise, SeededNoise
from discreet.regression import OLS, AdaSSP, PrivacyLeakWarning, PrivateGLM, PrivateLinearRegression
from discreet.regression.baselines import SSP, DPGradientDescent

ESTIMATORS = [PrivateLinearRegression, AdaSSP, SSP, DPGradientDescent]
THETA = np.array([0.5, -0.3, 0.2])


def data(n=5000, seed=0, noise=0.1):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n, 3)) / math.sqrt(3)
    return X, np.clip(X @ THETA + noise * rng.standard_normal(n), -1, 1)


@pytest.mark.parametrize("make", ESTIMATORS)
def test_estimators__learn_predict_and_promise(make):
    X, y = data(50_000)
    model = make(epsilon=2.0, random_state=0).fit(X, y)
    assert np.abs(model.coef_ - THETA).max() < 0.15
    assert model.intercept_ == 0.0
    assert np.allclose(model.predict(X[:5]), X[:5] @ model.coef_)
    assert model.score(X, y) > 0.5
    assert model.guarantee_.epsilon == 2.0
    assert model.guarantee_.epsilon_at(1e-6) <= 2.0 + 1e-6
    assert "simulation only" in model.guarantee_.sampler


def test_estimators__random_state_makes_a_fit_reproducible_and_none_does_not():
    X, y = data()
    one, same, other = (PrivateLinearRegression(random_state=s).fit(X, y).coef_ for s in (1, 1, 2))
    assert np.array_equal(one, same)
    assert not np.array_equal(one, other)
    assert not np.array_equal(*(PrivateLinearRegression().fit(X, y).coef_ for _ in range(2)))
    generator = PrivateLinearRegression(random_state=np.random.RandomState(0)).fit(X, y)
    assert "simulation" in generator.guarantee_.sampler
    assert "OS entropy" in PrivateLinearRegression().fit(X, y).guarantee_.sampler


def test_estimators__exact_noise_is_used_throughout():
    X, y = data(300)
    model = PrivateLinearRegression(noise=SecureNoise()).fit(X, y)
    assert model.guarantee_.sampler == "exact lattice, OS entropy"


def test_estimators__scale_with_their_bounds():
    X, y = data(20_000)
    small = PrivateLinearRegression(random_state=0).fit(X, y)
    large = PrivateLinearRegression(random_state=0, norm_bound=10.0, label_bound=500.0).fit(
        10 * X, 500 * y
    )
    assert np.allclose(large.coef_, 50 * small.coef_)
    assert np.allclose(large.confidence_width(10 * X[:9]), 500 * small.confidence_width(X[:9]))


def test_estimators__clip_to_the_bounds():
    X, y = data(2000)
    far, wild = X.copy(), y.copy()
    far[0], wild[0] = 1e6, -1e9
    near, mild = X.copy(), y.copy()
    near[0], mild[0] = far[0] / np.linalg.norm(far[0]), -1.0
    fits = [PrivateLinearRegression(random_state=3).fit(*d).coef_
            for d in ((far, wild), (near, mild))]  # fmt: skip
    assert np.allclose(*fits)


@pytest.mark.parametrize("bound", [1e-100, 1e100])
def test_estimators__clip_at_the_smallest_and_largest_bounds_too(bound):
    """A row a million times as long as the bound says no more than one of the bound's length."""
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((500, 3)), np.sign(rng.standard_normal(500))
    far = X / np.linalg.norm(X, axis=1, keepdims=True) * bound
    make = partial(PrivateLinearRegression, norm_bound=bound, label_bound=bound, random_state=0)
    near, wild = make().fit(far, y * bound), make().fit(far * 1e6, y * bound * 1e6)
    np.testing.assert_allclose(wild.coef_, near.coef_, rtol=1e-6, atol=1e-12)


def test_estimators__intercept():
    X, y = data(50_000)
    model = PrivateLinearRegression(fit_intercept=True, random_state=0).fit(X, y / 2 + 0.3)
    assert model.intercept_ == pytest.approx(0.3, abs=0.02)
    assert np.allclose(model.predict(X[:4]), X[:4] @ model.coef_ + model.intercept_)
    assert model.confidence_width(X[:4]).shape == (4,)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"epsilon": 0.0}, "epsilon"),
        ({"delta": 0.0}, "cannot give delta = 0"),
        ({"method": "magic"}, "method"),
        ({"trust": "blind"}, "trust"),
        ({"norm_bound": -1.0}, "norm_bound"),
        ({"norm_bound": 1e-165}, r"norm_bound must lie in 1e-100 \.\. 1e100"),
        ({"label_bound": 1e-165}, r"label_bound must lie in 1e-100 \.\. 1e100"),
        ({"norm_bound": 1e160}, r"norm_bound must lie in 1e-100 \.\. 1e100"),
        ({"contributions": 0}, "contributions"),
        ({"noise": 7}, "noise must be"),
        ({"method": "public-covariates"}, "method"),
    ],
)
def test_estimators__bad_parameters_are_clear_errors(change, message):
    X, y = data(100)
    with pytest.raises(ValueError, match=message):
        PrivateLinearRegression(**change).fit(X, y)


@pytest.mark.parametrize(
    ("X", "y"),
    [
        (np.zeros((3, 2)), np.zeros(4)),
        (np.zeros(3), np.zeros(3)),
        (np.full((3, 2), np.nan), np.zeros(3)),
        (np.zeros((3, 2)), np.full(3, np.inf)),
        (np.zeros((0, 2)), np.zeros(0)),
        ([["a", "b"]], [1.0]),
        (np.zeros((3, 2)), np.zeros((3, 2))),
        (np.zeros((3, 2)), None),
    ],
)
def test_estimators__bad_data_is_a_clear_error(X, y):
    with pytest.raises(ValueError, match=r"X|y"):
        PrivateLinearRegression().fit(X, y)


def test_estimators__prediction_needs_a_fit_and_the_same_columns():
    with pytest.raises(ValueError, match="not fitted yet"):
        PrivateLinearRegression().predict(np.zeros((2, 3)))
    X, y = data(500)
    with pytest.raises(ValueError, match="4 features"):
        PrivateLinearRegression().fit(X, y).predict(np.zeros((2, 4)))


def test_auto__chooses_from_public_quantities():
    rng = np.random.default_rng(0)
    X, y = data(2000)
    assert PrivateLinearRegression().fit(X, y).method_ == "information-weighted"
    wide = rng.standard_normal((200, 401)) / 20
    assert PrivateLinearRegression().fit(wide, wide[:, 0]).method_ == "sgd"
    assert PrivateLinearRegression(public_X=X).fit(X, y).method_ == "public-covariates"
    assert PrivateLinearRegression(trust="local").fit(X, y).method_ == "information-weighted"


def test_local__is_pure_and_says_so():
    X, y = data(4000)
    model = PrivateLinearRegression(trust="local", random_state=0).fit(X, y)
    assert model.guarantee_.trust == "local"
    assert model.guarantee_.delta == 0.0
    assert model.guarantee_.epsilon_at(0.0) == pytest.approx(1.0)
    loose = PrivateLinearRegression(trust="local", delta=1e-6, random_state=0).fit(X, y)
    assert loose.guarantee_.delta == 0.0


@pytest.mark.parametrize("rows", [20_000])
def test_confidence_width__covers_as_often_as_it_says(rows):
    inside = []
    for seed in range(24):
        X, y = data(rows, seed)
        model = PrivateLinearRegression(random_state=seed).fit(X, y)
        inside.append(np.abs(X[:500] @ (model.coef_ - THETA)) <= model.confidence_width(X[:500]))
    assert 0.9 <= np.mean(inside) <= 0.999
    wide, narrow = model.confidence_width(X[:3], 0.99), model.confidence_width(X[:3], 0.5)
    assert (wide > 3 * narrow).all()
    with pytest.raises(ValueError, match="coverage"):
        model.confidence_width(X, 1.0)
    with pytest.raises(ValueError, match="no confidence width"):
        PrivateLinearRegression(method="sgd").fit(X, y).confidence_width(X)


def test_ols__is_not_private_and_says_so():
    X, y = data(500)
    model = OLS().fit(X, y)
    assert np.allclose(model.coef_, np.linalg.lstsq(X, y, rcond=None)[0])
    assert "NO PRIVACY" in model.guarantee_.statement()


@pytest.mark.parametrize("make", ESTIMATORS)
def test_epsilon_inf__is_ordinary_least_squares(make):
    X, y = data(500)
    assert np.allclose(make(epsilon=math.inf).fit(X, y).coef_, OLS().fit(X, y).coef_)


def test_estimators__are_plain_objects():
    model = PrivateLinearRegression(epsilon=2.0, norm_bound=3.0)
    assert repr(model) == "PrivateLinearRegression(epsilon=2.0, norm_bound=3.0)"
    assert model.set_params(epsilon=0.5).get_params()["epsilon"] == 0.5
    with pytest.raises(ValueError, match="Invalid parameter"):
        model.set_params(alpha=1.0)
    X, y = data(500)
    copy = pickle.loads(pickle.dumps(model.fit(X, y)))
    assert np.array_equal(copy.predict(X), model.predict(X))


def test_data_frames__names_are_kept():
    pandas = pytest.importorskip("pandas")
    X, y = data(500)
    frame = pandas.DataFrame(X, columns=["a", "b", "c"])
    model = PrivateLinearRegression().fit(frame, pandas.Series(y))
    assert list(model.feature_names_in_) == ["a", "b", "c"]
    assert not hasattr(model.fit(X, y), "feature_names_in_")  # of the last fit, or none


@pytest.mark.parametrize("make", [*ESTIMATORS, PrivateGLM])
def test_data_frames__columns_of_other_names_or_in_another_order_are_refused(make):
    checks = pytest.importorskip("sklearn.utils.estimator_checks")
    pytest.importorskip("pandas")
    checks.check_dataframe_column_names_consistency(make.__name__, make(random_state=0))


def test_data_frames__public_rows_have_the_columns_of_the_private_ones():
    pandas = pytest.importorskip("pandas")
    X, y = data(500)
    frame = pandas.DataFrame(X, columns=["a", "b", "c"])
    with pytest.raises(ValueError, match=r"public_X: [\s\S]*same order"):
        PrivateLinearRegression(public_X=frame[["b", "a", "c"]]).fit(frame, y)
    PrivateLinearRegression(public_X=X).fit(frame, y)


def test_seeded_noise__can_be_given_explicitly():
    X, y = data(500)
    fits = [PrivateLinearRegression(noise=SeededNoise(4)).fit(X, y).coef_ for _ in range(2)]
    assert np.array_equal(*fits)


@pytest.mark.parametrize("make", ESTIMATORS)
def test_scikit_learn__every_check_passes(make):
    # Nothing is excepted: what privacy forbids (a good score on twenty rows, the same fit twice)
    # is declared by tags, and scikit-learn skips it.
    checks = pytest.importorskip("sklearn.utils.estimator_checks")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        results = checks.check_estimator(make(), on_fail=None)
    assert [r["check_name"] for r in results if r["status"] == "failed"] == []
    skipped = {r["check_name"] for r in results if r["status"] == "skipped"}
    assert skipped <= {"check_pipeline_consistency", "check_array_api_input"}


def test_scikit_learn__clones_and_pipelines():
    sklearn = pytest.importorskip("sklearn")
    from sklearn.model_selection import GridSearchCV
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import FunctionTransformer

    X, y = data(3000)
    model = sklearn.base.clone(PrivateLinearRegression(epsilon=3.0, random_state=0))
    pipeline = make_pipeline(FunctionTransformer(lambda X: X / 2), model).fit(X, y)
    assert pipeline.score(X, y) > 0.3
    search = GridSearchCV(model, {"method": ["information-weighted", "reweighted"]}, cv=2)
    with pytest.warns(PrivacyLeakWarning, match="other fits of GridSearchCV on the same rows"):
        search.fit(X, y)
    assert search.best_params_["method"] in ("information-weighted", "reweighted")
    assert "other fits of GridSearchCV" in search.best_estimator_.guarantee_.statement()


def test_scikit_learn__steps_that_read_the_rows_are_named_in_a_warning_and_in_the_promise():
    pytest.importorskip("sklearn")
    from sklearn.model_selection import cross_val_score
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import FunctionTransformer, StandardScaler

    X, y = data(500)
    model = PrivateLinearRegression(random_state=0)
    scaled = make_pipeline(FunctionTransformer(), StandardScaler(), model)
    with pytest.warns(PrivacyLeakWarning, match="read off the rows without noise: StandardScaler"):
        scaled.fit(X, y)
    assert "StandardScaler" in model.guarantee_.statement()
    with pytest.warns(PrivacyLeakWarning, match="other fits of cross-validation"):
        cross_val_score(model, X, y, cv=2)
    make_pipeline(FunctionTransformer(), model).fit(X, y)  # no warning: they are errors here
    assert "pipeline" not in model.guarantee_.statement()


@pytest.mark.parametrize(
    ("imputer", "reads"),
    [
        ({"strategy": "constant", "keep_empty_features": True}, False),
        ({"strategy": "constant", "keep_empty_features": True, "add_indicator": True}, True),
        ({"strategy": "median"}, True),
    ],
)
def test_scikit_learn__steps_are_looked_into_and_declared_ones_are_no_alarm(imputer, reads):
    sklearn = pytest.importorskip("sklearn")
    pandas = pytest.importorskip("pandas")
    from sklearn.compose import make_column_transformer
    from sklearn.impute import SimpleImputer
    from sklearn.pipeline import make_pipeline

    from discreet.features import Category, DeclaredEncoder, Number

    rng = np.random.default_rng(0)
    table = pandas.DataFrame(
        {"age": rng.uniform(20, 60, 300), "plan": rng.choice(["a", "b"], 300), "x": rng.random(300)}
    )
    one_hot = sklearn.preprocessing.OneHotEncoder(
        categories=[["a", "b"]], handle_unknown="ignore", sparse_output=False
    )
    columns = make_column_transformer(
        (DeclaredEncoder({"age": Number(20, 60)}), ["age"]),
        (DeclaredEncoder({"plan": Category("a", "b")}), ["plan"]),
        (make_pipeline(SimpleImputer(**imputer), "passthrough"), ["x"]),
        (one_hot, ["plan"]),
    )
    model = PrivateLinearRegression(norm_bound=2.0, random_state=0)
    pipeline = make_pipeline(columns, model)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        pipeline.fit(table, table["x"])
    alarms = [str(w.message) for w in seen if issubclass(w.category, PrivacyLeakWarning)]
    assert len(alarms) == reads
    assert all(each.endswith("SimpleImputer") for each in alarms)
    assert ("SimpleImputer" in model.guarantee_.statement()) == reads


@pytest.mark.parametrize("make", [PrivateLinearRegression, PrivateGLM])
@pytest.mark.parametrize("epsilon", [1.0, math.inf])
def test_label_range__is_a_bound_around_its_middle(make, epsilon, tmp_path):
    X, y = data(2000)
    options = {"fit_intercept": True, "random_state": 0}
    if make is PrivateGLM:
        options["link"] = "identity"
    plain = make(epsilon, label_bound=80.0, **options).fit(X, 60 * y)
    ranged = make(epsilon, label_range=(60, 220), **options).fit(X, 140 + 60 * y)
    np.testing.assert_allclose(ranged.coef_, plain.coef_, atol=1e-6)
    np.testing.assert_allclose(ranged.predict(X), 140 + plain.predict(X), rtol=1e-6)
    np.testing.assert_allclose(ranged.confidence_width(X), plain.confidence_width(X), rtol=1e-6)
    ranged.save(tmp_path / "model")
    loaded = make.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict(X), ranged.predict(X))
    if make is PrivateLinearRegression:
        low, high = loaded.predict_interval(X).T
        assert ((low >= 60) & (high <= 220)).all()
        assert (high - low).mean() < 120
    above = make(epsilon, label_range=(60, 220), **options).fit(X, np.full(2000, 999.0))
    assert above.predict(X).max() < 260  # clipped to 220
    assert above.score(X, np.full(2000, 999.0)) <= 1


@pytest.mark.parametrize("wrong", [(220, 60), (60, 60), (60,), "ab", (0, math.inf)])
def test_label_range__must_be_two_numbers_in_order(wrong):
    X, y = data(100)
    with pytest.raises(ValueError, match="label_range"):
        PrivateLinearRegression(label_range=wrong).fit(X, y)
    for kind, options in ((PrivateLinearRegression, {}), (PrivateGLM, {"link": "identity"})):
        with pytest.raises(ValueError, match="state one of them"):
            kind(label_range=(60, 220), label_bound=80.0, **options).fit(X, y)
    with pytest.raises(ValueError, match=r"identity link.*state that"):
        PrivateGLM(label_range=(0, 2)).fit(X, y)
