"""One person, many visits: whose reward counts, by keyed hash.

    "first"  one reward of each person for the bandit's life: that of the first decision where
             decisions are kept, else the first that arrives; the hashes stay
    "all"    one reward of each person in each window, the first that arrives in it; the hashes
             are under a key of the window that is sealed with its sum, and end with it

Whether a reward counts depends on that person's own visits alone, and the answer never tells: who
is new is written as who is known. Which round it was is not kept.
"""

import hashlib
import hmac
from collections.abc import Iterable
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from discreet.service import store as tables
from discreet.service.tokens import NOBODY, PERSON_BYTES, Sealed

KEY_BYTES = 32  # of a window's key
_PEOPLE = tables.people.c
_OF_BANDIT = sa.and_(
    _PEOPLE.bandit == sa.bindparam("b_bandit"), _PEOPLE.epoch == sa.bindparam("b_epoch")
)
_READ = sa.select(_PEOPLE.person).where(
    _OF_BANDIT, _PEOPLE.person.in_(sa.bindparam("b_people", expanding=True))
)
_FORGET = sa.delete(tables.people).where(_OF_BANDIT)
_WRITE = sa.text(  # the same page of the same tree, for somebody new and for somebody known
    "INSERT INTO people (bandit, epoch, person) VALUES (:bandit, :epoch, :person) "
    "ON CONFLICT (bandit, epoch, person) DO UPDATE SET person = excluded.person"
)


class People:
    """The people of one bandit, inside one transaction.

    key  of the open window, where each window counts anew; empty where a life counts
    connection   of the transaction
    bandit       its name
    epoch        of the store
    """

    def __init__(self, connection: Connection, bandit: str, epoch: str, key: bytes) -> None:
        self._connection = connection
        self._here = {"b_bandit": bandit, "b_epoch": epoch}
        self._key = key
        self._known: set[bytes] = set()
        self._loaded: set[bytes] = set()
        self._came: set[bytes] = set()

    def load(self, decisions: Iterable[Sealed | None]) -> None:
        """Read which people of these decisions have counted."""
        wanted = {self._hashed(each) for each in decisions if each is not None} - self._loaded
        if not wanted:
            return
        found = self._connection.execute(_READ, self._here | {"b_people": list(wanted)})
        self._known |= {bytes(person) for person in found.scalars()}
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
        if self._came:
            here = {"bandit": self._here["b_bandit"], "epoch": self._here["b_epoch"]}
            rows = [{**here, "person": each} for each in sorted(self._came)]
            self._connection.execute(_WRITE, rows)
            self._came.clear()

    def _hashed(self, decision: Sealed) -> bytes:
        if not self._key:
            return decision.person
        return hmac.new(self._key, decision.person, hashlib.sha256).digest()[:PERSON_BYTES]


def forget(connection: Connection, row: Any) -> None:
    """The window is over: forget who was in it."""
    connection.execute(_FORGET, {"b_bandit": row.name, "b_epoch": row.epoch})
