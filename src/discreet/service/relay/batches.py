"""Batches of sealed reports: admit, close, forward, forget.

    no batch -> open: the server's terms are known, reports come in
             -> closed: it is full, or its time is up and it has its minimum; nobody is added
             -> delivered: the server has taken it, or refused it for good; it is forgotten
             -> open again: too many of its reports are none, and others get their places

Below its minimum a batch is dropped when its time is up. Each step is one transaction, and the
server takes each batch id once: a relay that dies anywhere goes on where it was. While a batch is
closed no other is open, since the next ones answer the next policy.

Batches go at ticks of a clock, and end by a clock that starts when they open: neither depends on
when any one person comes, but for the tick in which the last place of a batch was taken.
"""

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

import msgspec

from discreet.service import logs, rows
from discreet.service.client import Client, ServiceError
from discreet.service.errors import Problem
from discreet.service.learning import CLOSED
from discreet.service.limits import BURST_SECONDS, STRANGERS_BODIES, Addresses, Bodies
from discreet.service.relay import store as tables
from discreet.service.relay.store import RelayStore
from discreet.service.reports import BATCH_SECONDS, MOST_BATCH_BYTES, SMALL
from discreet.service.sealing import Terms
from discreet.service.settings import RelaySettings
from discreet.service.writer import Writer

ACCEPTED = "accepted"
GIVEN_UP = (404, 409, 413, 422)  # answers after which a batch will never be taken
_TERMS = msgspec.json.Decoder(Terms)


@dataclass(slots=True)
class Sealed:
    """A report as it arrives, without anything that HTTP adds to it."""

    id: bytes  # which report it is, whatever happens on the way
    policy: str  # the tag of the policy that it answers
    person: bytes  # who sends it; only a keyed hash is kept
    sealed: bytes  # what only the server can open


