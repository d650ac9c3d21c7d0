"""Rows in the partitions of a Spark data frame: only sums leave the executors.

A pass is one `mapInArrow` with one answer of each partition, which names its partition. Answers are
collected, never counted up on the way: of a task that is killed, retried or run twice for speed one
answer arrives, and the driver refuses to add up any other number of them. The first pass takes a
keyed digest of every partition; later ones compare it, because Spark computes partitions anew.
"""

import hashlib
import pickle
import secrets
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

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

Prepare = Callable[[Any], tuple[Array, Array]]  # a batch -> rows and labels, checked and clipped
Digests = dict[int, tuple[int, int, bytes]]  # of each partition: rows, columns, what they are
Task = Callable[[int, Iterator[Any]], Any]  # of a partition's number and its batches


class Partitions(Table):
    """Rows of a Spark data frame, partition by partition.

    frame     the data frame
    prepare   makes rows and labels of a batch
    key       of the digests
    found     the digests of the first pass; None where rows were chosen, and checked, before
    lengths   rows of each partition, by its number
    """

    def __init__(
        self,
        frame: Any,
        prepare: Prepare,
        key: bytes,
        found: Digests | None,
        lengths: dict[int, int],
    ) -> None:
        super().__init__(np.array([lengths[each] for each in sorted(lengths)], dtype=np.int64))
        self._frame = frame
        self._prepare = prepare
        self._key = key
        self._found = found
        self._numbers = sorted(lengths)

    def fold(self, query: Query, merge: Merge) -> Parts:
        task = partial(_folded, self._prepare, self._key, self._found, query, merge)
        answers = answers_of(self._frame, task)
        if any(number not in answers for number in self._numbers):
            raise ValueError(UNSTABLE.message)
        return merge([answers[number] for number in self._numbers])

    def _choose(self, local: list[Places]) -> Table:
        """Chosen rows are a data frame of their own, one answer of each partition."""
        here = dict(zip(self._numbers, local, strict=True))
        task = partial(_chosen, self._prepare, self._key, self._found, here)
        frame = self._frame.mapInArrow(partial(_as_batches, task), "place int, answer binary")
        if sum(map(len, local)) <= KEPT_ROWS:
            frame = frame.persist()
        lengths = {number: len(each) for number, each in here.items() if len(each)}
        return Partitions(frame, _unpacked, self._key, None, lengths)


def open_spark(frame: Any, prepare: Prepare) -> tuple[Blocks, Blocks]:
    """The partitions of a data frame, after a first pass that checks and counts every row."""
    key = secrets.token_bytes(32)
    found: Digests = answers_of(frame, partial(_counted, prepare, key))
    lengths = {number: rows for number, (rows, _, _) in found.items() if rows}
    widths = {width for rows, width, _ in found.values() if rows}
    if len(widths) != 1:
        raise ValueError("X must have rows and columns, got 0 rows in all partitions")
    table = Partitions(frame, prepare, key, found, lengths)
    return Blocks(table, widths.pop()), Blocks(table, None)


def answers_of(frame: Any, task: Task) -> dict[int, Any]:
    """What each partition answers, by its number: one answer of each, or none is believed."""
    rows = frame.mapInArrow(partial(_as_batches, task), "place int, answer binary").collect()
    answers = {row["place"]: pickle.loads(row["answer"]) for row in rows}
    if len(answers) != len(rows):
        raise RuntimeError("a partition answered twice: nothing was released; fit again")
    for each in answers.values():
        if isinstance(each, Refused):
            raise ValueError(each.message)
    return {number: each for number, each in answers.items() if each is not None}


# -- on executors: whatever a partition is, they return -------------------------------------------


def _as_batches(task: Task, iterator: Iterator[Any]) -> Iterator[Any]:
    """A task as `mapInArrow` wants it: one row of its partition's number and its answer."""
    import pyarrow
    from pyspark import TaskContext

    context = TaskContext.get()
    number = context.partitionId() if context is not None else 0
    answer = pickle.dumps(task(number, iterator))
    yield pyarrow.RecordBatch.from_pydict(
        {"place": pyarrow.array([number], pyarrow.int32()), "answer": [answer]}
    )


@total("a partition of rows could not be read")
def _counted(prepare: Prepare, key: bytes, number: int, iterator: Iterator[Any]) -> Any:
    blocks = Checked(prepare, key, iterator)
    for _ in blocks:
        pass
    return blocks.refused or blocks.digest


@total("a partition of rows could not be summed up")
def _folded(
    prepare: Prepare, key: bytes, found: Digests | None, query: Query, merge: Merge,
    number: int, iterator: Iterator[Any],
) -> Any:  # fmt: skip
    blocks = Checked(prepare, key, iterator)
    answer = None
    for x, y in blocks:
        part = query(x, y)
        answer = part if answer is None else merge([answer, part])
    return blocks.refused or blocks.unlike(found, number) or answer


@total("rows could not be chosen from a partition")
def _chosen(
    prepare: Prepare, key: bytes, found: Digests | None, local: dict[int, Places],
    number: int, iterator: Iterator[Any],
) -> Any:  # fmt: skip
    places = local.get(number, np.zeros(0, dtype=np.int64))
    blocks = Checked(prepare, key, iterator)
    picked = list[tuple[Array, Array]]()
    start = 0
    for x, y in blocks:
        low, high = np.searchsorted(places, [start, start + len(y)])
        here = places[low:high] - start
        picked.append((x[here], y[here]))
        start += len(y)
    refused = blocks.refused or blocks.unlike(found, number)
    if refused or not picked:
        return refused
    xs, ys = zip(*picked, strict=True)
    return np.concatenate(xs), np.concatenate(ys)


def _unpacked(batch: Any) -> Any:
    """Rows that were chosen before: the answer of a task."""
    (answer,) = batch.column("answer").to_pylist()
    found = pickle.loads(answer)
    if isinstance(found, Refused):
        raise ValueError(found.message)
    return found if found is not None else (np.zeros((0, 0)), np.zeros(0))


class Checked:
    """The rows and labels of a partition's batches, and a digest of them in their order.

    prepare    makes them of a batch
    key        of the digest
    iterator   batches
    """

    def __init__(self, prepare: Prepare, key: bytes, iterator: Iterator[Any]) -> None:
        self._prepare = prepare
        self._batches = iterator
        self._hash = hashlib.blake2b(key=key, digest_size=16)
        self._rows = self._width = 0
        self.refused: Refused | None = None

    def __iter__(self) -> Iterator[tuple[Array, Array]]:
        for batch in self._batches:
            if not batch.num_rows or self.refused:
                continue
            block = prepared(self._prepare, batch)
            if isinstance(block, Refused):
                self.refused = block
                continue
            x, y = block
            if not len(y):
                continue
            for each in (x, y):
                self._hash.update(np.ascontiguousarray(each).data)
            self._rows += len(y)
            self._width = x.shape[1]
            yield x, y

    @property
    def digest(self) -> tuple[int, int, bytes]:
        return self._rows, self._width, self._hash.digest()

    def unlike(self, found: Digests | None, number: int) -> Refused | None:
        """A refusal where the rows are not those of the first pass."""
        return None if found is None or found.get(number) == self.digest else UNSTABLE
