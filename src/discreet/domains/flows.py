"""Unit flows through a directed graph without cycles: mixtures of paths."""

import functools
import math
from collections.abc import Hashable, Iterable
from typing import Any

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from discreet.arrays import Array
from discreet.domains.base import SLACK, Domain, node_name, power, row_by_row
from discreet.domains.hull import AffineHull


class FlowPolytope(Domain):
    """Unit flows from source to sink; x_e is the flow on edge e, a vertex is a path.

    Nodes are integers or strings; parallel edges are allowed, cycles are not. An edge on no path
    from source to sink carries nothing: its entry is always zero, and the affine hull knows. `live`
    says which edges are on a path.

    `interior_point` makes the least flow on a live edge as large as it can be. `inner_radius` is
    exact for that point. Both of those and `affine_hull` (a dense matrix) are computed on first
    use; `linear_minimizer` needs none of them.

    edges    pairs of nodes (from, to)
    source   the node where the flow starts
    sink     the node where it ends

    >>> roads = FlowPolytope([("home", "hill"), ("hill", "work"), ("home", "work")], "home", "work")
    >>> roads.linear_minimizer(np.array([1.0, 1.0, 3.0]))
    array([1., 1., 0.])
    >>> roads.interior_point
    array([0.5, 0.5, 0.5])
    """

    def __init__(
        self, edges: Iterable[tuple[Hashable, Hashable]], source: Hashable, sink: Hashable
    ) -> None:
        self.edges = [(node_name(u), node_name(v)) for u, v in edges]
        self.source = node_name(source)
        self.sink = node_name(sink)
        self.dim = len(self.edges)
        if self.source == self.sink:
            raise ValueError("source and sink must differ")
        names = dict.fromkeys(node for edge in self.edges for node in edge)
        if self.source not in names or self.sink not in names:
            raise ValueError("source and sink must be nodes of some edge")
        place = {name: i for i, name in enumerate(names)}
        self._tail = np.array([place[u] for u, _ in self.edges])
        self._head = np.array([place[v] for _, v in self.edges])
        self._ends = place[self.source], place[self.sink]
        order = _by_topology(self._tail.tolist(), self._head.tolist(), len(names))
        self.live = self._on_paths(order, len(names))
        if not self.live.any():
            raise ValueError("the sink cannot be reached from the source; add the missing edges")
        live = [e for e in order if self.live[e]]
        self._steps = list(
            zip(live, self._tail[live].tolist(), self._head[live].tolist(), strict=True)
        )
        self._nodes = len(names)

    @row_by_row
    def linear_minimizer(self, g: Array) -> Array:
        """A shortest path, edges relaxed in topological order; weights of any sign."""
        weights = g.tolist()
        source, node = self._ends
        distance = [math.inf] * self._nodes
        distance[source] = 0.0
        last = [-1] * self._nodes
        for e, tail, head in self._steps:
            through = distance[tail] + weights[e]
            if through < distance[head]:
                distance[head], last[head] = through, e
        path = np.zeros(self.dim)
        while node != source:
            path[last[node]] = 1.0
            node = int(self._tail[last[node]])
        return path

    @functools.cached_property
    def affine_hull(self) -> AffineHull:
        """Conservation at each inner node, one unit out of the source, nothing on dead edges."""
        rows = self._conservation.toarray()
        q, _ = np.linalg.qr(rows.T, mode="complete")
        basis = np.zeros((self.dim, q.shape[1] - len(rows)))
        basis[self.live] = q[:, len(rows) :]
        return AffineHull(self.interior_point, basis)

    @functools.cached_property
    def interior_point(self) -> Array:
        """max tau with a unit flow of at least tau on each live edge, by HiGHS."""
        rows = self._conservation
        supply = np.zeros(rows.shape[0])
        supply[0] = 1.0
        count = rows.shape[1]
        even = scipy.sparse.csr_array(rows @ np.ones((count, 1)))
        both: Any = scipy.sparse.hstack([rows, even])  # flow = tau + the rest, rest >= 0
        cost = np.append(np.zeros(count), -1.0)
        answer = scipy.optimize.linprog(cost, A_eq=both, b_eq=supply, method="highs")
        best = np.asarray(answer.x)
        flow = np.zeros(self.dim)
        flow[self.live] = np.maximum(best[:-1], 0.0) + best[-1]
        return flow

    @functools.cached_property
    def inner_radius(self) -> float:
        """The distance to the nearest side x_e = 0 within the hull; 0 for a single path."""
        slopes = np.linalg.norm(self.affine_hull.basis, axis=1)
        moves = slopes > SLACK
        if not moves.any():
            return 0.0
        return float((self.interior_point[moves] / slopes[moves]).min())

    def diameter(self, p: float = 2.0) -> float:
        """At least the true one, and equal when two longest paths share no edge; 1 for p = inf.

        Entries of x - y lie in [-1, 1] and sum to at most two longest paths in size.
        """
        longest = self.linear_minimizer(-np.ones(self.dim)).sum()
        return float(min(2 * longest, self.live.sum()) ** (1 / power(p)))

    def contains(self, x: ArrayLike) -> bool:
        y = np.asarray(x, dtype=np.float64)
        if y.shape != (self.dim,) or not np.isfinite(y).all():
            return False
        excess = self._conservation @ y[self.live]
        excess[0] -= 1.0
        dead = np.abs(y[~self.live]).max(initial=0.0)
        return bool(max(np.abs(excess).max(), dead, -y.min()) <= SLACK)

    @functools.cached_property
    def _conservation(self) -> Any:  # a sparse matrix; linprog's types know dense ones only
        """Out less in at each live node but the sink, the source first; columns are live edges."""
        tail, head = self._tail[self.live], self._head[self.live]
        inner = np.setdiff1d(np.concatenate([tail, head]), self._ends)
        row = np.full(self._nodes, -1)
        row[self._ends[0]], row[inner] = 0, np.arange(1, len(inner) + 1)
        columns = np.arange(len(tail))
        into = row[head] >= 0  # all but the sink's
        values = np.concatenate([np.ones(len(tail)), -np.ones(int(into.sum()))])
        places = (
            np.concatenate([row[tail], row[head][into]]),
            np.concatenate([columns, columns[into]]),
        )
        return scipy.sparse.csr_array((values, places), shape=(len(inner) + 1, len(tail)))

    def _on_paths(self, order: list[int], nodes: int) -> NDArray[np.bool_]:
        """Which edges are on a path from source to sink."""
        tail, head = self._tail.tolist(), self._head.tolist()
        source, sink = self._ends
        reached, leads = [False] * nodes, [False] * nodes
        reached[source] = leads[sink] = True
        for e in order:
            reached[head[e]] |= reached[tail[e]]
        for e in reversed(order):
            leads[tail[e]] |= leads[head[e]]
        return np.asarray(np.array(reached)[self._tail] & np.array(leads)[self._head])


def _by_topology(tail: list[int], head: list[int], nodes: int) -> list[int]:
    """Edges in topological order of their tails (Kahn 1962)."""
    leaving: list[list[int]] = [[] for _ in range(nodes)]
    waiting = [0] * nodes
    for e, (u, v) in enumerate(zip(tail, head, strict=True)):
        leaving[u].append(e)
        waiting[v] += 1
    ready = [node for node in range(nodes) if not waiting[node]]
    order = []
    while ready:
        for e in leaving[ready.pop()]:
            order.append(e)
            waiting[head[e]] -= 1
            if not waiting[head[e]]:
                ready.append(head[e])
    if len(order) < len(tail):
        raise ValueError("the graph has a cycle; a flow polytope needs a directed acyclic graph")
    return order
