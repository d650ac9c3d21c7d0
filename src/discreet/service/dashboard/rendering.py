"""Templates of the dashboard, and how numbers and times are written in them."""

import json
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

import msgspec
from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape

from discreet import words
from discreet.service.dashboard.sessions import HOURS


def environment() -> Environment:
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
        "when": _when,
        "iso": _iso,
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


def _when(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M")


def _iso(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="seconds")


def _duration(seconds: float) -> str:
    """About how long, in the largest unit that fits."""
    for unit, size in (("day", 86400), ("hour", 3600), ("minute", 60)):
        if seconds >= 1.5 * size:
            return f"about {round(seconds / size)} {unit}s"
    return "about a minute" if seconds >= 45 else "less than a minute"
