"""What is published of a bandit's policy: to those with a key, under local trust to everybody."""

import json
import time
from typing import Any, NamedTuple

import msgspec
from sqlalchemy.engine import Connection
from starlette.datastructures import Headers
from starlette.responses import Response

from discreet.service import rows
from discreet.service import store as tables
from discreet.service.asgi import EVERYBODY
from discreet.service.errors import not_found, unauthorized
from discreet.service.keys import Key
from discreet.service.limits import RawHeaders
from discreet.service.server import Server
from discreet.service.tenant import is_learning

FRESH = 1.0  # seconds for which a replica answers with the policy of local trust that it knows
CACHED = 5  # seconds for which caches may hold it


async def policy(server: Server, name: str, key: Key | None, headers: RawHeaders) -> Response:
    """The public policy; its ETag changes with it; local trust needs no key."""
    found = await public_policy(server, name)
    if found is not None:
        shown = EVERYBODY | {"Cache-Control": f"public, max-age={CACHED}"}
    elif key is None:
        raise unauthorized()
    else:
        found = await server.with_bandit(name, _published)
        shown = {"Cache-Control": "no-cache"}
    shown["ETag"] = found.tag
    if Headers(raw=headers).get("if-none-match") == found.tag:
        return Response(status_code=304, headers=shown)
    return Response(found.document, 200, shown, "application/json")


async def terms(server: Server, name: str) -> Response:
    """Local trust: the key that reports are sealed to, and what a relay's batch is."""
    found = await public_policy(server, name)
    if found is None or not found.terms:
        raise not_found("bandit under local trust that learns")
    headers = EVERYBODY | {"Cache-Control": "no-cache"}
    return Response(found.terms, 200, headers, "application/json")


class Published(NamedTuple):
    """A policy as it is served."""

    tag: str  # for HTTP
    document: bytes  # the policy, which its terms hash
    terms: bytes = b""  # of batches that a relay sends; none if it takes none


async def public_policy(server: Server, name: str, tag: str | None = None) -> Published | None:
    """The policy and its terms, if they are for everybody; None for joint trust and for no bandit.

    A replica asks the store at most once in FRESH seconds, unless it is asked for another policy
    than it knows.
    """
    known: tuple[float, Published] | None = server.public.get(name)
    if known is not None and known[0] > time.monotonic() and tag in (None, known[1].tag):
        return known[1]
    until = time.monotonic() + FRESH
    found = await server.transact(lambda connection: _for_everybody(server, connection, name))
    if found is not None:
        server.public[name] = until, found
    return found


def _for_everybody(server: Server, connection: Connection, name: str) -> Published | None:
    row = server.store.lock_bandit(connection, name)
    if row is None:
        return None
    tenant = server.tenant_of(connection, row)
    if not tenant.is_public:
        return None
    found = _published(connection, row)
    if not is_learning(row):
        return found
    return found._replace(terms=tenant.terms(server.vault, found.document))


def _published(connection: Connection, row: Any) -> Published:
    """What stands in the store; decisions go on by it when learning has ended."""
    here = {"bandit": row.name, "epoch": row.epoch, "version": row.version}
    (raw,) = rows.one(connection, tables.policies, "policy", **here)
    learning = is_learning(row)
    tag = f"{row.epoch}-{row.version}" + ("" if learning else "-closed")
    shown = {"epoch": row.epoch, "version": row.version, "learning": learning} | json.loads(raw)
    return Published(f'"{tag}"', msgspec.json.encode(shown))
