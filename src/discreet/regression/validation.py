"""Rows and labels at the edge, with the errors and warnings scikit-learn's users expect."""

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.exceptions import DataConversionWarning
from sklearn.utils.validation import validate_data

from discreet.arrays import Array
from discreet.frames import is_column, is_unread, matrix_of, numbers_in
from discreet.regression.rows import is_sparse


def checked_rows(X: Any, columns: BaseEstimator | None = None, *, sparse: bool = False) -> Any:
    """X as a finite float64 matrix; with the columns that an estimator was fitted to, if given.

    scikit-learn's `check_array` would do, but its messages quote what it is given. With `sparse`, a
    sparse matrix stays one, in CSR format and without repeated entries.
    """
    if is_sparse(X):
        if not sparse:
            raise TypeError("sparse matrices are not supported here; pass X.toarray()")
        return _checked_sparse(X, columns)
    if is_unread(X):
        raise TypeError(
            "files and iterators are for fit: read a block of rows, and predict for that"
        )
    rows = matrix_of(X)
    if rows is None and np.iscomplexobj(np.asarray(X)):
        raise ValueError("Complex data not supported")
    try:
        # Of X itself, each value for itself: an array of all would bring them to one type first.
        rows = np.asarray(X, dtype=np.float64) if rows is None else rows
    except (ValueError, OverflowError):
        raise ValueError("X must be numbers; encode strings and categories first") from None
    if rows.ndim != 2:
        raise ValueError(
            f"X must be a matrix (n, d), got {rows.ndim} dimension(s). Reshape your data with "
            "X.reshape(-1, 1) if it has one feature, X.reshape(1, -1) if it is one row"
        )
    if 0 in rows.shape:
        raise ValueError(
            f"X must have rows and columns, got shape {rows.shape}: 0 feature(s) (shape="
            f"{rows.shape}) while a minimum of 1 is required."
        )
    if columns is not None:
        validate_data(columns, X, reset=False, skip_check_array=True)
    if not np.isfinite(rows).all():
        raise ValueError("X must be finite: it holds NaN or infinity (inf); drop or impute first")
    return rows


def _checked_sparse(X: Any, columns: BaseEstimator | None) -> Any:
    if np.iscomplexobj(X):
        raise ValueError("Complex data not supported")
    rows = X.tocsr(copy=True).astype(np.float64)
    rows.sum_duplicates()
    if rows.ndim != 2 or 0 in rows.shape:
        raise ValueError(
            f"X must have rows and columns, got shape {rows.shape}: 0 feature(s) (shape="
            f"{rows.shape}) while a minimum of 1 is required."
        )
    if columns is not None:
        validate_data(columns, X, reset=False, skip_check_array=True)
    if not np.isfinite(rows.data).all():
        raise ValueError("X must be finite: it holds NaN or infinity (inf); drop or impute first")
    return rows


class Columns(BaseEstimator):  # type: ignore[misc]
    """What a fit remembers of the columns of X: their number, and their names if they have any.

    X   rows, not read
    """

    def __init__(self, X: Any) -> None:
        validate_data(self, X, skip_check_array=True)

    @classmethod
    def of(cls, count: int, names: tuple[str, ...] | None) -> "Columns":
        """Columns that were counted elsewhere."""
        columns = cls.__new__(cls)
        columns.n_features_in_ = count
        if names is not None:
            columns.feature_names_in_ = np.array(names, dtype=object)
        return columns

    def expect(self, X: Any, what: str) -> None:
        """Refuse other columns, in the words of scikit-learn; `what` is X to the user."""
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # one of them may have no names
                validate_data(self, X, reset=False, skip_check_array=True)
        except ValueError as error:
            raise ValueError(f"{what}: {error}") from None


def checked_labels(y: Any) -> Array:
    """y as a finite float64 vector."""
    labels: Array = as_vector(y, _as_numbers)
    if not np.isfinite(labels).all():
        raise ValueError("y must be finite: it holds NaN or infinity (inf); drop or impute first")
    return labels


def _as_numbers(y: Any) -> Array:
    try:
        return numbers_in(y) if is_column(y) else np.asarray(y, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise ValueError("y must be numbers") from None


def as_vector(y: Any, convert: Callable[[Any], Any]) -> Any:
    """y as a vector of what `convert` makes of it; a column becomes one, and warns."""
    if y is None:
        raise ValueError("fit requires y to be passed, but the target y is None")
    labels = convert(y)
    if labels.ndim == 2 and labels.shape[1] == 1:
        message = "A column-vector y was passed when a 1d array was expected; using y[:, 0]"
        warnings.warn(message, DataConversionWarning, stacklevel=4)
        labels = labels[:, 0]
    if labels.ndim != 1:
        raise ValueError(f"y must be a vector, got shape {labels.shape}")
    return labels
