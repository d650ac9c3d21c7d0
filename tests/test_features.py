import math
from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from discreet.features import Category, DeclaredEncoder, FeatureMap, Number

CONTEXT: dict[str, Number | Category] = {
    "age": Number(18, 100),
    "income": Number(-1e4, 1e5),
    "plan": Category("basic", "gold"),
    "region": Category(1, 2, 3, other=True),
}
ATTRIBUTES: dict[str, Number | Category] = {
    "cost": Number(0, 1),
    "channel": Category("digital", "human"),
}
ACTIONS = {
    "email": {"cost": 0.1, "channel": "digital"},
    "letter": {"cost": 0.0, "channel": "human"},
    "call": {"cost": 1.0, "channel": "human"},
}


def make(blocks: str, *, intercept: bool = True) -> FeatureMap:
    if blocks == "per-action":
        return FeatureMap(CONTEXT, list(ACTIONS), intercept=intercept)
    return FeatureMap(
        CONTEXT, ACTIONS, action_features=ATTRIBUTES, blocks=blocks, intercept=intercept
    )


MAPS = [
    make(blocks, intercept=intercept)
    for blocks, intercept in product(("per-action", "shared", "both"), (True, False))
]
KNOWN = {"age": 44, "income": 2e4, "plan": "gold", "region": 2}
EXTREME = {"age": 1e9, "income": -math.inf, "plan": "basic", "region": "elsewhere"}
contexts = st.fixed_dictionaries(
    {
        "age": st.floats(allow_nan=False) | st.integers(-(10**6), 10**6) | st.booleans(),
        "income": st.floats(allow_nan=False),
        "plan": st.sampled_from(["basic", "gold", "unheard of"]),
        "region": st.integers(0, 5) | st.text(max_size=2),
    }
)


@given(contexts)
def test_feature_map__norms_never_exceed_one(context: dict[str, Any]) -> None:
    for phi in MAPS:
        rows = phi(context)
        assert rows.shape == (3, phi.dim)
        assert rows.dtype == np.float64
        assert np.linalg.norm(rows, axis=1).max() <= 1 + 1e-14


@given(st.lists(contexts, max_size=6))
def test_feature_map__many_equals_single_calls_exactly(batch: list[dict[str, Any]]) -> None:
    for phi in MAPS:
        expected = np.array([phi(context) for context in batch]).reshape(-1, 3, phi.dim)
        columns = {name: [context[name] for context in batch] for name in CONTEXT}
        for form in (batch, columns, [[context[name] for name in CONTEXT] for context in batch]):
            np.testing.assert_array_equal(phi.many(form), expected)


@pytest.mark.parametrize("phi", MAPS, ids=repr)
def test_feature_map__the_worst_case_reaches_norm_one(phi: FeatureMap) -> None:
    # "call" has its only number at a bound; the one-hot of "per-action" is always long.
    assert np.linalg.norm(phi(EXTREME, ["call"])) == pytest.approx(1, abs=1e-12)


@pytest.mark.parametrize("intercept", [True, False])
def test_feature_map__categories_only_have_norm_one(intercept: bool) -> None:
    one = {"plan": Category("basic", "gold")}
    two = {**one, "region": Category(1, 2, other=True)}
    for context, value in ((one, {"plan": "gold"}), (two, {"plan": "gold", "region": 9})):
        norms = np.linalg.norm(FeatureMap(context, ["a", "b"], intercept=intercept)(value), axis=1)
        np.testing.assert_allclose(norms, 1, rtol=1e-14)
    assert np.linalg.norm(FeatureMap(one, ["a", "b"], intercept=False)({"plan": "gold"})[0]) == 1.0


def test_feature_map__is_the_product_of_action_and_context() -> None:
    phi = make("both")
    low, high = (44 - 18) / 41 - 1, (2e4 + 1e4) / 55_000 - 1
    c = np.array([1, low, high, 0, 1, 0, 1, 0, 0])
    z = np.array([1, 0.1 * 2 - 1, 1, 0, 1, 0, 0])
    expected = np.kron(z, c) / math.sqrt((1 + 4) * (1 + 2 + 1))
    np.testing.assert_allclose(phi(KNOWN)[0], expected, rtol=1e-13)


