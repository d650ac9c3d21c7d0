"""Keys from the command line: through a running server's API, else directly on the store.

An SQLite store belongs to one process, so while a server runs only its API can change keys.
"""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Protocol, TypeVar

import msgspec

from discreet.service import administration
from discreet.service.client import Client
from discreet.service.errors import StoreBusy
from discreet.service.messages import KeyBody
from discreet.service.server import Server
from discreet.service.settings import Settings

WHO = "command line"
T = TypeVar("T")


class KeyAccess(Protocol):
    """What the commands do with keys."""

    def create(
        self, name: str, scopes: list[str], bandits: list[str] | None, rate: float | None
    ) -> dict[str, Any]:
        """A new key, with its secret."""

    def all(self) -> list[dict[str, Any]]:
        """Every key, without secrets."""

    def revoke(self, key_id: str) -> None:
        """Revoke a key for good."""


def access(settings: Settings, url: str | None = None) -> KeyAccess:
    """The API where there is a server, else the store."""
    if url is not None:
        return Remote(_admin(settings), url)
    try:
        return Direct(settings)
    except StoreBusy:
        return Remote(_admin(settings), f"http://{settings.host}:{settings.port}")


def _admin(settings: Settings) -> Settings:
    if settings.admin_key is None:
        raise ValueError(
            "a running server changes keys through its API: set DISCREET_ADMIN_KEY to its admin key"
        )
    return settings


class Remote:
    """Through a running server.

    settings   with the admin key
    url        of the server
    """

    def __init__(self, settings: Settings, url: str) -> None:
        assert settings.admin_key is not None
        self._client = Client(url, settings.admin_key)

    def create(
        self, name: str, scopes: list[str], bandits: list[str] | None, rate: float | None
    ) -> dict[str, Any]:
        """A new key, with its secret."""
        body = {"name": name, "scopes": scopes, "bandits": bandits, "rate": rate}
        with self._client as client:
            made: dict[str, Any] = client.call("POST", "/v1/keys", body)
        return made

    def all(self) -> list[dict[str, Any]]:
        """Every key, without secrets."""
        with self._client as client:
            return list(client.call("GET", "/v1/keys")["keys"])

    def revoke(self, key_id: str) -> None:
        """Revoke a key for good."""
        with self._client as client:
            client.call("DELETE", f"/v1/keys/{key_id}")


class Direct:
    """On a store that no server holds, or that any number of them share.

    settings   name the store and the secrets
    """

    def __init__(self, settings: Settings) -> None:
        if settings.store.startswith("sqlite:///"):
            path = Path(settings.store.removeprefix("sqlite:///"))
            if not path.exists():
                raise ValueError(f"there is no store at {path}; `discreet serve` makes one")
        self._server = Server(settings)

    def create(
        self, name: str, scopes: list[str], bandits: list[str] | None, rate: float | None
    ) -> dict[str, Any]:
        """A new key, with its secret."""
        body = KeyBody(name, scopes, bandits, rate)
        made = self._do(lambda: administration.create_key(self._server, body, WHO))
        return dict(msgspec.to_builtins(made))

    def all(self) -> list[dict[str, Any]]:
        """Every key, without secrets."""
        self._do(lambda: administration.reload_keys(self._server))
        return list(msgspec.to_builtins([key.public() for key in self._server.keys.all()]))

    def revoke(self, key_id: str) -> None:
        """Revoke a key for good."""
        self._do(lambda: administration.revoke_key(self._server, key_id, WHO))

    def _do(self, work: Callable[[], Awaitable[T]]) -> T:
        async def run() -> T:
            self._server.writer.start(asyncio.get_running_loop())
            try:
                return await work()
            finally:
                self._server.close()

        return asyncio.run(run())
