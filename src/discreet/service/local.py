"""A bandit under local trust between two transactions: public policies, sums of private reports.

Everything here is public: a report is private before it arrives, whatever happens to it. So sums
are stored as they are, nothing is sealed, and a window may go on after a restore. A window is full
when it has the reports that it wants; the commit that fills it also turns it. Ids of reports are
kept while their window is open: a retry counts once, and later ones are answered `closed`.

Reports come from devices, or sealed and in batches from a relay: then the server cannot tell who
sent which, or when. `terms` says what such a batch is.
"""

import json
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import msgspec
import numpy as np
import sqlalchemy as sa
from sqlalchemy.engine import Connection

from discreet.bandits import LocalServer
from discreet.bandits.local import bandit_guarantee
from discreet.local import Answers
from discreet.local.report import BatchSum
from discreet.privacy import Guarantee
from discreet.privacy.interval import RESPONSE
from discreet.service import definitions, offers, sealing
from discreet.service import store as tables
from discreet.service.replies import ReportCounts
from discreet.service.schema import Definition
from discreet.service.sealing import Terms
from discreet.service.vault import Vault
from discreet.state import from_bytes, to_bytes

UNPROTECTED = (
    "network addresses, to whoever sees requests for policies and reports",
    "people who clear their device's storage, or use several devices: each device keeps its own "
    "promise",
)
_OPEN = ("_sums", "taken", "refused")  # of a LocalServer's state: what a report changes


@dataclass
class LocalHeld:
    """A bandit under local trust, for the writer's thread.

    name         of the bandit
    epoch        of the store
    definition   what the bandit is
    server       what was learnt, and the open sums
    version      of the policy
    sequence     of the sums as stored
    """

    name: str
    epoch: str
    definition: Definition
    server: LocalServer
    version: int = 0
    sequence: int = 0

    @property
    def tag(self) -> str:
        """What a report must name: the policy that it answers."""
        return f"{self.epoch}-{self.version}"

    def read(self, question: str, codes: Sequence[list[int]]) -> tuple[list[int], Answers]:
        """Answers to a question: the places of those that a device could have sent, and these."""
        policy = self.server.policy
        shape = policy.shape(question)
        nothing = Answers(policy.window, question, np.empty(0))
        if shape is None:
            return [], nothing
        wanted = sealing.entries(shape)
        places = [
            place
            for place, each in enumerate(codes)
            if len(each) == wanted and all(-RESPONSE <= code <= RESPONSE for code in each)
        ]
        if not places:
            return [], nothing
        integers = np.array([codes[place] for place in places], dtype=np.int64)
        channel = policy.channels[question]
        values = channel.decode(integers if shape else integers[:, 0])
        sound = channel.possible(values)
        kept = [place for place, good in zip(places, sound, strict=True) if good]
        return kept, Answers(policy.window, question, values[sound])

    @property
    def is_shuffled(self) -> bool:
        """Whether reports count in the batches of a relay only."""
        return self.server.crowd is not None

    def take(self, answers: list[Answers]) -> None:
        """Add what `read` found to the sums in memory; under shuffled trust it is a whole batch."""
        if self.is_shuffled:
            policy = self.server.policy
            self.server.aggregate(BatchSum.empty(policy).plus_answers(answers, policy))
        else:
            self.server.take_answers(answers)

    def counts(self) -> ReportCounts:
        """How many reports came: they are private already."""
        return ReportCounts(self.server.taken, self.server.refused)

    def refuse(self, reports: int = 1) -> None:
        """Count reports that no device could have sent."""
        self.server.refused += reports


def held(row: Any, definition: Definition) -> LocalHeld:
    """A bandit whose state is not loaded yet."""
    return LocalHeld(row.name, row.epoch, definition, definitions.local_server(definition))


def refresh(connection: Connection, held: LocalHeld, row: Any) -> None:
    """Take over what other replicas have done since."""
    table = tables.windows
    here = _window(row.name, row.epoch, row.window)
    sequence = connection.execute(sa.select(table.c.sequence).where(*here)).scalar_one()
    if (held.version, held.sequence) == (row.version, sequence):
        return
    held.server = _loaded(connection, held.definition, row)
    held.version, held.sequence = row.version, sequence


