"""Class labels at the edge: which there are is declared, because the labels are private.

Each label is looked up by itself. One array of all of them would have one type for all, so that one
person's text among numbers would make text of everybody's labels.
"""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.arrays import Array
from discreet.frames import ANY, is_column, items_in, kind_of, kind_of_value
from discreet.regression.validation import as_vector

ONE_KIND = "classes must be labels of one kind, such as all text"
FINITE = "y must be finite: it holds NaN or infinity (inf); drop or impute first"


def declared_classes(classes: Sequence[Hashable]) -> NDArray[Any]:
    """The declared classes in sorted order, as scikit-learn has them.

    >>> declared_classes(["yes", "no"])
    array(['no', 'yes'], dtype='<U3')
    """
    if isinstance(classes, str) or not isinstance(classes, Iterable):
        raise ValueError(f"classes must be a list of labels; got {classes!r}")
    given: list[Any] = list(classes)
    found = _different(given)
    if len(found) != len(given) or len(found) < 2 or np.ndim(given) != 1:
        raise ValueError("classes must be at least two labels, each of them once")
    return found


def checked_classes(y: Any) -> NDArray[Any]:
    """y as a vector of labels, each of any kind; an array of numbers is finite, or refused.

    >>> checked_classes([0, 1, "x", None])
    array([0, 1, 'x', None], dtype=object)
    """
    labels: NDArray[Any] = as_vector(y, _one_by_one)
    if labels.dtype.kind == "f" and not np.isfinite(labels).all():
        raise ValueError(FINITE)
    return labels


class ToNumbers:
    """From labels to the numbers of their classes; -1 for one that was not declared.

    Total: whatever a label is, it has a number, which depends on nothing but this label.

    classes   in the order of their numbers

    >>> ToNumbers(np.array(["no", "yes"]))(["yes", "perhaps", "no"])
    array([ 1., -1.,  0.])
    >>> ToNumbers(np.array([0, 1]))([1, "1", 0, None])
    array([ 1., -1.,  0., -1.])
    """

    def __init__(self, classes: NDArray[Any]) -> None:
        self._number = {each: at for at, each in enumerate(classes.tolist())}
        self._kinds = {kind_of_value(each) for each in self._number}

    def __call__(self, y: Any) -> Array:  # (n,)
        """The number of the class of each label."""
        if is_column(y) and kind_of(y) != ANY and not self._kinds & {kind_of(y), ANY}:
            raise ValueError(
                f"y holds {kind_of(y)}, which no declared class is: declare what it holds"
            )
        labels = checked_classes(y).tolist()
        return np.fromiter(map(self._one, labels), dtype=np.float64, count=len(labels))

    def _one(self, label: Any) -> int:
        try:
            return self._number.get(_plain(label), -1)
        except Exception:  # it cannot be hashed or compared: no declared class
            return -1


def _one_by_one(y: Any) -> NDArray[Any]:
    """The labels of a list or a pandas column as objects; arrays have one type already."""
    if isinstance(y, np.ndarray):
        return y
    if is_column(y):  # before a table makes floats of whole numbers beside a missing one
        y = items_in(y)
    if hasattr(y, "astype"):
        return np.asarray(y.astype(object))
    listed = hasattr(y, "__len__") and hasattr(y, "__getitem__")
    if not listed or hasattr(y, "__array__") or isinstance(y, str | bytes | Mapping):
        return np.asarray(y)
    return np.fromiter(y, dtype=object, count=len(y))


def _plain(label: Any) -> Any:
    """What is in a list of one label, or in an array of one."""
    if isinstance(label, list | tuple) and len(label) == 1:
        (label,) = label
    return label.item() if getattr(label, "shape", None) in ((), (1,)) else label


def _different(labels: list[Any]) -> NDArray[Any]:
    """Each label once, in order; they must be of one kind."""
    try:
        found = np.unique(np.asarray(labels))
    except (TypeError, ValueError):
        raise ValueError(ONE_KIND) from None
    if found.dtype.kind in "US" and not all(isinstance(each, str | bytes) for each in labels):
        raise ValueError(ONE_KIND)
    if found.dtype.kind == "f" and not np.isfinite(found).all():
        raise ValueError(FINITE)
    return found
