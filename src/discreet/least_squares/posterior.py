"""The Gaussian posterior of theta, in precision form (Bishop 2006, section 3.3).

    Bishop   S_0^-1   Phi      t          beta^-1 I           S_N^-1                m_N
    here     prior    design   observed   noise_covariance    precision + prior     mean

The prior has mean zero. `precision` and `weighted` hold what was observed, without the prior, so
that the prior can be changed afterwards and observations can be discounted.
"""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from discreet.arrays import Array
from discreet.least_squares.whitening import power

KNOWN = 30.0  # times the first prior's precision: what counts as known
STEPS = 7  # of expectation-maximisation


@dataclass(frozen=True)
class Posterior:
    """theta ~ N(mean, covariance).

    >>> unknown = Posterior.unobserved(np.eye(2))
    >>> once = unknown.observe(np.eye(2), np.array([1.0, 0.0]), 0.25 * np.eye(2))
    >>> once.mean, once.covariance
    (array([0.8, 0. ]), array([[0.2, 0. ],
           [0. , 0.2]]))
    """

    prior: Array  # (d, d), precision
    precision: Array  # (d, d), of the observations without the prior
    weighted: Array  # (d,), precision times the least squares estimate

    @classmethod
    def unobserved(cls, prior: Array) -> "Posterior":
        """N(0, prior^-1)."""
        return cls(prior, np.zeros_like(prior), np.zeros(len(prior)))

    @classmethod
    def from_covariance(cls, covariance: Array) -> "Posterior":
        """N(0, covariance): what was known before, as the prior of what comes."""
        return cls.unobserved(power(covariance, -1.0))

    @cached_property
    def covariance(self) -> Array:
        """S_N = (S_0^-1 + sum Phi' N^-1 Phi)^-1."""
        covariance = power(self.precision + self.prior, -1.0)
        return np.asarray((covariance + covariance.T) / 2)

    @property
    def root(self) -> Array:
        """A with covariance = A A', by one eigendecomposition for both."""
        values, vectors = np.linalg.eigh(self.precision + self.prior)
        return np.asarray(vectors / np.sqrt(np.maximum(values, 1e-14 * values[-1])))

    @cached_property
    def mean(self) -> Array:
        """m_N = S_N (sum Phi' N^-1 t)."""
        return np.asarray(self.covariance @ self.weighted)

    def observe(self, design: Array, observed: Array, noise_covariance: Array) -> "Posterior":
        """After seeing  observed = design theta + noise."""
        return self.seeing(information(design, observed, noise_covariance))

    def seeing(self, term: Array) -> "Posterior":  # (d, d + 1)
        """`observe`, by what `information` makes of an observation."""
        precision = self.precision + term[:, :-1]  # Bishop (3.51), with Phi' N^-1 Phi
        weighted = self.weighted + term[:, -1]  # Bishop (3.50), with Phi' N^-1 t
        return replace(self, precision=(precision + precision.T) / 2, weighted=weighted)

    def discounted(self, factor: float) -> "Posterior":
        """Every observation counts `factor` times: standard errors were too small, or are old."""
        return replace(self, precision=factor * self.precision, weighted=factor * self.weighted)

    def with_prior(self, prior: Array) -> "Posterior":
        """The same observations under another prior precision."""
        return replace(self, prior=prior)

    def with_fitted_prior(self) -> "Posterior":
        """The same observations under a prior whose variances are fitted to them.

        Expectation-maximisation (Bishop 9.63) from 1/d, along the eigenvectors of the precision:
        the variance of a group of directions becomes the mean of m_i^2 + S_ii over it. Directions
        that are known well are one group; for the others, the mean is over all and at least 1/d, so
        that a direction nobody has seen stays unknown.
        """
        d = len(self.weighted)
        values, vectors = np.linalg.eigh(self.precision)
        along = vectors.T @ self.weighted
        known = values > KNOWN * d
        variances = np.full(d, 1.0 / d)
        for _ in range(STEPS):
            left = 1 / (values + 1 / variances)
            squares = np.clip((left * along) ** 2 + left, 1e-8, 1e4)
            of_known = float(squares[known].mean()) if known.any() else 0.0
            variances = np.where(known, of_known, max(float(squares.mean()), 1 / d))
        return self.with_prior(np.asarray((vectors / variances) @ vectors.T))


def information(design: Array, observed: Array, noise_covariance: Array) -> Array:
    """Phi' N^-1 [Phi, t], (d, d + 1), of  observed = design theta + noise."""
    ridge = 1e-12 * max(float(np.trace(noise_covariance)), 1e-12)
    N = noise_covariance + ridge * np.eye(len(noise_covariance))
    right = np.concatenate([design, observed[:, None]], axis=1)
    try:
        return np.asarray(design.T @ np.linalg.solve(N, right))
    except np.linalg.LinAlgError:  # singular by rounding
        return np.asarray(design.T @ power(N, -1.0) @ right)


def log_evidence(
    priors: Array, precision: Array, weighted: Array, along: Array, prior_along: Array
) -> Array:  # (n,) -> (n,)
    """log p(observations) under n priors, up to what no prior changes (Bishop 3.86).

    (weighted' S_N weighted + log |S_0^-1| - log |S_N^-1|) / 2, where S_0^-1 = p I + (q - p) v v'
    for each p of `priors` and q of `prior_along`, and v = `along`, no longer than 1: by the
    eigenvectors of `precision`, Sherman and Morrison's formula and the determinant lemma.
    """
    values, vectors = np.linalg.eigh(precision)
    w, v = vectors.T @ weighted, vectors.T @ along
    both = np.maximum(values, 0.0) + priors[:, None]
    more = prior_along - priors
    found = 1 + more * (v**2 / both).sum(axis=1)
    fit = (w**2 / both).sum(axis=1) - more * (w * v / both).sum(axis=1) ** 2 / found
    before = len(values) * np.log(priors) + np.log1p(more * float(along @ along) / priors)
    after = np.log(both).sum(axis=1) + np.log(found)
    return np.asarray((fit + before - after) / 2)


def root(covariance: Array) -> Array:
    """A matrix A with covariance = A A'; negative eigenvalues, from rounding, count as 0."""
    values, vectors = np.linalg.eigh(covariance)
    return np.asarray(vectors * np.sqrt(np.maximum(values, 0.0)))


def projected_mean(posterior: Posterior, radius: float, entries: int) -> Array:
    """The mean, and where its first `entries` are longer than `radius` the nearest that is not.

    Near in the posterior's own metric, so that what is known well stays: the Lagrange condition
    is (precision + k prior) mean = weighted, for the least k >= 1 that makes it short enough.
    """
    factor = np.ones(len(posterior.weighted))
    for _ in range(100):
        both = posterior.precision + factor * posterior.prior
        mean = np.linalg.solve(both, posterior.weighted)
        if float(mean[:entries] @ mean[:entries]) <= radius**2:
            break
        factor[:entries] *= 1.3
    return np.asarray(mean)
