"""Private Fisher scoring on all rows: a few Newton steps, each one joint Gaussian release.

    here    u = M phi, t = Theta' phi                          a whitened row; its predictor
            g = sum w u (y - nu(t))'                           the gradient
            H = sum w u u' x nu'(t)                            the information (x: Kronecker)
            w = min(1, tau h/(|u| r(t)), 4 tau^2/|u|^2)        r(t) = max_y |y - nu(t)| >= h

t is a number (`glm_newton.py`: a link nu) or a vector (`softmax.py`: several classes); a `Score`
says which. A stage releases g and H at the current theta; M, public, whitens the information of the
stage before. The budget, not the data, is split over stages, also where rows are very many:
residuals do not shrink from stage to stage, so every stage is worth its part of mu^2, and giving
all of it to the last one (as `central.py` does) gains nothing. Residuals are never clipped
(clipping biases 0/1 labels; counts are clipped, in stages of their own: `counts.py`); a row loses
weight for the largest residual r(t) attainable, which is h, half the range of labels, where nothing
is known yet, and more where a label would surprise. Weights depend on phi and the public theta
alone, so the equation g = 0 stays unbiased.

Everything else is post-processing: the noise's distribution is known, H is shrunk, the stages are
combined by their precision, and a prior N(0, radius^2/d I) takes over where the noise drowned the
data.

Compare Algorithms 13, 14 of the information-weighted regression paper (2025), which split the
data and perturb a minimiser.
"""

import math
from dataclasses import dataclass
from functools import partial
from typing import Protocol

import numpy as np

from discreet.arrays import Array
from discreet.least_squares import Posterior, Whitening, gram_error_covariance, shrink
from discreet.least_squares.symmetric import power
from discreet.privacy.mechanisms import symmetric_to_vector, vector_to_symmetric
from discreet.regression.base import Estimate, Problem
from discreet.regression.rows import Parts
from discreet.regression.sample import Sample

FRACTIONS = (0.06, 0.1, 0.2, 0.64)  # of mu^2; early stages find M and a starting point
PLAIN_STAGES = 40  # without noise: until Newton's method has converged
LONG = 4.0  # rows beyond LONG * tau lose weight like 1/|u|^2 rather than 1/|u|
LEAST_SPREAD = 1e-12  # of public rows, the least eigenvalue over the largest: rounding's
SPARE = 6.0  # rows are shortened less, once noise is SPARE times below the sampling error


@dataclass(frozen=True)
class Weighting:
    """Public coordinates u = M phi, and the length tau beyond which rows lose weight."""

    whitening: Whitening  # M
    tau: float  # in whitened units

    @property
    def cap(self) -> float:
        """w |u|^2 is at most this: w |u| <= tau h/r <= tau, w |u|^2 <= LONG tau^2, and w <= 1."""
        longest = self.whitening.norm  # |u| <= |M|, because |phi| <= 1
        return min(self.tau * longest, LONG * self.tau**2, longest**2)

    def transform(self, X: Array, surprise: Array) -> tuple[Array, Array]:  # (n, d), (n,)
        """u, and w for rows whose residual is at most `surprise` times h."""
        u = self.whitening.transform(X)
        norms = np.maximum(np.sqrt(np.einsum("ij,ij->i", u, u)), 1e-100)
        ratio = self.tau / norms
        return u, np.minimum(1.0, np.minimum(ratio / surprise, LONG * ratio**2))


class Terms(Protocol):
    """What a row adds to gradient and information, at t = Theta' phi of m entries.

    theta is Theta (d, m), row by row.
    """

    @property
    def entries(self) -> int:
        """m."""

    @property
    def slope(self) -> float:
        """nu' at its largest; of a matrix, the eigenvalues where no class is preferred."""

    @property
    def dispersion(self) -> float:
        """Cov(y | phi) <= dispersion nu'(t)."""

    @property
    def gram_cost(self) -> float:
        """G: (move of c H / move of g)^2, in the joint release."""

    @property
    def joint(self) -> float:
        """(move of g and c H together / move of g)^2, proved where it is defined."""

    def statistics(self, weighting: Weighting, theta: Array, X: Array, y: Array) -> Parts:
        """g (d m,) and H (d m, d m) of a block: the only place where labels and rows are read."""

    def sensitivities(self, weighting: Weighting) -> tuple[float, float]:
        """How far one replaced row moves g (l2) and H (Frobenius)."""

    def target(self, noisy: Array, noise_std: float) -> Array | None:
        """What the information is drawn to where it is noise; None: a multiple of I."""


