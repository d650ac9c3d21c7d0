"""What is public is explained, and so is what a class is made with."""

import dataclasses
import importlib
import inspect
import pkgutil
import re

import pytest

import discreet
from docs._site import reference


def public():
    """What has a page in the reference."""
    rooms = ((importlib.import_module(room), reference.public(room)) for room in reference.rooms())
    named = [getattr(room, name) for room, names in rooms for name in names]
    return sorted({each for each in named if inspect.isclass(each) or inspect.isfunction(each)},
                  key=place)  # fmt: skip


def classes():
    """Public ones, and every class that lists its fields."""
    found = set(filter(inspect.isclass, public()))
    for module in pkgutil.walk_packages(discreet.__path__, "discreet."):
        room = importlib.import_module(module.name)
        here = {kind for kind in vars(room).values() if inspect.isclass(kind)}
        found |= {kind for kind in here if kind.__module__ == room.__name__ and has_fields(kind)}
    return sorted(filter(is_made, found), key=place)


def place(kind):
    return kind.__module__, kind.__name__


def is_made(kind):
    """Whether somebody calls the class: not an exception of a message alone, nor a private base.

    A private base of other classes is explained where these explain their own parameters.
    """
    made_by = next(each for each in kind.__mro__ if "__init__" in vars(each))
    ours = has_fields(kind) or made_by.__module__.startswith("discreet.")
    return ours and not (kind.__name__.startswith("_") and kind.__subclasses__())


def has_fields(kind):
    """Whether the constructor takes the fields that the class and its bases list."""
    listed = dataclasses.is_dataclass(kind) or hasattr(kind, "__struct_fields__")
    return listed or hasattr(kind, "_fields")


def undocumented(kind):
    """Constructor parameters without a line of their own: "name   what it is".

    Several names may stand on one line ("low, high   ..."). A field may have a comment instead,
    behind it, or a description in its type; inherited fields are explained where they are declared.
    """
    parameters = inspect.signature(kind).parameters.values()
    variadic = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    asked = {each.name for each in parameters if each.kind not in variadic}
    told = set()
    for each in kind.__mro__ if has_fields(kind) else (kind,):
        lines = re.findall(r"^ *((?:\w+, )*\w+)  +\S", inspect.cleandoc(each.__doc__ or ""), re.M)
        told |= {name for line in lines for name in line.split(", ")}
        fields = inspect.get_annotations(each)
        told |= {name for name, type_ in fields.items() if described(type_)}
        if fields:
            told |= set(re.findall(r"^    (\w+): .*  # \S", inspect.getsource(each), re.M))
    return sorted(asked - told)


def described(type_):
    """Whether a field's type says what it is: Annotated[int, Meta(description=...)]."""
    return any(getattr(each, "description", None) for each in getattr(type_, "__metadata__", ()))


def silent(kind):
    """The public methods and properties of a class of ours that nobody explains."""
    members = inspect.classify_class_attrs(kind)
    asked = [each for each in members if each.kind != "data" and not each.name.startswith("_")]
    ours = [each.name for each in asked if each.defining_class.__module__.startswith("discreet.")]
    return sorted(name for name in ours if not inspect.getdoc(getattr(kind, name)))


@pytest.mark.parametrize("item", public(), ids=lambda item: item.__qualname__)
def test_docstring__stands_at_what_is_public(item):
    assert inspect.getdoc(item)
    assert not inspect.isclass(item) or silent(item) == []


@pytest.mark.parametrize("kind", classes(), ids=lambda kind: kind.__qualname__)
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


@dataclasses.dataclass
class Shape:
    """A shape."""

    colour: str  # as usual


@dataclasses.dataclass
class _Ball(Shape):
    """A ball."""

    radius: float = 1.0


def test_undocumented__looks_at_inner_classes_and_at_fields():
    assert undocumented(_Ball) == ["radius"]
    names = {kind.__name__ for kind in classes()}
    assert {"PrefixSum", "Problem", "Definition"} <= names
    assert "TreeSum" not in names  # it has no page, and no list of fields
