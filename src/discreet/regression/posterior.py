"""What releases of a central fit say about theta, with a Gaussian prior of fitted width."""

import math
from dataclasses import dataclass

import numpy as np

from discreet.privacy.checks import Array

KNOWN = 30.0  # times the prior's precision: what counts as known


@dataclass(frozen=True)
class Posterior:
    """What the releases so far say about theta: N(mean, covariance), from privacy noise alone."""

    mean: Array  # (d,)
    covariance: Array  # (d, d)
    precision: Array  # (d, d), of the releases without the prior
    weighted: Array  # (d,), precision times the least squares estimate
    noise: float  # nu, variance of a label around its mean

    @classmethod
    def prior(cls, d: int) -> "Posterior":
        """N(0, I/d), before anything was released."""
        zeros = np.zeros((d, d))
        return cls(np.zeros(d), np.eye(d) / d, zeros, np.zeros(d), 1.0)

    @property
    def limit(self) -> float:
        """No residual is larger: |y| <= 1 and |phi| <= 1."""
        return 1 + math.sqrt(self.mean @ self.mean)

    def updated(self, design: Array, seen: Array, variance: float, noise: float) -> "Posterior":
        """After seeing design @ theta with independent noise of this variance."""
        precision = self.precision + design.T @ design / variance
        weighted = self.weighted + design.T @ seen / variance
        d = len(weighted)
        # In coordinates that diagonalise the precision. The prior's variance is fitted by a few
        # steps of expectation-maximisation; for directions that are not known well it is at least
        # 1/d, so that a direction nobody has seen stays unknown.
        values, vectors = np.linalg.eigh(precision)
        along = vectors.T @ weighted
        known = values > KNOWN * d
        spread = np.full(d, 1.0 / d)
        for _ in range(8):
            variance_left = 1 / (values + 1 / spread)
            mean = variance_left * along
            sizes = np.clip(mean**2 + variance_left, 1e-8, 1e4)
            spread = np.where(
                known, sizes[known].mean() if known.any() else 0.0, max(float(sizes.mean()), 1 / d)
            )
        covariance = np.asarray((vectors * variance_left) @ vectors.T)
        return Posterior(vectors @ mean, covariance, precision, weighted, noise)
