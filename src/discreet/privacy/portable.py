"""Arithmetic that gives the same bits in every language: what a report is computed with.

Only + - * / and the square root are the same everywhere to the last bit (IEEE 754), in a fixed
order. So sums go from left to right, and there is one logarithm, made of these. `clients/js/law.js`
is the same file in JavaScript; the same 52-bit words give the same report in both.

Laws are exact up to the rounding of floats: normals by Marsaglia's polar method, one coordinate of
a uniform direction by inversion. How many words that takes depends on the words of the normals
alone, never on a record, nor on what is told of it.
"""

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

from discreet.arrays import Array
from discreet.privacy.noise import Noise, Size

COINS = 2**52  # equally likely outcomes of one word: every source of noise has at least 52 bits

NODES = 2**11  # of the table of a sphere
DEPTH = 80.0  # tails down to e^-DEPTH: no word of 52 bits reaches further
GAUSS = (  # places and weights of Gauss and Legendre, 4 points
    (0.33998104358485626, 0.6521451548625461),
    (0.8611363115940526, 0.34785484513745385),
)

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
_POWERS = (  # of r (e^r + 1) / (e^r - 1) - 2 in r^2: FreeBSD's e_exp.c
    1.66666666666666019037e-01,
    -2.77777777770155933842e-03,
    6.61375632143793436117e-05,
    -1.65339022054652515390e-06,
    4.13813679705723846039e-08,
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


def exp(x: ArrayLike) -> Array:
    """The exponential of numbers from -700 to 700, within one unit in the last place.

    >>> bool(abs(exp(1.0) - 2.718281828459045) < 1e-15)
    True
    """
    x = np.asarray(x, dtype=np.float64)
    k = np.floor(x * 1.44269504088896338700 + 0.5)
    high, low = x - k * _LN2_HIGH, k * _LN2_LOW
    r = high - low
    t = r * r
    series = np.full(t.shape, _POWERS[-1])
    for term in _POWERS[-2::-1]:
        series = term + t * series
    c = r - t * series
    return np.asarray(np.ldexp(1.0 - ((low - (r * c) / (2.0 - c)) - high), k.astype(np.int64)))


def tanh(r: Array) -> Array:
    """Of numbers that are not negative."""
    x = exp(-r)
    return np.asarray((1.0 - x) * (1.0 + x) / (1.0 + x * x))


def sech(r: Array) -> Array:
    """Of numbers that are not negative."""
    x = exp(-r)
    return np.asarray(2.0 * x / (1.0 + x * x))


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


@dataclass(frozen=True, eq=False)
class Sphere:
    """The law of one coordinate t of a uniform direction: a table of it, at nodes r = artanh t.

    The density of r is that of sech(r)^(dim - 1), and t = tanh r, sqrt(1 - t^2) = sech r. Tails are
    added up from the far end, so that small ones are as exact as large ones; between nodes r is a
    polynomial of degree 5 in logit(tail) that has the value, slope and curvature of both.

    dim     of the sphere, at least 2
    r       (NODES + 1,), from 0 to where a tail is below e^-80
    tail    (NODES + 1,), P(artanh t >= r)
    density (NODES + 1,), of artanh t
    """

    dim: int
    r: Array
    tail: Array
    density: Array

    @cached_property
    def _pieces(self) -> tuple[Array, Array]:
        """The logits of tails, rising, and (NODES, 6) coefficients for each piece between two."""
        m = self.tail
        where = log(m / (1.0 - m))
        slope = -(m * (1.0 - m) / self.density)
        curvature = slope * ((self.dim - 1) * tanh(self.r) * slope + (1.0 - 2.0 * m))
        end, start = slice(0, -1), slice(1, None)  # r falls where the tail rises
        width = where[end] - where[start]
        d0, d1 = slope[start] * width, slope[end] * width
        c0, c1 = curvature[start] * width * width, curvature[end] * width * width
        step = self.r[end] - self.r[start]
        coefficients = (
            self.r[start],
            d0,
            0.5 * c0,
            10.0 * step - 6.0 * d0 - 4.0 * d1 - 1.5 * c0 + 0.5 * c1,
            -15.0 * step + 8.0 * d0 + 7.0 * d1 + 1.5 * c0 - c1,
            6.0 * step - 3.0 * d0 - 3.0 * d1 - 0.5 * c0 + 0.5 * c1,
        )
        return where[::-1].copy(), np.stack(coefficients, axis=1)[::-1].copy()

    def at(self, tail: Array) -> Array:
        """r >= 0 with P(artanh t >= r) = tail, for tails up to 1/2: the same work for each."""
        where, coefficients = self._pieces
        x = log(tail / (1.0 - tail))
        piece = np.clip(np.searchsorted(where, x, side="right") - 1, 0, NODES - 1)
        s = np.clip((x - where[piece]) / (where[piece + 1] - where[piece]), 0.0, 1.0)
        a = coefficients[piece].T
        return np.asarray(a[0] + s * (a[1] + s * (a[2] + s * (a[3] + s * (a[4] + s * a[5])))))

    def draw(self, inside: NDArray[np.bool_], node: int, noise: Noise) -> tuple[Array, Array]:
        """t on the cap from a node on, or on the rest, and sqrt(1 - t^2): one word for each.

        By inversion: nothing is tried and refused, so that time tells nothing of `inside`.
        """
        q = float(self.tail[node])
        drawn = unit(draw_coins(noise, len(inside)))
        tail = np.where(inside, q, 1.0 - q) * drawn  # above t, or below it
        near = tail > 0.5
        r = self.at(np.where(near, 1.0 - tail, tail))
        r = np.where(inside, np.maximum(r, self.r[node]), r)
        along, across = tanh(r), sech(r)
        return np.where(inside | near, along, -along), across


@lru_cache(maxsize=64)
def sphere(dim: int) -> Sphere:
    """The table of a dimension, made once."""
    n = dim - 1
    far = exp(DEPTH / n)
    furthest = float(log(far + np.sqrt((far - 1.0) * (far + 1.0))))  # sech^n = e^-DEPTH there
    r = np.arange(NODES + 1) * (furthest / NODES)
    half = furthest / NODES / 2.0
    middle = (np.arange(NODES) + 0.5) * (furthest / NODES)
    cells = np.zeros(NODES)
    for place, weight in GAUSS:
        cells = cells + weight * (
            exp(n * log(sech(middle - half * place))) + exp(n * log(sech(middle + half * place)))
        )
    density = exp(n * log(sech(r)))
    beyond = density[-1] / (n * tanh(r[-1:])[0])
    # From the far end: sums of positive numbers, small ones first.
    tail = np.cumsum(np.concatenate([[beyond], (half * cells)[::-1]]))[::-1].copy()
    whole = 2.0 * tail[0]
    return Sphere(dim, r, tail / whole, density / whole)
