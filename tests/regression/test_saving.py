"""A fitted estimator in a file: the same predictions and the same promise, and no seed."""

import numpy as np
import pytest

from discreet.features import Category, DeclaredEncoder, Number
from discreet.privacy import SeededNoise
from discreet.regression import (
    AdaSSP,
    PrivacyLeakWarning,
    PrivateGLM,
    PrivateLinearRegression,
    PrivatePipeline,
    PrivateSearchCV,
)
from discreet.saved import read_saved
from discreet.state import load_state

BOUNDS = {"norm_bound": 1.0, "label_bound": 1.0, "fit_intercept": True}


@pytest.fixture
def rows():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (400, 2)) / 2
    return X, (X[:, 0] > 0).astype(float)


@pytest.mark.parametrize("kind", [PrivateLinearRegression, PrivateGLM, AdaSSP])
def test_save__predictions_widths_and_promise_come_back(kind, rows, tmp_path):
    X, y = rows
    model = kind(2.0, random_state=0, **BOUNDS).fit(X, y)
    model.save(tmp_path / "model")
    again = kind.load(tmp_path / "model")
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    assert again.guarantee_ == model.guarantee_
    assert (again.epsilon, again.norm_bound, again.random_state) == (2.0, 1.0, None)
    if kind is PrivateLinearRegression:
        np.testing.assert_array_equal(again.confidence_width(X), model.confidence_width(X))
    assert (tmp_path / "model").stat().st_mode & 0o077 == 0


def test_save__neither_seed_nor_noise_is_in_the_file(rows, tmp_path):
    model = PrivateLinearRegression(
        1.0, random_state=987_654_321, noise=SeededNoise(123_456_789), **BOUNDS
    )
    model.fit(*rows).save(tmp_path / "model")
    text = str(load_state(tmp_path / "model"))
    assert "987654321" not in text
    assert "123456789" not in text
    assert set(load_state(tmp_path / "model")["config"]).isdisjoint(("noise", "random_state"))


def test_save__names_of_columns_stay(tmp_path):
    pandas = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    table = pandas.DataFrame(rng.uniform(-0.5, 0.5, (400, 2)), columns=["age", "income"])
    model = PrivateLinearRegression(1.0, random_state=0, **BOUNDS).fit(table, table["age"])
    model.save(tmp_path / "model")
    again = PrivateLinearRegression.load(tmp_path / "model")
    with pytest.raises(ValueError, match="feature names"):
        again.predict(table[["income", "age"]])


def test_save__a_search_with_its_estimator(rows, tmp_path):
    X, y = rows
    inner = PrivateLinearRegression(8.0, random_state=0, **BOUNDS)
    search = PrivateSearchCV(inner, {"method": ["single-pass", "sgd"]}).fit(X, y)
    search.save(tmp_path / "search")
    again = PrivateSearchCV.load(tmp_path / "search")
    np.testing.assert_array_equal(again.predict(X), search.predict(X))
    assert again.guarantee_ == search.guarantee_
    assert again.estimator.epsilon == 8.0


def test_save__before_fit_is_refused(tmp_path):
    with pytest.raises(ValueError, match="not fitted: call fit before save"):
        PrivateLinearRegression(1.0).save(tmp_path / "model")


def test_load__another_class_and_damaged_files_are_refused(rows, tmp_path):
    path = tmp_path / "model"
    PrivateLinearRegression(1.0, random_state=0, **BOUNDS).fit(*rows).save(path)
    with pytest.raises(ValueError, match="expected 'PrivateGLM'"):
        PrivateGLM.load(path)
    path.write_bytes(path.read_bytes()[:60])
    with pytest.raises(ValueError, match="damaged"):
        PrivateLinearRegression.load(path)


def test_pipeline__intervals_summary_promise_and_file_are_those_of_its_estimator(tmp_path):
    from sklearn.preprocessing import StandardScaler

    rng = np.random.default_rng(0)
    columns = {
        "age": Number(20, 60, missing="indicator"),
        "sex": Category("F", "M", other=True, missing=True),
    }
    table = {"age": [None, *rng.uniform(20, 60, 999)], "sex": rng.choice(["F", "M"], 1000)}
    y = rng.uniform(0, 1, 1000)
    estimator = PrivateLinearRegression(2.0, label_range=(0, 1), fit_intercept=True, random_state=0)
    encoder = DeclaredEncoder(columns)
    model = PrivatePipeline([("encode", encoder), ("fit", estimator)]).fit(table, y)
    model.save(tmp_path / "model")
    again = PrivatePipeline.load(tmp_path / "model")
    X = encoder.transform(table)
    for name in ("predict", "predict_interval", "confidence_width"):
        found = getattr(again, name)(table)
        np.testing.assert_array_equal(found, getattr(estimator, name)(X))
    assert again.guarantee_ == estimator.guarantee_ == read_saved(tmp_path / "model").guarantee
    assert repr(again.summary()) == repr(estimator.summary(encoder))
    assert again.contrast({"sex": ("M", "F")}) == estimator.contrast({"sex": ("M", "F")}, encoder)
    scaled = PrivatePipeline([("scale", StandardScaler()), ("fit", estimator)])
    with pytest.warns(PrivacyLeakWarning):
        scaled.fit(X, y)
    with pytest.raises(ValueError, match="no file can hold a StandardScaler"):
        scaled.save(tmp_path / "other")
    search = PrivateSearchCV(
        PrivatePipeline([("encode", encoder), ("fit", estimator)]),
        {"fit__norm_bound": [0.5, 1.0]},
        blocks=2,
    ).fit(table_frame(table), y)
    search.save(tmp_path / "search")
    found = PrivateSearchCV.load(tmp_path / "search")
    np.testing.assert_array_equal(found.predict(table), search.predict(table))


def table_frame(table):
    return pytest.importorskip("pandas").DataFrame(table)
