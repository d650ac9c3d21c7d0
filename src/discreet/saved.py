"""What a file is of: a state of any live object, or a fitted estimator; and what that promises."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import discreet.bandits.sparse
import discreet.evaluation.abtest
import discreet.online
import discreet.optimization
import discreet.regression  # noqa: F401
from discreet.privacy import Guarantee, Ledger
from discreet.state import load_state
from discreet.state.fitted import MODELS, is_missing
from discreet.state.live import to_look_at

BESIDE_A_LEDGER = ("what is computed on the same people and not booked in this ledger",)


@dataclass(frozen=True)
class Saved:
    """A file that was read, not owned: its object is there to look at, not to decide or learn."""

    item: Any  # a learner, a running sum, a fitted estimator
    kind: str  # its class
    version: str  # of discreet that wrote the file
    run: str  # the random name of a live object; "" for a fitted estimator
    config: Mapping[str, Any]  # its arguments, as the file has them

    @property
    def guarantee(self) -> Guarantee:
        """What it promises."""
        return promise_of(self.item)


def read_saved(path: str | os.PathLike[str], **given: Any) -> Saved:
    """Look at a file that an object was saved to; it may be in use.

    Arguments that no file can hold are given by name, as `load` takes them.
    """
    state = load_state(path)
    kind = str(state.get("kind"))
    config = state.get("config")
    config = config if isinstance(config, dict) else {}
    item: Any
    if kind in MODELS:
        # Of a fitted estimator they change nothing.
        unknown = {name: None for name, each in config.items() if is_missing(each)}
        item = MODELS[kind]._resumed(state, {**unknown, **given})
    else:
        item = to_look_at(state, given)
    shown = config | {name: _named(each) for name, each in given.items()}
    return Saved(item, kind, str(state.get("version")), str(state.get("run", "")), shown)


def promise_of(item: Any) -> Guarantee:
    """What a learner, a running sum, a ledger or a fitted estimator promises; of a server, its
    devices."""
    if isinstance(item, Ledger):
        return item.guarantee(unprotected=BESIDE_A_LEDGER, record="row")
    found = getattr(item, "guarantee", None) or getattr(item, "guarantee_", None)
    if not isinstance(found, Guarantee):
        raise ValueError(f"a {type(item).__name__} gives no promise by itself")
    return found


def _named(item: Any) -> str:
    return str(getattr(item, "__qualname__", type(item).__qualname__))
