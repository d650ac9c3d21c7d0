"""Moved to `discreet.optimization.losses`; this module goes with the next release."""

from discreet.moved import moved_names

__getattr__ = moved_names(
    __name__,
    {
        "Loss": "discreet.optimization.losses:Loss",
        "MarginLoss": "discreet.optimization.losses:MarginLoss",
        "named_loss": "discreet.optimization.losses:named_loss",
    },
)
