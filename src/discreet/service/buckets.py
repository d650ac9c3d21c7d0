"""Keys of what is kept for a while: destroyed on time, so that old pages of a database stay closed.

A decision that waits is sealed under the key of its bucket, and its id is hashed under it; a bucket
is an hour, a day or thirty days of deadlines, the longer the longer a decision waits. That an id
was used is remembered under the key of the day on which its wait is over, for KEPT_DAYS more.
"""

import math
import secrets
from collections.abc import Iterable
from pathlib import Path

from discreet.service.tokens import derived
from discreet.service.vault import MissingSecret, fsync_folder, make_once

DAY = 86400.0
KEPT_DAYS = 7  # for which an id is remembered once its decision is settled
SIZES = {"hour": 3600.0, "day": DAY, "month": 30 * DAY}
MOST_ALIVE = 32  # buckets of one size that a wait may span: an id is looked up in each
_SETTLED = "settled"


def day(now: float) -> int:
    """The number of a day, the finest time that is kept of what is settled."""
    return int(now // DAY)


def stored_id(key: bytes, name: bytes) -> bytes:
    """The id of a decision as a row holds it that is sealed under this key."""
    return derived(key, b"id", name)


class Buckets:
    """Keys in files, each destroyed when nothing that needs it is left."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder / "pending"
        self._folder.mkdir(mode=0o700, exist_ok=True)
        self._keys: dict[str, bytes] = {}

    @staticmethod
    def named(deadline: float, now: float) -> str:
        """The bucket of a deadline; without one, that of the time it was made."""
        if math.isinf(deadline):
            return f"month-{int(now // SIZES['month'])}"
        wait = deadline - now
        kind = next((each for each, size in SIZES.items() if wait <= MOST_ALIVE * size), "month")
        return f"{kind}-{int(deadline // SIZES[kind])}"

    @staticmethod
    def after(deadline: float, now: float) -> float:
        """A while after a deadline: the end of its day, or of its thirty days if a wait is long."""
        size = DAY if deadline - now <= MOST_ALIVE * DAY else SIZES["month"]
        return (deadline // size + 1) * size

    @staticmethod
    def of_settled(over: float) -> str:
        """The bucket of what is settled, by the time when its wait is over."""
        return f"{_SETTLED}-{day(over)}"

    def key(self, bucket: str, *, make: bool = False) -> bytes:
        """The key of a bucket, which is on disk when this returns."""
        path = self._folder / bucket
        # Another replica may have destroyed it: what is in memory alone seals nothing.
        there = path.exists()
        if not there and make:
            make_once(path, secrets.token_bytes(32))
        if not there:
            self._keys.pop(bucket, None)
        found = self._keys.get(bucket)
        if found is None:
            try:
                found = self._keys[bucket] = path.read_bytes()
            except FileNotFoundError:
                raise MissingSecret(f"the key of {bucket} is gone") from None
        return found

    def readable(self) -> tuple[list[bytes], list[bytes]]:
        """Keys under which ids may be stored now: of decisions that wait, and of settled ones."""
        waiting: list[bytes] = []
        settled: list[bytes] = []
        for bucket in self._alive():
            found = settled if bucket.startswith(_SETTLED) else waiting
            try:
                found.append(self.key(bucket))
            except MissingSecret:  # destroyed by another replica a moment ago
                continue
        return waiting, settled

    def destroy_unused(self, used: Iterable[str], now: float) -> None:
        """Destroy keys of buckets that are over and that no decision needs any more.

        One bucket later than its end: clocks of replicas differ.
        """
        needed = set(used)
        gone = False
        for bucket in self._alive():
            kind, _, number = bucket.partition("-")
            if kind == _SETTLED:
                is_over = int(number) < day(now) - KEPT_DAYS
            else:
                is_over = bucket not in needed and int(number) < int(now // SIZES[kind]) - 1
            if is_over:
                (self._folder / bucket).unlink(missing_ok=True)
                self._keys.pop(bucket, None)
                gone = True
        if gone:
            fsync_folder(self._folder)

    def _alive(self) -> list[str]:
        names = (path.name for path in self._folder.iterdir())
        return sorted(name for name in names if name.partition("-")[0] in (*SIZES, _SETTLED))
