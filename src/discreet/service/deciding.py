"""Policy, choose, seal: a decision for each request.

A decision needs a round number (leasing.py), the public policy and the person's features; none of
these is private to others. A decision that is kept (named by the caller, or with a default reward)
is written first.
"""

import hashlib
import time
from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np
import sqlalchemy as sa

from discreet.arrays import Array
from discreet.service import leasing
from discreet.service import pending as keeping
from discreet.service import store as tables
from discreet.service.errors import Problem, conflict, invalid
from discreet.service.leasing import MOST_AT_ONCE
from discreet.service.live import Live
from discreet.service.messages import DecideBody, DecideRequest
from discreet.service.offers import Declared, raw_rows
from discreet.service.pending import Buckets, Pending
from discreet.service.people import People
from discreet.service.replies import DecisionReply, DecisionsReply
from discreet.service.server import Server
from discreet.service.tokens import NOBODY, PREFIX

_LONGEST_ID = 256


async def decide_any(server: Server, name: str, body: DecideBody) -> Any:
    """The answer to a call: one decision or many."""
    live = server.live.get(name) or await live_bandit(server, name)
    if body.requests is None and body.contexts is None:
        return await decide_one(server, live, body)
    body.assert_one_way()
    if body.requests is not None:
        return DecisionsReply(await decide(server, live, body.requests))
    assert body.contexts is not None
    return DecisionsReply(await decide_contexts(server, live, body.contexts, body.actions))


async def live_bandit(server: Server, name: str) -> Live:
    """What this replica knows of a bandit, from the store at first."""
    live = server.live.get(name)
    if live is None:
        live = await server.writer.do(("open", name), lambda many: _open(server, name, many), None)
        live = server.live.setdefault(name, live)
    return live


def _open(server: Server, name: str, payloads: Sequence[Any]) -> list[Live]:
    with server.store.transaction() as connection:
        row = server.row(connection, name)
        tenant = server.tenant_of(connection, row)
        publish = tenant.publish(row)
        live = Live.of(row, tenant.definition)
        publish(live)
    return [live] * len(payloads)


# -- what may be chosen ----------------------------------------------------------------------------


class _Asked:
    """One request, checked: rows, names, and what is needed to keep it.

    server    knows pseudonyms
    live      the bandit
    request   as it came
    """

    __slots__ = ("id", "names", "person", "request", "rows")
    names: Sequence[Any]

    def __init__(self, server: Server, live: Live, request: DecideRequest) -> None:
        try:
            if live.features is None:
                if request.features is None or request.context is not None:
                    raise ValueError("this bandit takes `features`: one row for each action")
                self.rows = raw_rows(request.features, live.definition.dim or 0)
                self.names = range(len(self.rows))
            else:
                if request.features is not None:
                    raise ValueError("this bandit takes `context` (and `actions`), not `features`")
                offer = live.features.offer(request.context, request.actions)
                self.rows, self.names = offer.rows, offer.names
        except (ValueError, TypeError, OverflowError, RecursionError) as error:
            raise invalid(_plain(error)) from None
        self.person = self._pseudonym(server, live, request.person)
        self.id = None
        self.request = b""
        if request.id is not None:
            if not 0 < len(request.id) <= _LONGEST_ID or request.id.startswith(PREFIX):
                raise invalid(f"`id` must have 1 to {_LONGEST_ID} characters, not begin {PREFIX!r}")
            self.id = server.hashed_id(live.about, request.id)
            asked = msgspec.json.encode(request, order="deterministic")
            self.request = hashlib.blake2b(asked, key=server.vault.master, digest_size=16).digest()

    @staticmethod
    def _pseudonym(server: Server, live: Live, person: str | None) -> bytes:
        if live.definition.privacy.unit == "round":
            return NOBODY
        if not person or len(person) > _LONGEST_ID:
            raise invalid(
                f"this bandit protects people: send `person`, up to {_LONGEST_ID} characters"
            )
        return server.pseudonym(live.about, person)


def _plain(error: Exception) -> str:
    return str(error) if isinstance(error, ValueError) else "The context or the actions do not fit."


