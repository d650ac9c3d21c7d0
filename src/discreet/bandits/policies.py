"""Policies: from what was released to the distribution of an action.

Each has `choose(features, coins)` and `probabilities(features)`, the exact distribution of the
former; features are (n, actions, dim), one uniform coin decides a round whatever the number of
actions. Scores are always one product (actions, dim) @ (dim,) per round, so that both see the same
bits. Policies are immutable and public: `to_dict` shows all that they hold.

    name           policy of the next window, from the belief
    ucb            greedy, but optimistic in a few rounds of the window
    thompson       the best action for one of 64 draws of theta
    elimination    uniform over the actions that no interval rules out
    squarecb       inverse gap weighting: every action keeps some probability
    greedy         the best action if the posterior mean were the truth

A new policy is a class with a `following` method and a line in `POLICIES`.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.arrays import Array, row_norms
from discreet.bandits.tuning import TUNING
from discreet.decisions import Indices, Policy
from discreet.state import value

BELOW_1 = 1 - 2**-53  # the largest coin
DRAWS = 64  # of theta in a window, for Thompson sampling
CONFIDENCE = 2.0  # standard deviations of an interval, for elimination


@dataclass(frozen=True)
class Stage:
    """What a policy may be made from: releases and public numbers only."""

    belief: Any  # Point, with mean and error; Belief for "ucb", "thompson", "elimination"
    rounds: int  # before this window
    size: int  # decisions of the window
    first: int  # decisions of the first window
    rng: Callable[[], np.random.Generator]  # makes that of this window, for a policy that draws
    previous: Policy  # of the last window
    last: bool = False  # whether nothing follows that this window's release could serve


def scores(features: Array, weights: Array) -> Array:  # (..., actions, dim), (..., dim)
    """<phi, weights> for every action."""
    if features.ndim == 2:
        return np.asarray(features.dot(weights))
    if weights.ndim == 1:
        return np.asarray(np.matmul(features, weights))
    return np.asarray(np.matmul(features, weights[..., None])[..., 0])


class Public:
    """Immutable arrays and numbers that anybody may see, as plain values too."""

    def __post_init__(self) -> None:
        for name, item in vars(self).items():
            if isinstance(item, np.ndarray):
                fixed = item.view()
                fixed.setflags(write=False)
                object.__setattr__(self, name, fixed)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        own = {each.name: _plain(getattr(self, each.name)) for each in fields(self)}  # type: ignore[arg-type]
        return {"kind": type(self).__name__, **own}


class PlainPolicy(Public, ABC):
    """A policy whose single rounds are those of `choose`."""

    @abstractmethod
    def choose(self, features: Array, coins: Array) -> Indices:
        """Actions for many rounds."""

    def choose_one(self, offered: Array, coin: float) -> int:  # (actions, dim)
        """`choose` for one round."""
        return int(self.choose(offered[None], np.array([coin]))[0])

    def probability_one(self, offered: Array, action: int) -> float:  # (actions, dim)
        """`probabilities` for one action of one round."""
        return float(self.probabilities(offered[None])[0, action])

    def draw_one(self, offered: Array, coin: float) -> tuple[int, float]:
        """The action of `choose_one`, and its probability."""
        action = self.choose_one(offered, coin)
        return action, self.probability_one(offered, action)

    @abstractmethod
    def probabilities(self, features: Array) -> Array:  # (n, actions, dim) -> (n, actions)
        """The probability of each action in many rounds."""


def _plain(item: Any) -> Any:
    if isinstance(item, np.ndarray):
        return item.tolist()
    if isinstance(item, tuple):
        return [_plain(each) for each in item]
    return item.to_dict() if isinstance(item, Public) else item


@value
@dataclass(frozen=True)
class Uniform(PlainPolicy):
    """Every action alike: before anything is known."""

    def choose(self, features: Array, coins: Array) -> Indices:
        """Any action."""
        return np.asarray(coins * features.shape[1]).astype(np.intp)

    def choose_one(self, offered: Array, coin: float) -> int:
        """Any action."""
        return int(coin * len(offered))

    def probability_one(self, offered: Array, action: int) -> float:
        """1 / actions."""
        return 1 / len(offered)

    def probabilities(self, features: Array) -> Array:
        """1 / actions."""
        return np.full(features.shape[:2], 1 / features.shape[1])


@value
@dataclass(frozen=True)
class Always(PlainPolicy):
    """The same action for everybody."""

    action: int  # its place

    def choose(self, features: Array, coins: Array) -> Indices:
        """This action."""
        return np.full(len(features), self.action, dtype=np.intp)

    def probabilities(self, features: Array) -> Array:
        """1 for this action."""
        probabilities = np.zeros(features.shape[:2])
        probabilities[:, self.action] = 1.0
        return probabilities


class Deterministic(PlainPolicy):
    """The action with the largest value, the first of them in a tie."""

    @abstractmethod
    def values(self, features: Array) -> Array:  # (..., actions, dim) -> (..., actions)
        """What the policy maximises."""

    def choose(self, features: Array, coins: Array) -> Indices:
        """The largest value."""
        return np.asarray(np.argmax(self.values(features), axis=1))

    def choose_one(self, offered: Array, coin: float) -> int:
        """The largest value; the coin does not matter."""
        return int(self.values(offered).argmax())

    def probability_one(self, offered: Array, action: int) -> float:
        """1 for the largest value, 0 for others."""
        return float(self.values(offered).argmax() == action)

    def draw_one(self, offered: Array, coin: float) -> tuple[int, float]:
        """The largest value, for sure."""
        return int(self.values(offered).argmax()), 1.0

    def probabilities(self, features: Array) -> Array:
        """1 for the largest value."""
        probabilities = np.zeros(features.shape[:2])
        probabilities[np.arange(len(probabilities)), np.argmax(self.values(features), axis=1)] = 1.0
        return probabilities


@value
@dataclass(frozen=True)
class Greedy(Deterministic):
    """The best action if the mean were the truth."""

    mean: Array  # (d,)

    @classmethod
    def following(cls, stage: Stage) -> Policy:
        """On the posterior mean."""
        return cls(stage.belief.weights)

    def values(self, features: Array) -> Array:
        """<phi, mean>."""
        return scores(features, self.mean)

    def choose_one(self, offered: Array, coin: float) -> int:
        """The largest value: the same bits, called most often of all."""
        return int(offered.dot(self.mean).argmax())


@value
@dataclass(frozen=True)
class Ucb(Deterministic):
    """The best action if each were as good as it can be: <phi, mean> + width |root' phi|.

    An intercept is the same for all actions: its error speaks for none of them.
    """

    mean: Array  # (d,)
    root: Array  # (d, k); the variance of <phi, theta> is |root' phi|^2
    width: float = 1.0  # standard deviations by which it is optimistic

    @classmethod
    def following(cls, stage: Stage) -> Policy:
        """Optimistic in a few rounds of the window, greedy in the others and in the last window."""
        belief = stage.belief
        if stage.last:
            return Greedy(belief.weights)
        first = stage.first if belief.may_clip else TUNING.unclipped_tries * stage.first
        tries = max(first, TUNING.tries * len(belief.mean))
        root = belief.optimistic_root(TUNING.optimism)
        optimist = cls(belief.weights, root, TUNING.optimism)
        return Mixed(min(TUNING.exploring, tries / stage.size), optimist, Greedy(belief.weights))

    def values(self, features: Array) -> Array:
        """<phi, mean> + width |root' phi|."""
        wide = features.dot(self.root) if features.ndim == 2 else np.matmul(features, self.root)
        wide *= wide
        bonus = scores(wide, self._weight)
        np.sqrt(bonus, bonus)
        bonus += scores(features, self.mean)
        return bonus

    @cached_property
    def _weight(self) -> Array:
        """Of squares in the square of what is added."""
        weight = np.full(self.root.shape[1], self.width**2)
        weight.setflags(write=False)
        return weight


