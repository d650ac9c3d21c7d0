"""Rows from Parquet and Arrow files, or from an iterator of record batches: memory stays as it is.

The source is read once. Rows in their units go to a file without a name, which nobody else can
open and which is gone with the fit; every pass after that reads it in blocks. So an iterator that
can be read only once will do, and no pass can see other people than the one before.
"""

import glob
import itertools
import os
import sys
import tempfile
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from discreet.arrays import Array
from discreet.distributed.blocks import Blocks, Merge, Parts, Places, Query, Table

BATCH = 2**16  # rows that are decoded at a time
BLOCK = 2**21  # bytes of rows that one question sees
IN_MEMORY = 2**26  # bytes of rows that are kept without a file
NOTHING = "X must have rows and columns, got 0 rows in all batches"
FORMATS = {".parquet": "parquet", ".pq": "parquet", ".arrow": "ipc", ".feather": "ipc"}


def batches(source: Any, columns: Sequence[str] | None = None) -> Iterator[Any]:
    """Tables of a few rows: of files by their name or pattern, a folder, a data set, an iterator.

    >>> import pyarrow as pa
    >>> [len(each) for each in batches(iter([pa.table({"a": [1, 2]}), pa.table({"a": [3]})]))]
    [2, 1]
    """
    if isinstance(source, str | os.PathLike):
        source = _data_set(os.fspath(source))
    if hasattr(source, "to_batches") and not hasattr(source, "__next__"):
        known = source.schema.names
        picked = None if columns is None else [each for each in columns if each in known]
        ahead = {"fragment_readahead": 1, "batch_readahead": 2}
        source = source.to_batches(columns=picked, batch_size=BATCH, **ahead)
    for each in source:
        if len(each):
            yield each


def _data_set(pattern: str) -> Any:
    from pyarrow import dataset

    found = sorted(map(str, Path(pattern).rglob("*"))) if os.path.isdir(pattern) else ()
    files = [each for each in found or sorted(glob.glob(pattern)) if Path(each).suffix in FORMATS]
    kinds = {FORMATS[Path(each).suffix] for each in files}
    if len(kinds) != 1:
        raise ValueError(
            f"{pattern}: expected Parquet or Arrow files of one kind ({', '.join(FORMATS)}), "
            f"found {len(files)} of them; a .csv file has no types: convert it first"
        )
    if kinds == {"ipc"}:
        return dataset.dataset(files, format="ipc")
    # Pages as they are asked for: a file read ahead as a whole is as large as it is.
    options = dataset.ParquetFragmentScanOptions(pre_buffer=False)
    parquet = dataset.ParquetFileFormat(default_fragment_scan_options=options)
    return dataset.dataset(files, format=parquet)


class Stored(Table):
    """Rows and labels in a file without a name, in blocks.

    width   numbers of a row
    blocks  rows and labels, each as long as the other

    >>> rows = Stored(2, [(np.eye(2), np.ones(2)), (np.eye(2), np.zeros(2))])
    >>> rows.fold(lambda x, y: (x.T @ y,), lambda parts: (sum(p for p, in parts),))
    (array([1., 1.]),)
    >>> rows.chosen(np.array([2, 0])).fold(lambda x, y: (x.T @ y,), lambda p: (p[0][0] + p[1][0],))
    (array([1., 0.]),)
    """

    def __init__(self, width: int, blocks: Iterable[tuple[Array, Array]]) -> None:
        super().__init__(np.zeros(0, dtype=np.int64))
        self._width = width
        self._rows = max(1, BLOCK // (8 * (width + 1)))
        self._file = tempfile.SpooledTemporaryFile(max_size=IN_MEMORY)  # noqa: SIM115
        weakref.finalize(self, self._file.close)
        self._passes = 0
        lengths = list[int]()
        progress = Progress("reading")
        for x, y in blocks:
            for start in range(0, len(x), self._rows):
                some = slice(start, start + self._rows)
                for each in (x[some], y[some]):
                    self._file.write(np.ascontiguousarray(each, dtype=np.float64).data)
                lengths.append(len(y[some]))
                progress.at(lengths[-1])
        progress.over()
        self.lengths = np.array(lengths, dtype=np.int64)

    def __iter__(self) -> Iterator[tuple[Array, Array]]:
        self._file.seek(0)
        for n in self.lengths.tolist():
            numbers = np.frombuffer(self._file.read(8 * n * (self._width + 1)))
            yield numbers[: n * self._width].reshape(n, self._width), numbers[n * self._width :]

    def fold(self, query: Query, merge: Merge) -> Parts:
        self._passes += 1
        progress = Progress(f"pass {self._passes}", int(self.lengths.sum()))
        answer: Parts | None = None
        for x, y in self:
            part = query(x, y)
            answer = part if answer is None else merge([answer, part])
            progress.at(len(y))
        progress.over()
        if answer is None:
            raise ValueError(NOTHING)
        return answer

    def _choose(self, local: list[Places]) -> Table:
        """Chosen rows go to a file of their own."""
        pairs = zip(self, local, strict=True)
        return Stored(self._width, ((x[places], y[places]) for (x, y), places in pairs))


class Progress:
    """A line at a terminal; nothing where the output goes to a file.

    what    is done
    whole   rows, where their number is known
    """

    def __init__(self, what: str, whole: int = 0) -> None:
        self._what = what
        self._whole = whole
        self._rows = 0
        self._shown = -1
        self._on = sys.stderr.isatty()

    def at(self, rows: int) -> None:
        self._rows += rows
        step = 100 * self._rows // self._whole if self._whole else self._rows // 10**6
        if self._on and step != self._shown:
            self._shown = step
            part = f"{step}%" if self._whole else f"{self._rows:,}"
            print(f"\r{self._what}: {part} rows\x1b[K", end="", file=sys.stderr, flush=True)

    def over(self) -> None:
        if self._on:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)


def peeked(source: Any, columns: Sequence[str] | None = None) -> tuple[Iterator[Any], Any]:
    found = batches(source, columns)
    first = next(found, None)
    if first is None:
        raise ValueError(NOTHING)
    return itertools.chain([first], found), first


def open_stream(
    tables: Iterator[Any], prepare: Callable[[Any], tuple[Array, Array]]
) -> tuple[Blocks, Blocks]:
    """The rows of all batches, each checked and in its units as `prepare` makes it."""
    blocks = map(prepare, tables)
    first = next(blocks)
    columns = first[0].shape[1]
    table = Stored(columns, itertools.chain([first], blocks))
    return Blocks(table, columns), Blocks(table, None)
