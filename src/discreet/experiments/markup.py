"""The pieces of a page that needs nothing from outside: style and pictures are inside."""

import math
import os
import platform
import secrets
from collections.abc import Iterable, Sequence
from html import escape
from importlib.metadata import PackageNotFoundError, version
from importlib.resources import files
from pathlib import Path
from typing import Any


def page(title: str, parts: Iterable[str]) -> str:
    """A complete page; empty parts are left out."""
    style = files("discreet.experiments").joinpath("report.css").read_text(encoding="utf-8")
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{style}</style></head>\n<body>\n"
        + "\n".join(filter(None, parts))
        + "\n</body></html>\n"
    )


def paragraph(text: str) -> str:
    """Plain text as a paragraph."""
    return f"<p>{escape(text)}</p>"


def items(texts: Iterable[str]) -> str:
    """Plain texts as a list."""
    return "<ul>" + "".join(f"<li>{escape(text)}</li>" for text in texts) + "</ul>"


def observer(epsilon: float) -> str:
    """How often an observer's best guess is right, in words.

    >>> observer(1.0), observer(20.0)
    ('at most 73.2%', 'nearly always')
    """
    right = math.ceil(1000 / (1 + math.exp(-min(epsilon, 700.0)))) / 10
    return f"at most {right:g}%" if right < 99.9 else "nearly always"


def figure(svg: str, caption: str) -> str:
    """A picture and what it shows."""
    return f"<figure>{svg}<figcaption>{escape(caption)}</figcaption></figure>"


def table(columns: Sequence[str], rows: Sequence[tuple[Any, ...]], right: Sequence[int]) -> str:
    """Rows begin with whether a line is drawn above them; cells are mark-up already."""
    side = [' class="right"' if i in right else "" for i in range(len(columns))]
    head = "".join(f"<th{s}>{escape(c)}</th>" for c, s in zip(columns, side, strict=True))
    body = ""
    for first, *cells in rows:
        inside = "".join(f"<td{s}>{c}</td>" for c, s in zip(cells, side, strict=True))
        body += f'<tr class="first">{inside}</tr>' if first else f"<tr>{inside}</tr>"
    head = f"<thead><tr>{head}</tr></thead>" if any(columns) else ""
    return f'<div class="scroll"><table class="wide">{head}<tbody>{body}</tbody></table></div>'


def versions() -> list[tuple[bool, str, str]]:
    """Rows of a table: what a page was made with."""
    packages = ("discreet", "numpy", "scipy", "pandas", "pyarrow", "matplotlib", "dp-accounting")
    rows = [(False, "Python", platform.python_version())]
    rows += [(False, name, _version(name)) for name in packages]
    return [*rows, (False, "machine", escape(f"{platform.system()} {platform.machine()}"))]


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "-"


def assert_new(path: Path) -> None:
    """Refuse a file that is there already: what was filed is not written over."""
    if path.exists():
        raise ValueError(f"{path} is there already and is never overwritten; choose another name")


def write_new(path: Path, text: str) -> None:
    """Write a file that is not there yet, whole or not at all."""
    part = path.with_name(f".{path.name}.{secrets.token_hex(8)}.part")
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        with part.open("x", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        try:
            os.link(part, path)  # refuses an existing name, also one that has just appeared
        except FileExistsError:
            assert_new(path)
            raise
    finally:
        part.unlink(missing_ok=True)
