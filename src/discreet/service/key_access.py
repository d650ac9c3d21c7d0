"""Keys from the command line: through a running server's API, else directly on the store.

An SQLite store belongs to one process, so while a server runs only its API can change keys.
"""

import asyncio
from collections.abc import Awaitable
from pathlib import Path
from typing import Any

import msgspec

from discreet.service import administration
from discreet.service.client import Client
from discreet.service.errors import StoreBusy
from discreet.service.keys import ADMIN_ID, id_of
from discreet.service.messages import KeyBody
from discreet.service.server import Server
from discreet.service.settings import Settings

WHO = "command line"


class KeyAccess:
    """What the commands do with keys, once.

    settings   name the store, the secrets and the admin key
    url        of a running server; None: the store, or the server that holds it
    """

    def __init__(self, settings: Settings, url: str | None = None) -> None:
        self._server: Server | None = None
        if url is None:
            try:
                self._server = _opened(settings)
            except StoreBusy:
                url = f"http://{settings.host}:{settings.port}"
        if self._server is None and settings.admin_key is None:
            raise ValueError(
                "a running server changes keys through its API: set DISCREET_ADMIN_KEY to its "
                "admin key"
            )
        self._url, self._key = url or "", settings.admin_key

    def create(
        self, name: str, scopes: list[str], bandits: list[str] | None, rate: float | None
    ) -> dict[str, Any]:
        """A new key, with its secret."""
        body = KeyBody(name, scopes, bandits, rate)
        if self._server is None:
            made: dict[str, Any] = self._call("POST", "/v1/keys", msgspec.to_builtins(body))
            return made
        return dict(self._do(administration.create_key(self._server, body, WHO)))

    def all(self) -> list[dict[str, Any]]:
        """Every key, without secrets."""
        if self._server is None:
            return list(self._call("GET", "/v1/keys")["keys"])
        return list(self._do(administration.all_keys(self._server))["keys"])

    def revoke(self, key_id: str) -> None:
        """Revoke a key for good."""
        if self._server is None:
            self._call("DELETE", f"/v1/keys/{key_id}")
        else:
            self._do(administration.revoke_key(self._server, key_id, WHO))

    def rotate(self) -> dict[str, Any]:
        """A new admin key in the place of the one that the settings name, or of the first."""
        old = ADMIN_ID if self._key is None else id_of(self._key)
        body = KeyBody("admin", ["admin"])
        if self._server is None:
            made: dict[str, Any] = self._call("POST", "/v1/keys", msgspec.to_builtins(body))
            self._key = made["secret"]
            self._call("DELETE", f"/v1/keys/{old}")
            return made
        server = self._server

        async def both() -> Any:
            new = await administration.create_key(server, body, WHO)
            await administration.revoke_key(server, old, WHO)
            return new

        return dict(self._do(both()))

    def _call(self, method: str, path: str, body: Any = None) -> Any:
        with Client(self._url, self._key) as client:
            return client.call(method, path, body)

    def _do(self, work: Awaitable[Any]) -> Any:
        """What a handler of the API says, on a store that is closed then."""
        server = self._server
        assert server is not None

        async def run() -> Any:
            server.writer.start(asyncio.get_running_loop())
            try:
                return msgspec.to_builtins(await work)
            finally:
                server.close()

        return asyncio.run(run())


def _opened(settings: Settings) -> Server:
    """On a store that no server holds, or that any number of them share."""
    if settings.store.startswith("sqlite:///"):
        path = Path(settings.store.removeprefix("sqlite:///"))
        if not path.exists():
            raise ValueError(f"there is no store at {path}; `discreet serve` makes one")
    return Server(settings, serves=False)
