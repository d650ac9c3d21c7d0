"""What a window's release teaches: from noisy sums to the next belief; all of it post-processing.

The released matrix holds, in the lens's frame, the Gram matrix H of the rows, their moments with
the clipped residual and with what was clipped off, and the energies of both. For a belief
N(mean, C) and delta = frame^-1 (theta - centre),

    moment = slope H delta + noise

where slope is the share of residuals that were not clipped. The noise has a known law: that of the
release, that of H times delta, that of rewards. So the release is a linear observation of theta.
"""

import math
from dataclasses import dataclass

import numpy as np

from discreet.bandits.belief import Belief
from discreet.bandits.window import COUNT, Lens, clipped_normal
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
    beyond: Array  # (d,), of what was clipped off
    clipped: float  # sum of (f/R)^2
    energy: float  # sum of squared residuals
    count: float  # weight of all rows
    deviation: float  # of the noise on a diagonal entry

    @classmethod
    def read(cls, released: Array, lens: Lens, deviation: float, size: int) -> "Sums":
        """From the released vector of a window of so many decisions."""
        d, R, E = len(lens.mean), lens.clip, lens.limit
        matrix = vector_to_symmetric(released[:-1])
        energy = R**2 * matrix[d, d] + 2 * R * E * matrix[d, d + 1] + E**2 * matrix[d + 1, d + 1]
        # At most as many rows as decisions, and about that many before anything is seen.
        unsure, prior = (deviation / COUNT) ** 2, (0.5 * size) ** 2
        count = (size * unsure + released[-1] / COUNT * prior) / (unsure + prior)
        return cls(
            matrix[:d, :d],
            matrix[:d, d] * R,
            matrix[:d, d + 1] * E,
            matrix[d, d],
            energy,
            min(max(count, 0.1 * size), size),
            deviation,
        )


@dataclass(frozen=True)
class Residuals:
    """What the energies say: how large residuals were, and whether they look normal."""

    variance: float  # of a residual
    slope: float  # of the clipped residual
    second: float  # moment of the clipped residual, relative to the variance
    overconfidence: float  # deviations were at least this many times as large as the belief said
    normal: bool


def learned(belief: Belief, lens: Lens, released: Array, deviation: float, size: int) -> Belief:
    """The belief after a window."""
    d, R, E, nu = len(belief.mean), lens.clip, lens.limit, belief.noise
    sums = Sums.read(released, lens, deviation, size)
    mass = RECENT * belief.mass + sums.count
    energy = RECENT * belief.energy + sums.energy
    doubt = math.hypot(RECENT * belief.doubt, deviation * (R**2 + E**2))
    found = _residuals(sums, lens, nu, energy / mass, doubt / mass)
    # Where the belief was too sure of itself, it is made less so.
    precision, weighted = (
        each / found.overconfidence**2 for each in (belief.precision, belief.weighted)
    )
    eye = np.eye(d)
    prior = d / belief.radius**2 * eye
    covariance = np.linalg.inv(precision + prior)
    back, shift = np.linalg.inv(lens.frame), belief.mean - lens.mean
    apart = covariance + np.outer(shift, shift)  # how far theta may be from the lens's centre
    before = back @ apart @ back
    gram, gram_noise = _gram(sums.gram, before, back @ belief.mean, deviation, size)
    # Of the residuals' energy, part is what the belief did not know: not noise.
    seen = back @ gram @ back
    explained, signal = (float(np.sum(each * seen)) / sums.count for each in (covariance, apart))
    whole = float(np.clip(sums.energy / sums.count, 0.3 * nu, 4.0))
    whole = max(whole - signal, 0.1 * whole)
    variance = found.variance if R < E else whole

    def added(moment: Array, slope: float, reach2: float, label: float) -> Array:  # (d, d + 1)
        """Precision, and precision times estimate, that the moment adds."""
        design = slope * gram @ back
        noise = (deviation**2 / 2 * reach2) * eye + label * gram + slope**2 * gram_noise
        noise += ((1 - slope) * slope) ** 2 * gram @ before @ gram  # the slope is about right
        noise += 1e-12 * max(float(np.trace(noise)), 1e-12) * eye
        observed = np.column_stack([design, moment + design @ lens.mean])
        return np.asarray(design.T @ np.linalg.solve(noise, observed))

    if R < E:
        safe = belief.safe + added(sums.moment + sums.beyond, 1.0, R**2 + E**2, whole)
    else:
        safe = belief.safe + added(sums.moment, 1.0, E**2, whole)
    exact = belief.exact or not found.normal
    if exact and not belief.exact:  # clipped windows mislead: go on with what was never clipped
        precision, weighted, variance = safe[:, :d], safe[:, d], whole
    else:
        term = added(sums.moment, found.slope, R**2, found.second * variance)
        precision, weighted = precision + term[:, :d], weighted + term[:, d]
    radius = _radius(precision, weighted, belief.radius)
    covariance = np.linalg.inv(precision + d / radius**2 * eye)
    covariance = (covariance + covariance.T) / 2
    mean = covariance @ weighted
    rho2 = 1 / (1 - min(explained / nu, 0.95))
    rest = max(variance - signal, 0.3 * variance) if R < E else variance
    longest = max(float(np.linalg.norm(lens.frame, 2)), 1.0)
    return Belief(
        mean=mean * min(1.0, radius / max(float(np.linalg.norm(mean)), 1e-300)),
        covariance=covariance,
        precision=(precision + precision.T) / 2,
        weighted=weighted,
        safe=safe,
        noise=float(np.clip(rest * rho2, max(FALL * nu, QUIET), 1.0)),
        gram=RECENT * belief.gram + rho2 * seen,
        mass=mass,
        blur=math.hypot(RECENT * belief.blur, deviation / longest**2),
        energy=energy,
        doubt=doubt,
        exact=exact,
        radius=radius,
        windows=belief.windows + 1,
    )


