"""One person's share: how often a person may take part, and names that tell nothing of anybody."""

import hmac
import secrets
import unicodedata

import numpy as np

from discreet.arrays import integer
from discreet.state import Stateful, damaged


class ContributionLimiter(Stateful):
    """Admits each person to at most `contributions` rounds, by salted hash of a user id.

    The table holds keyed hashes and counts, never an id. It tells whoever has the salt who took
    part, so keep it as carefully as the data. A refused round must leave no trace in the learner.
    Several threads may share one limiter. Loading an older state readmits nobody: the larger count
    of each person stays; a state of another limiter is refused once this one has admitted someone.

    contributions   rounds that one person may take part in
    salt            the key of the hash; drawn afresh if left out, and part of the state

    >>> limiter = ContributionLimiter(2, salt=b"keep me secret")
    >>> [limiter.admit("ada"), limiter.admit("ada"), limiter.admit("ada"), limiter.admit("bob")]
    [True, True, False, True]
    """

    _state = ("_salt", "_seen")

    def __init__(self, contributions: int, *, salt: bytes | None = None) -> None:
        self.contributions = integer("contributions", contributions)
        self.salt = None if salt is None else bytes(salt)
        if self.salt == b"":
            raise ValueError("salt must not be empty; leave it out to draw a fresh one")
        self._salt = secrets.token_bytes(32) if self.salt is None else self.salt
        self._seen: dict[str, int] = {}

    def admit(self, user: str | bytes | int) -> bool:
        """Whether this person may take part once more; if so, the round is counted."""
        with self._live:
            key = self._key(user)
            count = self._seen.get(key, 0)
            if count >= self.contributions:
                return False
            self._seen[key] = count + 1
            return True

    def _key(self, user: str | bytes | int) -> str:
        return pseudonym(self._salt, user).hex()

    def _validate(self) -> None:
        if not isinstance(self._salt, bytes) or not self._salt:
            raise damaged("salt")
        for count in self._seen.values():
            if type(count) is not int or not 1 <= count <= self.contributions:
                raise damaged("seen")


def pseudonym(key: bytes, user: str | bytes | int) -> bytes:
    """16 bytes of HMAC-SHA-256: the same for the same person, and nothing without the key.

    >>> pseudonym(b"key", 7) == pseudonym(b"key", "7") == pseudonym(b"key", b"7")
    True
    """
    return hmac.digest(key, b"str:" + person_text(user).encode(), "sha256")[:16]


def person_text(user: str | bytes | int) -> str:
    """A person's id as text: an int by its digits, bytes as UTF-8, text in Unicode's normal form C.

    So that one person is not two: 7, "7" and b"7" are the same, and so are both ways to write an
    accent. What is no text is refused; case and spaces are part of an id.
    """
    if isinstance(user, bytes):
        try:
            user = user.decode()
        except UnicodeDecodeError:
            raise ValueError("a user id in bytes must be UTF-8 text; use its hex digits") from None
    if isinstance(user, str):
        text = unicodedata.normalize("NFC", str(user))
        if not text.isascii() and any("\ud800" <= each <= "\udfff" for each in text):
            raise ValueError("a user id must be Unicode text: it holds half a character")
        return text
    if isinstance(user, (int, np.integer)) and not isinstance(user, bool):
        return str(int(user))
    raise ValueError(f"a user id must be a str, bytes or int, got {type(user).__name__}")
