"""Rows from files and iterators: the same fit as in memory, read once, in memory that stays."""

import io
import subprocess
import sys
import time

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet
from sklearn.pipeline import make_pipeline

from discreet.distributed import streams
from discreet.distributed.streams import Progress, Stored, batches
from discreet.features import Category, DeclaredEncoder, Number
from discreet.regression import (
    AdaSSP,
    PrivateGLM,
    PrivateLinearRegression,
    PrivateLogisticRegression,
)
from discreet.regression.base import IN_A_FILE

N = 3000
RNG = np.random.default_rng(0)
X = RNG.uniform(-0.5, 0.5, (N, 3))
Y = X @ [0.5, -0.2, 0.1] + RNG.normal(0, 0.05, N)
TABLE = pa.table({"a": X[:, 0], "b": X[:, 1], "y": Y, "c": X[:, 2]})
SEEDED = {"epsilon": 1.0, "random_state": 0}


@pytest.fixture
def files(tmp_path):
    for k in range(3):
        parquet.write_table(TABLE[k * 1000 : (k + 1) * 1000], tmp_path / f"{k}.parquet")
    (tmp_path / "notes.txt").write_text("no rows")
    return tmp_path


@pytest.mark.parametrize("kind", ["pattern", "folder", "iterator", "reader", "table"])
def test_fit__of_a_stream_is_that_of_its_rows(files, kind):
    given = {
        "pattern": str(files / "*.parquet"),
        "folder": files,
        "iterator": iter(TABLE.to_batches(700)),
        "reader": TABLE.to_reader(700),
        "table": TABLE,
    }[kind]
    model = PrivateLinearRegression(**SEEDED).fit(given, y="y")
    expected = PrivateLinearRegression(**SEEDED).fit(X, Y)
    np.testing.assert_allclose(model.coef_, expected.coef_, rtol=1e-9)
    assert list(model.feature_names_in_) == ["a", "b", "c"]
    more = set(model.guarantee_.unprotected) - set(expected.guarantee_.unprotected)
    assert more == (set() if kind == "table" else set(IN_A_FILE))


@pytest.mark.parametrize(
    "model",
    [
        PrivateLogisticRegression(classes=("no", "yes"), **SEEDED),
        PrivateGLM(link="logistic", **SEEDED),
        PrivateGLM(link="poisson", label_bound=3.0, **SEEDED),
        AdaSSP(**SEEDED),
    ],
    ids=str,
)
def test_fit__of_a_stream_for_every_kind_of_label(model):
    up = Y > 0
    labels = np.where(up, "yes", "no") if hasattr(model, "classes") else up.astype(float)
    table = TABLE.set_column(2, "y", pa.array(labels))
    expected = model.fit(X, labels).coef_.copy()
    found = model.fit(iter(table.to_batches(500)), y="y").coef_
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-9)


def test_pipeline__encodes_what_it_reads(files):
    towns = np.where(X[:, 0] > 0, "Bonn", "Ulm")
    table = TABLE.append_column("town", pa.array(towns).dictionary_encode())
    encoder = DeclaredEncoder({"a": Number(-0.5, 0.5), "town": Category("Bonn", "Ulm")})

    def fitted(*rows):
        return make_pipeline(encoder, PrivateLinearRegression(**SEEDED)).fit(*rows)[-1].coef_

    np.testing.assert_allclose(fitted(iter(table.to_batches(99)), "y"), fitted(table, Y), rtol=1e-9)


def test_rows__of_very_many_are_chosen_as_in_memory(monkeypatch):
    from discreet.regression import central, sample

    for name, value in (("MANY_ROWS", 2000), ("EARLY_ROWS", 500)):
        for module in (central, sample):
            if hasattr(module, name):
                monkeypatch.setattr(module, name, value)
    monkeypatch.setattr(streams, "BLOCK", 4096)
    monkeypatch.setattr(streams, "IN_MEMORY", 1024)  # so that there is a file
    expected = PrivateLinearRegression(**SEEDED).fit(X, Y)
    model = PrivateLinearRegression(**SEEDED).fit(iter(TABLE.to_batches(700)), y="y")
    np.testing.assert_allclose(model.coef_, expected.coef_, rtol=1e-9)


def test_source__is_read_once():
    read = []

    def counted():
        for each in TABLE.to_batches(1000):
            read.append(len(each))
            yield each

    PrivateLinearRegression(**SEEDED).fit(counted(), y="y")
    assert read == [1000] * 3


