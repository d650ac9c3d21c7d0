"""Sets with closed forms: the simplex, and the balls of the lp norms."""

import functools
import math
from typing import Any

import numpy as np
import scipy

from discreet.arrays import Array, integer, positive
from discreet.domains.barriers import BallBarrier, CubeBarrier, LogBarrier
from discreet.domains.base import AxisVertices, Domain, LpShape, SolidDomain, power, row_by_row
from discreet.domains.hull import AffineHull, sum_zero_basis


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


class LpBall(SolidDomain):
    """{x : |x|_p <= radius}, 1 <= p <= inf; losses are measured in l2.

    p        of the norm
    n        dimensions
    radius   of the ball

    >>> ball = LpBall(1, 3, radius=2.0)
    >>> ball.linear_minimizer(np.array([1.0, -4.0, 2.0]))
    array([0., 2., 0.])
    >>> LpBall(math.inf, 2).project(np.array([3.0, -0.5]))
    array([ 1. , -0.5])
    """

    def __init__(self, p: float, n: int, radius: float = 1.0) -> None:
        self.p = power(p)
        self.n = integer("n", n)
        self.dim = self.n
        self.radius = positive("radius", radius)
        self.lp_shape = LpShape(self.p, self.radius)
        self.axis_vertices = AxisVertices(self.radius, signed=True) if self.p == 1 else None
        self.interior_point = np.zeros(self.dim)
        # |x|_p <= n^(1/p - 1/2) |x|_2 for p < 2, and |x|_p <= |x|_2 for p >= 2
        self.inner_radius = self.radius * min(1.0, self.dim ** (0.5 - 1 / self.p))
        # max |x|_2^2/2
        self.regularizer_range = self.radius**2 * max(1.0, self.dim ** (1 - 2 / self.p)) / 2

    def linear_minimizer(self, g: Array) -> Array:
        """-radius sign(g) |g|^(q-1)/|g|_q^(q-1), 1/p + 1/q = 1: where Hoelder's bound is met.

        p = 1 takes the first entry of greatest size, p = inf gives 1 where g is zero; in between
        a zero g leads to the centre.
        """
        signs = np.where(g > 0, -self.radius, self.radius)
        if math.isinf(self.p):
            return signs
        size = np.abs(g)
        if self.p == 1:
            best = np.argmax(size, axis=-1)[..., None]
            return np.where(best == np.arange(self.dim), signs, 0.0)
        top = size.max(axis=-1, keepdims=True)
        weights = (size / np.where(top > 0, top, 1.0)) ** (1 / (self.p - 1))
        return np.asarray(signs * weights / np.maximum(_norm(weights, self.p)[..., None], 1e-300))

    @row_by_row
    def project(self, y: Array) -> Array:
        """Soft threshold (p = 1), scale (p = 2), clip (p = inf); else two nested root searches."""
        if math.isinf(self.p):
            return np.clip(y, -self.radius, self.radius)
        size = np.abs(y) / self.radius
        length = float(_norm(size, self.p))
        if length <= 1:
            return y.copy()
        if self.p == 1:
            near = onto_simplex(size)
        else:
            near = size / length if self.p == 2 else _shrink(size, self.p)
        return np.asarray(np.copysign(near * self.radius, y))

    def diameter(self, p: float = 2.0) -> float:
        """2 radius max(1, n^(1/p - 1/self.p)), exact."""
        return 2 * self.radius * float(max(1.0, self.dim ** (1 / power(p) - 1 / self.p)))


class Cube(LpBall):
    """[-1, 1]^n, the unit ball of linf; losses are measured in l1, so that |<loss, x>| <= 1.

    n   dimensions

    >>> Cube(2).linear_minimizer(np.array([3.0, -2.0]))
    array([-1.,  1.])
    """

    loss_set = "l1"

    def __init__(self, n: int) -> None:
        super().__init__(math.inf, n)
        self.barrier = CubeBarrier(self.dim)

    def project(self, y: Array) -> Array:
        return np.minimum(np.maximum(y, -1.0), 1.0)

    @property
    def perturbation_std(self) -> float:
        """Noise costs n s sqrt(2/pi), and h = sqrt(2/pi): 1/sqrt(2 n)."""
        return math.sqrt(1 / (2 * self.dim))


