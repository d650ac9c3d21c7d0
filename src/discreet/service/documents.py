"""The OpenAPI document, made from the message types, and pages that need nothing from outside."""

import html
from collections.abc import Iterable
from functools import lru_cache
from typing import Any

import msgspec
from starlette.responses import HTMLResponse, Response

from discreet.service import messages
from discreet.service.definitions import Definition
from discreet.service.sealing import Terms

_CALLS: list[dict[str, Any]] = [
    {
        "path": "/v1/bandits",
        "method": "get",
        "scope": "read",
        "summary": "All bandits that the key may see",
    },
    {
        "path": "/v1/bandits/{name}",
        "method": "put",
        "scope": "admin",
        "summary": "Create a bandit; the same definition again changes nothing",
        "body": Definition,
        "example": {
            "context": {"age": {"number": [18, 100]}, "plan": {"category": ["basic", "gold"]}},
            "actions": ["email", "call", "nothing"],
            "reward": {"range": [0, 1], "wait": "7d"},
            "privacy": {"epsilon": 1.0, "delta": 1e-6},
        },
        "also": {
            201: "Created",
            409: "Another definition, or the population's budget is exhausted",
        },
    },
    {
        "path": "/v1/bandits/{name}",
        "method": "get",
        "scope": "read",
        "summary": "Definition, rounds, policy version, guarantee, progress of the window",
    },
    {
        "path": "/v1/bandits/{name}",
        "method": "delete",
        "scope": "admin",
        "summary": "Retire: decisions go on, learning ends, charges and the name stay for ever",
    },
    {
        "path": "/v1/bandits/{name}/decide",
        "method": "post",
        "scope": "decide",
        "summary": "Decide for one person, or for many",
        "body": messages.DecideBody,
        "example": {"context": {"age": 40, "plan": "gold"}},
        "reply": (messages.DecisionReply, messages.DecisionsReply),
        "also": {409: "Another decision has this id", 503: "The store is away"},
    },
    {
        "path": "/v1/bandits/{name}/learn",
        "method": "post",
        "scope": "learn",
        "summary": "Send rewards; a retry never hurts",
        "body": messages.LearnBody,
        "example": {"decision": "dt1.the-token-of-the-decision", "reward": 1},
        "reply": (messages.StatusReply, messages.StatusesReply),
        "also": {503: "The store is away; nothing was acknowledged"},
    },
    {
        "path": "/v1/bandits/{name}/reports",
        "method": "post",
        "scope": "report",
        "summary": "Local trust: private reports of devices; no key is needed, a retry never hurts",
        "body": messages.ReportBody,
        "example": {
            "id": "0123456789abcdef0123456789abcdef",
            "policy": "the-tag-of-the-policy",
            "question": "scale",
            "values": [1048577],
        },
        "reply": (messages.StatusReply, messages.StatusesReply),
        "also": {409: "Not a bandit under local trust", 503: "The store is away"},
    },
    {
        "path": "/v1/bandits/{name}/terms",
        "method": "get",
        "summary": "Local trust: the key that reports are sealed to, and what a relay's batch is",
        "reply": (Terms,),
        "also": {404: "Not a bandit under local trust that learns"},
    },
    {
        "path": "/v1/bandits/{name}/batches/{id}",
        "method": "put",
        "scope": "relay",
        "summary": "Local trust: a batch of sealed reports, from a relay; a retry never hurts",
        "query": {"policy": "The tag of the policy that its reports answer"},
        "binary": True,
        "reply": (messages.StatusReply,),
        "also": {409: "Not a bandit under local trust", 503: "The store is away"},
    },
    {
        "path": "/v1/bandits/{name}/releases",
        "method": "get",
        "scope": "read",
        "summary": "What was published, window by window",
    },
    {
        "path": "/v1/bandits/{name}/policy",
        "method": "get",
        "scope": "read",
        "summary": "The public policy; its ETag changes with it; local trust needs no key",
        "also": {304: "Not changed"},
    },
    {
        "path": "/v1/bandits/{name}/guarantee",
        "method": "get",
        "scope": "read",
        "summary": "The promise, computed from the releases, and in words",
    },
    {
        "path": "/v1/populations",
        "method": "get",
        "scope": "read",
        "summary": "All populations",
    },
    {
        "path": "/v1/populations/{name}",
        "method": "put",
        "scope": "admin",
        "summary": "Set the most that may be spent on these people",
        "body": messages.PopulationBody,
        "example": {"epsilon": 2.0, "delta": 1e-6, "unit": "person"},
        "also": {201: "Created", 409: "Below what is spent, or another unit"},
    },
    {
        "path": "/v1/populations/{name}",
        "method": "get",
        "scope": "read",
        "summary": "Limit, what is spent, and by whom",
    },
    {
        "path": "/v1/keys",
        "method": "post",
        "scope": "admin",
        "summary": "Make a key; its secret is shown once",
        "body": messages.KeyBody,
        "example": {"name": "shop", "scopes": ["decide", "learn"], "bandits": ["welcome"]},
        "status": 201,
    },
    {"path": "/v1/keys", "method": "get", "scope": "admin", "summary": "All keys"},
    {
        "path": "/v1/keys/{id}",
        "method": "delete",
        "scope": "admin",
        "summary": "Revoke a key for good",
        "status": 204,
    },
    {"path": "/healthz", "method": "get", "summary": "The process lives"},
    {
        "path": "/readyz",
        "method": "get",
        "summary": "The store answers; alarms are listed",
        "also": {503: "The store is away"},
    },
]
_PERSONALIZER: list[dict[str, Any]] = [
    {
        "path": "/personalizer/v1.0/rank",
        "method": "post",
        "scope": "decide",
        "summary": "Rank (the retired Personalizer's API)",
        "body": messages.RankRequest,
        "status": 201,
        "also": {409: "Another event has this id", 503: "The store is away"},
    },
    {
        "path": "/personalizer/v1.0/events/{id}/reward",
        "method": "post",
        "scope": "learn",
        "summary": "Reward (the retired Personalizer's API)",
        "body": messages.PersonalizerReward,
        "status": 204,
        "also": {503: "The store is away"},
    },
    {
        "path": "/personalizer/v1.0/events/{id}/activate",
        "method": "post",
        "scope": "learn",
        "summary": "Activate (the retired Personalizer's API)",
        "status": 204,
        "also": {503: "The store is away"},
    },
]


