"""The fence: an append-only file outside the database that a rollback cannot take back.

It holds the instance, the epoch, a sequence number, and what must never be forgotten: charges,
revoked keys, retirements, limits, starts of servers. Whoever changes one of these commits to the
database first, with the next sequence number, then appends to the fence and waits for the disk,
then goes on; holding the fence all the while, so that replicas take turns. So the fence may be one
step behind the database (a crash in between, or a disk that failed), never ahead: a database behind
its fence is old. A missing step is appended before anything else is committed, and room for the
next one is on the disk before its commit, so that no failure leaves it two steps behind: a fence
that is, is a copy.

Each line is JSON with a checksum of itself and of the line before.
"""

import errno
import hashlib
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from discreet.service.vault import exclusive, make_once, write_all

ROOM = 4096  # bytes that are on the disk before they are needed


class RolledBack(RuntimeError):  # noqa: N818 - it states a fact
    """The database is not the one this fence guards, or an older version of it."""


class Foreign(RolledBack):
    """The fence of another instance."""


@dataclass(frozen=True, slots=True)
class Mark:
    """One thing that must not be forgotten."""

    sequence: int  # place in the history of the instance
    epoch: str  # of the store
    what: str  # start, charge, limit, revoke, retire, turn, epoch, witness
    about: dict[str, Any]  # what is needed to do it again


class Fence:
    """Appends marks and reads them back; only what is new since the last look is read again.

    folder     of the secrets
    instance   whose history this is: another one's fence is refused
    """

    def __init__(self, folder: Path, instance: str) -> None:
        self.path = folder / "fence.log"
        self.instance = instance
        self._marks: list[Mark] = []
        self._checksum = ""
        self._end = 0  # of what was read
        self._last = b""  # line of it
        self._file = (0, 0)  # device and inode

    @property
    def last(self) -> int:
        """The last sequence number of what was done, when it was last looked at; words for the
        witness only announce."""
        marks = reversed(self._marks)
        return next((each.sequence for each in marks if each.what != "witness"), 0)

    def begin(self) -> None:
        """Make the file, naming the instance it guards; one that is there stays."""
        make_once(self.path, _line({"instance": self.instance}, ""))

    @contextmanager
    def held(self) -> Iterator["Grip"]:
        """Hold the fence: no other replica turns or charges meanwhile."""
        handle = self._opened(os.O_RDWR)
        try:
            with exclusive(handle):
                self._wipe(handle, self._read(handle))
                yield Grip(self, handle)
        finally:
            os.close(handle)

    def look(self) -> "Grip":
        """What stands there now, without holding it: another replica may go on meanwhile."""
        handle = self._opened(os.O_RDONLY)
        try:
            self._read(handle)
        finally:
            os.close(handle)
        return Grip(self, -1)

    def marks(self) -> list[Mark]:
        """All marks, in order; raises `RolledBack` if the file is another instance's or damaged."""
        with self.held():
            return list(self._marks)

    def _opened(self, flags: int) -> int:
        try:
            return os.open(self.path, flags)
        except FileNotFoundError:
            raise RolledBack(
                "the secrets folder has no fence, but the database is not new: set "
                "DISCREET_SECRETS to the folder of this database, or put back all of it"
            ) from None

    def _written(self, mark: Mark) -> bytes:
        record = {
            "sequence": mark.sequence,
            "epoch": mark.epoch,
            "what": mark.what,
            "about": mark.about,
        }
        return _line(record, self._checksum)

    def _append(self, handle: int, mark: Mark) -> None:
        line = self._written(mark)
        self._reserve(handle, len(line))
        write_all(handle, line, self._end)
        os.fsync(handle)
        self._read(handle)
        if self._marks[-1:] != [Mark(**json.loads(json.dumps(asdict(mark))))]:
            raise OSError(errno.EIO, "the fence does not hold what was written")

    def _reserve(self, handle: int, length: int) -> None:
        """See that there is room for so many bytes, on the disk: what follows cannot be full."""
        size = os.fstat(handle).st_size
        missing = self._end + length - size
        if missing > 0:
            write_all(handle, bytes(missing + ROOM), size)
            os.fsync(handle)

    def _read(self, handle: int) -> int:
        """Take over new lines; returns how many bytes follow that are no line.

        A line is followed by room, which is zeros. One that is not whole, or has zeros in it, was
        being written when the power failed, or is right now: it was never relied on.
        """
        status = os.fstat(handle)
        file = (status.st_dev, status.st_ino)
        before = os.pread(handle, len(self._last), self._end - len(self._last))
        if file != self._file or before != self._last:  # another file, or its content
            self._file = file
            self._marks, self._checksum, self._end, self._last = [], "", 0, b""
        raw = os.pread(handle, status.st_size - self._end, self._end).rstrip(b"\0")
        whole = raw.partition(b"\0")[0]
        *lines, _ = whole.split(b"\n")
        for line in lines:
            self._take(line)
        if self._end == 0:
            raise RolledBack("the fence is empty; use `discreet restore`")
        return len(raw) - sum(len(line) + 1 for line in lines)

    def _wipe(self, handle: int, length: int) -> None:
        """Make room of what is no line."""
        if length:
            write_all(handle, bytes(length), self._end)

    def _take(self, line: bytes) -> None:
        try:
            record = json.loads(line)
            stated = record.pop("checksum")
            checksum = _checksum(record, self._checksum)
            mark = None if self._end == 0 else Mark(**record)
            foreign = mark is None and record["instance"] != self.instance
        except (ValueError, KeyError, AttributeError, TypeError):
            raise RolledBack("the fence is damaged; use `discreet restore`") from None
        if stated != checksum:
            raise RolledBack("the fence is damaged; use `discreet restore`")
        if foreign:
            raise Foreign(
                "the fence in the secrets folder belongs to another instance than the "
                "database: set DISCREET_SECRETS and DISCREET_STORE to a pair that belongs together"
            )
        if mark is not None:
            self._marks.append(mark)
        self._checksum = checksum
        self._end += len(line) + 1
        self._last = line + b"\n"


