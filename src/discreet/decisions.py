"""Decisions: what was chosen, with which probability; records that can outlive the process."""

import hmac
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from discreet.arrays import Array, finite
from discreet.state import Stateful, damaged, register

Indices = NDArray[np.intp]
REFUSED = -1  # the action of a person whose features could not be used
FLOAT = np.dtype(np.float64)


def is_row(row: object, dim: int) -> bool:
    """Whether this is a row as learners make them.

    Floats, before any bound is looked at: squares of small integers overflow, and what overflows
    is within any bound.
    """
    return type(row) is np.ndarray and row.dtype == FLOAT and row.shape == (dim,)


class Policy(Protocol):
    """Turns features into choices; fixed between releases, and a function of releases alone."""

    def choose(self, features: Array, coins: Array) -> Indices:
        """Actions for rounds (n, actions, dim), given one uniform coin for each round."""

    def choose_one(self, offered: Array, coin: float) -> int:
        """The same for one round (actions, dim)."""

    def probability_one(self, offered: Array, action: int) -> float:
        """The probability that `choose_one` chooses this action."""

    def draw_one(self, offered: Array, coin: float) -> tuple[int, float]:
        """The action of `choose_one`, and its probability."""

    def probabilities(self, features: Array) -> Array:
        """The exact distribution of `choose`: (n, actions, dim) -> (n, actions)."""


@dataclass(frozen=True, eq=False, init=False)
class Decision:
    """One choice. Keep it, or its `to_dict()`, until the reward comes.

    It holds the person's own features: guard it as you guard the data.
    """

    round: int  # of the learner, from 0
    action: int  # -1 for a person whom `decide_many` refused
    row: Array = field(repr=False)  # (dim,), the chosen features in units of the norm bound
    learner: str = field(repr=False)  # whose decision this is
    offered: Array | None = field(default=None, repr=False)  # (actions, dim)
    policy: Policy | None = field(default=None, repr=False)  # that chose the action

    def __init__(
        self,
        round: int,
        action: int,
        row: Array,
        learner: str,
        offered: Array | None = None,
        policy: Policy | None = None,
    ) -> None:
        # Past the frozen __setattr__: field by field that takes twice as long.
        own = self.__dict__
        own["round"] = round
        own["action"] = action
        own["row"] = row
        own["learner"] = learner
        own["offered"] = offered
        own["policy"] = policy

    @cached_property
    def probabilities(self) -> Array:  # (actions,)
        """The probability of each action in this round, computed when asked for."""
        if self.offered is None or self.policy is None:
            return np.full(1, np.nan)
        return np.asarray(self.policy.probabilities(self.offered[None])[0])

    @property
    def probability(self) -> float:
        """The probability with which this action was chosen; NaN for a person who was refused."""
        return float(self.probabilities[self.action])

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON; `learner.decision(record)` brings it back anywhere."""
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
        t = record["round"]
        action = record["action"]
        if any(isinstance(n, bool) or not isinstance(n, int) or n < 0 for n in (t, action)):
            raise ValueError("not a decision record: round and action must be integers from 0 on")
        row = finite("features", record["features"])
        probabilities = finite("probabilities", record["probabilities"])
        decision = cls(t, action, row, str(record["learner"]))
        adds_up = probabilities.ndim == 1 and abs(float(probabilities.sum()) - 1) < 1e-9
        if row.ndim != 1 or not adds_up or not decision.action < probabilities.size:
            raise ValueError("not a decision record: its features or probabilities do not fit")
        if not (probabilities >= 0).all():
            raise ValueError("not a decision record: a probability is negative")
        decision.__dict__["probabilities"] = probabilities  # what the cached property would hold
        return decision


@dataclass(frozen=True, eq=False)
class Decisions:
    """Many choices at once, as arrays over rounds; iterating gives single decisions.

    A person whose features could not be used has action -1, probability NaN and a row of zeros;
    nobody else is affected. It refers to the features it was made from, for its lazy
    probabilities: leave them unchanged.
    """

    round: NDArray[np.int64]  # (n,)
    action: Indices  # (n,)
    rows: Array = field(repr=False)  # (n, dim)
    learner: str = field(repr=False)  # whose decisions these are
    offered: Sequence[Array] | Array = field(repr=False)  # n times (actions, dim)
    policies: tuple[tuple[int, Policy], ...] = field(repr=False)  # each from this place on

    def __len__(self) -> int:
        return len(self.action)

    def __getitem__(self, i: int) -> Decision:
        i = range(len(self))[i]
        action = int(self.action[i])
        if action == REFUSED:
            return Decision(int(self.round[i]), action, self.rows[i], self.learner)
        policy = next(policy for first, policy in reversed(self.policies) if first <= i)
        return Decision(
            int(self.round[i]), action, self.rows[i], self.learner, self.offered[i], policy
        )

    def __iter__(self) -> Iterator[Decision]:
        return (self[i] for i in range(len(self)))

    def is_sound(self, dim: int) -> bool:
        """Whether these are arrays as `decide_many` makes them: hand-made ones may be anything."""
        n = len(self.action)
        integers = (np.asarray(self.round), np.asarray(self.action))
        return (
            all(each.shape == (n,) and each.dtype.kind == "i" for each in integers)
            and type(self.rows) is np.ndarray
            and self.rows.dtype == FLOAT
            and self.rows.shape == (n, dim)
        )

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
            probabilities = policy.probabilities(self.offered[first:end])
            chosen[first:end] = probabilities[np.arange(end - first), self.action[first:end]]
        chosen[self.action == REFUSED] = np.nan
        return chosen


@dataclass(frozen=True, eq=False, init=False)
class LossDecision:
    """One choice. Keep it, or its `to_dict()`, until its loss comes.

    A record carries a seal under the key of its learner: an estimate is made of what the choice
    says, so nobody else may say it.

    round     its number, from 0
    learner   whose decision this is
    choice    what was chosen, and what turns its loss into an estimate
    key       of its learner, for the seal; shown nowhere
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
        return bool(key == self.__dict__["_key"])


