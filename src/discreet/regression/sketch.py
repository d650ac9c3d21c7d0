"""How residuals spread, from one histogram, and what to expect of each clip that could be chosen.

    z = |r| / s(phi)      a residual over the scale that it should have (`steps.py`)
    c                     a clip: residuals are cut at c s(phi)

Everything here is post-processing of a released histogram, but for `counted`, which counts.
"""

import math
from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import NDArray

from discreet.arrays import Array

LEVELS = 2.0 ** (np.arange(-10, 8) / 2)  # upper edges of the bins of z
LOWER = np.append(0.0, LEVELS[:-1])
CLIPS = 2.0 ** (np.arange(-5, 15) / 4)  # candidates for c; shorter ones lose what is still far off
NORMAL = np.diff(np.append(2 * scipy.special.ndtr(LEVELS[:-1]) - 1, 1.0), prepend=0.0)
SURE = 2.5  # standard deviations by which a count must stand out: 1 of 80 by chance
SKEW = 0.05  # of what lies beyond a clip, how much more may be on one side before a sketch tells
EXPONENTIAL = 1 - 2 / math.e  # how many more errors of this law are on the one side than the other
UNEVEN = 0.5  # of what a sketch sees on one side, how much kappas do not explain


@dataclass(frozen=True)
class Spread:
    """How z is distributed, and how one-sidedly."""

    levels: Array  # fractions of the rows
    odd: Array  # (2, levels): of r > 0 over r < 0, of r with the prediction over r against it
    odd_variance: Array  # (levels,), of its noise; boundless before the sketch
    hidden: float  # square of what noise may hide of `irregular`

    @property
    def irregular(self) -> float:
        """How far residuals are from a normal or a symmetric law, in Kolmogorov's distance.

        The share of the rows, at the level where it is largest, by which more or fewer are beyond
        it than normal ones would be; or more on one side, of 0 or with the prediction, than on the
        other. What noise may hide of it is in it, too.
        """
        unlike = np.vstack([self.levels - NORMAL, self.odd])
        beyond = np.cumsum(unlike[:, ::-1], axis=1)
        return min(math.hypot(float(np.max(np.abs(beyond))), math.sqrt(self.hidden)), 1.0)


AS_NORMAL = Spread(NORMAL, np.zeros((2, len(LEVELS))), np.full(len(LEVELS), 1e18), EXPONENTIAL**2)


@dataclass(frozen=True)
class Clips:
    """What to expect of each candidate, and of the one that cuts nothing; in units of s."""

    at: Array  # c
    slope: Array  # P(z <= c)
    inner: Array  # E[z^2; z <= c]
    second: Array  # E min(z, c)^2
    hidden: Array  # square of the mean that clipping may hide, of both kinds of sides together

    @classmethod
    def of(cls, spread: Spread, largest: float, uneven: float = UNEVEN) -> "Clips":
        """Candidates up to the largest z, residuals even over their bins.

        What one-sided tails hide counts by `uneven` of what stands out of the noise v of a sketch,
        or by what is left of a prior N(0, p) after it, p v / (p + v), p^(1/2) a part SKEW of all
        that lies beyond the clip.
        """
        levels = spread.levels
        upper = np.append(LEVELS[:-1], max(LEVELS[-1], largest))
        at = np.append(CLIPS[largest > CLIPS], largest)
        c = at[:, None]
        width = upper - LOWER
        over, cut, square = (
            (np.maximum(upper - a, 0.0) ** k - np.maximum(LOWER - a, 0.0) ** k) / (k * width)
            for a, k in ((c, 2), (c, 3), (0.0, 3))
        )
        within = np.minimum(upper, np.maximum(c, LOWER))
        p = (SKEW * over @ levels)[:, None] ** 2
        v = (over**2 @ spread.odd_variance)[:, None]
        left = p * v / np.maximum(p + v, 1e-300)
        seen = (over @ spread.odd.T) ** 2 - SURE**2 * v
        return cls(
            at=at,
            slope=np.maximum(np.clip((c - LOWER) / width, 0.0, 1.0) @ levels, 0.02),
            inner=(within**3 - LOWER**3) / (3 * width) @ levels,
            second=(square - cut - 2 * c * over) @ levels,
            hidden=np.maximum(uneven**2 * seen, left).sum(axis=1),
        )

    def least_error(self, nu: float, eigenvalues: Array, n: float, noise: float) -> int:
        """The place of the clip of the least variance, the mean over whitened directions of

            (second nu / h + (noise R / h)^2 + hidden nu n / sum h) / slope^2,  R = min(c s, 1)

        for n rows and h = n times the eigenvalues of H: rare directions are noise before others.
        """
        h = n * eigenvalues
        R = np.minimum(self.at * math.sqrt(nu), 1.0)
        labels = nu * self.second * float(np.mean(1 / h))
        release = (noise * R) ** 2 * float(np.mean(1 / h**2))
        bias = nu * self.hidden / float(np.sum(eigenvalues))
        error = (labels + release + bias) / self.slope**2
        # Ties to nine digits go to the first: rows added up in another order must not choose anew.
        return int(np.argmin(np.round(error / error.min(), 9)))


def spread_of(released: Array, std: float, n: int, possible: NDArray[np.bool_]) -> Spread:
    """From noisy counts (2, 2, levels) by the signs of r and of the prediction.

    Levels are drawn to those of a normal distribution by Stein's estimator; at twice the noise they
    are that. What is counted where no residual is `possible` is noise.
    """
    sides = released * possible
    counts = sides.sum(axis=(0, 1))
    sure = counts > SURE * 2 * std  # of a sum of four counts
    levels = np.where(sure, counts, 0.0) / max(float(counts[sure].sum()), 1.0)
    noise = np.count_nonzero(possible) * (2 * std / n) ** 2
    change = (counts / n - NORMAL) * possible
    keep = max(1 - 2 * noise / max(float(change @ change), 1e-300), 0.0)
    (a, b), (c, d) = sides  # r > 0 with and against the prediction, r < 0 against and with it
    odd = np.array([a + b - c - d, a + d - b - c]) / n * sure
    square = (2 * std / n) ** 2
    # A distance is a sum of levels. Unseen, errors may be as skewed as exponential ones.
    hidden = len(LEVELS) * square
    hidden *= EXPONENTIAL**2 / (EXPONENTIAL**2 + hidden)
    return Spread(NORMAL + keep * (levels - NORMAL), odd, square * sure, hidden)


def counted(r: Array, s: Array, prediction: Array) -> Array:  # (4 levels,)
    """How many rows have which z, sign of r and sign of the prediction: one count each."""
    level = np.minimum(np.searchsorted(LEVELS, np.abs(r) / s), len(LEVELS) - 1)
    side = 2 * (r < 0) + (prediction < 0)
    counts = np.bincount(side * len(LEVELS) + level, minlength=4 * len(LEVELS))
    return counts.astype(np.float64)
