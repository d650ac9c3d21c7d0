"""What administrators and readers see and do; everything shown is public or released."""

import json
import math
from typing import Any

import msgspec
import sqlalchemy as sa

from discreet.service import budgets, keys, turning
from discreet.service import store as tables
from discreet.service.definitions import NAME, Definition
from discreet.service.errors import Problem, invalid, not_found
from discreet.service.keys import SCOPES, Key
from discreet.service.local import LocalHeld
from discreet.service.messages import KeyBody, PopulationBody
from discreet.service.server import Server


async def _run(server: Server, work: Any) -> Any:
    """Do something on the writer's thread, by itself."""
    return await server.writer.do(object(), lambda _: [work()], None)


# -- bandits ---------------------------------------------------------------------------------------


async def create(server: Server, name: str, definition: Definition, who: str) -> bool:
    """Create a bandit; False if it was there with the same definition."""
    created: bool = await _run(server, lambda: server.create(name, definition, who))
    return created


async def retire(server: Server, name: str, who: str) -> None:
    """End learning for good."""
    await _run(server, lambda: server.retire(name, who))


async def bandit(server: Server, name: str) -> dict[str, Any]:
    """One bandit."""

    def read() -> dict[str, Any]:
        with server.store.transaction() as connection:
            row = server.store.lock_bandit(connection, name)
            if row is None:
                raise not_found("bandit")
            held = server.held_of(connection, row)
            promise = turning.guarantee(held)
            shown = {**_summary(row), "guarantee": promise.to_dict()}
            if isinstance(held, LocalHeld):
                shown["reports"] = {"taken": held.server.taken, "refused": held.server.refused}
            return shown

    shown: dict[str, Any] = await _run(server, read)
    return shown


async def bandits(server: Server, key: Key) -> list[dict[str, Any]]:
    """All bandits that a key may see."""

    def read() -> list[dict[str, Any]]:
        with server.store.transaction() as connection:
            rows = connection.execute(sa.select(*tables.LIGHT).order_by(tables.bandits.c.name))
            return [_summary(row) for row in rows if key.bandits is None or row.name in key.bandits]

    shown: list[dict[str, Any]] = await _run(server, read)
    return shown


def _summary(row: Any) -> dict[str, Any]:
    """Definition and progress: all of it public."""
    size = row.window_end - row.window_start
    return {
        "name": row.name,
        "definition": json.loads(row.definition),
        "created": row.created,
        "rounds": row.next_round,
        "policy": row.version,
        "learning": bool(row.learning and not row.retired and not row.alarm),
        "retired": row.retired,
        "alarm": row.alarm,
        "window": {
            "number": row.window,
            "rounds": size if size < 2**60 else None,
            "leased": row.next_round - row.window_start,
        },
    }


async def releases(server: Server, name: str) -> list[dict[str, Any]]:
    """What was published, window by window."""

    def read() -> list[dict[str, Any]]:
        with server.store.transaction() as connection:
            row = server.store.lock_bandit(connection, name)
            if row is None:
                raise not_found("bandit")
            table = tables.windows
            found = connection.execute(
                sa.select(table.c.release)
                .where(table.c.bandit == name, table.c.release.is_not(None))
                .order_by(table.c.number)  # not by the clock, which may step back
            )
            return [json.loads(text) for text in found.scalars()]

    shown: list[dict[str, Any]] = await _run(server, read)
    return shown


async def policy(server: Server, name: str) -> tuple[str, dict[str, Any]]:
    """The public policy and its ETag."""

    def read() -> tuple[str, dict[str, Any]]:
        with server.store.transaction() as connection:
            row = server.store.lock_bandit(connection, name)
            if row is None:
                raise not_found("bandit")
            table = tables.policies
            raw = connection.execute(
                sa.select(table.c.policy).where(
                    table.c.bandit == name,
                    table.c.epoch == row.epoch,
                    table.c.version == row.version,
                )
            ).scalar_one()
            tag = f'"{row.epoch}-{row.version}"'
            return tag, {"epoch": row.epoch, "version": row.version, **json.loads(raw)}

    shown: tuple[str, dict[str, Any]] = await _run(server, read)
    return shown


async def local_policy(server: Server, name: str) -> tuple[str, bytes] | None:
    """The public policy of a bandit under local trust, as ETag and JSON; None for others."""

    def read() -> bool:
        with server.store.transaction() as connection:
            row = server.store.lock_bandit(connection, name)
            return row is not None and isinstance(server.held_of(connection, row), LocalHeld)

    if not await _run(server, read):
        return None
    tag, shown = await policy(server, name)
    return tag, msgspec.json.encode(shown)


