"""Rows in the blocks of a dask collection. They stay where they are: only sums travel.

A pass over the rows is one task for each block and a tree of additions, in an order that depends on
the blocks alone. So the sums are the same to the last bit whichever worker adds them up, and also
if one dies on the way and its tasks run again somewhere else. Nothing here draws noise or spends
budget: that happens at the driver, with sums that have arrived.

Each pass reads the source again, so the source has to show the same people in the same blocks every
time: otherwise a person is in two blocks of a sum, or in two stages whose rows are said to be
disjoint. The first pass takes a digest of every block, later ones compare it where the block is. A
sum over a whole block needs the same rows in any order; a choice of rows by their places needs the
same order too. The digest is keyed with a secret of this fit and used for equality alone. A stable
source never fails the check; that an unstable one is refused depends on its rows, and is listed as
unprotected.

A task never raises (`blocks.total`): dask would write the task, and in some versions its arguments,
which are data, to the worker's log.
"""

import hashlib
import secrets
from collections.abc import Callable, Sequence
from typing import Any

import dask as untyped
import numpy as np
from numpy.typing import NDArray

from discreet.arrays import Array
from discreet.distributed.blocks import (
    KEPT_ROWS,
    UNSTABLE,
    Blocks,
    Merge,
    Parts,
    Places,
    Query,
    Table,
)
from discreet.refused import Refused, prepared, total

dask: Any = untyped
Prepare = Callable[[Any, Any], tuple[Array, Array]]  # a block as it is stored -> checked, clipped
Digest = NDArray[np.uint64]
FAN_IN = 16  # parts that one task of the tree adds up


class DaskTable(Table):
    """Blocks of rows and labels, each a delayed pair that is checked against the first pass.

    `blocks` have the rows of the first pass in any order, `ordered` in the same order.

    blocks    delayed pairs of rows and labels, for sums over rows
    ordered   the same, refused where their order has changed, for choices of rows
    lengths   rows of each block
    """

    def __init__(self, blocks: Sequence[Any], ordered: Sequence[Any], lengths: Places) -> None:
        super().__init__(lengths)
        self.blocks = blocks
        self.ordered = ordered

    def _choose(self, local: list[Places]) -> Table:
        """Every block is told of its own places only; a small choice stays where its blocks are."""
        chosen = dask.delayed(_chosen)
        pairs = zip(self.ordered, local, strict=True)
        blocks = [chosen(block, places) for block, places in pairs if len(places)]
        lengths = np.array([len(places) for places in local if len(places)], dtype=np.int64)
        if lengths.sum() <= KEPT_ROWS:
            (blocks,) = dask.persist(blocks)
        return DaskTable(blocks, blocks, lengths)

    def fold(self, query: Query, merge: Merge) -> Parts:
        asked = dask.delayed(query, traverse=False)
        return _computed([dask.delayed(_answer)(b, asked) for b in self.blocks], merge)


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
    ready = dask.delayed(prepare, traverse=False)
    key = np.frombuffer(secrets.token_bytes(8 * (columns + 1)), np.uint64)
    pairs = list(zip(xs, ys, strict=True))
    lengths, digests = _computed(
        [dask.delayed(_counted)(x, y, ready, key) for x, y in pairs], _concatenated
    )
    rows, labels = lengths.sum(axis=0)
    if rows != labels:
        raise ValueError(f"X has {rows} rows and y has {labels} labels")
    if (lengths[:, 0] != lengths[:, 1]).any():
        raise ValueError("X and y must be cut into blocks at the same rows; rechunk one of them")
    if rows == 0:
        raise ValueError("X must have rows and columns, got 0 rows in all blocks")
    filled = np.flatnonzero(lengths[:, 0])

    def checked(in_order: bool) -> list[Any]:
        return [dask.delayed(_block)(*pairs[i], ready, key, digests[i], in_order) for i in filled]

    table = DaskTable(checked(False), checked(True), lengths[filled, 0])
    return Blocks(table, columns), Blocks(table, None)


def _parts(data: Any) -> list[Any]:
    """The blocks of an array (whole rows) or a data frame, each a delayed value.

    Not optimised: alone, X and y would each get a copy of the tasks that load what both come from,
    and files would be read twice in every pass.
    """
    if hasattr(data, "chunks"):
        if data.ndim == 2 and len(data.chunks[1]) > 1:
            data = data.rechunk({1: -1})
        return list(np.ravel(data.to_delayed(optimize_graph=False)))
    return list(data.to_delayed(optimize_graph=False))


def _computed(tasks: list[Any], merge: Merge) -> Parts:
    """The merged parts of all tasks, by a tree whose shape depends on their number alone."""
    adding = dask.delayed(merge, traverse=False)
    while True:
        groups = [tasks[i : i + FAN_IN] for i in range(0, len(tasks), FAN_IN)]
        tasks = [dask.delayed(_merged)(adding, group) for group in groups]
        if len(tasks) == 1:
            break
    (result,) = dask.compute(tasks[0])
    if isinstance(result, Refused):
        raise ValueError(result.message)
    parts: Parts = result
    return parts


# -- tasks: whatever the block is, they return ----------------------------------------------------


@total("a block of rows could not be read")
def _counted(x: Any, y: Any, prepare: Prepare, key: Digest) -> Any:
    lengths = np.array([[len(x), len(y)]])
    if len(x) == 0 or len(x) != len(y):
        return lengths, np.zeros((1, 2), np.uint64)
    block = prepared(prepare, x, y)
    return (
        block if isinstance(block, Refused) else (lengths, _digest(block[0], block[1], key)[None])
    )


@total("a block of rows could not be read")
def _block(x: Any, y: Any, prepare: Prepare, key: Digest, expected: Digest, in_order: bool) -> Any:
    """A block ready for use, if it is the one of the first pass."""
    block = prepared(prepare, x, y)
    if isinstance(block, Refused):
        return block
    rows, labels = block
    if len(rows) != len(labels):
        return UNSTABLE
    same = _digest(rows, labels, key) == expected
    return block if same[int(in_order)] else UNSTABLE


@total("rows could not be chosen from a block")
def _chosen(block: tuple[Array, Array], places: Places) -> Any:
    rows, labels = block
    return rows[places], labels[places]


@total("a block of rows could not be summed up")
def _answer(block: tuple[Array, Array], query: Query) -> Any:
    return query(*block)


@total("sums over blocks could not be added up")
def _merged(merge: Merge, parts: Sequence[Any]) -> Any:
    refused = [part for part in parts if isinstance(part, Refused)]
    return refused[0] if refused else merge(parts)


def _concatenated(parts: Sequence[Parts]) -> Parts:
    return tuple(np.concatenate(each) for each in zip(*parts, strict=True))


def _digest(rows: Array, labels: Array, key: Digest) -> Digest:  # (n, d), (n,), (d + 1,) -> (2,)
    """Of the rows in any order, and of the rows in their order.

    A row's hash is multilinear in its bits with a random key: two rows that differ have the same
    one with probability about 2^-32. High bits are folded down first, round numbers have no others.
    """
    bits = np.column_stack([rows, labels]).view(np.uint64)
    hashes = ((bits ^ (bits >> np.uint64(32))) @ key) >> np.uint64(32)
    digests = [
        hashlib.blake2b(each.tobytes(), digest_size=8).digest()
        for each in (np.sort(hashes), hashes)
    ]
    return np.frombuffer(b"".join(digests), np.uint64)
