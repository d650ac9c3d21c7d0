"""Checks at the edge. Messages say what was expected and what to do; they never quote data."""

import functools
import math
from contextlib import suppress
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]
SMALLEST_BOUND, LARGEST_BOUND = 1e-100, 1e100  # the squares of such numbers are ordinary floats


def real(name: str, value: Any) -> float:
    """`value` as a float; the name is that of a public parameter.

    >>> real("epsilon", None)
    Traceback (most recent call last):
    ValueError: epsilon must be a number, got None
    """
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        raise ValueError(f"{name} must be a number, got {value!r}") from None


def positive(name: str, value: float, *, allow_inf: bool = False) -> float:
    """`value` as a float above zero; the name is that of a public parameter."""
    number = real(name, value)
    if not number > 0 or (math.isinf(number) and not allow_inf):
        limit = "positive" if allow_inf else "positive and finite"
        raise ValueError(f"{name} must be {limit}, got {value!r}")
    return number


def public_bound(name: str, value: float) -> float:
    """`value` as a bound to clip at: 1e-100 .. 1e100.

    Beyond, squared norms underflow to 0, so that nothing is clipped, or overflow.

    >>> public_bound("norm_bound", 1e-200)
    Traceback (most recent call last):
    ValueError: norm_bound must lie in 1e-100 .. 1e100, got 1e-200; choose other units
    """
    number = positive(name, value)
    if not SMALLEST_BOUND <= number <= LARGEST_BOUND:
        raise ValueError(f"{name} must lie in 1e-100 .. 1e100, got {value!r}; choose other units")
    return number


def integer(name: str, value: Any, *, least: int = 1) -> int:
    """`value` as an int of at least `least`; booleans and fractions are refused."""
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, np.integer)):
        raise ValueError(f"{name} must be an integer, got {value!r}")
    if value < least:
        raise ValueError(f"{name} must be at least {least}, got {value!r}")
    return int(value)


def integer_or_none(name: str, value: Any, *, least: int = 1) -> int | None:
    """`integer`, or None where nothing was asked for."""
    return None if value is None else integer(name, value, least=least)


def finite_range(name: str, ends: Any) -> tuple[float, float]:
    """Public bounds (low, high), finite and low < high.

    >>> finite_range("reward_range", (1, 0))
    Traceback (most recent call last):
    ValueError: reward_range must be finite (low, high) with low < high, got (1, 0)
    """
    try:
        low, high = (float(end) for end in ends)
    except (TypeError, ValueError, OverflowError):
        low, high = math.nan, math.nan
    if not -math.inf < low < high < math.inf:
        raise ValueError(f"{name} must be finite (low, high) with low < high, got {ends!r}")
    return low, high


def one_of(name: str, value: object, choices: tuple[str, ...]) -> str:
    """`value` if it is one of the named choices."""
    if not isinstance(value, str) or value not in choices:
        raise ValueError(f"{name} must be one of {', '.join(choices)}; got {value!r}")
    return value


def norm_order(norm: str) -> float:
    """q of the norm "l<q>": 1 for "l1", inf for "linf"."""
    try:
        q = float(norm.removeprefix("l"))
    except ValueError:
        q = math.nan
    if not (norm.startswith("l") and q >= 1):
        raise ValueError(f"norm must be 'l1', 'l2', 'linf' or 'l' and a number >= 1; got {norm!r}")
    return q


def row_norms(rows: Array, norm: str) -> Any:
    """The norm along the last axis; l2 for entries of size 1e-150 to 1e150, or 0."""
    if norm == "l2":
        if rows.ndim == 1 and rows.size <= 64:
            return math.hypot(*rows.tolist())  # twice as fast as numpy
        return np.sqrt(np.einsum("...i,...i->...", rows, rows))
    sizes = np.abs(rows)
    if norm == "linf":
        return np.maximum.reduce(sizes, axis=-1)
    with np.errstate(over="ignore"):
        if norm == "l1":
            return sizes.sum(axis=-1)
        q = norm_order(norm)
        top = np.maximum.reduce(sizes, axis=-1, keepdims=True)
        scale = np.where((top > 0) & (top < math.inf), top, 1.0)  # else small entries vanish
        return scale[..., 0] * ((sizes / scale) ** q).sum(axis=-1) ** (1 / q)


