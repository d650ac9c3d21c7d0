"""theta and what clipping hides of residuals, kappas, learned together (`steps.py`)."""

from dataclasses import dataclass, replace

import numpy as np

from discreet.arrays import Array
from discreet.least_squares import Posterior

ZERO = 1e-14  # variance of a kappa that does not stand out


@dataclass(frozen=True)
class Both:
    """theta and the kappas together, in precision form."""

    prior: Array  # (d, d), precision of theta
    precision: Array  # (d + m, d + m), of the observations
    weighted: Array  # (d + m,), precision times the least squares estimate
    known: Array  # (m,), precision of each kappa from its own sums
    total: Array  # (m,), kappa times it

    @classmethod
    def of_theta(cls, theta: Posterior, m: int) -> "Both":
        """What is known of theta, and nothing of kappas: another clip hides something else."""
        d = len(theta.weighted)
        precision = np.zeros((d + m, d + m))
        precision[:d, :d] = theta.precision
        none = np.zeros(m)
        return cls(theta.prior, precision, np.append(theta.weighted, none), none, none)

    def observe(self, design: Array, observed: Array, noise: Array) -> "Both":
        """After seeing  observed = design (theta, kappa) + noise; the last of it are the kappas."""
        d = len(self.prior)
        term = design.T @ np.linalg.solve(noise, np.column_stack([design, observed]))
        precision = self.precision + term[:, :-1]
        more = 1 / np.diag(noise)[d:]
        return replace(
            self,
            precision=np.asarray((precision + precision.T) / 2),
            weighted=np.asarray(self.weighted + term[:, -1]),
            known=self.known + more,
            total=self.total + more * observed[d:],
        )

    @property
    def kappa(self) -> tuple[Array, Array]:
        """From their own sums, and the variance of the noise."""
        known = np.maximum(self.known, 1e-300)
        return self.total / known, 1 / known

    def theta(self, alarm: float) -> Posterior:
        """The posterior of theta, whatever kappas that stand out by so many deviations are."""
        kappa, noise = self.kappa
        return self._without(kappa**2 - alarm**2 * noise)

    def wary_theta(self) -> Posterior:
        """The posterior of theta, whatever noise can hide of kappas."""
        kappa, noise = self.kappa
        return self._without(kappa**2 + noise)

    def _without(self, variance: Array) -> Posterior:
        d = len(self.prior)
        variance = np.where(self.known > 0, np.maximum(variance, ZERO), ZERO)
        cross = self.precision[:d, d:]
        gone = np.linalg.solve(self.precision[d:, d:] + np.diag(1 / variance), cross.T).T
        precision = self.precision[:d, :d] - gone @ cross.T
        weighted = self.weighted[:d] - gone @ self.weighted[d:]
        return Posterior(self.prior, (precision + precision.T) / 2, weighted)
