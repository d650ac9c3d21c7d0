"""What administrators and readers see and do; everything shown is public or released."""

import asyncio
import math
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from itertools import zip_longest
from typing import Any

import msgspec
from sqlalchemy.engine import Connection
from starlette.responses import Response

from discreet.evaluation.worth import CONFIDENCE, Value
from discreet.privacy import Guarantee
from discreet.service import budgets, clock, keys, replies, rows
from discreet.service import store as tables
from discreet.service.asgi import answer
from discreet.service.definitions import NAME, parsed
from discreet.service.errors import Problem, invalid, not_found
from discreet.service.keys import SCOPES, Key
from discreet.service.limits import MOST_SECONDS
from discreet.service.messages import KeyBody, PopulationBody
from discreet.service.server import Server, returned
from discreet.service.tenant import Tenant, is_learning

READY_SECONDS = 5.0  # in which /readyz answers
PROBED = 1.0  # seconds for which a server that could write is taken to be ready
_RELEASE = msgspec.json.Decoder(replies.PublishedWindow)


# -- bandits ---------------------------------------------------------------------------------------


async def create(server: Server, name: str, raw: bytes, who: str) -> Response:
    """Create a bandit; the same definition again changes nothing."""
    definition = await asyncio.to_thread(parsed, raw)
    created = await server.do(lambda: server.create(name, definition, who))
    return answer(await bandit(server, name), 201 if created else 200)


async def retire(server: Server, name: str, who: str) -> replies.BanditReply:
    """Retire: decisions go on, learning ends, charges and the name stay for ever."""
    await server.do(lambda: server.retire(name, who))
    return await bandit(server, name)


async def bandit(server: Server, name: str) -> replies.BanditReply:
    """Definition, rounds, policy version, guarantee, progress of the window."""

    def read(connection: Connection, row: Any) -> tuple[Any, Guarantee, Any]:
        tenant = server.tenant_of(connection, row)
        return row, tenant.guarantee(), tenant.counts()

    row, promise, reports = await server.with_bandit(name, read)
    return replies.BanditReply(
        **msgspec.structs.asdict(summary(server, row)),
        guarantee=msgspec.convert(promise.to_dict(), replies.Promise),
        reports=reports,
    )


async def bandits(server: Server, key: Key | None = None) -> replies.BanditsReply:
    """All bandits that the key may see."""
    some = None if key is None else key.bandits

    def read(connection: Connection) -> list[Any]:
        found = tables.all_bandits(connection)
        return [row for row in found if some is None or row.name in some]

    found = await server.transact(read)
    return replies.BanditsReply([summary(server, row) for row in found])


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


async def releases(server: Server, name: str) -> replies.ReleasesReply:
    """What was published, window by window."""
    return replies.ReleasesReply(await server.with_bandit(name, published))


def published(connection: Connection, row: Any) -> list[replies.PublishedWindow]:
    """What was published of a bandit's windows, in their order."""
    found = rows.find(connection, tables.windows, "number", "release", bandit=row.name)
    # Not by the clock, which may step back.
    return [_RELEASE.decode(text) for _, text in sorted(found) if text is not None]


def decided(releases: Sequence[replies.PublishedWindow]) -> list[replies.PublishedWindow]:
    """Those of the bandit's own decisions: an old log is none of them."""
    return [each for each in releases if not each.history]


async def value(server: Server, name: str) -> replies.ValueReply:
    """What a decision earns under the policy and held out, now and after each release."""

    def read(connection: Connection, row: Any) -> replies.ValueReply:
        return worth(server.tenant_of(connection, row), published(connection, row))

    return await server.with_bandit(name, read)


def worth(tenant: Tenant, releases: Sequence[replies.PublishedWindow]) -> replies.ValueReply:
    """What a bandit was worth after each of its releases."""
    found: list[replies.ReleasedValue] = []
    now, proved, decisions = None, None, 0
    for each, now in zip_longest(decided(releases), tenant.values()):
        decisions += each.rounds
        found.append(replies.ReleasedValue(each.window, decisions, each.at, **_known(now)))
        if proved is None and now is not None and now.proved is not None:
            proved = replies.Proof(each.window, decisions, each.at)
    return replies.ValueReply(
        confidence=CONFIDENCE,
        rounds=0 if now is None else now.rounds,
        proved=proved,
        more=None if now is None or now.needed is None else now.needed - decisions,
        releases=found,
        **_known(now),
    )


def _known(now: Value | None) -> dict[str, replies.Earned | None]:
    names = ("mean", "holdout", "uplift")
    found = {name: getattr(now, name, None) for name in names}
    return {
        name: each and replies.Earned(each.estimate, each.low, each.high)
        for name, each in found.items()
    }


async def guarantee(server: Server, name: str) -> replies.GuaranteeReply:
    """The promise, computed from the releases, and in words."""

    def read(connection: Connection, row: Any) -> replies.GuaranteeReply:
        promise = server.tenant_of(connection, row).guarantee()
        shown = promise.to_dict() | {"statement": promise.statement()}
        return msgspec.convert(shown, replies.GuaranteeReply)

    return await server.with_bandit(name, read)


# -- populations -----------------------------------------------------------------------------------


