"""Requests as operators see them: a line of the log each, counts and durations, traces.

A request is its route (a pattern of ours), its status and its duration: never what was sent. Calls
that bring feedback are counted nowhere and timed nowhere: one more is one more reward, which only a
release may tell. The log has a line for them, as the log of any web server in front has; it is the
operator's, who sees rewards pass under joint trust anyway.
"""

import math
import os
import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from itertools import accumulate
from typing import Any

from prometheus_client import CollectorRegistry, Histogram, Metric
from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily
from prometheus_client.registry import Collector
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
        self._counted = _Counted()
        self.registry.register(self._counted)
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
            self._counted.add(route, status, took)
        if self._logs_all or status >= 500:
            times = self._times(status, request.began)
            if times:
                why, ms = scope.get("problem"), round(1000 * took, 3)
                logs.request(request.name, method, route, status, ms, why, times)
        if self._trace is not None:
            began = time.time_ns() - round(1e9 * took)
            self._trace(scope["headers"], method, route, status, began, took)


class _Counted(Collector):
    """Requests by route; the library's own counters lock, and cost as much as reading a body."""

    _bounds = (*Histogram.DEFAULT_BUCKETS,)  # seconds, the last is infinity

    def __init__(self) -> None:
        self._statuses: Counter[tuple[str, int]] = Counter()
        self._took: dict[str, list[int]] = {}  # how many of a route fell into each bucket
        self._sums: dict[str, float] = {}

    def add(self, route: str, status: int, seconds: float) -> None:
        """One more."""
        self._statuses[route, status // 100] += 1
        buckets = self._took.get(route)
        if buckets is None:
            buckets = self._took[route] = [0] * len(self._bounds)
            self._sums[route] = 0.0
        buckets[bisect_left(self._bounds, seconds)] += 1
        self._sums[route] += seconds

    def collect(self) -> Iterator[Metric]:
        """As Prometheus reads them."""
        count = CounterMetricFamily(
            "discreet_http_requests",
            "Requests, but for those that bring feedback",
            labels=["route", "status"],
        )
        for (route, status), n in self._statuses.items():
            count.add_metric([route, f"{status}xx"], n)
        took = HistogramMetricFamily(
            "discreet_http_request_duration_seconds", "How long they took", labels=["route"]
        )
        names = ["+Inf" if bound == math.inf else str(bound) for bound in self._bounds]
        for route, buckets in self._took.items():
            below = list(zip(names, accumulate(buckets), strict=True))
            took.add_metric([route], below, self._sums[route])
        yield from (count, took)


class Watched:
    """A request that is served; its id is in the answer's `X-Request-Id` and in its log line."""

    __slots__ = ("_send", "began", "name", "status")
    _random = b""

    def __init__(self, send: Send | None = None) -> None:
        self._send = send
        self.name = self._id()
        self.status = _GONE
        self.began = time.perf_counter()

    def send(self, message: Message) -> Awaitable[None]:
        """Say it to the caller."""
        assert self._send is not None
        if message["type"] == "http.response.start":
            message["headers"] = headers = [*message["headers"]]
            self.answered(message["status"], headers)
        return self._send(message)

    def answered(self, status: int, headers: list[tuple[bytes, bytes]]) -> None:
        """An answer goes out, with these headers and one of ours."""
        self.status = status
        headers.append((b"x-request-id", self.name.encode()))

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
