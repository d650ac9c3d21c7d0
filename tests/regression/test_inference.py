"""Summaries and contrasts: linear forms of the parameters, in the units of tables."""

import math

import numpy as np
import pytest

from discreet.features import Category, DeclaredEncoder, Number
from discreet.regression import PrivateGLM, PrivateLinearRegression, PrivateLogisticRegression

pandas = pytest.importorskip("pandas")

ENCODER = DeclaredEncoder(
    {"age": Number(18, 98), "sex": Category("F", "M"), "town": Category("Ulm", "Bonn", other=True)}
)


def table(n=4000, seed=0):
    rng = np.random.default_rng(seed)
    found = pandas.DataFrame(
        {
            "age": rng.uniform(20, 90, n),
            "sex": rng.choice(["F", "M"], n),
            "town": rng.choice(["Ulm", "Bonn", "elsewhere"], n),
        }
    )
    noise = 0.3 * rng.standard_normal(n)
    return found, 1 + 0.02 * found.age + 0.5 * (found.sex == "M") - (found.town == "Bonn") + noise


def fitted(epsilon=1.0, seed=0, n=4000):
    rows, y = table(n, seed)
    model = PrivateLinearRegression(epsilon, label_bound=5.0, fit_intercept=True, random_state=seed)
    return model.fit(ENCODER.transform(rows), y), rows, y


def design(rows):
    """Dummy coding by hand."""
    return np.column_stack(
        [
            rows.age,
            rows.sex == "M",
            rows.town == "Bonn",
            rows.town == "elsewhere",
            np.ones(len(rows)),
        ]
    ).astype(float)


