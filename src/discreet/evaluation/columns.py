"""Tables of people, some rows at a time, and their numbers, read cell by cell: none changes what
another one says.

An array of 1.0 and "x" is an array of text, and a CSV column with one odd cell is text too. So no
array is made of cells before each has been read alone, and text is read as the number it spells.
"""

import math
import os
from collections.abc import Iterator
from typing import Any

import numpy as np

from discreet.arrays import Array, number
from discreet.frames import TEXT, frame_of, items_in, kind_of

BATCH = 2**16  # rows of a .csv file that are in memory at a time
TRUTHS = {"true": 1.0, "false": 0.0}  # as pandas writes them


def tables(source: Any) -> Iterator[Any]:
    """A table as it is; the rows of files, and of a stream of Arrow batches, some at a time.

    Every cell of a .csv file stays the text that it is, where one odd cell would change the type
    of a whole column, and what it says of everybody; a row of too many cells is cut alone. Whoever
    wrote the file must have quoted cells with commas, quotes or line breaks: of others nobody can
    tell where they end. Parquet and Arrow files, by name, pattern or folder, have the types that
    they state.
    """
    if isinstance(source, str | os.PathLike) and os.fspath(source).endswith((".csv", ".csv.gz")):
        from discreet.environments.tables import package  # worlds load slowly

        plain = {"dtype": str, "keep_default_na": False, "encoding_errors": "replace"}
        # Cells that a row has too many are left out: they would refuse the file, and those of the
        # first row would move the columns of everybody.
        plain |= {"usecols": lambda name: True, "index_col": False}
        read_csv = package("pandas").read_csv
        header = read_csv(source, nrows=0, lineterminator="\n", **plain).columns
        # Where rows end with "\n", writers do not quote "\r", and it must not end anybody's row.
        if not str(header[-1]).endswith("\r"):
            plain["lineterminator"] = "\n"
        with read_csv(source, chunksize=BATCH, **plain) as chunks:
            yield from chunks
    elif isinstance(source, str | os.PathLike | Iterator) or hasattr(type(source), "scanner"):
        from discreet.distributed.streams import batches

        yield from batches(source)
    else:
        yield source


def in_pandas(table: Any) -> Any:
    """A table as one of pandas; of text that is not UTF-8 what can be read, one cell's own."""
    if not type(table).__module__.startswith("pyarrow"):
        return table.to_pandas() if hasattr(table, "to_pandas") else table
    import pyarrow

    table = frame_of(table).to_native()
    for at, name in enumerate(table.column_names):
        if kind_of(table.column(at)) == TEXT:  # all of them alike: no cell decides on a type
            found = [_replaced(each) for each in items_in(table.column(at))]
            table = table.set_column(at, name, pyarrow.array(found, pyarrow.string()))
    return table.to_pandas()


def _replaced(cell: Any) -> Any:
    return cell.decode(errors="replace") if isinstance(cell, bytes) else cell


def column(table: Any, name: str) -> Any:
    try:
        return table[name]
    except (KeyError, IndexError, TypeError):
        raise ValueError(f"there is no column {name!r}") from None


def ids_in(people: Any) -> list[Any]:
    """Ids one by one, of arrays, data frames' columns and Arrow."""
    if hasattr(people, "to_pylist"):
        return list(items_in(people))
    return list(people.tolist() if hasattr(people, "tolist") else people)


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
