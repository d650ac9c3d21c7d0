"""The OpenAPI document, made from the message types, and pages that need nothing from outside."""

import html
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
from starlette.responses import HTMLResponse, Response

from discreet.service.asgi import Call
from discreet.service.replies import STATUSES


def openapi(calls: Sequence[Call]) -> dict[str, Any]:
    """OpenAPI 3.1, with schemas made from the types that decode the messages."""
    types = [call.body for call in calls if call.body is not None]
    types += [each for call in calls for each in call.reply]
    types += [call.refusal for call in calls if call.refusal is not None]
    _, components = _schemas(types)
    paths: dict[str, Any] = {}
    for call in calls:
        paths.setdefault(call.path, {})[call.method.lower()] = _operation(call)
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


def _operation(call: Call) -> dict[str, Any]:
    operation: dict[str, Any] = {"summary": call.summary, "responses": _responses(call)}
    operation["parameters"] = [
        {"name": part[1:-1], "in": "path", "required": True, "schema": {"type": "string"}}
        for part in call.path.split("/")
        if part.startswith("{")
    ]
    operation["parameters"] += [
        {"name": each, "in": "query", "required": True, "schema": {"type": "string"},
         "description": text}
        for each, text in call.query.items()
    ]  # fmt: skip
    if call.body is not None:
        (schema,), _ = _schemas([call.body])
        content = {"schema": schema}
        if call.example is not None:
            content["example"] = call.example
        operation["requestBody"] = {"required": True, "content": {"application/json": content}}
    if call.binary:
        content = {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}
        operation["requestBody"] = {"required": True, "content": content}
    if call.scope is not None:
        scheme = "subscription" if call.path.startswith("/personalizer") else "key"
        operation["security"] = [{scheme: []}]
        operation["description"] = f"Scope: {call.scope}."
    return operation


def _responses(call: Call) -> dict[str, Any]:
    success: dict[str, Any] = {"description": "Done"}
    if call.status != 204:
        success["content"] = _content(call)
    responses = {str(call.status): success}
    for code, text in _others(call).items():
        responses[str(code)] = {"description": text}
        if code == 201:
            responses["201"]["content"] = success["content"]
        elif code != 304:
            kind, name = "application/problem+json", "Problem"
            if call.refusal is not None:
                kind, name = "application/json", call.refusal.__name__
            refusal = {"schema": {"$ref": f"#/components/schemas/{name}"}}
            responses[str(code)]["content"] = {kind: refusal}
    return responses


def _content(call: Call) -> dict[str, Any]:
    """The reply of a call: of one of some message types, or of another media type."""
    if not call.reply:
        kind = "object" if call.media == "application/json" else "string"
        return {call.media: {"schema": {"type": kind}}}
    found, _ = _schemas(call.reply)
    return {call.media: {"schema": found[0] if len(found) == 1 else {"oneOf": found}}}


def _others(call: Call) -> dict[int, str]:
    """Statuses beside success: those that the call names, and those that follow from its kind."""
    others = dict(call.also)
    if call.scope is not None:
        others |= {401: "No valid key", 403: "The key may not do that", 429: "Too many requests"}
    if call.path != "/healthz":
        others[429] = "Too many requests"
    if "{" in call.path:
        others[404] = "There is no such thing"
    if call.body is not None:
        others[400] = "Not JSON"
    if call.body is not None or call.binary:
        others |= {413: "Too large", 422: "Not valid"}
    if call.scope is not None:
        others.setdefault(422, "Not valid")
        others.setdefault(503, "The store is away")
    return others


_STYLE = """
:root { color-scheme: light dark; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 52rem; margin: 2rem auto; padding: 0 1rem; }
code, .call { font-family: ui-monospace, monospace; }
.call { font-weight: 600; } section { border-top: 1px solid #8884; padding: .5rem 0; }
pre { overflow-x: auto; background: #8881; padding: .75rem; border-radius: .4rem; }
"""
HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; "
        "frame-ancestors 'none'"
    ),
    "Cross-Origin-Opener-Policy": "same-origin",
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
}


def _html(title: str, body: str) -> Response:
    text = (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8">'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{title}</title><style>{_STYLE}</style></head><body>{body}</body></html>"
    )
    return HTMLResponse(text, headers=HEADERS)


def page(document: dict[str, Any]) -> Response:
    """Every call of an OpenAPI document, for people; works offline."""
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
    statuses = "".join(f"<dt>{word}</dt><dd>{meaning}</dd>" for word, meaning in STATUSES.items())
    head = (
        "<h1>discreet</h1><p>Create a bandit, decide for a person, keep the token of the decision, "
        "send it back with the reward. A reward that is sent again counts once.</p><p>Send a key "
        "as <code>Authorization: Bearer &lt;key&gt;</code>. Errors are "
        "<code>application/problem+json</code>. The machine-readable document is "
        '<a href="/openapi.json">/openapi.json</a>.</p>'
        f"<h2>What became of a reward</h2><dl>{statuses}</dl><h2>All calls</h2>"
    )
    return _html("discreet: the API", head + "".join(sections))


def _curl(method: str, path: str, example: Any) -> str:
    body = msgspec.json.encode(example).decode()
    called = path.replace("{name}", "welcome")
    verb = "" if method == "post" else f"-X {method.upper()} "
    return f"curl -H \"Authorization: Bearer $KEY\" {verb}$URL{called} -d '{body}'"
