"""Tables of any library: read right or refused, and no column becomes zeros without a word."""

import datetime
from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from discreet.features import Category, DeclaredEncoder, FeatureMap, Number
from discreet.frames import columns_of, kind_of, matrix_of, names_of
from discreet.regression import PrivateLinearRegression, PrivateLogisticRegression

pa = pytest.importorskip("pyarrow")
pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")

TOWNS = ("Bonn", "Ulm")
COLUMNS = {"age": Number(0, 100), "town": Category(*TOWNS), "code": Category(1, 2)}
ARROW_AGES = (pa.int8(), pa.int64(), pa.float32(), pa.float64(), pa.decimal128(22, 2))
ARROW_TEXTS = (pa.string(), pa.large_string(), pa.string_view())


def _arrow(data, age=None, text=None, encoded=False):
    arrays = {
        "age": pa.array(data["age"]).cast(age or pa.float64()),
        "town": pa.array(data["town"], text or pa.string()),
        "code": pa.array(data["code"], pa.int32()),
    }
    if encoded:
        arrays = {name: each.dictionary_encode() for name, each in arrays.items()}
    return pa.table(arrays)


def _polars(data, **types):
    schema = {"age": pl.Float64, "town": pl.String, "code": pl.Int64} | types
    frame = pl.DataFrame(data, schema={n: pl.String if n == "town" else None for n in data})
    return frame.with_columns(pl.col(name).cast(each) for name, each in schema.items())


def _runs(values):
    return pa.RunEndEncodedArray.from_arrays(list(range(1, len(values) + 1)), values)


def _typed(data):
    return pd.DataFrame({name: pd.Series(each) for name, each in data.items()})


# Each must be read right where nothing is missing.
LIBRARIES = {
    "pandas": _typed,
    "pandas nullable": lambda data: _typed(data).convert_dtypes(),
    "pandas arrow": lambda data: _typed(data).convert_dtypes(dtype_backend="pyarrow"),
    "pandas categories": lambda data: _typed(data).astype("category"),
    "pandas objects": lambda data: pd.DataFrame(data, dtype=object),
    "pandas sparse": lambda data: _typed(data).astype({"age": pd.SparseDtype(float)}),
    "polars": _polars,
    "polars categories": lambda data: _polars(data, town=pl.Categorical),
    "polars enum": lambda data: _polars(data, town=pl.Enum([*TOWNS, "Trier"])),
    "polars small": lambda data: _polars(data, age=pl.Int16, code=pl.UInt8),
    "polars decimals": lambda data: _polars(data, age=pl.Decimal(9, 2)),
    "dictionary": lambda data: _arrow(data, encoded=True),
    "batch": lambda data: _arrow(data).to_batches()[0],
    "chunks": lambda data: pa.concat_tables([_arrow(data)[:1], _arrow(data)[1:]]),
    "runs": lambda data: pa.table({name: _runs(each) for name, each in data.items()}),
    "columns": lambda data: {name: pl.Series(each) for name, each in data.items()},
    "arrays": lambda data: {name: pa.array(each) for name, each in data.items()},
    "scalars": lambda data: {name: list(map(pa.scalar, each)) for name, each in data.items()},
    **{f"arrow {t}": (lambda data, t=t: _arrow(data, age=t)) for t in ARROW_AGES},
    **{f"arrow {t}": (lambda data, t=t: _arrow(data, text=t)) for t in ARROW_TEXTS},
}
ROWS = st.lists(
    st.tuples(
        st.integers(0, 120), st.sampled_from([*TOWNS, "Trier"]), st.sampled_from([1, 2, 3])
    ),
    min_size=2,
    max_size=6,
)  # fmt: skip


def _data(rows):
    return {name: list(each) for name, *each in zip(COLUMNS, *rows, strict=True)}


@pytest.mark.parametrize("library", LIBRARIES)
@settings(max_examples=10, deadline=None)
@given(rows=ROWS)
def test_tables__of_every_library_are_read_right(library, rows):
    data = _data(rows)
    expected = DeclaredEncoder(COLUMNS).transform(data)
    table = LIBRARIES[library](data)
    for sparse in (False, True):
        found = DeclaredEncoder(COLUMNS, sparse=sparse).fit(table).transform(table)
        np.testing.assert_allclose(found.toarray() if sparse else found, expected, rtol=1e-12)


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("column", COLUMNS)
def test_tables__a_missing_cell_is_refused_whatever_the_library(library, column):
    data = _data([(3, "Bonn", 1), (4, "Ulm", 2)])
    data[column][1] = None
    try:
        table = LIBRARIES[library](data)
    except (TypeError, ValueError):
        return  # the library itself
    with pytest.raises(ValueError, match=f"'{column}' must hold one"):
        DeclaredEncoder(COLUMNS).transform(table)


