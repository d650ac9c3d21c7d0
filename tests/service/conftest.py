"""Real servers for the tests: uvicorn in a thread, SQLite in a folder of its own."""

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
        return Client(self.url, key)

    def stop(self) -> None:
        self._server.should_exit = True
        self._thread.join()


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Running]:
    server = Running(tmp_path)
    yield server
    server.stop()
