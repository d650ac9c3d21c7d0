"""Private linear regression in small steps, for few rows and for many.

    rho      n mu / d, rows of a direction against the noise of a sum, that of about 1/mu rows
    phi, y   a row and its label, |phi| <= 1 and |y| <= 1;  x = M phi, whitened (`shape.py`)
    nu, C    variance of a label around its mean; covariance of theta, from privacy noise alone
    s(phi)   sqrt(nu + phi' C phi), the scale that a residual r = y - <phi, theta> should have
    w        weight of a row: min(1, R / (|x| cut))

Each step plans its clip c (`sketch.py`) and releases

    moment = sum w x f(r),     rest = sums of g(r),     square = sum (f / cut)^2,     r = f + g

where f is what clipping at cut = c s(phi) keeps of a residual. The rest is summed by the sign of
the prediction and by layers: E_j, the least of six halved limits with E_j >= 4/3 |r| and 4 cut, so
that few large residuals do not drown in the noise of larger ones. With (f/cut)^2 + (g/E_j)^2 <= 1
it costs nothing beside the moment. If E[g] on the side b of predictions is kappa_b,

    moment = slope H M^-1 (theta - centre) - H M^-1 sum_b a_b kappa_b + noise

is an observation of theta and of the kappas with known noise (Bishop 2006, 3.50 and 3.51), where
slope = P(|r| <= cut), and a_b the best linear predictor of a side (Bussgang 1952). `square` tracks
nu. An error of H or of the slope fades with every step, because the moment around the right theta
is zero whatever they are; and where it surprises, less is believed (`HiddenPosterior.loosened`).
After an eighth of the steps a sketch counts residuals by size and side; before, they are taken as
normal. How many steps there are follows from rho alone.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from discreet.arrays import Array
from discreet.least_squares import Posterior, Whitening
from discreet.least_squares.clipping import weight_and_parts
from discreet.least_squares.posterior import root
from discreet.regression.base import Estimate, Problem
from discreet.regression.hidden import HiddenPosterior
from discreet.regression.intervals import Residuals, inverse
from discreet.regression.rows import Parts, row_blocks
from discreet.regression.sample import Sample
from discreet.regression.shape import Shape
from discreet.regression.sketch import AS_NORMAL, LEVELS, LOWER, Clips, Spread, counted, spread_of

FEWEST, MORE, HALF = 8, 60, 300.0  # steps at high rho, how many more at low, rho of half of these
FIRST_STD, FIRST_SPREAD = 0.25, 1.5  # prior of nu: its root, and the std of its logarithm
SLOPE_ERROR = 0.15  # relative: residuals are not quite as planned
LIMIT = 2.0  # residuals are cut here: |y - <phi, theta>| <= 2 where |theta| <= 1
LAYERS = 6  # the least is 1/24 of the limit: beyond, the moment sees what is hidden
REST = 2 * LAYERS  # on both sides of predictions
SQUARE = 0.5  # weight of `square`: the largest that is free, see `_release`

Draw = Callable[[], Sample]


@dataclass(frozen=True)
class Plan:
    """Which rows each release sums over, and what it may cost them."""

    sketch: Draw  # for the histogram of residuals
    steps: Sequence[Draw]  # for each step
    share: float  # of mu^2, for all steps on the same rows together: clips are planned for it
    parts: int = 1  # of the rows: a step sums over one of them, as many steps over each

    @property
    def before(self) -> int:
        """Steps before the sketch."""
        return max(2, len(self.steps) // 8)


@dataclass(frozen=True)
class Known:
    """What was released so far tells of theta and of labels around their mean."""

    both: HiddenPosterior  # of theta, and of what clips hide
    theta: Posterior  # of `both`, its prior fitted
    log_nu: float = 2 * math.log(FIRST_STD)  # of the variance of labels
    log_variance: float = FIRST_SPREAD**2  # of log_nu
    spread: Spread = AS_NORMAL  # how residuals are distributed
    labels: float = 1.0  # variance that labels add to a step, second / slope^2
    bias: float = 0.0  # variance that stands for that of the last clip, in a whitened direction
    length: float = LIMIT  # of the shortest clip, c sqrt(nu)

    @property
    def nu(self) -> float:
        """Variance of a label around its mean."""
        return math.exp(self.log_nu)

    @property
    def root(self) -> Array:
        """C = root root'."""
        return root(self.theta.covariance)

    @property
    def limit(self) -> float:
        """No residual is larger: |y| <= 1 and |phi| <= 1, and they are cut at LIMIT."""
        return min(1 + math.sqrt(self.theta.mean @ self.theta.mean), LIMIT)

    @property
    def layers(self) -> Array:
        """E_j, ascending; the last is a third longer than any residual."""
        return np.asarray(4 / 3 * self.limit * 2.0 ** np.arange(1 - LAYERS, 1), dtype=np.float64)

    @property
    def largest(self) -> float:
        """The clip that cuts nothing."""
        return self.limit / math.sqrt(self.nu)