class Relay:
    """The batches of one process, and the server that they go to."""

    def __init__(self, settings: RelaySettings) -> None:
        self.settings = settings
        self.store = RelayStore(settings.store)
        try:
            self.store.prepare()
        except BaseException:
            self.store.close()
            raise
        self.writer = Writer()
        self.bodies = self.strangers_bodies = Bodies(STRANGERS_BODIES)
        rate = settings.public_rate
        self.strangers = Addresses(rate, rate * BURST_SECONDS)
        self.server = "unknown"  # ok, away or refused: how the last call to it went
        self.forwarded = dict.fromkeys(settings.bandits, 0)
        self.dropped = dict.fromkeys(settings.bandits, 0)

    def close(self) -> None:
        self.writer.stop()
        self.store.close()

    async def ready(self) -> None:
        """Raise a problem unless the store answers."""
        await self._batch(self.settings.bandits[0])

    # -- reports -----------------------------------------------------------------------------------

    async def terms(self, name: str) -> bytes:
        """What the open batch of a bandit was opened with."""
        batch = await self._batch(name)
        if batch is None or batch.secret is None:
            raise _between_batches()
        return bytes(batch.terms)

    async def admit(self, name: str, report: Sealed) -> str:
        """`accepted` once it is durable; `closed` if it answers another policy than the batch."""

        admit = partial(self._admit, name)
        answer: str = await self.writer.do(("report", name), admit, report)
        return answer

    def _admit(self, name: str, many: Sequence[Sealed]) -> list[str | Problem]:
        """All waiting reports of a bandit in one transaction."""
        with self.store.transaction() as connection:
            batch = self.store.batch(connection, name)
            if batch is None or batch.secret is None:
                return [_between_batches() for _ in many]
            terms = _TERMS.decode(batch.terms)
            count, full = batch.count, self.full(terms)
            answers: list[str | Problem] = []
            for report in many:
                if report.policy != terms.policy:
                    answers.append(CLOSED)
                elif len(report.sealed) != terms.sealed_size:
                    answers.append(Problem("other-size"))
                elif self.store.has(connection, batch, report.id):
                    answers.append(ACCEPTED)
                elif count >= full:
                    answers.append(_between_batches())
                else:
                    own = report.id, report.person, report.sealed
                    count += self.store.add(connection, batch, *own)
                    answers.append(ACCEPTED)
            rows.update(connection, tables.batches, {"bandit": name}, count=count)
        return answers

    # -- batches -----------------------------------------------------------------------------------

    def minimum(self, terms: Terms) -> int:
        """Reports below which a batch is dropped."""
        return max(terms.minimum, self.settings.minimum)

    def full(self, terms: Terms) -> int:
        """Reports of a full batch."""
        return max(self.minimum(terms), min(terms.batch, MOST_BATCH_BYTES // terms.sealed_size))

    async def forever(self) -> None:
        """Look at the batches at every tick, until cancelled; no bandit waits for another's."""
        await asyncio.gather(*(self._watch(name) for name in self.settings.bandits))

    async def _watch(self, name: str) -> None:
        while True:
            try:
                await self.step(name)
            except Problem:
                pass  # the store is away: the next tick will do it
            except Exception as error:
                logs.unexpected(error, "a batch")
            await asyncio.sleep(self.settings.tick)

    async def step(self, name: str) -> None:
        """One look at the batch of a bandit."""
        batch = await self._batch(name)
        if batch is not None and batch.secret is not None:
            batch = await self._ended(name, batch)
        if batch is not None and batch.secret is None:
            batch = await self._forwarded(name, batch)
        if batch is None:
            await self._opened(name)

    async def _ended(self, name: str, batch: Any) -> Any:
        """An open batch: closed or dropped, if it is time."""
        terms = _TERMS.decode(batch.terms)
        if batch.count >= self.full(terms) or batch.ends < time.time():
            if batch.count < self.minimum(terms):
                return await self._drop(name, "it has less than its minimum")
            await self._do(self.store.close_batch, name)
            return await self._batch(name)
        current = await self._fetched(name)
        if current is not None and current[0].policy != batch.policy:
            return await self._drop(name, "the server has another policy by now")
        return batch

    async def _forwarded(self, name: str, batch: Any) -> Any:
        """A closed batch: None once it is delivered, and forgotten."""
        path = f"/v1/bandits/{name}/batches/{batch.id.hex()}?policy={batch.policy}"
        content = await self._do(self.store.content, name)
        try:
            answer = await self._call("PUT", path, content)
        except ServiceError as error:
            if error.status in GIVEN_UP:
                return await self._drop(name, f"the server answers {error.status}")
            return batch
        except OSError:
            return batch
        status, bad = answer["status"], answer.get("bad")
        if status == SMALL and bad:
            await self._do(self.store.reopen, name, bad, self.settings.wait)
            said = "a batch waits for others in the places of reports that are none"
            logs.record(logging.WARNING, said, bandit=name)
            return await self._batch(name)
        if status in (CLOSED, SMALL):
            return await self._drop(name, f"the server answers {status}")
        await self._do(self.store.forget, name)
        self.forwarded[name] += 1
        return None

    async def _opened(self, name: str) -> None:
        """A new batch on the server's terms of now."""
        current = await self._fetched(name)
        if current is None:
            return
        terms, raw = current
        await self._do(self.store.open, name, raw, terms.policy, self.settings.wait)

    async def _drop(self, name: str, why: str) -> None:
        await self._do(self.store.forget, name)
        self.dropped[name] += 1
        logs.record(logging.WARNING, f"a batch was dropped: {why}", bandit=name)

    # -- the server --------------------------------------------------------------------------------

    async def _fetched(self, name: str) -> tuple[Terms, bytes] | None:
        """The terms that the server publishes, as it wrote them; None if it does not."""
        try:
            raw = await self._call("GET", f"/v1/bandits/{name}/terms")
            terms = msgspec.convert(raw, Terms)
        except (ServiceError, OSError, msgspec.ValidationError):
            return None
        return (terms, msgspec.json.encode(terms)) if terms.bandit == name else None

    async def _call(self, method: str, path: str, body: bytes | None = None) -> Any:
        """Ask the server, on a thread of its own; a batch may take minutes."""

        def call() -> Any:
            timeout = 10.0 if body is None else BATCH_SECONDS
            with Client(self.settings.server, self.settings.key, timeout=timeout) as client:
                return client.call(method, path, body)

        try:
            reply = await _in_thread(call)
        except ServiceError as error:
            self._notice("refused" if error.status in (401, 403) else "ok")
            raise
        except OSError:
            self._notice("away")
            raise
        self._notice("ok")
        return reply

    def _notice(self, state: str) -> None:
        if state != self.server and state != "ok":
            logs.record(logging.ERROR, f"the server {_SAID[state]}; batches wait")
        self.server = state

    # -- transactions, on the writer's thread ------------------------------------------------------

    async def _do(self, work: Callable[..., Any], *given: Any) -> Any:
        def done() -> Any:
            with self.store.transaction() as connection:
                return work(connection, *given)

        return await self.writer.alone(done)

    async def _batch(self, name: str) -> Any:
        return await self._do(self.store.batch, name)


_SAID = {"away": "cannot be reached", "refused": "refuses the relay's key"}


async def _in_thread(work: Callable[[], Any]) -> Any:
    """Do something that may take long; a thread that nobody waits for when the relay stops."""
    loop = asyncio.get_running_loop()
    done = loop.create_future()

    def settle(result: Any, error: BaseException | None) -> None:
        if not done.done():
            done.set_result(result) if error is None else done.set_exception(error)

    def run() -> None:
        result, error = None, None
        try:
            result = work()
        except Exception as found:
            error = found
        with suppress(RuntimeError):  # the loop is closed: nobody waits any more
            loop.call_soon_threadsafe(settle, result, error)

    threading.Thread(target=run, daemon=True).start()
    return await done


def _between_batches() -> Problem:
    """No batch is open: the last one is on its way, or the server is away."""
    return Problem("between-batches", headers={"Retry-After": "10"})
