"""What a window's release teaches: from noisy sums to the next belief; all of it post-processing.

The released matrix holds, in whitened coordinates, the Gram matrix H of the rows, their moments
with the clipped residual and with what was clipped off, and the sums of squares of both. For a
belief N(mean, C) and delta = M^-1 (theta - centre),

    moment = slope H delta + noise

where slope is the fraction of residuals that were not clipped. The noise has a known distribution:
that of the release, that of H times delta, that of rewards. So the release is a linear observation
of theta, and the belief is Bayesian linear regression (Bishop, section 3.3).
"""

import math
from dataclasses import dataclass

import numpy as np

from discreet.bandits.belief import Belief, prior_precision
from discreet.bandits.window import COUNT, RowTransform
from discreet.least_squares import (
    Posterior,
    clipped_normal,
    discounted_eigenvalues,
    gram_error_covariance,
)
from discreet.least_squares.shrinkage import kept
from discreet.privacy.checks import Array
from discreet.privacy.mechanisms import vector_to_symmetric

SCALES = np.geomspace(0.1, 10.0, 81)  # deviation of residuals against the expected one
SPREAD = 0.4  # prior deviation of log(scale)
CAUTION = 0.5  # quantile of the scale that is believed
MISFIT = 0.02  # how far residuals may be from normal, as a share of the rows
HEAVY = 3.0  # deviations above twice the normal energy: residuals are not normal
QUIET = 1e-3  # the least nu; less would gain nothing
FALL = 0.3  # nu falls no faster than this, from window to window
SURE = 2.0  # eigenvalues of the Gram matrix count beyond sqrt(SURE) deviations of their noise
RECENT = 0.5  # how much of what earlier windows said about rows and energies stays
EVIDENCE = 30.0  # for a theta that is longer than was thought
LONGER = 2 ** (np.arange(17) / 4)  # times as long
FIT = 0.5  # how far the Gram matrix may be from what the frame expects, relative


@dataclass(frozen=True)
class Sums:
    """A window's release, taken apart."""

    gram: Array  # (d, d), noisy
    moment: Array  # (d,), of clipped residuals
    clipped_off: Array  # (d,), of what was clipped off
    clipped_squares: float  # sum of (f/R)^2
    squares: float  # sum of squared residuals
    count: float  # weight of all rows
    noise_std: float  # on a diagonal entry

    @classmethod
    def read(cls, released: Array, transform: RowTransform, noise_std: float, size: int) -> "Sums":
        """From the released vector of a window of so many decisions."""
        d = len(transform.mean)
        R = transform.clip
        E = transform.limit
        matrix = vector_to_symmetric(released[:-1])
        squares = R**2 * matrix[d, d] + 2 * R * E * matrix[d, d + 1] + E**2 * matrix[d + 1, d + 1]
        # At most as many rows as decisions, and about that many before anything is seen.
        unsure = (noise_std / COUNT) ** 2
        prior = (0.5 * size) ** 2
        count = (size * unsure + released[-1] / COUNT * prior) / (unsure + prior)
        return cls(
            gram=matrix[:d, :d],
            moment=matrix[:d, d] * R,
            clipped_off=matrix[:d, d + 1] * E,
            clipped_squares=matrix[d, d],
            squares=squares,
            count=min(max(count, 0.1 * size), size),
            noise_std=noise_std,
        )


@dataclass(frozen=True)
class Residuals:
    """What the sums of squares say: how large residuals were, and whether they look normal."""

    variance: float  # of a residual
    slope: float  # of the clipped residual
    second: float  # moment of the clipped residual, relative to the variance
    overconfidence: float  # residuals were at least this many times as large as the belief said
    normal: bool


def learned(
    belief: Belief, transform: RowTransform, released: Array, noise_std: float, size: int
) -> Belief:
    """The belief after a window."""
    d = len(belief.mean)
    R = transform.clip
    E = transform.limit
    nu = belief.noise_variance
    whitening = transform.whitening
    sums = Sums.read(released, transform, noise_std, size)
    rows = RECENT * belief.effective_rows + sums.count
    squares = RECENT * belief.residual_sum_of_squares + sums.squares
    squares_noise = math.hypot(RECENT * belief.residual_noise_std, noise_std * (R**2 + E**2))
    found = _residuals(sums, transform, nu, squares / rows, squares_noise / rows)
    # Where the belief was too sure of itself, it is made less so.
    before = belief.posterior.discounted(1 / found.overconfidence**2)
    shift = belief.mean - transform.mean
    error = before.covariance + np.outer(shift, shift)  # second moment of theta - centre
    delta = whitening.of_parameters(error)
    gram, gram_error = _gram(sums.gram, delta, whitening.inverse @ belief.mean, noise_std, size)
    # Of the residuals' squares, part is what the belief did not know: not noise.
    seen = whitening.unwhitened(gram)
    explained = float(np.sum(before.covariance * seen)) / sums.count
    signal = float(np.sum(error * seen)) / sums.count
    mean_square = float(np.clip(sums.squares / sums.count, 0.3 * nu, 4.0))
    unclipped_variance = max(mean_square - signal, 0.1 * mean_square)
    variance = found.variance if R < E else unclipped_variance

    def observed(
        posterior: Posterior, moment: Array, slope: float, bound2: float, label: float
    ) -> Posterior:
        """The posterior after a moment, of residuals of such a bound and label variance."""
        design = slope * gram @ whitening.inverse
        noise = (noise_std**2 / 2 * bound2) * np.eye(d) + label * gram + slope**2 * gram_error
        noise += ((1 - slope) * slope) ** 2 * gram @ delta @ gram  # the slope is about right
        return posterior.observe(design, moment + design @ transform.mean, noise)

    unclipped = Posterior(before.prior, belief.unclipped[:, :d], belief.unclipped[:, d])
    if R < E:
        total = sums.moment + sums.clipped_off
        unclipped = observed(unclipped, total, 1.0, R**2 + E**2, unclipped_variance)
    else:
        unclipped = observed(unclipped, sums.moment, 1.0, E**2, unclipped_variance)
    never_clip = belief.never_clip or not found.normal
    if never_clip and not belief.never_clip:  # clipped windows mislead: drop them
        posterior = unclipped
        variance = unclipped_variance
    else:
        label = found.second * variance
        posterior = observed(before, sums.moment, found.slope, R**2, label)
    radius = _radius(posterior, belief.radius, belief.constant)
    posterior = posterior.with_prior(prior_precision(d, radius, belief.constant))
    mean = posterior.mean
    rho2 = 1 / (1 - min(explained / nu, 0.95))
    rest = max(variance - signal, 0.3 * variance) if R < E else variance
    longest = max(whitening.norm, 1.0)
    return Belief(
        mean=mean * min(1.0, radius / max(float(np.linalg.norm(mean)), 1e-300)),
        covariance=posterior.covariance,
        precision=posterior.precision,
        weighted=posterior.weighted,
        unclipped=np.column_stack([unclipped.precision, unclipped.weighted]),
        noise_variance=float(np.clip(rest * rho2, max(FALL * nu, QUIET), 1.0)),
        gram=RECENT * belief.gram + rho2 * seen,
        effective_rows=rows,
        gram_noise_std=math.hypot(RECENT * belief.gram_noise_std, noise_std / longest**2),
        residual_sum_of_squares=squares,
        residual_noise_std=squares_noise,
        never_clip=never_clip,
        radius=radius,
        constant=belief.constant,
        windows=belief.windows + 1,
    )


