"""Matroids: families of independent sets on which the greedy algorithm is optimal."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from discreet.arrays import Array, integer
from discreet.domains.base import Described, node_name
from discreet.domains.hull import AffineHull, InnerBall, submodular_inner_ball, sum_zero_basis

Elements = NDArray[np.intp]


class Matroid(Described, ABC):
    """n elements and a greedy choice among them."""

    n: int

    @abstractmethod
    def greedy(self, order: Elements) -> Elements:
        """Of the elements in `order`, each one that is independent of those taken before it."""

    def loops(self) -> Elements:
        """Elements of no independent set."""
        alone = (len(self.greedy(np.array([i]))) for i in range(self.n))
        return np.array([i for i, size in enumerate(alone) if not size], dtype=np.intp)

    def base_inner_ball(self, base: Callable[[Array], Array]) -> InnerBall:
        """Of the base polytope, `base` being its linear minimiser."""

        def rank(S: frozenset[int]) -> int:
            return len(self.greedy(np.array([*S], np.intp)))

        return submodular_inner_ball(base, self.n, rank)


class Oracle(Matroid):
    """Any matroid, by a test of independence; n calls of the test for a greedy choice.

    n             elements
    independent   whether a tuple of elements is independent
    """

    def __init__(self, n: int, independent: Callable[[tuple[int, ...]], bool]) -> None:
        self.n = integer("n", n)
        self.independent = independent
        if not independent(()):
            raise ValueError("the empty set must be independent")
        orders = [np.random.default_rng(i).permutation(self.n) for i in range(8)]
        if len({len(self.greedy(order)) for order in orders}) > 1:
            raise ValueError(
                "not a matroid: two maximal independent sets differ in size, so the greedy "
                "algorithm is not optimal"
            )

    def greedy(self, order: Elements) -> Elements:
        taken: list[int] = []
        for element in order.tolist():
            if self.independent((*taken, element)):
                taken.append(element)
        return np.array(taken, dtype=np.intp)


class Partition(Matroid):
    """At most limits[j] elements of group j.

    groups   (n,), the group of each element
    limits   (groups,), elements that may be taken of each group
    """

    def __init__(self, groups: ArrayLike, limits: ArrayLike) -> None:
        self.groups = _integers("groups", groups)
        self.limits = _integers("limits", limits)
        self.n = len(self.groups)
        if self.n == 0 or self.groups.min() < 0 or self.groups.max() >= len(self.limits):
            raise ValueError("groups must hold, for each element, the index of its group's limit")
        self.sizes = np.bincount(self.groups, minlength=len(self.limits))
        if (self.limits < 0).any() or (self.limits > self.sizes).any():
            raise ValueError("each limit must lie between 0 and the size of its group")

    def greedy(self, order: Elements) -> Elements:
        groups = self.groups[order]
        by_group = np.argsort(groups, kind="stable")
        sizes = np.bincount(groups, minlength=len(self.limits))
        starts = np.cumsum(sizes) - sizes
        place = np.empty(len(order), dtype=np.intp)
        place[by_group] = np.arange(len(order)) - starts[groups[by_group]]
        return order[place < self.limits[groups]]

    def loops(self) -> Elements:
        return np.flatnonzero(self.limits[self.groups] == 0)

    def base_inner_ball(self, base: Callable[[Array], Array]) -> InnerBall:
        """The same weight for each element of a group; exact radius.

        In a group of m with k taken the sides are x_i >= 0 and x_i <= 1, and a unit direction of
        sum zero moves x_i by at most sqrt(1 - 1/m).
        """
        centre = (self.limits / np.maximum(self.sizes, 1))[self.groups]
        free = [
            j for j, (k, m) in enumerate(zip(self.limits, self.sizes, strict=True)) if 0 < k < m
        ]
        blocks = [np.zeros((self.n, 0))]
        radii = []
        for j in free:
            m = int(self.sizes[j])
            k = int(self.limits[j])
            block = np.zeros((self.n, m - 1))
            block[self.groups == j] = sum_zero_basis(m)
            blocks.append(block)
            radii.append(min(k, m - k) / math.sqrt(m * (m - 1)))
        return InnerBall(AffineHull(centre, np.hstack(blocks)), centre, min(radii, default=0.0))


class Uniform(Partition):
    """At most k of n elements."""

    def __init__(self, n: int, k: int) -> None:
        n = integer("n", n)
        self.k = integer("k", k)
        if self.k > n:
            raise ValueError(f"k must be at most n, got k = {self.k} and n = {n}")
        super().__init__(np.zeros(n, dtype=np.intp), [self.k])


class Graphic(Matroid):
    """Edges of an undirected graph; independent without a cycle."""

    def __init__(self, edges: Iterable[tuple[Hashable, Hashable]]) -> None:
        self.edges = [(node_name(u), node_name(v)) for u, v in edges]
        nodes = dict.fromkeys(node for edge in self.edges for node in edge)
        place = {node: i for i, node in enumerate(nodes)}
        self._ends = [(place[u], place[v]) for u, v in self.edges]
        self.n = len(self.edges)
        self.nodes = len(nodes)
        if not self.n:
            raise ValueError("a graph needs at least one edge")

    def greedy(self, order: Elements) -> Elements:
        """Kruskal's algorithm: join the trees that an edge connects."""
        parent = list(range(self.nodes))
        missing = self.nodes - 1
        taken = []
        ends = self._ends
        for e in order.tolist():
            u, v = ends[e]
            while parent[u] != u:
                parent[u] = u = parent[parent[u]]
            while parent[v] != v:
                parent[v] = v = parent[parent[v]]
            if u != v:
                parent[u] = v
                taken.append(e)
                missing -= 1
                if not missing:
                    break
        return np.array(taken, dtype=np.intp)

    def loops(self) -> Elements:
        return np.array([e for e, (u, v) in enumerate(self._ends) if u == v], dtype=np.intp)


def _integers(name: str, values: ArrayLike) -> Elements:
    array = np.asarray(values)
    if array.ndim != 1 or not np.issubdtype(array.dtype, np.integer):
        raise ValueError(f"{name} must be a list of integers")
    return array.astype(np.intp)


def covering(matroid: Matroid) -> int:
    """How many independent sets, taken greedily, hold all elements but the loops."""
    left = np.setdiff1d(np.arange(matroid.n), matroid.loops())
    count = 0
    while len(left):
        left = np.setdiff1d(left, matroid.greedy(left))
        count += 1
    return count
