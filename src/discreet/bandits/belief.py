"""What the releases so far say about theta; public, and all that a policy needs to know."""

import math
from dataclasses import dataclass, replace

import numpy as np

from discreet.privacy.checks import Array


@dataclass(frozen=True)
class Belief:
    """theta ~ N(mean, covariance): the prior N(0, radius^2 I / d) and every window's release."""

    mean: Array  # (d,)
    covariance: Array  # (d, d)
    precision: Array  # (d, d), of the releases without the prior
    weighted: Array  # (d,), precision times the estimate
    safe: Array  # (d, d + 1), precision and weighted if no residual were clipped
    noise: float  # nu, variance of a reward around its mean
    gram: Array  # (d, d), sum of phi phi' over recent rewarded rows
    mass: float  # how many rows that is
    blur: float  # deviation of the noise in it
    energy: float  # sum of their squared residuals
    doubt: float  # deviation of the noise in it
    exact: bool  # whether residuals must not be clipped: rewards are too far from normal
    radius: float  # |theta| is at most this
    windows: int = 0

    @classmethod
    def prior(cls, d: int, noise: float, *, radius: float = 1.0, exact: bool = False) -> "Belief":
        """Before anything was released."""
        zeros, variance = np.zeros((d, d)), radius**2 / d
        return cls(
            mean=np.zeros(d),
            covariance=variance * np.eye(d),
            precision=zeros,
            weighted=np.zeros(d),
            safe=np.zeros((d, d + 1)),
            noise=noise,
            gram=zeros,
            mass=0.0,
            blur=0.0,
            energy=0.0,
            doubt=0.0,
            exact=exact,
            radius=radius,
        )

    @property
    def root(self) -> Array:  # (d, d)
        """covariance = root root'."""
        values, vectors = np.linalg.eigh(self.covariance)
        return np.asarray(vectors * np.sqrt(np.maximum(values, 0.0)))

    def hopeful(self, width: float) -> Array:  # (d, d)
        """`root`, where a unit row of an unknown direction may be worth `radius`.

        That is `width` deviations; the prior of many dimensions alone would expect less.
        """
        d = len(self.mean)
        wide = np.linalg.inv(self.precision + min(d, width**2) / self.radius**2 * np.eye(d))
        return replace(self, covariance=np.asarray(wide, dtype=np.float64)).root

    @property
    def error(self) -> float:
        """Root mean square error of a prediction, over rows such as the recent ones."""
        if self.mass == 0:
            return self.radius
        return math.sqrt(max(float(np.sum(self.covariance * self.gram)), 0.0) / self.mass)


@dataclass(frozen=True)
class Point:
    """An estimate of theta with the size of its error and nothing more: for very many features."""

    mean: Array  # (d,)
    error: float  # root mean square error of a prediction
    windows: int = 0
