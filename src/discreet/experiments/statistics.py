"""What numbers from several seeds tell: a mean with its interval."""

import math

import numpy as np
import scipy

from discreet.arrays import Array


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
