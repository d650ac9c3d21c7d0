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
_TEXT = sa.Text()
_BYTES = sa.LargeBinary()
_REAL: Any = sa.Double()
_BOOLEAN = sa.Boolean()
_INTEGER = sa.Integer()
_BIG = sa.BigInteger().with_variant(sa.Integer, "sqlite")

_OF_BANDIT = {"bandit": _TEXT, "epoch": _TEXT}


def _optional(kind: Any) -> sa.Column[Any]:
    return sa.Column(kind)


def _table(title: str, own: dict[str, Any], /, *more: Any, **columns: Any) -> sa.Table:
    """A table by its primary key and its columns, which hold something unless `_optional`."""
    made = [sa.Column(each, kind, primary_key=True) for each, kind in own.items()]
    for each, kind in columns.items():
        column = kind if isinstance(kind, sa.Column) else sa.Column(kind, nullable=False)
        column.name = column.key = each
        made.append(column)
    return sa.Table(title, metadata, *made, *more)


instance = _table(
    "instance",
    {"id": _INTEGER},  # always 1
    instance=_TEXT,
    epoch=_TEXT,
    sequence=_BIG,
    schema=_INTEGER,
)
bandits = _table(
    "bandits",
    {"name": _TEXT},
    definition=_TEXT,
    epoch=_TEXT,
    created=_REAL,
    window=_INTEGER,  # number of the open one, from 1
    window_start=_BIG,
    window_end=_BIG,  # rounds before this belong to it
    next_round=_BIG,  # rounds before this were leased
    returned=_TEXT,  # leased and given back: [[first, end], ...]
    version=_INTEGER,  # of the policy
    learner=_BYTES,  # its public state
    retired=_BOOLEAN,
    learning=_BOOLEAN,  # False past the horizon
    alarm=_optional(_TEXT),
)
windows = _table(
    "windows",
    {**_OF_BANDIT, "number": _INTEGER},
    rounds=_BIG,
    sequence=_BIG,  # of the key that seals the sum
    key=_optional(_BYTES),  # name of that key
    sum=_optional(_BYTES),  # sealed; none once closed
    release=_optional(_TEXT),  # what was published
    closed=_optional(_REAL),
)
policies = _table(
    "policies",
    {**_OF_BANDIT, "version": _INTEGER},
    policy=_BYTES,
    at=_REAL,
)
marks = _table(
    "marks",
    {**_OF_BANDIT, "block": _BIG},
    used=_BYTES,  # whose rewards have come, or whose defaults: it does not say which
)
pending = _table(
    "pending",
    {**_OF_BANDIT, "round": _BIG},
    sa.Index("pending_id", "bandit", "epoch", "id", unique=True),
    sa.Index("pending_due", "deadline", "bandit"),
    sa.Index("pending_bucket", "bucket"),
    id=_optional(_BYTES),  # keyed hash of the caller's id; none if there is none
    answer=_BYTES,  # sealed
    bucket=_TEXT,  # of the key that seals it
    deadline=_REAL,  # when it is settled
    active=_BOOLEAN,
)
waiting = _table(
    "waiting",  # rewards of decisions that wait, one for each, whether it has come or not
    {**_OF_BANDIT, "place": _BYTES},  # keyed hash of the round
    reward=_BYTES,  # sealed
)
settled = _table(
    "settled",  # ids of decisions that were settled lately
    {**_OF_BANDIT, "id": _BYTES},  # keyed hash
    sa.Index("settled_day", "settled"),
    settled=_INTEGER,  # day on which its wait is over, whose key hashes the id
)
people = _table("people", {**_OF_BANDIT, "person": _BYTES})  # pseudonym
for _each in (waiting, settled, people):  # in the order of their hashes, and in one tree
    _each.dialect_options["sqlite"]["with_rowid"] = False
