"""Private Fisher scoring on all rows: a few Newton steps, each one joint Gaussian release.

    here    u = M phi, t = Theta' phi                          a whitened row; its predictor
            g = sum w u (y - nu(t))'                           the gradient
            H = sum w u u' x nu'(t)                            the information (x: Kronecker)
            w                                                  a row's weight (`scores.py`)

A stage releases g and H at the current theta; M, public, whitens the information of the stage
before. The budget, not the data, is split over stages, also where rows are very many: residuals do
not shrink from stage to stage, so every stage is worth its part of mu^2, and giving all of it to
the last one (as `central.py` does) gains nothing.

Everything else is post-processing. At theta = 0 the information is that of a Gram matrix, and rows
drawn with this Gram matrix stand in for the private ones: they tell what H is expected to be in a
later stage, of which only what noise cannot explain is changed (`clean`), and how nu' changes
between a stage's start and theta. Stages are combined by their precision, in which the error of H
counts for as much as theta is away from where the stage began, and a prior N(0, radius^2/d I) takes
over where noise drowned the data. The first stage is restated at the base rate that it has told.

Algorithms 13, 14 of the information-weighted paper (2025) split the data, and perturb a minimiser.
"""

import math
from dataclasses import dataclass, replace
from functools import cached_property, partial

import numpy as np

from discreet.arrays import Array, symmetric_to_vector, vector_to_symmetric
from discreet.least_squares import Posterior, Whitening, clean, power
from discreet.regression.base import Estimate, Problem
from discreet.regression.sample import Sample
from discreet.regression.scores import GRAM_COST, Score, Weighting
from discreet.regression.shape import EXACT, GRAM_ROWS

STAGES = 4  # each has twice the mu^2 of the one before: early ones find M and a starting point
PLAIN_STAGES = 40  # without noise: until Newton's method has converged
ROUNDS = 5  # of theta and the noise, which depends on it: more change nothing
STAND_INS = 2**11  # rows that stand in for the private ones: integrals over a normal distribution
TANGENT = 1e-3  # of a way: where a difference quotient is a derivative
LEAST_SPREAD = 1e-12  # of public rows, the least eigenvalue over the largest: rounding's


@dataclass(frozen=True)
class Stage:
    """What one stage says about the minimiser:  g = H~ M^-1 (theta - start) + noise.

    H~ is H with nu' averaged between start and theta, where H has it at the start.
    """

    start: Array  # where the step begins
    whitening: Whitening  # M
    H: Array  # the information, cleaned of its noise
    H_error: Array  # E[E E'], E the error of H
    H_hidden: float  # what H may have in a direction where it seems to have nothing
    g: Array  # the gradient
    noise: float  # variance of each of its entries
    constant: int  # how many entries of theta, the last ones, are the intercept

    @cached_property
    def design(self) -> Array:
        """H M^-1."""
        return np.asarray(self.H @ self.whitening.inverse)

    @cached_property
    def information(self) -> Array:
        """M^-1 H M^-1: H in the coordinates of theta."""
        return self.whitening.unwhitened(self.H)

    @cached_property
    def lifted(self) -> "Stage":
        """As if every direction had what noise hides: a short step where little is known."""
        return replace(self, H=power(self.H, 1.0, floor=self.H_hidden))

    @cached_property
    def _metric(self) -> Array:
        return np.asarray(self.whitening.inverse @ self.whitening.inverse)

    def observation(
        self, mean: Array, covariance: Array, score: Score, rows: Array, *, last: bool
    ) -> tuple[Array, Array, Array]:
        """Design, observed and noise covariance, where theta ~ N(mean, covariance) for all we know.

        g has noise; H~ (theta - start) has the error of H as well, and that of the stand-ins: about
        the length of the step in t times itself, and half the square of that length in the
        intercept. What the last stage misses along its step is left to no other stage to mend, and
        is not in it.
        """
        d = len(mean)
        way = self.whitening.inverse @ (mean - self.start)
        spread = float(way @ way + np.sum(self._metric * covariance)) / d
        step = self.H @ way
        length = max(float(way @ step), 1e-300)
        size = float(np.trace(self.information)) / score.entries  # the sum of w |phi|^2 nu'
        bend = length * float(np.mean(np.einsum("ij,ij->i", rows, rows))) / size  # mean square of t
        constant = self.design[:, d - self.constant :] * bend
        noise = (self.noise + bend * float(step @ step) / d) * np.eye(d) + spread * self.H_error
        noise += constant @ constant.T / 2
        if not last:
            noise += bend * np.outer(step, step)
        more = secant(score, rows, self.start, mean) - 1
        design = self.design + more / length * np.outer(step, step @ self.whitening.inverse)
        return design, self.g + design @ self.start, noise


