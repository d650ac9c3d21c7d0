"""Connections that hold nobody up: deadlines, sizes and caps, on uvicorn's HTTP.

Bodies that are read have limits of their own (limits.py). Everything else that a peer may let us
wait for has a deadline here: headers, a body that nobody reads, what comes between two requests,
the next one, and a peer that does not take its answer.
"""

import asyncio
import logging
import math
import re
import time
from collections.abc import Callable, Coroutine, Generator, Sized
from contextlib import suppress
from functools import cache
from typing import Any

import uvicorn
from starlette.requests import ClientDisconnect
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import (
    STATUS_LINE,
    HttpToolsProtocol,
    RequestResponseCycle,
)

from discreet.service import logs
from discreet.service.limits import network_of

HEADER_SECONDS = 10.0  # from the first byte of a request, or the begin of a connection
READ_SECONDS = 30.0  # in which a peer takes what is written
HEADER_BYTES = 64 * 1024  # of anything but a body: headers, trailers, what is between requests
MOST = 1000  # connections at once
MOST_AHEAD = 100  # requests of a connection that wait for the answers before theirs
_UPGRADE = re.compile(rb"\r\nupgrade[ \t]*:", re.IGNORECASE)
SAID_EVERY = 60.0  # seconds between two lines of the log about the caps


async def _nothing(*_: Any) -> Any:
    """An application that leaves its scope as it is."""


@cache
def _proxies(trusted: str) -> ProxyHeadersMiddleware:
    return ProxyHeadersMiddleware(_nothing, trusted)


class Flow(FlowControl):
    """Of a connection, which is not read while requests wait: each takes a hundred times its bytes.

    uvicorn reads on after every answer, however many wait.
    """

    def __init__(self, transport: asyncio.Transport, pipeline: Sized) -> None:
        super().__init__(transport)
        self._pipeline = pipeline

    def resume_reading(self) -> None:
        if not self._pipeline:
            super().resume_reading()


class Whole(RequestResponseCycle):
    """A request; an answer in one piece is written as one.

    uvicorn writes head and body apart and searches each header, which costs as much as deciding.
    """

    _start: Any = None  # of the answer, until its body comes

    async def send(self, message: Any) -> None:
        """Start the answer, or go on with it."""
        if self.transport.is_closing():
            self.disconnected = True  # uvicorn says so only to the last of several requests
        if message["type"] == "http.response.start" and not self.response_started:
            self._start = message
            return
        start, self._start = self._start, None
        if start is not None:
            more, body = message.get("more_body", False), message.get("body", b"")
            if not more and self.write(start["status"], start["headers"], body):
                return
            await super().send(start)
        await super().send(message)

    def write(self, status: int, headers: list[tuple[bytes, bytes]], body: bytes) -> bool:
        """Write an answer, unless uvicorn has to look at it."""
        if self.flow.write_paused or self.disconnected or not self.keep_alive:
            return False
        parts = [STATUS_LINE[status]]
        for name, value in self.default_headers:
            parts += (name, b": ", value, b"\r\n")
        for name, value in headers:
            parts += (name, b": ", value, b"\r\n")
        head = b"".join(parts)
        lines = 1 + len(self.default_headers) + len(headers)
        states_length = (b"content-length", b"%d" % len(body)) in headers
        is_plain = head.count(b"\n") == lines and b"connection" not in head
        if not (is_plain and states_length and self.scope["method"] != "HEAD"):
            return False
        self.transport.write(b"%b\r\n%b" % (head, body))
        self.waiting_for_100_continue = False
        self.response_started = self.response_complete = True
        self.message_event.set()
        self.on_response()
        return True


