"""The relay's routes. What HTTP adds to a report (address, headers, time) is kept nowhere.

An address is counted, in memory, for its rate limit (`Addresses`); nothing leads from it to a
report.
"""

import asyncio
import binascii
import logging
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any, TextIO

import msgspec
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Gauge, generate_latest
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from discreet.privacy.budget import person_text
from discreet.service import asgi, logs
from discreet.service.asgi import EVERYBODY, answer, problem
from discreet.service.bodies import decoded
from discreet.service.errors import Problem, invalid, not_found
from discreet.service.limits import address_of
from discreet.service.relay.batches import Relay, Sealed
from discreet.service.replies import StatusReply
from discreet.service.reports import ID
from discreet.service.serving import address, check_port, is_loopback, run
from discreet.service.settings import RelaySettings

EVERY = 0.25  # seconds between two looks for slow clients
LONGEST_PERSON = 256  # characters
Endpoint = Callable[[Request], Awaitable[Response]]


class SealedBody(msgspec.Struct, forbid_unknown_fields=True):
    """A sealed report, as a device sends it.

    id       32 hexadecimal digits, drawn at random: a retry has the same
    policy   the tag of the policy that it answers
    sealed   the report, in base64
    person   who sends it, unless a login in front of the relay says so
    """

    id: str
    policy: str
    sealed: str
    person: str | None = None


_SEALED = msgspec.json.Decoder(SealedBody)


def application(settings: RelaySettings) -> Starlette:
    """The ASGI application; it opens the store at once, so that errors show at start."""
    relay = Relay(settings)
    routes = Routes(relay)

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        relay.writer.start(asyncio.get_running_loop())
        tasks = [asyncio.create_task(relay.forever()), asyncio.create_task(_impatient(relay))]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            for task in tasks:
                with suppress(asyncio.CancelledError):
                    await task
            relay.close()

    async def no_such_path(_: Request, __: Exception) -> Response:
        return problem(Problem(404, "not-found", "There is no such path.", "See docs/relay.md."))

    async def other_method(_: Request, error: Exception) -> Response:
        title = "This path takes another method."
        return problem(Problem(405, "other-method", title, headers=getattr(error, "headers", None)))

    handlers: dict[Any, Any] = {404: no_such_path, 405: other_method}
    app = Starlette(routes=routes.all(), lifespan=lifespan, exception_handlers=handlers)
    app.router.redirect_slashes = False
    app.state.relay = relay
    return app


async def _impatient(relay: Relay) -> None:
    while True:
        await asyncio.sleep(EVERY)
        relay.bodies.give_up_slow_clients()


class Routes:
    """What each path does; the work is done in batches.py.

    relay   that does it
    """

    def __init__(self, relay: Relay) -> None:
        self.relay = relay

    def all(self) -> list[Route]:
        """Two calls for devices, three for operators."""
        return [
            self._route("GET", "/v1/bandits/{name}/terms", self.terms),
            self._route("POST", "/v1/bandits/{name}/sealed", self.sealed),
            self._route("GET", "/healthz", self.healthz),
            self._route("GET", "/readyz", self.readyz),
            self._route("GET", "/metrics", self.metrics),
        ]

    def _route(self, method: str, path: str, endpoint: Endpoint) -> Route:
        async def called(request: Request) -> Response:
            try:
                response = await endpoint(request)
            except ClientDisconnect:
                return Response(status_code=400)
            except Exception as error:
                response = problem(asgi.explained_to_callers(error, f"{method} {path}"))
            response.headers.update(EVERYBODY)
            return response

        return Route(path, called, methods=[method])

    def _name(self, request: Request) -> str:
        name: str = request.path_params["name"]
        if name not in self.relay.settings.bandits:
            raise not_found("bandit")
        return name

    async def terms(self, request: Request) -> Response:
        """What the open batch is for; a device compares it with what the server says."""
        terms = await self.relay.terms(self._name(request))
        return Response(terms, 200, {"Cache-Control": "no-store"}, "application/json")

    async def sealed(self, request: Request) -> Response:
        """Take a sealed report."""
        name = self._name(request)
        await self.relay.strangers.spend_slowly(address_of(request.scope))
        limit = self.relay.settings.body_limit
        headers = request.headers.raw
        raw = await self.relay.bodies.read(headers, request.receive, limit)
        try:
            report = self._read(decoded(_SEALED, raw), request)
            return answer(StatusReply(await self.relay.admit(name, report)))
        finally:
            self.relay.bodies.drop(len(raw))

    def _read(self, body: SealedBody, request: Request) -> Sealed:
        if not ID.fullmatch(body.id):
            raise invalid("`id` must have 32 hexadecimal digits, drawn at random.")
        if len(body.policy) > 64:
            raise invalid("`policy` must be the tag of a policy, as the terms state it.")
        header = self.relay.settings.person_header
        person = body.person if header is None else request.headers.get(header)
        if not person or len(person) > LONGEST_PERSON:
            place = "`person`" if header is None else "The header that says who sends"
            raise invalid(f"{place} must have 1 to {LONGEST_PERSON} characters.")
        try:
            sealed = binascii.a2b_base64(body.sealed, strict_mode=True)
        except ValueError:
            raise invalid("`sealed` must be base64.") from None
        return Sealed(bytes.fromhex(body.id), body.policy, person_text(person).encode(), sealed)

    async def healthz(self, _: Request) -> Response:
        """The process lives."""
        return answer({"status": "ok"})

    async def readyz(self, _: Request) -> Response:
        """The store answers; whether the server did is shown, but reports can wait for it."""
        await self.relay.ready()
        return answer({"status": "ok", "server": self.relay.server})

    async def metrics(self, _: Request) -> Response:
        """Prometheus: batches, and never reports: a count that grows tells when someone came."""
        relay = self.relay
        registry = CollectorRegistry()
        up = Gauge("discreet_relay_server_up", "Whether the server answers", registry=registry)
        up.set(relay.server == "ok")
        for title, text, found in (
            ("discreet_relay_forwarded", "Batches delivered since the start", relay.forwarded),
            ("discreet_relay_dropped", "Batches dropped since the start", relay.dropped),
        ):
            gauge = Gauge(title, text, ["bandit"], registry=registry)
            for name, count in found.items():
                gauge.labels(name).set(count)
        return Response(generate_latest(registry), media_type=CONTENT_TYPE_LATEST)


def serve(settings: RelaySettings, out: TextIO = sys.stderr) -> None:
    """`discreet relay` without its flags: until interrupted; open batches stay in the store."""
    logs.begin(out)
    check_port(settings)
    if not is_loopback(settings.host):
        outside = f"{settings.host} can be reached from outside: put TLS in front"
        logs.record(logging.WARNING, outside)
    app = application(settings)
    relays = f"discreet relays to {settings.server} on {address(settings)}"
    logs.record(logging.INFO, relays)
    run(app, settings)
