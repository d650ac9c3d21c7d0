"""Objects of other people's modules by name: "mymodule:MyBandit"."""

import importlib
import sys
from pathlib import Path
from typing import Any


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

    Errors say what is wrong: the module, what it imports, or the name in it.

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
        found: Any = importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is not None and (module + ".").startswith(error.name + "."):
            raise ValueError(
                f"there is no module {error.name!r}, neither installed nor in the working directory"
            ) from None
        raise ValueError(f"the module {module} imports {error.name!r}, which is missing") from None
    except Exception as error:
        raise ValueError(
            f"the module {module} cannot be imported: {type(error).__name__}: {error}"
        ) from error
    for part in name.split("."):
        if not hasattr(found, part):
            raise ValueError(f"the module {module} has no {name!r}")
        found = getattr(found, part)
    return found
