"""Moved to `discreet.local`: old imports work for one release."""

import warnings
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

import discreet.local as room
from discreet.local.record import scaled_outcomes, scaled_rows
from discreet.privacy import Noise
from discreet.privacy.noise import source


def report(
    X: ArrayLike, y: ArrayLike, state: room.PublicState, noise: Noise | None = None
) -> room.Answers:
    """What devices send to the first question of a state; deprecated, use `discreet.local.Device`.

    It keeps no promise and counts nothing.
    """
    _warn("report", "discreet.local.Device, or report_many to simulate people")
    rows = scaled_rows(X, state.dim, state.norm_bound)
    outcomes = scaled_outcomes(y, state.outcome_range)
    people = np.zeros(len(rows))
    return next(room.report_many(rows, outcomes, state, people, source(noise)))


def __getattr__(name: str) -> Any:
    if name in ("PublicState", "Report"):
        _warn(name, f"discreet.local.{name}")
        return getattr(room, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def _warn(name: str, instead: str) -> None:
    text = f"discreet.regression.local_protocol.{name} is deprecated: use {instead}"
    warnings.warn(text, DeprecationWarning, stacklevel=3)