@lru_cache(maxsize=2)
def openapi(personalizer: bool) -> dict[str, Any]:
    """OpenAPI 3.1, with schemas made from the types that decode the messages."""
    calls = _CALLS + (_PERSONALIZER if personalizer else [])
    types = [call["body"] for call in calls if "body" in call]
    types += [each for call in calls for each in call.get("reply", ())]
    _, components = _schemas(types)
    paths: dict[str, Any] = {}
    for call in calls:
        paths.setdefault(call["path"], {})[call["method"]] = _operation(call)
    components["Problem"] = {
        "type": "object",
        "required": ["type", "title", "status"],
        "properties": {
            "type": {"type": "string"},
            "title": {"type": "string"},
            "status": {"type": "integer"},
            "detail": {"type": "string"},
        },
    }
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "discreet",
            "version": "1",
            "description": "Contextual bandits with durable learning and a privacy promise.",
        },
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {
                "key": {"type": "http", "scheme": "bearer"},
                "subscription": {
                    "type": "apiKey",
                    "in": "header",
                    "name": "Ocp-Apim-Subscription-Key",
                },
            },
        },
    }


def _schemas(types: Iterable[Any]) -> tuple[Any, dict[str, Any]]:
    return msgspec.json.schema_components(types, ref_template="#/components/schemas/{name}")


