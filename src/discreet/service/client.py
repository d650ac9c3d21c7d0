"""A client for Python, with the standard library alone.

    client = Client("http://127.0.0.1:8360", key)
    decision = client.decide("welcome", {"age": 40, "plan": "gold"})
    client.learn("welcome", decision, 1.0)

A request that got no answer is sent again, with the same token: the server counts it once.
"""

import http.client
import json
import random
import time
import urllib.parse
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

TRIES = 5
PAUSE = 0.1  # seconds before the second try; doubles, with jitter


class ServiceError(Exception):
    """An answer other than success: status, a stable kind, and what to do.

    status   of HTTP
    kind     stable, such as "unauthorized"
    title    what happened
    detail   what to do
    more     further members of the problem
    """

    def __init__(
        self, status: int, kind: str, title: str, detail: str, more: dict[str, Any]
    ) -> None:
        super().__init__(f"{title} {detail}".strip())
        self.status = status
        self.kind = kind
        self.title = title
        self.detail = detail
        self.more = more

    @property
    def is_final(self) -> bool:
        """Whether the same request would be answered like this again."""
        return 400 <= self.status < 500 and self.status not in (408, 425, 429)


@dataclass(frozen=True)
class Decided:
    """An action, and the token to send its reward with. Keep the token beside the visit.

    decision      the token
    action        its name, or its place where features were sent
    probability   with which it was chosen
    policy        version of the policy that chose it
    """

    decision: str
    action: Any
    probability: float
    policy: int


