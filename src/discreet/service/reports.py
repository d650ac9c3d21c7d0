"""Local trust over HTTP: reports are counted once, in the same group commit as rewards.

    {"id": 32 hex digits, "policy": "epoch-version", "question": "moment", "values": [integers]}

Whoever sends one needs no key: a device holds no secret, and what it sends is private already.
"""

import re
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import sqlalchemy as sa
from sqlalchemy.engine import Connection

from discreet.service import administration, local
from discreet.service import store as tables
from discreet.service.errors import conflict, invalid, not_found
from discreet.service.learning import CLOSED, COUNTED, DUPLICATE, INVALID
from discreet.service.messages import ReportItem
from discreet.service.server import Server

ID = re.compile(r"[0-9a-f]{32}")
MOST_AT_ONCE = 10_000  # reports of one request
FRESH = 1.0  # seconds for which a replica answers with the policy that it knows
_ENCODER = msgspec.json.Encoder()


@dataclass(slots=True)
class Item:
    """One report, as far as it can be read without the store."""

    id: bytes
    policy: str
    question: str
    values: list[int]


def prepared(report: ReportItem) -> Item | None:
    """A report that is one by its form; None if no device sends such a thing."""
    texts = (report.id, report.policy, report.question)
    if any(not isinstance(text, str) or len(text) > 64 for text in texts):
        return None
    if not ID.fullmatch(report.id) or not isinstance(report.values, list):
        return None
    if any(isinstance(each, bool) or not isinstance(each, int) for each in report.values):
        return None
    return Item(bytes.fromhex(report.id), report.policy, report.question, report.values)


async def take(server: Server, name: str, reports: Sequence[ReportItem]) -> list[str]:
    """The status of each report, once all that counted are durable."""
    if len(reports) > MOST_AT_ONCE:
        raise invalid(f"send at most {MOST_AT_ONCE} reports at once")
    items = [prepared(report) for report in reports]
    statuses: list[str] = await server.writer.do(
        ("report", name), lambda payloads: _commit(server, name, payloads), items
    )
    return statuses


def _commit(
    server: Server, name: str, payloads: Sequence[Sequence[Item | None]]
) -> list[list[str]]:
    """All waiting reports of a bandit in one transaction."""
    try:
        with server.store.transaction() as connection:
            row = server.store.lock_bandit(connection, name)
            if row is None:
                raise not_found("bandit")
            held = server.held_of(connection, row)
            if not isinstance(held, local.LocalHeld):
                raise conflict(
                    "no-reports",
                    "This bandit takes rewards, not reports.",
                    "Its trust is 'joint': decide and learn through the API.",
                )
            batch = _Batch(server, connection, row, held)
            batch.load([item.id for items in payloads for item in items if item is not None])
            answers = [[batch.one(item) for item in items] for items in payloads]
            batch.store()
    except BaseException:
        server.forget(name)
        raise
    if batch.turned:
        server.public.pop(name, None)
    return answers


class _Batch:
    """One transaction's reports."""

    def __init__(
        self, server: Server, connection: Connection, row: Any, held: "local.LocalHeld"
    ) -> None:
        self.server, self.connection, self.row, self.held = server, connection, row, held
        self.turned = False
        self._known: set[bytes] = set()
        self._new: list[bytes] = []
        self._changed = False

    def load(self, ids: Sequence[bytes]) -> None:
        """Look up which of these reports were counted before."""
        table = tables.reports
        for start in range(0, len(ids), 500):
            found = self.connection.execute(
                sa.select(table.c.id).where(
                    table.c.bandit == self.row.name, table.c.id.in_(ids[start : start + 500])
                )
            )
            self._known |= {bytes(each) for each in found.scalars()}

    def one(self, item: Item | None) -> str:
        """The status of a report; what counts is in the sums in memory then."""
        if item is None:
            self.held.refuse()
            self._changed = True
            return INVALID
        row = self.row
        if item.policy != self.held.tag or row.retired or row.alarm or not row.learning:
            return CLOSED
        if item.id in self._known:
            return DUPLICATE
        self._changed = True
        if not self.held.take(item.question, item.values):
            return INVALID
        self._known.add(item.id)
        self._new.append(item.id)
        if self.held.server.full:
            self.store()
            local.turn(self.connection, self.held, self.row)
            self.row = self.server.store.lock_bandit(self.connection, self.row.name)
            self._known.clear()
            self.turned = True
        return COUNTED

    def store(self) -> None:
        """Write ids and sums."""
        if self._new:
            self.connection.execute(
                sa.insert(tables.reports),
                [{"bandit": self.row.name, "id": each} for each in self._new],
            )
        if self._changed:
            local.save(self.connection, self.held, self.row, len(self._new))
        self._new, self._changed = [], False


async def public_policy(server: Server, name: str) -> tuple[str, bytes] | None:
    """ETag and JSON of the policy, if it is for everybody; None for joint trust and for no bandit.

    A replica asks the store at most once in FRESH seconds, whoever asks it.
    """
    found = server.public.get(name)
    now = time.monotonic()
    if found is None or found[0] < now:
        found = (now + FRESH, await administration.local_policy(server, name))
        if found[1] is None:
            return None
        server.public[name] = found
    shown: tuple[str, bytes] | None = found[1]
    return shown
