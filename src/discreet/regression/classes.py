"""Class labels at the edge: which there are is declared, because the labels are private."""

import warnings
from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.arrays import Array
from discreet.regression.surroundings import PrivacyLeakWarning
from discreet.regression.validation import as_vector

NUMBERS = (0, 1)  # where no classes are declared
READ_OFF = "THE SET OF CLASSES, read off the labels without noise"


def declared_classes(classes: Sequence[Hashable] | str | None) -> NDArray[Any] | None:
    """The declared classes in sorted order, as scikit-learn has them; None for "data".

    >>> declared_classes(["yes", "no"])
    array(['no', 'yes'], dtype='<U3')
    """
    if isinstance(classes, str):
        if classes == "data":
            return None
        raise ValueError(f'classes must be a list of labels, or "data"; got {classes!r}')
    given: list[Any] = list(NUMBERS if classes is None else classes)
    try:
        found = np.unique(np.asarray(given))
    except TypeError:
        raise ValueError("classes must be labels of one kind, such as all text") from None
    if len(found) != len(given) or len(found) < 2 or np.ndim(given) != 1:
        raise ValueError("classes must be at least two labels, each of them once")
    return found


def read_off(y: Any, *, stacklevel: int) -> NDArray[Any]:
    """The classes that occur in y, which is a leak: it warns."""
    warnings.warn(
        "classes='data' reads the set of classes off private labels without noise: the guarantee "
        "does not cover that. Declare the classes instead.",
        PrivacyLeakWarning,
        stacklevel=stacklevel + 1,
    )
    labels = checked_classes(y)
    if labels.dtype.kind == "f" and (labels != np.floor(labels)).any():
        raise ValueError("Unknown label type: continuous; classes are whole numbers or text")
    found = np.unique(labels)
    if len(found) < 2:
        raise ValueError("y holds one class, and two are needed; declare them: classes=(...)")
    return found


def checked_classes(y: Any) -> NDArray[Any]:
    """y as a vector of labels of any kind; numbers are finite."""
    labels: NDArray[Any] = as_vector(y, np.asarray)
    if labels.dtype.kind == "f" and not np.isfinite(labels).all():
        raise ValueError("y must be finite: it holds NaN or infinity (inf); drop or impute first")
    return labels


class ToNumbers:
    """From labels to the numbers of their classes; -1 for one that was not declared.

    classes   in the order of their numbers

    >>> ToNumbers(np.array(["no", "yes"]))(["yes", "perhaps", "no"])
    array([ 1., -1.,  0.])
    """

    def __init__(self, classes: NDArray[Any]) -> None:
        self._number = {each: at for at, each in enumerate(classes.tolist())}

    def __call__(self, y: Any) -> Array:  # (n,)
        """The number of the class of each label."""
        labels = checked_classes(y).tolist()
        numbers = (self._number.get(each, -1) if _hashable(each) else -1 for each in labels)
        return np.fromiter(numbers, dtype=np.float64, count=len(labels))


def _hashable(label: Any) -> bool:
    try:
        hash(label)
    except TypeError:
        return False
    return True
