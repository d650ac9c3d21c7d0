"""What the server says of itself: one line for each event, JSON in files and text on a terminal.

A line has a time, a level and what happened, in words of ours. Never a value that was sent: no
path, query, name of a key or address, no text of an error (it may quote a request); a route is a
pattern of the table of calls.
"""

import asyncio
import atexit
import logging
import sys
import threading
import time
import traceback
from functools import lru_cache
from pathlib import Path
from typing import TextIO

import msgspec

LOG = logging.getLogger("discreet")
LATER = 0.1  # seconds that lines of requests wait for others
_ROOT = str(Path(__file__).parents[2])


def begin(out: TextIO = sys.stderr) -> None:
    """Write to `out` from now on, and nowhere else."""
    handler = logging.StreamHandler(out)
    handler.setFormatter(_Text() if out.isatty() else _Json())
    logging.basicConfig(level=logging.INFO, handlers=[handler], force=True)
    _requests.out = None if out.isatty() else out


def record(level: int, message: str, **fields: object) -> None:
    """The one function that logs: what happened, and numbers or names of ours beside it."""
    if LOG.isEnabledFor(level):
        _requests.flush()
        LOG.log(level, message, extra={"fields": fields})


class _Line(msgspec.Struct, omit_defaults=True):
    """The line of a request that was answered."""

    time: str  # of the answer, in UTC
    level: str  # as `record` writes it
    message: str  # that it is a request
    request: str  # a random id
    method: str  # of HTTP
    route: str  # a pattern of ours
    status: int  # of the answer
    ms: float  # until then
    problem: str | None = None  # of a refusal: its kind
    times: int | None = None  # that such refusals came


def request(
    name: str, method: str, route: str, status: int, ms: float, problem: str | None, times: int = 1
) -> None:
    """The line of a request, the same as `record` makes; it costs a tenth and waits a moment.

    `times` requests that were refused have one line.
    """
    count = None if problem is None else times
    if status < 500 and _requests.out is not None:
        given = name, method, route, status, ms, problem, count
        _requests.put(_Line(_at(time.time()), "info", "request", *given))
        return
    level = logging.ERROR if status >= 500 else logging.INFO
    fields = {"request": name, "method": method, "route": route, "status": status, "ms": ms}
    why = {} if problem is None else {"problem": problem, "times": count}
    record(level, "request", **fields, **why)


class _Requests:
    """Lines that are not written yet: a write for each would cost as much as deciding."""

    out: TextIO | None = None

    def __init__(self) -> None:
        self._waiting: list[_Line] = []
        self._lock = threading.Lock()
        self._encode = msgspec.json.Encoder().encode_lines

    def put(self, line: _Line) -> None:
        with self._lock:
            if not self._waiting:
                asyncio.get_running_loop().call_later(LATER, self.flush)
            self._waiting.append(line)

    def flush(self) -> None:
        with self._lock:
            if self.out is not None and self._waiting:
                self.out.write(self._encode(self._waiting).decode())
                self.out.flush()
            self._waiting.clear()


_requests = _Requests()
atexit.register(_requests.flush)


def _at(seconds: float) -> str:
    return f"{_second(int(seconds))}.{int(seconds % 1 * 1000):03d}Z"


@lru_cache(maxsize=2)
def _second(at: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(at))


def unexpected(error: BaseException, where: str) -> None:
    """An error of ours: its kind and its place in the code; its text may quote what was sent."""
    frames = traceback.extract_tb(error.__traceback__)
    places = [f"{f.filename.removeprefix(_ROOT)[1:]}:{f.lineno} {f.name}" for f in frames[-5:]]
    record(logging.ERROR, f"unexpected {type(error).__name__} in {where}", at=places[::-1])


def _fields(record: logging.LogRecord) -> dict[str, object]:
    found: dict[str, object] = getattr(record, "fields", {})
    return found


def _message(record: logging.LogRecord) -> str:
    """Words of ours; what others say may quote a request."""
    if record.name == LOG.name:
        return record.getMessage()
    return str(record.msg) if record.name.startswith("uvicorn") else f"{record.name} said something"


class _Json(logging.Formatter):
    """One object in a line."""

    def format(self, record: logging.LogRecord) -> str:
        level, message = record.levelname.lower(), _message(record)
        line = {"time": _at(record.created), "level": level, "message": message}
        return msgspec.json.encode(line | _fields(record)).decode()


class _Text(logging.Formatter):
    """For people: an hour, a level, words."""

    def format(self, record: logging.LogRecord) -> str:
        at = time.strftime("%H:%M:%S", time.localtime(record.created))
        more = " ".join(f"{name}={each}" for name, each in _fields(record).items())
        return f"{at} {record.levelname.lower():<7} {_message(record)} {more}".rstrip()
