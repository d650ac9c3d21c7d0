"""What every contextual bandit shares: rounds, decisions, and rewards that come when they like.

The policy is fixed for a window of decisions. When the window is full, the next `decide` turns it:
close, release, next policy, next window. Windows count decisions, never rewards. A reward enters
the window that is open when it arrives.

Everything that a turn changes is computed first and committed in one step; after it the released
sum is gone. A turn that was interrupted between its release and its commit is finished by the next
call, with the same released value: nothing more enters a sum that is out.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from discreet.arrays import (
    Array,
    finite,
    finite_range,
    integer,
    integer_or_none,
    number_within,
    numbers,
    numbers_or_nan,
    within,
)
from discreet.bandits.edge import Edge, chosen_rows
from discreet.bandits.visitors import Person, Visitors
from discreet.decisions import FLOAT, REFUSED, Decision, Decisions, Indices, Policy, Rounds
from discreet.privacy import Guarantee
from discreet.state import damaged

BLOCK = 1024  # people of a batch who are looked at together, so that what is computed stays near
FOREVER = 2**62  # rounds
LONGEST = 1 + 1e-9  # |row|^2, up to rounding
RESUMED_TWICE = "a state resumed twice: from a copy, or from before something that was shown"


class Window(Protocol):
    """Where rewarded rows go until the next release: inside, in units of the bounds, checked."""

    def fold(self, rows: Array, rewards: Array) -> None:
        """Add rows (n, dim) in the unit ball with rewards (n,) in [-1, 1]; nothing is shown."""

    def fold_one(self, row: Array, reward: float) -> None:
        """`fold` for one row."""


class OpenWindow:
    """The open window, as callers have it: rewarded rows go in, and nothing can be read.

    learner   whose window it is
    """

    __slots__ = ("_learner",)

    def __init__(self, learner: "Bandit") -> None:
        self._learner = learner

    def fold(self, rows: ArrayLike, rewards: ArrayLike, rounds: ArrayLike | None = None) -> None:
        """Add rows (n, dim) with rewards (n,), all in the user's units; all of them or none.

        A row beyond `norm_bound`, a reward outside `reward_range`, NaN or
        another shape raises ValueError and changes nothing. `rounds` (n,) are their numbers, where
        there is a hold-out: it follows from them. One row is one person's round: that each
        is folded once, is up to the caller.
        """
        self._learner._fold_checked(rows, rewards, rounds)

    @property
    def transform(self) -> Any:
        """How rows enter the sum: what was released before says so, and it is as public."""
        return getattr(self._learner._window, "transform", None)


class Bandit(Edge, Rounds, ABC):
    """decide and learn, one at a time or many at once; save and load.

    `decide` and `learn` are made of steps that a service may take apart: `policy` (immutable,
    public: how to choose until the window is full), `window` (`fold` adds rewarded rows to it, in
    the user's units; None before the first decision and past the horizon) and `turn()`. Where a
    person is protected, `visitors.admit` says whether a row may be folded. One lock holds them
    together.

    Parameters
        dim            number of features of a row
        horizon        rounds that count; None to learn for ever
        norm_bound     length of the longest feature row; longer ones are shortened to it
        reward_range   least and largest reward
        seed           of the coins that choose

    A subclass sets `policy`, says how long windows are (`_size`), what a turn changes (`_turned`)
    and what is promised (`guarantee`), and adds to `_state` what it has to remember.
    """

    policy: Policy
    _window: Window | None
    visitors: Visitors | None = None  # whose reward has counted, where a person is protected
    _held_key: int = 0
    _state: ClassVar[tuple[str, ...]] = ("rounds", "_end", "_rewarded", "_rng", "policy", "_window")

    def __init__(
        self,
        dim: int,
        horizon: int | None,
        *,
        norm_bound: float,
        reward_range: tuple[float, float],
        seed: int | None,
    ) -> None:
        Edge.__init__(self, dim, norm_bound)
        self.horizon = integer_or_none("horizon", horizon)
        self.reward_range = low, high = finite_range("reward_range", reward_range)
        self.seed = integer_or_none("seed", seed, least=0)
        self._scale = max(abs(low), abs(high))  # inside, rewards lie in [-1, 1]
        self._rng = np.random.default_rng(self.seed)
        self._begin()
        self._end = 0  # decisions made when the open window is full
        self._window = None

    # -- what a subclass does ---------------------------------------------------------------------

    @abstractmethod
    def _size(self) -> int:
        """How many decisions the next window wants; never a function of private values."""

    @abstractmethod
    def _turned(self, size: int | None) -> dict[str, Any]:
        """What a turn changes: attributes and their new values; nothing is changed yet.

        The open window, if there is one, is closed and released: the only place where private data
        meets an output. A window of `size` decisions opens; none for None, past the horizon.
        """

    @property
    @abstractmethod
    def guarantee(self) -> Guarantee:
        """The computed promise."""

    # -- deciding ---------------------------------------------------------------------------------

    @property
    def learning(self) -> bool:
        """Whether rewards still count: not past the horizon."""
        return self._window is not None or self.rounds == 0

    @property
    def window(self) -> OpenWindow | None:
        """The open window, to fold rewarded rows into; None if there is none."""
        return None if self._window is None else OpenWindow(self)

    @property
    def rounds_until_release(self) -> int:
        """How many decisions from now on use the same policy; at least 1."""
        return self._end - self.rounds or self._next() or FOREVER

    def turn(self) -> None:
        """Close the window that is full, release, and open the next one, with the next policy.

        The first turn opens the first window. Past the horizon none opens and the policy stays.
        """
        with self._live:
            if self.rounds < self._end:
                raise ValueError(
                    f"the window has {self._end - self.rounds} decisions to go; turn when it is "
                    "full, so that its end depends on nobody's data"
                )
            self._turn()

    def _turn(self) -> None:
        size = self._next()
        end = FOREVER if size is None else self.rounds + size
        self._commit(_end=end, **self._turned(size))

    def advance(self, rounds: int) -> None:
        """Count decisions that were made elsewhere with `policy`, up to the end of the window."""
        with self._live:
            if not 0 <= integer("rounds", rounds, least=0) <= self._end - self.rounds:
                raise ValueError(f"the window has {self._end - self.rounds} decisions to go")
            self.rounds += rounds

    def decide(self, features: ArrayLike) -> Decision:  # (actions, dim)
        """Choose an action for one person; reads nothing but what was released."""
        if type(features) is np.ndarray and features.dtype is FLOAT:
            copied = features.copy()
        elif isinstance(features, Mapping):
            raise ValueError("decide takes rows: of a FeatureMap phi, decide(phi(person))")
        else:
            copied = np.array(numbers("features", features), order="C")
        offered = self._offered(copied)
        with self._live:
            if self.rounds >= self._end:
                self._turn()
            t, policy = self.rounds, self.policy
            coin = self._rng.random() if self.holdout is None else float(self._coins(t, 1)[0])
            action = policy.choose_one(offered, coin)
            decision = Decision(t, action, offered[action], self._run, offered, policy)
            self.rounds = t + 1
        return decision

    def decide_many(self, features: Sequence[ArrayLike] | Array) -> Decisions:
        """Choose for n people: (n, actions, dim), or n arrays (actions, dim) of different sizes.

        The same as n times `decide`, across the ends of windows too; but where `decide` refuses a
        person's features, here that person alone gets action -1, and nobody else is affected. The
        round counts, and uses its coin, all the same.
        """
        people = self._people(features)
        n = len(people)
        actions = np.zeros(n, dtype=np.intp)
        rows = np.zeros((n, self.dim))
        offered: Any = people if isinstance(people, np.ndarray) else list(people)
        policies: list[tuple[int, Policy]] = []
        done = 0
        with self._live:
            rounds = self.rounds + np.arange(n, dtype=np.int64)
            while done < n:
                if self.rounds >= self._end:
                    self._turn()
                t, policy = self.rounds, self.policy
                end = min(n, done + BLOCK, done + self._end - t)
                block = people[done:end]
                some, usable = self._offered_to(block)
                chosen = _choose(policy, some, self._coins(t, end - done))
                rows[done:end] = chosen_rows(some, chosen)
                actions[done:end] = np.where(usable, chosen, REFUSED)
                if offered is people and some is not block:  # shortened, or in other units
                    offered = np.empty((n, *np.shape(some)[1:]))
                    if done:
                        offered[:done] = people[:done]
                if offered is not people:
                    offered[done:end] = some
                if not policies or policies[-1][1] is not policy:
                    policies.append((done, policy))
                self.rounds = t + end - done
                done = end
        return Decisions(rounds, actions, rows, self._run, offered, tuple(policies))

    def _coins(self, t: int, n: int) -> Array:
        """What decides n rounds from t on."""
        coins = self._rng.random(n)
        if self.holdout is None:
            return coins
        return np.asarray(self.holdout.coins(self.held_out(np.arange(t, t + n)), coins))

    def held_out(self, rounds: Any) -> Any:
        """Whether rounds play the baseline: known from their numbers alone."""
        if self.holdout is None:
            return np.zeros(np.shape(rounds), dtype=bool)
        return self.holdout.holds(rounds, self._held_key)

    def decision(self, record: dict[str, Any]) -> Decision:
        """The decision of this learner that `Decision.to_dict` wrote, in any process."""
        decision = Decision.from_dict(record)
        self._assert_mine(decision)
        return decision

    def _next(self) -> int | None:
        """The length of the next window; past the horizon there is none."""
        if self.horizon is None:
            return self._size()
        room = self.horizon - self.rounds
        return min(self._size(), room) if room > 0 else None

    # -- learning ---------------------------------------------------------------------------------

    def learn(self, decision: Decision, reward: float, person: Person | None = None) -> bool:
        """Take the reward of a decision: any time later, in any order, once.

        Returns whether it counted: not past the horizon, nor a second one of a `person` (with
        People(visits=...): a str, bytes or int by which you know them). A reward that never comes
        is fine. A second one of a decision, one outside `reward_range`, NaN, or a decision of
        another learner raises ValueError and changes nothing.
        """
        self._assert_mine(decision)
        t = decision.round
        low, high = self.reward_range
        value = float(reward) if isinstance(reward, float) else math.nan
        if not low <= value <= high:
            value = number_within("reward", reward, self.reward_range)
        with self._live:
            if t in self._rewarded:
                self._assert_first(t)
            if self.rounds >= self._end:
                self._finish_turn()
            visitors = self.visitors
            if visitors is not None or person is not None:
                hashed = self._protecting_people(person is not None).pseudonym(person)  # type: ignore[arg-type]
            # Marked first: an interrupt may lose a reward, never count it twice.
            self._rewarded.add(t)
            window = self._window
            if window is None or (visitors is not None and not visitors.admit_hash(hashed)):
                return False
            if self.holdout is None:
                window.fold_one(decision.row, value / self._scale)
            else:
                self._fold(decision.row[None], np.array([value / self._scale]), np.array([t]))
        return True

    def _finish_turn(self) -> None:
        """End a turn that was interrupted after its release."""
        if getattr(self._window, "released", False):
            self._turn()

    def _fold_checked(self, rows: ArrayLike, rewards: ArrayLike, rounds: ArrayLike | None) -> None:
        """`OpenWindow.fold`."""
        X = numbers("rows", rows)
        y = finite("rewards", rewards)
        if X.ndim != 2 or X.shape[1] != self.dim or y.shape != X.shape[:1]:
            raise ValueError(
                f"expected rows (n, {self.dim}) and as many rewards, got {X.shape} and {y.shape}"
            )
        X = within("rows", X, self.norm_bound, norm="l2", clip=False) / self.norm_bound
        low, high = self.reward_range
        if not ((y >= low) & (y <= high)).all():
            raise ValueError(f"rewards must lie in [{low:g}, {high:g}]")
        numbered = None if rounds is None else np.asarray(rounds)
        if (numbered is None) != (self.holdout is None):
            raise ValueError("`rounds` are the numbers of the rows, where there is a hold-out")
        if numbered is not None and (numbered.dtype.kind not in "iu" or numbered.shape != y.shape):
            raise ValueError(f"`rounds` must be {len(y)} integers, one for each row")
        with self._live:
            self._finish_turn()
            if self._window is None:
                raise ValueError("no window is open: turn() opens one, up to the horizon")
            if numbered is not None and not ((numbered >= 0) & (numbered < self._end)).all():
                raise ValueError("`rounds` must be numbers of decisions up to this window's last")
            self._fold(X, y / self._scale, numbered)

    def _fold(self, rows: Array, rewards: Array, rounds: Any) -> None:
        """Checked rows and rewards, in units of the bounds, and the numbers of their rounds."""
        assert self._window is not None
        self._window.fold(rows, rewards)

    def _protecting_people(self, named: bool) -> Visitors:
        """The visitors, if people are named where they are protected and nowhere else."""
        if self.visitors is None:
            raise ValueError(
                "this learner protects rounds: leave out people, or say People(visits=...)"
            )
        if not named:
            raise ValueError(
                "People(visits=...) needs to know whose reward this is: name the person"
            )
        return self.visitors

    def _assert_mine(self, decision: Decision) -> None:
        Rounds._assert_mine(self, decision)
        row = decision.row
        if type(row) is not np.ndarray or row.dtype != FLOAT or row.shape != self._row_shape:
            raise ValueError("this learner never made that decision; was an old state loaded?")
        if type(decision.action) is not int or decision.action < 0:
            raise ValueError("this person's features were refused: there is no action to reward")
        if not float(row.dot(row)) <= LONGEST:
            raise ValueError("this decision record is damaged: its features are too long")

    def learn_many(
        self,
        decisions: Decisions | Sequence[Decision],
        rewards: ArrayLike,
        people: Sequence[Person] | NDArray[Any] | None = None,
    ) -> int:
        """Take many rewards; those that `learn` would refuse are left out alone.

        Returns how many were left out. NaN means that the reward has not come: it may still come
        later. Past the horizon rewards are taken and do not count, as with `learn`; so are those of
        `people` (with People(visits=...)) who have had one counted.
        """
        values = numbers_or_nan(rewards)
        if values.shape != (len(decisions),):
            raise ValueError(f"expected {len(decisions)} rewards, got shape {values.shape}")
        if people is not None and len(people) != len(values):
            raise ValueError(f"expected {len(values)} people, got {len(people)}")
        low, high = self.reward_range
        with self._live:
            self._finish_turn()
            rounds, rows, fine = self._records(decisions)
            fine &= (values >= low) & (values <= high)
            fine &= np.einsum("ij,ij->i", rows, rows) <= LONGEST
            fine[fine] = ~self._rewarded.contains(rounds[fine])
            hashes: list[bytes | None] = []
            if people is not None or self.visitors is not None:
                visitors = self._protecting_people(people is not None)
                hashes = visitors.pseudonyms(people, fine)  # type: ignore[arg-type]
                fine &= [each is not None for each in hashes]
            if not (rounds[1:] > rounds[:-1]).all():  # one may come twice: its first counts
                (places,) = np.nonzero(fine)
                _, first = np.unique(rounds[places], return_index=True)
                fine = np.zeros(len(values), dtype=bool)
                fine[places[first]] = True
            taken = int(fine.sum())
            self._rewarded.update(rounds if taken == len(fine) else rounds[fine])
            if self._window is not None:
                if self.visitors is not None:
                    for i in np.nonzero(fine)[0]:
                        fine[i] = self.visitors.admit_hash(hashes[i])  # type: ignore[arg-type]
                if not fine.all():
                    rows, values, rounds = rows[fine], values[fine], rounds[fine]
                if len(rows):
                    self._fold(rows, values / self._scale, rounds)
        return len(fine) - taken

    def _records(
        self, decisions: Decisions | Sequence[Decision]
    ) -> tuple[NDArray[np.int64], Array, NDArray[np.bool_]]:
        """Rounds, rows (n, dim), and which of them this learner made."""
        n = len(decisions)
        if isinstance(decisions, Decisions):
            if decisions.learner == self._run and decisions.is_sound(self.dim):
                rounds = decisions.round.astype(np.int64)
                rows = decisions.rows
                mine = decisions.action >= 0
                return rounds, rows, mine & (rounds >= 0) & (rounds < self.rounds)
            return np.full(n, -1), np.zeros((n, self.dim)), np.zeros(n, dtype=bool)
        rounds = np.full(n, -1, dtype=np.int64)
        rows = np.zeros((n, self.dim))
        mine = np.zeros(n, dtype=bool)
        for i, each in enumerate(decisions):
            with suppress(ValueError):
                self._assert_mine(each)
                rounds[i] = each.round
                rows[i] = each.row
                mine[i] = True
        return rounds, rows, mine

    # -- saving -----------------------------------------------------------------------------------

    def _validate(self) -> None:
        super()._validate()
        if not 0 <= self.rounds <= self._end:
            raise damaged("rounds")


def _choose(policy: Policy, offered: Sequence[Array] | Array, coins: Array) -> Indices:
    """Actions for many rounds, of equal or different numbers of actions."""
    if isinstance(offered, np.ndarray):
        return policy.choose(offered, coins)
    sizes = np.array([len(each) for each in offered])
    actions = np.zeros(len(offered), dtype=np.intp)
    for size in np.unique(sizes):
        (places,) = np.nonzero(sizes == size)
        some = np.stack([offered[int(i)] for i in places])
        actions[places] = policy.choose(some, coins[places])
    return actions
