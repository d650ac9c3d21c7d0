"""What every decision set has, and what some can do besides."""

import functools
import inspect
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable
from typing import Any, ClassVar, NamedTuple, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from discreet.arrays import Array
from discreet.domains.barriers import Barrier
from discreet.domains.conditional_gradient import nearest_point
from discreet.domains.hull import AffineHull, InnerBall, inner_ball
from discreet.state import NotInFile, decode, encode_argument, register

D = TypeVar("D")
SLACK = 1e-9  # rounding that `contains` forgives
_FAR = 1e-6  # the same where the distance comes from conditional gradient


class LpShape(NamedTuple):
    """The lp ball of this radius around zero."""

    p: float  # of the norm
    radius: float  # of the ball


class AxisVertices(NamedTuple):
    """Vertices on the axes: radius e_j, and -radius e_j too if `signed`."""

    radius: float  # distance of the vertices from zero
    signed: bool  # whether -radius e_j are vertices too


class Described:
    """An immutable object that its constructor's arguments describe.

    Each argument is an attribute of the same name, as everywhere in this package. Subclasses can be
    saved and made again without doing anything for it; an argument that is a function is saved by
    name only, and `load` then asks for the whole object.
    """

    _kinds: ClassVar[dict[str, type["Described"]]] = {}

    def __init_subclass__(cls, **more: Any) -> None:
        super().__init_subclass__(**more)
        cls._kinds[_kind(cls)] = cls

    def arguments(self) -> dict[str, Any]:
        """The constructor's arguments, by name."""
        found = inspect.signature(type(self)).parameters.values()
        names = [
            each.name for each in found if each.kind not in (each.VAR_POSITIONAL, each.VAR_KEYWORD)
        ]
        missing = [name for name in names if not hasattr(self, name)]
        if missing:  # saved by name only
            raise TypeError(f"{type(self).__name__} does not keep its argument {missing[0]!r}")
        return {name: getattr(self, name) for name in names}


def _kind(cls: type[Described]) -> str:
    """The name in a file: a class of somebody else never passes for one of ours."""
    own = cls.__module__.startswith("discreet.")
    return cls.__name__ if own else f"{cls.__module__}.{cls.__qualname__}"


def _encode(item: Described) -> dict[str, Any]:
    arguments = {name: encode_argument(each) for name, each in item.arguments().items()}
    return {"kind": _kind(type(item)), "arguments": arguments}


def _decode(plain: dict[str, Any]) -> Described:
    kind = plain["kind"]
    if kind not in Described._kinds:
        raise NotInFile(
            f"{kind} is not known here; import the module that defines it, or give that argument "
            "to load() by name"
        )
    arguments = {name: decode(each) for name, each in plain["arguments"].items()}
    return Described._kinds[kind](**arguments)


register(Described, _encode, _decode)


