"""Sealed decisions: what the caller keeps so that the server need not.

A token holds the run, the round, the chosen feature row, its probability, a pseudonym of the person
and a deadline, encrypted and authenticated (AES-GCM-SIV, RFC 8452) under a key that belongs to one
run of one server. The bandit and its epoch are authenticated beside it, so that a token of another
bandit or of an earlier epoch does not open. Nonces are random, never derived from round numbers: a
rollback repeats those.
"""

import binascii
import hmac
import os
import struct
from collections.abc import Sequence
from functools import lru_cache
from itertools import repeat
from typing import Any

import msgspec
import numpy as np
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCMSIV

from discreet.arrays import Array
from discreet.privacy.people import person_text

PREFIX = "dt1."  # of every token; no id may begin so
RUN_BYTES = 8
NONCE_BYTES = 12
TAG_BYTES = 16
PERSON_BYTES = 16
NOBODY = bytes(PERSON_BYTES)
_HEAD = struct.Struct(f"<Qdd{PERSON_BYTES}s")  # round, deadline, probability, person
_floats = lru_cache(lambda n: struct.Struct(f"<{n}f"))
_LONGEST = 8192  # characters of a token
_NONCES_AHEAD = 256  # a call of the system for each would cost as much as packing
_TO_URL = bytes.maketrans(b"+/", b"-_")
_FROM_URL = bytes.maketrans(b"-_+/=", b"+/!!!")  # the other alphabet is no spelling of a token


class Sealed(msgspec.Struct, frozen=True):
    """What a token holds."""

    run: bytes  # of the server that decided
    round: int  # its number
    row: Any  # (dim,), in the unit ball
    probability: float  # of the action that was chosen
    deadline: float  # seconds since 1970; inf if none
    person: bytes = NOBODY  # a pseudonym; NOBODY where rounds are protected


def derived(master: bytes, *purpose: bytes) -> bytes:
    """A key for one purpose: HMAC-SHA256 of its length-prefixed parts under the master key."""
    message = b"".join(len(part).to_bytes(4, "big") + part for part in purpose)
    return hmac.digest(master, message, "sha256")


class Sealer:
    """Seals the decisions of one run, and opens those of any run of the same instance."""

    def __init__(self, master: bytes, run: bytes) -> None:
        if len(run) != RUN_BYTES:
            raise ValueError(f"a run has {RUN_BYTES} bytes, got {len(run)}")
        self.run = run
        self._master = master
        self._ciphers: dict[bytes, AESGCMSIV] = {}
        self._nonces: list[bytes] = []  # random, each is used once

    def seal(
        self,
        bandit: bytes,
        rounds: Sequence[int],
        rows: Array,  # (n, dim)
        probabilities: Sequence[float],
        deadline: float,
        people: Sequence[bytes] | None = None,
    ) -> list[str]:
        """The tokens of some decisions; `bandit` names the bandit and its epoch."""
        packed = np.asarray(rows, dtype="<f4").tobytes()
        step = 4 * rows.shape[1]
        size = _HEAD.size + step
        nonces = os.urandom(NONCE_BYTES * len(rows))
        encrypt = self._cipher(self.run).encrypt
        length = RUN_BYTES + NONCE_BYTES + size + TAG_BYTES
        filler = bytes(-length % 3)
        parts: list[bytes] = []
        who = repeat(NOBODY, len(rows)) if people is None else people
        for i, (number, chance, person) in enumerate(zip(rounds, probabilities, who, strict=True)):
            nonce = nonces[NONCE_BYTES * i : NONCE_BYTES * (i + 1)]
            head = _HEAD.pack(number, deadline, chance, person)
            body = encrypt(nonce, head + packed[step * i : step * (i + 1)], bandit)
            parts += (self.run, nonce, body, filler)
        # Whole groups of three bytes are spelled apart from each other: all tokens in one go.
        spelled = binascii.b2a_base64(b"".join(parts), newline=False).translate(_TO_URL).decode()
        each = (length + len(filler)) // 3 * 4
        used = (8 * length + 5) // 6
        return [PREFIX + spelled[at : at + used] for at in range(0, len(spelled), each)]

    def seal_one(
        self,
        bandit: bytes,
        number: int,
        row: Array,  # (dim,)
        probability: float,
        deadline: float,
        person: bytes = NOBODY,
    ) -> str:
        """The token of one decision, in half the time."""
        head = _HEAD.pack(number, deadline, probability, person)
        values = row.tolist()
        nonce = self._nonce()
        content = head + _floats(len(values)).pack(*values)
        raw = self.run + nonce + self._cipher(self.run).encrypt(nonce, content, bandit)
        spelled = binascii.b2a_base64(raw, newline=False).translate(_TO_URL, b"=")
        return PREFIX + spelled.decode()

    def _nonce(self) -> bytes:
        try:
            return self._nonces.pop()
        except IndexError:
            random = os.urandom(_NONCES_AHEAD * NONCE_BYTES)
            self._nonces += [
                random[at : at + NONCE_BYTES] for at in range(0, len(random), NONCE_BYTES)
            ]
            return self._nonce()

    def open(self, bandit: bytes, tokens: Sequence[str]) -> list[Sealed | None]:
        """What tokens hold; None for one that is forged, damaged, another bandit's or epoch's."""
        found: list[Sealed | None] = [None] * len(tokens)
        alike: dict[int, list[int]] = {}
        for i, token in enumerate(tokens):
            if token.startswith(PREFIX):
                alike.setdefault(len(token), []).append(i)
        for length, places in alike.items():
            size = length - len(PREFIX)
            if not 0 < size <= _LONGEST or size % 4 == 1:
                continue
            raws = _read([tokens[i] for i in places], size)
            plain = [self._opened(bandit, raw) for raw in raws]
            good = [at for at, content in enumerate(plain) if content]
            for at, sealed in zip(good, _unpacked([plain[at] for at in good]), strict=True):
                found[places[at]] = Sealed(raws[at][:RUN_BYTES], *sealed)
        return found

    def _opened(self, bandit: bytes, raw: bytes) -> bytes:
        """What was sealed, or nothing."""
        run, nonce = raw[:RUN_BYTES], raw[RUN_BYTES : RUN_BYTES + NONCE_BYTES]
        try:
            return self._cipher(run).decrypt(nonce, raw[RUN_BYTES + NONCE_BYTES :], bandit)
        except (InvalidTag, ValueError):
            return b""

    def _cipher(self, run: bytes) -> AESGCMSIV:
        cipher = self._ciphers.get(run)
        if cipher is None:
            if len(self._ciphers) > 256:  # forged runs must not fill the memory
                self._ciphers.clear()
            cipher = self._ciphers[run] = AESGCMSIV(derived(self._master, b"decisions", run))
        return cipher


