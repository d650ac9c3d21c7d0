"""Decision sets: what a learner may choose from, and how to optimise over it.

    linear_minimizer(g)    argmin <g, x>
    leader(total, rate)    argmin <total, x> + R(x)/rate, R = negative entropy on the simplex,
                           |x - interior_point|^2/2 elsewhere
    project(y)             argmin |x - y|_2
    barrier                self-concordant, in the coordinates of `affine_hull`

`linear_minimizer` and `leader` take one row or many; on a polytope many rows are a loop. The
simplex has no interior: its barrier lives in the n - 1 coordinates z of its affine hull,
x = origin + basis z with an orthonormal basis; elsewhere z = x.
"""

import functools
import json
import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import linprog, nnls

from discreet.privacy.checks import Array, finite, whole

_SLACK = 1e-9  # rounding that `contains` forgives


@dataclass(frozen=True)
class AffineHull:
    """x = origin + basis z: the smallest flat that holds a domain."""

    origin: Array  # (n,)
    basis: Array  # (n, m), orthonormal columns

    def point(self, z: Array) -> Array:  # (..., m) -> (..., n)
        """From coordinates to a point."""
        return np.asarray(self.origin + z @ self.basis.T)

    def coordinates(self, x: Array) -> Array:  # (..., n) -> (..., m)
        """From a point of the flat to its coordinates."""
        return np.asarray((x - self.origin) @ self.basis)


class Barrier(Protocol):
    """A nu-self-concordant barrier; z are coordinates strictly inside."""

    nu: float

    def value(self, z: Array) -> float:
        """The barrier; infinite outside."""

    def gradient(self, z: Array) -> Array:
        """(m,) -> (m,)."""

    def hessian(self, z: Array) -> Array:
        """(m,) -> (m, m)."""


class _LogBarrier:  # -sum log(b - A z), nu = rows of A
    def __init__(self, A: Array, b: Array) -> None:
        self.A, self.b, self.nu = A, b, float(len(b))

    def value(self, z: Array) -> float:
        slack = self.b - self.A @ z
        return float(-np.log(slack).sum()) if slack.min() > 0 else math.inf

    def gradient(self, z: Array) -> Array:
        return np.asarray((1 / (self.b - self.A @ z)) @ self.A)

    def hessian(self, z: Array) -> Array:
        rows = self.A / (self.b - self.A @ z)[:, None]
        return np.asarray(rows.T @ rows)


class _CubeBarrier:  # -sum log(1 - z_i^2); each term has nu = sup 2 z^2/(1 + z^2) = 1
    def __init__(self, dim: int) -> None:
        self.nu = float(dim)

    def value(self, z: Array) -> float:
        room = 1 - z * z
        return float(-np.log(room).sum()) if room.min() > 0 else math.inf

    def gradient(self, z: Array) -> Array:
        return np.asarray(2 * z / (1 - z * z))

    def hessian(self, z: Array) -> Array:
        return np.diag(2 * (1 + z * z) / (1 - z * z) ** 2)


class _BallBarrier:  # -log(1 - |z|^2); nu = sup 2 |z|^2/(1 + |z|^2) = 1
    nu = 1.0

    def value(self, z: Array) -> float:
        room = 1 - float(z @ z)
        return -math.log(room) if room > 0 else math.inf

    def gradient(self, z: Array) -> Array:
        return np.asarray(2 * z / (1 - z @ z))

    def hessian(self, z: Array) -> Array:
        room = 1 - z @ z
        return np.asarray(2 * np.eye(len(z)) / room + 4 * np.outer(z, z) / room**2)


class Domain(ABC):
    """A compact convex set in R^dim.

    `loss_set` says which losses have unit size: "box" for [0, 1]^n, "l1" or "l2" for that ball.
    On the simplex that is the field's convention; on cube and ball it is the dual ball,
    |<loss, x>| <= 1; on a polytope losses are measured in l2.
    """

    dim: int
    loss_set = "l2"
    interior_point: Array
    barrier: Barrier  # in the coordinates of `affine_hull`
    reach: float  # max R - min R (on a polytope at least that): what a regret bound needs

    @property
    def affine_hull(self) -> AffineHull:
        """The flat the domain lies in, with the coordinates of `barrier`."""
        return AffineHull(np.zeros(self.dim), np.eye(self.dim))

    @abstractmethod
    def linear_minimizer(self, g: Array) -> Array:  # (..., n) -> (..., n)
        """A point of least <g, x>."""

    @abstractmethod
    def project(self, y: Array) -> Array:  # (..., n) -> (..., n)
        """The nearest point in l2."""

    @abstractmethod
    def diameter(self, p: float = 2.0) -> float:
        """max |x - y|_p (on a polytope at least that)."""

    def contains(self, x: ArrayLike) -> bool:
        """Whether x is in the domain, up to rounding: it is its own projection."""
        y = np.asarray(x, dtype=np.float64)
        fits = y.shape == (self.dim,) and bool(np.isfinite(y).all())
        return fits and bool(np.abs(self.project(y) - y).max() <= _SLACK)

    def leader(self, total: Array, rate: Any) -> Array:  # (..., n), scalar or (..., 1)
        """argmin <total, x> + |x - interior_point|^2/(2 rate): a projection."""
        return self.project(self.interior_point - rate * total)

    def spec(self) -> str:
        """The constructor's arguments as text, for `from_spec`."""
        return json.dumps({"kind": type(self).__name__, "n": self.dim})


