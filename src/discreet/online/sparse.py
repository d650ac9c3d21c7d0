"""Moved to `discreet.bandits`; this module goes with the next release."""

from discreet.moved import moved_names

__getattr__ = moved_names(
    __name__,
    {
        "SparseBandit": "discreet.bandits:SparseBandit",
    },
)
