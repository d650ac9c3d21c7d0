"""Chores: settle deadlines, give idle leases back, read keys that other replicas changed."""

import asyncio
import logging
import time
from functools import partial
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from discreet.service import administration, beats, buckets, clock, learning, leasing, logs
from discreet.service import store as tables
from discreet.service.errors import Problem
from discreet.service.server import Server

EVERY = 0.25  # seconds, for leases
KEYS_EVERY = 5.0
SWEEP_EVERY = 1.0
AT_ONCE = 500  # decisions settled in one transaction
_PENDING = tables.pending.c
DUE = (  # whose decisions are due; the oldest first, the others in the next round
    sa.select(_PENDING.bandit)
    .where(_PENDING.deadline < sa.bindparam("now"))
    .order_by(_PENDING.deadline)
    .limit(AT_ONCE)
)
BUCKETS = sa.select(_PENDING.bucket).distinct()  # whose keys are needed
_SETTLED = tables.settled.c
_FORGOTTEN = (  # ids that were settled long ago, whose key is gone by now
    sa.select(_SETTLED.bandit, _SETTLED.epoch, _SETTLED.id)
    .where(_SETTLED.settled < sa.bindparam("day"))
    .limit(AT_ONCE)
)


async def forever(server: Server) -> None:
    swept = read = beaten = 0.0
    state, crowd = "", beats.Crowd()
    while True:
        await asyncio.sleep(EVERY)
        now = time.monotonic()
        found = ""
        try:
            if now - beaten > beats.EVERY and not server.store.is_sqlite:
                beaten = now  # first, whatever database it is
                heard = await server.transact(lambda c: beats.beat(c, server.run))
                server.keys.share(crowd.hear(heard))
            server.bodies.give_up_slow_clients()
            server.strangers_bodies.give_up_slow_clients()
            await leasing.give_back_idle(server)
            if server.clock.look():
                found = clock.TEXT
            elif now - swept > SWEEP_EVERY:
                swept = now
                await sweep(server)
                server.swept = time.monotonic()
            if now - read > KEYS_EVERY:
                read = now
                await administration.reload_keys(server)
        except Problem as problem:
            found = problem.kind  # the next round will do it
        except Exception as error:
            logs.unexpected(error, "a chore")
        if found != state and (found or read == now):  # it is over when all is well
            state = found
            logs.record(logging.ERROR, f"alarm: {found}" if found else "alarm: over")


async def sweep(server: Server) -> int:
    """Settle decisions whose deadline has passed; returns how many.

    In pieces: rewards and leases have their turn between two of them. In the end nothing remembers
    in which order rows were written.
    """
    now = time.time()
    settled = 0
    for name in await server.transact(lambda c: set(c.execute(DUE, {"now": now}).scalars())):
        done = AT_ONCE
        while done == AT_ONCE:
            done = await server.do(partial(learning.settle, server, name, now, AT_ONCE))
            settled += done
    await server.do(lambda: _destroy_keys(server, now))
    before = buckets.day(now) - buckets.KEPT_DAYS
    while await server.transact(lambda c: _forgotten(c, before)) == AT_ONCE:
        continue
    await server.do(server.store.forget_commits)
    return settled


def _destroy_keys(server: Server, now: float) -> None:
    with server.store.transaction() as connection:
        used: set[Any] = set(connection.execute(BUCKETS).scalars())
    server.buckets.destroy_unused(used, now)


def _forgotten(connection: Connection, before: int) -> int:
    """Delete some of the ids that were settled before that day; returns how many."""
    gone = connection.execute(_FORGOTTEN, {"day": before}).all()
    if gone:
        own = sa.tuple_(_SETTLED.bandit, _SETTLED.epoch, _SETTLED.id)
        connection.execute(sa.delete(tables.settled).where(own.in_(map(tuple, gone))))
    return len(gone)
