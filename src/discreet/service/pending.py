"""Decisions that are kept for a while: named by the caller, or with a default reward.

Each is sealed (buckets.py): what was answered, and what is needed to answer it again. Where there
is a default, its reward is kept beside it, in a row that was written with the decision, stands
under a keyed hash and looks the same with a reward and without; all of them count once the wait is
over, so that early clicks do not stand for everybody. Of a settled decision nothing is left but
that its id was used, for some days.
"""

import hmac
import math
import secrets
import struct
import time
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
import sqlalchemy as sa
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from sqlalchemy.engine import Connection

from discreet.service import rows
from discreet.service import store as tables
from discreet.service.buckets import Buckets, day, stored_id
from discreet.service.replies import DecisionReply
from discreet.service.tokens import Sealed, Sealer, derived
from discreet.service.vault import MissingSecret

Name = tuple[bytes, bytes]  # hashes of a caller's id: its owner's; of before ids had owners
_REWARD = struct.Struct("<?d")
_NONCE_BYTES = 12
_PLACE_BYTES = 16
_PENDING = tables.pending.c
_ANY = (
    sa.select(_PENDING.round)
    .where(_PENDING.bandit == sa.bindparam("bandit"), _PENDING.epoch == sa.bindparam("epoch"))
    .limit(1)
)
FORGET = (tables.pending, tables.waiting, tables.settled)  # of a bandit, at a restore


class Kept(DecisionReply):
    """What is sealed of a decision that waits."""

    request: bytes = b""  # keyed hash of what was asked
    name: bytes = b""  # hash of its id, under the master key; nothing if it has none
    counts: bool = True  # whether it is the one of its person, where a life counts once

    def reply(self) -> DecisionReply:
        """What the caller was told."""
        return DecisionReply(self.decision, self.action, self.probability, self.policy)


def _encrypted(key: bytes, content: bytes, about: bytes) -> bytes:
    nonce = secrets.token_bytes(_NONCE_BYTES)
    return nonce + AESGCM(key).encrypt(nonce, content, about)


def _decrypted(key: bytes, sealed: bytes, about: bytes) -> bytes | None:
    try:
        return AESGCM(key).decrypt(sealed[:_NONCE_BYTES], sealed[_NONCE_BYTES:], about)
    except InvalidTag:
        return None


