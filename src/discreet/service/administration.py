"""What administrators and readers see and do; everything shown is public or released."""

import json
import math
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import msgspec
import sqlalchemy as sa
from sqlalchemy.engine import Connection

from discreet.privacy import Guarantee
from discreet.service import budgets, keys, local, replies, turning
from discreet.service import store as tables
from discreet.service.definitions import NAME, parsed
from discreet.service.errors import invalid, not_found
from discreet.service.keys import SCOPES, Key
from discreet.service.local import LocalHeld
from discreet.service.messages import KeyBody, PopulationBody
from discreet.service.schema import Definition
from discreet.service.server import Server, returned

T = TypeVar("T")
_RELEASE = msgspec.json.Decoder(replies.PublishedWindow)


async def _run(server: Server, work: Callable[[], T]) -> T:
    """Do something on the writer's thread, by itself."""
    result: T = await server.writer.do(object(), lambda _: [work()], None)
    return result


async def in_transaction(server: Server, work: Callable[[Connection], T]) -> T:
    """Do something in a transaction of its own."""

    def read() -> T:
        with server.store.transaction() as connection:
            return work(connection)

    return await _run(server, read)


async def with_bandit(server: Server, name: str, work: Callable[[Connection, Any], T]) -> T:
    """Read something of a bandit under its lock; a problem if there is none."""

    def read(connection: Connection) -> T:
        row = server.store.lock_bandit(connection, name)
        if row is None:
            raise not_found("bandit")
        return work(connection, row)

    return await in_transaction(server, read)


# -- bandits ---------------------------------------------------------------------------------------


async def create(server: Server, name: str, definition: Definition, who: str) -> bool:
    """Create a bandit; False if it was there with the same definition."""
    return await _run(server, lambda: server.create(name, definition, who))


async def retire(server: Server, name: str, who: str) -> None:
    """End learning for good."""
    await _run(server, lambda: server.retire(name, who))


async def bandit(server: Server, name: str) -> replies.BanditReply:
    """One bandit."""

    def read(connection: Connection, row: Any) -> tuple[Any, Guarantee, Any]:
        held = server.held_of(connection, row)
        reports = held.counts() if isinstance(held, LocalHeld) else msgspec.UNSET
        return row, turning.guarantee(held), reports

    row, promise, reports = await with_bandit(server, name, read)
    return replies.BanditReply(
        **msgspec.structs.asdict(summary(server, row)),
        guarantee=msgspec.convert(promise.to_dict(), replies.Promise),
        reports=reports,
    )


async def bandits(server: Server, key: Key) -> list[replies.BanditSummary]:
    """All bandits that a key may see."""

    def read(connection: Connection) -> list[Any]:
        rows = connection.execute(sa.select(*tables.LIGHT).order_by(tables.bandits.c.name))
        return [row for row in rows if key.bandits is None or row.name in key.bandits]

    rows = await in_transaction(server, read)
    return [summary(server, row) for row in rows]


def summary(server: Server, row: Any) -> replies.BanditSummary:
    """Definition and progress, all of it public; call it on the event loop, which knows leases."""
    live = server.live.get(row.name)
    held = live.unused if live is not None and live.window == row.window else 0
    unused = held + sum(end - first for first, end in returned(row))
    size = row.window_end - row.window_start
    return replies.BanditSummary(
        name=row.name,
        definition=parsed(row.definition.encode()),
        created=row.created,
        rounds=row.next_round - unused,
        policy=row.version,
        learning=is_learning(row),
        retired=row.retired,
        alarm=row.alarm,
        window=replies.Progress(
            number=row.window,
            rounds=size if size < 2**60 else None,
            leased=row.next_round - row.window_start,
            decided=row.next_round - row.window_start - unused,
        ),
    )


def is_learning(row: Any) -> bool:
    """Whether feedback still counts for a bandit."""
    return bool(row.learning and not row.retired and not row.alarm)


async def releases(server: Server, name: str) -> list[replies.PublishedWindow]:
    """What was published, window by window."""
    return await with_bandit(server, name, published)


def published(connection: Connection, row: Any) -> list[replies.PublishedWindow]:
    """What was published of a bandit's windows, in their order."""
    table = tables.windows
    found = connection.execute(
        sa.select(table.c.release)
        .where(table.c.bandit == row.name, table.c.release.is_not(None))
        .order_by(table.c.number)  # not by the clock, which may step back
    )
    return [_RELEASE.decode(text) for text in found.scalars()]


async def policy(server: Server, name: str) -> tuple[str, dict[str, Any]]:
    """The public policy and its ETag; decisions go on by it when learning has ended."""
    return await with_bandit(server, name, _policy)