class Ball(LpBall):
    """The unit ball of l2.

    n   dimensions

    >>> Ball(2).project(np.array([3.0, 4.0]))
    array([0.6, 0.8])
    """

    def __init__(self, n: int) -> None:
        super().__init__(2.0, n)
        self.barrier = BallBarrier()

    def linear_minimizer(self, g: Array) -> Array:
        """-g/|g|; the centre where g is zero."""
        norms = np.linalg.norm(g, axis=-1, keepdims=True)
        return np.asarray(-g / np.where(norms > 0, norms, 1.0))

    def project(self, y: Array) -> Array:
        norms = np.sqrt(np.einsum("...i,...i->...", y, y))
        return np.asarray(y / np.maximum(norms, 1.0)[..., None])

    @property
    def perturbation_std(self) -> float:
        """Noise costs sqrt(n) s, and h = n^-1/2: 1/sqrt(2 n)."""
        return math.sqrt(1 / (2 * self.dim))


def _norm(size: Array, p: float) -> Array:  # (..., n), not negative -> (...)
    top = np.maximum(size.max(axis=-1, keepdims=True), 1e-300)
    return np.asarray(top[..., 0] * ((size / top) ** p).sum(axis=-1) ** (1 / p))


def onto_simplex(y: Array) -> Array:  # (..., n) -> (..., n)
    """The nearest probability vector: max(y - tau, 0) of sum one (Held, Wolfe, Crowder 1974)."""
    y = y - y.max(axis=-1, keepdims=True)  # moves tau alone, and keeps the digits
    falling = -np.sort(-y, axis=-1)
    taus = (np.cumsum(falling, axis=-1) - 1) / np.arange(1, y.shape[-1] + 1)
    last = (falling > taus).sum(axis=-1, keepdims=True) - 1
    return np.maximum(y - np.take_along_axis(taus, last, axis=-1), 0.0)


def _shrink(size: Array, p: float) -> Array:
    """x + lam x^(p-1) = size entrywise, with lam >= 0 such that |x|_p = 1.

    At lam = |size|_q the norm is at most one, as x <= (size/lam)^(1/(p-1)).
    """
    steep = max(p - 1, 1 / (p - 1))
    most = float(_norm(size, p / (p - 1)))

    def entries(lam: float) -> Array:
        if lam == 0:  # else 0 times a power that may overflow
            return size
        # In z = x (p > 2) or z = x^(p-1) (p < 2): a z^steep + b z = size, convex in z. Newton
        # from the right falls to the root; the start is at most twice as far.
        a, b = (lam, 1.0) if p > 2 else (1.0, lam)
        tiny = 1e-300
        z = np.minimum(size / max(b, tiny), (size / max(a, tiny)) ** (1 / steep))
        for _ in range(60):
            rise = a * z ** (steep - 1)
            step = (rise * z + b * z - size) / np.maximum(steep * rise + b, tiny)
            z = np.maximum(z - step, 0.0)
            if (np.abs(step) <= 1e-10 * z).all():  # quadratic: the next one would be < 1e-16
                break
        return z if p > 2 else np.asarray(z**steep)

    def excess(lam: float) -> float:
        return float(_norm(entries(lam), p)) - 1

    most *= 1 + 1e-12
    # More than 1 at the end, for large p: by rounding only, and taken off below.
    lam = most if excess(most) > 0 else scipy.optimize.brentq(excess, 0.0, most)
    near = entries(lam)
    return np.asarray(near / max(1.0, float(_norm(near, p))))
