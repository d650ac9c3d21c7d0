"""Values that may stand in states: to plain trees and back. Nothing is ever unpickled.

Numbers, strings, None, arrays, generators, tuples, lists and dicts of them, frozen dataclasses
marked `@value`, and `Stateful` parts (`live.py`).
"""

import hashlib
import json
from collections.abc import Callable
from dataclasses import MISSING, fields, is_dataclass
from typing import Any, ClassVar, TypeVar

import numpy as np

T = TypeVar("T")


class Part:
    """What encodes itself, by the name of its class: `Stateful` (`live.py`)."""

    _state: ClassVar[tuple[str, ...]] = ()
    _live: Any  # claims.Live
    _run: str

    def _encoded(self) -> dict[str, Any]:
        raise NotImplementedError

    @classmethod
    def _decoded(cls, plain: Any, like: Any) -> Any:
        raise NotImplementedError


PARTS: dict[str, type[Part]] = {}


def damaged(what: str) -> ValueError:
    """The error for a state that cannot be what was saved."""
    return ValueError(
        f"this state is damaged: {what} is missing or does not fit; load an intact copy"
    )


_ENCODERS: dict[type, tuple[str, Callable[[Any], Any]]] = {}
_DECODERS: dict[str, Callable[[Any, Any], Any]] = {}


def register(
    cls: type[T], encode: Callable[[T], Any], decode: Callable[[Any], T], *, name: str = ""
) -> None:
    """Let values of a class stand in states: `decode(encode(value))` equals the value."""
    register_with_like(cls, encode, lambda plain, like: decode(plain), name=name)


def register_with_like(
    cls: type[T], encode: Callable[[T], Any], decode: Callable[[Any, Any], T], *, name: str = ""
) -> None:
    """`register` for a class whose `decode` also needs what stood in the same place before."""
    tag = name or cls.__name__
    for known, (other, _) in _ENCODERS.items():
        if other == tag and known.__module__ != cls.__module__ and ours(known) and ours(cls):
            raise TypeError(
                f"{known.__module__} already has a {tag}; states refer to classes by name"
            )
    _ENCODERS[cls] = (tag, encode)
    _DECODERS[tag] = decode


def ours(cls: type) -> bool:
    return cls.__module__.startswith("discreet.")


def value(cls: type[T]) -> type[T]:
    """Mark a frozen dataclass whose instances may stand in states.

    A field that an older state does not have is what it is by default.
    """
    if not is_dataclass(cls):
        raise TypeError(f"{cls.__name__} must be a dataclass")

    def encode_fields(each: Any) -> dict[str, Any]:
        return {field.name: encode(getattr(each, field.name)) for field in fields(cls)}

    def decode_fields(plain: Any) -> Any:
        known = [field for field in fields(cls) if field.name in plain or field.default is MISSING]
        return cls(**{field.name: decode(plain[field.name]) for field in known})

    register(cls, encode_fields, decode_fields)
    return cls


def encode(item: Any) -> Any:
    """A tree of plain values, lists, dicts and arrays; everything else carries its name as "@"."""
    if item is None or isinstance(item, (bool, int, float, str)):
        return item
    if isinstance(item, np.generic):
        return item.item()
    if isinstance(item, np.ndarray):
        if item.dtype == object:  # Python's integers, of any size
            return {"@": "integers", "of": item.tolist()}
        return item.copy()
    if isinstance(item, list):
        return [encode(each) for each in item]
    if isinstance(item, dict) and all(isinstance(name, str) and name != "@" for name in item):
        return {name: encode(each) for name, each in item.items()}
    if isinstance(item, Part):
        return {"@": type(item).__name__, "of": item._encoded()}
    for cls in type(item).__mro__:
        if cls in _ENCODERS:
            name, to_plain = _ENCODERS[cls]
            return {"@": name, "of": to_plain(item)}
    raise TypeError(
        f"a {type(item).__name__} cannot be part of a state; mark its class with @value"
    )


