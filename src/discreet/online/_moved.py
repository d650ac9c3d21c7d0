"""Names that have moved to another room: their old imports work for one more release."""

import importlib
import warnings
from collections.abc import Mapping
from typing import Any


def moved(module: str, name: str, homes: Mapping[str, str]) -> Any:
    """What `name` of `module` is called now, with a warning; AttributeError if it never was."""
    if name not in homes:
        raise AttributeError(f"module {module!r} has no attribute {name!r}")
    warnings.warn(
        f"{name} has moved: import it from {homes[name]}; importing it from {module} stops "
        "working with the next release",
        DeprecationWarning,
        stacklevel=3,
    )
    return getattr(importlib.import_module(homes[name]), name)