class Grip:
    """The fence while it is held, or looked at."""

    def __init__(self, fence: Fence, handle: int) -> None:
        self._fence, self._handle = fence, handle

    @property
    def last(self) -> int:
        """The last sequence number of what was done."""
        return self._fence.last

    def last_of(self, what: str) -> Mark | None:
        marks = self._fence._marks
        return next((each for each in reversed(marks) if each.what == what), None)

    @property
    def marks(self) -> list[Mark]:
        return list(self._fence._marks)

    @property
    def revoked(self) -> set[str]:
        """Ids of all keys that were ever revoked."""
        found: set[str] = set()
        for mark in self._fence._marks:
            if mark.what == "revoke":
                found.add(mark.about["key"])
            elif mark.what == "everything":
                found |= set(mark.about["revoked"])
        return found

    def reserve(self, mark: Mark) -> None:
        """Have room for a mark, and for a word of the witness before it, or raise `OSError`.

        Called before the commit that the mark is about: a full disk refuses what it cannot keep.
        """
        self._fence._reserve(self._handle, len(self._fence._written(mark)) + ROOM)

    def probe(self) -> None:
        """Write where the next mark will stand, or raise `OSError`."""
        fence = self._fence
        fence._reserve(self._handle, 1)
        write_all(self._handle, bytes(1), fence._end)
        os.fsync(self._handle)

    def append(self, mark: Mark) -> None:
        """Add a mark; it is on disk, whole, when this returns."""
        self._fence._append(self._handle, mark)


def _checksum(record: dict[str, Any], before: str) -> str:
    text = before + json.dumps(record, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def _line(record: dict[str, Any], before: str) -> bytes:
    full = {**record, "checksum": _checksum(record, before)}
    return json.dumps(full, sort_keys=True).encode() + b"\n"
