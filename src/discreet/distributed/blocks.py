"""Rows in blocks, wherever they are: what estimators may ask of them.

rows.py      blocks of a dask collection
spark.py     partitions of a Spark data frame
streams.py   batches of files or of an iterator
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from discreet.arrays import Array
from discreet.refused import Refused

Parts = tuple[Array, ...]
Query = Callable[[Array, Array], Parts]
Merge = Callable[[Sequence[Parts]], Parts]
Places = NDArray[np.int64]
KEPT_ROWS = 2**18  # choices of at most so many rows stay in the workers' memory between stages


UNSTABLE = Refused(
    "X and y must be the same in every pass, but a block came back with other rows or in another "
    "order: call persist() on both, or write them to files first (no shuffle, no random sample)"
)


class Table(ABC):
    """Blocks of rows and labels that say the same in every pass.

    lengths   rows of each block
    """

    def __init__(self, lengths: Places) -> None:
        self.lengths = lengths
        self._choices: dict[bytes, Table] = {}

    @abstractmethod
    def fold(self, query: Query, merge: Merge) -> Parts:
        """Ask every block where it is, then merge the answers: one pass."""

    @abstractmethod
    def _choose(self, local: list[Places]) -> "Table":
        """Some rows, by their places in each block; stages ask a small choice again and again."""

    def chosen(self, places: Places) -> "Table":
        """Some rows, by their places among all rows: one choice for rows and labels."""
        name = places.tobytes()
        if name not in self._choices:
            rows = np.sort(places)
            ends = np.cumsum(self.lengths)
            starts = ends - self.lengths
            cuts = np.searchsorted(rows, np.stack([starts, ends], axis=1))
            pairs = zip(starts, cuts, strict=True)
            self._choices[name] = self._choose([rows[a:b] - start for start, (a, b) in pairs])
        return self._choices[name]


class Blocks:
    """Stands in for an array of rows: a shape, a choice of rows, and folds over them.

    table     the blocks
    columns   of a row; None stands in for the labels

    >>> import dask.array as da
    >>> from discreet.distributed.rows import open_blocks
    >>> X, y = da.ones((6, 2), chunks=(2, 2)), da.ones(6, chunks=2)
    >>> rows, labels = open_blocks(X, y, lambda x, y: (x, y), columns=2)
    >>> rows.shape
    (6, 2)
    >>> total = rows.fold(lambda x, y: (x.T @ y,), lambda parts: (sum(p for p, in parts),), labels)
    >>> total[0]
    array([6., 6.])
    """

    def __init__(self, table: Table, columns: int | None) -> None:
        self._table = table
        self._columns = columns

    def __len__(self) -> int:
        return int(self._table.lengths.sum())

    @property
    def shape(self) -> tuple[int, ...]:
        return (len(self),) if self._columns is None else (len(self), self._columns)

    def __getitem__(self, places: slice | Places) -> "Blocks":
        """Some rows, or with [:] all of them."""
        if not isinstance(places, slice):
            return Blocks(self._table.chosen(places), self._columns)
        if places != slice(None):
            raise ValueError("choose rows by an array of places, not by a slice")
        return self

    def fold(self, query: Query, merge: Merge, labels: "Blocks") -> Parts:
        """Ask every block where it is, then `merge` the answers: one pass."""
        if labels._table is not self._table:
            raise ValueError("rows and labels must be the same choice of the same blocks")
        return self._table.fold(query, merge)
