"""Connections that hold nobody up: deadlines, sizes and caps, on uvicorn's HTTP.

Bodies that are read have limits of their own (limits.py). Everything else that a peer may let us
wait for has a deadline here: headers, a body that nobody reads, what comes between two requests,
and a peer that does not take its answer. A connection that waits for its next request is closed by
uvicorn (`timeout_keep_alive`).
"""

import asyncio
import logging
import math
import time
from typing import Any

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from discreet.service import logs
from discreet.service.limits import network_of

HEADER_SECONDS = 10.0  # from the first byte of a request, or the begin of a connection
READ_SECONDS = 30.0  # in which a peer takes what is written
HEADER_BYTES = 64 * 1024  # of anything but a body: headers, trailers, what is between requests
MOST = 1000  # connections at once
SAID_EVERY = 60.0  # seconds between two lines of the log about the caps


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

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Take it, if there are not too many."""
        super().connection_made(transport)
        self.address = network_of(self.client[0] if self.client else "")
        if len(self.connections) > MOST:
            self._refuse("there are %d connections: others are refused", MOST)
        elif self._of_this_address() > self.per_address:
            self._refuse("an address has %d connections: it gets no others", self.per_address)
        else:
            self._expect()

    def connection_lost(self, exc: Exception | None) -> None:
        self._came()
        if self._timer is not None:
            self._timer.cancel()
        self.resume_writing()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Parse, unless there is no end of what is no body."""
        self._other_bytes += len(data)
        super().data_received(data)
        if self.transport.is_closing():
            return
        if self._other_bytes > HEADER_BYTES:
            self._give_up()
        elif self.cycle is None or self.cycle.response_complete:
            self._expect()  # we wait for the peer, whose bytes have ended uvicorn's own timer

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._in_headers = True
        self._expect()

    def on_header(self, name: bytes, value: bytes) -> None:
        """A line of the headers; those after a body are dropped."""
        if self._in_headers:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._came()
        self._in_headers = False
        self._other_bytes = 0
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._other_bytes = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._came()
        self._other_bytes = 0
        super().on_message_complete()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self.transport.is_closing():
            self._close()

    def timeout_keep_alive_handler(self) -> None:
        self._close()

    def pause_writing(self) -> None:
        super().pause_writing()
        if self._unread is None:
            self._unread = self.loop.call_later(READ_SECONDS, self.transport.abort)

    def resume_writing(self) -> None:
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None
        super().resume_writing()

    def _expect(self) -> None:
        if self._due == math.inf:
            self._due = self.loop.time() + HEADER_SECONDS
            if self._timer is None:
                self._timer = self.loop.call_at(self._due, self._look)

    def _came(self) -> None:
        self._due = math.inf

    def _look(self) -> None:
        """The time of something that was waited for is over: a timer for each would cost more."""
        self._timer = None
        if self.loop.time() >= self._due:
            self._give_up()
        elif self._due < math.inf:
            self._timer = self.loop.call_at(self._due, self._look)

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
        http=guarded(per_address),
        ws="none",
        **more,
    )
