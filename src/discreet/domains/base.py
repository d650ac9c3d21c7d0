"""What every decision set has, and what some have besides."""

import functools
import json
from abc import ABC, abstractmethod
from collections.abc import Hashable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from discreet.domains.barriers import Barrier
from discreet.domains.conditional_gradient import nearest_point
from discreet.domains.hull import AffineHull, Frame, frame
from discreet.privacy.checks import Array

_SLACK = 1e-9  # rounding that `contains` forgives
_FAR = 1e-6  # the same where the distance comes from conditional gradient


class Domain(ABC):
    """A compact convex set in R^dim, known by its linear minimiser.

    A subclass sets `dim` and writes `linear_minimizer`; the rest follows from that, by many calls.
    Closed forms replace it where they exist.

    `loss_set` says which losses have unit size: "box" for [0, 1]^n, "l1" or "l2" for that ball.
    On the simplex that is the field's convention; on cube and ball it is the dual ball,
    |<loss, x>| <= 1; elsewhere losses are measured in l2.

    >>> class Interval(Domain):
    ...     dim = 1
    ...
    ...     def linear_minimizer(self, g):
    ...         return np.where(g > 0, 2.0, 5.0)
    >>> prices = Interval()
    >>> prices.interior_point.round(6), round(prices.inner_radius, 6), prices.diameter()
    (array([3.5]), 1.5, 3.0)
    >>> prices.contains([4.2]), prices.contains([5.1])
    (True, False)
    """

    dim: int
    loss_set = "l2"

    @abstractmethod
    def linear_minimizer(self, g: Array) -> Array:  # (..., n) -> (..., n)
        """A point of least <g, x>."""

    @functools.cached_property
    def affine_hull(self) -> AffineHull:
        """The flat the domain lies in, with an orthonormal basis."""
        return self._frame.hull

    @functools.cached_property
    def interior_point(self) -> Array:
        """A point of the relative interior."""
        return self._frame.centre

    @functools.cached_property
    def inner_radius(self) -> float:
        """The domain holds the ball of this radius around `interior_point` in its affine hull."""
        return self._frame.radius

    def diameter(self, p: float = 2.0) -> float:
        """Of the bounding box: exact for p = inf, at least max |x - y|_p otherwise."""
        return float(np.linalg.norm(self._widths, power(p)))

    def contains(self, x: ArrayLike) -> bool:
        """Whether x is in the domain, up to a distance of 1e-6, by conditional gradient."""
        y = np.asarray(x, dtype=np.float64)
        if y.shape != (self.dim,) or not np.isfinite(y).all():
            return False
        start = self.linear_minimizer(-y)
        found = nearest_point(self, y, start, gap=_FAR**2 / 4, max_calls=200 + 20 * self.dim)
        return bool(np.linalg.norm(found.point - y) <= _FAR)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(dim={self.dim})"

    def spec(self) -> str:
        """The constructor's arguments as text, for `from_spec`."""
        return json.dumps({"kind": type(self).__name__, "n": self.dim})

    @functools.cached_property
    def _frame(self) -> Frame:
        return frame(self.linear_minimizer, self.dim)

    @functools.cached_property
    def _widths(self) -> Array:
        minimizer, axes = self.linear_minimizer, np.eye(self.dim)
        return np.array([(minimizer(-axis) - minimizer(axis)) @ axis for axis in axes])


class ProjectionDomain(Domain):
    """A domain with a fast projection, hence a regularised leader: what `FTRL` needs."""

    reach: float  # max R - min R (on a polytope at least that): what a regret bound needs

    @functools.cached_property
    def affine_hull(self) -> AffineHull:
        """The whole space; a subclass without interior has its own."""
        return AffineHull(np.zeros(self.dim), np.eye(self.dim))

    @abstractmethod
    def project(self, y: Array) -> Array:  # (..., n) -> (..., n)
        """The nearest point in l2."""

    def contains(self, x: ArrayLike) -> bool:
        """Whether x is in the domain, up to rounding: it is its own projection."""
        y = np.asarray(x, dtype=np.float64)
        fits = y.shape == (self.dim,) and bool(np.isfinite(y).all())
        return fits and bool(np.abs(self.project(y) - y).max() <= _SLACK)

    def leader(self, total: Array, rate: Any) -> Array:  # (..., n), scalar or (..., 1)
        """argmin <total, x> + |x - interior_point|^2/(2 rate): a projection."""
        return self.project(self.interior_point - rate * total)


class BarrierDomain(ProjectionDomain):
    """A domain with a self-concordant barrier besides: what `BarrierBandit` needs."""

    barrier: Barrier  # in the coordinates of `affine_hull`


def power(p: float) -> float:
    """p, checked to be the index of a norm."""
    if not p >= 1:
        raise ValueError(f"p must be at least 1, got {p!r}")
    return float(p)


def node_name(node: Hashable) -> int | str:
    """The name of a node of a graph, in a form that text can hold."""
    if isinstance(node, str):
        return node
    if isinstance(node, int | np.integer) and not isinstance(node, bool):
        return int(node)
    raise ValueError(f"nodes must be whole numbers or words, got {type(node).__name__}")
