"""Requests in, replies out: bodies, keys, JSON and problems, for every route alike."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

import msgspec
from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from discreet.service import definitions
from discreet.service.errors import (
    Problem,
    explained,
    invalid,
    not_found,
    not_json,
    unauthorized,
    unexpected,
)
from discreet.service.keys import Key
from discreet.service.server import Server

BODY_SECONDS = 30.0  # a client may take to send a request
_GIVEN_UP = -1.0
Reading = dict[asyncio.Task[Any], float]  # requests whose body is awaited, and until when
EVERYBODY = {"Access-Control-Allow-Origin": "*"}  # calls that need no key: any page may make them
Work = Callable[[str, bytes], Awaitable[Any]]
_encode = msgspec.json.Encoder().encode


# -- replies ---------------------------------------------------------------------------------------


def answer(content: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """JSON."""
    return Response(_encode(content), status, headers, "application/json")


def problem(found: Problem) -> Response:
    """application/problem+json."""
    return Response(found.body(), found.status, found.headers, "application/problem+json")


def explained_to_callers(error: Exception, call: str) -> Problem:
    """What a caller is told of an error: a problem as it is, anything else without its text."""
    return error if isinstance(error, Problem) else unexpected(error, call)


# -- requests --------------------------------------------------------------------------------------


def allowed(server: Server, header: str, scope: str, bandit: str | None = None) -> Key:
    """The key in an Authorization header, if it has this scope (for this bandit)."""
    key = authenticated(server, header)
    key.require(scope, bandit)
    key.spend(time.monotonic())
    return key


def authenticated(server: Server, header: str) -> Key:
    """The key in an Authorization header."""
    kind, _, secret = header.partition(" ")
    if kind.lower() != "bearer" or not secret:
        raise unauthorized()
    return server.keys.authenticate(secret.strip())


def decoded(decoder: Any, body: bytes) -> Any:
    """A body as a message, or a problem that says what does not fit."""
    try:
        return decoder.decode(body)
    except msgspec.ValidationError as error:
        raise invalid(explained(error)) from None
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        raise not_json() from None


def too_large(limit: int) -> Problem:
    """A body beyond the limit."""
    return Problem(
        413, "too-large", "The body is too large.", f"Send at most {limit} bytes at once."
    )


async def body_of(
    reading: Reading,
    headers: Iterable[tuple[bytes, bytes]],
    receive: Receive,
    limit: int,
    seconds: float | None = None,
) -> bytes:
    """The body of a request, as long as it is not too large and comes soon."""
    for name, stated in headers:
        if name == b"content-length" and stated.isdigit() and int(stated) > limit:
            raise too_large(limit)
    pieces: list[bytes] = []
    size = 0
    more = True
    task = asyncio.current_task()
    assert task is not None
    reading[task] = time.monotonic() + (BODY_SECONDS if seconds is None else seconds)
    try:
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise ClientDisconnect
            pieces.append(message.get("body", b""))
            more = message.get("more_body", False)
            size += len(pieces[-1])
            if size > limit:
                raise too_large(limit)
    except asyncio.CancelledError:
        if reading[task] != _GIVEN_UP:
            raise
        task.uncancel()
        raise Problem(
            408, "too-slow", "The body did not arrive in time.", "Send it again, faster."
        ) from None
    finally:
        del reading[task]
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def give_up_slow_clients(reading: Reading) -> None:
    """End requests whose body does not come; a timer for each would cost more than reading one."""
    now = time.monotonic()
    for task, until in list(reading.items()):
        if until < now:
            reading[task] = _GIVEN_UP
            task.cancel()


class Often:
    """A call that comes often: JSON in, JSON out, for one bandit, straight on ASGI.

    scope    that a key needs
    work     from the bandit's name and the body to the reply
    keyless  the same for requests without a key; none: they are refused
    server   whose keys and limits apply
    """

    def __init__(
        self, server: Server, scope: str, work: Work, *, keyless: Work | None = None
    ) -> None:
        self._server, self._scope, self._work, self._keyless = server, scope, work, keyless
        everybody = {} if keyless is None else EVERYBODY
        self._headers = [(n.lower().encode(), v.encode()) for n, v in everybody.items()]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """As a route of Starlette."""
        await self.handle(scope["path_params"]["name"], scope, receive, send)

    async def handle(self, name: str, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, whatever comes."""
        try:
            content = await self._answer(name, scope["headers"], receive)
        except ClientDisconnect:
            return
        except Exception as error:
            found = explained_to_callers(error, self._scope)
            response = problem(found)
            response.raw_headers.extend(self._headers)
            await response(scope, receive, send)
            return
        length = b"%d" % len(content)
        headers = [(b"content-length", length), (b"content-type", b"application/json")]
        headers += self._headers
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": content})

    async def _answer(
        self, name: str, headers: list[tuple[bytes, bytes]], receive: Receive
    ) -> bytes:
        if not definitions.NAME.fullmatch(name):
            raise not_found("name")
        key = next((value for header, value in headers if header == b"authorization"), b"")
        work = self._work
        if key or self._keyless is None:
            allowed(self._server, key.decode("latin-1"), self._scope, name)
        else:
            work = self._keyless
        server = self._server
        body = await body_of(server.reading, headers, receive, server.settings.body_limit)
        return _encode(await work(name, body))
