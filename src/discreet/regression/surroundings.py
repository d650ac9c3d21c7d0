"""Who calls `fit`: a search that fits again and again, or a pipeline whose steps read the rows.

A guarantee speaks of one fit. It cannot speak of what scikit-learn does around it, and a user may
not think of that. So `fit` looks at who calls it, never at the data, and says what it sees.
"""

import sys
import warnings
from contextlib import suppress
from types import FrameType
from typing import Any

SEARCH = (
    "other fits of {} on the same rows: each spends a budget of its own, and this promise is of "
    "one of them"
)
STEPS = "what earlier steps of the pipeline read off the rows without noise: {}"
_DEEP = 40  # frames to look at


class PrivacyLeakWarning(UserWarning):
    """Something was read off private data without noise, or paid for more than once."""


class NoisyFitWarning(UserWarning):
    """A fit's predictions differ less from row to row than they may be wrong."""


def warn_of_noise(doubt: float, *, stacklevel: int) -> None:
    """Say so where predictions err by more than they differ, as the released values tell it.

    Filters may hide it. None makes an error of it: a fit that has spent its budget does not fail.
    """
    if doubt > 1:
        message = (
            f"predictions of this fit err by about {min(doubt, 99):.1f} times what they differ by, "
            "and it may be no better than chance; it needs more rows, fewer features or a larger "
            "epsilon"
        )
        with suppress(NoisyFitWarning):
            warnings.warn(message, NoisyFitWarning, stacklevel=stacklevel + 1)


def leaks_around(*, stacklevel: int) -> tuple[str, ...]:
    """What goes on around the `fit` that calls this, beyond its guarantee; warns of it."""
    found: list[str] = []
    frame: FrameType | None = sys._getframe(2)
    for _ in range(_DEEP):
        if frame is None:
            break
        module = str(frame.f_globals.get("__name__", ""))
        caller = frame.f_locals.get("self")
        if module.startswith("sklearn.model_selection"):
            name = "cross-validation" if caller is None else type(caller).__name__
            found = [*(each for each in found if "other fits" not in each), SEARCH.format(name)]
        elif module == "sklearn.pipeline" and (steps := _reading_steps(caller)):
            found.append(STEPS.format(", ".join(steps)))
        frame = frame.f_back
    leaks = tuple(dict.fromkeys(found))
    for leak in leaks:
        message = f"not covered by guarantee_: {leak}"
        warnings.warn(message, PrivacyLeakWarning, stacklevel=stacklevel + 1)
    return leaks


def _reading_steps(pipeline: Any) -> list[str]:
    """Steps before the last that learn from the rows, inside others too."""
    names = []
    for _, step in getattr(pipeline, "steps", [])[:-1]:
        names += [type(each).__name__ for each in _leaves(step) if not _learns_nothing(each)]
    return names


def _leaves(step: Any) -> list[Any]:
    """What a step is made of: pipelines, unions and column transformers hold others."""
    if step is None or isinstance(step, str):  # "passthrough", "drop"
        return []
    parts = [getattr(step, each, ()) for each in ("steps", "transformer_list", "transformers")]
    inner = [part[1] for each in parts for part in each]
    if not inner:
        return [step]
    inner.append(getattr(step, "remainder", None))
    return [leaf for each in inner for leaf in _leaves(each)]


def _learns_nothing(step: Any) -> bool:
    """By what it says of itself, or by how it is set."""
    tags = getattr(step, "__sklearn_tags__", None)
    if tags is not None and not tags().requires_fit:
        return True
    kind = type(step).__name__ if type(step).__module__.startswith("sklearn.") else ""
    if kind == "SimpleImputer":  # indicators, and columns that are dropped, tell what is missing
        return bool(
            step.strategy == "constant" and not step.add_indicator and step.keep_empty_features
        )
    if kind == "OneHotEncoder":  # an error about a value that was not declared is an output
        learned = (step.min_frequency, step.max_categories)
        declared = not isinstance(step.categories, str) and learned == (None, None)
        return declared and step.handle_unknown == "ignore"
    return False
