"""How much counts vary around their mean nu: Poisson, or more, as a histogram tells.

    Var(y) = nu (base + growth nu)      (1, 0) is Poisson; more is negative binomial
    q = ((y - nu)^2 - y) / nu           its mean is Var(y) / nu - 1 (Cameron and Trivedi 1990)

q is cut at LARGEST and added up in bins of nu; the candidate whose means of q fit the noisy sums
best is taken, and Poisson where none fits clearly better.
"""

import math
from dataclasses import dataclass
from functools import lru_cache, partial

import numpy as np
import scipy

from discreet.arrays import Array
from discreet.links import BoundedLink
from discreet.regression.rows import Parts
from discreet.regression.sample import Sample

LARGEST = 16.0  # at which q is cut
WEIGHT = 2.0  # of q / LARGEST against counts of rows, in the release
# A row adds (1, WEIGHT q / LARGEST) to one bin, and |q| <= LARGEST. Replaced, it leaves one bin and
# enters another, 2 (1 + WEIGHT^2) in squares, or stays in its bin and moves by at most 2 WEIGHT.
MOVES = math.sqrt(max(2 * (1 + WEIGHT**2), (2 * WEIGHT) ** 2))
EVIDENCE = 4.0  # by which chi^2 must fall before a candidate is preferred to Poisson
EDGES = 2.0 ** np.arange(-3, 17)  # of bins of nu
MIDDLES: Array = np.asarray(2.0 ** (np.arange(len(EDGES) + 1) - 3.5), dtype=np.float64)
POINTS = 300  # at most so many values of y where means of q are computed
MORE = 2.0 ** (np.arange(41) / 6)  # values of Var(y) / nu where they are
HUGE = 1e9  # means beyond it are as good as normal; exact functions become slow there
LEVELS = 2.0 ** (np.arange(-48, 49) / 8)  # candidates for base - 1, and for growth


@dataclass(frozen=True)
class Dispersion:
    """The model of counts with mean nu.

    >>> Dispersion().below(np.array([2.0]), np.array([0.0]))[0].round(3)  # e^-2
    array([0.135])
    >>> Dispersion(base=2.0).below(np.array([2.0]), np.array([0.0]))[0].round(3)  # 2^-2
    array([0.25])
    """

    base: float = 1.0  # Var(y) / nu where nu is small
    growth: float = 0.0  # how it grows with nu

    @property
    def poisson(self) -> bool:
        """Whether counts vary no more than Poisson's."""
        return self.base == 1 and self.growth == 0

    def at(self, nu: Array) -> Array:
        """Var(y) / nu."""
        return self.base + self.growth * nu

    def below(self, nu: Array, k: Array) -> tuple[Array, Array]:
        """P(Y <= k) and E[Y; Y <= k] / nu, for integers k >= -1."""
        if self.poisson:  # y p(y) = nu p(y - 1)
            return _poisson(k, nu), _poisson(k - 1, nu)
        more = self.at(nu)  # y p(y; s) = nu p(y - 1; s + 1), s the size
        size = nu / (more - 1)
        return _binomial(k, size, more), _binomial(k - 1, size + 1, more)


CANDIDATES = (
    Dispersion(),
    *(Dispersion(base=float(1 + level)) for level in LEVELS),
    *(Dispersion(growth=float(level)) for level in LEVELS),
)
BASES = np.array([each.base for each in CANDIDATES])
GROWTHS = np.array([each.growth for each in CANDIDATES])


def released_dispersion(
    sample: Sample, model: BoundedLink, theta: Array, uncertainty: float
) -> tuple[Dispersion, float]:
    """The model that explains the histogram, and its Var(y) / nu where the information is.

    `uncertainty` is the variance of t at theta, which looks like growth.
    """
    released, record = sample.release(
        partial(histogram, model, theta),
        lambda parts: np.append(parts[0], WEIGHT * parts[1]),
        sensitivity=sample.problem.budget.contributions * MOVES,
        what="histogram of deviations",
    )
    rows, sums = np.split(released, 2)
    std = record.scale
    enough = rows > 5 * std + 10
    rows = np.where(enough, rows, 1.0)
    scale = LARGEST / WEIGHT
    averages = scale * sums / rows
    variance = (scale**2 + averages**2) * (std / rows) ** 2  # of the noise
    variance += 2 * (1 + np.maximum(averages, 0.0)) ** 2 / rows  # of q
    chi = np.where((BASES > 1) | (GROWTHS > 0), EVIDENCE, 0.0)
    for nu, seen, average, error in zip(MIDDLES, enough, averages, variance, strict=True):
        more = BASES + (GROWTHS + uncertainty) * nu
        fitted = np.interp(more, MORE, _means_of_q(float(nu), model.unit))
        chi += seen * (average - fitted) ** 2 / error
    chosen = CANDIDATES[int(np.argmin(chi))]
    information = enough * rows * MIDDLES
    total = float(information.sum())
    return chosen, float(information @ chosen.at(MIDDLES)) / total if total else chosen.base


def histogram(model: BoundedLink, theta: Array, X: Array, y: Array) -> Parts:
    """In each bin of nu: the number of rows, and the sum of q / LARGEST."""
    nu = means(model, theta, X)
    bins = np.searchsorted(EDGES, nu)
    rows = np.bincount(bins, minlength=len(MIDDLES)).astype(np.float64)
    q = _cut(labels(model, y), nu) / LARGEST
    return rows, np.bincount(bins, q, minlength=len(MIDDLES)).astype(np.float64)


def means(model: BoundedLink, theta: Array, X: Array) -> Array:
    """nu of every row, in counts; positive."""
    return np.maximum(model.mean(X @ theta) * model.unit, 1e-12)


def labels(model: BoundedLink, y: Array) -> Array:
    """Labels of a `Problem` in counts, inside [0, label_bound]."""
    return np.clip(y, 0.0, 1.0) * model.unit


# -- inside ----------------------------------------------------------------------------------------


def _cut(y: Array, nu: Array | float) -> Array:
    return np.asarray(np.clip(((y - nu) ** 2 - y) / nu, -LARGEST, LARGEST))


@lru_cache(maxsize=256)
def _means_of_q(nu: float, most: float) -> Array:
    """E[q] for every Var(y) / nu in MORE; q is LARGEST beyond the values of y looked at."""
    width = math.sqrt((LARGEST + 1) * nu) + LARGEST
    least = max(math.floor(nu - width), 0)
    y = np.unique(np.round(np.linspace(least, math.ceil(nu + width), POINTS)))
    q = _cut(np.minimum(y, most), nu)
    found = []
    for more in MORE:
        cdf = Dispersion(base=float(more)).below(np.full(len(y), nu), y)[0]
        found.append(float(np.diff(cdf, prepend=0.0) @ q + q[-1] * (1 - cdf[-1])))
    return np.array(found)


def _poisson(k: Array, nu: Array) -> Array:
    exact = scipy.special.pdtr(np.maximum(k, 0.0), np.minimum(nu, HUGE))
    return np.where(k < 0, 0.0, np.where(nu > HUGE, _normal(k, nu, 1.0), exact))


def _binomial(k: Array, size: Array, more: Array) -> Array:
    nu = size * (more - 1)
    small = np.minimum(size, HUGE / (more - 1))
    exact = scipy.special.betainc(small, np.maximum(k, 0.0) + 1, 1 / more)
    return np.where(k < 0, 0.0, np.where(nu > HUGE, _normal(k, nu, more), exact))


def _normal(k: Array, nu: Array, more: Array | float) -> Array:
    return np.asarray(scipy.special.ndtr((k + 0.5 - nu) / np.sqrt(nu * more)))
