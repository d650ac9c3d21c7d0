"""Group commit: open tokens, fold, mark, answer.

Rewards that wait together are one transaction: the bandit's row is locked, marks say which rounds
had their reward, new ones are folded into the open noisy sum as one batch, the sum is sealed under
a new key, and everybody is answered when the commit is on disk. What an answer says depends on the
token, the clock and the caller's own earlier calls, never on another person's reward.
"""

import asyncio
import math
import time
from collections.abc import Sequence
from functools import partial
from itertools import islice
from typing import Any

import msgspec
import numpy as np
import sqlalchemy as sa
from sqlalchemy.engine import Connection

from discreet.service import deciding
from discreet.service import store as tables
from discreet.service.bodies import OFF_LOOP, assert_alone, decoded
from discreet.service.buckets import day
from discreet.service.counted import Marks, People
from discreet.service.errors import invalid, unauthorized
from discreet.service.joint import Joint
from discreet.service.keys import Key
from discreet.service.leasing import MOST_AT_ONCE
from discreet.service.limits import STRANGERS_ITEMS
from discreet.service.live import Live
from discreet.service.messages import RewardItem
from discreet.service.pending import Kept, Name
from discreet.service.replies import StatusesReply, StatusReply
from discreet.service.schema import wait
from discreet.service.server import Server
from discreet.service.tenant import counts_round, is_learning, is_settling
from discreet.service.tokens import PREFIX, Sealed

COUNTED = "counted"
DUPLICATE = "duplicate"
LATE = "late"
ACCEPTED = "accepted"
CLOSED = "closed"
UNKNOWN = "unknown"
INVALID = "invalid"
_LONGEST_ID = 16384  # characters of what may name a decision
IDS_AT_ONCE = 500  # in a transaction: each is looked up under the key of every bucket


class Sent(RewardItem, omit_defaults=True, forbid_unknown_fields=True):
    """One reward, or many as they came: an item that is no object is as bad as any, and alone."""

    rewards: list[Any] | None = None  # many of them


# A number beyond all floats is infinite, and so its own item's fault, not that of the whole call.
_SENT = msgspec.json.Decoder(Sent, float_hook=float)


async def learn_any(
    server: Server, name: str, raw: bytes, key: Key | None, address: str = ""
) -> Any:
    """Send rewards; a retry never hurts.

    Without a key a sealed token is the authority for its own reward; an id is none. Each counts as
    a call of its address.
    """
    if key is None:
        sent = read(raw, STRANGERS_ITEMS)
        server.strangers.owe(address, len(sent.rewards or (sent,)) - 1)
        return await _learn_tokens(server, name, sent)
    large = len(raw) > OFF_LOOP
    body = await asyncio.to_thread(read, raw) if large else read(raw)
    live = server.live.get(name) or await deciding.live_bandit(server, name)
    if body.rewards is None:
        return StatusReply(await learn_one(server, live, body, key.name))
    given = server, live, body.rewards, key.name
    items = await asyncio.to_thread(_opened, *given) if large else prepared(*given)
    return StatusesReply(await learn(server, name, items))


async def _learn_tokens(server: Server, name: str, body: Sent) -> Any:
    """The answer to a call without a key: whatever does not open is `unknown`, as it would be of a
    bandit that is not there."""
    sent = [body] if body.rewards is None else body.rewards
    if any(not isinstance(i.decision, str) or i.decision[:4] != PREFIX for i in sent):
        raise unauthorized()
    opened = server.sealer.open(server.about(name), [each.decision for each in sent])
    genuine = [each for each, sealed in zip(sent, opened, strict=True) if sealed is not None]
    if not genuine:
        unknown = [UNKNOWN] * len(sent)
        return StatusReply(UNKNOWN) if body.rewards is None else StatusesReply(unknown)
    live = await deciding.live_bandit(server, name)
    if body.rewards is None:
        return StatusReply(await learn_one(server, live, body, ""))
    statuses = iter(await learn(server, name, prepared(server, live, genuine, "")))
    return StatusesReply([UNKNOWN if each is None else next(statuses) for each in opened])


class Item(msgspec.Struct):
    """One reward."""

    reward: float  # in the user's units
    token: str = ""  # of the decision, until it is opened
    id: Name | None = None  # where the caller named the decision
    sealed: Sealed | None = None  # the decision


def read(raw: bytes, most: int = MOST_AT_ONCE) -> Sent:
    """One reward or many."""
    body: Sent = decoded(_SENT, raw)
    if body.rewards is not None:
        if len(body.rewards) > most:
            raise invalid(f"send at most {most} rewards at once")
        assert_alone(body, "rewards")
        body.rewards = [_item(each) for each in body.rewards]
    return body


def _item(given: Any) -> RewardItem:
    try:
        return msgspec.convert(given, RewardItem)
    except msgspec.ValidationError:
        return RewardItem()


