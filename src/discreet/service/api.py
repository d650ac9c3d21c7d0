"""Every call of the API: routes, the OpenAPI document and /docs are made of this table."""

from functools import lru_cache
from typing import Any

from starlette.responses import Response
from starlette.routing import Route

from discreet.service import (
    administration,
    deciding,
    documents,
    history,
    learning,
    messages,
    metrics,
    ofrep,
    personalizer,
    policies,
    replies,
    reports,
)
from discreet.service.asgi import Call, Endpoint, answer
from discreet.service.schema import Definition
from discreet.service.sealing import Terms
from discreet.service.server import Server

SMALL = 64 * 1024  # bytes of a body that says little
AWAY = {503: "The store is away"}


def routes(server: Server) -> list[Route]:
    """What this server answers."""
    made = [_route(Endpoint(server, call)) for call in CALLS if call.refusal is None]
    made += [_route(ofrep.Evaluated(server, call)) for call in CALLS if call.refusal is not None]
    if server.settings.personalizer:
        made += [_route(personalizer.Subscribed(server, call)) for call in PERSONALIZER]
    return made


def often(routes: list[Route]) -> dict[str, Any]:
    """Endpoints of the calls that come often, by what follows the bandit's name."""
    short = {f"{BANDIT}/{call}": call for call in ("decide", "learn", "reports")}
    return {short[route.path]: route.endpoint for route in routes if route.path in short}


def _route(endpoint: Endpoint) -> Route:
    return Route(endpoint.call.path, endpoint, methods=[endpoint.call.method])


@lru_cache(maxsize=2)
def openapi(with_personalizer: bool) -> dict[str, Any]:
    return documents.openapi(CALLS + (PERSONALIZER if with_personalizer else []))


async def _openapi(server: Server) -> Response:
    return answer(openapi(bool(server.settings.personalizer)), headers=documents.HEADERS)


async def _docs(server: Server) -> Response:
    return documents.page(openapi(bool(server.settings.personalizer)))


