"""Writing decisions that are kept, in one transaction: the same request has the same answer."""

import math
import time
from collections.abc import Sequence
from typing import Any

import msgspec
import sqlalchemy as sa
from sqlalchemy.engine import Connection

from discreet.service import store as tables
from discreet.service.buckets import Buckets
from discreet.service.errors import Problem, conflict
from discreet.service.pending import Kept, Name, Pending, seal
from discreet.service.people import People
from discreet.service.replies import DecisionReply
from discreet.service.schema import Definition
from discreet.service.server import Server
from discreet.service.tenant import counts_round, is_learning

Asked = tuple[Name, bytes]  # an id, and the keyed hash of what was asked


class Draft(msgspec.Struct):
    """A decision that is to be kept, unless its request was answered before.

    id         that names it, if any
    request    keyed hash of what was asked
    round      of the decision
    reply      to the request
    deadline   of its reward
    active     whether a default counts without an activation
    """

    id: Name | None
    request: bytes
    round: int
    reply: DecisionReply
    deadline: float
    active: bool


def keep(server: Server, name: str, payloads: Sequence[Sequence[Draft]]) -> list[list[Any]]:
    """Write what is kept; a request that was made before gets its first answer again."""
    with server.store.transaction() as connection:
        row = server.row(connection, name)
        definition = server.tenant_of(connection, row).definition  # refuses another epoch
        batch = _Keeping(server, connection, row, definition)
        batch.pending.load([each.id for some in payloads for each in some if each.id is not None])
        results = [[batch.answered(draft) for draft in some] for some in payloads]
        batch.store()
    return results


def known(server: Server, name: str, payloads: Sequence[Sequence[Asked]]) -> list[list[Any]]:
    """The first answers to requests that were made before, a problem for an id that is taken, and
    None for what is new: no round is spent on a request that is repeated."""
    with server.store.transaction() as connection:
        row = server.row(connection, name)
        server.assert_present(connection, row)
        pending = Pending(connection, server.buckets, server.sealer, row.name, row.epoch)
        pending.load([each for some in payloads for each, _ in some])
        return [[_before(pending, *asked) for asked in some] for some in payloads]


def _before(pending: Pending, name: Name, request: bytes) -> DecisionReply | Problem | None:
    """The first answer to a request with this id; a problem if the request was another."""
    entry = pending.entry(name)
    if entry is None:
        return None if pending.used(name) is None else _settled()
    kept = pending.kept(entry)
    return _settled() if kept is None else _repeated(kept, request)


def _repeated(kept: Kept, request: bytes) -> DecisionReply | Problem:
    # Of what an earlier version kept nothing tells who asked, and for what.
    return kept.reply() if kept.request == request else _id_taken()


class _Keeping:
    """One transaction's decisions that are kept.

    server       has the keys
    connection   of the transaction
    row          of the bandit, locked
    definition   of the bandit
    """

    def __init__(
        self, server: Server, connection: Connection, row: Any, definition: Definition
    ) -> None:
        self._server, self._connection = server, connection
        self._here = {"bandit": row.name, "epoch": row.epoch}
        self._about = f"{row.epoch}\n{row.name}".encode()
        self._definition, self._learning = definition, is_learning(row)
        self._waits = definition.reward.default is not None
        privacy = definition.privacy
        self._first_counts = privacy.unit == "person" and privacy.visits != "all"
        self._people = People(connection, row.name, row.epoch, b"")
        self._fresh: list[dict[str, Any]] = []
        self._rewards: dict[tuple[int, str], float | None] = {}
        self._known: dict[Name, Kept] = {}
        self.pending = Pending(connection, server.buckets, server.sealer, row.name, row.epoch)

    def answered(self, draft: Draft) -> DecisionReply | Problem:
        """The answer to a request, which is written by `store`; or that of the same one before."""
        if draft.id is not None:
            kept = self._known.get(draft.id)
            if kept is not None:
                return _repeated(kept, draft.request)
            before = _before(self.pending, draft.id, draft.request)
            if before is not None:
                return before
        name = b"" if draft.id is None else draft.id[0]
        reply = draft.reply
        kept = Kept(
            reply.decision,
            reply.action,
            reply.probability,
            reply.policy,
            draft.request,
            name,
            self._is_first(reply),
        )
        if draft.id is not None:
            self._known[draft.id] = kept
        self._write(draft, kept)
        return reply

    def _is_first(self, reply: DecisionReply) -> bool:
        """Whether no decision of its person was kept before, where one counts for life."""
        if not self._first_counts:
            return True
        (sealed,) = self._server.sealer.open(self._about, [reply.decision])
        assert sealed is not None
        self._people.load([sealed])
        return self._people.admit(sealed)

    def _write(self, draft: Draft, kept: Kept) -> None:
        buckets, now = self._server.buckets, time.time()
        bucket = Buckets.named(draft.deadline, now)
        due = draft.deadline
        if not self._waits and not math.isinf(due):
            due = Buckets.after(due, now)  # nothing counts then: there is no hurry
        row = {
            "round": draft.round,
            "id": buckets.id_of(bucket, kept.name) if kept.name else None,
            "answer": seal(buckets, bucket, self._about, draft.round, kept),
            "bucket": bucket,
            "deadline": due,
            "active": draft.active and self._counts(draft.round),
        }
        self._fresh.append(self._here | row)
        if self._waits:
            self._rewards[draft.round, bucket] = None

    def _counts(self, number: int) -> bool:
        """Whether the default of a decision of now may count."""
        return self._learning and counts_round(self._definition, number)

    def store(self) -> None:
        """Write decisions, places for their rewards, and people."""
        if self._fresh:
            self._connection.execute(sa.insert(tables.pending), self._fresh)
        self.pending.keep(self._rewards)
        self._people.store()


def _id_taken() -> Problem:
    return conflict(
        "id-taken",
        "Another decision has this id.",
        "Choose a new id for every decision; repeat a request only unchanged.",
    )


def _settled() -> Problem:
    return conflict(
        "settled",
        "The decision with this id is settled.",
        "Choose a new id for every decision.",
    )