def norms_in_bounds(rows: Array, bound: float, norm: str) -> Any:
    """The norm of each row in units of a public bound; inf far beyond it, NaN for NaN.

    Divided first: neither a small bound nor a long row can make a norm vanish.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        return row_norms(rows / bound, norm)


def within(name: str, rows: Array, bound: float, *, norm: str, clip: bool) -> Array:
    """Finite rows of norm at most `bound`: longer ones are shortened if `clip`, else refused.

    Rows that are longer by rounding only are shortened in any case.
    """
    if not SMALLEST_BOUND <= bound <= LARGEST_BOUND:
        public_bound(f"the bound on {name}", bound)
    norms = norms_in_bounds(rows, bound, norm)
    inside = norms <= 1 + 1e-14  # the norm's own rounding; False for NaN
    if inside if rows.ndim == 1 else inside.all():
        return rows
    finite(name, rows)
    if not clip and np.max(norms) > 1 + 1e-9:
        raise ValueError(
            f"{name} must have {norm} norm at most {bound:g}; rescale, raise the public bound, "
            "or ask for clip=True"
        )
    return shortened(rows, bound, norm)


def shortened(rows: Array, bound: float, norm: str) -> Array:
    """Finite rows, those longer than `bound` shortened to it."""
    if norm == "linf":
        return np.clip(rows, -bound, bound)
    inside = np.asarray(norms_in_bounds(rows, bound, norm) <= 1 + 1e-14)
    clipped = bound * in_unit_ball(rows, bound, norm=norm)
    return np.where(inside[..., None], rows, clipped)


def in_unit_ball(rows: Array, bound: float, *, norm: str = "l2") -> Array:
    """Finite rows over `bound`; whatever is longer than 1 then is shortened to 1.

    Total, and the same work for every row. Entries saturate at 1e50 times the bound, where a row
    has no length of interest left, so that no square and no sum overflows.

    >>> in_unit_ball(np.array([[3.0, 4.0], [0.5, 0.0], [1e300, -1e300]]), 1.0).round(3)
    array([[ 0.6  ,  0.8  ],
           [ 0.5  ,  0.   ],
           [ 0.707, -0.707]])
    """
    units = np.clip(rows, -1e50 * bound, 1e50 * bound)
    units /= bound
    units /= np.maximum(1.0, np.asarray(row_norms(units, norm))[..., None])
    return np.asarray(units)


def number(name: str, value: Any) -> float:
    """One number of a person's as a float; the message does not quote it.

    Neither text nor a complex number is one, whatever `float` would make of it.

    >>> number("reward", np.int8(1)), number("reward", np.array(0.5))
    (1.0, 0.5)
    >>> number("reward", np.complex128(0.5 + 9j))
    Traceback (most recent call last):
    ValueError: reward must be a number
    """
    if isinstance(value, np.ndarray) and value.ndim == 0:
        value = value[()]
    real_kind = not isinstance(value, np.generic) or value.dtype.kind in "biuf"
    if real_kind and not isinstance(value, (str, bytes, complex)) and np.shape(value) == ():
        with suppress(TypeError, ValueError, OverflowError):
            return float(value)
    raise ValueError(f"{name} must be a number")


def number_within(
    name: str, value: Any, limits: tuple[float, float], *, slack: float = 0.0
) -> float:
    """One number of a person in [low, high]; one beyond by `slack` widths is brought back."""
    low, high = limits
    given = number(name, value)
    forgiven = slack * (high - low)
    if not low - forgiven <= given <= high + forgiven:  # also if it is NaN
        raise ValueError(f"{name} must lie in [{low:g}, {high:g}]; rescale it")
    return min(max(given, low), high)


def numbers(name: str, value: ArrayLike) -> Array:
    """`value` as a float64 array: before any bound is looked at, because integers overflow."""
    try:
        array = np.asarray(value)
        kind = array.dtype.kind
        if kind in "biuf":
            with np.errstate(over="ignore"):  # longer floats become infinite
                return np.asarray(array, dtype=np.float64)
        if kind == "O":
            found = [each if type(each) is float else number(name, each) for each in array.flat]
            return np.array(found, dtype=np.float64).reshape(array.shape)
        raise TypeError
    except (TypeError, ValueError, OverflowError):
        raise ValueError(f"{name} must be numbers, but they do not convert to floats") from None


def finite(name: str, value: ArrayLike) -> Array:
    """`value` as a float64 array without NaN or infinity."""
    array = numbers(name, value)
    if not np.isfinite(array).all():
        raise ValueError(f"{name} must be finite: it holds NaN or infinity; drop or impute first")
    return array


def real_or_nan(X: Any) -> Any:
    """An array of complex numbers as floats: those that are not real are NaN, and no others.

    One person's complex number makes an array of many people's complex. Anything else as it is.

    >>> real_or_nan(np.array([1.0, 1j]))
    array([ 1., nan])
    """
    if not isinstance(X, np.ndarray) or X.dtype.kind != "c":
        return X
    return np.where(X.imag == 0, X.real, np.nan)


def all_numbers(X: Any) -> bool:
    """Whether all that several people brought is numbers: one array of it then changes nobody's.

    >>> all_numbers([1, 2.5]), all_numbers([1, None]), all_numbers([1, "2"])
    (True, False, False)
    """
    try:
        array = np.asarray(X)
    except ValueError:  # of different shapes
        return False
    return array.ndim == 0 or array.dtype.kind in "biuf"


def rows_or_nan(name: str, X: Any, dim: int) -> Array:  # (n, dim)
    """Rows of n people as floats; NaN for one that is not made of `dim` numbers, alone.

    >>> rows_or_nan("X", [[1, 2], [3, "x"], [4]], 2)
    array([[ 1.,  2.],
           [nan, nan],
           [nan, nan]])
    """
    X = real_or_nan(X if isinstance(X, list | tuple) else np.asarray(X))
    # Where one is no number, each for itself: none depends on another.
    rows = numbers(name, X) if all_numbers(X) else np.array([_row_or_nan(x, dim) for x in X])
    if rows.ndim != 2 or rows.shape[1] != dim:
        raise ValueError(f"{name} must have shape (rounds, {dim}), got {rows.shape}")
    return rows


def _row_or_nan(x: Any, dim: int) -> Array:
    try:
        row = numbers("x", x)
    except ValueError:
        row = np.empty(0)
    return row if row.shape == (dim,) else np.full(dim, np.nan)


def numbers_or_nan(values: ArrayLike) -> Array:
    """Numbers that several people brought; what is none becomes NaN alone.

    >>> numbers_or_nan([1, "2", None, 10**400])
    array([ 1., nan, nan, nan])
    """
    values = real_or_nan(values)
    if all_numbers(values):
        return np.array(values, dtype=np.float64)
    things = np.array(values, dtype=object)
    each = np.array([_number_or_nan(thing) for thing in things.ravel()], dtype=np.float64)
    return each.reshape(things.shape)


def _number_or_nan(thing: Any) -> float:
    if isinstance(thing, complex | np.complexfloating):
        return float(thing.real) if thing.imag == 0 else math.nan
    try:
        return number("", thing)
    except ValueError:
        return math.nan


# -- symmetric matrices as vectors -----------------------------------------------------------------


@functools.lru_cache(maxsize=4)
def upper_triangle(dim: int) -> tuple[NDArray[np.intp], NDArray[np.intp], Array]:
    """Rows and columns of the upper triangle, and 1 on the diagonal, sqrt(2) beside it."""
    rows, columns = np.triu_indices(dim)
    isometry = np.where(rows == columns, 1.0, math.sqrt(2))
    for each in (rows, columns, isometry):
        each.setflags(write=False)
    return rows, columns, isometry


def symmetric_to_vector(matrix: Array) -> Array:  # (..., d, d) -> (..., d (d + 1) / 2)
    """The upper triangle, off-diagonal entries times sqrt(2): an isometry (Frobenius to l2).

    >>> symmetric_to_vector(np.array([[1.0, 2.0], [2.0, 3.0]])).round(3)
    array([1.   , 2.828, 3.   ])
    """
    if matrix.ndim < 2 or matrix.shape[-1] != matrix.shape[-2]:
        raise ValueError(f"expected a square matrix, got shape {matrix.shape}")
    rows, columns, isometry = upper_triangle(matrix.shape[-1])
    both = (matrix[..., rows, columns] + matrix[..., columns, rows]) / 2
    return np.asarray(both * isometry)


def vector_to_symmetric(vector: Array) -> Array:  # (..., d (d + 1) / 2) -> (..., d, d)
    """The inverse of `symmetric_to_vector`."""
    dim = (math.isqrt(8 * vector.shape[-1] + 1) - 1) // 2
    if dim * (dim + 1) // 2 != vector.shape[-1]:
        raise ValueError(f"expected d (d + 1) / 2 entries, got {vector.shape[-1]}")
    rows, columns, isometry = upper_triangle(dim)
    entries = vector / isometry
    matrix = np.empty((*vector.shape[:-1], dim, dim))
    matrix[..., rows, columns] = entries
    matrix[..., columns, rows] = entries
    return matrix