def _read(tokens: Sequence[str], length: int) -> list[bytes]:
    """The bytes of tokens of one length, nothing for one that is not spelled as `seal` spells."""
    filler = "A" * (-length % 4)  # six bits of zeros each
    text = "".join(token[len(PREFIX) :] + filler for token in tokens)
    try:
        raw = binascii.a2b_base64(text.encode("ascii").translate(_FROM_URL), strict_mode=True)
    except ValueError:
        return [b""] if len(tokens) == 1 else [_read([each], length)[0] for each in tokens]
    step = (length + len(filler)) // 4 * 3
    used = length * 6 // 8
    # The last character has bits to spare: one token, one spelling.
    rest = bytes(step - used)
    return [
        raw[at : at + used] if raw[at + used : at + step] == rest else b""
        for at in range(0, len(raw), step)
    ]


def _unpacked(opened: Sequence[bytes]) -> list[tuple[Any, ...]]:
    """Round, row, probability, deadline and person of what was sealed; all of one size."""
    if not opened:
        return []
    packed = b"".join([each[_HEAD.size :] for each in opened])
    rows = np.frombuffer(packed, "<f4").astype(np.float64).reshape(len(opened), -1)
    # float32 may have made a row longer than 1: shorten it again.
    squares = np.einsum("ij,ij->i", rows, rows)
    if squares.max() > 1:
        rows /= np.sqrt(np.maximum(1.0, squares))[:, None]
    found = []
    for row, each in zip(rows, opened, strict=True):
        number, deadline, probability, person = _HEAD.unpack_from(each)
        found.append((number, row, probability, deadline, person))
    return found


def pseudonym(master: bytes, bandit: bytes, person: str) -> bytes:
    """A keyed hash of a person's id: all that is ever stored of it."""
    return derived(master, b"person", bandit, person_text(person).encode())[:PERSON_BYTES]


def hashed_id(master: bytes, bandit: bytes, owner: str, name: str) -> tuple[bytes, bytes]:
    """Keyed hashes of a caller's id of a decision: its owner's; of before ids had owners."""
    given = name.encode()
    return derived(master, b"owned id", bandit, owner.encode(), given), derived(
        master, b"id", bandit, given
    )
