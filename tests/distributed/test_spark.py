"""Rows in Spark: the same fit as in memory; a task that dies is not counted twice."""

import os
import sys

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from discreet.features import DeclaredEncoder, Number
from discreet.regression import PrivateLinearRegression, PrivateLogisticRegression
from discreet.regression.base import IN_A_CLUSTER
from discreet.regression.baselines import AdaSSP

pytestmark = [
    pytest.mark.thorough,  # a virtual machine of Java takes seconds to start
    pytest.mark.filterwarnings("ignore"),  # Spark's own
]
N = 4000
SEEDED = {"epsilon": 1.0, "random_state": 0}
RNG = np.random.default_rng(0)
X = RNG.uniform(-0.5, 0.5, (N, 2))
Y = X @ [0.5, -0.2] + RNG.normal(0, 0.05, N)


@pytest.fixture(scope="module")
def spark():
    sql = pytest.importorskip("pyspark.sql")
    os.environ["PYSPARK_PYTHON"] = sys.executable
    local = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    quiet = {"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false"}
    builder = sql.SparkSession.builder.master("local[2,4]")
    for name, each in (local | quiet).items():
        builder = builder.config(name, each)
    try:
        session = builder.getOrCreate()
    except Exception as error:
        pytest.skip(f"no Java: {type(error).__name__}")
    yield session
    session.stop()


@pytest.fixture
def frame(spark, tmp_path):
    table = pa.table({"a": X[:, 0], "b": X[:, 1], "y": Y, "up": np.where(Y > 0, "yes", "no")})
    for k in range(4):
        parquet.write_table(table[k * 1000 : (k + 1) * 1000], tmp_path / f"{k}.parquet")
    return spark.read.parquet(*map(str, sorted(tmp_path.glob("*.parquet"))))


def test_fit__is_that_of_the_rows_in_memory(frame):
    expected = PrivateLinearRegression(**SEEDED).fit(X, Y)
    model = PrivateLinearRegression(**SEEDED).fit(frame.drop("up"), y="y")
    np.testing.assert_allclose(model.coef_, expected.coef_, rtol=1e-9)
    assert list(model.feature_names_in_) == ["a", "b"]
    more = set(model.guarantee_.unprotected) - set(expected.guarantee_.unprotected)
    assert more == set(IN_A_CLUSTER)
    classes = PrivateLogisticRegression(classes=("no", "yes"), **SEEDED)
    here = classes.fit(X, np.where(Y > 0, "yes", "no")).coef_.copy()
    np.testing.assert_allclose(classes.fit(frame.drop("y"), y="up").coef_, here, rtol=1e-6)


def test_pipeline__encodes_on_the_executors(frame):
    from sklearn.pipeline import make_pipeline

    encoder = DeclaredEncoder({"b": Number(-0.5, 0.5)})
    there = make_pipeline(encoder, PrivateLinearRegression(**SEEDED)).fit(frame, "y")
    here = make_pipeline(encoder, PrivateLinearRegression(**SEEDED)).fit({"b": X[:, 1]}, Y)
    np.testing.assert_allclose(there[-1].coef_, here[-1].coef_, rtol=1e-9)


def test_task__killed_and_retried_is_counted_once(frame, tmp_path):
    marks = str(tmp_path / "killed")

    def dies_once(batches):
        from pyspark import TaskContext

        context = TaskContext.get()
        name = f"{marks}-{context.stageId() % 2}-{context.partitionId()}"
        for at, batch in enumerate(batches):
            yield batch
            if at == 0 and not os.path.exists(name):
                open(name, "w").close()
                os._exit(1)  # the worker, after some of its rows were given on

    dying = frame.drop("up").mapInArrow(dies_once, "a double, b double, y double")
    model = AdaSSP(**SEEDED).fit(dying, y="y")
    expected = AdaSSP(**SEEDED).fit(X, Y)
    assert len(list(tmp_path.glob("killed-*"))) >= 2
    np.testing.assert_allclose(model.coef_, expected.coef_, rtol=1e-9)


def test_rows__of_very_many_are_chosen_where_they_are(frame, monkeypatch):
    from discreet.regression import central, sample

    for name, value in (("MANY_ROWS", 2000), ("EARLY_ROWS", 500)):
        for module in (central, sample):
            if hasattr(module, name):
                monkeypatch.setattr(module, name, value)
    rows = np.array(frame.drop("up").collect())  # in Spark's order, which is not that of names
    expected = PrivateLinearRegression(**SEEDED).fit(rows[:, :2], rows[:, 2])
    model = PrivateLinearRegression(**SEEDED).fit(frame.drop("up"), y="y")
    np.testing.assert_allclose(model.coef_, expected.coef_, rtol=1e-9)


def test_source__that_changes_between_passes_is_refused(frame):
    from pyspark.sql import functions

    shaken = frame.select("a", "b", functions.rand().alias("y"))
    noisy = shaken.select("a", "b", "y")

    def fresh(batches):
        import numpy

        for batch in batches:
            values = pa.array(numpy.random.default_rng().random(len(batch)))
            yield pa.RecordBatch.from_arrays([batch["a"], batch["b"], values], ["a", "b", "y"])

    unstable = noisy.mapInArrow(fresh, "a double, b double, y double")
    with pytest.raises(ValueError, match="the same in every pass"):
        PrivateLinearRegression(**SEEDED).fit(unstable, y="y")


def test_bad_row__is_refused_in_words_without_data(frame):
    from pyspark.sql import functions

    with pytest.raises(ValueError, match="X must be numbers") as error:
        PrivateLinearRegression(**SEEDED).fit(frame, y="y")
    assert "yes" not in str(error.value)
    none = frame.drop("up").withColumn("a", functions.lit(None).cast("double"))
    with pytest.raises(ValueError, match="X must be finite"):
        PrivateLinearRegression(**SEEDED).fit(none, y="y")
    with pytest.raises(ValueError, match="no column 'z'"):
        PrivateLinearRegression(**SEEDED).fit(frame, y="z")
