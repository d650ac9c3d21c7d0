"""The decision service as an ASGI application."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from functools import cache
from importlib.resources import files

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from discreet.service import api, leasing, metrics, sweeping
from discreet.service.asgi import Application, problem
from discreet.service.connections import guarded
from discreet.service.dashboard.pages import Dashboard
from discreet.service.errors import Problem
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
        beside = MetricsPort(server)
        try:
            yield
        finally:
            await beside.stop()
            chores.cancel()
            with suppress(asyncio.CancelledError):
                await chores
            for live in list(server.live.values()):
                with suppress(Exception):
                    await leasing.give_back(server, live)
            server.close()

    app = Application(
        routes=[*routes, *dashboard.routes(), *(_try() if settings.demo else ())],
        lifespan=lifespan,
        exception_handlers={404: _no_such_path, 405: _other_method},
    )
    app.router.redirect_slashes = False
    app.requests = server.requests
    app.requests.know(app.routes)
    app.state.server = server
    app.state.dashboard = dashboard
    app.often = api.often(routes)
    return app


class MetricsPort:
    """/metrics on a port of its own, if the settings name one.

    server   whose metrics they are
    """

    def __init__(self, server: Server) -> None:
        settings = server.settings
        self._serving: asyncio.Task[None] | None = None
        if settings.metrics_port is None:
            return
        config = uvicorn.Config(
            metrics.application(server),
            host=settings.metrics_host or settings.host,
            port=settings.metrics_port,
            log_config=None,
            log_level="warning",
            access_log=False,
            server_header=False,
            http=guarded(settings.address_connections),
            ws="none",
            lifespan="off",
        )
        self._server = _Beside(config)
        self._serving = asyncio.create_task(self._server.serve())

    async def stop(self) -> None:
        """Answer nobody any more."""
        if self._serving is not None:
            self._server.should_exit = True
            await self._serving


class _Beside(uvicorn.Server):
    """A server beside another one in the same process, to which signals belong."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


async def _no_such_path(_: Request, __: Exception) -> Response:
    return problem(Problem(404, "not-found", "There is no such path.", "See /docs for all calls."))


async def _other_method(_: Request, error: Exception) -> Response:
    allowed = getattr(error, "headers", None)
    title = "This path takes another method."
    return problem(Problem(405, "other-method", title, "See /docs.", headers=allowed))


# -- /try/{bandit}, of a demo ----------------------------------------------------------------------

_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-cache",
}
_KINDS = {
    "try.css": "text/css",
    "try.js": "text/javascript",
    "discreet-client.js": "text/javascript",
}


def _try() -> list[Route]:
    """A page on which the visitor's browser is the device, and what it loads.

    It is the same for everybody and for every bandit, and asks nobody but this server for anything;
    its script sends nothing but what clients/js sends.
    """
    return [
        Route("/try/{name}", _page, methods=["GET"]),
        Route("/try/files/{file}", _file, methods=["GET"]),
    ]


async def _page(_: Request) -> Response:
    return Response(_content("try.html"), 200, _HEADERS, "text/html")


async def _file(request: Request) -> Response:
    name = request.path_params["file"]
    if name not in _KINDS:
        return Response("There is no such file.", 404, _HEADERS, "text/plain")
    return Response(_content(name), 200, _HEADERS, _KINDS[name])


@cache
def _content(name: str) -> bytes:
    return files(__package__).joinpath("pages", name).read_bytes()
