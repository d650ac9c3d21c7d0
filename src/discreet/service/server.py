"""One replica: its store, its secrets, its run, and what it knows of each bandit."""

import asyncio
import json
import logging
import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from discreet.privacy import SecureNoise
from discreet.privacy.noise import Noise
from discreet.service import beats, budgets, definitions, keys, logs, migrations, rows
from discreet.service import store as tables
from discreet.service.buckets import Buckets
from discreet.service.clock import Clock
from discreet.service.devices import Devices
from discreet.service.errors import Problem, not_found
from discreet.service.fence import Fence, Mark, RolledBack
from discreet.service.joint import Joint
from discreet.service.keys import Keys
from discreet.service.limits import (
    BODIES,
    BURST_SECONDS,
    LOGIN_RATE,
    LOGINS,
    STRANGERS_BODIES,
    Addresses,
    Bodies,
)
from discreet.service.live import Live
from discreet.service.messages import KeyBody
from discreet.service.observing import Requests
from discreet.service.pending import Name, Pending
from discreet.service.schema import Definition
from discreet.service.settings import Settings
from discreet.service.store import Store
from discreet.service.tenant import Tenant
from discreet.service.tokens import RUN_BYTES, Sealer, hashed_id, pseudonym
from discreet.service.vault import MissingSecret, Vault, WrongFolder, make_once
from discreet.service.witness import Witness
from discreet.service.writer import Writer

T = TypeVar("T")


