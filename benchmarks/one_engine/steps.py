"""Private linear regression in one way for all numbers of rows: shape, then steps. A trial.

Nothing uses it yet: "auto" is `central.py`. See benchmarks/engines.py for how both compare.

    rho      n mu / d, rows of a direction against the noise of a sum, that of about 1/mu rows
    phi, y   a row and its label, |phi| <= 1 and |y| <= 1;  x = M phi, whitened
    nu, C    variance of a label around its mean; covariance of theta, from privacy noise alone
    s(phi)   sqrt(nu + phi' C phi), the scale that a residual r = y - <phi, theta> should have
    w        weight of a row: min(1, R / (|x| cut)) in steps, min(1, 1 / |x|, tau / |x|^2) in Gram
             matrices, where that is the same but for rows longer than tau
    q        E[w |x|] / sqrt(E[w |x|^2]), at most 1: how even lengths are

First three Gram matrices, each of rows whitened by the one before (Chen, Li, Rakhlin, Simchi-Levi
2025, Algorithm 4, with the budget split instead of the rows):

    H = sum w x x',            w |x|^2 <= tau

Then steps. Each plans its clip c (`sketch.py`) and releases

    moment = sum w x f(r),     rest = sums of g(r),     square = sum (f / cut)^2,     r = f + g

where f is what clipping at cut = c s(phi) keeps of a residual. The rest is summed by the sign of
the prediction and by layers: E_j, the least of six halved limits with E_j >= 4/3 |r| and 4 cut, so
that few large residuals do not drown in the noise of larger ones. With (f/cut)^2 + (g/E_j)^2 <= 1
it costs nothing beside the moment. If E[g] on the side b of predictions is kappa_b,

    moment = slope H M^-1 (theta - centre) - H M^-1 sum_b a_b kappa_b + noise

is an observation of theta and of the kappas with known noise (Bishop 2006, 3.50 and 3.51), where
slope = P(|r| <= cut), and a_b the best linear predictor of a side (Bussgang 1952). `square` tracks
nu. An error of H or of the slope fades with every step, because the moment around the right theta
is zero whatever they are. After an eighth of the steps a sketch counts residuals by size and side;
before, they are taken as normal.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import scipy

from discreet.arrays import Array
from discreet.least_squares import Posterior, Whitening, gram_error_covariance, kept, shrink
from discreet.least_squares.clipping import weight_and_parts
from discreet.privacy.mechanisms import symmetric_to_vector, vector_to_symmetric
from discreet.regression.base import Estimate, Problem
from discreet.regression.intervals import Residuals, inverse, unseen
from discreet.regression.rows import Parts, some_places
from discreet.regression.sample import EARLY_ROWS, EARLY_SCOPE, Sample
from one_engine.hidden import Both
from one_engine.sketch import (
    AS_NORMAL,
    LEVELS,
    LOWER,
    Clips,
    Spread,
    counted,
    least_error,
    spread_of,
)


@dataclass(frozen=True)
class Tuning:
    """The numbers that were chosen on benchmarks/engines.py; lengths are of whitened rows."""

    share: float = 0.05  # of mu^2, for each of three Gram matrices and for the sketch
    gram_rows: float = 40.0  # tau^2 = rho over this: then H has noise of 1/sqrt(rho) of its size
    stretch: float = 1.2  # root mean square of |x|: most rows use all of |w x| <= 1
    exact: float = 1000.0  # n mu^2 / d from which rows are shorter: label noise exceeds the release
    steps: tuple[int, int] = (8, 60)  # at high rho, and how many more at low
    half: float = 300.0  # rho at which half of these are left
    condition: float = 16.0  # no direction is stretched more than this against another
    least_eigenvalue: float = 0.05  # of H, relative to the mean: noise may leave none
    first_std: float = 0.25  # prior of the root of nu
    first_spread: float = 1.5  # standard deviation of log nu in it
    slope_error: float = 0.15  # relative: residuals are not quite as planned
    skew: float = 0.05  # of what lies beyond a clip, how much more may be on one side
    uneven: float = 0.25  # of what a sketch sees on one side, how much the kappas do not explain
    alarm: float = 4.0  # standard deviations by which one of twelve kappas must stand out
    mean: float = 0.3  # weight of a constant beside phi in the first release
    least_clip: float = 0.4  # in units of s: shorter ones lose sight of directions still unknown
    few: float = 150.0  # rho up to which all three Gram matrices have tau = 1 and whiten
    lengths: float = 0.2  # weight of sum w |x| beside a Gram matrix, in units of tau


TUNING = Tuning()
GRAMS = 3
LIMIT = 2.0  # residuals are cut here: |y - <phi, theta>| <= 2 where |theta| <= 1
LAYERS = 6
REST = 2 * LAYERS  # on both sides of predictions
SQUARE = 0.5  # weight of `square`: the largest that is free, see `_step`
MANY_ROWS = 2**19  # beyond, all but the last step look at EARLY_ROWS of them, with half of mu^2
BLOCK = 2**12  # rows at a time: they stay in the cache


@dataclass(frozen=True)
class Shape:
    """What Gram matrices tell of the rows, each divided by their number."""

    whitening: Whitening  # M
    H: Array  # (d, d), mean of w x x'
    gram: Array  # (d, d), G = mean of phi phi', with the weights of the last Gram matrix
    asked: Whitening  # of the rows whose Gram matrix was released last
    std: float  # of what is not known of it: shrunk by k, k of the noise's variance is left
    unseen: Array  # (d, d), variance of directions that did not stand out
    evenness: float  # q
    mean: Array  # (d,), mean of phi, as far as it stands out
    constant: Array  # (d,), c = G^-1 mean: <phi, c> is as near to 1 as rows allow

    def moment_error(self, unknown: Array) -> Array:
        """Cov(Z M^-1 (theta - centre)), Z the noise of H."""
        change = self.asked.inverse @ self.whitening.matrix
        error = gram_error_covariance(change @ unknown @ change.T, self.std)
        return np.asarray(change.T @ error @ change)

    def sides(self, theta: Array) -> tuple[Array, Array]:  # (d, 2), (2,)
        """a_b = G^-1 E[phi | side b], predictions >= 0 first, and P(b).

        As if directions were those of normal rows; their lengths, with weights, are q.
        """
        m = float(self.mean @ theta)
        std = max(math.sqrt(max(float(theta @ self.gram @ theta) - m * m, 0.0)), 1e-8)
        up = min(max(float(scipy.special.ndtr(m / std)), 0.02), 0.98)
        density = math.exp(-min((m / std) ** 2 / 2, 300.0)) / math.sqrt(2 * math.pi)
        away = (theta - self.constant * m) * self.evenness * density / std
        p = np.array([up, 1 - up])
        return self.constant[:, None] + np.outer(away, [1 / up, -1 / (1 - up)]), p


@dataclass(frozen=True)
class Known:
    """What was released so far tells of theta and of labels around their mean."""

    both: Both
    theta: Posterior  # of `both`, its prior fitted
    log_nu: float = 2 * math.log(TUNING.first_std)
    log_variance: float = TUNING.first_spread**2  # of log_nu
    spread: Spread = AS_NORMAL
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
        C = self.theta.covariance + 1e-12 * np.eye(len(self.theta.mean))
        return np.asarray(np.linalg.cholesky(C), dtype=np.float64)

    @property
    def limit(self) -> float:
        """No residual is larger: |y| <= 1 and |phi| <= 1, and they are cut at LIMIT."""
        return min(1 + math.sqrt(self.theta.mean @ self.theta.mean), LIMIT)

    @property
    def layers(self) -> Array:
        """E_j, ascending; the last is a third longer than any residual."""
        return np.asarray(4 / 3 * self.limit * 2.0 ** np.arange(1 - LAYERS, 1), dtype=np.float64)

    def clips(self, uneven: float) -> Clips:
        """What to expect of each clip."""
        largest = self.limit / math.sqrt(self.nu)
        return Clips.of(self.spread, largest, TUNING.least_clip, TUNING.skew, uneven)


def by_steps(problem: Problem) -> Estimate:
    """theta, the covariance of its error, and how labels spread around it."""
    n, d = problem.X.shape
    mu = problem.budget.mu / problem.budget.contributions
    rho = n * mu / d
    sample, last = _samples(problem)
    shape = _shape(sample, rho, mu)
    unknown = Posterior.unobserved(d * np.eye(d))
    known = Known(Both.of_theta(unknown, REST), unknown)
    fewest, more = TUNING.steps
    steps = round(fewest + more / (1 + rho / TUNING.half))
    sketch_at = max(2, steps // 8)
    share = (1 - (GRAMS + 1) * TUNING.share) / steps
    residuals = None
    for k in range(steps):
        if k == sketch_at:
            known, residuals = _sketched(sample(TUNING.share), shape, known)
        rows = last() if last and k == steps - 1 else sample(share)
        known = _step(rows, shape, known, share * (steps - sketch_at))
    return Estimate(known.theta.mean, _covariance(known, shape, n), residuals)


def _covariance(known: Known, shape: Shape, n: int) -> Array:
    """Of the error of theta's mean: noise, labels, and what may be hidden or unseen."""
    d = len(shape.H)
    mean = known.theta.mean
    wary = known.both.wary_theta().with_prior(d * np.eye(d))
    walk = wary.mean - mean
    # A kappa is a sum of few large terms, of variance E |kappa| / n at most.
    kappa, noise = known.both.kappa
    few = np.sqrt(np.maximum(kappa**2 - noise, 0.0)).reshape(2, LAYERS) @ known.layers / n
    a, _ = shape.sides(mean)
    # Where no rows were seen, nothing calls an estimate back: it is as far off as it has walked.
    walked = d * shape.unseen @ mean
    covariance = wary.covariance + np.outer(walk, walk) + (a * few) @ a.T
    covariance += known.labels * inverse(n * shape.gram)
    covariance += known.bias * shape.whitening.matrix @ shape.whitening.matrix
    return np.asarray(covariance + shape.unseen + np.outer(walked, walked))


