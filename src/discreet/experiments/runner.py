"""The one runner: cells in parallel processes, or on a cluster. A killed run resumes.

Every finished cell is one small file, written completely or not at all (a temporary file, renamed),
and named by what decides its numbers. So whoever runs an experiment again finds what is done, and
one that was made larger runs only what is new.
"""

import json
import math
import os
import re
import tempfile
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Protocol, TypeVar

from discreet.audit.pool import process_pool
from discreet.experiments.experiment import Cell, Experiment
from discreet.experiments.results import Results
from discreet.experiments.source import data_digest, digest
from discreet.experiments.tasks import TASKS, cells_of, check
from discreet.experiments.writing import write_atomically

Record = Mapping[str, Any]  # what a cell's file holds
Watch = Callable[[Cell, Record], object]  # told of every finished cell, old ones first


class Keyed(Protocol):
    """Whatever can be run once and found again by its key."""

    @property
    def key(self) -> str:
        """The name of its file."""


C = TypeVar("C", bound=Keyed)
_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS")


def run(
    experiment: Experiment,
    out: Path,
    *,
    workers: int | None = None,
    cluster: str | None = None,
    watch: Watch | None = None,
) -> Results:
    """Run what is not yet done, write results.parquet into `out`, return the results.

    `workers` is the number of processes, by default one for each core. `cluster` is the address of
    a Dask scheduler ("tcp://..."), whose workers take their place. Numbers depend on the experiment
    alone, never on who runs a cell or on the order in which cells finish. Each process starts
    afresh, so a script calls this under `if __name__ == "__main__":`.
    """
    check(experiment)
    folder = out / "cells"
    folder.mkdir(parents=True, exist_ok=True)
    write_atomically(out / "experiment.json", json.dumps(experiment.to_dict(), indent=2))
    cells = cells_of(experiment)
    records: dict[str, Record] = {}
    with closing(
        finished(cells, folder, run_cell, workers=workers, cluster=cluster)
    ) as coming:  # whoever is interrupted between two cells ends the processes too
        for cell, record in coming:
            records[cell.key] = record
            if watch:
                watch(cell, record)
    results = Results(experiment, [(cell, records[cell.key]) for cell in cells])
    results.save(out)
    return results


def load(out: Path) -> Results:
    """The results of a folder that `run` wrote, also if it was stopped on the way."""
    try:
        text = (out / "experiment.json").read_text(encoding="utf-8")
        experiment = Experiment.from_dict(json.loads(text))
    except (OSError, ValueError):
        raise ValueError(
            f"{out} is not the folder of a run; try: discreet run experiment.toml"
        ) from None
    cells = cells_of(experiment)
    found = ((cell, read_record(out / "cells" / f"{cell.key}.json")) for cell in cells)
    done = [(cell, record) for cell, record in found if record is not None]
    if not done:
        raise ValueError(
            f"{out} holds no finished cell of this version on today's data files; run the "
            "experiment again, from the folder that its paths start from"
        )
    return Results(experiment, done)


def finished(
    cells: Sequence[C],
    folder: Path,
    run: Callable[[C, Path], Record],
    *,
    workers: int | None,
    cluster: str | None = None,
) -> Generator[tuple[C, Record]]:
    """Cells and their records: first those that have a file, then the others as they come.

    `run` takes a cell and the folder, writes the cell's file, and returns what is in it; it is
    called in other processes, so it stands at the top of a module.
    """
    if cluster is not None and not re.fullmatch(r"[a-z]+://.+", cluster):
        raise ValueError(f"--cluster must be an address such as tcp://HOST:PORT, got {cluster!r}")
    if cluster is not None and workers is not None:
        raise ValueError("--workers counts processes here, --cluster has its own: give one of them")
    waiting = []
    for cell in cells:
        if (record := read_record(folder / f"{cell.key}.json")) is not None:
            yield cell, record
        else:
            waiting.append(cell)
    if not waiting:
        return
    if cluster is not None:
        yield from _far(waiting, folder, run, cluster)
        return
    workers = min(workers or os.cpu_count() or 1, len(waiting))
    if workers == 1:
        yield from ((cell, run(cell, folder)) for cell in waiting)
        return
    with _one_thread_each(), process_pool(workers) as pool:
        jobs = {pool.submit(run, cell, folder): cell for cell in waiting}
        try:
            for job in as_completed(jobs):
                yield jobs[job], job.result()
        except BrokenProcessPool:
            raise ChildProcessError(
                "a process of the run died, perhaps for lack of memory; run it again with fewer "
                "workers: what is finished is kept"
            ) from None


def _far(
    cells: Sequence[C], folder: Path, run: Callable[[C, Path], Record], cluster: str
) -> Iterator[tuple[C, Record]]:
    """Cells and their records from a cluster: records travel, files are written here."""
    try:
        from discreet.distributed.cluster import results_of
    except ImportError:
        raise ValueError("--cluster needs Dask: pip install 'discreet[distributed]'") from None
    for cell, record in results_of(partial(_run_far, run), cells, cluster, digest):
        write_atomically(folder / f"{cell.key}.json", json.dumps(record))
        yield cell, record


def _run_far(run: Callable[[C, Path], Record], cell: C) -> Record:
    """On a worker, which may not see our files: what it returns is what counts."""
    with tempfile.TemporaryDirectory() as folder:
        return run(cell, Path(folder))


@contextmanager
def _one_thread_each() -> Iterator[None]:
    """New processes get one thread for linear algebra: they would slow each other down."""
    before = {name: os.environ.get(name) for name in _THREADS}
    os.environ.update(dict.fromkeys(_THREADS, "1"))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


# -- one cell, and its file ------------------------------------------------------------------------


def run_cell(cell: Cell, folder: Path) -> Record:
    """Run one cell and write its file."""
    outcome = TASKS[cell.task].run(cell)
    if data_digest(cell.environment.options) != cell.data:
        raise ValueError(
            f"a data file of {cell.environment.title} has changed since the run began; run it again"
        )
    guarantee = outcome.guarantee
    record = {
        "n": outcome.n.tolist(),
        "value": outcome.value.tolist(),
        "blind": outcome.blind.tolist(),
        "trust": guarantee.trust if guarantee.private else "none",
        "delta": guarantee.delta if guarantee.private else 0.0,
        "statement": guarantee.statement(),
        "seconds": dict(outcome.seconds),
    }
    if not all(map(math.isfinite, record["value"])):
        raise ValueError(
            f"{cell.learner.title} on {cell.environment.title} has values that are not finite"
        )
    write_atomically(folder / f"{cell.key}.json", json.dumps(record))
    return record


def read_record(path: Path) -> Record | None:
    """What a cell's file holds; None if it is not there or damaged."""
    try:
        record: Record = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return record
