"""Reference pages, made from the packages: one for each room, and one for each of its public names.

What a package lists in `__all__` is public, and so is what the modules of `TITLES` define.
Pages are written into docs/reference when the site is built; the repository does not keep them.
"""

import importlib
import inspect
import pkgutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import discreet

from .docstrings import inline, rewritten

PAGES = Path(__file__).parents[1] / "reference"
TITLES = {
    "discreet.bandits": "Contextual bandits",
    "discreet.bandits.baselines": "Bandits to compare with",
    "discreet.regression": "Regression",
    "discreet.online": "Online learning",
    "discreet.optimization": "Streaming optimisation",
    "discreet.domains": "Decision sets",
    "discreet.features": "Features",
    "discreet.hashed": "Hashed features",
    "discreet.links": "Links",
    "discreet.privacy": "Privacy",
    "discreet.privacy.mechanisms": "One-shot mechanisms",
    "discreet.local": "Local trust",
    "discreet.least_squares": "Least squares",
    "discreet.environments": "Worlds, data and logs",
    "discreet.experiments.experiment": "Experiments: what to run",
    "discreet.experiments.runner": "Experiments: running",
    "discreet.experiments.results": "Experiments: results",
    "discreet.experiments.measure": "Measurements of your own",
    "discreet.experiments.statistics": "Means and intervals",
    "discreet.experiments.bandit_forecast": "Forecasts of bandits",
    "discreet.audit": "Audits",
    "discreet.audit.attacks": "Attacks",
    "discreet.service.client": "Client of the service",
    "discreet.decisions": "Decisions",
}  # in this order; packages that are not here follow


def packages() -> list[str]:
    """Every package that lists its public names."""
    found = pkgutil.walk_packages(discreet.__path__, "discreet.")
    return [
        each.name
        for each in found
        if each.ispkg and hasattr(importlib.import_module(each.name), "__all__")
    ]


def rooms() -> list[str]:
    """The modules with a page."""
    return list(dict.fromkeys([*TITLES, *packages()]))


def public(room: str) -> list[str]:
    """The public names of a module: those it lists, or what it defines itself."""
    module = importlib.import_module(room)
    if hasattr(module, "__all__"):
        return sorted(module.__all__, key=str.lower)
    own = [
        name
        for name, value in vars(module).items()
        if not name.startswith("_")
        and getattr(value, "__module__", None) == room
        and (inspect.isclass(value) or inspect.isfunction(value))
    ]
    return sorted(own, key=str.lower)


def full_names() -> dict[str, str]:
    """Where the names are described that only one room has: `PrefixSum` is privacy's."""
    places: dict[str, list[str]] = {}
    for room in rooms():
        for name in public(room):
            if not isinstance(getattr(importlib.import_module(room), name), ModuleType):
                places.setdefault(name, []).append(f"{room}.{name}")
    return {name: found[0] for name, found in places.items() if len(found) == 1}


def first_sentence(value: Any) -> str:
    """What a name is, in one line."""
    text = inspect.getdoc(value) or ""
    if not callable(value) and not inspect.ismodule(value):
        return f"{type(value).__name__} of {len(value)}" if hasattr(value, "__len__") else ""
    return " ".join(text.split("\n\n")[0].split())


def heading(text: str) -> list[str]:
    """A title."""
    return [text, "=" * len(text), ""]


def home(room: str, name: str, value: Any) -> str:
    """The room that describes a class of several: where it is defined; `Shuffled` is privacy's."""
    own = (
        each
        for each in packages()
        if inspect.isclass(value) and f"{value.__module__}.".startswith(f"{each}.")
    )
    return next((each for each in own if name in public(each)), room)


