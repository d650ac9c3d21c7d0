"""Writing decisions that are kept, in one transaction: the same request has the same answer."""

import math
import time
from collections.abc import Sequence
from typing import Any

import msgspec
from sqlalchemy.engine import Connection

from discreet.service.buckets import Buckets
from discreet.service.counted import People
from discreet.service.errors import Problem
from discreet.service.pending import Kept, Name, Pending
from discreet.service.replies import DecisionReply
from discreet.service.schema import Definition
from discreet.service.server import Server
from discreet.service.tenant import counts_round, is_learning

Asked = tuple[Name, bytes]  # an id, and the keyed hash of what was asked


class Draft(msgspec.Struct):
    """A decision that is to be kept, unless its request was answered before."""

    id: Name | None  # that names it, if any
    request: bytes  # keyed hash of what was asked
    round: int  # of the decision
    reply: DecisionReply  # to the request
    deadline: float  # of its reward
    active: bool  # whether a default counts without an activation


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
        pending = server.pending(connection, row)
        pending.load([each for some in payloads for each, _ in some])
        return [[_before(pending, *asked) for asked in some] for some in payloads]


def _before(pending: Pending, name: Name, request: bytes) -> DecisionReply | Problem | None:
    """The first answer to a request with this id; a problem if the request was another."""
    entry = pending.entry(name)
    if entry is None:
        return None if pending.used(name) is None else Problem("settled")
    kept = pending.kept(entry)
    return Problem("settled") if kept is None else _repeated(kept, request)


def _repeated(kept: Kept, request: bytes) -> DecisionReply | Problem:
    # Of what an earlier version kept nothing tells who asked, and for what.
    return kept.reply() if kept.request == request else Problem("id-taken")


class _Keeping:
    """One transaction's decisions that are kept."""

    def __init__(
        self, server: Server, connection: Connection, row: Any, definition: Definition
    ) -> None:
        self._server, self._definition = server, definition
        self._about = server.about(row.name)
        self._learning = is_learning(row)
        self._waits = definition.reward.default is not None
        privacy = definition.privacy
        self._first_counts = privacy.unit == "person" and privacy.visits != "all"
        self._people = People(connection, row.name, row.epoch, b"")
        self._rewards: dict[tuple[int, str], float | None] = {}
        self._known: dict[Name, Kept] = {}
        self.pending = server.pending(connection, row)

    def answered(self, draft: Draft) -> DecisionReply | Problem:
        """The answer to a request, which is written by `store`; or that of the same one before."""
        if draft.id is not None:
            if draft.id in self._known:
                return _repeated(self._known[draft.id], draft.request)
            before = _before(self.pending, draft.id, draft.request)
            if before is not None:
                return before
        name = b"" if draft.id is None else draft.id[0]
        given = msgspec.structs.asdict(draft.reply)
        first = self._is_first(draft.reply)
        kept = Kept(**given, request=draft.request, name=name, counts=first)
        if draft.id is not None:
            self._known[draft.id] = kept
        self._write(draft, kept)
        return draft.reply

    def _is_first(self, reply: DecisionReply) -> bool:
        """Whether no decision of its person was kept before, where one counts for life."""
        if not self._first_counts:
            return True
        (sealed,) = self._server.sealer.open(self._about, [reply.decision])
        assert sealed is not None
        self._people.load([sealed])
        return self._people.admit(sealed)

    def _write(self, draft: Draft, kept: Kept) -> None:
        now, due = time.time(), draft.deadline
        bucket = Buckets.named(due, now)
        if self._waits:
            self._rewards[draft.round, bucket] = None
        elif not math.isinf(due):
            due = Buckets.after(due, now)  # nothing counts then: there is no hurry
        # The default of a decision that is made now may not count.
        active = draft.active and self._learning and counts_round(self._definition, draft.round)
        self.pending.add(draft.round, bucket, kept, due, active=active)

    def store(self) -> None:
        """Write decisions, places for their rewards, and people."""
        self.pending.store()
        self.pending.keep(self._rewards)
        self._people.store()
