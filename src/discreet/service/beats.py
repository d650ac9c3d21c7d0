"""Which servers live: each beats in the database, whatever database that is.

Of an SQLite file the lock says it. On PostgreSQL nobody's clock is asked, and a copy holds beats of
servers that are not its own: a server lives if it beats while somebody looks on.
"""

import time

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from discreet.service import migrations, rows
from discreet.service import store as tables
from discreet.service.errors import Problem
from discreet.service.store import Store

EVERY = 1.0  # seconds between two beats
LOOKS = 3.0  # seconds that somebody looks on


def beat(connection: Connection, run: bytes) -> dict[bytes, int]:
    """Say that a run lives; not in a store that only one server can have. Returns all beats."""
    found = {bytes(each): n for each, n in rows.find(connection, tables.beats)}
    found[run] = found.get(run, -1) + 1
    rows.put(connection, tables.beats, [{"run": run, "beat": found[run]}])
    return found


class Crowd:
    """How many servers live, as one that beats itself hears it."""

    def __init__(self) -> None:
        self._before: dict[bytes, int] = {}
        self._heard: dict[bytes, float] = {}

    def hear(self, beats: dict[bytes, int]) -> int:
        """How many have beaten lately; this one is among them."""
        now = time.monotonic()
        for run, n in beats.items():
            if self._before.get(run) != n:
                self._heard[run] = now
        self._before = beats
        self._heard = {r: at for r, at in self._heard.items() if r in beats and now - at < LOOKS}
        return max(1, len(self._heard))


def end(store: Store, run: bytes) -> None:
    """A run has ended; if that cannot be said, nobody hears it beat any more."""
    if store.is_sqlite:
        return
    try:
        with store.transaction() as connection:
            rows.delete(connection, tables.beats, run=run)
    except (Problem, sa.exc.DatabaseError):
        return


def alive(store: Store) -> int:
    """How many other servers work on this database; it takes a few seconds if some have."""
    before = _heard(store)
    ends = time.monotonic() + LOOKS
    while before and time.monotonic() < ends:
        time.sleep(EVERY / 4)
        new = _heard(store).items() - before.items()
        if new:
            return len(new)
    return 0


def assert_none_is_older(store: Store) -> None:
    """Raise ValueError if servers live on an earlier schema, which a later one would change."""
    try:
        with store.transaction() as connection:
            found = migrations.found(connection)
    except (Problem, sa.exc.DatabaseError):
        return  # whoever opens it will say what is wrong
    if found is not None and found < migrations.CURRENT and alive(store):
        raise ValueError(
            f"servers of an earlier version work on {store.shown}, which this one would change: "
            "stop them all first"
        )


def _heard(store: Store) -> dict[bytes, int]:
    if store.is_sqlite:
        return {}
    with store.transaction() as connection:
        if not sa.inspect(connection).has_table("beats"):
            return {}
        return {bytes(run): n for run, n in rows.find(connection, tables.beats)}