class Client:
    """Decides and learns over HTTP.

    url      of the server
    key      an API key; None where none is needed
    timeout  seconds to wait for an answer

    One client belongs to one thread: it holds one connection.

    >>> client = Client("http://127.0.0.1:8360", "a key")  # connects with the first call
    >>> client.learn("welcome", "dt1.a-token", 1.0)  # doctest: +SKIP
    'counted'
    """

    def __init__(self, url: str, key: str | None, *, timeout: float = 10.0) -> None:
        parts = urllib.parse.urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError("url must begin with http:// or https://")
        self._secure = parts.scheme == "https"
        self._host = parts.hostname
        self._port = parts.port
        self._path = parts.path.rstrip("/")
        self._key = key
        self._timeout = timeout
        self._connection: http.client.HTTPConnection | None = None

    # -- deciding and learning ---------------------------------------------------------------------

    def decide(
        self,
        bandit: str,
        context: Any = None,
        *,
        actions: Sequence[Any] | None = None,
        features: Sequence[Sequence[float]] | None = None,
        person: str | None = None,
        id: str | None = None,
    ) -> Decided:
        """A decision for one person."""
        request = _request(context, actions, features, person, id)
        return Decided(**self.call("POST", path_of(bandit, "decide"), request))

    def decide_many(
        self,
        bandit: str,
        contexts: Iterable[Any],
        *,
        actions: Sequence[Any] | None = None,
        person: Iterable[str] | None = None,
    ) -> list[Decided]:
        """A decision for each context; `person` holds as many ids, where people are protected."""
        body: dict[str, Any]
        if person is not None:
            pairs = zip(contexts, person, strict=True)
            body = {"requests": [_request(c, actions, None, who, None) for c, who in pairs]}
        else:
            body = {"contexts": list(contexts)}
            if actions is not None:
                body["actions"] = list(actions)
        reply = self.call("POST", path_of(bandit, "decide"), body)
        return [Decided(**each) for each in reply["decisions"]]

    def learn(self, bandit: str, decision: Decided | str, reward: float) -> str:
        """Send a reward; returns its status, such as "counted" or "duplicate"."""
        body = {"decision": _named(decision), "reward": reward}
        status: str = self.call("POST", path_of(bandit, "learn"), body)["status"]
        return status

    def learn_many(self, bandit: str, rewards: Iterable[tuple[Decided | str, float]]) -> list[str]:
        """Send many rewards; returns their statuses, in order."""
        items = [{"decision": _named(decision), "reward": reward} for decision, reward in rewards]
        reply = self.call("POST", path_of(bandit, "learn"), {"rewards": items})
        return list(reply["statuses"])

    # -- everything else ---------------------------------------------------------------------------

    def create(self, bandit: str, definition: Mapping[str, Any]) -> dict[str, Any]:
        """Create a bandit; the same definition again changes nothing."""
        reply: dict[str, Any] = self.call("PUT", f"/v1/bandits/{_quoted(bandit)}", dict(definition))
        return reply

    def bandit(self, bandit: str) -> dict[str, Any]:
        """Definition, rounds, policy version, guarantee, progress."""
        reply: dict[str, Any] = self.call("GET", f"/v1/bandits/{_quoted(bandit)}")
        return reply

    def releases(self, bandit: str) -> list[dict[str, Any]]:
        """What was published."""
        return list(self.call("GET", path_of(bandit, "releases"))["releases"])

    def value(self, bandit: str) -> dict[str, Any]:
        """What a decision earns, under the policy and held out, now and after each release."""
        reply: dict[str, Any] = self.call("GET", path_of(bandit, "value"))
        return reply

    def guarantee(self, bandit: str) -> dict[str, Any]:
        """The promise, with its statement."""
        reply: dict[str, Any] = self.call("GET", path_of(bandit, "guarantee"))
        return reply

    def call(self, method: str, path: str, body: Any = None) -> Any:
        """Any call of the API: JSON or bytes in, JSON out; tried again where that is safe."""
        return _read(*self._answered(method, path, body))

    def document(self, path: str) -> bytes:
        """What stands at a path, byte by byte."""
        answered = self._answered("GET", path, None)
        _read(*answered)
        return answered[2]

    def _answered(self, method: str, path: str, body: Any) -> tuple[int, str, bytes]:
        """Status, content type and content, in the end."""
        raw = body if body is None or isinstance(body, bytes) else _json(body)
        sent = "application/octet-stream" if isinstance(body, bytes) else "application/json"
        for attempt in range(TRIES):
            last = attempt == TRIES - 1
            try:
                status, kind, content = self._send(method, path, raw, sent)
            except OSError:
                self.close()
                if last:
                    raise
            except http.client.HTTPException as error:
                self.close()
                if last:
                    raise ConnectionError("the server was cut off while it answered") from error
            else:
                if status not in (429, 502, 503, 504) or last:
                    return status, kind, content
            time.sleep(PAUSE * 2**attempt * (0.5 + random.random()))
        raise AssertionError("unreachable")

    def close(self) -> None:
        """Close the connection; the next call opens one again."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _send(
        self, method: str, path: str, body: bytes | None, kind: str = "application/json"
    ) -> tuple[int, str, bytes]:
        if self._connection is None:
            opened = http.client.HTTPSConnection if self._secure else http.client.HTTPConnection
            self._connection = opened(self._host, self._port, timeout=self._timeout)
        headers = {} if self._key is None else {"Authorization": f"Bearer {self._key}"}
        if body is not None:
            headers["Content-Type"] = kind
        self._connection.request(method, self._path + path, body, headers)
        response = self._connection.getresponse()
        return response.status, response.headers.get("Content-Type", ""), response.read()


def _request(context: Any, actions: Any, features: Any, person: Any, id: Any) -> dict[str, Any]:
    given = {
        "context": context,
        "actions": actions,
        "features": features,
        "person": person,
        "id": id,
    }
    return {name: value for name, value in given.items() if value is not None}


def _json(body: Any) -> bytes:
    return json.dumps(body, allow_nan=False).encode()


def path_of(bandit: str, call: str) -> str:
    """The path of a call about a bandit."""
    return f"/v1/bandits/{_quoted(bandit)}/{call}"


def _quoted(name: str) -> str:
    return urllib.parse.quote(name, safe="")


def _named(decision: Decided | str) -> str:
    return decision.decision if isinstance(decision, Decided) else decision


def _read(status: int, kind: str, content: bytes) -> Any:
    reply = json.loads(content) if content and "json" in kind else None
    if 200 <= status < 300:
        return reply
    found = reply if isinstance(reply, dict) else {}
    name = str(found.get("type", "")).rpartition(":")[2]
    raise ServiceError(
        status,
        name or "http",
        str(found.get("title", f"HTTP status {status}.")),
        str(found.get("detail", "")),
        found,
    )
