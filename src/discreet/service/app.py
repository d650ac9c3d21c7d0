"""Routes and nothing else."""

import asyncio
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
    asgi,
    deciding,
    definitions,
    documents,
    learning,
    leasing,
    metrics,
    personalizer,
    reports,
    sweeping,
    tokens,
    trying,
)
from discreet.service.asgi import Often, answer, decoded, problem
from discreet.service.dashboard.pages import Dashboard
from discreet.service.errors import Problem, invalid, not_found, unauthorized
from discreet.service.keys import Key
from discreet.service.messages import (
    DecideBody,
    KeyBody,
    PopulationBody,
    ReportBody,
)
from discreet.service.replies import (
    BanditsReply,
    BatchReply,
    DecisionsReply,
    HealthReply,
    KeysReply,
    PopulationsReply,
    ReleasesReply,
    StatusesReply,
    StatusReply,
)
from discreet.service.server import Server
from discreet.service.settings import Settings

_DECIDE = msgspec.json.Decoder(DecideBody)
_KEY = msgspec.json.Decoder(KeyBody)
_POPULATION = msgspec.json.Decoder(PopulationBody)
_REPORT = msgspec.json.Decoder(ReportBody)
POLICY_SECONDS = 5  # for which caches may hold the policy of local trust

Endpoint = Callable[[Request], Awaitable[Response]]


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
                    await leasing.give_back(server, live)
            server.close()

    app = Application(
        routes=routes.all(),
        lifespan=lifespan,
        exception_handlers={404: _no_such_path, 405: _other_method},
    )
    app.router.redirect_slashes = False
    app.state.server = server
    app.state.dashboard = routes.dashboard
    app.often = {"decide": routes.decide, "learn": routes.learn, "reports": routes.reports}
    return app


class Application(Starlette):
    """Starlette; the two calls that come often go to their handlers without a detour."""

    often: dict[str, Often]

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
    allowed = getattr(error, "headers", None)
    title = "This path takes another method."
    return problem(Problem(405, "other-method", title, "See /docs.", headers=allowed))


