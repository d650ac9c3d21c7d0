"""Reading a saved state piece by piece: a damaged one raises ValueError before anything changes."""

from collections.abc import Iterable
from typing import Any

import numpy as np

from discreet.privacy.checks import Array
from discreet.privacy.noise import Noise, SeededNoise


def damaged(name: str) -> ValueError:
    """What to raise."""
    return ValueError(f"this state is damaged: {name} is missing or does not fit")


def array(state: dict[str, Any], name: str, shape: tuple[int, ...]) -> Array:
    """A copy of finite floats of this shape."""
    found = np.array(state.get(name))
    if found.dtype.kind != "f" or found.shape != shape or not np.isfinite(found).all():
        raise damaged(name)
    return found


def count(state: dict[str, Any], name: str, most: float) -> int:
    """A whole number from 0 to `most`."""
    found = state.get(name)
    if (
        isinstance(found, bool)
        or not isinstance(found, (int, np.integer))
        or not 0 <= found <= most
    ):
        raise damaged(name)
    return int(found)


def later(state: dict[str, Any], run: str, rounds: int, horizon: int) -> tuple[str, int]:
    """(run, rounds) of a state that goes on from here; one of another stream is refused."""
    name, there = state.get("run"), count(state, "rounds", horizon)
    if not isinstance(name, str):
        raise damaged("run")
    if rounds and (name != run or there < rounds):
        raise ValueError(
            "the state is older than this object, or of another stream: publishing those "
            "rounds again would spend the budget twice"
        )
    return name, there


def streams(state: dict[str, Any], names: Iterable[str], now: list[Noise]) -> list[Noise]:
    """The sources that were saved; other kinds than SeededNoise are not saved and stay."""
    try:
        return [
            SeededNoise.restored(state[name]) if isinstance(noise, SeededNoise) else noise
            for name, noise in zip(names, now, strict=True)
        ]
    except (KeyError, TypeError, ValueError):
        raise damaged("the noise") from None
