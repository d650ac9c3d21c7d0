"""Where rows are few: private regression by Gram matrices, then many small steps.

A stage of `central.py` plans by a sketch and releases a Gram matrix beside the moment. Where rows
are few, neither stands out of its noise by much. What does is found in other portions:

    gram = sum w x x',  w |x|^2 <= tau                       a few times, each whitened by the last
    moment = sum w x kept(r),  inside = #{|r| < R(phi)},  trace = sum w |x|^2,  rest = sum g

in steps, where a residual r = kept + g is cut at R(phi). `inside` tells how large label noise is,
`trace` how much weight rows have, and `rest` what clipping hides (`skew.py`): one number each, they
cost little. Steps are combined by their known noise. The error of the Gram matrix fades with every
step, because the moment around the right theta is zero whatever it is.

Where rows are fewest, a step clips at about half a standard deviation of the residuals that are
expected after the steps before: for normal errors the slope of a clipped residual falls less than
its bound does. So short a clip finds something like a median. Labels with a skewed error are
biased, by no more than noise; labels that spread over half of their range, as those of two values
do, are clipped less or not at all. Where there are more rows, a sketch after the first steps plans
the clip of the others, and counts what was learned before as far as it agrees with it. It resolves
clips down to a third of what label noise was taken for: if all residuals are inside that one, later
steps make it shorter. Rows of rare directions are long when whitened, and weigh little; with rows
enough, Gram matrices give them the weights that steps do, and their error counts in each step.
"""

import math
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from discreet.arrays import Array
from discreet.least_squares import (
    Posterior,
    Whitening,
    clipped_normal,
    gram_error_covariance,
    kept,
    shrink,
)
from discreet.privacy.mechanisms import symmetric_to_vector, vector_to_symmetric
from discreet.regression.base import Estimate, Problem
from discreet.regression.intervals import Residuals, inverse, unseen
from discreet.regression.sample import Sample
from discreet.regression.skew import SkewPosterior
from discreet.regression.stages import (
    CLIPS,
    LEVELS,
    Predictive,
    Sketch,
    Stage,
    clippings,
    residual_levels,
    sketch_residuals,
    step_sums,
    weighted_gram,
)

FEW = 1000.0  # n mu/d up to which rows are few: a row's noise is 1/mu, a direction has n/d rows
WEIGHTED = 150.0  # n mu/d from which Gram matrices weigh rows as steps do
SKETCHED = 36.0  # n mu/d up to which a sketch of residuals does not stand out of its noise
SKETCH_FRACTION = 0.05  # of mu^2, for the sketch
STEPS_BEFORE = 5  # the sketch
SHORTER = 0.6  # so much shorter a clip becomes at a time
LIMIT = 2.0  # of residuals, in units of the bound on labels
GRAMS = (0.05, 0.05, 0.06)  # of mu^2, for Gram matrices
LEVELS_FRACTION = 0.03  # of mu^2, for the histogram of residuals
STEPS = 40
GROWTH = 0.3  # later steps have more of mu^2: the k-th in proportion to k^GROWTH
CONDITION = 16.0  # a whitening matrix stretches no direction more than this against another
GRAM_BOUND = 8.0  # tau: w |x|^2 is at most this in a step
STRETCH = 1.2  # root mean square length of whitened rows
INSIDE = TRACE = 0.3  # weights of the two numbers in the joint release
MOVES = math.sqrt(4 + INSIDE**2 + TRACE**2)  # how far a row replaced moves that release
FIRST_STD, FIRST_SPREAD = 0.25, 1.5  # prior of label noise: its std, and that of the log variance
SLOPE = (0.25, 0.97)  # range of the slope; a step is off by about SLOPE_STD of it,
SLOPE_STD = (0.15, 0.5)  # and by the last too as far as residuals come from an unknown theta


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
    asked: Whitening  # of the rows whose Gram matrix was released last
    std: float  # of what is not known of it: shrunk by k, k of the noise's variance is left

    def moment_error(self, unknown: Array) -> Array:
        """Cov(Z M^-1 (theta - centre)), Z the Gram matrix's noise in whitened coordinates."""
        change = self.asked.inverse @ self.whitening.matrix
        error = gram_error_covariance(change @ unknown @ change.T, self.std)
        return np.asarray(change.T @ error @ change)


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
        return LabelNoise(min(max(log, math.log(2.5e-5)), 0.0), precision)


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