class Pending:
    """The kept decisions of one bandit, inside one transaction."""

    def __init__(
        self, connection: Connection, buckets: Buckets, sealer: Sealer, bandit: str, epoch: str
    ) -> None:
        self._connection, self._buckets, self._sealer = connection, buckets, sealer
        self._here = {"bandit": bandit, "epoch": epoch}
        self._about = f"{epoch}\n{bandit}".encode()
        self._by_name: dict[bytes, Any] = {}
        self._by_round: dict[int, Any] = {}
        self._used: dict[bytes, Any] = {}
        self._names: dict[int, bytes] = {}  # that callers have just said, by round
        self._new: list[dict[str, Any]] = []
        self._done: dict[int, dict[str, Any] | None] = {}  # by round: what is left of it

    # -- reading -----------------------------------------------------------------------------------

    def load(self, names: Iterable[Name]) -> None:
        """Read the decisions with these ids, those that wait and those that were settled lately."""
        wanted = dict(names)
        if not wanted:
            return
        open_keys, used_keys = self._buckets.readable()  # once: there may be many names
        waiting = {stored_id(key, name): name for key in open_keys for name in wanted}
        waiting |= {before: name for name, before in wanted.items()}
        settled = {stored_id(key, name): name for key in used_keys for name in wanted}
        for row in self._find(tables.pending, id=list(waiting)):
            name = self._names[row.round] = waiting[bytes(row.id)]
            self._by_name[name] = self._by_round[row.round] = row
        for row in self._find(tables.settled, id=list(settled)):
            self._used[settled[bytes(row.id)]] = row

    def load_rounds(self, rounds: Iterable[int]) -> None:
        """Read the decisions of these rounds, where any are kept."""
        wanted = {each for each in rounds if each < 2**62} - self._by_round.keys()
        if wanted and self._connection.execute(_ANY, self._here).first() is not None:
            self._by_round |= {row.round: row for row in self._find(tables.pending, round=wanted)}

    def _find(self, table: sa.Table, **where: Any) -> list[Any]:
        return rows.find(self._connection, table, **self._here, **where)

    def entry(self, name: Name) -> Any:
        """The decision with this id that waits, or None."""
        return self._by_name.get(name[0])

    def at(self, number: int) -> Any:
        """The decision of this round that waits, or None."""
        return self._by_round.get(number)

    def used(self, name: Name) -> Any:
        """What is left of a settled decision with this id, or None."""
        return self._used.get(name[0])

    def kept(self, entry: Any) -> Kept | None:
        """What is sealed of a decision; None if its key is gone."""
        try:
            key = self._buckets.key(entry.bucket)
        except MissingSecret:
            return None
        plain = _decrypted(key, bytes(entry.answer), self._bound(entry.round))
        return None if plain is None else msgspec.msgpack.decode(plain, type=Kept)

    def opened(self, kept: Kept) -> Sealed | None:
        """The sealed decision behind a token that was kept."""
        return self._sealer.open(self._about, [kept.decision])[0]

    def _bound(self, number: int) -> bytes:
        return b"%d\n%s" % (number, self._about)

    # -- writing -----------------------------------------------------------------------------------

    def add(self, number: int, bucket: str, kept: Kept, deadline: float, *, active: bool) -> None:
        """Keep a decision until its deadline, sealed under the key of a bucket; `store` writes."""
        key = self._buckets.key(bucket, make=True)
        new = {
            "round": number,
            "id": stored_id(key, kept.name) if kept.name else None,
            "answer": _encrypted(key, msgspec.msgpack.encode(kept), self._bound(number)),
            "bucket": bucket,
            "deadline": deadline,
            "active": active,
        }
        self._new.append(self._here | new)

    def activate(self, entry: Any) -> None:
        """The default of this decision counts after all."""
        where = self._here | {"round": entry.round}
        rows.update(self._connection, tables.pending, where, active=True)

    # -- rewards that wait -------------------------------------------------------------------------

    def rewards(self, entries: Iterable[Any]) -> dict[int, float | None]:
        """The reward that waits for each of these decisions, by round; None if none has come."""
        places = {self._place(entry.bucket, entry.round): entry for entry in entries}
        found: dict[int, float | None] = {entry.round: None for entry in places.values()}
        for row in self._find(tables.waiting, place=list(places)):
            entry = places[bytes(row.place)]
            key = self._buckets.key(entry.bucket)
            plain = _decrypted(key, bytes(row.reward), self._bound(entry.round))
            if plain is not None:
                came, value = _REWARD.unpack(plain)
                found[entry.round] = value if came else None
        return found

    def keep(self, rewards: dict[tuple[int, str], float | None]) -> None:
        """Write rewards of decisions, by round and bucket; None: none has come yet.

        A row is as long with a reward as without, and stands where its key hashes the round to.
        """
        new = []
        for (number, bucket), reward in rewards.items():
            content = _REWARD.pack(reward is not None, reward or 0.0)
            key = self._buckets.key(bucket, make=True)
            sealed = _encrypted(key, content, self._bound(number))
            new.append(self._here | {"place": self._place(bucket, number), "reward": sealed})
        rows.put(self._connection, tables.waiting, sorted(new, key=lambda row: row["place"]))

    def _place(self, bucket: str, number: int) -> bytes:
        key = derived(self._buckets.key(bucket, make=True), b"place")
        return hmac.digest(key, self._bound(number), "sha256")[:_PLACE_BYTES]

    # -- settling ----------------------------------------------------------------------------------

    def finish(self, entry: Any, kept: Kept | None) -> None:
        """The decision is settled: nothing stays but that its id was used."""
        left = None
        name = self._names.get(entry.round) or (b"" if kept is None else kept.name)
        if name:
            # The same day whether a reward came before or none at all: it does not say which.
            over = time.time() if math.isinf(entry.deadline) else entry.deadline
            key = self._buckets.key(Buckets.of_settled(over), make=True)
            left = {"id": stored_id(key, name), "settled": day(over)}
        self._done[entry.round] = left

    def store(self, places: Sequence[Any] = ()) -> None:
        """Write what is new, delete what is settled; `places` are entries whose rewards waited."""
        rows.insert(self._connection, tables.pending, self._new)
        taken = [self._place(entry.bucket, entry.round) for entry in places]
        rows.delete(self._connection, tables.pending, **self._here, round=list(self._done))
        rows.delete(self._connection, tables.waiting, **self._here, place=taken)
        left = [self._here | each for each in self._done.values() if each is not None]
        rows.insert(self._connection, tables.settled, sorted(left, key=lambda row: row["id"]))
        self._new.clear()
        self._done.clear()