def entry(room: str, name: str, value: Any) -> list[str]:
    """The page of one name."""
    lines = [*heading(name), f".. py:currentmodule:: {room}", ""]
    described = home(room, name, value)
    if described != room:
        lines += [f".. py:class:: {name}", "", f"    The same as :py:class:`{described}.{name}`."]
    elif inspect.isclass(value):
        kinds = "BaseException, object, tuple, dict, Protocol, Generic"
        lines += [f".. autoclass:: {name}", "    :members:", f"    :inherited-members: {kinds}"]
        lines += ["    :show-inheritance:"] if issubclass(value, BaseException) else []
    elif callable(value):
        lines += [f".. autofunction:: {name}"]
    else:
        lines += [f".. py:data:: {name}", "", f"    {inline(first_sentence(value))}: "]
        lines[-1] += ", ".join(f"``{each}``" for each in value)
    return [*lines, ""]


def overview(room: str) -> Iterator[str]:
    """The page of a room: what it is, and its names with what each is."""
    module = importlib.import_module(room)
    yield from heading(TITLES.get(room, room.removeprefix("discreet.")))
    yield from (f"``{room}``", "", f".. py:module:: {room}", "")
    yield from rewritten(inspect.cleandoc(module.__doc__ or "").splitlines())
    names = public(room)
    for name in names:
        value = getattr(module, name)
        page = value.__name__ if inspect.ismodule(value) else f"{room}/{name}"
        yield f":doc:`{name} <{page}>`"
        yield f"    {inline(first_sentence(value))}"
    yield from ("", ".. toctree::", "    :hidden:", "")
    yield from (
        f"    {room}/{name}" for name in names if not inspect.ismodule(getattr(module, name))
    )
    yield ""


def index() -> Iterator[str]:
    """What docs/reference.md includes: all rooms, in order."""
    for room in rooms():
        text = first_sentence(importlib.import_module(room))
        yield f"[{TITLES.get(room, room)}](reference/{room}.rst)"
        yield f": `{room}`. {text}\n"
    yield "[Command line](reference/commands.rst)\n: `discreet` and all that it can do.\n"
    yield from ("```{toctree}", ":hidden:", "reference/commands")
    yield from (f"reference/{room}" for room in rooms())
    yield "```"


def written() -> dict[str, str]:
    """Every reference page by its path below docs/reference."""
    pages: dict[str, Sequence[str]] = {}
    for room in rooms():
        module = importlib.import_module(room)
        pages[f"{room}.rst"] = list(overview(room))
        for name in public(room):
            value = getattr(module, name)
            if not inspect.ismodule(value):
                pages[f"{room}/{name}.rst"] = entry(room, name, value)
    pages["index.txt"] = list(index())
    return {path: "\n".join(lines) for path, lines in pages.items()}


def write(*_: Any) -> None:
    """Write pages that changed, and remove those whose name is gone."""
    pages = {PAGES / path: text for path, text in written().items()}
    for old in PAGES.rglob("*"):
        if old.is_file() and old not in pages and old.name != "commands.rst":
            old.unlink()
    for path, text in pages.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")


def rewrite(_app: Any, _what: str, _name: str, _obj: Any, _options: Any, lines: list[str]) -> None:
    """Autodoc asks: a docstring in place."""
    lines[:] = rewritten(lines)


def signature(
    _app: Any, what: str, _name: str, obj: Any, _options: Any, told: str | None, back: str | None
) -> tuple[str | None, str | None]:
    """Autodoc asks: of a class it is that of `__init__`, not that of a base's `__new__`."""
    from sphinx.util.inspect import stringify_signature

    if what != "class" or not (told or "").startswith("(*arguments"):
        return told, back
    parameters = list(inspect.signature(obj.__init__).parameters.values())[1:]
    return stringify_signature(inspect.Signature(parameters), unqualified_typehints=True), ""


def setup(app: Any) -> dict[str, bool]:
    """Called by Sphinx."""
    app.connect("builder-inited", write)
    app.connect("autodoc-process-signature", signature)
    app.connect("autodoc-process-docstring", rewrite)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
