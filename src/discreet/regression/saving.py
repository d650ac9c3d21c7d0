"""A fitted estimator in a file, in the format of states (`discreet.state`): nothing is unpickled.

What a fit leaves behind is a function of its releases, so a fitted estimator may be copied, pickled
and loaded as often as one likes. Its promise travels with it (`discreet statement FILE`).
"""

import inspect
import os
from typing import Any, Self

import numpy as np

from discreet.state import (
    check_header,
    damaged,
    decode,
    encode,
    encode_argument,
    header,
    load_state,
    register,
    save_state,
)

MODELS: dict[str, type["Saveable"]] = {}  # estimators by the name that a file has for them
_SECRET = ("noise", "random_state")  # a seed would give the noise away


class Saveable:
    """`save` and `load` of a fitted estimator."""

    def __init_subclass__(cls, **more: Any) -> None:
        super().__init_subclass__(**more)
        MODELS[cls.__name__] = cls

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write arguments, coefficients and promise to a file that only its owner may read.

        `noise` and `random_state` stay out of it: a seed would give the noise away.
        """
        if not hasattr(self, "guarantee_"):
            raise ValueError(f"this {type(self).__name__} is not fitted: call fit before save")
        save_state(path, self._record())

    def _record(self) -> dict[str, Any]:
        names = _parameters(type(self))
        config = {name: encode_argument(vars(self)[name]) for name in names if name not in _SECRET}
        fitted = {name: _plain(item) for name, item in vars(self).items() if name not in names}
        return {**header(self), "config": config, "state": fitted}

    @classmethod
    def load(cls, path: str | os.PathLike[str], **given: Any) -> Self:
        """A fitted estimator from a file; fits made with it draw new noise.

        Arguments that no file can hold (a data frame as `public_X`) are given by name.
        """
        made = cls._resumed(load_state(path), given)
        if not hasattr(made, "guarantee_"):
            raise damaged("guarantee")
        return made

    @classmethod
    def _resumed(cls, state: dict[str, Any], given: dict[str, Any]) -> Self:
        check_header(state, cls.__name__)
        config = state.get("config")
        fitted = state.get("state")
        if not isinstance(config, dict) or not isinstance(fitted, dict):
            raise damaged("config")
        arguments = {name: decode(each) for name, each in config.items() if name not in given}
        try:
            made = cls(**arguments, **given)
            made.__dict__.update({name: _item(each) for name, each in fitted.items()})
        except (KeyError, TypeError, AttributeError):
            raise damaged("state") from None
        return made


def _inner(record: Any) -> Saveable:
    """An estimator inside another; arguments that no file can hold are left at None."""
    missing = {n: None for n, each in record["config"].items() if is_missing(each)}
    return MODELS[record["kind"]]._resumed(record, missing)


register(Saveable, lambda model: model._record(), _inner, name="model")


def is_missing(plain: Any) -> bool:
    """Whether an argument of a file could only be named there."""
    return isinstance(plain, dict) and plain.get("@") == "given"


def _parameters(cls: type) -> list[str]:
    return list(inspect.signature(cls).parameters)


def _plain(item: Any) -> Any:
    """`encode`, and arrays of names or classes."""
    if isinstance(item, np.ndarray) and item.dtype.kind in "OU":
        return {"names": [encode(each) for each in item.tolist()], "kind": item.dtype.kind}
    return encode(item)


def _item(plain: Any) -> Any:
    if isinstance(plain, dict) and set(plain) == {"names", "kind"}:
        return np.array(plain["names"], dtype=object if plain["kind"] == "O" else None)
    return decode(plain)
