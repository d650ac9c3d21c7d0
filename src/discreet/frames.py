"""Tables of any library, column by column: whatever narwhals reads, and plain columns.

A column comes out as what is in it, or is refused: by its type alone, which is the table's schema
and public. A type that nobody thought of is refused too; it is never read as if it were empty.
"""

import datetime
import math
import numbers
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np

from discreet.arrays import Array

ANY = "values of any kind"
TEXT, NUMBERS, BYTES, LISTS = "text", "numbers", "bytes", "lists"
DATES, TIMES, DURATIONS = "dates", "dates with times", "durations"


@dataclass(frozen=True)
class Unread:
    """Rows of a table that whoever fits to them reads block by block, and encodes on the way."""

    source: Any  # as in `is_unread`
    encode: Callable[[Any], Any]  # a block of the table -> rows
    columns: tuple[str, ...]  # that it needs


def is_unread(table: Any) -> bool:
    """Whether this is the name of files, an iterator, a data set or a Spark data frame.

    >>> is_unread("rows/*.parquet"), is_unread(iter([])), is_unread([1.0])
    (True, True, False)
    """
    named = isinstance(table, str | os.PathLike | Unread) or hasattr(table, "__next__")
    in_parts = hasattr(table, "mapInArrow") or hasattr(table, "get_fragments")
    return named or in_parts or type(table).__name__ == "RecordBatchReader"


def label_beside(X: Any, y: Any) -> tuple[Any, Any]:
    """X and y, where y names a column of X: of a table in memory or of dask."""
    if not isinstance(y, str) or is_unread(X):
        return X, y
    if hasattr(X, "__dask_graph__") and y in getattr(X, "columns", ()):
        return X.drop(columns=y), X[y]
    frame = None if hasattr(X, "__dask_graph__") else frame_of(X)
    if frame is None or y not in frame.columns:
        raise ValueError(f"y must be labels, or name a column of a data frame X; X has no {y!r}")
    return frame.drop(y).to_native(), frame.get_column(y).to_native()


def frame_of(table: Any) -> Any:
    """A narwhals data frame of a table in memory; None of what is no table.

    >>> frame_of({"a": [1]}) is None
    True
    """
    if isinstance(table, np.ndarray | list | tuple | Mapping | str) or hasattr(table, "nnz"):
        return None
    import narwhals.stable.v2 as nw

    if type(table).__name__ == "RecordBatch" and hasattr(table, "to_struct_array"):
        import pyarrow

        table = pyarrow.Table.from_batches([table])
    found = nw.from_native(table, pass_through=True)
    if isinstance(found, nw.LazyFrame):
        raise TypeError("a lazy table has no rows yet: collect() it, or give it to fit")
    return found if isinstance(found, nw.DataFrame) else None


def is_table(table: Any) -> bool:
    """Whether this has columns by name, and is no mapping of them."""
    return hasattr(type(table), "columns") or hasattr(table, "columns")


def names_of(table: Any) -> tuple[str, ...] | None:
    """The column names of a table where all of them are text; else None."""
    if hasattr(table, "__dask_graph__") or hasattr(table, "mapInArrow"):  # no rows yet, but names
        names = tuple(getattr(table, "columns", ()))
    else:
        frame = frame_of(table)
        names = tuple(frame.columns) if frame is not None else ()
    return names if names and all(isinstance(name, str) for name in names) else None


def columns_of(table: Any, names: Iterable[str]) -> list[Any]:
    """Columns by name; KeyError for one that is not there."""
    frame = frame_of(table)
    if frame is None:
        return [table[name] for name in names]
    found = set(frame.columns)
    return [frame.get_column(name) if name in found else _absent(name) for name in names]


def numbers_in(column: Any, *, or_missing: bool = False) -> Array:
    """A column as floats, NaN where there is none; TypeError or ValueError where they are others.

    With `or_missing` a value that is no number is NaN too, each by itself: only a type refuses.

    >>> numbers_in([1, 2.5]), numbers_in(np.array(["3"]))
    (array([1. , 2.5]), array([3.]))
    >>> numbers_in([1, "about 3"], or_missing=True)
    array([ 1., nan])
    """
    if or_missing and kind_of(column) in (TEXT, ANY) and not _is_of_times(column):
        return np.array([number_or_nan(each) for each in items_in(column)], dtype=np.float64)
    series = _series(column)
    if series is None:
        values = np.asarray(items_in(column) if not isinstance(column, np.ndarray) else column)
        if _is_of_times(values):
            raise ValueError  # numpy would take dates for numbers
        return np.asarray(values, dtype=np.float64)
    kind = kind_of(series)
    if kind not in (NUMBERS, TEXT, ANY):
        raise TypeError
    if series.dtype.is_numeric() or series.dtype == _narwhals().Boolean:
        try:
            return np.asarray(series.cast(_narwhals().Float64).to_numpy(), dtype=np.float64)
        except ValueError:  # Arrow refuses all for one whole number that a float would round
            pass
    return np.array([_missing_as_none(each) for each in series.to_list()], dtype=np.float64)


