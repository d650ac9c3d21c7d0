"""Requests as operators see them: a line of the log each, counts and durations, traces.

A request is its route (a pattern of ours), its status and its duration: never what was sent. Calls
that bring feedback are counted nowhere and timed nowhere: one more is one more reward, which only a
release may tell. The log has a line for them, as the log of any web server in front has; it is the
operator's, who sees rewards pass under joint trust anyway.
"""

import os
import time
from collections.abc import Awaitable, Callable
from functools import cache
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Histogram
from starlette.routing import BaseRoute, Route
from starlette.types import Message, Scope, Send

from discreet.service import logs

_OTHER = "other"  # no route of ours: what was asked for is not repeated
ID_BYTES = 8
SAID_EVERY = 0.1  # seconds between two lines of refusals (401, 429)
_GONE = 499  # the caller went away
_FEEDBACK = ("learn", "report", "relay")  # scopes of calls that bring it


class Requests:
    """What is known of all requests so far.

    logs_all   whether each has a line in the log; those that fail (5xx) always have
    """

    def __init__(self, *, logs_all: bool) -> None:
        self._logs_all = logs_all
        self.registry = CollectorRegistry()
        self._count = Counter(
            "discreet_http_requests",
            "Requests, but for those that bring feedback",
            ["route", "status"],
            registry=self.registry,
        )
        self._seconds = Histogram(
            "discreet_http_request_duration_seconds",
            "How long they took",
            ["route"],
            registry=self.registry,
        )
        self._waited = Histogram(
            "discreet_queue_seconds",
            "How long a probe waited for the writer (it comes with a scrape or /readyz)",
            registry=self.registry,
        )
        self._took = Histogram(
            "discreet_commit_seconds",
            "How long its commit took, with the fence",
            registry=self.registry,
        )
        self._counted = cache(lambda route, status: self._count.labels(route, f"{status}xx"))
        self._timed = cache(self._seconds.labels)
        self._refused, self._said = 0, -SAID_EVERY
        self._routes: dict[Any, str] = {}
        self._silent: set[str] = set()
        self._trace = _tracer()

    def know(self, routes: list[BaseRoute]) -> None:
        """Routes, by what serves them."""
        for route in routes:
            if isinstance(route, Route):
                self._routes[route.endpoint] = route.path
                call = getattr(route.endpoint, "call", None)
                if call is not None and call.scope in _FEEDBACK:
                    self._silent.add(route.path)

    def _times(self, status: int, now: float) -> int:
        """How many requests a line stands for: strangers who are refused do not fill a disk."""
        if status not in (401, 429):
            return 1
        self._refused += 1
        if now - self._said < SAID_EVERY:
            return 0
        times, self._refused, self._said = self._refused, 0, now
        return times

    def probed(self, waited: float, took: float) -> None:
        """A probe of the writer, which comes at times that no person chooses."""
        self._waited.observe(waited)
        self._took.observe(took)

    def note(self, scope: Scope, request: "Watched") -> None:
        """A request is answered, or its caller went away."""
        took = time.perf_counter() - request.began
        status = request.status
        route = self._routes.get(scope.get("endpoint"), _OTHER)
        method = scope["method"] if route != _OTHER else _OTHER
        if route not in self._silent:
            self._counted(route, status // 100).inc()
            self._timed(route).observe(took)
        if self._logs_all or status >= 500:
            times = self._times(status, request.began)
            if times:
                why, ms = scope.get("problem"), round(1000 * took, 3)
                logs.request(request.name, method, route, status, ms, why, times)
        if self._trace is not None:
            self._trace(scope["headers"], method, route, status, request.at, took)


class Watched:
    """A request that is served; its id is in the answer's `X-Request-Id` and in its log line."""

    __slots__ = ("_send", "at", "began", "name", "status")
    _random = b""

    def __init__(self, send: Send) -> None:
        self._send = send
        self.name = self._id()
        self.status = _GONE
        self.at, self.began = time.time_ns(), time.perf_counter()

    def send(self, message: Message) -> Awaitable[None]:
        """Say it to the caller."""
        if message["type"] == "http.response.start":
            self.status = message["status"]
            message["headers"] = [*message["headers"], (b"x-request-id", self.name.encode())]
        return self._send(message)

    @classmethod
    def _id(cls) -> str:
        """Random, or it would tell callers how many others there were."""
        if len(cls._random) < ID_BYTES:
            cls._random = os.urandom(512 * ID_BYTES)
        name, cls._random = cls._random[:ID_BYTES], cls._random[ID_BYTES:]
        return name.hex()


def _tracer() -> Callable[..., None] | None:
    """Sends a span for each request to OTEL_EXPORTER_OTLP_ENDPOINT; None if that is not set."""
    if not os.environ.get("OTEL_EXPORTER_OTLP_ENDPOINT"):
        return None
    try:
        from discreet.service import tracing
    except ImportError:
        raise ValueError(
            "OTEL_EXPORTER_OTLP_ENDPOINT is set: pip install 'discreet[traces]', or unset it"
        ) from None
    return tracing.exporting()
