"""theta and what clipping hides of residuals, learned together (`steps.py`).

    g       the rest of a residual beyond what clipping keeps of it (`weight_and_parts`)
    kappa   E[g] over a group of rows, one number each; zero for symmetric errors

A clipped moment is zero at theta + bias, not at theta. It falls short of the whole one by the
kappas times moments of their groups, and sums of g tell the kappas.
"""

from dataclasses import dataclass, replace

import numpy as np

from discreet.arrays import Array
from discreet.least_squares import Posterior

ALARM = 4.0  # standard deviations by which a kappa or a surprise must stand out: 1 of 16,000
ZERO = 1e-14  # variance of a kappa that does not stand out


@dataclass(frozen=True)
class HiddenPosterior:
    """theta and the kappas, in precision form.

    >>> both = HiddenPosterior.of_theta(Posterior.unobserved(np.eye(1)), 1)
    >>> design = np.array([[1.0, -1.0], [0.0, 1.0]])
    >>> both = both.observe(design, np.array([0.5, 0.4]), 1e-4 * np.eye(2))
    >>> both.theta().mean.round(2)  # the moment says 0.5, and that 0.4 are hidden
    array([0.9])
    """

    prior: Array  # (d, d), precision of theta
    precision: Array  # (d, d), of theta in the observations, were the kappas known
    cross: Array  # (d, m), how far each kappa moves precision times theta
    weighted: Array  # (d,), precision times the least squares estimate, were the kappas zero
    known: Array  # (m,), precision of each kappa from its own sums
    total: Array  # (m,), kappa times it

    @classmethod
    def of_theta(cls, theta: Posterior, m: int) -> "HiddenPosterior":
        """What is known of theta, and nothing of m kappas: another clip hides something else."""
        none = np.zeros(m)
        cross = np.zeros((len(theta.weighted), m))
        return cls(theta.prior, theta.precision, cross, theta.weighted, none, none)

    def observe(self, design: Array, observed: Array, noise: Array) -> "HiddenPosterior":
        """After seeing  observed = design (theta, kappas) + noise; the last of it are the kappas.

        Bishop (2006), 3.50 and 3.51, for theta. The kappas are learned from their own sums alone
        (Schmidt 1966 considers parameters so): a clip that changes hides something else, and what
        moments would tell of kappas is only that change.
        """
        d = len(self.prior)
        moment = design[:d]
        term = moment[:, :d].T @ np.linalg.solve(
            noise[:d, :d], np.column_stack([moment, observed[:d]])
        )
        precision = self.precision + term[:, :d]
        more = 1 / np.diag(noise)[d:]
        return replace(
            self,
            precision=np.asarray((precision + precision.T) / 2),
            cross=np.asarray(self.cross + term[:, d:-1]),
            weighted=np.asarray(self.weighted + term[:, -1]),
            known=self.known + more,
            total=self.total + more * observed[d:],
        )

    def loosened(
        self, covariance: Array, design: Array, surprise: Array, noise: Array
    ) -> "HiddenPosterior":
        """Less is known of all if theta, with this covariance, does not explain a surprise.

        surprise = design (theta - mean) + noise. Along the eigenvectors of design covariance
        design', whitened by the noise, entries have variance 1 + eigenvalue. If one is beyond ALARM
        standard deviations, what was believed was wrong, as after a step whose H was far too small;
        and as errors of H mix directions, in all of them: observations count by the ratio of the
        variance to the square (a fading memory: Jazwinski 1970, 8.11).
        """
        root = np.linalg.cholesky(noise)
        G = np.linalg.solve(root, design)
        values, vectors = np.linalg.eigh(G @ covariance @ G.T)
        squares = (vectors.T @ np.linalg.solve(root, surprise)) ** 2
        worst = float(np.max(squares / (1 + values)))
        if worst <= ALARM**2:
            return self
        return replace(
            self,
            precision=self.precision / worst,
            cross=self.cross / worst,
            weighted=self.weighted / worst,
        )

    @property
    def kappa(self) -> tuple[Array, Array]:
        """From their own sums, and the variance of the noise."""
        known = np.maximum(self.known, 1e-300)
        return self.total / known, 1 / known

    def theta(self, irregular: float = 0.0) -> Posterior:
        """The posterior of theta, the kappas N(0, `_possible`) before their own sums were seen."""
        return self._without(self._possible(irregular))

    def hidden(self, irregular: float) -> tuple[Array, Array]:
        """Mean and variance of each kappa, the same before its sums were seen."""
        kappa, noise = self.kappa
        variance = self._possible(irregular)
        kept = variance / (variance + noise)
        return kept * kappa, kept * noise

    def _possible(self, irregular: float) -> Array:
        """Variance of a kappa: what stands out of the noise; or what noise can hide of it, as far
        as residuals are irregular (`sketch.py`), for those of a normal or symmetric law are zero.
        """
        kappa, noise = self.kappa
        hides = irregular**2 * (kappa**2 + noise)
        return np.maximum(np.maximum(kappa**2 - ALARM**2 * noise, hides), 0.0)

    def _without(self, variance: Array) -> Posterior:
        """The kappas integrated out: N(0, variance) before their own sums were seen."""
        if not self.known.any():
            return Posterior(self.prior, self.precision, self.weighted)
        variance = np.where(self.known > 0, np.maximum(variance, ZERO), ZERO)
        ways = np.linalg.solve(self.precision, np.column_stack([self.cross, self.weighted]))
        own = np.diag(self.known + 1 / variance) + self.cross.T @ ways[:, :-1]
        gone = np.linalg.solve(own, self.cross.T).T
        precision = self.precision - gone @ self.cross.T
        weighted = self.weighted - gone @ (self.total + self.cross.T @ ways[:, -1])
        return Posterior(self.prior, np.asarray((precision + precision.T) / 2), weighted)
