"""Declared columns as a transformer: rows in the unit ball, and nothing learned from them."""

import math
import pickle
import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from discreet.features import Category, DeclaredEncoder, FeatureMap, Number
from discreet.regression import PrivateLinearRegression, PrivateLogisticRegression

pandas = pytest.importorskip("pandas")
sklearn = pytest.importorskip("sklearn")

COLUMNS = {
    "age": Number(18, 98),
    "plan": Category("basic", "gold"),
    "town": Category("Bonn", "Ulm", other=True),
}


def frame(n=200, seed=0):
    rng = np.random.default_rng(seed)
    return pandas.DataFrame(
        {
            "town": rng.choice(["Bonn", "Ulm", "Trier"], n),
            "age": rng.uniform(0, 120, n),
            "plan": rng.choice(["basic", "gold", "none"], n),
            "id": np.arange(n),
        }
    )


def test_encoder__takes_frames_mappings_matrices_and_pieces_alike():
    table = frame()
    encoder = DeclaredEncoder(COLUMNS).fit(table)
    rows = encoder.transform(table)
    assert rows.shape == (200, 6)
    for other in (
        table[["plan", "id", "town", "age"]],  # columns are found by name
        table[list(COLUMNS)].to_numpy(),
        {name: list(table[name]) for name in COLUMNS},
    ):
        np.testing.assert_array_equal(encoder.transform(other), rows)
    np.testing.assert_array_equal(encoder.transform(table.iloc[3:5]), rows[3:5])
    assert list(encoder.get_feature_names_out()) == [
        "age", "plan=basic", "plan=gold", "town=Bonn", "town=Ulm", "town=(other)",
    ]  # fmt: skip
    assert list(encoder.feature_names_in_) == ["town", "age", "plan", "id"]
    assert encoder.n_features_in_ == 4


def test_encoder__is_the_context_of_a_feature_map():
    table = frame(20)
    phi = FeatureMap(COLUMNS, ["a"], intercept=False)
    np.testing.assert_allclose(DeclaredEncoder(COLUMNS).transform(table), phi.many(table)[:, 0])


@given(st.floats(allow_nan=False), st.text(max_size=4), st.sampled_from(["Bonn", "Ulm", "x", 3]))
def test_encoder__no_record_leaves_the_unit_ball(age, plan, town):
    row = DeclaredEncoder(COLUMNS).transform({"age": [age], "plan": [plan], "town": [town]})
    assert np.linalg.norm(row) <= 1 + 1e-12


def test_encoder__the_bound_is_reached():
    row = DeclaredEncoder(COLUMNS).transform({"age": [99], "plan": ["gold"], "town": ["?"]})
    assert np.linalg.norm(row) == pytest.approx(1.0)


def test_encoder__learns_nothing_from_what_is_in_the_columns():
    table = frame()
    other = frame(seed=1)
    fits = [DeclaredEncoder(COLUMNS).fit(each, np.arange(200)) for each in (table, other)]
    shown = [{k: str(v) for k, v in vars(each).items()} for each in fits]
    assert shown[0] == shown[1]
    np.testing.assert_array_equal(fits[0].transform(other), fits[1].transform(other))
    # A row depends on its own record alone.
    changed = table.copy()
    changed.loc[0, ["age", "plan", "town"]] = [20.0, "gold", "Ulm"]
    rows, again = (fits[0].transform(each) for each in (table, changed))
    assert (rows[0] != again[0]).any()
    np.testing.assert_array_equal(rows[1:], again[1:])


def test_encoder__sparse_rows_are_the_same():
    many = {"word": Category(*range(300)), "size": Number(0, 1)}
    table = {"word": np.arange(9000) % 310, "size": np.linspace(0, 1, 9000)}
    rows = DeclaredEncoder(many, sparse=True).fit_transform(table)
    assert rows.format == "csr"
    assert rows.nnz <= 2 * 9000
    np.testing.assert_allclose(rows.toarray(), DeclaredEncoder(many).fit_transform(table))


def test_pipeline__is_private_by_construction_and_does_not_warn():
    from sklearn.pipeline import make_pipeline

    table = frame(3000)
    y = np.clip(table["age"] / 120, 0, 1)
    for sparse in (False, True):
        model = make_pipeline(
            DeclaredEncoder(COLUMNS, sparse=sparse),
            PrivateLinearRegression(
                3.0, norm_bound=1.0, label_bound=1.0, fit_intercept=True, random_state=0
            ),
        )
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            model.fit(table, y)
        assert "pipeline" not in model[-1].guarantee_.statement()
        assert model.score(table, y) > 0.8
    classes = make_pipeline(
        DeclaredEncoder(COLUMNS),
        PrivateLogisticRegression(2.0, classes=("no", "yes"), norm_bound=1.0, random_state=0),
    ).fit(table, np.where(table["plan"] == "gold", "yes", "no"))
    assert classes.score(table, np.where(table["plan"] == "gold", "yes", "no")) > 0.9


def test_scikit_learn__clones_parameters_and_copies():
    encoder = sklearn.base.clone(DeclaredEncoder(COLUMNS, sparse=True))
    assert encoder.get_params()["sparse"] is True
    assert encoder.set_params(sparse=False).sparse is False
    copy = pickle.loads(pickle.dumps(encoder))
    np.testing.assert_array_equal(copy.transform(frame()), encoder.transform(frame()))
    assert "Number(18.0, 98.0)" in repr(encoder)


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (frame().drop(columns="plan"), "no column 'plan'"),
        (np.zeros((3, 2)), "matrix of the 3 declared columns"),
        (np.zeros(3), "matrix of the 3 declared columns"),
        (frame().assign(age=math.nan), "'age' must hold one number"),
        (frame().assign(town=None), "'town' must hold one category"),
    ],
)
def test_encoder__errors_say_what_was_expected_and_quote_nothing(table, message):
    with pytest.raises(ValueError, match=message):
        DeclaredEncoder(COLUMNS).transform(table)
    with pytest.raises(ValueError, match="declare at least one"):
        DeclaredEncoder({}).fit(table)


def test_fit__a_missing_column_is_an_error_at_once():
    with pytest.raises(ValueError, match="no column 'plan'"):
        DeclaredEncoder(COLUMNS).fit(frame().drop(columns="plan"))
