"""Weights of long rows, and residuals clipped where that costs least."""

import math
from functools import cache
from typing import Any

import numpy as np
import scipy

from discreet.arrays import Array

# Candidates for the bound of residuals, in standard deviations.
CLIPS = np.array([0.5, 0.6, 0.7, 0.8, 1.0, 1.2, 1.5, 2.0, 2.5, 3.0, 4.0, 6.0, 8.0, 12.0])


def weight_and_parts(
    square: Array | float, residual: Array, clip: Any, limit: Any
) -> tuple[Array, Array, Array]:
    """w, f/R and g/E of rows with |x|^2 = `square`, so that sqrt(w) [x; f/R; g/E] has |v|^2 <= 2.

    w = min(1, 1/|x|^2), so |sqrt(w) x| <= 1. The residual r, cut at +-E, is split into f, what
    clipping at R leaves, and the rest g = r - f, such that (f/R)^2 + (g/E)^2 <= 1:

        f = r where |r| <= R,    else the larger root of (f/R)^2 + ((r - f)/E)^2 = 1

    >>> w, f, g = weight_and_parts(np.array([25.0]), np.array([0.5]), clip=1.0, limit=2.0)
    >>> w, f, g
    (array([0.04]), array([0.5]), array([0.]))
    """
    # No branch on private values: times tell nothing.
    weight = 1 / np.maximum(square, 1.0)
    size = np.minimum(np.abs(residual), limit)
    near = size / (limit * limit)
    curve = 1 / (clip * clip) + 1 / (limit * limit)
    far = (near + np.sqrt(np.abs(near * near + curve * (1 - near * size)))) / curve
    kept = (size <= clip) * size + (size > clip) * far
    return weight, np.copysign(kept, residual) / clip, np.copysign(size - kept, residual) / limit


def squares(rows: Array) -> Array:  # (n, d) -> (n,)
    """|x|^2 of every row."""
    return np.asarray(np.einsum("ij,ij->i", rows, rows))


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


@cache
def _candidates() -> tuple[Array, Array]:
    """Slope and second moment at each of CLIPS: with the first call, scipy.special takes long."""
    return clipped_normal(CLIPS)


def least_error_clip(noise_std: float, rows_per_dimension: float) -> float:
    """The bound c, in standard deviations, with the least variance of the estimate.

    For normal residuals and isotropic rows, n/d of them in a direction, a moment of residuals
    clipped at c has noise of variance (s c)^2 from the release and second(c) n/d from rewards, and
    its slope is P(|z| < c):   minimise ((s c)^2 + second(c) n/d) / slope(c)^2.

    >>> least_error_clip(1.0, 1e6), least_error_clip(100.0, 1e2)
    (4.0, 0.5)
    """
    slope, second = _candidates()
    cost = ((noise_std * CLIPS) ** 2 + second * rows_per_dimension) / slope**2
    return float(CLIPS[np.argmin(cost)])
