"""Arithmetic that gives the same bits in every language: what a report is computed with.

Only + - * / and the square root are the same everywhere to the last bit (IEEE 754), in a fixed
order. So sums go from left to right, and there is one logarithm, made of these. `clients/js/law.js`
is the same file in JavaScript; the same 52-bit words give the same report in both.

Laws are exact up to the rounding of floats: normals by Marsaglia's polar method, one coordinate of
a uniform direction by rejection from an exponential tangent of its log-concave density. How many
words that takes depends on the words alone, never on a record.
"""

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from discreet.arrays import Array
from discreet.privacy.noise import Noise, Size

COINS = 2**52  # equally likely outcomes of one word: every source of noise has at least 52 bits

_LN2_HIGH, _LN2_LOW = 6.93147180369123816490e-01, 1.90821492927058770002e-10
_SERIES = (  # of log((1 + s) / (1 - s)) / s - 2 in s^2: FreeBSD's e_log.c
    6.666666666666735130e-01,
    3.999999999940941908e-01,
    2.857142874366239149e-01,
    2.222219843214978396e-01,
    1.818357216161805012e-01,
    1.531383769920937332e-01,
    1.479819860511658591e-01,
)


def draw_coins(noise: Noise, size: Size) -> NDArray[np.int64]:
    """Words: integers, uniform on 0 ... 2^52 - 1; scaling by a power of two loses no bit."""
    return np.asarray(np.floor(noise.uniform(size) * COINS), dtype=np.int64)


def unit(words: NDArray[np.int64]) -> Array:
    """Words as floats strictly between 0 and 1."""
    return np.asarray((words + 0.5) / COINS)


def dot(a: Array, b: Array) -> Array:  # (..., d), (..., d) -> (...)
    """Inner products, added up from left to right."""
    return np.asarray(np.cumsum(a * b, axis=-1)[..., -1])


def log(x: ArrayLike) -> Array:
    """The natural logarithm of positive numbers, within one unit in the last place.

    >>> bool(abs(log(10.0) - 2.302585092994046) < 1e-15)
    True
    """
    fraction, exponent = np.frexp(np.asarray(x, dtype=np.float64))  # x = fraction 2^exponent
    small = fraction < math.sqrt(0.5)
    f = np.where(small, fraction + fraction, fraction) - 1.0
    k = np.where(small, exponent - 1.0, exponent)
    s = f / (2.0 + f)
    z = s * s
    series = np.full(z.shape, _SERIES[-1])
    for term in _SERIES[-2::-1]:
        series = term + z * series
    half = 0.5 * f * f
    return np.asarray(k * _LN2_HIGH - ((half - (s * (half + z * series) + k * _LN2_LOW)) - f))


def normals(noise: Noise, n: int, dim: int) -> Array:  # (n, dim)
    """Standard normal numbers, in pairs; whoever is refused draws again in the next turn."""
    pairs = n * ((dim + 1) // 2)
    made = np.empty((pairs, 2))
    waiting = np.arange(pairs)
    while len(waiting):
        point = 2.0 * unit(draw_coins(noise, (len(waiting), 2))) - 1.0
        square = point[:, 0] * point[:, 0] + point[:, 1] * point[:, 1]
        inside = (square < 1.0) & (square > 0.0)
        size = np.sqrt(-2.0 * log(square[inside]) / square[inside])
        made[waiting[inside]] = point[inside] * size[:, None]
        waiting = waiting[~inside]
    return made.reshape(n, 2 * ((dim + 1) // 2))[:, :dim]


class CapCosine:
    """One coordinate t of a uniform direction of `dim` >= 2 dimensions: t >= cap, or t < cap.

    Its density is (1 - t^2)^a, a = (dim - 3)/2. For a > 0 it is log-concave, and the exponential
    that touches it at s in [low, 1) lies above it: t = low - log(u) / rate with the slope
    rate = 2 a s / (1 - s^2) is accepted with the ratio of the two. For the rest of the sphere, |t|
    is drawn with low = 0, and a sign. The circle (dim = 2) is a pair of the polar method.

    dim   dimensions of the sphere
    cap   where the cap begins, in [0, 1)
    """

    def __init__(self, dim: int, cap: float) -> None:
        self.dim = dim
        self.cap = cap
        self.a = (dim - 3) / 2
        self._inside = self._tangent(cap)
        self._outside = self._tangent(0.0)

    def _tangent(self, low: float) -> tuple[float, float, float, float]:
        """low, s, 1 - s^2 and the rate; s is the best for a normal tail, but within the sphere."""
        spread = math.sqrt(low * low + 4.0 / (2.0 * self.a + 1.0)) if self.a > 0 else 0.0
        s = min((low + spread) / 2.0, (low + 1.0) / 2.0)
        rest = (1.0 - s) * (1.0 + s)
        return low, s, rest, 2.0 * self.a * s / rest

    def draw(self, inside: NDArray[np.bool_], noise: Noise) -> tuple[Array, Array]:
        """t for each, and the length across it, sqrt(1 - t^2)."""
        along, across = np.empty(len(inside)), np.empty(len(inside))
        waiting = np.arange(len(inside))
        propose = self._circle if self.dim == 2 else self._half
        while len(waiting):
            wanted = inside[waiting]
            t, rest, accepted = propose(wanted, draw_coins(noise, (len(waiting), 3)))
            accepted &= (t >= self.cap) == wanted
            along[waiting[accepted]] = t[accepted]
            across[waiting[accepted]] = rest[accepted]
            waiting = waiting[~accepted]
        return along, across

    def _circle(
        self, inside: NDArray[np.bool_], words: NDArray[np.int64]
    ) -> tuple[Array, Array, NDArray[np.bool_]]:
        x, y = 2.0 * unit(words[:, 0]) - 1.0, 2.0 * unit(words[:, 1]) - 1.0
        square = x * x + y * y
        radius = np.sqrt(np.where(square > 0.0, square, 1.0))
        return x / radius, np.abs(y) / radius, (square < 1.0) & (square > 0.0)

    def _half(
        self, inside: NDArray[np.bool_], words: NDArray[np.int64]
    ) -> tuple[Array, Array, NDArray[np.bool_]]:
        low, s, at_s, rate = np.where(
            inside[:, None], np.array(self._inside), np.array(self._outside)
        ).T
        first, second = unit(words[:, 0]), unit(words[:, 1])
        if self.a == 0:
            t = low + (1.0 - low) * first
            accepted = np.full(len(t), True)
        else:
            t = low - log(first) / rate
            accepted = t < 1.0
            rest = np.where(accepted, (1.0 - t) * (1.0 + t), at_s)
            accepted &= log(second) <= self.a * log(rest / at_s) + rate * (t - s)
        t = np.where(accepted, t, 0.0)
        across = np.sqrt((1.0 - t) * (1.0 + t))
        return np.where(~inside & (words[:, 2] < COINS // 2), -t, t), across, accepted
