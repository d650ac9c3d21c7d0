"""More than one machine: rows and reports for each second, memory, latency, for docs/scale.md (what
one machine does with bandits is in growth.py). Processor times: they mean the same on a busy one.

    OMP_NUM_THREADS=1 python benchmarks/scale.py
"""

import math
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import dask
import dask.array as da
import numpy as np
from distributed import Client, LocalCluster
from kit import KeepingConsole
from rich.table import Table

from discreet.distributed.rows import open_blocks
from discreet.local.files import take_files
from discreet.local.report import report_many
from discreet.privacy import SeededNoise
from discreet.regression import PrivateGLM, PrivateLinearRegression
from discreet.regression.local_server import Server
from discreet.regression.rows import sums

CONSOLE = KeepingConsole(width=110)
DIM = 10
ACTIONS = 10
REPORT_DIM = 8
PEOPLE = 10**6  # reports in a file


def block(n: int, seed: int, link: bool) -> np.ndarray:  # (n, DIM + 1)
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n, DIM)) / math.sqrt(DIM)
    t = X @ np.linspace(-1, 1, DIM)
    y = rng.random(n) < 1 / (1 + np.exp(-3 * t)) if link else t + 0.3 * rng.standard_normal(n)
    return np.column_stack([X, y])


def table_of(n: int, blocks: int, link: bool) -> da.Array:
    """Rows that are made where they are looked at."""
    parts = [
        da.from_delayed(dask.delayed(block)(n // blocks, k, link), (n // blocks, DIM + 1), float)
        for k in range(blocks)
    ]
    return da.concatenate(parts)


def fit(make: type, X: object, y: object) -> object:
    return make(noise=SeededNoise(1), random_state=1).fit(X, y)


def fits() -> None:
    """Rows for each second of one core of a worker, of a whole fit."""
    n = 2_000_000
    blocks = 16
    table = Table(title=f"A fit on {n:,} rows, d = {DIM}, epsilon = 1: processor time")
    for column in ("estimator", "in memory", f"{blocks} blocks: workers", "driver", "rows/s a core",
                   "largest difference"):  # fmt: skip
        table.add_column(column, justify="right")
    local = LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0")
    with local as cluster, Client(cluster) as client:
        for name, make in (("linear", PrivateLinearRegression), ("logistic", PrivateGLM)):
            (data,) = dask.persist(table_of(n, blocks, name == "logistic"))
            rows = data.compute()
            X = np.ascontiguousarray(rows[:, :DIM])
            y = rows[:, DIM].copy()
            here, one = timed(fit, make, X, y)
            driver, far, two = timed_far(client, fit, make, data[:, :DIM], data[:, DIM])
            table.add_row(name, f"{here:.2f} s", f"{far:.2f} s", f"{driver:.2f} s",
                          f"{n / far:,.0f}",
                          f"{np.abs(one.coef_ - two.coef_).max():.0e}")  # fmt: skip
            del data, rows, X, y
    CONSOLE.print(table)


def release() -> None:
    """Seconds at the driver for all stages of a fit: what is left when there are no rows."""
    table = Table(title="At the driver: all stages of one fit (plan, noise, ledger, posterior)")
    for column in ("d", "linear", "logistic"):
        table.add_column(column, justify="right")
    for d in (10, 50, 100):
        X = np.random.default_rng(0).uniform(-1, 1, (200, d)) / math.sqrt(d)
        y = (X[:, 0] > 0).astype(float)
        seconds = [timed(fit, make, X, y)[0] for make in (PrivateLinearRegression, PrivateGLM)]
        table.add_row(str(d), *(f"{1e3 * each:.0f} ms" for each in seconds))
    CONSOLE.print(table)


def latency() -> None:
    """Of the driver and its scheduler, for each block of a pass: they cannot be made more."""
    table = Table(title="A pass over blocks of 10 rows on 2 workers: processor time")
    for column in ("blocks", "driver and scheduler", "for each block", "workers"):
        table.add_column(column, justify="right")
    local = LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0")
    with local as cluster, Client(cluster) as client:
        for blocks in (16, 128, 512):
            (data,) = dask.persist(table_of(10 * blocks, blocks, False))
            X, y = open_blocks(data[:, :DIM], data[:, DIM], pair, columns=DIM)
            seconds, far, _ = timed_far(client, sums, moments, X, y)
            each = 1e3 * seconds / blocks
            table.add_row(f"{blocks:,}", f"{seconds:.2f} s", f"{each:.1f} ms", f"{far:.2f} s")
    CONSOLE.print(table)


def pair(X: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return X, y


def moments(X: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, ...]:
    return X.T @ X, X.T @ y


def reports() -> None:
    """Streams files of reports in a process of its own, whose peak memory is asked."""
    table = Table(title=f"Reports streamed from files into a server's sums, d = {REPORT_DIM}")
    for column in ("reports", "files", "bytes on disk", "reports/s", "peak memory"):
        table.add_column(column, justify="right")
    with tempfile.TemporaryDirectory() as folder:
        first = Path(folder) / "0.npy"
        # A child inherits the peak of its parent, which must stay small: others make the reports.
        subprocess.run([sys.executable, __file__, "--write", str(first)], check=True)
        paths = [first]
        for k in range(1, 10):  # the same reports again: sums do not care
            paths.append(Path(folder) / f"{k}.npy")
            shutil.copyfile(first, paths[-1])
        for count in (0, 1, 3, 10):
            command = [sys.executable, __file__, "--stream", *map(str, paths[:count])]
            done = subprocess.run(command, capture_output=True, text=True, check=True)
            seconds, peak = map(float, done.stdout.split())
            rate = count * PEOPLE / seconds if count else 0.0
            size = sum(path.stat().st_size for path in paths[:count])
            table.add_row(f"{count * PEOPLE:,}", str(count), f"{size / 1e6:,.0f} MB",
                          f"{rate:,.0f}" if count else "", f"{peak / 1e6:.0f} MB")  # fmt: skip
    CONSOLE.print(table)


def write(path: str) -> None:
    """The reports of PEOPLE people in a file."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (PEOPLE, REPORT_DIM)) / math.sqrt(REPORT_DIM)
    state = Server(REPORT_DIM, 2 * PEOPLE, 1.0).ask()
    reports = report_many(X, X[:, 0], state, np.full(len(X), 0.9), SeededNoise(0))
    np.save(path, np.concatenate([report.values for report in reports if len(report.values)]))


def stream(paths: list[str]) -> None:
    """In a process of its own: add up, print processor time and the peak of memory in bytes."""
    server = Server(REPORT_DIM, 2 * PEOPLE, 1.0)
    start = time.process_time()
    refused = take_files(server, "moment", paths, window=0)
    seconds = time.process_time() - start
    assert refused == 0
    print(seconds, 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)


def timed(work: Callable[..., Any], *arguments: Any) -> tuple[float, Any]:
    """Processor time, the median of three runs, and what was found."""
    used = []
    for _ in range(3):
        start = time.process_time()
        result = work(*arguments)
        used.append(time.process_time() - start)
    return median(used), result


def timed_far(
    client: Client, work: Callable[..., Any], *arguments: Any
) -> tuple[float, float, Any]:
    """The same of the driver (with its scheduler) and of all workers, each by itself."""
    used = []
    far = []
    for _ in range(3):
        start = time.process_time()
        before = sum(client.run(time.process_time).values())
        result = work(*arguments)
        used.append(time.process_time() - start)
        far.append(sum(client.run(time.process_time).values()) - before)
    return median(used), median(far), result


def main() -> None:
    if "--stream" in sys.argv:
        stream(sys.argv[sys.argv.index("--stream") + 1 :])
        return
    if "--write" in sys.argv:
        write(sys.argv[-1])
        return
    reports()
    release()
    latency()
    fits()


if __name__ == "__main__":
    main()
