"""Local trust over HTTP: reports are counted once, in the same group commit as rewards.

    {"id": 32 hex digits, "policy": "epoch-version", "question": "moment", "values": [integers]}

Whoever sends one needs no key: a device holds no secret, and what it sends is private already.
Through a relay the same reports come sealed, in batches, in an order that tells nothing.
"""

import asyncio
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import msgspec
from sqlalchemy.engine import Connection

from discreet.local.report import Answers
from discreet.service import rows, sealing
from discreet.service import store as tables
from discreet.service.bodies import assert_alone
from discreet.service.devices import Devices
from discreet.service.errors import Problem, invalid, not_found, unauthorized
from discreet.service.keys import Key
from discreet.service.learning import CLOSED, COUNTED, DUPLICATE, INVALID, to_each
from discreet.service.limits import STRANGERS_ITEMS, Addresses
from discreet.service.messages import ReportBody, ReportItem
from discreet.service.policies import public_policy
from discreet.service.replies import BatchReply, StatusesReply, StatusReply
from discreet.service.sealing import Terms
from discreet.service.server import Server
from discreet.service.tenant import is_learning

ID = re.compile(r"[0-9a-f]{32}")
MOST_AT_ONCE = 10_000  # reports of one request
SMALL = "small"  # of a batch: fewer sound reports than its minimum
MOST_BATCH_BYTES = 2**30
SHARE_SECONDS = 3600.0  # after which an address may fill its share of a window again
BATCH_SECONDS = 600.0  # that a relay may take to send a batch
_TERMS = msgspec.json.Decoder(Terms)
_REPORT = msgspec.json.Decoder(ReportItem)


@dataclass(slots=True)
class Item:
    """One report, as far as it can be read without the store."""

    id: bytes  # random, of the report
    policy: str  # tag of the policy that it answers
    question: str  # its name
    values: list[int]  # integers that the channel decodes


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


async def take_any(
    server: Server, name: str, body: ReportBody, key: Key | None, address: str = ""
) -> Any:
    """Local trust: private reports of devices; no key is needed, a retry never hurts.

    Without a key each counts as a call of its address.
    """
    if key is None:
        server.strangers.owe(address, len(body.reports or (body,)) - 1)
        if len(body.reports or ()) > STRANGERS_ITEMS:
            raise invalid(f"send at most {STRANGERS_ITEMS} reports at once")
        await _assert_admitted(server, name, address, len(body.reports or (body,)))
    if body.reports is not None:
        assert_alone(body, "reports")
        return StatusesReply(await take(server, name, body.reports))
    return StatusReply((await take(server, name, [body]))[0])


async def _assert_admitted(server: Server, name: str, address: str, number: int) -> None:
    """Raise unless so many may come without a key: nobody fills a window with what he makes up."""
    found = await public_policy(server, name)
    if found is None:  # of no bandit, or not of this trust
        raise not_found("bandit under local trust")
    share = server.settings.public_share
    if share == 0:
        raise unauthorized()
    if share < 1 and found.terms:
        tag, senders = server.senders.get(name, ("", None))
        if senders is None or tag != found.tag:
            most = max(1.0, share * _TERMS.decode(found.terms).batch)
            senders = Addresses(most / SHARE_SECONDS, most)
            server.senders[name] = found.tag, senders
        senders.spend(address, number)


async def put_batch(server: Server, name: str, id: str, policy: str, raw: bytes) -> BatchReply:
    """Local trust: a batch of sealed reports, from a relay; a retry never hurts."""
    if not ID.fullmatch(id):
        raise invalid("The id of a batch has 32 hexadecimal digits.")
    return await take_batch(server, name, bytes.fromhex(id), policy, raw)


async def take(server: Server, name: str, reports: Sequence[ReportItem]) -> list[str]:
    """The status of each report, once all that counted are durable."""
    if len(reports) > MOST_AT_ONCE:
        raise invalid(f"send at most {MOST_AT_ONCE} reports at once")
    items = [prepared(report) for report in reports]

    def commit(payloads: Sequence[Sequence[Item | None]]) -> list[list[str]]:
        """All waiting reports of a bandit in one transaction."""
        with _taking(server, name) as taking:
            if taking.tenant.is_shuffled:
                raise Problem("relay-only")
            together = [item for some in payloads for item in some]
            taking.load([item.id for item in together if item is not None])
            statuses = [taking.one(item) for item in together]
            taking.store()
        return to_each(payloads, statuses)

    statuses: list[str] = await server.writer.do(("report", name), commit, items)
    return statuses


