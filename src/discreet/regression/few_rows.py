"""Where rows are few: private regression by Gram matrices, then many small steps.

A stage of `central.py` plans by a sketch and releases a Gram matrix beside the moment. Where rows
are few, neither stands out of its noise. What does is found in other portions:

    gram = sum w x x',  w = min(1, 1/|x|^2)                  a few times, each whitened by the last
    moment = sum w x clip(r, R(phi)),  inside = #{|r| < R(phi)},  trace = sum w |x|^2      in steps

A step clips at about half a standard deviation of the residuals that are expected after the steps
before, so its noise falls with them. For normal errors the slope of a clipped residual falls less
than its bound does. `inside` tells how large label noise is, and `trace` how much weight rows have:
one number each, they cost little. Steps are combined by their known noise. The error of the Gram
matrix fades with every step, because the moment around the right theta is zero whatever it is.

So short a clip finds something like a median: labels with a skewed error are biased. That is why
this is for few rows, where noise is more than bias, and why labels that spread over half of their
range, as those of two values do, are clipped less or not at all.
"""

import math
from dataclasses import dataclass
from functools import partial

import numpy as np

from discreet.arrays import Array
from discreet.least_squares import Posterior, Whitening, clipped_normal, shrink
from discreet.privacy.mechanisms import symmetric_to_vector, vector_to_symmetric
from discreet.regression.base import Estimate, Problem
from discreet.regression.residuals import Residuals
from discreet.regression.rows import Parts
from discreet.regression.sample import Sample
from discreet.regression.stages import (
    LEVELS,
    Predictive,
    Stage,
    residual_levels,
    step_sums,
)
from discreet.regression.widths import inverse, unseen

FEW = 36.0  # n mu/d up to which rows are few: a row's noise is 1/mu, a direction has n/d rows
GRAMS = (0.05, 0.05, 0.06)  # of mu^2, for Gram matrices
LEVELS_FRACTION = 0.03  # of mu^2, for the histogram of residuals
LEAST_EIGENVALUE = 0.05  # of a Gram matrix, relative to the mean: noise may leave none
STEPS = 40
GROWTH = 0.3  # later steps have more of mu^2: the k-th in proportion to k^GROWTH
CONDITION = 16.0  # a whitening matrix stretches no direction more than this against another
CLIP_AT = (10.0, 36.0)  # n mu/d, and the clip there in standard deviations: bias counts for more
CLIP = (0.6, 1.4)  # the less noise there is
SPREAD = (0.45, 0.6)  # of labels, in units of their bound: from the last on the clip is NO_CLIP
NO_CLIP = 2.0
GRAM_BOUND = 8.0  # tau: w |x|^2 is at most this in a step
STRETCH = 1.2  # root mean square length of whitened rows
INSIDE = TRACE = 0.3  # weights of the two numbers in the joint release
FIRST_STD, FIRST_SPREAD = 0.25, 1.5  # prior of label noise: its std, and that of the log variance
LEAST_NOISE = 2.5e-5  # variance of labels
SLOPE = (0.25, 0.97)  # range of the slope; a step is off by about SLOPE_STD of it
SLOPE_STD = 0.15


def has_few_rows(problem: Problem) -> bool:
    """From public numbers alone."""
    return _rows_per_noise(problem) <= FEW


def _rows_per_noise(problem: Problem) -> float:
    """n mu/d: a direction has n/d rows, and the noise of a sum is that of about 1/mu rows."""
    n, d = problem.X.shape
    return float(n * problem.budget.mu / (d * problem.budget.contributions))


@dataclass(frozen=True)
class Covariates:
    """What Gram matrices tell."""

    gram: Array  # (d, d), of the rows
    whitening: Whitening  # rows are about STRETCH long
    unseen: Array  # (d, d), variance of directions that did not stand out


