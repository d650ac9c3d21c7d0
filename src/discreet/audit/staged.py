"""Learners in the middle of their life, without the rounds before: their own states, edited.

A state is the public way to put a learner somewhere (`state_dict`, `load_state_dict`). What an
attack writes into it are values that were released before the canary came, or sums of known people.
"""

from typing import Any, TypeVar

from discreet.state import Stateful, encode

T = TypeVar("T", bound=Stateful)


def staged(learner: T, changes: dict[str, Any]) -> T:
    """The learner, resumed from its own state with these entries; "arms.0.total" is a path.

    Noise goes on where it is.
    """
    state = learner._stored()
    for path, value in changes.items():
        *parents, name = path.split(".")
        place = state["state"]
        for each in parents:
            place = _inside(place[int(each) if isinstance(place, list) else each])
        if name not in place:
            raise KeyError(f"there is no {path} in the state of a {type(learner).__name__}")
        place[name] = encode(value)
    _unplaced(state["state"])
    learner._restore(state)
    return learner


def _inside(part: Any) -> Any:
    return part["of"] if isinstance(part, dict) and "@" in part else part


def _unplaced(part: Any) -> None:
    """No positions of generators: a source of the same kind stays as it is."""
    if isinstance(part, dict):
        if "position" in part:
            part["position"] = ""
        for each in part.values():
            _unplaced(each)
    elif isinstance(part, list):
        for each in part:
            _unplaced(each)
