"""Learners and worlds of your own in an experiment: "mymodule:MyBandit", or an entry point.

A package offers some under the entry points `discreet.learners` and `discreet.worlds`; any module
that can be imported, or stands in the working directory, is named with a colon. Their source is a
part of the name of a cell's file, as the library's is: after an edit the cell runs again.
"""

import functools
import hashlib
import inspect
import pkgutil
import sys
from collections.abc import Mapping, Sequence
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

from discreet.experiments.source import source_text

GROUPS = {"learner": "discreet.learners", "world": "discreet.worlds"}


def is_named(text: str) -> bool:
    """Whether this is the name of an object in a module.

    >>> is_named("mymodule:MyBandit"), is_named("LinearBandit"), is_named("tcp://host:1")
    (True, False, False)
    """
    module, mark, name = text.partition(":")
    parts = [*module.split("."), *name.split(".")]
    return bool(mark) and all(part.isidentifier() for part in parts)


def look_in(folder: Path) -> None:
    """From now on, modules of this folder are found too: after all that are installed."""
    path = str(folder.resolve())
    if path not in sys.path:
        sys.path.append(path)


def named(text: str) -> Any:
    """The object that "module:name" names; modules of the working directory are found too.

    >>> named("math:tau") > 6
    True
    >>> named("math:tauu")
    Traceback (most recent call last):
    ValueError: the module math has no 'tauu'
    """
    if not is_named(text):
        raise ValueError(f"an object is named as 'module:name', and this is {text!r}")
    module, _, name = text.partition(":")
    look_in(Path.cwd())
    try:
        return pkgutil.resolve_name(text)
    except ModuleNotFoundError as error:
        if error.name is not None and (module + ".").startswith(error.name + "."):
            raise ValueError(
                f"there is no module {error.name!r}, neither installed nor in the working directory"
            ) from None
        raise ValueError(f"the module {module} imports {error.name!r}, which is missing") from None
    except Exception as error:
        if module in sys.modules:  # it was imported: what failed came after
            raise ValueError(f"the module {module} has no {name!r}") from None
        raise ValueError(
            f"the module {module} cannot be imported: {type(error).__name__}: {error}"
        ) from error


@functools.cache  # it reads the metadata of all packages
def offered(what: str) -> tuple[str, ...]:
    """Names of the learners or worlds that installed packages offer."""
    return tuple(entry_points(group=GROUPS[what]).names)


def own(what: str, name: str) -> Any | None:
    """A learner or world that is not the library's, by name; None if nobody offers it."""
    if is_named(name):
        found = named(name)
    else:
        found = next((each.load() for each in entry_points(group=GROUPS[what], name=name)), None)
    if found is not None and not callable(found):
        raise ValueError(f"{name} is not a class or function that makes a {what}")
    return found


def made(make: Any, given: Mapping[str, Any], options: Mapping[str, Any]) -> Any:
    """What it makes of the options, and by name of what it takes of what is given."""
    takes = inspect.signature(make).parameters
    wanted = {name: item for name, item in given.items() if name in takes}
    return make(**{**wanted, **options})


def needs(item: Any, what: str, names: Sequence[str]) -> Any:
    """The item, if it has these attributes; else an error that says which it lacks."""
    missing = [name for name in names if not hasattr(item, name)]
    if missing:
        raise ValueError(
            f"{what} must have {', '.join(names)}; {type(item).__name__} lacks {', '.join(missing)}"
        )
    return item


def code_of(learner: str, environment: str) -> str:
    """A digest of the source of what is not the library's own; "" if all of it is."""
    found = [own("learner", learner) if _may_be_own(learner) else None]
    found.append(own("world", environment) if _may_be_own(environment) else None)
    texts = [source_text(each) for each in found if each is not None]
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()[:24] if texts else ""


def _may_be_own(name: str) -> bool:
    return is_named(name) or name in offered("learner") or name in offered("world")