@dataclass(frozen=True)
class Clip:
    """Where a step cuts residuals, and what it expects of that."""

    at: float  # c
    bound: float  # R, the largest |w x| cut
    slope: float  # the fraction of residuals that are not cut
    inner: float  # E[z^2; z <= c], z = |r| / s
    second: float  # E min(z, c)^2
    bias: float  # variance that stands for what is hidden, in a whitened direction

    @classmethod
    def planned(cls, known: Known, shape: Shape, n: float, noise: float) -> "Clip":
        """The one of the least error for n rows and noise of this std for each R."""
        clips = Clips.of(known.spread, known.largest)
        eigenvalues = np.asarray(np.linalg.eigvalsh(shape.H), dtype=np.float64)
        i = clips.least_error(known.nu, eigenvalues, n, noise)
        at = float(clips.at[i])
        slope = float(clips.slope[i])
        return cls(
            at=at,
            bound=min(at * math.sqrt(known.nu), 1.0),
            slope=slope,
            inner=float(clips.inner[i]),
            second=float(clips.second[i]),
            bias=known.nu * float(clips.hidden[i]) / (float(eigenvalues.sum()) * slope**2),
        )


@dataclass(frozen=True)
class Told:
    """What a step released."""

    moment: Array  # (d,)
    rest: Array  # (REST,), of E_j for each row
    square: float  # mean of (f / cut)^2
    unit: float  # std of the noise, of moment / R


def number_of_steps(rho: float) -> int:
    """More where the noise is larger against the rows."""
    return round(FEWEST + MORE / (1 + rho / HALF))


def by_steps(problem: Problem, shape: Shape, plan: Plan) -> Estimate:
    """theta, the covariance of its error, and how labels spread around it."""
    n, d = problem.X.shape
    unknown = Posterior.unobserved(d * np.eye(d))
    known = Known(HiddenPosterior.of_theta(unknown, REST), unknown)
    residuals = None
    for k, draw in enumerate(plan.steps):
        if k == plan.before:
            known, residuals = _sketched(plan.sketch(), shape, known)
        known = _step(draw(), shape, known, plan)
    return Estimate(known.theta.mean, _covariance(known, shape, n, plan), residuals)


def _covariance(known: Known, shape: Shape, n: int, plan: Plan) -> Array:
    """Of the error of theta's mean: noise, labels, and what may be hidden or unseen."""
    d = len(shape.H)
    mean = known.theta.mean
    irregular = known.spread.irregular
    wary = known.both.theta(irregular).with_prior(d * np.eye(d))
    walk = wary.mean - mean
    kappa, noise = (each.reshape(2, LAYERS) for each in known.both.hidden(irregular))
    # A kappa is a sum of few large terms, of variance E |kappa| / n at most.
    few = np.sqrt(kappa**2 + noise) @ known.layers / n
    a, _ = shape.sides(mean)
    # Of what is hidden on a side only the mean is known, not where: mean and std of an exponential
    # distribution, of all with this mean that of most entropy, are the same.
    hidden = kappa.sum(axis=1) ** 2 + noise.sum(axis=1)
    # Where no rows were seen, nothing calls an estimate back: it is as far off as it has walked.
    walked = d * shape.unseen @ mean
    covariance = wary.covariance + np.outer(walk, walk) + (a * few) @ a.T
    covariance += float(hidden.sum()) * inverse(d * shape.gram)
    if plan.parts == 1:  # else the randomness of labels is in the posterior already
        covariance += known.labels * inverse(n * shape.gram)
    covariance += known.bias * shape.whitening.matrix @ shape.whitening.matrix
    return np.asarray(covariance + shape.unseen + np.outer(walked, walked))


