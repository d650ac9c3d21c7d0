"""Leases, policy, choose, seal.

A decision needs a round number, the public policy and the person's features; none of these is
private to others. Numbers are leased in small blocks, because lost numbers cost learning: a block
is about 50 ms of traffic, an idle replica gives its block back, and all leases of a window end with
it. A decision that is kept (named by the caller, or with a default reward) is written first.
"""

import asyncio
import hashlib
import json
import math
import time
from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np
import sqlalchemy as sa

from discreet.service import pending as keeping
from discreet.service import store as tables
from discreet.service import turning
from discreet.service.definitions import Declared, raw_rows
from discreet.service.errors import Problem, conflict, invalid, not_found
from discreet.service.messages import DecideRequest, DecisionReply
from discreet.service.pending import Answer, Buckets, Pending
from discreet.service.server import Server, returned
from discreet.service.tokens import NOBODY, PREFIX, Sealed
from discreet.service.turning import Live

BLOCK_SECONDS = 0.05  # of traffic in a lease
MOST = 64  # rounds in a lease, unless the window is long or one request wants more
WINDOW_PART = 64  # a lease is at most this fraction of a long window: what a crash may lose
MOST_AT_ONCE = 10_000  # decisions of one request
LEASE_SECONDS = 5.0  # after that a lease is not used any more
IDLE_SECONDS = 0.5  # without a decision, after which a block is given back
_LONGEST_ID = 256
_NEXT_ROUND = (
    sa.update(tables.bandits)
    .where(tables.bandits.c.name == sa.bindparam("b_name"))
    .values(next_round=sa.bindparam("next_round"))
)


async def live_bandit(server: Server, name: str) -> Live:
    """What this replica knows of a bandit, from the store at first."""
    live = server.live.get(name)
    if live is None:
        live = await server.writer.do(("open", name), lambda many: _open(server, name, many), None)
        live = server.live.setdefault(name, live)
    return live


def _open(server: Server, name: str, payloads: Sequence[Any]) -> list[Live]:
    with server.store.transaction() as connection:
        row = server.store.lock_bandit(connection, name)
        if row is None:
            raise not_found("bandit")
        live = turning.live(row)
        turning.publisher(server.held_of(connection, row), row)(live)
    return [live] * len(payloads)


# -- leases ----------------------------------------------------------------------------------------


async def lease(server: Server, live: Live, wanted: int) -> None:
    """Get this replica at least one round number; callers that wait share one lease."""
    if live.spare is not None:
        live.first, live.end, live.lease_ends = live.spare
        live.spare = None
        return
    live.wanted += wanted
    if live.waiting is None or live.waiting.done():
        _begin(live, _lease(server, live))
    await asyncio.shield(live.waiting)


def _begin(live: Live, work: Any) -> None:
    task = live.waiting = asyncio.ensure_future(work)

    def ended(_: Any) -> None:
        if live.waiting is task:
            live.waiting = None

    task.add_done_callback(ended)


