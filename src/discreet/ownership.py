"""One process at a time on a state file: it is locked while an object lives that came from it.

Two processes that resume the same state publish the same noise with different data. Whoever loads a
state file owns it, until the object is gone or its process has ended; another process that loads or
saves it is refused. The lock is an advisory one (`flock`) on the file itself; the system lets go
of it whenever the process ends, however that happens.
"""

import os
import threading
import weakref
from dataclasses import dataclass, field

try:
    import fcntl
except ImportError:  # Windows has no flock: nothing is locked there
    fcntl = None  # type: ignore[assignment]


class StateInUse(ValueError):  # noqa: N818 - it states a fact
    """Another process owns this state file."""


@dataclass
class _Held:
    """A lock on a state file that this process has.

    handle    of the locked file
    process   a fork does not own what its parent owns
    owners    ids of the objects that share it
    """

    handle: int
    process: int
    owners: set[int] = field(default_factory=set)


_HELD: dict[str, _Held] = {}
_GUARD = threading.RLock()  # a finaliser may run inside


def own(path: str | os.PathLike[str], owner: object) -> None:
    """Let an object of this process own a state file that exists; `StateInUse` if another does.

    Objects of one process may own it together.
    """
    target = os.path.realpath(path)
    with _GUARD:
        held = _HELD.get(target)
        if held is None or held.process != os.getpid() or not _is(target, held.handle):
            handle = _locked(target)
            if handle is None:
                return
            adopt(path, owner, handle)
        else:
            _add(target, held, owner)


def adopt(path: str | os.PathLike[str], owner: object, handle: int) -> None:
    """Let an object own a file by a handle that is locked already: of the one just written."""
    target = os.path.realpath(path)
    with _GUARD:
        before = _HELD.pop(target, None)
        held = _HELD[target] = _Held(handle, os.getpid())
        if before is not None and before.process == os.getpid():
            held.owners |= before.owners
            os.close(before.handle)
        _add(target, held, owner)


def lock(handle: int) -> bool:
    """Lock an open file; False if another process has, True also where there are no locks."""
    if fcntl is None:
        return True
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # a file system without locks
        return True
    return True


def _locked(target: str) -> int | None:
    """A handle that holds the lock of the file of this name; None if there is no such file."""
    while True:
        try:
            handle = os.open(target, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return None
        if not lock(handle):
            owner = _owner(handle)
            os.close(handle)
            raise StateInUse(
                f"{target} is in use by {owner}. A state may be resumed only once: two "
                "processes would publish the same noise with different data. Let that process end "
                "first"
            )
        if _is(target, handle):
            return handle
        os.close(handle)  # it was replaced meanwhile: take the new one


def _owner(handle: int) -> str:
    """Who holds the lock of a file, where the system tells (Linux, on this machine)."""
    inode = str(os.fstat(handle).st_ino)
    try:
        with open("/proc/locks", encoding="ascii") as lines:
            for line in lines:
                words = line.split()  # 1: FLOCK ADVISORY WRITE 4711 08:01:131 0 EOF
                if "FLOCK" in words and words[5].rpartition(":")[2] == inode:
                    return f"process {words[4]}"
    except (OSError, IndexError):
        pass
    return "another process"


def _is(target: str, handle: int) -> bool:
    try:
        return os.path.samestat(os.stat(target), os.fstat(handle))
    except FileNotFoundError:
        return False


def _add(target: str, held: _Held, owner: object) -> None:
    if id(owner) not in held.owners:
        held.owners.add(id(owner))
        weakref.finalize(owner, _let_go, target, id(owner), held.process)


def _let_go(target: str, owner: int, process: int) -> None:
    """An owner is gone; with the last one the lock is."""
    with _GUARD:
        held = _HELD.get(target)
        if held is None or held.process != process or process != os.getpid():
            return
        held.owners.discard(owner)
        if not held.owners:
            del _HELD[target]
            os.close(held.handle)
