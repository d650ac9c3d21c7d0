"""Who may do what: every scope against every call."""

import pytest

RAW = {"dim": 2, "reward": {"range": [-1, 1]}, "privacy": {"epsilon": None}}
ROWS = [[0.5, 0.0], [0.0, 0.5]]
CALLS = {
    ("PUT", "/v1/bandits/b"): "admin",
    ("GET", "/v1/bandits"): "read",
    ("GET", "/v1/bandits/b"): "read",
    ("GET", "/v1/bandits/b/releases"): "read",
    ("POST", "/v1/bandits/b/decide"): "decide",
    ("POST", "/v1/bandits/b/learn"): "learn",
    ("GET", "/v1/bandits/b/policy"): "read",
    ("GET", "/v1/bandits/b/guarantee"): "read",
    ("GET", "/v1/bandits/b/value"): "read",
    ("PUT", f"/v1/bandits/b/batches/{'0' * 32}"): "relay",
    ("DELETE", "/v1/bandits/b"): "admin",
    ("PUT", "/v1/populations/p"): "admin",
    ("GET", "/v1/populations/p"): "read",
    ("GET", "/v1/populations"): "read",
    ("POST", "/v1/keys"): "admin",
    ("GET", "/v1/keys"): "admin",
    ("DELETE", "/v1/keys/none"): "admin",
}
SCOPES = ("decide", "learn", "read", "report", "relay", "admin")


def bodies(method: str, path: str) -> bytes | None:
    if method in ("PUT", "POST"):
        return b"{}"
    return None


@pytest.fixture
def made(running):
    client = running.client()
    client.create("b", RAW)
    return running, client


def key(client, *scopes, **more) -> str:
    body = {"name": "k", "scopes": list(scopes), **more}
    return client.call("POST", "/v1/keys", body)["secret"]


def test_each_call_needs_its_scope_and_admin_implies_all(made):
    running, client = made
    for scope in SCOPES:
        secret = key(client, scope)
        for (method, path), needed in CALLS.items():
            status, _, _ = running.request(
                method, path, bodies(method, path), Authorization=f"Bearer {secret}"
            )
            allowed = scope in (needed, "admin")
            assert (status not in (401, 403)) == allowed, (scope, method, path, status)


def test_without_a_valid_key_every_call_is_401(made):
    running, client = made
    revoked = client.call("POST", "/v1/keys", {"name": "k", "scopes": ["admin"]})
    client.call("DELETE", f"/v1/keys/{revoked['id']}")
    good = key(client, "admin")
    for header in (
        "",
        "Bearer",
        "Bearer ",
        "Basic abc",
        "Bearer wrong",
        f"Bearer {good}x",
        f"Bearer {good[:-1]}",
        f"Bearer {revoked['secret']}",
    ):
        for method, path in CALLS:
            status, headers, _ = running.request(
                method, path, bodies(method, path), Authorization=header
            )
            assert status == 401, (header, method, path)
            assert headers["content-type"] == "application/problem+json"


def test_a_key_for_one_bandit_is_for_that_one_only(made):
    running, client = made
    client.create("c", RAW)
    secret = key(client, "decide", "read", "learn", bandits=["c"])
    limited = running.client(secret)
    assert limited.decide("c", features=ROWS).action in (0, 1)
    assert [each["name"] for each in limited.call("GET", "/v1/bandits")["bandits"]] == ["c"]
    for path in ("/v1/bandits/b", "/v1/bandits/b/policy", "/v1/populations"):
        status, _, _ = running.request("GET", path, Authorization=f"Bearer {secret}")
        assert status == 403


def test_a_rate_limit_answers_429_and_says_when_to_come_back(made):
    running, client = made
    secret = key(client, "read", rate=2)
    statuses = []
    for _ in range(8):
        status, headers, _ = running.request("GET", "/v1/bandits", Authorization=f"Bearer {secret}")
        statuses.append(status)
    assert 200 in statuses
    assert 429 in statuses
    assert int(headers["retry-after"]) >= 1


def test_two_keys_live_side_by_side_and_secrets_are_shown_once(made):
    running, client = made
    first = client.call("POST", "/v1/keys", {"name": "shop", "scopes": ["read"]})
    second = client.call("POST", "/v1/keys", {"name": "shop", "scopes": ["read"]})
    for secret in (first["secret"], second["secret"]):
        assert running.request("GET", "/v1/bandits", Authorization=f"Bearer {secret}")[0] == 200
    client.call("DELETE", f"/v1/keys/{first['id']}")
    header = f"Bearer {first['secret']}"
    assert running.request("GET", "/v1/bandits", Authorization=header)[0] == 401
    shown = running.request("GET", "/v1/keys")[2].decode()
    assert first["secret"] not in shown
    assert second["secret"] not in shown


def test_no_secret_lies_in_the_store(made, tmp_path):
    running, client = made
    secret = key(client, "read")
    running.stop()
    for path in tmp_path.rglob("*"):
        if path.is_file():
            assert secret.encode() not in path.read_bytes()
            assert secret.split("_", 2)[2].encode() not in path.read_bytes()
