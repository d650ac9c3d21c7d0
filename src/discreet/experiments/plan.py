"""Moved to `discreet.experiments.experiment`; this name goes with the next release."""

import warnings
from typing import Any

from discreet.experiments import experiment

_NAMES = {"Plan": "Experiment", "PlanError": "ExperimentError", "Choice": "Choice", "Cell": "Cell"}


def __getattr__(name: str) -> Any:
    if name not in _NAMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    warnings.warn(
        f"{__name__}.{name} is now discreet.experiments.experiment.{_NAMES[name]}",
        DeprecationWarning,
        stacklevel=2,
    )
    return getattr(experiment, _NAMES[name])
