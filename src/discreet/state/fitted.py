"""A fitted estimator in a file, in the format of states: nothing is unpickled.

What a fit leaves behind is a function of its releases, so a fitted estimator may be copied, pickled
and loaded as often as one likes. Its promise travels with it (`discreet statement FILE`). A file
may restore what a class declares (`_fitted`), and nothing else: no randomness, no method, no
argument that the constructor has not checked.
"""

import inspect
import os
from typing import Any, ClassVar, Self

import numpy as np

from discreet.state.files import check_header, load_state, save_state
from discreet.state.live import header
from discreet.state.values import damaged, decode, encode, encode_argument, register

MODELS: dict[str, type["Saveable"]] = {}  # estimators by the name that a file has for them
_SECRET = ("noise", "random_state")  # a seed would give the noise away


class Saveable:
    """`save` and `load` of a fitted estimator; `_fitted` names what a fit leaves behind."""

    _fitted: ClassVar[tuple[str, ...]] = ()

    @classmethod
    def _parameters(cls) -> list[str]:
        return list(inspect.signature(cls).parameters)

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
        names = [name for name in self._parameters() if name not in _SECRET]
        fitted = [name for name in self._fitted if name in vars(self)]
        return {
            **header(self),
            "config": {name: encode_argument(vars(self)[name]) for name in names},
            "state": {name: _plain(vars(self)[name]) for name in fitted},
        }

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
        if not set(config) <= set(cls._parameters()) - set(_SECRET):
            raise damaged("config")
        if not set(fitted) <= set(cls._fitted):
            raise damaged("state")
        try:
            arguments = {name: decode(each) for name, each in config.items() if name not in given}
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


def _plain(item: Any) -> Any:
    """`encode`, and arrays of names or classes."""
    if isinstance(item, np.ndarray) and item.dtype.kind in "OU":
        return {"names": [encode(each) for each in item.tolist()], "kind": item.dtype.kind}
    return encode(item)


def _item(plain: Any) -> Any:
    if isinstance(plain, dict) and set(plain) == {"names", "kind"}:
        return np.array(plain["names"], dtype=object if plain["kind"] == "O" else None)
    return decode(plain)
