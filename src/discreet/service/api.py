"""Every call of the API: routes, the OpenAPI document and /docs are made of this table."""

from functools import cache
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
from discreet.service.dashboard.rendering import HEADERS
from discreet.service.schema import Definition
from discreet.service.sealing import Terms
from discreet.service.server import Server

SMALL = 64 * 1024  # bytes of a body that says little
AWAY = {503: "The store is away"}


def routes(server: Server) -> list[Route]:
    made = [Endpoint(server, call) for call in CALLS if call.refusal is None]
    made += [ofrep.Evaluated(server, call) for call in CALLS if call.refusal is not None]
    if server.settings.personalizer:
        made += [personalizer.Subscribed(server, call) for call in PERSONALIZER]
    return [Route(each.call.path, each, methods=[each.call.method]) for each in made]


def often(routes: list[Route]) -> dict[str, Any]:
    """Endpoints of the calls that come often, by what follows the bandit's name."""
    short = {f"{BANDIT}/{call}": call for call in ("decide", "learn", "reports")}
    return {short[route.path]: route.endpoint for route in routes if route.path in short}


@cache
def openapi(with_personalizer: bool) -> dict[str, Any]:
    return documents.openapi(CALLS + (PERSONALIZER if with_personalizer else []))


async def _openapi(server: Server) -> Response:
    """This document."""
    return answer(openapi(bool(server.settings.personalizer)), headers=HEADERS)


async def _docs(server: Server) -> Response:
    """This document, for people."""
    return documents.page(openapi(bool(server.settings.personalizer)))


