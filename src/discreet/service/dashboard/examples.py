"""How to call a bandit, with its real names filled in."""

import json
import shlex
from typing import Any

from discreet.service.schema import Column, Definition

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
    """A request that it accepts, and how to decide and learn in three languages."""
    body = request(definition)
    reward = definition.reward.range[1]
    number = f"{reward:g}"
    if definition.privacy.on_devices:
        text = _devices(name, definition, url, body, number)
    else:
        text = _calls(name, url, body, number)
    return {"example": body, "text": text}


def _calls(name: str, url: str, body: dict[str, Any], reward: str) -> dict[str, str]:
    bandit = f"{url}/v1/bandits/{name}"
    context = body.get("context")
    named = {key: value for key, value in body.items() if key != "context"}
    arguments = [repr(name)]
    arguments += [repr(context)] if context is not None else []
    arguments += [f"{key}={value!r}" for key, value in named.items()]
    options = f", {_json(named)}" if named else ""
    given = "undefined" if context is None else _json(context)
    return {
        "curl": f"""\
curl -H "Authorization: Bearer $KEY" {bandit}/decide \\
  -d {shlex.quote(_json(body))}
curl -H "Authorization: Bearer $KEY" {bandit}/learn \\
  -d '{{"decision": "dt1...", "reward": {reward}}}'""",
        "Python": f"""\
from discreet.service.client import Client

client = Client({url!r}, key)
decision = client.decide({", ".join(arguments)})
client.learn({name!r}, decision, {reward})  # when the reward is known""",
        "JavaScript": f"""\
import {{ Client }} from "discreet-client";

const client = new Client({_json(url)}, key);
const decision = await client.decide({_json(name)}, {given}{options});
await client.learn({_json(name)}, decision, {reward}); // when the reward is known""",
    }


def _devices(
    name: str, definition: Definition, url: str, body: dict[str, Any], reward: str
) -> dict[str, str]:
    """Under local trust devices decide; what they send is made by a client."""
    privacy = definition.privacy
    limits: dict[str, Any] = {"epsilon": privacy.epsilon, "contributions": privacy.contributions}
    if privacy.trust == "shuffled":
        limits |= {"delta": privacy.delta, "relay": "https://relay.example"}
    return {
        "curl": f"curl {url}/v1/bandits/{name}/policy  # public: how devices decide",
        "JavaScript": f"""\
import {{ Device }} from "discreet-client";

const device = new Device({_json(url)}, {_json(name)}, {_json(limits)});
const decision = await device.decide({_json(body.get("context", body.get("features")))});
await device.report(decision, {reward}); // one private report; report every decision""",
    }


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
