"""Checks at the edge. Messages say what was expected and what to do; they never quote data."""

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]


def positive(name: str, value: float, *, allow_inf: bool = False) -> float:
    """`value` as a float above zero; the name is that of a public parameter."""
    number = float(value)
    if not number > 0 or (math.isinf(number) and not allow_inf):
        limit = "positive" if allow_inf else "positive and finite"
        raise ValueError(f"{name} must be {limit}, got {value!r}")
    return number


def whole(name: str, value: Any, *, least: int = 1) -> int:
    """`value` as an int of at least `least`; booleans and fractions are refused."""
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, np.integer)):
        raise ValueError(f"{name} must be a whole number, got {value!r}")
    if value < least:
        raise ValueError(f"{name} must be at least {least}, got {value!r}")
    return int(value)


def one_of(name: str, value: object, choices: tuple[str, ...]) -> str:
    """`value` if it is one of the named choices."""
    if not isinstance(value, str) or value not in choices:
        raise ValueError(f"{name} must be one of {', '.join(choices)}; got {value!r}")
    return value


def row_norms(rows: Array, norm: str) -> Any:
    """The l1, l2 or linf norm along the last axis; l2 for entries of size 1e-150 to 1e150, or 0."""
    if norm == "l2":
        if rows.ndim == 1:
            return math.sqrt(rows.dot(rows))
        return np.sqrt(np.einsum("...i,...i->...", rows, rows))
    sizes = np.abs(rows)
    return sizes.sum(axis=-1) if norm == "l1" else np.maximum.reduce(sizes, axis=-1)


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
    # First the tallest entry down to the bound, so that no square overflows.
    with np.errstate(over="ignore"):
        tallest = np.abs(rows).max(axis=-1, keepdims=True) / bound
    rows = rows / np.maximum(tallest, 1.0)
    norms = np.asarray(norms_in_bounds(rows, bound, norm))[..., None]
    return np.asarray(rows / np.maximum(norms, 1.0))


def numbers(name: str, value: ArrayLike) -> Array:
    """`value` as a float64 array."""
    try:
        array = np.asarray(value)
        if array.dtype.kind in "biufO":
            return np.asarray(array, dtype=np.float64)
        raise TypeError
    except (TypeError, ValueError, OverflowError):
        raise ValueError(f"{name} must be numbers, but they do not convert to floats") from None


def finite(name: str, value: ArrayLike) -> Array:
    """`value` as a float64 array without NaN or infinity."""
    array = numbers(name, value)
    if not np.isfinite(array).all():
        raise ValueError(f"{name} must be finite: it holds NaN or infinity; drop or impute first")
    return array
