"""Moved to `discreet.optimization`; this module goes with the next release."""

from typing import Any

from discreet.online._moved import moved

_MOVED = {
    "NoisySFW": "discreet.optimization.baselines",
    "NoisySGD": "discreet.optimization.baselines",
    "LocalMD": "discreet.optimization.baselines",
}


def __getattr__(name: str) -> Any:
    return moved(__name__, name, _MOVED)
