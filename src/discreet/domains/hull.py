"""The affine hull of a domain, and a ball inside it, from linear minimisation alone."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import scipy

from discreet.arrays import Array

_FLAT = 1e-9  # width, relative to the domain's size, below which a direction is an equality
_ENUMERATED = 12  # elements up to which all sets are tried
_PAIRS = 200  # of opposite vertices, at least; and four for each dimension


@dataclass(frozen=True)
class AffineHull:
    """x = origin + basis z: the smallest flat that holds a domain."""

    origin: Array  # (n,)
    basis: Array  # (n, m), orthonormal columns

    def point(self, z: Array) -> Array:  # (..., m) -> (..., n)
        return np.asarray(self.origin + z @ self.basis.T)

    def coordinates(self, x: Array) -> Array:  # (..., n) -> (..., m)
        return np.asarray((x - self.origin) @ self.basis)


def sum_zero_basis(n: int) -> Array:  # (n, n - 1)
    """Helmert's orthonormal basis of the vectors of sum zero."""
    return np.ascontiguousarray(scipy.linalg.helmert(n).T)


class InnerBall(NamedTuple):
    """A flat, a point of the domain, and a radius: the ball around it lies in the domain."""

    hull: AffineHull  # in which the ball lies
    centre: Array  # a point of the domain
    radius: float  # of the ball


def inner_ball(linear_minimizer: Callable[[Array], Array], n: int) -> InnerBall:
    """The mean of the extreme points in many fixed directions; its flat; a ball around it.

    With M points y_i of mean x, the domain holds x + sum mu_i y_i for all |mu_i| <= 1/M of sum
    zero. Centred, the points have a pseudo-inverse: mu = pinv d moves the mean by d, and
    |mu_i| <= |pinv_i| |d|, so that a ball of radius 1/(M max |pinv_i|) is inside.
    """
    rng = np.random.default_rng(0)  # fixed: the same domain always has the same centre
    directions = rng.standard_normal((max(_PAIRS, 4 * (n + 1)), n))
    points = np.array([linear_minimizer(g) for side in (directions, -directions) for g in side])
    before = -1
    while True:
        centre = points.mean(axis=0)
        u, sizes, axes = np.linalg.svd(points - centre, full_matrices=False)
        rank = int((sizes > _FLAT * max(sizes[0], 1e-300) * len(points) ** 0.5).sum())
        missed = []
        for g in axes[rank:]:
            low, high = linear_minimizer(g), linear_minimizer(-g)
            if (high - low) @ g > _FLAT * np.abs(points).max():
                missed += [low, high]
        if not missed or rank == before:  # flat, or too thin to tell
            break
        before = rank
        points = np.vstack([points, missed])
    hull = AffineHull(centre, axes[:rank].T)
    if rank == 0:
        return InnerBall(hull, centre, 0.0)
    pinv = np.linalg.norm(u[:, :rank] / sizes[:rank], axis=1)
    return InnerBall(hull, centre, float(1 / (len(points) * pinv.max())))


def submodular_inner_ball(
    linear_minimizer: Callable[[Array], Array], n: int, f: Callable[[frozenset[int]], float]
) -> InnerBall:
    """Of the base polytope of f: as `inner_ball`, with the exact radius for small n.

    The radius is then the distance to the nearest side {sum of x over S = f(S)}, of 2^n sets S.
    """
    hull, centre, radius = inner_ball(linear_minimizer, n)
    if n > _ENUMERATED or not hull.basis.size:
        return InnerBall(hull, centre, radius)
    members = (np.arange(2**n)[:, None] >> np.arange(n)) & 1  # (2^n, n)
    values = np.array([f(frozenset(np.flatnonzero(row).tolist())) for row in members])
    slopes = np.linalg.norm(members @ hull.basis, axis=1)
    sides = slopes > _FLAT
    return InnerBall(
        hull, centre, float(((values - members @ centre)[sides] / slopes[sides]).min())
    )