def _policy(connection: Connection, row: Any) -> tuple[str, dict[str, Any]]:
    table = tables.policies
    raw = connection.execute(
        sa.select(table.c.policy).where(
            table.c.bandit == row.name,
            table.c.epoch == row.epoch,
            table.c.version == row.version,
        )
    ).scalar_one()
    learning = is_learning(row)
    tag = f"{row.epoch}-{row.version}" + ("" if learning else "-closed")
    shown = {"epoch": row.epoch, "version": row.version, "learning": learning}
    return f'"{tag}"', shown | json.loads(raw)


class LocalPolicy(NamedTuple):
    """What everybody may read of a bandit under local trust.

    document   the policy as it is served, which its terms hash
    """

    tag: str  # for HTTP
    document: bytes
    terms: bytes  # of batches that a relay sends; none if it learns no more


async def local_policy(server: Server, name: str) -> LocalPolicy | None:
    """The public policy of a bandit under local trust; None for others."""

    def read(connection: Connection) -> LocalPolicy | None:
        row = server.store.lock_bandit(connection, name)
        if row is None:
            return None
        held = server.held_of(connection, row)
        if not isinstance(held, LocalHeld):
            return None
        tag, shown = _policy(connection, row)
        document = msgspec.json.encode(shown)
        if not is_learning(row):
            return LocalPolicy(tag, document, b"")
        terms = local.terms(held, server.vault, document)
        return LocalPolicy(tag, document, msgspec.json.encode(terms))

    return await in_transaction(server, read)


async def guarantee(server: Server, name: str) -> replies.GuaranteeReply:
    """The promise, with its statement."""

    def read(connection: Connection, row: Any) -> replies.GuaranteeReply:
        promise = turning.guarantee(server.held_of(connection, row))
        shown = promise.to_dict() | {"statement": promise.statement()}
        return msgspec.convert(shown, replies.GuaranteeReply)

    return await with_bandit(server, name, read)


# -- populations -----------------------------------------------------------------------------------


async def set_population(server: Server, name: str, body: PopulationBody, who: str) -> bool:
    """Create a population or change its limit."""
    if body.unit not in (None, "round", "person"):
        raise invalid("`unit` must be round or person.")
    if not (math.isfinite(body.epsilon) and math.isfinite(body.delta)):
        raise invalid("`epsilon` and `delta` must be finite numbers.")

    def change(connection: Connection) -> tuple[bool, dict[str, Any]]:
        created = budgets.set_limit(connection, name, body.epsilon, body.delta, body.unit)
        server.note(connection, who, "limit", name)
        about = {"population": name, "epsilon": body.epsilon, "delta": body.delta}
        return created, {**about, "unit": body.unit}

    created: bool = await _run(server, lambda: server.fenced("limit", change))
    return created


async def population(server: Server, name: str) -> replies.PopulationReply:
    """One population."""

    def read(connection: Connection) -> replies.PopulationReply:
        row = budgets.row_of(connection, name)
        if row is None:
            raise not_found("population")
        return budgets.shown(connection, row)

    return await in_transaction(server, read)


async def populations(server: Server) -> list[replies.PopulationReply]:
    """All populations."""

    def read(connection: Connection) -> list[replies.PopulationReply]:
        rows = connection.execute(sa.select(tables.populations).order_by(tables.populations.c.name))
        return [budgets.shown(connection, row) for row in list(rows)]

    return await in_transaction(server, read)


# -- keys ------------------------------------------------------------------------------------------


async def create_key(server: Server, body: KeyBody, who: str) -> replies.NewKeyReply:
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

    def make(connection: Connection) -> tuple[str, str]:
        made = keys.insert(connection, body.name, body.scopes, body.bandits, body.rate)
        server.note(connection, who, "create key", made[0])
        server.keys.reload(connection)
        return made

    key_id, secret = await in_transaction(server, make)
    return replies.NewKeyReply(
        id=key_id,
        secret=secret,
        name=body.name,
        scopes=sorted(set(body.scopes)),
        bandits=body.bandits,
        rate=body.rate,
    )


async def revoke_key(server: Server, key_id: str, who: str) -> None:
    """Revoke a key for good."""

    def change(connection: Connection) -> tuple[None, dict[str, Any]]:
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
    await in_transaction(server, server.keys.reload)


# -- readiness -------------------------------------------------------------------------------------


async def ready(server: Server) -> replies.ReadyReply:
    """Alarms, if the store answers; a problem if it does not."""

    def read(connection: Connection) -> list[str]:
        table = tables.bandits
        found = connection.execute(sa.select(table.c.name).where(table.c.alarm.is_not(None)))
        return list(found.scalars())

    return replies.ReadyReply(await in_transaction(server, read))