class _Offers:
    """What some requests may choose from.

    rows     of each request, (actions, dim); one array where all have as many actions
    names    of each request's actions
    people   their pseudonyms, where people are protected
    """

    def __init__(
        self,
        rows: Sequence[Array] | Array,
        names: Sequence[Sequence[Any]],
        people: Sequence[bytes] | None = None,
    ) -> None:
        if not isinstance(rows, np.ndarray) and len({len(each) for each in rows}) == 1:
            rows = np.stack(rows)
        self.rows, self.names, self.people = rows, names, people

    def chosen(self, live: Live, at: int, coins: Array) -> tuple[list[int], list[float]]:
        """Actions and their probabilities for requests from the at-th on, under one policy."""
        n = len(coins)
        rows = self.rows[at : at + n]
        if isinstance(rows, np.ndarray):
            return _drawn(live, rows, coins)
        actions = [0] * n
        probabilities = [0.0] * n
        for size in {len(each) for each in rows}:
            places = [i for i, each in enumerate(rows) if len(each) == size]
            drawn = _drawn(live, np.stack([rows[i] for i in places]), coins[places])
            for i, action, probability in zip(places, *drawn, strict=True):
                actions[i] = action
                probabilities[i] = probability
        return actions, probabilities

    def chosen_rows(self, actions: list[int]) -> Array:  # (n, dim)
        """The rows of these actions."""
        if isinstance(self.rows, np.ndarray):
            return np.asarray(self.rows[np.arange(len(actions)), actions])
        return np.array([rows[i] for rows, i in zip(self.rows, actions, strict=True)])

    def chosen_names(self, actions: list[int]) -> list[Any]:
        """These actions, as the caller calls them."""
        return [names[i] for names, i in zip(self.names, actions, strict=True)]


def _drawn(live: Live, rows: Array, coins: Array) -> tuple[list[int], list[float]]:
    actions = live.policy.choose(rows, coins)
    law = live.policy.probabilities(rows)
    return actions.tolist(), law[np.arange(len(rows)), actions].tolist()


# -- deciding --------------------------------------------------------------------------------------


async def decide_one(server: Server, live: Live, request: DecideRequest) -> DecisionReply:
    """A decision for one request, as fast as it goes."""
    if request.id is not None or live.definition.reward.default is not None:
        return (await decide(server, live, [request]))[0]
    asked = _Asked(server, live, request)
    first, _ = await leasing.rounds(server, live, 1)
    version = live.version
    action, probability = live.policy.draw_one(asked.rows, live.coin(first))
    people = None if asked.person == NOBODY else [asked.person]
    chosen = asked.rows[action : action + 1]
    deadline = time.time() + live.wait
    (token,) = server.sealer.seal(live.about, first, chosen, probability, deadline, people)
    return DecisionReply(token, asked.names[action], probability, version)


async def decide(
    server: Server, live: Live, requests: Sequence[DecideRequest], *, active: bool = True
) -> list[DecisionReply]:
    """A decision for each request; with `active=False` defaults wait for an activation."""
    if len(requests) > MOST_AT_ONCE:
        raise invalid(f"send at most {MOST_AT_ONCE} requests at once")
    asked = [_Asked(server, live, request) for request in requests]
    keep = live.definition.reward.default is not None
    of_people = live.definition.privacy.unit == "person"
    people = [each.person for each in asked] if of_people else None
    offers = _Offers([each.rows for each in asked], [each.names for each in asked], people)
    made = await _decided(server, live, offers)
    if keep or any(each.id is not None for each in asked):
        return await _kept(server, live, asked, made, keep, active)
    return made.replies


async def decide_contexts(
    server: Server, live: Live, contexts: Sequence[Any], actions: list[Any] | None
) -> list[DecisionReply]:
    """A decision for each context, all with the same actions."""
    definition = live.definition
    if (
        not isinstance(live.features, Declared)
        or not contexts
        or definition.privacy.unit == "person"
        or definition.reward.default is not None
        or len(contexts) > MOST_AT_ONCE
    ):
        requests = [DecideRequest(context, actions) for context in contexts]
        return await decide(server, live, requests)
    try:
        rows, names = live.features.offers(contexts, actions)
    except (ValueError, TypeError, OverflowError, RecursionError) as error:
        raise invalid(_plain(error)) from None
    return (await _decided(server, live, _Offers(rows, [names] * len(rows)))).replies


class _Made(msgspec.Struct):
    """Decisions as they are answered, their rounds, and how long their rewards count.

    replies    to the requests, in their order
    rounds     of the decisions
    deadline   of all of them
    """

    replies: list[DecisionReply]
    rounds: list[int]
    deadline: float