@dataclass(frozen=True)
class Clip:
    """Where residuals are cut, planned from a sketch."""

    at: float  # in standard deviations
    slope: float  # fraction of residuals that are not cut
    precision: float  # of the slope
    kept: float  # second moment of a residual that is cut
    bias: float  # variance that stands for it, in a whitened direction

    def seen(self, inside: float, std: float) -> "Clip":
        """After a noisy fraction of rows that are not cut."""
        precision = self.precision + std**-2
        slope = (self.slope * self.precision + inside / std**2) / precision
        return replace(self, slope=min(max(slope, SLOPE[0]), 1.0), precision=precision)

    def shorter(self) -> "Clip":
        """In units that are SHORTER of those before; the slope has to be seen again."""
        return replace(self, precision=SLOPE_STD[0] ** -2, kept=self.kept * SHORTER**2)


@dataclass(frozen=True)
class Known:
    """What steps have told."""

    both: SkewPosterior  # theta, and what clipping hides
    theta: Posterior  # the same, its prior fitted
    noise: LabelNoise  # how large it is
    weight: Weight  # that rows have
    clip: Clip | None = None  # None before it is planned
    least: float = 1.0  # R of the step that clipped most

    @property
    def predictive(self) -> Predictive:
        """Of a label."""
        return Predictive(self.theta.mean, self.theta.covariance, self.noise.variance)


def few_rows(problem: Problem) -> Estimate:
    """theta, the covariance of its error, and how labels spread around it."""
    d = problem.X.shape[1]
    covariates = _covariates(problem)
    unknown = Posterior.unobserved(d * np.eye(d))
    noise = LabelNoise(2 * math.log(FIRST_STD), FIRST_SPREAD**-2)
    known = Known(SkewPosterior.of_theta(unknown), unknown, noise, Weight(1 / STRETCH, 25.0))
    sketched = _rows_per_noise(problem) > SKETCHED
    fraction = SKETCH_FRACTION if sketched else LEVELS_FRACTION
    shares = np.arange(1, STEPS + 1) ** GROWTH
    shares *= (1 - sum(GRAMS) - fraction) / shares.sum()
    residuals = None
    for k, share in enumerate(shares):
        if sketched and k == STEPS_BEFORE:
            sketch = sketch_residuals(_sample(problem, fraction), known.predictive)
            residuals = sketch.residuals
            known = _planned(problem, covariates, known, sketch, float(shares[k:].sum()))
        # Three steps on, residuals are no longer long because theta is far off.
        skewed = sketched and problem.intercept and k >= 3
        known = _step(_sample(problem, share), covariates, known, skewed=skewed)
    if known.clip is None:
        residuals = _residuals(_sample(problem, fraction), known.predictive)
        nu = known.noise.variance
        slope, second = clipped_normal(_normal_clip(problem, nu))
        variance = nu * second / slope**2
        bias = 0.0
    else:
        variance = known.clip.kept / known.clip.slope**2
        bias = known.clip.bias
    covariance = known.theta.covariance + variance * inverse(covariates.gram) + covariates.unseen
    covariance += bias * covariates.whitening.matrix @ covariates.whitening.matrix
    # Where no rows were seen, nothing calls an estimate back: it is as far off as it has walked.
    walked = d * covariates.unseen @ known.theta.mean
    covariance += np.outer(walked, walked)
    return Estimate(known.theta.mean, covariance, residuals)