def scoring(problem: Problem, score: Score, radius: float) -> Estimate:
    """theta with |t| <= radius and the covariance of its error.

    Without noise this is the minimiser of sum loss + dispersion d/(2 radius^2) |theta|^2.
    """
    n, d = problem.X.shape
    off = problem.budget.off
    fractions = [1 / PLAIN_STAGES] * PLAIN_STAGES if off else doubling(STAGES)
    releases = [
        (
            Sample(problem, problem.X, problem.y, problem.budget.mu * math.sqrt(fraction)),
            f"gradient and information, stage {number} of {len(fractions)}",
        )
        for number, fraction in enumerate(fractions, 1)
    ]
    (sample, what), *later = releases
    theta = np.zeros(d * score.entries)
    found = stage(sample, score, first_weighting(problem), theta, what)
    rows = stand_ins(problem, score.gram(found.lifted.information) / n)
    if problem.intercept and not off:
        found = at_base_rate(found, score, n)
    seen = [found]
    posterior = partial(posterior_of, score=score, rows=rows, prior=radius**2 / d, off=off)

    def ahead(*, last: bool) -> Array:
        stages = [each.lifted for each in seen]
        return score.within(_limited(posterior(stages).mean, stages, score, n, last=last), radius)

    for sample, what in later:
        theta = ahead(last=off)
        gram = score.gram(seen[-1].lifted.information)
        gram *= float(np.mean(np.einsum("ij,ij->i", rows, rows)) / np.trace(gram))
        weighting = _weighting(problem, gram, score.surprise(theta))
        seen.append(stage(sample, score, weighting, theta, what, rows))
    theta = ahead(last=True)
    # Where noise may hide all that H has, nothing but the prior is known.
    covariance = posterior(seen).covariance
    doubt = 0.0 if off else error_over_spread(rows, theta, covariance)
    return Estimate(theta, covariance, doubt=doubt)


def doubling(stages: int) -> list[float]:
    """Fractions of mu^2, each twice the one before.

    >>> doubling(2)
    [0.333..., 0.666...]
    """
    return [2**k / (2**stages - 1) for k in range(stages)]


def _limited(mean: Array, stages: list[Stage], score: Score, n: int, *, last: bool) -> Array:
    """Where the next stage begins; or where the last one ends.

    A step that H's error leaves uncertain would overshoot, and so it is as long as makes the
    expected error least: (H^2 + E[E E'])^-1 H^2 of it. None gains more likelihood than the entropy
    of the labels.
    """
    found = stages[-1]
    way = mean - found.start
    if not last:
        square = found.H @ found.H
        shorter = power(square + found.H_error, -1.0) @ square @ found.whitening.inverse @ way
        way = found.whitening.matrix @ shorter
    gain = float(way @ stages[0].information @ way) / (2 * n)
    return np.asarray(found.start + way * math.sqrt(min(1.0, score.entropy / max(gain, 1e-300))))


