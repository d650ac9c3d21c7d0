"""Rows and labels at the edge, with the errors and warnings scikit-learn's users expect."""

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from discreet.arrays import Array
from discreet.features import names_of
from discreet.regression.rows import is_sparse


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


def checked_rows(
    X: Any, estimator: object | None, columns: int | None = None, *, sparse: bool = False
) -> Any:
    """X as a finite float64 matrix; with `columns` given, as the estimator was fitted to.

    Errors say how many columns there should be, and which if both have names. With `sparse`, a
    sparse matrix stays one, in CSR format and without repeated entries.
    """
    if estimator is not None and columns is not None:
        check_names(X, estimator)
    if is_sparse(X):
        if not sparse:
            raise TypeError("sparse matrices are not supported here; pass X.toarray()")
        return _checked_sparse(X, estimator, columns)
    if np.iscomplexobj(np.asarray(X)):
        raise ValueError("Complex data not supported")
    try:
        # Of X itself, each value for itself: an array of all would bring them to one type first.
        rows = np.asarray(X, dtype=np.float64)
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
    if not np.isfinite(rows).all():
        raise ValueError("X must be finite: it holds NaN or infinity (inf); drop or impute first")
    _check_columns(rows.shape[1], estimator, columns)
    return rows


def _checked_sparse(X: Any, estimator: object | None, columns: int | None) -> Any:
    if np.iscomplexobj(X):
        raise ValueError("Complex data not supported")
    rows = X.tocsr(copy=True).astype(np.float64)
    rows.sum_duplicates()
    if rows.ndim != 2 or 0 in rows.shape:
        raise ValueError(
            f"X must have rows and columns, got shape {rows.shape}: 0 feature(s) (shape="
            f"{rows.shape}) while a minimum of 1 is required."
        )
    if not np.isfinite(rows.data).all():
        raise ValueError("X must be finite: it holds NaN or infinity (inf); drop or impute first")
    _check_columns(rows.shape[1], estimator, columns)
    return rows


def _check_columns(found: int, estimator: object | None, columns: int | None) -> None:
    if columns is not None and found != columns:
        known = type(estimator).__name__ if estimator is not None else "the data"
        raise ValueError(
            f"X has {found} features, but {known} is expecting {columns} features as input"
        )


def remember_names(names: tuple[str, ...] | None, estimator: object) -> None:
    """Keep column names on the estimator as `feature_names_in_`, and forget earlier ones."""
    vars(estimator).pop("feature_names_in_", None)
    if names is not None:
        vars(estimator)["feature_names_in_"] = np.asarray(names, dtype=object)


def check_names(X: Any, estimator: object) -> None:
    """Refuse columns of other names, or in another order, than those of the fit.

    Where only one of the two has names, warn. The words are scikit-learn's.
    """
    fitted = getattr(estimator, "feature_names_in_", None)
    names = names_of(X)
    who = type(estimator).__name__
    if fitted is None or names is None:
        if names is not None:
            about = f"X has feature names, but {who} was fitted without feature names"
            warnings.warn(about, UserWarning, stacklevel=4)
        elif fitted is not None:
            about = f"X does not have valid feature names, but {who} was fitted with feature names"
            warnings.warn(about, UserWarning, stacklevel=4)
        return
    refuse_other_names(names, tuple(fitted))


def refuse_other_names(
    names: tuple[str, ...] | None, fitted: tuple[str, ...] | None, what: str = ""
) -> None:
    """A ValueError that lists which column names differ, if both have names; `what` begins it."""
    if names is None or fitted is None or names == fitted:
        return
    message = f"{what}The feature names should match those that were passed during fit.\n"
    unseen = sorted(set(names) - set(fitted))
    missing = sorted(set(fitted) - set(names))
    if unseen:
        message += "Feature names unseen at fit time:\n" + _listed(unseen)
    if missing:
        message += "Feature names seen at fit time, yet now missing:\n" + _listed(missing)
    if not unseen and not missing:
        message += "Feature names must be in the same order as they were in fit.\n"
    raise ValueError(message)


def _listed(names: list[str], most: int = 5) -> str:
    lines = "".join(f"- {name}\n" for name in names[:most])
    return lines + ("- ...\n" if len(names) > most else "")


def checked_labels(y: Any) -> Array:
    """y as a finite float64 vector."""
    labels: Array = as_vector(y, _as_numbers)
    if not np.isfinite(labels).all():
        raise ValueError("y must be finite: it holds NaN or infinity (inf); drop or impute first")
    return labels


def _as_numbers(y: Any) -> Array:
    try:
        return np.asarray(y, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise ValueError("y must be numbers") from None


def as_vector(y: Any, convert: Callable[[Any], Any]) -> Any:
    """y as a vector of what `convert` makes of it; a column becomes one, and warns."""
    if y is None:
        raise ValueError("fit requires y to be passed, but the target y is None")
    labels = convert(y)
    if labels.ndim == 2 and labels.shape[1] == 1:
        message = "A column-vector y was passed when a 1d array was expected; using y[:, 0]"
        warnings.warn(message, _conversion_warning(), stacklevel=4)
        labels = labels[:, 0]
    if labels.ndim != 1:
        raise ValueError(f"y must be a vector, got shape {labels.shape}")
    return labels
