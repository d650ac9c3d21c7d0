"""Private Fisher scoring on all rows: a few Newton steps, each one joint Gaussian release.

    here    u = M phi, t = <phi, theta>                        a whitened row; nu, the link
            g = sum w u (y - nu(t))                            the gradient
            H = sum w u u^T nu'(t)                             the information
            w = min(1, tau h/(|u| r(t)), 4 tau^2/|u|^2)        r(t) = max_y |y - nu(t)| >= h

A stage releases g and H at the current theta; M, public, whitens the information of the stage
before. The budget, not the data, is split over stages, also where rows are very many: residuals do
not shrink from stage to stage, so every stage is worth its part of mu^2, and giving all of it to
the last one (as `central.py` does) gains nothing. Residuals are never clipped
(clipping biases 0/1 labels); a row loses weight for the largest residual r(t) attainable, which is
h, half the range of labels, where nothing is known yet, and more where a label would surprise.
Weights depend on phi and the public theta alone, so the equation g = 0 stays unbiased.

Everything else is post-processing: the noise's distribution is known, H is shrunk, the stages are
combined by their precision, and a prior N(0, radius^2/d I) takes over where the noise drowned the
data.

Compare Algorithms 13, 14 of the information-weighted regression paper (2025), which split the
data and perturb a minimiser.
"""

import math
from dataclasses import dataclass
from functools import partial

import numpy as np

from discreet.arrays import Array
from discreet.least_squares import Posterior, Whitening, gram_error_covariance, shrink
from discreet.links import BoundedLink
from discreet.privacy.mechanisms import symmetric_to_vector, vector_to_symmetric
from discreet.regression.base import Estimate, Problem
from discreet.regression.rows import Parts
from discreet.regression.sample import Sample

FRACTIONS = (0.06, 0.1, 0.2, 0.64)  # of mu^2; early stages find M and a starting point
PLAIN_STAGES = 40  # without noise: until Newton's method has converged
GRAM_COST = 0.25  # (move of the information / move of the gradient)^2; at most 1/4
LONG = 4.0  # rows beyond LONG * tau lose weight like 1/|u|^2 rather than 1/|u|
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


def newton(problem: Problem, model: BoundedLink, radius: float) -> Estimate:
    """theta with |theta| <= radius and the covariance of its error.

    Without noise this is the minimiser of sum loss + dispersion d/(2 radius^2) |theta|^2.
    """
    n, d = problem.X.shape
    prior = np.eye(d) * (d / radius**2)
    theta = np.zeros(d)
    stages = list[Stage]()
    mu = problem.budget.mu
    fractions = (1 / PLAIN_STAGES,) * PLAIN_STAGES if problem.budget.off else FRACTIONS
    for number, fraction in enumerate(fractions, 1):
        sample = Sample(problem, problem.X, problem.y, mu * math.sqrt(fraction))
        weighting = _first_weighting(problem)
        if stages:
            gram = stages[-1].information / (n * model.largest)
            # tau beyond |u| r(t) / h for every row would weigh nothing: |t| <= |theta|, |phi| <= 1.
            surprise = model.residual(float(np.linalg.norm(theta))) / half_range(model)
            weighting = _weighting(gram, _tau(problem, model), surprise)
        what = f"gradient and information, stage {number} of {len(fractions)}"
        stages.append(_stage(sample, model, weighting, theta, what))
        posterior = _posterior(stages, model, prior, n, problem.budget.off)
        theta = posterior.mean
        theta = theta * min(1.0, radius / max(float(np.linalg.norm(theta)), 1e-300))
    return Estimate(theta, posterior.covariance + stages[-1].information_noise)


def statistics(
    X: Array, y: Array, model: BoundedLink, weighting: Weighting, theta: Array
) -> tuple[Array, Array]:  # -> (d,), (d, d)
    """g and H: the only place where labels and features are read."""
    t = X @ theta
    u, w = weighting.transform(X, model.residuals(t) / half_range(model))
    g = u.T @ (w * (y - model.mean(t)))
    return g, (u * (w * model.slope(t))[:, None]).T @ u


def _query(model: BoundedLink, weighting: Weighting, theta: Array, X: Array, y: Array) -> Parts:
    """The statistics of a block of rows, labels clipped to what the link allows."""
    return statistics(X, np.clip(y, *model.labels), model, weighting, theta)


def half_range(model: BoundedLink) -> float:
    """h, half the range of labels: for every t some label is at least so far from nu(t)."""
    least, most = model.labels
    return (most - least) / 2


def sensitivities(model: BoundedLink, weighting: Weighting) -> tuple[float, float]:
    """How far one replaced row moves g (l2) and H (Frobenius)."""
    # |w u (y - nu(t))| <= w |u| r(t) <= tau h; two such rows differ by 2 tau h (replace-one).
    gradient = 2 * weighting.tau * half_range(model)
    # H sums a a^T with |a|^2 = w nu' |u|^2 <= L cap: sqrt(2) L cap (replace-one, PSD terms).
    return gradient, math.sqrt(2) * model.largest * weighting.cap


