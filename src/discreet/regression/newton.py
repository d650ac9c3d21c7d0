"""Private Fisher scoring on all rows: a few Newton steps, each one joint Gaussian release.

    here    u = M phi, t = Theta' phi                          a whitened row; its predictor
            g = sum w u (y - nu(t))'                           the gradient
            H = sum w u u' x nu'(t)                            the information (x: Kronecker)
            w = min(1, tau h/(|u| r(t)), 4 tau^2/|u|^2)        r(t) = max_y |y - nu(t)| >= h

t is a number (`LinkScore`: a link nu) or a vector (`SoftmaxScore`: several classes). A stage
releases g and H at the current theta; M, public, whitens the information of the stage before. The
budget, not the data, is split over stages, also where rows are very many: residuals do not shrink
from stage to stage, so every stage is worth its part of mu^2, and giving all of it to the last one
(as `central.py` does) gains nothing. Residuals are never clipped (clipping biases 0/1 labels;
counts are, in stages of their own: `counts.py`); a row loses weight for the largest residual r(t)
attainable, which is h, half the range of labels, where nothing is known, and more where a label
would surprise. Weights depend on phi and the public theta alone, so g = 0 stays unbiased.

Everything else is post-processing: the noise's distribution is known, H is shrunk, the stages are
combined by their precision, and a prior N(0, radius^2/d I) takes over where the noise drowned the
data.

Algorithms 13, 14 of the information-weighted paper (2025) split the data, and perturb a minimiser.
"""

import math
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np
import scipy

from discreet.arrays import Array
from discreet.domains.hull import sum_zero_basis
from discreet.least_squares import Posterior, Whitening, gram_error_covariance, shrink
from discreet.least_squares.symmetric import power
from discreet.links import BoundedLink
from discreet.privacy.mechanisms import symmetric_to_vector, vector_to_symmetric
from discreet.regression.base import Estimate, Problem
from discreet.regression.rows import Parts
from discreet.regression.sample import Sample

FRACTIONS = (0.06, 0.1, 0.2, 0.64)  # of mu^2; early stages find M and a starting point
PLAIN_STAGES = 40  # without noise: until Newton's method has converged
LONG = 4.0  # rows beyond LONG * tau lose weight like 1/|u|^2 rather than 1/|u|
LEAST_SPREAD = 1e-12  # of public rows, the least eigenvalue over the largest: rounding's
GRAM_COST = 0.25  # G: (move of the information / move of the gradient)^2; at most 1/4
BLOCK = 2**12  # rows at a time: of k classes each has k (k - 1) / 2 entries of its information
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


class Score:
    """How labels depend on t = Theta' phi of m entries; theta is Theta (d, m), row by row."""

    @property
    def entries(self) -> int:
        """m."""
        return 1

    @property
    def slope(self) -> float:
        """nu' at its largest; of a matrix, the eigenvalues where no class is preferred."""
        return 1.0

    @property
    def dispersion(self) -> float:
        """Cov(y | phi) <= dispersion nu'(t)."""
        return 1.0

    @property
    def half_range(self) -> float:
        """h: for every t some label is at least so far from its mean."""
        raise TypeError("a score must define half_range")

    @property
    def joint(self) -> float:
        """(move of g and c H together / move of g)^2, where a row adds p u to g and q u u' to H.

        A row is p moves_g / 2 long in g and q moves_H / sqrt(2) in H, 0 <= p, q <= 1; as
        c moves_H = sqrt(G) moves_g, two rows with cosine a move both, in units of moves_g / 2, by
        p^2 + p'^2 + 2 a p p' + 2 G (q^2 + q'^2 - 2 a^2 q q') in squares (replace-one). That is
        convex in the q's and grows with the p's: largest at p = p' = 1, q = 1, q' = 0 or 1. Those
        are 2 + 2 a + 2 G and, growing with a for G <= 1/4, 2 + 2 a + 4 G (1 - a^2): both at most
        4 (1 + G/2).
        """
        return 1 + GRAM_COST / 2

    @property
    def longest_step(self) -> float:
        """The most by which a stage may change t, in root mean square."""
        return math.inf

    def statistics(self, weighting: Weighting, theta: Array, X: Array, y: Array) -> Parts:
        """g (d m,) and H (d m, d m) of a block: the only place where labels and rows are read."""
        raise TypeError("a score must define statistics")

    def sensitivities(self, weighting: Weighting) -> tuple[float, float]:
        """How far one replaced row moves g (l2) and H (Frobenius)."""
        raise TypeError("a score must define sensitivities")

    def surprise(self, theta: Array) -> float:
        """The largest r(t) / h of a row in the unit ball."""
        raise TypeError("a score must define surprise")

    def gram(self, information: Array) -> Array:
        """The Gram matrix (d, d) of rows, in units of `slope`, from their information."""
        return information / self.slope

    def target(self, noisy: Array, noise_std: float) -> Array | None:
        """What the information is drawn to where it is noise; None: a multiple of I."""
        return None

    def within(self, theta: Array, radius: float) -> Array:
        """The nearest theta that is allowed: |t| <= radius."""
        return np.asarray(theta * min(1.0, radius / max(float(np.linalg.norm(theta)), 1e-300)))


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


