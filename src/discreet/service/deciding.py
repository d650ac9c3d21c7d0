"""Policy, choose, seal: a decision for each request.

A decision needs a round number (leasing.py), the public policy and the person's features; none of
these is private to others. A decision that is kept (named by the caller, or with a default reward)
is written first.
"""

import asyncio
import hashlib
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar

import msgspec
import numpy as np

from discreet.arrays import Array
from discreet.service import keeping, leasing, shares
from discreet.service.errors import Problem, invalid
from discreet.service.keeping import Draft
from discreet.service.keys import Key
from discreet.service.leasing import MOST, MOST_AT_ONCE
from discreet.service.live import Live
from discreet.service.messages import DecideBody, DecideRequest
from discreet.service.offers import Declared, Misfit, Offer, fits, raw_rows
from discreet.service.pending import Name
from discreet.service.replies import DecisionReply, DecisionsReply
from discreet.service.server import Server
from discreet.service.tokens import NOBODY, PREFIX

_LONGEST_ID = 256
CALLS_OF_A_HORIZON = 10  # at least: a mistake in one costs no more than a tenth
PIECE = 500  # decisions that are made in one go
OFF_LOOP = 2048  # bytes of a body; in more, features of contexts and of actions may meet too often
OFF_LOOP_ACTIONS = 50  # that are declared, and meet each feature of a context
T = TypeVar("T")


def is_large(live: Live, raw: bytes) -> bool:
    """Whether a request may take so long that it would hold everybody else on the event loop."""
    return len(raw) > OFF_LOOP or len(live.definition.actions or ()) > OFF_LOOP_ACTIONS


async def worked(large: bool, work: Callable[..., T], *given: Any) -> T:
    """What the work returns, done beside the event loop if it is large."""
    return await asyncio.to_thread(work, *given) if large else work(*given)


async def decide_any(server: Server, name: str, body: DecideBody, raw: bytes, key: Key) -> Any:
    """Decide for one person, or for many."""
    live = server.live.get(name) or await live_bandit(server, name)
    large = is_large(live, raw)
    if body.requests is None and body.contexts is None:
        return await decide_one(server, live, body, key.name, large)
    body.assert_one_way()
    _spend(key, live, len(body.requests or body.contexts or ()))
    if body.requests is not None:
        given = live, body.requests, key.name
        return DecisionsReply(await decide(server, *given, large=large, many="requests"))
    assert body.contexts is not None
    if _may_be_batched(live, len(body.contexts)):
        sent = body.contexts, body.actions
        return DecisionsReply(await _decide_contexts(server, live, *sent, key.name, large))
    requests = [DecideRequest(context, body.actions) for context in body.contexts]
    found = await decide(server, live, requests, key.name, large=large, many="contexts")
    return DecisionsReply(found)


