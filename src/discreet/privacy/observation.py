"""What is released, seen at the moment of its release: a tool for tests and audits.

Mechanisms, channels and running sums report every value that they publish. Nothing else is
reported: no private value, no noise, no state. An observer therefore sees what any attacker who
reads all outputs would see. While nobody observes, a report costs one comparison.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NamedTuple

import numpy as np

from discreet.privacy.release import Release

_observer: list["Observed"] | None = None
_kinds: tuple[str, ...] = ()  # that are observed; empty: all
_inside: ContextVar[bool] = ContextVar("_inside", default=False)


class Observed(NamedTuple):
    """A published value, a copy; of which kind; the record of its cost, where it has one.

    kind   "release" of a mechanism or of a sum that is published once, "sum" of a running sum,
           "report" through a channel, or "choice" by the exponential mechanism
    """

    kind: str
    value: Any  # a copy of what was published
    release: Release | None  # the record of its cost, where it has one


@contextmanager
def observed(*kinds: str) -> Iterator[list[Observed]]:
    """A list that fills with all that is published while the block runs, or with some kinds of it.

    Values published in one call stand in one entry. One block at a time, in one thread.
    """
    global _observer, _kinds
    if _observer is not None:
        raise RuntimeError("observed() is active already; use the list of the outer block")
    seen: list[Observed] = []
    _observer, _kinds = seen, kinds
    try:
        yield seen
    finally:
        _observer = None


@contextmanager
def unpublished() -> Iterator[None]:
    """What mechanisms compute in this block stays inside: it is part of a value not yet released.

    For a private computation that runs a mechanism on its way, such as a trial fit whose outcome
    becomes one vote: the vote's release is what is paid for and what is seen.
    """
    outside = _inside.set(True)
    try:
        yield
    finally:
        _inside.reset(outside)


def observe(kind: str, value: Any, release: Release | None = None) -> None:
    """Tell the observer, if there is one, that this value is published now."""
    if _observer is not None and not _inside.get() and (kind in _kinds or not _kinds):
        _observer.append(Observed(kind, np.array(value, dtype=np.float64), release))


def values(seen: list[Observed]) -> list[Any]:
    """The published values alone."""
    return [each.value for each in seen]
