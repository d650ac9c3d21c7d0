"""Bandits as feature flags: OpenFeature's remote evaluation protocol, OFREP 0.3.

A flag is a bandit, its variants are the actions. `targetingKey` is the person, where people are
protected; elsewhere it is neither used nor kept. The token of the decision stands in the answer's
metadata; its reward is sent to /v1/bandits/{name}/learn.
"""

import hashlib
import time
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType
from sqlalchemy.engine import Connection
from starlette.datastructures import Headers
from starlette.responses import Response

from discreet.service import deciding
from discreet.service import store as tables
from discreet.service.asgi import Endpoint, answer, explained_to_callers
from discreet.service.errors import Problem
from discreet.service.keys import Key
from discreet.service.limits import RawHeaders
from discreet.service.live import Live
from discreet.service.messages import DecideRequest, EvaluationBody
from discreet.service.replies import BulkEvaluation, Evaluation, EvaluationMetadata
from discreet.service.server import Server

PATH = "/ofrep/v1/evaluate/flags"
PERSON = "targetingKey"
_MISSING = "targeting-key-missing"
_CODES = {"not-json": "PARSE_ERROR", "not-found": "FLAG_NOT_FOUND", "invalid": "INVALID_CONTEXT"}
_CODES[_MISSING] = "TARGETING_KEY_MISSING"
_KEPT = (401, 403, 404, 429, 500, 503)  # statuses; any other refusal is a 400 in this protocol


class Evaluated(Endpoint):
    """A call of OpenFeature's clients, which read refusals in their own way."""

    def refused(self, found: Problem, path: dict[str, str]) -> Response:
        """A problem as an evaluation that failed."""
        status = found.status if found.status in _KEPT else 400
        flag = UNSET if status in (401, 403) else path.get("name", UNSET)
        return answer(_failed(found, flag), status, found.headers)


def _failed(found: Problem, flag: str | UnsetType) -> Evaluation:
    code = _CODES.get(found.kind, "GENERAL")
    return Evaluation(flag, error_code=code, error_details=str(found))


async def evaluate(
    server: Server, name: str, body: EvaluationBody, raw: bytes, key: Key
) -> Evaluation:
    """Evaluate a bandit as a flag (OFREP): the token is in the metadata."""
    live = await deciding.live_bandit(server, name)
    return await _evaluated(server, live, body.context, raw, key)


async def evaluate_all(
    server: Server, body: EvaluationBody, raw: bytes, key: Key, headers: RawHeaders
) -> Response:
    """Evaluate all bandits that the key may see (OFREP); the ETag changes with their policies.

    304 while the same call would be decided by the same policies: the decisions that the caller has
    are as good.
    """

    def read(connection: Connection) -> list[Any]:
        found = tables.all_bandits(connection)
        return [row for row in found if key.bandits is None or row.name in key.bandits]

    bandits = await server.transact(read)
    about = [key.id, body.context, [(row.name, row.epoch, row.version) for row in bandits]]
    asked = msgspec.json.encode(about, order="deterministic")
    tag = f'"{hashlib.blake2b(asked, key=server.vault.master, digest_size=16).hexdigest()}"'
    if Headers(raw=headers).get("if-none-match") == tag:
        return Response(status_code=304, headers={"ETag": tag})
    key.spend(time.monotonic(), max(1, len(bandits)), counted=1)
    found = [await _one_of_all(server, row.name, body.context, raw, key) for row in bandits]
    flags = [each for each in found if each is not None]
    return answer(BulkEvaluation(flags), headers={"ETag": tag})


async def _one_of_all(
    server: Server, name: str, context: dict[str, Any], raw: bytes, key: Key
) -> Evaluation | None:
    """One flag of many, whose callers have one context for all; None for what is no flag."""
    try:
        live = await deciding.live_bandit(server, name)
        if not _is_flag(live):
            return None
        if live.definition.reward.default is not None:
            raise Problem("evaluated-alone")
        if live.definition.features is None:  # hashed ones take whatever comes
            wanted = (*(live.definition.context or ()), PERSON)
            context = {column: context[column] for column in wanted if column in context}
        return await _evaluated(server, live, context, raw, key)
    except Exception as error:
        found = explained_to_callers(error, f"POST {PATH}")
        if found.kind == "devices-decide":
            return None
        return _failed(found, name)


def _is_flag(live: Live) -> bool:
    """Whether its actions are declared: a flag's caller sends none."""
    return live.features is not None and live.features.actions is not None


async def _evaluated(
    server: Server, live: Live, context: dict[str, Any], raw: bytes, key: Key
) -> Evaluation:
    if not _is_flag(live):
        raise Problem("no-flag", name=live.name)
    person = context.get(PERSON)
    features = {column: x for column, x in context.items() if column != PERSON}
    of_people = live.definition.privacy.unit == "person"
    if of_people and not (person and isinstance(person, str)):
        raise Problem(_MISSING)
    request = DecideRequest(features, person=person if of_people else None)
    large = deciding.is_large(live, raw)
    decision = await deciding.decide_one(server, live, request, key.name, large)
    return Evaluation(
        live.name,
        value=_values(tuple(live.features.actions))[decision.action],
        variant=decision.action,
        reason="SPLIT",
        metadata=EvaluationMetadata(decision.decision, decision.probability, decision.policy),
    )


@lru_cache(maxsize=1024)
def _values(names: Sequence[str]) -> dict[str, Any]:
    """What a flag's variants stand for: booleans or numbers if all of them are, else their names.

    >>> _values(("true", "false")), _values(("1", "2.5")), _values(("1", "two"))
    ({'true': True, 'false': False}, {'1': 1.0, '2.5': 2.5}, {'1': '1', 'two': 'two'})
    """
    try:
        read = [msgspec.json.decode(name) for name in names]
    except (msgspec.DecodeError, ValueError):
        read = list(names)
    if {type(each) for each in read} == {int, float}:
        read = [float(each) for each in read]
    kinds = {type(each) for each in read}
    return dict(zip(names, read if kinds in ({bool}, {int}, {float}) else names, strict=True))