def stage(sample: Sample, score: Score, weighting: Weighting, theta: Array, what: str) -> Stage:
    """One release, and what it says."""
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


def posterior_of(stages: list[Stage], score: Score, prior: Array, n: int, off: bool) -> Posterior:
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


@dataclass(frozen=True)
class LinkScore(Score):
    """The score of a generalised linear model: t is a number."""

    model: BoundedLink  # nu

    @property
    def half_range(self) -> float:
        """h, half the range of labels."""
        least, most = self.model.labels
        return (most - least) / 2

    @property
    def slope(self) -> float:
        """The largest nu'."""
        return self.model.largest

    @property
    def dispersion(self) -> float:
        """Var(y | phi) <= dispersion nu'."""
        return self.model.dispersion

    def surprise(self, theta: Array) -> float:
        """|t| <= |theta|, because |phi| <= 1."""
        return self.model.residual(float(np.linalg.norm(theta))) / self.half_range

    def statistics(self, weighting: Weighting, theta: Array, X: Array, y: Array) -> Parts:
        """g = sum w u (y - nu) and H = sum w u u' nu', labels clipped to what the link allows."""
        t = X @ theta
        u, w = weighting.transform(X, self.model.residuals(t) / self.half_range)
        g = u.T @ (w * (np.clip(y, *self.model.labels) - self.model.mean(t)))
        return g, (u * (w * self.model.slope(t))[:, None]).T @ u

    def sensitivities(self, weighting: Weighting) -> tuple[float, float]:
        """How far one replaced row moves g and H."""
        # |w u (y - nu(t))| <= w |u| r(t) <= tau h; two such rows differ by 2 tau h (replace-one).
        gradient = 2 * weighting.tau * self.half_range
        # H sums a a^T with |a|^2 = w nu' |u|^2 <= L cap: sqrt(2) L cap (replace-one, PSD terms).
        return gradient, math.sqrt(2) * self.model.largest * weighting.cap


