"""One linear fit of more rows than memory should hold: arrays, a stream of Parquet files, Dask and
Spark, beside scikit-learn's ridge regression. Rows for each second of a core, and the memory of the
largest process, less what a fit of a few rows takes. Every fit runs in a process of its own; times
are processor times of it and its children, so that they mean the same on a busy machine.

    OMP_NUM_THREADS=1 python benchmarks/bigdata.py [ROWS ...]      # 10^6 and 10^7

Without pyspark (and Java) Spark is left out.
"""

import os
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyarrow import parquet

DIM = 20
FILE = 10**6  # rows
FEW = 10_000  # rows whose fit tells what starting takes
HOW = ("scikit-learn", "arrays", "stream", "dask", "spark")
SIZES = (10**6, 10**7)


def write(folder: Path, n: int) -> None:
    """Files of at most FILE rows."""
    weights = np.linspace(-1, 1, DIM) / DIM
    for k, start in enumerate(range(0, n, FILE)):
        rng = np.random.default_rng(k)
        X = rng.uniform(-1, 1, (min(FILE, n - start), DIM)) / np.sqrt(DIM)
        columns = {f"x{j}": X[:, j] for j in range(DIM)}
        columns["y"] = X @ weights + 0.1 * rng.standard_normal(len(X))
        parquet.write_table(pa.table(columns), folder / f"{k:04}.parquet", row_group_size=2**16)


def fit(how: str, folder: str) -> None:
    """What is measured, from files to coefficients."""
    from discreet.regression import PrivateLinearRegression

    model = PrivateLinearRegression(1.0, random_state=0)
    if how == "stream":
        model.fit(folder, y="y")
    elif how == "dask":
        from dask import dataframe

        table = dataframe.read_parquet(folder)
        model.fit(table, y="y")
    elif how == "spark":
        from pyspark.sql import SparkSession

        os.environ["PYSPARK_PYTHON"] = sys.executable
        builder = SparkSession.builder.master("local[2]")
        for place in ("host", "bindAddress"):
            builder = builder.config(f"spark.driver.{place}", "127.0.0.1")
        session = builder.config("spark.ui.enabled", "false").getOrCreate()
        model.fit(session.read.parquet(folder), y="y")
        session.stop()
    else:
        table = parquet.read_table(folder)
        y = table["y"].to_numpy()
        X = np.column_stack([table[f"x{j}"].to_numpy() for j in range(DIM)])
        if how == "arrays":
            model.fit(X, y)
        else:
            from sklearn.linear_model import Ridge

            Ridge(fit_intercept=False).fit(X, y)


def measured(how: str, folder: Path) -> tuple[float, float]:
    """Seconds of processors, and MB."""
    log = subprocess.DEVNULL
    child = subprocess.Popen([sys.executable, __file__, how, str(folder)], stdout=log, stderr=log)
    _, status, used = os.wait4(child.pid, 0)
    if status:
        raise SystemExit(f"{how}: the fit failed")
    return used.ru_utime + used.ru_stime, used.ru_maxrss / 1024


def written(folder: str, n: int) -> None:
    """Also by a process of its own: a child's memory counts as no less than its parent's."""
    subprocess.run([sys.executable, __file__, "write", folder, str(n)], check=True)


def main(sizes: list[int]) -> None:
    from kit import KeepingConsole
    from rich.table import Table

    console = KeepingConsole(width=100)
    shown = Table("rows", "how", "rows / s of a core", "MB", title=f"A linear fit of {DIM} columns")
    ways = [how for how in HOW if how != "spark" or find_spec("pyspark")]
    with tempfile.TemporaryDirectory() as few:
        written(few, FEW)
        start = {how: measured(how, Path(few)) for how in ways}
    for n in sizes:
        with tempfile.TemporaryDirectory() as folder:
            written(folder, n)
            for how in ways:
                seconds, memory = measured(how, Path(folder))
                speed = (n - FEW) / max(seconds - start[how][0], 1e-9)
                shown.add_row(f"{n:,}", how, f"{speed:,.0f}", f"{memory - start[how][1]:,.0f}")
    console.print(shown)


if __name__ == "__main__":
    if sys.argv[1:2] == ["write"]:
        write(Path(sys.argv[2]), int(sys.argv[3]))
    elif len(sys.argv) == 3 and sys.argv[1] in HOW:
        fit(*sys.argv[1:])
    else:
        main([int(float(each)) for each in sys.argv[1:]] or list(SIZES))
