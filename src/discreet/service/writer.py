"""One writer for each replica: requests queue, and it takes all that wait as one commit.

A disk that needs five milliseconds for a sync makes two hundred commits a second, however many
requests wait; so the writer takes all of them, does them in one transaction for each bandit, and
answers them together. Those who were answered come back one after the other: for a small part of
the time that the last commit took, the writer waits for as many as it had.
"""

import asyncio
import queue
import threading
import time
from collections.abc import Callable, Hashable, Sequence
from typing import Any

from discreet.service.errors import Problem
from discreet.service.fence import RolledBack

Handler = Callable[[Sequence[Any]], Sequence[Any]]  # payloads -> results or exceptions

PATIENCE = 0.25  # of the last commit's time
MOST_PATIENCE = 0.002  # seconds


class Writer:
    """Runs handlers on a thread of its own, those of the same group together."""

    def __init__(self) -> None:
        self._queue: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="writer", daemon=True)
        self._loop: asyncio.AbstractEventLoop | None = None

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        """Begin to take jobs; results are delivered on this loop."""
        self._loop = loop
        self._thread.start()

    def stop(self) -> None:
        """Finish what waits, then stop."""
        if self._thread.is_alive():
            self._queue.put(None)
            self._thread.join()

    async def do(self, group: Hashable, handler: Handler, payload: Any) -> Any:
        """The handler's result for this payload; `group` says which payloads go together."""
        assert self._loop is not None
        future = self._loop.create_future()
        self._queue.put((group, handler, payload, future))
        return await future

    async def alone(self, work: Callable[[], Any]) -> Any:
        """What some work returns, by itself."""
        return await self.do(object(), lambda _: [work()], None)

    def _run(self) -> None:
        before, took = 0, 0.0
        while True:
            jobs = self._taken(before, min(PATIENCE * took, MOST_PATIENCE))
            began = time.perf_counter()
            groups: dict[Hashable, list[Any]] = {}
            for job in jobs:
                if job is not None:
                    groups.setdefault(job[0], []).append(job)
            for same in groups.values():
                self._deliver(same, _results(same))
            if None in jobs:
                return
            before, took = len(jobs), time.perf_counter() - began

    def _taken(self, before: int, patience: float) -> list[Any]:
        """All jobs that wait; a little later, if fewer do than the last time."""
        jobs = [self._queue.get()]
        until = time.perf_counter() + patience
        while True:
            while not self._queue.empty():
                jobs.append(self._queue.get())
            left = until - time.perf_counter()
            if len(jobs) >= before or left <= 0 or None in jobs:
                return jobs
            try:
                jobs.append(self._queue.get(timeout=left))
            except queue.Empty:
                return jobs

    def _deliver(self, jobs: list[Any], results: Sequence[Any]) -> None:
        assert self._loop is not None
        pairs = [(job[3], result) for job, result in zip(jobs, results, strict=True)]
        try:
            self._loop.call_soon_threadsafe(_settle, pairs)
        except RuntimeError:  # the loop is closed: nobody waits any more
            return


def _results(jobs: list[Any]) -> Sequence[Any]:
    handler = jobs[0][1]
    try:
        results: Sequence[Any] = handler([payload for _, _, payload, _ in jobs])
        return results
    except Exception as error:
        return [_problem(error)] * len(jobs)


def _problem(error: Exception) -> Exception:
    """Disks that are full or gone, and files that another replica holds, are the store's."""
    if isinstance(error, RolledBack):
        return Problem("rolled-back")
    return Problem("store-unavailable") if isinstance(error, OSError) else error


def _settle(pairs: list[Any]) -> None:
    for future, result in pairs:
        if future.done():  # the caller went away
            continue
        if isinstance(result, BaseException):
            future.set_exception(result)
        else:
            future.set_result(result)
