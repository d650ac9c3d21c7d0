"""A stochastic convex problem: a domain, a loss of the prediction, bounds on rows and labels.

    paper   f(theta; x)   grad f     L            beta
    here    a `Loss`      gradient   lipschitz    smoothness

Both bounds hold for every row of unit size in the norm dual to the domain's: |x|_q <= 1 where the
domain is measured in l_p, 1/p + 1/q = 1. Then |x . u| <= |u|_p, so a loss whose slope in the
prediction is at most L and moves by at most beta times the prediction has an L-bounded gradient in
l_q that moves by at most beta |u|_p.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike

from discreet.arrays import Array, finite, number, numbers, one_of, positive, public_bound
from discreet.domains import Domain
from discreet.domains.base import as_domain

LOSSES = ("squared", "logistic", "huber")


@runtime_checkable
class Loss(Protocol):
    """What `StreamingFrankWolfe` needs of a loss of your own.

    `lipschitz` bounds |gradient|_q over the domain and all rows and labels within the public
    bounds; `smoothness` bounds |gradient(theta) - gradient(other)|_q / |theta - other|_p. The
    learner clips what comes out, so a wrong bound costs accuracy and never privacy.
    """

    @property
    def lipschitz(self) -> float:
        """L."""

    @property
    def smoothness(self) -> float:
        """beta."""

    def gradient(self, theta: Array, x: Array, y: float) -> Array:
        """(n,), (n,), a label -> (n,)."""


@dataclass(frozen=True)
class MarginLoss:
    """A loss of the prediction m = x . theta and the label: gradient = slope(m, y) x.

    >>> squared = named_loss("squared", label_bound=1.0, radius=2.0)
    >>> squared.slope(0.5, 1.0), squared.lipschitz
    (-0.5, 3.0)
    """

    name: str  # as users give it
    slope: Callable[[float, float], float]  # derivative in m, of (m, y)
    bend: Callable[[float, float], float]  # second derivative
    lipschitz: float  # largest |slope|
    smoothness: float  # largest derivative of the slope
    labels: tuple[float, float]  # their range
    typical: float  # a slope to expect, from public quantities

    def gradient(self, theta: Array, x: Array, y: float) -> Array:
        return self.slope(float(x.dot(theta)), y) * x


def named_loss(name: str, *, label_bound: float, radius: float) -> MarginLoss:
    """squared (m - y)^2/2, logistic log(1 + e^m) - y m, or Huber's, turning at label_bound/4.

    Labels lie in [-label_bound, label_bound], for the logistic loss in [0, 1].
    """
    bound = positive("label_bound", label_bound)
    one_of("loss", name, LOSSES)
    if name == "logistic":
        if bound != 1:
            raise ValueError(f"logistic labels lie in [0, 1]: label_bound is 1, not {bound:g}")
        # |sigma(m) - y| <= 1, and sigma' <= 1/4.
        return MarginLoss(name, _logistic, _logistic_bend, 1.0, 0.25, (0.0, 1.0), 1.0)
    labels = (-bound, bound)
    if name == "squared":
        # |m - y| <= radius + bound, as |m| <= |x|_q |theta|_p.
        return MarginLoss(name, _residual, _one, radius + bound, 1.0, labels, bound)
    turn = bound / 4

    def huber(m: float, y: float) -> float:
        return min(max(m - y, -turn), turn)

    def bend(m: float, y: float) -> float:
        return float(abs(m - y) <= turn)

    return MarginLoss(name, huber, bend, min(turn, radius + bound), 1.0, labels, bound)


def _residual(m: float, y: float) -> float:
    return m - y


def _one(m: float, y: float) -> float:
    return 1.0


def _logistic_bend(m: float, y: float) -> float:
    p = _logistic(m, 0.0)
    return p * (1 - p)


def _logistic(m: float, y: float) -> float:
    if m < 0:
        e = math.exp(m)
        return e / (1 + e) - y
    return 1 / (1 + math.exp(-m)) - y


class Problem:
    """Minimise E f(theta; x, y) over a domain measured in l_p, for rows with |x|_q <= 1.

    p is that of an lp ball, 1 if all vertices lie on the axes, else 2; 1/p + 1/q = 1. Longer rows
    are shortened and labels beyond the public bounds clipped, each by itself; what is not a number
    is refused, in words that do not quote it.

    domain        of theta
    loss          "squared", "logistic" or a `Loss`
    label_bound   public bound of |y|
    """

    def __init__(self, domain: Domain, loss: str | Loss, label_bound: float) -> None:
        self.domain = as_domain(domain)
        self.dim = domain.dim
        self.label_bound = public_bound("label_bound", label_bound)
        self.p, self.radius = _norm_of(domain)
        self.q = math.inf if self.p == 1 else self.p / (self.p - 1) if self.p < math.inf else 1.0
        if isinstance(loss, str):
            loss = named_loss(loss, label_bound=self.label_bound, radius=self.radius)
        self.loss = _checked_loss(loss)
        self.margin = loss if isinstance(loss, MarginLoss) else None
        plain = (-self.label_bound, self.label_bound)
        self.labels = self.margin.labels if self.margin else plain
        self.typical = self.margin.typical if self.margin else self.loss.lipschitz
        self.diameter = domain.diameter(self.p)
        # |g|_2 <= n^(1/2 - 1/q) |g|_q for q > 2, and |g|_2 <= |g|_q for q <= 2.
        self.stretch = self.dim ** max(0.0, 0.5 - 1 / self.q)
        # A row of unit l_q norm with entries alike has this l2 norm.
        self.typical_row = self.dim ** (0.5 - 1 / self.q)

    def l2_bound(self, given: float | None, rule: float = math.inf) -> float:
        """How long one gradient may be in l2: the worst case, or what is given or usual if less."""
        asked = rule if given is None else public_bound("gradient_bound", given)
        return min(float(self.loss.lipschitz * self.stretch), asked)

    def row(self, x: ArrayLike) -> Array:
        """One row, shortened to |x|_q <= 1."""
        row = numbers("x", x)
        if row.shape != (self.dim,):
            raise ValueError(f"x must have shape ({self.dim},), got {row.shape}")
        top = float(np.maximum.reduce(np.abs(row)))
        if top <= 1:  # else a power could overflow; False for NaN
            return row if math.isinf(self.q) else row / max(norm(row, self.q), 1.0)
        row = finite("x", row) / top  # a row beyond the public bounds
        return np.asarray(row / norm(row, self.q))

    def label(self, y: Any) -> float:
        """One label, clipped to the public range."""
        label = number("y", y)
        if not math.isfinite(label):
            raise ValueError("y must be finite: it is NaN or infinity; drop or impute first")
        return min(max(label, self.labels[0]), self.labels[1])

    def gradient(self, theta: Array, x: Array, y: float) -> Array:
        g = self.loss.gradient(theta, x, y)
        if self.margin is None:
            g = finite("the gradient", g)
            if g.shape != x.shape:
                raise ValueError(f"the gradient must have shape {x.shape}, got {g.shape}")
        return g


def norm(x: Array, q: float) -> float:
    """|x|_q of one vector."""
    if q == 2:
        return math.sqrt(x.dot(x))
    size = np.abs(x)
    if q == 1:
        return float(np.add.reduce(size))
    top = float(np.maximum.reduce(size))
    if math.isinf(q) or not top < math.inf:
        return top
    top = max(top, math.ulp(0.0))  # zeros take the same way, and come out as 0
    size = size / top  # else powers of small entries vanish: 0.4^1001 is 0
    return top * math.pow(float((size ** (q - 1)).dot(size)), 1 / q)  # size^(q-1): fast for q = 3


def clipped(g: Array, bound: float, q: float = 2.0) -> Array:
    """g, scaled so that |g|_q <= bound; zeros if its length is not finite."""
    length = norm(g, q)
    if not length < math.inf:
        return np.zeros_like(g)
    return g * min(1.0, bound / max(length, 1e-200))  # no branch: times tell nothing


def _norm_of(domain: Domain) -> tuple[float, float]:
    """p, and at least the l_p norm of every point of the domain."""
    if domain.axis_vertices is not None:
        return 1.0, domain.axis_vertices.radius
    if domain.lp_shape is not None:
        return domain.lp_shape
    return 2.0, float(np.linalg.norm(domain.interior_point)) + domain.diameter(2.0)


def _checked_loss(loss: Loss) -> Loss:
    if not isinstance(loss, Loss):
        raise ValueError(
            "loss must be squared, logistic, huber, or an object with gradient, lipschitz and "
            f"smoothness; got {type(loss).__name__}"
        )
    positive("loss.lipschitz", loss.lipschitz)
    if not 0 <= loss.smoothness < math.inf:
        raise ValueError(f"loss.smoothness must be at least 0, got {loss.smoothness!r}")
    return loss
