"""The secrets folder: what must not lie in the database.

    master.key       32 random bytes; all other keys but those of windows derive from it
    fence.log        what must never be forgotten (fence.py)
    windows/         for each bandit the key of its open noisy sum, new at every commit

The difference of two versions of a noisy sum is exact, and databases keep old versions for long
(write-ahead logs, free pages, backups). So every version is sealed under a key of its own, and only
the last two keys exist: the one in use, and the one of a commit whose outcome is not known yet.
"""

import hashlib
import os
import secrets
import struct
from pathlib import Path

import numpy as np
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from discreet.privacy.checks import Array

_SLOT = struct.Struct("<Q32s32s")  # sequence, key, checksum


class MissingSecret(RuntimeError):
    """The secrets folder lacks what the database needs: it is another one, or was not restored."""


def fsync_folder(folder: Path) -> None:
    """Make new names in a folder survive a power failure."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


class Vault:
    """Keys outside the database."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        (folder / "windows").mkdir(mode=0o700, exist_ok=True)
        self.master = self._master()

    def _master(self) -> bytes:
        path = self.folder / "master.key"
        try:
            handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        except FileExistsError:
            key = path.read_bytes()
            if len(key) != 32:
                raise MissingSecret(f"{path} is damaged: restore the secrets folder") from None
            return key
        key = secrets.token_bytes(32)
        with os.fdopen(handle, "wb") as file:
            file.write(key)
            file.flush()
            os.fsync(file.fileno())
        fsync_folder(self.folder)
        return key

    # -- a key for every commit --------------------------------------------------------------------

    def seal(self, bandit: str, epoch: str, sequence: int, total: Array) -> bytes:
        """A sum sealed under a new key, which is on disk when this returns.

        Call it inside the transaction that stores the result, under the bandit's row lock.
        """
        key = secrets.token_bytes(32)
        self._write(bandit, epoch, sequence, key)
        nonce = secrets.token_bytes(12)
        plain = np.asarray(total, dtype="<f8").tobytes()
        return nonce + AESGCM(key).encrypt(nonce, plain, _about(bandit, epoch, sequence))

    def open(self, bandit: str, epoch: str, sequence: int, sealed: bytes) -> Array:
        """The sum that `seal` sealed."""
        for number, key in self._slots(bandit, epoch):
            if number == sequence:
                try:
                    plain = AESGCM(key).decrypt(
                        sealed[:12], sealed[12:], _about(bandit, epoch, sequence)
                    )
                except InvalidTag:
                    break
                return np.frombuffer(plain, dtype="<f8").astype(np.float64)
        raise MissingSecret(
            f"the secrets folder has no key for the open window of {bandit!r}: database and "
            "secrets do not belong together; use `discreet restore`"
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

    def _path(self, bandit: str, epoch: str) -> Path:
        name = hashlib.sha256(bandit.encode()).hexdigest()[:32]
        return self.folder / "windows" / f"{name}.{epoch}"

    def _write(self, bandit: str, epoch: str, sequence: int, key: bytes) -> None:
        """Replace the older of two slots; the key of the last commit stays until the next one."""
        path = self._path(bandit, epoch)
        new = not path.exists()
        handle = os.open(path, os.O_WRONLY | os.O_CREAT, 0o600)
        try:
            os.pwrite(handle, _packed(sequence, key), (sequence % 2) * _SLOT.size)
            os.fsync(handle)
        finally:
            os.close(handle)
        if new:
            fsync_folder(path.parent)

    def _slots(self, bandit: str, epoch: str) -> list[tuple[int, bytes]]:
        try:
            raw = self._path(bandit, epoch).read_bytes()
        except FileNotFoundError:
            return []
        found = []
        for start in (0, _SLOT.size):
            piece = raw[start : start + _SLOT.size]
            if len(piece) == _SLOT.size:
                sequence, key, _ = _SLOT.unpack(piece)
                if piece == _packed(sequence, key):  # a torn write is no key
                    found.append((sequence, key))
        return found


def _packed(sequence: int, key: bytes) -> bytes:
    checksum = hashlib.sha256(sequence.to_bytes(8, "little") + key).digest()
    return _SLOT.pack(sequence, key, checksum)


def _about(bandit: str, epoch: str, sequence: int) -> bytes:
    return f"{epoch}\n{sequence}\n{bandit}".encode()
