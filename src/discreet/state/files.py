"""State files: written whole or not at all, one process at a time, and marked once they are used.

A file is locked (`flock`) while an object lives that was saved to it or loaded from it: another
process is refused. The system lets go of the lock whenever the process ends, however that happens.

A lock forgets. So the file itself says whose it is and whether its owner has *acted* since it was
written: the mark is on disk before the act. A file without the mark holds the newest state and may
be resumed. With it, something was drawn or shown that the file does not know.
"""

import io
import json
import os
import re
import secrets
import threading
import weakref
import zipfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from discreet.state.values import damaged, with_arrays, without_arrays

try:
    import fcntl
except ImportError:  # Windows has no flock: nothing is locked there
    fcntl = None  # type: ignore[assignment]

FORMAT = 4
_WRITTEN = {"1": "by discreet 0.2 or earlier"} | dict.fromkeys(
    ("2", "3"), "by a version that was never released"
)
_PATH = str | os.PathLike[str]


class StateInUse(ValueError):  # noqa: N818 - it states a fact
    """This state was resumed before, here or by another process."""


# -- one process at a time -------------------------------------------------------------------------


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
_guard = threading.RLock()  # a finaliser may run inside


def _forked() -> None:
    """A child lets go of what its parent owns; the parent's locks stay."""
    global _guard
    _guard = threading.RLock()
    for held in _HELD.values():
        os.close(held.handle)
    _HELD.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)


def own(path: _PATH, owner: object) -> None:
    """Let an object of this process own a state file that exists; `StateInUse` if another does."""
    target = os.path.realpath(path)
    with _guard:
        held = _HELD.get(target)
        if held is None or held.process != os.getpid() or not _is(target, held.handle):
            handle = _locked(target)
            if handle is None:
                return
            adopt(path, owner, handle)
        else:
            _add(target, held, owner)


def adopt(path: _PATH, owner: object, handle: int) -> None:
    """Let an object own a file by a handle that is locked already: of the one just written."""
    target = os.path.realpath(path)
    with _guard:
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
            handle = _opened(target)
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


def _opened(target: str) -> int:
    try:
        return os.open(target, os.O_RDWR | os.O_CLOEXEC)  # to mark it, wherever it is moved
    except PermissionError:
        return os.open(target, os.O_RDONLY | os.O_CLOEXEC)


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
    with _guard:
        held = _HELD.get(target)
        if held is None or held.process != process or process != os.getpid():
            return
        held.owners.discard(owner)
        if not held.owners:
            del _HELD[target]
            os.close(held.handle)


# -- whose it is, and whether it is still the newest state ----------------------------------------

_CLAIM = re.compile(rb"discreet run=(\S{16}) owner=(\S{16}) generation=(\d{12}) acted=([012])\Z")
_LENGTH = len("discreet run= owner= generation= acted=0") + 44


@dataclass(frozen=True)
class Claim:
    """The last bytes of a state file (the comment of the archive): they can be changed in place.

    run          of the object whose state it is
    owner        random: who saved or loaded the file last
    generation   how often the object was saved before
    acted        1 if the owner has acted since: then the state is older than its object;
                 2 if the object was saved under another name
    """

    run: str
    owner: str
    generation: int
    acted: int = 0

    def to_bytes(self) -> bytes:
        number = f"generation={self.generation:012d} acted={self.acted}"
        return f"discreet run={self.run} owner={self.owner} {number}".encode()


@dataclass(frozen=True)
class ClaimedFile:
    """A file that an object was saved to or loaded from.

    path    of the file
    claim   what the object wrote into it
    """

    path: str
    claim: Claim

    @classmethod
    def taken(cls, path: _PATH, claim: Claim) -> "ClaimedFile":
        """Take over a file that is locked: from now on it names another owner."""
        mine = replace(claim, owner=secrets.token_hex(8))
        held = cls(os.path.realpath(path), mine)
        held._write(mine)
        return held

    def mark(self, acted: int = 1) -> None:
        """Say in the file, and on the disk, that its owner goes on, wherever it was moved."""
        with _guard:
            held = _HELD.get(self.path)
            found = _claim_in(held.handle) if held is not None else read_claim(self.path)
        if found is None or found.run != self.claim.run:
            return  # another object's: this state is there no more
        if found.owner != self.claim.owner:
            raise StateInUse(
                f"{self.path} was resumed elsewhere: this copy may not act any more, because both "
                "would publish the same noise with different data. Load the file again"
            )
        if found.acted < acted:
            self._write(replace(found, acted=acted))

    def _write(self, claim: Claim) -> None:
        with _guard:
            held = _HELD.get(self.path)
            handle = os.dup(held.handle) if held is not None else os.open(self.path, os.O_RDWR)
        try:
            os.pwrite(handle, claim.to_bytes(), os.fstat(handle).st_size - _LENGTH)
            os.fsync(handle)
        finally:
            os.close(handle)


