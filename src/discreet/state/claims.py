"""One copy that may act: `Live` guards an object, and a process knows which copy of it is current.

Noise that was drawn once must not meet two different data sets: the difference of what is shown
then is exact. So there is never a second live copy. `with self._live` refuses

    another process     after a fork the parent goes on, the child is refused
    a nested call       of a signal handler, a finaliser or a callback, inside a call of its own
    a retired object    whose state was resumed by another one
    an object to look at (`discreet.saved.read_saved`)

A state can be resumed once, and not after the object that it was taken from has acted again.
"""

import os
import sys
import threading
import weakref
from _thread import RLock
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from discreet.state.files import ClaimedFile, StateInUse
from discreet.state.values import Part, fingerprint

BOTH = "both would publish the same noise with different data"
FORKED = (
    f"this object belongs to the process that this one was forked from, which goes on: {BOTH}. "
    "Make a new one here, or give this process its own from the start (multiprocessing.get_context"
    "('spawn'))"
)
NESTED = (
    "this object is in the middle of another call (a signal handler, a finaliser or a callback "
    "called it again): nothing was changed. Remember the call, and make it when the other is done"
)
RESUMED = (
    f"the state of this object was resumed by another one, which goes on: {BOTH}. Use that one"
)
OLDER = (
    f"this state is older than the object that it was taken from, which has gone on since: {BOTH}. "
    "Use that one, or a new state of it"
)
ALREADY = (
    "this state was resumed in this process, and the object that was made then lives: "
    f"{BOTH}. Go on with that one"
)
TO_LOOK_AT = f"this object was read from a file to look at it: {BOTH}. To go on, use load()"


class SecondCopy(RuntimeError):  # noqa: N818 - it states a fact
    """This object may not act: another copy of it may, or it is in the middle of a call."""


_here = object()  # this process


def _forked() -> None:
    global _here, _guard
    _here = object()
    _guard = threading.RLock()  # a thread that held it is not here


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)


class Live(RLock):  # type: ignore[misc]  # C's: entering and leaving it costs next to nothing
    """`with live:` one thread at a time may act, in the process where the object was made.

    Most acts find `permit` as they left it. Whatever takes it away (a state that was taken, a file
    that must be marked, another owner) makes the next act look closer.
    """

    permit: object  # the process, while nothing stands in the way
    process: object  # where the object was made
    begun: bool  # whether it has ever acted
    known: bool  # whether a copy before it has, in this process
    generation: int  # of the file that holds its last state
    refusal: str  # why it may not act, for good; "": it may
    last: bytes  # the state that was last taken from it, or that it resumed
    handed_out: bool  # whether that state was taken from it
    file: ClaimedFile | None  # that holds it
    of: Any  # the object, by a weak reference
    _is_owned: Callable[[], bool]  # of RLock: whether this thread holds it

    def __init__(self) -> None:
        self.permit = None  # the first act, too, looks closer
        self.process = _here
        self.begun = False
        self.known = False
        self.generation = 0
        self.refusal = ""
        self.last = b""
        self.handed_out = False
        self.file = None
        self.of = lambda: None

    def __enter__(self) -> bool:  # type: ignore[override]
        if self.permit is not _here:
            self._assert_may_act()  # before the lock: in a fork nobody may be left to release it
        if self._is_owned():
            self._assert_not_nested()
        try:
            self.acquire()
            if self.permit is not _here:
                self._renew()
            return True
        except BaseException:
            if self._is_owned():
                self.release()
            raise

    @contextmanager
    def looking(self) -> Iterator[None]:
        """Hold the lock to take a state: that is no act."""
        self._assert_may_act()
        if self._is_owned():
            self._assert_not_nested()
        try:
            self.acquire()
            self._assert_may_act()
            yield
        finally:
            if self._is_owned():
                self.release()

    @contextmanager
    def retiring(self) -> Iterator[None]:
        """Hold the lock to let another copy take its place: nobody may be in the middle of it."""
        if self.process is not _here:
            raise StateInUse(FORKED)
        if self._is_owned():
            self._assert_not_nested(entering=0)
        self.acquire()
        try:
            yield
        finally:
            self.release()

    @property
    def has_acted(self) -> bool:
        """Whether it has since its state was last taken, or since it was resumed."""
        return self.permit is self.process

    def _assert_not_nested(self, entering: int = 1) -> None:
        """Refuse inside a call that holds this lock, beside the one that is entering.

        One that was cut off may have left it behind: a debugger can raise between the end of a
        `with` block and its exit.
        """
        frame: FrameType | None = sys._getframe(1)
        calls = 0
        while frame is not None:
            if "_live" in frame.f_code.co_names:
                calls += getattr(frame.f_locals.get("self"), "_live", None) is self
            frame = frame.f_back
        if calls > entering:
            raise SecondCopy(NESTED)
        while self._is_owned():
            self.release()

    def _assert_may_act(self) -> None:
        if self.process is not _here:
            raise SecondCopy(FORKED)
        if self.refusal:
            raise SecondCopy(self.refusal)

    def _renew(self) -> None:
        self._assert_may_act()
        if self.file is not None:
            self.file.mark()  # on disk before anything is drawn, added or shown
        self.begun = True
        self.permit = _here


