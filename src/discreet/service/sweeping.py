"""Chores: settle deadlines, give idle leases back, read keys that other replicas changed."""

import asyncio
import logging
import time
from typing import Any

import sqlalchemy as sa

from discreet.service import administration, asgi, buckets, learning, leasing
from discreet.service import store as tables
from discreet.service.errors import Problem
from discreet.service.server import Server

LOG = logging.getLogger("discreet.service")
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
    """Until cancelled."""
    swept = read = 0.0
    while True:
        await asyncio.sleep(EVERY)
        now = time.monotonic()
        try:
            asgi.give_up_slow_clients(server.reading)
            await leasing.give_back_idle(server)
            if now - swept > SWEEP_EVERY:
                swept = now
                await sweep(server)
            if now - read > KEYS_EVERY:
                read = now
                await administration.reload_keys(server)
        except Problem:
            continue  # the store is away: the next round will do it
        except Exception as error:
            LOG.error("unexpected %s in a chore", type(error).__name__)


async def sweep(server: Server) -> int:
    """Settle decisions whose deadline has passed; returns how many."""
    settled: int = await server.writer.do("sweep", lambda many: [_sweep(server)] * len(many), None)
    return settled


def _sweep(server: Server) -> int:
    now = time.time()
    with server.store.transaction() as connection:
        names = set(connection.execute(DUE, {"now": now}).scalars())
    settled = 0
    for name in names:
        while True:
            done = learning.settle(server, name, now, AT_ONCE)
            settled += done
            if done < AT_ONCE:
                break
    with server.store.transaction() as connection:
        used: set[Any] = set(connection.execute(BUCKETS).scalars())
    server.buckets.destroy_unused(used, now)
    _forget(server, buckets.day(now) - buckets.KEPT_DAYS)
    return settled


def _forget(server: Server, before: int) -> None:
    """Delete ids that were settled before that day, in pieces."""
    own = sa.tuple_(_SETTLED.bandit, _SETTLED.epoch, _SETTLED.id)
    while True:
        with server.store.transaction() as connection:
            gone = connection.execute(_FORGOTTEN, {"day": before}).all()
            if gone:
                connection.execute(sa.delete(tables.settled).where(own.in_(map(tuple, gone))))
        if len(gone) < AT_ONCE:
            return
