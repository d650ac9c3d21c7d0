"""What may be spent: epsilon, delta, and how many rounds one person may take part in."""

import hmac
import math
import secrets
import unicodedata
import warnings
from dataclasses import dataclass

import numpy as np

from discreet.arrays import integer, positive, real
from discreet.privacy.gaussian import gaussian_mu, zcdp_rho
from discreet.state import Stateful, damaged, value


class WeakPromiseWarning(UserWarning):
    """The budget is legal and promises next to nothing."""


def weaknesses(epsilon: float, delta: float) -> list[str]:
    """What a weak budget means, in words; nothing for a usual one, or for one that is switched off.

    >>> weaknesses(1.0, 1e-6), len(weaknesses(50.0, 0.9))
    ([], 2)
    """
    words = []
    if 20 <= epsilon < math.inf:  # an outcome may become 500 million times as likely
        words.append(
            f"epsilon = {epsilon:g} promises next to nothing: an observer's guess about a person "
            f"may be right with odds of e^{epsilon:g} to 1; usual values are 0.1 to 10"
        )
    if 0.01 <= delta < 1:  # one person in a hundred may have no promise at all
        words.append(
            f"delta = {delta:g} promises next to nothing: with that chance a person's data may "
            "come out as they are; take much less than 1 / people, such as 1e-6"
        )
    return words


@value
@dataclass(frozen=True, slots=True)
class Budget:
    """A privacy budget for one person, over a learner's whole life.

    `contributions=k` protects a person who appears in up to k rounds: every sensitivity is
    multiplied by k (or, inside a running sum, by the exact norm of k columns). The caller must
    enforce that limit, for instance with `ContributionLimiter`. `epsilon=inf` switches privacy
    off: no noise is added anywhere, and every guarantee says so.

    >>> Budget(1.0, 1e-6).mu  # doctest: +ELLIPSIS
    0.2367...
    """

    epsilon: float  # the privacy loss; inf switches privacy off
    delta: float = 0.0  # 0 for pure privacy
    contributions: int = 1  # rounds in which one person may appear

    def __post_init__(self) -> None:
        set_ = object.__setattr__
        set_(self, "epsilon", positive("epsilon", self.epsilon, allow_inf=True))
        if not 0 <= real("delta", self.delta) < 1:
            raise ValueError(f"delta must lie in [0, 1), got {self.delta!r}")
        set_(self, "delta", float(self.delta))
        set_(self, "contributions", integer("contributions", self.contributions))
        for weakness in weaknesses(self.epsilon, self.delta):
            warnings.warn(weakness, WeakPromiseWarning, stacklevel=4)

    @property
    def off(self) -> bool:
        """Whether privacy is switched off (epsilon is infinite)."""
        return math.isinf(self.epsilon)

    @property
    def pure(self) -> bool:
        """Whether delta is zero, so that only pure mechanisms will do."""
        return self.delta == 0

    @property
    def mu(self) -> float:
        """The Gaussian parameter of the whole budget; an error if delta is 0."""
        return math.inf if self.off else gaussian_mu(self.epsilon, self.delta)

    @property
    def rho(self) -> float:
        """The zero-concentrated parameter of the whole budget; an error if delta is 0."""
        return math.inf if self.off else zcdp_rho(self.epsilon, self.delta)


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

    def _validate(self) -> None:
        if not isinstance(self._salt, bytes) or not self._salt:
            raise damaged("salt")
        for count in self._seen.values():
            if type(count) is not int or not 1 <= count <= self.contributions:
                raise damaged("seen")

    def _key(self, user: str | bytes | int) -> str:
        return pseudonym(self._salt, user).hex()


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
