"""The secrets folder: what must not lie in the database.

    master.key       32 random bytes; all other keys but those of windows derive from it
    fence.log        what must never be forgotten (fence.py)
    windows/         for each bandit the key of its open noisy sum, new at every commit
    reports/         for each policy of local trust the key that reports are sealed to

The difference of two versions of a noisy sum is exact, and databases keep old versions for long
(write-ahead logs, free pages, backups). So every version is sealed under a key of its own, and only
the last keys exist: the one in use, and those of commits whose outcome is not known yet. A writer
destroys keys of versions before the one it read, and nothing else: one that has lost its row lock
without knowing (it was paused, or its connection broke) cannot destroy a key that is in use.

A key says nothing about what it will seal, so that of the next version is written while the disk is
busy with this one: a commit waits for one sync, not for two.
"""

import errno
import fcntl
import hashlib
import os
import secrets
import struct
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from pathlib import Path

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from discreet.service.sealing import new_secret

_SLOT = struct.Struct("<Q8s32s16s")  # sequence, name, key, checksum
_SLOTS = 8  # in a file: three, and more only after commits that failed
NAME_BYTES = 8  # of a key
PATIENCE = 10.0  # seconds to wait for a file that another replica holds


class MissingSecret(RuntimeError):  # noqa: N818 - it states a fact
    """The secrets folder lacks what the database needs: it is another one, or was not restored."""


class WrongFolder(ValueError):  # noqa: N818 - it states a fact
    """The secrets of a store that is in use are not there."""

    def __init__(self, folder: Path) -> None:
        super().__init__(
            f"{folder} is not the secrets folder of this store, which is in use: set "
            "DISCREET_SECRETS (or --secrets) and DISCREET_STORE (or --store) to a pair that "
            "belongs together"
        )


