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
from msgspec import UNSET, UnsetType, to_builtins
from sqlalchemy.engine import Connection

from discreet.evaluation.worth import Value
from discreet.privacy import Guarantee
from discreet.privacy.noise import Noise
from discreet.service import store as tables
from discreet.service.live import Live
from discreet.service.replies import ReportCounts
from discreet.service.schema import Definition
from discreet.service.vault import Vault
from discreet.state import from_bytes, to_bytes

_WINDOWS = tables.windows.c
_WINDOW = sa.and_(
    _WINDOWS.bandit == sa.bindparam("b_bandit"),
    _WINDOWS.epoch == sa.bindparam("b_epoch"),
    _WINDOWS.number == sa.bindparam("b_number"),
)
_STORED = sa.select(_WINDOWS.sequence, _WINDOWS.key).where(_WINDOW)
_SUM = sa.select(_WINDOWS.sum).where(_WINDOW)
_SAVE = (
    sa.update(tables.windows)
    .where(_WINDOW)
    .values({name: sa.bindparam(name) for name in ("sum", "key", "sequence")})
)
_END = sa.update(tables.windows).where(_WINDOW)
_LEARNER = sa.select(tables.bandits.c.learner).where(
    tables.bandits.c.name == sa.bindparam("b_bandit")
)
_PENDING = tables.pending.c
_WAITING = (  # decisions that count
    sa.select(_PENDING.round)
    .where(_PENDING.bandit == sa.bindparam("b_bandit"), _PENDING.epoch == sa.bindparam("b_epoch"))
    .where(_PENDING.round < sa.bindparam("b_horizon"))
    .limit(1)
)

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
    """A bandit under some trust. A subclass says what is learnt, and what a thief may find of it.

    definition   what the bandit is
    name         of the bandit
    epoch        of the store
    noise        of the windows that open
    """

    learner: Any
    is_public: ClassVar[bool]  # whether everybody may read its policy
    after_restore: ClassVar[str]  # what became of the open window

    def __init__(
        self, definition: Definition, name: str = "", epoch: str = "", noise: Noise | None = None
    ) -> None:
        self.definition = definition
        self.name = name
        self.epoch = epoch
        self.noise = noise
        self.version = 0  # of the policy
        self.sequence = 0  # of the sums in memory
        self.key = b""  # name of the key that sealed them: another history has another one
        self.learner = self.new()

    @property
    def tag(self) -> str:
        """Of the policy."""
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
        here = {"b_bandit": row.name, "b_epoch": row.epoch, "b_horizon": horizon}
        return connection.execute(_WAITING, here).first() is not None

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
        tables.add_bandit(connection, self.name, definition, **self._opened(1))
        self._store_window(connection, vault, 1)

    def resume(self, connection: Connection, vault: Vault, row: Any) -> None:
        """Take over what other replicas have done since."""
        here = self._here(row)
        sequence, key = connection.execute(_STORED, here).one()
        found = (row.version, sequence, bytes(key or b""))
        if (self.version, self.sequence, self.key) == found:
            return
        sums = connection.execute(_SUM, here).scalar_one()
        self.load(connection, vault, row, (sequence, None if sums is None else bytes(sums)))
        self.version, self.sequence, self.key = found

    def save(self, connection: Connection, vault: Vault, row: Any) -> None:
        """Store the open sums as they are in memory now."""
        self.sequence += 1
        sums, self.key = self.seal(vault)
        new = {"sum": sums, "key": self.key or None, "sequence": self.sequence}
        connection.execute(_SAVE, self._here(row) | new)

    def turn(self, connection: Connection, vault: Vault, row: Any) -> None:
        """Close the full window and open the next one, under the bandit's row lock."""
        released = self.close(connection, row)
        now = time.time()
        rounds = row.window_end - row.window_start
        release = {"window": row.window, "rounds": rounds, **released, "at": now}
        end = {"sum": None, "release": json.dumps(release), "closed": now}
        connection.execute(_END.values(**end), self._here(row))
        self.sequence += 1
        self._open_next(connection, vault, row)

    def reopen(
        self, connection: Connection, vault: Vault, row: Any, epoch: str, retired: bool
    ) -> None:
        """After a restore: go on in a new epoch, in a window of another name."""
        stays = self.restart(connection, vault, row)
        connection.execute(_END.values(sum=None), self._here(row))
        self.epoch = epoch
        self.sequence = 1
        self._open_next(connection, vault, row, retired=retired, alarm=None, **stays)

    def begin_with(
        self, connection: Connection, vault: Vault, row: Any, log: tuple[Any, Any], about: Any
    ) -> None:
        """Before the first decision: the window that is open is dropped, and one opens that knows
        an old log (rows in the ball of the norm bound, rewards)."""
        self.learner = self.new()
        self.learner.warm_start(*log, public=about.public)
        self.begin()
        now = time.time()
        release = {"window": row.window, "rounds": 0, "at": now, "history": to_builtins(about)}
        end = {"sum": None, "release": json.dumps(release), "closed": now}
        connection.execute(_END.values(**end), self._here(row))
        self.sequence += 1
        self._open_next(connection, vault, row)

    def _open_next(self, connection: Connection, vault: Vault, row: Any, **changed: Any) -> None:
        self.version = row.version + 1
        values = {"version": self.version, **self._opened(row.window + 1), **changed}
        where = tables.bandits.c.name == self.name
        connection.execute(sa.update(tables.bandits).where(where).values(**values))
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
        of_bandit = {"bandit": self.name, "epoch": self.epoch}
        connection.execute(
            sa.insert(tables.windows).values(
                **of_bandit,
                number=number,
                rounds=self.window()[1],
                sequence=self.sequence,
                sum=sums,
                key=self.key or None,
            )
        )
        policy = json.dumps(self.policy()).encode()
        connection.execute(
            sa.insert(tables.policies).values(
                **of_bandit, version=self.version, policy=policy, at=time.time()
            )
        )

    def _state(self, connection: Connection) -> dict[str, Any]:
        """The learner's state as the open window began."""
        stored = connection.execute(_LEARNER, {"b_bandit": self.name}).scalar_one()
        return from_bytes(bytes(stored))

    def _here(self, row: Any) -> dict[str, Any]:
        """The open window of a bandit's row, for the statements on top."""
        return {"b_bandit": row.name, "b_epoch": row.epoch, "b_number": row.window}