def _sketched(sample: Sample, shape: Shape, known: Known) -> tuple[Known, Residuals]:
    """With a sketch; what was learned before counts as far as the clip then did not bias it."""
    n, d = sample.X.shape
    released, record = sample.release(
        partial(_counts, known),
        lambda parts: parts[0],
        # A row is one count: replacing it moves two counts by one.
        sensitivity=sample.problem.budget.contributions * math.sqrt(2),
        what="sketch of residuals",
    )
    possible = math.sqrt(known.nu) * LOWER < known.limit
    sides = released.reshape(2, 2, len(LEVELS))
    counts = (sides * possible).sum(axis=(0, 1))
    # Residuals were so much longer then: theta was less known than it will be.
    variance = known.nu + float(np.trace(known.theta.covariance @ shape.gram))
    residuals = Residuals(LEVELS, counts, 2 * record.scale, n, variance)
    known = replace(known, spread=spread_of(sides, record.scale, n, possible))
    clips = Clips.of(known.spread, known.largest, uneven=1.0)
    bias = known.nu * clips.hidden / (float(np.trace(shape.H)) * clips.slope**2)
    then = float(np.interp(known.length / math.sqrt(known.nu), clips.at, bias))
    unknown = float(np.trace(shape.whitening.of_parameters(known.theta.covariance))) / d
    theta = known.theta.discounted(unknown / (unknown + then))
    return replace(known, both=HiddenPosterior.of_theta(theta, REST), theta=theta), residuals


def _step(sample: Sample, shape: Shape, known: Known, plan: Plan) -> Known:
    """One release and what it says."""
    n, budget = sample.weight_of_rows, sample.problem.budget
    d = len(shape.H)
    noise_per_R = 2 * budget.contributions * math.sqrt(plan.parts / plan.share) / budget.mu
    clip = Clip.planned(known, shape, n * plan.parts, noise_per_R)
    told = _release(sample, shape, known, clip)
    log_nu, log_variance, slope = _label_noise(told, shape, known, clip, n)
    design, noise = _model(told, shape, known, clip, slope, n)
    if plan.parts > 1:  # labels of other rows are news, those of the same rows are not
        visits = len(plan.steps) / plan.parts
        noise[:d, :d] += visits * known.nu * clip.second * n * shape.H
    centre = known.theta.mean
    observed = np.append(told.moment, told.rest) + design[:, :d] @ centre
    before = known.both.loosened(known.theta.covariance, design[:d, :d], told.moment, noise[:d, :d])
    both = before.observe(design, observed, noise)
    theta = both.theta().with_fitted_prior()
    return Known(
        both=replace(both, prior=theta.prior),
        theta=theta,
        log_nu=log_nu,
        log_variance=log_variance,
        spread=known.spread,
        labels=known.nu * clip.second / slope**2,
        bias=clip.bias,
        length=min(known.length, clip.at * math.sqrt(known.nu)),
    )


def _release(sample: Sample, shape: Shape, known: Known, clip: Clip) -> Told:
    """Moment, rest and squares."""
    n, d = sample.weight_of_rows, len(shape.H)
    # A row adds F u, |F| <= |f/cut|, to moment / R, one entry g/E to the rest, q (f/cut)^2 to the
    # last, q = 1/2. With f for f/cut and g for g/E, f^2 + g^2 <= 1, two rows differ in squares by
    #     (|F| + |F'|)^2 + (|g| + |g'|)^2 + q^2 (f^2 - f'^2)^2
    #       <= (|f| + |f'|)^2 + (|g| + |g'|)^2 + (|f| - |f'|)^2 <= 2 (f^2 + f'^2) + 2 (g^2 + g'^2),
    # because q (|f| + |f'|) <= 1: at most 4, so 2 (replace-one), and neither is paid for.
    released, record = sample.release(
        partial(_sums, shape.whitening, known, clip),
        lambda parts: np.concatenate([parts[0] / clip.bound, parts[1], SQUARE * parts[2]]),
        sensitivity=sample.problem.budget.contributions * 2.0,
        what="residual moment, rest and squares",
    )
    E = np.tile(known.layers, 2)
    square = float(released[-1]) / (SQUARE * n)
    return Told(released[:d] * clip.bound, released[d:-1] * E / n, square, record.scale)