class Simplex(Domain):
    """Probability vectors; R is negative entropy.

    >>> Simplex(3).leader(np.array([0.0, 0.0, 100.0]), 1.0).round(3)
    array([0.5, 0.5, 0. ])
    """

    loss_set = "box"

    def __init__(self, n: int) -> None:
        self.dim = whole("n", n, least=2)
        self.interior_point, self.reach = np.full(self.dim, 1 / self.dim), math.log(self.dim)
        self.barrier = _LogBarrier(-self.affine_hull.basis, self.interior_point)

    @functools.cached_property
    def affine_hull(self) -> AffineHull:
        """Around the uniform vector; Helmert's basis of the vectors of sum zero."""
        n, k = self.dim, np.arange(1, self.dim)
        basis = np.where(np.arange(n)[:, None] < k, 1.0, 0.0)
        basis[k, k - 1] = -k
        return AffineHull(self.interior_point, basis / np.sqrt(k * (k + 1)))

    def linear_minimizer(self, g: Array) -> Array:
        """The vertex of the smallest entry (the first of several)."""
        best = np.argmin(g, axis=-1)
        if g.ndim == 1:
            vertex = np.zeros(self.dim)
            vertex[best] = 1.0
            return vertex
        return np.asarray(best[..., None] == np.arange(self.dim), dtype=np.float64)

    def project(self, y: Array) -> Array:
        """max(y - tau, 0) with tau such that the entries sum to one (Held, Wolfe, Crowder 1974)."""
        y = y - y.max(axis=-1, keepdims=True)  # moves tau alone, and keeps the digits
        falling = -np.sort(-y, axis=-1)
        taus = (np.cumsum(falling, axis=-1) - 1) / np.arange(1, self.dim + 1)
        last = (falling > taus).sum(axis=-1, keepdims=True) - 1
        return np.maximum(y - np.take_along_axis(taus, last, axis=-1), 0.0)

    def leader(self, total: Array, rate: Any) -> Array:
        """argmin <total, x> + sum x log x/rate: softmax(-rate total)."""
        if total.ndim == 1:
            weights = np.exp((np.minimum.reduce(total) - total) * rate)
            return np.asarray(weights / np.add.reduce(weights))
        low = functools.reduce(np.minimum, total.T)  # several times faster than min(axis=-1)
        weights = np.exp((low[:, None] - total) * rate)
        weights /= (weights @ np.ones(self.dim))[:, None]
        return np.asarray(weights)

    def diameter(self, p: float = 2.0) -> float:
        """2^(1/p), between two vertices."""
        return float(2 ** (1 / _power(p)))


class Cube(Domain):
    """[-1, 1]^n.

    >>> Cube(2).linear_minimizer(np.array([3.0, -2.0]))
    array([-1.,  1.])
    """

    loss_set = "l1"

    def __init__(self, n: int) -> None:
        self.dim = whole("n", n)
        self.interior_point, self.reach = np.zeros(self.dim), self.dim / 2
        self.barrier = _CubeBarrier(self.dim)

    def linear_minimizer(self, g: Array) -> Array:
        """-sign(g); 1 where g is zero."""
        return np.where(g > 0, -1.0, 1.0)

    def project(self, y: Array) -> Array:
        """Clip each entry."""
        return np.minimum(np.maximum(y, -1.0), 1.0)

    def diameter(self, p: float = 2.0) -> float:
        """2 n^(1/p), between opposite corners."""
        return float(2 * self.dim ** (1 / _power(p)))


class Ball(Domain):
    """The unit ball of l2.

    >>> Ball(2).project(np.array([3.0, 4.0]))
    array([0.6, 0.8])
    """

    def __init__(self, n: int) -> None:
        self.dim = whole("n", n)
        self.interior_point, self.reach = np.zeros(self.dim), 0.5
        self.barrier = _BallBarrier()

    def linear_minimizer(self, g: Array) -> Array:
        """-g/|g|; the centre where g is zero."""
        norms = np.linalg.norm(g, axis=-1, keepdims=True)
        return np.asarray(-g / np.where(norms > 0, norms, 1.0))

    def project(self, y: Array) -> Array:
        """Shorten to length one."""
        norms = np.sqrt(np.einsum("...i,...i->...", y, y))
        return np.asarray(y / np.maximum(norms, 1.0)[..., None])

    def diameter(self, p: float = 2.0) -> float:
        """2 max(1, n^(1/p - 1/2))."""
        return float(2 * max(1.0, self.dim ** (1 / _power(p) - 0.5)))


