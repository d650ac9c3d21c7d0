"""Moved to `discreet.optimization`; this module goes with the next release."""

from typing import Any

from discreet.online._moved import moved

_MOVED = {
    "Loss": "discreet.optimization",
    "MarginLoss": "discreet.optimization.losses",
    "named_loss": "discreet.optimization.losses",
}


def __getattr__(name: str) -> Any:
    return moved(__name__, name, _MOVED)
