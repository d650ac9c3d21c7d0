"""What every contextual bandit shares: rounds, decisions, and rewards that come when they like.

The policy is fixed for a window of decisions. When the window is full, the next `decide` makes the
release, from which the next policy follows. Windows count decisions, never rewards. A reward enters
the window that is open when it arrives.
"""

import copy
import json
import os
import secrets
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from discreet.bandits.decisions import Decision, Decisions, Indices, Policy
from discreet.privacy import Guarantee
from discreet.privacy.checks import Array, finite, numbers, public_bound, whole, within
from discreet.privacy.state import expect, keeps, load_state, save_state

FOREVER = 2**62  # rounds
LONGEST = 1 + 1e-9  # |row|^2, up to rounding


class Bandit(ABC):
    """decide and learn, one at a time or many at once; save and load.

    A subclass sets `_policy`; it says how long windows are and how one begins (`_size`, `_begin`),
    what happens to rewarded rows (`_absorb`), how a window ends (`_release`), what is promised
    (`guarantee`) and what to remember (`_config`, `_memory`, `_recall`).
    """

    _policy: Policy

    def __init__(
        self,
        dim: int,
        horizon: int | None,
        *,
        norm_bound: float,
        reward_range: tuple[float, float],
        clip: bool,
        seed: int | None,
    ) -> None:
        self.dim = whole("dim", dim)
        self.horizon = None if horizon is None else whole("horizon", horizon)
        self.norm_bound = public_bound("norm_bound", norm_bound)
        low, high = (float(end) for end in reward_range)
        if not -np.inf < low < high < np.inf:
            raise ValueError(f"reward_range must be (low, high), got {reward_range!r}")
        self.reward_range, self.clip = (low, high), bool(clip)
        self.seed = None if seed is None else whole("seed", seed, least=0)
        self._scale = max(abs(low), abs(high))  # inside, rewards lie in [-1, 1]
        self._coins = np.random.default_rng(self.seed)
        self._name = secrets.token_hex(8)
        self.rounds = 0  # decisions made
        self.learning = True  # whether rewards still count: not past the horizon
        self._left = 0  # decisions until the window is full
        self._rewarded = np.zeros(64, dtype=bool)

    # -- what a subclass does ---------------------------------------------------------------------

    @abstractmethod
    def _size(self) -> int:
        """How many decisions the next window wants; never a function of private values."""

    @abstractmethod
    def _begin(self, size: int) -> None:
        """Open a window of so many decisions."""

    @abstractmethod
    def _release(self) -> None:
        """End the open window: the only place where private data meets an output. Set `_policy`."""

    @abstractmethod
    def _absorb(self, rows: Array, rewards: Array) -> None:
        """Fold rewarded rows (n, dim), in the unit ball, and rewards (n,) in [-1, 1] into sums."""

    def _absorb_one(self, row: Array, reward: float) -> None:
        """The same for one row."""
        self._absorb(row[None], np.array([reward]))

    @property
    @abstractmethod
    def guarantee(self) -> Guarantee:
        """The computed promise."""

    @abstractmethod
    def _config(self) -> dict[str, Any]:
        """The constructor's arguments, as plain values."""

    @abstractmethod
    def _memory(self) -> dict[str, Any]:
        """Arrays and plain scalars that `_recall` continues from."""

    @abstractmethod
    def _recall(self, memory: dict[str, Any]) -> None:
        """Continue from what `_memory` returned."""

    # -- deciding ---------------------------------------------------------------------------------

    @property
    def rounds_until_release(self) -> int:
        """How many decisions from now on use the same policy; at least 1."""
        return self._left or self._next()

    def decide(self, features: ArrayLike) -> Decision:  # (actions, dim)
        """Choose an action for one person; reads nothing but what was released."""
        try:
            copied = np.array(features, dtype=np.float64, order="C")
        except (TypeError, ValueError):
            raise ValueError("features must be numbers, one row for each action") from None
        offered = self._offered(copied, 2)
        if self._left == 0:
            self._turn()
        action = self._policy.choose_one(offered, self._coins.random())
        decision = Decision(self.rounds, action, offered[action], self._name, offered, self._policy)
        self._count(1)
        return decision

    def decide_many(self, features: Sequence[ArrayLike] | Array) -> Decisions:
        """Choose for n people: (n, actions, dim), or n arrays (actions, dim) of different sizes.

        The same as n times `decide`, across the ends of windows too.
        """
        offered = self._stacked(features)
        n = len(offered)
        rounds = self.rounds + np.arange(n)
        actions = np.zeros(n, dtype=np.intp)
        policies: list[tuple[int, Policy]] = []
        done = 0
        while done < n:
            if self._left == 0:
                self._turn()
            end = min(n, done + self._left)
            coins = self._coins.random(end - done)
            actions[done:end] = self._choose(offered[done:end], coins)
            policies.append((done, self._policy))
            self._count(end - done)
            done = end
        if isinstance(offered, np.ndarray):
            rows = offered[np.arange(n), actions]
        else:
            rows = np.array([each[a] for each, a in zip(offered, actions, strict=True)])
        return Decisions(
            rounds, actions, rows.reshape(n, self.dim), self._name, offered, tuple(policies)
        )

    def _choose(self, offered: Sequence[Array] | Array, coins: Array) -> Indices:
        if isinstance(offered, np.ndarray):
            return self._policy.choose(offered, coins)
        sizes = np.array([len(each) for each in offered])
        actions = np.zeros(len(offered), dtype=np.intp)
        for size in np.unique(sizes):
            (places,) = np.nonzero(sizes == size)
            actions[places] = self._policy.choose(
                np.stack([offered[int(i)] for i in places]), coins[places]
            )
        return actions

    def _next(self) -> int:
        """The length of the next window; past the horizon it never ends."""
        if self.horizon is None:
            return self._size()
        room = self.horizon - self.rounds
        return min(self._size(), room) if room > 0 else FOREVER

    def _turn(self) -> None:
        """Close the window that is full, open the next; none opens past the horizon."""
        if self.rounds:
            self._release()
        self._left = self._next()
        self.learning = self._left < FOREVER
        if self.learning:
            self._begin(self._left)

    def _count(self, n: int) -> None:
        self.rounds += n
        self._left -= n
        if self.rounds > len(self._rewarded):
            grown = np.zeros(max(self.rounds, 2 * len(self._rewarded)), dtype=bool)
            grown[: len(self._rewarded)] = self._rewarded
            self._rewarded = grown

    # -- learning ---------------------------------------------------------------------------------

    def learn(self, decision: Decision, reward: float) -> None:
        """Take the reward of a decision: any time later, in any order, once.

        A reward that never comes is fine. A second one, one outside `reward_range` (unless
        clip=True), NaN, or a decision of another learner raises ValueError and changes nothing.
        """
        if not isinstance(decision, Decision) or decision.learner != self._name:
            raise ValueError("expected a decision that this learner made")
        if not 0 <= decision.round < self.rounds or decision.row.shape != (self.dim,):
            raise ValueError("this learner never made that decision; was an old state loaded?")
        if self._rewarded[decision.round]:
            raise ValueError("this decision has had its reward; each counts once")
        row = decision.row
        if not row.dot(row) <= LONGEST:
            raise ValueError("this decision record is damaged: its features are too long")
        try:
            value = float(reward)
        except (TypeError, ValueError, OverflowError):
            raise ValueError("reward must be a number") from None
        low, high = self.reward_range
        if self.clip:
            value = min(max(value, low), high) if value == value else value
        if not low <= value <= high:
            raise ValueError(
                f"reward must lie in [{low:g}, {high:g}]; rescale it, widen reward_range, "
                "or ask for clip=True"
            )
        self._rewarded[decision.round] = True
        if self.learning:
            self._absorb_one(row, value / self._scale)

    def learn_many(self, decisions: Decisions | Sequence[Decision], rewards: ArrayLike) -> int:
        """Take many rewards; those `learn` would refuse are left out alone. Returns their number.

        NaN means that the reward has not come: it may still come later.
        """
        values = numbers("rewards", rewards).copy()
        if values.shape != (len(decisions),):
            raise ValueError(f"expected {len(decisions)} rewards, got shape {values.shape}")
        rounds, rows, mine = self._records(decisions)
        low, high = self.reward_range
        if self.clip:
            values = np.clip(values, low, high)
        fine = mine & (values >= low) & (values <= high)
        fine &= np.einsum("ij,ij->i", rows, rows) <= LONGEST
        fine[fine] = ~self._rewarded[rounds[fine]]
        if not (rounds[1:] > rounds[:-1]).all():  # a decision may come twice: its first counts
            (places,) = np.nonzero(fine)
            _, first = np.unique(rounds[places], return_index=True)
            fine = np.zeros(len(values), dtype=bool)
            fine[places[first]] = True
        self._rewarded[rounds[fine]] = True
        if self.learning and fine.any():
            if not fine.all():
                rows, values = rows[fine], values[fine]
            self._absorb(rows, values / self._scale)
        return int(len(fine) - fine.sum())

    def _records(
        self, decisions: Decisions | Sequence[Decision]
    ) -> tuple[NDArray[np.int64], Array, NDArray[np.bool_]]:
        """Rounds, rows (n, dim), and which of them this learner made."""
        if isinstance(decisions, Decisions):
            rounds, rows = decisions.round, decisions.rows
            mine = np.full(len(rounds), decisions.learner == self._name)
            if rows.shape != (len(rounds), self.dim):
                rows, mine = np.zeros((len(rounds), self.dim)), mine & False
        else:
            shape = (self.dim,)
            fits = [each.learner == self._name and each.row.shape == shape for each in decisions]
            mine = np.array(fits, dtype=bool)
            rounds = np.array([each.round for each in decisions], dtype=np.int64)
            rows = np.zeros((len(rounds), self.dim))
            for i in np.nonzero(mine)[0]:
                rows[i] = decisions[int(i)].row
        return rounds, rows, mine & (rounds >= 0) & (rounds < self.rounds)

    # -- saving -----------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """Arrays and plain values from which `load_state_dict` goes on."""
        return {
            "format": 1,
            "kind": type(self).__name__,
            "config": json.dumps(self._config()),
            "name": self._name,
            "rounds": self.rounds,
            "left": self._left,
            "learning": self.learning,
            "rewarded": np.packbits(self._rewarded[: self.rounds]),
            "coins": json.dumps(self._coins.bit_generator.state),
            **self._memory(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from a saved state; one that is older than this learner is refused."""
        expect(state, format=1, kind=type(self).__name__, config=json.dumps(self._config()))
        if self.rounds and state["name"] != self._name:
            raise ValueError("the state is of another learner; load it into a new one")
        if state["rounds"] < self.rounds:
            raise ValueError(
                f"the state is at round {state['rounds']}, this learner at {self.rounds}: "
                "releasing its window again, with the same noise, would show exact differences"
            )
        rewarded = np.unpackbits(state["rewarded"], count=state["rounds"]).astype(bool)
        keeps(self._rewarded[: self.rounds], rewarded)
        other = copy.deepcopy(self)  # so that a damaged state changes nothing
        other._recall(state)
        other._name, other.rounds, other._left = state["name"], state["rounds"], state["left"]
        other.learning = state["learning"]
        other._rewarded = np.zeros(max(64, other.rounds), dtype=bool)
        other._rewarded[: other.rounds] = rewarded
        other._coins.bit_generator.state = json.loads(state["coins"])
        self.__dict__.update(other.__dict__)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the state to a file, for the owner's eyes only.

        A state may go on once. A copy that goes on beside it, or a file older than decisions
        already shown, would release its open window a second time, with the same noise and other
        rewards: the difference of the two is exact. Save after decisions, before they are shown.
        """
        save_state(path, self.state_dict())

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Go on from a file, with the same kind of noise."""
        state = load_state(path)
        expect(state, format=1, kind=cls.__name__)
        loaded = cls._rebuilt(json.loads(state["config"]))
        loaded.load_state_dict(state)
        return loaded

    @classmethod
    def _rebuilt(cls, config: dict[str, Any]) -> Self:
        """A new learner from what `_config` returned."""
        return cls(**config)

    # -- the edge ---------------------------------------------------------------------------------

    def _offered(self, features: Array, ndim: int) -> Array:
        """Features in units of the norm bound; longer rows are shortened to it."""
        if features.ndim != ndim or features.shape[-1] != self.dim or features.shape[-2] == 0:
            names = ("n", "actions", str(self.dim))[-ndim:]
            raise ValueError(
                f"features must have shape ({', '.join(names)}) with at least one action, "
                f"got {features.shape}"
            )
        bound = self.norm_bound
        squares = np.einsum("...i,...i->...", features, features)
        longest = np.maximum.reduce(squares, axis=None, initial=0.0)
        if not longest <= bound**2 * (1 + 1e-14):  # too long, or NaN
            features = within("features", features, bound, norm="l2", clip=True)
        return features if bound == 1 else features / bound

    def _stacked(self, features: Sequence[ArrayLike] | Array) -> Sequence[Array] | Array:
        if isinstance(features, np.ndarray):
            return self._offered(np.ascontiguousarray(numbers("features", features)), 3)
        each_one = (np.ascontiguousarray(finite("features", each)) for each in features)
        return [self._offered(each, 2) for each in each_one]
