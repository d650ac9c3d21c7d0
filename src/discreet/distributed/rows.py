"""Rows in the blocks of a dask collection. They stay where they are: only sums travel.

A pass over the rows is one task for each block and a tree of additions, in an order that depends on
the blocks alone. So the sums are the same to the last bit whichever worker adds them up, and also
if one dies on the way and its tasks run again somewhere else. Nothing here draws noise or spends
budget: that happens at the driver, with sums that have arrived.

A task never raises: dask would write the task, and in some versions its arguments, which are data,
to the worker's log. It returns `Refused` with a message that quotes nothing, and the driver raises.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import dask as untyped
import numpy as np
from numpy.typing import NDArray

from discreet.privacy.checks import Array

dask: Any = untyped
Parts = tuple[Array, ...]
Look = Callable[[Array, Array], Parts]
Merge = Callable[[Sequence[Parts]], Parts]
Prepare = Callable[[Any, Any], tuple[Array, Array]]  # a block as it is stored -> checked, clipped
Places = NDArray[np.int64]
FAN = 16  # parts that one task of the tree adds up
KEPT = 2**18  # rows of a choice that workers keep in memory from stage to stage


@dataclass(frozen=True)
class Refused:
    """Why a block was refused; no word of what is in it."""

    message: str


class Table:
    """Blocks of rows and labels, and how they are made ready; X and y share one."""

    def __init__(self, pairs: Sequence[tuple[Any, Any]], prepare: Any, lengths: Places) -> None:
        self.pairs, self.prepare, self.lengths = pairs, prepare, lengths
        self._choices: dict[bytes, Table] = {}

    def chosen(self, places: Places) -> "Table":
        """Some rows, by their places among all rows; every block is told of its own only.

        A small choice is kept where its blocks are, because stages look at it again and again.
        """
        name = places.tobytes()
        if name not in self._choices:
            ordered, ends = np.sort(places), np.cumsum(self.lengths)
            starts = ends - self.lengths
            cuts = np.searchsorted(ordered, np.stack([starts, ends], axis=1))
            pairs = [
                (_picked(x, ordered[low:high] - start), _picked(y, ordered[low:high] - start))
                for (x, y), start, (low, high) in zip(self.pairs, starts, cuts, strict=True)
                if high > low
            ]
            if len(places) <= KEPT:
                (pairs,) = dask.persist(pairs)
            lengths = cuts[:, 1] - cuts[:, 0]
            self._choices[name] = Table(pairs, self.prepare, lengths[lengths > 0])
        return self._choices[name]


class Blocks:
    """Stands in for an array of rows: a shape, a choice of rows, and folds over them.

    >>> import dask.array as da
    >>> X, y = da.ones((6, 2), chunks=(2, 2)), da.ones(6, chunks=2)
    >>> rows, labels = open_blocks(X, y, lambda x, y: (x, y), columns=2)
    >>> rows.shape
    (6, 2)
    >>> total = rows.fold(lambda x, y: (x.T @ y,), lambda parts: (sum(p for p, in parts),), labels)
    >>> total[0]
    array([6., 6.])
    """

    def __init__(self, table: Table, columns: int | None) -> None:
        self._table, self._columns = table, columns

    def __len__(self) -> int:
        return int(self._table.lengths.sum())

    @property
    def shape(self) -> tuple[int, ...]:
        """Like an array's: known before anything is asked."""
        return (len(self),) if self._columns is None else (len(self), self._columns)

    def __getitem__(self, places: slice | Places) -> "Blocks":
        """Some rows, or with [:] all of them."""
        if not isinstance(places, slice):
            return Blocks(self._table.chosen(places), self._columns)
        if places != slice(None):
            raise ValueError("choose rows by their places, not by a slice")
        return self

    def fold(self, look: Look, merge: Merge, labels: "Blocks") -> Parts:
        """`look` at every block where it is, then `merge` the answers: one pass."""
        table = self._table
        if labels._table is not table:
            raise ValueError("rows and labels must be the same choice of the same blocks")
        asked = dask.delayed(look, traverse=False)
        tasks = [dask.delayed(_look)(x, y, table.prepare, asked) for x, y in table.pairs]
        return _computed(tasks, merge)


