"""Sets that stand in a saved configuration: the name of their class and its arguments."""

import inspect
from typing import Any, ClassVar

from discreet.state import NotInFile, decode, encode_argument, register


class Described:
    """An immutable object that its constructor's arguments describe.

    Each argument is an attribute of the same name, as everywhere in this package. Subclasses can be
    saved and made again without doing anything for it; an argument that is a function is saved by
    name only, and `load` then asks for the whole object.
    """

    _kinds: ClassVar[dict[str, type["Described"]]] = {}

    def __init_subclass__(cls, **more: Any) -> None:
        super().__init_subclass__(**more)
        cls._kinds[_kind(cls)] = cls

    def arguments(self) -> dict[str, Any]:
        """The constructor's arguments, by name."""
        found = inspect.signature(type(self)).parameters.values()
        names = [
            each.name for each in found if each.kind not in (each.VAR_POSITIONAL, each.VAR_KEYWORD)
        ]
        missing = [name for name in names if not hasattr(self, name)]
        if missing:  # saved by name only
            raise TypeError(f"{type(self).__name__} does not keep its argument {missing[0]!r}")
        return {name: getattr(self, name) for name in names}


def _kind(cls: type[Described]) -> str:
    """The name in a file: a class of somebody else never passes for one of ours."""
    own = cls.__module__.startswith("discreet.")
    return cls.__name__ if own else f"{cls.__module__}.{cls.__qualname__}"


def _encode(item: Described) -> dict[str, Any]:
    arguments = {name: encode_argument(each) for name, each in item.arguments().items()}
    return {"kind": _kind(type(item)), "arguments": arguments}


def _decode(plain: dict[str, Any]) -> Described:
    kind = plain["kind"]
    if kind not in Described._kinds:
        raise NotInFile(
            f"{kind} is not known here; import the module that defines it, or give that argument "
            "to load() by name"
        )
    arguments = {name: decode(each) for name, each in plain["arguments"].items()}
    return Described._kinds[kind](**arguments)


register(Described, _encode, _decode)
