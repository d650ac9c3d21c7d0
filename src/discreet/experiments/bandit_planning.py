"""Moved to `discreet.experiments.bandit_forecast`; this name goes with the next release."""

import warnings
from typing import Any

from discreet.experiments import bandit_forecast

_NAMES = {"Stream": "Stream", "Forecast": "Forecast", "forecast": "forecast"}


def __getattr__(name: str) -> Any:
    if name not in _NAMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    warnings.warn(
        f"{__name__}.{name} is now discreet.experiments.bandit_forecast.{_NAMES[name]}",
        DeprecationWarning,
        stacklevel=2,
    )
    return getattr(bandit_forecast, _NAMES[name])
