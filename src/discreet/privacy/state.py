"""What rooms that write their states by hand still import; `discreet.state` is the way."""

import copy
from types import MethodType
from typing import Any, TypeVar

import numpy as np

from discreet.state import Stateful, load_state, save_state

__all__ = ["copied", "expect", "keeps", "load_state", "save_state"]
T = TypeVar("T")


def expect(state: dict[str, Any], **wanted: Any) -> None:
    """Refuse a state that was made by another class, version or configuration."""
    for name, value in wanted.items():
        if state.get(name) != value:
            raise ValueError(
                f"this state was saved with {name}={state.get(name)!r}, expected {value!r}; "
                "build the object with the arguments that were saved"
            )


def keeps(taken: Any, saved: Any) -> None:
    """Refuse a state that lacks feedback which was taken since: one flag for each round.

    Under local trust a second report of the same feedback, with fresh noise, would cost twice.
    """
    before = np.asarray(taken, dtype=bool)
    if (before & ~np.asarray(saved, dtype=bool)[: len(before)]).any():
        raise ValueError(
            "the state is older than this learner: it lacks feedback that was taken, and to take "
            "it a second time would cost twice"
        )


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
