"""What a window's release teaches: from noisy sums to the next belief; all of it post-processing.

The released matrix holds, in whitened coordinates, the Gram matrix H of the rows, their moments
with the clipped residual and with what was clipped off, and the sums of squares of both. For a
belief N(mean, C) and delta = whitening^-1 (theta - centre),

    moment = slope H delta + noise

where slope is the fraction of residuals that were not clipped. The covariance of the noise is
known: that of the release, that of H's noise times delta, that of rewards. So the release is a
linear observation of theta, and the posterior is Gaussian (Bishop 2006, equations 3.50, 3.51).
"""

import math
from dataclasses import dataclass

import numpy as np

from discreet.bandits.belief import Belief
from discreet.bandits.window import COUNT, LONGEST, TOTALS, Transform, clipped_normal
from discreet.privacy.checks import Array
from discreet.privacy.mechanisms import vector_to_symmetric

SCALES = np.geomspace(0.1, 10.0, 81)  # standard deviation of residuals against the expected one
SPREAD = 0.4  # prior standard deviation of log(scale)
CAUTION = 0.5  # quantile of the scale that is believed
MISFIT = 0.02  # how far residuals may be from normal, as a fraction of the rows
HEAVY = 3.0  # standard deviations above twice the normal sum of squares: not normal
QUIET = 1e-3  # the least nu; less would gain nothing
FALL = 0.3  # nu falls no faster than this, from window to window
SURE = 2.0  # eigenvalues of the Gram matrix count beyond sqrt(SURE) standard deviations of noise
RECENT = 0.5  # how much of what earlier windows said about rows and residuals stays
EVIDENCE = 30.0  # for a theta that is longer than was thought
LONGER = 2 ** (np.arange(17) / 4)  # times as long
VISIBLE = 2.0  # eigenvalues of a Gram matrix above this many times its noise's norm are rows
FIT = 0.5  # how far the Gram matrix may be from isotropic, relative


@dataclass(frozen=True)
class Sums:
    """A window's release, taken apart."""

    gram: Array  # (d, d), noisy
    moment: Array  # (d,), of clipped residuals
    beyond: Array  # (d,), of what was clipped off
    clipped: float  # sum of (f/R)^2
    residual_sum_of_squares: float
    count: float  # weight of all rows
    noise_std: float  # of a diagonal entry

    @classmethod
    def read(cls, released: Array, view: Transform, noise_std: float, size: int) -> "Sums":
        """From the released vector of a window of so many decisions."""
        d, R, E = len(view.mean), view.clip, view.residual_bound
        matrix = vector_to_symmetric(released[:-TOTALS])
        squares = R**2 * matrix[d, d] + 2 * R * E * matrix[d, d + 1] + E**2 * matrix[d + 1, d + 1]
        # At most as many rows as decisions, and about that many before anything is seen.
        unsure, prior = (noise_std / COUNT) ** 2, (0.5 * size) ** 2
        count = (size * unsure + released[-TOTALS] / COUNT * prior) / (unsure + prior)
        return cls(
            matrix[:d, :d],
            matrix[:d, d] * R,
            matrix[:d, d + 1] * E,
            matrix[d, d],
            squares,
            min(max(count, 0.1 * size), size),
            noise_std,
        )


@dataclass(frozen=True)
class Residuals:
    """What the sums of squares say: how large residuals were, and whether they look normal."""

    variance: float  # of a residual
    slope: float  # of the clipped residual
    second: float  # moment of the clipped residual, relative to the variance
    overconfidence: float  # residuals were at least this many times as large as the belief said
    normal: bool


@dataclass(frozen=True)
class Observation:
    """The moment as a linear observation of delta: moment = slope gram delta + noise."""

    gram: Array  # (d, d), without most of its noise
    gram_noise: Array  # (d, d), covariance of what is left of it, times delta
    back: Array  # (d, d), whitening^-1
    before: Array  # (d, d), second moment of delta before this window
    centre: Array  # (d,), the transform's
    noise_std: float

    def information(
        self, moment: Array, slope: float, bound2: float, variance: float
    ) -> Array:  # (d, d + 1)
        """Precision, and precision times estimate, that a moment adds: A' S^-1 [A, b].

        A = slope gram whitening^-1 maps theta to the moment; S is the covariance of its noise, of
        residuals within sqrt(bound2) and of this variance.
        """
        eye = np.eye(len(self.gram))
        design = slope * self.gram @ self.back
        noise = (self.noise_std**2 / 2 * bound2) * eye + variance * self.gram
        noise += slope**2 * self.gram_noise
        noise += ((1 - slope) * slope) ** 2 * self.gram @ self.before @ self.gram  # slope is rough
        noise += 1e-12 * max(float(np.trace(noise)), 1e-12) * eye
        observed = np.column_stack([design, moment + design @ self.centre])
        return np.asarray(design.T @ np.linalg.solve(noise, observed))


