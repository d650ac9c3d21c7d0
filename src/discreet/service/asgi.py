"""Requests in, replies out: one dispatcher that every call of the API passes through."""

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, NamedTuple

import msgspec
from starlette.applications import Starlette
from starlette.datastructures import QueryParams
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from discreet.service import definitions
from discreet.service.bodies import OFF_LOOP, decoded
from discreet.service.errors import Problem, invalid, not_found, unauthorized, unexpected
from discreet.service.keys import Key
from discreet.service.limits import STRANGERS_BYTES, RawHeaders, address_of
from discreet.service.observing import Requests, Watched
from discreet.service.offers import Misfit

EVERYBODY = {"Access-Control-Allow-Origin": "*"}  # calls that need no key: any page may make them
_encode = msgspec.json.Encoder().encode


# -- replies ---------------------------------------------------------------------------------------


class Answer(NamedTuple):
    """What goes out."""

    status: int  # of HTTP
    headers: list[tuple[bytes, bytes]]  # with the length of the body
    body: bytes  # all of it

    async def send(self, send: Send) -> None:
        """Say it in the messages of ASGI."""
        start = {"type": "http.response.start", "status": self.status, "headers": self.headers}
        await send(start)
        await send({"type": "http.response.body", "body": self.body})


def answer(content: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    return Response(_encode(content), status, headers, "application/json")


def problem(found: Problem) -> Response:
    return Response(found.body(), found.status, found.headers, "application/problem+json")


def explained_to_callers(error: Exception, call: str) -> Problem:
    """What a caller is told of an error: a problem as it is, anything else without its text."""
    if isinstance(error, Misfit):
        where = {"column": error.column, "index": error.index}
        return invalid(str(error), **{name: x for name, x in where.items() if x is not None})
    return error if isinstance(error, Problem) else unexpected(error, call)


async def _no_such_path(_: Request, __: Exception) -> Response:
    return problem(not_found("path"))


async def _other_method(_: Request, error: Exception) -> Response:
    return problem(Problem("other-method", headers=getattr(error, "headers", None)))


UNROUTED: Any = {404: _no_such_path, 405: _other_method}  # handlers of an application


# -- calls -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Call:
    """A call of the API: what it does, and all that its documents say.

    A handler gets what its parameters name: `server`, parts of the path and of the query, `key`
    (None if none was sent), `who` (its id) or else `address`, `body` (decoded) or `raw` bytes,
    `headers`. The first paragraph of its docstring is the call's summary.
    """

    method: str  # of HTTP
    path: str  # `{name}` is that of a bandit or of a population
    handler: Callable[..., Awaitable[Any]]  # see above
    _: KW_ONLY
    scope: str | None = None  # that a key needs; None: no key is needed
    keyless: bool = False  # served without a key too: the handler says what that may do
    body: type | None = None  # the message that is sent; the handler may read `raw` in its own way
    example: Any = None  # of it
    binary: bool = False  # bytes are sent in place of a message
    most: int | None = None  # bytes of a body; None: as the settings say
    strangers: int = STRANGERS_BYTES  # the most without a key
    seconds: float | None = None  # that a body may take; None: as for every call
    query: dict[str, str] = field(default_factory=dict)  # what must stand there, and what it is
    reply: tuple[type, ...] = ()  # messages, one of which is the answer
    refusal: type | None = None  # the message that says what is wrong, in place of a problem
    media: str = "application/json"  # of an answer that is no message
    status: int = 200  # of success
    also: dict[int, str] = field(default_factory=dict)  # other statuses, and what they mean

    @property
    def summary(self) -> str:
        text = inspect.getdoc(self.handler) or ""
        return " ".join(text.partition("\n\n")[0].split()).removesuffix(".")


class Endpoint:
    """A call, straight on ASGI: a framework's request would cost as much as deciding.

    `server` is a decision server or a relay: its settings and its limits apply.
    """

    def __init__(self, server: Any, call: Call) -> None:
        self.server, self.call = server, call
        self._of_bandits = call.path.startswith(("/v1/bandits", "/ofrep"))
        self._lists_bandits = "{" not in call.path
        self._wants = tuple(inspect.signature(call.handler).parameters)
        self._reads = "body" in self._wants or "raw" in self._wants
        self._decoder = msgspec.json.Decoder(call.body) if "body" in self._wants else None
        self._limit = server.settings.body_limit if call.most is None else call.most
        everybody = EVERYBODY if call.keyless else {}
        self._everybody = [(n.lower().encode(), v.encode()) for n, v in everybody.items()]
        self._headers = [(b"content-type", b"application/json"), *self._everybody]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with suppress(ClientDisconnect):
            found = await self.answer(scope["path_params"], scope, receive)
            await found.send(send)

    async def answer(
        self, path: dict[str, str], scope: Scope, receive: Receive, raw: bytes | None = None
    ) -> Answer:
        """Answer, whatever comes; `raw` is the body, if it is there."""
        try:
            reply = await self._reply(path, scope, receive, raw)
        except ClientDisconnect:
            raise
        except Exception as error:
            found = explained_to_callers(error, f"{self.call.method} {self.call.path}")
            scope["problem"] = found.kind
            reply = self.refused(found, path)
            reply.raw_headers.extend(self._everybody)
        if isinstance(reply, Response):
            return Answer(reply.status_code, reply.raw_headers, bytes(reply.body))
        headers = [(b"content-length", b"%d" % len(reply)), *self._headers]
        return Answer(self.call.status, headers, reply)

    async def _reply(
        self, path: dict[str, str], scope: Scope, receive: Receive, raw: bytes | None
    ) -> Any:
        """What the handler says, as JSON, once name, key and body are what they should be."""
        call, server, headers = self.call, self.server, scope["headers"]
        name = path.get("name")
        if name is not None and not definitions.NAME.fullmatch(name):
            raise self._no_such_name()
        try:
            key = None if call.scope is None else self.key(headers, name)
        except Problem as refused:
            if refused.status == 401:
                await server.strangers.spend_slowly(address_of(scope))
            raise
        found = {"server": server, "key": key, "headers": headers, **path}
        if key is not None:
            found |= {"who": key.id, "address": ""}
            bodies, limit = server.bodies, self._limit
        else:
            found["address"] = address_of(scope)
            bodies, limit = server.strangers_bodies, min(self._limit, call.strangers)
            if call.path != "/healthz":
                await server.strangers.spend_slowly(found["address"])
        if call.query:
            given = QueryParams(scope["query_string"])
            found |= {name: given.get(name, "") for name in call.query}
        if not self._reads:
            raw = b""
        elif raw is None:
            raw = await bodies.read(headers, receive, limit, call.seconds)
        else:
            bodies.hold(len(raw), limit)
        try:
            found["raw"] = raw
            if self._decoder is not None:
                read = self._decoder, raw
                large = len(raw) > OFF_LOOP
                found["body"] = await asyncio.to_thread(decoded, *read) if large else decoded(*read)
            reply = await call.handler(*[found[name] for name in self._wants])
        finally:
            bodies.drop(len(raw))
        if reply is None:
            return Response(status_code=call.status)
        return reply if isinstance(reply, Response) else _encode(reply)

    def _no_such_name(self) -> Problem:
        if 201 in self.call.also:
            return invalid("A name has 1 to 64 letters, digits, dots, underscores and dashes.")
        return not_found("name")

    def key(self, headers: RawHeaders, name: str | None) -> Key | None:
        """The key that was sent, if it may do this; None where none is needed."""
        sent = b""
        for header, value in headers:
            if header == b"authorization":
                sent = value
                break
        if not sent and self.call.keyless:
            return None
        kind, _, secret = sent.decode("latin-1").partition(" ")
        if kind.lower() != "bearer" or not secret:
            raise unauthorized()
        key: Key = self.server.keys.authenticate(secret.strip())
        if self._lists_bandits and key.bandits:
            name = min(key.bandits)  # the list has those that the key may see
        key.require(self.call.scope or "", name if self._of_bandits else None)
        key.spend(time.monotonic())
        return key

    def refused(self, found: Problem, path: dict[str, str]) -> Response:
        """A problem as this call's clients read it."""
        return problem(found)


class Application(Starlette):
    """Starlette; the calls that come often go to their endpoints without a detour."""

    often: dict[str, Endpoint]  # by what follows the bandit's name
    requests: Requests

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Any request, watched; a framework's routing would cost as much as deciding."""
        if scope["type"] != "http":
            await super().__call__(scope, receive, send)
            return
        often = self.answering(scope, receive)
        if often is not None:
            with suppress(ClientDisconnect):
                await (await often).send(send)
            return
        request = Watched(send)
        try:
            await super().__call__(scope, receive, request.send)
        finally:
            self.requests.note(scope, request)

    def answering(
        self, scope: Scope, receive: Receive, raw: bytes | None = None
    ) -> Coroutine[Any, Any, Answer] | None:
        """Answers a call that comes often, as `Endpoint.answer` does; None for any other call."""
        start, _, rest = scope["path"].partition("/v1/bandits/")
        name, _, call = rest.partition("/")
        endpoint = self.often.get(call)
        if endpoint is None or start or scope["method"] != "POST":
            return None
        scope["endpoint"] = endpoint
        return self._watched(endpoint, name, scope, receive, raw)

    async def _watched(
        self, endpoint: Endpoint, name: str, scope: Scope, receive: Receive, raw: bytes | None
    ) -> Answer:
        request = Watched()
        try:
            found = await endpoint.answer({"name": name}, scope, receive, raw)
            request.answered(found.status, found.headers)
        finally:
            self.requests.note(scope, request)
        return found
