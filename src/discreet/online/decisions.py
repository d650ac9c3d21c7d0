"""Decisions of learners that see losses: the loss side of `discreet.decisions`."""

import hmac
import json
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np

from discreet.arrays import Array


@dataclass(frozen=True, eq=False, init=False)
class LossDecision:
    """One choice. Keep it, or its `to_dict()`, until its loss comes.

    A record carries a seal under the key of its learner: an estimate is made of what the choice
    says, so nobody else may say it.

    round     its number, from 0
    learner   whose decision this is
    choice    what was chosen, and what turns its loss into an estimate
    """

    round: int
    learner: str = field(repr=False)
    choice: Any

    def __init__(self, round: int, learner: str, choice: Any, key: str = "") -> None:
        # Past the frozen __setattr__, which takes five times as long.
        own = self.__dict__
        own["round"] = round
        own["learner"] = learner
        own["choice"] = choice
        own["_key"] = key  # of the learner; shown nowhere

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON; `learner.decision(record)` brings it back anywhere."""
        parts = {each.name: getattr(self.choice, each.name) for each in fields(self.choice)}
        plain = {name: np.asarray(part).tolist() for name, part in parts.items()}
        record = {"round": self.round, "learner": self.learner, **plain}
        return {**record, "seal": seal(self.__dict__["_key"], record)}

    def is_sealed_by(self, key: str) -> bool:
        """Whether the learner that has this key made it."""
        return key == self.__dict__["_key"]


def seal(key: str, record: dict[str, Any]) -> str:
    """Of all that a record says but its seal."""
    said = {name: part for name, part in record.items() if name != "seal"}
    told = json.dumps(said, sort_keys=True).encode()
    return hmac.digest(key.encode(), told, "sha256").hex()


class ArmDecision(LossDecision):
    """A decision for an arm; under central trust it was drawn once for the whole batch.

    round     of the learner, from 0
    learner   whose decision this is
    choice    the arm and its probabilities
    """

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


class PointDecision(LossDecision):
    """A decision for a point of the domain.

    round     of the learner, from 0
    learner   whose decision this is
    choice    the point, and what its loss will be used for
    """

    @property
    def point(self) -> Array:  # (n,)
        """The point to play."""
        return np.asarray(self.choice.point)
