"""Close, release, open, publish: a bandit's learner between two transactions.

The learner's state is stored in two parts. What is public (belief, ledger, the open window's plan)
stands in the bandit's row and changes when a window turns. The open noisy sum is sealed (vault.py)
and changes at every commit. Noise is drawn when a window opens and lives in the sum, never in a
code path: any replica may close a window that another one opened, and doing it again gives the same
bits.
"""

import json
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import sqlalchemy as sa
from sqlalchemy.engine import Connection

from discreet.arrays import Array
from discreet.bandits import LinearBandit
from discreet.privacy import Guarantee, Noise
from discreet.service import definitions, local, offers, people, schema
from discreet.service import store as tables
from discreet.service.errors import conflict
from discreet.service.schema import Definition
from discreet.service.vault import NAME_BYTES, Vault
from discreet.state import from_bytes, to_bytes

KEPT = (
    "decisions that are named by the caller or have a default reward, to whoever steals store and "
    "secrets while they wait"
)
DISK = (
    "the last batch of rewards, to whoever steals store and secrets together",
    "a snapshot of store and secrets together that is served twice, unless a witness notices",
)
RESTORED = (
    "people who were counted before a restore from a backup: they may be counted once more, and "
    "their population is charged for it"
)
_WINDOWS = tables.windows.c
_WINDOW = sa.and_(
    _WINDOWS.bandit == sa.bindparam("b_bandit"),
    _WINDOWS.epoch == sa.bindparam("b_epoch"),
    _WINDOWS.number == sa.bindparam("b_number"),
)
_SEALED_WITH = sa.select(_WINDOWS.sequence, _WINDOWS.key).where(_WINDOW)
_SUM = sa.select(_WINDOWS.sum).where(_WINDOW)
_SAVE = (
    sa.update(tables.windows)
    .where(_WINDOW)
    .values({name: sa.bindparam(name) for name in ("sum", "key", "sequence")})
)
_RATE_MEMORY = 0.8  # of the rate of decisions, from lease to lease


# -- what the event loop knows ---------------------------------------------------------------------


@dataclass
class Live:
    """A bandit for deciding: its public policy, and round numbers that this replica may use.

    name         of the bandit
    definition   what the bandit is
    features     makes rows of contexts and actions; None for raw rows
    wait         seconds for which rewards count
    policy       of the open window
    version      of the policy
    window       its number
    end          see `first`
    used_at      when it last decided, on the monotonic clock
    window_size  decisions in the open window
    rng          of the coins that choose
    """

    name: str
    definition: Definition
    features: Any
    wait: float
    about: bytes  # what its tokens are bound to: epoch and name
    policy: Any = None
    version: int = 0
    window: int = 0
    first: int = 0  # numbers first .. end - 1 are this replica's
    end: int = 0
    lease_ends: float = 0.0  # on the monotonic clock
    rate: float = 0.0  # decisions a second, lately
    used_at: float = 0.0
    waiting: Any = None  # a lease that is on its way
    spare: tuple[int, int, float] | None = None  # the next block of the same window, and its end
    returning: int = 0  # numbers that are on their way back to the store
    window_size: int = 0
    wanted: int = 0  # numbers that callers wait for
    rng: np.random.Generator = field(default_factory=np.random.default_rng)
    holdout: Any = None  # which rounds play a baseline
    held_out: Any = None  # from numbers of rounds to whether they do

    def coin(self, number: int) -> float:
        """What decides one round."""
        coin = float(self.rng.random())
        if self.holdout is None:
            return coin
        return float(self.holdout.coins(self.held_out(number), coin))

    def coins(self, first: int, n: int) -> Array:
        """What decides n rounds; the policy gives some of them to the baseline."""
        coins = self.rng.random(n)
        if self.holdout is None:
            return coins
        held = self.held_out(np.arange(first, first + n))
        return np.asarray(self.holdout.coins(held, coins))

    @property
    def unused(self) -> int:
        """Numbers that this replica has leased and not used."""
        spare = 0 if self.spare is None else self.spare[1] - self.spare[0]
        return self.end - self.first + spare + self.returning

    def note(self, decisions: int) -> None:
        """Decisions were made: the next lease is as long as traffic is dense."""
        now = time.monotonic()
        gap = max(now - self.used_at, 1e-4)
        self.rate = _RATE_MEMORY * self.rate + (1 - _RATE_MEMORY) * min(decisions / gap, 1e6)
        self.used_at = now


def live(row: Any) -> Live:
    """A bandit from its row, without a policy yet."""
    definition = definitions.parsed(row.definition.encode())
    if definition.privacy.on_devices:
        raise conflict(
            "devices-decide",
            "Under local trust devices decide by themselves, and send reports.",
            "Read the policy, and send reports (clients/js does both).",
        )
    return Live(
        row.name,
        definition,
        offers.features(definition),
        schema.wait(definition),
        f"{row.epoch}\n{row.name}".encode(),
    )