@dataclass(frozen=True)
class SoftmaxScore(Score):
    """The score of k classes: multinomial logistic regression in one release.

    V (k, k - 1)        an orthonormal basis of what is orthogonal to (1, ..., 1)
    p = softmax(V t)    probabilities of the classes; of two, t is the log-odds over sqrt(2)
    r = V' (e_y - p)    the residual of a row of class y; |r| = |e_y - p|
    S = V' (diag p - p p') V          the information of a row, a covariance matrix
    h = sqrt(1 - 1/k)   the circumradius of the simplex: max_y |e_y - p| >= h for all p
    """

    classes: int  # k

    @property
    def entries(self) -> int:
        """m = k - 1."""
        return self.classes - 1

    @property
    def joint(self) -> float:
        """(move of g and c H together / move of g)^2."""
        # A row is at most tau h long in g and sqrt(2 G) tau h in c H. Two rows: (1 + 1)^2 in
        # squares from g, 2 (2 G) from H, whose terms are PSD: 4 (1 + G), against 4 of g alone.
        return 1 + GRAM_COST

    @property
    def longest_step(self) -> float:
        """Newton's method overshoots where probabilities are near 0 and 1."""
        return 2.0

    @property
    def half_range(self) -> float:
        """h: the mean over y of |e_y - p|^2 is 1 + |p|^2 - 2/k >= 1 - 1/k, as |p|^2 >= 1/k."""
        return math.sqrt(1 - 1 / self.classes)

    @property
    def slope(self) -> float:
        """S = I/k where all classes have the same probability."""
        return 1 / self.classes

    @cached_property
    def basis(self) -> Array:  # (k, k - 1)
        """V: Helmert's contrasts, each class against the mean of those before it."""
        return -sum_zero_basis(self.classes)

    def probabilities(self, t: Array) -> Array:  # (n, k - 1) -> (n, k)
        """softmax(V t)."""
        return np.asarray(scipy.special.softmax(t @ self.basis.T, axis=1))

    def surprise(self, theta: Array) -> float:
        """|t| <= |Theta| bounds log-odds; r^2 = 1 + |p|^2 - 2 min p, and |p|^2 <= max p."""
        singular = np.linalg.norm(theta.reshape(-1, self.entries), 2)
        odds = math.exp(min(math.sqrt(2) * float(singular), 700.0))
        least, largest = (1 / (1 + (self.classes - 1) * each) for each in (odds, 1 / odds))
        return math.sqrt(min(1 + largest - 2 * least, 2.0)) / self.half_range

    def statistics(self, weighting: Weighting, theta: Array, X: Array, y: Array) -> Parts:
        """g = sum w u x r and H = sum w (u u') x S."""
        d = X.shape[1]
        m = self.entries
        g = np.zeros((d, m))
        H = np.zeros((d, m, d, m))
        for start in range(0, len(X), BLOCK):
            block = slice(start, start + BLOCK)
            p = self.probabilities(X[block] @ theta.reshape(d, m))
            labels = np.clip(y[block], 0, self.classes - 1).astype(np.intp)
            # max_y |e_y - p|^2 = 1 + |p|^2 - 2 min p
            farthest = np.sqrt(1 + np.einsum("ij,ij->i", p, p) - 2 * p.min(axis=1))
            u, w = weighting.transform(X[block], np.maximum(farthest / self.half_range, 1.0))
            q = p @ self.basis
            g += u.T @ (w[:, None] * (self.basis[labels] - q))
            for a in range(m):
                for b in range(a + 1):
                    S = p @ (self.basis[:, a] * self.basis[:, b]) - q[:, a] * q[:, b]
                    part = (u * (w * S)[:, None]).T @ u
                    H[:, a, :, b] += part
                    H[:, b, :, a] += part * (a != b)
        return g.ravel(), H.reshape(d * m, d * m)

    def sensitivities(self, weighting: Weighting) -> tuple[float, float]:
        """How far one replaced row moves g and H."""
        # |w u r'|_F = w |u| |e_y - p| <= tau h; two such rows differ by 2 tau h (replace-one).
        gradient = 2 * weighting.tau * self.half_range
        # |S|_F^2 = a - 2 b + a^2 with a = sum p^2, b = sum p^3, and a^2 <= b by Cauchy and Schwarz:
        # at most a - a^2 <= 1/4. So |w u u' x S|_F <= cap / 2; sqrt(2) of it (replace-one, PSD).
        return gradient, math.sqrt(2) * weighting.cap / 2

    def gram(self, information: Array) -> Array:
        """The blocks of the diagonal added up, over tr S = 1 - 1/k where classes are equal."""
        m = self.entries
        d = len(information) // m
        traces = np.einsum("iaja->ij", information.reshape(d, m, d, m))
        return np.asarray(traces / (1 - 1 / self.classes))

    def target(self, noisy: Array, noise_std: float) -> Array:
        """Gram matrix x mean information of a row: of H, both are sums, with less noise."""
        m = self.entries
        d = len(noisy) // m
        parts = noisy.reshape(d, m, d, m)
        rows = shrink(np.einsum("iaja->ij", parts), math.sqrt(m) * noise_std)
        classes = shrink(np.einsum("iaib->ab", parts), math.sqrt(d) * noise_std)
        return np.asarray(np.kron(rows, classes) / max(float(np.trace(rows)), 1e-300))

    def within(self, theta: Array, radius: float) -> Array:
        """Singular values of Theta are cut at the radius, so that |t| is."""
        left, values, right = np.linalg.svd(theta.reshape(-1, self.entries), full_matrices=False)
        return np.asarray((left * np.minimum(values, radius)) @ right).ravel()
