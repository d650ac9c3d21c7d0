"""Pages: templates, how numbers and times are written in them, and what they load."""

import json
import mimetypes
from datetime import UTC, datetime
from functools import cache
from typing import Any
from urllib.parse import quote

import msgspec
from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape
from starlette.responses import Response

from discreet import words

HOURS = 8  # a session lasts
HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
        "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
}


def page(template: str, session: Any, status: int = 200, /, **values: Any) -> Response:
    """A page for somebody who has logged in; None: for anybody."""
    text = _environment().get_template(template).render(session=session, **values)
    return Response(text, status, HEADERS, "text/html")


def file(folder: Any, name: str, headers: dict[str, str]) -> Response:
    """What a page loads from a folder of ours."""
    kind = mimetypes.guess_type(name)[0] or "text/plain"
    return Response(_content(folder, name), 200, HEADERS | headers, kind)


@cache
def _content(folder: Any, name: str) -> bytes:
    content: bytes = folder.joinpath(name).read_bytes()
    return content


@cache
def _environment() -> Environment:
    """Every page, escaped; a name that a page lacks is an error."""
    made = Environment(
        loader=PackageLoader(__package__),
        autoescape=select_autoescape(default=True),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {
        "number": words.number,
        "signed": _signed,
        "percent": lambda value: words.percent(value, 0 if value >= 0.1 or value == 0 else 1),
        "when": lambda at: datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M"),
        "iso": lambda at: datetime.fromtimestamp(at, UTC).isoformat(timespec="seconds"),
        "duration": _duration,
        "pretty": _pretty,
        "path": lambda value: quote(value, safe=""),
    }
    made.globals |= {"hours": HOURS}
    return made


def _signed(value: float, places: int = 3) -> str:
    return words.fixed(value, places, "+")


def _pretty(value: Any) -> str:
    return json.dumps(msgspec.to_builtins(value), indent=2, ensure_ascii=False, sort_keys=True)


def _duration(seconds: float) -> str:
    """About how long, in the largest unit that fits."""
    for unit, size in (("day", 86400), ("hour", 3600), ("minute", 60)):
        if seconds >= 1.5 * size:
            return f"about {round(seconds / size)} {unit}s"
    return "about a minute" if seconds >= 45 else "less than a minute"
