"""Rows that are read block by block: files, iterators of record batches, Spark data frames."""

from collections.abc import Callable
from functools import partial
from typing import Any

from discreet.arrays import Array
from discreet.frames import Unread, columns_of, matrix_of, names_of
from discreet.regression.validation import checked_rows

Units = Callable[[Any, Array], tuple[Array, Array]]


def open_unread(
    X: Any, y: Any, to_labels: Callable[[Any], Array], units: Units
) -> tuple[Any, Any, tuple[str, ...] | None]:
    """Rows and labels in blocks, and the names of the features where they are columns of X."""
    if not isinstance(y, str):
        raise ValueError(
            "rows that are read block by block have their labels beside them: name the column, "
            "fit(X, y='label')"
        )
    encoded = X if isinstance(X, Unread) else None
    source = encoded.source if encoded else X
    spark = hasattr(source, "mapInArrow")
    needed = None if encoded is None else tuple(dict.fromkeys((*encoded.columns, y)))
    if spark:
        names = tuple(source.columns)
    else:
        from discreet.distributed.streams import peeked

        source, first = peeked(source, needed)
        names = names_of(first) or ()
    for name in needed or (y,):
        if name not in names:
            raise ValueError(f"the table has no column {name!r}")
    features = None if encoded else tuple(name for name in names if name != y)
    encode = encoded.encode if encoded else partial(matrix_of, names=features)
    prepare = partial(_prepared, encode, y, to_labels, units)
    if spark:
        from discreet.distributed.spark import open_spark

        rows, labels = open_spark(source.select(*(needed or names)), prepare)
    else:
        from discreet.distributed.streams import open_stream

        rows, labels = open_stream(source, prepare)
    return rows, labels, features


def _prepared(
    encode: Callable[[Any], Any],
    label: str,
    to_labels: Callable[[Any], Array],
    units: Units,
    table: Any,
) -> tuple[Array, Array]:
    """A batch's rows and labels as those of a `Problem`."""
    (found,) = columns_of(table, [label])
    return units(checked_rows(encode(table)), to_labels(found.to_native()))
