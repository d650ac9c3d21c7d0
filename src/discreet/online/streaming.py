"""Moved to `discreet.optimization`; this module goes with the next release."""

from discreet.moved import moved_names

__getattr__ = moved_names(
    __name__,
    {
        "StreamingFrankWolfe": "discreet.optimization:StreamingFrankWolfe",
    },
)