def open_blocks(X: Any, y: Any, prepare: Prepare, *, columns: int) -> tuple[Blocks, Blocks]:
    """The blocks of two dask collections, after a first pass that checks and counts every row.

    `prepare` makes a block of (n, columns) rows and n labels of what is stored, or refuses it.
    """
    xs, ys = _parts(X), _parts(y)
    if getattr(y, "chunks", None) and getattr(X, "chunks", None) and X.chunks[0] != y.chunks[0]:
        known = not np.isnan([*X.chunks[0], *y.chunks[0]]).any()
        if known and X.shape[0] == y.shape[0]:
            ys = _parts(y.rechunk({0: X.chunks[0]}))
    if len(xs) != len(ys):
        raise ValueError(
            f"X has {len(xs)} blocks and y has {len(ys)}: cut both at the same rows, say "
            "y.rechunk or repartition"
        )
    pairs, ready = list(zip(xs, ys, strict=True)), dask.delayed(prepare, traverse=False)
    counts = _computed(
        [dask.delayed(_counted)(x, y, ready) for x, y in pairs],
        lambda parts: (np.concatenate([each for (each,) in parts]),),
    )[0]
    rows, labels = counts.sum(axis=0)
    if rows != labels:
        raise ValueError(f"X has {rows} rows and y has {labels} labels")
    if (counts[:, 0] != counts[:, 1]).any():
        raise ValueError("X and y must be cut into blocks at the same rows; rechunk one of them")
    if rows == 0:
        raise ValueError("X must have rows and columns, got 0 rows in all blocks")
    filled = [pair for pair, n in zip(pairs, counts[:, 0], strict=True) if n]
    table = Table(filled, ready, counts[counts[:, 0] > 0, 0])
    return Blocks(table, columns), Blocks(table, None)


def _parts(data: Any) -> list[Any]:
    """The blocks of an array (whole rows) or a data frame, each a delayed value."""
    if hasattr(data, "chunks"):
        if data.ndim == 2 and len(data.chunks[1]) > 1:
            data = data.rechunk({1: -1})
        return list(np.ravel(data.to_delayed()))
    return list(data.to_delayed())


def _computed(tasks: list[Any], merge: Merge) -> Parts:
    """The merged parts of all tasks, by a tree whose shape depends on their number alone."""
    adding = dask.delayed(merge, traverse=False)
    while True:
        groups = [tasks[i : i + FAN] for i in range(0, len(tasks), FAN)]
        tasks = [dask.delayed(_merged)(adding, group) for group in groups]
        if len(tasks) == 1:
            break
    (result,) = dask.compute(tasks[0])
    if isinstance(result, Refused):
        raise ValueError(result.message)
    parts: Parts = result
    return parts


def _counted(x: Any, y: Any, prepare: Prepare) -> Parts | Refused:
    sizes = np.array([[len(x), len(y)]])
    if len(x) == 0 or len(x) != len(y):
        return (sizes,)
    block = _prepared(x, y, prepare)
    return block if isinstance(block, Refused) else (sizes,)


def _look(x: Any, y: Any, prepare: Prepare, look: Look) -> Parts | Refused:
    block = _prepared(x, y, prepare)
    if isinstance(block, Refused):
        return block
    try:
        return look(*block)
    except Exception as error:
        return Refused(f"a block of rows could not be summed up: {type(error).__name__}")


def _merged(merge: Merge, parts: Sequence[Parts | Refused]) -> Parts | Refused:
    sound = list[Parts]()
    for part in parts:
        if isinstance(part, Refused):
            return part
        sound.append(part)
    return merge(sound)


def _picked(block: Any, places: Places) -> Any:
    return dask.delayed(_some)(block, places)


def _some(block: Any, places: Places) -> Any:
    return block.iloc[places] if hasattr(block, "iloc") else block[places]


def _prepared(x: Any, y: Any, prepare: Prepare) -> tuple[Array, Array] | Refused:
    try:
        return prepare(x, y)
    except ValueError as error:
        return Refused(str(error))  # our own checks: they say what was expected, never what came
    except Exception as error:
        return Refused(f"a block of rows could not be read: {type(error).__name__}")
