"""Intervals that hold at every look, from sums that were released with noise of a known law.

Values lie in [0, 1]; how many there are is public. For a value y with mean m given the past, and
any number l (a bet),

    E exp(l y)        <=  1 + m (exp(l) - 1)             a coin is the worst case
    E exp(l (y - m))  <=  exp(phi(l) m (1 - m)),         phi(l) = exp|l| - 1 - |l|    (Bennett)

so with S the sum of n values, exp(l S - n log(1 + m (exp(l) - 1))) has mean at most 1, also where
means vary and m is their average, because the logarithm is concave. Where S is released as
S~ = S + N(0, s^2), with noise that is independent of everything, so has

    exp(l S~ - l^2 s^2 / 2 - n log(1 + m (exp(l) - 1)))

because E exp(l N(0, s^2)) = exp(l^2 s^2 / 2). A product over releases with fresh noise, averaged
over bets that were fixed beforehand, is an e-process: it ever reaches 1/alpha with probability at
most alpha (Ville). The means that it has not reached are an interval that holds at all looks.

Where the noise of several releases hangs together (running sums), each look is one release: the
best bet gives Chernoff's bound, and the looks share alpha.

Where values are no coins, their variance is less than m (1 - m): less by the mean of y (1 - y),
whose sum is released beside that of y and costs nothing. With a lower bound g of that mean,

    E exp(l (y - m))  <=  exp(phi(l) (m (1 - m) - g))

In a release y has a weight h, and y (1 - y) the weight SPREAD h. A replaced value moves the two by

    h^2 (a - b)^2 (1 + SPREAD^2 (1 - a - b)^2)  <=  h^2 d^2 (1 + SPREAD^2 (1 - d)^2)  <=  h^2

with d = |a - b|, because |1 - a - b| <= 1 - d for a, b in [0, 1], and SPREAD^2 is the least of
(1 + d) / (d^2 (1 - d)): the golden ratio's fifth power, where d is its inverse.

References: Robbins (1970); Howard, Ramdas, McAuliffe, Sekhon (2021); Waudby-Smith and Ramdas
(2024). That the noise enters as its own moment generating function is what is new here.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy

from discreet.arrays import Array

NODES = np.linspace(-4, 4, 65)  # of a normal distribution of bets, in its standard deviations
WIDEST = 1.5  # no bet is larger: beyond, phi grows much faster than a square
# The interval is the narrowest where the bets' precision is V/12, V the variance of the sum: for
# log(1/alpha) between 3 and 6, minimise (r + V) (log((r + V) / r) + 2 log(1/alpha)) over r.
NARROWEST = 12.0
EXACT = 1e-9  # an end of an interval, outwards
SPREAD = math.sqrt(((1 + math.sqrt(5)) / 2) ** 5 * (1 - 1e-12))  # 3.330


def confident(confidence: float) -> float:
    if not 0 < confidence < 1:
        raise ValueError(f"confidence must lie between 0 and 1, got {confidence!r}")
    return float(confidence)


@dataclass(frozen=True)
class Interval:
    """An estimate, and where the truth lies."""

    estimate: float  # the middle
    low: float  # end of the interval
    high: float  # the same, above

    @property
    def half_width(self) -> float:
        """Half the distance of the ends."""
        return (self.high - self.low) / 2

    def scaled(self, factor: float, shift: float = 0.0) -> "Interval":
        """In other units: times a positive factor, plus a shift."""
        ends = (self.estimate, self.low, self.high)
        return Interval(*(shift + factor * each for each in ends))

    def __str__(self) -> str:
        return f"{self.estimate:.3g} ({self.low:.3g} to {self.high:.3g})"


@dataclass(frozen=True)
class Bets:
    """Bets l, and how what they earn is summed up: averaged, or the best of them."""

    sizes: Array  # (bets,)
    log_weights: Array | None  # (bets,), of the average; None: the best, for a single look

    @classmethod
    def mixture(cls, variances: Array, weights: Array) -> "Bets":
        """Normal bets, best for sums of these variances; public, before the first release.

        >>> bets = Bets.mixture(np.array([300.0]), np.ones(1))
        >>> round(float(np.exp(bets.log_weights) @ bets.sizes**2), 3)  # 12 / 300
        0.04
        """
        precisions = np.maximum(variances / NARROWEST, (NODES[-1] / WIDEST) ** 2)
        sizes = NODES / np.sqrt(precisions)[:, None]
        normal = np.exp(-NODES * NODES / 2)
        products = weights[:, None] * normal / normal.sum()
        return cls(sizes.ravel(), np.log(products / weights.sum()).ravel())

    @classmethod
    def best(cls) -> "Bets":
        """The best of many, of either sign: each one alone would be valid, at one look."""
        sizes = np.geomspace(1e-5, 2.0, 100)
        return cls(np.concatenate([-sizes, sizes]), None)

    @cached_property
    def gains(self) -> Array:
        return np.expm1(self.sizes)

    @cached_property
    def risks(self) -> Array:
        return phi(self.sizes)

    @cached_property
    def halves(self) -> Array:
        return self.sizes**2 / 2

    def earned(self, exponents: Array) -> float:
        """The logarithm of what all of them have earned."""
        if self.log_weights is None:
            return float(exponents.max())
        weighted = self.log_weights + exponents
        top = float(weighted.max())
        return top + math.log(float(np.exp(weighted - top).sum()))  # scipy's takes 5 times as long


def phi(bets: Array) -> Array:
    sizes = np.abs(bets)
    return np.asarray(np.expm1(sizes) - sizes)


@dataclass(frozen=True)
class Mean:
    """What was released about the mean of values in [0, 1]."""

    total: float  # of the values, with noise
    count: float  # of the values
    noise: float  # variance of the noise in the total
    spread: float = 0.0  # lower bound of the mean of y (1 - y)

    def __add__(self, other: "Mean") -> "Mean":
        return Mean(self.total + other.total, self.count + other.count, self.noise + other.noise)

    @property
    def estimate(self) -> float:
        return min(max(self.total / self.count, 0.0), 1.0)

    def against(self, bets: Bets, mean: float) -> float:
        """How much bets against this mean have earned, as a logarithm."""
        expected = np.log1p(mean * bets.gains)
        if self.spread > 0:
            # Below 0 where no mean can be, so that what is earned is convex in it, and the means
            # that are left are an interval.
            calm = bets.sizes * mean + bets.risks * (mean * (1 - mean) - self.spread)
            expected = np.minimum(expected, calm)
        return bets.earned(
            bets.sizes * self.total - self.count * expected - bets.halves * self.noise
        )

    def interval(self, bets: Bets, limit: float) -> Interval:
        """The means against which less than `limit` (a logarithm) was earned."""
        # m (1 - m) is no less than the spread.
        reach = math.sqrt(max(0.25 - self.spread, 0.0))
        middle = min(max(self.estimate, 0.5 - reach), 0.5 + reach)
        return _below(lambda mean: self.against(bets, mean) - limit, middle, (0.0, 1.0))

    def least(self, bets: Bets, limit: float) -> float:
        """The lower end of that alone."""
        return _end(lambda mean: self.against(bets, mean) - limit, self.estimate, 0.0)


@dataclass(frozen=True)
class Difference:
    """What was released about the difference of two means, values in [0, 1]."""

    total: float  # sum of c_j (difference in release j), with noise
    weight: float  # sum of c_j, c = n m / (n + m) for groups of n and m
    noise: float  # variance of the noise in the total
    variance: float  # bound on the sum of weighted variances of the values

    def __add__(self, other: "Difference") -> "Difference":
        return Difference(
            self.total + other.total,
            self.weight + other.weight,
            self.noise + other.noise,
            self.variance + other.variance,
        )

    @property
    def estimate(self) -> float:
        return min(max(self.total / self.weight, -1.0), 1.0)

    def against(self, bets: Bets, difference: float) -> float:
        """How much bets against this difference have earned, as a logarithm."""
        gains = bets.sizes * (self.total - self.weight * difference)
        return bets.earned(gains - bets.risks * self.variance - bets.halves * self.noise)

    def interval(self, bets: Bets, limit: float) -> Interval:
        """The differences against which less than `limit` (a logarithm) was earned."""
        return _below(lambda u: self.against(bets, u) - limit, self.estimate, (-1.0, 1.0))


def difference(one: Mean, other: Mean) -> Difference:
    """The first mean minus the second; how much values vary, whoever reads it bounds.

    Each value of the first group weighs m / (n + m), of the second n / (n + m).
    """
    n, m = one.count, other.count
    first, second = m / (n + m), n / (n + m)
    return Difference(
        first * one.total - second * other.total,
        n * first,
        first**2 * one.noise + second**2 * other.noise,
        0.0,
    )


def largest_variance(means: Interval, spread: float = 0.0) -> float:
    """Of values in [0, 1] whose mean lies there, and of whose y (1 - y) the mean is no less.

    >>> largest_variance(Interval(0.1, 0.05, 0.2)), largest_variance(Interval(0.4, 0.3, 0.6), 0.2)
    (0.16000000000000003, 0.04999999999999999)
    """
    nearest = min(max(0.5, means.low), means.high)
    return max(nearest * (1 - nearest) - spread, 0.0)


def _below(excess: Callable[[float], float], middle: float, far: tuple[float, float]) -> Interval:
    """The interval around the middle where this is below 0; all of it, where not the middle is.

    Where means vary more than a single mean allows, nothing is said.
    """
    return Interval(middle, *(_end(excess, middle, each) for each in far))


def _end(excess: Callable[[float], float], middle: float, far: float) -> float:
    """Where this stops being below 0 on the way from the middle, a little farther out."""
    if excess(far) < 0 or excess(middle) >= 0:
        return far
    found = float(scipy.optimize.brentq(excess, middle, far, xtol=EXACT / 2))
    return max(found - EXACT, far) if far < middle else min(found + EXACT, far)
