"""Old logs over HTTP: read once, before the first decision; counted, or public."""

import hmac
import json

import numpy as np
import pytest
import sqlalchemy as sa

from discreet.privacy import SeededNoise
from discreet.service import store as tables
from discreet.service.client import ServiceError
from discreet.service.definitions import parsed
from discreet.service.history import read
from discreet.service.messages import DecideRequest, HistoryBody, HistoryItem
from tests.service.conftest import ADMIN, Running

DECLARED = {
    "context": {"age": {"number": [0, 1]}},
    "actions": ["a", "b"],
    "privacy": {"epsilon": 3, "population": "people"},
}
HASHED = {"features": {"hashed": 16}, "privacy": {"epsilon": 3}}


@pytest.fixture
def server(tmp_path):
    made = Running(tmp_path, personalizer="news")
    yield made
    made.stop()


def rows(n=1500):
    """Action a earns 1, b nothing."""
    some = ({"context": {"age": i % 7 / 7}, "action": "ab"[i % 2]} for i in range(n))
    return [each | {"reward": 1 - i % 2, "probability": 0.5} for i, each in enumerate(some)]


def sent(server, name, body, key=ADMIN):
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    bearer = f"Bearer {key}"
    status, _, reply = server.request(
        "POST", f"/v1/bandits/{name}/history", raw, Authorization=bearer
    )
    return status, json.loads(reply)


def shown(server, name):
    client = server.client()
    guarantee = client.guarantee(name)
    return client.bandit(name)["policy"], len(guarantee["releases"]), client.releases(name)


# -- what it does ----------------------------------------------------------------------------------


@pytest.mark.parametrize("public", [False, True])
def test_decisions_begin_with_what_the_log_taught(server, public):
    client = server.client()
    client.create("b", DECLARED | {"policy": "greedy"})
    spent = client.call("GET", "/v1/populations/people")["spent"]
    status, reply = sent(server, "b", {"public": public, "rows": rows(), "id": "shop"})
    assert (status, reply) == (200, {"id": "shop", "rows": 1500, "public": public})
    found = client.decide_many("b", [{"age": 0.5}] * 5)
    assert [each.action for each in found] == ["a"] * 5
    guarantee = client.guarantee("b")
    scopes = [each["scope"] for each in guarantee["releases"]]
    assert any(each.startswith("log") for each in scopes) != public
    assert guarantee["epsilon"] == 3
    assert client.call("GET", "/v1/populations/people")["spent"] == spent
    assert client.learn("b", found[0], 1.0) == "counted"


def test_a_retry_changes_nothing_and_another_log_is_refused(server):
    client = server.client()
    client.create("b", DECLARED)
    log = {"public": False, "rows": rows(300), "id": "one"}
    assert sent(server, "b", log)[0] == 200
    before = shown(server, "b")
    assert sent(server, "b", log) == (200, {"id": "one", "rows": 300, "public": False})
    assert sent(server, "b", log | {"id": "two"})[0] == 409
    assert sent(server, "b", log | {"public": True})[0] == 409
    assert shown(server, "b") == before
    (kept,) = before[2]
    assert kept["history"] == {"id": "one", "rows": 300, "public": False}
    client.decide("b", {"age": 0.5})
    assert sent(server, "b", log)[0] == 200  # the retry of what was taken, still


def test_a_retry__is_the_same_log_by_the_same_key_and_nobody_can_try_another(server):
    """A log of the same name and size is another one; what is stored of it tells nobody which."""
    client = server.client()
    client.create("b", DECLARED)
    log = {"public": False, "rows": rows(30), "id": "one"}
    assert sent(server, "b", log)[0] == 200
    changed = [*log["rows"][:-1], log["rows"][-1] | {"reward": 1}]
    assert sent(server, "b", log | {"rows": changed})[0] == 409
    other = client.call("POST", "/v1/keys", {"name": "other", "scopes": ["admin"]})
    assert sent(server, "b", log, other["secret"])[0] == 409
    (stored,) = [row["release"] for row in server.rows(tables.windows) if row["release"]]
    digest = json.loads(stored)["history"]["digest"]
    raw, vault = json.dumps(log).encode(), server.server.vault
    known = [vault.master, b"", *(row["hash"] for row in server.rows(tables.keys))]
    assert digest not in [hmac.digest(each, raw, "sha256").hex() for each in known]
    assert digest == hmac.digest(ADMIN.encode(), raw, "sha256").hex()
    assert digest not in json.dumps(client.releases("b"))


