"""A clock that jumps: what waits must not be settled, nor keys destroyed, by a wrong time.

The time of day is compared with one that nobody sets and that goes on while a machine sleeps. A
jump of more than an hour stops settlements until the clock is back, or the server starts again.
"""

import time

JUMP = 3600.0  # seconds; clocks that are set by a network drift by parts of one
_STEADY = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
TEXT = (
    "the clock has jumped by more than an hour: nothing is settled. Set it right, or, if it is "
    "right now, start the server again"
)


class Clock:
    """What one process knows of its clock."""

    def __init__(self) -> None:
        self._before = _ahead()
        self.jumped = False

    def look(self) -> bool:
        """Whether it is wrong now; slow drift is taken along."""
        ahead = _ahead()
        self.jumped = abs(ahead - self._before) > JUMP
        if not self.jumped:
            self._before = ahead
        return self.jumped


def _ahead() -> float:
    return time.clock_gettime(time.CLOCK_REALTIME) - time.clock_gettime(_STEADY)
