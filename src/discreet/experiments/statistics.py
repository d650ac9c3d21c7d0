"""What numbers from several seeds tell: a mean with its interval, and how it grows."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import scipy

from discreet.arrays import Array
from discreet.words import fixed


def interval(values: Array) -> tuple[float, float]:
    """Mean, and half the width of its 95% interval (Student); NaN for a single value.

    >>> mean, half = interval(np.array([1.0, 2.0, 3.0]))
    >>> mean, round(half, 3)
    (2.0, 2.484)
    """
    mean = float(np.mean(values))
    if len(values) < 2:
        return mean, math.nan
    return mean, float(scipy.special.stdtrit(len(values) - 1, 0.975)) * standard_error(values)


def standard_error(values: Array) -> float:
    """Of the mean over seeds; NaN for a single value.

    >>> round(standard_error(np.array([1.0, 2.0, 3.0])), 3)
    0.577
    """
    n = len(values)
    return float(np.std(values, ddof=1)) / math.sqrt(n) if n > 1 else math.nan


def one_more(values: Array) -> tuple[float, float]:
    """Where one more value of this kind lies with probability .95: Student's t for its logarithm.

    Values are positive; one of 0 counts as 10^-9 of the largest. Of a single value nothing is
    known: 0 and inf.

    >>> [round(end, 2) for end in one_more(np.array([1.0, 2.0, 4.0, 2.0]))]
    [0.27, 14.98]
    """
    runs = len(values)
    if runs < 2:
        return 0.0, math.inf
    logs = np.log(np.maximum(values, max(1e-9 * float(np.max(values)), 1e-300)))
    quantile = float(scipy.special.stdtrit(runs - 1, 0.975))
    half = quantile * float(logs.std(ddof=1)) * math.sqrt(1 + 1 / runs)
    middle = float(logs.mean())
    return math.exp(middle - half), math.exp(middle + half)


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
