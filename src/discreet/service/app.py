"""Routes and nothing else."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

import msgspec
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from discreet.service import (
    administration,
    deciding,
    definitions,
    documents,
    learning,
    metrics,
    personalizer,
    sweeping,
)
from discreet.service.dashboard.pages import Dashboard
from discreet.service.errors import (
    Problem,
    explained,
    invalid,
    not_found,
    unauthorized,
    unexpected,
)
from discreet.service.keys import Key
from discreet.service.messages import (
    DecideBody,
    DecisionsReply,
    KeyBody,
    LearnBody,
    PopulationBody,
    StatusesReply,
    StatusReply,
)
from discreet.service.server import Server
from discreet.service.settings import Settings

_DECIDE = msgspec.json.Decoder(DecideBody)
_LEARN = msgspec.json.Decoder(LearnBody)
_KEY = msgspec.json.Decoder(KeyBody)
_POPULATION = msgspec.json.Decoder(PopulationBody)
_ENCODER = msgspec.json.Encoder()
BODY_SECONDS = 30.0  # a client may take to send a request

Endpoint = Callable[[Request], Awaitable[Response]]


def answer(content: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """JSON."""
    return Response(_ENCODER.encode(content), status, headers, "application/json")


def problem(found: Problem) -> Response:
    """application/problem+json."""
    headers = found.more.pop("headers", None)
    return Response(found.body(), found.status, headers, "application/problem+json")


def application(settings: Settings) -> Starlette:
    """The ASGI application; it opens the store at once, so that errors show at start."""
    server = Server(settings)
    routes = Routes(server)

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        server.writer.start(asyncio.get_running_loop())
        chores = asyncio.create_task(sweeping.forever(server))
        try:
            yield
        finally:
            chores.cancel()
            with suppress(asyncio.CancelledError):
                await chores
            for live in list(server.live.values()):
                with suppress(Exception):
                    await deciding.give_back(server, live)
            server.close()

    app = Application(
        routes=routes.all(),
        lifespan=lifespan,
        exception_handlers={404: _no_such_path, 405: _other_method},
    )
    app.state.server = server
    app.state.dashboard = routes.dashboard
    app.often = {"decide": routes.decide, "learn": routes.learn}
    return app


class Application(Starlette):
    """Starlette; the two calls that come often go to their handlers without a detour."""

    often: dict[str, "Often"]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Any request; a framework's request and routing would cost as much as deciding."""
        if scope["type"] == "http" and scope["method"] == "POST":
            start, _, rest = scope["path"].partition("/v1/bandits/")
            name, _, call = rest.partition("/")
            handler = self.often.get(call)
            if handler is not None and not start:
                await handler.handle(name, scope, receive, send)
                return
        await super().__call__(scope, receive, send)


async def _no_such_path(_: Request, __: Exception) -> Response:
    return problem(Problem(404, "not-found", "There is no such path.", "See /docs for all calls."))


async def _other_method(_: Request, error: Exception) -> Response:
    found = Problem(405, "other-method", "This path takes another method.", "See /docs.")
    response = problem(found)
    response.headers.update(getattr(error, "headers", None) or {})
    return response