def decode(plain: Any, like: Any = None) -> Any:
    """What `encode` encoded; a part takes what does not change from `like`, its counterpart."""
    if isinstance(plain, list):
        return list(_each(plain, like))
    if not isinstance(plain, dict):
        return plain.copy() if isinstance(plain, np.ndarray) else plain
    if "@" not in plain:
        return {name: decode(each) for name, each in plain.items()}
    if plain["@"] in PARTS:
        cls = PARTS[plain["@"]]
        return cls._decoded(plain["of"], like if type(like) is cls else None)
    return _DECODERS[plain["@"]](plain["of"], like)


def _each(plain: list[Any], like: Any) -> tuple[Any, ...]:
    """The items of a list or tuple, each with its counterpart if there are as many."""
    paired = isinstance(like, (list, tuple)) and len(like) == len(plain)
    likes = like if paired else [None] * len(plain)
    return tuple(decode(item, other) for item, other in zip(plain, likes, strict=True))


register_with_like(tuple, lambda items: [encode(x) for x in items], _each)
_DECODERS["integers"] = lambda plain, like: _integers(plain)
register(bytes, lambda raw: raw.hex(), bytes.fromhex)


def _integers(plain: Any) -> np.ndarray[Any, np.dtype[Any]]:
    array = np.array(plain, dtype=object)
    if not all(type(each) is int for each in array.flat):
        raise TypeError("expected integers")
    return array


def _generator(state: dict[str, Any]) -> np.random.Generator:
    generator = np.random.Generator(np.random.PCG64())
    generator.bit_generator.state = state
    return generator


register(np.random.Generator, lambda rng: dict(rng.bit_generator.state), _generator)


# -- trees of plain values and arrays --------------------------------------------------------------


def without_arrays(tree: Any, arrays: list[Any]) -> Any:
    """A tree for JSON: arrays stand in the list, by number."""
    if isinstance(tree, np.generic):
        return tree.item()
    if isinstance(tree, np.ndarray):
        arrays.append(tree)
        return {"@": "array", "of": len(arrays) - 1}
    if isinstance(tree, list):
        return [without_arrays(each, arrays) for each in tree]
    if isinstance(tree, dict):
        return {name: without_arrays(each, arrays) for name, each in tree.items()}
    return tree


def with_arrays(tree: Any, found: dict[str, Any]) -> Any:
    if isinstance(tree, list):
        return [with_arrays(each, found) for each in tree]
    if isinstance(tree, dict):
        if tree.get("@") == "array":
            return found[f"array{tree['of']}"]
        return {name: with_arrays(each, found) for name, each in tree.items()}
    return tree


def fingerprint(tree: Any) -> bytes:
    """The same for the same values only."""
    arrays: list[Any] = []
    found = hashlib.sha256(json.dumps(without_arrays(tree, arrays)).encode())
    for each in arrays:
        found.update(f"{each.dtype.str}{each.shape}".encode())
        found.update(np.ascontiguousarray(each).tobytes())
    return found.digest()


# -- arguments of constructors ---------------------------------------------------------------------


class NotInFile(ValueError):  # noqa: N818 - it states a fact, the file is not wrong
    """An argument that no file can hold is missing: a function, an object of another's class."""


def encode_argument(item: Any) -> Any:
    """An argument as a plain value; of noise only its kind, of what no file can hold its name."""
    kind = getattr(item, "_config_kind", None)
    if kind is not None:
        return kind()
    if not isinstance(item, Part):
        try:
            return encode(item)
        except TypeError:
            pass
    return {"@": "given", "of": getattr(item, "__qualname__", type(item).__qualname__)}


def _not_in_file(name: str) -> Any:
    raise NotInFile(
        f"{name} is not in the file, which holds no functions and no objects of other classes; "
        "give that argument to load() by name, or build the object with it and use "
        "load_state_dict()"
    )


class _Given:
    """Stands for what `encode_argument` could only name."""


register(_Given, lambda item: "", _not_in_file, name="given")