def fsync_folder(folder: Path) -> None:
    """Make new names in a folder survive a power failure."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def write_all(handle: int, content: bytes, offset: int) -> None:
    """Write every byte at a place of a file, or raise `OSError`: a full disk takes a part."""
    while content:
        written = os.pwrite(handle, content, offset)
        if written == 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        content = content[written:]
        offset += written


@contextmanager
def exclusive(handle: int) -> Iterator[None]:
    """Hold a file; TimeoutError if another replica has it for long, which may be a paused one."""
    ends = time.monotonic() + PATIENCE
    while True:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            break
        except BlockingIOError:
            if time.monotonic() > ends:
                raise TimeoutError("another server holds the secrets folder") from None
            time.sleep(0.001)
    try:
        yield
    finally:
        fcntl.flock(handle, fcntl.LOCK_UN)


class Vault:
    """Keys outside the database.

    folder   of the secrets
    make     whether it is made if it is missing: for a new store, or when one is restored
    """

    def __init__(self, folder: Path, *, make: bool = True) -> None:
        self.folder = folder
        if not make and not (folder / "master.key").exists():
            raise WrongFolder(folder)
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            (folder / "windows").mkdir(mode=0o700, exist_ok=True)
            (folder / "reports").mkdir(mode=0o700, exist_ok=True)
        except OSError as error:
            raise ValueError(
                f"the secrets folder {folder} cannot be used ({error.strerror}): choose another "
                "with --secrets"
            ) from None
        self.master = self._master()
        self._ahead = ThreadPoolExecutor(1, "next-key")
        self._next: dict[tuple[str, str], tuple[int, Future[tuple[bytes, bytes]]]] = {}

    def probe(self) -> None:
        """Raise ValueError if the folder's file system lacks what keys and fence rely on: names
        that appear whole, and locks that keep a second one out."""
        path = self.folder / f".probe.{secrets.token_hex(4)}"
        locks = False
        try:
            make_once(path, b"probe")
            with path.open() as first, path.open() as second, exclusive(first.fileno()):
                try:
                    fcntl.flock(second, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    locks = True
        except OSError as error:
            raise ValueError(
                f"the secrets folder {self.folder} cannot be used ({error.strerror}): its file "
                "system needs links, locks and syncs (docs/operating.md has the list)"
            ) from None
        finally:
            path.unlink(missing_ok=True)
        if not locks:
            raise ValueError(
                f"the secrets folder {self.folder} cannot be used: its file system gives one lock "
                "to two, so servers that share it would lose keys"
            )

    def close(self) -> None:
        """Finish the keys that are being written."""
        self._ahead.shutdown()

    def _master(self) -> bytes:
        path = self.folder / "master.key"
        if not path.exists():
            make_once(path, secrets.token_bytes(32))
        key = path.read_bytes()
        if len(key) != 32:
            raise MissingSecret(f"{path} is damaged: restore the secrets folder")
        return key

    # -- a key for every commit --------------------------------------------------------------------

    def seal(self, bandit: str, epoch: str, sequence: int, content: bytes) -> bytes:
        """What is private of an open window, sealed under a new key, which is on disk then.

        Call it inside the transaction that stores the result, under the bandit's row lock: the
        stored version is `sequence - 1`, and keys of earlier ones are destroyed.
        """
        name, key = self._made_ahead(bandit, epoch, sequence) or self._made(
            bandit, epoch, sequence, stored=sequence - 1
        )
        later = self._ahead.submit(self._made, bandit, epoch, sequence + 1, stored=sequence - 1)
        self._next[bandit, epoch] = sequence + 1, later
        nonce = secrets.token_bytes(12)
        about = _about(bandit, epoch, sequence)
        return name + nonce + AESGCM(key).encrypt(nonce, content, about)

    def settle(self) -> None:
        """Wait for the keys that are being written, and so for the end of those they replace."""
        wait([made for _, made in self._next.values()])

    def open(self, bandit: str, epoch: str, sequence: int, sealed: bytes) -> bytes:
        """What `seal` sealed."""
        name, nonce, body = sealed[:NAME_BYTES], sealed[NAME_BYTES:][:12], sealed[NAME_BYTES + 12 :]
        for number, called, key in self._slots(bandit, epoch):
            if (number, called) == (sequence, name):
                try:
                    return AESGCM(key).decrypt(nonce, body, _about(bandit, epoch, sequence))
                except InvalidTag:
                    break
        raise MissingSecret(
            f"the secrets folder has no key for the open window of {bandit!r}: it is not the one "
            "of this database now. Set DISCREET_SECRETS to that; if the database was put back from "
            "a backup, run `discreet restore`"
        )

    def forget(self, bandit: str, epoch: str) -> None:
        """Destroy the keys of a bandit's epoch: its sums can never be read again."""
        self._path(bandit, epoch).unlink(missing_ok=True)
        fsync_folder(self.folder / "windows")

    def forget_all_but(self, epoch: str) -> None:
        """Destroy the keys of every other epoch."""
        for path in (self.folder / "windows").iterdir():
            if not path.name.endswith(f".{epoch}"):
                path.unlink()
        fsync_folder(self.folder / "windows")
        for path in (self.folder / "reports").iterdir():
            if f".{epoch}-" not in path.name:
                path.unlink(missing_ok=True)
        fsync_folder(self.folder / "reports")

    # -- a key for every policy of local trust -----------------------------------------------------

    def report_key(self, bandit: str, policy: str) -> bytes:
        """The secret that reports on a policy are opened with: made when it is first asked for.

        Destroyed with the policy (`forget_report_keys`): what was sealed to it and recorded on the
        way can never be read again.
        """
        path = self.folder / "reports" / f"{_hashed(bandit)}.{policy}"
        try:
            key = path.read_bytes()
        except FileNotFoundError:
            make_once(path, new_secret())
            key = path.read_bytes()
        if len(key) != 32:
            raise MissingSecret(f"{path} is damaged: restore the secrets folder")
        return key

    def forget_report_keys(self, bandit: str, policy: str) -> None:
        """Destroy the keys of all policies of a bandit but this one."""
        folder = self.folder / "reports"
        for path in folder.glob(f"{_hashed(bandit)}.*"):
            if path.name != f"{_hashed(bandit)}.{policy}":
                path.unlink(missing_ok=True)
        fsync_folder(folder)

    def _path(self, bandit: str, epoch: str) -> Path:
        return self.folder / "windows" / f"{_hashed(bandit)}.{epoch}"

    def _made_ahead(self, bandit: str, epoch: str, sequence: int) -> tuple[bytes, bytes] | None:
        """The key that was written while the last version went to disk, if it is for this one."""
        meant_for, made = self._next.pop((bandit, epoch), (0, None))
        if made is None:
            return None
        try:
            found = made.result()
        except OSError:  # the disk is full or gone, another replica holds the file, or it is new
            return None
        return found if meant_for == sequence else None

    def _made(self, bandit: str, epoch: str, sequence: int, *, stored: int) -> tuple[bytes, bytes]:
        """A new key in the place of one that no stored version needs: those before `stored`."""
        name, key = secrets.token_bytes(NAME_BYTES), secrets.token_bytes(32)
        path = self._path(bandit, epoch)
        in_time = sequence == stored + 1
        new = in_time and not path.exists()
        handle = os.open(path, os.O_RDWR | (os.O_CREAT if new else 0), 0o600)
        try:
            with exclusive(handle):
                found = _read(os.pread(handle, _SLOTS * _SLOT.size, 0))
                if any(slot is not None and slot[0] > stored + 2 for slot in found):
                    raise TimeoutError("this server has lost its lock: others have gone on")
                dead = [i for i, slot in enumerate(found) if slot and slot[0] < stored]
                free = [i for i, slot in enumerate(found) if slot is None]
                # After many commits that failed: the place of one of them, which is not stored.
                failed = [i for i, slot in enumerate(found) if slot and slot[0] == sequence]
                places = dead or (free or failed)[:1]
                if not places:
                    raise TimeoutError("all places hold keys of commits that failed")
                place, *others = places
                write_all(handle, _packed(sequence, name, key), place * _SLOT.size)
                for other in others:
                    write_all(handle, bytes(_SLOT.size), other * _SLOT.size)
                os.fsync(handle)
        finally:
            os.close(handle)
        if new:
            fsync_folder(path.parent)
        return name, key

    def _slots(self, bandit: str, epoch: str) -> list[tuple[int, bytes, bytes]]:
        try:
            raw = self._path(bandit, epoch).read_bytes()
        except FileNotFoundError:
            return []
        return [slot for slot in _read(raw) if slot is not None]


