"""Policies: from what was released to the law of an action.

Each has `choose(features, coins)` and `probabilities(features)`, the exact law of the former;
features are (n, actions, dim), one uniform coin decides a round whatever the number of actions.
Scores are always one product (actions, dim) @ (dim,) per round, so that both see the same bits.
"""

from dataclasses import dataclass

import numpy as np

from discreet.bandits.decisions import Indices
from discreet.privacy.checks import Array, row_norms


def scores(features: Array, weights: Array) -> Array:  # (..., actions, dim), (..., dim)
    """<phi, weights> for every action."""
    return np.asarray(np.matmul(features, weights[..., None])[..., 0])


@dataclass(frozen=True)
class Uniform:
    """Every action alike: before anything is known."""

    def choose(self, features: Array, coins: Array) -> Indices:
        """Any action."""
        return np.asarray(coins * features.shape[1]).astype(np.intp)

    def probabilities(self, features: Array) -> Array:
        """1 / actions."""
        return np.full(features.shape[:2], 1 / features.shape[1])


class Deterministic:
    """The action with the largest value, the first of them in a tie."""

    def values(self, features: Array) -> Array:  # (n, actions, dim) -> (n, actions)
        """What the policy maximises."""
        raise TypeError("a deterministic policy has values")

    def choose(self, features: Array, coins: Array) -> Indices:
        """The largest value."""
        return np.asarray(np.argmax(self.values(features), axis=1))

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
    """The best action if each were as good as it can be: <phi, mean> + width |root' phi|."""

    mean: Array  # (d,)
    root: Array  # (d, d), covariance = root root'
    width: float = 1.0

    def values(self, features: Array) -> Array:
        """<phi, mean> + width |root' phi|."""
        bonus = row_norms(features @ self.root, "l2")
        return np.asarray(scores(features, self.mean) + self.width * bonus)
