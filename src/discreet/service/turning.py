"""Close, release, open, publish: a bandit's learner between two transactions.

The learner's state is stored in two parts. What is public (belief, ledger, window plan) stands in
the bandit's row and changes when a window turns. The open noisy sum is sealed (vault.py) and changes
at every commit. Noise is drawn when a window opens and lives in the sum, never in a code path: any
replica may close a window that another one opened, and doing it again gives the same bits.
"""

import json
import time
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import sqlalchemy as sa
from sqlalchemy.engine import Connection

from discreet.bandits import LinearBandit
from discreet.privacy import Noise
from discreet.privacy.checks import Array
from discreet.service import definitions
from discreet.service import store as tables
from discreet.service.definitions import Definition
from discreet.service.vault import Vault
from discreet.state import packed, unpacked


@dataclass
class Live:
    """A bandit as one replica knows it."""

    name: str
    epoch: str
    definition: Definition
    learner: LinearBandit
    version: int = 0
    window: int = 0
    sequence: int = 0  # of the sum that the learner holds now
    features: Any = None
    wait: float = float("inf")
    about: bytes = b""  # what its tokens are bound to
    retired: bool = False
    alarm: str | None = None
    # Leased rounds, for `deciding`: numbers first .. end - 1 are this replica's.
    first: int = 0
    end: int = 0
    lease_ends: float = 0.0
    leased_at: float = 0.0
    rate: float = 0.0  # decisions a second, lately
    waiting: Any = None  # a lease that is on its way
    rng: np.random.Generator = field(default_factory=np.random.default_rng)

    @property
    def policy(self) -> Any:
        """The public policy of the open window."""
        return self.learner.policy


def opened(
    connection: Connection, vault: Vault, name: str, epoch: str, definition: Definition, noise: Noise
) -> None:
    """Store a new bandit whose first window is open."""
    learner = definitions.learner(definition, noise)
    learner.turn()
    start = learner.rounds
    connection.execute(
        sa.insert(tables.bandits).values(
            name=name,
            definition=definition.normalised().decode(),
            epoch=epoch,
            created=time.time(),
            window=1,
            window_start=start,
            window_end=start + learner.rounds_until_release,
            next_round=start,
            returned="[]",
            version=1,
            learner=_public(learner),
            retired=False,
            learning=learner.learning,
        )
    )
    _store_window(connection, vault, name, epoch, 1, learner, 1)
    _publish(connection, name, epoch, 1, learner)


def loaded(
    connection: Connection, vault: Vault, row: Any, noise: Noise
) -> Live:
    """A bandit from its row; the open sum too, unless the secrets are gone."""
    definition = definitions.parsed(row.definition.encode())
    learner = definitions.learner(definition, noise)
    live = Live(row.name, row.epoch, definition, learner)
    live.features = definitions.features(definition)
    live.wait = definitions.wait(definition)
    live.about = f"{row.epoch}\n{row.name}".encode()
    refreshed(connection, vault, live, row)
    return live


def refreshed(connection: Connection, vault: Vault, live: Live, row: Any) -> None:
    """Take over what other replicas have done since."""
    live.retired, live.alarm = row.retired, row.alarm
    sequence, sealed = connection.execute(
        sa.select(tables.windows.c.sequence, tables.windows.c.sum).where(
            tables.windows.c.bandit == row.name,
            tables.windows.c.epoch == row.epoch,
            tables.windows.c.number == row.window,
        )
    ).one()
    if live.version == row.version and live.sequence == sequence:
        return
    if live.version != row.version:
        state = unpacked(connection.execute(
            sa.select(tables.bandits.c.learner).where(tables.bandits.c.name == row.name)
        ).scalar_one())
        fresh = definitions.learner(live.definition, live.learner.noise)
        fresh.load_state_dict(state)
        live.learner = fresh
    if sealed is not None:
        live.learner.window.value = vault.open(row.name, row.epoch, sequence, bytes(sealed))
    live.version, live.window, live.sequence = row.version, row.window, sequence


def turned(connection: Connection, vault: Vault, live: Live, row: Any) -> dict[str, Any]:
    """Close the full window and open the next, inside a transaction under the bandit's lock."""
    refreshed(connection, vault, live, row)
    learner = live.learner
    learner.rounds_made(row.next_round)
    release = learner.turn()
    now = time.time()
    record = {
        "window": row.window,
        "rounds": row.window_end - row.window_start,
        "count": release["count"],
        "sum": release["sum"],
        "at": now,
    }
    connection.execute(
        sa.update(tables.windows)
        .where(
            tables.windows.c.bandit == row.name,
            tables.windows.c.epoch == row.epoch,
            tables.windows.c.number == row.window,
        )
        .values(sum=None, release=json.dumps(record), closed=now)
    )
    return record


def fold(live: Live, rows: Array, rewards: Array) -> None:
    """Add rewarded rows to the open noisy sum in memory; `save_sum` makes it last."""
    live.learner.window.fold(rows, rewards)


def _public(learner: LinearBandit) -> bytes:
    return packed(learner.public_state())


def _store_window(*_: Any) -> None: ...


def _publish(*_: Any) -> None: ...
