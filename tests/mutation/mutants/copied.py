"""Copies of live objects, for attacks alone: a thief has them, users are refused them."""

import copy
from types import MethodType
from typing import Any, TypeVar

from discreet.state import Stateful

T = TypeVar("T")


def copied(item: T) -> T:
    """A deep copy of an object that holds live parts: to be resumed, or unused as yet."""
    memo: dict[int, Any] = {}
    parts: list[Stateful] = []
    todo: list[Any] = [item]
    seen: set[int] = set()
    while todo:
        each = todo.pop()
        if id(each) in seen or isinstance(each, type):
            continue
        seen.add(id(each))
        if isinstance(each, Stateful):
            parts.append(each)
            memo[id(each)] = type(each).__new__(type(each))
        if isinstance(each, (list, tuple)):
            todo.extend(each)
        elif isinstance(each, dict):
            todo.extend(each.values())
        elif isinstance(each, MethodType):
            todo.append(each.__self__)
        elif hasattr(each, "__dict__"):
            todo.extend(vars(each).values())
    for part in parts:
        own = {name: copy.deepcopy(v, memo) for name, v in vars(part).items() if name != "_lock"}
        memo[id(part)].__dict__.update(own)
    return copy.deepcopy(item, memo)
