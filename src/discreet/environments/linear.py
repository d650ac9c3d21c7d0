"""Worlds in which the expected reward of an action is linear in its features."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from discreet.privacy.checks import Array, one_of, whole

Draw = Callable[[int, np.random.Generator], Array]  # n -> (n, actions, dim)


@dataclass(frozen=True)
class LinearWorld:
    """Features, and rewards of mean <phi, theta> in [-1, 1]: Gaussian noise, +-1 or 0/1.

    >>> world = linear_world("sphere", dim=5, seed=0)
    >>> rng = np.random.default_rng(1)
    >>> features = world.contexts(3, rng)
    >>> features.shape, world.best(features).shape
    ((3, 10, 5), (3,))
    """

    name: str
    theta: Array  # (d,)
    contexts: Draw
    law: str = "gaussian"  # "gaussian", "sign" or "zero-one"
    noise: float = 0.1  # deviation of a Gaussian reward

    @property
    def dim(self) -> int:
        """Of the features."""
        return len(self.theta)

    def means(self, features: Array) -> Array:  # (..., dim) -> (...)
        """Expected rewards."""
        return np.asarray(features @ self.theta)

    def best(self, features: Array) -> Array:  # (n, actions, dim) -> (n,)
        """The expected reward of the best action."""
        return np.asarray(self.means(features).max(axis=1))

    def rewards(self, rows: Array, rng: np.random.Generator) -> Array:  # (n, dim) -> (n,)
        """Rewards of chosen rows; Gaussian ones are cut to [-1, 1]."""
        means = self.means(rows)
        if self.law == "gaussian":
            return np.clip(means + self.noise * rng.standard_normal(len(means)), -1.0, 1.0)
        if self.law == "sign":
            return np.where(rng.random(len(means)) < (1 + means) / 2, 1.0, -1.0)
        return (rng.random(len(means)) < means).astype(np.float64)


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
    d, A = whole("dim", dim, least=2), whole("actions", actions, least=2)
    rng = np.random.default_rng([seed, 0x776F726C])
    theta = _sphere((d,), rng)
    if name == "short":
        return LinearWorld(name, theta, lambda n, r: 0.1 * _sphere((n, A, d), r), noise=noise)
    if name == "decay":
        scales = np.arange(1, d + 1) ** -1.5

        def decaying(n: int, r: np.random.Generator) -> Array:
            z = r.standard_normal((n, A, d)) * scales
            return np.asarray(z / np.maximum(1, np.linalg.norm(z, axis=2))[..., None])

        return LinearWorld(name, theta, decaying, noise=noise)
    if name == "fixed":
        while True:
            phi = _sphere((A, d), rng)
            second, first = np.sort(phi @ theta)[-2:]
            if first - second > 0.1:
                break
        return LinearWorld(
            name, theta, lambda n, r: np.broadcast_to(phi, (n, A, d)).copy(), noise=noise
        )
    if name == "rare":

        def rare(n: int, r: np.random.Generator) -> Array:
            z = r.standard_normal((n, A, d))
            odd = r.random(n) < 0.01
            z[odd, :, : d - 2] = 0
            z[~odd, :, d - 2 :] = 0
            return np.asarray(z / np.linalg.norm(z, axis=2)[..., None])

        return LinearWorld(name, theta, rare, noise=noise)
    if name == "basis":

        def basis(n: int, r: np.random.Generator) -> Array:
            j = np.minimum(np.floor(-np.log2(1 - r.random((n, A)))).astype(int), d - 1)
            return np.asarray(np.eye(d)[j])

        return LinearWorld(name, theta, basis, noise=noise)
    if name in ("half", "tenth"):
        mean, swing = (0.5, 0.4) if name == "half" else (0.1, 0.1)
        weights = np.sqrt(2) * np.append(mean, swing * _sphere((d - 1,), rng))

        def constant(n: int, r: np.random.Generator) -> Array:
            u = _sphere((n, A, d - 1), r)
            return np.asarray(np.concatenate([np.ones((n, A, 1)), u], axis=2) / np.sqrt(2))

        return LinearWorld(name, weights, constant, law="zero-one")
    law = "sign" if name == "sign" else "gaussian"
    return LinearWorld(name, theta, lambda n, r: _sphere((n, A, d), r), law=law, noise=noise)


def _sphere(shape: tuple[int, ...], rng: np.random.Generator) -> Array:
    z = rng.standard_normal(shape)
    return np.asarray(z / np.linalg.norm(z, axis=-1, keepdims=True))