BANDIT = "/v1/bandits/{name}"
CALLS = [
    Call(
        "GET",
        "/v1/bandits",
        administration.bandits,
        "All bandits that the key may see",
        scope="read",
        reply=(replies.BanditsReply,),
    ),
    Call(
        "PUT",
        BANDIT,
        administration.create,
        "Create a bandit; the same definition again changes nothing",
        scope="admin",
        most=4 * SMALL,
        body=Definition,
        example={
            "context": {"age": {"number": [18, 100]}, "plan": {"category": ["basic", "gold"]}},
            "actions": ["email", "call", "nothing"],
            "reward": {"range": [0, 1], "wait": "7d"},
            "privacy": {"epsilon": 1.0, "delta": 1e-6},
        },
        reply=(replies.BanditReply,),
        also={201: "Created", 409: "Another definition, or the population's budget is exhausted"},
    ),
    Call(
        "GET",
        BANDIT,
        administration.bandit,
        "Definition, rounds, policy version, guarantee, progress of the window",
        scope="read",
        reply=(replies.BanditReply,),
    ),
    Call(
        "DELETE",
        BANDIT,
        administration.retire,
        "Retire: decisions go on, learning ends, charges and the name stay for ever",
        scope="admin",
        reply=(replies.BanditReply,),
    ),
    Call(
        "POST",
        f"{BANDIT}/decide",
        deciding.decide_any,
        "Decide for one person, or for many",
        scope="decide",
        body=messages.DecideBody,
        example={"context": {"age": 40, "plan": "gold"}},
        reply=(replies.DecisionReply, replies.DecisionsReply),
        also={409: "Another decision has this id"} | AWAY,
    ),
    Call(
        "POST",
        f"{BANDIT}/learn",
        learning.learn_any,
        "Send rewards; a retry never hurts",
        scope="learn",
        keyless=True,
        body=messages.LearnBody,
        example={"decision": "dt1.the-token-of-the-decision", "reward": 1},
        reply=(replies.StatusReply, replies.StatusesReply),
        also={503: "The store is away; nothing was acknowledged"},
    ),
    Call(
        "POST",
        f"{BANDIT}/reports",
        reports.take_any,
        "Local trust: private reports of devices; no key is needed, a retry never hurts",
        scope="report",
        keyless=True,
        strangers=4 * SMALL,  # one report of 128 columns is larger than SMALL
        body=messages.ReportBody,
        example={
            "id": "0123456789abcdef0123456789abcdef",
            "policy": "the-tag-of-the-policy",
            "question": "scale",
            "values": [1048577],
        },
        reply=(replies.StatusReply, replies.StatusesReply),
        also={409: "Not a bandit under local trust"} | AWAY,
    ),
    Call(
        "GET",
        f"{BANDIT}/terms",
        policies.terms,
        "Local trust: the key that reports are sealed to, and what a relay's batch is",
        reply=(Terms,),
        also={404: "Not a bandit under local trust that learns"},
    ),
    Call(
        "PUT",
        f"{BANDIT}/batches/{{id}}",
        reports.put_batch,
        "Local trust: a batch of sealed reports, from a relay; a retry never hurts",
        scope="relay",
        query={"policy": "The tag of the policy that its reports answer"},
        binary=True,
        most=reports.MOST_BATCH_BYTES,
        seconds=reports.BATCH_SECONDS,
        reply=(replies.BatchReply,),
        also={409: "Not a bandit under local trust"} | AWAY,
    ),
    Call(
        "POST",
        f"{BANDIT}/history",
        history.take,
        "Begin with an old log, before the first decision; a retry changes nothing",
        scope="admin",
        body=messages.HistoryBody,
        example={
            "public": False,
            "rows": [
                {
                    "context": {"age": 40, "plan": "gold"},
                    "action": "email",
                    "reward": 1,
                    "probability": 0.5,
                }
            ],
        },
        reply=(replies.HistoryReply,),
        also={409: "Rounds were decided, or another log was taken"} | AWAY,
    ),
    Call(
        "GET",
        f"{BANDIT}/releases",
        administration.releases,
        "What was published, window by window",
        scope="read",
        reply=(replies.ReleasesReply,),
    ),
    Call(
        "GET",
        f"{BANDIT}/value",
        administration.value,
        "What a decision earns under the policy and held out, now and after each release",
        scope="read",
        reply=(replies.ValueReply,),
    ),
    Call(
        "GET",
        f"{BANDIT}/policy",
        policies.policy,
        "The public policy; its ETag changes with it; local trust needs no key",
        scope="read",
        keyless=True,
        reply=(replies.PolicyReply, replies.DevicePolicyReply),
        also={304: "Not changed"},
    ),
    Call(
        "GET",
        f"{BANDIT}/guarantee",
        administration.guarantee,
        "The promise, computed from the releases, and in words",
        scope="read",
        reply=(replies.GuaranteeReply,),
    ),
    Call(
        "POST",
        f"{ofrep.PATH}/{{name}}",
        ofrep.evaluate,
        "Evaluate a bandit as a flag (OFREP): the token is in the metadata",
        scope="decide",
        most=SMALL,
        body=messages.EvaluationBody,
        example={"context": {"targetingKey": "somebody", "age": 40, "plan": "gold"}},
        reply=(replies.Evaluation,),
        refusal=replies.Evaluation,
        also=AWAY,
    ),
    Call(
        "POST",
        ofrep.PATH,
        ofrep.evaluate_all,
        "Evaluate all bandits that the key may see (OFREP); the ETag changes with their policies",
        scope="decide",
        most=SMALL,
        body=messages.EvaluationBody,
        example={"context": {"targetingKey": "somebody", "age": 40, "plan": "gold"}},
        reply=(replies.BulkEvaluation,),
        refusal=replies.Evaluation,
        also={304: "Not changed"} | AWAY,
    ),
    Call(
        "GET",
        "/v1/populations",
        administration.populations,
        "All populations",
        scope="read",
        reply=(replies.PopulationsReply,),
    ),
    Call(
        "PUT",
        "/v1/populations/{name}",
        administration.set_population,
        "Set the most that may be spent on these people",
        scope="admin",
        most=SMALL,
        body=messages.PopulationBody,
        example={"epsilon": 2.0, "delta": 1e-6, "unit": "person"},
        reply=(replies.PopulationReply,),
        also={201: "Created", 409: "Below what is spent, or another unit"},
    ),
    Call(
        "GET",
        "/v1/populations/{name}",
        administration.population,
        "Limit, what is spent, and by whom",
        scope="read",
        reply=(replies.PopulationReply,),
    ),
    Call(
        "POST",
        "/v1/keys",
        administration.create_key,
        "Make a key; its secret is shown once",
        scope="admin",
        most=SMALL,
        body=messages.KeyBody,
        example={"name": "shop", "scopes": ["decide", "learn"], "bandits": ["welcome"]},
        reply=(replies.NewKeyReply,),
        status=201,
    ),
    Call(
        "GET",
        "/v1/keys",
        administration.all_keys,
        "All keys",
        scope="admin",
        reply=(replies.KeysReply,),
    ),
    Call(
        "DELETE",
        "/v1/keys/{id}",
        administration.revoke_key,
        "Revoke a key for good",
        scope="admin",
        status=204,
    ),
    Call(
        "GET",
        "/healthz",
        administration.healthy,
        "The process lives",
        reply=(replies.HealthReply,),
    ),
    Call(
        "GET",
        "/readyz",
        administration.ready,
        "Store and fence can be written; alarms are listed",
        reply=(replies.ReadyReply,),
        also=AWAY,
    ),
    Call(
        "GET",
        "/metrics",
        metrics.metrics,
        "Prometheus metrics: public numbers only, a few seconds old",
        scope="read",
        media="text/plain",
    ),
    Call("GET", "/openapi.json", _openapi, "This document"),
    Call("GET", "/docs", _docs, "This document, for people", media="text/html"),
]
PERSONALIZER = [
    Call(
        "POST",
        f"{personalizer.PATH}/rank",
        personalizer.rank,
        "Rank (the retired Personalizer's API)",
        scope="decide",
        most=16 * SMALL,
        body=messages.RankRequest,
        reply=(replies.RankReply,),
        status=201,
        also={409: "Another event has this id"} | AWAY,
    ),
    Call(
        "POST",
        f"{personalizer.PATH}/events/{{id}}/reward",
        personalizer.reward,
        "Reward (the retired Personalizer's API)",
        scope="learn",
        most=SMALL,
        body=messages.PersonalizerReward,
        status=204,
        also=AWAY,
    ),
    Call(
        "POST",
        f"{personalizer.PATH}/events/{{id}}/activate",
        personalizer.activate,
        "Activate (the retired Personalizer's API)",
        scope="learn",
        status=204,
        also=AWAY,
    ),
]