async def take_batch(
    server: Server, name: str, batch: bytes, policy: str, sealed: bytes
) -> BatchReply:
    """The status of a batch that a relay sends: each batch counts once, whole, or not at all.

    `counted` is durable and answered once, `duplicate` ever after; `small`: it has fewer sound
    reports than the minimum, and none was counted; `closed`: the bandit has another policy by now.
    """
    public = await public_policy(server, name, f'"{policy}"')
    if public is None:
        raise Problem("no-reports")
    terms = _TERMS.decode(public.terms) if public.terms else None
    items: list[Item | None] = []
    if terms is not None and terms.policy == policy:
        if not sealed or len(sealed) % terms.sealed_size:
            raise invalid("The body must be sealed reports of the size that the terms state.")
        items = await asyncio.to_thread(_opened, server, terms, sealed)

    def commit(payloads: Sequence[None]) -> list[BatchReply]:
        """One batch in one transaction."""
        again = [BatchReply(DUPLICATE)] * (len(payloads) - 1)
        with _taking(server, name) as taking:
            here = {"bandit": name, "id": batch}
            if rows.one(taking.connection, tables.batches, **here) is not None:
                return [BatchReply(DUPLICATE), *again]
            if terms is None or terms.policy != policy or taking.is_closed(policy):
                return [BatchReply(CLOSED)] * len(payloads)
            bad = taking.whole(items, terms.minimum)
            if bad is not None:
                return [BatchReply(SMALL, bad)] * len(payloads)
            rows.insert(taking.connection, tables.batches, [here | {"status": COUNTED}])
            return [BatchReply(COUNTED), *again]

    reply: BatchReply = await server.writer.do(("batch", name, batch), commit, None)
    return reply


def _opened(server: Server, terms: Terms, sealed: bytes) -> list[Item | None]:
    """The reports of a batch; None for one that does not open, or is none."""
    secret = server.vault.report_key(terms.bandit, terms.policy)
    size = terms.sealed_size
    found: list[Item | None] = []
    for start in range(0, len(sealed), size):
        raw = sealing.opened(terms, secret, sealed[start : start + size])
        try:
            found.append(None if raw is None else prepared(_REPORT.decode(raw)))
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
            found.append(None)
    return found


@contextmanager
def _taking(server: Server, name: str) -> Iterator["_Taking"]:
    """A transaction on the open window of a bandit; memory and keys follow what was committed."""
    with server.commit(name) as (connection, row, tenant):
        if not isinstance(tenant, Devices):
            raise Problem("no-reports")
        taking = _Taking(server, connection, row, tenant)
        yield taking
    if taking.turned:
        server.public.pop(name, None)
        server.vault.forget_report_keys(name, tenant.tag)


class _Taking:
    """One transaction's reports."""

    def __init__(self, server: Server, connection: Connection, row: Any, tenant: Devices) -> None:
        self.server, self.connection, self.row, self.tenant = server, connection, row, tenant
        self.turned = False
        self._known: set[bytes] = set()
        self._new: list[bytes] = []
        self._changed = False

    def load(self, ids: Sequence[bytes]) -> None:
        """Look up which of these reports were counted before."""
        here = {"bandit": self.row.name, "id": ids}
        found = rows.find(self.connection, tables.reports, "id", **here)
        self._known |= {bytes(each) for (each,) in found}

    def is_closed(self, policy: str) -> bool:
        """Whether reports on this policy come too late."""
        return policy != self.tenant.tag or not is_learning(self.row)

    def one(self, item: Item | None) -> str:
        """The status of a report; what counts is in the sums in memory then."""
        if item is None:
            self.tenant.refuse()
            self._changed = True
            return INVALID
        if self.is_closed(item.policy):
            return CLOSED
        if item.id in self._known:
            return DUPLICATE
        self._changed = True
        sound, answers = self.tenant.read(item.question, [item.values])
        if not sound:
            self.tenant.refuse()
            return INVALID
        self.tenant.take([answers])
        self._known.add(item.id)
        self._new.append(item.id)
        self.turn_if_full()
        return COUNTED

    def whole(self, items: Sequence[Item | None], minimum: int) -> list[int] | None:
        """Count a batch; the window ends with it, not inside it. Where it has too few sound reports
        none is counted, and the places of the others are returned."""
        self.load([item.id for item in items if item is not None])
        answered: dict[str, dict[int, Item]] = {}
        for at, item in enumerate(items):
            if item is None or self.is_closed(item.policy) or item.id in self._known:
                continue
            self._known.add(item.id)
            answered.setdefault(item.question, {})[at] = item
        sound: dict[int, bytes] = {}
        told: list[Answers] = []
        for question, given in answered.items():
            places, answers = self.tenant.read(question, [each.values for each in given.values()])
            ids = [(at, item.id) for at, item in given.items()]
            sound |= dict(ids[place] for place in places)
            told += [answers] if places else []
        if len(sound) < minimum:
            return sorted(set(range(len(items))) - sound.keys())
        self.tenant.refuse(len(items) - len(sound))
        self.tenant.take(told)
        self._new += sound.values()
        self._changed = True
        self.turn_if_full()
        self.store()
        return None

    def turn_if_full(self) -> None:
        """Close the window that has the reports it wants, and open the next."""
        if self.tenant.learner.full:
            self.store()
            self.tenant.turn(self.connection, self.server.vault, self.row)
            self.row = self.server.store.lock_bandit(self.connection, self.row.name)
            self._known.clear()
            self.turned = True

    def store(self) -> None:
        """Write ids and sums."""
        if not self._changed:
            return
        connection, name = self.connection, self.row.name
        rows.insert(connection, tables.reports, [{"bandit": name, "id": i} for i in self._new])
        (before,) = rows.one(connection, tables.bandits, "next_round", name=name)
        after = before + len(self._new)
        rows.update(connection, tables.bandits, {"name": name}, next_round=after)
        self.tenant.save(connection, self.server.vault, self.row)
        self._new, self._changed = [], False
