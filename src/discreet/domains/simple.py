"""Sets with closed forms: simplex, cube, ball."""

import functools
import math
from typing import Any

import numpy as np

from discreet.arrays import Array, integer
from discreet.domains.barriers import BallBarrier, CubeBarrier, LogBarrier
from discreet.domains.base import AxisVertices, Domain, LpShape, SolidDomain, power
from discreet.domains.hull import AffineHull, sum_zero_basis
from discreet.domains.lp import onto_simplex


class Simplex(Domain):
    """Probability vectors; R is negative entropy.

    n   dimensions

    >>> Simplex(3).leader(np.array([0.0, 0.0, 100.0]), 1.0).round(3)
    array([0.5, 0.5, 0. ])
    """

    loss_set = "box"

    def __init__(self, n: int) -> None:
        self.n = integer("n", n, least=2)
        self.dim = self.n
        self.interior_point = np.full(self.dim, 1 / self.dim)
        self.regularizer_range = math.log(self.dim)
        self.inner_radius = 1 / math.sqrt(self.dim * (self.dim - 1))  # to the side x_i = 0
        self.barrier = LogBarrier(
            -self.affine_hull.basis, self.interior_point, np.zeros(self.dim - 1)
        )
        self.axis_vertices = AxisVertices(1.0, signed=False)

    @functools.cached_property
    def affine_hull(self) -> AffineHull:
        """Around the uniform vector, in Helmert's basis."""
        return AffineHull(self.interior_point, sum_zero_basis(self.dim))

    def linear_minimizer(self, g: Array) -> Array:
        """The vertex of the smallest entry (the first of several)."""
        best = np.argmin(g, axis=-1)
        if g.ndim == 1:
            vertex = np.zeros(self.dim)
            vertex[best] = 1.0
            return vertex
        return np.asarray(best[..., None] == np.arange(self.dim), dtype=np.float64)

    def project(self, y: Array) -> Array:
        """Subtract what makes the sum one, and cut at zero."""
        return onto_simplex(y)

    def leader(self, total: Array, rate: Any) -> Array:
        """argmin <total, x> + sum x log x/rate: softmax(-rate total)."""
        if total.ndim == 1:
            weights = np.exp((np.minimum.reduce(total) - total) * rate)
            return np.asarray(weights / np.add.reduce(weights))
        low = functools.reduce(np.minimum, total.T)  # several times faster than min(axis=-1)
        weights = np.exp((low[:, None] - total) * rate)
        weights /= (weights @ np.ones(self.dim))[:, None]
        return np.asarray(weights)

    @property
    def perturbation_std(self) -> float:
        """Measured in benchmarks/online.py."""
        return 0.3

    def diameter(self, p: float = 2.0) -> float:
        """2^(1/p), between two vertices."""
        return float(2 ** (1 / power(p)))


class Cube(SolidDomain):
    """[-1, 1]^n.

    n   dimensions

    >>> Cube(2).linear_minimizer(np.array([3.0, -2.0]))
    array([-1.,  1.])
    """

    loss_set = "l1"

    def __init__(self, n: int) -> None:
        self.n = integer("n", n)
        self.dim = self.n
        self.interior_point = np.zeros(self.dim)
        self.regularizer_range = self.dim / 2
        self.inner_radius = 1.0
        self.barrier = CubeBarrier(self.dim)
        self.lp_shape = LpShape(math.inf, 1.0)

    def linear_minimizer(self, g: Array) -> Array:
        """-sign(g); 1 where g is zero."""
        return np.where(g > 0, -1.0, 1.0)

    def project(self, y: Array) -> Array:
        """Clip each entry."""
        return np.minimum(np.maximum(y, -1.0), 1.0)

    @property
    def perturbation_std(self) -> float:
        """Noise costs n s sqrt(2/pi), and h = sqrt(2/pi): 1/sqrt(2 n)."""
        return math.sqrt(1 / (2 * self.dim))

    def diameter(self, p: float = 2.0) -> float:
        """2 n^(1/p), between opposite corners."""
        return float(2 * self.dim ** (1 / power(p)))


class Ball(SolidDomain):
    """The unit ball of l2.

    n   dimensions

    >>> Ball(2).project(np.array([3.0, 4.0]))
    array([0.6, 0.8])
    """

    def __init__(self, n: int) -> None:
        self.n = integer("n", n)
        self.dim = self.n
        self.interior_point = np.zeros(self.dim)
        self.regularizer_range = 0.5
        self.inner_radius = 1.0
        self.barrier = BallBarrier()
        self.lp_shape = LpShape(2.0, 1.0)

    def linear_minimizer(self, g: Array) -> Array:
        """-g/|g|; the centre where g is zero."""
        norms = np.linalg.norm(g, axis=-1, keepdims=True)
        return np.asarray(-g / np.where(norms > 0, norms, 1.0))

    def project(self, y: Array) -> Array:
        """Shorten to length one."""
        norms = np.sqrt(np.einsum("...i,...i->...", y, y))
        return np.asarray(y / np.maximum(norms, 1.0)[..., None])

    @property
    def perturbation_std(self) -> float:
        """Noise costs sqrt(n) s, and h = n^-1/2: 1/sqrt(2 n)."""
        return math.sqrt(1 / (2 * self.dim))

    def diameter(self, p: float = 2.0) -> float:
        """2 max(1, n^(1/p - 1/2))."""
        return float(2 * max(1.0, self.dim ** (1 / power(p) - 0.5)))