@value
@dataclass(frozen=True)
class Thompson(PlainPolicy):
    """The best action for one of a fixed set of draws of theta; each draw is as likely."""

    draws: Array  # (m, d)

    @classmethod
    def following(cls, stage: Stage) -> Policy:
        """Draws of the posterior."""
        belief = stage.belief
        normal = stage.rng().standard_normal((DRAWS, len(belief.mean)))
        root, _ = belief.split(belief.root)
        return cls(belief.weights + normal @ root.T)

    def choose(self, features: Array, coins: Array) -> Indices:
        """The best action of the draw that the coin picks."""
        chosen = self.draws[(coins * len(self.draws)).astype(np.intp)]
        return np.asarray(np.argmax(scores(features, chosen), axis=1))

    def probabilities(self, features: Array) -> Array:
        """How many of the draws prefer each action."""
        probabilities = np.zeros(features.shape[:2])
        everyone = np.arange(len(probabilities))
        for draw in self.draws:
            probabilities[everyone, np.argmax(scores(features, draw), axis=1)] += 1
        return probabilities / len(self.draws)


@value
@dataclass(frozen=True)
class Mixed(PlainPolicy):
    """One policy in a fraction of the rounds, another in the rest."""

    fraction: float  # of the rounds that `one` decides
    one: Policy  # in these
    other: Policy  # in the rest

    def choose(self, features: Array, coins: Array) -> Indices:
        """The coin picks the policy, and what is left of it decides within."""
        first = coins < self.fraction
        left = (coins - self.fraction) / (1 - self.fraction)
        actions = self.other.choose(features, np.clip(left, 0.0, BELOW_1))
        if first.any():
            actions[first] = self.one.choose(features[first], coins[first] / self.fraction)
        return actions

    def choose_one(self, offered: Array, coin: float) -> int:
        """`choose` for one round."""
        fraction = self.fraction
        if coin < fraction:
            return self.one.choose_one(offered, coin / fraction)
        left = (coin - fraction) / (1 - fraction)
        return self.other.choose_one(offered, min(left, BELOW_1))

    def probability_one(self, offered: Array, action: int) -> float:
        """The mixture of both."""
        one = self.one.probability_one(offered, action)
        other = self.other.probability_one(offered, action)
        return self.fraction * one + (1 - self.fraction) * other

    def draw_one(self, offered: Array, coin: float) -> tuple[int, float]:
        """`choose_one` with its probability; neither policy is asked twice."""
        if coin < self.fraction:
            action, one = self.one.draw_one(offered, coin / self.fraction)
            other = self.other.probability_one(offered, action)
        else:
            left = (coin - self.fraction) / (1 - self.fraction)
            action, other = self.other.draw_one(offered, min(left, BELOW_1))
            one = self.one.probability_one(offered, action)
        return action, self.fraction * one + (1 - self.fraction) * other

    def probabilities(self, features: Array) -> Array:
        """The mixture of both."""
        one, other = self.one.probabilities(features), self.other.probabilities(features)
        return np.asarray(self.fraction * one + (1 - self.fraction) * other)


