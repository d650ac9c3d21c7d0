"""The promise through HTTP: what others see, against what one person does."""

import logging
import math

import numpy as np

from discreet.audit.bounds import audit_scores
from discreet.bandits import LinearBandit, estimators
from discreet.privacy import SeededNoise
from tests.service.conftest import Running

ROWS = [[0.6, 0.0], [0.0, 0.6]]
RAW = {
    "dim": 2,
    "reward": {"range": [-1, 1]},
    "privacy": {"epsilon": 3.0, "delta": 1e-6},
    "policy": "greedy",
}


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
    library = LinearBandit(
        2, None, 3.0, 1e-6, policy="greedy", estimator="information-weighted", noise=SeededNoise(3)
    )
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
            published = library.window.published()
            library.advance(library.rounds_until_release)
            library.turn()
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

CLAIM = {"epsilon": 3.0, "delta": 1e-6}
ONE = {"dim": 1, "reward": {"range": [-1, 1]}, "privacy": CLAIM, "policy": "squarecb"}


def everything_others_see(server: Running, world: int, runs: int) -> np.ndarray:
    """A person's reward is 1 or -1; then the window turns, and others look at all there is."""
    client = server.client()
    found = []
    for run in range(runs):
        name = f"w{world}-{run}-{len(server._clients)}"
        client.create(name, ONE)
        size = client.bandit(name)["window"]["rounds"]
        mine = client.decide(name, features=[[1.0]])
        client.learn(name, mine, 2.0 * world - 1.0)
        rest = [{"features": [[0.0]]}] * (size - 1)
        reply = client.call("POST", f"/v1/bandits/{name}/decide", {"requests": rest})
        client.learn_many(name, [(each["decision"], 0.0) for each in reply["decisions"]])
        last = [{"features": [[-1.0], [1.0]]}] * 3
        reply = client.call("POST", f"/v1/bandits/{name}/decide", {"requests": last})
        others = reply["decisions"]
        policy = client.call("GET", f"/v1/bandits/{name}/policy")
        (release,) = client.releases(name)
        (mean,) = policy.get("mean", [0.0])  # uniform if hardly any rewards came
        assert math.isfinite(release["count"])
        found.append([mean, release["sum"], sum(d["action"] for d in others)])
    return np.array(found)


def test_an_audit_through_http_proves_no_more_than_the_claim_and_catches_too_little_noise(
    tmp_path, monkeypatch
):
    server = Running(tmp_path, noise=SeededNoise(0))
    try:
        worlds = [everything_others_see(server, world, 60) for world in (0, 1)]
        report = audit_scores(*worlds, delta=1e-6, method="gdp", confidence=0.99)
        assert report.lower_bound <= CLAIM["epsilon"]
        monkeypatch.setattr(estimators, "SENSITIVITY", estimators.SENSITIVITY / 16)
        worlds = [everything_others_see(server, world, 60) for world in (0, 1)]
        report = audit_scores(*worlds, delta=1e-6, method="gdp", confidence=0.95)
        assert report.lower_bound > CLAIM["epsilon"]
    finally:
        server.stop()
