"""Links of generalised linear models: E[y | x] = nu(<x, theta>), on a bounded domain.

    paper   nu          nu'          l_nu              mu_nu        L_nu
    here    link.mean   link.slope   link.integral     .least       .largest

The loss is the integral of the residual, l(t, y) = N(t) - y t with N' = nu: convex, and its
gradient in t is nu(t) - y whatever the link. mu_nu and L_nu are taken over the domain that is
really used, `link.within(bound, label_bound)`: |t| <= bound, and nu(t) in the range of labels.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import ArrayLike

from discreet.arrays import Array, one_of, positive
from discreet.state import register, value

Function = Callable[[Array], Array]


@dataclass(frozen=True)
class Link:
    """A mean function nu, increasing, with its derivative and its integral.

    `slope` is largest at `steepest` and decreases on both sides of it, so that its extremes over
    an interval are at the ends and at the point nearest to `steepest`.

    >>> link("logistic").mean(np.array([0.0, 2.0])).round(3)
    array([0.5  , 0.881])
    >>> link("logistic").slopes(-2.0, 2.0)  # mu_nu and L_nu
    (0.104..., 0.25)
    """

    name: str  # as users give it
    mean: Function  # nu(t)
    slope: Function  # nu'(t)
    integral: Function  # N(t), N(0) arbitrary
    inverse: Callable[[float], float]  # nu^-1, +-inf outside its range
    steepest: float  # t with the largest slope
    predictor_bound: float  # default of |t|, in units of the label bound where linear
    signed: bool  # whether labels may be negative
    dispersion: float  # Var(y | x) <= dispersion * nu'(t), in units of the label bound if signed

    def loss(self, t: ArrayLike, y: ArrayLike) -> Array:
        """l(t, y) = N(t) - y t, whose derivative in t is nu(t) - y."""
        t = np.asarray(t, dtype=np.float64)
        return np.asarray(self.integral(t) - np.asarray(y) * t)

    def slopes(self, low: float, high: float) -> tuple[float, float]:
        """(mu_nu, L_nu): the least and the largest slope over [low, high]."""
        if not low < high:
            raise ValueError(f"expected low < high, got low={low!r}, high={high!r}")
        ends = self.slope(np.array([low, high]))
        top = self.slope(np.array([min(max(self.steepest, low), high)]))
        return float(ends.min()), float(top[0])

    def range(self, low: float, high: float) -> tuple[float, float]:
        """(nu(low), nu(high)): nu increases."""
        values = self.mean(np.array([low, high]))
        return float(values[0]), float(values[1])

    def within(self, bound: float, label_bound: float = 1.0) -> "BoundedLink":
        """This link for |t| <= bound and labels in [0, label_bound] (or +-label_bound)."""
        bound = positive("bound", bound)
        unit = positive("label_bound", label_bound)
        # A mean of labels lies in their range: no t beyond nu^-1 of that range can be right.
        low = max(-bound, self.inverse(-unit if self.signed else 0.0))
        high = min(bound, self.inverse(unit))
        if not low < high:
            raise ValueError(
                f"with link={self.name!r} no mean in the range of labels is attainable; "
                "raise label_bound or coef_bound"
            )
        return BoundedLink(self, low, high, unit)


@value
@dataclass(frozen=True)
class BoundedLink:
    """nu / unit on [low, high], constant outside; labels are divided by unit too.

    The loss it belongs to is convex on the real line: beyond the domain it is linear.

    >>> logistic = link("logistic").within(5.0)
    >>> logistic.residual(0.0), round(logistic.residual(), 3)  # nu = .5, and nu in [.007, .993]
    (0.5, 0.993)
    """

    link: Link  # nu
    low: float  # least t
    high: float  # largest t
    unit: float  # label bound, by which means and labels are divided

    def mean(self, t: Array) -> Array:
        """nu(t) / unit."""
        return self.link.mean(self._inside(t)) / self.unit

    def slope(self, t: Array) -> Array:
        """nu'(t) / unit at the nearest point of the domain: positive everywhere."""
        return self.link.slope(self._inside(t)) / self.unit

    def loss(self, t: Array, y: Array) -> Array:  # y in units of the label bound
        """The integral of mean(t) - y."""
        t = np.asarray(t, dtype=np.float64)
        inside = self._inside(t)
        value = self.link.loss(inside, y * self.unit) / self.unit
        return np.asarray(value + (self.mean(t) - y) * (t - inside))

    @property
    def least(self) -> float:
        """mu_nu, the least slope."""
        return self.link.slopes(self.low, self.high)[0] / self.unit

    @property
    def largest(self) -> float:
        """L_nu, the largest slope."""
        return self.link.slopes(self.low, self.high)[1] / self.unit

    @property
    def labels(self) -> tuple[float, float]:
        """The range of labels, in units of the label bound."""
        return (-1.0 if self.link.signed else 0.0), 1.0

    def residuals(self, t: Array) -> Array:
        """The largest |y - nu(t)| over all labels y, at each t; never below half their range."""
        least, most = self.labels
        mean = self.mean(t)
        return np.maximum(most - mean, mean - least)

    def residual(self, bound: float = math.inf) -> float:
        """r: |y - nu(t)| <= r for every label and every |t| <= bound."""
        # A maximum of an increasing and a decreasing function is largest at an end.
        return float(self.residuals(np.array([-bound, bound])).max())

    @property
    def dispersion(self) -> float:
        """Var(y | x) <= dispersion * slope(t), in the units of `mean` and `slope`."""
        return self.link.dispersion * (self.unit if self.link.signed else 1 / self.unit)

    def _inside(self, t: Array) -> Array:
        return np.clip(t, self.low, self.high)