def _label_noise(
    told: Told, shape: Shape, known: Known, clip: Clip, n: float
) -> tuple[float, float, float]:
    """log nu and its variance by an extended Kalman filter; the slope of a clip under them.

    E (f/cut)^2 = second / c^2 grows with the variance of residuals, nu + v on average, of which v
    is not known better than by its size.
    """
    nu = known.nu
    v = float(np.trace(known.theta.covariance @ shape.gram))
    inner = clip.inner / clip.at**2
    derivative = inner * nu / (nu + v)
    far = inner * v / (nu + v)
    square_std = math.hypot(told.unit / (SQUARE * n), 0.5 / math.sqrt(n), far)
    gain = known.log_variance * derivative
    gain /= known.log_variance * derivative**2 + square_std**2
    move = min(max(gain * (told.square - clip.second / clip.at**2), -1.0), 1.0)
    log_nu = min(max(known.log_nu + move, math.log(1e-8)), 0.0)
    scale = math.exp(move / 2 * nu / (nu + v))
    clips = Clips.of(known.spread, known.largest)
    slope = min(max(float(np.interp(clip.at / scale, clips.at, clips.slope)), 0.1), 1.0)
    return log_nu, known.log_variance * (1 - gain * derivative), slope


def _model(
    told: Told, shape: Shape, known: Known, clip: Clip, slope: float, n: float
) -> tuple[Array, Array]:
    """Design and noise of (moment, rest) as an observation of (theta, kappas)."""
    d = len(shape.H)
    M, C = shape.whitening, known.theta.covariance
    # Weights of rows of length 1 or more fall with s(phi), by sqrt(1 + v / nu) on average; those of
    # shorter ones less, down to 1.
    most = math.sqrt(1 + float(np.trace(C @ shape.gram)) / known.nu)
    length = math.sqrt(M.mean_square(shape.gram))
    inflation = max(most * length, 1.0) / max(length, 1.0)
    error = math.hypot(SLOPE_ERROR, (1 - 1 / most) / 2)
    H = n * shape.H / inflation
    unknown = M.of_parameters(C)
    a, p = shape.sides(known.theta.mean)
    # Where theta is off, residuals are beyond the clip for that: (1 - slope) E[phi; side] of it.
    rows = shape.gram @ a * p
    off = (1 - slope) ** 2 * np.einsum("ik,ij,jk->k", rows, C, rows)
    E = np.tile(known.layers, 2)
    rest_variance = (told.unit * E / n) ** 2 + np.repeat(off, LAYERS)
    noise = np.diag(np.append(np.full(d, (told.unit * clip.bound) ** 2), rest_variance))
    noise[:d, :d] += (error * slope) ** 2 * H @ unknown @ H
    noise[:d, :d] += (slope / inflation * n) ** 2 * shape.moment_error(unknown)
    design = np.eye(d + REST)
    design[:d, :d] = slope * H @ M.inverse
    design[:d, d:] = -np.repeat(H @ M.inverse @ a, LAYERS, axis=1)
    return design, noise


# -- queries: sums over a block of rows, from public parameters ----------------------------------


def _squares(rows: Array) -> Array:
    return np.asarray(np.einsum("ij,ij->i", rows, rows))


def _counts(known: Known, X: Array, y: Array) -> Parts:
    counts = np.zeros(4 * len(LEVELS))
    for z, label in row_blocks(X, y, np.column_stack([known.root, known.theta.mean])):
        s = np.sqrt(known.nu + _squares(z[:, :-1]))
        counts += counted(label - z[:, -1], s, z[:, -1])
    return (counts,)


def _sums(whitening: Whitening, known: Known, clip: Clip, X: Array, y: Array) -> Parts:
    """moment, rest, square: |w x| cut <= R and (f / cut)^2 + (g / E)^2 <= 1."""
    d = X.shape[1]
    moment = np.zeros(d)
    rest = np.zeros(REST)
    square = np.zeros(1)
    views = np.column_stack([whitening.matrix, known.root, known.theta.mean])
    layers = known.layers
    for z, label in row_blocks(X, y, views):
        x, prediction = z[:, :d], z[:, -1]
        r = np.clip(label - prediction, -known.limit, known.limit)
        cut = clip.at * np.sqrt(known.nu + _squares(z[:, d:-1]))
        cut = np.minimum(cut, np.minimum(1 + np.abs(prediction), LIMIT))  # |r| is no larger
        size = np.sqrt(_squares(x))
        w = 1 / np.maximum(np.maximum(cut / clip.bound, 1.0) * size, 1.0)
        layer = np.searchsorted(layers, np.maximum(4 / 3 * np.abs(r), 4 * cut))
        layer = np.minimum(layer, LAYERS - 1)
        _, f, g = weight_and_parts(0.0, r, cut, layers[layer])
        moment += (w * f * cut) @ x
        rest += np.bincount(layer + LAYERS * (prediction < 0), g, minlength=REST)
        square += f @ f
    return moment, rest, square
