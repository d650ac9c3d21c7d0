"""The nearest point of a domain by linear minimisation alone (fully corrective Frank-Wolfe).

Each step calls the linear minimiser once, moves towards the vertex by exact line search (Frank
and Wolfe 1956), then re-optimises the weights of the vertices seen so far (Wolfe 1976, the
minimum-norm point): a vertex whose weight falls to zero is dropped. The first move alone gives the
guarantee of conditional gradient, f - min f <= 2 D^2/(calls + 2); the second makes it converge in
finitely many steps on a polytope, up to rounding.

    f(x) = |x - target|^2/2      gap = max over y of <x - target, x - y> >= f(x) - min f
"""

import math
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from discreet.arrays import Array, finite, integer, positive

_MOST = 128  # atoms kept; beyond that the two lightest become one
_RIDGE = 1e-14  # of the Gram matrix's trace: atoms may be affinely dependent


class HasLinearMinimizer(Protocol):
    """All that is asked of the domain."""

    def linear_minimizer(self, g: Array) -> Array:  # (n,) -> (n,)
        """A point of least <g, x>."""


class Nearest(NamedTuple):
    """What `nearest_point` found."""

    point: Array  # (n,), in the domain
    gap: float  # |point - target|^2/2 is at most this above its least value, rounding included
    calls: int  # of the linear minimiser


def nearest_point(
    domain: HasLinearMinimizer,
    target: ArrayLike,
    start: ArrayLike,
    *,
    gap: float,
    max_calls: int,
) -> Nearest:
    """argmin |x - target|^2/2 over the domain, from `start` (any point of the domain).

    Stops as soon as the duality gap is at most `gap` (or lost in rounding), or after `max_calls`
    linear minimisations. The point is within sqrt(2 gap) of the nearest one, for the gap returned.
    It lies in the domain and is never farther from the target than `start`.

    >>> from discreet.domains import Simplex
    >>> found = nearest_point(Simplex(3), [1.0, 0.8, -3.0], [0, 0, 1], gap=1e-12, max_calls=50)
    >>> found.point.round(6) + 0.0, found.calls
    (array([0.6, 0.4, 0. ]), 3)
    """
    goal = finite("target", target)
    atoms = _Atoms(finite("start", start))
    if goal.shape != atoms.point.shape or goal.ndim != 1:
        raise ValueError(f"expected target and start (n,), got {goal.shape}, {atoms.point.shape}")
    positive("gap", gap)
    bound = math.inf
    for call in range(1, integer("max_calls", max_calls) + 1):
        slope = atoms.point - goal
        vertex = domain.linear_minimizer(slope)
        found = max(float(slope @ (atoms.point - vertex)), 0.0)
        noise = 4e-15 * float(np.linalg.norm(atoms.point) + np.linalg.norm(goal))
        # Point and vertex are in the domain up to rounding of their own size.
        bound = found + noise * float(np.linalg.norm(atoms.point) + np.linalg.norm(vertex))
        if found <= max(gap, noise * float(np.linalg.norm(atoms.point - vertex))):
            return Nearest(atoms.point, bound, call)
        atoms.approach(vertex, slope)
        atoms.correct(goal)
    return Nearest(atoms.point, bound, integer("max_calls", max_calls))


class _Atoms:
    """A point as a mixture of atoms, kept relative to the first of them."""

    def __init__(self, start: Array) -> None:
        self.start, self.point = start, start.copy()
        self.rows = np.zeros((1, len(start)))  # (k, n), atoms less start
        self.gram = np.zeros((1, 1))
        self.weights = np.ones(1)

    def approach(self, vertex: Array, slope: Array) -> None:
        """Exact line search from the point to the vertex."""
        move = vertex - self.point
        step = min(1.0, -float(slope @ move) / float(move @ move))
        row = vertex - self.start
        products = self.rows @ row
        self.rows = np.vstack([self.rows, row])
        self.gram = np.block([[self.gram, products[:, None]], [products, row @ row]])
        self.weights = np.append((1 - step) * self.weights, step)
        self._keep(self.weights > 0)
        if len(self.weights) > _MOST:
            self._merge()

    def correct(self, goal: Array) -> None:
        """Move to the best weights; drop each atom whose weight falls to zero on the way."""
        while len(self.weights) > 1:
            # b = argmin |point + b rows - goal|, sum b = 0, in differences to the heaviest atom
            heavy = int(np.argmax(self.weights))
            others = np.arange(len(self.weights)) != heavy
            pull = self.rows @ (goal - self.point)
            G = self.gram - self.gram[heavy] - self.gram[:, heavy, None] + self.gram[heavy, heavy]
            G = G[np.ix_(others, others)]
            G.flat[:: len(G) + 1] += _RIDGE * np.trace(G) + 1e-300
            b = np.zeros(len(self.weights))
            b[others] = np.linalg.solve(G, (pull - pull[heavy])[others])
            b[heavy] = -b.sum()
            falling = b < 0
            room = np.full(len(b), math.inf)
            room[falling] = self.weights[falling] / -b[falling]
            first = int(np.argmin(room))
            move = b @ self.rows
            square = float(move @ move)
            step = min(float(room[first]), float((goal - self.point) @ move) / max(square, 1e-300))
            if not step > 0:
                return
            self.weights = np.maximum(self.weights + step * b, 0.0)
            blocked = step == room[first]
            if blocked:
                self.weights[first] = 0.0
            self._keep(self.weights > 0)
            if not blocked:
                return

    def _keep(self, kept: NDArray[np.bool_]) -> None:
        if not kept.all():
            self.rows, self.gram = self.rows[kept], self.gram[np.ix_(kept, kept)]
        self.weights = self.weights[kept] / self.weights[kept].sum()
        self.point = self.start + self.weights @ self.rows

    def _merge(self) -> None:
        """The two lightest atoms become their mean: a point of the domain is as good an atom."""
        pair = np.argsort(self.weights)[:2]
        mass = self.weights[pair].sum()
        row = self.weights[pair] @ self.rows[pair] / mass
        kept = np.ones(len(self.weights), dtype=bool)
        kept[pair] = False
        products = self.rows[kept] @ row
        self.rows = np.vstack([self.rows[kept], row])
        inner = self.gram[np.ix_(kept, kept)]
        self.gram = np.block([[inner, products[:, None]], [products, row @ row]])
        self.weights = np.append(self.weights[kept], mass)
