"""How a mean over seeds grows."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from discreet.arrays import Array
from discreet.experiments.statistics import standard_error
from discreet.words import fixed


class Slope(NamedTuple):
    """Of log y against log x, and its standard error over seeds."""

    value: float  # the mean slope
    error: float  # its standard error

    def __str__(self) -> str:
        spread = f" ± {fixed(2 * self.error, 2)}" if self.error > 0.005 else ""
        return fixed(self.value, 2) + spread


def slope(x: Sequence[float], runs: Sequence[Array | float]) -> Slope:
    """Of the least squares line through (log x, log mean of runs).

    A point whose mean is not positive is left out. The error treats the runs at different x as
    independent.

    >>> slope([1, 10, 100], [2.0, 20.0, 200.0])
    Slope(value=1.0, error=0.0)
    >>> print(slope([1, 10], [np.array([1.0, 3.0]), np.array([18.0, 22.0])]))
    1.00 ± 0.44
    """
    values = [np.atleast_1d(run) for run in runs]
    kept = [(math.log(a), v) for a, v in zip(x, values, strict=True) if v.mean() > 0]
    if len(kept) < 2:
        return Slope(math.nan, math.nan)
    at = np.array([place for place, _ in kept])
    means = np.array([v.mean() for _, v in kept])
    errors = np.array([standard_error(v) if len(v) > 1 else 0.0 for _, v in kept])
    weights = (at - at.mean()) / np.sum((at - at.mean()) ** 2)
    error = math.sqrt(float(np.sum((weights * errors / means) ** 2)))
    return Slope(round(float(weights @ np.log(means)), 10), error)
