"""Connections that hold nobody up: deadline and size for headers, and a cap, on uvicorn's HTTP.

Bodies have limits of their own (limits.py); a connection that waits for its next request is closed
by uvicorn (`timeout_keep_alive`).
"""

import asyncio
import logging
import time
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

LOG = logging.getLogger("discreet.service")
HEADER_SECONDS = 10.0  # from the first byte of a request, or the begin of a connection
HEADER_BYTES = 64 * 1024
MOST = 1000  # connections at once
SAID_EVERY = 60.0  # seconds between two lines of the log about the cap


class Guarded(HttpToolsProtocol):
    """A connection; uvicorn makes it."""

    _said = -SAID_EVERY  # when the cap was last written of, for all connections

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._header_bytes = 0
        self._deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Take it, if there are not too many."""
        super().connection_made(transport)
        if len(self.connections) <= MOST:
            self._expect_headers()
            return
        now = time.monotonic()
        if now - Guarded._said > SAID_EVERY:
            Guarded._said = now
            LOG.warning("there are %d connections: others are refused", MOST)
        transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """It is over."""
        self._headers_came()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Parse, unless there is no end of headers."""
        super().data_received(data)
        if self._deadline is not None:
            self._header_bytes += len(data)
            if self._header_bytes > HEADER_BYTES:
                self._give_up()

    def on_message_begin(self) -> None:
        """A request begins."""
        super().on_message_begin()
        self._expect_headers()

    def on_headers_complete(self) -> None:
        """Its headers are there."""
        self._headers_came()
        super().on_headers_complete()

    def _expect_headers(self) -> None:
        if self._deadline is None:
            self._header_bytes = 0
            self._deadline = self.loop.call_later(HEADER_SECONDS, self._give_up)

    def _headers_came(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _give_up(self) -> None:
        self._headers_came()
        if not self.transport.is_closing():
            self.send_400_response("The headers are too large, or came too slowly.")
