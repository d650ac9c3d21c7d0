"""Backup and restore.

A restored database is old: its open windows may have been released, with other rewards, and going
on with them would use their noise twice. So `restore` begins a new epoch. Open windows are
discarded unread and their keys destroyed, tokens of earlier epochs and of unregistered runs answer
`unknown`, and what must never be forgotten is replayed from the fence: charges, limits, revoked
keys, retirements. Where a bandit protects people, the hashes since the backup are gone: the new
epoch is charged like a new bandit, and a bandit that cannot pay, or is in no population, comes back
retired.
"""

import os
import secrets
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from discreet.privacy import SecureNoise
from discreet.privacy.noise import Noise
from discreet.service import beats, budgets, definitions, keys, rows
from discreet.service import store as tables
from discreet.service.errors import Problem
from discreet.service.fence import Fence, Foreign, Grip, Mark, RolledBack
from discreet.service.pending import FORGET
from discreet.service.schema import Definition
from discreet.service.server import tenant_of, witness_of
from discreet.service.settings import Settings
from discreet.service.store import Store
from discreet.service.vault import Vault, fsync_folder


def backup(settings: Settings, target: Path) -> None:
    """Copy an SQLite store to a file while the server may be running.

    The copy holds no readable sum: their keys stay in the secrets folder. PostgreSQL has its own
    tools (pg_dump, base backups); restore them, then run `discreet restore`.
    """
    url = sa.make_url(settings.store)
    if url.get_backend_name() != "sqlite" or not url.database:
        raise ValueError("use pg_dump for PostgreSQL, then `discreet restore` after restoring it")
    if not Path(url.database).exists():
        raise ValueError(f"there is no store at {url.database}")
    if target.exists():
        raise ValueError(f"{target} exists; choose a new name")
    partial = target.with_name(f".{target.name}.{secrets.token_hex(4)}")
    try:
        _copy(url.database, partial)
        os.link(partial, target)  # whole, or not at all
        fsync_folder(target.parent)
    except (OSError, sqlite3.Error) as error:
        raise ValueError(
            f"no backup was made ({type(error).__name__}): is the disk of {target} full, or can it "
            "not be written?"
        ) from None
    finally:
        for extra in ("", "-journal"):
            partial.with_name(partial.name + extra).unlink(missing_ok=True)


def _copy(store: str, target: Path) -> None:
    target.touch(mode=0o600)
    with (
        closing(sqlite3.connect(f"file:{store}?mode=ro", uri=True)) as source,
        closing(sqlite3.connect(target)) as copy,
    ):
        source.backup(copy)
    with target.open("rb") as file:
        os.fsync(file.fileno())


UNKNOWN_SINCE = (
    "what happened after the backup is not known; revoke keys that had been revoked since, and "
    "lower limits of populations yourself"
)


def restore(settings: Settings) -> list[str]:
    """Make a restored database safe to serve; returns what was done, in words."""
    store = Store(settings.store)
    try:
        if beats.alive(store):
            raise ValueError(
                f"servers work on {store.shown}: stop them all first. If they are well, "
                "nothing needs to be restored: set DISCREET_SECRETS to the folder that they use"
            )
        store.prepare()
        vault = Vault(settings.secrets)
        noise: Noise = settings.noise or SecureNoise()
        try:
            return _Restore(store, vault, settings, noise).run()
        finally:
            vault.close()
    finally:
        store.close()