def seal(key: str, record: dict[str, Any]) -> str:
    """Of all that a record says but its seal."""
    said = {name: part for name, part in record.items() if name != "seal"}
    told = json.dumps(said, sort_keys=True).encode()
    return hmac.digest(key.encode(), told, "sha256").hex()


class ArmDecision(LossDecision):
    """A decision for an arm; under central trust it was drawn once for the whole batch."""

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
    """A decision for a point of the domain."""

    @property
    def point(self) -> Array:  # (n,)
        """The point to play."""
        return np.asarray(self.choice.point)


class RoundSet:
    """A set of rounds, one bit each: which decisions have had their feedback.

    A state summarises blocks of rounds that all have had it, or none of them.

    packed   one bit for each round, eight to a byte; None: the empty set

    >>> seen = RoundSet()
    >>> seen.add(3)
    >>> 3 in seen, 4 in seen, seen.contains([2, 3, 999]).tolist()
    (True, False, [False, True, False])
    """

    def __init__(self, packed: NDArray[np.uint8] | None = None) -> None:
        self._bits = bytearray() if packed is None else bytearray(packed.tobytes())

    def __contains__(self, t: int) -> bool:
        bits = self._bits
        place = t >> 3
        return place < len(bits) and bits[place] >> (t & 7) & 1 == 1

    def add(self, t: int) -> None:
        """One more round."""
        bits = self._bits
        place = t >> 3
        if place >= len(bits):
            bits.extend(bytes(place + 1 - len(bits)))
        bits[place] |= 1 << (t & 7)

    def contains(self, rounds: Any) -> NDArray[np.bool_]:
        """Which of the rounds are in the set."""
        t = np.asarray(rounds, dtype=np.int64)
        first = int(t.min(initial=0 if not len(t) else t[0])) >> 3
        bits = np.frombuffer(bytes(self._bits[first : (int(t.max(initial=0)) >> 3) + 1]), np.uint8)
        place = (t >> 3) - first
        found = np.zeros(len(t), dtype=bool)
        known = place < len(bits)
        found[known] = bits[place[known]] >> (t[known] & 7).astype(np.uint8) & 1
        return found

    def update(self, rounds: NDArray[np.int64]) -> None:
        """Many more rounds, in one step."""
        if not len(rounds):
            return
        first = int(rounds.min()) >> 3
        last = int(rounds.max()) >> 3
        more = np.zeros(8 * (last + 1 - first), dtype=bool)
        more[rounds - 8 * first] = True
        before = np.frombuffer(bytes(self._bits[first : last + 1]), dtype=np.uint8)
        packed = np.packbits(more, bitorder="little")
        packed[: len(before)] |= before
        self._bits.extend(bytes(max(0, first - len(self._bits))))
        self._bits[first : last + 1] = packed.tobytes()

    def packed(self) -> NDArray[np.uint8]:
        """A copy of the bits, eight rounds a byte."""
        return np.frombuffer(bytes(self._bits), dtype=np.uint8)

    def __le__(self, other: "RoundSet") -> bool:
        mine, theirs = self.packed(), other.packed()
        shared = min(len(mine), len(theirs))
        return not ((mine[:shared] & ~theirs[:shared]).any() or mine[shared:].any())


