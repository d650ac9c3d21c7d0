"""Synthetic worlds: the expected reward of an action is linear in its features, or nu of that."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from discreet.arrays import Array, integer, one_of, positive
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
    theta: Array  # (d,), in round 0
    contexts: Draw  # draws what people are offered, (n, actions, d)
    n_actions: int  # actions of each person
    distribution: str = "gaussian"  # "gaussian" (cut to [-1, 1]), "sign" or "zero-one"
    noise: float = 0.1  # standard deviation of a Gaussian reward
    link: str = "identity"  # nu, by name
    thetas: Callable[[NDArray[np.int64]], Array] | None = None  # rounds -> (n, d), if theta moves

    @property
    def dim(self) -> int:
        return len(self.theta)

    @property
    def reward_range(self) -> tuple[float, float]:
        return (0.0, 1.0) if self.distribution == "zero-one" else (-1.0, 1.0)

    def people(self, n: int, rng: np.random.Generator, start: int = 0) -> People:
        features = self.contexts(n, rng)
        if self.thetas is None:
            scores = features @ self.theta
        else:
            scores = np.einsum("nad,nd->na", features, self.thetas(np.arange(start, start + n)))
        means = np.asarray(link_of(self.link).mean(scores))
        return People(features, means, self.distribution, self.noise, self.reward_range)


NAMES = ("sphere", "short", "decay", "fixed", "rare", "basis", "sign", "half", "tenth")


def linear_world(
    name: str, dim: int = 5, *, actions: int = 10, noise: float = 0.1, seed: int
) -> LinearWorld:
    """A world by name (`registry.WORLDS`); the seed decides its parameter and fixed actions."""
    one_of("name", name, NAMES)
    d = integer("dim", dim, least=2)
    A = _actions(actions)
    rng = generator(seed, b"worl")
    theta = sphere((d,), rng)
    if name in ("half", "tenth"):
        mean, swing = (0.5, 0.4) if name == "half" else (0.1, 0.1)
        theta = np.sqrt(2) * np.append(mean, swing * sphere((d - 1,), rng))
        return LinearWorld(name, theta, partial(_constant, A, d), A, distribution="zero-one")
    contexts = _fixed(A, theta, rng) if name == "fixed" else partial(_drawn, name, A, d)
    distribution = "sign" if name == "sign" else "gaussian"
    return LinearWorld(name, theta, contexts, A, distribution, noise)


def sphere(shape: tuple[int, ...], rng: np.random.Generator) -> Array:
    """Unit vectors along the last axis, uniform."""
    z = rng.standard_normal(shape)
    return np.asarray(z / np.linalg.norm(z, axis=-1, keepdims=True))


def _drawn(name: str, A: int, d: int, n: int, rng: np.random.Generator) -> Array:
    """Features (n, A, d) of a world, rows in the unit ball."""
    if name == "basis":
        j = np.minimum(np.floor(-np.log2(1 - rng.random((n, A)))).astype(int), d - 1)
        return np.asarray(np.eye(d)[j])
    z = rng.standard_normal((n, A, d))
    if name == "rare":
        odd = rng.random(n) < 0.01
        z[odd, :, : d - 2] = 0
        z[~odd, :, d - 2 :] = 0
    if name == "decay":
        z *= np.arange(1, d + 1) ** -1.5
    lengths = np.linalg.norm(z, axis=2, keepdims=True)
    rows = z / (np.maximum(1, lengths) if name == "decay" else lengths)
    return np.asarray(0.1 * rows if name == "short" else rows)


def _constant(A: int, d: int, n: int, rng: np.random.Generator) -> Array:
    u = sphere((n, A, d - 1), rng)
    return np.asarray(np.concatenate([np.ones((n, A, 1)), u], axis=2) / np.sqrt(2))


def _fixed(A: int, theta: Array, rng: np.random.Generator) -> Draw:
    while True:
        phi = sphere((A, len(theta)), rng)
        second, first = np.sort(phi @ theta)[-2:]
        if first - second > 0.1:
            return lambda n, _: np.broadcast_to(phi, (n, *phi.shape)).copy()


def sparse_world(
    dim: int = 100, *, nonzero: int = 5, actions: int = 10, noise: float = 0.1, seed: int
) -> LinearWorld:
    """Many features of which only `nonzero` matter: theta has so many entries +-nonzero^-1/2.

    Features are uniform on the sphere of radius 1, so means are small: about dim^-1/2.

    >>> int(np.count_nonzero(sparse_world(50, nonzero=3, seed=0).theta))
    3
    """
    d = integer("dim", dim, least=2)
    s = integer("nonzero", nonzero)
    A = _actions(actions)
    if s > d:
        raise ValueError(f"nonzero must be at most dim, got {s} of {d}")
    rng = generator(seed, b"spar")
    theta = np.zeros(d)
    theta[rng.choice(d, size=s, replace=False)] = rng.choice([-1.0, 1.0], size=s) / math.sqrt(s)
    return LinearWorld("sparse", theta, partial(_drawn, "sphere", A, d), A, noise=noise)


def gap_world(
    dim: int = 5, *, gap: float = 0.2, actions: int = 10, noise: float = 0.1, seed: int
) -> LinearWorld:
    """For everybody the best action is worth 1/2, the next 1/2 - gap, the others -1/2 up to that.

    Which action is the best, and the features, are fresh every round.

    >>> people = gap_world(gap=0.3, seed=0).people(100, np.random.default_rng(0))
    >>> second, first = np.sort(people.means, axis=1)[:, -2:].T
    >>> bool(np.allclose(first - second, 0.3))
    True
    """
    d = integer("dim", dim, least=2)
    A = _actions(actions)
    if not 0 < gap <= 1:
        raise ValueError(f"gap must lie in (0, 1], got {gap!r}")
    theta = sphere((d,), generator(seed, b"gap "))

    def draw(n: int, rng: np.random.Generator) -> Array:
        means = rng.uniform(-0.5, 0.5 - gap, (n, A))
        means[:, 0], means[:, 1] = 0.5, 0.5 - gap
        means = rng.permuted(means, axis=1)[..., None]
        across = rng.standard_normal((n, A, d))
        across -= (across @ theta)[..., None] * theta
        across /= np.linalg.norm(across, axis=2, keepdims=True)
        return np.asarray(means * theta + np.sqrt(1 - means**2) * across)  # unit rows

    return LinearWorld("gap", theta, draw, A, noise=noise)


def glm_world(
    link: str = "logistic", dim: int = 5, *, scale: float = 3.0, actions: int = 10, seed: int
) -> LinearWorld:
    """Rewards 0 or 1 of mean nu(<phi, theta>), nu the link; features uniform on the sphere.

    `scale` is the length of theta: how far nu is from linear.

    >>> world = glm_world("logistic", dim=4, scale=3.0, seed=0)
    >>> people = world.people(1000, np.random.default_rng(0))
    >>> bool(people.means.min() > 0.04), bool(people.means.max() < 0.96)     # 1 / (1 + exp(+-3))
    (True, True)
    """
    one_of("link", link, ("logistic", "probit"))
    d = integer("dim", dim, least=2)
    A = _actions(actions)
    rng = generator(seed, b"glm ")
    theta = positive("scale", scale) * sphere((d,), rng)
    return LinearWorld(
        link, theta, partial(_drawn, "sphere", A, d), A, distribution="zero-one", link=link
    )


def drifting_world(
    name: str = "drift",
    dim: int = 5,
    *,
    period: int = 10_000,
    actions: int = 10,
    noise: float = 0.1,
    seed: int,
) -> LinearWorld:
    """A world whose parameter moves with the round; features on the sphere.

    drift    theta turns in a plane, once around in `period` rounds
    switch   every `period` rounds there is another theta, drawn afresh

    >>> world = drifting_world("switch", period=100, seed=0)
    >>> before, same, after = world.thetas(np.array([0, 99, 100]))
    >>> bool((before == same).all()), bool((before == after).any())
    (True, False)
    """
    one_of("name", name, ("drift", "switch"))
    d = integer("dim", dim, least=2)
    A = _actions(actions)
    moving = _turning if name == "drift" else _switching
    thetas = partial(moving, d, integer("period", period), integer("seed", seed, least=0))
    (first,) = thetas(np.zeros(1, dtype=np.int64))
    return LinearWorld(name, first, partial(_drawn, "sphere", A, d), A, noise=noise, thetas=thetas)


def _turning(d: int, period: int, seed: int, rounds: NDArray[np.int64]) -> Array:
    plane = _drifting(seed, 0).standard_normal((d, 2))
    one, other = np.linalg.qr(plane)[0].T
    angle = 2 * np.pi * (rounds / period)[:, None]
    return np.asarray(np.cos(angle) * one + np.sin(angle) * other)


def _switching(d: int, period: int, seed: int, rounds: NDArray[np.int64]) -> Array:
    number, place = np.unique(rounds // period, return_inverse=True)
    drawn = [sphere((d,), _drifting(seed, 1 + int(k))) for k in number]
    return np.array(drawn).reshape(-1, d)[place]


def _drifting(seed: int, number: int) -> np.random.Generator:
    return np.random.default_rng([seed, 0x64726966, number])


def _actions(actions: int) -> int:
    return integer("actions", actions, least=2)
