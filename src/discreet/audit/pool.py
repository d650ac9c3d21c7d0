"""Pools of processes that stop at once: they leave Ctrl-C to us, and end when we are gone."""

import os
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import connection, get_context, parent_process
from typing import Any


@contextmanager
def process_pool(workers: int, start: str = "spawn") -> Iterator[ProcessPoolExecutor]:
    """A pool of `workers` processes, started by "spawn" or "forkserver".

    A fork would share our threads and random state. Whoever leaves by an exception, Ctrl-C among
    them, waits for nothing: work that has begun is cut off, so what it writes must be written
    completely or not at all.
    """
    pool = _Pool(workers, get_context(start), _as_worker)
    try:
        yield pool
    except BaseException:
        pool.cut_off()
        raise
    pool.shutdown()


class _Pool(ProcessPoolExecutor):
    """A pool whose processes are deaf to Ctrl-C from birth, not only once `_as_worker` runs."""

    def cut_off(self) -> None:
        """End all processes, and the thread that looks after them."""
        processes = list((self._processes or {}).values())
        manager: Any = self._executor_manager_thread
        self.shutdown(wait=False, cancel_futures=True)
        for process in processes:
            process.terminate()
        if manager is not None:  # at exit it is woken by a pipe that it may be closing just then
            manager.join(timeout=1.0)

    def submit(self, *arguments: Any, **options: Any) -> "Future[Any]":
        """As of any pool; it may start a process."""
        with _undisturbed():
            return super().submit(*arguments, **options)


@contextmanager
def _undisturbed() -> Iterator[None]:
    """Ctrl-C waits: processes that start here inherit that it is blocked, and are told all they
    need to start. Another thread may take the signal meanwhile, so its handler waits too."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[int] = []
    handler = signal.signal(signal.SIGINT, lambda number, _: came.append(number))
    blocks = hasattr(signal, "pthread_sigmask")
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT}) if blocks else set()
    try:
        yield
    finally:
        if blocks:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        signal.signal(signal.SIGINT, signal.SIG_DFL if handler is None else handler)
        if came:
            signal.raise_signal(signal.SIGINT)


def _as_worker() -> None:
    """In a worker: leave Ctrl-C to the parent, and end when it is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = parent_process()
    if parent is None:
        return

    def wait(sentinel: int) -> None:
        connection.wait([sentinel])
        os._exit(1)

    threading.Thread(target=wait, args=(parent.sentinel,), daemon=True).start()