@dataclass(frozen=True)
class LabelNoise:
    """The log variance of a label around its mean: normal, by an extended Kalman filter."""

    log: float  # of the variance
    precision: float  # of `log`

    @property
    def variance(self) -> float:
        """nu."""
        return math.exp(self.log)

    def seen(self, surprise: float, std: float, derivative: float) -> "LabelNoise":
        """After a fraction of the rows, off by `surprise`, whose derivative by `log` is this."""
        precision = self.precision + (derivative / std) ** 2
        move = derivative / std**2 / precision * surprise
        log = self.log + min(max(move, -1.0), 1.0)
        return LabelNoise(min(max(log, math.log(LEAST_NOISE)), 0.0), precision)


@dataclass(frozen=True)
class Weight:
    """tr(sum w x x') over tr(sum x x'), without what uncertainty of theta takes off w."""

    mean: float  # of what is believed of it
    precision: float  # one over the variance

    def seen(self, value: float, std: float) -> "Weight":
        """After a noisy value."""
        precision = self.precision + std**-2
        mean = (self.mean * self.precision + value / std**2) / precision
        return Weight(min(max(mean, 0.1), 1.0), precision)


def few_rows(problem: Problem) -> Estimate:
    """theta, the covariance of its error, and how labels spread around it."""
    d = problem.X.shape[1]
    covariates = _covariates(problem)
    gram = covariates.gram
    posterior = Posterior.unobserved(d * np.eye(d))
    noise = LabelNoise(2 * math.log(FIRST_STD), FIRST_SPREAD**-2)
    weight = Weight(1 / STRETCH, 25.0)
    shares = np.arange(1, STEPS + 1) ** GROWTH
    shares *= (1 - sum(GRAMS) - LEVELS_FRACTION) / shares.sum()
    for share in shares:
        posterior, noise, weight = _step(
            _sample(problem, share), covariates, posterior, noise, weight
        )
    nu = noise.variance
    predictive = Predictive(posterior.mean, posterior.covariance, nu)
    residuals = _residuals(_sample(problem, LEVELS_FRACTION), predictive)
    slope, second = clipped_normal(_clip(problem, nu))
    labels = nu * second / slope**2 * inverse(gram)
    return Estimate(posterior.mean, posterior.covariance + labels + covariates.unseen, residuals)


def _sample(problem: Problem, fraction: float) -> Sample:
    return Sample(problem, problem.X, problem.y, problem.budget.mu * math.sqrt(fraction))


def _covariates(problem: Problem) -> Covariates:
    """Gram matrices, each of rows whitened by the one before."""
    n, d = problem.X.shape
    condition = max(CONDITION, 0.5 * math.sqrt(n * problem.budget.mu / d))
    whitening = Whitening.identity(d)
    for fraction in GRAMS:
        released, record = _sample(problem, fraction).release(
            partial(_gram, whitening),
            lambda parts: symmetric_to_vector(parts[0]),
            # Rows of norm at most 1: |xx' - zz'|_F <= sqrt(2) (replace-one, PSD terms).
            sensitivity=problem.budget.contributions * math.sqrt(2),
            what="Gram matrix",
        )
        noisy = vector_to_symmetric(released)
        std = record.scale
        hidden = unseen(noisy, std, whitening)
        # The trace has noise of std sqrt(d): below that, it is not known to be less.
        trace = max(float(np.trace(noisy)), std * math.sqrt(d))
        mean = trace / d
        shrunk = shrink(noisy, std, target=mean * np.eye(d), floor=LEAST_EIGENVALUE * mean)
        gram = whitening.unwhitened(shrunk)
        floor = std / n * whitening.unwhitened(np.eye(d))
        whitening = Whitening.from_gram(gram / n, floor=floor, condition=condition)
        square = whitening.mean_square(gram / n)  # less than 1 where the floor is higher
        whitening = whitening.scaled(min(max(square, 0.02), 1.0) ** -0.5)
    return Covariates(gram, whitening.scaled(STRETCH), hidden)


