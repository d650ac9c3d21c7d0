"""What the releases so far say about theta; public, and all that a policy needs to know."""

import math
from dataclasses import dataclass, replace

import numpy as np

from discreet.privacy.checks import Array
from discreet.state import value


@value
@dataclass(frozen=True)
class Belief:
    """theta ~ N(mean, covariance): the prior N(0, radius^2 I / d) and every window's release."""

    mean: Array  # (d,)
    covariance: Array  # (d, d)
    precision: Array  # (d, d), of the releases without the prior
    weighted: Array  # (d,), precision times the estimate
    unclipped: Array  # (d, d + 1), precision and weighted if no residual had been clipped
    reward_variance: float  # nu, of a reward around its mean
    gram: Array  # (d, d), sum of phi phi' over recent rewarded rows
    effective_rows: float  # how many rows that is
    gram_noise_std: float  # of the noise in it
    residual_sum_of_squares: float  # of the same rows
    residual_noise_std: float  # of the noise in it
    may_clip: bool  # whether residuals look normal enough to be clipped
    radius: float  # |theta| is at most this
    windows: int = 0

    @classmethod
    def prior(
        cls, d: int, reward_variance: float, *, radius: float = 1.0, may_clip: bool = True
    ) -> "Belief":
        """Before anything was released."""
        zeros = np.zeros((d, d))
        return cls(
            mean=np.zeros(d),
            covariance=radius**2 / d * np.eye(d),
            precision=zeros,
            weighted=np.zeros(d),
            unclipped=np.zeros((d, d + 1)),
            reward_variance=reward_variance,
            gram=zeros,
            effective_rows=0.0,
            gram_noise_std=0.0,
            residual_sum_of_squares=0.0,
            residual_noise_std=0.0,
            may_clip=may_clip,
            radius=radius,
        )

    @property
    def root(self) -> Array:  # (d, d)
        """covariance = root root'."""
        values, vectors = np.linalg.eigh(self.covariance)
        return np.asarray(vectors * np.sqrt(np.maximum(values, 0.0)))

    def optimistic_root(self, width: float) -> Array:  # (d, d)
        """`root`, where a unit row of an unknown direction may be worth `radius`.

        That is `width` standard deviations; the prior of many dimensions alone would expect less.
        """
        d = len(self.mean)
        wide = np.linalg.inv(self.precision + min(d, width**2) / self.radius**2 * np.eye(d))
        return replace(self, covariance=np.asarray(wide, dtype=np.float64)).root

    @property
    def error(self) -> float:
        """Root mean square error of a prediction, over rows such as the recent ones."""
        if self.effective_rows == 0:
            return self.radius
        total = max(float(np.sum(self.covariance * self.gram)), 0.0)
        return math.sqrt(total / self.effective_rows)


@value
@dataclass(frozen=True)
class Point:
    """An estimate of theta with the size of its error and nothing more: for very many features."""

    mean: Array  # (d,)
    error: float  # root mean square error of a prediction
    windows: int = 0