BANDIT = "/v1/bandits/{name}"
PERSON = {"context": {"age": 40, "plan": "gold"}}
FLAG = {"context": {"targetingKey": "somebody", "age": 40, "plan": "gold"}}
ROW = PERSON | {"action": "email", "reward": 1, "probability": 0.5}
REPORT = {
    "id": "0123456789abcdef0123456789abcdef",
    "policy": "the-tag-of-the-policy",
    "question": "scale",
    "values": [1048577],
}
DEFINITION = {
    "context": {"age": {"number": [18, 100]}, "plan": {"category": ["basic", "gold"]}},
    "actions": ["email", "call", "nothing"],
    "reward": {"range": [0, 1], "wait": "7d"},
    "privacy": {"epsilon": 1.0, "delta": 1e-6},
}
CALLS = [
    Call("GET", "/v1/bandits", administration.bandits, scope="read",
         reply=(replies.BanditsReply,)),
    Call("PUT", BANDIT, administration.create, scope="admin", most=4 * SMALL,
         body=Definition, example=DEFINITION, reply=(replies.BanditReply,),
         also={201: "Created",
               409: "Another definition, or the population's budget is exhausted"}),
    Call("GET", BANDIT, administration.bandit, scope="read", reply=(replies.BanditReply,)),
    Call("DELETE", BANDIT, administration.retire, scope="admin", reply=(replies.BanditReply,)),
    Call("POST", f"{BANDIT}/decide", deciding.decide_any, scope="decide",
         body=messages.DecideBody, example=PERSON,
         reply=(replies.DecisionReply, replies.DecisionsReply),
         also={409: "Another decision has this id"} | AWAY),
    Call("POST", f"{BANDIT}/learn", learning.learn_any, scope="learn", keyless=True,
         body=messages.LearnBody,
         example={"decision": "dt1.the-token-of-the-decision", "reward": 1},
         reply=(replies.StatusReply, replies.StatusesReply),
         also={503: "The store is away; nothing was acknowledged"}),
    Call("POST", f"{BANDIT}/reports", reports.take_any, scope="report", keyless=True,
         strangers=4 * SMALL,  # one report of 128 columns is larger than SMALL
         body=messages.ReportBody, example=REPORT,
         reply=(replies.StatusReply, replies.StatusesReply),
         also={409: "Not a bandit under local trust"} | AWAY),
    Call("GET", f"{BANDIT}/terms", policies.terms, reply=(Terms,),
         also={404: "Not a bandit under local trust that learns"}),
    Call("PUT", f"{BANDIT}/batches/{{id}}", reports.put_batch, scope="relay", binary=True,
         query={"policy": "The tag of the policy that its reports answer"},
         most=reports.MOST_BATCH_BYTES, seconds=reports.BATCH_SECONDS,
         reply=(replies.BatchReply,), also={409: "Not a bandit under local trust"} | AWAY),
    Call("POST", f"{BANDIT}/history", history.take, scope="admin",
         body=messages.HistoryBody, example={"public": False, "rows": [ROW]},
         reply=(replies.HistoryReply,),
         also={409: "Rounds were decided, or another log was taken"} | AWAY),
    Call("GET", f"{BANDIT}/releases", administration.releases, scope="read",
         reply=(replies.ReleasesReply,)),
    Call("GET", f"{BANDIT}/value", administration.value, scope="read",
         reply=(replies.ValueReply,)),
    Call("GET", f"{BANDIT}/policy", policies.policy, scope="read", keyless=True,
         reply=(replies.PolicyReply, replies.DevicePolicyReply), also={304: "Not changed"}),
    Call("GET", f"{BANDIT}/guarantee", administration.guarantee, scope="read",
         reply=(replies.GuaranteeReply,)),
    Call("POST", f"{ofrep.PATH}/{{name}}", ofrep.evaluate, scope="decide", most=SMALL,
         body=messages.EvaluationBody, example=FLAG, reply=(replies.Evaluation,),
         refusal=replies.Evaluation, also=AWAY),
    Call("POST", ofrep.PATH, ofrep.evaluate_all, scope="decide", most=SMALL,
         body=messages.EvaluationBody, example=FLAG, reply=(replies.BulkEvaluation,),
         refusal=replies.Evaluation, also={304: "Not changed"} | AWAY),
    Call("GET", "/v1/populations", administration.populations, scope="read",
         reply=(replies.PopulationsReply,)),
    Call("PUT", "/v1/populations/{name}", administration.set_population, scope="admin",
         most=SMALL, body=messages.PopulationBody,
         example={"epsilon": 2.0, "delta": 1e-6, "unit": "person"},
         reply=(replies.PopulationReply,),
         also={201: "Created", 409: "Below what is spent, or another unit"}),
    Call("GET", "/v1/populations/{name}", administration.population, scope="read",
         reply=(replies.PopulationReply,)),
    Call("POST", "/v1/keys", administration.create_key, scope="admin", most=SMALL,
         body=messages.KeyBody,
         example={"name": "shop", "scopes": ["decide", "learn"], "bandits": ["welcome"]},
         reply=(replies.NewKeyReply,), status=201),
    Call("GET", "/v1/keys", administration.all_keys, scope="admin", reply=(replies.KeysReply,)),
    Call("DELETE", "/v1/keys/{id}", administration.revoke_key, scope="admin", status=204),
    Call("GET", "/healthz", administration.healthy, reply=(replies.HealthReply,)),
    Call("GET", "/readyz", administration.ready, reply=(replies.ReadyReply,), also=AWAY),
    Call("GET", "/metrics", metrics.metrics, scope="read", media="text/plain"),
    Call("GET", "/openapi.json", _openapi),
    Call("GET", "/docs", _docs, media="text/html"),
]  # fmt: skip
PERSONALIZER = [
    Call("POST", f"{personalizer.PATH}/rank", personalizer.rank, scope="decide",
         most=16 * SMALL, body=messages.RankRequest, reply=(replies.RankReply,), status=201,
         also={409: "Another event has this id"} | AWAY),
    Call("POST", f"{personalizer.PATH}/events/{{id}}/reward", personalizer.reward,
         scope="learn", most=SMALL, body=messages.PersonalizerReward, status=204, also=AWAY),
    Call("POST", f"{personalizer.PATH}/events/{{id}}/activate", personalizer.activate,
         scope="learn", status=204, also=AWAY),
]  # fmt: skip