class _Restore:
    """One restore: what the fence remembers is done again, and open windows are discarded."""

    def __init__(self, store: Store, vault: Vault, settings: Settings, noise: Noise) -> None:
        self.store, self.vault, self.settings, self.noise = store, vault, settings, noise
        self.done: list[str] = []

    def run(self) -> list[str]:
        epoch = secrets.token_hex(8)
        with self.store.transaction() as connection:
            row = self.store.lock_instance(connection)
        if row is None:
            raise ValueError("this store is empty: there is nothing to restore")
        fence = self._fence(row.instance)
        with fence.held() as grip:  # before the database's locks, as everywhere
            marks = grip.marks
            with self.store.transaction() as connection:
                row = self.store.lock_instance(connection)
                last = max([row.sequence, *(mark.sequence for mark in marks)])
                rows.update(connection, tables.instance, {}, epoch=epoch, sequence=last + 1)
                rows.delete(connection, tables.beats)  # of servers that are gone
                self._replay(connection, marks, row.sequence)
                for bandit in tables.all_bandits(connection):
                    self._reopen(connection, bandit, epoch)
                mark = Mark(last + 1, epoch, "epoch", {})
                grip.reserve(mark)
                self._witness(grip, row, last, epoch)
            grip.append(mark)
        self.vault.forget_all_but(epoch)
        self.done.append("a new epoch has begun; tokens from before answer `unknown`")
        return self.done

    def _witness(self, grip: Grip, row: Any, last: int, epoch: str) -> None:
        """Whatever the witness holds is the past: this restore is what goes on."""
        witness = witness_of(self.settings, row.instance)
        known = grip.last_of("witness")
        if witness is not None:
            present = witness.read()
            if present not in witness.expected(known, row.sequence):
                self.done.append(f"the witness has seen more than this copy: {UNKNOWN_SINCE}")
            witness.move(grip, last, epoch, present)
            self.done.append("the witness knows this restore; other copies are refused")
        elif known is not None and known.about["after"] is not None:
            grip.append(Mark(last, epoch, "witness", {"before": None, "after": None}))
            self.done.append("there is no witness any more: snapshots are not noticed")

    def _fence(self, instance: str) -> Fence:
        """The fence of this database; a new one, and a warning, if it is lost."""
        fence = Fence(self.settings.secrets, instance)
        if fence.path.exists():
            try:
                fence.marks()
            except Foreign:
                raise ValueError(
                    "the secrets folder belongs to another instance than this database; use its "
                    "own, or an empty folder if it is lost"
                ) from None
            except RolledBack:
                aside = fence.path.with_name(f"fence.damaged-{secrets.token_hex(4)}")
                fence.path.rename(aside)
                self.done.append(f"the fence is damaged; it was put aside as {aside.name}")
        if not fence.path.exists():
            fence = Fence(self.settings.secrets, instance)
            fence.begin()
            self.done.append(f"there is no fence: {UNKNOWN_SINCE}")
        return fence

    def _replay(self, connection: Connection, marks: list[Mark], stored: int) -> None:
        """What the database has forgotten; limits that it knows better than the fence stay."""
        for mark in marks:
            about = mark.about
            if mark.what == "everything":
                for each in about["limits"]:
                    if mark.sequence > stored:
                        self._limit(connection, each)
                for each in about["charges"]:
                    self._charge(connection, each)
                for key in about["revoked"]:
                    self._revoke(connection, key)
                for name in about["retired"]:
                    self._retire(connection, name)
            elif mark.what == "limit":
                if mark.sequence > stored:
                    self._limit(connection, about)
            elif mark.what == "charge" and "population" in about:
                self._charge(connection, {**about, "epoch": mark.epoch})
            elif mark.what == "revoke":
                self._revoke(connection, about["key"])
            elif mark.what == "retire":
                self._retire(connection, about["bandit"])

    def _limit(self, connection: Connection, about: dict[str, Any]) -> None:
        name = about["population"]
        limit = {each: about.get(each) for each in ("epsilon", "delta", "unit")}
        if rows.one(connection, tables.populations, name=name) is None:
            budgets.begin(connection, name, **limit)
        elif limit["epsilon"] is not None:
            given = {each: value for each, value in limit.items() if value is not None}
            rows.update(connection, tables.populations, {"name": name}, **given)

    def _charge(self, connection: Connection, about: dict[str, Any]) -> None:
        here = {each: about[each] for each in ("population", "bandit", "epoch")}
        if rows.one(connection, tables.charges, **here) is not None:
            return
        if rows.one(connection, tables.populations, name=about["population"]) is None:
            budgets.begin(connection, about["population"], unit=about.get("unit"))
        budgets.book(connection, **here, mu2=about["mu_squared"])
        self.done.append(f"charged again: {about['bandit']} to {about['population']}")

    def _revoke(self, connection: Connection, key: str) -> None:
        if keys.revoke(connection, key):
            self.done.append(f"revoked again: key {key}")

    def _retire(self, connection: Connection, name: str) -> None:
        alive = {"name": name, "retired": False}
        if rows.update(connection, tables.bandits, alive, retired=True):
            self.done.append(f"retired again: {name}")

    def _paid_again(
        self, connection: Connection, name: str, definition: Definition, epoch: str
    ) -> str:
        """Charge a bandit whose people may be counted again; why nobody can pay, if so."""
        privacy = definition.privacy
        if privacy.population is None:
            return "its people may have counted since the backup, and no population pays for them"
        try:
            mu2 = definitions.mu_squared(definition)
            budgets.charge(connection, privacy.population, name, epoch, mu2, privacy.unit)
        except Problem:
            return f"the budget of {privacy.population} has no room for people who count again"
        return ""

    def _reopen(self, connection: Connection, row: Any, epoch: str) -> None:
        """Discard the open window unread, and go on with what was released before it."""
        definition = definitions.parsed(row.definition.encode())
        privacy = definition.privacy
        retired = row.retired
        if privacy.unit == "person" and privacy.epsilon is not None and not retired:
            refused = self._paid_again(connection, row.name, definition, epoch)
            if refused:
                retired = True
                self.done.append(f"{row.name} comes back retired: {refused}")
        tenant = tenant_of(definition, row.name, row.epoch, self.noise)
        tenant.reopen(connection, self.vault, row, epoch, retired)
        dropped = len(rows.find(connection, tables.pending, "round", bandit=row.name))
        for table in FORGET:
            rows.delete(connection, table, bandit=row.name)
        goes_on = "decisions go on" if retired else "learning goes on"
        self.done.append(f"{row.name}: the open window {tenant.after_restore}, {goes_on}")
        if dropped:
            self.done.append(
                f"{row.name}: decisions that waited and are dropped: {dropped}, with their "
                "rewards, also those that were answered `counted`"
            )
