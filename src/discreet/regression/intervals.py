"""What widths and intervals are made of: what is not known of theta, and how labels spread.

    s(phi)^2 = nu + phi' C phi      the variance that a residual at phi is expected to have
    z = |y - <phi, theta>| / s      what is counted: a noisy number of rows in each bin of z

The last sketch of a fit counts z in bins of public edges. A tail of these counts bounds how often
a label is far from its prediction, whatever the distribution of its error is: an interval of z_q s
on both sides holds with probability q, where z_q is the least z beyond which at most 1 - q of the
rows are counted, a standard deviation of the counts' noise included.
"""

import math
from dataclasses import dataclass

import numpy as np

from discreet.arrays import Array
from discreet.least_squares import Whitening, power
from discreet.state import value

ONE_VALUE = 0.5  # of the rows in one bin: a normal distribution has at most .2
SURE = 1.0  # standard deviations of the noise of the counts, on the safe side


@value
@dataclass(frozen=True)
class Residuals:
    """Counts of standardised residuals, as released."""

    edges: Array  # (bins,), upper edges of z; the last bin has no upper edge
    counts: Array  # (bins,), with noise
    std: float  # of the noise of each count
    rows: int  # how many were counted
    variance: float  # of a residual, as it was supposed when z was counted: mean of s^2

    def quantile(self, probability: float) -> float:
        """z_q; infinite where the counts cannot tell."""
        # beyond[j]: the fraction of the rows beyond edge j, which sums bins j + 1, j + 2, ...
        tails = np.append(np.cumsum(self.counts[:0:-1])[::-1], 0.0)
        bins = np.arange(len(self.counts))[::-1]
        beyond = (tails + SURE * self.std * np.sqrt(bins)) / self.rows
        # No fewer rows are beyond a smaller edge; noise must not say otherwise.
        beyond = np.maximum.accumulate(beyond[::-1])[::-1]
        allowed = 1 - probability
        enough = np.flatnonzero(beyond[:-1] <= allowed)
        if not len(enough):
            return math.inf
        j = int(enough[0])
        lower, above = (0.0, 1.0) if j == 0 else (self.edges[j - 1], beyond[j - 1])
        # Residuals are spread evenly over their bin, or lie nearer to its lower edge. But a bin of
        # half an octave with most of the rows may have but one value, anywhere in it.
        if above - beyond[j] > ONE_VALUE:
            return float(self.edges[j])
        part = (above - allowed) / max(above - beyond[j], 1e-300)
        return float(lower + min(max(part, 0.0), 1.0) * (self.edges[j] - lower))


def unseen(gram: Array, noise: float, whitening: Whitening) -> Array:
    """The prior's variance for directions whose rows do not stand out of the Gram matrix's noise.

    Shrinking lends them information that they do not have: the estimate may use it, the width not.
    """
    values, vectors = np.linalg.eigh(gram)
    hidden = whitening.transform(vectors[:, values < 2 * noise].T)
    hidden = hidden / np.maximum(np.linalg.norm(hidden, axis=1, keepdims=True), 1e-300)
    return np.asarray(hidden.T @ hidden / len(gram))


def inverse(information: Array) -> Array:
    """The covariance, no variance above 1: directions without information are the prior's."""
    return power(information, -1.0, floor=1.0)
