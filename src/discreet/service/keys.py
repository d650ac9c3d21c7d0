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

from sqlalchemy.engine import Connection

from discreet.service import rows
from discreet.service import store as tables
from discreet.service.errors import Problem, invalid, unauthorized
from discreet.service.limits import too_many
from discreet.service.messages import KeyBody
from discreet.service.replies import KeyReply

SCOPES = ("decide", "learn", "read", "report", "relay", "admin")
ADMIN_ID = "admin"  # of the key that the operator sets or the first start makes
SHORTEST_ADMIN = 32
HALF = 0.5  # of a horizon: nobody ends it alone by accident, or with a key that was stolen


@dataclass(slots=True)
class Key:
    """A key as the server knows it."""

    id: str  # stands in its secret
    name: str  # for people
    hash: bytes  # SHA-256 of the secret
    scopes: frozenset[str]  # what it may do
    bandits: frozenset[str] | None  # for which; None: all
    rate: float | None  # requests and decisions a second; None: no limit
    share: float | None  # of a horizon or of each window; None: what `Keys.share_of` says
    created: float  # seconds since 1970
    revoked: float | None  # the same; None while it lives
    servers: int = 1  # that share its rate
    tokens: float = 0.0  # of its rate limit, at `at`
    at: float = 0.0  # on the monotonic clock

    def require(self, scope: str, bandit: str | None = None) -> None:
        """Raise unless this key may do that; admin implies every scope."""
        if scope not in self.scopes and "admin" not in self.scopes:
            raise Problem("forbidden", scope=scope)
        if self.bandits is not None and (bandit is None or bandit not in self.bandits):
            raise Problem("forbidden", scope=scope)

    def may(self, scope: str, bandit: str) -> bool:
        """Whether it lives, and has this scope for a bandit by name, not as an administrator."""
        covered = self.bandits is None or bandit in self.bandits
        return self.revoked is None and scope in self.scopes and covered

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
            raise too_many(wait, "This key")
        self.tokens -= number

    def public(self) -> KeyReply:
        """What may be shown of it."""
        return KeyReply(
            id=self.id,
            name=self.name,
            scopes=sorted(self.scopes),
            bandits=None if self.bandits is None else sorted(self.bandits),
            rate=self.rate,
            share=self.share,
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
        self._shares: dict[tuple[str, str, bool], float | None] = {}

    def share(self, servers: int) -> None:
        """So many servers live: each gives a key its part of the rate."""
        self._servers = servers
        for key in self._by_id.values():
            key.servers = servers

    def reload(self, connection: Connection, revoked: set[str]) -> None:
        """Read all keys; those in `revoked` are, whatever the store says."""
        found: dict[str, Key] = {}
        for row in rows.find(connection, tables.keys):
            key = found[row.id] = _from_row(row)
            if key.revoked is None and key.id in revoked:
                key.revoked = time.time()
            key.servers = self._servers
            if row.id in self._by_id:
                old = self._by_id[row.id]
                key.tokens, key.at = old.tokens, old.at
        self._by_id = found
        self._shares = {}

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

    def share_of(self, owner: str, bandit: str, ends: bool) -> float | None:
        """The most that an application may take of a bandit, whose learning `ends` or does not.

        All where no other application may decide: there is nobody to leave it to. But what is gone
        of a horizon never comes again, so it must learn alone, too. Else what its keys state, the
        largest if they differ; and if they do not, all of each window, a half of a horizon. None:
        all.
        """
        asked = owner, bandit, ends
        if asked not in self._shares:
            self._shares[asked] = self._share(*asked)
        return self._shares[asked]

    def _share(self, owner: str, bandit: str, ends: bool) -> float | None:
        alive = [key for key in self._by_id.values() if key.revoked is None]
        own = [key for key in alive if key.name == owner]
        if any("admin" in key.scopes for key in own):
            return None
        alone = all(key.name == owner for key in alive if key.may("decide", bandit))
        if alone and (not ends or any(key.may("learn", bandit) for key in own)):
            return None
        stated = [key.share for key in own if key.share is not None and key.may("decide", bandit)]
        share = max(stated, default=HALF if ends else 1.0)
        return share if share < 1 else None

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
        share=row.share,
        created=row.created,
        revoked=row.revoked,
    )


def insert(
    connection: Connection, body: KeyBody, key_id: str | None = None, secret: str | None = None
) -> tuple[str, str]:
    """Store a new key; returns its id and its secret, which is not kept."""
    key_id = key_id or secrets.token_hex(6)
    secret = secret or new_secret(key_id)
    new = {
        "id": key_id,
        "name": body.name,
        "hash": hashed(secret),
        "scopes": json.dumps(sorted(set(body.scopes))),
        "bandits": None if body.bandits is None else json.dumps(sorted(set(body.bandits))),
        "rate": body.rate,
        "share": body.share,
        "created": time.time(),
    }
    rows.insert(connection, tables.keys, [new])
    return key_id, secret


def has_admin(connection: Connection) -> bool:
    """Whether some key that lives may administer."""
    found = rows.find(connection, tables.keys, "scopes", "revoked")
    return any(revoked is None and "admin" in json.loads(scopes) for scopes, revoked in found)


def revoke(connection: Connection, key_id: str) -> bool | None:
    """Revoke a key: whether it lived until now, None if there is no such key."""
    found = rows.one(connection, tables.keys, "revoked", id=key_id)
    if found is None:
        return None
    if found.revoked is None:
        rows.update(connection, tables.keys, {"id": key_id}, revoked=time.time())
    return found.revoked is None