def guarantee(held: LocalHeld) -> Guarantee:
    """What each person is promised, whatever this server does."""
    return promised(held.server)


def promised(server: LocalServer) -> Guarantee:
    """What each person who answers this server is promised."""
    shuffled: dict[str, Any] = {}
    if server.crowd is not None:
        shuffled = {"batches": server.batches, "crowd": server.crowd}
    promise = bandit_guarantee(server.policy, sent=server.taken > 0, **shuffled)
    return replace(promise, unprotected=(*promise.unprotected, *UNPROTECTED))


MINIMUM = 0.5  # of a batch, under local trust; under shuffled trust the policy says it


def terms(held: LocalHeld, vault: Vault, policy: bytes) -> Terms:
    """What a relay and its devices are told: the key, and what a batch is. A window is a batch."""
    public = held.server.policy
    size = held.server.size(public.window)
    minimum = math.ceil(MINIMUM * size)
    if public.batch is not None:
        size, minimum = public.batch.size, public.batch.minimum
    longest = sealing.longest_report(public, held.tag)
    return Terms(
        bandit=held.name,
        policy=held.tag,
        digest=sealing.digest(policy),
        key=sealing.public_key(vault.report_key(held.name, held.tag)),
        size=-(-longest // sealing.STEP) * sealing.STEP,
        batch=size,
        minimum=minimum,
        epsilon=public.report_epsilon,
    )


def document(definition: Definition, server: LocalServer) -> dict[str, Any]:
    """The public policy: all that a device needs to decide and to answer, in any language."""
    policy = server.policy
    channels = {
        question.kind: policy.channels[question.name].thresholds for question in policy.questions
    }
    return {**policy.to_dict(), "channels": channels, "features": features(definition)}


def features(definition: Definition) -> dict[str, Any]:
    """How a device makes rows: parts of an action times (1, columns of the context).

    Lists, since the order counts. A row is the outer product of the two, parts first
    (`discreet.features`); the scale is in the parts.
    """
    declared = offers.features(definition)
    if declared is None:
        return {"dim": definition.dim}
    assert isinstance(declared, offers.Declared)
    columns = []
    anyone: dict[str, Any] = {}
    width = 1
    for name, column in (definition.context or {}).items():
        columns.append({"name": name, **msgspec.to_builtins(column)})
        if column.number is not None:
            anyone[name] = column.number[0]
            width += 1
        else:
            assert column.category is not None
            anyone[name] = column.category[0]
            width += len(column.category) + column.other
    rows = declared.map(anyone)
    parts = rows.reshape(len(rows), -1, width)[:, :, 0]  # the first column is the constant 1
    actions = [
        {"name": name, "parts": each.tolist()}
        for name, each in zip(declared.map.actions, parts, strict=True)
    ]
    return {"columns": columns, "actions": actions}


# -- transactions ----------------------------------------------------------------------------------


def create(connection: Connection, name: str, epoch: str, definition: Definition) -> None:
    """Store a new bandit whose first window is open."""
    definition = definitions.parsed(definition.normalised())  # in the order that is stored
    server = definitions.local_server(definition)
    stored = definition.normalised().decode()
    tables.add_bandit(connection, name, stored, **_opened(server, epoch, 1, 0))
    _store(connection, definition, server, name, epoch, window=1, version=1, sequence=1)


def save(connection: Connection, held: LocalHeld, row: Any, counted: int) -> None:
    """Store the open sums as they are in memory now."""
    sequence = held.sequence + 1
    connection.execute(
        sa.update(tables.windows)
        .where(*_window(held.name, held.epoch, row.window))
        .values(sum=_open_part(held.server), sequence=sequence)
    )
    connection.execute(
        sa.update(tables.bandits)
        .where(tables.bandits.c.name == held.name)
        .values(next_round=tables.bandits.c.next_round + counted)
    )
    held.sequence = sequence


def turn(connection: Connection, held: LocalHeld, row: Any) -> None:
    """Close the full window, learn from its sums, publish the next policy."""
    state = held.server._stored()["state"]
    sums = {name: each["of"] for name, each in state["_sums"].items()}
    now = time.time()
    release = {
        "window": row.window,
        "rounds": row.window_end - row.window_start,
        "count": held.server.taken - row.window_start,
        "sum": {name: np.asarray(each["total"]).tolist() for name, each in sums.items()},
        "at": now,
    }
    connection.execute(
        sa.update(tables.windows)
        .where(*_window(row.name, row.epoch, row.window))
        .values(sum=None, release=json.dumps(release), closed=now)
    )
    connection.execute(sa.delete(tables.reports).where(tables.reports.c.bandit == row.name))
    held.server.close()
    number, version, sequence = row.window + 1, row.version + 1, held.sequence + 1
    connection.execute(
        sa.update(tables.bandits)
        .where(tables.bandits.c.name == row.name)
        .values(version=version, **_opened(held.server, row.epoch, number, held.server.taken))
    )
    _store(connection, held.definition, held.server, row.name, row.epoch, number, version, sequence)
    held.version, held.sequence = version, sequence


def reopen(connection: Connection, row: Any, epoch: str) -> None:
    """After a restore: the window goes on in a new epoch, under a new name of its policy.

    Reports hold their own noise, so nothing of it could be used twice. Devices that answered a
    policy which this database has forgotten name another epoch, and are answered `closed`.
    """
    definition = definitions.parsed(row.definition.encode())
    server = _loaded(connection, definition, row)
    number, version = row.window + 1, row.version + 1
    opened = _opened(server, epoch, number, row.window_start)
    opened["next_round"] = row.next_round  # reports of the open window were taken
    connection.execute(
        sa.update(tables.bandits)
        .where(tables.bandits.c.name == row.name)
        .values(version=version, alarm=None, **opened)
    )
    _store(connection, definition, server, row.name, epoch, number, version, 1)


def _opened(server: LocalServer, epoch: str, number: int, start: int) -> dict[str, Any]:
    return {
        "epoch": epoch,
        "window": number,
        "window_start": start,
        "window_end": start + server.size(server.policy.window),
        "next_round": start,
        "returned": "[]",
        "learning": True,
        "learner": to_bytes(server._stored()),
    }


def _store(
    connection: Connection,
    definition: Definition,
    server: LocalServer,
    name: str,
    epoch: str,
    window: int,
    version: int,
    sequence: int,
) -> None:
    connection.execute(
        sa.insert(tables.windows).values(
            bandit=name,
            epoch=epoch,
            number=window,
            rounds=server.size(server.policy.window),
            sequence=sequence,
            sum=_open_part(server),
        )
    )
    connection.execute(
        sa.insert(tables.policies).values(
            bandit=name,
            epoch=epoch,
            version=version,
            policy=json.dumps(document(definition, server)).encode(),
            at=time.time(),
        )
    )


def _open_part(server: LocalServer) -> bytes:
    state = server._stored()["state"]
    return to_bytes({name: state[name] for name in _OPEN})


def _loaded(connection: Connection, definition: Definition, row: Any) -> LocalServer:
    """What was learned from closed windows, with the sums of the open one."""
    learner, window = tables.bandits, tables.windows
    stored = connection.execute(
        sa.select(learner.c.learner).where(learner.c.name == row.name)
    ).scalar_one()
    sums = connection.execute(
        sa.select(window.c.sum).where(*_window(row.name, row.epoch, row.window))
    ).scalar_one()
    state = from_bytes(bytes(stored))
    state["state"] |= from_bytes(bytes(sums))
    server = definitions.local_server(definition)
    server._restore(state)
    return server


def _window(name: str, epoch: str, number: int) -> tuple[Any, ...]:
    table = tables.windows
    return table.c.bandit == name, table.c.epoch == epoch, table.c.number == number
