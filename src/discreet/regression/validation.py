"""Rows and labels at the edge, with the errors and warnings scikit-learn's users expect."""

import warnings
from typing import Any

import numpy as np

from discreet.arrays import Array


def _conversion_warning() -> type[Warning]:
    try:
        from sklearn.exceptions import DataConversionWarning
    except ImportError:
        return UserWarning
    warning: type[Warning] = DataConversionWarning
    return warning


def not_fitted(estimator: object) -> Exception:
    """scikit-learn's NotFittedError where it is installed, else a ValueError with its words."""
    message = f"This {type(estimator).__name__} instance is not fitted yet; call fit(X, y) first"
    try:
        from sklearn.exceptions import NotFittedError
    except ImportError:
        return ValueError(message)
    error: Exception = NotFittedError(message)
    return error


def checked_rows(X: Any, estimator: object | None, columns: int | None = None) -> Array:
    """X as a finite float64 matrix; remembers a data frame's column names on the estimator."""
    if hasattr(X, "toarray") and hasattr(X, "nnz"):
        raise TypeError("sparse matrices are not supported; pass X.toarray()")
    array = np.asarray(X)
    if np.iscomplexobj(array):
        raise ValueError("Complex data not supported")
    try:
        rows = np.asarray(array, dtype=np.float64)
    except ValueError:
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
    if not np.isfinite(rows).all():
        raise ValueError("X must be finite: it holds NaN or infinity (inf); drop or impute first")
    if columns is not None and rows.shape[1] != columns:
        known = type(estimator).__name__ if estimator is not None else "the data"
        raise ValueError(
            f"X has {rows.shape[1]} features, but {known} is expecting {columns} features as input"
        )
    if estimator is not None and columns is None:
        remember_names(X, estimator)
    return rows


def remember_names(X: Any, estimator: object) -> None:
    """A data frame's column names, kept on the estimator as scikit-learn's users expect."""
    names = getattr(X, "columns", None)
    if names is not None and all(isinstance(name, str) for name in names):
        vars(estimator)["feature_names_in_"] = np.asarray(names, dtype=object)


def checked_labels(y: Any) -> Array:
    """y as a finite float64 vector."""
    if y is None:
        raise ValueError("fit requires y to be passed, but the target y is None")
    try:
        labels = np.asarray(y, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError("y must be numbers") from None
    if labels.ndim == 2 and labels.shape[1] == 1:
        message = "A column-vector y was passed when a 1d array was expected; using y[:, 0]"
        warnings.warn(message, _conversion_warning(), stacklevel=3)
        labels = labels[:, 0]
    if labels.ndim != 1:
        raise ValueError(f"y must be a vector, got shape {labels.shape}")
    if not np.isfinite(labels).all():
        raise ValueError("y must be finite: it holds NaN or infinity (inf); drop or impute first")
    return labels
