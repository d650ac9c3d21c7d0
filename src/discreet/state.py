"""Declared state: one way to save, to resume and to refuse.

A live private object (a running sum, a learner) declares which attributes change while it lives:

    class Mean(Stateful):
        _state = ("rounds", "_sums")

        def __init__(self, horizon, epsilon, *, noise=None):
            self.horizon, self.epsilon, self.noise = ...   # one attribute for each parameter
            self.rounds = 0
            self._sums = PrefixSum(...)                    # a part, Stateful itself

and gets `state_dict`, `load_state_dict`, `save` and `load`. The configuration is read off the
constructor's signature. A state is resumed whole or not at all; one that is older than the object,
of another object, of another configuration or damaged is refused.

What may stand in a state: numbers, strings, None, arrays, generators, tuples, lists and dicts of
them, frozen dataclasses marked `@value`, and other `Stateful` parts. Nothing is ever unpickled.

Copying a live object is refused: two copies would publish the same noise with different data, and
the difference of the two is exact. For the same reason a state may be resumed only once.
"""

import functools
import inspect
import io
import json
import os
import secrets
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import fields, is_dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, BinaryIO, ClassVar, Self, TypeVar

import numpy as np

from discreet.ownership import adopt, lock, own

FORMAT = 4
_WRITTEN = {"1": "by discreet 0.2 or earlier"} | dict.fromkeys(
    ("2", "3"), "by a version that was never released"
)
T = TypeVar("T")


def damaged(what: str) -> ValueError:
    """The error for a state that cannot be what was saved."""
    return ValueError(
        f"this state is damaged: {what} is missing or does not fit; load an intact copy"
    )


# -- values: plain trees and back ------------------------------------------------------------------

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
        if other == tag and known.__module__ != cls.__module__ and _ours(known) and _ours(cls):
            raise TypeError(
                f"{known.__module__} already has a {tag}; states refer to classes by name"
            )
    _ENCODERS[cls] = (tag, encode)
    _DECODERS[tag] = decode


def _ours(cls: type) -> bool:
    return cls.__module__.startswith("discreet.")


def value(cls: type[T]) -> type[T]:
    """Mark a frozen dataclass whose instances may stand in states."""
    if not is_dataclass(cls):
        raise TypeError(f"{cls.__name__} must be a dataclass")

    def encode_fields(each: Any) -> dict[str, Any]:
        return {field.name: encode(getattr(each, field.name)) for field in fields(cls)}

    def decode_fields(plain: Any) -> Any:
        return cls(**{field.name: decode(plain[field.name]) for field in fields(cls)})

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
    if isinstance(item, Stateful):
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
    if plain["@"] in _PARTS:
        cls = _PARTS[plain["@"]]
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


# -- live objects ----------------------------------------------------------------------------------

_PARTS: dict[str, type["Stateful"]] = {}


class _Claim:
    """Owns a file while it is loaded or saved."""