def _samples(problem: Problem) -> tuple[Callable[[float], Sample], Callable[[], Sample] | None]:
    """Rows for a release with a share of mu^2; and for the last one, where that differs."""
    n, mu = len(problem.X), problem.budget.mu
    if n <= MANY_ROWS:
        rows = Sample(problem, problem.X, problem.y, mu)
        return lambda share: replace(rows, mu=mu * math.sqrt(share)), None
    early = np.sort(some_places(problem.rng, n, EARLY_ROWS))
    some = Sample.of(problem, early, mu, EARLY_SCOPE)
    # Shares that add up to 1 cost early rows half of mu^2; `Sample.last` charges them the rest.
    return (
        lambda share: replace(some, mu=mu * math.sqrt(share / 2)),
        lambda: Sample.last(problem, early),
    )


def _shape(sample: Callable[[float], Sample], rho: float, mu: float) -> Shape:
    """Gram matrices, each of rows whitened by the one before; the last as steps weigh rows."""
    rows = sample(TUNING.share)
    problem = rows.problem
    n, d = rows.X.shape
    few = rho <= TUNING.few
    tau = 1.0 if few else math.sqrt(rho / TUNING.gram_rows)
    stretch = min(TUNING.stretch, math.sqrt(TUNING.exact / (rho * mu)))
    condition = max(TUNING.condition, math.sqrt(rho) / 2)
    weight = 0.0 if problem.intercept else TUNING.mean  # the mean is a column of H there
    unit = math.sqrt(2) * weight
    released, record = rows.release(
        lambda X, y: (X.T @ X, X.sum(axis=0)),
        lambda parts: np.append(symmetric_to_vector(parts[0]), unit * parts[1]),
        # v = [phi; weight]: |v|^2 <= 1 + weight^2, and vv' differ by sqrt(2) times that:
        # replace-one, |A - B|^2 <= |A|^2 + |B|^2 for positive semi-definite A and B.
        sensitivity=problem.budget.contributions * math.sqrt(2) * (1 + weight**2),
        what="Gram matrix and sum of rows",
    )
    rows_sum, sum_std = released[-d:], record.scale
    released = released[:-d]
    # A constant has half of the squared length that rows may have: what is known before.
    others = np.full(d - 1, 1 / max(d - 1, 1))
    gram = np.diag(np.append(others, 1.0)) if problem.intercept else np.eye(d)
    M = Whitening.identity(d)
    unit_of_lengths = TUNING.lengths * tau
    length_sum = length_std = 0.0
    for k in range(1, GRAMS + 1):
        noisy, std = vector_to_symmetric(released) / n, record.scale / n
        # The trace has noise of std sqrt(d): below that, it is not known to be less.
        trace = min(max(float(np.trace(noisy)), std * math.sqrt(d)), 1.0 if k == 1 else tau)
        target = M.matrix @ gram @ M.matrix
        target *= trace / float(np.trace(target))
        H = shrink(noisy, std, target=target, floor=TUNING.least_eigenvalue * trace / d)
        gram = M.unwhitened(H)
        asked = M
        if k == GRAMS:
            left = math.sqrt(kept(noisy - target, std)) * std
            size = math.sqrt(max(float(np.trace(H)), 1e-3))
            evenness = _evenness(length_sum / (n * size), length_std / (n * size))
            if not few:
                break
        floor = std * M.unwhitened(np.eye(d))  # no finer than the noise
        M = Whitening.from_gram(gram, floor=floor, condition=condition)
        length = math.sqrt(min(max(M.mean_square(gram), 0.02), 1.0))  # the floor makes it short
        M = M.scaled((stretch if k == GRAMS - (not few) else 1.0) / length)
        if k == GRAMS:
            # Rows of this length have weights of about 1 / stretch; those before had about 1.
            H, left = M.matrix @ gram @ M.matrix / stretch, left / stretch
            break
        released, record = rows.release(
            partial(_weighted_gram, M, tau),
            lambda parts: np.append(symmetric_to_vector(parts[0]), unit_of_lengths * parts[1]),
            # |w x x'|_F <= tau, and PSD terms differ by sqrt(2) times that (replace-one). Beside
            # them 0 <= w |x| <= 1 differ by 1: 2 tau^2 + (lengths tau)^2 in squares.
            sensitivity=problem.budget.contributions * math.sqrt(2 + TUNING.lengths**2) * tau,
            what="Gram matrix and sum of lengths",
        )
        length_sum, length_std = released[-1] / unit_of_lengths, record.scale / unit_of_lengths
        released = released[:-1]
    if problem.intercept:
        constant = math.sqrt(2) * np.eye(d)[-1]
        mean = gram @ constant
    else:
        inv = inverse(gram)
        mean = rows_sum / (unit * n)
        noise = (sum_std / (unit * n)) ** 2 * float(np.trace(inv))
        explained = max(float(mean @ inv @ mean), 1e-300)  # of the variance of a constant
        mean = mean * max(1 - TUNING.alarm**2 * noise / explained, 0.0)
        constant = inv @ mean / max(1.0, explained)
    return Shape(M, H, gram, asked, left, unseen(noisy, std, asked), evenness, mean, constant)