def publisher(held: "Held", row: Any) -> Callable[[Live], None]:
    """Sets the policy of the open window, on the event loop, when its lease arrives there."""
    learner = held.learner
    policy, version, window = learner.policy, row.version, row.window
    size = row.window_end - row.window_start

    def publish(live: Live) -> None:
        live.policy, live.version, live.window = policy, version, window
        live.window_size = size
        live.holdout, live.held_out = learner.holdout, learner.held_out

    return publish


# -- what the writer's thread knows ----------------------------------------------------------------


@dataclass
class Held:
    """A bandit for learning: its learner with the open noisy sum.

    name         of the bandit
    epoch        of the store
    definition   what the bandit is
    learner      with the open noisy sum
    version      of the policy
    """

    name: str
    epoch: str
    definition: Definition
    learner: LinearBandit
    version: int = 0
    sequence: int = 0  # of the sum that the learner holds now
    key: bytes = b""  # name of the key that sealed it: another history has another one
    visit_key: bytes = b""  # of the open window's people, where each window counts anew

    def fold(self, rows: Array, rewards: Array, rounds: Any) -> None:
        """Add rewarded rows of tokens, in units of the norm bound, to the open noisy sum."""
        self.learner._fold(rows, rewards / self.learner._scale, np.asarray(rounds))


def held(row: Any, noise: Noise) -> Held | local.LocalHeld:
    """A bandit whose learner is not loaded yet."""
    definition = definitions.parsed(row.definition.encode())
    if definition.privacy.on_devices:
        return local.held(row, definition)
    return Held(row.name, row.epoch, definition, definitions.learner(definition, noise))


def refresh(connection: Connection, vault: Vault, held: Held | local.LocalHeld, row: Any) -> None:
    """Take over what other replicas have done since."""
    if isinstance(held, local.LocalHeld):
        local.refresh(connection, held, row)
        return
    here = _here(row)
    sequence, key = connection.execute(_SEALED_WITH, here).one()
    found = (row.version, sequence, bytes(key or b""))
    if (held.version, held.sequence, held.key) == found:
        return
    if held.version != row.version:
        held.learner = _loaded(connection, held.definition, row.name, held.learner.noise)
    sealed = connection.execute(_SUM, here).scalar_one()
    if sealed is not None and held.learner._window is not None:
        content = vault.open(row.name, row.epoch, sequence, bytes(sealed))
        held.visit_key, total = _unpacked(held.definition, content)
        held.learner._window.total._value = total  # type: ignore[attr-defined]
    held.version, held.sequence, held.key = found


def guarantee(held: Held | local.LocalHeld) -> Guarantee:
    """What the service promises: the learner's promise, and what a server adds to worry about."""
    if isinstance(held, local.LocalHeld):
        return local.guarantee(held)
    return _served(held.definition, held.learner)


def promised(definition: Definition) -> tuple[Any, Guarantee]:
    """The learner of a definition, new, and what the service would promise with it."""
    if definition.privacy.on_devices:
        server = definitions.local_server(definition)
        return server, local.promised(server)
    learner = definitions.learner(definition)
    return learner, _served(definition, learner)


def _served(definition: Definition, learner: LinearBandit) -> Guarantee:
    promise = learner.guarantee
    more = list(DISK)
    if definition.reward.default is not None:
        more.append(KEPT)
    if promise.visits:
        more.append(RESTORED)
    return replace(promise, unprotected=(*promise.unprotected, *more))


# -- transactions ----------------------------------------------------------------------------------


def create(
    connection: Connection,
    vault: Vault,
    name: str,
    epoch: str,
    definition: Definition,
    noise: Noise,
) -> None:
    """Store a new bandit whose first window is open."""
    if definition.privacy.on_devices:
        local.create(connection, name, epoch, definition)
        return
    definition = definitions.parsed(definition.normalised())  # in the order that is stored
    learner = definitions.learner(definition, noise)
    learner.turn()
    stored = definition.normalised().decode()
    tables.add_bandit(connection, name, stored, **_opened(learner, epoch, 1))
    opened = Held(name, epoch, definition, learner, version=1, sequence=1)
    _store(connection, vault, opened, 1)


def turn(connection: Connection, vault: Vault, held: Held, row: Any) -> None:
    """Close the full window and open the next one, under the bandit's row lock."""
    learner = held.learner
    before = len(learner.totals)
    learner.advance(row.window_end - learner.rounds)
    learner.turn()
    now = time.time()
    release = {
        "window": row.window,
        "rounds": row.window_end - row.window_start,
        **{k: v for each in learner.totals[before:] for k, v in each.published().items()},
        "at": now,
    }
    closed = {"sum": None, "release": json.dumps(release), "closed": now}
    connection.execute(sa.update(tables.windows).where(_WINDOW).values(**closed), _here(row))
    if held.visit_key:
        people.forget(connection, row)
    number = row.window + 1
    held.version = row.version + 1
    held.sequence += 1
    connection.execute(
        sa.update(tables.bandits)
        .where(tables.bandits.c.name == row.name)
        .values(version=held.version, **_opened(learner, row.epoch, number))
    )
    _store(connection, vault, held, number)