class Begun:
    """A coroutine that has begun, and waits for something."""

    def __init__(self, coroutine: Coroutine[Any, Any, Any], waits_for: Any) -> None:
        self._coroutine, self._waits_for = coroutine, waits_for

    def __await__(self) -> Generator[Any, Any, Any]:
        step: Callable[[Any], Any]
        waits_for = self._waits_for
        while True:
            try:
                step, given = self._coroutine.send, (yield waits_for)
            except BaseException as error:
                step, given = self._coroutine.throw, error
            try:
                waits_for = step(given)
            except StopIteration as ended:
                return ended.value


class Guarded(HttpToolsProtocol):
    """A connection; uvicorn makes it."""

    per_address = MOST  # connections at once
    said = -SAID_EVERY  # when the caps were last written of, for all connections

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.address = ""
        self._in_headers = True
        self._other_bytes = 0  # since the last piece of a body, or the last request
        self._due = math.inf  # when what is waited for must be there
        self._timer: asyncio.TimerHandle | None = None  # stays when that came: it looks, and waits
        self._unread: asyncio.TimerHandle | None = None
        self._is_between = True  # requests
        self._is_parsing = False
        self._parsed: RequestResponseCycle | None = None  # a request that has not begun
        self._proxies = _proxies(str(self.config.forwarded_allow_ips))

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Take it, if there are not too many."""
        super().connection_made(transport)
        self.flow = Flow(transport, self.pipeline)
        self.address = network_of(self.client[0] if self.client else "")
        if len(self.connections) > MOST:
            self._refuse("there are %d connections: others are refused", MOST)
        elif self._of_this_address() > self.per_address:
            self._refuse("an address has %d connections: it gets no others", self.per_address)
        else:
            self._expect(HEADER_SECONDS)

    def connection_lost(self, exc: Exception | None) -> None:
        self._came()
        if self._timer is not None:
            self._timer.cancel()
        self.resume_writing()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Parse, unless there is no end of what is no body."""
        self._other_bytes += len(data)
        if self._is_between and b"pgrade" in data:
            data = _without_upgrade(data)
        self._is_parsing = True
        super().data_received(data)
        self._is_parsing = False
        cycle, self._parsed = self._parsed, None
        is_idle = cycle is None and (self.cycle is None or self.cycle.response_complete)
        if cycle is not None and not self.transport.is_closing():
            self._begin(cycle)
        if self.transport.is_closing():
            return
        if self._other_bytes > HEADER_BYTES:
            self._give_up()
        elif self._in_headers or is_idle:
            self._expect(HEADER_SECONDS)

    def on_message_begin(self) -> None:
        if len(self.pipeline) >= MOST_AHEAD:
            raise ValueError("too many requests at once")
        super().on_message_begin()
        if self.cycle is not None:
            self._came()  # in time: what is waited for now are its headers
        self._is_between = False
        self._in_headers = True

    def on_header(self, name: bytes, value: bytes) -> None:
        """A line of the headers; those after a body are dropped."""
        if self._in_headers:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._came()
        self._in_headers = False
        self._other_bytes = 0
        super().on_headers_complete()
        self.cycle.__class__ = Whole  # before its task begins
        if self.parser.should_upgrade():  # the parser takes what follows for another request
            self.cycle.keep_alive = False

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        """Begin with a request; while bytes are parsed, after them: its body may be among them."""
        if self._is_parsing:
            self._parsed = cycle
            return
        self._settle_client(cycle.scope)
        super()._start_asgi_task(cycle, app)

    def _begin(self, cycle: RequestResponseCycle) -> None:
        """Answer at once what comes often and waits for nothing: a task costs as much."""
        assert isinstance(cycle, Whole)
        answering = getattr(self.app, "answering", None)
        if cycle.more_body or answering is None:
            self._start_asgi_task(cycle, self.app)
            return
        self._settle_client(cycle.scope)
        coming = answering(cycle.scope, cycle.receive, bytes(cycle.body))
        if coming is None:
            super()._start_asgi_task(cycle, self.app)
            return
        cycle.body = bytearray()  # or a connection held it, uncounted, until its next request
        answer = waits_for = None
        try:
            waits_for = coming.send(None)
        except StopIteration as ended:
            answer = ended.value
            if cycle.write(*answer):
                return

        async def rest(_: Any, __: Any, send: Any) -> None:
            with suppress(ClientDisconnect):
                found = await Begun(coming, waits_for) if answer is None else answer
                await found.send(send)

        super()._start_asgi_task(cycle, rest)

    def _settle_client(self, scope: Any) -> None:
        """Whose request it is, if a proxy that is trusted says so."""
        for name, _ in scope["headers"]:
            if name.startswith(b"x-forwarded-"):
                with suppress(StopIteration):
                    self._proxies(scope, _nothing, _nothing).send(None)
                return

    def on_body(self, body: bytes) -> None:
        self._other_bytes = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._came()
        self._is_between = True
        self._other_bytes = 0
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """Go on with the next request, or wait for it: uvicorn makes a timer for each."""
        self.server_state.total_requests += 1
        if self.transport.is_closing():
            self._close()
            return
        following = self.pipeline.pop() if self.pipeline else None
        self.flow.resume_reading()
        if following is not None:
            self._start_asgi_task(*following)
        else:
            self._expect(HEADER_SECONDS if self._in_headers else self.timeout_keep_alive)

    def pause_writing(self) -> None:
        super().pause_writing()
        if self._unread is None:
            self._unread = self.loop.call_later(READ_SECONDS, self.transport.abort)

    def resume_writing(self) -> None:
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None
        super().resume_writing()

    def _expect(self, seconds: float) -> None:
        self._due = min(self._due, self.loop.time() + seconds)
        if self._timer is None:
            self._wait()

    def _came(self) -> None:
        self._due = math.inf

    def _wait(self) -> None:
        """Look when it is due; not much later than now, as something else may be due by then."""
        at = min(self._due, self.loop.time() + HEADER_SECONDS)
        self._timer = self.loop.call_at(at, self._look)

    def _look(self) -> None:
        """The time of something that was waited for is over: a timer for each would cost more."""
        self._timer = None
        if self.loop.time() >= self._due:
            self._give_up()
        elif self._due < math.inf:
            self._wait()

    def _give_up(self) -> None:
        self._came()
        if self._in_headers and not self.transport.is_closing():
            self.send_400_response("The headers are too large, or came too slowly.")
        self._close()

    def _close(self) -> None:
        """What is written still goes out, to a peer that takes it in time."""
        if not self.transport.is_closing():
            self.transport.close()
        self.loop.call_later(READ_SECONDS, self.transport.abort)

    def _refuse(self, why: str, most: int) -> None:
        now = time.monotonic()
        if now - Guarded.said > SAID_EVERY:
            Guarded.said = now
            logs.record(logging.WARNING, why % most)
        self.transport.abort()

    def _of_this_address(self) -> int:
        return sum(getattr(each, "address", None) == self.address for each in self.connections)


def _without_upgrade(data: bytes) -> bytes:
    """A request without an offer to upgrade, which is declined: the parser drops the body of one
    that has it, and Java's client offers HTTP/2 with every first request."""
    head, end, rest = data.partition(b"\r\n\r\n")
    return _UPGRADE.sub(b"\r\ndeclined:", head) + end + rest


def guarded(per_address: int) -> type[Guarded]:
    """Connections, so many at once of each address; uvicorn makes them."""
    return type("Guarded", (Guarded,), {"per_address": per_address})


def config(app: Any, host: str, port: int, per_address: int, **more: Any) -> uvicorn.Config:
    """How uvicorn serves here; what is logged is logs.py's: paths can hold ids."""
    return uvicorn.Config(
        app,
        host=host,
        port=port,
        log_config=None,
        log_level="warning",
        access_log=False,
        server_header=False,
        proxy_headers=False,  # `Guarded` reads them
        http=guarded(per_address),
        ws="none",
        **more,
    )
