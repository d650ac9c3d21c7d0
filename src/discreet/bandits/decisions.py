"""Decisions: what was chosen, with which probability; records that can outlive the process."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from discreet.privacy.checks import Array, finite

Indices = NDArray[np.intp]


class Policy(Protocol):
    """Turns features into choices; fixed between releases, and a function of releases alone."""

    def choose(self, features: Array, coins: Array) -> Indices:
        """Actions for rounds (n, actions, dim), given one uniform coin for each round."""

    def choose_one(self, offered: Array, coin: float) -> int:
        """The same for one round (actions, dim)."""

    def probabilities(self, features: Array) -> Array:
        """The exact law of `choose`: (n, actions, dim) -> (n, actions)."""


@dataclass(frozen=True, eq=False)
class Decision:
    """One choice. Keep it, or its `to_dict()`, until the reward comes.

    It holds the person's own features: guard it as you guard the data.
    """

    round: int
    action: int
    row: Array = field(repr=False)  # (dim,), the chosen features in units of the norm bound
    learner: str = field(repr=False)  # whose decision this is
    offered: Array | None = field(default=None, repr=False)  # (actions, dim)
    policy: Policy | None = field(default=None, repr=False)

    @cached_property
    def probabilities(self) -> Array:  # (actions,)
        """The probability of each action in this round, computed when asked for."""
        assert self.policy is not None
        assert self.offered is not None
        return np.asarray(self.policy.probabilities(self.offered[None])[0])

    @property
    def probability(self) -> float:
        """The probability with which this action was chosen."""
        return float(self.probabilities[self.action])

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON; `from_dict` brings it back in any process."""
        return {
            "round": self.round,
            "action": self.action,
            "features": self.row.tolist(),
            "probabilities": self.probabilities.tolist(),
            "learner": self.learner,
        }

    @classmethod
    def from_dict(cls, record: dict[str, Any]) -> "Decision":
        """A decision from `to_dict`; a damaged record raises ValueError."""
        needed = ("round", "action", "features", "learner", "probabilities")
        if not isinstance(record, dict) or not all(name in record for name in needed):
            raise ValueError(f"a decision record holds {', '.join(needed)}; use Decision.to_dict")
        t, action = record["round"], record["action"]
        if any(isinstance(n, bool) or not isinstance(n, int) or n < 0 for n in (t, action)):
            raise ValueError("not a decision record: round and action must be whole numbers")
        row = finite("features", record["features"])
        probabilities = finite("probabilities", record["probabilities"])
        decision = cls(t, action, row, str(record["learner"]))
        law = probabilities.ndim == 1 and abs(float(probabilities.sum()) - 1) < 1e-9
        if row.ndim != 1 or not law or not decision.action < probabilities.size:
            raise ValueError("not a decision record: its features or probabilities do not fit")
        if not (probabilities >= 0).all():
            raise ValueError("not a decision record: a probability is negative")
        decision.__dict__["probabilities"] = probabilities  # what the cached property would hold
        return decision


@dataclass(frozen=True, eq=False)
class Decisions:
    """Many choices at once, as arrays over rounds; iterating gives single decisions.

    It refers to the features it was made from, for its lazy probabilities: leave them unchanged.
    """

    round: NDArray[np.int64]  # (n,)
    action: Indices  # (n,)
    rows: Array = field(repr=False)  # (n, dim)
    learner: str = field(repr=False)
    offered: Sequence[Array] | Array = field(repr=False)  # n times (actions, dim)
    policies: tuple[tuple[int, Policy], ...] = field(repr=False)  # each from this place on

    def __len__(self) -> int:
        return len(self.action)

    def __getitem__(self, i: int) -> Decision:
        i = range(len(self))[i]
        policy = next(policy for first, policy in reversed(self.policies) if first <= i)
        return Decision(
            int(self.round[i]),
            int(self.action[i]),
            self.rows[i],
            self.learner,
            self.offered[i],
            policy,
        )

    def __iter__(self) -> Iterator[Decision]:
        return (self[i] for i in range(len(self)))

    @cached_property
    def probability(self) -> Array:  # (n,)
        """The probability of each chosen action, computed when asked for."""
        if not isinstance(self.offered, np.ndarray):
            return np.array([decision.probability for decision in self])
        chosen = np.empty(len(self))
        if not len(self):
            return chosen
        ends = [first for first, _ in self.policies[1:]] + [len(self)]
        for (first, policy), end in zip(self.policies, ends, strict=True):
            law = policy.probabilities(self.offered[first:end])
            chosen[first:end] = law[np.arange(end - first), self.action[first:end]]
        return chosen
