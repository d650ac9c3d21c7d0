"""The relay's calls. What HTTP adds to a report (address, headers, time) is kept nowhere.

An address is counted, in memory, for its rate limit (`Addresses`); nothing leads from it to a
report.
"""

import asyncio
import binascii
import hmac
import logging
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import TextIO

import msgspec
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Gauge, generate_latest
from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.routing import Route

from discreet.privacy.people import person_text
from discreet.service import logs
from discreet.service.asgi import EVERYBODY, UNROUTED, Call, Endpoint
from discreet.service.errors import Problem, invalid, not_found
from discreet.service.limits import RawHeaders
from discreet.service.relay.batches import Relay, Sealed
from discreet.service.replies import HealthReply, StatusReply
from discreet.service.reports import ID
from discreet.service.serving import address, check_port, run, warn_if_open
from discreet.service.settings import RelaySettings

EVERY = 0.25  # seconds between two looks for slow clients
LONGEST_PERSON = 256  # characters


class SealedBody(msgspec.Struct, forbid_unknown_fields=True):
    """A sealed report, as a device sends it."""

    id: str  # 32 hexadecimal digits, drawn at random: a retry has the same
    policy: str  # the tag of the policy that it answers
    sealed: str  # the report, in base64
    person: str | None = None  # who sends it, unless a login in front of the relay says so


def application(settings: RelaySettings) -> Starlette:
    """The ASGI application; it opens the store at once, so that errors show at start."""
    relay = Relay(settings)

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        relay.writer.start(asyncio.get_running_loop())
        tasks = [asyncio.create_task(relay.forever()), asyncio.create_task(_impatient(relay))]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
                with suppress(asyncio.CancelledError):
                    await task
            relay.close()

    routes = [Route(call.path, Endpoint(relay, call), methods=[call.method]) for call in CALLS]
    app = Starlette(routes=routes, lifespan=lifespan, exception_handlers=UNROUTED)
    app.router.redirect_slashes = False
    app.state.relay = relay
    return app


async def _impatient(relay: Relay) -> None:
    while True:
        await asyncio.sleep(EVERY)
        relay.bodies.give_up_slow_clients()


# -- calls -----------------------------------------------------------------------------------------


async def terms(server: Relay, name: str) -> Response:
    """What the open batch is for; a device compares it with what the server says."""
    _assert_carried(server, name)
    found = await server.terms(name)
    return Response(found, 200, EVERYBODY | {"Cache-Control": "no-store"}, "application/json")


async def sealed(server: Relay, name: str, body: SealedBody, headers: RawHeaders) -> StatusReply:
    """Take a sealed report."""
    _assert_carried(server, name)
    if not ID.fullmatch(body.id):
        raise invalid("`id` must have 32 hexadecimal digits, drawn at random.")
    if len(body.policy) > 64:
        raise invalid("`policy` must be the tag of a policy, as the terms state it.")
    header = server.settings.person_header
    person = body.person if header is None else Headers(raw=headers).get(header)
    if not person or len(person) > LONGEST_PERSON:
        place = "`person`" if header is None else "The header that says who sends"
        raise invalid(f"{place} must have 1 to {LONGEST_PERSON} characters.")
    _assert_signed(server.settings.person_key, name, person)
    try:
        content = binascii.a2b_base64(body.sealed, strict_mode=True)
    except ValueError:
        raise invalid("`sealed` must be base64.") from None
    who = person_text(person).encode()
    report = Sealed(bytes.fromhex(body.id), body.policy, who, content)
    return StatusReply(await server.admit(name, report))


def _assert_carried(relay: Relay, name: str) -> None:
    if name not in relay.settings.bandits:
        raise not_found("bandit")


def signed(key: str, bandit: str, person: str) -> str:
    """A person as the application that knows people, and shares a key with the relay, names them.

    It gives this token to their device, which sends it as `person`: one place in a batch for each.
    """
    made = hmac.new(key.encode(), f"{bandit}\n{person}".encode(), "sha256")
    return f"{person}.{made.hexdigest()}"


def _assert_signed(key: str | None, bandit: str, person: str) -> None:
    if key is None:
        return
    expected = signed(key, bandit, person.rpartition(".")[0])
    if not hmac.compare_digest(person.encode(), expected.encode()):
        raise Problem("not-admitted")


async def healthy() -> HealthReply:
    """The process lives."""
    return HealthReply()


async def ready(server: Relay) -> dict[str, str]:
    """The store answers; whether the server did is shown, but reports can wait for it."""
    await server.ready()
    return {"status": "ok", "server": server.server}


async def metrics(server: Relay) -> Response:
    """Prometheus: batches, and never reports: a count that grows tells when someone came."""
    registry = CollectorRegistry()
    up = Gauge("discreet_relay_server_up", "Whether the server answers", registry=registry)
    up.set(server.server == "ok")
    for title, text, found in (
        ("discreet_relay_forwarded", "Batches delivered since the start", server.forwarded),
        ("discreet_relay_dropped", "Batches dropped since the start", server.dropped),
    ):
        gauge = Gauge(title, text, ["bandit"], registry=registry)
        for name, count in found.items():
            gauge.labels(name).set(count)
    return Response(generate_latest(registry), media_type=CONTENT_TYPE_LATEST)


BANDIT = "/v1/bandits/{name}"
CALLS = [
    Call("GET", f"{BANDIT}/terms", terms, keyless=True),
    Call("POST", f"{BANDIT}/sealed", sealed, keyless=True, body=SealedBody, strangers=2**30),
    Call("GET", "/healthz", healthy),
    Call("GET", "/readyz", ready),
    Call("GET", "/metrics", metrics),
]


def serve(settings: RelaySettings, out: TextIO = sys.stderr) -> None:
    """`discreet relay` without its flags: until interrupted; open batches stay in the store."""
    logs.begin(out)
    check_port(settings.host, settings.port)
    warn_if_open(settings.host)
    app = application(settings)
    here = address(settings.host, settings.port)
    logs.record(logging.INFO, f"discreet relays to {settings.server} on {here}")
    run(app, settings.host, settings.port, settings.address_connections)