@value
@dataclass(frozen=True)
class SquareCB(PlainPolicy):
    """1 / (actions + rate gap) for every action but the best (Algorithms 13 and 17)."""

    mean: Array  # (d,)
    error: float  # root mean square error of the estimate; rate = sqrt(actions) / error

    @classmethod
    def following(cls, stage: Stage) -> Policy:
        """On the posterior mean and its error."""
        return cls(stage.belief.weights, stage.belief.error)

    def choose(self, features: Array, coins: Array) -> Indices:
        """By inverting the distribution function."""
        below = np.cumsum(self.probabilities(features), axis=1)
        below /= below[:, -1:]
        return np.asarray(np.argmax(coins[:, None] < below, axis=1))

    def probabilities(self, features: Array) -> Array:
        """Inverse gap weighting."""
        values = scores(features, self.mean)
        n, actions = values.shape
        best = np.argmax(values, axis=1)
        rate = np.sqrt(actions) / max(self.error, 1e-12)
        probabilities = 1 / (actions + rate * (values.max(axis=1, keepdims=True) - values))
        probabilities[np.arange(n), best] = 0.0
        probabilities[np.arange(n), best] = 1 - probabilities.sum(axis=1)
        return np.asarray(probabilities)


@value
@dataclass(frozen=True)
class Interval(Public):
    """Where <phi, theta> should lie: <phi, mean> +- min(width |root' phi + offset|, most)."""

    mean: Array  # (d,)
    root: Array  # (d, k)
    width: float  # standard deviations
    most: float = 2.0  # the largest half width
    offset: Array | float = 0.0  # (k,), of an intercept

    def ends(self, features: Array) -> tuple[Array, Array]:
        """Lower and upper ends, (n, actions) each."""
        middle = scores(features, self.mean)
        half = np.minimum(
            self.width * row_norms(features @ self.root + self.offset, "l2"), self.most
        )
        return middle - half, middle + half


