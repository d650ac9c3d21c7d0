"""Worlds in which the expected reward of an action is linear in its features, or nu of that."""

from dataclasses import dataclass

import numpy as np

from discreet.arrays import Array, integer, one_of
from discreet.environments.people import Draw, People, generator
from discreet.links import link as link_of


@dataclass(frozen=True)
class LinearWorld:
    """Features, and rewards of mean nu(<phi, theta>): Gaussian noise, +-1 or 0/1.

    >>> world = linear_world("sphere", dim=5, seed=0)
    >>> people = world.people(3, np.random.default_rng(1))
    >>> people.features.shape, people.means.shape
    ((3, 10, 5), (3, 10))
    """

    name: str  # for tables
    theta: Array  # (d,)
    contexts: Draw  # draws what people are offered, (n, actions, d)
    n_actions: int  # actions of each person
    distribution: str = "gaussian"  # "gaussian" (cut to [-1, 1]), "sign" or "zero-one"
    noise: float = 0.1  # standard deviation of a Gaussian reward
    link: str = "identity"  # nu, by name

    @property
    def dim(self) -> int:
        """Of the features."""
        return len(self.theta)

    @property
    def reward_range(self) -> tuple[float, float]:
        """[0, 1] or [-1, 1]."""
        return (0.0, 1.0) if self.distribution == "zero-one" else (-1.0, 1.0)

    def people(self, n: int, rng: np.random.Generator, start: int = 0) -> People:
        """n people; every round is alike."""
        features = self.contexts(n, rng)
        means = np.asarray(link_of(self.link).mean(features @ self.theta))
        return People(features, means, self.distribution, self.noise, self.reward_range)


NAMES = ("sphere", "short", "decay", "fixed", "rare", "basis", "sign", "half", "tenth")


def linear_world(
    name: str, dim: int = 5, *, actions: int = 10, noise: float = 0.1, seed: int
) -> LinearWorld:
    """A world by name; the seed decides its parameter (and its fixed actions).

    sphere   features uniform on the unit sphere, fresh every round
    short    the same of length .1: the norm bound is a bad guess
    decay    Gaussian features of scale j^-1.5, cut to the unit ball
    fixed    the same actions every round, the best ahead by at least .1
    rare     one round in a hundred lies in two directions that the others do not have
    basis    unit vectors, the j-th with frequency 2^-j
    sign     sphere with rewards +1 and -1: the hardest noise
    half     a constant and a sphere, rewards 0 and 1 of mean .5
    tenth    the same with mean .1
    """
    one_of("name", name, NAMES)
    d = integer("dim", dim, least=2)
    A = integer("actions", actions, least=2)
    rng = generator(seed, b"worl")
    theta = sphere((d,), rng)
    if name == "short":
        return LinearWorld(name, theta, lambda n, r: 0.1 * sphere((n, A, d), r), A, noise=noise)
    if name == "decay":
        scales = np.arange(1, d + 1) ** -1.5

        def decaying(n: int, r: np.random.Generator) -> Array:
            z = r.standard_normal((n, A, d)) * scales
            return np.asarray(z / np.maximum(1, np.linalg.norm(z, axis=2))[..., None])

        return LinearWorld(name, theta, decaying, A, noise=noise)
    if name == "fixed":
        while True:
            phi = sphere((A, d), rng)
            second, first = np.sort(phi @ theta)[-2:]
            if first - second > 0.1:
                break
        return LinearWorld(
            name, theta, lambda n, r: np.broadcast_to(phi, (n, A, d)).copy(), A, noise=noise
        )
    if name == "rare":

        def rare(n: int, r: np.random.Generator) -> Array:
            z = r.standard_normal((n, A, d))
            odd = r.random(n) < 0.01
            z[odd, :, : d - 2] = 0
            z[~odd, :, d - 2 :] = 0
            return np.asarray(z / np.linalg.norm(z, axis=2)[..., None])

        return LinearWorld(name, theta, rare, A, noise=noise)
    if name == "basis":

        def basis(n: int, r: np.random.Generator) -> Array:
            j = np.minimum(np.floor(-np.log2(1 - r.random((n, A)))).astype(int), d - 1)
            return np.asarray(np.eye(d)[j])

        return LinearWorld(name, theta, basis, A, noise=noise)
    if name in ("half", "tenth"):
        mean, swing = (0.5, 0.4) if name == "half" else (0.1, 0.1)
        weights = np.sqrt(2) * np.append(mean, swing * sphere((d - 1,), rng))

        def constant(n: int, r: np.random.Generator) -> Array:
            u = sphere((n, A, d - 1), r)
            return np.asarray(np.concatenate([np.ones((n, A, 1)), u], axis=2) / np.sqrt(2))

        return LinearWorld(name, weights, constant, A, distribution="zero-one")
    distribution = "sign" if name == "sign" else "gaussian"
    return LinearWorld(name, theta, lambda n, r: sphere((n, A, d), r), A, distribution, noise)


def sphere(shape: tuple[int, ...], rng: np.random.Generator) -> Array:
    """Unit vectors along the last axis, uniform."""
    z = rng.standard_normal(shape)
    return np.asarray(z / np.linalg.norm(z, axis=-1, keepdims=True))