def _clip(problem: Problem, nu: float) -> float:
    """Where residuals are cut, in standard deviations."""
    clip = float(np.interp(_rows_per_noise(problem), CLIP_AT, CLIP))
    return float(np.interp(math.sqrt(nu), SPREAD, (clip, NO_CLIP)))


def _step(
    sample: Sample, covariates: Covariates, posterior: Posterior, noise: LabelNoise, weight: Weight
) -> tuple[Posterior, LabelNoise, Weight]:
    """One release, and what it says."""
    n, d = sample.X.shape
    nu = noise.variance
    clip = _clip(sample.problem, nu)
    expected = float(clipped_normal(clip)[0])  # of normal residuals so many are inside
    whitening = covariates.whitening
    predictive = Predictive(posterior.mean, posterior.covariance, nu)
    stage = Stage(whitening, clip, expected, nu, GRAM_BOUND, 0.0, 1.0)
    R = stage.largest(predictive)
    # |w x clip(r)| <= R, 0 <= inside <= 1, 0 <= w |x|^2 <= tau: replacing a row moves moment / R
    # by 2, the first number by INSIDE and the second by TRACE.
    released, record = sample.release(
        partial(step_sums, stage, predictive),
        lambda parts: np.concatenate(
            [parts[0] / R, INSIDE * parts[1], TRACE / GRAM_BOUND * parts[2]]
        ),
        sensitivity=sample.problem.budget.contributions * math.sqrt(4 + INSIDE**2 + TRACE**2),
        what="residual moment, rows inside the clip and their weight",
    )
    moment = released[:d] * R
    moment_std = record.scale * R
    inside = released[d] / INSIDE / n
    inside_std = math.hypot(record.scale / INSIDE / n, 0.5 / math.sqrt(n))
    # Residuals have variance nu + v on average; d inside / d log nu = -c density(c) nu / (nu + v).
    v = float(np.trace(posterior.covariance @ covariates.gram)) / n
    density = math.exp(-(clip**2) / 2) / math.sqrt(2 * math.pi)
    derivative = -clip * density * nu / (nu + v)
    learned = noise.seen(inside - expected, inside_std, derivative)
    slope = min(max(expected + derivative * (learned.log - noise.log), SLOPE[0]), SLOPE[1])
    # Weights fall with R(phi), by sqrt(1 + v / nu) on average.
    inflation = math.sqrt(1 + v / nu)
    isotropic = whitening.matrix @ covariates.gram @ whitening.matrix
    unit = GRAM_BOUND / TRACE * inflation / float(np.trace(isotropic))
    weight = weight.seen(released[d + 1] * unit, record.scale * unit)
    H = weight.mean / inflation * isotropic
    design = slope * H @ whitening.inverse
    unknown = whitening.of_parameters(posterior.covariance)
    covariance = moment_std**2 * np.eye(d) + (SLOPE_STD * slope) ** 2 * H @ unknown @ H
    observed = moment + design @ posterior.mean
    return posterior.observe(design, observed, covariance).with_fitted_prior(), learned, weight


def _residuals(sample: Sample, predictive: Predictive) -> Residuals:
    """How many rows have which standardised residual."""
    counts, record = sample.release(
        partial(residual_levels, predictive),
        lambda parts: parts[0],
        # A row is one count: replacing it moves two counts by one.
        sensitivity=sample.problem.budget.contributions * math.sqrt(2),
        what="histogram of residuals",
    )
    return Residuals(LEVELS, counts, record.scale, len(sample.X), predictive.noise)


def _gram(whitening: Whitening, X: Array, y: Array) -> Parts:
    """sum w x x' over whitened rows no longer than 1."""
    x = whitening.transform(X)
    x = x / np.maximum(1.0, np.sqrt(np.einsum("ij,ij->i", x, x)))[:, None]
    return (x.T @ x,)
