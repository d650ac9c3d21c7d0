"""What the releases so far say about theta; public, and all that a policy needs to know."""

import math
from dataclasses import dataclass

import numpy as np

from discreet.least_squares import Posterior
from discreet.least_squares.posterior import root
from discreet.privacy.checks import Array


@dataclass(frozen=True)
class Belief:
    """theta ~ N(mean, covariance): the prior N(0, radius^2 I / d) and every window's release."""

    mean: Array  # (d,)
    covariance: Array  # (d, d)
    precision: Array  # (d, d), of the releases without the prior
    weighted: Array  # (d,), precision times the estimate
    unclipped: Array  # (d, d + 1), precision and weighted if no residual were clipped
    noise_variance: float  # nu, of a reward around its mean
    gram: Array  # (d, d), sum of phi phi' over recent rewarded rows
    effective_rows: float  # how many rows that is
    gram_noise_std: float  # of the noise in it
    residual_sum_of_squares: float  # over the same rows
    residual_noise_std: float  # of the noise in it
    never_clip: bool  # rewards are too far from normal
    radius: float  # |theta| is at most this
    windows: int = 0

    @classmethod
    def prior(
        cls, d: int, noise_variance: float, *, radius: float = 1.0, never_clip: bool = False
    ) -> "Belief":
        """Before anything was released."""
        zeros = np.zeros((d, d))
        return cls(
            mean=np.zeros(d),
            covariance=radius**2 / d * np.eye(d),
            precision=zeros,
            weighted=np.zeros(d),
            unclipped=np.zeros((d, d + 1)),
            noise_variance=noise_variance,
            gram=zeros,
            effective_rows=0.0,
            gram_noise_std=0.0,
            residual_sum_of_squares=0.0,
            residual_noise_std=0.0,
            never_clip=never_clip,
            radius=radius,
        )

    @property
    def posterior(self) -> Posterior:
        """The observations, in precision form."""
        d = len(self.mean)
        return Posterior(d / self.radius**2 * np.eye(d), self.precision, self.weighted)

    @property
    def root(self) -> Array:  # (d, d)
        """covariance = root root'."""
        return root(self.covariance)

    def optimistic_root(self, width: float) -> Array:  # (d, d)
        """`root`, where a unit row of an unknown direction may be worth `radius`.

        That is `width` standard deviations; the prior of many dimensions alone would expect less.
        """
        d = len(self.mean)
        prior = min(d, width**2) / self.radius**2 * np.eye(d)
        return root(self.posterior.with_prior(prior).covariance)

    @property
    def error(self) -> float:
        """Root mean square error of a prediction, over rows such as the recent ones."""
        if self.effective_rows == 0:
            return self.radius
        mean_square = float(np.sum(self.covariance * self.gram)) / self.effective_rows
        return math.sqrt(max(mean_square, 0.0))


@dataclass(frozen=True)
class Point:
    """An estimate of theta with the size of its error and nothing more: for very many features."""

    mean: Array  # (d,)
    error: float  # root mean square error of a prediction
    windows: int = 0