def prepared(
    server: Server, live: Live, sent: Sequence[RewardItem], owner: str
) -> list[Item | None]:
    """Rewards that are valid, and None for others.

    `owner` is the name of the key that sends them: ids are its own.
    """
    low, high = live.definition.reward.range
    items: list[Item | None] = []
    for each in sent:
        decision = each.decision
        value = _number(each.reward)
        item = None
        if value is not None and low <= value <= high and isinstance(decision, str):
            if decision.startswith(PREFIX):
                item = Item(value, decision)
            elif 0 < len(decision) <= _LONGEST_ID:
                item = Item(value, id=server.hashed_id(live.about, owner, decision))
        items.append(item)
    return items


def _opened(server: Server, live: Live, sent: Sequence[RewardItem], owner: str) -> Any:
    """The same of so many that others would wait while the writer opens them."""
    items = prepared(server, live, sent, owner)
    _open(server, live.about, items)
    return items


def _open(server: Server, about: bytes, items: Sequence[Item | None]) -> None:
    """Open tokens, all in one go: one alone costs three times as much."""
    closed = [item for item in items if item is not None and item.token]
    opened = server.sealer.open(about, [item.token for item in closed])
    for item, sealed in zip(closed, opened, strict=True):
        item.token, item.sealed = "", sealed


def reason(live: Live, decision: Any) -> str:
    """Why a single reward is refused, in words that quote nothing."""
    low, high = live.definition.reward.range
    if not isinstance(decision, str) or not decision:
        return "`decision` must be the token or the id of a decision."
    return f"`reward` must be a number in [{low:g}, {high:g}]."


def _number(reward: Any) -> float | None:
    if isinstance(reward, bool) or not isinstance(reward, int | float):
        return None
    try:
        return float(reward)
    except OverflowError:
        return None


async def learn(server: Server, name: str, items: Sequence[Item | None]) -> list[str]:
    """The status of each reward, once all that counted are durable."""
    size = max(len(items), 1)
    if size > IDS_AT_ONCE:
        named = sum(item is not None and item.id is not None for item in items)
        size = IDS_AT_ONCE if named > IDS_AT_ONCE else size
    commit = partial(_commit, server, name)
    result: list[str] = []
    for at in range(0, max(len(items), 1), size):
        result += await server.writer.do(("learn", name), commit, items[at : at + size])
    return result


async def learn_one(server: Server, live: Live, sent: RewardItem, owner: str) -> str:
    """The status of a single reward; one that is not valid is a problem and changes nothing."""
    (item,) = prepared(server, live, [sent], owner)
    if item is None:
        raise invalid(reason(live, sent.decision))
    (status,) = await learn(server, live.name, [item])
    return status


def _commit(
    server: Server, name: str, payloads: Sequence[Sequence[Item | None]]
) -> list[list[str]]:
    """All waiting rewards of a bandit in one transaction."""
    items = [item for payload in payloads for item in payload]
    with server.commit(name) as opened:
        statuses = _Batch(server, *opened).run(items)
    server.vault.settle()
    return to_each(payloads, statuses)


def to_each(payloads: Sequence[Sequence[Any]], statuses: Sequence[str]) -> list[list[str]]:
    """To each of those who waited together its own statuses."""
    found = iter(statuses)
    return [list(islice(found, len(payload))) for payload in payloads]


def settle(server: Server, name: str, now: float, most: int) -> int:
    """Count the default reward of decisions past their deadline; returns how many were due."""
    table = tables.pending
    with server.commit(name) as (connection, row, tenant):
        due = connection.execute(
            sa.select(table)
            .where(table.c.bandit == name, table.c.epoch == row.epoch)
            .where(table.c.deadline < now)
            .order_by(table.c.deadline)
            .limit(most)
        ).all()
        _Batch(server, connection, row, tenant).settle(due)
    server.vault.settle()
    return len(due)


