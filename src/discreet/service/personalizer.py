"""The API of the retired Azure Personalizer, for one bandit: its published client works unchanged.

rank      contextFeatures and actions are hashed (`"features": {"hashed": n}`); the event's id is
          the caller's, or made here; excluded actions are never chosen
reward    counts once; later ones are ignored, as there
activate  a deferred event counts its default reward only once it is activated
"""

import secrets
import time
from typing import Any

from sqlalchemy.engine import Connection
from starlette.datastructures import Headers
from starlette.responses import Response

from discreet.service import deciding, learning
from discreet.service.asgi import Endpoint, problem
from discreet.service.errors import Problem, invalid, not_found, unauthorized
from discreet.service.keys import Key
from discreet.service.limits import RawHeaders
from discreet.service.live import Live
from discreet.service.messages import DecideRequest, PersonalizerReward, RankRequest, RewardItem
from discreet.service.replies import Ranked, RankReply
from discreet.service.server import Server
from discreet.service.tenant import is_learning
from discreet.service.tokens import PREFIX

PATH = "/personalizer/v1.0"
_MOST_ACTIONS = 50


class Subscribed(Endpoint):
    """A call of the published clients, which send their key and read problems in their own way."""

    def key(self, headers: RawHeaders, name: str | None) -> Key:
        """The key in the header `Ocp-Apim-Subscription-Key`, if it may do this."""
        try:
            sent = Headers(raw=headers).get("ocp-apim-subscription-key", "")
            key: Key = self.server.keys.authenticate(sent)
        except Problem:
            raise unauthorized("Ocp-Apim-Subscription-Key: <key>") from None
        key.require(self.call.scope or "", self.server.settings.personalizer)
        key.spend(time.monotonic())
        return key

    def refused(self, found: Problem, path: dict[str, str]) -> Response:
        """A problem with the member in which the clients look for its text."""
        found.more["error"] = {"code": found.kind, "message": str(found)}
        return problem(found)


async def _bandit(server: Server) -> Live:
    name = server.settings.personalizer
    assert name is not None
    try:
        return await deciding.live_bandit(server, name)
    except Problem as problem:
        if problem.status == 404:
            raise Problem("no-bandit", name=name) from None
        raise


def _unranked() -> Problem:
    return not_found("event", "Rank it first, with a key of the same name; late rewards are lost.")


async def rank(server: Server, body: RankRequest, raw: bytes, key: Key) -> RankReply:
    """Rank (the retired Personalizer's API)."""
    live = await _bandit(server)
    names = [action.id for action in body.actions]
    if not 1 <= len(names) <= _MOST_ACTIONS or len(set(names)) < len(names):
        raise invalid(f"`actions` must be 1 to {_MOST_ACTIONS} actions with different ids.")
    excluded = set(body.excluded_actions)
    offered = [
        {"id": action.id, "features": action.features}
        for action in body.actions
        if action.id not in excluded
    ]
    if not offered:
        raise invalid("Every action is excluded.")
    event = body.event_id or secrets.token_hex(16)
    request = DecideRequest(context=body.context_features, actions=offered, id=event)
    active = not body.defer_activation
    large = deciding.is_large(live, raw)
    (reply,) = await deciding.decide(server, live, [request], key.name, large=large, active=active)
    # The policy of now; for a repeated event it may have changed, its action has not.
    found = await deciding.worked(large, deciding.probabilities, live, request)
    chances = dict(zip([each["id"] for each in offered], found, strict=True))
    ranking = [Ranked(name, chances.get(name, 0.0)) for name in names]
    return RankReply(ranking, event, reply.action)


async def reward(server: Server, id: str, body: PersonalizerReward, key: Key) -> None:
    """Reward (the retired Personalizer's API)."""
    live = await _bandit(server)
    if id.startswith(PREFIX):
        raise _unranked()
    status = await learning.learn_one(server, live, RewardItem(id, body.value), key.name)
    if status == learning.UNKNOWN:
        raise _unranked()


async def activate(server: Server, id: str, key: Key) -> None:
    """Activate (the retired Personalizer's API)."""
    live = await _bandit(server)
    name = server.hashed_id(live.about, key.name, id)

    def change(connection: Connection, row: Any) -> bool:
        pending = server.pending(connection, row)
        pending.load([name])
        entry = pending.entry(name)
        if entry is None:
            return pending.used(name) is not None
        if is_learning(row):
            pending.activate(entry)
        return True

    if not await server.with_bandit(live.name, change):
        raise _unranked()