class Stateful:
    """A live object that declares its state; see the top of this file.

    `_state` names the attributes that change; among them `_monotone` names counters that never fall
    and `_growing` arrays whose length may differ from a new object's. `_lock` is held by methods
    that read and then change.
    """

    _state: ClassVar[tuple[str, ...]] = ()
    _growing: ClassVar[frozenset[str]] = frozenset()
    _monotone: ClassVar[tuple[str, ...]] = ("rounds",)
    _lock: threading.RLock
    _run: str

    def __init_subclass__(cls, **more: Any) -> None:
        super().__init_subclass__(**more)
        known = _PARTS.get(cls.__name__, cls)
        if known.__module__ != cls.__module__ and _ours(known):
            raise TypeError(
                f"{known.__module__} already has a {cls.__name__}; states refer to classes by name"
            )
        _PARTS[cls.__name__] = cls

    def __new__(cls, *arguments: Any, **more: Any) -> Self:
        """Every live object has a lock and a name of its own."""
        made = super().__new__(cls)
        made.__dict__["_lock"] = threading.RLock()
        made.__dict__["_run"] = secrets.token_hex(8)
        return made

    # -- never two of them -------------------------------------------------------------------------

    def _refuse_copy(self) -> TypeError:
        return TypeError(
            f"a {type(self).__name__} cannot be copied or pickled: two copies would publish the "
            "same noise with different data. Use state_dict() or save(); a state may be resumed "
            "only once"
        )

    def __copy__(self) -> Self:
        raise self._refuse_copy()

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        raise self._refuse_copy()

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise self._refuse_copy()

    # -- changing all or nothing -------------------------------------------------------------------

    def _commit(self, **changes: Any) -> None:
        """Change several attributes in one step: no interrupt can fall between them."""
        self.__dict__.update(changes)

    # -- saving ------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """Plain values and arrays from which `load_state_dict` resumes.

        Keep it as secret as the object itself. A state may be resumed only once: resumed twice, or
        resumed from before something that was published, it uses the same noise again with
        different data, and the difference of the two is exact.
        """
        with self._lock:
            return {
                **header(self),
                "config": self._config(),
                "run": self._run,
                "state": self._encoded(),
            }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Resume from a state of the same configuration that is not older than this object."""
        check_header(state, type(self).__name__)
        if difference := _difference(state.get("config"), self._config()):
            raise ValueError(
                f"this state was saved with other arguments of {type(self).__name__}: "
                f"{difference}; build the object with the arguments that were saved, or use load()"
            )
        if not isinstance(state.get("run"), str):
            raise damaged("run")
        with self._lock:
            resumed = self._decoded(state.get("state"), self)
            if self._begun():
                if state["run"] != self._run:
                    raise ValueError(
                        f"the state is of another {type(self).__name__}; load it into a new one"
                    )
                self._assert_not_older(resumed)
            changes = {name: resumed.__dict__[name] for name in self._state}
            self._commit(_run=state["run"], **changes)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the state to a file that only its owner may read; see `state_dict`.

        Save after deciding and before the decision is shown. A file that another process has
        loaded, and whose object there still lives, is refused (`discreet.ownership`).
        """
        claim = _Claim()
        own(path, claim)
        save_state(path, self.state_dict(), claim)

    @classmethod
    def load(cls, path: str | os.PathLike[str], **given: Any) -> Self:
        """Resume from a file, with the same kind of noise.

        Arguments that no file can hold (a function, an object of a class of your own) are given
        by name, as they were given to the constructor. A file that another process has loaded,
        and whose object there still lives, is refused.
        """
        claim = _Claim()
        own(path, claim)  # before it is read: what is read must be the newest
        loaded = cls._resumed(load_state(path), given)
        own(path, loaded)
        return loaded

    @classmethod
    def _resumed(cls, state: dict[str, Any], given: dict[str, Any]) -> Self:
        """A new object of this class with the saved arguments and state."""
        check_header(state, cls.__name__)
        try:
            saved = {name: each for name, each in state["config"].items() if name not in given}
            arguments = {name: decode(each) for name, each in saved.items()}
        except NotInFile:
            raise
        except (KeyError, TypeError, ValueError, AttributeError):
            raise damaged("config") from None
        loaded = cls(**arguments, **given)
        loaded.load_state_dict(state)
        return loaded

    # -- what a class may refine -------------------------------------------------------------------

    def _config(self) -> dict[str, Any]:
        """The constructor's arguments, each read from the attribute of the same name."""
        names = list(inspect.signature(type(self).__init__).parameters)[1:]
        return {name: encode_argument(getattr(self, name)) for name in names}

    def _begun(self) -> bool:
        """Whether this object has taken in anything that a state could be older than."""
        return bool(getattr(self, "rounds", 0))

    def _assert_not_older(self, resumed: Self) -> None:
        """Refuse a state from before something that this object has taken in or published.

        Counters that never fall (`_monotone`) are compared, here and in all parts: a part may have
        published although the whole has not counted the round yet.
        """
        for name, one, other in _counters(self, resumed):
            if other < one:
                what = "round" if name == "rounds" else name.strip("_")
                raise ValueError(
                    f"the state is older: it is at {what} {other}, this {type(self).__name__} at "
                    f"{one}; publishing that again would spend the budget twice"
                )

    def _validate(self) -> None:
        """Raise `damaged(...)` where resumed attributes do not fit together."""

    # -- encoding ----------------------------------------------------------------------------------

    def _encoded(self) -> dict[str, Any]:
        return {name: encode(getattr(self, name)) for name in self._state}

    @classmethod
    def _decoded(cls, plain: Any, like: Self | None) -> Self:
        """A new object: state from `plain`, everything else from `like`."""
        if not isinstance(plain, dict) or set(plain) != set(cls._state):
            raise damaged(f"the set of parts of {cls.__name__}")
        resumed = cls.__new__(cls)
        own = dict(like.__dict__) if like else {}
        own.pop("_lock", None)
        resumed.__dict__.update(own)
        for name in cls._state:
            before = own.get(name)
            try:
                found = decode(plain[name], before)
            except (KeyError, TypeError, ValueError, AttributeError, IndexError):
                raise damaged(name.strip("_")) from None
            if not _fits(found, before, grows=name in cls._growing):
                raise damaged(name.strip("_"))
            resumed.__dict__[name] = found
        try:
            resumed._validate()
        except (AttributeError, TypeError):  # something else stands where a part should
            raise damaged(f"a part of {cls.__name__}") from None
        return resumed