def test_summary__without_noise_is_the_textbook_table_with_reference_levels():
    model, rows, y = fitted(math.inf)
    A = design(rows)
    b = np.linalg.lstsq(A, y, rcond=None)[0]
    residual = y - A @ b
    errors = np.sqrt(np.diag(np.linalg.inv(A.T @ A)) * (residual @ residual) / (len(A) - 5))
    effects = model.summary(ENCODER).effects
    assert [each.term for each in effects] == [
        "age", "sex: M - F", "town: Bonn - Ulm", "town: (other) - Ulm", "(reference)",
    ]  # fmt: skip
    np.testing.assert_allclose([each.estimate for each in effects], b, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose([each.std_error for each in effects], errors, rtol=1e-3)


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("kind", ["linear", "glm", "classes"])
def test_covariance__is_that_of_the_widths(kind, intercept):
    rows, y = table()
    X = ENCODER.transform(rows)
    options = {"fit_intercept": intercept, "random_state": 0}
    A = np.column_stack([X, *[np.ones(len(X))] * intercept])[:20]
    if kind == "classes":
        model = PrivateLogisticRegression(2.0, classes=(0, 1), **options).fit(X, y > 2)
        low, high = model.predict_proba_interval(X[:20])[:, 1].T
        width = (np.log(high / (1 - high)) - np.log(low / (1 - low))) / 2
    elif kind == "glm":
        model = PrivateGLM(2.0, link="identity", label_bound=5.0, **options).fit(X, y)
        width = model.confidence_width(X[:20])
    else:
        model = PrivateLinearRegression(2.0, label_bound=5.0, **options).fit(X, y)
        width = model.confidence_width(X[:20])
    variance = np.einsum("ij,jk,ik->i", A, model.covariance_, A)
    np.testing.assert_allclose(1.959964 * np.sqrt(variance), width, rtol=1e-4)
    ends = model.conf_int()
    assert ends.shape == (X.shape[1] + intercept, 2)
    np.testing.assert_allclose(ends.mean(axis=1)[: X.shape[1]], np.ravel(model.coef_))


def test_contrast__is_the_difference_of_predictions_and_holds_as_often_as_it_says():
    inside = []
    for seed in range(12):
        model, _, _ = fitted(1.0, seed, 6000)
        (found,) = model.contrast({"sex": ("M", "F"), "age": (60, 20)}, ENCODER).effects
        two = {"age": [60, 20], "sex": ["M", "F"], "town": ["Ulm", "Ulm"]}
        ends = model.predict(ENCODER.transform(two))
        assert found.estimate == pytest.approx(ends[0] - ends[1])
        inside.append(found.low <= 0.5 + 40 * 0.02 <= found.high)
    assert np.mean(inside) >= 0.8


def test_contrast__columns_are_found_by_name_without_an_encoder():
    rows, y = table()
    X = pandas.DataFrame(ENCODER.transform(rows), columns=ENCODER.get_feature_names_out())
    model = PrivateLinearRegression(math.inf, label_bound=5.0, fit_intercept=True).fit(X, y)
    assert model.contrast({"age": (1.0, 0.0)}).effects[0].estimate == pytest.approx(model.coef_[0])
    # A level is 1/sqrt(3) in X: only the encoder knows.
    with pytest.raises(ValueError, match="pass it"):
        model.contrast({"sex": ("M", "F")})
    with pytest.raises(ValueError, match="declared column"):
        model.contrast({"sex": ("M", "X")}, ENCODER)
    with pytest.raises(ValueError, match=r"there is no 'sx'; there are .*sex"):
        model.contrast({"sx": ("M", "F")}, ENCODER)
    with pytest.raises(TypeError, match=r"files and iterators are for fit"):
        model.predict("rows/*.parquet")
    with pytest.raises(ValueError, match="makes 1 columns"):
        model.summary(DeclaredEncoder({"age": Number(0, 1)}))


def test_summary__of_classes_is_against_the_first_and_as_sure_as_two_classes_alone():
    rng = np.random.default_rng(1)
    X = rng.uniform(-1, 1, (8000, 2)) / 2
    logits = np.column_stack([np.zeros(8000), X @ [4.0, 0.0], X @ [0.0, -4.0]])
    y = np.argmax(logits + rng.gumbel(size=logits.shape), axis=1)
    model = PrivateLogisticRegression(5.0, classes=(0, 1, 2), random_state=0).fit(X, y)
    effects = model.summary().effects
    assert [each.of for each in effects] == ["1 / 0"] * 3 + ["2 / 0"] * 3
    truth = [4.0, 0.0, 0.0, 0.0, -4.0, 0.0]
    assert all(each.low <= t <= each.high for each, t in zip(effects, truth, strict=True))
    assert all(each.std_error < 0.4 for each in effects)
    odds = model.summary().exp().effects[0]
    assert odds.estimate == pytest.approx(math.exp(effects[0].estimate))


def test_summary__prints_and_is_a_table_of_html_a_frame_and_a_picture():
    pytest.importorskip("matplotlib")
    model, _, _ = fitted()
    summary = model.summary(ENCODER)
    assert "sex: M - F" in repr(summary)
    assert "(1, 1e-06)-DP" in repr(summary)
    assert summary._repr_html_().count("<tr>") == 6
    assert list(summary.to_frame().term) == [each.term for each in summary.effects]
    axis = summary.plot()
    assert [each.get_text() for each in axis.get_yticklabels()][-1] == "(reference)"
    escaped = model.contrast({"x0": (1, 0)}).effects[0]
    assert escaped.term == "x0: 1 - 0"


def test_covariance__is_refused_where_the_bias_is_not_known():
    rows, y = table(500)
    model = PrivateLinearRegression(1.0, method="sgd", random_state=0).fit(
        ENCODER.transform(rows), y
    )
    with pytest.raises(AttributeError, match="bias of unknown size"):
        model.summary()


def test_summary__missing_values_are_levels_of_their_own():
    encoder = DeclaredEncoder(
        {"age": Number(0, 10, missing="indicator"), "sex": Category("F", "M", missing=True)}
    )
    rng = np.random.default_rng(0)
    age = np.where(rng.random(2000) < 0.2, np.nan, rng.uniform(0, 10, 2000))
    sex = rng.choice(np.array(["F", "M", None], dtype=object), 2000)
    y = np.where(np.isnan(age), 3.0, 0.2 * age) + 0.5 * (sex == "M") - 1.0 * (sex == None)  # noqa: E711
    X = encoder.transform({"age": age, "sex": list(sex)})
    model = PrivateLinearRegression(math.inf, label_bound=5.0, fit_intercept=True).fit(X, y)
    found = {each.term: each.estimate for each in model.summary(encoder).effects}
    assert found == pytest.approx(
        {"age": 0.2, "age: (missing) - 5": 2.0, "sex: M - F": 0.5, "sex: (missing) - F": -1.0,
         "(reference)": 0.0}, abs=1e-9
    )  # fmt: skip
