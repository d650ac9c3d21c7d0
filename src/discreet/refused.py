"""Tasks on blocks of rows that never raise: a worker's log would hold the error, and the block."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import Any


@dataclass(frozen=True)
class Refused:
    """Why a block was refused; no word of what is in it."""

    message: str  # what was expected, without data


def prepared(prepare: Callable[..., Any], *block: Any) -> Any:
    """A block's rows and labels; `Refused` in the words of our own checks, which quote nothing."""
    try:
        return prepare(*block)
    except ValueError as error:
        if type(error) is not ValueError:  # Arrow's, or of text that is no UTF-8: they quote
            raise
        return Refused(str(error))


def total(why: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """A task that never raises: it returns the `Refused` it was given, or the kind of an error.

    Whoever runs tasks would write the error, which may quote data, to a worker's log; the driver
    raises instead.
    """

    def decorate(task: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(task)
        def total(*arguments: Any) -> Any:
            for argument in arguments:
                if isinstance(argument, Refused):
                    return argument
            try:
                return task(*arguments)
            except Exception as error:
                return Refused(f"{why}: {type(error).__name__}")

        return total

    return decorate


@total("a block of rows could not be encoded")
def encoded(encode: Callable[[Any], Any], block: Any) -> Any:
    """A block in the columns that an encoder makes, or `Refused`: a task of dask."""
    return prepared(encode, block)
