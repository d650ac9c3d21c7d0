"""Runs the cells of a plan in parallel processes. A killed run goes on where it was.

Every finished cell is one small file, written whole or not at all (a temporary file, renamed), and
named by what decides its numbers. So whoever runs the plan again finds what is done, and a plan
that was made larger runs only what is new.
"""

import json
import os
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing import connection, get_context, parent_process
from pathlib import Path

from discreet.experiments.cells import Record, read_record, run_cell, write_whole
from discreet.experiments.plan import Cell, Plan
from discreet.experiments.results import Results
from discreet.experiments.tasks import cells_of, check

Watch = Callable[[Cell, Record], object]  # told of every finished cell, old ones first
_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS")


def run(
    plan: Plan, out: Path, *, workers: int | None = None, watch: Watch | None = None
) -> Results:
    """Run what is not yet done, write results.parquet into `out`, return the results.

    `workers` is the number of processes: as many as there are cores, unless told. Numbers depend
    on the plan alone, never on `workers` or on the order in which cells finish. Each process starts
    afresh, so a script calls this under `if __name__ == "__main__":`.
    """
    check(plan)
    folder = out / "cells"
    folder.mkdir(parents=True, exist_ok=True)
    write_whole(out / "plan.json", json.dumps(plan.to_dict(), indent=2))
    cells, records = cells_of(plan), dict[str, Record]()
    for cell in cells:
        if (record := read_record(folder / f"{cell.key}.json")) is not None:
            records[cell.key] = record
            if watch:
                watch(cell, record)
    waiting = [cell for cell in cells if cell.key not in records]
    for cell, record in _finished(waiting, folder, workers or os.cpu_count() or 1):
        records[cell.key] = record
        if watch:
            watch(cell, record)
    results = Results(plan, [(cell, records[cell.key]) for cell in cells])
    results.save(out)
    return results


def load(out: Path) -> Results:
    """The results of a folder that `run` wrote, also if it was stopped on the way."""
    try:
        plan = Plan.from_dict(json.loads((out / "plan.json").read_text(encoding="utf-8")))
    except (OSError, ValueError):
        raise ValueError(f"{out} is no folder of a run; try: discreet run plan.toml") from None
    found = ((cell, read_record(out / "cells" / f"{cell.key}.json")) for cell in cells_of(plan))
    done = [(cell, record) for cell, record in found if record is not None]
    if not done:
        raise ValueError(f"{out} holds no finished cell of this version; run the plan again")
    return Results(plan, done)


def _finished(cells: list[Cell], folder: Path, workers: int) -> Iterator[tuple[Cell, Record]]:
    """Cells and their records as they come."""
    if not cells:
        return
    workers = min(workers, len(cells))
    if workers == 1:
        yield from ((cell, run_cell(cell, folder)) for cell in cells)
        return
    context = get_context("spawn")  # a fork would share the parent's threads and random state
    with _one_thread_each(), ProcessPoolExecutor(workers, context, _die_with_parent) as pool:
        jobs = {pool.submit(run_cell, cell, folder): cell for cell in cells}
        try:
            for job in as_completed(jobs):
                yield jobs[job], job.result()
        except BrokenProcessPool:
            raise ChildProcessError(
                "a process of the run died, perhaps for lack of memory; run it again with fewer "
                "workers: what is finished is kept"
            ) from None
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


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


def _die_with_parent() -> None:
    """In a worker: end when the runner was killed, and leave Ctrl-C to it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = parent_process()
    if parent is None:
        return

    def wait(sentinel: int) -> None:
        connection.wait([sentinel])
        os._exit(1)

    threading.Thread(target=wait, args=(parent.sentinel,), daemon=True).start()