def test_feature_map__names_align_with_columns() -> None:
    phi = make("both")
    assert phi.dim == len(phi.names) == len(set(phi.names)) == 9 * (1 + 3 + 3)
    row = dict(zip(phi.names, phi(KNOWN)[2] * math.sqrt(20), strict=True))  # "call"
    age = (44 - 18) / 41 - 1
    told = {
        "1": 1, "age": age, "plan=gold": 1, "plan=basic": 0, "region=2": 1, "region=(other)": 0,
        "cost": 1, "age * cost": age, "channel=human": 1, "channel=digital": 0,
        "plan=gold * channel=human": 1, "age * action=call": age, "action=email": 0,
    }  # fmt: skip
    assert {name: row[name] for name in told} == pytest.approx(told)
    assert make("shared").names == phi.names[: 9 * 4]
    assert make("per-action").names == phi.names[9 * 4 :]


def test_feature_map__per_action_rows_are_orthogonal() -> None:
    rows = make("per-action")(KNOWN)
    gram = rows @ rows.T
    assert np.count_nonzero(gram - np.diag(np.diag(gram))) == 0
    assert np.diag(gram).min() > 0.5


def test_feature_map__blocks_follow_the_declaration() -> None:
    assert FeatureMap(CONTEXT, ["a", "b"]).blocks == "per-action"
    assert FeatureMap(CONTEXT, ACTIONS, action_features=ATTRIBUTES).blocks == "shared"
    hybrid = FeatureMap(CONTEXT, ["a", "b"], blocks="both")
    assert hybrid.dim == 9 * (1 + 2)
    assert np.linalg.norm(hybrid(EXTREME)[0]) == pytest.approx(1)


def test_feature_map__without_context_an_action_is_a_unit_vector() -> None:
    np.testing.assert_array_equal(FeatureMap({}, ["a", "b", "c"])({}), np.eye(3))


@pytest.mark.parametrize("phi", MAPS, ids=repr)
def test_feature_map__a_subset_gives_its_rows_in_its_order(phi: FeatureMap) -> None:
    assert phi.actions == ("email", "letter", "call")
    np.testing.assert_array_equal(phi(KNOWN, ["call", "email"]), phi(KNOWN)[[2, 0]])
    pair = phi.many([KNOWN, EXTREME], ["call", "email"])
    np.testing.assert_array_equal(pair, phi.many([KNOWN, EXTREME])[:, [2, 0]])


@pytest.mark.parametrize("actions", [[], ["fax"], [["email"]], "email", 3, ["email", "email"]])
def test_feature_map__refuses_a_subset_that_is_not_one(actions: Any) -> None:
    phi = make("shared")
    calls: list[Callable[[], Any]] = [
        lambda: phi(KNOWN, actions),
        lambda: phi.many([KNOWN], actions),
    ]
    for call in calls:
        with pytest.raises(ValueError, match=r"declared action|named once"):
            call()


def test_feature_map__new_actions_keep_the_shared_columns_and_scale() -> None:
    phi = make("shared")
    other = FeatureMap(CONTEXT, {"email": ACTIONS["email"]}, action_features=ATTRIBUTES)
    assert other.names == phi.names
    np.testing.assert_array_equal(other(KNOWN), phi(KNOWN, ["email"]))


def test_feature_map__a_row_does_not_depend_on_other_rows() -> None:
    phi = make("both")
    alone = phi.many([KNOWN])
    for others in ([EXTREME], [KNOWN] * 3, [dict(EXTREME, plan="never seen")] * 50):
        np.testing.assert_array_equal(phi.many([*others, KNOWN])[-1:], alone)


def test_feature_map__values_outside_the_bounds_are_clipped() -> None:
    phi = make("per-action")
    np.testing.assert_array_equal(phi(dict(KNOWN, age=1e300)), phi(dict(KNOWN, age=100)))
    np.testing.assert_array_equal(phi(dict(KNOWN, age=-math.inf)), phi(dict(KNOWN, age=18)))
    assert (phi(dict(KNOWN, age=99)) != phi(dict(KNOWN, age=100))).any()


def test_feature_map__an_undeclared_category_is_zeros_or_other() -> None:
    phi = FeatureMap({"plan": Category("basic", "gold"), "age": Number(0, 2)}, ["a"])
    row = dict(zip(phi.names, phi({"plan": "platinum", "age": 2})[0], strict=True))
    assert row["plan=basic * action=a"] == row["plan=gold * action=a"] == 0
    assert row["age * action=a"] == row["action=a"] == pytest.approx(1 / math.sqrt(3))
    other = FeatureMap({"plan": Category("basic", other=True)}, ["a"], intercept=False)
    np.testing.assert_array_equal(
        other.many({"plan": ["platinum", "basic"]})[:, 0], [[0, 1], [1, 0]]
    )