class Routes:
    """What each path does; the work is done elsewhere."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.decide = Often(server, "decide", self._decide)
        self.learn = Often(server, "learn", self._learn)
        self.dashboard = Dashboard(server)

    def all(self) -> list[Route]:
        """The table of service.md."""
        made = [
            self._route("PUT", "/v1/bandits/{name}", self.put_bandit),
            self._route("GET", "/v1/bandits", self.get_bandits),
            self._route("GET", "/v1/bandits/{name}", self.get_bandit),
            self._route("DELETE", "/v1/bandits/{name}", self.delete_bandit),
            self._route("GET", "/v1/bandits/{name}/releases", self.get_releases),
            Route("/v1/bandits/{name}/decide", self.decide, methods=["POST"]),
            Route("/v1/bandits/{name}/learn", self.learn, methods=["POST"]),
            self._route("GET", "/v1/bandits/{name}/policy", self.get_policy),
            self._route("GET", "/v1/bandits/{name}/guarantee", self.get_guarantee),
            self._route("PUT", "/v1/populations/{name}", self.put_population),
            self._route("GET", "/v1/populations/{name}", self.get_population),
            self._route("GET", "/v1/populations", self.get_populations),
            self._route("POST", "/v1/keys", self.post_key),
            self._route("GET", "/v1/keys", self.get_keys),
            self._route("DELETE", "/v1/keys/{id}", self.delete_key),
            self._route("GET", "/healthz", self.healthz),
            self._route("GET", "/readyz", self.readyz),
            self._route("GET", "/metrics", self.metrics),
            self._route("GET", "/openapi.json", self.openapi),
            self._route("GET", "/docs", self.docs),
            *self.dashboard.routes(),
        ]
        if self.server.settings.personalizer:
            made += [
                self._route("POST", "/personalizer/v1.0/rank", self.rank),
                self._route("POST", "/personalizer/v1.0/events/{id}/reward", self.reward),
                self._route("POST", "/personalizer/v1.0/events/{id}/activate", self.activate),
            ]
        return made

    def _route(self, method: str, path: str, endpoint: Endpoint) -> Route:
        async def called(request: Request) -> Response:
            try:
                return await endpoint(request)
            except ClientDisconnect:
                return Response(status_code=400)
            except Exception as error:
                return _failed(error, f"{method} {path}")

        return Route(path, called, methods=[method])

    # -- who asks, and what ------------------------------------------------------------------------

    def _allowed(self, request: Request, scope: str, bandit: str | None = None) -> Key:
        return _allowed(self.server, request.headers.get("authorization", ""), scope, bandit)

    async def _body(self, request: Request) -> bytes:
        limit = self.server.settings.body_limit
        stated = request.headers.get("content-length", "0")
        if stated.isdigit() and int(stated) > limit:
            raise too_large(limit)
        body = bytearray()
        try:
            async with asyncio.timeout(BODY_SECONDS):
                async for piece in request.stream():
                    body += piece
                    if len(body) > limit:
                        raise too_large(limit)
        except TimeoutError:
            raise Problem(
                408, "too-slow", "The body did not arrive in time.", "Send it again, faster."
            ) from None
        return bytes(body)

    async def _decoded(self, request: Request, decoder: Any) -> Any:
        return _decoded(decoder, await self._body(request))

    def _name(self, request: Request) -> str:
        name: str = request.path_params["name"]
        if not definitions.NAME.fullmatch(name):
            raise not_found("name")
        return name

    # -- bandits -----------------------------------------------------------------------------------

    async def put_bandit(self, request: Request) -> Response:
        """Create."""
        key = self._allowed(request, "admin")
        name: str = request.path_params["name"]
        if not definitions.NAME.fullmatch(name):
            raise invalid("A name has 1 to 64 letters, digits, dots, underscores and dashes.")
        definition = definitions.parsed(await self._body(request))
        created = await administration.create(self.server, name, definition, key.id)
        shown = await administration.bandit(self.server, name)
        return answer(shown, 201 if created else 200)

    async def get_bandits(self, request: Request) -> Response:
        """All that the key may see."""
        key = self._allowed_some(request, "read")
        return answer({"bandits": await administration.bandits(self.server, key)})

    def _allowed_some(self, request: Request, scope: str) -> Key:
        """A key with this scope, perhaps for some bandits only."""
        header = request.headers.get("authorization", "")
        kind, _, secret = header.partition(" ")
        if kind.lower() != "bearer" or not secret:
            raise unauthorized()
        key = self.server.keys.authenticate(secret.strip())
        key.require(scope, next(iter(key.bandits)) if key.bandits else None)
        key.spend(time.monotonic())
        return key

    async def get_bandit(self, request: Request) -> Response:
        """Definition, rounds, policy version, guarantee, progress."""
        name = self._name(request)
        self._allowed(request, "read", name)
        return answer(await administration.bandit(self.server, name))

    async def delete_bandit(self, request: Request) -> Response:
        """Retire."""
        name = self._name(request)
        key = self._allowed(request, "admin")
        await administration.retire(self.server, name, key.id)
        return answer(await administration.bandit(self.server, name))

    async def get_releases(self, request: Request) -> Response:
        """What was published."""
        name = self._name(request)
        self._allowed(request, "read", name)
        return answer({"releases": await administration.releases(self.server, name)})

    async def get_policy(self, request: Request) -> Response:
        """The public policy; its ETag is epoch and version."""
        name = self._name(request)
        self._allowed(request, "read", name)
        tag, policy = await administration.policy(self.server, name)
        headers = {"ETag": tag, "Cache-Control": "no-cache"}
        if request.headers.get("if-none-match") == tag:
            return Response(status_code=304, headers=headers)
        return answer(policy, headers=headers)

    async def get_guarantee(self, request: Request) -> Response:
        """The promise, for machines and in words."""
        name = self._name(request)
        self._allowed(request, "read", name)
        return answer(await administration.guarantee(self.server, name))

    # -- deciding and learning ---------------------------------------------------------------------

    async def _decide(self, name: str, raw: bytes) -> Any:
        """One decision or many."""
        body: DecideBody = _decoded(_DECIDE, raw)
        live = self.server.live.get(name) or await deciding.live_bandit(self.server, name)
        if body.requests is not None:
            return DecisionsReply(await deciding.decide(self.server, live, body.requests))
        if body.contexts is not None:
            made = await deciding.decide_contexts(self.server, live, body.contexts, body.actions)
            return DecisionsReply(made)
        return (await deciding.decide(self.server, live, [body]))[0]

    async def _learn(self, name: str, raw: bytes) -> Any:
        """One reward or many."""
        body: LearnBody = _decoded(_LEARN, raw)
        live = self.server.live.get(name) or await deciding.live_bandit(self.server, name)
        if body.rewards is not None:
            items = [
                learning.prepared(self.server, live, each.decision, each.reward)
                for each in body.rewards
            ]
            return StatusesReply(await learning.learn(self.server, name, items))
        item = learning.prepared(self.server, live, body.decision, body.reward)
        if item is None:
            raise learning.refuse_single(live, body.decision, body.reward)
        return StatusReply((await learning.learn(self.server, name, [item]))[0])

    # -- populations and keys ----------------------------------------------------------------------

    async def put_population(self, request: Request) -> Response:
        """Create, or raise the limit."""
        name = self._name(request)
        key = self._allowed(request, "admin")
        body: PopulationBody = await self._decoded(request, _POPULATION)
        created = await administration.set_population(self.server, name, body, key.id)
        shown = await administration.population(self.server, name)
        return answer(shown, 201 if created else 200)

    async def get_population(self, request: Request) -> Response:
        """Limit, spent, by whom."""
        name = self._name(request)
        self._allowed(request, "read")
        return answer(await administration.population(self.server, name))

    async def get_populations(self, request: Request) -> Response:
        """All of them."""
        self._allowed(request, "read")
        return answer({"populations": await administration.populations(self.server)})

    async def post_key(self, request: Request) -> Response:
        """Make a key; its secret is shown once."""
        key = self._allowed(request, "admin")
        body: KeyBody = await self._decoded(request, _KEY)
        return answer(await administration.create_key(self.server, body, key.id), 201)

    async def get_keys(self, request: Request) -> Response:
        """All keys, without secrets."""
        self._allowed(request, "admin")
        await administration.reload_keys(self.server)
        return answer({"keys": [key.public() for key in self.server.keys.all()]})

    async def delete_key(self, request: Request) -> Response:
        """Revoke."""
        key = self._allowed(request, "admin")
        await administration.revoke_key(self.server, request.path_params["id"], key.id)
        return Response(status_code=204)

    # -- operations --------------------------------------------------------------------------------

    async def healthz(self, _: Request) -> Response:
        """The process lives."""
        return answer({"status": "ok"})

    async def readyz(self, _: Request) -> Response:
        """The store answers; alarms are shown but do not fail it: decisions go on."""
        ready, body = await administration.ready(self.server)
        return answer(body, 200 if ready else 503)

    async def metrics(self, _: Request) -> Response:
        """Prometheus."""
        return Response(await metrics.text(self.server), media_type=metrics.CONTENT_TYPE)

    async def openapi(self, _: Request) -> Response:
        """The OpenAPI document."""
        return answer(documents.openapi(bool(self.server.settings.personalizer)))

    async def docs(self, _: Request) -> Response:
        """The same, for people."""
        return documents.page(bool(self.server.settings.personalizer))

    # -- the retired service's API -----------------------------------------------------------------

    def _subscribed(self, request: Request, scope: str) -> None:
        secret = request.headers.get("ocp-apim-subscription-key", "")
        if not secret:
            raise unauthorized()
        key = self.server.keys.authenticate(secret)
        key.require(scope, self.server.settings.personalizer)
        key.spend(time.monotonic())

    async def rank(self, request: Request) -> Response:
        """Rank."""
        self._subscribed(request, "decide")
        body = await self._decoded(request, personalizer.RANK)
        return answer(await personalizer.rank(self.server, body), 201)

    async def reward(self, request: Request) -> Response:
        """Reward."""
        self._subscribed(request, "learn")
        body = await self._decoded(request, personalizer.REWARD)
        await personalizer.reward(self.server, request.path_params["id"], body.value)
        return Response(status_code=204)

    async def activate(self, request: Request) -> Response:
        """Activate."""
        self._subscribed(request, "learn")
        await personalizer.activate(self.server, request.path_params["id"])
        return Response(status_code=204)


def too_large(limit: int) -> Problem:
    """A body beyond the limit."""
    return Problem(
        413, "too-large", "The body is too large.", f"Send at most {limit} bytes at once."
    )


def _allowed(server: Server, header: str, scope: str, bandit: str | None) -> Key:
    kind, _, secret = header.partition(" ")
    if kind.lower() != "bearer" or not secret:
        raise unauthorized()
    key = server.keys.authenticate(secret.strip())
    key.require(scope, bandit)
    key.spend(time.monotonic())
    return key


def _decoded(decoder: Any, body: bytes) -> Any:
    try:
        return decoder.decode(body)
    except msgspec.ValidationError as error:
        raise invalid(explained(error)) from None
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        raise Problem(
            400, "not-json", "The body is not JSON.", "Send a JSON object in UTF-8."
        ) from None


def _failed(error: Exception, call: str) -> Response:
    if isinstance(error, Problem):
        return problem(error)
    return problem(unexpected(error, call))


async def _rest(body: bytes, receive: Receive, limit: int) -> bytes:
    """A body that comes in pieces: all of it, soon."""
    pieces = bytearray(body)
    try:
        async with asyncio.timeout(BODY_SECONDS):
            more = True
            while more:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise ClientDisconnect
                pieces += message.get("body", b"")
                more = message.get("more_body", False)
                if len(pieces) > limit:
                    raise too_large(limit)
    except TimeoutError:
        raise Problem(
            408, "too-slow", "The body did not arrive in time.", "Send it again, faster."
        ) from None
    return bytes(pieces)


class Often:
    """A call that comes often: JSON in, JSON out, for one bandit, straight on ASGI.

    scope  that a key needs
    work   from the bandit's name and the body to the reply
    """

    def __init__(
        self, server: Server, scope: str, work: Callable[[str, bytes], Awaitable[Any]]
    ) -> None:
        self._server, self._scope, self._work = server, scope, work

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
            await _failed(error, self._scope)(scope, receive, send)
            return
        if content is None:  # the caller went away
            return
        length = b"%d" % len(content)
        headers = [(b"content-length", length), (b"content-type", b"application/json")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": content})

    async def _answer(
        self, name: str, headers: list[tuple[bytes, bytes]], receive: Receive
    ) -> bytes | None:
        if not definitions.NAME.fullmatch(name):
            raise not_found("name")
        found = dict(reversed(headers))  # the first of a kind counts
        _allowed(
            self._server, found.get(b"authorization", b"").decode("latin-1"), self._scope, name
        )
        limit = self._server.settings.body_limit
        stated = found.get(b"content-length", b"0")
        if stated.isdigit() and int(stated) > limit:
            raise too_large(limit)
        message = await receive()
        if message.get("more_body"):
            message["body"] = await _rest(message["body"], receive, limit)
        if message["type"] == "http.disconnect":
            return None
        body = message.get("body", b"")
        if len(body) > limit:
            raise too_large(limit)
        return _ENCODER.encode(await self._work(name, body))
