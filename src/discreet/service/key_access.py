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
    """What a command does with keys, once."""

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

    def create(self, body: KeyBody) -> dict[str, Any]:
        """A new key, with its secret."""
        return dict(self._run(self._created(body)))

    def all(self) -> list[dict[str, Any]]:
        """Every key, without secrets."""
        return list(self._run(self._all())["keys"])

    def revoke(self, key_id: str) -> None:
        """Revoke a key for good."""
        self._run(self._revoked(key_id))

    def rotate(self) -> dict[str, Any]:
        """A new admin key in the place of the one that the settings name, or of the first."""
        return dict(self._run(self._rotated()))

    async def _created(self, body: KeyBody) -> Any:
        if self._server is None:
            return self._call("POST", "/v1/keys", msgspec.to_builtins(body))
        return msgspec.to_builtins(await administration.create_key(self._server, body, WHO))

    async def _all(self) -> Any:
        if self._server is None:
            return self._call("GET", "/v1/keys")
        return msgspec.to_builtins(await administration.all_keys(self._server))

    async def _revoked(self, key_id: str) -> None:
        if self._server is None:
            self._call("DELETE", f"/v1/keys/{key_id}")
        else:
            await administration.revoke_key(self._server, key_id, WHO)

    async def _rotated(self) -> Any:
        old = ADMIN_ID if self._key is None else id_of(self._key)
        made = await self._created(KeyBody("admin", ["admin"]))
        self._key = made["secret"]
        await self._revoked(old)
        return made

    def _call(self, method: str, path: str, body: Any = None) -> Any:
        with Client(self._url, self._key) as client:
            return client.call(method, path, body)

    def _run(self, work: Awaitable[Any]) -> Any:
        """What a call says; a store is closed then."""

        async def run() -> Any:
            if self._server is None:
                return await work
            self._server.writer.start(asyncio.get_running_loop())
            try:
                return await work
            finally:
                self._server.close()

        return asyncio.run(run())


def _opened(settings: Settings) -> Server:
    """On a store that no server holds, or that any number of them share."""
    if settings.store.startswith("sqlite:///"):
        path = Path(settings.store.removeprefix("sqlite:///"))
        if not path.exists():
            raise ValueError(f"there is no store at {path}; `discreet serve` makes one")
    return Server(settings, serves=False)
