"""What clipping hides of skewed labels, and theta without it.

    g       the rest of a residual beyond what clipping keeps of it (`bounded_rows`)
    kappa   E[g], zero for symmetric errors

A clipped moment is zero at theta + bias, not at theta. If errors have one distribution in all rows,
the bias is that of the intercept: the clipped moment falls short of the whole one by the moment of
the constant, kappa sum w x. The sum of g tells kappa. It is released beside the moment and costs
nothing, because a row whose g is large adds less to the moment.
"""

from dataclasses import dataclass, replace

import numpy as np

from discreet.arrays import Array
from discreet.least_squares import Posterior

ALARM = 3.0  # standard deviations by which kappa must stand out of its noise
ZERO = 1e-14  # the variance of kappa where it does not


@dataclass(frozen=True)
class SkewPosterior:
    """theta and kappa together, in precision form.

    >>> both = SkewPosterior.of_theta(Posterior.unobserved(np.eye(1)))
    >>> design = np.array([[1.0, -1.0], [0.0, 1.0]])
    >>> both = both.observe(design, np.array([0.5, 0.4]), 1e-4 * np.eye(2))
    >>> both.theta().mean.round(2)  # the moment says 0.5, and that 0.4 are hidden
    array([0.9])
    """

    prior: Array  # (d, d), precision of theta
    precision: Array  # (d + 1, d + 1), of the observations
    weighted: Array  # (d + 1,), precision times the least squares estimate
    sums: tuple[float, float] = (0.0, 0.0)  # precision of kappa, and kappa times it, from sums of g

    @classmethod
    def of_theta(cls, theta: Posterior) -> "SkewPosterior":
        """What is known of theta, and nothing of kappa: another clip hides something else."""
        d = len(theta.weighted)
        precision = np.zeros((d + 1, d + 1))
        precision[:d, :d] = theta.precision
        return cls(theta.prior, precision, np.append(theta.weighted, 0.0))

    def observe(self, design: Array, observed: Array, noise: Array) -> "SkewPosterior":
        """After seeing  observed = design (theta, kappa) + noise; the last of it is kappa alone."""
        term = design.T @ np.linalg.solve(noise, np.column_stack([design, observed]))
        precision = self.precision + term[:, :-1]
        known, total = self.sums
        more = 1 / float(noise[-1, -1])
        return replace(
            self,
            precision=np.asarray((precision + precision.T) / 2),
            weighted=np.asarray(self.weighted + term[:, -1]),
            sums=(known + more, total + more * float(observed[-1])),
        )

    @property
    def variance(self) -> float:
        """Of kappa: the square of its estimate, as far as that stands out of its noise."""
        known, total = self.sums
        if known == 0:
            return ZERO
        return max((total / known) ** 2 - ALARM**2 / known, ZERO)

    def theta(self) -> Posterior:
        """The posterior of theta, whatever kappa of this variance is."""
        d = len(self.prior)
        cross = self.precision[:d, d]
        gone = cross / (self.precision[d, d] + 1 / self.variance)
        precision = self.precision[:d, :d] - np.outer(gone, cross)
        return Posterior(self.prior, precision, self.weighted[:d] - gone * self.weighted[d])

    def with_prior(self, prior: Array) -> "SkewPosterior":
        """The same observations under another prior precision of theta."""
        return replace(self, prior=prior)