def read_claim(path: _PATH) -> Claim | None:
    """Whose file this is; None if there is none, or one that nobody can own (a fitted model)."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        return _claim_in(handle)
    finally:
        os.close(handle)


def _claim_in(handle: int) -> Claim | None:
    start = max(0, os.fstat(handle).st_size - _LENGTH)
    found = _CLAIM.search(os.pread(handle, _LENGTH, start))
    if found is None:
        return None
    run, owner, generation, acted = found.groups()
    return Claim(run.decode(), owner.decode(), int(generation), int(acted))


# -- reading and writing ---------------------------------------------------------------------------


def check_header(state: dict[str, Any], kind: str) -> None:
    """Refuse a state of another format or of another class."""
    if state.get("format") != FORMAT:
        written = _WRITTEN.get(str(state.get("format")), "in another format")
        raise ValueError(
            f"this state was written {written}; this version reads format {FORMAT}. Resume it with "
            "the version that wrote it, or begin anew: people of the old stream have spent their "
            "budget there"
        )
    if state.get("kind") != kind:
        raise ValueError(f"this is a state of {state.get('kind')!r}, expected {kind!r}")


def to_bytes(state: dict[str, Any], claim: Claim | None = None) -> bytes:
    """A state dict as bytes: what `save_state` writes."""
    arrays: list[Any] = []
    tree = json.dumps(without_arrays(state, arrays))
    raw = io.BytesIO()
    np.savez(raw, tree=np.array(tree), **{f"array{i}": each for i, each in enumerate(arrays)})
    if claim is not None:
        with zipfile.ZipFile(raw, "a") as archive:
            archive.comment = claim.to_bytes()
    return raw.getvalue()


def from_bytes(raw: bytes) -> dict[str, Any]:
    """The state dict that `to_bytes` wrote."""
    return _read(io.BytesIO(raw))


def save_state(
    path: _PATH,
    state: dict[str, Any],
    owner: object | None = None,
    generation: int = 0,
    before: Callable[[Claim | None], None] = lambda claim: None,
) -> Claim | None:
    """Write a state dict; the file appears whole or not at all, readable by its owner only.

    An `owner` owns the new file from the moment it appears, with all who owned the old one. A state
    of a live object is claimed: the file's claim is returned. `before` is told of it when all is
    written, before the file appears.
    """
    claim = None
    if "run" in state:
        if len(state["run"]) != 16:
            raise damaged("run")
        claim = Claim(state["run"], secrets.token_hex(8), generation)
    target = Path(os.path.realpath(path))  # a link stays one
    content = to_bytes(state, claim)
    # O_EXCL and a name of its own: nobody else's file, link or permissions are reused.
    partial = target.with_name(f"{target.name}.{secrets.token_hex(8)}.partial")
    try:
        handle = os.open(partial, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
            lock(file.fileno())
            before(claim)
            partial.replace(target)
            if owner is not None:
                adopt(target, owner, os.dup(file.fileno()))
    finally:
        with suppress(FileNotFoundError):
            partial.unlink()
    if hasattr(os, "O_DIRECTORY"):  # not on Windows, where a folder cannot be opened
        folder = os.open(target.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(folder)  # the new name, too, survives a power failure
        finally:
            os.close(folder)
    return claim


def load_state(path: _PATH) -> dict[str, Any]:
    """Read what `save_state` wrote."""
    with open(path, "rb") as file:
        return _read(file)


def _read(raw: BinaryIO) -> dict[str, Any]:
    try:
        with np.load(raw, allow_pickle=False) as file:
            found = {name: file[name] for name in file.files}
    except Exception:
        raise damaged("the file") from None
    if "tree" not in found:
        if "format" in found:  # 0.2 and earlier: one entry for each value
            check_header({"format": 1}, "")
        raise damaged("the file")
    try:
        state = with_arrays(json.loads(str(found["tree"])), found)
    except (KeyError, ValueError, TypeError, RecursionError):
        raise damaged("the file") from None
    if not isinstance(state, dict):
        raise damaged("the file")
    return state