reports = _table(
    "reports",  # local trust: ids of those that counted in the open window
    {"bandit": _TEXT, "id": _BYTES},
)
batches = _table(
    "batches",  # local trust: what became of those that a relay sent; never deleted
    {"bandit": _TEXT, "id": _BYTES},
    status=_TEXT,
)
populations = _table(
    "populations",
    {"name": _TEXT},
    epsilon=_optional(_REAL),  # none: no limit
    delta=_optional(_REAL),
    unit=_optional(_TEXT),
    created=_REAL,
)
charges = _table(
    "charges",
    {"population": _TEXT, "bandit": _TEXT, "epoch": _TEXT},
    mu_squared=_REAL,
    at=_REAL,
)
keys = _table(
    "keys",
    {"id": _TEXT},
    name=_TEXT,
    hash=sa.Column(_BYTES, nullable=False, unique=True),
    scopes=_TEXT,
    bandits=_optional(_TEXT),  # none: all
    rate=_optional(_REAL),  # requests a second; none: no limit
    created=_REAL,
    revoked=_optional(_REAL),
    share=_optional(_REAL),  # of a horizon or of each window; none: see keys.py
)
shares = _table(
    "shares",  # rounds that applications have taken, where there is a limit
    {"bandit": _TEXT, "owner": _TEXT},
    window=_INTEGER,  # of which; 0: of the horizon
    taken=_BIG,
)
logouts = _table(
    "logouts",  # of the dashboard: sessions that were ended, while their cookies would still work
    {"session": _BYTES},  # hash of a random number; nothing says whose it was
    expiry=_REAL,
)
runs = _table(
    "runs",
    {"run": _BYTES},
    epoch=_TEXT,
    started=_REAL,
)
beats = _table(
    "beats",  # of servers that live (beats.py)
    {"run": _BYTES},
    beat=_BIG,
)
log = _table(
    "log",
    {"id": _INTEGER},
    at=_REAL,
    key=_TEXT,
    action=_TEXT,
    about=_TEXT,
)

LIGHT = [column for column in bandits.c if column.name != "learner"]
_LOCK_BANDIT = sa.select(*LIGHT).where(bandits.c.name == sa.bindparam("bandit")).with_for_update()
PAUSED = 10_000  # milliseconds after which PostgreSQL takes its locks from a replica
_BUSY = 5.0  # seconds for which SQLite waits for a lock
_PATIENCE = f"PRAGMA busy_timeout = {_BUSY * 1000:.0f}"
BLOCK = 4096  # rounds in a row of `marks`


_ADDRESS = (
    "the store must be sqlite:///FILE (four slashes begin an absolute path) or "
    "postgresql://USER:PASSWORD@HOST/DATABASE"
)


class Store:
    """Connections to one database, and one transaction at a time per process.

    url   sqlite:///FILE or postgresql://USER:PASSWORD@HOST/DATABASE
    """

    _journal = "WAL"  # of SQLite

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

    @property
    def shown(self) -> str:
        """Its address without the password."""
        return self.url.render_as_string(hide_password=True)

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
            connect_args={"check_same_thread": False, "timeout": _BUSY, "isolation_level": None},
        )

        @sa.event.listens_for(engine, "connect")
        def prepare(connection: sqlite3.Connection, _: Any) -> None:
            for setting in (
                f"journal_mode = {self._journal}",
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
                raise Problem("store-unavailable") from error
            except (sa.exc.TimeoutError, sa.exc.PendingRollbackError) as error:
                raise Problem("store-unavailable") from error

    def forget_commits(self) -> None:
        """Empty SQLite's log, whose frames say in which order rows were written, and deleted.

        While somebody reads (a backup) it waits for the next time, and nobody waits for it.
        """
        if self.path is None:
            return
        with self._lock:
            pooled = self.engine.raw_connection()
            cursor = pooled.cursor()
            try:
                cursor.execute("PRAGMA busy_timeout = 0")
                cursor.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
            except sqlite3.OperationalError as error:
                raise Problem("store-unavailable") from error
            finally:
                cursor.execute(_PATIENCE)
                pooled.close()

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

    def assert_prepared(self) -> None:
        """Raise ValueError unless a server of this version has made the tables."""
        try:
            with self.transaction() as connection:
                found = migrations.found(connection)
        except (Problem, sa.exc.DatabaseError):
            found = None
        if found != migrations.CURRENT:
            raise ValueError(
                f"there is no store of this version at {self.shown}; `discreet serve` makes one, "
                "and brings an older one forward"
            )

    def prepare(self) -> None:
        """Make tables that are missing, bring older ones forward; ValueError if that cannot be."""
        shown = self.shown
        try:
            with self.transaction() as connection:
                self.lock_start(connection)
                migrations.upgrade(connection)
                metadata.create_all(connection)
            self.forget_commits()
        except Problem:
            raise ValueError(
                f"the store {shown} cannot be reached: start it, or check --store"
            ) from None
        except sa.exc.DatabaseError:
            raise ValueError(
                f"the store {shown} is damaged, or something else than a database of this service: "
                "choose another --store, or put a backup there and run `discreet restore`"
            ) from None


def all_bandits(connection: Connection) -> list[Any]:
    """The rows of all bandits but for their learners, in the order of their names."""
    return list(connection.execute(sa.select(*LIGHT).order_by(bandits.c.name)))