def learned(
    belief: Belief, view: Transform, released: Array, noise_std: float, size: int
) -> Belief:
    """The belief after a window, from its released sums."""
    d, R, E, nu = len(belief.mean), view.clip, view.residual_bound, belief.reward_variance
    eye = np.eye(d)
    sums = Sums.read(released, view, noise_std, size)

    # 1. Residuals: their scale, and whether clipping them was right.
    rows = RECENT * belief.effective_rows + sums.count
    squares = RECENT * belief.residual_sum_of_squares + sums.residual_sum_of_squares
    squares_std = math.hypot(RECENT * belief.residual_noise_std, noise_std * (R**2 + E**2))
    found = _residuals(sums, view, nu, squares / rows, squares_std / rows)
    # Where the belief was too sure of itself, it is made less so.
    precision = belief.precision / found.overconfidence**2
    weighted = belief.weighted / found.overconfidence**2

    # 2. The Gram matrix, and with it the moment as an observation of theta.
    covariance = np.linalg.inv(precision + d / belief.radius**2 * eye)
    back = np.asarray(np.linalg.inv(view.whitening), dtype=np.float64)
    shift = belief.mean - view.mean
    apart = covariance + np.outer(shift, shift)  # how far theta may be from the transform's centre
    before = back @ apart @ back
    gram, gram_noise = _gram(sums.gram, before, back @ belief.mean, noise_std, size)
    observation = Observation(gram, gram_noise, back, before, view.mean, noise_std)

    # 3. Of the residuals' squares, part is what the belief did not know: not noise.
    seen = back @ gram @ back
    explained = float(np.sum(covariance * seen)) / sums.count
    signal = float(np.sum(apart * seen)) / sums.count
    unclipped_variance = float(np.clip(sums.residual_sum_of_squares / sums.count, 0.3 * nu, 4.0))
    unclipped_variance = max(unclipped_variance - signal, 0.1 * unclipped_variance)
    variance = found.variance if R < E else unclipped_variance

    # 4. The posterior, and beside it the one that never clipped.
    if R < E:
        everything, bound2 = sums.moment + sums.beyond, R**2 + E**2
    else:
        everything, bound2 = sums.moment, E**2
    unclipped = belief.unclipped + observation.information(
        everything, 1.0, bound2, unclipped_variance
    )
    may_clip = belief.may_clip and found.normal
    if belief.may_clip and not may_clip:  # clipped windows mislead: take what was never clipped
        precision, weighted, variance = unclipped[:, :d], unclipped[:, d], unclipped_variance
    else:
        term = observation.information(sums.moment, found.slope, R**2, found.second * variance)
        precision, weighted = precision + term[:, :d], weighted + term[:, d]

    # 5. What the next window needs: recent rows, the length of theta, the variance of rewards.
    rho2 = 1 / (1 - min(explained / nu, 0.95))
    longest = max(float(np.linalg.norm(view.whitening, 2)), 1.0)
    recent_gram = RECENT * belief.gram + rho2 * seen
    gram_std = math.hypot(RECENT * belief.gram_noise_std, noise_std / longest**2)
    visible = _visible(sums.gram, noise_std, back)
    radius = _radius(precision, weighted, belief.radius, visible)
    covariance = np.linalg.inv(precision + d / radius**2 * eye)
    covariance = (covariance + covariance.T) / 2
    mean = covariance @ weighted
    rest = max(variance - signal, 0.3 * variance) if R < E else variance
    return Belief(
        mean=mean * min(1.0, radius / max(float(np.linalg.norm(mean)), 1e-300)),
        covariance=covariance,
        precision=(precision + precision.T) / 2,
        weighted=weighted,
        unclipped=unclipped,
        reward_variance=float(np.clip(rest * rho2, max(FALL * nu, QUIET), 1.0)),
        gram=recent_gram,
        effective_rows=rows,
        gram_noise_std=gram_std,
        residual_sum_of_squares=squares,
        residual_noise_std=squares_std,
        may_clip=may_clip,
        radius=radius,
        windows=belief.windows + 1,
    )


def _visible(gram: Array, noise_std: float, back: Array) -> Array:  # (d, k)
    """Orthonormal directions in which there were rows, more than noise alone could make."""
    values, vectors = np.linalg.eigh(gram)
    # A symmetric matrix of noise has operator norm about sqrt(2 d) standard deviations.
    rows = vectors[:, values > VISIBLE * noise_std * math.sqrt(2 * len(gram))]
    return np.asarray(np.linalg.qr(back @ rows)[0])