def _evenness(seen: float, std: float) -> float:
    """q from a noisy value: before it, .9 is expected, and .1 more or less."""
    return min(max((seen * 0.1**2 + 0.9 * std**2) / (0.1**2 + std**2), 0.3), 1.0)


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
    residuals = Residuals(LEVELS, counts, 2 * record.scale, n, known.nu)
    known = replace(known, spread=spread_of(sides, record.scale, n, possible))
    clips = known.clips(uneven=1.0)
    bias = known.nu * clips.hidden / (float(np.trace(shape.H)) * clips.slope**2)
    then = float(np.interp(known.length / math.sqrt(known.nu), clips.at, bias))
    unknown = float(np.trace(shape.whitening.of_parameters(known.theta.covariance))) / d
    theta = known.theta.discounted(unknown / (unknown + then))
    return replace(known, both=Both.of_theta(theta, REST), theta=theta), residuals


def _step(sample: Sample, shape: Shape, known: Known, budget_share: float) -> Known:
    """One release and what it says; its clip is planned for this share of mu^2."""
    budget = sample.problem.budget
    n, d = sample.weight_of_rows, len(shape.H)
    M, C, nu, centre = shape.whitening, known.theta.covariance, known.nu, known.theta.mean
    trace = float(np.trace(shape.H))
    clips = known.clips(TUNING.uneven)
    noise_per_R = 2 * budget.contributions / (budget.mu * math.sqrt(budget_share))
    information = np.asarray(n * np.linalg.eigvalsh(shape.H), dtype=np.float64)
    i = least_error(clips, nu, information, noise_per_R, trace)
    clip = float(clips.at[i])
    R = min(clip * math.sqrt(nu), 1.0)
    # A row adds F u, |F| <= |f/cut|, to moment / R, one entry g/E to the rest, q (f/cut)^2 to the
    # last, q = 1/2. With f for f/cut and g for g/E, f^2 + g^2 <= 1, two rows differ in squares by
    #     F^2 + F'^2 + 2 |F F'| + (|g| + |g'|)^2 + q^2 (f^2 - f'^2)^2
    #       <= (|f| + |f'|)^2 + (|g| + |g'|)^2 + (|f| - |f'|)^2 <= 2 (f^2 + f'^2) + 2 (g^2 + g'^2),
    # because q (|f| + |f'|) <= 1: at most 4, so 2 (replace-one), and neither is paid for.
    released, record = sample.release(
        partial(_sums, shape, known, clip, R),
        lambda parts: np.concatenate([parts[0] / R, parts[1], SQUARE * parts[2]]),
        sensitivity=budget.contributions * 2.0,
        what="residual moment, rest and squares",
    )
    E = np.tile(known.layers, 2)
    moment, rest = released[:d] * R, released[d:-1] * E / n
    square = released[-1] / (SQUARE * n)
    # log nu by an extended Kalman filter: E (f/cut)^2 = second / c^2 grows with the variance of
    # residuals, nu + v on average, of which v is not known better than by its size.
    v = float(np.trace(C @ shape.gram))
    inner = float(clips.inner[i]) / clip**2
    derivative, far = inner * nu / (nu + v), inner * v / (nu + v)
    square_std = math.hypot(record.scale / (SQUARE * n), 0.5 / math.sqrt(n), far)
    gain = known.log_variance * derivative
    gain /= known.log_variance * derivative**2 + square_std**2
    move = min(max(gain * (square - float(clips.second[i]) / clip**2), -1.0), 1.0)
    log_nu = min(max(known.log_nu + move, math.log(1e-8)), 0.0)
    scale = math.exp(move / 2 * nu / (nu + v))
    slope = min(max(float(np.interp(clip / scale, clips.at, clips.slope)), 0.1), 1.0)
    # Weights fall with s(phi), by sqrt(1 + v / nu) on average.
    inflation = math.sqrt(1 + v / nu)
    H = n * shape.H / inflation
    unknown = M.of_parameters(C)
    a, p = shape.sides(centre)
    # Where theta is off, residuals are beyond the clip for that: (1 - slope) E[phi; side] of it.
    rows = shape.gram @ a * p
    off = (1 - slope) ** 2 * np.einsum("ik,ij,jk->k", rows, C, rows)
    rest_variance = (record.scale * E / n) ** 2 + np.repeat(off, LAYERS)
    noise = np.diag(np.append(np.full(d, (record.scale * R) ** 2), rest_variance))
    noise[:d, :d] += (TUNING.slope_error * slope) ** 2 * H @ unknown @ H
    noise[:d, :d] += (slope / inflation) ** 2 * n**2 * shape.moment_error(unknown)
    design = np.eye(d + REST)
    design[:d, :d] = slope * H @ M.inverse
    design[:d, d:] = -np.repeat(H @ M.inverse @ a, LAYERS, axis=1)
    observed = np.append(moment, rest) + design[:, :d] @ centre
    both = known.both.observe(design, observed, noise)
    theta = both.theta(TUNING.alarm).with_fitted_prior()
    return Known(
        both=replace(both, prior=theta.prior),
        theta=theta,
        log_nu=log_nu,
        log_variance=known.log_variance * (1 - gain * derivative),
        spread=known.spread,
        labels=nu * float(clips.second[i]) / slope**2,
        bias=nu * float(clips.hidden[i]) / (trace * slope**2),
        length=min(known.length, clip * math.sqrt(nu)),
    )


