"""Errors as RFC 9457 problems: a stable type, a title, what to do; never a value that was sent."""

import re
from typing import Any

import msgspec

from discreet.service import logs

BASE = "urn:discreet:problem:"


class Problem(Exception):  # noqa: N818 - RFC 9457 calls it so
    """An answer other than success.

    status    of HTTP
    kind      the last part of its `type`, stable
    title     what happened
    detail    what to do
    headers   of the answer, such as Retry-After
    """

    def __init__(
        self,
        status: int,
        kind: str,
        title: str,
        detail: str = "",
        *,
        headers: dict[str, str] | None = None,
        **more: Any,
    ) -> None:
        super().__init__(f"{title} {detail}".strip())
        self.headers = headers
        self.status = status
        self.kind = kind
        self.title = title
        self.detail = detail
        self.more = more

    def body(self) -> bytes:
        """application/problem+json."""
        record = {"type": BASE + self.kind, "title": self.title, "status": self.status}
        if self.detail:
            record["detail"] = self.detail
        return msgspec.json.encode({**record, **self.more})


class StoreBusy(RuntimeError):  # noqa: N818 - it states a fact
    """Another server holds the store."""


def unauthorized(detail: str = "Send it as `Authorization: Bearer <key>`.") -> Problem:
    """No key, an unknown one or a revoked one."""
    return Problem(
        401,
        "unauthorized",
        "A valid API key is needed.",
        detail,
        headers={"WWW-Authenticate": "Bearer"},
    )


def forbidden(scope: str) -> Problem:
    """A key without this scope, or for other bandits."""
    return Problem(
        403,
        "forbidden",
        "This key may not do that.",
        f"The call needs the scope {scope!r} for this bandit; ask an administrator for a key.",
    )


def not_found(what: str) -> Problem:
    """No such thing."""
    return Problem(404, "not-found", f"There is no such {what}.", "Check the name in the path.")


def invalid(detail: str, **more: Any) -> Problem:
    """A request that can never succeed; `detail` names fields, never values."""
    return Problem(422, "invalid", "The request is not valid.", detail, **more)


def not_json() -> Problem:
    """A body that cannot be parsed."""
    return Problem(400, "not-json", "The body is not JSON.", "Send a JSON object in UTF-8.")


def unexpected(error: Exception, call: str) -> Problem:
    """An error of ours."""
    logs.unexpected(error, call)
    return Problem(
        500,
        "unexpected",
        "The server met an error that it did not expect.",
        "Nothing was acknowledged. Tell the operator; a retry is safe.",
    )


_ENUM = re.compile(r"Invalid enum value .*?(?= - at `|$)", re.DOTALL)
_FIELD = re.compile(r"Object contains unknown field `(.*?)`(?= - at `|$)", re.DOTALL)
_LONGEST_NAME = 64


def named(field: str) -> str:
    """A field as an error names it: what is long or not printable may be no name at all."""
    return f"`{field}`" if len(field) <= _LONGEST_NAME and field.isprintable() else "a field"


def explained(error: msgspec.ValidationError) -> str:
    """What does not fit, and where; never what was sent but for the names of fields.

    >>> explained(msgspec.ValidationError("Invalid enum value 'secret' - at `$.link`"))
    'Not one of the allowed values - at `$.link`'
    >>> explained(msgspec.ValidationError("Object contains unknown field `contxt`"))
    'There is no such field (see /docs): `contxt`'
    """
    text = _ENUM.sub("Not one of the allowed values", str(error))
    text = _FIELD.sub(lambda m: f"There is no such field (see /docs): {named(m[1])}", text)
    if text.startswith("Object missing required field `privacy`"):
        return 'State the promise: "privacy": {"epsilon": 1.0}; epsilon null switches it off.'
    return text


def conflict(kind: str, title: str, detail: str = "", **more: Any) -> Problem:
    """A request that contradicts what is there."""
    return Problem(409, kind, title, detail, **more)
