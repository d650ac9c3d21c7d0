"""A wiretap under local trust: every report that leaves a device is heard, nothing before it."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from discreet.privacy import BallChannel, BinaryChannel, IntervalChannel
from discreet.privacy.checks import Array


@contextmanager
def listening() -> Iterator[list[Array]]:
    """A list that fills with reports, call by call, while the block runs.

    >>> from discreet.privacy import SeededNoise
    >>> with listening() as heard:
    ...     sent = IntervalChannel(1.0).privatize([0.5, 0.5], SeededNoise(0))
    >>> bool((heard[0] == sent).all())
    True
    """
    heard: list[Array] = []
    kinds = (IntervalChannel, BinaryChannel)
    numbers = ((kind, name) for kind in kinds for name in ("privatize", "report"))
    tapped: list[tuple[Any, str]] = [(BallChannel, "privatize"), *numbers]
    originals = [(kind, name, getattr(kind, name)) for kind, name in tapped]

    def tap(send: Any) -> Any:
        def sent(*arguments: Any, **options: Any) -> Any:
            out = send(*arguments, **options)
            heard.append(np.array(out, dtype=np.float64))
            return out

        return sent

    for kind, name, send in originals:
        setattr(kind, name, tap(send))
    try:
        yield heard
    finally:
        for kind, name, send in originals:
            setattr(kind, name, send)