_CURRENT: dict[str, Live] = {}  # by run: the copy that may act in this process, or the last one
_guard = threading.RLock()  # a finaliser may run inside


def taken(item: Part, state: Any) -> None:
    """A state was taken: whoever resumes it takes the object's place, unless that acts before."""
    with _guard:
        live = item._live
        live.last = fingerprint(state)
        live.handed_out = True
        live.permit = None
        live.of = weakref.ref(item)
        _CURRENT[item._run] = live


def resume(run: str, state: Any, heir: Part, generation: int = 0) -> None:
    """Let an object go on from a state, or raise `StateInUse`; the copy before it retires.

    `generation` is that of the file that holds the state, if it is in one.
    """
    name = fingerprint(state)
    live = heir._live
    before = _CURRENT.get(run)
    if before is not None and before.process is not _here and generation:
        before = None  # its process has let go of the file
    if before is live:
        if fingerprint(heir._encoded()) != name:
            raise StateInUse(OLDER)
        return
    if before is None:
        _follow(run, live, heir, name)
        return
    with before.retiring():
        _assert_ends_here(before, name, generation)
        _follow(run, live, heir, name, before)


def _follow(run: str, live: Live, heir: Part, name: bytes, before: Live | None = None) -> None:
    with _guard:
        if before is not None and _CURRENT.get(run) is not before:
            raise StateInUse(ALREADY)  # another thread was faster
        if before is None and getattr(_CURRENT.get(run), "process", None) is _here:
            raise StateInUse(ALREADY)
        if before is not None:
            live.file = before.file  # what was its file is its heir's
            live.generation = before.generation
            live.known = before.begun or before.known
            refuse(before.of(), RESUMED)
        live.last = name
        live.handed_out = False
        live.permit = None
        live.of = weakref.ref(heir)
        _CURRENT[run] = live


def _assert_ends_here(before: Live, name: bytes, generation: int) -> None:
    """Refuse a state that is not the last one of the copy before."""
    item = before.of()
    if item is None:
        is_last = before.last == name and not before.has_acted
        if (before.begun or before.known) and not (is_last or generation > before.generation):
            raise StateInUse(OLDER)
    elif not before.handed_out:
        raise StateInUse(ALREADY)
    elif fingerprint(item._encoded()) != name:
        raise StateInUse(OLDER)


def take_over(run: str, heir: Part) -> None:
    """Let an object stand for a run whose state is older than it, unless one of it lives here."""
    with _guard:
        before = _CURRENT.get(run)
        if before is not None and before.of() is not None:
            raise StateInUse(OLDER)
        heir._live.of = weakref.ref(heir)
        _CURRENT[run] = heir._live


def refuse(item: Any, why: str) -> None:
    """Let a live object and all its parts act no more."""
    if isinstance(item, Part):
        item._live.refusal = why
        item._live.permit = None
        for name in item._state:
            refuse(getattr(item, name, None), why)
    elif isinstance(item, (tuple, list)):
        for each in item:
            refuse(each, why)
    elif isinstance(item, dict):
        for each in item.values():
            refuse(each, why)