def test_feature_map__an_action_may_have_another_category_if_declared() -> None:
    kinds = {"kind": Category("x", other=True)}
    phi = FeatureMap({}, {"a": {"kind": "x"}, "b": {"kind": "y"}}, action_features=kinds)
    assert phi.names == ("1", "kind=x", "kind=(other)")
    np.testing.assert_allclose(phi({}) * math.sqrt(2), [[1, 1, 0], [1, 0, 1]])


def test_feature_map__a_column_holds_one_value_per_context() -> None:
    phi = FeatureMap({"age": Number(0, 10)}, ["a"])
    with pytest.raises(ValueError, match="one number per row"):
        phi.many({"age": [[3]]})


def test_feature_map__arrays_follow_the_declared_order() -> None:
    phi = FeatureMap({"age": Number(0, 10), "member": Category(0, 1)}, ["a", "b"])
    matrix = np.array([[3.0, 1.0], [12.0, 0.0], [-1.0, 7.0]])
    expected = [phi({"age": age, "member": member}) for age, member in matrix]
    np.testing.assert_array_equal(phi.many(matrix), expected)
    np.testing.assert_array_equal(phi.many(matrix.astype(object)), expected)
    np.testing.assert_array_equal(phi(matrix[0]), expected[0])
    np.testing.assert_array_equal(phi((3, 1)), expected[0])
    assert phi.many(matrix[:0]).shape == (0, 2, phi.dim)


def test_feature_map__reads_frames_and_their_rows() -> None:
    pandas = pytest.importorskip("pandas")
    batch = [KNOWN, EXTREME, dict(KNOWN, plan="platinum", age=18)]
    frame = pandas.DataFrame(batch)[["region", "plan", "income", "age"]]
    frame["unused"] = math.nan
    for phi in MAPS:
        expected = np.array([phi(context) for context in batch])
        np.testing.assert_array_equal(phi.many(frame), expected)
        np.testing.assert_array_equal(phi.many(frame.astype({"plan": "category"})), expected)
        np.testing.assert_array_equal(phi(frame.iloc[1]), expected[1])
        with pytest.raises(ValueError, match="no column 'plan'"):
            phi.many(frame.drop(columns="plan"))
    for column, kind in (("age", "Int64"), ("plan", "string"), ("plan", "category")):
        holes = frame.astype({column: kind})
        holes.loc[1, column] = None
        with pytest.raises(ValueError, match=f"'{column}' must hold one .* none missing"):
            MAPS[0].many(holes)
    dates = frame.assign(age=pandas.to_datetime("2020-02-02"))
    with pytest.raises(ValueError, match="'age' must hold one number"):
        MAPS[0].many(dates)


@pytest.mark.parametrize("column", list(CONTEXT))
def test_feature_map__a_missing_column_says_which(column: str) -> None:
    phi = make("shared")
    short = {name: value for name, value in KNOWN.items() if name != column}
    columns = {name: [value] for name, value in short.items()}
    calls: list[Callable[[], Any]] = [
        lambda: phi(short),
        lambda: phi.many([KNOWN, short]),
        lambda: phi.many(columns),
    ]
    for call in calls:
        with pytest.raises(ValueError, match=f"no column '{column}': every declared column"):
            call()


@pytest.mark.parametrize(
    ("column", "value"),
    [("age", math.nan), ("age", None), ("age", "secret"), ("age", [4, 2]), ("age", 1j),
     ("age", 10**400), ("plan", None), ("plan", math.nan), ("plan", np.datetime64("NaT", "s")),
     ("plan", ["secret"]), ("region", math.nan)],
)  # fmt: skip
def test_feature_map__refuses_what_is_no_value_and_never_quotes_it(column: str, value: Any) -> None:
    phi = make("shared")
    bad = dict(KNOWN, **{column: value})
    columns = {name: [KNOWN[name], bad[name]] for name in CONTEXT}
    calls: list[Callable[[], Any]] = [
        lambda: phi(bad),
        lambda: phi.many([KNOWN, bad]),
        lambda: phi.many(columns),
    ]
    for call in calls:
        with pytest.raises(ValueError, match=f"'{column}' must hold one .*missing") as caught:
            call()
        assert "secret" not in str(caught.value)
        assert caught.value.__suppress_context__


