"""The promise through HTTP: what others see, against what one person does."""

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pytest

from discreet.audit.bounds import audit_scores
from discreet.bandits import LinearBandit, estimators
from discreet.privacy import SeededNoise
from discreet.service import metrics
from discreet.service.app import application
from discreet.service.settings import Settings
from tests.service.conftest import ADMIN, Running

T = TypeVar("T")

ROWS = [[0.6, 0.0], [0.0, 0.6]]
RAW = {
    "dim": 2,
    "reward": {"range": [-1, 1]},
    "privacy": {"epsilon": 3.0, "delta": 1e-6},
    "policy": "greedy",
}


@pytest.fixture(autouse=True)
def fresh_metrics(monkeypatch):
    monkeypatch.setattr(metrics, "FRESH", 0.0)  # not those of before


def shown_to_others(server: Running, bandit: str = "b") -> list:
    """Everything that somebody with the scope `read`, or with none, can ask for."""
    paths = [
        "/metrics",
        "/readyz",
        "/openapi.json",
        "/v1/bandits",
        f"/v1/bandits/{bandit}",
        f"/v1/bandits/{bandit}/policy",
        f"/v1/bandits/{bandit}/guarantee",
        f"/v1/bandits/{bandit}/releases",
        f"/v1/bandits/{bandit}/value",
        "/v1/populations",
    ]
    return [server.request("GET", path)[2] for path in paths]


def test_until_the_next_release_nobody_sees_what_a_person_does(running):
    client = running.client()
    client.create("b", RAW)
    made = client.decide("b", features=ROWS)
    before = shown_to_others(running)
    for reward in (1.0, -1.0, 7.0, "x"):
        running.request(
            "POST",
            "/v1/bandits/b/learn",
            b'{"decision": "%s", "reward": %s}' % (made.decision.encode(), str(reward).encode()),
        )
        assert shown_to_others(running) == before
    client.learn("b", "dt1.forged", 0.5)
    assert shown_to_others(running) == before


def test_a_service_publishes_the_policies_of_the_library_bit_by_bit(store, tmp_path):
    """Same noise, same rows as tokens hold them, same batches."""
    server = Running(tmp_path, store=store, noise=SeededNoise(3))
    library = LinearBandit(2, None, 3.0, 1e-6, policy="greedy", noise=SeededNoise(3))
    library.turn()
    client = server.client()
    client.create("b", RAW)
    rng = np.random.default_rng(0)
    try:
        for window in range(4):
            size = library.rounds_until_release
            assert client.bandit("b")["window"]["rounds"] == size
            size -= window > 0  # one of this window was decided when the last one turned
            requests = [{"features": rng.uniform(-0.7, 0.7, (2, 2)).tolist()} for _ in range(size)]
            reply = client.call("POST", "/v1/bandits/b/decide", {"requests": requests})
            made = reply["decisions"]
            rewards = rng.uniform(-1, 1, size)
            chosen = [
                np.array(r["features"][d["action"]]) for r, d in zip(requests, made, strict=True)
            ]
            rows = np.array(chosen, dtype=np.float32).astype(float)
            for start in range(0, size, 5):
                batch = slice(start, start + 5)
                items = [
                    (d["decision"], float(y))
                    for d, y in zip(made[batch], rewards[batch], strict=True)
                ]
                assert set(client.learn_many("b", items)) == {"counted"}
                library.window.fold(rows[batch], rewards[batch])
            library.advance(library.rounds_until_release)
            library.turn()
            published = library.totals[-1].published()
            client.decide("b", features=ROWS)  # the window turns
            shown = client.call("GET", "/v1/bandits/b/policy")
            expected = library.policy.to_dict()
            assert {name: shown[name] for name in expected} == expected
            assert shown["version"] == window + 2
            release = client.releases("b")[-1]
            assert {name: release[name] for name in published} == published
    finally:
        server.stop()


def test_logs_errors_and_metrics_hold_nothing_secret_or_personal(tmp_path, caplog):
    server = Running(tmp_path)
    client = server.client()
    secrets = ["anna@example.org", "order-4711", "0.123456789"]
    people = {"privacy": {"epsilon": 1.0, "unit": "person"}}
    with caplog.at_level(logging.DEBUG):
        try:
            client.create("b", RAW | people)
            made = client.decide("b", features=ROWS, person=secrets[0], id=secrets[1])
            client.learn("b", secrets[1], 0.123456789)
            bodies = [
                b'{"decision": "order-4711", "reward": "0.123456789"}',
                b'{"decision": "order-4711", "reward": 4711}',
                b'{"features": "anna@example.org", "person": "anna@example.org"}',
                b'{"features": [[0.1]], "person": "anna@example.org", "id": "order-4711"}',
                b"anna@example.org",
            ]
            seen = []
            for body in bodies:
                for call in ("decide", "learn"):
                    status, _, raw = server.request("POST", f"/v1/bandits/b/{call}", body)
                    assert 400 <= status < 500
                    seen.append(raw)
            seen += shown_to_others(server)
        finally:
            server.stop()
    text = b"".join(seen).decode() + caplog.text
    for secret in (*secrets, made.decision, client._key):
        assert secret not in text
    stored = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    for secret in (*secrets[:2], made.decision):
        assert secret.encode() not in stored


