"""What Prometheus reads: numbers of rounds, which are public; nothing from rewards.

No count by action or by status of a reward, no latency by action: each would be a release. The
names of bandits are not for strangers: a key is needed, or the port that is only for metrics, and
for operators: there stands beside it how the server runs (observing.py). However often somebody
asks, the store is asked once in FRESH seconds.
"""

import asyncio
import time
from contextlib import suppress
from typing import Any

import sqlalchemy as sa
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Gauge, generate_latest
from sqlalchemy.engine import Connection
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from discreet.service import administration
from discreet.service import store as tables
from discreet.service.errors import Problem
from discreet.service.server import Server
from discreet.service.tenant import is_learning

FRESH = 10.0  # seconds
_METRICS = {  # of each bandit
    "rounds": "Rounds leased",
    "window": "Number of the open window",
    "policy_version": "Version of the policy",
    "learning": "Whether rewards count",
    "alarm": "Whether an alarm is stored",
}
_COLUMNS = ("name", "next_round", "window", "version", "learning", "retired", "alarm")
_READ = sa.select(*(tables.bandits.c[name] for name in _COLUMNS)).order_by(tables.bandits.c.name)


class Metrics:
    """The text that was made last."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._text = b""
        self._until = 0.0
        self.ready = False  # whether the next change could be made
        self._making: asyncio.Future[None] | None = None

    async def text(self) -> bytes:
        """What Prometheus reads, made anew if it is old; those who ask meanwhile wait together."""
        if self._until < time.monotonic():
            if self._making is None or self._making.done():
                self._making = asyncio.ensure_future(self._make())
            await asyncio.shield(self._making)
        return self._text

    async def _make(self) -> None:
        def read(connection: Connection) -> list[Any]:
            return list(connection.execute(_READ))

        rows: list[Any] = []
        is_up = self.ready = False
        with suppress(Problem):
            await administration.assert_ready(self._server)  # a frozen store is not asked
            self.ready = True
        with suppress(Problem, TimeoutError):
            async with asyncio.timeout(administration.READY_SECONDS):
                rows, is_up = await self._server.transact(read), True
        self._text = await asyncio.to_thread(_spelled, rows, is_up)
        self._until = time.monotonic() + FRESH


def _spelled(rows: list[Any], is_up: bool) -> bytes:
    registry = CollectorRegistry()
    Gauge("discreet_store_up", "Whether the store answers", registry=registry).set(is_up)
    gauges = {
        name: Gauge(f"discreet_{name}", text, ["bandit"], registry=registry)
        for name, text in _METRICS.items()
    }
    for row in rows:
        shown = (row.next_round, row.window, row.version, is_learning(row), row.alarm is not None)
        for gauge, value in zip(gauges.values(), shown, strict=True):
            gauge.labels(row.name).set(value)
    return generate_latest(registry)


async def metrics(server: Server) -> Response:
    """Prometheus metrics: public numbers only, a few seconds old."""
    return Response(await metrics_of(server).text(), media_type=CONTENT_TYPE_LATEST)


def metrics_of(server: Server) -> Metrics:
    """Those of a server, which keeps them."""
    if server.metrics is None:
        server.metrics = Metrics(server)
    found: Metrics = server.metrics
    return found


def application(server: Server) -> Starlette:
    """For a port of its own, which needs no key."""
    own = server.requests.registry

    ready = Gauge("discreet_ready", "Whether the next change could be made", registry=own)
    clock = Gauge("discreet_clock_jumped", "Whether settlements wait for it", registry=own)
    swept = Gauge("discreet_sweep_age_seconds", "Since the last sweep ended", registry=own)

    async def shown(_: Request) -> Response:
        found = metrics_of(server)
        text = await found.text()
        ready.set(found.ready)
        clock.set(server.clock.jumped)
        swept.set(time.monotonic() - server.swept)
        return Response(text + generate_latest(own), media_type=CONTENT_TYPE_LATEST)

    return Starlette(routes=[Route("/metrics", shown, methods=["GET"])])