def _planned(
    problem: Problem, covariates: Covariates, known: Known, sketch: Sketch, fraction: float
) -> Known:
    """The clip of the least expected error for the steps that are left, with this part of mu^2.

    In whitened coordinates, with h = tr(sum w x x') / d, the variance in a direction is about
    (labels + noise + bias) / (slope h)^2.
    """
    n, d = problem.X.shape
    budget = problem.budget
    predictive = known.predictive
    whitening = covariates.whitening
    clips = clippings(sketch, predictive)
    weight = known.weight.mean
    h = weight * n * whitening.mean_square(covariates.gram / n) / d
    R = np.minimum(clips.at * math.sqrt(predictive.noise), 1.0)
    labels = clips.kept * weight * h
    noise = (MOVES * budget.contributions * R / budget.mu) ** 2 / fraction
    # .7 of what one-sided tails hide: the rest does not depend on x, or is not there.
    bias = (0.7 * clips.tilt) ** 2 * weight * h * n / d
    information = (clips.slope * h) ** 2
    error = np.where(clips.allowed, (labels + noise + bias) / information, np.inf)
    # Ties to nine digits go to the first: rows added up in another order must not choose anew.
    i = int(np.argmin(np.round(error / error.min(), 9)))
    slope_std = max(float(clips.slope_std[i]), 0.02)
    bias = bias / information
    clip = Clip(
        at=float(clips.at[i]),
        slope=float(clips.slope[i]),
        precision=slope_std**-2,
        kept=float(clips.kept[i]),
        bias=float(bias[i]),
    )
    # What was learned before counts as far as the clip then did not bias it; and less if the
    # planned clip is more than 1.3 times the least one then.
    biased = float(np.interp(_normal_clip(problem, predictive.noise), clips.at, bias))
    unknown = float(np.trace(whitening.of_parameters(known.theta.covariance))) / d
    counts = unknown / (unknown + biased) * min(1.0, 1.3 * known.least / float(R[i])) ** 4
    theta = known.theta.discounted(counts)
    return replace(known, both=SkewPosterior.of_theta(theta), theta=theta, clip=clip)


def _sample(problem: Problem, fraction: float) -> Sample:
    return Sample(problem, problem.X, problem.y, problem.budget.mu * math.sqrt(fraction))


def _covariates(problem: Problem) -> Covariates:
    """Gram matrices, each of rows whitened by the one before."""
    n, d = problem.X.shape
    condition = max(CONDITION, 0.5 * math.sqrt(n * problem.budget.mu / d))
    whitening = Whitening.identity(d)
    # A constant has half of the squared length that rows may have: what is known before.
    others = np.full(d - 1, 1 / max(d - 1, 1))
    gram = np.diag(np.append(others, 1.0)) if problem.intercept else np.eye(d)
    weighted = _rows_per_noise(problem) > WEIGHTED
    tau = math.sqrt(_rows_per_noise(problem) / 40) if weighted else 1.0  # 2 to 5
    for k, fraction in enumerate(GRAMS, start=1):
        last = k == len(GRAMS)
        if last and weighted:
            whitening = whitening.scaled(STRETCH)
        released, record = _sample(problem, fraction).release(
            partial(weighted_gram, whitening, tau),
            lambda parts: symmetric_to_vector(parts[0]),
            # |w x x'|_F <= tau, and PSD terms differ by sqrt(2) times that (replace-one).
            sensitivity=problem.budget.contributions * math.sqrt(2) * tau,
            what="Gram matrix",
        )
        noisy = vector_to_symmetric(released)
        std = record.scale
        hidden = unseen(noisy, std, whitening)
        # The trace has noise of std sqrt(d): below that, it is not known to be less. No row adds
        # more than tau to it.
        trace = min(max(float(np.trace(noisy)), std * math.sqrt(d)), tau * n)
        target = whitening.matrix @ gram @ whitening.matrix
        target *= trace / float(np.trace(target))
        # Noise may leave no eigenvalue: none is less than a twentieth of the mean.
        shrunk = shrink(noisy, std, target=target, floor=0.05 * trace / d)
        gram = whitening.unwhitened(shrunk)
        asked = whitening
        if last and weighted:
            break
        floor = std / n * whitening.unwhitened(np.eye(d))
        whitening = Whitening.from_gram(gram / n, floor=floor, condition=condition)
        square = whitening.mean_square(gram / n)  # less than 1 where the floor is higher
        whitening = whitening.scaled(min(max(square, 0.02), 1.0) ** -0.5)
        if last:
            whitening = whitening.scaled(STRETCH)
    return Covariates(gram, whitening, hidden, asked, math.sqrt(kept(noisy - target, std)) * std)


def _normal_clip(problem: Problem, nu: float) -> float:
    """Where residuals are cut, in standard deviations, if labels are taken to be normal.

    Bias counts for more the less noise there is. Labels that spread over more than half of their
    bound are not cut.
    """
    clip = float(np.interp(_rows_per_noise(problem), (10.0, 36.0), (0.6, 1.4)))
    return float(np.interp(math.sqrt(nu), (0.45, 0.6), (clip, 2.0)))