# -- queries: sums over a block of rows, from public parameters ----------------------------------


def _blocks(X: Array, y: Array, matrix: Array) -> Iterator[tuple[Array, Array]]:
    """Rows times a matrix, and their labels, a few at a time."""
    for start in range(0, len(X), BLOCK):
        yield X[start : start + BLOCK] @ matrix, y[start : start + BLOCK]


def _squares(rows: Array) -> Array:
    return np.asarray(np.einsum("ij,ij->i", rows, rows))


def _weighted_gram(M: Whitening, tau: float, X: Array, y: Array) -> Parts:
    """sum w x x' and sum w |x|, w = min(1, 1 / |x|, tau / |x|^2): |w x x'|_F <= tau, w |x| <= 1."""
    total, lengths = np.zeros_like(M.matrix), np.zeros(1)
    for x, _ in _blocks(X, y, M.matrix):
        size = np.sqrt(_squares(x)) + 1e-150
        w = np.minimum(1.0, np.minimum(1 / size, tau / size**2))
        total += (x * w[:, None]).T @ x
        lengths += w @ size
    return total, lengths


def _counts(known: Known, X: Array, y: Array) -> Parts:
    counts = np.zeros(4 * len(LEVELS))
    for z, label in _blocks(X, y, np.column_stack([known.root, known.theta.mean])):
        s = np.sqrt(known.nu + _squares(z[:, :-1]))
        counts += counted(label - z[:, -1], s, z[:, -1])
    return (counts,)


