"""Moved to `discreet.local.take_files`: the old import works for one release."""

import warnings
from typing import Any

import discreet.local as room


def __getattr__(name: str) -> Any:
    if name != "take_files":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    text = "discreet.bandits.report_files.take_files is discreet.local.take_files now"
    warnings.warn(text, DeprecationWarning, stacklevel=2)
    return room.take_files
