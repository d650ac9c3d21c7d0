"""Moved to `discreet.bandits`; this module goes with the next release."""

from typing import Any

from discreet.online._moved import moved

_MOVED = {
    "SparseBandit": "discreet.bandits",
}


def __getattr__(name: str) -> Any:
    return moved(__name__, name, _MOVED)
