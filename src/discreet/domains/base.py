"""What every decision set has."""

import json
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from discreet.domains.barriers import Barrier
from discreet.privacy.checks import Array

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


def power(p: float) -> float:
    """p, checked to be the index of a norm."""
    if not p >= 1:
        raise ValueError(f"p must be at least 1, got {p!r}")
    return float(p)