def _size(live: Live, wanted: int) -> int:
    most = max(MOST, live.window_size // WINDOW_PART)
    return max(wanted, min(most, math.ceil(live.rate * BLOCK_SECONDS)))


async def _lease(server: Server, live: Live) -> None:
    now = time.monotonic()
    wanted, live.wanted = min(live.wanted, MOST_AT_ONCE), 0
    granted = await server.writer.do(
        ("lease", live.name),
        lambda many: [_granted(server, live.name, n) for n in many],
        _size(live, wanted),
    )
    first, end, publish = granted
    publish(live)
    live.first, live.end = first, end
    live.lease_ends = now + LEASE_SECONDS


async def _lease_spare(server: Server, live: Live, size: int) -> None:
    """Lease the next block while the last numbers of this one are used; never turns a window."""
    now = time.monotonic()
    window = live.window
    try:
        found = await server.writer.do(
            ("spare", live.name),
            lambda many: [_spare(server, live.name, window, n) for n in many],
            size,
        )
    except Problem:  # whoever needs a number will ask, and say so
        return
    if found is not None:
        live.spare = (*found, now + LEASE_SECONDS)


def _spare(server: Server, name: str, window: int, size: int) -> tuple[int, int] | None:
    with server.store.transaction() as connection:
        row = server.store.lock_bandit(connection, name)
        if row is None or row.window != window or row.epoch != server.epoch:
            return None
        return _block(connection, row, size)


def _granted(server: Server, name: str, size: int) -> tuple[int, int, Any]:
    """A block of round numbers of the open window; turns the window if it is full."""
    try:
        with server.store.transaction() as connection:
            row = server.store.lock_bandit(connection, name)
            if row is None:
                raise not_found("bandit")
            block = _block(connection, row, size)
            if block is not None:
                held = server.held_of(connection, row)
        if block is None:
            row, held, block = _turned(server, name, size)
        return *block, turning.publisher(held, row)
    except BaseException:
        server.forget(name)
        raise


def _block(connection: Any, row: Any, size: int) -> tuple[int, int] | None:
    """Numbers that were given back, else new ones; None if the window has none left."""
    back = returned(row)
    if back:
        where = tables.bandits.c.name == row.name
        first, end = back.pop(0)
        if end - first > size:
            back.insert(0, [first + size, end])
            end = first + size
        update = sa.update(tables.bandits).where(where).values(returned=json.dumps(back))
        connection.execute(update)
        return first, end
    first = row.next_round
    end = min(first + size, row.window_end)
    if first >= end:
        return None
    connection.execute(_NEXT_ROUND, {"b_name": row.name, "next_round": end})
    return first, end


def _turned(server: Server, name: str, size: int) -> tuple[Any, Any, tuple[int, int]]:
    """Turn the window that is full, then lease from the next: one fenced transaction."""

    def change(connection: Any) -> tuple[Any, dict[str, Any] | None]:
        row = server.store.lock_bandit(connection, name)
        block = _block(connection, row, size)
        about = None
        if block is None:  # nobody else has turned it meanwhile
            held = server.held_of(connection, row)
            turning.turn(connection, server.vault, held, row)
            row = server.store.lock_bandit(connection, name)
            block = _block(connection, row, size)
            about = {"bandit": name, "window": row.window}
        assert block is not None
        return (row, server.held_of(connection, row), block), about

    result: tuple[Any, Any, tuple[int, int]] = server.fenced("turn", change)
    return result


async def give_back(server: Server, live: Live) -> None:
    """Return the numbers of leases that were not used."""
    blocks = [(live.first, live.end, live.lease_ends)]
    if live.spare is not None:
        blocks.append(live.spare)
    count = sum(end - first for first, end, _ in blocks)
    live.first = live.end = 0
    live.spare = None
    live.returning += count
    try:
        for first, end, lease_ends in blocks:
            if first < end and time.monotonic() < lease_ends:
                await server.writer.do(
                    ("give back", live.name),
                    lambda many: [_given_back(server, live.name, block) for block in many],
                    (first, end, live.window),
                )
    finally:
        live.returning -= count


def _given_back(server: Server, name: str, block: tuple[int, int, int]) -> bool:
    first, end, window = block
    with server.store.transaction() as connection:
        row = server.store.lock_bandit(connection, name)
        if row.window != window:
            return False  # a lease ends with its window
        where = tables.bandits.c.name == name
        back = sorted([*returned(row), [first, end]])
        connection.execute(sa.update(tables.bandits).where(where).values(returned=json.dumps(back)))
    return True


async def give_back_idle(server: Server) -> None:
    """Return blocks of bandits that nobody asks at the moment."""
    now = time.monotonic()
    for live in list(server.live.values()):
        held = live.first < live.end or live.spare is not None
        if held and now - live.used_at > IDLE_SECONDS and live.waiting is None:
            await give_back(server, live)


# -- deciding --------------------------------------------------------------------------------------


class _Asked:
    """One request, checked: rows, names, and what is needed to keep it."""

    __slots__ = ("id", "names", "person", "request", "rows")
    names: Sequence[Any]

    def __init__(
        self, server: Server, live: Live, request: DecideRequest, offer: Any = None
    ) -> None:
        try:
            if offer is not None:
                self.rows, self.names = offer.rows, offer.names
            elif live.features is None:
                if request.features is None or request.context is not None:
                    raise ValueError("this bandit takes `features`: one row for each action")
                self.rows = raw_rows(request.features, live.definition.dim or 0)
                self.names = range(len(self.rows))
            else:
                if request.features is not None:
                    raise ValueError("this bandit takes `context` (and `actions`), not `features`")
                offer = live.features.offer(request.context, request.actions)
                self.rows, self.names = offer.rows, offer.names
        except (ValueError, TypeError, OverflowError, RecursionError) as error:
            raise invalid(_plain(error)) from None
        self.person = self._pseudonym(server, live, request.person)
        self.id = None
        self.request = b""
        if request.id is not None:
            if not 0 < len(request.id) <= _LONGEST_ID or request.id.startswith(PREFIX):
                raise invalid(f"`id` must have 1 to {_LONGEST_ID} characters, not begin {PREFIX!r}")
            self.id = server.hashed_id(live.about, request.id)
            asked = msgspec.json.encode(request, order="deterministic")
            self.request = hashlib.blake2b(asked, key=server.vault.master, digest_size=16).digest()

    @staticmethod
    def _pseudonym(server: Server, live: Live, person: str | None) -> bytes:
        if live.definition.privacy.unit == "round":
            return NOBODY
        if not person or len(person) > _LONGEST_ID:
            raise invalid(
                f"this bandit protects people: send `person`, up to {_LONGEST_ID} characters"
            )
        return server.pseudonym(live.about, person)


def _plain(error: Exception) -> str:
    return str(error) if isinstance(error, ValueError) else "The context or the actions do not fit."


async def decide(
    server: Server, live: Live, requests: Sequence[DecideRequest], *, active: bool = True
) -> list[DecisionReply]:
    """A decision for each request; with `active=False` defaults wait for an activation."""
    if len(requests) > MOST_AT_ONCE:
        raise invalid(f"send at most {MOST_AT_ONCE} requests at once")
    asked = [_Asked(server, live, request) for request in requests]
    return await _decided(server, live, asked, active)


async def decide_contexts(
    server: Server, live: Live, contexts: Sequence[Any], actions: list[Any] | None
) -> list[DecisionReply]:
    """A decision for each context, all with the same actions."""
    one_by_one = not isinstance(live.features, Declared)
    if one_by_one or live.definition.privacy.unit == "person" or len(contexts) > MOST_AT_ONCE:
        requests = [DecideRequest(context, actions) for context in contexts]
        return await decide(server, live, requests)
    try:
        offers = live.features.offers(contexts, actions)
    except (ValueError, TypeError, OverflowError, RecursionError) as error:
        raise invalid(_plain(error)) from None
    nothing = DecideRequest()
    asked = [_Asked(server, live, nothing, offer) for offer in offers]
    return await _decided(server, live, asked, active=True)


async def _decided(
    server: Server, live: Live, asked: Sequence[_Asked], active: bool
) -> list[DecisionReply]:
    keep = live.definition.reward.default is not None
    made: list[Any] = []
    while len(made) < len(asked):
        if live.first >= live.end or time.monotonic() > live.lease_ends:
            await lease(server, live, len(asked) - len(made))
            continue
        n = min(live.end - live.first, len(asked) - len(made))
        first, live.first = live.first, live.first + n
        live.note(n)
        made += _chosen(server, live, asked[len(made) : len(made) + n], first)
        if live.spare is None and live.waiting is None:
            size = _size(live, min(len(asked), 4 * MOST) if len(asked) > 1 else 0)
            if live.end - live.first <= size // 2:
                _begin(live, _lease_spare(server, live, size))
    if keep or any(each.id is not None for each in asked):
        return await _kept(server, live, asked, made, keep, active)
    now = time.time()
    nonces = server.sealer.nonces(len(asked))
    replies = []
    for each, choice, nonce in zip(asked, made, nonces, strict=True):
        token = _token(server, live, each, choice, now, nonce)
        replies.append(DecisionReply(token, each.names[choice[1]], *choice[2:]))
    return replies


def probabilities(live: Live, request: DecideRequest) -> list[float]:
    """The probability of each action under the policy of now."""
    rows = live.features.offer(request.context, request.actions).rows
    return [float(p) for p in live.policy.probabilities(rows[None])[0]]


def _chosen(server: Server, live: Live, asked: Sequence[_Asked], first: int) -> list[Any]:
    """(round, action, probability, policy version) for some requests under one policy."""
    policy, version = live.policy, live.version
    if len(asked) == 1:
        return [(first, *policy.draw_one(asked[0].rows, float(live.coins(first, 1)[0])), version)]
    coins = live.coins(first, len(asked))
    sizes = {len(each.rows) for each in asked}
    found: list[Any] = [None] * len(asked)
    for size in sizes:
        places = [i for i, each in enumerate(asked) if len(each.rows) == size]
        rows = np.stack([asked[i].rows for i in places])
        actions = policy.choose(rows, coins[places])
        law = policy.probabilities(rows)
        for at, i in enumerate(places):
            action = int(actions[at])
            found[i] = (first + i, action, float(law[at, action]), version)
    return found


def _token(
    server: Server, live: Live, asked: _Asked, choice: Any, now: float, nonce: bytes | None = None
) -> str:
    number, action, probability, _ = choice
    sealed = Sealed(
        server.sealer.run, number, asked.rows[action], probability, now + live.wait, asked.person
    )
    return server.sealer.seal(live.about, sealed, nonce)


# -- kept decisions --------------------------------------------------------------------------------


async def _kept(
    server: Server,
    live: Live,
    asked: Sequence[_Asked],
    made: Sequence[Any],
    keep: bool,
    active: bool,
) -> list[DecisionReply]:
    now = time.time()
    entries = []
    for each, choice in zip(asked, made, strict=True):
        reply = Answer(_token(server, live, each, choice, now), each.names[choice[1]], *choice[2:])
        wanted = keep or each.id is not None
        entries.append((each, choice[0], reply, wanted, now + live.wait, active))
    answers = await server.writer.do(
        ("keep", live.name), lambda many: _keep(server, live.name, live.about, many), entries
    )
    if any(isinstance(answer, Problem) for answer in answers):
        raise next(answer for answer in answers if isinstance(answer, Problem))
    return [DecisionReply(a.decision, a.action, a.probability, a.policy) for a in answers]


def _keep(
    server: Server, name: str, about: bytes, payloads: Sequence[Sequence[Any]]
) -> list[list[Any]]:
    """Write what is kept; a request that was made before gets its first answer again."""
    results: list[list[Any]] = []
    with server.store.transaction() as connection:
        row = server.store.lock_bandit(connection, name)
        kept = Pending(connection, server.buckets, server.sealer, name, row.epoch)
        server.held_of(connection, row)  # refuses another epoch
        kept.load([e[0].id for payload in payloads for e in payload if e[0].id is not None])
        known: dict[bytes, tuple[bytes, Any]] = {}
        fresh = []
        for payload in payloads:
            answers: list[Any] = []
            for asked, number, reply, wanted, deadline, active in payload:
                answer = reply
                if asked.id is not None:
                    answer = _again(kept, known, asked) or reply
                if answer is reply and wanted:
                    bucket = Buckets.named(deadline, time.time())
                    fresh.append(
                        {
                            "bandit": name,
                            "epoch": row.epoch,
                            "round": number,
                            "id": asked.id,
                            "request": asked.request,
                            "answer": keeping.seal(server.buckets, bucket, about, number, reply),
                            "bucket": bucket,
                            "deadline": deadline,
                            "active": active,
                        }
                    )
                    if asked.id is not None:
                        known[asked.id] = (asked.request, reply)
                    if asked.person != NOBODY:  # the first decision counts
                        sealed = server.sealer.open(about, reply.decision)
                        assert sealed is not None
                        server.admit(connection, name, sealed)
                answers.append(answer)
            results.append(answers)
        if fresh:
            connection.execute(sa.insert(tables.pending), fresh)
    return results


def _again(kept: Pending, known: dict[bytes, tuple[bytes, Any]], asked: _Asked) -> Any:
    """The first answer to a request with this id; a problem if the request was another."""
    assert asked.id is not None
    entry = kept.entry(asked.id)
    if entry is not None:
        request, answer = bytes(entry.request), kept.answer(entry)
    elif asked.id in known:
        request, answer = known[asked.id]
    else:
        return None
    if request != asked.request:
        return conflict(
            "id-taken",
            "Another decision has this id.",
            "Choose a new id for every decision; repeat a request only unchanged.",
        )
    return answer or conflict(
        "settled",
        "The decision with this id has had its reward.",
        "Choose a new id for every decision.",
    )
