"""What every contextual bandit shares: rounds, decisions, and rewards that come when they like.

The policy is fixed for a window of decisions. When the window is full, the next `decide` turns it:
close, release, next policy, next window. Windows count decisions, never rewards. A reward enters
the window that is open when it arrives.

Everything that a turn changes is computed first and committed in one step. An interrupt before
leaves the full window as it was, and nothing of it was shown; after it the released sum is gone.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar, Protocol, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from discreet.arrays import Array, finite, integer, numbers, public_bound, within
from discreet.bandits.value import Holdout
from discreet.bandits.visitors import Person, Visitors
from discreet.decisions import REFUSED, Decision, Decisions, Indices, Policy, RoundSet
from discreet.privacy import Guarantee
from discreet.state import Stateful, damaged

FOREVER = 2**62  # rounds
LONGEST = 1 + 1e-9  # |row|^2, up to rounding
BLOCK = 2048  # people of a batch who are decided for at once, so that what is computed stays near
_FLOAT = np.dtype(np.float64)
RESUMED_TWICE = "a state resumed twice: from a copy, or from before something that was shown"


class Window(Protocol):
    """Where rewarded rows go until the next release."""

    def fold(self, rows: Array, rewards: Array) -> None:
        """Add rows (n, dim) in the unit ball with rewards (n,) in [-1, 1]; nothing is shown."""

    def fold_one(self, row: Array, reward: float) -> None:
        """`fold` for one row."""


class Bandit(Stateful, ABC):
    """decide and learn, one at a time or many at once; save and load.

    `decide` and `learn` are made of steps that a service may take apart: `policy` (immutable,
    public: how to choose until the window is full), `window` (`fold` adds rewarded rows to it; None
    before the first decision and past the horizon) and `turn()`. Where a person is protected,
    `visitors.admit` says whether a row may be folded. One lock holds them together.

    A subclass sets `policy`, says how long windows are (`_size`), what a turn changes (`_turned`)
    and what is promised (`guarantee`), and adds to `_state` what it has to remember.
    """

    policy: Policy
    window: Window | None
    visitors: Visitors | None = None  # whose reward has counted, where a person is protected
    holdout: Holdout | None = None  # which rounds play a baseline
    _held_key: int = 0
    _state: ClassVar[tuple[str, ...]] = ("rounds", "_end", "_rewarded", "_rng", "policy", "window")

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
        self.dim = integer("dim", dim)
        self.horizon = None if horizon is None else integer("horizon", horizon)
        self.norm_bound = public_bound("norm_bound", norm_bound)
        low, high = (float(end) for end in reward_range)
        if not -np.inf < low < high < np.inf:
            raise ValueError(f"reward_range must be (low, high), got {reward_range!r}")
        self.reward_range = (low, high)
        self.clip = bool(clip)
        self.seed = None if seed is None else integer("seed", seed, least=0)
        self._scale = max(abs(low), abs(high))  # inside, rewards lie in [-1, 1]
        self._row_shape = (self.dim,)
        self._usual: tuple[int, ...] | None = None  # shape of features that was found right
        self._ones = np.ones(self._shape[1])
        self._expects = self._shape
        self._longest = self.norm_bound**2 * (1 + 1e-14)  # |row|^2, up to the norm's own rounding
        self._rng = np.random.default_rng(self.seed)
        self.rounds = 0  # decisions made
        self._end = 0  # decisions made when the open window is full
        self._rewarded = RoundSet()
        self.window = None

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

    def _discarded(self, size: int | None) -> dict[str, Any]:
        """What dropping the open window unread changes; nothing is changed yet."""
        raise NotImplementedError(f"{type(self).__name__} cannot drop its window")

    @property
    @abstractmethod
    def guarantee(self) -> Guarantee:
        """The computed promise."""

    # -- deciding ---------------------------------------------------------------------------------

    @property
    def learning(self) -> bool:
        """Whether rewards still count: not past the horizon."""
        return self.window is not None or self.rounds == 0

    @property
    def rounds_until_release(self) -> int:
        """How many decisions from now on use the same policy; at least 1."""
        return self._end - self.rounds or self._next() or FOREVER

    def turn(self) -> None:
        """Close the window that is full, release, and open the next one, with the next policy.

        The first turn opens the first window. Past the horizon none opens and the policy stays.
        """
        with self._lock:
            if self.rounds < self._end:
                raise ValueError(
                    f"the window has {self._end - self.rounds} decisions to go; turn when it is "
                    "full, so that its end depends on nobody's data"
                )
            size = self._next()
            end = FOREVER if size is None else self.rounds + size
            self._commit(_end=end, **self._turned(size))

    def discard(self) -> None:
        """Drop the open window unread and open another one in its place.

        For a learner restored from an old state: its window may have been released since, and going
        on with it would use its noise twice.
        """
        with self._lock:
            if self.window is not None:
                size = self._next()
                end = FOREVER if size is None else self.rounds + size
                self._commit(_end=end, **self._discarded(size))

    def advance(self, rounds: int) -> None:
        """Count decisions that were made elsewhere with `policy`, up to the end of the window."""
        with self._lock:
            if not 0 <= integer("rounds", rounds, least=0) <= self._end - self.rounds:
                raise ValueError(f"the window has {self._end - self.rounds} decisions to go")
            self.rounds += rounds

    def decide(self, features: ArrayLike) -> Decision:  # (actions, dim)
        """Choose an action for one person; reads nothing but what was released."""
        try:
            copied = np.array(features, dtype=_FLOAT, order="C")
        except (TypeError, ValueError):
            raise ValueError("features must be numbers, one row for each action") from None
        offered = self._offered(copied)
        with self._lock:
            if self.rounds >= self._end:
                self.turn()
            t, policy = self.rounds, self.policy
            coin = self._rng.random() if self.holdout is None else self._coin(t)
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
        offered, usable = self._stacked(features)
        n = len(offered)
        actions = np.zeros(n, dtype=np.intp)
        policies: list[tuple[int, Policy]] = []
        done = 0
        with self._lock:
            rounds = self.rounds + np.arange(n, dtype=np.int64)
            while done < n:
                if self.rounds >= self._end:
                    self.turn()
                t, policy = self.rounds, self.policy
                end = min(n, done + BLOCK, done + self._end - t)
                coins = self._coins(t, end - done)
                actions[done:end] = _choose(policy, offered[done:end], coins)
                if not policies or policies[-1][1] is not policy:
                    policies.append((done, policy))
                self.rounds = t + end - done
                done = end
        if isinstance(offered, np.ndarray):
            places = actions + offered.shape[1] * np.arange(n)
            rows = offered.reshape(-1, self.dim).take(places, axis=0)
        else:
            rows = np.array([each[a] for each, a in zip(offered, actions, strict=True)])
        rows = rows.reshape(n, self.dim)
        actions[~usable] = REFUSED
        return Decisions(rounds, actions, rows, self._run, offered, tuple(policies))

    def _coin(self, t: int) -> float:
        """What decides round t."""
        return float(self._coins(t, 1)[0])

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
        unit="person": a str, bytes or int by which you know them). A reward that never comes is
        fine. A second one of a decision, one outside `reward_range` (unless clip=True), NaN, or a
        decision of another learner raises ValueError and changes nothing.
        """
        self._assert_mine(decision)
        t = decision.round
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
        with self._lock:
            if t in self._rewarded:
                raise ValueError("this decision has had its reward; each counts once")
            visitors = self.visitors
            if visitors is not None or person is not None:
                hashed = self._protecting_people(person is not None).pseudonym(person)  # type: ignore[arg-type]
            # Marked first: an interrupt may lose a reward, never count it twice.
            self._rewarded.add(t)
            window = self.window
            if window is None or (visitors is not None and not visitors.admit_hash(hashed)):
                return False
            if self.holdout is None:
                window.fold_one(decision.row, value / self._scale)
            else:
                self._fold_apart(decision.row[None], np.array([value / self._scale]), t)
        return True

    def _fold_apart(self, rows: Array, rewards: Array, rounds: Any) -> None:
        """Fold, held-out rounds apart."""
        raise NotImplementedError(f"{type(self).__name__} has no hold-out")

    def _protecting_people(self, named: bool) -> Visitors:
        """The visitors, if people are named where they are protected and nowhere else."""
        if self.visitors is None:
            raise ValueError("this learner protects rounds: leave out people, or say unit='person'")
        if not named:
            raise ValueError("unit='person' needs to know whose reward this is: name the person")
        return self.visitors

    def _assert_mine(self, decision: Decision) -> None:
        """Refuse what this learner did not decide."""
        if type(decision) is not Decision or decision.learner != self._run:
            raise ValueError("expected a decision that this learner made")
        row = decision.row
        if not 0 <= decision.round < self.rounds or row.shape != self._row_shape:
            raise ValueError("this learner never made that decision; was an old state loaded?")
        if decision.action < 0:
            raise ValueError("this person's features were refused: there is no action to reward")
        if not row.dot(row) <= LONGEST:
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
        `people` (with unit="person") who have had one counted.
        """
        values = _each("rewards", rewards)
        if values.shape != (len(decisions),):
            raise ValueError(f"expected {len(decisions)} rewards, got shape {values.shape}")
        if people is not None and len(people) != len(values):
            raise ValueError(f"expected {len(values)} people, got {len(people)}")
        low, high = self.reward_range
        if self.clip:
            values = np.clip(values, low, high)
        with self._lock:
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
            if self.window is not None:
                if self.visitors is not None:
                    for i in np.nonzero(fine)[0]:
                        fine[i] = self.visitors.admit_hash(hashes[i])  # type: ignore[arg-type]
                if not fine.all():
                    rows, values, rounds = rows[fine], values[fine], rounds[fine]
                if len(rows):
                    if self.holdout is None:
                        self.window.fold(rows, values / self._scale)
                    else:
                        self._fold_apart(rows, values / self._scale, rounds)
        return len(fine) - taken

    def _records(
        self, decisions: Decisions | Sequence[Decision]
    ) -> tuple[NDArray[np.int64], Array, NDArray[np.bool_]]:
        """Rounds, rows (n, dim), and which of them this learner made."""
        if isinstance(decisions, Decisions):
            rounds, rows = decisions.round, decisions.rows
            mine = decisions.action >= 0
            if decisions.learner != self._run or rows.shape != (len(rounds), self.dim):
                rows, mine = np.zeros((len(rounds), self.dim)), np.zeros(len(rounds), dtype=bool)
        else:
            shape = (self.dim,)
            fits = [
                each.learner == self._run and each.row.shape == shape and each.action >= 0
                for each in decisions
            ]
            mine = np.array(fits, dtype=bool)
            rounds = np.array([each.round for each in decisions], dtype=np.int64)
            rows = np.zeros((len(rounds), self.dim))
            for i in np.nonzero(mine)[0]:
                rows[i] = decisions[int(i)].row
        return rounds, rows, mine & (rounds >= 0) & (rounds < self.rounds)

    # -- saving -----------------------------------------------------------------------------------

    def _begun(self) -> bool:
        return self._end > 0

    def _assert_not_older(self, resumed: Self) -> None:
        super()._assert_not_older(resumed)
        if resumed._end < self._end or not self._rewarded <= resumed._rewarded:
            raise ValueError(
                "the state is older than this learner: it lacks a release or a reward that was "
                "taken since, and to take it a second time would cost twice"
            )

    def _validate(self) -> None:
        if not 0 <= self.rounds <= self._end:
            raise damaged("rounds")

    # -- the edge ---------------------------------------------------------------------------------

    @property
    def _shape(self) -> tuple[int | None, int]:
        """Actions (None: any number) and features that callers offer."""
        return None, self.dim

    def _expanded(self, features: Array) -> Array:
        """What callers offer as rows of `dim` features."""
        return features

    def _offered(self, features: Array) -> Array:  # (actions, dim)
        """One person's features in units of the norm bound; longer rows are shortened to it."""
        if features.shape != self._usual:
            self._check_shape(features, 2)
            self._usual = features.shape  # most often that of the next person too
        squares = np.multiply(features, features).dot(self._ones)
        # argmax finds NaN first; as a scalar it is three times as fast as max.
        if not squares.item(squares.argmax()) <= self._longest:
            features = within("features", features, self.norm_bound, norm="l2", clip=True)
        return self._scaled(features)

    def _stacked(
        self, features: Sequence[ArrayLike] | Array
    ) -> tuple[Sequence[Array] | Array, NDArray[np.bool_]]:
        """What is offered to each of n people, and whose features can be used: others get zeros."""
        if not isinstance(features, np.ndarray) or features.dtype.kind not in "biuf":
            people = [self._usable(each) for each in features]
            usable = np.array([each is not None for each in people], dtype=bool)
            nothing = np.zeros((1, self.dim))
            return [nothing if each is None else each for each in people], usable
        array = np.ascontiguousarray(numbers("features", features))
        self._check_shape(array, 3)
        usable = np.ones(len(array), dtype=bool)
        if not self._fit(array):
            usable = np.asarray(np.isfinite(array).all(axis=(1, 2)))
            array = np.where(usable[:, None, None], array, 0.0)
            array = within("features", array, self.norm_bound, norm="l2", clip=True)
        return self._scaled(array), usable

    def _usable(self, features: ArrayLike) -> Array | None:
        try:
            return self._offered(np.ascontiguousarray(finite("features", features)))
        except ValueError:
            return None

    def _check_shape(self, features: Array, ndim: int) -> None:
        actions, dim = self._expects
        shape = features.shape
        least = 1 if self.holdout is None else self.holdout.actions  # the baseline is one of them
        if len(shape) == ndim and shape[-1] == dim:
            given = shape[-2]
            if given >= least and (actions is None or given == actions):
                return
        expected = ("n", str(actions or "actions"), str(dim))[-ndim:]
        raise ValueError(
            f"features must have shape ({', '.join(expected)}) with at least {least} "
            f"action{'s' * (least > 1)}, got {shape}"
        )

    def _fit(self, features: Array) -> bool:  # (n, actions, features)
        """Whether no row is longer than the bound; False with NaN or infinity."""
        for start in range(0, len(features), BLOCK):
            some = features[start : start + BLOCK]
            squares = np.einsum("ijk,ijk->ij", some, some).ravel()
            if not squares.item(squares.argmax()) <= self._longest:
                return False
        return True

    def _scaled(self, features: Array) -> Array:
        features = self._expanded(features)
        return features if self.norm_bound == 1 else features / self.norm_bound


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


def _each(name: str, values: ArrayLike) -> Array:
    """Numbers, one of each person; what is none becomes NaN alone."""
    try:
        return numbers(name, values).copy()
    except ValueError:
        return np.array([_number(value) for value in np.ravel(np.asarray(values, dtype=object))])


def _number(value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        return math.nan