class NotInFile(ValueError):  # noqa: N818 - it states a fact, the file is not wrong
    """An argument that no file can hold is missing: a function, an object of another's class."""


def encode_argument(item: Any) -> Any:
    """An argument as a plain value; of noise only its kind, of what no file can hold its name."""
    kind = getattr(item, "_config_kind", None)
    if kind is not None:
        return kind()
    if not isinstance(item, Stateful):
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


def _counters(mine: Any, theirs: Any) -> Iterator[tuple[str, int, int]]:
    """Counters of two objects and of their parts, side by side."""
    if isinstance(mine, (tuple, list)) and isinstance(theirs, (tuple, list)):
        for one, other in zip(mine, theirs, strict=False):
            yield from _counters(one, other)
    if isinstance(mine, Stateful) and type(mine) is type(theirs):
        for name in mine._monotone:
            if hasattr(mine, name):
                yield name, getattr(mine, name), getattr(theirs, name)
        for name in mine._state:
            yield from _counters(getattr(mine, name), getattr(theirs, name))


def _fits(found: Any, before: Any, *, grows: bool) -> bool:
    """Whether a decoded attribute can stand where `before` stood in a new object."""
    if isinstance(found, np.ndarray) and found.dtype.kind == "f" and not np.isfinite(found).all():
        return False
    if isinstance(before, np.ndarray):
        return (
            isinstance(found, np.ndarray)
            and found.dtype.kind == before.dtype.kind
            and found.ndim == before.ndim
            and (grows or found.shape == before.shape)
        )
    if isinstance(before, bool) or isinstance(found, bool):
        return before is None or isinstance(found, bool) is isinstance(before, bool)
    if isinstance(before, int):
        return isinstance(found, int)
    if isinstance(before, float):
        return isinstance(found, (int, float)) and found == found
    if isinstance(before, str):
        return isinstance(found, str)
    if isinstance(before, Stateful):
        return found is None or isinstance(found, Stateful)
    return True


def header(item: object) -> dict[str, Any]:
    """The first lines of a state: its format, and which class of which version wrote it."""
    return {"format": FORMAT, "kind": type(item).__name__, "version": _version()}


def check_header(state: dict[str, Any], kind: str) -> None:
    """Refuse a state of another format or of another class."""
    if state.get("format") != FORMAT:
        written = _WRITTEN.get(str(state.get("format")), "in another format")
        raise ValueError(
            f"this state was written {written}; this version reads format {FORMAT}. Resume it with "
            "the version that wrote it, or begin anew: people of the old stream have spent their "
            "budget there"
        )
    if state.get("kind") != kind:
        raise ValueError(f"this is a state of {state.get('kind')!r}, expected {kind!r}")


def _plain(config: Any) -> str:
    return json.dumps(config, sort_keys=True, default=np.ndarray.tolist)


