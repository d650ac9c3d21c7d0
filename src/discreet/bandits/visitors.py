"""People who come again: who has had a reward counted, by keyed hash."""

import secrets
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.privacy.people import pseudonym
from discreet.state import Stateful, damaged, register

Person = str | bytes | int
BYTES = 16  # of a hash


class Pseudonyms:
    """A set of hashes; a state holds them sorted, so that it does not tell who came first.

    packed   all hashes, one after the other; None: the empty set
    """

    def __init__(self, packed: NDArray[np.uint8] | None = None) -> None:
        raw = b"" if packed is None else packed.tobytes()
        if len(raw) % BYTES:
            raise ValueError(f"hashes have {BYTES} bytes each")
        self.known = {raw[i : i + BYTES] for i in range(0, len(raw), BYTES)}

    def packed(self) -> NDArray[np.uint8]:
        """All hashes, one after the other."""
        return np.frombuffer(b"".join(sorted(self.known)), dtype=np.uint8)


register(Pseudonyms, Pseudonyms.packed, Pseudonyms)


class Visitors(Stateful):
    """Admits each person once; knows hashes under a key of its own, never an id.

    Whether a person is admitted depends on that person's own earlier visits and on nothing else.

    >>> visitors = Visitors()
    >>> visitors.admit("ada"), visitors.admit("bob"), visitors.admit("ada")
    (True, True, False)
    """

    _state = ("_key", "_seen")

    def __init__(self) -> None:
        self._key = secrets.token_bytes(32)
        self._seen = Pseudonyms()

    def pseudonym(self, person: Person) -> bytes:
        """The hash of a person; ValueError for what is no id."""
        return pseudonym(self._key, person)

    def pseudonyms(self, people: Iterable[Any], wanted: Sequence[bool]) -> list[bytes | None]:
        """The hashes of those who are wanted; None for others, and for what is no id."""
        return [
            self._total(each) if asked else None for each, asked in zip(people, wanted, strict=True)
        ]

    def _total(self, person: Any) -> bytes | None:
        try:
            return self.pseudonym(person)
        except ValueError:
            return None

    def admit(self, person: Person) -> bool:
        """Whether this is the person's first time; from now on it is not."""
        return self.admit_hash(self.pseudonym(person))

    def admit_hash(self, hashed: bytes) -> bool:
        """`admit`, by what `pseudonym` says."""
        with self._live:
            known = self._seen.known
            before = len(known)
            known.add(hashed)
            return len(known) > before

    def _validate(self) -> None:
        if not isinstance(self._key, bytes) or not self._key:
            raise damaged("key")
        if not isinstance(self._seen, Pseudonyms):
            raise damaged("seen")
