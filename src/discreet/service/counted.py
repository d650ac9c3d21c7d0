"""What has counted already, inside one transaction: rounds, and people by keyed hash.

A round is marked once it has had its reward or its default; a mark does not say which. Of people:

    "first"  one reward of each person for the bandit's life: that of the first decision where
             decisions are kept, else the first that arrives; the hashes stay
    "all"    one reward of each person in each window, the first that arrives in it; the hashes
             are under a key of the window that is sealed with its sum, and end with it

Whether a reward counts depends on that person's own visits alone, and the answer never tells: who
is new is written as who is known. Which round it was is not kept.
"""

import hmac
from collections.abc import Iterable
from typing import Any

from sqlalchemy.engine import Connection

from discreet.service import rows
from discreet.service import store as tables
from discreet.service.store import BLOCK
from discreet.service.tokens import NOBODY, PERSON_BYTES, Sealed

KEY_BYTES = 32  # of a window's key


class Marks:
    """Which rounds have had their reward or their default, in blocks of bits."""

    def __init__(self, connection: Connection, bandit: str, epoch: str) -> None:
        self._connection, self._here = connection, {"bandit": bandit, "epoch": epoch}
        self._blocks: dict[int, bytearray] = {}
        self._changed: set[int] = set()

    def load(self, rounds: Iterable[int]) -> None:
        """Read the blocks that hold these rounds."""
        wanted = {number // BLOCK for number in rounds if number < 2**62} - self._blocks.keys()
        here = self._here | {"block": wanted}
        found = dict(rows.find(self._connection, tables.marks, "block", "used", **here))
        for block in wanted:
            self._blocks[block] = bytearray(found.get(block) or bytes(BLOCK // 8))

    def is_marked(self, number: int) -> bool:
        block, place = divmod(number, BLOCK)
        return bool(self._blocks[block][place // 8] >> place % 8 & 1)

    def mark(self, number: int) -> None:
        block, place = divmod(number, BLOCK)
        self._blocks[block][place // 8] |= 1 << place % 8
        self._changed.add(block)

    def store(self) -> None:
        changed = [
            self._here | {"block": block, "used": bytes(self._blocks[block])}
            for block in sorted(self._changed)
        ]
        rows.put(self._connection, tables.marks, changed)
        self._changed.clear()


class People:
    """The people of one bandit.

    key   of the open window, where each window counts anew; empty where a life counts
    """

    def __init__(self, connection: Connection, bandit: str, epoch: str, key: bytes) -> None:
        self._connection, self._here = connection, {"bandit": bandit, "epoch": epoch}
        self._key = key
        self._known: set[bytes] = set()
        self._loaded: set[bytes] = set()
        self._came: set[bytes] = set()

    def load(self, decisions: Iterable[Sealed | None]) -> None:
        """Read which people of these decisions have counted."""
        wanted = {self._hashed(each) for each in decisions if each is not None} - self._loaded
        here = self._here | {"person": wanted}
        found = rows.find(self._connection, tables.people, "person", **here)
        self._known |= {bytes(person) for (person,) in found}
        self._loaded |= wanted

    def admit(self, decision: Sealed) -> bool:
        """Whether its person is new, and no longer is; `load` comes before."""
        if decision.person == NOBODY:
            return False
        person = self._hashed(decision)
        is_new = person not in self._known
        self._known.add(person)
        self._came.add(person)
        return is_new

    def store(self) -> None:
        """Write who came, new or not."""
        came = [self._here | {"person": each} for each in sorted(self._came)]
        rows.put(self._connection, tables.people, came)
        self._came.clear()

    def _hashed(self, decision: Sealed) -> bytes:
        if not self._key:
            return decision.person
        return hmac.digest(self._key, decision.person, "sha256")[:PERSON_BYTES]


def forget_people(connection: Connection, row: Any) -> None:
    """The window is over: forget who was in it."""
    rows.delete(connection, tables.people, bandit=row.name, epoch=row.epoch)