class Polytope(Domain):
    """{x : A x <= b}, bounded and with an interior; linear programs by HiGHS.

    `interior_point` is the centre of the largest ball inside.

    >>> triangle = Polytope([[-1, 0], [0, -1], [1, 1]], [0, 0, 1])
    >>> triangle.linear_minimizer(np.array([-2.0, -1.0])).round(3) + 0.0
    array([1., 0.])
    >>> triangle.project(np.array([2.0, 2.0])).round(3)
    array([0.5, 0.5])
    """

    def __init__(self, A: ArrayLike, b: ArrayLike) -> None:
        self.A, self.b = finite("A", A).copy(), finite("b", b).copy()
        if self.A.ndim != 2 or self.b.shape != self.A.shape[:1] or self.A.size == 0:
            shapes = f"{self.A.shape}, {self.b.shape}"
            raise ValueError(f"expected A (rows, n) and b (rows,), got {shapes}")
        self.dim = self.A.shape[1]
        lengths = np.linalg.norm(self.A, axis=1)
        if not lengths.min() > 0:
            raise ValueError("a row of A is zero; leave it out")
        # max r with <a_i, x> + r |a_i| <= b_i: Chebyshev's centre.
        centre = self._solve(np.eye(self.dim + 1)[-1] * -1, np.column_stack([self.A, lengths]))
        self.interior_point, self.radius = centre[:-1], float(centre[-1])
        if not self.radius > 1e-9:
            raise ValueError("A x <= b has no interior; describe the set inside its affine hull")
        axes = np.eye(self.dim)
        self.low = np.array([self.linear_minimizer(e) @ e for e in axes])
        self.high = np.array([self.linear_minimizer(-e) @ e for e in axes])
        # |x - interior_point|^2/2 is at most that of the far corner of the bounding box.
        far = np.maximum(self.high - self.interior_point, self.interior_point - self.low)
        self.reach = float(far @ far) / 2
        self.barrier = _LogBarrier(self.A, self.b)

    def linear_minimizer(self, g: Array) -> Array:
        """A vertex of least <g, x>."""
        if g.ndim > 1:
            return np.array([self.linear_minimizer(row) for row in g]).reshape(g.shape)
        return self._solve(g, self.A)

    def project(self, y: Array) -> Array:
        """Least-distance programming by non-negative least squares (Lawson and Hanson, ch. 23).

        min |z| with G z >= h, z = x - y: solve min |E u - f| over u >= 0 with E = [G^T; h^T],
        f = (0, ..., 0, 1); then z_j = -r_j/r_{n+1}, r = E u - f.
        """
        if y.ndim > 1:
            return np.array([self.project(row) for row in y]).reshape(y.shape)
        excess = self.A @ y - self.b
        size = float(excess.max())
        if size <= 0:
            return y.copy()
        E = np.vstack([-self.A.T, excess / size])
        f = np.zeros(self.dim + 1)
        f[-1] = 1.0
        u, _ = nnls(E, f)
        r = E @ u - f
        return np.asarray(y - size * r[:-1] / r[-1])

    def diameter(self, p: float = 2.0) -> float:
        """Of the bounding box: exact for p = inf, at least the true one otherwise."""
        return float(np.linalg.norm(self.high - self.low, _power(p)))

    def spec(self) -> str:
        """A and b as text."""
        return json.dumps({"kind": "Polytope", "A": self.A.tolist(), "b": self.b.tolist()})

    def _solve(self, cost: Array, rows: Array) -> Array:
        answer = linprog(cost, A_ub=rows, b_ub=self.b, bounds=(None, None), method="highs")
        if not answer.success:
            raise ValueError("A x <= b must be bounded and not empty; add the missing rows")
        return np.asarray(answer.x)


def from_spec(spec: str) -> Domain:
    """The domain that `Domain.spec` described.

    >>> from_spec(Cube(4).spec()).dim
    4
    """
    arguments = json.loads(spec)
    kinds: dict[str, type[Domain]] = {c.__name__: c for c in (Simplex, Cube, Ball, Polytope)}
    return kinds[arguments.pop("kind")](**arguments)


def _power(p: float) -> float:
    if not p >= 1:
        raise ValueError(f"p must be at least 1, got {p!r}")
    return float(p)
