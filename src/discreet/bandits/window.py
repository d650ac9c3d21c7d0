"""One window of a linear bandit: the whitening and clipping transform of its rows (Transform).

After Chen, Li, Rakhlin, Simchi-Levi (2025), Algorithms 5 and 6: weights that let no row count too
much in coordinates where past rows are isotropic, and normal equations solved there; released
around what is known already, so that the noise shrinks with the error that is left.

    paper   W^{1/2}     w(phi)    H       psi              theta^(j), b^(j)
    here    whitening   weight    gram    moment           Belief.mean, Belief.covariance

With residual r = reward - <phi, mean>, expected standard deviation rho = sqrt(1 + phi' C phi / nu)
in units of sqrt(nu), and x = whitening phi / rho, a row enters the release as the symmetric matrix
v v',

    v = sqrt(w) [x; f/R; g/E],    w = min(1, 1/|x|^2),    r/rho = f + g,  (f/R)^2 + (g/E)^2 <= 1

f is the residual clipped at R, a few standard deviations; g is what was clipped off, released
beside it at no extra noise, to notice rewards for which clipping is wrong. E bounds every residual.
|v|^2 <= 2, and v is finite, whatever the belief, the row and the reward are.
"""

import math
from dataclasses import dataclass, replace
from functools import cached_property
from types import SimpleNamespace
from typing import Any

import numpy as np
from scipy.special import ndtr

from discreet.bandits.belief import Belief
from discreet.links import BoundedLink, Link
from discreet.privacy.checks import Array
from discreet.state import value

COUNT = 0.5  # weight of the weighted count of rows in the release
VALUE = 0.25  # weight of the plain count of rows in it, and of the sum of their rewards
# A replaced row: |vv' - uu'|_F^2 <= 2 |v|^4 <= 8, weights differ by at most 1, counts not at all,
# rewards in [-1, 1] by at most 2. A row that moves from one window to another changes each by at
# most |v|^4 + COUNT^2 + 2 VALUE^2 <= 4 + COUNT^2 + 2 VALUE^2 (weight, count and reward at most 1).
SENSITIVITY = math.sqrt(max(8 + COUNT**2 + 4 * VALUE**2, 2 * (4 + COUNT**2 + 2 * VALUE**2)))
TOTALS = 3  # entries after v v': weight, count, rewards


def totals(weight: Array, rewards: Array) -> Array:
    """(..., TOTALS) of rows beside their v v': weight, count and reward, as they are released."""
    return np.stack([COUNT * weight, np.full_like(weight, VALUE), VALUE * rewards], axis=-1)


CLIPS = np.array(
    [0.5, 0.6, 0.7, 0.8, 1.0, 1.2, 1.5, 2.0, 2.5, 3.0, 4.0, 6.0, 8.0, 12.0]
)  # R in standard deviations
LOUD = 0.3  # of the largest variance that rewards can have: clipping gains nothing beyond
ISOTROPY = 0.3  # no direction is stretched by more than about 1/sqrt(ISOTROPY) of the mean
LONGEST = 16.0  # |theta|, in units of the largest reward or of the link's argument: never more
LARGEST = 1e100  # of the numbers in a transform: their squares, summed, stay finite
WILDEST = 1e30  # of the numbers in a belief
NARROWEST = 1e-6  # R, as a fraction of E

# Elementwise arithmetic on one row's numbers, under numpy's names: several times as fast.
ONE_ROW = SimpleNamespace(
    maximum=max,
    minimum=min,
    sqrt=math.sqrt,
    copysign=math.copysign,
    where=lambda condition, yes, no: (no, yes)[condition],  # no branch: times tell nothing
)


@value
@dataclass(frozen=True)
class Transform:
    """How a window transforms its rows. Public: computed from earlier releases."""

    mean: Array  # (d,)
    spread: Array  # (d, d), rho^2 = 1 + |phi spread|^2
    whitening: Array  # (d, d)
    clip: float  # R
    residual_bound: float  # E
    link: BoundedLink | None  # None for the identity

    def rows(self, rows: Array, rewards: Array) -> tuple[Array, Array]:
        """v (n, d + 2) and weights (n,) of rewarded rows (n, d)."""
        expected, rows = self._expected(rows, rows @ self.mean)
        wide = rows @ self.spread
        v = np.empty((len(rows), rows.shape[1] + 2))
        x = np.matmul(rows, self.whitening, out=v[:, :-2])
        stretch, v[:, -2], v[:, -1], weight = self._clipped(
            expected,
            np.einsum("ij,ij->i", wide, wide),
            np.einsum("ij,ij->i", x, x),
            rewards,
            np,
        )
        x *= stretch[:, None]
        return v, weight

    def row(self, row: Array, reward: float, v: Array) -> float:
        """`rows` for one row (d,): fills v (d + 2,), returns the weight."""
        d = len(row)
        seen = row.dot(self._all)
        expected = float(seen[0])
        wide = seen[1 : d + 1]
        x = seen[d + 1 :]
        spread2, length2 = float(wide.dot(wide)), float(x.dot(x))
        if self.link is not None:
            t = np.array(expected)
            slope = float(self.link.slope(t))
            expected = float(self.link.mean(t))
            x *= slope
            spread2 *= slope * slope
            length2 *= slope * slope
        stretch, v[d], v[d + 1], weight = self._clipped(expected, spread2, length2, reward, ONE_ROW)
        np.multiply(x, stretch, out=v[:d])
        return float(weight)

    def _expected(self, rows: Array, t: Array) -> tuple[Array, Array]:
        """What is expected of rows, and the rows in which that is linear."""
        if self.link is None:
            return t, rows
        # One step of Gauss-Newton: the slope times phi takes the place of phi.
        return self.link.mean(t), rows * self.link.slope(t)[:, None]

    def _clipped(
        self, expected: Any, spread2: Any, length2: Any, reward: Any, xp: Any
    ) -> tuple[Any, Any, Any, Any]:
        """sqrt(w)/rho, sqrt(w) f/R, sqrt(w) g/E and w; of one row (xp = ONE_ROW) or many (numpy).

        Beyond R, f is the larger solution of (f/R)^2 + ((r - f)/E)^2 = 1; within, f = r.
        """
        R, E, a, E2 = self._ellipse
        rho2 = 1 + spread2
        rho = xp.sqrt(rho2)
        weight = 1 / xp.maximum(1.0, length2 / rho2)
        root = xp.sqrt(weight)
        residual = xp.minimum(xp.maximum((reward - expected) / rho, -E), E)
        size = abs(residual)
        near = size / E2
        far = (near + xp.sqrt(xp.maximum(near * near + a * (1 - near * size), 0.0))) / a
        f = xp.copysign(xp.where(size > R, far, size), residual)
        return root / rho, root * f / R, root * (residual - f) / E, weight

    @cached_property
    def _all(self) -> Array:  # (d, 1 + 2 d)
        return np.column_stack([self.mean, self.spread, self.whitening])

    @cached_property
    def _ellipse(self) -> tuple[float, float, float, float]:  # R, E, 1/R^2 + 1/E^2, E^2
        R, E = self.clip, self.residual_bound
        return R, E, 1 / R**2 + 1 / E**2, E**2