def _difference(saved: Any, own: dict[str, Any]) -> str:
    """The names of arguments that differ: they are public, but may be long. A new one is None."""
    if not isinstance(saved, dict):
        return "no arguments at all"
    names = sorted(set(saved) | set(own))
    return ", ".join(n for n in names if _plain(saved.get(n)) != _plain(own.get(n)))


@functools.cache  # finding it reads a file
def _version() -> str:
    try:
        return version("discreet")
    except PackageNotFoundError:
        return "unknown"


# -- files -----------------------------------------------------------------------------------------


def to_bytes(state: dict[str, Any]) -> bytes:
    """A state dict as bytes: what `save_state` writes."""
    arrays: list[Any] = []
    tree = json.dumps(_without_arrays(state, arrays))
    raw = io.BytesIO()
    np.savez(raw, tree=np.array(tree), **{f"array{i}": each for i, each in enumerate(arrays)})
    return raw.getvalue()


def from_bytes(raw: bytes) -> dict[str, Any]:
    """The state dict that `to_bytes` wrote."""
    return _read(io.BytesIO(raw))


def save_state(
    path: str | os.PathLike[str], state: dict[str, Any], owner: object | None = None
) -> None:
    """Write a state dict; the file appears whole or not at all, readable by its owner only.

    An `owner` owns the new file from the moment it appears, with all who owned the old one.
    """
    target = Path(path)
    content = to_bytes(state)
    # O_EXCL and a name of its own: nobody else's file, link or permissions are reused.
    partial = target.with_name(f"{target.name}.{secrets.token_hex(8)}.partial")
    try:
        handle = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
            lock(file.fileno())
            partial.replace(target)
            if owner is not None:
                adopt(target, owner, os.dup(file.fileno()))
    finally:
        with suppress(FileNotFoundError):
            partial.unlink()
    if hasattr(os, "O_DIRECTORY"):  # not on Windows, where a folder cannot be opened
        folder = os.open(target.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(folder)  # the new name, too, survives a power failure
        finally:
            os.close(folder)


def load_state(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Read what `save_state` wrote."""
    with open(path, "rb") as file:
        return _read(file)


def resumed(state: dict[str, Any], given: dict[str, Any] | None = None) -> Stateful:
    """An object of whatever class a state is of, to look at: nobody may decide or learn with it.

    `given` holds arguments that no file can hold, by name.
    """
    kind = _PARTS.get(str(state.get("kind")))
    if kind is None:
        raise ValueError(f"this state is of a {state.get('kind')!r}, which is not known here")
    return kind._resumed(state, given or {})


def _read(raw: BinaryIO) -> dict[str, Any]:
    try:
        with np.load(raw, allow_pickle=False) as file:
            found = {name: file[name] for name in file.files}
    except Exception:
        raise damaged("the file") from None
    if "tree" not in found:
        if "format" in found:  # 0.2 and earlier: one entry for each value
            check_header({"format": 1}, "")
        raise damaged("the file")
    try:
        state = _with_arrays(json.loads(str(found["tree"])), found)
    except (KeyError, ValueError, TypeError, RecursionError):
        raise damaged("the file") from None
    if not isinstance(state, dict):
        raise damaged("the file")
    return state


def _without_arrays(tree: Any, arrays: list[Any]) -> Any:
    if isinstance(tree, np.generic):
        return tree.item()
    if isinstance(tree, np.ndarray):
        arrays.append(tree)
        return {"@": "array", "of": len(arrays) - 1}
    if isinstance(tree, list):
        return [_without_arrays(each, arrays) for each in tree]
    if isinstance(tree, dict):
        return {name: _without_arrays(each, arrays) for name, each in tree.items()}
    return tree


def _with_arrays(tree: Any, found: dict[str, Any]) -> Any:
    if isinstance(tree, list):
        return [_with_arrays(each, found) for each in tree]
    if isinstance(tree, dict):
        if tree.get("@") == "array":
            return found[f"array{tree['of']}"]
        return {name: _with_arrays(each, found) for name, each in tree.items()}
    return tree