def _radius(precision: Array, weighted: Array, least: float, visible: Array) -> float:
    """The length of theta, if the releases leave no doubt that it is more than was thought.

    The evidence for theta ~ N(0, radius^2 I / d) (Bishop 2006, equation 3.86), from directions that
    are `visible`; a longer theta must be EVIDENCE times as likely, and has no more than LONGEST.
    """
    values, vectors = np.linalg.eigh(visible.T @ (precision + precision.T) @ visible / 2)
    values = np.maximum(values, 0.0)
    along = (vectors.T @ (visible.T @ weighted)) ** 2
    lengths = np.minimum(least * LONGER, max(LONGEST, least))
    prior = len(precision) / lengths[:, None] ** 2
    evidence = (along / (values + prior) - np.log1p(values / prior)).sum(axis=1) / 2
    best = int(np.argmax(evidence))
    sure = evidence[best] - evidence[0] > math.log(EVIDENCE)
    return float(lengths[best]) if sure else least


def _residuals(
    sums: Sums, view: Transform, nu: float, mean_square: float, mean_square_std: float
) -> Residuals:
    """The scale of residuals from the sum of squares of the clipped ones, as if they were normal.

    They are not if the mean square of all, pooled over recent windows, is far above that.
    """
    if view.clip >= view.residual_bound:  # nothing was clipped: nothing needs to be normal
        return Residuals(math.nan, 1.0, 1.0, 1.0, True)
    clip = view.clip / math.sqrt(nu)
    expected = sums.count * clipped_normal(clip / SCALES)[1] * (SCALES / clip) ** 2
    variance = sums.noise_std**2 + (MISFIT * sums.count) ** 2
    log = -((sums.clipped - expected) ** 2) / (2 * variance) - (np.log(SCALES) / SPREAD) ** 2 / 2
    cumulative = np.cumsum(np.exp(log - log.max()))
    likely, least = SCALES[np.searchsorted(cumulative / cumulative[-1], [CAUTION, 0.2])]
    slope, second = clipped_normal(clip / likely)
    return Residuals(
        variance=nu * float(likely) ** 2,
        slope=max(float(slope), 0.1),
        second=float(second),
        overconfidence=max(float(least), 1.0),
        normal=mean_square <= 2 * nu * float(likely) ** 2 + HEAVY * mean_square_std,
    )


def _gram(
    noisy: Array, before: Array, along: Array, noise_std: float, size: int
) -> tuple[Array, Array]:
    """The Gram matrix without most of its noise, and the covariance of its error times delta.

    It is shrunk towards an isotropic matrix that may be longer along the direction the policy
    prefers (Ledoit-Wolf, the noise is known); eigenvalues that noise alone could make count as
    nothing.
    """
    d, eye = len(noisy), np.eye(len(noisy))
    length = float(np.linalg.norm(along))
    if d > 2 and length > 0:
        u = along / length
        special = np.outer(u, u)
        ahead = float(u @ noisy @ u)
        rest = (float(np.trace(noisy)) - ahead) / (d - 1)
        fraction = 1 / (d - 1)
    else:
        u, special = np.zeros(d), 0 * eye
        rest, fraction = float(np.trace(noisy)) / d, 1 / d
    # A whitening that fits makes it size/d times the identity, give or take a half of that.
    square, even = noise_std**2, size / d
    trust = (FIT * even) ** 2 / ((FIT * even) ** 2 + square * fraction)
    target = (trust * rest + (1 - trust) * even) * (eye - special)
    fraction *= trust
    if length > 0 and d > 2:
        target += max(ahead, 0.0) * special
    odd = noisy - target
    keep = 1 - min(1.0, square * d * (d + 1) / 2 / max(float(np.sum(odd**2)), 1e-300))
    values, vectors = np.linalg.eigh(target + keep * odd)
    aligned = (vectors.T @ u) ** 2
    error = square * (keep + (1 - keep) * (aligned + (1 - aligned) * fraction))
    # Early windows may not lose all: no more than what an even Gram matrix leaves to spare.
    sure = min(SURE, 0.2 * (size / d) ** 2 / max(square * fraction, 1e-300))
    values = np.maximum(values, 1e-9 * noise_std)
    values = np.maximum(values - sure * error / np.maximum(values, 1e-300), 0.0)
    others = eye - special
    noise = square / 2 * keep * (np.trace(before) * eye + before)
    noise += (
        (1 - keep) * square * (fraction * others @ before @ others + special @ before @ special)
    )
    return np.asarray((vectors * values) @ vectors.T), noise