@pytest.mark.parametrize("context", [[44], [44, 2e4, "gold", 2, 0], np.ones((2, 3)), "gold", 44])
def test_feature_map__refuses_values_of_another_length(context: Any) -> None:
    with pytest.raises(ValueError, match="4 values in the declared order"):
        make("shared")(context)
    with pytest.raises(ValueError, match="4 values in the declared order"):
        make("shared").many([context])


@pytest.mark.parametrize(
    "columns",
    [
        KNOWN,
        dict.fromkeys(CONTEXT, "gold"),
        {name: [1] * (1 + (name == "age")) for name in CONTEXT},
    ],
)
def test_feature_map__many_refuses_columns_that_are_not_of_one_length(columns: Any) -> None:
    with pytest.raises(ValueError, match="columns of one length"):
        make("shared").many(columns)


@pytest.mark.parametrize(
    ("arguments", "match"),
    [({"actions": []}, "at least one name"), ({"actions": "email"}, "list of at least one name"),
     ({"actions": ["a", "a"]}, "each of them once"), ({"blocks": "none"}, "must be one of"),
     ({"blocks": "shared"}, "declare some"), ({"context": {"age": (0, 1)}}, "'age' must be decl"),
     ({"action_features": {"cost": Number(0, 1)}, "blocks": "per-action"}, "say blocks='both'"),
     ({"action_features": {"cost": Number(0, 1)}}, "exactly the declared"),
     ({"actions": {"a": {"cost": 1}}, "blocks": "both"}, "exactly the declared"),
     ({"actions": {"a": {"cost": 2}}, "action_features": {"cost": Number(0, 1)}}, "must lie in Nu"),
     ({"actions": {"a": {"cost": "1"}}, "action_features": {"cost": Number(0, 1)}}, "must lie in"),
     ({"actions": {"a": {"kind": "z"}}, "action_features": {"kind": Category("x")}}, "must lie in"),
     ({"actions": {"a": {"age": 1}}, "action_features": {"age": Number(0, 1)}}, "rename one"),
     ({"context": {"age": Category(1, "1")}}, "rename one"),
     ({"context": {}, "intercept": False}, "no columns")],
)  # fmt: skip
def test_feature_map__refuses_a_wrong_declaration(arguments: dict[str, Any], match: str) -> None:
    with pytest.raises(ValueError, match=match):
        FeatureMap(**{"context": {"age": Number(0, 1)}, "actions": ["a", "b"], **arguments})


@pytest.mark.parametrize("bounds", [(1, 1), (2, 1), (0, math.inf), (math.nan, 1), (-1e308, 1e308)])
def test_number__refuses_bounds_without_a_scale(bounds: tuple[float, float]) -> None:
    with pytest.raises(ValueError, match="low < high"):
        Number(*bounds)


@given(
    st.lists(st.floats(-1e300, 1e300), min_size=2, max_size=2, unique=True).map(sorted),
    st.floats(allow_nan=False),
)
def test_number__stays_in_the_unit_interval_and_reaches_its_ends(
    bounds: list[float], x: float
) -> None:
    phi = FeatureMap({"x": Number(*bounds)}, ["a"], intercept=False)
    low, value, high = phi.many({"x": [bounds[0], x, bounds[1]]})[:, 0, 0]
    assert low == -1.0 <= value <= 1.0 == high


@pytest.mark.parametrize(
    "categories", [(), ("a", "a"), (1, True), (["a", "b"],), (None,), (math.nan,)]
)
def test_category__refuses_lists_repeats_and_missing_values(categories: tuple[Any, ...]) -> None:
    with pytest.raises(ValueError, match="Category needs"):
        Category(*categories)


HOLES = {
    "age": Number(20, 60, missing="indicator"),
    "height": Number(100, 200, missing=170),
    "plan": Category("a", "b", other=True, missing=True),
}
ROWS = [(40.0, 120.0, "a"), (None, None, None), (math.nan, math.nan, math.nan), (60.0, 999.0, "z")]


def _columns_of(rows: list[tuple[Any, ...]]) -> dict[str, list[Any]]:
    return {name: [row[j] for row in rows] for j, name in enumerate(HOLES)}


