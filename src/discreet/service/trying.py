"""`/try/{bandit}` of a demo: the visitor's browser is the device.

The page is the same for everybody and for every bandit; it asks nobody but this server for
anything, and its script sends nothing but what clients/js sends.
"""

from functools import cache
from importlib.resources import files

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-cache",
}
_KINDS = {"try.css": "text/css", "try.js": "text/javascript"} | {
    "discreet-client.js": "text/javascript"
}


def routes() -> list[Route]:
    """The page and what it loads."""
    return [
        Route("/try/{name}", _page, methods=["GET"]),
        Route("/try/files/{file}", _file, methods=["GET"]),
    ]


async def _page(_: Request) -> Response:
    return Response(_content("try.html"), 200, HEADERS, "text/html")


async def _file(request: Request) -> Response:
    name = request.path_params["file"]
    if name not in _KINDS:
        return Response("There is no such file.", 404, HEADERS, "text/plain")
    return Response(_content(name), 200, HEADERS, _KINDS[name])


@cache
def _content(name: str) -> bytes:
    return files(__package__).joinpath("pages", name).read_bytes()