CHUNK = 64  # bytes that a state summarises together: 512 rounds


def _summarised(rounds: RoundSet) -> dict[str, Any]:
    """Runs of chunks that are empty (0), full (1) or neither (2), and the bits of the latter."""
    packed = rounds.packed()
    chunks = np.zeros((-(-len(packed) // CHUNK), CHUNK), dtype=np.uint8)
    chunks.ravel()[: len(packed)] = packed
    words = chunks.view(np.uint64)
    kinds = np.full(len(chunks), 2, dtype=np.uint8)
    kinds[(words == 0).all(axis=1)] = 0
    kinds[(words == np.uint64(2**64 - 1)).all(axis=1)] = 1
    starts = np.flatnonzero(np.diff(kinds, prepend=3))
    lengths = np.diff(starts, append=len(kinds))
    return {
        "kinds": kinds[starts],
        "lengths": lengths.astype(np.int64),
        "bits": chunks[kinds == 2].ravel(),
    }


def _restored(plain: Any) -> RoundSet:
    kinds = np.repeat(plain["kinds"], plain["lengths"])
    if kinds.dtype != np.uint8 or not np.isin(plain["kinds"], (0, 1, 2)).all():
        raise ValueError("expected kinds of chunks")
    chunks = np.zeros((len(kinds), CHUNK), dtype=np.uint8)
    chunks[kinds == 1] = 255
    chunks[kinds == 2] = np.asarray(plain["bits"], dtype=np.uint8).reshape(-1, CHUNK)
    return RoundSet(np.trim_zeros(chunks.ravel(), "b"))


register(RoundSet, _summarised, _restored)


class Rounds(Stateful):
    """Counts rounds, and takes the feedback of each of them once: late, in any order, or never.

    A subclass begins with `_begin()`, has "rounds" and "_rewarded" in its `_state`, and adds to
    `_assert_mine` what else its decisions must fulfil.
    """

    rounds: int  # decisions made
    _rewarded: RoundSet  # rounds whose reward or loss has been taken
    _decision: ClassVar[type[Any]] = Decision
    _feedback_is: ClassVar[str] = "reward"

    def _begin(self) -> None:
        self.rounds = 0
        self._rewarded = RoundSet()

    def _assert_mine(self, decision: Any) -> None:
        """Refuse what this learner did not decide."""
        if type(decision) is not self._decision or decision.learner != self._run:
            kept = "; a record of one: learner.decision(record)" if type(decision) is dict else ""
            raise ValueError(f"expected a decision that this learner made{kept}")
        if type(decision.round) is not int or not 0 <= decision.round < self.rounds:
            raise ValueError("this learner never made that decision; was an old state loaded?")

    def _assert_first(self, t: int) -> None:
        """Refuse a second reward or loss of round t."""
        if t in self._rewarded:
            raise ValueError(f"this decision has had its {self._feedback_is}; each counts once")

    def _validate(self) -> None:
        if not isinstance(self._rewarded, RoundSet):
            raise damaged("rewarded")
        if not 8 * len(self._rewarded.packed()) < self.rounds + 8:
            raise damaged("rounds")
