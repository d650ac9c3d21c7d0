"""Real servers for the tests: uvicorn in a thread, SQLite in a folder of its own."""

import http.client
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("starlette")

import uvicorn

from discreet.service.app import application
from discreet.service.client import Client
from discreet.service.settings import Settings

ADMIN = "test-admin-key-that-is-long-enough-000"


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


class Running:
    """A server that answers, until `stop`."""

    def __init__(self, folder: Path, **more: object) -> None:
        self._clients: list[Client] = []
        self.port = free_port()
        self.settings = Settings(
            **{
                "store": f"sqlite:///{folder}/store.db",
                "secrets": folder / "secrets",
                "admin_key": ADMIN,
                "port": self.port,
                **more,
            }
        )
        self.app = application(self.settings)
        config = uvicorn.Config(
            self.app, port=self.port, log_level="error", access_log=False, lifespan="on"
        )
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._server.run, daemon=True)
        self._thread.start()
        while not self._server.started:
            time.sleep(0.005)
            assert self._thread.is_alive()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

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

    def stop(self) -> None:
        for client in self._clients:
            client.close()
        self._server.should_exit = True
        self._thread.join()


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Running]:
    server = Running(tmp_path)
    yield server
    server.stop()