def _radius(precision: Array, weighted: Array, least: float) -> float:
    """The length of theta, if the releases leave no doubt that it is more than was thought.

    The evidence for theta ~ N(0, radius^2 I / d); a longer theta must be EVIDENCE times as likely.
    """
    values, vectors = np.linalg.eigh((precision + precision.T) / 2)
    values, along = np.maximum(values, 0.0), (vectors.T @ weighted) ** 2
    lengths = least * LONGER
    prior = len(values) / lengths[:, None] ** 2
    evidence = (along / (values + prior) - np.log1p(values / prior)).sum(axis=1) / 2
    best = int(np.argmax(evidence))
    sure = evidence[best] - evidence[0] > math.log(EVIDENCE)
    return float(lengths[best]) if sure else least


def _residuals(sums: Sums, lens: Lens, nu: float, energy: float, doubt: float) -> Residuals:
    """The scale of residuals from the energy of the clipped ones, as if they were normal.

    They are not if the energy of all, pooled over recent windows, is far above that.
    """
    if lens.clip >= lens.limit:  # nothing was clipped: nothing needs to be normal
        return Residuals(math.nan, 1.0, 1.0, 1.0, True)
    clip = lens.clip / math.sqrt(nu)
    expected = sums.count * clipped_normal(clip / SCALES)[1] * (SCALES / clip) ** 2
    variance = sums.deviation**2 + (MISFIT * sums.count) ** 2
    log = -((sums.clipped - expected) ** 2) / (2 * variance) - (np.log(SCALES) / SPREAD) ** 2 / 2
    share = np.cumsum(np.exp(log - log.max()))
    likely, least = SCALES[np.searchsorted(share / share[-1], [CAUTION, 0.2])]
    slope, second = clipped_normal(clip / likely)
    return Residuals(
        variance=nu * float(likely) ** 2,
        slope=max(float(slope), 0.1),
        second=float(second),
        overconfidence=max(float(least), 1.0),
        normal=energy <= 2 * nu * float(likely) ** 2 + HEAVY * doubt,
    )


def _gram(
    noisy: Array, before: Array, along: Array, deviation: float, size: int
) -> tuple[Array, Array]:
    """The Gram matrix without most of its noise, and the covariance of its error times delta.

    It is shrunk towards a round matrix that may be longer along the direction the policy prefers
    (Ledoit-Wolf, the noise is known); eigenvalues that noise alone could make count as nothing.
    """
    d, eye = len(noisy), np.eye(len(noisy))
    length = float(np.linalg.norm(along))
    if d > 2 and length > 0:
        u = along / length
        special = np.outer(u, u)
        ahead = float(u @ noisy @ u)
        rest = (float(np.trace(noisy)) - ahead) / (d - 1)
        share = 1 / (d - 1)
    else:
        u, special = np.zeros(d), 0 * eye
        rest, share = float(np.trace(noisy)) / d, 1 / d
    # A frame that fits makes it size/d times the identity, give or take a half of that.
    square, even = deviation**2, size / d
    trust = (FIT * even) ** 2 / ((FIT * even) ** 2 + square * share)
    target = (trust * rest + (1 - trust) * even) * (eye - special)
    share *= trust
    if length > 0 and d > 2:
        target += max(ahead, 0.0) * special
    odd = noisy - target
    keep = 1 - min(1.0, square * d * (d + 1) / 2 / max(float(np.sum(odd**2)), 1e-300))
    values, vectors = np.linalg.eigh(target + keep * odd)
    aligned = (vectors.T @ u) ** 2
    error = square * (keep + (1 - keep) * (aligned + (1 - aligned) * share))
    # Early windows may not lose all: no more than what an even Gram matrix leaves to spare.
    sure = min(SURE, 0.2 * (size / d) ** 2 / max(square * share, 1e-300))
    values = np.maximum(values, 1e-9 * deviation)
    values = np.maximum(values - sure * error / np.maximum(values, 1e-300), 0.0)
    others = eye - special
    noise = square / 2 * keep * (np.trace(before) * eye + before)
    noise += (1 - keep) * square * (share * others @ before @ others + special @ before @ special)
    return np.asarray((vectors * values) @ vectors.T), noise
