"""Polytopes that the greedy algorithm optimises over (Edmonds 1970)."""

import functools
import math
from collections.abc import Callable, Hashable, Iterable

import numpy as np
from numpy.typing import ArrayLike

from discreet.arrays import Array, integer
from discreet.domains.base import Domain, power, row_by_row
from discreet.domains.hull import AffineHull, InnerBall, submodular_inner_ball
from discreet.domains.matroids import Graphic, Matroid, Oracle, Partition, Uniform, covering


class MatroidPolytope(Domain):
    """Mixtures of the independent sets of a matroid, as 0-1 vectors; with bases=True of its bases.

        MatroidPolytope.uniform(n, k)               at most k of n elements
        MatroidPolytope.partition(groups, limits)   at most limits[j] elements of group j
        MatroidPolytope.graphic(edges)              forests of a graph
        MatroidPolytope(n, independent)             any matroid: independent(elements) -> bool

    With bases=True: exactly k, exactly limits[j], spanning trees, maximal independent sets. The
    independent sets have an interior unless an element is a loop; the bases never do.

    `affine_hull`, `interior_point` and `inner_radius` of the bases are found by some 10 n greedy
    choices on first use where the matroid is graphic or an oracle; otherwise they are closed forms.

    n             elements
    independent   whether a tuple of elements is independent, or a `Matroid`
    bases         mixtures of bases only

    >>> trees = MatroidPolytope.graphic([(0, 1), (1, 2), (2, 0)], bases=True)
    >>> trees.linear_minimizer(np.array([5.0, 1.0, 2.0]))
    array([0., 1., 1.])
    >>> trees.affine_hull.basis.shape
    (3, 2)
    >>> MatroidPolytope.uniform(4, 2).linear_minimizer(np.array([-1.0, 3.0, 2.0, 0.0]))
    array([1., 0., 0., 0.])
    """

    def __init__(
        self,
        n: int,
        independent: Callable[[tuple[int, ...]], bool] | Matroid,
        *,
        bases: bool = False,
    ) -> None:
        matroid = independent if isinstance(independent, Matroid) else Oracle(n, independent)
        if matroid.n != n:
            raise ValueError(f"n must be the matroid's {matroid.n}, got {n!r}")
        self.matroid = matroid
        self.dim = matroid.n
        self.n = matroid.n
        self.bases = bool(bases)
        self.rank = len(matroid.greedy(np.arange(self.dim)))
        if not self.rank:
            raise ValueError("no element is independent by itself; the polytope is a point")

    @classmethod
    def uniform(cls, n: int, k: int, *, bases: bool = False) -> "MatroidPolytope":
        """At most k of n elements; exactly k with bases=True."""
        return cls(n, Uniform(n, k), bases=bases)

    @classmethod
    def partition(
        cls, groups: ArrayLike, limits: ArrayLike, *, bases: bool = False
    ) -> "MatroidPolytope":
        """groups[i] is the group of element i, limits[j] how many of group j may be taken."""
        matroid = Partition(groups, limits)
        return cls(matroid.n, matroid, bases=bases)

    @classmethod
    def graphic(
        cls, edges: Iterable[tuple[Hashable, Hashable]], *, bases: bool = False
    ) -> "MatroidPolytope":
        """Forests of an undirected graph; its spanning trees with bases=True."""
        matroid = Graphic(edges)
        polytope = cls(matroid.n, matroid, bases=bases)
        if bases and polytope.rank < matroid.nodes - 1:
            raise ValueError("the graph is not connected and has no spanning tree; add edges")
        return polytope

    @row_by_row
    def linear_minimizer(self, g: Array) -> Array:
        """Greedy from the least weight up; independent sets stop before weight zero."""
        order = np.argsort(g, kind="stable")
        if not self.bases:
            order = order[: np.count_nonzero(g < 0)]
        best = np.zeros(self.dim)
        best[self.matroid.greedy(order)] = 1.0
        return best

    def diameter(self, p: float = 2.0) -> float:
        """At least the true one, and equal where two bases (or independent sets) are disjoint."""
        count = self.dim - len(self.matroid.loops())
        most = 2 * min(self.rank, count - self.rank) if self.bases else min(2 * self.rank, count)
        return float(most ** (1 / power(p))) if most else 0.0

    @property
    def independent(self) -> Matroid:
        """What the constructor takes, a test of independence wrapped as a matroid."""
        return self.matroid

    @functools.cached_property
    def affine_hull(self) -> AffineHull:
        """Of the bases: one equality or more. Of the independent sets: loops are zero."""
        if self.bases:
            return self._inner_ball.hull
        return AffineHull(np.zeros(self.dim), np.eye(self.dim)[:, self.interior_point > 0])

    @functools.cached_property
    def interior_point(self) -> Array:
        """Of the independent sets: `inner_radius` everywhere but at loops."""
        if self.bases:
            return self._inner_ball.centre
        centre = np.full(self.dim, self.inner_radius)
        centre[self.matroid.loops()] = 0.0
        return centre

    @functools.cached_property
    def inner_radius(self) -> float:
        """Exact for bases of uniform, partition and small matroids; a lower bound elsewhere."""
        if self.bases:
            return self._inner_ball.radius
        # k sets cover all: rank(S) >= max(1, |S|/k). A ball of radius t around t (1, ..., 1) needs
        # t (|S| + sqrt|S|) <= rank(S) for all S: true for t = 1/(k + sqrt k), as |S| <= k rank(S).
        k = covering(self.matroid)
        return 1 / (k + math.sqrt(k))

    @functools.cached_property
    def _inner_ball(self) -> InnerBall:
        return self.matroid.base_inner_ball(self.linear_minimizer)


