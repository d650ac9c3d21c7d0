"""Decisions that are kept for a while: named by the caller, or with a default reward.

Each is sealed under the key of a bucket (one for each hour of deadlines), which lives in the
secrets folder and is destroyed when the bucket is settled: old pages of the database then hold
nothing that could be read. A settled decision leaves a tombstone, so that a retry is `duplicate`
and not `unknown`.
"""

import math
import secrets
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import sqlalchemy as sa
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from sqlalchemy.engine import Connection

from discreet.service import store as tables
from discreet.service.replies import DecisionReply
from discreet.service.tokens import Sealed, Sealer
from discreet.service.vault import MissingSecret, fsync_folder, make_once

_HOUR = 3600.0
_PENDING = tables.pending.c
_OF_BANDIT = sa.and_(
    _PENDING.bandit == sa.bindparam("b_bandit"), _PENDING.epoch == sa.bindparam("b_epoch")
)
_ANY = sa.select(_PENDING.round).where(_OF_BANDIT).limit(1)
_SETTLE = (
    sa.update(tables.pending)
    .where(_OF_BANDIT, _PENDING.round.in_(sa.bindparam("b_rounds", expanding=True)))
    .values(answer=None)
)


class Buckets:
    """Keys of kept decisions, one for each hour of deadlines.

    folder   of the secrets
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder / "pending"
        self._folder.mkdir(mode=0o700, exist_ok=True)
        self._keys: dict[str, bytes] = {}

    @staticmethod
    def named(deadline: float, now: float) -> str:
        """The bucket of a deadline; without one, that of the day it was made."""
        if math.isinf(deadline):
            return f"day-{int(now // 86400)}"
        return f"hour-{int(deadline // _HOUR)}"

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

    def destroy_unused(self, used: set[str], now: float) -> None:
        """Destroy keys of buckets that are over and have no open decision left.

        One bucket later than its end: clocks of replicas differ.
        """
        gone = False
        for path in self._folder.iterdir():
            kind, _, number = path.name.partition("-")
            if path.name in used or kind not in ("hour", "day"):
                continue
            current = int(now // (_HOUR if kind == "hour" else 86400))
            if int(number) < current - 1:
                path.unlink(missing_ok=True)
                self._keys.pop(path.name, None)
                gone = True
        if gone:
            fsync_folder(self._folder)


def seal(buckets: Buckets, bucket: str, about: bytes, number: int, answer: DecisionReply) -> bytes:
    """An answer as it is stored."""
    nonce = secrets.token_bytes(12)
    cipher = AESGCM(buckets.key(bucket, make=True))
    return nonce + cipher.encrypt(nonce, msgspec.msgpack.encode(answer), _bound(about, number))


def unseal(
    buckets: Buckets, bucket: str, about: bytes, number: int, sealed: bytes
) -> DecisionReply | None:
    """The answer that `seal` sealed, or None."""
    try:
        cipher = AESGCM(buckets.key(bucket))
        plain = cipher.decrypt(sealed[:12], sealed[12:], _bound(about, number))
    except (InvalidTag, MissingSecret):
        return None
    return msgspec.msgpack.decode(plain, type=DecisionReply)


def _bound(about: bytes, number: int) -> bytes:
    return b"%d\n%s" % (number, about)


class Pending:
    """The kept decisions of one bandit, inside one transaction.

    connection   of the transaction
    buckets      keys that seal decisions
    sealer       opens tokens
    bandit       its name
    epoch        of the store
    """

    def __init__(
        self, connection: Connection, buckets: Buckets, sealer: Sealer, bandit: str, epoch: str
    ) -> None:
        self._connection, self._buckets, self._sealer = connection, buckets, sealer
        self._bandit, self._epoch = bandit, epoch
        self._about = f"{epoch}\n{bandit}".encode()
        self._by_id: dict[bytes, Any] = {}
        self._done: set[int] = set()

    def load(self, ids: Sequence[bytes]) -> None:
        """Read the decisions with these hashed ids."""
        if not ids:
            return
        table = tables.pending
        query = sa.select(table).where(
            table.c.bandit == self._bandit, table.c.epoch == self._epoch, table.c.id.in_(set(ids))
        )
        for row in self._connection.execute(query):
            self._by_id[bytes(row.id)] = row

    def entry(self, hashed: bytes) -> Any:
        """The decision with this hashed id, settled or not; None if there is none."""
        return self._by_id.get(hashed)

    def answer(self, entry: Any) -> DecisionReply | None:
        """What the caller was told; None once it is settled."""
        if entry.answer is None:
            return None
        return unseal(self._buckets, entry.bucket, self._about, entry.round, bytes(entry.answer))

    def opened(self, entry: Any) -> Sealed | None:
        """The sealed decision behind an entry; None once it is settled."""
        answer = self.answer(entry)
        return None if answer is None else self._sealer.open(self._about, [answer.decision])[0]

    def finish(self, number: int) -> None:
        """The decision of this round is settled: leave a tombstone."""
        self._done.add(number)

    def store(self) -> None:
        """Write tombstones."""
        if not self._done:
            return
        here = {"b_bandit": self._bandit, "b_epoch": self._epoch}
        if self._connection.execute(_ANY, here).first() is not None:  # else it keeps nothing
            self._connection.execute(_SETTLE, here | {"b_rounds": list(self._done)})
        self._done.clear()
