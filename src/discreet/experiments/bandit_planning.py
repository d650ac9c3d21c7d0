"""Moved to `discreet.experiments.bandit_forecast`; this module goes with the next release."""

from discreet.moved import moved_names

__getattr__ = moved_names(
    __name__,
    {
        "Stream": "discreet.experiments.bandit_forecast:Stream",
        "Forecast": "discreet.experiments.bandit_forecast:Forecast",
        "forecast": "discreet.experiments.bandit_forecast:forecast",
    },
)
