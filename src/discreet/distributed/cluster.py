"""Calls that run on a Dask cluster: each is a pure function of its item, so who runs it is free.

A worker that dies costs time only: its calls run again elsewhere. Workers must have the versions of
the driver, because numbers are promised to be those of a run on one machine.
"""

import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import distributed as untyped
import numpy as np
import scipy

distributed: Any = untyped
Item = TypeVar("Item")
Result = TypeVar("Result")
PATIENCE = 15  # seconds for the scheduler to answer, and for a first worker


def results_of(
    call: Callable[[Item], Result], items: Sequence[Item], address: str, code: Callable[[], str]
) -> Iterator[tuple[Item, Result]]:
    """Items and their results as they come; `code` tells the library's source, here and there."""
    try:
        client = distributed.Client(address, timeout=PATIENCE, set_as_default=False)
    except (OSError, ValueError) as error:
        raise ValueError(f"no Dask scheduler answers at {address}: {error}") from None
    with client:
        _same_versions(client, code)
        futures = [client.submit(call, item, pure=False) for item in items]
        places = {future.key: item for future, item in zip(futures, items, strict=True)}
        try:
            for future in distributed.as_completed(futures, loop=client.loop):
                yield places[future.key], future.result()
        except BaseException:
            client.cancel(futures)
            raise


def versions(code: Callable[[], str]) -> dict[str, str]:
    """What decides numbers: of this library, and of those that compute."""
    python = ".".join(map(str, sys.version_info[:2]))
    return {
        "discreet": code(),
        "python": python,
        "numpy": np.__version__,
        "scipy": scipy.__version__,
    }


def _same_versions(client: Any, code: Callable[[], str]) -> None:
    try:
        client.wait_for_workers(1, timeout=PATIENCE)
    except TimeoutError:
        raise ValueError("the cluster has no worker; start one: dask worker ADDRESS") from None
    ours = versions(code)
    for worker, theirs in client.run(versions, code, on_error="return").items():
        if theirs != ours:
            found = theirs if isinstance(theirs, dict) else "no discreet"
            raise ValueError(f"worker {worker} has {found}; numbers need the same: {ours}")