def _operation(call: dict[str, Any]) -> dict[str, Any]:
    status = call.get("status", 200)
    success: dict[str, Any] = {"description": "Done"}
    if status != 204:
        schema: Any = {"type": "object"}
        if "reply" in call:
            schema = {"oneOf": _schemas(call["reply"])[0]}
        success["content"] = {"application/json": {"schema": schema}}
    responses: dict[str, Any] = {str(status): success}
    failures = dict(call.get("also", {}))
    if "scope" in call:
        failures |= {401: "No valid key", 403: "The key may not do that", 429: "Too many requests"}
    if "{" in call["path"]:
        failures[404] = "There is no such thing"
    if call.get("binary"):
        failures |= {413: "Too large", 422: "Not valid"}
    if "body" in call:
        failures |= {400: "Not JSON", 413: "Too large", 422: "Not valid"}
    if "scope" in call:
        failures.setdefault(422, "Not valid")
        failures.setdefault(503, "The store is away")
    for code, text in failures.items():
        content = {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}}
        if code in (201, 304):
            responses[str(code)] = {"description": text}
            if code == 201:
                responses["201"]["content"] = {"application/json": {"schema": {"type": "object"}}}
        else:
            responses[str(code)] = {"description": text, "content": content}
    operation: dict[str, Any] = {"summary": call["summary"], "responses": responses}
    operation["parameters"] = [
        {"name": part[1:-1], "in": "path", "required": True, "schema": {"type": "string"}}
        for part in call["path"].split("/")
        if part.startswith("{")
    ]
    operation["parameters"] += [
        {"name": each, "in": "query", "required": True, "schema": {"type": "string"},
         "description": text}
        for each, text in call.get("query", {}).items()
    ]  # fmt: skip
    if "body" in call:
        (schema,), _ = _schemas([call["body"]])
        operation["requestBody"] = {
            "required": True,
            "content": {"application/json": {"schema": schema}},
        }
        if "example" in call:
            operation["requestBody"]["content"]["application/json"]["example"] = call["example"]
    if call.get("binary"):
        content = {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}
        operation["requestBody"] = {"required": True, "content": content}
    if "scope" in call:
        scheme = "subscription" if call["path"].startswith("/personalizer") else "key"
        operation["security"] = [{scheme: []}]
        operation["description"] = f"Scope: {call['scope']}."
    return operation


_STYLE = """
:root { color-scheme: light dark; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 52rem; margin: 2rem auto; padding: 0 1rem; }
code, .call { font-family: ui-monospace, monospace; }
.call { font-weight: 600; } section { border-top: 1px solid #8884; padding: .5rem 0; }
pre { overflow-x: auto; background: #8881; padding: .75rem; border-radius: .4rem; }
"""
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"


def _html(title: str, body: str) -> Response:
    text = (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8">'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{title}</title><style>{_STYLE}</style></head><body>{body}</body></html>"
    )
    return HTMLResponse(text, headers={"Content-Security-Policy": _POLICY})


def page(personalizer: bool) -> Response:
    """Every call, for people; works offline."""
    document = openapi(personalizer)
    sections = []
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            codes = ", ".join(
                f"{code} {html.escape(each['description'].lower())}"
                for code, each in sorted(operation["responses"].items())
            )
            body = ""
            if "application/json" in operation.get("requestBody", {}).get("content", ()):
                media = operation["requestBody"]["content"]["application/json"]
                name = media["schema"]["$ref"].rsplit("/", 1)[1]
                fields = document["components"]["schemas"][name].get("properties", {})
                body = f"<p>Body: <code>{html.escape(', '.join(fields))}</code></p>"
                if "example" in media:
                    body += f"<pre>{html.escape(_curl(method, path, media['example']))}</pre>"
            sections.append(
                f'<section><p class="call">{method.upper()} {html.escape(path)}</p>'
                f"<p>{html.escape(operation['summary'])}. "
                f"{html.escape(operation.get('description', ''))}</p>{body}<p>{codes}</p></section>"
            )
    statuses = "".join(f"<dt>{word}</dt><dd>{meaning}</dd>" for word, meaning in _STATUSES.items())
    head = (
        "<h1>discreet</h1><p>Create a bandit, decide for a person, keep the token of the decision, "
        "send it back with the reward. A reward that is sent again counts once.</p><p>Send a key "
        "as <code>Authorization: Bearer &lt;key&gt;</code>. Errors are "
        "<code>application/problem+json</code>. The machine-readable document is "
        '<a href="/openapi.json">/openapi.json</a>.</p>'
        f"<h2>What became of a reward</h2><dl>{statuses}</dl><h2>All calls</h2>"
    )
    return _html("discreet: the API", head + "".join(sections))


_STATUSES = {
    "counted": "it is on disk",
    "duplicate": "this decision had its reward before; nothing has changed",
    "late": "it came after the time that the bandit waits",
    "accepted": "counted, or the person had counted already: it does not say which",
    "closed": "the bandit learns no more",
    "unknown": "not a decision of this bandit",
    "invalid": "not a reward in the bandit's range",
}


def _curl(method: str, path: str, example: Any) -> str:
    body = msgspec.json.encode(example).decode()
    called = path.replace("{name}", "welcome")
    verb = "" if method == "post" else f"-X {method.upper()} "
    return f"curl -H \"Authorization: Bearer $KEY\" {verb}$URL{called} -d '{body}'"
