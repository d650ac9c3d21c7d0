"""What a world is: people come one after the other, each with some actions to choose from.

A learner sees the features, picks one action for each person and sees its reward. Only a world
knows the expected rewards of the others, and so the regret.

    world = linear_world("sphere", seed=0)
    people = world.people(1000, rng)                    # features (1000, actions, dim)
    rewards = people.rewards(actions, rng)              # (1000,), of the chosen actions
    regret = people.regret(actions)                     # (1000,), in expectation
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from discreet.arrays import Array, integer, one_of

Draw = Callable[[int, np.random.Generator], Array]  # n -> features (n, actions, dim)
DISTRIBUTIONS = ("gaussian", "sign", "zero-one", "known")


def generator(seed: int, purpose: bytes) -> np.random.Generator:
    """The stream of a seed for one purpose: worlds of the same seed have nothing in common."""
    tag = int.from_bytes(purpose, "big")
    return np.random.default_rng([integer("seed", seed, least=0), tag])


@dataclass(frozen=True)
class People:
    """Some people in the order they come, what each is offered, and what it is worth.

    A reward has mean `means[i, action]` and one of four distributions: "gaussian" (standard
    deviation `noise`, cut to `reward_range`), "sign" (+1 or -1), "zero-one", or "known" (the mean
    itself: real data that tell what every action would have brought).

    >>> people = People(np.zeros((2, 3, 1)), np.array([[0.1, 0.5, 0.2], [0.9, 0.3, 0.3]]))
    >>> people.best, people.regret([1, 1]), people.rewards([1, 1], np.random.default_rng(0))
    (array([0.5, 0.9]), array([0. , 0.6]), array([0.5, 0.3]))
    >>> len(people), len(people[1:])
    (2, 1)
    """

    features: Array  # (n, actions, dim), rows in the unit ball; or (n, dim), a context each
    means: Array  # (n, actions)
    distribution: str = "known"  # of a reward around its mean
    noise: float = 0.0  # std of a Gaussian reward
    reward_range: tuple[float, float] = (-1.0, 1.0)  # public bounds of a reward

    def __post_init__(self) -> None:
        one_of("distribution", self.distribution, DISTRIBUTIONS)

    def __len__(self) -> int:
        return len(self.means)

    def __getitem__(self, some: slice | NDArray[np.intp]) -> "People":
        return People(
            self.features[some], self.means[some], self.distribution, self.noise, self.reward_range
        )

    @property
    def best(self) -> Array:  # (n,)
        """The expected reward of the best action of each person."""
        return np.asarray(self.means.max(axis=1))

    def regret(self, actions: ArrayLike) -> Array:  # (n,) -> (n,)
        """How much less the chosen actions are expected to bring than the best ones."""
        return self.best - self._chosen(actions)

    def rewards(self, actions: ArrayLike, rng: np.random.Generator) -> Array:  # (n,) -> (n,)
        """Rewards of the chosen actions.

        One draw for each person, whatever the action: two learners that are given the same
        generator meet the same reward noise.
        """
        means = self._chosen(actions)
        if self.distribution == "gaussian":
            return np.clip(means + self.noise * rng.standard_normal(len(self)), *self.reward_range)
        if self.distribution == "sign":
            return np.where(rng.random(len(self)) < (1 + means) / 2, 1.0, -1.0)
        if self.distribution == "zero-one":
            return (rng.random(len(self)) < means).astype(np.float64)
        return means

    def _chosen(self, actions: ArrayLike) -> Array:
        chosen: NDArray[np.intp] = np.asarray(actions)
        if chosen.shape != (len(self),) or chosen.dtype.kind not in "iu":
            raise ValueError(f"actions must be {len(self)} integers, got shape {chosen.shape}")
        if len(chosen) and not 0 <= chosen.min() <= chosen.max() < self.means.shape[1]:
            raise ValueError(f"actions must lie in 0..{self.means.shape[1] - 1}")
        return self.means[np.arange(len(self)), chosen]


class World(Protocol):
    """Where people come from. A world has no memory: it can be shared by many runs."""

    @property
    def name(self) -> str:
        """By which `discreet.environments.world` makes it."""

    @property
    def dim(self) -> int:
        """Length of a feature row."""

    @property
    def n_actions(self) -> int:
        """How many actions each person is offered."""

    @property
    def reward_range(self) -> tuple[float, float]:
        """Public bounds of the rewards."""

    def people(self, n: int, rng: np.random.Generator, start: int = 0) -> People:
        """The people of rounds start, ..., start + n - 1.

        Only a world that drifts looks at `start`. The generator decides who comes: the same
        generator asked in other portions may bring other people of the same distribution.
        """
