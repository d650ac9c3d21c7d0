"""What a class says about the arguments it is made with."""

import dataclasses
import importlib
import inspect
import pkgutil
import re

import pytest

import discreet

EXPORTS_ONLY = ("audit", "bandits", "service")  # inner classes of these rooms are not met by users


def public_classes():
    """Every class of the package with a public name; of some rooms those that they export."""
    found = set()
    for module in pkgutil.walk_packages(discreet.__path__, "discreet."):
        room = importlib.import_module(module.name)
        inner = module.name.split(".")[1] in EXPORTS_ONLY
        exported = getattr(room, "__all__", ()) if module.ispkg else ()
        for kind in (getattr(room, name) for name in (exported if inner else vars(room))):
            if inspect.isclass(kind) and not issubclass(kind, BaseException):
                here = kind.__module__ == module.name and not kind.__name__.startswith("_")
                found |= {kind} if here or inner else set()
    return sorted(found, key=lambda kind: (kind.__module__, kind.__name__))


def undocumented(kind):
    """Constructor parameters without a line of their own: "name   what it is".

    Several names may stand on one line ("low, high   ..."). The fields of a data class may have a
    comment instead, behind the field, and inherited fields speak for themselves.
    """
    parameters = inspect.signature(kind).parameters.values()
    variadic = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    asked = {each.name for each in parameters if each.kind not in variadic}
    told = set()
    for each in kind.__mro__ if dataclasses.is_dataclass(kind) else (kind,):
        lines = re.findall(r"^ *((?:\w+, )*\w+)  +\S", inspect.cleandoc(each.__doc__ or ""), re.M)
        told |= {name for line in lines for name in line.split(", ")}
        if inspect.get_annotations(each):
            told |= set(re.findall(r"^    (\w+): .*  # \S", inspect.getsource(each), re.M))
    return sorted(asked - told)


@pytest.mark.parametrize("kind", public_classes(), ids=lambda kind: kind.__qualname__)
def test_docstring__names_every_constructor_parameter(kind):
    assert undocumented(kind) == []


def test_undocumented__sees_a_parameter_that_is_only_mentioned():
    class Ball:
        """A ball of some radius.

        centre, colour   as usual
        """

        def __init__(self, centre, colour, radius):
            pass

    assert undocumented(Ball) == ["radius"]