DAY = datetime.date(2026, 1, 2)
ODD = {
    "bytes": [b"Bonn", b"Ulm"],
    "dates": [DAY, DAY],
    "times": [datetime.datetime(2026, 1, 2)] * 2,
    "durations": [datetime.timedelta(1)] * 2,
    "lists": [["Bonn"], ["Ulm"]],
    "structs": [{"a": 1}, {"a": 2}],
    "text": ["old", "young"],
    "empty": [None, None],
}


@pytest.mark.parametrize("kind", ODD)
@pytest.mark.parametrize("make", [pa.table, pl.DataFrame, pd.DataFrame])
@pytest.mark.parametrize("column", COLUMNS)
def test_tables__a_column_of_another_type_is_refused_and_never_zeros(kind, make, column):
    data = _data([(3, "Bonn", 1), (4, "Ulm", 2)]) | {column: ODD[kind]}
    if (kind, column) == ("text", "town"):
        return
    if make is pd.DataFrame and column != "age" and kind in ("bytes", "dates"):
        return  # a column of Python objects: each is judged by itself, as in a list
    with pytest.raises(ValueError, match=f"'{column}' must hold one"):
        DeclaredEncoder(COLUMNS).transform(make(data))


@pytest.mark.parametrize("make", [pa.table, pl.DataFrame, pd.DataFrame])
def test_tables__numbers_as_text_are_no_declared_number(make):
    table = make({"age": [1.0], "town": ["Bonn"], "code": ["1"]})
    with pytest.raises(ValueError, match="'code' must hold one category"):
        DeclaredEncoder(COLUMNS).transform(table)


@pytest.mark.parametrize("rest", [["x"] * 150, ["1"] * 150, [None] * 150, [b"x"] * 150])
def test_tables__no_single_cell_decides_what_a_column_of_objects_holds(rest):
    kinds = {kind_of(pd.Series([cell, *rest], dtype=object)) for cell in ("x", 1, None, b"x")}
    assert len(kinds) == 1
    encoder = DeclaredEncoder({"code": Category(1, 2, missing=True)})
    for cell in ("x", 1):
        frame = pd.DataFrame({"code": pd.Series([cell, *rest], dtype=object)})
        assert encoder.transform(frame).shape == (151, 3)


@pytest.mark.parametrize(
    "make",
    [
        pa.table,
        pl.DataFrame,
        pd.DataFrame,
        lambda data: pd.DataFrame(data, dtype="int64[pyarrow]"),
    ],
)
def test_tables__a_whole_number_that_a_float_rounds_is_rounded_and_refuses_nobody(make):
    rows = matrix_of(make({"a": [1, 2**53 + 1]}))
    np.testing.assert_array_equal(rows, [[1.0], [2.0**53]])


def unreadable(cells):
    """Text as some programs write it to files: Arrow takes any bytes."""
    buffers = pa.array(cells, pa.binary()).buffers()
    return pa.Array.from_buffers(pa.string(), len(cells), buffers)


FORMS = {
    "text": lambda text: text,
    "large": lambda text: text.cast(pa.large_string()),
    "view": lambda text: text.cast(pa.string_view()),
    "dictionary": lambda text: text.dictionary_encode(),
    "chunks": lambda text: pa.chunked_array([text[:1], text[1:]]),
    "pandas": lambda text: pd.Series(text, dtype=pd.ArrowDtype(pa.string())),
}


@pytest.mark.parametrize("form", FORMS)
def test_tables__a_cell_that_is_no_utf_8_is_a_value_nobody_declared_and_refuses_no_other(form):
    cells = FORMS[form](unreadable([b"Ulm", b"\xffBonn", None, b"5"]))
    for sparse in (False, True):
        encoder = DeclaredEncoder(
            {
                "town": Category("Ulm", "Bonn", other=True, missing=True),
                "age": Number(0, 10, missing="indicator"),
            },
            sparse=sparse,
        )
        rows = encoder.transform({"town": cells, "age": cells})
        rows = (rows.toarray() if sparse else rows) * np.sqrt(2)
        np.testing.assert_allclose(
            rows, [[1, 0, 0, 0, 0, 1], [0, 0, 1, 0, 0, 1], [0, 0, 0, 1, 0, 1], [0, 0, 1, 0, 0, 0]]
        )
    with pytest.raises(ValueError, match="'town' must hold one category") as caught:
        DeclaredEncoder({"town": Category("Ulm")}).transform({"town": cells})
    assert caught.value.__cause__ is None