def _normal_density(t: Array) -> Array:
    return np.asarray(np.exp(-(t**2) / 2) / math.sqrt(2 * math.pi))


def _quantile(p: float) -> float:
    return float(scipy.special.ndtri(p)) if 0 < p < 1 else math.copysign(math.inf, p - 0.5)


def _logit(p: float) -> float:
    return math.log(p / (1 - p)) if 0 < p < 1 else math.copysign(math.inf, p - 0.5)


LINKS = {
    each.name: each
    for each in (
        # Labels in [-Y, Y] have variance at most Y^2.
        Link(
            name="identity",
            mean=lambda t: 1.0 * t,
            slope=np.ones_like,
            integral=lambda t: t**2 / 2,
            inverse=float,
            steepest=0.0,
            predictor_bound=3.0,
            signed=True,
            dispersion=1.0,
        ),
        # Var(y) <= p (1 - p) = nu'(t) for labels in [0, 1].
        Link(
            name="logistic",
            mean=lambda t: scipy.special.expit(t),
            slope=lambda t: scipy.special.expit(t) * scipy.special.expit(-t),
            integral=lambda t: np.logaddexp(0.0, t),
            inverse=_logit,
            steepest=0.0,
            predictor_bound=10.0,
            signed=False,
            dispersion=1.0,
        ),
        # Phi (1 - Phi) / density is largest at 0, where it is sqrt(2 pi) / 4.
        Link(
            name="probit",
            mean=lambda t: scipy.special.ndtr(t),
            slope=_normal_density,
            integral=lambda t: t * scipy.special.ndtr(t) + _normal_density(t),
            inverse=_quantile,
            steepest=0.0,
            predictor_bound=6.0,
            signed=False,
            dispersion=math.sqrt(2 * math.pi) / 4,
        ),
        # Var(y) = nu(t) = nu'(t) for counts.
        Link(
            name="poisson",
            mean=np.exp,
            slope=np.exp,
            integral=np.exp,
            inverse=lambda p: math.log(p) if p > 0 else -math.inf,
            steepest=math.inf,
            predictor_bound=5.0,
            signed=False,
            dispersion=1.0,
        ),
    )
}


def link(name: str) -> Link:
    """The link of this name: identity, logistic, probit or poisson.

    >>> link("cauchit")
    Traceback (most recent call last):
    ValueError: link must be one of identity, logistic, probit, poisson; got 'cauchit'
    """
    return LINKS[one_of("link", name, tuple(LINKS))]


register(Link, lambda each: each.name, link)