class _Batch:
    """One transaction's rewards."""

    def __init__(self, server: Server, connection: Connection, row: Any, tenant: Joint) -> None:
        self.server, self.connection, self.row, self.tenant = server, connection, row, tenant
        self.now = time.time()
        self.marks = Marks(connection, row.name, row.epoch)
        self.pending = server.pending(connection, row)
        self.people = None  # a round is a person of its own
        if tenant.definition.privacy.unit == "person":
            self.people = People(connection, row.name, row.epoch, tenant.visit_key)
        self.rows: list[Any] = []
        self.rewards: list[float] = []
        self.rounds: list[int] = []
        self._default = tenant.definition.reward.default
        self._learning = is_learning(row)
        self._next_round = row.next_round
        self._waiting: dict[int, float | None] = {}  # rewards that came, of decisions that wait
        self._came: dict[tuple[int, str], float | None] = {}  # those of this transaction
        self._is_folded = False  # whether the sum is written, with a row more or without
        self._dim = 0

    def run(self, items: Sequence[Item | None]) -> list[str]:
        """Statuses, in order; the store is changed accordingly."""
        _open(self.server, self.server.about(self.row.name), items)
        given = [item for item in items if item is not None]
        self.pending.load(item.id for item in given if item.id is not None)
        for item in given:  # kept by any replica, in any run
            entry = None if item.id is None else self.pending.entry(item.id)
            kept = None if entry is None else self.pending.kept(entry)
            if kept is not None:
                item.sealed = self.pending.opened(kept)
        sealed = [item.sealed for item in given if item.sealed is not None]
        rounds = [each.round for each in sealed]
        self.pending.load_rounds(rounds)
        if self._default is not None:
            entries = [self.pending.at(number) for number in rounds]
            self._waiting = self.pending.rewards(each for each in entries if each is not None)
        self.marks.load(rounds)
        self.server.load_runs(self.connection, {each.run for each in sealed})
        if self.people is not None:
            self.people.load(sealed)
        statuses = [INVALID if item is None else self._one(item) for item in items]
        self.pending.keep(self._came)
        self._store()
        return statuses

    def settle(self, entries: Sequence[Any]) -> None:
        """Count what came for these decisions, or their default; forget the decisions."""
        self.marks.load(entry.round for entry in entries)
        waiting = self.pending.rewards(entries) if self._default is not None else {}
        for entry in entries:
            kept = self.pending.kept(entry)
            self.pending.finish(entry, kept)
            if self.marks.is_marked(entry.round):
                continue
            self.marks.mark(entry.round)
            reward = waiting.get(entry.round)
            if reward is None and entry.active:
                reward = self._default
            sealed = None if kept is None else self.pending.opened(kept)
            counts = is_settling(self.row) and counts_round(self.tenant.definition, entry.round)
            if sealed is not None and reward is not None and counts:
                self._count(sealed, kept, reward)
        self._store(entries if self._default is not None else ())

    def _one(self, item: Item) -> str:
        sealed = item.sealed
        if sealed is None or not self.server.is_registered(sealed.run):
            used = None if item.id is None else self.pending.used(item.id)
            return UNKNOWN if used is None else self._of_settled(used)
        if sealed.round >= self._next_round:
            # Genuine, of a round that this database never gave away: it is an older one.
            self.server.store_alarm(self.connection, self.row.name, ROLLED_BACK)
            self.row = self.server.store.lock_bandit(self.connection, self.row.name)
            self._learning = is_learning(self.row)
            return CLOSED
        marked = self.marks.is_marked(sealed.round)
        # A mark does not say whether a reward came or the default: beyond the wait nobody asks.
        if self.now > sealed.deadline or (marked and self._default is not None):
            return LATE
        entry = self.pending.at(sealed.round)
        if marked or self._waiting.get(sealed.round) is not None:
            return DUPLICATE
        if not self._learning or not counts_round(self.tenant.definition, sealed.round):
            return CLOSED
        if self._default is not None:
            if entry is None:
                return UNKNOWN
            self._waiting[sealed.round] = item.reward
            self._came[sealed.round, entry.bucket] = item.reward
        else:
            self.marks.mark(sealed.round)
            kept = None if entry is None else self.pending.kept(entry)
            if entry is not None:
                self.pending.finish(entry, kept)
            self._count(sealed, kept, item.reward)
        return COUNTED if self.people is None else ACCEPTED

    def _of_settled(self, used: Any) -> str:
        """The status of a reward for an id that was settled before."""
        ends = not math.isinf(wait(self.tenant.definition))
        over = ends and used.settled <= day(self.now)
        return LATE if over or self._default is not None else DUPLICATE

    def _count(self, sealed: Sealed, kept: Kept | None, reward: float) -> None:
        """Add a reward, if it counts for its person; the store changes in the same places if not.

        A person counts once for life, with a decision that says so where it was kept, or once in
        each window.
        """
        self._is_folded = True
        self._dim = len(sealed.row)
        counts = True
        if self.people is not None:
            self.people.load([sealed])
            counts = self.people.admit(sealed)
            if kept is not None and self.tenant.definition.privacy.visits != "all":
                counts = kept.counts
        if counts:
            self.rows.append(sealed.row)
            self.rewards.append(reward)
            self.rounds.append(sealed.round)

    def _store(self, settled: Sequence[Any] = ()) -> None:
        self.marks.store()
        self.pending.store(settled)
        if self.people is not None:
            self.people.store()
        if self._is_folded:
            rows = np.array(self.rows).reshape(len(self.rows), self._dim)
            rounds = np.array(self.rounds, dtype=np.int64)
            self.tenant.fold(rows, np.array(self.rewards), rounds)
            self.tenant.save(self.connection, self.server.vault, self.row)


ROLLED_BACK = (
    "A genuine decision token came for a round that this database never gave away: the database is "
    "older than what was shown to people. Learning has stopped; decisions go on. Stop the server "
    "and run `discreet restore`."
)
