"""Losses of a linear prediction x . theta, with the bounds that privacy needs.

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
from typing import Protocol, runtime_checkable

from discreet.arrays import Array, one_of, positive

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
        """slope(x . theta, y) x."""
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