def test_a_retry__of_a_log_that_an_earlier_version_took_is_known_by_name_and_size(server):
    client = server.client()
    client.create("b", DECLARED)
    log = {"public": False, "rows": rows(30), "id": "one"}
    assert sent(server, "b", log)[0] == 200
    with server.server.store.transaction() as connection:
        table = tables.windows
        release = json.loads(connection.execute(sa.select(table.c.release)).scalars().first())
        del release["history"]["digest"]
        first = sa.update(table).where(table.c.number == 1)
        connection.execute(first.values(release=json.dumps(release)))
    assert sent(server, "b", log)[0] == 200
    assert sent(server, "b", log | {"id": "two"})[0] == 409


def test_after_a_decision_it_is_too_late(server):
    client = server.client()
    client.create("b", DECLARED)
    client.decide("b", {"age": 0.5})
    before = shown(server, "b")
    status, problem = sent(server, "b", {"public": True, "rows": rows(5)})
    assert (status, problem["type"]) == (409, "urn:discreet:problem:has-begun")
    assert shown(server, "b") == before


def test_worth__is_of_decisions_alone(server):
    client = server.client()
    client.create("b", DECLARED | {"privacy": {"epsilon": None}})
    sent(server, "b", {"public": False, "rows": rows(300)})
    while len(client.releases("b")) < 2:
        n = client.bandit("b")["window"]["rounds"]
        found = client.decide_many("b", [{"age": 0.5}] * n)
        client.learn_many("b", [(each, 1.0) for each in found])
        client.decide("b", {"age": 0.5})
    (first,) = client.value("b")["releases"]
    assert first["window"] == 2
    assert first["mean"]["estimate"] == pytest.approx(1.0)


# -- crashes ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("at", ["begin_with", "_store_window"])
def test_a_crash_before_the_commit_leaves_the_bandit_as_it_was(server, monkeypatch, at):
    client = server.client()
    client.create("b", DECLARED)
    before, stored = shown(server, "b"), server.rows(tables.windows)
    from discreet.service.tenant import Tenant

    whole = getattr(Tenant, at)

    def broken(*given):
        whole(*given)
        raise OSError("the disk is gone")

    monkeypatch.setattr(Tenant, at, broken)
    log = {"public": False, "rows": rows(300)}
    assert sent(server, "b", log)[0] >= 500
    monkeypatch.undo()
    assert (shown(server, "b"), server.rows(tables.windows)) == (before, stored)
    assert sent(server, "b", log)[0] == 200
    assert client.guarantee("b")["epsilon"] == 3


def test_it_survives_a_restart(tmp_path):
    first = Running(tmp_path)
    first.client().create("b", DECLARED | {"policy": "greedy"})
    sent(first, "b", {"public": False, "rows": rows()})
    before = shown(first, "b")
    first.stop()
    second = Running(tmp_path)
    assert shown(second, "b") == before
    assert second.client().decide("b", {"age": 0.5}).action == "a"
    second.stop()


# -- what is refused -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"context": {"age": True}}, "rows[2]: column `age`"),
        ({"context": {"agee": 1, "age": 1}}, "rows[2]: the bandit has no column `agee`"),
        ({"action": "c"}, "rows[2]: `action` must be one of a, b"),
        ({"action": ["a"]}, "rows[2]: `action` must be one of a, b"),
        ({"probability": 0}, "rows[2]"),
        ({"reward": True}, "rows[2]"),
        ({"fild": 1}, "fild"),
        ({"features": [1.0]}, "rows[2]"),
    ],
)
def test_a_row_that_does_not_fit_is_named_and_nothing_changes(server, change, named):
    server.client().create("b", DECLARED)
    some = rows(4)
    some[2] |= change
    before = shown(server, "b")
    status, problem = sent(server, "b", {"public": False, "rows": some})
    assert status == 422
    assert named in problem["detail"]
    if "action" in change:
        assert (problem["index"], problem["column"]) == (2, "action")
    assert shown(server, "b") == before


def test_a_log_must_say_whether_it_is_public(server):
    server.client().create("b", DECLARED)
    assert sent(server, "b", {"rows": rows(4)})[0] == 422
    assert sent(server, "b", {"public": False})[0] == 422
    assert sent(server, "b", {"public": False, "rows": []})[0] == 422
    assert sent(server, "b", {"public": False, "events": [{}]})[0] == 422


