"""Which code and data files decide the numbers: for the names of files that results are kept in."""

import hashlib
import inspect
import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

from discreet import __version__

ABOVE = ("cli", "service", "experiments", "audit", "words.py")  # run learners and show results


@cache
def digest() -> str:
    """The version and a digest of all learners, worlds and mechanisms: edit one and it changes.

    >>> digest().startswith(__version__), digest() == digest()
    (True, True)
    """
    home = Path(__file__).parents[1]
    sha = hashlib.sha256()
    for path in sorted(home.rglob("*.py")):
        name = path.relative_to(home)
        if name.parts[0] not in ABOVE:
            sha.update(name.as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    return f"{__version__}+{sha.hexdigest()[:12]}"


def data_digest(options: Mapping[str, Any]) -> str:
    """A digest of the contents of all files that options name; "" if they name none.

    Any text that is the path of a file counts: a file that decides nothing only costs a run.

    >>> data_digest({"dim": 3, "policy": "random"})
    ''
    """
    sha = hashlib.sha256()
    paths = [path for path in _texts(options) if os.path.isfile(path)]
    for path in paths:
        with open(path, "rb") as file:
            sha.update(hashlib.file_digest(file, "sha256").digest())
    return sha.hexdigest()[:24] if paths else ""


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str | os.PathLike):
        yield os.fspath(value)
    elif isinstance(value, Mapping):
        for each in value.values():
            yield from _texts(each)
    elif isinstance(value, list | tuple):
        for each in value:
            yield from _texts(each)


@cache
def source_text(item: Callable[..., Any]) -> str:
    """The text of the module of a function, and of modules beside it that it imports.

    What they import from the library is in `digest`. A script has other names in other processes
    (`__main__`, `__mp_main__`), but one file.
    """
    home = _folder(sys.modules[item.__module__])
    texts: dict[str, str] = {}
    waiting = [sys.modules[item.__module__]]
    while waiting:
        module = waiting.pop()
        name = os.path.basename(getattr(module, "__file__", None) or "")
        if name not in texts and _folder(module) == home:
            texts[name] = inspect.getsource(module)
            waiting += _used(module)
    return json.dumps(texts, sort_keys=True)


def _folder(module: ModuleType) -> str:
    return os.path.dirname(getattr(module, "__file__", None) or "")


def _used(module: ModuleType) -> Iterator[ModuleType]:
    """Modules that names of this one are from."""
    for value in vars(module).values():
        name = value.__name__ if inspect.ismodule(value) else getattr(value, "__module__", None)
        if isinstance(name, str) and name in sys.modules:
            yield sys.modules[name]
