"""Worlds for the claims of the papers: sparse and generalised linear rewards, a gap, drift."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from discreet.arrays import Array, integer, one_of, positive
from discreet.environments.linear import LinearWorld, sphere
from discreet.environments.people import Draw, People, generator


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
    return LinearWorld("sparse", theta, lambda n, r: sphere((n, A, d), r), A, noise=noise)


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
        link, theta, lambda n, r: sphere((n, A, d), r), A, distribution="zero-one", link=link
    )


@dataclass(frozen=True)
class DriftingWorld:
    """Linear rewards whose parameter moves with the round: `people` needs `start`.

    drift    theta turns in a plane, once around in `period` rounds
    switch   every `period` rounds there is another theta, drawn afresh

    >>> world = drifting_world("switch", period=100, seed=0)
    >>> before, same, after = world.thetas(np.array([0, 99, 100]))
    >>> bool((before == same).all()), bool((before == after).any())
    (True, False)
    """

    name: str  # "drift" or "switch"
    dim: int  # of a feature row
    contexts: Draw  # draws what people are offered
    n_actions: int  # actions of each person
    period: int  # rounds, as above
    noise: float  # std of a reward
    seed: int  # of the parameters
    reward_range: tuple[float, float] = (-1.0, 1.0)  # bounds of a reward

    def thetas(self, rounds: NDArray[np.int64]) -> Array:  # (n,) -> (n, dim)
        """The parameter of each round."""
        if self.name == "switch":
            number, place = np.unique(rounds // self.period, return_inverse=True)
            drawn = [sphere((self.dim,), self._generator(1 + int(k))) for k in number]
            return np.array(drawn).reshape(-1, self.dim)[place]
        plane = self._generator(0).standard_normal((self.dim, 2))
        one, other = np.linalg.qr(plane)[0].T
        angle = 2 * np.pi * (rounds / self.period)[:, None]
        return np.asarray(np.cos(angle) * one + np.sin(angle) * other)

    def people(self, n: int, rng: np.random.Generator, start: int = 0) -> People:
        """The people of rounds start, ..., start + n - 1."""
        features = self.contexts(n, rng)
        thetas = self.thetas(np.arange(start, start + n))
        means = np.einsum("nad,nd->na", features, thetas)
        return People(features, means, "gaussian", self.noise, self.reward_range)

    def _generator(self, number: int) -> np.random.Generator:
        return np.random.default_rng([self.seed, 0x64726966, number])


def drifting_world(
    name: str = "drift",
    dim: int = 5,
    *,
    period: int = 10_000,
    actions: int = 10,
    noise: float = 0.1,
    seed: int,
) -> DriftingWorld:
    """A world that changes, smoothly ("drift") or at once ("switch"); features on the sphere."""
    one_of("name", name, ("drift", "switch"))
    d = integer("dim", dim, least=2)
    A = _actions(actions)
    T = integer("period", period)
    integer("seed", seed, least=0)
    return DriftingWorld(name, d, lambda n, r: sphere((n, A, d), r), A, T, noise, seed)


def _actions(actions: int) -> int:
    return integer("actions", actions, least=2)
