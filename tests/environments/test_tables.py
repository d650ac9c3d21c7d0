import sys

import numpy as np
import pandas as pd
import pytest

from discreet.environments import logged, world
from discreet.environments.logs import logged_table
from discreet.environments.tables import FeatureTable, package, read_table, table_world
from discreet.features import Category, FeatureMap, Number

CONTEXT = {"age": Number(20, 60), "city": Category("rome", "oslo")}
FRAME = pd.DataFrame(
    {
        "age": [20.0, 30.0, 99.0, 40.0],
        "city": ["rome", "oslo", "oslo", "paris"],
        "bought": ["tea", "milk", "tea", "tea"],
        "tea": [0.5, 3.0, 0.0, 1.0],
        "milk": [-2.0, 0.25, 1.0, 0.0],
        "shown": ["milk", "milk", "tea", "tea"],
        "paid": [0.5, 0.0, 2.0, 1.0],
        "chance": [0.5, 0.25, 0.75, 1.0],
    }
)
LOGGED = {"context": CONTEXT, "actions": ["tea", "milk"], "action": "shown", "reward": "paid"}


def test_feature_table__builds_the_rows_of_the_map():
    phi = FeatureMap(CONTEXT, ["tea", "milk"])
    table = FeatureTable(phi, {name: FRAME[name] for name in CONTEXT})
    assert np.array_equal(table[:], phi.many(FRAME))
    assert np.array_equal(table[[3, 0, 3]], phi.many(FRAME)[[3, 0, 3]])
    assert len(table) == 4


def test_table_world__the_right_label_earns_one_and_the_rest_nothing():
    each = table_world(FRAME, context=CONTEXT, label="bought", actions=["tea", "milk"])
    assert np.array_equal(each.means, [[1, 0], [0, 1], [1, 0], [1, 0]])
    people = each.people(2000, np.random.default_rng(0))
    assert np.mean(people.means[:, 0]) == pytest.approx(0.75, abs=0.06)  # 6 deviations
    expected = FeatureMap(CONTEXT, ["tea", "milk"]).many(FRAME)
    known = {
        tuple(rows.ravel()): tuple(means) for rows, means in zip(expected, each.means, strict=True)
    }
    assert all(
        known[tuple(rows.ravel())] == tuple(means)
        for rows, means in zip(people.features, people.means, strict=True)
    ), "features and rewards are of the same row"


def test_table_world__rewards_are_clipped_to_the_public_range():
    each = table_world(
        FRAME, context=CONTEXT, rewards={"a": "tea", "b": "milk"}, reward_range=(-1, 1)
    )
    assert np.array_equal(each.means, [[0.5, -1], [1, 0.25], [0, 1], [1, 0]])
    assert each.reward_range == (-1.0, 1.0)


def test_logged_table__reads_the_named_columns():
    log = logged_table(FRAME, **LOGGED, propensity="chance")
    assert log.actions.tolist() == [1, 1, 0, 0]
    assert log.rewards.tolist() == [0.5, 0.0, 1.0, 1.0]
    assert log.propensities.tolist() == [0.5, 0.25, 0.75, 1.0]
    assert log.features[:].shape == (4, 2, log.features[:1].shape[2])
    assert logged_table(FRAME, **LOGGED, propensity=0.5).propensities.tolist() == [0.5] * 4


def test_tables__a_csv_is_the_frame_it_was_written_from(tmp_path):
    path = tmp_path / "shop.csv"
    FRAME.to_csv(path, index=False)
    plain = {"age": {"low": 20, "high": 60}, "city": {"categories": ["rome", "oslo"]}}
    for table in (path, str(path), FRAME, {name: FRAME[name].tolist() for name in FRAME}):
        each = world("table", table=table, context=plain, label="bought", actions=["tea", "milk"])
        assert np.array_equal(each.features[:], FeatureMap(CONTEXT, ["tea", "milk"]).many(FRAME))
        log = logged("table", table=table, **{**LOGGED, "context": plain}, propensity="chance")
        assert log.rewards.tolist() == [0.5, 0.0, 1.0, 1.0]


def test_tables__a_parquet_file_is_the_frame_it_was_written_from(tmp_path):
    pytest.importorskip("pyarrow")
    path = tmp_path / "shop.parquet"
    FRAME.to_parquet(path)
    log = logged_table(path, **LOGGED, propensity="chance")
    assert np.array_equal(log.features[:], FeatureMap(CONTEXT, ["tea", "milk"]).many(FRAME))


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"label": None}, "either label"),
        ({"rewards": {"a": "tea"}}, "either label"),
        ({"actions": None}, "actions go with label"),
        ({"label": "colour"}, "no column 'colour'"),
        ({"context": {"height": Number(0, 1)}}, "no column 'height'"),
        ({"actions": ["tea", "beer"]}, "one of the declared actions"),
        ({"context": {"age": {"least": 0}}}, "must be declared"),
        ({"context": {"age": 3}}, "must be declared"),
        ({"context": {}}, "at least one column"),
        ({"context": {"city": Number(0, 1)}}, "one number per row"),
        ({"actions": None, "label": None, "rewards": {"a": "tea", "b": "city"}}, "numbers"),
        (
            {"actions": None, "label": None, "rewards": {"a": "tea"}, "reward_range": (1, 0)},
            "low < high",
        ),
    ],
    ids=str,
)
def test_table_world__a_bad_declaration_is_refused_without_quoting_data(change, told):
    given = {"context": CONTEXT, "label": "bought", "actions": ["tea", "milk"], **change}
    with pytest.raises(ValueError, match=told) as error:
        table_world(FRAME, **given)
    assert "paris" not in str(error.value)
    assert "99" not in str(error.value)


def test_tables__another_kind_of_file_is_refused():
    with pytest.raises(ValueError, match=r"\.csv"):
        read_table("people.xlsx")


def test_packages__a_missing_one_is_named_with_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "statsmodels.datasets.randhie", None)
    with pytest.raises(ImportError, match=r"package statsmodels: .*discreet\[datasets\]"):
        package("statsmodels.datasets.randhie")
