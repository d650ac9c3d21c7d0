"""API keys: who may do what.

A key is `dk_<id>_<secret>`; the store holds its id and the SHA-256 of the secret, compared in
constant time. Two keys may live side by side, so that rotation needs no restart. Revocations go
into the fence: restoring an old database does not bring a key back.
"""

import hashlib
import hmac
import json
import secrets
import time
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from discreet.service import store as tables
from discreet.service.errors import forbidden, invalid, unauthorized
from discreet.service.limits import too_many
from discreet.service.replies import KeyReply

SCOPES = ("decide", "learn", "read", "report", "relay", "admin")
ADMIN_ID = "admin"  # of the key that the operator sets or the first start makes
SHORTEST_ADMIN = 32


@dataclass(slots=True)
class Key:
    """A key as the server knows it.

    id         stands in its secret
    name       for people
    hash       SHA-256 of the secret
    scopes     what it may do
    bandits    for which; None: all
    rate       requests a second, or decisions where a request asks for many; None: no limit
    created    seconds since 1970
    revoked    the same; None while it lives
    servers    that share its rate
    tokens     of its rate limit, at `at`
    at         on the monotonic clock
    """

    id: str
    name: str
    hash: bytes
    scopes: frozenset[str]
    bandits: frozenset[str] | None
    rate: float | None
    created: float
    revoked: float | None
    servers: int = 1
    tokens: float = 0.0
    at: float = 0.0

    def require(self, scope: str, bandit: str | None = None) -> None:
        """Raise unless this key may do that; admin implies every scope."""
        if scope not in self.scopes and "admin" not in self.scopes:
            raise forbidden(scope)
        if self.bandits is not None and (bandit is None or bandit not in self.bandits):
            raise forbidden(scope)

    def spend(self, now: float, number: int = 1, counted: int = 0) -> None:
        """Count a request, or its decisions, against the rate limit: a bucket of one second.

        So many of them have been `counted` before.
        """
        if self.rate is None:
            return
        burst = max(self.rate, 1.0)
        rate = self.rate / self.servers  # of this one, where others have theirs
        self.tokens = min(burst, self.tokens + (now - self.at) * rate)
        self.at = now
        if number > burst:
            raise invalid(f"this key may ask for at most {int(burst)} decisions at once")
        number -= counted
        if self.tokens < number:
            wait = (number - self.tokens) / rate
            raise too_many(wait, "This key has reached its rate limit.")
        self.tokens -= number

    def public(self) -> KeyReply:
        """What may be shown of it."""
        return KeyReply(
            id=self.id,
            name=self.name,
            scopes=sorted(self.scopes),
            bandits=None if self.bandits is None else sorted(self.bandits),
            rate=self.rate,
            created=self.created,
            revoked=self.revoked,
        )


def hashed(secret: str) -> bytes:
    """What is stored of a secret: it is random and long, so one SHA-256 is enough."""
    return hashlib.sha256(secret.encode()).digest()


def new_secret(key_id: str) -> str:
    """A secret that names its key, shown once."""
    return f"dk_{key_id}_{secrets.token_urlsafe(32)}"


class Keys:
    """All keys of the store, in memory; `reload` when another replica may have changed them."""

    def __init__(self) -> None:
        self._by_id: dict[str, Key] = {}
        self._servers = 1

    def share(self, servers: int) -> None:
        """So many servers live: each gives a key its part of the rate."""
        self._servers = servers
        for key in self._by_id.values():
            key.servers = servers

    def reload(self, connection: Connection, revoked: set[str]) -> None:
        """Read all keys; those in `revoked` are, whatever the store says."""
        found: dict[str, Key] = {}
        for row in connection.execute(sa.select(tables.keys)):
            old = self._by_id.get(row.id)
            key = _from_row(row)
            if key.revoked is None and key.id in revoked:
                key.revoked = time.time()
            key.servers = self._servers
            if old is not None:
                key.tokens, key.at = old.tokens, old.at
            found[row.id] = key
        self._by_id = found

    def authenticate(self, secret: str) -> Key:
        """The key with this secret; raises if there is none or it is revoked."""
        key = self._by_id.get(id_of(secret))
        given = hashed(secret)
        # A comparison happens whether or not the id exists: time tells nothing.
        expected = key.hash if key is not None else bytes(32)
        same = hmac.compare_digest(given, expected)
        if key is None or not same or key.revoked is not None:
            raise unauthorized()
        return key

    def get(self, key_id: str) -> Key | None:
        """The key with this id, revoked or not; None if there is none."""
        return self._by_id.get(key_id)

    def some_admin(self) -> str | None:
        """The id of a key that may administer."""
        alive = (key for key in self.all() if key.revoked is None and "admin" in key.scopes)
        return next((key.id for key in alive), None)

    def all(self) -> list[Key]:
        """Every key, revoked ones too."""
        return sorted(self._by_id.values(), key=lambda key: key.created)


def id_of(secret: str) -> str:
    """The id that a secret names; whether there is such a key is another question."""
    parts = secret.split("_", 2)
    return parts[1] if len(parts) == 3 and parts[0] == "dk" else ADMIN_ID


def _from_row(row: Any) -> Key:
    return Key(
        id=row.id,
        name=row.name,
        hash=bytes(row.hash),
        scopes=frozenset(json.loads(row.scopes)),
        bandits=None if row.bandits is None else frozenset(json.loads(row.bandits)),
        rate=row.rate,
        created=row.created,
        revoked=row.revoked,
    )


def insert(
    connection: Connection,
    name: str,
    scopes: list[str],
    bandits: list[str] | None = None,
    rate: float | None = None,
    *,
    key_id: str | None = None,
    secret: str | None = None,
) -> tuple[str, str]:
    """Store a new key; returns its id and its secret, which is not kept."""
    key_id = key_id or secrets.token_hex(6)
    secret = secret or new_secret(key_id)
    connection.execute(
        sa.insert(tables.keys).values(
            id=key_id,
            name=name,
            hash=hashed(secret),
            scopes=json.dumps(sorted(set(scopes))),
            bandits=None if bandits is None else json.dumps(sorted(set(bandits))),
            rate=rate,
            created=time.time(),
        )
    )
    return key_id, secret


def has_admin(connection: Connection) -> bool:
    """Whether some key that lives may administer."""
    alive = sa.select(tables.keys.c.scopes).where(tables.keys.c.revoked.is_(None))
    return any("admin" in json.loads(scopes) for scopes in connection.execute(alive).scalars())


def revoke(connection: Connection, key_id: str) -> bool:
    """Revoke a key; False if there is no such key."""
    keys = tables.keys
    found = connection.execute(sa.select(keys.c.id).where(keys.c.id == key_id)).one_or_none()
    if found is None:
        return False
    alive = sa.and_(keys.c.id == key_id, keys.c.revoked.is_(None))
    connection.execute(sa.update(keys).where(alive).values(revoked=time.time()))
    return True
