"""One window of a linear bandit: how it looks at its rows, what it releases, what that teaches.

After Chen, Li, Rakhlin, Simchi-Levi (2025), Algorithms 5 and 6: weights that let no row count too
much in a frame where past rows are round, and normal equations solved there; released around what
is known already, so that the noise shrinks with the error that is left.

    paper   W^{1/2}   w(phi)    H       psi              theta^(j), b^(j)
    here    frame     weight    gram    moment           Belief.mean, Belief.covariance

With residual r = reward - <phi, mean>, expected deviation rho = sqrt(1 + phi' C phi / nu) in units
of sqrt(nu), and x = frame phi / rho, a row enters the release as the symmetric matrix v v',

    v = sqrt(w) [x; f/R; g/E],    w = min(1, 1/|x|^2),    r/rho = f + g,  (f/R)^2 + (g/E)^2 <= 1

f is the residual clipped at R, a few deviations; g is what was clipped off, released beside it at
no extra noise, to notice rewards for which clipping is wrong. E bounds every residual. |v|^2 <= 2.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy.special import ndtr

from discreet.bandits.belief import Belief
from discreet.links import Link
from discreet.privacy.checks import Array
from discreet.privacy.mechanisms import vector_to_symmetric

COUNT = 0.5  # weight of the count of rows in the release
# |vv' - uu'|_F^2 <= 2 |v|^4 <= 8 for a replaced row, and counts differ by at most COUNT; a row that
# moves from one window to another changes each by at most |v|^4 + COUNT^2 <= 4 + COUNT^2.
SENSITIVITY = math.sqrt(8 + 2 * COUNT**2)

CLIPS = np.array(
    [0.5, 0.6, 0.7, 0.8, 1.0, 1.2, 1.5, 2.0, 2.5, 3.0, 4.0, 6.0, 8.0, 12.0]
)  # R in deviations
SCALES = np.geomspace(0.1, 10.0, 81)  # deviation of residuals against the expected one
SPREAD = 0.4  # prior deviation of log(scale)
CAUTION = 0.5  # quantile of the scale that is believed
MISFIT = 0.02  # how far residuals may be from normal, as a share of the rows
HEAVY = 3.0  # deviations above twice the normal energy: residuals are not normal
QUIET = 1e-3  # the least nu; less would gain nothing
FALL = 0.3  # nu falls no faster than this, from window to window
LOUD = 0.3  # of the largest variance that rewards can have: clipping gains nothing beyond
SURE = 2.0  # eigenvalues of the Gram matrix count beyond sqrt(SURE) deviations of their noise
RECENT = 0.5  # how much of the Gram matrix of earlier windows stays in the frame
FIT = 0.5  # how far the Gram matrix may be from what the frame expects, relative
ROUND = 0.3  # the frame stretches no direction by more than about 1/sqrt(ROUND) of the mean


@dataclass(frozen=True)
class Lens:
    """How a window looks at its rows. Public: computed from earlier releases."""

    mean: Array  # (d,)
    spread: Array  # (d, d), rho^2 = 1 + |phi spread|^2
    frame: Array  # (d, d)
    clip: float  # R
    limit: float  # E
    link: Link
    scale: float  # rewards are in units of this

    def look(self, rows: Array, rewards: Array) -> tuple[Array, Array]:
        """v (n, d + 2) and weights (n,) of rewarded rows."""
        t = rows @ self.mean
        if self.link.name == "identity":
            expected = t
        else:  # one step of Gauss-Newton: the slope times phi takes the place of phi
            expected = self.link.mean(t) / self.scale
            rows = rows * (self.link.slope(t) / self.scale)[:, None]
        wide = rows @ self.spread
        rho = np.sqrt(1 + np.einsum("ij,ij->i", wide, wide))
        v = np.empty((len(rows), rows.shape[1] + 2))
        x = np.matmul(rows, self.frame, out=v[:, :-2])
        x /= rho[:, None]
        weight = 1 / np.maximum(1.0, np.einsum("ij,ij->i", x, x))
        residual = np.clip((rewards - expected) / rho, -self.limit, self.limit)
        clipped = self._clipped(residual)
        np.divide(clipped, self.clip, out=v[:, -2])
        np.divide(residual - clipped, self.limit, out=v[:, -1])
        v *= np.sqrt(weight)[:, None]
        return v, weight

    @cached_property
    def _all(self) -> Array:  # (d, 1 + 2 d)
        return np.column_stack([self.mean, self.spread, self.frame])

    def look_at(self, row: Array, reward: float, v: Array) -> float:
        """`look` for one row, several times as fast: fills v (d + 2,), returns the weight."""
        if self.link.name != "identity":
            many, weights = self.look(row[None], np.array([reward]))
            v[:] = many[0]
            return float(weights[0])
        d, R, E = len(row), self.clip, self.limit
        seen = row.dot(self._all)
        wide, x = seen[1 : d + 1], seen[d + 1 :]
        rho2 = 1 + float(wide.dot(wide))
        weight = 1 / max(1.0, float(x.dot(x)) / rho2)
        rho, root = math.sqrt(rho2), math.sqrt(weight)
        residual = min(max((reward - float(seen[0])) / rho, -E), E)
        clipped = residual
        if abs(residual) > R:
            clipped = math.copysign(_far(abs(residual), R, E, math.sqrt), residual)
        np.multiply(x, root / rho, out=v[:d])
        v[d], v[d + 1] = root * clipped / R, root * (residual - clipped) / E
        return weight

    def _clipped(self, residual: Array) -> Array:
        """f with (f/R)^2 + ((r - f)/E)^2 = 1 beyond R, and f = r within."""
        R, E = self.clip, self.limit
        size = np.abs(residual)
        if not (size > R).any():
            return residual
        far = _far(np.maximum(size, R), R, E, np.sqrt)
        return np.asarray(np.where(size > R, np.copysign(far, residual), residual))


def _far(size: Any, R: float, E: float, root: Callable[[Any], Any]) -> Any:
    """The larger f with (f/R)^2 + ((size - f)/E)^2 = 1, for R <= size <= E."""
    a = 1 / R**2 + 1 / E**2
    return (size / E**2 + root(size**2 / E**4 + a * (1 - (size / E) ** 2))) / a


def lens(
    belief: Belief,
    size: int,
    deviation: float,
    limits: tuple[float, float],
    link: Link,
    scale: float,
) -> Lens:
    """The lens of a window of so many decisions, whose release has this noise."""
    d = len(belief.mean)
    low, high = limits
    centre, most = belief.mean, max(abs(low), abs(high))
    length = float(np.linalg.norm(centre))
    limit = most + length if link.name == "identity" else high - low
    if belief.exact or belief.noise > LOUD * ((high - low) / 2) ** 2:  # nothing to gain by clipping
        if link.name == "identity":
            centre, limit = 0 * centre, most
        clip = limit
    else:  # the least variance of the estimate, for normal residuals and a round Gram matrix
        slope, second = CLIPPED
        cost = (deviation**2 / 2 * CLIPS**2 + second * size / d) / slope**2
        clip = min(float(CLIPS[np.argmin(cost)]) * math.sqrt(belief.noise), limit)
    spread = belief.root / math.sqrt(belief.noise)
    return Lens(centre, spread, _frame(belief), clip, limit, link, scale)


def _frame(belief: Belief) -> Array:
    """A frame in which recent rows are round and of length about 1, no finer than the noise."""
    d = len(belief.mean)
    if belief.mass == 0:  # rows may have length 1, and nothing is known
        return math.sqrt(1 + belief.radius**2 / d / belief.noise) * np.eye(d)
    gram = belief.gram / belief.mass
    values, vectors = np.linalg.eigh(gram)
    values = np.maximum(values, belief.blur / belief.mass + 1e-12)
    values = values + ROUND * values.mean()
    root = np.asarray((vectors * values**-0.5) @ vectors.T)
    rho2 = 1 + float(np.sum(belief.covariance * gram)) / belief.noise
    return root * math.sqrt(rho2 / max(float(np.trace(root @ gram @ root)), 1.0))


def learned(belief: Belief, lens: Lens, released: Array, deviation: float, size: int) -> Belief:
    """The belief after a window: post-processing of its release."""
    d, R, E = len(belief.mean), lens.clip, lens.limit
    eye, nu = np.eye(d), belief.noise
    matrix, off = vector_to_symmetric(released[:-1]), deviation**2 / 2
    count = _count(released[-1] / COUNT, deviation / COUNT, size)
    moment, beyond = matrix[:d, d] * R, matrix[:d, d + 1] * E
    squares = R**2 * matrix[d, d] + 2 * R * E * matrix[d, d + 1] + E**2 * matrix[d + 1, d + 1]
    mass = RECENT * belief.mass + count
    total = RECENT * belief.energy + squares
    unsure = math.hypot(RECENT * belief.doubt, deviation * (R**2 + E**2))
    energy, doubt = total / mass, unsure / mass
    # How large residuals were, against what was expected; and whether they look normal.
    precision, weighted, exact = belief.precision, belief.weighted, belief.exact
    whole = float(np.clip(squares / count, 0.3 * nu, 4.0))  # variance, if nothing was clipped
    if R >= E:
        variance, slope, second = whole, 1.0, 1.0
    else:
        likely, least = _scale(matrix[d, d], count, R / math.sqrt(nu), deviation)
        variance = nu * likely**2
        slope, second = (float(each) for each in clipped_normal(R / math.sqrt(variance)))
        slope = max(slope, 0.1)
        exact = exact or energy > 2 * variance + HEAVY * doubt
        if least > 1:  # the belief was too sure of itself
            precision, weighted = precision / least**2, weighted / least**2
    prior = d / belief.radius**2 * eye
    covariance = np.linalg.inv(precision + prior)
    back, shift = np.linalg.inv(lens.frame), belief.mean - lens.mean
    apart = covariance + np.outer(shift, shift)  # how far theta may be from the lens's centre
    before = back @ apart @ back
    gram, gram_noise = _gram(matrix[:d, :d], before, back @ belief.mean, deviation, size)
    seen = back @ gram @ back
    explained = float(np.sum(covariance * seen)) / count
    rho2 = 1 / (1 - min(explained / nu, 0.95))
    signal = float(np.sum(apart * seen)) / count  # of the residuals' energy: not noise
    whole = max(whole - signal, 0.1 * whole)
    if R >= E:
        variance = whole

    def added(moment: Array, slope: float, noise: Array) -> Array:  # (d, d + 1)
        """Precision, and precision times estimate, from moment = slope gram back (theta - centre)
        + noise: this one, of the Gram matrix (first order), and of a slope that is not known
        exactly."""
        design = slope * gram @ back
        noise = noise + slope**2 * gram_noise + ((1 - slope) * slope) ** 2 * gram @ before @ gram
        noise = noise + 1e-12 * max(float(np.trace(noise)), 1e-12) * eye
        observed = np.column_stack([design, moment + design @ lens.mean])
        return np.asarray(design.T @ np.linalg.solve(noise, observed))

    safe = belief.safe + added(
        moment + beyond if R < E else moment,
        1.0,
        off * (R**2 + E**2 if R < E else E**2) * eye + whole * gram,
    )
    if exact and not belief.exact:  # clipped windows mislead: go on with what was never clipped
        precision, weighted, variance = safe[:, :d], safe[:, d], whole
    else:
        term = added(moment, slope, off * R**2 * eye + second * variance * gram)
        precision, weighted = precision + term[:, :d], weighted + term[:, d]
    covariance = np.linalg.inv(precision + prior)
    covariance = (covariance + covariance.T) / 2
    mean = covariance @ weighted
    longest = max(float(np.linalg.norm(lens.frame, 2)), 1.0)
    rest = max(variance - signal, 0.3 * variance) if R < E else variance
    return Belief(
        mean=mean * min(1.0, belief.radius / max(float(np.linalg.norm(mean)), 1e-300)),
        covariance=covariance,
        precision=(precision + precision.T) / 2,
        weighted=weighted,
        safe=safe,
        noise=float(np.clip(rest * rho2, max(FALL * nu, QUIET), 1.0)),
        gram=RECENT * belief.gram + rho2 * seen,
        mass=mass,
        blur=math.hypot(RECENT * belief.blur, deviation / longest**2),
        energy=total,
        doubt=unsure,
        exact=exact,
        radius=belief.radius,
        windows=belief.windows + 1,
    )


def _count(seen: float, deviation: float, size: int) -> float:
    """The weight of all rows: at most their number, about half of it before anything is seen."""
    prior = (0.5 * size) ** 2
    count = (size * deviation**2 + seen * prior) / (deviation**2 + prior)
    return min(max(count, 0.1 * size), size)


def _scale(squares: float, count: float, clip: float, deviation: float) -> tuple[float, float]:
    """Likely scale of residuals against the expected one, and one that they hardly fall below."""
    normal = clipped_normal(clip / SCALES)[1] * (SCALES / clip) ** 2
    variance = deviation**2 + (MISFIT * count) ** 2
    log = -((squares - count * normal) ** 2) / (2 * variance) - (np.log(SCALES) / SPREAD) ** 2 / 2
    share = np.cumsum(np.exp(log - log.max()))
    share /= share[-1]
    likely, least = SCALES[np.searchsorted(share, [CAUTION, 0.2])]
    return float(likely), float(least)


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


def clipped_normal(clip: Any) -> tuple[Any, Any]:
    """A standard normal variable clipped at +-clip: its slope P(|z| < clip), its second moment.

    >>> slope, second = clipped_normal(1.0)
    >>> f"{slope:.4f} {second:.4f}"
    '0.6827 0.5161'
    """
    tail = ndtr(-clip)
    slope = 1 - 2 * tail
    density = np.exp(-(clip**2) / 2) / math.sqrt(2 * math.pi)
    return slope, slope - 2 * clip * density + 2 * clip**2 * tail


CLIPPED = clipped_normal(CLIPS)
