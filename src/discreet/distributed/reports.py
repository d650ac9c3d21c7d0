"""Report files, read in blocks: memory depends on the block, never on the number of reports.

A file holds the answers to one question, one in each row: .npy (n, *shape), .npz with such an array
named "values" (or nothing else), or Parquet with a column "values" of numbers or of lists of the
flattened answer. Reports are private before they are written, so a file may lie anywhere.
"""

import math
import zipfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import IO, Any, TypeVar

import numpy as np

from discreet.arrays import Array

BLOCK = 2**22  # bytes of reports in memory at a time
Shape = tuple[int, ...]
Sums = TypeVar("Sums")


def report_blocks(
    path: str | Path, shape: Shape, *, block: int = BLOCK
) -> Iterator[Array]:  # of (n, *shape)
    """The reports of a file, some at a time; `shape` is that of one report.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     np.save(f"{folder}/reports.npy", np.ones((5, 2)))
    ...     [len(some) for some in report_blocks(f"{folder}/reports.npy", (2,), block=32)]
    [2, 2, 1]
    """
    path = Path(path)
    rows = max(1, block // (8 * math.prod(shape)))
    if path.suffix == ".npy":
        with path.open("rb") as stream:
            yield from _npy(stream, path, shape, rows)
    elif path.suffix == ".npz":
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
            name = "values.npy" if "values.npy" in names else names[0] if len(names) == 1 else ""
            if not name:
                raise ValueError(f"{path}: expected one array, or one named values")
            with archive.open(name) as stream:
                yield from _npy(stream, path, shape, rows)
    elif path.suffix in (".parquet", ".pq"):
        yield from _parquet(path, shape, rows)
    else:
        raise ValueError(f"{path}: expected a report file, .npy, .npz or .parquet")


def add_up(
    files: Iterable[str | Path],
    shape: Shape,
    start: Callable[[], Sums],
    add: Callable[[Sums, Array], object],
    *,
    client: Any = None,
) -> Iterator[Sums]:
    """The sums of each file, in the order of the files, whoever reads them.

    With `client`, a `distributed.Client`, its workers read the files, which they must see under
    the same paths; what comes back is sums. Each file is in exactly one of them, also if a worker
    dies on the way: then its files are read again.
    """
    read = partial(_added, shape, start, add)
    if client is None:
        yield from map(read, files)
        return
    waiting: Sequence[Any] = client.map(read, list(files), pure=False)
    try:
        for future in waiting:
            yield future.result()
    finally:
        client.cancel(waiting)


def _added(
    shape: Shape, start: Callable[[], Sums], add: Callable[[Sums, Array], object], path: str | Path
) -> Sums:
    sums = start()
    for some in report_blocks(path, shape):
        add(sums, some)
    return sums


def _npy(stream: IO[bytes], path: Path, shape: Shape, rows: int) -> Iterator[Array]:
    """Read piece by piece: a memory map would keep every page it has seen."""
    try:
        version = np.lib.format.read_magic(stream)
        read = np.lib.format.read_array_header_1_0
        if version[0] > 1:
            read = np.lib.format.read_array_header_2_0
        full, fortran, dtype = read(stream)
    except ValueError:
        raise ValueError(f"{path}: not an .npy file") from None
    if dtype.kind not in "biuf" or (fortran and len(full) > 1) or full[1:] != shape or not full:
        expected = ", ".join(map(str, ("n", *shape)))
        raise ValueError(f"{path}: expected numbers of shape ({expected}) in C order, got {full}")
    size = dtype.itemsize * math.prod(shape)
    left = full[0]
    while left:
        some = min(rows, left)
        raw = stream.read(some * size)
        if len(raw) != some * size:
            raise ValueError(f"{path}: the file ends before its reports do; write it again")
        yield np.frombuffer(raw, dtype).reshape(some, *shape).astype(np.float64, copy=False)
        left -= some


def _parquet(path: Path, shape: Shape, rows: int) -> Iterator[Array]:
    from pyarrow import parquet

    with parquet.ParquetFile(path) as file:
        if "values" not in file.schema_arrow.names:
            raise ValueError(f"{path}: expected a column named values")
        for batch in file.iter_batches(batch_size=rows, columns=["values"]):
            column = batch.column(0)
            flat = column.flatten() if hasattr(column, "flatten") and shape else column
            if flat.null_count or len(flat) != len(column) * math.prod(shape):
                raise ValueError(f"{path}: expected {math.prod(shape)} number(s) in every report")
            values = flat.to_numpy(zero_copy_only=False)
            yield np.asarray(values, dtype=np.float64).reshape(len(column), *shape)