def _step(sample: Sample, covariates: Covariates, known: Known, *, skewed: bool) -> Known:
    """One release, and what it says: of the intercept beyond the clip too if it may be `skewed`."""
    n, d = sample.X.shape
    posterior = known.theta
    predictive = known.predictive
    nu = predictive.noise
    clip = _normal_clip(sample.problem, nu) if known.clip is None else known.clip.at
    whitening = covariates.whitening
    stage = Stage(whitening, clip, 1.0, nu, GRAM_BOUND, 0.0, 1.0)
    R = stage.largest(predictive)
    # |w x kept|^2 / R^2 + g^2 <= 1, so a row replaced moves (moment / R, rest) by 2. It moves the
    # other numbers by INSIDE and TRACE: 0 <= inside <= 1, 0 <= w |x|^2 <= tau.
    released, record = sample.release(
        partial(step_sums, stage, predictive, LIMIT),
        lambda parts: np.concatenate(
            [parts[0] / R, parts[3], INSIDE * parts[1], TRACE / GRAM_BOUND * parts[2]]
        ),
        sensitivity=sample.problem.budget.contributions * MOVES,
        what="residual moment and rest, rows inside the clip and their weight",
    )
    moment = released[:d] * R
    moment_std = record.scale * R
    rest = released[d] * LIMIT / n
    rest_std = record.scale * LIMIT / n
    inside = released[d + 1] / INSIDE / n
    inside_std = math.hypot(record.scale / INSIDE / n, 0.5 / math.sqrt(n))
    # Residuals have variance nu + v on average.
    v = float(np.trace(posterior.covariance @ covariates.gram)) / n
    planned = known.clip
    noise = known.noise
    if planned is None:
        expected = float(clipped_normal(clip)[0])  # of normal residuals so many are inside
        # d inside / d log nu = -c density(c) nu / (nu + v)
        density = math.exp(-(clip**2) / 2) / math.sqrt(2 * math.pi)
        derivative = -clip * density * nu / (nu + v)
        noise = known.noise.seen(inside - expected, inside_std, derivative)
        slope = min(max(expected + derivative * (noise.log - known.noise.log), SLOPE[0]), SLOPE[1])
    else:
        planned = planned.seen(inside, inside_std)
        slope = planned.slope
    # Weights fall with R(phi), by sqrt(1 + v / nu) on average.
    inflation = math.sqrt(1 + v / nu)
    isotropic = whitening.matrix @ covariates.gram @ whitening.matrix
    unit = GRAM_BOUND / TRACE * inflation / float(np.trace(isotropic))
    weight = known.weight.seen(released[d + 2] * unit, record.scale * unit)
    H = weight.mean / inflation * isotropic
    unknown = whitening.of_parameters(posterior.covariance)
    # moment = slope H M^-1 (theta - centre) - kappa H M^-1 c, for the c with <phi, c> = 1.
    design = np.zeros((d + 1, d + 1))
    design[:d, :d] = slope * H @ whitening.inverse
    design[d, d] = 1.0
    covariance = np.zeros((d + 1, d + 1))
    # Where theta is far off it is what cuts residuals, more along some directions than others.
    slope_variance = slope**2 * (SLOPE_STD[0] ** 2 + (SLOPE_STD[1] * v / (nu + v)) ** 2)
    gram_error = (slope * weight.mean / inflation) ** 2 * covariates.moment_error(unknown)
    covariance[:d, :d] = moment_std**2 * np.eye(d) + slope_variance * H @ unknown @ H + gram_error
    covariance[d, d] = rest_std**2
    if skewed:
        constant = math.sqrt(2) * np.eye(d)[-1]
        design[:d, d] = -H @ whitening.inverse @ constant
        # Where theta is off, residuals are beyond the clip for that.
        mean_row = covariates.gram @ constant / n
        covariance[d, d] += mean_row @ posterior.covariance @ mean_row
    observed = np.append(moment, rest) + design[:, :d] @ posterior.mean
    both = known.both.observe(design, observed, covariance)
    theta = both.theta().with_fitted_prior()
    least = min(known.least, R)
    # If nearly all residuals are inside the least clip, it is too long still.
    if planned is not None and planned.at == CLIPS[0] and planned.slope > 0.985:
        planned = planned.shorter()
        noise = LabelNoise(noise.log + 2 * math.log(SHORTER), noise.precision)
    return Known(both.with_prior(theta.prior), theta, noise, weight, planned, least)


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
