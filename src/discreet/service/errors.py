"""Errors as RFC 9457 problems: a stable type, a title, what to do; never a value that was sent."""

import re
from typing import Any

import msgspec

from discreet.service import logs

BASE = "urn:discreet:problem:"
_AGAIN = "Nothing was changed or acknowledged. Send the same request again in a few seconds."
KINDS = {  # the last part of the type: status of HTTP, what happened, what to do
    "between-batches": (
        503, "No batch is open now.",
        "Nothing was accepted. Send the same report again in a while."),
    "budget-exhausted": (
        409, "The population's privacy budget does not allow this bandit.", "{what}"),
    "busy": (503, "The server holds as many bodies as it can.", _AGAIN),
    "devices-decide": (
        409, "Under local trust devices decide by themselves, and send reports.",
        "Read the policy, and send reports (clients/js does both)."),
    "evaluated-alone": (
        400, "This bandit counts a default reward for a decision that had none.",
        "Evaluate it by itself, when it is shown."),
    "forbidden": (
        403, "This key may not do that.",
        "The call needs the scope {scope!r} for this bandit; ask an administrator for a key."),
    "foreign-form": (
        403, "This form was not sent by a page of this session.",
        "Load the page again and send it from there."),
    "has-begun": (
        409, "An old log comes before the first decision, and once.",
        "Create another bandit, with another name, for another beginning."),
    "id-taken": (
        409, "Another decision has this id.",
        "Choose a new id for every decision; repeat a request only unchanged."),
    "invalid": (422, "The request is not valid.", "{what}"),
    "limit-below-spent": (
        409, "The limit would be below what is spent.",
        "A limit may rise, but never fall below what the population's bandits cost."),
    "no-bandit": (
        404, "The bandit of the Personalizer API does not exist yet.",
        'Create it: PUT /v1/bandits/{name} with {{"features": {{"hashed": 32}}, "privacy": '
        '{{"epsilon": 1.0}}}}.'),
    "no-flag": (
        400, "This bandit is no flag: its actions come with each request.",
        "Call /v1/bandits/{name}/decide."),
    "no-reports": (
        409, "This bandit takes rewards, not reports.",
        "Its trust is 'joint': decide and learn through the API."),
    "not-a-form": (400, "The form cannot be read.", "Send it again."),
    "not-admitted": (
        403, "This relay takes reports of people whom its application knows.",
        "Send as `person` the token that the application signs for this bandit."),
    "not-confirmed": (
        422, "Nothing was changed.", "To retire a bandit, type its name exactly as it is."),
    "not-found": (404, "There is no such {what}.", "{do}"),
    "not-json": (400, "The body is not JSON.", "Send a JSON object in UTF-8."),
    "other-definition": (
        409, "There is a bandit of this name with another definition.",
        "A changed promise is a new bandit: choose another name."),
    "other-method": (405, "This path takes another method.", "See /docs."),
    "other-size": (
        422, "All sealed reports have one size.",
        "Pad the report to the size that the terms state, then seal it."),
    "other-unit": (
        409, "The population protects another unit.",
        "Its unit is {unit!r}, and cannot be changed: a bandit in it must protect the same."),
    "other-version": (
        503, "A server of another version has changed the store.",
        "Nothing was changed. Replace this server by one of that version."),
    "relay-only": (
        409, "This bandit takes reports from a relay only.",
        "Its trust is 'shuffled': a report that comes alone hides in no crowd. Send it, sealed, to "
        "the relay."),
    "rolled-back": (
        503, "The database is older than what this service has published.",
        "Nothing was changed. Stop all servers and run `discreet restore`."),
    "settled": (
        409, "The decision with this id is settled.", "Choose a new id for every decision."),
    "share-used": (
        403, "This application has had its share of the bandit's {what}.",
        "It may take {most} of {size} rounds, so that others have theirs{until}. An administrator "
        "raises it with a new key of the same name and a larger `share` (1: all); other keys of "
        "that name then go on too."),
    "store-unavailable": (503, "The store cannot be reached or is full.", _AGAIN),
    "targeting-key-missing": (
        400, "This bandit protects people.", "Send a `targetingKey` in the context."),
    "too-large": (413, "The body is too large.", "Send at most {limit} bytes at once."),
    "too-many-requests": (
        429, "{who} has reached its limit.", "Wait and send the same request again."),
    "too-many-values": (
        413, "The body holds too many values.",
        "Send at most {limit} values at once, in several requests."),
    "too-slow": (408, "The body did not arrive in time.", "Send it again, faster."),
    "unauthorized": (401, "A valid API key is needed.", "Send it as `{header}`."),
    "unexpected": (
        500, "The server met an error that it did not expect.",
        "Nothing was acknowledged. Tell the operator; a retry is safe."),
    "witness-unavailable": (
        503, "The witness cannot be asked.",
        "Nothing was changed. Decisions and rewards of open windows go on; see that the witness "
        "runs and that its key is right."),
}  # fmt: skip


class Problem(Exception):  # noqa: N818 - RFC 9457 calls it so
    """An answer other than success.

    kind      one of those above; `words` are what its texts leave open
    headers   of the answer, such as Retry-After
    more      further members
    """

    def __init__(
        self,
        kind: str,
        *,
        status: int | None = None,
        headers: dict[str, str] | None = None,
        more: dict[str, Any] | None = None,
        **words: Any,
    ) -> None:
        usual, title, detail = KINDS[kind]
        self.kind, self.status = kind, status or usual
        self.title, self.detail = title.format(**words), detail.format(**words)
        self.headers, self.more = headers, more or {}
        super().__init__(f"{self.title} {self.detail}")

    def body(self) -> bytes:
        record = {"type": BASE + self.kind, "title": self.title, "status": self.status}
        return msgspec.json.encode({**record, "detail": self.detail, **self.more})


class StoreBusy(RuntimeError):  # noqa: N818 - it states a fact
    """Another server holds the store."""


def unauthorized(header: str = "Authorization: Bearer <key>") -> Problem:
    """No key, an unknown one or a revoked one."""
    return Problem("unauthorized", header=header, headers={"WWW-Authenticate": "Bearer"})


def not_found(what: str, do: str = "Check the path; a server lists all calls at /docs.") -> Problem:
    return Problem("not-found", what=what, do=do)


def invalid(what: str, **more: Any) -> Problem:
    """A request that can never succeed; `what` names fields, never values."""
    return Problem("invalid", what=what, more=more)


def unexpected(error: Exception, call: str) -> Problem:
    """An error of ours."""
    logs.unexpected(error, call)
    return Problem("unexpected")


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
