"""Polytopes by their sides."""

import numpy as np
import scipy
from numpy.typing import ArrayLike

from discreet.arrays import Array, finite
from discreet.domains.barriers import LogBarrier
from discreet.domains.base import SolidDomain, power, row_by_row


class Polytope(SolidDomain):
    """{x : A x <= b}, bounded and with an interior; linear programs by HiGHS.

    `interior_point` is the centre of the largest ball inside.

    A, b   the inequalities, (m, n) and (m,)

    >>> triangle = Polytope([[-1, 0], [0, -1], [1, 1]], [0, 0, 1])
    >>> triangle.linear_minimizer(np.array([-2.0, -1.0])).round(3) + 0.0
    array([1., 0.])
    >>> triangle.project(np.array([2.0, 2.0])).round(3)
    array([0.5, 0.5])
    """

    def __init__(self, A: ArrayLike, b: ArrayLike) -> None:
        self.A = finite("A", A).copy()
        self.b = finite("b", b).copy()
        if self.A.ndim != 2 or self.b.shape != self.A.shape[:1] or self.A.size == 0:
            shapes = f"{self.A.shape}, {self.b.shape}"
            raise ValueError(f"expected A (rows, n) and b (rows,), got {shapes}")
        self.dim = self.A.shape[1]
        lengths = np.linalg.norm(self.A, axis=1)
        if not lengths.min() > 0:
            raise ValueError("a row of A is zero; leave it out")
        # max r with <a_i, x> + r |a_i| <= b_i: Chebyshev's centre.
        centre = self._solve(np.eye(self.dim + 1)[-1] * -1, np.column_stack([self.A, lengths]))
        self.interior_point = centre[:-1]
        self.radius = float(centre[-1])
        if not self.radius > 1e-9:
            raise ValueError("A x <= b has no interior; describe the set inside its affine hull")
        self.inner_radius = self.radius
        axes = np.eye(self.dim)
        self.low = np.array([self.linear_minimizer(e) @ e for e in axes])
        self.high = np.array([self.linear_minimizer(-e) @ e for e in axes])
        # |x - interior_point|^2/2 is at most that of the far corner of the bounding box.
        far = np.maximum(self.high - self.interior_point, self.interior_point - self.low)
        self.regularizer_range = float(far @ far) / 2
        self.barrier = LogBarrier(self.A, self.b, self.interior_point)

    @row_by_row
    def linear_minimizer(self, g: Array) -> Array:
        size = float(np.abs(g).max())  # tolerances of HiGHS are absolute
        return self._solve(g / size if size > 0 else g, self.A)

    @row_by_row
    def project(self, y: Array) -> Array:
        """The nearest point; more passes mend the rounding of one that comes from far away."""
        for _ in range(3):
            y = self._nearer(y)
        return y

    def _nearer(self, y: Array) -> Array:
        """Least-distance programming by non-negative least squares (Lawson and Hanson, ch. 23).

        min |z| with G z >= h, z = x - y: solve min |E u - f| over u >= 0 with E = [G^T; h^T],
        f = (0, ..., 0, 1); then z_j = -r_j/r_{n+1}, r = E u - f.
        """
        excess = self.A @ y - self.b
        size = float(excess.max())
        if size <= 0:
            return y.copy()
        E = np.vstack([-self.A.T, excess / size])
        f = np.zeros(self.dim + 1)
        f[-1] = 1.0
        u, _ = scipy.optimize.nnls(E, f)
        r = E @ u - f
        return np.asarray(y - size * r[:-1] / r[-1])

    def diameter(self, p: float = 2.0) -> float:
        """Of the bounding box: exact for p = inf, at least the true one otherwise."""
        return float(np.linalg.norm(self.high - self.low, power(p)))

    def _solve(self, cost: Array, rows: Array) -> Array:
        answer = scipy.optimize.linprog(
            cost, A_ub=rows, b_ub=self.b, bounds=(None, None), method="highs"
        )
        if not answer.success:
            raise ValueError("A x <= b must be bounded and not empty; add the missing rows")
        return np.asarray(answer.x)
