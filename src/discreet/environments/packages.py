"""Data sets come with packages that the library itself does not need."""

import importlib
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
        name = module.partition(".")[0]
        raise ImportError(
            f"this needs the package {name}: pip install 'discreet[datasets]'"
        ) from None
