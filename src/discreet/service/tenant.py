"""A bandit between two transactions: what the writer knows of it, and how it is stored.

A bandit is stored in two parts. What is public (beliefs, ledger, the open window's plan) stands in
its row and changes when a window turns. What feedback changes, the sums of the open window, stands
in the window's row and changes at every commit. Noise lives in stored sums, never in a code path:
any replica may close a window that another one opened, and doing it again gives the same bits.
"""

import json
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar

import sqlalchemy as sa
from msgspec import UNSET, UnsetType
from sqlalchemy.engine import Connection

from discreet.evaluation.worth import Value
from discreet.privacy import Guarantee
from discreet.privacy.noise import Noise
from discreet.service import rows
from discreet.service import store as tables
from discreet.service.live import Live
from discreet.service.replies import ReportCounts
from discreet.service.schema import Definition
from discreet.service.vault import Vault
from discreet.state import from_bytes, to_bytes

Stored = tuple[int, bytes | None]  # sums of an open window: their sequence, and as `seal` left them


def is_learning(row: Any) -> bool:
    """Whether feedback still counts for a bandit."""
    return is_settling(row) and not row.retired


def is_settling(row: Any) -> bool:
    """Whether what was accepted still counts: a bandit that is retired takes nothing new."""
    return bool(row.learning and not row.alarm)


def counts_round(definition: Definition, number: int) -> bool:
    """Whether a round lies within the horizon; others are decided while rewards wait."""
    return definition.horizon is None or number < definition.horizon