class Routes:
    """What each path does; the work is done elsewhere.

    server   that does the work
    """

    def __init__(self, server: Server) -> None:
        self.server = server
        self.decide = Often(server, "decide", self._decide)
        self.learn = Often(server, "learn", self._learn, keyless=self._learn_by_token)
        self.reports = Often(server, "report", self._report, keyless=self._report)
        self.dashboard = Dashboard(server)

    def all(self) -> list[Route]:
        """The table of service.md."""
        made = [
            self._route("PUT", "/v1/bandits/{name}", self.put_bandit),
            self._route("GET", "/v1/bandits", self.get_bandits),
            self._route("GET", "/v1/bandits/{name}", self.get_bandit),
            self._route("GET", "/v1/bandits/{name}/terms", self.get_terms),
            self._route("PUT", "/v1/bandits/{name}/batches/{id}", self.put_batch),
            self._route("DELETE", "/v1/bandits/{name}", self.delete_bandit),
            self._route("GET", "/v1/bandits/{name}/releases", self.get_releases),
            Route("/v1/bandits/{name}/decide", self.decide, methods=["POST"]),
            Route("/v1/bandits/{name}/learn", self.learn, methods=["POST"]),
            Route("/v1/bandits/{name}/reports", self.reports, methods=["POST"]),
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
        if self.server.settings.demo:
            made += trying.routes()
        if self.server.settings.personalizer:
            made += [
                self._route("POST", f"{personalizer.PATH}/rank", self.rank),
                self._route("POST", f"{personalizer.PATH}/events/{{id}}/reward", self.reward),
                self._route("POST", f"{personalizer.PATH}/events/{{id}}/activate", self.activate),
            ]
        return made

    def _route(self, method: str, path: str, endpoint: Endpoint) -> Route:
        call = f"{method} {path}"

        async def called(request: Request) -> Response:
            try:
                return await endpoint(request)
            except ClientDisconnect:
                return Response(status_code=400)
            except Exception as error:
                found = asgi.explained_to_callers(error, call)
                if path.startswith(personalizer.PATH):
                    found = personalizer.explained_to_clients(found)
                return problem(found)

        return Route(path, called, methods=[method])

    # -- who asks, and what ------------------------------------------------------------------------

    def _allowed(self, request: Request, scope: str, bandit: str | None = None) -> Key:
        return asgi.allowed(self.server, request.headers.get("authorization", ""), scope, bandit)

    async def _body(self, request: Request) -> bytes:
        server, headers = self.server, request.headers.raw
        limit = server.settings.body_limit
        return await asgi.body_of(server.reading, headers, request.receive, limit)

    async def _decoded(self, request: Request, decoder: Any) -> Any:
        return decoded(decoder, await self._body(request))

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
        key = asgi.authenticated(self.server, request.headers.get("authorization", ""))
        some = next(iter(key.bandits)) if key.bandits else None  # perhaps for some bandits only
        self._allowed(request, "read", some)
        return answer(BanditsReply(await administration.bandits(self.server, key)))

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
        return answer(ReleasesReply(await administration.releases(self.server, name)))

    async def get_policy(self, request: Request) -> Response:
        """The public policy; its ETag changes with it. Under local trust it needs no key."""
        name = self._name(request)
        key = request.headers.get("authorization", "")
        if key:
            self._allowed(request, "read", name)
        found = await reports.public_policy(self.server, name)
        if found is not None:
            tag, document = found.tag, found.document
            headers = asgi.EVERYBODY | {"Cache-Control": f"public, max-age={POLICY_SECONDS}"}
        elif not key:
            raise unauthorized()
        else:
            tag, policy = await administration.policy(self.server, name)
            document = msgspec.json.encode(policy)
            headers = {"Cache-Control": "no-cache"}
        headers["ETag"] = tag
        if request.headers.get("if-none-match") == tag:
            return Response(status_code=304, headers=headers)
        return Response(document, 200, headers, "application/json")

    async def get_terms(self, request: Request) -> Response:
        """The key that reports are sealed to, and what a batch of a relay is; for everybody."""
        found = await reports.public_policy(self.server, self._name(request))
        if found is None or not found.terms:
            raise not_found("bandit under local trust that learns")
        headers = asgi.EVERYBODY | {"Cache-Control": "no-cache"}
        return Response(found.terms, 200, headers, "application/json")

    async def put_batch(self, request: Request) -> Response:
        """Sealed reports from a relay, once for each id."""
        name = self._name(request)
        self._allowed(request, "relay", name)
        if not reports.ID.fullmatch(request.path_params["id"]):
            raise invalid("The id of a batch has 32 hexadecimal digits.")
        sealed = await asgi.body_of(
            self.server.reading,
            request.headers.raw,
            request.receive,
            reports.MOST_BATCH_BYTES,
            reports.BATCH_SECONDS,
        )
        batch = bytes.fromhex(request.path_params["id"])
        policy = request.query_params.get("policy", "")
        return answer(
            BatchReply(await reports.take_batch(self.server, name, batch, policy, sealed))
        )

    async def get_guarantee(self, request: Request) -> Response:
        """The promise, for machines and in words."""
        name = self._name(request)
        self._allowed(request, "read", name)
        return answer(await administration.guarantee(self.server, name))

    # -- deciding and learning ---------------------------------------------------------------------

    async def _decide(self, name: str, raw: bytes) -> Any:
        """One decision or many."""
        body: DecideBody = decoded(_DECIDE, raw)
        live = self.server.live.get(name) or await deciding.live_bandit(self.server, name)
        if body.requests is None and body.contexts is None:
            return await deciding.decide_one(self.server, live, body)
        body.assert_one_way()
        if body.requests is not None:
            return DecisionsReply(await deciding.decide(self.server, live, body.requests))
        assert body.contexts is not None
        made = await deciding.decide_contexts(self.server, live, body.contexts, body.actions)
        return DecisionsReply(made)

    async def _learn(self, name: str, raw: bytes) -> Any:
        """One reward or many."""
        body = learning.read(raw)
        live = self.server.live.get(name) or await deciding.live_bandit(self.server, name)
        if body.rewards is not None:
            items = learning.prepared(self.server, live, body.rewards)
            return StatusesReply(await learning.learn(self.server, name, items))
        return StatusReply(await learning.learn_one(self.server, live, body))

    async def _learn_by_token(self, name: str, raw: bytes) -> Any:
        """Without a key: a sealed token is the authority for its own reward; an id is none."""
        body = learning.read(raw)
        items = [body] if body.rewards is None else body.rewards
        if any(not isinstance(i.decision, str) or i.decision[:4] != tokens.PREFIX for i in items):
            raise unauthorized()
        return await self._learn(name, raw)

    async def _report(self, name: str, raw: bytes) -> Any:
        """One private report or many."""
        body: ReportBody = decoded(_REPORT, raw)
        if body.reports is not None:
            return StatusesReply(await reports.take(self.server, name, body.reports))
        return StatusReply((await reports.take(self.server, name, [body]))[0])

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
        return answer(PopulationsReply(await administration.populations(self.server)))

    async def post_key(self, request: Request) -> Response:
        """Make a key; its secret is shown once."""
        key = self._allowed(request, "admin")
        body: KeyBody = await self._decoded(request, _KEY)
        return answer(await administration.create_key(self.server, body, key.id), 201)

    async def get_keys(self, request: Request) -> Response:
        """All keys, without secrets."""
        self._allowed(request, "admin")
        await administration.reload_keys(self.server)
        return answer(KeysReply([key.public() for key in self.server.keys.all()]))

    async def delete_key(self, request: Request) -> Response:
        """Revoke."""
        key = self._allowed(request, "admin")
        await administration.revoke_key(self.server, request.path_params["id"], key.id)
        return Response(status_code=204)

    # -- operations --------------------------------------------------------------------------------

    async def healthz(self, _: Request) -> Response:
        """The process lives."""
        return answer(HealthReply())

    async def readyz(self, _: Request) -> Response:
        """The store answers; alarms are shown but do not fail it: decisions go on."""
        return answer(await administration.ready(self.server))

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
        personalizer.allowed(self.server, request.headers, scope)

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
