"""The OpenAPI document, made from the message types, and a page of it for people."""

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
from starlette.responses import Response

from discreet.service.asgi import Call
from discreet.service.dashboard import rendering
from discreet.service.replies import STATUSES

PROBLEM = {
    "type": "object",
    "required": ["type", "title", "status"],
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string"},
    },
}
SCHEMES = {
    "key": {"type": "http", "scheme": "bearer"},
    "subscription": {"type": "apiKey", "in": "header", "name": "Ocp-Apim-Subscription-Key"},
}


def openapi(calls: Sequence[Call]) -> dict[str, Any]:
    """OpenAPI 3.1, with schemas made from the types that decode the messages."""
    types = [call.body for call in calls if call.body is not None]
    types += [each for call in calls for each in call.reply]
    types += [call.refusal for call in calls if call.refusal is not None]
    _, schemas = _schemas(types)
    paths: dict[str, Any] = {}
    for call in calls:
        paths.setdefault(call.path, {})[call.method.lower()] = _operation(call)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "discreet",
            "version": "1",
            "description": "Contextual bandits with durable learning and a privacy promise.",
        },
        "paths": paths,
        "components": {"schemas": schemas | {"Problem": PROBLEM}, "securitySchemes": SCHEMES},
    }


def _schemas(types: Iterable[Any]) -> tuple[Any, dict[str, Any]]:
    return msgspec.json.schema_components(types, ref_template="#/components/schemas/{name}")


def _operation(call: Call) -> dict[str, Any]:
    operation: dict[str, Any] = {"summary": call.summary, "responses": _responses(call)}
    text = {"required": True, "schema": {"type": "string"}}
    operation["parameters"] = [
        {"name": part[1:-1], "in": "path", **text}
        for part in call.path.split("/")
        if part.startswith("{")
    ]
    operation["parameters"] += [
        {"name": name, "in": "query", **text, "description": what}
        for name, what in call.query.items()
    ]
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
    kind, name = "application/problem+json", "Problem"
    if call.refusal is not None:
        kind, name = "application/json", call.refusal.__name__
    for code, text in _others(call).items():
        other = responses[str(code)] = {"description": text}
        if code == 201:
            other["content"] = success["content"]
        elif code != 304:
            other["content"] = {kind: {"schema": {"$ref": f"#/components/schemas/{name}"}}}
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


def page(document: dict[str, Any]) -> Response:
    """Every call of an OpenAPI document, for people; works offline."""
    schemas = document["components"]["schemas"]
    calls = [
        {"method": method.upper(), "path": path, **operation, **_body(operation, schemas)}
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    ]
    return rendering.page("docs.html", None, calls=calls, statuses=STATUSES)


def _body(operation: dict[str, Any], schemas: dict[str, Any]) -> dict[str, Any]:
    """The fields of a call's body, and an example of it."""
    content = operation.get("requestBody", {}).get("content", {}).get("application/json")
    if content is None:
        return {"fields": None, "example": None}
    fields = schemas[content["schema"]["$ref"].rsplit("/", 1)[1]].get("properties", {})
    example = content.get("example")
    return {"fields": list(fields), "example": example and msgspec.json.encode(example).decode()}