@pytest.mark.parametrize("in_batches", [False, True])
def test_tables__a_label_that_is_no_utf_8_makes_a_row_of_nothing(in_batches):
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, 50)
    labels = [b"yes" if each else b"no" for each in x > 0]
    fits = []
    for label in (b"\xffsecret", b"perhaps"):
        table = pa.table({"x": x, "y": unreadable([label, *labels[1:]])})
        model = PrivateLogisticRegression(1e3, classes=("no", "yes"), random_state=0)
        fits.append(model.fit(iter(table.to_batches()) if in_batches else table, "y").coef_)
    np.testing.assert_array_equal(*fits)


def test_tables__values_that_are_equal_match_over_types():
    columns = {"paid": Category(True, False), "cost": Category(Decimal("1.5"), 2)}
    table = pa.table({"paid": [1, 0], "cost": [1.5, 2.0]})
    found = DeclaredEncoder(columns).transform(table) > 0
    np.testing.assert_array_equal(found, np.eye(4)[[0, 1]] + np.eye(4)[[2, 3]])


def test_tables__lazy_ones_and_strangers_are_refused():
    encoder = DeclaredEncoder({"age": Number(0, 1)})
    with pytest.raises(TypeError, match="collect"):
        encoder.transform(pl.DataFrame({"age": [1.0]}).lazy())

    class Stranger:
        columns = ("age",)

        def __getitem__(self, name):
            return self

        def __len__(self):
            return 1

        def __iter__(self):
            return iter([object()])

    with pytest.raises((TypeError, ValueError)):
        DeclaredEncoder({"age": Category("a")}).transform(Stranger())
    with pytest.raises(KeyError):
        columns_of(pa.table({"a": [1]}), ["b"])
    assert names_of(pa.table({"a": [1]})) == ("a",)


@pytest.mark.parametrize("make", [pa.table, pl.DataFrame, pd.DataFrame])
def test_estimators__take_tables_of_any_library(make):
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (60, 2))
    names = np.where(X[:, 0] > 0, "yes", "no")
    expected = PrivateLinearRegression(epsilon=1.0, random_state=0).fit(X, X[:, 0])
    table = make({"a": X[:, 0], "b": X[:, 1], "y": X[:, 0], "name": names})
    part = table.select(["a", "b"]) if hasattr(table, "select") else table[["a", "b"]]
    model = PrivateLinearRegression(epsilon=1.0, random_state=0).fit(part, table["y"])
    np.testing.assert_allclose(model.coef_, expected.coef_)
    assert list(model.feature_names_in_) == ["a", "b"]
    np.testing.assert_allclose(model.predict(part), expected.predict(X))
    with pytest.raises(ValueError, match="X must be numbers"):
        PrivateLinearRegression(epsilon=1.0).fit(table, table["y"])
    classes = PrivateLogisticRegression(1e3, classes=("no", "yes"), random_state=0)
    assert classes.fit(part, table["name"]).score(part, table["name"]) > 0.7
    with pytest.raises(ValueError, match="y holds numbers, which no declared class is"):
        classes.fit(part, table["y"])


def test_estimators__dates_are_no_numbers():
    table = pd.DataFrame({"a": pd.to_datetime(["2026-01-01", "2026-01-02"])})
    with pytest.raises(ValueError, match="X must be numbers"):
        PrivateLinearRegression(epsilon=1.0).fit(table, [0.0, 1.0])
    with pytest.raises(ValueError, match="y must be numbers"):
        PrivateLinearRegression(epsilon=1.0).fit([[0.0], [1.0]], table["a"])


def test_feature_map__reads_tables_as_the_encoder_does():
    table = pa.table({"age": [20.0, 50.0], "town": ["Bonn", "Ulm"], "code": [1, 2]})
    phi = FeatureMap(COLUMNS, ["a"], intercept=False)
    np.testing.assert_allclose(phi.many(table)[:, 0], DeclaredEncoder(COLUMNS).transform(table))
