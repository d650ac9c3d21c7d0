"""The `discreet` command: nothing heavy is loaded until one of its commands is run.

The commands need an extra, `experiments` or `service`; this file does not.
"""

import os
import signal
import sys
import threading
from collections.abc import Sequence
from types import FrameType

# These need the extra `service`, the others `experiments`.
_SERVICE = ("serve", "relay", "keys", "backup", "restore", "witness")
_EXPLAINED = tuple(f"discreet.service.{room}" for room in ("client", "errors", "fence", "vault"))
# Ctrl-C ends these within PATIENCE.
_STOPPED = ("demo", "run", "report", "forecast", "audit", "dossier", "abtest")
_INTERRUPTED = 128 + signal.SIGINT  # exit status
PATIENCE = 1.5  # seconds between Ctrl-C and the end, whatever else is going on


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns 0, or leaves with another exit status."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    before = signal.getsignal(signal.SIGINT)
    in_main_thread = threading.current_thread() is threading.main_thread()
    ours = given[:1] and given[0] in _STOPPED and in_main_thread
    if ours:
        signal.signal(signal.SIGINT, _interrupt)
    try:
        from discreet.cli.app import app

        app(args=given, prog_name="discreet")
    except KeyboardInterrupt:
        sys.exit(_INTERRUPTED)
    except SystemExit as stop:
        if stop.code:
            raise
    except ImportError as error:
        extra = "service" if given and given[0] in _SERVICE else "experiments"
        _stop(1, f"{error}\nTry: pip install 'discreet[{extra}]'")
    except (ValueError, OSError) as error:
        _stop(2, str(error))
    except (MemoryError, OverflowError):
        _stop(
            2,
            "these numbers are too large for this machine; ask for fewer rounds, rows or features",
        )
    except Exception as error:
        if not _is_explained(error):
            raise
        _stop(2, str(error))
    finally:
        if ours:
            signal.signal(signal.SIGINT, before)
    return 0


def _interrupt(number: int, frame: FrameType | None) -> None:
    """On Ctrl-C: stop; what cannot stop is cut off after a moment, and by a second one at once."""
    signal.signal(signal.SIGINT, lambda *_: os._exit(_INTERRUPTED))
    cut_off = threading.Timer(PATIENCE, os._exit, (_INTERRUPTED,))
    cut_off.daemon = True
    cut_off.start()
    raise KeyboardInterrupt


def _is_explained(error: Exception) -> bool:
    """Whether an error of the service says in words what to do; none is loaded to find out."""
    return any(each.__module__ in _EXPLAINED for each in type(error).__mro__)


def _stop(status: int, message: str) -> None:
    print(f"discreet: {message}", file=sys.stderr)
    sys.exit(status)