def _hashed(bandit: str) -> str:
    return hashlib.sha256(bandit.encode()).hexdigest()[:32]


def make_once(path: Path, content: bytes) -> None:
    """Make a file whole or not at all; if another replica makes it at the same time, one wins."""
    partial = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    handle = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        with suppress(FileExistsError):
            os.link(partial, path)
    finally:
        partial.unlink()
    fsync_folder(path.parent)


def _read(raw: bytes) -> list[tuple[int, bytes, bytes] | None]:
    """What each place of a file holds; a torn write is no key."""
    found: list[tuple[int, bytes, bytes] | None] = []
    for start in range(0, _SLOTS * _SLOT.size, _SLOT.size):
        piece = raw[start : start + _SLOT.size]
        slot = None
        if len(piece) == _SLOT.size:
            sequence, name, key, _ = _SLOT.unpack(piece)
            slot = (sequence, name, key) if piece == _packed(sequence, name, key) else None
        found.append(slot)
    return found


def _packed(sequence: int, name: bytes, key: bytes) -> bytes:
    checksum = hashlib.sha256(sequence.to_bytes(8, "little") + name + key).digest()[:16]
    return _SLOT.pack(sequence, name, key, checksum)


def _about(bandit: str, epoch: str, sequence: int) -> bytes:
    return f"{epoch}\n{sequence}\n{bandit}".encode()
