"""Rows of bounded length, and residuals clipped where that costs least."""

import math
from typing import Any

import numpy as np
import scipy

from discreet.arrays import Array

# Candidates for the bound of residuals, in standard deviations.
CLIPS = np.array([0.5, 0.6, 0.7, 0.8, 1.0, 1.2, 1.5, 2.0, 2.5, 3.0, 4.0, 6.0, 8.0, 12.0])


def bounded_rows(
    x: Array,
    residual: Any,
    clip: float,
    limit: float,
    scale: Any = 1.0,
    out: Array | None = None,
) -> tuple[Array, Any]:
    """v = sqrt(w) [x; f/R; g/E] and w, for one row x (d,) or many (n, d), with |v|^2 <= 2.

    v is written to `out`, which may begin with x itself. x is `scale` times what is given.
    w = min(1, 1/|x|^2), so |sqrt(w) x| <= 1. The residual r, cut at +-E, is split into f, what
    clipping at R leaves, and the rest g = r - f, such that (f/R)^2 + (g/E)^2 <= 1:

        f = r where |r| <= R,    else the larger root of (f/R)^2 + ((r - f)/E)^2 = 1

    >>> v, w = bounded_rows(np.array([3.0, 4.0]), 0.5, clip=1.0, limit=2.0)
    >>> v.round(3), float(w)
    (array([0.6, 0.8, 0.1, 0. ]), 0.04)
    """
    square = scale * scale * squares(x)
    if x.ndim == 1:
        residual = float(residual)
    weight, kept, rest = weight_and_parts(square, residual, clip, limit)
    root = weight**0.5
    v = np.empty((*x.shape[:-1], x.shape[-1] + 2)) if out is None else out
    np.multiply(x, np.asarray(scale * root)[..., None], out=v[..., :-2])
    v[..., -2] = root * kept
    v[..., -1] = root * rest
    return v, weight


def weight_and_parts(square: Any, residual: Any, clip: float, limit: float) -> tuple[Any, Any, Any]:
    """w, f/R and g/E of a row with |x|^2 = `square`; floats, or arrays of many."""
    # In operators that floats and arrays share, so that one row is as fast as floats are. There is
    # no branch on private values: times tell nothing.
    weight = 1 / ((square <= 1) * 1.0 + (square > 1) * square)
    size = abs(residual)
    size = (size <= limit) * size + (size > limit) * limit
    sign = (residual > 0) * 1.0 - (residual < 0) * 1.0
    near = size / (limit * limit)
    curve = 1 / (clip * clip) + 1 / (limit * limit)
    far = (near + abs(near * near + curve * (1 - near * size)) ** 0.5) / curve
    kept = (size <= clip) * size + (size > clip) * far
    return weight, sign * kept / clip, sign * (size - kept) / limit


def squares(rows: Array) -> Any:
    """|x|^2: a float for one row, (n,) for many."""
    return float(rows.dot(rows)) if rows.ndim == 1 else np.einsum("ij,ij->i", rows, rows)


def clipped_normal(clip: Any) -> tuple[Any, Any]:
    """A standard normal variable clipped at +-clip: its slope P(|z| < clip), its second moment.

    >>> slope, second = clipped_normal(1.0)
    >>> f"{slope:.4f} {second:.4f}"
    '0.6827 0.5161'
    """
    tail = scipy.special.ndtr(-clip)
    slope = 1 - 2 * tail
    density = np.exp(-(clip**2) / 2) / math.sqrt(2 * math.pi)
    return slope, slope - 2 * clip * density + 2 * clip**2 * tail


def least_error_clip(noise_std: float, rows_per_dimension: float) -> float:
    """The bound c, in standard deviations, with the least variance of the estimate.

    For normal residuals and isotropic rows, n/d of them in a direction, a moment of residuals
    clipped at c has noise of variance (s c)^2 from the release and second(c) n/d from rewards, and
    its slope is P(|z| < c):   minimise ((s c)^2 + second(c) n/d) / slope(c)^2.

    >>> least_error_clip(1.0, 1e6), least_error_clip(100.0, 1e2)
    (4.0, 0.5)
    """
    slope, second = clipped_normal(CLIPS)
    cost = ((noise_std * CLIPS) ** 2 + second * rows_per_dimension) / slope**2
    return float(CLIPS[np.argmin(cost)])
