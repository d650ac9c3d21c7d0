"""Moved to `discreet.experiments.experiment`; this module goes with the next release."""

from discreet.moved import moved_names

__getattr__ = moved_names(
    __name__,
    {
        "Plan": "discreet.experiments.experiment:Experiment",
        "PlanError": "discreet.experiments.experiment:ExperimentError",
        "Choice": "discreet.experiments.experiment:Choice",
        "Cell": "discreet.experiments.experiment:Cell",
    },
)