def test_who_may_and_for_whom(server):
    client = server.client()
    client.create("b", DECLARED)
    client.create("people", HASHED | {"privacy": {"epsilon": 1, "unit": "person"}})
    client.create("local", {"dim": 2, "privacy": {"epsilon": 1, "trust": "local"}})
    key = client.call("POST", "/v1/keys", {"name": "k", "scopes": ["read", "decide", "learn"]})
    assert sent(server, "b", {"public": True, "rows": rows(4)}, key["secret"])[0] == 403
    assert sent(server, "nowhere", {"public": True, "rows": rows(4)})[0] == 404
    assert sent(server, "local", {"public": True, "rows": rows(4)})[0] == 409
    one = {"rows": [{"action": "x", "context": {"a": 1}, "reward": 1}]}
    status, problem = sent(server, "people", one | {"public": False})
    assert (status, "public" in problem["detail"]) == (422, True)
    assert sent(server, "people", one | {"public": True})[0] == 200


# -- Personalizer's logs ---------------------------------------------------------------------------

EVENT = {
    "_label_cost": -0.75, "_label_probability": 0.8, "_label_Action": 2, "_labelIndex": 1,
    "o": [{"v": 0.75, "EventId": "e"}], "Timestamp": "2024-05-01T10:00:00.0Z", "Version": "1",
    "EventId": "e", "a": [2, 1], "p": [0.8, 0.2], "VWState": {"m": "x/y"},
    "c": {
        "FromUrl": [{"time": "morning"}, {"device": {"kind": "phone"}}],
        "_multi": [
            {"_tag": "sports", "i": {"constant": 1, "id": "sports"}, "j": [{"topic": "sports"}]},
            {"_tag": "politics", "i": {"constant": 1, "id": "politics"}, "j": [{"length": 0.1}]},
        ],
    },
}  # fmt: skip


def test_events__are_the_rows_that_rank_would_have_chosen(server):
    """The same context and action by /rank: token for token the same features."""
    server.client().create("news", HASHED)
    body = HistoryBody(public=False, events=[EVENT])
    definition = parsed(json.dumps(HASHED).encode())
    X, y = read(definition, body)
    live = server.server.live.get("news")
    assert live is None
    server.client().decide("news", {}, actions=["x"])
    offer = server.server.live["news"].features.offer
    request = DecideRequest(
        EVENT["c"]["FromUrl"],
        [{"id": "sports", "features": [{"topic": "sports"}]},
         {"id": "politics", "features": [{"length": 0.1}]}],
    )  # fmt: skip
    assert np.array_equal(X[0], offer(request.context, request.actions).rows[1])
    assert y.tolist() == [0.75]


@pytest.mark.parametrize(
    "change",
    [{"c": None}, {"_label_Action": 9}, {"_label_Action": 0}, {"_label_cost": None},
     {"c": {"_multi": [{}, {}]}}, {"c": {"FromUrl": [None], "_multi": [5, 5]}}],
)  # fmt: skip
def test_events__a_line_that_is_no_decision_counts_for_nothing_alone(server, change):
    server.client().create("news", HASHED)
    body = HistoryBody(public=False, events=[EVENT, EVENT | change, EVENT])
    X, y = read(parsed(json.dumps(HASHED).encode()), body)
    assert np.isnan(y[1]) or np.isnan(X[1]).all()
    assert np.isfinite(X[[0, 2]]).all()
    assert np.array_equal(X[0], X[2])
    sends = {"public": False, "events": [EVENT, {"RewardValue": 1, "EventId": "e"}]}
    assert sent(server, "news", sends) == (200, {"id": "", "rows": 2, "public": False})


def test_a_log_of_raw_rows(server):
    definition = parsed(b'{"dim": 2, "privacy": {"epsilon": null}}')
    items = [HistoryItem(1.0, features=[3.0, 4.0]), HistoryItem(0.0, features=[0.1, 0.2])]
    X, y = read(definition, HistoryBody(public=True, rows=items))
    assert np.allclose(X, [[0.6, 0.8], [0.1, 0.2]])
    assert y.tolist() == [1.0, 0.0]


def test_noise_is_the_servers(server):
    assert not isinstance(server.server.noise, SeededNoise)
    with pytest.raises(ServiceError, match="There is no such bandit"):
        server.client().call("POST", "/v1/bandits/none/history", {"public": True, "rows": rows(2)})
