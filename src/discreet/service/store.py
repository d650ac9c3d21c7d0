"""Tables and transactions: the same code on SQLite and on PostgreSQL.

Every change to a bandit is one transaction under that bandit's row lock. On SQLite that is the
lock of the whole file (BEGIN IMMEDIATE, one writing connection, WAL, synchronous=FULL); on
PostgreSQL it is SELECT ... FOR UPDATE.
"""

import fcntl
import os
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection, make_url
from sqlalchemy.pool import QueuePool, StaticPool

from discreet.service import migrations
from discreet.service.errors import Problem, StoreBusy

metadata = sa.MetaData()
_BIG = sa.BigInteger().with_variant(sa.Integer, "sqlite")

instance = sa.Table(
    "instance",
    metadata,
    sa.Column("id", sa.Integer, primary_key=True),  # always 1
    sa.Column("instance", sa.Text, nullable=False),
    sa.Column("epoch", sa.Text, nullable=False),
    sa.Column("sequence", _BIG, nullable=False),
    sa.Column("schema", sa.Integer, nullable=False),
)
bandits = sa.Table(
    "bandits",
    metadata,
    sa.Column("name", sa.Text, primary_key=True),
    sa.Column("definition", sa.Text, nullable=False),
    sa.Column("epoch", sa.Text, nullable=False),
    sa.Column("created", sa.Double, nullable=False),
    sa.Column("window", sa.Integer, nullable=False),  # number of the open one, from 1
    sa.Column("window_start", _BIG, nullable=False),
    sa.Column("window_end", _BIG, nullable=False),  # rounds before this belong to it
    sa.Column("next_round", _BIG, nullable=False),  # rounds before this were leased
    sa.Column("returned", sa.Text, nullable=False),  # leased and given back: [[first, end], ...]
    sa.Column("version", sa.Integer, nullable=False),  # of the policy
    sa.Column("learner", sa.LargeBinary, nullable=False),  # its public state
    sa.Column("retired", sa.Boolean, nullable=False),
    sa.Column("learning", sa.Boolean, nullable=False),  # False past the horizon
    sa.Column("alarm", sa.Text),
)
windows = sa.Table(
    "windows",
    metadata,
    sa.Column("bandit", sa.Text, primary_key=True),
    sa.Column("epoch", sa.Text, primary_key=True),
    sa.Column("number", sa.Integer, primary_key=True),
    sa.Column("rounds", _BIG, nullable=False),
    sa.Column("sequence", _BIG, nullable=False),  # of the key that seals the sum
    sa.Column("key", sa.LargeBinary),  # name of that key
    sa.Column("sum", sa.LargeBinary),  # sealed; none once closed
    sa.Column("release", sa.Text),  # what was published
    sa.Column("closed", sa.Double),
)
policies = sa.Table(
    "policies",
    metadata,
    sa.Column("bandit", sa.Text, primary_key=True),
    sa.Column("epoch", sa.Text, primary_key=True),
    sa.Column("version", sa.Integer, primary_key=True),
    sa.Column("policy", sa.LargeBinary, nullable=False),
    sa.Column("at", sa.Double, nullable=False),
)
marks = sa.Table(
    "marks",
    metadata,
    sa.Column("bandit", sa.Text, primary_key=True),
    sa.Column("epoch", sa.Text, primary_key=True),
    sa.Column("block", _BIG, primary_key=True),
    sa.Column("rewarded", sa.LargeBinary, nullable=False),
    sa.Column("defaulted", sa.LargeBinary, nullable=False),
)
pending = sa.Table(
    "pending",
    metadata,
    sa.Column("bandit", sa.Text, primary_key=True),
    sa.Column("epoch", sa.Text, primary_key=True),
    sa.Column("round", _BIG, primary_key=True),
    sa.Column("id", sa.LargeBinary),  # keyed hash of the caller's id; none if there is none
    sa.Column("request", sa.LargeBinary),  # keyed hash of what was asked
    sa.Column("answer", sa.LargeBinary),  # sealed; none once settled: a tombstone
    sa.Column("bucket", sa.Text, nullable=False),  # of the key that seals it
    sa.Column("deadline", sa.Double, nullable=False),
    sa.Column("active", sa.Boolean, nullable=False),
    sa.Index("pending_id", "bandit", "epoch", "id", unique=True),
)
_WAITS = pending.c.answer.is_not(None)  # tombstones are in neither
sa.Index(
    "pending_due",
    pending.c.deadline,
    pending.c.bandit,
    sqlite_where=_WAITS,
    postgresql_where=_WAITS,
)
sa.Index("pending_bucket", pending.c.bucket, sqlite_where=_WAITS, postgresql_where=_WAITS)
people = sa.Table(
    "people",
    metadata,
    sa.Column("bandit", sa.Text, primary_key=True),
    sa.Column("epoch", sa.Text, primary_key=True),
    sa.Column("person", sa.LargeBinary, primary_key=True),  # pseudonym
    sa.Column("round", _BIG, nullable=False),  # of the decision that counts
)
reports = sa.Table(
    "reports",  # local trust: ids of those that counted in the open window
    metadata,
    sa.Column("bandit", sa.Text, primary_key=True),
    sa.Column("id", sa.LargeBinary, primary_key=True),
)
populations = sa.Table(
    "populations",
    metadata,
    sa.Column("name", sa.Text, primary_key=True),
    sa.Column("epsilon", sa.Double),  # none: no limit
    sa.Column("delta", sa.Double),
    sa.Column("unit", sa.Text),
    sa.Column("created", sa.Double, nullable=False),
)
charges = sa.Table(
    "charges",
    metadata,
    sa.Column("population", sa.Text, primary_key=True),
    sa.Column("bandit", sa.Text, primary_key=True),
    sa.Column("epoch", sa.Text, primary_key=True),
    sa.Column("mu_squared", sa.Double, nullable=False),
    sa.Column("at", sa.Double, nullable=False),
)
keys = sa.Table(
    "keys",
    metadata,
    sa.Column("id", sa.Text, primary_key=True),
    sa.Column("name", sa.Text, nullable=False),
    sa.Column("hash", sa.LargeBinary, nullable=False, unique=True),
    sa.Column("scopes", sa.Text, nullable=False),
    sa.Column("bandits", sa.Text),  # none: all
    sa.Column("rate", sa.Double),  # requests a second; none: no limit
    sa.Column("created", sa.Double, nullable=False),
    sa.Column("revoked", sa.Double),
)
runs = sa.Table(
    "runs",
    metadata,
    sa.Column("run", sa.LargeBinary, primary_key=True),
    sa.Column("epoch", sa.Text, nullable=False),
    sa.Column("started", sa.Double, nullable=False),
)
log = sa.Table(
    "log",
    metadata,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("at", sa.Double, nullable=False),
    sa.Column("key", sa.Text, nullable=False),
    sa.Column("action", sa.Text, nullable=False),
    sa.Column("about", sa.Text, nullable=False),
)