@value
@dataclass(frozen=True)
class Elimination(PlainPolicy):
    """Uniform over a spanner of the actions that no interval rules out (Algorithms 6 and 7)."""

    intervals: tuple[Interval, ...]  # one for each window, the oldest first

    @classmethod
    def following(cls, stage: Stage) -> Policy:
        """One interval more, from the posterior."""
        belief = stage.belief
        root, offset = belief.split(belief.root)
        return cls.narrowed(stage, Interval(belief.weights, root, CONFIDENCE, offset=offset))

    @classmethod
    def narrowed(cls, stage: Stage, interval: Interval) -> Policy:
        """The intervals so far and another one."""
        return cls((*getattr(stage.previous, "intervals", ()), interval))

    def choose(self, features: Array, coins: Array) -> Indices:
        """Any action of the spanner."""
        alive = self._alive(features)
        place = (coins * alive.sum(axis=1)).astype(np.intp)
        return np.asarray(np.argmax(np.cumsum(alive, axis=1) > place[:, None], axis=1))

    def probabilities(self, features: Array) -> Array:
        """Equal for all actions of the spanner."""
        alive = self._alive(features)
        return np.asarray(alive / alive.sum(axis=1, keepdims=True))

    def _alive(self, features: Array) -> NDArray[np.bool_]:  # (n, actions)
        alive = np.ones(features.shape[:2], dtype=bool)
        for interval in self.intervals:
            low, high = interval.ends(features)
            here = high >= low.max(axis=1, keepdims=True)
            # Where nobody would be left, the last window's survivors count.
            nobody = ~(alive & here).any(axis=1)
            alive = np.where(nobody[:, None], here, alive & here)
        for i in np.nonzero(alive.sum(axis=1) > features.shape[2])[0]:
            (places,) = np.nonzero(alive[i])
            alive[i] = False
            alive[i, places[spanner(features[i, places])]] = True
        return alive


POLICIES: dict[str, Callable[[Stage], Policy]] = {
    "ucb": Ucb.following,
    "thompson": Thompson.following,
    "elimination": Elimination.following,
    "squarecb": SquareCB.following,
    "greedy": Greedy.following,
}


def spanner(rows: Array) -> Indices:  # (actions, dim)
    """A 2-approximate barycentric spanner (Awerbuch and Kleinberg 2008): indices of rows.

    Every row is a combination of the chosen ones with coefficients in [-2, 2].

    >>> spanner(np.array([[1.0, 0.0], [0.9, 0.1], [0.0, 1.0]]))
    array([0, 2])
    """
    # A basis of the span by pivoted orthogonalisation: the largest volume, greedily.
    left, chosen = rows.copy(), []
    for _ in range(min(rows.shape)):
        sizes = row_norms(left, "l2")
        i = int(np.argmax(sizes))
        if sizes[i] <= 1e-9 * max(float(row_norms(rows, "l2").max()), 1e-300):
            break
        chosen.append(i)
        u = left[i] / sizes[i]
        left = left - np.outer(left @ u, u)
    if not chosen:
        return np.zeros(1, dtype=np.intp)  # all rows are zero: any of them spans
    while True:  # swap while a swap doubles the volume; coefficients are ratios of volumes
        coefficients = rows @ np.linalg.pinv(rows[chosen])
        row, place = np.unravel_index(int(np.argmax(np.abs(coefficients))), coefficients.shape)
        if abs(coefficients[row, place]) <= 2:
            return np.sort(np.array(chosen, dtype=np.intp))
        chosen[int(place)] = int(row)