def reopen(
    connection: Connection, vault: Vault, row: Any, epoch: str, noise: Noise, retired: bool
) -> None:
    """After a restore: the open window is discarded unread, and another opens in a new epoch."""
    definition = definitions.parsed(row.definition.encode())
    if definition.privacy.on_devices:
        local.reopen(connection, row, epoch)
        return
    learner = _loaded(connection, definition, row.name, noise)
    learner.discard()
    number = row.window + 1
    opened = Held(row.name, epoch, definition, learner, version=row.version + 1, sequence=1)
    public = _opened(learner, epoch, number)
    connection.execute(
        sa.update(tables.bandits)
        .where(tables.bandits.c.name == row.name)
        .values(version=opened.version, retired=retired, alarm=None, **public)
    )
    connection.execute(sa.update(tables.windows).where(_WINDOW).values(sum=None), _here(row))
    if definition.privacy.visits == "all":
        people.forget(connection, row)
    _store(connection, vault, opened, number)


def save_sum(connection: Connection, vault: Vault, held: Held, row: Any) -> None:
    """Store the open sum as it is in memory now, under a new key."""
    sequence = held.sequence + 1
    sealed = vault.seal(held.name, held.epoch, sequence, _packed(held))
    key = sealed[:NAME_BYTES]
    connection.execute(_SAVE, {**_here(row), "sum": sealed, "key": key, "sequence": sequence})
    held.sequence, held.key = sequence, key


def _opened(learner: LinearBandit, epoch: str, number: int) -> dict[str, Any]:
    start = learner.rounds
    return {
        "epoch": epoch,
        "window": number,
        "window_start": start,
        "window_end": start + learner.rounds_until_release,
        "next_round": start,
        "returned": "[]",
        "learning": learner.learning,
        "learner": _public_state(learner),
    }


def _loaded(
    connection: Connection, definition: Definition, name: str, noise: Noise
) -> LinearBandit:
    """The learner of a bandit, its open sum still empty."""
    table = tables.bandits
    stored = connection.execute(sa.select(table.c.learner).where(table.c.name == name)).scalar_one()
    learner = definitions.learner(definition, noise)
    learner._restore(from_bytes(bytes(stored)))
    return learner


def _public_state(learner: LinearBandit) -> bytes:
    """The learner's state without the open sum: everything else in it is public."""
    state = learner._stored()
    window = state["state"]["_window"]
    if window is not None:
        total = window["of"]["total"]["of"]
        total["_value"] = np.zeros_like(total["_value"])
    return to_bytes(state)


def _store(connection: Connection, vault: Vault, held: Held, number: int) -> None:
    """Write the window that has just opened, and its policy; people come to it as new ones."""
    learner = held.learner
    held.visit_key = b""
    held.key = b""
    sealed = None
    if learner.window is not None:
        if held.definition.privacy.visits == "all":
            held.visit_key = secrets.token_bytes(people.KEY_BYTES)
        sealed = vault.seal(held.name, held.epoch, held.sequence, _packed(held))
        held.key = sealed[:NAME_BYTES]
    connection.execute(
        sa.insert(tables.windows).values(
            bandit=held.name,
            epoch=held.epoch,
            number=number,
            rounds=learner.rounds_until_release,
            sequence=held.sequence,
            sum=sealed,
            key=held.key or None,
        )
    )
    connection.execute(
        sa.insert(tables.policies).values(
            bandit=held.name,
            epoch=held.epoch,
            version=held.version,
            policy=json.dumps(learner.policy.to_dict()).encode(),  # type: ignore[attr-defined]
            at=time.time(),
        )
    )


def _packed(held: Held) -> bytes:
    """What is private of an open window: the key of its people, and its noisy sum."""
    total = held.learner._window.total._value  # type: ignore[union-attr]
    return held.visit_key + np.asarray(total, dtype="<f8").tobytes()


def _unpacked(definition: Definition, content: bytes) -> tuple[bytes, Array]:
    size = people.KEY_BYTES if definition.privacy.visits == "all" else 0
    return content[:size], np.frombuffer(content[size:], dtype="<f8").astype(np.float64)


def _here(row: Any) -> dict[str, Any]:
    """The open window of a bandit's row, for the statements on top."""
    return {"b_bandit": row.name, "b_epoch": row.epoch, "b_number": row.window}