async def set_population(server: Server, name: str, body: PopulationBody, who: str) -> Response:
    """Set the most that may be spent on these people."""
    if body.unit not in (None, "round", "person"):
        raise invalid("`unit` must be round or person.")
    if not (math.isfinite(body.epsilon) and math.isfinite(body.delta)):
        raise invalid("`epsilon` and `delta` must be finite numbers.")

    def change(connection: Connection) -> tuple[bool, dict[str, Any]]:
        created = budgets.set_limit(connection, name, body.epsilon, body.delta, body.unit)
        server.note(connection, who, "limit", name)
        about = {"population": name, "epsilon": body.epsilon, "delta": body.delta}
        return created, {**about, "unit": body.unit}

    created = await server.do(lambda: server.fenced("limit", change))
    return answer(await population(server, name), 201 if created else 200)


async def population(server: Server, name: str) -> replies.PopulationReply:
    """Limit, what is spent, and by whom."""

    def read(connection: Connection) -> replies.PopulationReply:
        row = rows.one(connection, tables.populations, name=name)
        if row is None:
            raise not_found("population")
        return budgets.shown(connection, row)

    return await server.transact(read)


async def populations(server: Server) -> replies.PopulationsReply:
    """All populations."""

    def read(connection: Connection) -> list[replies.PopulationReply]:
        found = rows.find(connection, tables.populations)
        return [budgets.shown(connection, row) for row in sorted(found, key=lambda row: row.name)]

    return replies.PopulationsReply(await server.transact(read))


# -- keys ------------------------------------------------------------------------------------------


async def create_key(server: Server, body: KeyBody, who: str) -> replies.NewKeyReply:
    """Make a key; its secret is shown once."""
    if not body.scopes or any(scope not in SCOPES for scope in body.scopes):
        raise invalid(f"`scopes` must be some of {', '.join(SCOPES)}.")
    if not 1 <= len(body.name) <= 200 or not body.name.isprintable():
        raise invalid("`name` must have 1 to 200 printable characters.")
    if body.bandits is not None and any(not NAME.fullmatch(name) for name in body.bandits):
        raise invalid("`bandits` must be names of bandits.")
    if body.bandits is not None and "admin" in body.scopes:
        raise invalid("An admin key is for all bandits: leave out `bandits`.")
    if body.rate is not None and not 1 / MOST_SECONDS <= body.rate < math.inf:
        raise invalid("`rate` must be a number of requests a second, of at least one a day.")
    if body.share is not None and not 0 < body.share <= 1:  # of a command, which nobody decoded
        raise invalid("`share` must be a fraction above 0, or 1.")

    def make(connection: Connection) -> tuple[str, str]:
        made = keys.insert(connection, body)
        server.note(connection, who, "create key", made[0])
        return made

    key_id, secret = await server.transact(make)
    await reload_keys(server)
    return replies.NewKeyReply(
        id=key_id,
        secret=secret,
        name=body.name,
        scopes=sorted(set(body.scopes)),
        bandits=body.bandits,
        rate=body.rate,
        share=body.share,
    )


async def all_keys(server: Server) -> replies.KeysReply:
    """All keys."""
    await reload_keys(server)
    return replies.KeysReply([key.public() for key in server.keys.all()])


async def revoke_key(server: Server, id: str, who: str) -> None:
    """Revoke a key for good."""

    def change(connection: Connection) -> tuple[None, dict[str, Any]]:
        if not NAME.fullmatch(id) or keys.revoke(connection, id) is None:
            raise not_found("key")
        if not keys.has_admin(connection):
            raise invalid("This is the last admin key: make another first.")
        server.note(connection, who, "revoke key", id)
        return None, {"key": id}

    await server.do(lambda: server.fenced("revoke", change))
    await reload_keys(server)


async def reload_keys(server: Server) -> None:
    """Take over keys that other replicas made or revoked."""
    await server.do(server.read_keys)


# -- operations ------------------------------------------------------------------------------------


async def healthy() -> replies.HealthReply:
    """The process lives."""
    return replies.HealthReply()


async def ready(server: Server) -> replies.ReadyReply:
    """Store and fence can be written; alarms are listed.

    These do not fail it: decisions go on. Whoever asks is answered in time: those who ask while a
    database is frozen wait for one probe.
    """
    async with _in_time():
        await assert_ready(server)
        return await _alarms(server)


@asynccontextmanager
async def _in_time() -> AsyncIterator[None]:
    try:
        async with asyncio.timeout(READY_SECONDS):
            yield
    except TimeoutError:
        raise Problem("store-unavailable") from None


async def assert_ready(server: Server) -> None:
    """Raise unless the next change could be made."""
    async with _in_time():
        if server.probed < time.monotonic():
            await asyncio.shield(_probe(server))


def _probe(server: Server) -> asyncio.Future[None]:
    """The probe that is under way, or a new one."""
    if server.probing is None or server.probing.done():
        server.probing = asyncio.ensure_future(_probed(server))
    return server.probing


async def _probed(server: Server) -> None:
    """The next change could be made; how long it waited and took is what operators are shown."""
    asked = time.perf_counter()

    def probe() -> tuple[float, float]:
        began = time.perf_counter()
        server.probe()
        return began - asked, time.perf_counter() - began

    server.requests.probed(*await server.do(probe))
    server.probed = time.monotonic() + PROBED


async def _alarms(server: Server) -> replies.ReadyReply:
    def read(connection: Connection) -> list[str]:
        found = rows.find(connection, tables.bandits, "name", "alarm")
        return [name for name, alarm in found if alarm is not None]

    found = await server.transact(read)
    return replies.ReadyReply([*found, clock.TEXT] if server.clock.jumped else found)