class BasePolytope(Domain):
    """{x : sum of x over S <= f(S) for all S, equal for the whole set}, f submodular.

    f takes a frozenset of elements 0, ..., n - 1 and gives a number; f of the empty set is zero.
    A greedy choice calls it n times. Whether f is submodular is checked on 100 random pairs of
    sets. `affine_hull`, `interior_point` and `inner_radius` take some 10 n greedy choices, on
    first use.

    n   elements
    f   frozenset of elements -> number, submodular

    >>> at_most_two = BasePolytope(3, lambda S: min(len(S), 2))
    >>> at_most_two.linear_minimizer(np.array([1.0, -2.0, 0.5]))
    array([0., 1., 1.])
    """

    def __init__(self, n: int, f: Callable[[frozenset[int]], float]) -> None:
        self.n = integer("n", n)
        self.dim = self.n
        self.f = f
        if abs(f(frozenset())) > 0:
            raise ValueError("f of the empty set must be 0; subtract it")
        self._whole = frozenset(range(self.dim))
        self._spot_check()

    @row_by_row
    def linear_minimizer(self, g: Array) -> Array:
        """Greedy: elements of small weight first, each as much as f allows."""
        best = np.zeros(self.dim)
        taken: set[int] = set()
        before = 0.0
        for element in np.argsort(g, kind="stable").tolist():
            taken.add(element)
            value = float(self.f(frozenset(taken)))
            best[element], before = value - before, value
        return best

    @functools.cached_property
    def _inner_ball(self) -> InnerBall:
        return submodular_inner_ball(self.linear_minimizer, self.dim, self.f)

    @functools.cached_property
    def _widths(self) -> Array:
        """f({i}) is the most of x_i, f(all) - f(all but i) the least."""
        full = float(self.f(self._whole))
        return np.array(
            [self.f(frozenset({i})) + self.f(self._whole - {i}) - full for i in range(self.dim)]
        )

    def _spot_check(self) -> None:
        rng = np.random.default_rng(0)
        for _ in range(100):
            density = rng.uniform(0.2, 0.8)
            A, B = (
                frozenset(np.flatnonzero(rng.random(self.dim) < density).tolist()) for _ in "AB"
            )
            values = [float(self.f(S)) for S in (A, B, A | B, A & B)]
            if not np.isfinite(values).all():
                raise ValueError("f must be finite on every set")
            if values[0] + values[1] < values[2] + values[3] - 1e-9 * max(map(abs, values)):
                raise ValueError("f is not submodular: f(A) + f(B) < f(A or B) + f(A and B)")
