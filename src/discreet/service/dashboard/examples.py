"""How to call a bandit, with its real names filled in."""

import json
import shlex
from typing import Any

from discreet.service.definitions import Column, Definition

_FEW = 3  # actions in an example of rows


def request(definition: Definition) -> dict[str, Any]:
    """A body of `decide` that this bandit accepts."""
    body: dict[str, Any] = {}
    if definition.dim is not None:
        body["features"] = [
            [round(1 / definition.dim**0.5, 3) * (i == j) for j in range(definition.dim)]
            for i in range(min(_FEW, definition.dim))
        ]
    elif definition.features is not None:
        body["context"] = {"age": 40, "plan": "gold"}
        if definition.actions is None:
            body["actions"] = ["email", "call"]
    else:
        context = definition.context or {}
        body["context"] = {name: _typical(column) for name, column in context.items()}
    if definition.privacy.unit == "person":
        body["person"] = "customer-4711"
    return body


def _typical(column: Column) -> Any:
    if column.number is None:
        assert column.category
        return column.category[0]
    low, high = column.number
    middle = (low + high) / 2
    return round(middle) if high - low >= 2 else middle


def calls(name: str, definition: Definition, url: str) -> dict[str, Any]:
    """A request that it accepts, and the same two calls in three languages."""
    body = request(definition)
    reward = definition.reward.range[1]
    reward = int(reward) if reward == int(reward) else reward
    bandit = f"{url}/v1/bandits/{name}"
    curl = "\n".join(
        [
            f'curl -H "Authorization: Bearer $KEY" {bandit}/decide \\',
            f"  -d {shlex.quote(json.dumps(body, ensure_ascii=False))}",
            f'curl -H "Authorization: Bearer $KEY" {bandit}/learn \\',
            f"""  -d '{{"decision": "dt1...", "reward": {reward}}}'""",
        ]
    )
    context = body.get("context")
    named = {key: value for key, value in body.items() if key != "context"}
    arguments = [repr(name)]
    arguments += [repr(context)] if context is not None else []
    arguments += [f"{key}={value!r}" for key, value in named.items()]
    python = "\n".join(
        [
            "from discreet.service.client import Client",
            "",
            f"client = Client({url!r}, key)",
            f"decision = client.decide({', '.join(arguments)})",
            f"client.learn({name!r}, decision, {reward})  # when the reward is known",
        ]
    )
    script = "\n".join(
        [
            "const call = async (what, body) => {",
            f"  const reply = await fetch({json.dumps(bandit + '/')} + what, {{",
            '    method: "POST",',
            "    headers: { Authorization: `Bearer ${key}` },",
            "    body: JSON.stringify(body),",
            "  });",
            "  if (!reply.ok) throw new Error((await reply.json()).title);",
            "  return reply.json();",
            "};",
            f"const {{ action, decision }} = await call("
            f'"decide", {json.dumps(body, ensure_ascii=False)});',
            f'await call("learn", {{ decision, reward: {reward} }}); // when the reward is known',
        ]
    )
    text = {"curl": curl, "Python": python, "JavaScript": script}
    return {"example": body, "text": text}