class Domain(Described, ABC):
    """A compact convex set in R^dim, known by its linear minimiser.

    A subclass sets `dim` and writes `linear_minimizer`; hull, interior point, radius, diameter and
    membership follow from that, by many calls. Closed forms replace it where they exist. What a
    domain can do besides, learners ask it, whoever wrote it:

        project            a fast projection; then it also has a regularised `leader` (FTRL)
        barrier            a self-concordant `Barrier`, or None (BarrierBandit)
        lp_shape           (p, radius) if the set is an lp ball around zero, or None
        axis_vertices      if all vertices lie on the axes, or None (selection in place of noise)
        perturbation_std   the noise that follow-the-perturbed-leader needs at t = 1

    `loss_set` says which losses have unit size: "box" for [0, 1]^n, "l1" or "l2" for that ball.
    On the simplex that is the field's convention; on cube and ball it is the dual ball,
    |<loss, x>| <= 1; elsewhere losses are measured in l2.

    A domain can be saved with a learner if each constructor argument is an attribute of the same
    name. Functions are not saved: `load` then asks for the domain.

    >>> class Interval(Domain):
    ...     dim = 1
    ...
    ...     def linear_minimizer(self, g):
    ...         return np.where(g > 0, 2.0, 5.0)
    >>> prices = Interval()
    >>> prices.interior_point.round(6), round(prices.inner_radius, 6), prices.diameter()
    (array([3.5]), 1.5, 3.0)
    >>> prices.contains([4.2]), prices.contains([5.1]), prices.projects
    (True, False, False)
    """

    dim: int
    loss_set = "l2"
    barrier: Barrier | None = None  # in the coordinates of `affine_hull`
    lp_shape: LpShape | None = None
    axis_vertices: AxisVertices | None = None

    @abstractmethod
    def linear_minimizer(self, g: Array) -> Array:  # (..., n) -> (..., n)
        """A point of least <g, x>."""

    @functools.cached_property
    def affine_hull(self) -> AffineHull:
        """The flat the domain lies in, with an orthonormal basis."""
        return self._inner_ball.hull

    @functools.cached_property
    def interior_point(self) -> Array:
        """A point of the relative interior."""
        return self._inner_ball.centre

    @functools.cached_property
    def inner_radius(self) -> float:
        """The domain holds the ball of this radius around `interior_point` in its affine hull."""
        return self._inner_ball.radius

    def diameter(self, p: float = 2.0) -> float:
        """Of the bounding box: exact for p = inf, at least max |x - y|_p otherwise."""
        return float(np.linalg.norm(self._widths, power(p)))

    def contains(self, x: ArrayLike) -> bool:
        """Whether x is in the domain: up to rounding if it projects, else up to 1e-6."""
        y = np.asarray(x, dtype=np.float64)
        if y.shape != (self.dim,) or not np.isfinite(y).all():
            return False
        if self.projects:
            return bool(np.abs(self.project(y) - y).max() <= SLACK)
        start = self.linear_minimizer(-y)
        found = nearest_point(self, y, start, gap=_FAR**2 / 4, max_calls=200 + 20 * self.dim)
        return bool(np.linalg.norm(found.point - y) <= _FAR)

    # -- with a projection -------------------------------------------------------------------------

    @property
    def projects(self) -> bool:
        """Whether this domain has a fast projection: whether its class writes `project`."""
        return type(self).project is not Domain.project

    def project(self, y: Array) -> Array:  # (..., n) -> (..., n)
        """The nearest point in l2."""
        raise NotImplementedError(
            f"{type(self).__name__} has no fast projection; `nearest_point` finds the nearest "
            "point by linear minimisation"
        )

    def leader(self, total: Array, rate: Any) -> Array:  # (..., n), scalar or (..., 1)
        """argmin <total, x> + R(x)/rate; here R = |x - interior_point|^2/2, hence a projection."""
        return self.project(self.interior_point - rate * total)

    @functools.cached_property
    def regularizer_range(self) -> float:
        """At least max R - min R over the domain, R the regulariser of `leader`."""
        return self.diameter() ** 2 / 2

    # -- with perturbations ------------------------------------------------------------------------

    @property
    def perturbation_std(self) -> float:
        """The standard deviation that balances FTPL's regret at t = 1, for losses of unit size.

        Noise of standard deviation s costs s E max <z, x>, its steps cost (sum |l|^2) h/(2 s) with
        h/s the curvature of E max <L + s z, x>. Any domain: |X| n^1/2 s and h = |X| (Agarwal and
        Singh 2017, Theorem 3.5).
        """
        return math.pow(self.dim, -0.25) / math.sqrt(2)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(dim={self.dim})"

    @functools.cached_property
    def _inner_ball(self) -> InnerBall:
        return inner_ball(self.linear_minimizer, self.dim)

    @functools.cached_property
    def _widths(self) -> Array:
        minimizer = self.linear_minimizer
        axes = np.eye(self.dim)
        return np.array([(minimizer(-axis) - minimizer(axis)) @ axis for axis in axes])


class SolidDomain(Domain):
    """A domain with an interior: its affine hull is the whole space."""

    @functools.cached_property
    def affine_hull(self) -> AffineHull:
        """All of R^n."""
        return AffineHull(np.zeros(self.dim), np.eye(self.dim))


def row_by_row(method: Callable[[D, Array], Array]) -> Callable[[D, Array], Array]:
    """Lets a method of one row (n,) take many, (..., n) -> (..., n): one after the other."""

    @functools.wraps(method)
    def each(domain: D, rows: Array) -> Array:
        if rows.ndim == 1:
            return method(domain, rows)
        return np.array([each(domain, row) for row in rows]).reshape(rows.shape)

    return each


def as_domain(domain: Any) -> Domain:
    """The argument of a learner, if it is a domain."""
    if not isinstance(domain, Domain):
        raise ValueError(f"domain must be a discreet.domains.Domain, got {domain!r}")
    return domain


def power(p: float) -> float:
    """p, checked to be the index of a norm."""
    if not p >= 1:
        raise ValueError(f"p must be at least 1, got {p!r}")
    return float(p)


def node_name(node: Hashable) -> int | str:
    """The name of a node of a graph, in a form that a file can hold."""
    if isinstance(node, str):
        return node
    if isinstance(node, int | np.integer) and not isinstance(node, bool):
        return int(node)
    raise ValueError(f"nodes must be integers or strings, got {type(node).__name__}")