def _radius(posterior: Posterior, least: float, constant: float) -> float:
    """The length of theta, if the releases leave no doubt that it is more than was thought.

    The evidence for theta ~ N(0, radius^2 I / d); a longer theta must be EVIDENCE times as likely.
    """
    d = len(posterior.weighted)
    lengths = least * LONGER
    priors = [prior_precision(d, float(length), constant) for length in lengths]
    evidence = [posterior.with_prior(prior).log_evidence() for prior in priors]
    best = int(np.argmax(evidence))
    sure = evidence[best] - evidence[0] > math.log(EVIDENCE)
    return float(lengths[best]) if sure else least


def _residuals(
    sums: Sums, transform: RowTransform, nu: float, mean_square: float, noise_std: float
) -> Residuals:
    """The scale of residuals from the energy of the clipped ones, as if they were normal.

    They are not if the energy of all, pooled over recent windows, is far above that.
    """
    if transform.clip >= transform.limit:  # nothing was clipped: nothing needs to be normal
        return Residuals(math.nan, 1.0, 1.0, 1.0, True)
    clip = transform.clip / math.sqrt(nu)
    expected = sums.count * clipped_normal(clip / SCALES)[1] * (SCALES / clip) ** 2
    variance = sums.noise_std**2 + (MISFIT * sums.count) ** 2
    log = (
        -((sums.clipped_squares - expected) ** 2) / (2 * variance)
        - (np.log(SCALES) / SPREAD) ** 2 / 2
    )
    share = np.cumsum(np.exp(log - log.max()))
    likely, least = SCALES[np.searchsorted(share / share[-1], [CAUTION, 0.2])]
    slope, second = clipped_normal(clip / likely)
    return Residuals(
        variance=nu * float(likely) ** 2,
        slope=max(float(slope), 0.1),
        second=float(second),
        overconfidence=max(float(least), 1.0),
        normal=mean_square <= 2 * nu * float(likely) ** 2 + HEAVY * noise_std,
    )


def _gram(
    noisy: Array, delta: Array, preferred: Array, noise_std: float, size: int
) -> tuple[Array, Array]:
    """The Gram matrix without most of its noise, and the covariance of its error times delta.

    It is shrunk towards an isotropic matrix that may be longer along the direction the policy
    prefers; eigenvalues that noise alone could make count as nothing.
    """
    d = len(noisy)
    eye = np.eye(d)
    length = float(np.linalg.norm(preferred))
    if d > 2 and length > 0:
        u = preferred / length
        along = np.outer(u, u)
        ahead = float(u @ noisy @ u)
        rest = (float(np.trace(noisy)) - ahead) / (d - 1)
        fraction = 1 / (d - 1)
    else:
        u = np.zeros(d)
        along = 0 * eye
        ahead = 0.0
        rest = float(np.trace(noisy)) / d
        fraction = 1 / d
    # A whitening that fits makes it size/d times the identity, give or take a half of that.
    square = noise_std**2
    even = size / d
    trust = (FIT * even) ** 2 / ((FIT * even) ** 2 + square * fraction)
    target = (trust * rest + (1 - trust) * even) * (eye - along) + max(ahead, 0.0) * along
    fraction *= trust
    keep = kept(noisy - target, noise_std)
    values, vectors = np.linalg.eigh(target + keep * (noisy - target))
    aligned = (vectors.T @ u) ** 2
    error = square * (keep + (1 - keep) * (aligned + (1 - aligned) * fraction))
    # Early windows may not lose all: no more than what an even Gram matrix leaves to spare.
    sure = min(SURE, 0.2 * even**2 / max(square * fraction, 1e-300))
    values = discounted_eigenvalues(np.maximum(values, 1e-9 * noise_std), error, sure)
    others = eye - along
    noise = keep * gram_error_covariance(delta, noise_std)
    noise += (1 - keep) * square * (fraction * others @ delta @ others + along @ delta @ along)
    return np.asarray((vectors * values) @ vectors.T), noise