class Score(Terms, Protocol):
    """How labels depend on t, residuals never clipped."""

    @property
    def half_range(self) -> float:
        """h: for every t some label is at least so far from its mean."""

    def surprise(self, theta: Array) -> float:
        """The largest r(t) / h of a row in the unit ball."""

    def gram(self, information: Array) -> Array:
        """The Gram matrix (d, d) of rows, in units of `slope`, from their information."""

    def within(self, theta: Array, radius: float) -> Array:
        """The nearest theta that is allowed: |t| <= radius."""

    @property
    def longest_step(self) -> float:
        """The most by which a stage may change t, in root mean square."""


@dataclass(frozen=True)
class Stage:
    """What one stage says about the minimiser:  observed = design theta + N(0, noise I)."""

    start: Array  # where the step begins
    theta: Array  # start + M H^-1 g: where observed = design theta
    design: Array  # H M^-1
    observed: Array  # g + design start
    noise: float  # variance of each entry of `observed`
    information: Array  # M^-1 H M^-1: H in the coordinates of theta
    information_noise: Array  # covariance that the noise of H adds


def scoring(problem: Problem, score: Score, radius: float) -> Estimate:
    """theta with |t| <= radius and the covariance of its error.

    Without noise this is the minimiser of sum loss + dispersion d/(2 radius^2) |theta|^2.
    """
    n, d = problem.X.shape
    size = d * score.entries
    prior = np.eye(size) * (d / radius**2)
    theta = np.zeros(size)
    stages = list[Stage]()
    mu = problem.budget.mu
    fractions = (1 / PLAIN_STAGES,) * PLAIN_STAGES if problem.budget.off else FRACTIONS
    for number, fraction in enumerate(fractions, 1):
        sample = Sample(problem, problem.X, problem.y, mu * math.sqrt(fraction))
        weighting = first_weighting(problem)
        if stages:
            gram = score.gram(stages[-1].information) / n
            # tau beyond |u| r(t) / h for every row would weigh nothing: |t| <= |theta|, |phi| <= 1.
            weighting = weighting_of(gram, _tau(problem, score), score.surprise(theta))
        what = f"gradient and information, stage {number} of {len(fractions)}"
        stages.append(stage(sample, score, weighting, theta, what))
        posterior = posterior_of(stages, score, prior, n, problem.budget.off)
        way = posterior.mean - theta
        length = math.sqrt(float(way @ stages[-1].information @ way) / (n * score.slope))
        way *= min(1.0, score.longest_step / max(length, 1e-300))
        theta = score.within(theta + way, radius)
    return Estimate(theta, posterior.covariance + stages[-1].information_noise)


