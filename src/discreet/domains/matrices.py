"""Sets of matrices; a vector is a matrix read row by row."""

import functools
import math

import numpy as np
import scipy
from numpy.typing import ArrayLike

from discreet.arrays import Array, integer, positive
from discreet.domains.base import SLACK, Domain, SolidDomain, power, row_by_row
from discreet.domains.hull import AffineHull, sum_zero_basis
from discreet.domains.simple import onto_simplex

_SMALL = 24  # sides up to this: a whole decomposition is faster than Lanczos


class TraceNormBall(SolidDomain):
    """Matrices whose singular values sum to at most radius: the convex hull of rank one.

    rows, columns   of a matrix
    radius          the largest sum of singular values

    >>> ball = TraceNormBall(2, 3)
    >>> (ball.linear_minimizer(np.array([0.0, 0, 0, 0, 5, 0])) + 0.0).reshape(2, 3)
    array([[ 0.,  0.,  0.],
           [ 0., -1.,  0.]])
    """

    def __init__(self, rows: int, columns: int, radius: float = 1.0) -> None:
        self.rows = integer("rows", rows)
        self.columns = integer("columns", columns)
        self.radius = positive("radius", radius)
        self.dim = self.rows * self.columns
        self.interior_point = np.zeros(self.dim)
        side = min(self.rows, self.columns)
        self.inner_radius = self.radius / math.sqrt(side)  # |X|_trace <= sqrt(side) |X|_F
        self.regularizer_range = self.radius**2 / 2
        self._start = np.random.default_rng(0).standard_normal(side)  # fixed: no coins here

    @row_by_row
    def linear_minimizer(self, g: Array) -> Array:
        """-radius u v' of the largest singular value, by Lanczos; the centre where g is zero."""
        size = float(np.abs(g).max())
        if size == 0:
            return np.zeros(self.dim)
        G = (g / size).reshape(self.rows, self.columns)
        if min(G.shape) <= _SMALL:
            u, _, vt = np.linalg.svd(G, full_matrices=False)
        else:
            u, _, vt = scipy.sparse.linalg.svds(G, k=1, v0=self._start)
        return np.asarray(-self.radius * np.outer(u[:, 0], vt[0])).ravel()

    @row_by_row
    def project(self, y: Array) -> Array:
        """Singular values to the l1 ball."""
        Y = y.reshape(self.rows, self.columns) / self.radius
        u, values, vt = np.linalg.svd(Y, full_matrices=False)
        if values.sum() <= 1:
            return y.copy()
        return np.asarray(self.radius * (u * onto_simplex(values)) @ vt).ravel()

    def diameter(self, p: float = 2.0) -> float:
        """2 radius max(1, dim^(1/p - 1/2)), exact; norms of the entries."""
        return 2 * self.radius * float(max(1.0, self.dim ** (1 / power(p) - 0.5)))


class BirkhoffPolytope(Domain):
    """Doubly stochastic n x n matrices: mixtures of permutations.

    n   rows and columns of a matrix

    >>> shifts = BirkhoffPolytope(2)
    >>> shifts.linear_minimizer(np.array([3.0, 1.0, 2.0, 4.0])).reshape(2, 2)
    array([[0., 1.],
           [1., 0.]])
    >>> shifts.affine_hull.basis.shape
    (4, 1)
    """

    def __init__(self, n: int) -> None:
        self.n = integer("n", n, least=2)
        self.side = self.n
        self.dim = self.side**2
        self.interior_point = np.full(self.dim, 1 / self.side)
        # the side x_ij = 0 is 1/n away, and a unit direction of the hull moves x_ij by <= 1 - 1/n
        self.inner_radius = 1 / (self.side - 1)

    @row_by_row
    def linear_minimizer(self, g: Array) -> Array:
        best = np.zeros((self.side, self.side))
        best[scipy.optimize.linear_sum_assignment(g.reshape(best.shape))] = 1.0
        return best.ravel()

    @functools.cached_property
    def affine_hull(self) -> AffineHull:
        """Rows and columns of sum one: (n - 1)^2 dimensions."""
        basis = sum_zero_basis(self.side)
        return AffineHull(self.interior_point, np.asarray(np.kron(basis, basis), np.float64))

    def diameter(self, p: float = 2.0) -> float:
        """(2n)^(1/p), exact: between permutations that agree nowhere."""
        return float((2 * self.side) ** (1 / power(p)))

    def contains(self, x: ArrayLike) -> bool:
        y = np.asarray(x, dtype=np.float64)
        if y.shape != (self.dim,) or not np.isfinite(y).all():
            return False
        matrix = y.reshape(self.side, self.side)
        sums = np.concatenate([matrix.sum(axis=0), matrix.sum(axis=1)])
        return bool(max(np.abs(sums - 1).max(), -y.min()) <= SLACK)