def _stage(
    sample: Sample, model: BoundedLink, weighting: Weighting, theta: Array, what: str
) -> Stage:
    d = len(theta)
    n = len(sample.X)
    public_X = sample.problem.public_X
    k = sample.problem.budget.contributions
    query = partial(_query, model, weighting, theta)
    moves_g, moves_H = sensitivities(model, weighting)
    if public_X is None:
        # Scaled so that c moves_H = sqrt(G) moves_g, G = GRAM_COST. A row is p tau h long in g and
        # q L cap in H, 0 <= p, q <= 1; two rows with cosine a move both, in units of tau h, by
        # p^2 + p'^2 + 2 a p p' + 2 G (q^2 + q'^2 - 2 a^2 q q') in squares (replace-one). That is
        # convex in the q's and grows with the p's: largest at p = p' = 1, q = 1, q' = 0 or 1. Those
        # are 2 + 2 a + 2 G and, growing with a for G <= 1/4, 2 + 2 a + 4 G (1 - a^2): both at most
        # 4 (1 + G/2).
        c = math.sqrt(GRAM_COST) * moves_g / moves_H
        value, release = sample.release(
            query,
            lambda parts: np.concatenate([parts[0], c * symmetric_to_vector(parts[1])]),
            sensitivity=k * moves_g * math.sqrt(1 + GRAM_COST / 2),
            what=what,
        )
        g = value[:d]
        g_std = release.scale
        H = vector_to_symmetric(value[d:] / c)
        H_std = release.scale / c
    else:  # the information of public covariates costs nothing; only g is released
        g, release = sample.release(
            query,
            lambda parts: parts[0],
            sensitivity=k * moves_g,
            what=what.replace(" and information", ""),
        )
        g_std = release.scale
        H = statistics(public_X, np.zeros(len(public_X)), model, weighting, theta)[1]
        H *= n / len(public_X)
        H_std = 0.0
    H = shrink(H, H_std, floor=max(H_std, 1e-12 * n * model.largest))
    whitening = weighting.whitening
    inverse = np.linalg.inv(H)
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


def _posterior(
    stages: list[Stage], model: BoundedLink, prior: Array, n: int, off: bool
) -> Posterior:
    """theta from its score  J theta^ = J theta + sampling error + J (noise of the stages)."""
    last = stages[-1]
    J = last.information
    # Cov(g) = sum w^2 u u^T Var(y) <= dispersion * H: the sampling error of the score.
    sampling = model.dispersion * J
    known = Posterior.unobserved(prior)
    if off:
        return known.observe(J, J @ last.theta, sampling)
    combined = _combined(stages, n * model.largest)
    return known.observe(J, J @ combined.mean, sampling + J @ combined.covariance @ J)


def _combined(stages: list[Stage], size: float) -> Posterior:
    """Stages averaged by the precision of their noise, without a prior.

    They share the sampling error, which is not in it.
    """
    last = stages[-1]
    d = len(last.theta)
    combined = Posterior.unobserved(np.zeros((d, d)))
    for stage in stages:
        # A Newton step over a long way misses by about the way times its length in <phi, theta>;
        # measured against the stage's noise, that discounts it.
        weight = 1.0
        if stage is not last:
            way = last.theta - stage.start
            bend = float(way @ stage.information @ way) / size
            weight = 1 / (1 + bend * float(np.sum((stage.design @ way) ** 2)) / stage.noise / d)
        combined = combined.observe(stage.design, stage.observed, stage.noise / weight * np.eye(d))
    return combined


def _first_weighting(problem: Problem) -> Weighting:
    d = problem.X.shape[1]
    if problem.public_X is None:
        return Weighting(Whitening.identity(d), 1.0)
    return _weighting(problem.public_X.T @ problem.public_X / len(problem.public_X), 1.0, 1.0)


def _weighting(gram: Array, tau: float, surprise: float) -> Weighting:
    """Rows of mean square length 1, equal in all directions."""
    whitening = Whitening.from_gram(gram, floor=1e-8 / len(gram))
    return Weighting(whitening, min(tau, surprise * whitening.norm))


def _tau(problem: Problem, model: BoundedLink) -> float:
    """1 while noise matters; longer as the sampling error exceeds it; infinite without noise."""
    n, d = problem.X.shape
    budget = problem.budget
    sampling = math.sqrt(n * model.dispersion * model.largest / d)
    noise = 2 * budget.contributions * half_range(model) / budget.mu
    return max(1.0, sampling / (SPARE * noise)) if noise else math.inf
