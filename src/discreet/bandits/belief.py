"""What the releases so far say about theta; public, and all that a policy needs to know."""

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar

import numpy as np

from discreet.arrays import Array
from discreet.bandits.tuning import TUNING
from discreet.least_squares import Posterior
from discreet.least_squares.posterior import root as root_of
from discreet.state import value

SURE = 1.5  # standard deviations, before rewards that come seldom are followed


@value
@dataclass(frozen=True)
class Belief:
    """theta ~ N(mean, covariance): the prior and every window's release.

    Before anything is known, theta ~ N(0, radius^2 I / d). With an intercept (`constant` > 0) every
    row is [phi sqrt(1 - constant^2); constant], still in the unit ball, and the last entry of
    theta, whose product with the constant is the intercept, has the prior N(0, intercept_std^2 /
    constant^2).
    """

    mean: Array  # (d,)
    covariance: Array  # (d, d)
    precision: Array  # (d, d), of the releases without the prior
    weighted: Array  # (d,), precision times the estimate
    unclipped: Array  # (d, d + 1), precision and weighted if no residual were clipped
    reward_variance: float  # nu, of a reward around its mean
    gram: Array  # (d, d), sum of phi phi' over recent rewarded rows
    effective_rows: float  # how many rows that is
    gram_noise_std: float  # of the noise in it
    residual_sum_of_squares: float  # over the same rows
    residual_noise_std: float  # of the noise in it
    may_clip: bool  # whether residuals look normal enough to be clipped
    radius: float  # |theta| is at most this
    constant: float = 0.0  # the last entry of every row, if there is an intercept
    intercept_std: float = 1.0  # of the intercept before anything is known
    windows: int = 0  # released so far
    informative_windows: int = 0  # that had rewards: late ones leave windows empty
    decided: int = 0  # decisions so far
    answers: float = 0.0  # rewards so far, as they were counted
    answers_variance: float = 0.0  # of the noise in it
    waited: int = 0  # decisions before the first window that had rewards
    answered: float = 1.0  # fraction of decisions that had rewards, where they are not steady
    moved: bool = False  # whether theta was ever seen to move
    calm: int = 0  # decisions since it was last seen to move
    public_rows: int = 0  # of an old log that was declared public, and is in here without noise

    @property
    def steady(self) -> bool:
        """Whether rewards seem to come for most decisions."""
        return self.answers >= TUNING.full * self.decided

    @property
    def proven(self) -> bool:
        """Whether the count of rewards stands out of its noise."""
        return self.answers > TUNING.thin * math.sqrt(self.answers_variance)

    def counted(self, size: int, answers: float, std: float) -> "Belief":
        """After so many decisions more, and about so many rewards."""
        return replace(
            self,
            decided=self.decided + size,
            answers=self.answers + answers,
            answers_variance=self.answers_variance + std**2,
        )

    @property
    def informed(self) -> bool:
        """Whether anything is known but the prior."""
        return self.informative_windows > 0

    @classmethod
    def prior(
        cls,
        d: int,
        reward_variance: float,
        *,
        radius: float = 1.0,
        may_clip: bool = True,
        constant: float = 0.0,
        intercept_std: float = 1.0,
    ) -> "Belief":
        """Before anything was released."""
        zeros = np.zeros((d, d))
        precision = np.diag(prior_precisions(d, radius, constant, intercept_std))
        return cls(
            mean=np.zeros(d),
            covariance=Posterior.unobserved(precision).covariance,
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
            constant=constant,
            intercept_std=intercept_std,
        )

    @property
    def convincing(self) -> bool:
        """Whether theta is within 90 degrees of the mean, by SURE standard deviations."""
        along = float(self.weights @ self.weights)
        root, _ = self.split(root_of(self.covariance))
        return along > SURE * float(np.linalg.norm(root.T @ self.weights))

    def discounted(self, factor: float) -> "Belief":
        """Every observation counts `factor` times: they are old."""
        posterior = self.posterior.discounted(factor)
        return replace(
            self,
            mean=posterior.mean,
            covariance=posterior.covariance,
            precision=posterior.precision,
            weighted=posterior.weighted,
            unclipped=factor * self.unclipped,
        )

    def unlearnt(self) -> "Belief":
        """As if no window had had rewards."""
        zeros = np.zeros_like(self.gram)
        return replace(
            self.discounted(0.0),
            gram=zeros,
            effective_rows=0.0,
            gram_noise_std=0.0,
            residual_sum_of_squares=0.0,
            residual_noise_std=0.0,
            informative_windows=0,
        )

    @cached_property
    def posterior(self) -> Posterior:
        """The observations, in precision form."""
        return Posterior(self.prior_precision(), self.precision, self.weighted)

    @property
    def unclipped_posterior(self) -> Posterior:
        """The same if no residual were clipped."""
        unclipped = self.unclipped
        return replace(self.posterior, precision=unclipped[:, :-1], weighted=unclipped[:, -1])

    def prior_precision(self, radius: float | None = None) -> Array:  # (d, d)
        """Before any observation; for another radius than its own, where one is given."""
        radius = self.radius if radius is None else radius
        return np.diag(self.prior_precisions(radius))

    def prior_precisions(self, radius: Array | float) -> Array:  # (..., d)
        """The diagonals of `prior_precision`, for each radius."""
        return prior_precisions(len(self.mean), radius, self.constant, self.intercept_std)

    @property
    def weights(self) -> Array:  # one for each feature
        """What predicts, for phi without the constant."""
        return self._features(self.mean)

    @property
    def intercept(self) -> float:
        """What is added to every prediction."""
        return self.constant * float(self.mean[-1]) if self.constant else 0.0

    @property
    def root(self) -> Array:  # (d, d)
        """covariance = root root'."""
        return root_of(self.covariance)

    def optimistic_root(self, width: float) -> Array:  # (features, d)
        """A: <phi, weights> has the variance |A' phi|^2.

        A unit row of an unknown direction may be worth `radius`, at `width` standard deviations;
        the prior of many dimensions alone would expect less.
        """
        d = len(self.mean)
        fewer = self.radius * math.sqrt(d / min(d, width**2))
        prior = self.prior_precision(fewer)
        return self._features(self.posterior.with_prior(prior).root)

    def split(self, matrix: Array) -> tuple[Array, Array]:
        """[phi; constant] @ matrix = phi @ first + second."""
        return self._features(matrix), self.constant * matrix[-1]

    def _features(self, values: Array) -> Array:
        if not self.constant:
            return values
        return np.asarray(math.sqrt(1 - self.constant**2) * values[:-1])

    @property
    def error(self) -> float:
        """Root mean square error of a prediction, over rows such as the recent ones."""
        if self.effective_rows == 0:
            return self.radius
        mean_square = float(np.sum(self.covariance * self.gram)) / self.effective_rows
        return math.sqrt(max(mean_square, 0.0))


def prior_precisions(
    d: int, radius: Array | float, constant: float, intercept_std: float
) -> Array:  # (..., d)
    """|theta| about `radius`, but for the last entry if that belongs to an intercept."""
    radius = np.minimum(np.maximum(radius, 1e-6), 1e6)  # finite for any radius
    diagonal = np.empty((*radius.shape, d))
    diagonal[...] = (d / radius**2)[..., None]
    if constant:
        diagonal[..., -1] = (constant / intercept_std) ** 2
    return diagonal


@value
@dataclass(frozen=True)
class Point:
    """An estimate of theta with the size of its error and nothing more: for very many features."""

    mean: Array  # (d,)
    error: float  # root mean square error of a prediction
    windows: int = 0  # released so far

    constant: ClassVar[float] = 0.0  # it has no intercept

    @property
    def informed(self) -> bool:
        """Whether anything was released."""
        return self.windows > 0

    @property
    def weights(self) -> Array:
        """What predicts."""
        return self.mean
