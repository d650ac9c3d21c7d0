"""The `discreet` command. Its commands need the `experiments` extra; this file does not."""

import sys
from collections.abc import Sequence

_MANY = "--epsilon"  # takes all numbers that follow it


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns 0, or leaves with another exit status."""
    try:
        from discreet.reproduce.command import app

        app(args=_spread(sys.argv[1:] if arguments is None else arguments), prog_name="discreet")
    except SystemExit as stop:
        if stop.code:
            raise
    except ImportError as error:
        _stop(1, f"{error}\nTry: pip install 'discreet[experiments]'")
    except (ValueError, OSError) as error:
        _stop(2, str(error))
    return 0


def _spread(arguments: Sequence[str]) -> list[str]:
    """One option for each number: the parser knows no option with many values.

    >>> _spread(["plan", "--epsilon", "0.5", "2", "--dim", "3"])
    ['plan', '--epsilon', '0.5', '--epsilon', '2', '--dim', '3']
    """
    spread: list[str] = []
    inside = False
    for argument in arguments:
        if inside and spread[-1] != _MANY and _is_number(argument):
            spread.append(_MANY)
        elif not _is_number(argument):
            inside = argument == _MANY
        spread.append(argument)
    return spread


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _stop(status: int, message: str) -> None:
    print(f"discreet: {message}", file=sys.stderr)
    sys.exit(status)
