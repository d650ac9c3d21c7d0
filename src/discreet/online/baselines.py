"""Moved to `discreet.optimization.baselines`; this module goes with the next release."""

from discreet.moved import moved_names

__getattr__ = moved_names(
    __name__,
    {
        "NoisySFW": "discreet.optimization.baselines:NoisySFW",
        "NoisySGD": "discreet.optimization.baselines:NoisySGD",
        "LocalMD": "discreet.optimization.baselines:LocalMD",
    },
)
