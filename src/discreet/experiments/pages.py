"""Pages that need nothing from outside: escaped templates, with style and pictures inside."""

import platform
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined

from discreet import words

_PACKAGES = ("discreet", "numpy", "scipy", "pandas", "pyarrow", "matplotlib", "dp-accounting")
_FILTERS = (
    words.number,
    words.rough,
    words.fixed,
    words.percent,
    words.plus_minus,
    words.budget,
    words.observer,
    words.listed,
)


def render(template: str, *, package: str = "discreet.experiments", **values: Any) -> str:
    """A template of a package with these values; a name that it lacks is an error."""
    return _environment(package).get_template(template).render(values)


@cache
def _environment(package: str) -> Environment:
    """Templates of a package, which may extend those of this one."""
    loaders = [PackageLoader(each) for each in dict.fromkeys((package, "discreet.experiments"))]
    made = Environment(
        loader=ChoiceLoader(loaders),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {each.__name__: each for each in _FILTERS}
    made.globals |= {"versions": versions, "count": words.count}
    return made


def versions() -> list[tuple[str, str]]:
    """What a page was made with."""
    return [
        ("Python", platform.python_version()),
        *((name, _version(name)) for name in _PACKAGES),
        ("machine", f"{platform.system()} {platform.machine()}"),
    ]


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "-"
