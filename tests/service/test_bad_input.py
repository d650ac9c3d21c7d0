"""What nobody should send: no 5xx, documented answers only, nothing quoted, nothing changed."""

import json
import socket
import time
import warnings
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings

from discreet.service import limits
from tests.service.conftest import ADMIN, Running

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    schemathesis = pytest.importorskip("schemathesis")

RAW = {"dim": 3, "reward": {"range": [-1, 1]}, "privacy": {"epsilon": None}}
STRANGE = [
    b"[" * 100_000,
    b'{"context":' * 20_000,
    b'{"features": [[NaN, 0, 0]]}',
    b'{"features": [[Infinity, 0, 0]]}',
    b'{"features": [[1e999, 0, 0]]}',
    b'{"features": [[1e308, 1e308, 1e308]], "id": "\\ud800"}',
    '{"features": [[0.1, 0, 0]]}'.encode("utf-16"),
    b'\xff\xfe{"decision": 1}',
    b'\xef\xbb\xbf{"features": [[0.1, 0, 0]]}',
    b'{"decision": "\\u0000", "reward": 0.5}',
    b'{"decision": "x", "reward": -1e400}',
    b'{"rewards": [[], null, 1, "x", {"decision": {}, "reward": {}}]}',
    b'{"requests": [{"features": [[true, false, null]]}]}',
    b'{"features": [[0.1, 0, 0]], "person": "\\u0000", "id": "\\u0000"}',
    b'{"features": [[0.1, 0, 0]], "features": [[9, 9]]}',
    b"",
    b"null",
]


@pytest.mark.parametrize("body", STRANGE, ids=range(len(STRANGE)))
@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/v1/bandits/b/decide"),
        ("POST", "/v1/bandits/b/learn"),
        ("PUT", "/v1/bandits/new"),
        ("PUT", "/v1/populations/p"),
        ("POST", "/v1/keys"),
        ("POST", "/personalizer/v1.0/rank"),
        ("POST", "/personalizer/v1.0/events/e%00/reward"),
    ],
)
def test_strange_bodies_are_refused_in_words(shared, method, path, body):
    headers = {"Ocp_Apim_Subscription_Key": ADMIN}
    status, found, text = shared.request(method, path, body, **headers)
    assert status < 500
    if status >= 400:
        assert found["content-type"] == "application/problem+json"
        assert len(text) < 1000


@pytest.mark.parametrize("path", ["/v1/keys/%00", "/v1/keys/%ff", "/v1/bandits/%00", "/%00"])
def test_strange_paths_are_not_found(shared, path):
    assert shared.request("DELETE", path)[0] in (404, 405)


@pytest.mark.parametrize("size", [2.0, 3.5e38, 1e300])
def test_a_row_of_any_length_leaves_the_sum_of_the_others_finite(tmp_path, size):
    """Privacy: a row is shortened before its token is sealed; NaN would wipe out noise and all."""
    running = Running(tmp_path)
    try:
        running.client().create("b", {**RAW, "privacy": {"epsilon": 1.0}})
        body = json.dumps({"features": [[size, 0, 0]]}).encode()
        decided = json.loads(running.request("POST", "/v1/bandits/b/decide", body)[2])
        body = json.dumps({"decision": decided["decision"], "reward": 0.5}).encode()
        assert running.request("POST", "/v1/bandits/b/learn", body)[0] == 200
        total = running.server.tenants["b"].learner._window.total._value
        assert np.isfinite(total).all()
    finally:
        running.stop()


def test_a_name_that_postgresql_cannot_store_is_refused(shared):
    body = json.dumps({"name": "a\x00b", "scopes": ["read"]}).encode()
    assert shared.request("POST", "/v1/keys", body)[0] == 422


def test_a_body_that_is_too_large_is_413_before_it_is_read(shared):
    with socket.create_connection(("127.0.0.1", shared.port), timeout=10) as client:
        client.sendall(
            b"POST /v1/bandits/b/decide HTTP/1.1\r\nHost: x\r\nContent-Length: 999999999999\r\n"
            b"Authorization: Bearer " + ADMIN.encode() + b"\r\n\r\n"
        )
        assert client.recv(100).startswith(b"HTTP/1.1 413")


@pytest.mark.parametrize("begun", [b"{", b""])
def test_a_slow_client_holds_nobody_up_and_is_given_up(shared, monkeypatch, begun):
    monkeypatch.setattr(limits, "BODY_SECONDS", 0.5)
    with socket.create_connection(("127.0.0.1", shared.port), timeout=10) as slow:
        slow.sendall(
            b"POST /v1/bandits/b/decide HTTP/1.1\r\nHost: x\r\nContent-Length: 50\r\n"
            b"Authorization: Bearer " + ADMIN.encode() + b"\r\n\r\n" + begun
        )
        began = time.monotonic()
        body = b'{"features": [[0.1, 0, 0]]}'
        assert shared.request("POST", "/v1/bandits/b/decide", body)[0] == 200
        assert time.monotonic() - began < 5
        assert slow.recv(100).startswith(b"HTTP/1.1 408")


@pytest.fixture(scope="module")
def shared(postgresql, tmp_path_factory):
    """One server for all of these: none of them may do it harm."""
    folder: Path = tmp_path_factory.mktemp("shared")
    name = postgresql.new()
    server = Running(folder, store=postgresql.url(name), personalizer="p")
    client = server.client()
    client.create("b", RAW)
    client.create("p", {"features": {"hashed": 8}, "privacy": {"epsilon": 1.0}})
    before = client.bandit("b")["window"]
    yield server
    assert client.bandit("b")["window"]["number"] >= before["number"]
    assert client.learn("b", client.decide("b", features=[[0.1, 0, 0]]), 0.5) == "counted"
    server.stop()
    postgresql.drop(name)


def test_schemathesis_finds_no_5xx_and_no_undocumented_answer(shared):
    """Requests made from the OpenAPI document, valid ones and others, for each call."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        document = schemathesis.openapi.from_url(f"{shared.url}/openapi.json")
        tried = 0
        for found in document.get_all_operations():
            _call_often(found.ok())
            tried += 1
        assert tried >= 15


def _call_often(operation) -> None:
    documented = {str(status) for status in operation.definition.raw["responses"]}

    @settings(
        max_examples=12,
        deadline=None,
        database=None,
        derandomize=True,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=operation.as_strategy())
    def call(case) -> None:
        reply = case.call(headers={"Authorization": f"Bearer {ADMIN}"}, timeout=20)
        assert reply.status_code < 500
        assert str(reply.status_code) in documented, (case.method, case.path, reply.status_code)

    call()
