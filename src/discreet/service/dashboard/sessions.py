"""Who looks at the dashboard: a signed cookie, a token for forms, and a link that works once.

A cookie names a key and an expiry, authenticated under a key that derives from the server's master
key and covers the hash of the API key: a revoked or replaced key ends its sessions at once, on
every replica, and no session is stored anywhere. The secret itself is never in the cookie.
"""

import hashlib
import hmac
import secrets
import time
from dataclasses import dataclass
from urllib.parse import urlsplit

from starlette.requests import Request
from starlette.responses import Response

from discreet.service.errors import Problem
from discreet.service.keys import Key
from discreet.service.server import Server
from discreet.service.tokens import derived

HOURS = 8  # a session lasts
LINK_SECONDS = 600  # a link can be used for so long
_NONCE_BYTES = 16
_LONGEST = 400  # characters of a cookie


@dataclass(frozen=True)
class Session:
    """Somebody who has logged in."""

    key: Key
    nonce: str
    form_token: str  # that every form of this session carries

    @property
    def is_admin(self) -> bool:
        """Whether the key may change things."""
        return "admin" in self.key.scopes


class Sessions:
    """Makes and reads cookies; holds the links that were made and not used."""

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

    def end(self, request: Request, response: Response) -> None:
        """Let the browser forget the cookie."""
        response.delete_cookie(
            _cookie_name(request),
            path="/",
            secure=_is_https(request),
            httponly=True,
            samesite="strict",
        )

    def current(self, request: Request) -> Session | None:
        """The session of a request; None without a valid cookie of a key that lives."""
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
        return Session(key, nonce, self._form_token(key, nonce))

    def _mac(self, key: Key, expiry: str, nonce: str) -> str:
        parts = (b"session", key.id.encode(), key.hash, expiry.encode(), nonce.encode())
        return derived(self._secret, *parts).hex()

    def _form_token(self, key: Key, nonce: str) -> str:
        return derived(self._secret, b"form", key.id.encode(), key.hash, nonce.encode()).hex()

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


def check_form(request: Request, session: Session, token: str) -> None:
    """Raise unless a form was sent by a page of this session."""
    check_origin(request)
    if not hmac.compare_digest(token.encode(), session.form_token.encode()):
        raise _foreign()


def check_origin(request: Request) -> None:
    """Raise if the browser says that another site has sent this form.

    Browsers say so themselves on https and on this machine, whatever a proxy makes of `Host`;
    elsewhere by the origin.
    """
    site = request.headers.get("sec-fetch-site")
    if site is not None:
        if site not in ("same-origin", "none"):
            raise _foreign()
        return
    origin = request.headers.get("origin")
    if origin is not None and urlsplit(origin).netloc != request.headers.get("host"):
        raise _foreign()


def _foreign() -> Problem:
    return Problem(
        403,
        "foreign-form",
        "This form was not sent by a page of this session.",
        "Load the page again and send it from there.",
    )


def _hashed(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()


def _is_https(request: Request) -> bool:
    return request.url.scheme == "https"


def _cookie_name(request: Request) -> str:
    # The prefix makes browsers refuse a cookie that another host or a plain connection has set.
    return "__Host-discreet" if _is_https(request) else "discreet"
