"""Bodies as messages: what does not fit is refused and named, never quoted."""

import json
from typing import Any

import msgspec

from discreet.service.errors import Problem, explained, invalid, named

OFF_LOOP = 32 * 1024  # bytes of a body that is read on another thread
MOST_VALUES = 100_000  # commas in a body: more take too long to read at once
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode


def decoded(decoder: Any, body: bytes) -> Any:
    """A body as a message, or a problem that says what does not fit."""
    assert_few_values(body)
    try:
        found = decoder.decode(body)
        assert_distinct(body, found)
    except msgspec.ValidationError as error:
        raise invalid(explained(error)) from None
    except (msgspec.DecodeError, RecursionError, ValueError):
        raise Problem("not-json") from None
    return found


def assert_distinct(body: bytes, found: Any) -> None:
    """Raise if a name stands twice in one object: readers would disagree about which one counts.

    What was read is written again: a name that was dropped took a colon with it. Where numbers of
    colons differ, or an escape may stand for one, every object is looked at.
    """
    if not found.__struct_config__.omit_defaults:  # then names may have come that were not sent
        found = _decode(body)
    if b"\\" in body or body.count(b":") != _encode(found).count(b":"):
        json.loads(body, object_pairs_hook=_distinct)


def _distinct(pairs: list[tuple[str, Any]]) -> None:
    if len(pairs) > 1 and len({name for name, _ in pairs}) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise invalid(f"A name stands twice in one object: {named(twice)}.")


def assert_few_values(body: bytes) -> None:
    """Raise if a body would take too long to read: reading holds everybody else."""
    if len(body) > MOST_VALUES and body.count(b",") > MOST_VALUES:
        raise Problem("too-many-values", limit=MOST_VALUES)


def assert_alone(body: Any, many: str) -> None:
    """Raise if a message holds many and one: all that a single one would say stands empty."""
    sent = msgspec.structs.asdict(body)
    if any(each is not None for name, each in sent.items() if name != many):
        raise invalid(f"send one, or `{many}` and nothing beside them")
