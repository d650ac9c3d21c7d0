"""Names of the last release: they work for one more, and warn."""

import importlib
import warnings
from collections.abc import Callable, Mapping
from typing import Any


def moved_names(module: str, homes: Mapping[str, str]) -> Callable[[str], Any]:
    """The `__getattr__` of a module whose names have moved.

    homes   for each old name its new place, "package.module:name"
    """

    def __getattr__(name: str) -> Any:  # noqa: N807
        if name not in homes:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        home, _, new = homes[name].partition(":")
        _warn(f"{module}.{name}", f"{home}.{new}")
        return getattr(importlib.import_module(home), new)

    return __getattr__


class Renamed:
    """An attribute under the name it had in the last release; reading it warns.

    new   what the attribute is called now
    """

    def __init__(self, new: str) -> None:
        self.new = new

    def __set_name__(self, owner: type, name: str) -> None:
        self.old = name

    def __get__(self, instance: Any, owner: type) -> Any:
        if instance is None:
            return self
        _warn(f"{owner.__name__}.{self.old}", f"{owner.__name__}.{self.new}")
        return getattr(instance, self.new)


def _warn(old: str, new: str) -> None:
    warnings.warn(
        f"{old} is now {new}; the old name stops working with the next release",
        DeprecationWarning,
        stacklevel=3,
    )