def number_or_nan(value: Any) -> float:
    """A value as a float, NaN where it is none."""
    try:
        return math.nan if isinstance(value, np.datetime64) else float(value)
    except Exception:  # whatever it is, it is one cell's own
        return math.nan


def items_in(column: Any) -> Sequence[Any]:
    """What is in a column, one after the other, as plain values.

    >>> items_in(np.array(["a", "b"]))
    ['a', 'b']
    """
    series = _series(column)
    found = column if series is None else _cells(series)
    if hasattr(found, "tolist"):
        found = found.tolist()
    if not isinstance(found, Sequence) or isinstance(found, str | bytes):
        raise TypeError("a column must be a list, an array, or one of a data frame")
    return found


def kind_of(column: Any) -> str:
    """What a column may hold, by its type alone; ANY where the type leaves it open."""
    series = _series(column)
    if series is None:
        return {"U": TEXT, "S": BYTES, "b": NUMBERS, "i": NUMBERS, "u": NUMBERS, "f": NUMBERS}.get(
            getattr(getattr(column, "dtype", None), "kind", ""), ANY
        )
    native = getattr(series.to_native(), "dtype", None)
    if isinstance(native, np.dtype) and native.kind == "O":
        return ANY  # narwhals would say what the first of its values are
    nw = _narwhals()
    dtype = series.dtype
    if dtype == nw.Categorical:  # of what its categories are
        return kind_of(series.cat.get_categories())
    if dtype.is_numeric() or dtype == nw.Boolean:
        return NUMBERS
    if dtype.is_nested():
        return LISTS
    names = {nw.String: TEXT, nw.Enum: TEXT, nw.Binary: BYTES, nw.Date: DATES}
    names |= {nw.Datetime: TIMES, nw.Duration: DURATIONS, nw.Time: "times"}
    return next((names[each] for each in names if dtype == each), ANY)


def kind_of_value(value: Any) -> str:
    """The kind of columns in which a plain value may stand."""
    kinds = (
        (str, TEXT), (bytes, BYTES), (numbers.Number | Decimal | np.number | np.bool_, NUMBERS),
        (datetime.datetime, TIMES), (datetime.date, DATES), (datetime.timedelta, DURATIONS),
    )  # fmt: skip
    return next((kind for types, kind in kinds if isinstance(value, types)), ANY)


def matrix_of(table: Any, names: Iterable[str] | None = None) -> Array | None:  # (n, d)
    """Some or all columns of a data frame as numbers; None of what is no table, or has none."""
    frame = frame_of(table)
    if frame is None or not frame.columns:
        return None
    columns = [frame.get_column(name) for name in names or frame.columns]  # names may be numbers
    try:
        if all(kind_of(each) in (NUMBERS, ANY) for each in columns):
            return np.column_stack([numbers_in(each) for each in columns])
    except (TypeError, ValueError, OverflowError):
        pass
    raise ValueError("X must be numbers; encode strings and categories first")


def is_column(values: Any) -> bool:
    """Whether this is one column of a table, with a type."""
    if isinstance(values, np.ndarray | list | tuple | range | str | bytes | Mapping | np.generic):
        return False
    return _series(values, strict=False) is not None


def _series(column: Any, *, strict: bool = True) -> Any:
    """A narwhals series, or None of a plain column; with `strict` nothing else is one."""
    if isinstance(column, np.ndarray | list | tuple | range):
        return None
    nw = _narwhals()
    if type(column).__module__.startswith("pyarrow") and hasattr(column, "to_pylist"):
        import pyarrow

        if isinstance(column, pyarrow.Array):
            column = pyarrow.chunked_array([column])
    found = nw.from_native(column, pass_through=True, allow_series=True)
    if isinstance(found, nw.Series):
        return found
    if isinstance(column, Sequence) or hasattr(column, "__array_interface__") or not strict:
        return None
    raise TypeError("a column must be a list, an array, or one of a data frame in memory")


def _cells(series: Any) -> Sequence[Any]:
    """Its values; of text that is not UTF-8, as some files hold it, the bytes: one cell's own."""
    try:
        return list(series.to_list())
    except UnicodeDecodeError:
        import pyarrow

        array = series.to_arrow()
        if hasattr(array, "dictionary_decode"):
            array = array.dictionary_decode()
        return [_text(each) for each in array.cast(pyarrow.large_binary()).to_pylist()]


def _text(cell: bytes | None) -> Any:
    try:
        return None if cell is None else cell.decode()
    except UnicodeDecodeError:
        return cell


def _is_of_times(column: Any) -> bool:
    """Whether this is an array of dates, of durations or of complex numbers."""
    return isinstance(column, np.ndarray) and column.dtype.kind in "cmM"


def _narwhals() -> Any:
    import narwhals.stable.v2 as nw  # 40 ms, for tables only

    return nw


def _missing_as_none(value: Any) -> Any:
    try:
        return None if value is None or value != value else value
    except (TypeError, ValueError):  # pandas.NA has no truth value
        return None


def _absent(name: str) -> Any:
    raise KeyError(name)