async def guarantee(server: Server, name: str) -> dict[str, Any]:
    """The promise, with its statement."""

    def read() -> dict[str, Any]:
        with server.store.transaction() as connection:
            row = server.store.lock_bandit(connection, name)
            if row is None:
                raise not_found("bandit")
            promise = turning.guarantee(server.held_of(connection, row))
            return {**promise.to_dict(), "statement": promise.statement()}

    shown: dict[str, Any] = await _run(server, read)
    return shown


# -- populations -----------------------------------------------------------------------------------


async def set_population(server: Server, name: str, body: PopulationBody, who: str) -> bool:
    """Create a population or change its limit."""
    if body.unit not in (None, "round", "person"):
        raise invalid("`unit` must be round or person.")
    if not (math.isfinite(body.epsilon) and math.isfinite(body.delta)):
        raise invalid("`epsilon` and `delta` must be finite numbers.")

    def change(connection: Any) -> tuple[bool, dict[str, Any]]:
        created = budgets.set_limit(connection, name, body.epsilon, body.delta, body.unit)
        server.note(connection, who, "limit", name)
        about = {"population": name, "epsilon": body.epsilon, "delta": body.delta}
        return created, {**about, "unit": body.unit}

    created: bool = await _run(server, lambda: server.fenced("limit", change))
    return created


async def population(server: Server, name: str) -> dict[str, Any]:
    """One population."""

    def read() -> dict[str, Any]:
        with server.store.transaction() as connection:
            row = budgets.row_of(connection, name)
            if row is None:
                raise not_found("population")
            return budgets.shown(connection, row)

    shown: dict[str, Any] = await _run(server, read)
    return shown


async def populations(server: Server) -> list[dict[str, Any]]:
    """All populations."""

    def read() -> list[dict[str, Any]]:
        with server.store.transaction() as connection:
            rows = connection.execute(
                sa.select(tables.populations).order_by(tables.populations.c.name)
            )
            return [budgets.shown(connection, row) for row in list(rows)]

    shown: list[dict[str, Any]] = await _run(server, read)
    return shown


# -- keys ------------------------------------------------------------------------------------------


async def create_key(server: Server, body: KeyBody, who: str) -> dict[str, Any]:
    """A new key, with its secret."""
    if not body.scopes or any(scope not in SCOPES for scope in body.scopes):
        raise invalid(f"`scopes` must be some of {', '.join(SCOPES)}.")
    if not 1 <= len(body.name) <= 200 or not body.name.isprintable():
        raise invalid("`name` must have 1 to 200 printable characters.")
    if body.bandits is not None and any(not NAME.fullmatch(name) for name in body.bandits):
        raise invalid("`bandits` must be names of bandits.")
    if body.bandits is not None and "admin" in body.scopes:
        raise invalid("An admin key is for all bandits: leave out `bandits`.")
    if body.rate is not None and not 0 < body.rate < math.inf:
        raise invalid("`rate` must be a positive number of requests a second.")

    def make() -> dict[str, Any]:
        with server.store.transaction() as connection:
            key_id, secret = keys.insert(
                connection, body.name, body.scopes, body.bandits, body.rate
            )
            server.note(connection, who, "create key", key_id)
            server.keys.reload(connection)
            return {"id": key_id, "secret": secret}

    made: dict[str, Any] = await _run(server, make)
    return {**made, "name": body.name, "scopes": sorted(set(body.scopes)), "bandits": body.bandits}


async def revoke_key(server: Server, key_id: str, who: str) -> None:
    """Revoke a key for good."""

    def change(connection: Any) -> tuple[None, dict[str, Any]]:
        if key_id == keys.ADMIN_ID:
            raise invalid("The admin key is replaced by DISCREET_ADMIN_KEY, not revoked.")
        if not NAME.fullmatch(key_id) or not keys.revoke(connection, key_id):
            raise not_found("key")
        server.note(connection, who, "revoke key", key_id)
        server.keys.reload(connection)
        return None, {"key": key_id}

    await _run(server, lambda: server.fenced("revoke", change))


async def reload_keys(server: Server) -> None:
    """Take over keys that other replicas made or revoked."""

    def read() -> None:
        with server.store.transaction() as connection:
            server.keys.reload(connection)

    await _run(server, read)


# -- readiness -------------------------------------------------------------------------------------


async def ready(server: Server) -> tuple[bool, dict[str, Any]]:
    """Whether the store answers, and alarms."""

    def read() -> list[str]:
        with server.store.transaction() as connection:
            table = tables.bandits
            found = connection.execute(sa.select(table.c.name).where(table.c.alarm.is_not(None)))
            return list(found.scalars())

    try:
        alarms = await _run(server, read)
    except Problem:
        return False, {"status": "store unavailable", "alarms": []}
    return True, {"status": "ok", "alarms": alarms}
