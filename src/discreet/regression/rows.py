"""Rows in memory, or in the blocks of a dask collection: what a method may ask of either.

A method that asks for nothing but the shape, `X[places]` and the functions below runs on both. What
is asked of a block, a `query`, is a function of public parameters and the block; its answer is
arrays of fixed shape, never rows.
"""

from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from discreet.arrays import Array

Parts = tuple[Array, ...]
Places = NDArray[np.int64]
Query = Callable[[Array, Array], Parts]  # (n, d), (n,) -> arrays that add up over blocks
PERMUTED = 2**24  # at most so many rows are put in order to choose some of them


def is_distributed(data: Any) -> bool:
    """Whether these are blocks of a dask collection, asked without importing dask."""
    return hasattr(data, "__dask_graph__")


def sums(query: Query, X: Array, y: Array) -> Parts:
    """The answer of all rows, from one pass over them."""
    if isinstance(X, np.ndarray):
        return query(X, y)
    return cast(Parts, X.fold(query, added, y))


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