def transform(
    belief: Belief,
    size: int,
    noise_std: float,
    limits: tuple[float, float],
    link: BoundedLink | None,
) -> Transform:
    """The transform of a window of so many decisions, whose release has this noise."""
    belief = _tamed(belief)
    noise_std = min(noise_std, WILDEST)
    d = len(belief.mean)
    low, high = limits
    most = max(abs(low), abs(high))
    centre = _within(belief.mean, LONGEST)
    bound = most + float(np.linalg.norm(centre)) if link is None else high - low
    nu = belief.reward_variance
    if not belief.may_clip or nu > LOUD * ((high - low) / 2) ** 2:  # nothing to gain by clipping
        if link is None:
            centre, bound = 0 * centre, most
        clip = bound
    else:  # the least variance of the estimate, for normal residuals and an isotropic Gram matrix
        slope, second = CLIPPED
        cost = (noise_std**2 / 2 * CLIPS**2 + second * size / d) / slope**2
        clip = min(float(CLIPS[np.argmin(cost)]) * math.sqrt(nu), bound)
    return Transform(
        centre,
        _finite(belief.root / math.sqrt(nu)),
        _finite(_whitening(belief)),
        max(clip, NARROWEST * bound),
        bound,
        link,
    )


def bounded(link: Link, scale: float) -> BoundedLink | None:
    """The link on arguments where no overflow and no impossible mean is; None for the identity.

    Means of rewards in units of `scale` lie in [0, 1]: beyond nu^-1(scale) no argument is right.
    """
    if link.name == "identity":
        return None
    top = link.inverse(scale)
    return link.within(link.reach + (abs(top) if math.isfinite(top) else 0.0), scale)


def _whitening(belief: Belief) -> Array:
    """W in which recent rows are isotropic and of length about 1, no finer than the noise."""
    d = len(belief.mean)
    nu = belief.reward_variance
    if belief.effective_rows < 1 / WILDEST:  # rows may have length 1, and nothing is known
        return math.sqrt(1 + belief.radius**2 / d / nu) * np.eye(d)
    gram = belief.gram / belief.effective_rows
    values, vectors = np.linalg.eigh(gram)
    values = np.maximum(values, belief.gram_noise_std / belief.effective_rows + 1e-12)
    values = values + ISOTROPY * values.mean()
    root = np.asarray((vectors * values**-0.5) @ vectors.T)
    rho2 = 1 + max(float(np.sum(belief.covariance * gram)), 0.0) / nu
    return root * math.sqrt(rho2 / max(float(np.trace(root @ gram @ root)), 1.0))


def _tamed(belief: Belief) -> Belief:
    """A belief whose numbers are such as releases make; those of real ones do not change.

    So that no belief, however it came about, makes a transform that overflows. All public.
    """
    return replace(
        belief,
        covariance=np.clip(belief.covariance, -WILDEST, WILDEST),
        gram=np.clip(belief.gram, -WILDEST, WILDEST),
        reward_variance=min(max(belief.reward_variance, 1 / WILDEST), WILDEST),
        effective_rows=min(belief.effective_rows, WILDEST),
        gram_noise_std=min(belief.gram_noise_std, WILDEST),
        radius=min(belief.radius, WILDEST),
    )


def _within(vector: Array, length: float) -> Array:
    """`vector`, shortened to this length if it is longer; for any finite vector."""
    largest = float(np.abs(vector).max(initial=0.0))
    if largest <= length / math.sqrt(max(len(vector), 1)):
        return vector
    unit = vector / largest
    norm = float(np.linalg.norm(unit))
    return np.asarray(unit * min(largest, length / norm))


def _finite(matrix: Array) -> Array:
    """Entries of at most LARGEST, and no NaN: no row can overflow (public, before any row)."""
    return np.clip(np.nan_to_num(matrix, nan=0.0), -LARGEST, LARGEST)


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
