"""Does the code take another way for another person? Executed lines are compared, not clocks.

Wall-clock times of two neighbours differ by chance. The sequence of executed lines does not: where
it is the same, no branch, no loop count and no exception outside a release depended on the data.
(Times inside one numpy call are not seen.)
"""

import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import discreet

Line = tuple[str, int]
LIBRARY = str(Path(discreet.__file__).parent)


def executed(action: Callable[[], Any]) -> list[Line]:
    """(file, line) of every line of the library that ran, in order.

    >>> from discreet.privacy import Budget
    >>> executed(lambda: Budget(1.0)) == executed(lambda: Budget(2.0))
    True
    """
    lines: list[Line] = []

    def local(frame: FrameType, event: str, _: Any) -> Any:
        if event in ("line", "exception"):
            lines.append((Path(frame.f_code.co_filename).name, frame.f_lineno))
        return local

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        return local if frame.f_code.co_filename.startswith(LIBRARY) else None

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        action()
    finally:
        sys.settrace(before)
    return lines


def first_difference(first: list[Line], second: list[Line]) -> tuple[Line, Line] | None:
    """Where two ways part; None if they are the same."""
    end = ("end", 0)
    for k in range(max(len(first), len(second))):
        a, b = (way[k] if k < len(way) else end for way in (first, second))
        if a != b:
            return a, b
    return None
