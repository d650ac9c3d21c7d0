"""Templates of the dashboard, and how numbers and times are written in them."""

import json
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

import msgspec
from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape

from discreet.service.dashboard.sessions import HOURS

_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


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
        "number": _number,
        "signed": _signed,
        "percent": _percent,
        "when": _when,
        "iso": _iso,
        "duration": _duration,
        "pretty": _pretty,
        "path": lambda value: quote(value, safe=""),
    }
    made.globals |= {"hours": HOURS}
    return made


def _number(value: float, digits: int = 3) -> str:
    """Whole numbers with commas, others with so many digits that count, tiny ones by powers.

    >>> _number(20120), _number(0.23671), _number(1e-6), _number(2.5e-7), _number(1e-4)
    ('20,120', '0.237', '10⁻⁶', '2.5·10⁻⁷', '10⁻⁴')
    """
    if value == int(value):
        return f"{int(value):,}"
    if 0 < abs(value) < 1e-3:
        mantissa, exponent = f"{value:.1e}".split("e")
        mantissa = mantissa.removesuffix(".0")
        power = "10" + str(int(exponent)).translate(_RAISED)
        return power if mantissa == "1" else f"{mantissa}·{power}"
    text = f"{value:,.0f}" if abs(value) >= 10**digits else f"{value:.{digits}g}"
    return text.replace("-", "\N{MINUS SIGN}")


def _pretty(value: Any) -> str:
    return json.dumps(msgspec.to_builtins(value), indent=2, ensure_ascii=False, sort_keys=True)


def _signed(value: float, places: int = 3) -> str:
    text = f"{value:+.{places}f}"
    return text.replace("-", "\N{MINUS SIGN}")


def _percent(value: float) -> str:
    return f"{100 * value:.0f}%" if value >= 0.1 or value == 0 else f"{100 * value:.1f}%"


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