def error_over_spread(rows: Array, theta: Array, covariance: Array) -> float:
    """The std of the error of t over its spread, without what is the same in all rows."""
    d = rows.shape[1]
    away = rows - rows.mean(axis=0)
    of_rows = away.T @ away / len(rows)
    entries = covariance.reshape(d, -1, d, covariance.shape[0] // d)
    error = float(np.einsum("ij,iaja->", of_rows, entries))
    spread = float(np.mean(np.sum((away @ theta.reshape(d, -1)) ** 2, axis=1)))
    return math.sqrt(max(error, 0.0) / max(spread, 1e-300))


def stage(
    sample: Sample,
    score: Score,
    weighting: Weighting,
    theta: Array,
    what: str,
    rows: Array | None = None,
) -> Stage:
    """One release, and what it says; in the first one theta is 0, and no rows stand in yet."""
    n = len(sample.X)
    g, g_std, H, H_std = _released(sample, score, weighting, theta, what)
    whitening = weighting.whitening
    m = score.entries
    constant = m if sample.problem.intercept else 0
    floor = 1e-12 * n * score.slope
    if rows is None:  # nu' is the same in all rows: H is a Gram matrix x I
        # An intercept's feature is sqrt(1/2) in all rows.
        known = n / 2 * score.slope if constant and H_std else None
        blocks = np.einsum("iaja->ij", H.reshape(len(H) // m, m, len(H) // m, m)) / m
        gram, error, hidden = clean(blocks, H_std / math.sqrt(m), last=known, floor=floor)
        H = np.asarray(np.kron(gram, np.eye(m)), np.float64)
        H_error = np.asarray(np.kron(error, np.eye(m)), np.float64)
    else:
        target = score.statistics(weighting, theta, rows, np.zeros(len(rows)))[1] * (n / len(rows))
        H, H_error, hidden = clean(H, H_std, target=target, floor=floor)
    if m > 1:  # M x I: the same coordinates for every entry of t
        whitening = Whitening(np.asarray(np.kron(whitening.matrix, np.eye(m)), np.float64))
    return Stage(theta, whitening, H, H_error, hidden, g, g_std**2, constant)


def stand_ins(problem: Problem, gram: Array) -> Array:  # (STAND_INS, d)
    """Rows with this Gram matrix, normal but for an intercept; or the public ones."""
    if problem.public_X is not None:
        return problem.public_X
    d = len(gram)
    drawn = np.random.default_rng(0).standard_normal((max(STAND_INS, 2 * d), d))
    drawn -= drawn.mean(axis=0)
    drawn = drawn @ power(drawn.T @ drawn / len(drawn), -0.5)
    if not problem.intercept:
        gram = gram / max(float(np.trace(gram)), 1.0)  # |phi| <= 1
        return np.asarray(drawn @ power(gram, 0.5, floor=0.0))
    mean = math.sqrt(2) * gram[:-1, -1]
    longer = math.sqrt(max(2 * float(np.trace(gram[:-1, :-1])), 1.0))  # |x|^2 <= 1/2
    covariance = gram[:-1, :-1] - np.outer(mean, mean)
    x = (mean + drawn[:, :-1] @ power(covariance, 0.5, floor=0.0)) / longer
    return np.column_stack([x, np.full(len(x), math.sqrt(0.5))])


def secant(score: Score, rows: Array, start: Array, theta: Array) -> float:
    """The mean of nu' between start and theta, along the way, over nu' at the start."""
    m = score.entries
    t = rows @ start.reshape(-1, m)
    way = rows @ (theta - start).reshape(-1, m)
    mean = score.means(t)
    tangent = float(np.sum(way * (score.means(t + TANGENT * way) - mean))) / TANGENT
    return float(np.sum(way * (score.means(t + way) - mean))) / tangent if tangent else 1.0


def _released(
    sample: Sample, score: Score, weighting: Weighting, theta: Array, what: str
) -> tuple[Array, float, Array, float]:
    """g and H, each with the standard deviation of its noise."""
    size = len(theta)
    n = len(sample.X)
    public_X = sample.problem.public_X
    k = sample.problem.budget.contributions
    query = partial(score.statistics, weighting, theta)
    moves_g, moves_H = score.sensitivities(weighting)
    if public_X is None:
        # Scaled so that c moves_H = sqrt(G) moves_g; both together move by sqrt(joint) moves_g.
        c = math.sqrt(GRAM_COST) * moves_g / moves_H
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
    return g, g_std, H, H_std


def at_base_rate(first: Stage, score: Score, n: int) -> Stage:
    """What the first stage would have said at the intercept that fits its gradient.

    Where t is the same in all rows, g and H depend on it through nu(t) and nu'(t) alone.
    """
    m = first.constant
    back = first.whitening.inverse
    means = math.sqrt(2) / n * (back @ first.g)[-m:]
    variance = 2 * first.noise / n**2
    means *= max(1 - m * variance / max(float(means @ means), 1e-300), 0.0)  # James and Stein
    t, more, root = score.constant(means, math.sqrt(variance))
    start = np.zeros_like(first.start)
    start[-m:] = math.sqrt(2) * t
    step = math.sqrt(2) / score.slope * back[:, -m:] @ more  # H step = sum w u x (nu(t) - nu(0))
    roots = np.kron(np.eye(len(start) // m), root)
    return replace(
        first,
        start=start,
        H=np.asarray(roots @ first.H @ roots),
        H_error=np.asarray(roots @ roots @ first.H_error @ roots @ roots),
        g=first.g - first.H @ step,
        noise=first.noise + float(step @ step) * float(np.trace(first.H_error)) / len(step) ** 2,
    )


def posterior_of(
    stages: list[Stage], score: Score, rows: Array, prior: float, *, off: bool
) -> Posterior:
    """theta from its score  J theta^ = J theta + sampling error + J (noise of the stages).

    `prior` is the variance of each entry of theta before. What a stage says depends on how far
    theta is from its start, so both are found in turn.
    """
    last = stages[-1]
    J = last.information
    # Cov(g) = sum w^2 u u^T x Cov(y) <= dispersion * H: the sampling error of the score.
    sampling = score.dispersion * J
    known = Posterior.unobserved(np.eye(len(last.start)) / prior)
    if off:
        return known.observe(J, J @ last.start + last.whitening.inverse @ last.g, sampling)
    mean = last.start
    covariance = prior * np.eye(len(mean))
    for _ in range(ROUNDS):
        # Stages averaged by the precision of their noise; they share the sampling error.
        combined = Posterior.unobserved(1e-9 * known.prior)
        for each in stages:
            seen = each.observation(mean, covariance, score, rows, last=each is last)
            combined = combined.observe(*seen)
        posterior = known.observe(J, J @ combined.mean, sampling + J @ combined.covariance @ J)
        mean = posterior.mean
        covariance = posterior.covariance
    return posterior


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
    whitening = whitening_of(problem.public_X.T @ problem.public_X / len(problem.public_X))
    return Weighting(whitening, min(1.0, whitening.norm))


def whitening_of(gram: Array) -> Whitening:
    """For rows of mean square length 1, equal in all directions."""
    return Whitening.from_gram(gram, floor=1e-8 / len(gram))


def _weighting(problem: Problem, gram: Array, surprise: float) -> Weighting:
    """Rows longer than 1 lose weight while noise matters, in H later than in g."""
    n, d = problem.X.shape
    mu = problem.budget.mu / problem.budget.contributions
    rho = n * mu / d
    whitening = whitening_of(gram)
    # tau beyond |u| r(t) / h for every row would weigh nothing: |t| <= |theta|, |phi| <= 1.
    tau = min(max(math.sqrt(rho * mu / EXACT), 1.0), surprise * whitening.norm)
    return Weighting(whitening, tau, max(rho / GRAM_ROWS, 1.0))
