"""What nobody stated: bounds in the units of the data, and whether there is an intercept.

A bound that is too small clips without a sound, and whether it is too small must not be read off
private rows: no warning or error may depend on them. So `fit` warns whenever a bound was not
stated, whatever the data are. With the next release bounds have no default and an intercept is
fitted unless fit_intercept=False is said; until then what was not stated is 1.0 and no intercept.
"""

import warnings
from collections.abc import Mapping


class UnstatedWarning(FutureWarning):
    """Public bounds, or the intercept, were not stated: what is assumed, and what to state."""


ASSUMED = 1.0  # a bound that was not stated


def warn_of_assumptions(
    bounds: Mapping[str, tuple[object, str]], fit_intercept: bool | None, *, stacklevel: int
) -> None:
    """Warn of bounds and of an intercept that are None; the data have no say.

    `bounds` has the value of each bound, and what is done to data beyond it.
    """
    words = ""
    missing = {name: done for name, (value, done) in bounds.items() if value is None}
    if missing:
        listed = " and ".join(missing)
        words = (
            f"{listed} {'were' if len(missing) > 1 else 'was'} not stated: "
            f"{'; '.join(missing.values())}. State public bounds in the units of your data, "
            "without looking at them. "
        )
    if fit_intercept is None:
        words += (
            "fit_intercept was not stated: none is fitted now, and one will be from the next "
            "release on. State fit_intercept=True or False."
        )
    if words:
        warnings.warn(words.strip(), UnstatedWarning, stacklevel=stacklevel + 1)
