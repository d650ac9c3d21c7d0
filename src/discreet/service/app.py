"""The decision service as an ASGI application."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from importlib.resources import files

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from discreet.service import api, connections, leasing, metrics, sweeping
from discreet.service.asgi import UNROUTED, Application, problem
from discreet.service.dashboard import rendering
from discreet.service.dashboard.pages import Dashboard
from discreet.service.errors import not_found
from discreet.service.server import Server
from discreet.service.settings import Settings


def application(settings: Settings) -> Starlette:
    """The ASGI application; it opens the store at once, so that errors show at start."""
    server = Server(settings)
    dashboard = Dashboard(server)
    routes = api.routes(server)

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        server.writer.start(asyncio.get_running_loop())
        chores = asyncio.create_task(sweeping.forever(server))
        beside = _metrics(server)
        serving = None if beside is None else asyncio.create_task(beside.serve())
        try:
            yield
        finally:
            if beside is not None and serving is not None:
                beside.should_exit = True
                await serving
            chores.cancel()
            with suppress(asyncio.CancelledError):
                await chores
            for live in list(server.live.values()):
                with suppress(Exception):
                    await leasing.give_back(server, live)
            server.close()

    app = Application(
        routes=[*routes, *dashboard.routes(), *(_TRY if settings.demo else ())],
        lifespan=lifespan,
        exception_handlers=UNROUTED,
    )
    app.router.redirect_slashes = False
    app.requests = server.requests
    app.requests.know(app.routes)
    app.state.server = server
    app.state.dashboard = dashboard
    app.often = api.often(routes)
    return app


class _Beside(uvicorn.Server):
    """A server beside another one in the same process, to which signals belong."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def _metrics(server: Server) -> _Beside | None:
    """/metrics on a port of its own, if the settings name one."""
    settings = server.settings
    if settings.metrics_port is None:
        return None
    app = metrics.application(server)
    host = settings.metrics_host or settings.host
    most = settings.address_connections
    return _Beside(connections.config(app, host, settings.metrics_port, most, lifespan="off"))


# -- /try/{bandit}, of a demo ----------------------------------------------------------------------

_FILES = ("try.css", "try.js", "discreet-client.js")
_HEADERS = {  # the page is a device: it reads policies, and sends reports
    "Content-Security-Policy": f"{rendering.HEADERS['Content-Security-Policy']}; connect-src 'self'"
}


async def _page(_: Request) -> Response:
    """A page on which the visitor's browser is the device: the same for everybody and for every
    bandit; its script sends nothing but what clients/js sends."""
    return rendering.file(files(__package__) / "pages", "try.html", _HEADERS)


async def _file(request: Request) -> Response:
    name = request.path_params["file"]
    if name not in _FILES:
        return problem(not_found("file"))
    return rendering.file(files(__package__) / "pages", name, _HEADERS)


_TRY = (Route("/try/{name}", _page), Route("/try/files/{file}", _file))
