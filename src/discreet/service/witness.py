"""A remote witness: it notices a snapshot of store *and* secrets that is served again.

The fence lies beside the secrets, so whoever brings back both brings back a fence that agrees with
its database. A witness on another machine holds one word for each instance, and replaces it only
for whoever knows the present one (compare and set). Everything that is fenced (a window that opens
or closes, a charge, a start) first writes into the fence which word it will put in the place of
which, then asks the witness, then commits. Of two copies of an instance at most one gets its word
in; the other is refused before it publishes anything.

Which word must stand there follows from fence and database: the last one announced if the database
has what it announced, else the one before. A server that dies between the witness's yes and the
commit leaves neither: it cannot be told from a copy, and `discreet restore` is the way out. A
server that lives through a failed commit remembers its own words and goes on.
"""

import http.client
import secrets
import urllib.error
import urllib.request

import msgspec

from discreet.service.errors import Problem
from discreet.service.fence import Grip, Mark

PATH = "/v1/words/"
SECONDS = 3.0  # to wait for an answer: the bandit's lock is held
WORD_BYTES = 16


class Word(msgspec.Struct):
    """What the witness holds for an instance; none before the first."""

    word: str | None = None  # the last one; null before the first


class Move(msgspec.Struct, forbid_unknown_fields=True):
    """Put `after` in the place of `before`."""

    before: str | None  # what the caller takes it to hold
    after: str  # what it shall hold


class Witness:
    """The word of one instance."""

    def __init__(self, url: str, key: str, instance: str) -> None:
        if not url.startswith(("http://", "https://")):
            raise ValueError("the witness must be a URL that begins with http:// or https://")
        self._url = url.rstrip("/") + PATH + instance
        self._key = key
        self._mine = ""  # the last word that this process announced

    def read(self) -> str | None:
        _, found = self._ask(None)
        return found

    def advance(self, grip: Grip, stored: int, epoch: str) -> None:
        """Put a new word there, or refuse: somebody else has gone on from where we are."""
        present = self.read()
        if present not in self.expected(grip.last_of("witness"), stored):
            raise Problem("rolled-back")
        self.move(grip, stored, epoch, present)

    def move(self, grip: Grip, stored: int, epoch: str, present: str | None) -> None:
        """Announce a new word in the fence, and put it in the place of the present one."""
        word = secrets.token_hex(WORD_BYTES)
        grip.append(Mark(stored, epoch, "witness", {"before": present, "after": word}))
        self._mine = word
        status, found = self._ask(Move(before=present, after=word))
        if status == 409 and found != word:
            raise Problem("rolled-back")

    def expected(self, last: Mark | None, stored: int) -> list[str | None]:
        """Words that may stand there, from the last one announced and the database's sequence."""
        if last is None:
            return [None]
        before, after = last.about["before"], last.about["after"]
        if stored > last.sequence:
            return [after]
        return [before, after] if after == self._mine else [before]

    def _ask(self, move: Move | None) -> tuple[int, str | None]:
        request = urllib.request.Request(
            self._url,
            data=None if move is None else msgspec.json.encode(move),
            headers={"Authorization": f"Bearer {self._key}", "Content-Type": "application/json"},
        )
        try:
            with urllib.request.urlopen(request, timeout=SECONDS) as reply:
                return 200, msgspec.json.decode(reply.read(), type=Word).word
        except urllib.error.HTTPError as error:
            if error.code == 409:
                return 409, msgspec.json.decode(error.read(), type=Word).word
            raise Problem("witness-unavailable") from None
        except (OSError, http.client.HTTPException, msgspec.DecodeError):
            raise Problem("witness-unavailable") from None