class Server:
    """Everything that the routes need; one for each process.

    settings   store, secrets, and what is allowed
    serves     whether it decides and learns; a command changes nothing by being there
    """

    def __init__(self, settings: Settings, *, serves: bool = True) -> None:
        self.settings = settings
        self.store = Store(settings.store)
        try:
            if serves:
                beats.assert_none_is_older(self.store)
                self.store.prepare()
            else:
                self.store.assert_prepared()
            self.vault = Vault(settings.secrets, make=serves and self._is_new())
            if serves:
                self.vault.probe()
            self.buckets = Buckets(settings.secrets)
            self.keys = Keys()
            self.writer = Writer()
            self.noise: Noise = settings.noise or SecureNoise()
            self.first_admin_key: str | None = None
            self.live: dict[str, Live] = {}  # for deciding, on the event loop
            self.bodies, self.strangers_bodies = Bodies(BODIES), Bodies(STRANGERS_BODIES)
            rate = settings.public_rate
            self.strangers = Addresses(rate, rate * BURST_SECONDS)
            self.logins = Addresses(LOGIN_RATE, LOGINS)
            self.senders: dict[str, tuple[str, Addresses]] = {}  # of reports, by bandit and policy
            self.tenants: dict[str, Tenant] = {}  # for learning, on the writer's thread
            self.requests = Requests(logs_all=settings.log == "requests")
            self.clock = Clock()
            self.swept = time.monotonic()  # when the last sweep ended
            self.metrics: Any = None  # metrics.Metrics, once somebody asks
            self.public: dict[str, Any] = {}  # policies of local trust, for a second
            self.probed = 0.0  # until when it is taken to be ready
            self.probing: asyncio.Future[None] | None = None
            self.run = secrets.token_bytes(RUN_BYTES)
            self._runs: set[bytes] = set()
            if serves:
                self._begin()
            else:
                self._look()
        except BaseException:
            self.store.close()
            raise

    # -- starting ----------------------------------------------------------------------------------

    def _is_new(self) -> bool:
        """Whether no start has been completed."""
        with self.store.transaction() as connection:
            row = self.store.lock_instance(connection)
        return row is None or row.sequence == 0

    def _begin(self) -> None:
        run = self.run
        with self.store.transaction() as connection:
            self.store.lock_start(connection)
            row = self.store.lock_instance(connection) or self._first(connection)
            new = row.sequence == 0  # no start has been completed
            self.instance, self.epoch = row.instance, row.epoch
            if new:
                self._set_admin_key(connection)
        self.fence = Fence(self.settings.secrets, self.instance)
        self.witness = witness_of(self.settings, self.instance)
        if new:
            self.fence.begin()
        self._assert_witness()
        self._assert_same_folder()

        def start(connection: Connection) -> tuple[None, dict[str, Any]]:
            new = {"run": run, "epoch": self.epoch, "started": time.time()}
            rows.insert(connection, tables.runs, [new])
            if not self.store.is_sqlite:
                beats.beat(connection, run)
            return None, {"run": run.hex()}

        try:
            self.fenced("start", start)
        except Problem as problem:
            if problem.kind == "witness-unavailable":
                raise ValueError(str(problem)) from None
            if problem.kind != "rolled-back":
                raise
            raise RolledBack(
                "the database is older than its fence or its witness: it is a copy or a backup. "
                "Its open windows must not go on, or their noise would be used twice. Run "
                "`discreet restore`"
            ) from None
        self._assert_sums_are_readable()
        self.vault.forget_all_but(self.epoch)  # orphans of a restore that was interrupted
        self.sealer = Sealer(self.vault.master, run)
        self._runs.add(run)
        self.read_keys()

    def _look(self) -> None:
        """For a command: on a store that is in use, or was."""
        with self.store.transaction() as connection:
            row = rows.one(connection, tables.instance)
        self.instance, self.epoch = row.instance, row.epoch
        self.fence = Fence(self.settings.secrets, self.instance)
        self.witness = witness_of(self.settings, self.instance)
        self._assert_witness()
        try:
            self.read_keys()
        except Problem as problem:
            raise RolledBack(str(problem)) from None

    def _assert_witness(self) -> None:
        """A service that had a witness does not go on without."""
        with self.fence.held() as grip:
            last = grip.last_of("witness")
        if self.witness is None and last is not None and last.about["after"] is not None:
            raise ValueError(
                "this service has a witness: start it with --witness URL, or run `discreet "
                "restore` to go on without one"
            )

    def _assert_same_folder(self) -> None:
        """Servers that live, or died, on this database have started in this folder too."""
        with self.store.transaction() as connection:
            found = rows.find(connection, tables.beats, "run")
        # Held, since one that starts right now beats before it is in the fence.
        started = {mark.about["run"] for mark in self.fence.marks() if mark.what == "start"}
        if any(bytes(run).hex() not in started for (run,) in found):
            raise WrongFolder(self.settings.secrets)

    def _assert_sums_are_readable(self) -> None:
        """The keys of open sums change at every commit: an older database lacks its own."""
        window = tables.windows
        with self.store.transaction() as connection:
            found = connection.execute(
                sa.select(window.c.bandit, window.c.sequence, window.c.sum).where(
                    window.c.epoch == self.epoch,
                    window.c.key.is_not(None),
                    window.c.sum.is_not(None),
                )
            ).all()
        for name, sequence, sealed in found:
            try:
                self.vault.open(name, self.epoch, sequence, bytes(sealed))
            except MissingSecret as error:
                raise RolledBack(str(error)) from None

    def _first(self, connection: Connection) -> Any:
        new = {"instance": secrets.token_hex(16), "epoch": secrets.token_hex(8)}
        begun = {"id": 1, "sequence": 0, "schema": migrations.CURRENT}
        rows.insert(connection, tables.instance, [new | begun])
        return self.store.lock_instance(connection)

    def _set_admin_key(self, connection: Connection) -> None:
        """The first start sets the admin key: the one from outside, or a new one."""
        secret = self.settings.admin_key
        if secret is None:
            secret = keys.new_secret(keys.ADMIN_ID)
            if self.settings.admin_key_file is None:
                self.first_admin_key = secret
            else:
                make_once(self.settings.admin_key_file, secret.encode())
                secret = self.settings.admin_key_file.read_text().strip()
        rows.delete(connection, tables.keys, id=keys.ADMIN_ID)
        keys.insert(connection, KeyBody("admin", ["admin"]), keys.ADMIN_ID, secret)

    def has_admin_key(self) -> bool:
        """Whether the admin key from outside, if there is one, is one of this store."""
        try:
            given = self.settings.admin_key
            return given is None or "admin" in self.keys.authenticate(given).scopes
        except Problem:
            return False

    def has_bandit(self, name: str) -> bool:
        with self.store.transaction() as connection:
            return self.store.lock_bandit(connection, name) is not None

    def close(self) -> None:
        self.writer.stop()
        if self.run in self._runs:
            beats.end(self.store, self.run)
        self.vault.close()
        self.store.close()

    # -- on the writer's thread --------------------------------------------------------------------

    async def do(self, work: Callable[[], T]) -> T:
        """Do something on the writer's thread, by itself."""
        result: T = await self.writer.alone(work)
        return result

    async def transact(self, work: Callable[[Connection], T]) -> T:
        """Do something in a transaction of its own."""

        def done() -> T:
            with self.store.transaction() as connection:
                return work(connection)

        return await self.do(done)

    async def with_bandit(self, name: str, work: Callable[[Connection, Any], T]) -> T:
        """Do something with a bandit's row, under its lock; a problem if there is none."""
        return await self.transact(lambda connection: work(connection, self.row(connection, name)))

    def row(self, connection: Connection, name: str) -> Any:
        """A bandit's row, locked; a problem if there is none."""
        row = self.store.lock_bandit(connection, name)
        if row is None:
            raise not_found("bandit", "Check the name, or create it: PUT /v1/bandits/{name}.")
        return row

    # -- the fence ---------------------------------------------------------------------------------

    def next_sequence(self, connection: Connection) -> int:
        """Count one thing that must not be forgotten; it goes into the fence after the commit."""
        (before,) = rows.one(connection, tables.instance, "sequence")
        rows.update(connection, tables.instance, {}, sequence=before + 1)
        return int(before) + 1

    def fenced(self, what: str, change: Callable[[Connection], Any]) -> Any:
        """A change that must not be forgotten: check the fence, commit, then fence, then return.

        A witness is asked last before the commit, when nothing else can refuse any more.

        `change` returns (result, what to remember); to remember None means that nothing changed.
        """
        with self.fence.held() as grip:
            with self.store.transaction() as connection:
                row = self.store.lock_instance(connection)
                if row is None or row.instance != self.instance or row.epoch != self.epoch:
                    raise Problem("rolled-back")
                self._assert_schema(row.schema)
                missing = self._missing(connection, row.sequence, grip.last)
                if missing is not None:  # before anything else may be missing too
                    grip.append(missing)
                result, about = change(connection)
                if about is None:
                    return result
                mark = Mark(self.next_sequence(connection), self.epoch, what, about)
                grip.reserve(mark)
                if self.witness is not None:
                    self.witness.advance(grip, row.sequence, self.epoch)
            grip.append(mark)
            return result

    def probe(self) -> None:
        """Raise unless the next change can be made: store and fence take it, none was put back."""
        with self.fence.held() as grip:
            with self.store.transaction() as connection:
                row = self.store.lock_instance(connection)
                if row is None or (row.instance, row.epoch) != (self.instance, self.epoch):
                    raise Problem("rolled-back")
                self._assert_schema(row.schema)
                self._missing(connection, row.sequence, grip.last)
                # Pages that change: SQLite does not write a row that is the same as before.
                run = secrets.token_bytes(RUN_BYTES)
                rows.insert(connection, tables.runs, [{"run": run, "epoch": "", "started": 0}])
                rows.delete(connection, tables.runs, run=run)
            grip.probe()

    def read_keys(self) -> None:
        """Take over keys that other replicas made or revoked.

        Not from a database that was put back under us, in which revoked keys live; what the fence
        says was revoked stays revoked in any case.
        """
        fence = self.fence.look()  # before the database, which is never behind it
        with self.store.transaction() as connection:
            row = rows.one(connection, tables.instance)
            if row is None or (row.instance, row.epoch) != (self.instance, self.epoch):
                raise Problem("rolled-back")
            if row.sequence < fence.last:
                raise Problem("rolled-back")
            self.keys.reload(connection, fence.revoked)

    def _assert_schema(self, schema: int) -> None:
        """Raise if a server of another version has changed the tables under us."""
        if schema != migrations.CURRENT:
            raise Problem("other-version")

    def _missing(self, connection: Connection, sequence: int, last: int) -> Mark | None:
        """The mark that a crash kept out of the fence, if any; raises if the database is old.

        What it was about is not known any more, so it holds everything that must not be forgotten.
        """
        if sequence < last:
            raise Problem("rolled-back")
        if sequence == last:
            return None
        if sequence > last + 1:
            raise RolledBack(
                "the fence is older than the database: the secrets folder is a copy or a backup. "
                "Set DISCREET_SECRETS to the folder that the other servers use, or used last"
            )
        return Mark(sequence, self.epoch, "everything", budgets.remembered(connection))

    # -- bandits -----------------------------------------------------------------------------------

    def create(self, name: str, definition: Definition, who: str) -> bool:
        """Create a bandit; False if it is there already with the same definition."""
        text = definition.normalised().decode()

        def change(connection: Connection) -> tuple[bool, dict[str, Any] | None]:
            row = self.store.lock_bandit(connection, name)
            if row is not None:
                known = definitions.parsed(row.definition.encode())  # perhaps by an older version
                if known.normalised().decode() == text:
                    return False, None
                raise Problem("other-definition")
            definitions.assert_meant(definition)
            privacy = definition.privacy
            about: dict[str, Any] = {"bandit": name}
            if privacy.population is not None:
                mu2 = definitions.mu_squared(definition)
                budgets.charge(connection, privacy.population, name, self.epoch, mu2, privacy.unit)
                about |= {"population": privacy.population, "mu_squared": mu2, "unit": privacy.unit}
            as_stored = definitions.parsed(text.encode())  # in that order
            tenant_of(as_stored, name, self.epoch, self.noise).open(connection, self.vault)
            self.note(connection, who, "create", name)
            return True, about

        created: bool = self.fenced("charge", change)
        return created

    def retire(self, name: str, who: str) -> None:
        """Learning ends; decisions go on, charges and the name stay for ever.

        What waits since before is settled in its time: a reward that was `counted` counts.
        """

        def change(connection: Connection) -> tuple[None, dict[str, Any] | None]:
            row = self.row(connection, name)
            if row.retired:
                return None, None
            rows.update(connection, tables.bandits, {"name": name}, retired=True)
            self.note(connection, who, "retire", name)
            return None, {"bandit": name}

        self.fenced("retire", change)
        self.public.pop(name, None)  # devices hear of it at once

    def tenant_of(self, connection: Connection, row: Any) -> Any:
        """What the writer knows of a bandit, brought up to date under its lock."""
        self.assert_present(connection, row)
        tenant = self.tenants.get(row.name)
        if tenant is None or tenant.epoch != row.epoch:
            definition = definitions.parsed(row.definition.encode())
            tenant = self.tenants[row.name] = tenant_of(definition, row.name, row.epoch, self.noise)
        try:
            tenant.resume(connection, self.vault, row)
        except MissingSecret:  # a failover to an older database while we run
            raise Problem("rolled-back") from None
        return tenant

    def assert_present(self, connection: Connection, row: Any) -> None:
        """Raise if the database was put back under us: in an old one retired bandits learn, and
        rounds are given away twice."""
        sequence, schema = rows.one(connection, tables.instance, "sequence", "schema")
        if row.epoch != self.epoch or sequence < self.fence.last:
            raise Problem("rolled-back")
        self._assert_schema(schema)

    @contextmanager
    def commit(self, name: str) -> Iterator[tuple[Connection, Any, Any]]:
        """One transaction on a bandit's open window: connection, its row under lock, its tenant."""
        try:
            with self.store.transaction() as connection:
                row = self.row(connection, name)
                yield connection, row, self.tenant_of(connection, row)
        except BaseException:
            self.forget(name)
            raise

    def forget(self, name: str) -> None:
        """A transaction failed: what the writer has in memory may not be what is stored."""
        self.tenants.pop(name, None)

    def about(self, bandit: str) -> bytes:
        """What tokens of a bandit are bound to."""
        return f"{self.epoch}\n{bandit}".encode()

    # -- people and runs ---------------------------------------------------------------------------

    def pseudonym(self, bandit: bytes, person: str) -> bytes:
        return pseudonym(self.vault.master, bandit, person)

    def hashed_id(self, bandit: bytes, owner: str, name: str) -> Name:
        """Keyed hashes of the id of a decision that an owner of keys has given."""
        return hashed_id(self.vault.master, bandit, owner, name)

    def pending(self, connection: Connection, row: Any) -> Pending:
        """The decisions of a bandit that are kept, inside a transaction."""
        return Pending(connection, self.buckets, self.sealer, row.name, row.epoch)

    def load_runs(self, connection: Connection, wanted: set[bytes]) -> None:
        """Look up runs of other replicas and of earlier starts."""
        missing = wanted - self._runs
        if missing:
            here = {"run": missing, "epoch": self.epoch}
            found = rows.find(connection, tables.runs, "run", **here)
            self._runs |= {bytes(run) for (run,) in found}

    def is_registered(self, run: bytes) -> bool:
        return run in self._runs

    # -- alarms and the log ------------------------------------------------------------------------

    def store_alarm(self, connection: Connection, bandit: str, text: str) -> None:
        """Stop learning of a bandit, for good until a restore."""
        rows.update(connection, tables.bandits, {"name": bandit}, alarm=text)
        logs.record(
            logging.ERROR, "alarm: learning has stopped: the database is an old one", bandit=bandit
        )

    def note(self, connection: Connection, who: str, action: str, about: str) -> None:
        """Write the log of what administrators did."""
        new = {"at": time.time(), "key": who, "action": action, "about": about}
        rows.insert(connection, tables.log, [new])


def tenant_of(
    definition: Definition, name: str = "", epoch: str = "", noise: Noise | None = None
) -> Tenant:
    """A bandit under the trust that its definition states, without what is stored of it."""
    kind = Devices if definition.privacy.on_devices else Joint
    return kind(definition, name, epoch, noise)


def witness_of(settings: Settings, instance: str) -> Witness | None:
    if settings.witness is None:
        return None
    assert settings.witness_key is not None
    return Witness(settings.witness, settings.witness_key, instance)


def returned(row: Any) -> list[list[int]]:
    """Rounds of a bandit that were leased and given back."""
    return list(json.loads(row.returned))