def _spend(key: Key, live: Live, number: int) -> None:
    """Count the decisions of a call; one of them does not spend a horizon."""
    if number > MOST_AT_ONCE:
        raise invalid(f"send at most {MOST_AT_ONCE} requests at once")
    horizon = live.definition.horizon
    most = number if horizon is None else max(MOST, horizon // CALLS_OF_A_HORIZON)
    if number > most:
        raise invalid(f"this bandit has a horizon: send at most {most} requests at once")
    key.spend(time.monotonic(), max(1, number), counted=1)  # with the call


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


class _Asked(NamedTuple):
    """One request, checked, and what is needed to keep its decision."""

    offer: Offer  # what may be chosen
    person: bytes  # a pseudonym
    id: Name | None  # that names the decision
    request: bytes  # a keyed hash of it, where it has an id


def _asked(server: Server, live: Live, request: DecideRequest, owner: str) -> _Asked:
    """A request, checked; its id is that of the key's name that asks."""
    offer = fits(_offer, live, request)
    person = _pseudonym(server, live, request.person)
    if request.id is None:
        return _Asked(offer, person, None, b"")
    if not 0 < len(request.id) <= _LONGEST_ID or request.id.startswith(PREFIX):
        raise Misfit(f"`id` must have 1 to {_LONGEST_ID} characters, not begin {PREFIX!r}")
    name = server.hashed_id(live.about, owner, request.id)
    raw = msgspec.json.encode(request, order="deterministic")
    hashed = hashlib.blake2b(raw, key=server.vault.master, digest_size=16).digest()
    return _Asked(offer, person, name, hashed)


def _offer(live: Live, request: DecideRequest) -> Offer:
    if live.features is None:
        if request.features is None or request.context is not None:
            raise ValueError("this bandit takes `features`: one row for each action")
        rows = raw_rows(request.features, live.definition.dim or 0)
        offer = Offer(rows, range(len(rows)))
    else:
        if request.features is not None:
            raise ValueError("this bandit takes `context` (and `actions`), not `features`")
        offer = live.features.offer(request.context, request.actions)
    if live.holdout is not None and len(offer.rows) < live.holdout.actions:
        raise Misfit(f"send at least {live.holdout.actions} actions: one is the baseline")
    return offer


def _pseudonym(server: Server, live: Live, person: str | None) -> bytes:
    if live.definition.privacy.unit == "round":
        if person is not None and live.definition.unknown == "refuse":
            raise Misfit("this bandit protects rounds: leave out `person`")
        return NOBODY
    if not person or len(person) > _LONGEST_ID:
        raise Misfit(f"this bandit protects people: send `person`, up to {_LONGEST_ID} characters")
    return server.pseudonym(live.about, person)


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

    def chosen(self, policy: Any, at: int, coins: Array) -> tuple[list[int], list[float]]:
        """Actions and their probabilities for requests from the at-th on, under one policy."""
        n = len(coins)
        rows = self.rows[at : at + n]
        if isinstance(rows, np.ndarray):
            return _drawn(policy, rows, coins)
        actions = [0] * n
        probabilities = [0.0] * n
        for size in {len(each) for each in rows}:
            places = [i for i, each in enumerate(rows) if len(each) == size]
            drawn = _drawn(policy, np.stack([rows[i] for i in places]), coins[places])
            for i, action, probability in zip(places, *drawn, strict=True):
                actions[i] = action
                probabilities[i] = probability
        return actions, probabilities

    def chosen_rows(self, actions: list[int]) -> Array:  # (n, dim)
        if isinstance(self.rows, np.ndarray):
            return np.asarray(self.rows[np.arange(len(actions)), actions])
        return np.array([rows[i] for rows, i in zip(self.rows, actions, strict=True)])

    def chosen_names(self, actions: list[int]) -> list[Any]:
        return [names[i] for names, i in zip(self.names, actions, strict=True)]


def _drawn(policy: Any, rows: Array, coins: Array) -> tuple[list[int], list[float]]:
    actions = policy.choose(rows, coins)
    law = policy.probabilities(rows)
    return actions.tolist(), law[np.arange(len(rows)), actions].tolist()


# -- deciding --------------------------------------------------------------------------------------


async def decide_one(
    server: Server, live: Live, request: DecideRequest, owner: str, large: bool
) -> DecisionReply:
    """A decision for one request, as fast as it goes."""
    if large or request.id is not None or live.definition.reward.default is not None:
        return (await decide(server, live, [request], owner, large=large))[0]
    rows, names = fits(_offer, live, request)
    person = _pseudonym(server, live, request.person)
    counted = await shares.spend(server, live, owner, 1)
    try:
        first, _ = leasing.taken(server, live, 1) or await leasing.rounds(server, live, 1)
    except BaseException:
        shares.unspend(live, counted, 1)
        raise
    action, probability = live.policy.draw_one(rows, live.coin(first))
    deadline = time.time() + live.wait
    sealed = live.about, first, rows[action], probability, deadline, person
    token = server.sealer.seal_one(*sealed)
    return DecisionReply(token, names[action], probability, live.version)


async def decide(
    server: Server,
    live: Live,
    requests: Sequence[DecideRequest],
    owner: str,
    *,
    large: bool,
    active: bool = True,
    many: str = "",
) -> list[DecisionReply]:
    """A decision for each request; with `active=False` defaults wait for an activation.

    `many` is what the caller calls its requests, where it may have sent more than one.
    """
    if len(requests) > MOST_AT_ONCE:
        raise invalid(f"send at most {MOST_AT_ONCE} requests at once")
    asked, offers = await worked(large, _offered, server, live, requests, owner, many)
    named = [each for each in asked if each.id is not None]
    if named:
        before = await _before(server, live, asked, named)
        new = [at for at, each in enumerate(before) if each is None]
        if len(new) < len(asked):
            requests = [requests[at] for at in new]
            more = iter(
                await decide(server, live, requests, owner, active=active, large=large)
                if new
                else []
            )
            return [next(more) if each is None else each for each in before]
    keep = live.definition.reward.default is not None
    made = await _decided(server, live, offers, owner, large)
    if keep or named:
        return await _kept(server, live, asked, made, keep, active)
    return made.replies


async def _before(
    server: Server, live: Live, asked: Sequence[_Asked], named: Sequence[_Asked]
) -> list[DecisionReply | None]:
    """The first answers to requests that are repeated; None for those that are new."""
    answers = await server.writer.do(
        ("known", live.name),
        lambda many: keeping.known(server, live.name, many),
        [(each.id, each.request) for each in named],
    )
    found = iter(_unless_problem(answers))
    return [None if each.id is None else next(found) for each in asked]


def _unless_problem(answers: Sequence[Any]) -> Sequence[Any]:
    """Answers; the first problem among them is raised."""
    for answer in answers:
        if isinstance(answer, Problem):
            raise answer
    return answers


def _offered(
    server: Server, live: Live, requests: Sequence[DecideRequest], owner: str, many: str
) -> tuple[list[_Asked], _Offers]:
    asked = []
    for at, request in enumerate(requests):
        try:
            asked.append(_asked(server, live, request, owner))
        except Misfit as misfit:
            raise (misfit.of(many, at) if many else misfit) from None
    offers = [each.offer.rows for each in asked], [each.offer.names for each in asked]
    return asked, _Offers(*offers, [each.person for each in asked])


def _may_be_batched(live: Live, number: int) -> bool:
    """Whether rows of all requests can be made at once, and nothing is kept of any."""
    definition = live.definition
    return (
        isinstance(live.features, Declared)
        and 0 < number <= MOST_AT_ONCE
        and definition.privacy.unit != "person"
        and definition.reward.default is None
    )


async def _decide_contexts(
    server: Server,
    live: Live,
    contexts: Sequence[Any],
    actions: list[Any] | None,
    owner: str,
    large: bool,
) -> list[DecisionReply]:
    """A decision for each context, all with the same actions."""
    rows, names = await worked(large, fits, live.features.offers, contexts, actions)
    offers = _Offers(rows, [names] * len(rows))
    return (await _decided(server, live, offers, owner, large)).replies


class _Made(msgspec.Struct):
    """Decisions as they are answered, their rounds, and how long their rewards count."""

    replies: list[DecisionReply]  # to the requests, in their order
    rounds: list[int]  # of the decisions
    deadline: float  # of all of them


async def _decided(server: Server, live: Live, offers: _Offers, owner: str, large: bool) -> _Made:
    rounds: list[int] = []
    actions: list[int] = []
    probabilities: list[float] = []
    versions: list[int] = []
    total = len(offers.rows)
    counted = await shares.spend(server, live, owner, total)
    while len(rounds) < total:
        missing = total - len(rounds)
        try:
            first, n = await leasing.rounds(server, live, missing)
        except BaseException:
            shares.unspend(live, counted, missing)
            raise
        policy, version = live.policy, live.version
        coins = live.coins(first, n)
        for at in range(0, n, PIECE):
            some = coins[at : at + PIECE]
            drawn, law = await worked(large, offers.chosen, policy, len(rounds), some)
            actions += drawn
            probabilities += law
            versions += [version] * len(some)
            rounds += range(first + at, first + at + len(some))
    deadline = time.time() + live.wait
    if not total:
        return _Made([], rounds, deadline)
    rows = await worked(large, offers.chosen_rows, actions)
    sealed = live.about, rounds, rows, probabilities, deadline, offers.people
    tokens = await worked(large, server.sealer.seal, *sealed)
    names = offers.chosen_names(actions)
    replies = [
        DecisionReply(*each) for each in zip(tokens, names, probabilities, versions, strict=True)
    ]
    return _Made(replies, rounds, deadline)


def probabilities(live: Live, request: DecideRequest) -> list[float]:
    """The probability of each action under the policy of now."""
    rows = live.features.offer(request.context, request.actions).rows
    return [float(p) for p in live.policy.probabilities(rows[None])[0]]


async def _kept(
    server: Server, live: Live, asked: Sequence[_Asked], made: _Made, keep: bool, active: bool
) -> list[DecisionReply]:
    """The replies, once those decisions are written that have an id, or with `keep` all."""
    places = [at for at, each in enumerate(asked) if keep or each.id is not None]
    drafts = [
        Draft(
            asked[at].id,
            asked[at].request,
            made.rounds[at],
            made.replies[at],
            made.deadline,
            active,
        )
        for at in places
    ]
    answers = await server.writer.do(
        ("keep", live.name), lambda many: keeping.keep(server, live.name, many), drafts
    )
    replies = list(made.replies)
    for at, answer in zip(places, _unless_problem(answers), strict=True):
        replies[at] = answer
    return replies
