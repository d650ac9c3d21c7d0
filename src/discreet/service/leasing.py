"""Leases: round numbers in small blocks, so that deciding needs no write.

Lost numbers cost learning: a block is about 50 ms of traffic, an idle replica gives its block back,
and all leases of a window end with it. A lease that finds the window full turns it; the last one
before a horizon only once nothing waits for it.
"""

import asyncio
import json
import math
import time
from typing import Any

from discreet.service import rows, shares
from discreet.service import store as tables
from discreet.service.errors import Problem
from discreet.service.live import Live
from discreet.service.server import Server, returned

BLOCK_SECONDS = 0.05  # of traffic in a lease
MOST = 64  # rounds in a lease, unless the window is long or one request wants more
WINDOW_PART = 8  # a lease is at most this fraction of a long window: others want some too
MOST_AT_ONCE = 10_000  # decisions of one request
LEASE_SECONDS = 5.0  # after that a lease is not used any more
IDLE_SECONDS = 0.5  # without a decision, after which a block is given back


async def rounds(server: Server, live: Live, wanted: int) -> tuple[int, int]:
    """The first of at most `wanted` round numbers that are this caller's, and how many."""
    while (found := taken(server, live, wanted)) is None:
        await lease(server, live, wanted)
    return found


def taken(server: Server, live: Live, wanted: int) -> tuple[int, int] | None:
    """The same, of those that this replica has; None if it has none.

    When few are left the next block is leased already.
    """
    if live.first >= live.end or time.monotonic() > live.lease_ends:
        return None
    n = min(live.end - live.first, wanted)
    first = live.first
    live.first += n
    live.note(n)
    if live.spare is None and live.waiting is None:
        size = _size(live, min(wanted, 4 * MOST) if wanted > 1 else 0)
        if live.end - live.first <= size // 2:
            _begin(live, _lease_spare(server, live, size))
    return first, n


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
        if row is None or row.window != window:
            return None
        server.assert_present(connection, row)
        return _block(connection, row, size)


def _granted(server: Server, name: str, size: int) -> tuple[int, int, Any]:
    """A block of round numbers of the open window; turns the window if it is full."""
    try:
        with server.store.transaction() as connection:
            row = server.row(connection, name)
            block = _block(connection, row, size)
            if block is not None:
                tenant = server.tenant_of(connection, row)
        if block is None:
            row, tenant, block = _turned(server, name, size)
        return *block, tenant.publish(row)
    except BaseException:
        server.forget(name)
        raise


def _block(connection: Any, row: Any, size: int) -> tuple[int, int] | None:
    """Numbers that were given back, else new ones; None if the window has none left."""
    back = returned(row)
    here = {"name": row.name}
    if back:
        first, end = back.pop(0)
        if end - first > size:
            back.insert(0, [first + size, end])
            end = first + size
        rows.update(connection, tables.bandits, here, returned=json.dumps(back))
        return first, end
    first = row.next_round
    end = min(first + size, row.window_end)
    if first >= end:
        return None
    rows.update(connection, tables.bandits, here, next_round=end)
    return first, end


def _turned(server: Server, name: str, size: int) -> tuple[Any, Any, tuple[int, int]]:
    """Turn the window that is full, then lease from the next: one fenced transaction.

    The last window before a horizon stays open while rewards wait for it: decisions go on in it,
    under its policy, and count for nothing.
    """

    def change(connection: Any) -> tuple[Any, dict[str, Any] | None]:
        row = server.store.lock_bandit(connection, name)
        block = _block(connection, row, size)
        about = None
        if block is None:  # nobody else has turned it meanwhile
            tenant = server.tenant_of(connection, row)
            if tenant.awaits(connection, row):
                longer = row.window_end + size
                rows.update(connection, tables.bandits, {"name": name}, window_end=longer)
            else:
                tenant.turn(connection, server.vault, row)
                about = {"bandit": name, "window": row.window + 1}
            row = server.store.lock_bandit(connection, name)
            block = _block(connection, row, size)
        assert block is not None
        return (row, server.tenant_of(connection, row), block), about

    result: tuple[Any, Any, tuple[int, int]] = server.fenced("turn", change)
    return result


async def give_back(server: Server, live: Live) -> None:
    """Return the numbers of leases that were not used, and what shares have left."""
    if live.waiting is not None:  # a block that is being leased would be lost
        await asyncio.wait([live.waiting])
    await shares.give_back(server, live)
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
        back = json.dumps(sorted([*returned(row), [first, end]]))
        rows.update(connection, tables.bandits, {"name": name}, returned=back)
    return True


async def give_back_idle(server: Server) -> None:
    """Return blocks of bandits that nobody asks at the moment."""
    now = time.monotonic()
    for live in list(server.live.values()):
        held = live.first < live.end or live.spare is not None or live.shares
        if held and now - live.used_at > IDLE_SECONDS and live.waiting is None:
            await give_back(server, live)