@pytest.mark.thorough
def test_memory__does_not_depend_on_the_rows():
    code = """
import resource, sys
import numpy as np, pyarrow as pa
from discreet.regression.baselines import AdaSSP
rng = np.random.default_rng(0)
def rows(n):
    for _ in range(n // 10_000):
        x = rng.uniform(-0.2, 0.2, (10_000, 20))
        yield pa.table({"y": x[:, 0], **{f"x{k}": x[:, k] for k in range(20)}})
AdaSSP(1.0, random_state=0).fit(rows(100_000), y="y")
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
AdaSSP(1.0, random_state=0).fit(rows(1_200_000), y="y")
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""
    more = int(subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout)
    assert more < 130_000  # KiB: 200 MB of rows; 64 MB stay in memory before there is a file


def test_files__are_not_in_memory_as_a_whole(tmp_path):
    """Arrow read all of a file ahead: fits of 10^7 rows took three times the memory of 10^6."""
    rng = np.random.default_rng(0)
    table = pa.table({f"x{j}": rng.random(2**20) for j in range(8)})
    size = table.nbytes
    parquet.write_table(table, tmp_path / "rows.parquet", row_group_size=2**14)
    del table
    before = pa.total_allocated_bytes()
    most = 0
    for _ in batches(tmp_path / "rows.parquet"):
        time.sleep(0.01)  # as slow as whoever sums up
        most = max(most, pa.total_allocated_bytes() - before)
    assert most < size


def test_refused__before_anything_is_released(files):
    model = PrivateLinearRegression(**SEEDED)
    with pytest.raises(ValueError, match="name the column"):
        model.fit(str(files), Y)
    with pytest.raises(ValueError, match="no column 'z'"):
        model.fit(str(files), y="z")
    with pytest.raises(ValueError, match=r"found 0 of them; a \.csv file has no types"):
        model.fit(str(files / "*.csv"), y="y")
    with pytest.raises(ValueError, match="0 rows"):
        model.fit(iter([]), y="y")
    with pytest.raises(ValueError, match="name a column of a data frame"):
        model.fit(X, y="y")
    with pytest.raises(ValueError, match="needs the rows themselves"):
        PrivateLinearRegression(trust="local", **SEEDED).fit(str(files), y="y")
    with pytest.raises(ValueError, match="X must be numbers"):
        model.fit(iter([TABLE.set_column(0, "a", pa.array(["secret"] * N))]), y="y")
    with pytest.raises(ValueError, match="X must be finite"):
        model.fit(iter([TABLE, TABLE.set_column(0, "a", pa.array([None] * N, pa.float64()))]), "y")


def test_partial_fit__says_what_to_do():
    model = PrivateLinearRegression(**SEEDED)
    assert not hasattr(model, "partial_fit")
    with pytest.raises(AttributeError, match=r"give fit all of them.*take a bandit"):
        model.partial_fit(X, Y)


def test_stored__blocks_are_the_rows_in_their_order():
    table = Stored(3, [(X[:10], Y[:10]), (X[10:], Y[10:])])
    x, y = map(np.concatenate, zip(*table, strict=True))
    np.testing.assert_array_equal(x, X)
    np.testing.assert_array_equal(y, Y)
    places = np.array([2999, 0, 15, 9, 10])
    x, y = map(np.concatenate, zip(*table.chosen(places), strict=True))
    np.testing.assert_array_equal(x, X[np.sort(places)])
    np.testing.assert_array_equal(y, Y[np.sort(places)])


def test_batches__of_other_libraries(tmp_path):
    polars = pytest.importorskip("polars")
    frames = [polars.from_arrow(each) for each in TABLE.to_batches(1000)]
    model = PrivateLinearRegression(**SEEDED).fit(iter(frames), y="y")
    np.testing.assert_allclose(model.coef_, PrivateLinearRegression(**SEEDED).fit(X, Y).coef_)
    assert sum(map(len, batches(iter(frames)))) == N


def test_progress__is_a_line_at_a_terminal_and_nothing_elsewhere(monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    shown = {}
    for kind in (io.StringIO, Terminal):
        monkeypatch.setattr(sys, "stderr", kind())
        progress = Progress("pass 1", 200)
        for _ in range(4):
            progress.at(50)
        progress.over()
        shown[kind] = sys.stderr.getvalue()
    assert not shown[io.StringIO]
    assert "pass 1: 75% rows" in shown[Terminal]