LIGHT = [column for column in bandits.c if column.name != "learner"]
_LOCK_BANDIT = sa.select(*LIGHT).where(bandits.c.name == sa.bindparam("bandit")).with_for_update()
PAUSED = 10_000  # milliseconds after which PostgreSQL takes its locks from a replica
BLOCK = 4096  # rounds in a row of `marks`


_ADDRESS = (
    "the store must be sqlite:///FILE (four slashes begin an absolute path) or "
    "postgresql://USER:PASSWORD@HOST/DATABASE"
)


class Store:
    """Connections to one database, and one transaction at a time per process."""

    def __init__(self, url: str) -> None:
        try:
            self.url = make_url(url)
        except sa.exc.ArgumentError:
            raise ValueError(_ADDRESS) from None
        if self.url.get_backend_name() not in ("sqlite", "postgresql"):
            raise ValueError(_ADDRESS)
        self.is_sqlite = self.url.get_backend_name() == "sqlite"
        self._lock = threading.RLock()
        self._owner = self._own() if self.is_sqlite else None
        self.engine = self._sqlite() if self.is_sqlite else self._postgresql()

    # -- connecting --------------------------------------------------------------------------------

    @property
    def path(self) -> Path | None:
        """The file of an SQLite store; None in memory or on a server."""
        name = self.url.database
        return Path(name) if self.is_sqlite and name and name != ":memory:" else None

    def _own(self) -> int | None:
        """One server for each file: hold a lock beside it as long as this process lives."""
        if self.path is None:
            return None
        if not self.path.parent.is_dir():
            raise ValueError(
                f"the folder {self.path.parent} does not exist; make it, or choose another --store"
            )
        handle = os.open(f"{self.path}.lock", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(handle)
            raise StoreBusy(
                f"{self.path} is in use by another server; stop it, or use PostgreSQL for several"
            ) from None
        return handle

    def _sqlite(self) -> sa.Engine:
        if self.path is not None:  # nobody else may read it
            os.close(os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600))
        engine = sa.create_engine(
            self.url,
            poolclass=StaticPool,  # one connection: one writer
            connect_args={"check_same_thread": False, "timeout": 5.0, "isolation_level": None},
        )

        @sa.event.listens_for(engine, "connect")
        def prepare(connection: sqlite3.Connection, _: Any) -> None:
            for setting in (
                "journal_mode = WAL",
                "synchronous = FULL",
                "foreign_keys = ON",
                "secure_delete = ON",
            ):
                connection.execute(f"PRAGMA {setting}")

        @sa.event.listens_for(engine, "begin")
        def begin(connection: Connection) -> None:
            connection.exec_driver_sql("BEGIN IMMEDIATE")

        return engine

    def _postgresql(self) -> sa.Engine:
        url = self.url.set(drivername="postgresql+psycopg")
        return sa.create_engine(
            url,
            poolclass=QueuePool,
            pool_size=4,
            pool_pre_ping=True,
            isolation_level="READ COMMITTED",
            connect_args={
                "connect_timeout": 3,
                "options": f"-c idle_in_transaction_session_timeout={PAUSED} "
                f"-c lock_timeout={2 * PAUSED} -c statement_timeout={3 * PAUSED} "
                "-c synchronous_commit=on",
                "keepalives_idle": 10,
                "tcp_user_timeout": 20000,
            },
        )

    def close(self) -> None:
        """Close connections and give up the file."""
        with self._lock:
            self.engine.dispose()
            if self._owner is not None:
                os.close(self._owner)
                self._owner = None

    # -- transactions ------------------------------------------------------------------------------

    @contextmanager
    def transaction(self) -> Iterator[Connection]:
        """All or nothing; durable when the block has ended."""
        with self._lock:
            try:
                with self.engine.begin() as connection:
                    yield connection
            except (sa.exc.OperationalError, sa.exc.InternalError, sa.exc.InterfaceError) as error:
                raise unavailable() from error
            except (sa.exc.TimeoutError, sa.exc.PendingRollbackError) as error:
                raise unavailable() from error

    def lock_bandit(self, connection: Connection, name: str) -> Any:
        """The bandit's row but for its learner, locked until the transaction ends, or None."""
        return connection.execute(_LOCK_BANDIT, {"bandit": name}).one_or_none()

    def lock_instance(self, connection: Connection) -> Any:
        """The instance's row, locked: for what concerns more than one bandit."""
        return connection.execute(sa.select(instance).with_for_update()).one_or_none()

    def lock_start(self, connection: Connection) -> None:
        """Two replicas may start at once on an empty database: one after the other."""
        if not self.is_sqlite:
            connection.execute(sa.text("SELECT pg_advisory_xact_lock(836000)"))

    def prepare(self) -> None:
        """Make tables that are missing, bring older ones forward; ValueError if that cannot be."""
        shown = self.url.render_as_string(hide_password=True)
        try:
            with self.transaction() as connection:
                self.lock_start(connection)
                migrations.upgrade(connection)
                metadata.create_all(connection)
        except Problem:
            raise ValueError(
                f"the store {shown} cannot be reached: start it, or check --store"
            ) from None
        except sa.exc.DatabaseError:
            raise ValueError(
                f"the store {shown} is damaged, or something else than a database of this service: "
                "choose another --store, or put a backup there and run `discreet restore`"
            ) from None


def unavailable() -> Problem:
    """The store cannot be used now: nothing was acknowledged, and a retry is safe."""
    return Problem(
        503,
        "store-unavailable",
        "The store cannot be reached or is full.",
        "Nothing was changed or acknowledged. Send the same request again in a few seconds.",
    )
