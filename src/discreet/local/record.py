"""A person's record, brought to public bounds: total, whatever the numbers are.

An exception or a missing report would tell something about the record, so nothing here raises for
what a number is. Only a wrong shape does, and shapes are public.
"""

import numpy as np
from numpy.typing import ArrayLike

from discreet.arrays import Array, numbers_or_nan
from discreet.privacy.portable import dot


def scaled_rows(features: ArrayLike, dim: int, bound: float) -> Array:  # (n, dim) -> (n, dim)
    """Rows in units of `bound`: longer ones are shortened to 1, those not finite become 0."""
    rows = numbers_or_nan(features)
    if rows.ndim != 2 or rows.shape[1] != dim or len(rows) == 0:
        raise ValueError(f"features must have shape (n, {dim}), got {rows.shape}")
    with np.errstate(all="ignore"):
        largest = np.abs(rows).max(axis=1)[:, None]
        usable = np.isfinite(largest) & (largest > 0)
        units = np.where(usable, rows / np.where(usable, largest, 1.0), 0.0)
        norms = np.sqrt(dot(units, units))[:, None]  # 1 to sqrt(dim), or 0
        size = np.minimum(largest / bound, 1 / np.maximum(norms, 1.0))
        return np.where(usable, units * size, 0.0)


def scaled_outcomes(outcomes: ArrayLike, limits: tuple[float, float]) -> Array:  # (n,)
    """Outcomes clipped to `limits`, in units of the larger; those not finite are NaN."""
    values = numbers_or_nan(outcomes)
    low, high = limits
    clipped = np.clip(values, low, high) / max(abs(low), abs(high))
    return np.where(np.isfinite(values), clipped, np.nan)
