"""One window of a linear bandit: how it looks at its rows, and what it releases (Lens).

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
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy.special import ndtr

from discreet.bandits.belief import Belief
from discreet.links import Link
from discreet.privacy.checks import Array

COUNT = 0.5  # weight of the count of rows in the release
# |vv' - uu'|_F^2 <= 2 |v|^4 <= 8 for a replaced row, and counts differ by at most COUNT; a row that
# moves from one window to another changes each by at most |v|^4 + COUNT^2 <= 4 + COUNT^2.
SENSITIVITY = math.sqrt(8 + 2 * COUNT**2)

CLIPS = np.array(
    [0.5, 0.6, 0.7, 0.8, 1.0, 1.2, 1.5, 2.0, 2.5, 3.0, 4.0, 6.0, 8.0, 12.0]
)  # R in deviations
LOUD = 0.3  # of the largest variance that rewards can have: clipping gains nothing beyond
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

    @cached_property
    def _ellipse(self) -> tuple[float, float, float, float]:  # R, E, 1/R^2 + 1/E^2, E^2
        R, E = self.clip, self.limit
        return R, E, 1 / R**2 + 1 / E**2, E**2

    def look_at(self, row: Array, reward: float, v: Array) -> float:
        """`look` for one row, several times as fast: fills v (d + 2,), returns the weight."""
        if self.link.name != "identity":
            many, weights = self.look(row[None], np.array([reward]))
            v[:] = many[0]
            return float(weights[0])
        d, seen = len(row), row.dot(self._all)
        R, E, a, E2 = self._ellipse
        wide, x = seen[1 : d + 1], seen[d + 1 :]
        rho2 = 1 + float(wide.dot(wide))
        weight = 1 / max(1.0, float(x.dot(x)) / rho2)
        rho, root = math.sqrt(rho2), math.sqrt(weight)
        residual = min(max((reward - float(seen[0])) / rho, -E), E)
        size = abs(residual)  # what follows is `_clipped`; no branch: times tell nothing
        near = size / E2
        far = (near + math.sqrt(max(near * near + a * (1 - near * size), 0.0))) / a
        clipped = math.copysign((size, far)[size > R], residual)
        np.multiply(x, root / rho, out=v[:d])
        v[d], v[d + 1] = root * clipped / R, root * (residual - clipped) / E
        return weight

    def _clipped(self, residual: Array) -> Array:
        """f with (f/R)^2 + ((r - f)/E)^2 = 1 beyond R, the larger of two; and f = r within."""
        R, _, a, E2 = self._ellipse
        size = np.abs(residual)
        near = size / E2
        far = (near + np.sqrt(np.maximum(near * near + a * (1 - near * size), 0.0))) / a
        return np.asarray(np.copysign(np.where(size > R, far, size), residual))


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
