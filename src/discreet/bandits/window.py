"""One window of a linear bandit: how its rows are whitened and clipped, and what it releases.

After Chen, Li, Rakhlin, Simchi-Levi (2025), Algorithms 5 and 6: weights that let no row count too
much in coordinates where past rows are isotropic, and normal equations solved there; released
around what is known already, so that the noise shrinks with the error that is left.

    paper   W^{1/2}      w(phi)    H       psi              theta^(j), b^(j)
    here    whitening    weight    gram    moment           Belief.mean, Belief.covariance

With residual r = reward - <phi, mean>, of standard deviation rho = sqrt(1 + phi' C phi / nu) in
units of sqrt(nu), and x = M phi / rho, a row enters the release as the symmetric matrix v v',

    v = sqrt(w) [x; f/R; g/E],    w = min(1, 1/|x|^2),    r/rho = f + g,  (f/R)^2 + (g/E)^2 <= 1

f is the residual clipped at R, a few standard deviations; g is what was clipped off, released
beside it at no extra noise, to notice rewards for which clipping is wrong. E bounds every residual.
"""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from discreet.bandits.belief import Belief
from discreet.least_squares import Whitening, bounded_rows, least_error_clip
from discreet.least_squares.clipping import squares
from discreet.least_squares.posterior import root
from discreet.links import Link
from discreet.privacy.checks import Array

COUNT = 0.5  # weight of the count of rows in the release
# |vv' - uu'|_F^2 <= 2 |v|^4 <= 8 for a replaced row, and counts differ by at most COUNT; a row that
# moves from one window to another changes each by at most |v|^4 + COUNT^2 <= 4 + COUNT^2.
SENSITIVITY = math.sqrt(8 + 2 * COUNT**2)

LOUD = 0.3  # of the largest variance that rewards can have: clipping gains nothing beyond
EVEN = 30.0  # the same where nothing is clipped: Gram noise times all of theta, so stay isotropic
UNIT = 0.4  # of what the prior lets expect of a signal counts for the first window's R
ROUND = 0.3  # no direction is stretched by more than about 1/sqrt(ROUND) of the mean


@dataclass(frozen=True)
class RowTransform:
    """From a rewarded row to v. Public: computed from earlier releases."""

    mean: Array  # (d,)
    spread: Array  # (d, d), rho^2 = 1 + |phi spread|^2
    whitening: Whitening
    clip: float  # R
    limit: float  # E
    link: Link
    scale: float  # rewards are in units of this
    middle: float  # of the rewards, where they have an intercept, in units of `scale`
    half: float  # of their range, in the same case
    constant: float  # the last entry of every row, in the same case

    @cached_property
    def _products(self) -> tuple[Array, Array]:  # (features, 1 + 2 d), (1 + 2 d,)
        matrix = np.column_stack([self.mean, self.spread, self.whitening.matrix])
        if not self.constant:
            return matrix, np.zeros(matrix.shape[1])
        return math.sqrt(1 - self.constant**2) * matrix[:-1], self.constant * matrix[-1]

    def __call__(self, rows: Array, rewards: Any) -> tuple[Array, Any]:
        """v (n, d + 2) and weights (n,) of rows (n, d) and rewards (n,), or all of one row."""
        d = len(self.mean)
        factors, constants = self._products
        products = (rows @ factors + constants).T  # (1 + 2 d, n), or (1 + 2 d,)
        expected = products[0]
        products = products[1:]
        if self.link.name != "identity":  # one Gauss-Newton step: slope times phi replaces phi
            products = products * (self.link.slope(expected) / self.scale)
            expected = self.link.mean(expected) / self.scale
        rho = (1 + squares(products[:d].T)) ** 0.5
        x = products[d:].T / (rho if rows.ndim == 1 else rho[:, None])
        rewards = (rewards - self.middle) / self.half
        return bounded_rows(x, (rewards - expected) / rho, self.clip, self.limit)


def row_transform(
    belief: Belief,
    size: int,
    noise_std: float,
    limits: tuple[float, float],
    link: Link,
    scale: float,
) -> RowTransform:
    """The transform of a window of so many decisions, whose release has this noise."""
    d = len(belief.mean)
    low, high = limits
    middle = 0.0
    half = 1.0
    if belief.constant:  # rewards become (y - middle) / half in [-1, 1]
        middle = (low + high) / 2
        half = (high - low) / 2
        low, high = -1.0, 1.0
    centre = belief.mean
    largest = max(abs(low), abs(high))
    length = float(np.linalg.norm(centre))
    limit = largest + length if link.name == "identity" else high - low
    nu = belief.noise_variance
    if belief.never_clip or nu > LOUD * ((high - low) / 2) ** 2:  # nothing to gain by clipping
        if link.name == "identity":
            shift, limit = _intercept_shift(belief, largest)
            centre = np.append(np.zeros(d - 1), shift)
        clip = limit
    else:
        unit = nu + (UNIT * belief.radius**2 / d if belief.effective_rows == 0 else 0.0)
        clip = min(least_error_clip(noise_std / math.sqrt(2), size / d) * math.sqrt(unit), limit)
    plain = clip >= limit or belief.effective_rows == 0  # rho = 1
    spread = (0.0 if plain else 1.0) * root(belief.cautious_posterior.covariance) / math.sqrt(nu)
    return RowTransform(
        centre,
        spread,
        _whitening(belief, plain),
        clip,
        limit,
        link,
        scale,
        middle,
        half,
        belief.constant,
    )


def _intercept_shift(belief: Belief, largest: float) -> tuple[float, float]:
    """Where nothing is clipped: the centre of theta's last entry, and the bound E it leads to.

    Without an intercept the centre is 0. With one, |r| <= largest + a for a centre of a / constant;
    the noise of the Gram matrix acts on what is left of that entry.  Least E^2 + (rest)^2:
    a = (|theta_c| / l - 1) / (1 + 1 / l^2), l = constant.
    """
    l = belief.constant
    if not l:
        return 0.0, largest
    last = float(belief.mean[-1])
    aside = min(max((abs(last) / l - 1) / (1 + 1 / l**2), 0.0), 0.9)
    return math.copysign(aside / l, last), largest + aside


def _whitening(belief: Belief, plain: bool) -> Whitening:
    """Recent rows become isotropic and of length about 1, no finer than the noise."""
    d = len(belief.mean)
    nu = belief.noise_variance
    if belief.effective_rows == 0:  # rows may have length 1, and nothing is known
        return Whitening.identity(d, math.sqrt(1 if plain else 1 + belief.radius**2 / d / nu))
    gram = belief.gram / belief.effective_rows
    values = np.maximum(np.linalg.eigvalsh(gram), 0.0)
    ridge = (EVEN if plain else ROUND) * float(values.mean())
    ridge += belief.gram_noise_std / belief.effective_rows + 1e-12
    whitening = Whitening.from_gram(gram, ridge=ridge)
    careful = belief.cautious_posterior.covariance
    rho2 = 1.0 if plain else 1 + float(np.sum(careful * gram)) / nu
    return whitening.scaled(math.sqrt(rho2 / max(whitening.mean_square(gram), 1e-9)))
