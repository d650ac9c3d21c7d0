"""Sealed decisions: what the caller keeps so that the server need not.

A token holds the run, the round, the chosen feature row, its probability, a pseudonym of the person
and a deadline, encrypted and authenticated (AES-GCM-SIV, RFC 8452) under a key that belongs to one
run of one server. The bandit and its epoch are authenticated beside it, so that a token of another
bandit or of an earlier epoch does not open. Nonces are random, never derived from round numbers: a
rollback repeats those.
"""

import base64
import hashlib
import hmac
import math
import os
import struct
from dataclasses import dataclass

import numpy as np
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCMSIV

from discreet.arrays import Array

PREFIX = "dt1."  # of every token; no id may begin so
RUN_BYTES = 8
NONCE_BYTES = 12
PERSON_BYTES = 16
NOBODY = bytes(PERSON_BYTES)
_HEAD = struct.Struct("<Qdd16s")  # round, deadline, probability, person
_LONGEST = 8192  # characters of a token


@dataclass(frozen=True, slots=True)
class Sealed:
    """What a token holds."""

    run: bytes
    round: int
    row: Array  # (dim,), in the unit ball
    probability: float
    deadline: float  # seconds since 1970; inf if none
    person: bytes = NOBODY


def derived(master: bytes, *purpose: bytes) -> bytes:
    """A key for one purpose: HMAC-SHA256 of its length-prefixed parts under the master key."""
    message = b"".join(len(part).to_bytes(4, "big") + part for part in purpose)
    return hmac.new(master, message, hashlib.sha256).digest()


class Sealer:
    """Seals the decisions of one run, and opens those of any run of the same instance."""

    def __init__(self, master: bytes, run: bytes) -> None:
        if len(run) != RUN_BYTES:
            raise ValueError(f"a run has {RUN_BYTES} bytes, got {len(run)}")
        self.run = run
        self._master = master
        self._ciphers: dict[bytes, AESGCMSIV] = {}

    def seal(self, bandit: bytes, decision: Sealed, nonce: bytes | None = None) -> str:
        """The token of a decision; `bandit` names the bandit and its epoch.

        A nonce is random and new: `nonces` draws many at once.
        """
        head = _HEAD.pack(decision.round, decision.deadline, decision.probability, decision.person)
        row = decision.row.astype("<f4").tobytes()
        nonce = os.urandom(NONCE_BYTES) if nonce is None else nonce
        body = self._cipher(self.run).encrypt(nonce, head + row, bandit)
        return PREFIX + _spelled(self.run + nonce + body)

    @staticmethod
    def nonces(n: int) -> list[bytes]:
        """n random nonces, each for one token."""
        raw = os.urandom(NONCE_BYTES * n)
        return [raw[i : i + NONCE_BYTES] for i in range(0, len(raw), NONCE_BYTES)]

    def open(self, bandit: bytes, token: str) -> Sealed | None:
        """What a token holds, or None: forged, truncated, another bandit's or another epoch's."""
        if not token.startswith(PREFIX) or len(token) > _LONGEST:
            return None
        text = token[len(PREFIX) :]
        try:
            raw = base64.b64decode(text + "=" * (-len(text) % 4), b"-_", validate=True)
        except ValueError:
            return None
        # base64 ignores the spare bits of the last character: one token, one spelling.
        if _spelled(raw) != text:
            return None
        run, nonce = raw[:RUN_BYTES], raw[RUN_BYTES : RUN_BYTES + NONCE_BYTES]
        try:
            plain = self._cipher(run).decrypt(nonce, raw[RUN_BYTES + NONCE_BYTES :], bandit)
            number, deadline, probability, person = _HEAD.unpack_from(plain)
            row = np.frombuffer(plain, dtype="<f4", offset=_HEAD.size).astype(np.float64)
        except (InvalidTag, ValueError, struct.error):
            return None
        # float32 may have made the row longer than 1: shorten it again.
        length = math.sqrt(float(row.dot(row)))
        return Sealed(run, number, row / max(1.0, length), probability, deadline, person)

    def _cipher(self, run: bytes) -> AESGCMSIV:
        cipher = self._ciphers.get(run)
        if cipher is None:
            if len(self._ciphers) > 256:  # forged runs must not fill the memory
                self._ciphers.clear()
            cipher = self._ciphers[run] = AESGCMSIV(derived(self._master, b"decisions", run))
        return cipher


def _spelled(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def pseudonym(master: bytes, bandit: bytes, person: str) -> bytes:
    """A keyed hash of a person's id: all that is ever stored of it."""
    return derived(master, b"person", bandit, person.encode())[:PERSON_BYTES]


def hashed_id(master: bytes, bandit: bytes, name: str) -> bytes:
    """A keyed hash of a caller's id of a decision."""
    return derived(master, b"id", bandit, name.encode())