def stage(sample: Sample, score: Terms, weighting: Weighting, theta: Array, what: str) -> Stage:
    """One release, and what it says."""
    size = len(theta)
    n = len(sample.X)
    public_X = sample.problem.public_X
    k = sample.problem.budget.contributions
    query = partial(score.statistics, weighting, theta)
    moves_g, moves_H = score.sensitivities(weighting)
    if public_X is None:
        # Scaled so that c moves_H = sqrt(G) moves_g; both together move by sqrt(joint) moves_g.
        c = math.sqrt(score.gram_cost) * moves_g / moves_H
        value, release = sample.release(
            query,
            lambda parts: np.concatenate([parts[0], c * symmetric_to_vector(parts[1])]),
            sensitivity=k * moves_g * math.sqrt(score.joint),
            what=what,
        )
        g = value[:size]
        g_std = release.scale
        H = vector_to_symmetric(value[size:] / c)
        H_std = release.scale / c
    else:  # the information of public covariates costs nothing; only g is released
        g, release = sample.release(
            query,
            lambda parts: parts[0],
            sensitivity=k * moves_g,
            what=what.replace(" and information", ""),
        )
        g_std = release.scale
        H = score.statistics(weighting, theta, public_X, np.zeros(len(public_X)))[1]
        H = H * (n / len(public_X))
        H_std = 0.0
    H = shrink(H, H_std, target=score.target(H, H_std), floor=max(H_std, 1e-12 * n * score.slope))
    whitening = weighting.whitening
    if score.entries > 1:  # M x I: the same coordinates for every entry of t
        whitening = Whitening(
            np.asarray(np.kron(whitening.matrix, np.eye(score.entries)), np.float64)
        )
    inverse = power(H, -1.0, floor=1e-12 * max(float(np.trace(H)), 1e-100))  # never fails
    step = inverse @ g
    design = H @ whitening.inverse
    H_error = gram_error_covariance(np.outer(step, step), H_std)
    return Stage(
        start=theta,
        theta=theta + whitening.matrix @ step,
        design=design,
        observed=g + design @ theta,
        noise=g_std**2,
        information=whitening.unwhitened(H),
        information_noise=whitening.to_parameters(inverse @ H_error @ inverse),
    )


def posterior_of(stages: list[Stage], score: Terms, prior: Array, n: int, off: bool) -> Posterior:
    """theta from its score  J theta^ = J theta + sampling error + J (noise of the stages)."""
    last = stages[-1]
    J = last.information
    # Cov(g) = sum w^2 u u^T x Cov(y) <= dispersion * H: the sampling error of the score.
    sampling = score.dispersion * J
    known = Posterior.unobserved(prior)
    if off:
        return known.observe(J, J @ last.theta, sampling)
    combined = _combined(stages, n * score.slope)
    return known.observe(J, J @ combined.mean, sampling + J @ combined.covariance @ J)


def _combined(stages: list[Stage], size: float) -> Posterior:
    """Stages averaged by the precision of their noise, without a prior.

    They share the sampling error, which is not in it.
    """
    last = stages[-1]
    d = len(last.theta)
    combined = Posterior.unobserved(np.zeros((d, d)))
    for each in stages:
        # A Newton step over a long way misses by about the way times its length in t; measured
        # against the stage's noise, that discounts it.
        weight = 1.0
        if each is not last:
            way = last.theta - each.start
            bend = float(way @ each.information @ way) / size
            weight = 1 / (1 + bend * float(np.sum((each.design @ way) ** 2)) / each.noise / d)
        combined = combined.observe(each.design, each.observed, each.noise / weight * np.eye(d))
    return combined


def _assert_spans(public_X: Array) -> None:
    """Refuse public rows that say nothing about some direction, before anything is released."""
    values = np.linalg.eigvalsh(public_X.T @ public_X)
    if not values[0] > LEAST_SPREAD * values[-1]:
        raise ValueError(
            "public_X must vary in all features: its rows lie in a subspace, and nothing is known "
            "beside it; leave out features that depend on others, or leave out public_X"
        )


def first_weighting(problem: Problem) -> Weighting:
    """Nothing is known of the rows, or public ones stand for them."""
    d = problem.X.shape[1]
    if problem.public_X is None:
        return Weighting(Whitening.identity(d), 1.0)
    _assert_spans(problem.public_X)
    return weighting_of(problem.public_X.T @ problem.public_X / len(problem.public_X), 1.0, 1.0)


def weighting_of(gram: Array, tau: float, surprise: float) -> Weighting:
    """Rows of mean square length 1, equal in all directions."""
    whitening = Whitening.from_gram(gram, floor=1e-8 / len(gram))
    return Weighting(whitening, min(tau, surprise * whitening.norm))


def _tau(problem: Problem, score: Score) -> float:
    """1 while noise matters; longer as the sampling error exceeds it; infinite without noise."""
    n, d = problem.X.shape
    budget = problem.budget
    sampling = math.sqrt(n * score.dispersion * score.slope / d)
    noise = 2 * budget.contributions * score.half_range / budget.mu
    return max(1.0, sampling / (SPARE * noise)) if noise else math.inf
