"""The fence: an append-only file outside the database that a rollback cannot take back.

It holds the instance, the epoch, a sequence number, and what must never be forgotten: charges,
revoked keys, retirements, limits, starts of servers. Whoever changes one of these commits to the
database first, with the next sequence number, then appends to the fence and waits for the disk,
then goes on; holding the fence all the while, so that replicas take turns. So the fence may be one
step behind the database (a crash in between), never ahead: a database behind its fence is old.

Each line is JSON with a checksum of itself and of the line before.
"""

import hashlib
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from discreet.service.errors import Problem
from discreet.service.vault import exclusive, make_once


class RolledBack(RuntimeError):  # noqa: N818 - it states a fact
    """The database is not the one this fence guards, or an older version of it."""


def rolled_back() -> Problem:
    """The database under a running server is an old one."""
    return Problem(
        503,
        "rolled-back",
        "The database is older than what this service has published.",
        "Nothing was changed. Stop all servers and run `discreet restore`.",
    )


class Foreign(RolledBack):
    """The fence of another instance."""


@dataclass(frozen=True, slots=True)
class Mark:
    """One thing that must not be forgotten.

    sequence   place in the history of the instance
    epoch      of the store
    about      what is needed to do it again
    """

    sequence: int
    epoch: str
    what: str  # start, charge, limit, revoke, retire, turn, epoch, witness
    about: dict[str, Any]


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
        self._file = (0, 0)  # device and inode

    def begin(self) -> None:
        """Make the file, naming the instance it guards; one that is there stays."""
        make_once(self.path, _line({"instance": self.instance}, ""))

    @contextmanager
    def held(self) -> Iterator["Grip"]:
        """Hold the fence: no other replica turns or charges meanwhile."""
        try:
            handle = os.open(self.path, os.O_RDWR)
        except FileNotFoundError:
            raise RolledBack(
                "the secrets folder has no fence, but the database is not new: it may be a copy "
                "or a backup. If it is, run `discreet restore`"
            ) from None
        try:
            with exclusive(handle):
                self._read(handle)
                yield Grip(self, handle)
        finally:
            os.close(handle)

    def marks(self) -> list[Mark]:
        """All marks, in order; raises `RolledBack` if the file is another instance's or damaged."""
        with self.held():
            return list(self._marks)

    def _append(self, handle: int, mark: Mark) -> None:
        record = {
            "sequence": mark.sequence,
            "epoch": mark.epoch,
            "what": mark.what,
            "about": mark.about,
        }
        os.pwrite(handle, _line(record, self._checksum), self._end)
        os.fsync(handle)
        self._read(handle)

    def _read(self, handle: int) -> None:
        status = os.fstat(handle)
        if (status.st_dev, status.st_ino) != self._file or status.st_size < self._end:
            self._file = (status.st_dev, status.st_ino)
            self._marks, self._checksum, self._end = [], "", 0
        raw = os.pread(handle, status.st_size - self._end, self._end)
        *lines, torn = raw.split(b"\n")
        if torn:  # a power failure while appending: that mark was never relied on
            os.ftruncate(handle, status.st_size - len(torn))
        for line in lines:
            try:
                record = json.loads(line)
                stated = record.pop("checksum")
                checksum = _checksum(record, self._checksum)
                if self._end == 0:
                    foreign = record["instance"] != self.instance
                else:
                    foreign = False
                    self._marks.append(Mark(**record))
            except (ValueError, KeyError, AttributeError, TypeError):
                raise RolledBack("the fence is damaged; use `discreet restore`") from None
            if stated != checksum:
                raise RolledBack("the fence is damaged; use `discreet restore`")
            if foreign:
                raise Foreign(
                    "the fence in the secrets folder belongs to another instance than the "
                    "database; use the secrets folder of this database, or `discreet restore`"
                )
            self._checksum = checksum
            self._end += len(line) + 1
        if self._end == 0:
            raise RolledBack("the fence is empty; use `discreet restore`")


class Grip:
    """The fence while it is held.

    fence    that is held
    handle   of its locked file
    """

    def __init__(self, fence: Fence, handle: int) -> None:
        self._fence, self._handle = fence, handle

    @property
    def last(self) -> int:
        """The last sequence number of what was done; words for the witness only announce."""
        marks = self._fence._marks
        return next((each.sequence for each in reversed(marks) if each.what != "witness"), 0)

    def last_of(self, what: str) -> Mark | None:
        """The last mark of a kind."""
        marks = self._fence._marks
        return next((each for each in reversed(marks) if each.what == what), None)

    @property
    def marks(self) -> list[Mark]:
        """All marks, in order."""
        return list(self._fence._marks)

    def append(self, mark: Mark) -> None:
        """Add a mark; it is on disk when this returns."""
        self._fence._append(self._handle, mark)


def _checksum(record: dict[str, Any], before: str) -> str:
    text = before + json.dumps(record, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def _line(record: dict[str, Any], before: str) -> bytes:
    full = {**record, "checksum": _checksum(record, before)}
    return json.dumps(full, sort_keys=True).encode() + b"\n"
