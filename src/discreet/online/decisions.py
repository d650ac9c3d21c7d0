"""Decisions of learners that see losses: what was chosen, and records that outlive the process."""

from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np

from discreet.privacy.checks import Array
from discreet.state import register


@dataclass(frozen=True, eq=False, slots=True)
class Decision:
    """One choice. Keep it, or its `to_dict()`, until its loss comes.

    round     its number, from 0
    learner   whose decision this is
    choice    what was chosen, and what turns its loss into an estimate
    """

    round: int
    learner: str = field(repr=False)
    choice: Any

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON; `learner.decision(record)` brings it back anywhere."""
        parts = {each.name: getattr(self.choice, each.name) for each in fields(self.choice)}
        plain = {name: np.asarray(part).tolist() for name, part in parts.items()}
        return {"round": self.round, "learner": self.learner, **plain}


class ArmDecision(Decision):
    """A decision for an arm; under central trust it was drawn once for the whole batch."""

    __slots__ = ()

    @property
    def action(self) -> int:
        """The arm to play."""
        return int(self.choice.action)

    @property
    def probabilities(self) -> Array:  # (arms,)
        """The probability with which each arm was drawn."""
        return np.array(self.choice.probabilities)

    @property
    def probability(self) -> float:
        """The probability with which this arm was drawn."""
        return float(self.choice.probabilities[self.choice.action])


class PointDecision(Decision):
    """A decision for a point of the domain."""

    __slots__ = ()

    @property
    def point(self) -> Array:  # (n,)
        """The point to play."""
        return np.asarray(self.choice.point)


class Taken:
    """Which decisions have had their feedback: a byte each, and a bit each in a state."""

    __slots__ = ("_flags",)

    def __init__(self, flags: bytes = b"") -> None:
        self._flags = bytearray(flags)

    def __contains__(self, t: int) -> bool:
        return t < len(self._flags) and self._flags[t] == 1

    def __len__(self) -> int:
        return len(self._flags)

    def any(self) -> bool:
        """Whether any feedback was taken."""
        return 1 in self._flags

    def mark(self, t: int) -> None:
        """The feedback of round t is taken."""
        missing = t + 1 - len(self._flags)
        if missing > 0:
            self._flags.extend(bytes(missing))
        self._flags[t] = 1

    def covers(self, other: "Taken") -> bool:
        """Whether everything that `other` has taken is taken here too."""
        mine = np.frombuffer(self._flags.ljust(len(other), b"\0"), dtype=np.uint8)
        return bool((mine[: len(other)] >= np.frombuffer(other._flags, dtype=np.uint8)).all())


def _encode(taken: Taken) -> dict[str, Any]:
    bits = np.packbits(np.frombuffer(taken._flags, dtype=np.uint8))
    return {"count": len(taken), "bits": bits}


def _decode(plain: dict[str, Any]) -> Taken:
    count, bits = plain["count"], np.asarray(plain["bits"])
    if bits.dtype != np.uint8 or bits.shape != ((count + 7) // 8,):
        raise ValueError("bits do not fit")
    return Taken(np.unpackbits(bits, count=count).tobytes())


register(Taken, _encode, _decode)