async def _decided(server: Server, live: Live, offers: _Offers) -> _Made:
    rounds: list[int] = []
    actions: list[int] = []
    probabilities: list[float] = []
    versions: list[int] = []
    total = len(offers.rows)
    while len(rounds) < total:
        first, n = await leasing.rounds(server, live, total - len(rounds))
        drawn, law = offers.chosen(live, len(rounds), live.coins(first, n))
        actions += drawn
        probabilities += law
        versions += [live.version] * n
        rounds += range(first, first + n)
    deadline = time.time() + live.wait
    if not total:
        return _Made([], rounds, deadline)
    rows = offers.chosen_rows(actions)
    tokens = server.sealer.seal(live.about, rounds, rows, probabilities, deadline, offers.people)
    names = offers.chosen_names(actions)
    replies = [
        DecisionReply(*each) for each in zip(tokens, names, probabilities, versions, strict=True)
    ]
    return _Made(replies, rounds, deadline)


def probabilities(live: Live, request: DecideRequest) -> list[float]:
    """The probability of each action under the policy of now."""
    rows = live.features.offer(request.context, request.actions).rows
    return [float(p) for p in live.policy.probabilities(rows[None])[0]]


# -- kept decisions --------------------------------------------------------------------------------


class _Draft(msgspec.Struct):
    """A decision that is to be kept, unless its request was answered before.

    asked      the request
    round      of the decision
    reply      to the request
    deadline   of its reward
    active     whether a default counts without an activation
    """

    asked: _Asked
    round: int
    reply: DecisionReply
    deadline: float
    active: bool


async def _kept(
    server: Server, live: Live, asked: Sequence[_Asked], made: _Made, keep: bool, active: bool
) -> list[DecisionReply]:
    """The replies, once those decisions are written that have an id, or with `keep` all."""
    places = [at for at, each in enumerate(asked) if keep or each.id is not None]
    drafts = [
        _Draft(asked[at], made.rounds[at], made.replies[at], made.deadline, active) for at in places
    ]
    answers = await server.writer.do(
        ("keep", live.name), lambda many: _keep(server, live.name, live.about, many), drafts
    )
    replies = list(made.replies)
    for at, answer in zip(places, answers, strict=True):
        if isinstance(answer, Problem):
            raise answer
        replies[at] = answer
    return replies


def _keep(
    server: Server, name: str, about: bytes, payloads: Sequence[Sequence[_Draft]]
) -> list[list[Any]]:
    """Write what is kept; a request that was made before gets its first answer again."""
    fresh: list[dict[str, Any]] = []
    known: dict[bytes, tuple[bytes, Any]] = {}
    with server.store.transaction() as connection:
        row = server.store.lock_bandit(connection, name)
        kept = Pending(connection, server.buckets, server.sealer, name, row.epoch)
        privacy = server.tenant_of(connection, row).definition.privacy  # refuses another epoch
        first_counts = privacy.unit == "person" and privacy.visits != "all"
        people = People(connection, name, row.epoch, b"")

        def answered(draft: _Draft) -> Any:
            asked = draft.asked
            if asked.id is not None:
                before = _again(kept, known, asked)
                if before is not None:
                    return before
                known[asked.id] = asked.request, draft.reply
            of_bandit = {"bandit": name, "epoch": row.epoch}
            fresh.append(of_bandit | _stored(server.buckets, about, draft))
            if first_counts:
                (sealed,) = server.sealer.open(about, [draft.reply.decision])
                assert sealed is not None
                people.load([sealed])
                people.admit(sealed)
            return draft.reply

        kept.load(
            [each.asked.id for some in payloads for each in some if each.asked.id is not None]
        )
        results = [[answered(draft) for draft in some] for some in payloads]
        if fresh:
            connection.execute(sa.insert(tables.pending), fresh)
        people.store()
    return results


def _stored(buckets: Buckets, about: bytes, draft: _Draft) -> dict[str, Any]:
    """A decision as it waits for its reward."""
    bucket = Buckets.named(draft.deadline, time.time())
    return {
        "round": draft.round,
        "id": draft.asked.id,
        "request": draft.asked.request,
        "answer": keeping.seal(buckets, bucket, about, draft.round, draft.reply),
        "bucket": bucket,
        "deadline": draft.deadline,
        "active": draft.active,
    }


def _again(kept: Pending, known: dict[bytes, tuple[bytes, Any]], asked: _Asked) -> Any:
    """The first answer to a request with this id; a problem if the request was another."""
    assert asked.id is not None
    entry = kept.entry(asked.id)
    if entry is not None:
        request, answer = bytes(entry.request), kept.answer(entry)
    elif asked.id in known:
        request, answer = known[asked.id]
    else:
        return None
    if request != asked.request:
        return conflict(
            "id-taken",
            "Another decision has this id.",
            "Choose a new id for every decision; repeat a request only unchanged.",
        )
    return answer or conflict(
        "settled",
        "The decision with this id has had its reward.",
        "Choose a new id for every decision.",
    )
