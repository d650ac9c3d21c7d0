"""Rows in memory, in a sparse matrix or in the blocks of a dask collection: what may be asked.

A method that asks for nothing but the shape, `X[places]` and the functions below runs on all. What
is asked of a block, a `query`, is a function of public parameters and the block; its answer is
arrays of fixed shape, never rows.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from discreet.arrays import Array
from discreet.frames import is_unread

Parts = tuple[Array, ...]
Places = NDArray[np.int64]
Query = Callable[[Array, Array], Parts]  # (n, d), (n,) -> arrays that add up over blocks
SPARSE_BLOCK = 2**12  # rows of a sparse matrix that are dense at one time
CACHED_BLOCK = 2**12  # rows at a time: they stay in the cache
PERMUTED = 2**24  # at most so many rows are put in order to choose some of them


def is_distributed(data: Any) -> bool:
    """Whether rows are in blocks elsewhere: of dask, Spark, files or an iterator; imports none."""
    return hasattr(data, "__dask_graph__") or is_unread(data)


def is_sparse(data: Any) -> bool:
    """Whether this is a matrix or an array of scipy.sparse, asked without importing it."""
    return hasattr(data, "toarray") and hasattr(data, "nnz")


class SparseRows:
    """Stands in for an array of rows: a sparse matrix, of which a few rows at a time become dense.

    matrix     rows in CSR format
    constant   a last column that is not sparse, such as that of an intercept; or None

    >>> from scipy.sparse import csr_array
    >>> X = SparseRows(csr_array([[0.0, 0.5], [1.0, 0.0]]), np.array([0.1, 0.2]))
    >>> X.shape, X[1]
    ((2, 3), array([1. , 0. , 0.2]))
    >>> sums(lambda x, y: (x.T @ y,), X, np.ones(2))[0]
    array([1. , 0.5, 0.3])
    """

    def __init__(self, matrix: Any, constant: Array | None = None) -> None:
        self._matrix = matrix
        self._constant = constant

    def __len__(self) -> int:
        return int(self._matrix.shape[0])

    @property
    def shape(self) -> tuple[int, int]:
        """Like an array's."""
        return len(self), int(self._matrix.shape[1]) + (self._constant is not None)

    def __getitem__(self, places: Any) -> Any:
        """Some rows, still sparse; or one row, as a vector."""
        if isinstance(places, (int, np.integer)):
            return self._dense(slice(int(places), int(places) + 1))[0]
        constant = None if self._constant is None else self._constant[places]
        return SparseRows(self._matrix[places], constant)

    def fold(self, query: Query, merge: Callable[[Sequence[Parts]], Parts], y: Array) -> Parts:
        """Ask every block, and merge its answer with those before it: one pass."""
        answer: Parts | None = None
        for start in range(0, len(self), SPARSE_BLOCK):
            block = slice(start, start + SPARSE_BLOCK)
            part = query(self._dense(block), y[block])
            answer = part if answer is None else merge([answer, part])
        if answer is None:
            raise ValueError("expected at least one row")
        return answer

    def weighted(self, weights: Array) -> "SparseRows":
        """Every row times its weight."""
        constant = None if self._constant is None else self._constant * weights
        matrix = self._matrix.copy()
        matrix.data = matrix.data * np.repeat(weights, np.diff(matrix.indptr))
        return SparseRows(matrix, constant)

    def _dense(self, block: slice) -> Array:
        rows = np.asarray(self._matrix[block].toarray(), dtype=np.float64)
        if self._constant is None:
            return rows
        return np.column_stack([rows, self._constant[block]])


def without(X: Any, places: NDArray[np.bool_]) -> Any:
    """The rows, those at these places zero in every column."""
    kept = np.where(places, 0.0, 1.0)
    return X.weighted(kept) if isinstance(X, SparseRows) else X * kept[:, None]


def sums(query: Query, X: Array, y: Array) -> Parts:
    """The answer of all rows, from one pass over them."""
    if isinstance(X, np.ndarray):
        return query(X, y)
    return cast(Parts, X.fold(query, added, y))


def row_blocks(X: Array, y: Array, matrix: Array) -> Iterator[tuple[Array, Array]]:
    """Inside a query: rows times a matrix, and their labels, a few at a time."""
    for start in range(0, len(X), CACHED_BLOCK):
        block = slice(start, start + CACHED_BLOCK)
        yield X[block] @ matrix, y[block]


def compressed(X: Array, y: Array) -> tuple[Array, Array]:
    """Rows with the same least squares solutions: themselves, or d + 1 rows for all blocks."""
    if isinstance(X, np.ndarray):
        return X, y
    (triangle,) = cast(Parts, X.fold(_triangle, _stacked, y))
    return triangle[:, :-1], triangle[:, -1]


def some_places(rng: np.random.Generator, n: int, size: int) -> Places:
    """The places of `size` of n rows, in public random order."""
    if n <= PERMUTED:
        return rng.permutation(n)[:size]
    return np.asarray(rng.choice(n, size, replace=False))


def added(parts: Sequence[Parts]) -> Parts:
    """The sums of several blocks, added up from the first to the last."""
    return tuple(np.asarray(sum(each[1:], start=each[0])) for each in zip(*parts, strict=True))


def _triangle(X: Array, y: Array) -> Parts:
    """R of a QR decomposition: R'R = [X y]'[X y], without squaring the condition number."""
    return _reduced(np.column_stack([X, y]))


def _stacked(parts: Sequence[Parts]) -> Parts:
    return _reduced(np.vstack([triangle for (triangle,) in parts]))


def _reduced(rows: Array) -> Parts:
    return (np.asarray(np.linalg.qr(rows, mode="r"), dtype=np.float64),)
