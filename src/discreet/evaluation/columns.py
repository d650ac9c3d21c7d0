"""Columns of people's numbers, read cell by cell: none changes what another one says.

An array of 1.0 and "x" is an array of text, and a CSV column with one odd cell is text too. So no
array is made of cells before each has been read alone, and text is read as the number it spells.
"""

import math
from typing import Any

import numpy as np

from discreet.arrays import Array, number

TRUTHS = {"true": 1.0, "false": 0.0}  # as pandas writes them


def column(table: Any, name: str) -> Any:
    """A column as the table has it."""
    try:
        return table[name]
    except (KeyError, IndexError, TypeError):
        raise ValueError(f"there is no column {name!r}") from None


def cells(values: Any) -> Any:
    """The cells of a column, one after the other: a list, or an array that had its type before."""
    if isinstance(values, list | tuple):
        return values
    return values if hasattr(values, "to_pylist") else np.asarray(values)


def numbers_alone(values: Any) -> Array:  # (n,)
    """A column's numbers; a cell that is none becomes NaN alone. Total.

    >>> numbers_alone([1, "2.5", "x", None, [1.0], 10**400, 1j, b"3", True, "True"])
    array([1. , 2.5, nan, nan, nan, nan, nan, 3. , 1. , 1. ])
    """
    found = cells(values)
    if isinstance(found, np.ndarray):
        if found.ndim != 1:
            raise ValueError(f"a column must have one cell for each person, got {found.shape}")
        if found.dtype.kind in "biuf":
            with np.errstate(over="ignore"):  # longer floats become infinite
                return found.astype(np.float64)
    return np.array([number_alone(each) for each in found], dtype=np.float64)


def number_alone(cell: Any) -> float:
    """One cell as a number; NaN for what is none."""
    try:
        thing = cell.as_py() if hasattr(cell, "as_py") else cell  # Arrow's
        if isinstance(thing, bytes):
            thing = thing.decode()
        if isinstance(thing, str):
            # Where one cell is complex, pandas writes all others so: "(1+0j)".
            thing = TRUTHS[thing.lower()] if thing.lower() in TRUTHS else complex(thing)
        if isinstance(thing, complex | np.complexfloating):
            return float(thing.real) if thing.imag == 0 else math.nan
        return number("", thing)
    except Exception:  # total: whatever a cell does when it is read, it is private
        return math.nan