def _sums(shape: Shape, known: Known, clip: float, R: float, X: Array, y: Array) -> Parts:
    """moment, rest, square: |w x| cut <= R and (f / cut)^2 + (g / E)^2 <= 1."""
    d = X.shape[1]
    moment, rest, square = np.zeros(d), np.zeros(REST), np.zeros(1)
    views = np.column_stack([shape.whitening.matrix, known.root, known.theta.mean])
    layers = known.layers
    for z, label in _blocks(X, y, views):
        x, prediction = z[:, :d], z[:, -1]
        r = np.clip(label - prediction, -known.limit, known.limit)
        cut = clip * np.sqrt(known.nu + _squares(z[:, d:-1]))
        cut = np.minimum(cut, np.minimum(1 + np.abs(prediction), LIMIT))  # |r| is no larger
        w = 1 / np.maximum(np.maximum(cut / R, 1.0) * np.sqrt(_squares(x)), 1.0)
        layer = np.searchsorted(layers, np.maximum(4 / 3 * np.abs(r), 4 * cut))
        layer = np.minimum(layer, LAYERS - 1)
        _, f, g = weight_and_parts(0.0, r, cut, layers[layer])
        moment += (w * f * cut) @ x
        rest += np.bincount(layer + LAYERS * (prediction < 0), g, minlength=REST)
        square += f @ f
    return moment, rest, square
