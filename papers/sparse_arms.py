"""K arms, each with a sparse parameter of its own; one context with many entries for each person.

`LinearWorld` offers each person one feature row for each action: with 10,000 features that is too
much to hold. Here there is one context for all arms.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from discreet.arrays import Array, integer, one_of
from discreet.environments.people import People
from discreet.links import link as link_of

CONTEXTS = ("signs", "uniform", "correlated")


@dataclass(frozen=True)
class SparseArms:
    """Rewards of mean nu(<x, theta_i>) for arm i; x has entries in [-1, 1], |theta_i|_1 <= 1.

    Identity link: Gaussian noise, cut to [-1, 1]. Logistic link: rewards 0 or 1. It is a `World`
    whose people have one context each, (n, dim), instead of one row for each action.

    >>> world = sparse_arms(3, 100, nonzero=4, seed=0)
    >>> x = world.contexts(5, np.random.default_rng(1))
    >>> x.shape, world.means(x).shape, world.best(x).shape
    ((5, 100), (5, 3), (5,))
    """

    thetas: Array  # (arms, dim)
    entries: str = "signs"  # of a context: one of CONTEXTS
    link: str = "identity"  # "identity" or "logistic"
    noise: float = 0.1  # standard deviation of a reward under the identity link
    name: str = "sparse arms"  # for tables

    @property
    def n_actions(self) -> int:
        """How many arms there are."""
        return len(self.thetas)

    @property
    def dim(self) -> int:
        """Of the contexts."""
        return int(self.thetas.shape[1])

    @property
    def reward_range(self) -> tuple[float, float]:
        """[0, 1] or [-1, 1]."""
        return (0.0, 1.0) if self.link == "logistic" else (-1.0, 1.0)

    def people(self, n: int, rng: np.random.Generator, start: int = 0) -> People:
        """n people; every round is alike."""
        x = self.contexts(n, rng)
        distribution = "zero-one" if self.link == "logistic" else "gaussian"
        return People(x, self.means(x), distribution, self.noise, self.reward_range)

    def contexts(self, n: int, rng: np.random.Generator) -> Array:  # -> (n, dim)
        """n people; every round is alike."""
        if self.entries == "uniform":
            return rng.uniform(-1.0, 1.0, (n, self.dim))
        bits = rng.integers(0, 2, (n, self.dim), dtype=np.int8)
        if self.entries == "correlated":  # half of the entries, at random, copy the person's mood
            mood = rng.integers(0, 2, (n, 1), dtype=np.int8)
            bits = np.where(rng.integers(0, 2, (n, self.dim), dtype=np.int8), mood, bits)
        return np.asarray(2.0 * bits - 1.0, dtype=np.float64)

    def means(self, x: Array) -> Array:  # (n, dim) -> (n, arms)
        """The expected reward of each arm."""
        used = np.nonzero(self.thetas.any(axis=0))[0]
        linear = x[..., used] @ self.thetas[:, used].T
        return np.asarray(link_of(self.link).mean(linear))

    def best(self, x: Array) -> NDArray[np.intp]:  # (n, dim) -> (n,)
        """The best arm for each person."""
        return np.asarray(self.means(x).argmax(axis=-1))

    def rewards(self, means: Array, rng: np.random.Generator) -> Array:  # (n,) -> (n,)
        """Rewards of the chosen arms, given their means; one draw for each."""
        if self.link == "logistic":
            return (rng.random(means.shape) < means).astype(np.float64)
        return np.clip(means + self.noise * rng.standard_normal(means.shape), -1.0, 1.0)


def sparse_arms(
    n_arms: int = 5,
    dim: int = 10_000,
    *,
    nonzero: int = 10,
    contexts: str = "signs",
    link: str = "identity",
    noise: float = 0.1,
    radius: float = 1.0,
    seed: int,
) -> SparseArms:
    """Each theta_i has `nonzero` entries +-radius/nonzero at random places; l1 norm `radius`.

    contexts  "signs": independent +-1; "uniform": independent in [-1, 1], a third of the signal;
              "correlated": +-1, each pair of entries with correlation 1/4
    """
    K = integer("n_arms", n_arms)
    d = integer("dim", dim)
    s = integer("nonzero", nonzero)
    if s > d:
        raise ValueError(f"nonzero must be at most dim, got {s} of {d}")
    one_of("contexts", contexts, CONTEXTS)
    one_of("link", link, ("identity", "logistic"))
    if not 0 <= noise < np.inf or not 0 < radius < np.inf:
        raise ValueError(
            f"noise must be finite and not negative, radius finite and positive; "
            f"got noise = {noise!r}, radius = {radius!r}"
        )
    rng = np.random.default_rng([integer("seed", seed, least=0), 0x61726D73])
    thetas = np.zeros((K, d))
    for theta in thetas:
        places = rng.choice(d, size=s, replace=False)
        theta[places] = rng.choice([-radius / s, radius / s], size=s)
    return SparseArms(thetas, contexts, link, noise)