@pytest.mark.parametrize("library", ["mapping", "pandas", "polars", "pyarrow"])
def test_missing__has_a_column_or_a_value_of_its_own_in_tables_of_any_library(library: str) -> None:
    rows = ROWS if library in ("mapping", "pandas") else [*ROWS[:2], ROWS[1], ROWS[3]]
    table: Any = _columns_of(rows)
    if library == "pyarrow":
        table = pytest.importorskip("pyarrow").table(table)
    elif library != "mapping":
        table = pytest.importorskip(library).DataFrame(table)
    encoder = DeclaredEncoder(HOLES)
    expected = np.array(
        [
            [0.0, 0, -0.6, 1, 0, 0, 0],
            [0.0, 1, 0.4, 0, 0, 0, 1],
            [0.0, 1, 0.4, 0, 0, 0, 1],
            [1.0, 0, 1.0, 0, 0, 1, 0],
        ]
    )
    np.testing.assert_allclose(encoder.transform(table) * math.sqrt(3), expected)
    sparse = DeclaredEncoder(HOLES, sparse=True).transform(table)
    np.testing.assert_allclose(sparse.toarray() * math.sqrt(3), expected)
    assert list(encoder.get_feature_names_out()) == [
        "age", "age (missing)", "height", "plan=a", "plan=b", "plan=(other)", "plan=(missing)",
    ]  # fmt: skip


def test_missing__single_contexts_are_those_of_many_and_no_longer_than_one() -> None:
    phi = FeatureMap(HOLES, ["x", "y"])
    contexts = [dict(zip(HOLES, row, strict=True)) for row in ROWS]
    np.testing.assert_array_equal(phi.many(contexts), [phi(each) for each in contexts])
    assert np.linalg.norm(phi.many(contexts), axis=2).max() <= 1 + 1e-12
    pandas = pytest.importorskip("pandas")
    np.testing.assert_array_equal(
        phi({"age": pandas.NA, "height": pandas.NA, "plan": pandas.NA}), phi(contexts[1])
    )


class Hostile:
    """A cell with which nothing can be done."""

    def __hash__(self) -> int:
        return hash("a")

    def __eq__(self, other: object) -> bool:
        raise RuntimeError("170")

    def __float__(self) -> float:
        raise RuntimeError("170")


@pytest.mark.parametrize("library", ["mapping", "objects", "text", "contexts"])
@pytest.mark.parametrize(
    "odd", ["about 170", "", [170], 1j, 10**400, np.datetime64(1, "ns"), Hostile()]
)
def test_missing__a_cell_that_is_no_number_is_missing_and_refuses_no_other(
    library: str, odd: Any
) -> None:
    pandas = pytest.importorskip("pandas")
    height = [120, odd, 999.0]
    table: Any = {"height": height}
    if library == "objects":
        table = pandas.DataFrame({"height": pandas.Series(height, dtype=object)})
    elif library == "text":  # as a file is read with one such cell
        table = pandas.DataFrame({"height": [str(each) for each in height]})
        if isinstance(odd, int | np.datetime64 | Hostile):
            return  # numbers, as text; or no text
    elif library == "contexts":
        table = [{"height": each} for each in height]
    for sparse in (False, True):
        encoder = DeclaredEncoder({"height": HOLES["height"]}, sparse=sparse)
        found = encoder.transform(table)
        found = found.toarray() if sparse else found
        np.testing.assert_allclose(found.ravel(), [-0.6, 0.4, 1.0])
    plan = DeclaredEncoder({"height": Category("a", missing=True)})
    if not isinstance(odd, str | int | complex | np.datetime64) and library != "text":
        np.testing.assert_array_equal(plan.transform(table)[1], [0.0, 1.0])


@pytest.mark.parametrize("missing", [10, math.nan, "mean"])
def test_missing__stands_for_a_public_value_within_the_bounds(missing: Any) -> None:
    with pytest.raises(ValueError, match=r"missing must be|could not convert"):
        Number(20, 60, missing=missing)
    assert repr(Number(20, 60, missing=30)) == "Number(20.0, 60.0, missing=30.0)"
    assert None not in Number(20, 60)
    assert None in Number(20, 60, missing=30)
    assert None in Category("a", missing=True)


@pytest.mark.parametrize("columns", [["age"], {"age"}, Number(0, 1)])
def test_columns__without_names_are_refused_with_an_example(columns: Any) -> None:
    with pytest.raises(ValueError, match=r'by name, as in \{"age": Number'):
        FeatureMap(columns, ["a", "b"])
    with pytest.raises(ValueError, match=r'by name, as in \{"age": Number'):
        DeclaredEncoder(columns).fit({"age": [0.5]})