# -- the audit -------------------------------------------------------------------------------------

# One feature, so that others' rows cannot blur the canary's; at this epsilon few runs tell much.
CLAIM = {"epsilon": 10.0, "delta": 1e-6}
ONE = {"dim": 1, "reward": {"range": [-1, 1]}, "privacy": CLAIM, "policy": "squarecb"}


class InProcess:
    """The application without sockets, for thousands of calls."""

    def __init__(self, settings: Settings) -> None:
        self.app = application(settings)

    def run(self, work: Callable[["InProcess"], Awaitable[T]]) -> T:
        async def served() -> T:
            async with self.app.router.lifespan_context(self.app):
                return await work(self)

        return asyncio.run(served())

    async def call(self, method: str, path: str, body: Any = None) -> Any:
        headers = [(b"authorization", f"Bearer {ADMIN}".encode())]
        scope = {"type": "http", "method": method, "path": path, "headers": headers}
        scope |= {"query_string": b"", "raw_path": path.encode(), "root_path": ""}
        sent = [{"type": "http.request", "body": json.dumps(body).encode()}]
        heard: list[Any] = []

        async def receive() -> Any:
            return sent.pop()

        async def send(message: Any) -> None:
            heard.append(message)

        await self.app(scope, receive, send)
        assert heard[0]["status"] in (200, 201), heard
        return json.loads(heard[1]["body"])


async def seen_by_others(server: InProcess, neighbour: int, run: int) -> list[float]:
    """A person's reward is 1 or -1, everybody else's is known; then others look at all there is.

    The policy's mean has the sign of the noisy sum of features times rewards: with other rewards at
    0, its sign is the likelihood ratio of the two neighbours under that sum. The published sum of
    rewards and what others are told to do come beside it.
    """
    path = f"/v1/bandits/n{neighbour}-{run}"
    made = await server.call("PUT", path, ONE)
    size = made["window"]["rounds"]
    requests = [{"features": [[1.0]]}] * size
    reply = await server.call("POST", f"{path}/decide", {"requests": requests})
    rewards = [2.0 * neighbour - 1.0] + [0.0] * (size - 1)
    items = [
        {"decision": each["decision"], "reward": reward}
        for each, reward in zip(reply["decisions"], rewards, strict=True)
    ]
    reply = await server.call("POST", f"{path}/learn", {"rewards": items})
    assert set(reply["statuses"]) == {"counted"}
    last = [{"features": [[-1.0], [1.0]]}] * 3
    others = (await server.call("POST", f"{path}/decide", {"requests": last}))["decisions"]
    policy = await server.call("GET", f"{path}/policy")
    (release,) = (await server.call("GET", f"{path}/releases"))["releases"]
    (mean,) = policy.get("mean", [0.0])  # uniform if the count might be noise
    actions = sum(each["action"] - 0.5 for each in others)
    return [mean, release["sum"], release["count"], actions]


def audited(folder: Path, seed: int, runs: int) -> float:
    """What two neighbouring streams through HTTP prove, with 95% confidence."""
    settings = Settings(
        store=f"sqlite:///{folder}/{seed}.db",
        secrets=folder / f"secrets-{seed}",
        admin_key=ADMIN,
        noise=SeededNoise(seed),
    )

    async def both(server: InProcess) -> list[np.ndarray]:
        return [
            np.array([await seen_by_others(server, neighbour, run) for run in range(runs)])
            for neighbour in (0, 1)
        ]

    views = InProcess(settings).run(both)
    return audit_scores(*views, delta=1e-6, method="gdp", confidence=0.95).lower_bound


def test_an_audit_through_http_proves_no_more_than_the_claim_and_catches_halved_noise(
    tmp_path, monkeypatch
):
    """A right claim fails for 5% of all seeds at most; halved noise passes for less than 5%.

    (Two normal distributions that are .93 of the booked mu apart: 95% of 40 trials with 60 runs a
    side find halved noise, all of 40 with 80.)
    """
    assert audited(tmp_path, 0, 40) <= CLAIM["epsilon"]
    whole = estimators.sensitivity
    monkeypatch.setattr(estimators, "sensitivity", lambda *of: whole(*of) / 2)
    assert audited(tmp_path, 1, 70) > CLAIM["epsilon"]
