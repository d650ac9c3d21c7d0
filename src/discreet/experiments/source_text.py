"""The text of a function or class, and of what it uses: whatever changes it changes the numbers."""

import functools
import inspect
import json
import os
import sys
from collections.abc import Callable, Iterator
from types import CodeType
from typing import Any


@functools.cache
def source_text(item: Callable[..., Any]) -> str:
    """The text of a function and of what it uses in its folder: the library is in `digest`.

    That is functions, classes, and constants that are numbers, text or tuples.
    """
    texts: dict[str, str] = {}
    waiting: list[Any] = [item]
    while waiting:
        each = waiting.pop()
        texts[each.__qualname__] = inspect.getsource(each)
        for name, value in _used(each):
            if isinstance(value, int | float | str | tuple):
                texts[name] = repr(value)
            elif _folder(value) == _folder(item) and value.__qualname__ not in texts:
                waiting.append(value)
    return json.dumps(texts, sort_keys=True)


def _folder(value: Any) -> str | None:
    """Where a function or class is from; None for anything else."""
    if not callable(value) or not hasattr(value, "__qualname__"):
        return None
    return os.path.dirname(getattr(sys.modules[value.__module__], "__file__", None) or "")


def _used(value: Any) -> Iterator[tuple[str, Any]]:
    """Global names in a function, or in the methods of a class; and the bases of a class."""
    inside = vars(value).values() if inspect.isclass(value) else [inspect.unwrap(value)]
    if inspect.isclass(value):
        yield from ((base.__qualname__, base) for base in value.__bases__ if base is not object)
    for function in filter(inspect.isfunction, inside):
        for name in sorted(_names(function.__code__)):
            if name in function.__globals__:
                yield name, function.__globals__[name]


def _names(code: CodeType) -> set[str]:
    """Names in a function and in the functions inside it."""
    inner = (each for each in code.co_consts if isinstance(each, CodeType))
    return set(code.co_names).union(*map(_names, inner))
