"""Policies: from what was released to the law of an action.

Each has `choose(features, coins)` and `probabilities(features)`, the exact law of the former;
features are (n, actions, dim), one uniform coin decides a round whatever the number of actions.
Scores are always one product (actions, dim) @ (dim,) per round, so that both see the same bits.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from discreet.bandits.decisions import Indices, Policy
from discreet.privacy.checks import Array, row_norms


def scores(features: Array, weights: Array) -> Array:  # (..., actions, dim), (..., dim)
    """<phi, weights> for every action."""
    if weights.ndim == 1:
        return np.asarray(np.matmul(features, weights))
    return np.asarray(np.matmul(features, weights[..., None])[..., 0])


class Single:
    """One round at a time."""

    def choose(self, features: Array, coins: Array) -> Indices:
        """Actions for many rounds."""
        raise TypeError("a policy chooses")

    def choose_one(self, offered: Array, coin: float) -> int:  # (actions, dim)
        """`choose` for one round."""
        return int(self.choose(offered[None], np.array([coin]))[0])


@dataclass(frozen=True)
class Uniform(Single):
    """Every action alike: before anything is known."""

    def choose(self, features: Array, coins: Array) -> Indices:
        """Any action."""
        return np.asarray(coins * features.shape[1]).astype(np.intp)

    def probabilities(self, features: Array) -> Array:
        """1 / actions."""
        return np.full(features.shape[:2], 1 / features.shape[1])


class Deterministic(Single):
    """The action with the largest value, the first of them in a tie."""

    def values(self, features: Array) -> Array:  # (..., actions, dim) -> (..., actions)
        """What the policy maximises."""
        raise TypeError("a deterministic policy has values")

    def choose(self, features: Array, coins: Array) -> Indices:
        """The largest value."""
        return np.asarray(np.argmax(self.values(features), axis=1))

    def choose_one(self, offered: Array, coin: float) -> int:
        """The largest value; the coin does not matter."""
        return int(self.values(offered).argmax())

    def probabilities(self, features: Array) -> Array:
        """1 for the largest value."""
        law = np.zeros(features.shape[:2])
        law[np.arange(len(law)), np.argmax(self.values(features), axis=1)] = 1.0
        return law


@dataclass(frozen=True)
class Greedy(Deterministic):
    """The best action if the mean were the truth."""

    mean: Array  # (d,)

    def values(self, features: Array) -> Array:
        """<phi, mean>."""
        return scores(features, self.mean)


@dataclass(frozen=True)
class Ucb(Deterministic):
    """The best action if each were as good as it can be: <phi, mean> + width |root' phi + offset|.

    An intercept is the same for all actions, but its error is not independent of theta's.
    """

    mean: Array  # (d,)
    root: Array  # (d, k); the variance of <phi, theta> plus an intercept is |root' phi + offset|^2
    width: float = 1.0
    offset: Array | float = 0.0  # (k,)

    def values(self, features: Array) -> Array:
        """<phi, mean> + width |root' phi + offset|."""
        wide = features @ self.root + self.offset
        bonus = np.sqrt(np.einsum("...i,...i->...", wide, wide))
        return np.asarray(scores(features, self.mean) + self.width * bonus)


@dataclass(frozen=True)
class Thompson(Single):
    """The best action for one of a fixed set of draws of theta; each draw is as likely."""

    draws: Array  # (m, d)

    def choose(self, features: Array, coins: Array) -> Indices:
        """The best action of the draw that the coin picks."""
        chosen = self.draws[(coins * len(self.draws)).astype(np.intp)]
        return np.asarray(np.argmax(scores(features, chosen), axis=1))

    def probabilities(self, features: Array) -> Array:
        """How many of the draws prefer each action."""
        law = np.zeros(features.shape[:2])
        everyone = np.arange(len(law))
        for draw in self.draws:
            law[everyone, np.argmax(scores(features, draw), axis=1)] += 1
        return law / len(self.draws)


@dataclass(frozen=True)
class Mixed:
    """One policy in a share of the rounds, another in the rest."""

    share: float
    one: Policy
    other: Policy

    def choose(self, features: Array, coins: Array) -> Indices:
        """The coin picks the policy, and what is left of it decides within."""
        first = coins < self.share
        left = (coins - self.share) / (1 - self.share)
        actions = self.other.choose(features, np.clip(left, 0.0, 1 - 2**-53))
        if first.any():
            actions[first] = self.one.choose(features[first], coins[first] / self.share)
        return actions

    def choose_one(self, offered: Array, coin: float) -> int:
        """`choose` for one round."""
        if coin < self.share:
            return self.one.choose_one(offered, coin / self.share)
        left = (coin - self.share) / (1 - self.share)
        return self.other.choose_one(offered, min(left, 1 - 2**-53))

    def probabilities(self, features: Array) -> Array:
        """The mixture of both laws."""
        one, other = self.one.probabilities(features), self.other.probabilities(features)
        return np.asarray(self.share * one + (1 - self.share) * other)


@dataclass(frozen=True)
class SquareCB(Single):
    """1 / (actions + rate gap) for every action but the best (Algorithms 13 and 17)."""

    mean: Array  # (d,)
    error: float  # root mean square error of the estimate; rate = sqrt(actions) / error

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
        law = 1 / (actions + rate * (values.max(axis=1, keepdims=True) - values))
        law[np.arange(n), best] = 0.0
        law[np.arange(n), best] = 1 - law.sum(axis=1)
        return np.asarray(law)


@dataclass(frozen=True)
class Interval:
    """Where <phi, theta> should lie: <phi, mean> +- min(width |root' phi + offset|, most)."""

    mean: Array  # (d,)
    root: Array  # (d, k)
    width: float
    most: float = 2.0
    offset: Array | float = 0.0  # (k,), of an intercept

    def ends(self, features: Array) -> tuple[Array, Array]:
        """Lower and upper ends, (n, actions) each."""
        middle = scores(features, self.mean)
        half = np.minimum(
            self.width * row_norms(features @ self.root + self.offset, "l2"), self.most
        )
        return middle - half, middle + half


@dataclass(frozen=True)
class Elimination(Single):
    """Uniform over a spanner of the actions that no interval rules out (Algorithms 6 and 7)."""

    intervals: tuple[Interval, ...]  # one for each window, the oldest first

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
