"""The promise of a state file, whatever kind of object it is of."""

import os

import discreet.bandits
import discreet.online
import discreet.optimization  # noqa: F401
from discreet.privacy import Guarantee
from discreet.state import load_state, resumed


def saved_guarantee(path: str | os.PathLike[str]) -> Guarantee:
    """What the object promises whose state this is; the file is only read, and may be in use."""
    found = getattr(resumed(load_state(path)), "guarantee", None)
    if not isinstance(found, Guarantee):
        raise ValueError(f"the state in {path} is of something that gives no promise by itself")
    return found
