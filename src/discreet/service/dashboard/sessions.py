"""Who looks at the dashboard: a signed cookie, a token for forms, and a link that works once.

A cookie names a key and an expiry, authenticated under a key that derives from the server's master
key. It covers the hash of the API key, so a revoked or replaced key ends its sessions, and the
store's epoch, so a restore ends them all. Live sessions are stored nowhere. Logging out stores a
keyed hash of the session's random number until its cookie would have expired, and every replica
asks the store for it before it shows a page. The secret itself is never in the cookie.
"""

import hashlib
import hmac
import secrets
import time
from dataclasses import dataclass
from urllib.parse import urlsplit

import sqlalchemy as sa
from sqlalchemy.engine import Connection
from starlette.requests import Request
from starlette.responses import Response

from discreet.service import rows
from discreet.service import store as tables
from discreet.service.dashboard.rendering import HOURS
from discreet.service.errors import Problem
from discreet.service.keys import Key
from discreet.service.server import Server
from discreet.service.tokens import derived

LINK_SECONDS = 600  # a link can be used for so long
_NONCE_BYTES = 16
_LONGEST = 400  # characters of a cookie


@dataclass(frozen=True)
class Session:
    """Somebody who has logged in."""

    key: Key  # that logged in
    form_token: str  # that every form of this session carries
    id: bytes  # a hash of its random number
    expiry: int  # of its cookie

    @property
    def is_admin(self) -> bool:
        return "admin" in self.key.scopes


class Sessions:
    """Makes, reads and ends sessions of a server; holds the links that were made and not used."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._secret = derived(server.vault.master, b"dashboard session")
        self._links: dict[str, tuple[str, float]] = {}  # hash of a link's token: key id, expiry

    # -- cookies -----------------------------------------------------------------------------------

    def begin(self, request: Request, response: Response, key: Key) -> None:
        """Set the cookie of a new session."""
        expiry = int(time.time()) + 3600 * HOURS
        nonce = secrets.token_urlsafe(_NONCE_BYTES)
        value = f"{key.id}~{expiry}~{nonce}~{self._mac(key, str(expiry), nonce)}"
        response.set_cookie(
            _cookie_name(request),
            value,
            max_age=3600 * HOURS,
            path="/",
            secure=_is_https(request),
            httponly=True,
            samesite="strict",
        )

    async def end(self, request: Request, response: Response, session: Session) -> None:
        """End a session for good, on every replica, and let the browser forget its cookie."""
        await self._server.transact(lambda c: _end(c, session))
        response.delete_cookie(
            _cookie_name(request),
            path="/",
            secure=_is_https(request),
            httponly=True,
            samesite="strict",
        )

    async def current(self, request: Request) -> Session | None:
        """The session of a request; None without a valid cookie of a key that lives, or logged out.

        Raises `store-unavailable` if the store cannot say whether it has ended.
        """
        session = self._claimed(request)
        if session is None:
            return None
        ended = await self._server.transact(lambda c: _has_ended(c, session))
        return None if ended else session

    def _claimed(self, request: Request) -> Session | None:
        """What a genuine cookie says, whether or not its session was ended."""
        value = request.cookies.get(_cookie_name(request), "")
        parts = value.split("~")
        if len(value) > _LONGEST or len(parts) != 4 or not value.isascii():
            return None
        key_id, expiry, nonce, mac = parts
        key = self._server.keys.get(key_id)
        if key is None or key.revoked is not None:
            return None
        if not hmac.compare_digest(mac, self._mac(key, expiry, nonce)):
            return None
        if not expiry.isdigit() or int(expiry) < time.time():
            return None
        form_token = self._derived(b"form", key, nonce).hex()
        return Session(key, form_token, self._derived(b"id", key, nonce), int(expiry))

    def _mac(self, key: Key, expiry: str, nonce: str) -> str:
        return self._derived(b"session", key, nonce, expiry).hex()

    def _derived(self, purpose: bytes, key: Key, *more: str) -> bytes:
        parts = (self._server.epoch, key.id, *more)
        return derived(self._secret, purpose, key.hash, *(each.encode() for each in parts))

    # -- links that work once ----------------------------------------------------------------------

    def link(self, key_id: str) -> str:
        """A token that logs in with this key, once and soon; only its hash is held."""
        token = secrets.token_urlsafe(32)
        self._links[_hashed(token)] = (key_id, time.monotonic() + LINK_SECONDS)
        return token

    def redeemed(self, token: str) -> Key | None:
        """The key that a link stands for; None if it was used, is too old or was never made."""
        key_id, expiry = self._links.pop(_hashed(token), ("", 0.0))
        key = self._server.keys.get(key_id)
        if key is None or key.revoked is not None or expiry < time.monotonic():
            return None
        return key


def _end(connection: Connection, session: Session) -> None:
    """Remember that a session has ended, and forget those whose cookies have expired since."""
    table = tables.logouts
    connection.execute(sa.delete(table).where(table.c.expiry < time.time()))
    rows.put(connection, tables.logouts, [{"session": session.id, "expiry": session.expiry}])


def _has_ended(connection: Connection, session: Session) -> bool:
    return rows.one(connection, tables.logouts, session=session.id) is not None


def check_form(request: Request, session: Session, token: str) -> None:
    """Raise unless a form was sent by a page of this session."""
    check_origin(request)
    if not hmac.compare_digest(token.encode(), session.form_token.encode()):
        raise Problem("foreign-form")


def check_origin(request: Request) -> None:
    """Raise if the browser says that another site has sent this form.

    Browsers say so themselves on https and on this machine, whatever a proxy makes of `Host`;
    elsewhere by the origin.
    """
    site = request.headers.get("sec-fetch-site")
    if site is not None:
        if site not in ("same-origin", "none"):
            raise Problem("foreign-form")
        return
    origin = request.headers.get("origin")
    if origin is not None and urlsplit(origin).netloc != request.headers.get("host"):
        raise Problem("foreign-form")


def _hashed(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()


def _is_https(request: Request) -> bool:
    return request.url.scheme == "https"


def _cookie_name(request: Request) -> str:
    # The prefix makes browsers refuse a cookie that another host or a plain connection has set.
    return "__Host-discreet" if _is_https(request) else "discreet"