class Tenant(ABC):
    """A bandit under some trust; a subclass says what is learnt, and what a thief may find."""

    learner: Any
    is_public: ClassVar[bool]  # whether everybody may read its policy
    after_restore: ClassVar[str]  # what became of the open window

    def __init__(
        self, definition: Definition, name: str = "", epoch: str = "", noise: Noise | None = None
    ) -> None:
        self.definition, self.name, self.epoch, self.noise = definition, name, epoch, noise
        self.version = 0  # of the policy
        self.sequence = 0  # of the sums in memory
        self.key = b""  # name of the key that sealed them: another history has another one
        self.learner = self.new()

    @property
    def tag(self) -> str:
        return f"{self.epoch}-{self.version}"

    # -- what a subclass says ----------------------------------------------------------------------

    @abstractmethod
    def new(self) -> Any:
        """The learner of the definition, new."""

    @abstractmethod
    def guarantee(self) -> Guarantee:
        """What is promised, and what is not."""

    @abstractmethod
    def begin(self) -> None:
        """Open the first window, in memory."""

    @abstractmethod
    def window(self) -> tuple[int, int]:
        """The first round of the window that has just opened, and their number."""

    @abstractmethod
    def is_learning(self) -> bool:
        """Whether feedback counts in the open window."""

    @abstractmethod
    def public_state(self) -> dict[str, Any]:
        """The learner's state as a window opens: all of it public."""

    @abstractmethod
    def policy(self) -> dict[str, Any]:
        """The policy of the open window, as it is published."""

    @abstractmethod
    def publish(self, row: Any) -> Callable[[Live], None]:
        """Sets the policy on the event loop; a problem where this server does not decide."""

    @abstractmethod
    def seal(self, vault: Vault) -> tuple[bytes | None, bytes]:
        """The open sums as they are stored, and the name of their key."""

    @abstractmethod
    def load(self, connection: Connection, vault: Vault, row: Any, stored: Stored) -> None:
        """Take over stored sums, and what was learnt before if that has changed."""

    @abstractmethod
    def close(self, connection: Connection, row: Any) -> dict[str, Any]:
        """End the window, open the next in memory, forget who was in it; what was released."""

    @abstractmethod
    def restart(self, connection: Connection, vault: Vault, row: Any) -> dict[str, Any]:
        """What may go on after a restore, in memory; columns of the row that stay as they are."""

    def awaits(self, connection: Connection, row: Any) -> bool:
        """Whether rewards wait that only the open window can count: none opens after it."""
        horizon = self.definition.horizon
        waits = self.definition.reward.default is not None
        if not waits or horizon is None or not row.learning or row.window_end < horizon:
            return False
        pending = tables.pending.c
        own = pending.bandit == row.name, pending.epoch == row.epoch, pending.round < horizon
        return connection.execute(sa.select(pending.round).where(*own).limit(1)).first() is not None

    def counts(self) -> ReportCounts | UnsetType:
        """How many reports came, where devices send them."""
        return UNSET

    def values(self) -> tuple[Value, ...]:
        """What it was worth after each release, where rewards are seen."""
        return ()

    def terms(self, vault: Vault, policy: bytes) -> bytes:
        """What a relay and its devices are told; nothing where there are none."""
        return b""

    # -- transactions ------------------------------------------------------------------------------

    def open(self, connection: Connection, vault: Vault) -> None:
        """Store a new bandit whose first window is open."""
        self.begin()
        self.version = self.sequence = 1
        definition = self.definition.normalised().decode()
        new = {"name": self.name, "definition": definition, "created": time.time()}
        begun = {"version": 1, "retired": False, **self._opened(1)}
        rows.insert(connection, tables.bandits, [new | begun])
        self._store_window(connection, vault, 1)

    def resume(self, connection: Connection, vault: Vault, row: Any) -> None:
        """Take over what other replicas have done since."""
        here = _open_window(row)
        sequence, key = rows.one(connection, tables.windows, "sequence", "key", **here)
        found = (row.version, sequence, bytes(key or b""))
        if (self.version, self.sequence, self.key) == found:
            return
        (sums,) = rows.one(connection, tables.windows, "sum", **here)
        self.load(connection, vault, row, (sequence, None if sums is None else bytes(sums)))
        self.version, self.sequence, self.key = found

    def save(self, connection: Connection, vault: Vault, row: Any) -> None:
        """Store the open sums as they are in memory now."""
        self.sequence += 1
        sums, self.key = self.seal(vault)
        new = {"sum": sums, "key": self.key or None, "sequence": self.sequence}
        rows.update(connection, tables.windows, _open_window(row), **new)

    def turn(self, connection: Connection, vault: Vault, row: Any) -> None:
        """Close the full window and open the next one, under the bandit's row lock."""
        released = {"rounds": row.window_end - row.window_start, **self.close(connection, row)}
        self._publish(connection, row, released)
        self.sequence += 1
        self._open_next(connection, vault, row)

    def reopen(
        self, connection: Connection, vault: Vault, row: Any, epoch: str, retired: bool
    ) -> None:
        """After a restore: go on in a new epoch, in a window of another name."""
        stays = self.restart(connection, vault, row)
        rows.update(connection, tables.windows, _open_window(row), sum=None)
        self.epoch = epoch
        self.sequence = 1
        self._open_next(connection, vault, row, retired=retired, alarm=None, **stays)

    def begin_with(
        self,
        connection: Connection,
        vault: Vault,
        row: Any,
        log: tuple[Any, Any],
        about: dict[str, Any],
    ) -> None:
        """Before the first decision: the window that is open is dropped, and one opens that knows
        an old log (rows in the ball of the norm bound, rewards)."""
        self.learner = self.new()
        self.learner.warm_start(*log, public=about["public"])
        self.begin()
        self._publish(connection, row, {"rounds": 0, "history": about})
        self.sequence += 1
        self._open_next(connection, vault, row)

    def _publish(self, connection: Connection, row: Any, released: dict[str, Any]) -> None:
        """The window is closed: what was released of it, in place of its sums."""
        now = time.time()
        release = json.dumps({"window": row.window, **released, "at": now})
        end = {"sum": None, "release": release, "closed": now}
        rows.update(connection, tables.windows, _open_window(row), **end)

    def _open_next(self, connection: Connection, vault: Vault, row: Any, **changed: Any) -> None:
        self.version = row.version + 1
        new = {"version": self.version, **self._opened(row.window + 1), **changed}
        rows.update(connection, tables.bandits, {"name": self.name}, **new)
        self._store_window(connection, vault, row.window + 1)

    def _opened(self, number: int) -> dict[str, Any]:
        """Columns of the bandit's row."""
        start, size = self.window()
        return {
            "epoch": self.epoch,
            "window": number,
            "window_start": start,
            "window_end": start + size,
            "next_round": start,
            "returned": "[]",
            "learning": self.is_learning(),
            "learner": to_bytes(self.public_state()),
        }

    def _store_window(self, connection: Connection, vault: Vault, number: int) -> None:
        """Write the window that has just opened, and its policy."""
        sums, self.key = self.seal(vault)
        here = {"bandit": self.name, "epoch": self.epoch}
        window = {"number": number, "rounds": self.window()[1], "sequence": self.sequence}
        sealed = {"sum": sums, "key": self.key or None}
        rows.insert(connection, tables.windows, [here | window | sealed])
        policy = {"policy": json.dumps(self.policy()).encode(), "at": time.time()}
        rows.insert(connection, tables.policies, [here | {"version": self.version} | policy])

    def _state(self, connection: Connection) -> dict[str, Any]:
        """The learner's state as the open window began."""
        (stored,) = rows.one(connection, tables.bandits, "learner", name=self.name)
        return from_bytes(bytes(stored))


def _open_window(row: Any) -> dict[str, Any]:
    return {"bandit": row.name, "epoch": row.epoch, "number": row.window}
