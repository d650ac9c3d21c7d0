"""Local trust over HTTP: public policies, and reports that count once."""

import http.client
import json
import math
import secrets
import threading

import numpy as np
import pytest
from scipy.stats import norm

from discreet.bandits import Device, LocalServer, Promise, PublicPolicy
from discreet.local import Report
from discreet.privacy import SeededNoise
from discreet.service import definitions, devices, offers
from discreet.service.client import ServiceError
from discreet.service.errors import Problem
from discreet.service.restoring import backup, restore
from tests.service.conftest import ADMIN, Running, free_port
from tests.service.processes import Parent

DEFINITION = {
    "context": {"age": {"number": [18, 90]}},
    "actions": ["email", "call"],
    "reward": {"range": [0, 1]},
    "privacy": {"epsilon": 2.0, "trust": "local"},
}
ROWS = {"dim": 2, "reward": {"range": [0, 1]}, "privacy": {"epsilon": 8.0, "trust": "local"}}


def policy(server, name="ads"):
    """What a device reads: no key."""
    status, headers, body = server.request("GET", f"/v1/bandits/{name}/policy", Authorization="")
    assert status == 200
    return json.loads(body), headers


def report(document, seed=0, reward=1.0):
    """What a device sends for one round, made by the library's own device."""
    public = PublicPolicy.from_dict(document)
    device = Device(public, Promise(epsilon=100.0), seed=seed, noise=SeededNoise(seed))
    decision = device.decide(np.random.default_rng(seed).standard_normal((3, public.dim)))
    made = device.report(decision, reward)
    return {
        "id": np.random.default_rng([seed, 9]).bytes(16).hex(),
        "policy": f"{document['epoch']}-{document['version']}",
        "question": made.question,
        "values": public.channels[made.question].encode(made.values).ravel().tolist(),
    }


def send(server, body, name="ads", **headers):
    status, _, raw = server.request(
        "POST", f"/v1/bandits/{name}/reports", json.dumps(body).encode(), **headers
    )
    assert status == 200, raw
    return json.loads(raw).get("status") or json.loads(raw)["statuses"]


@pytest.fixture
def both(running):
    """On SQLite and on PostgreSQL."""
    running.client().create("ads", DEFINITION)
    return running


@pytest.fixture
def alone(tmp_path):
    server = Running(tmp_path)
    yield server
    server.stop()


@pytest.fixture
def made(alone):
    alone.client().create("ads", DEFINITION)
    return alone


def test_policy__is_public_cacheable_and_enough_for_a_device(made):
    document, headers = policy(made)
    assert headers["etag"] == f'"{document["epoch"]}-{document["version"]}"'
    assert headers["cache-control"] == "public, max-age=5"
    assert headers["access-control-allow-origin"] == "*"
    assert document["features"]["columns"] == [{"name": "age", "number": [18.0, 90.0]}]
    assert [each["name"] for each in document["features"]["actions"]] == ["email", "call"]
    assert set(document["channels"]) == {"gram", "moment", "square"}
    moment = PublicPolicy.from_dict(document).channels["moment"]
    assert moment.thresholds == document["channels"]["moment"]
    again = made.request(
        "GET", "/v1/bandits/ads/policy", Authorization="", If_None_Match=headers["etag"]
    )
    assert (again[0], again[2]) == (304, b"")


def test_policy__says_how_rows_are_made():
    """Parts times (1, context) is the row of the library's own map, in the stored order."""
    definition = {
        "context": {"plan": {"category": ["a", "b"], "other": True}, "age": {"number": [0, 10]}},
        "actions": {"x": {"price": 1.0}, "y": {"price": 3.0}},
        "action_features": {"price": {"number": [0, 4]}},
        "privacy": {"epsilon": 1.0, "trust": "local"},
    }
    parsed = definitions.parsed(json.dumps(definition).encode())
    parsed = definitions.parsed(parsed.normalised())
    described = devices.features(parsed)
    assert [each["name"] for each in described["columns"]] == ["age", "plan"]
    expected = offers.features(parsed).map({"age": 7.5, "plan": "z"})
    made = [
        np.outer(action["parts"], [1.0, 0.5, 0.0, 0.0, 1.0]).ravel()
        for action in described["actions"]
    ]
    assert np.array_equal(made, expected)


def test_policy__of_joint_trust_needs_a_key_and_says_nothing_about_names(made):
    joint = {**DEFINITION, "privacy": {"epsilon": 1.0}}
    made.client().create("secret", joint)
    there = made.request("GET", "/v1/bandits/secret/policy", Authorization="")
    missing = made.request("GET", "/v1/bandits/nothing/policy", Authorization="")
    assert there[0] == missing[0] == 401
    assert there[2] == missing[2]
    assert made.request("GET", "/v1/bandits/secret/policy")[0] == 200


def test_report__counts_once_whatever_is_retried(both):
    made = both
    document, _ = policy(made)
    one, two = report(document, 1), report(document, 2)
    assert send(made, one, Authorization="") == "counted"
    assert send(made, one) == "duplicate"
    assert send(made, {"reports": [one, two, two]}) == ["duplicate", "counted", "duplicate"]
    shown = made.client().bandit("ads")
    assert shown["reports"] == {"taken": 2, "refused": 0}
    assert (shown["rounds"], shown["window"]["leased"]) == (2, 2)


BAD = {
    "no fields": {},
    "bare record": {"values": [3, 1, 4, 1]},
    "another question": {"question": "income"},
    "too long": {"values": [0] * 400},
    "huge numbers": {"values": [10**30] * 4},
    "floats": {"values": [0.5, 0.5, 0.5, 0.5]},
    "booleans": {"values": [True] * 4},
    "an id that is none": {"id": "x"},
    "an id in capitals": {"id": "AB" * 16},
    "values missing": {"values": None},
}


def test_report__that_no_device_could_have_sent_is_left_out_alone_and_counted(made):
    document, _ = policy(made)
    good = next(r for r in (report(document, s) for s in range(50)) if r["question"] == "moment")
    wrong = [{**good, "id": secrets.token_hex(16), **each} if each else {} for each in BAD.values()]
    statuses = send(made, {"reports": [*wrong, good]})
    assert dict(zip([*BAD, "good"], statuses, strict=True)) == dict.fromkeys(BAD, "invalid") | {
        "good": "counted"
    }
    assert send(made, wrong[1]) == "invalid"
    assert made.client().bandit("ads")["reports"] == {"taken": 1, "refused": len(BAD) + 1}


def test_report__of_another_policy_is_closed(made):
    document, _ = policy(made)
    for tag in ("", "0-1", f"{document['epoch']}-2"):
        assert send(made, {**report(document), "policy": tag}) == "closed"
    assert made.client().bandit("ads")["reports"] == {"taken": 0, "refused": 0}


def test_report__that_fills_a_window_publishes_the_next_policy(running):
    running.client().create("ads", ROWS)
    document, _ = policy(running)
    size = running.client().bandit("ads")["window"]["rounds"]
    sent = [report(document, seed) for seed in range(size + 3)]
    statuses = send(running, {"reports": sent})
    assert statuses == ["counted"] * size + ["closed"] * 3
    after, _ = policy(running)
    assert (after["window"], after["version"]) == (1, 2)
    assert after["theta"] != document["theta"]
    assert send(running, sent[0]) == "closed"
    assert send(running, report(after, 9)) == "counted"
    shown = running.client().bandit("ads")
    assert (shown["rounds"], shown["policy"], shown["reports"]["taken"]) == (size + 1, 2, size + 1)
    (release,) = running.client().releases("ads")
    assert release["count"] == release["rounds"] == size
    assert len(release["sum"]["moment"]) == 2


def test_report__the_service_learns_what_the_library_would(alone):
    """The same reports through HTTP and through a LocalServer: the same policy, bit by bit."""
    running = alone
    running.client().create("ads", {**ROWS, "policy": "greedy"})
    document, _ = policy(running)
    server = LocalServer(2, 8.0, policy="greedy", reward_range=(0.0, 1.0))
    size = server.size(0)
    sent = [report(document, seed) for seed in range(size)]
    assert set(send(running, {"reports": sent})) == {"counted"}
    for each in sent:
        codes = np.array(each["values"])
        channel = server.policy.channels[each["question"]]
        values = channel.decode(codes if each["question"] == "scale" else codes[None])
        assert server.take(Report(0, each["question"], values))
    server.close()
    assert server.full is False
    assert policy(running)[0]["theta"] == server.policy.theta.tolist()


def test_report__any_replica_takes_and_none_counts_twice(postgresql, tmp_path):
    name = postgresql.new()
    two = [Running(tmp_path, store=postgresql.url(name)) for _ in range(2)]
    try:
        two[0].client().create("ads", ROWS)
        document, _ = policy(two[1])
        size = two[0].client().bandit("ads")["window"]["rounds"]
        sent = [report(document, seed) for seed in range(size)]
        counted = []

        def deliver(server):
            for start in range(0, size, 7):
                counted.append(send(server, {"reports": sent[start : start + 7]}))

        threads = [threading.Thread(target=deliver, args=(server,)) for server in two]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        flat = [status for each in counted for status in each]
        assert flat.count("counted") == size
        assert {server.client().bandit("ads")["policy"] for server in two} == {2}
    finally:
        for server in two:
            server.stop()
        postgresql.drop(name)


def test_report__survives_a_restart(tmp_path):
    first = Running(tmp_path)
    first.client().create("ads", DEFINITION)
    document, _ = policy(first)
    sent = report(document)
    assert send(first, sent) == "counted"
    first.stop()
    second = Running(tmp_path)
    try:
        assert send(second, sent) == "duplicate"
        assert second.client().bandit("ads")["reports"]["taken"] == 1
    finally:
        second.stop()


def test_report__a_failed_commit_acknowledges_and_keeps_nothing(both, monkeypatch):
    made = both
    document, _ = policy(made)
    sent = report(document)

    def fails(*_):
        raise OSError("no space left")

    with monkeypatch.context() as patch:
        patch.setattr(devices.Devices, "save", fails)
        status, _, _ = made.request("POST", "/v1/bandits/ads/reports", json.dumps(sent).encode())
        assert status == 503
    assert made.client().bandit("ads")["reports"]["taken"] == 0
    assert send(made, sent) == "counted"


def test_report__after_a_restore_the_window_goes_on_under_another_name(tmp_path):
    first = Running(tmp_path)
    first.client().create("ads", DEFINITION)
    document, _ = policy(first)
    assert send(first, report(document, 1)) == "counted"
    copy = tmp_path / "copy.db"
    backup(first.settings, copy)
    assert send(first, report(document, 2)) == "counted"
    first.stop()
    for suffix in ("", "-wal", "-shm"):
        (tmp_path / f"store.db{suffix}").unlink(missing_ok=True)
    copy.rename(tmp_path / "store.db")
    restore(first.settings)
    second = Running(tmp_path)
    try:
        after, _ = policy(second)
        assert after["theta"] == document["theta"]
        assert send(second, report(document, 3)) == "closed"
        assert send(second, report(after, 1)) == "duplicate"
        assert send(second, report(after, 3)) == "counted"
        assert second.client().bandit("ads")["reports"]["taken"] == 2
    finally:
        second.stop()


def test_local__decides_and_learns_on_devices_only(made):
    client = made.client()
    with pytest.raises(ServiceError) as caught:
        client.decide("ads", {"age": 40})
    assert caught.value.kind == "devices-decide"
    with pytest.raises(ServiceError) as caught:
        client.learn("ads", "dt1.x", 1.0)
    assert caught.value.kind == "devices-decide"
    client.create("joint", {**DEFINITION, "privacy": {"epsilon": 1.0}})
    status, _, body = made.request("POST", "/v1/bandits/joint/reports", b"{}")
    assert (status, json.loads(body)["type"]) == (409, "urn:discreet:problem:no-reports")


def test_local__a_retired_bandit_takes_no_more_and_tells_devices_to_send_none(both):
    document, headers = policy(both)
    assert document["learning"] is True
    both.client().call("DELETE", "/v1/bandits/ads")
    assert send(both, report(document)) == "closed"
    status, retired, body = both.request(
        "GET", "/v1/bandits/ads/policy", Authorization="", If_None_Match=headers["etag"]
    )
    assert status == 200  # who holds the policy hears of it
    assert json.loads(body) == {**document, "learning": False}  # decisions go on
    assert retired["etag"] != headers["etag"]


def test_local__promise_is_pure_and_charged_as_such(made):
    client = made.client()
    promise = client.guarantee("ads")
    assert (promise["epsilon"], promise["delta"], promise["trust"]) == (2.0, 0.0, "local")
    assert any("storage" in each for each in promise["unprotected"])
    shared = {**DEFINITION, "privacy": {**DEFINITION["privacy"], "population": "people"}}
    client.create("shared", shared)
    (held,) = client.call("GET", "/v1/populations/people")["bandits"]
    assert held["mu"] == pytest.approx(-2 * norm.ppf(1 / (1 + math.exp(2))))


REFUSED = {
    "no epsilon": {"privacy": {"epsilon": None, "trust": "local"}},
    "delta": {"privacy": {"epsilon": 1.0, "trust": "local", "delta": 1e-5}},
    "unit": {"privacy": {"epsilon": 1.0, "trust": "local", "unit": "person"}},
    "wait": {"reward": {"range": [0, 1], "wait": "1d"}},
    "typical_reward": {"reward": {"range": [0, 1], "typical_reward": 0.1}},
    "horizon": {"horizon": 1000},
    "link": {"link": "logistic"},
    "policy": {"policy": "squarecb"},
    "hashed": {"context": None, "features": {"hashed": 8}},
    "many columns": {"context": None, "actions": None, "dim": 200},
}


@pytest.mark.parametrize("name", REFUSED)
def test_local__what_a_server_of_local_trust_cannot_do_is_refused(name):
    definitions.parsed(json.dumps(DEFINITION).encode())
    with pytest.raises(Problem, match="not valid"):
        definitions.parsed(json.dumps({**DEFINITION, **REFUSED[name]}).encode())


def test_keys__a_report_key_is_checked_where_one_is_sent(made):
    document, _ = policy(made)
    client = made.client()
    for scope, allowed in (("report", True), ("learn", False)):
        key = client.call("POST", "/v1/keys", {"name": "k", "scopes": [scope]})["secret"]
        status, _, _ = made.request(
            "POST", "/v1/bandits/ads/reports", json.dumps(report(document)).encode(),
            Authorization=f"Bearer {key}",
        )  # fmt: skip
        assert (status == 200) == allowed
    assert (
        made.request("POST", "/v1/bandits/ads/reports", b"{}", Authorization="Bearer no")[0] == 401
    )


def sent(server, many, **headers):
    """Status and problem of a call with these reports."""
    raw = json.dumps({"reports": many}).encode()
    status, _, reply = server.request("POST", "/v1/bandits/ads/reports", raw, **headers)
    return status, json.loads(reply)


def test_strangers__an_address_does_not_fill_a_window_with_what_it_makes_up(tmp_path):
    """...in one call or in many: without a key a tenth of a window, at once and in each hour."""
    server = Running(tmp_path, public_share=0.1)
    try:
        client = server.client()
        client.create("ads", ROWS)  # a window of 20
        document, _ = policy(server)
        some = [report(document, seed) for seed in range(30)]
        assert sent(server, some[:20], Authorization="")[0] == 422
        assert sent(server, some[:2], Authorization="")[1] == {"statuses": ["counted"] * 2}
        status, problem = sent(server, some[2:3], Authorization="")
        assert (status, problem["type"]) == (429, "urn:discreet:problem:too-many-requests")
        # Another address has its own share; within the hour the first has one again.
        away = {"Authorization": "", "X-Forwarded-For": "192.0.2.7"}
        assert sent(server, some[2:4], **away)[0] == 200
        (address,) = (each for each in server.server.senders["ads"][1]._spent if "127" in each)
        spent, at = server.server.senders["ads"][1]._spent[address]
        server.server.senders["ads"][1]._spent[address] = spent, at - 1800
        assert sent(server, some[4:5], Authorization="")[0] == 200
        assert client.bandit("ads")["policy"] == 1
        key = client.call("POST", "/v1/keys", {"name": "app", "scopes": ["report"]})["secret"]
        assert sent(server, some[5:20], Authorization=f"Bearer {key}")[0] == 200
        assert client.bandit("ads")["policy"] == 2
        later = report(policy(server)[0], 99)
        assert sent(server, [later], Authorization="")[0] == 200  # the next window, the next share
    finally:
        server.stop()


def test_strangers__send_no_reports_where_these_need_a_key(tmp_path):
    server = Running(tmp_path, public_share=0.0)
    try:
        server.client().create("ads", ROWS)
        document, _ = policy(server)
        assert sent(server, [report(document)], Authorization="")[0] == 401
        assert sent(server, [report(document)])[0] == 200
    finally:
        server.stop()


def test_learn__a_sealed_token_is_authority_enough_and_an_id_is_not(alone):
    running = alone
    client = running.client()
    client.create("joint", {**DEFINITION, "privacy": {"epsilon": 1.0}})
    token = client.decide("joint", {"age": 30}).decision
    client.decide("joint", {"age": 30}, id="visit-1")

    def learn(body):
        status, headers, raw = running.request(
            "POST", "/v1/bandits/joint/learn", json.dumps(body).encode(), Authorization=""
        )
        assert headers["access-control-allow-origin"] == "*"
        return status, json.loads(raw)

    assert learn({"decision": "visit-1", "reward": 1})[0] == 401
    assert learn({"rewards": [{"decision": token, "reward": 1}, {"decision": "visit-1"}]})[0] == 401
    assert learn({"decision": token, "reward": 1}) == (200, {"status": "counted"})
    assert learn({"decision": token, "reward": 1}) == (200, {"status": "duplicate"})
    forged = token[:-4] + "AAAA"
    assert learn({"decision": forged, "reward": 1}) == (200, {"status": "unknown"})
    assert running.request("POST", "/v1/bandits/joint/decide", b"{}", Authorization="")[0] == 401


def test_dashboard__shows_a_bandit_under_local_trust(made):
    token = made.app.state.dashboard.sessions.link("admin")
    _, headers, _ = made.request("GET", f"/enter/{token}")
    cookie = headers["set-cookie"].partition(";")[0]
    for path in ("/", "/bandits/ads"):
        status, _, page = made.request("GET", path, Cookie=cookie)
        assert status == 200, page
        assert b"ads" in page


def test_report__what_was_acknowledged_survives_kill_9_and_counts_once(tmp_path):
    """Two kills at arbitrary moments; then every device sends the same bytes again."""
    parent = Parent(tmp_path, ADMIN)
    try:
        place = f"sqlite:///{tmp_path}/store.db", tmp_path / "secrets"
        child = parent.server(*place, free_port())
        with child.client() as client:
            client.create("ads", DEFINITION)
            document = client.call("GET", "/v1/bandits/ads/policy")
        sent = [report(document, seed) for seed in range(40)]
        counted = set()
        for kill in range(2):
            killer = threading.Timer(0.02 + 0.05 * kill, child.kill)
            killer.start()
            with child.client() as client:
                for each in sent:
                    try:
                        raw = json.dumps(each).encode()
                        status, _, body = client._send("POST", "/v1/bandits/ads/reports", raw)
                    except (OSError, http.client.HTTPException):
                        break
                    told = json.loads(body)["status"]
                    assert status == 200
                    assert told == ("duplicate" if each["id"] in counted else told)
                    counted.add(each["id"])
            killer.join()
            child = parent.server(*place, free_port())
        with child.client() as client:
            again = client.call("POST", "/v1/bandits/ads/reports", {"reports": sent})["statuses"]
            for each, status in zip(sent, again, strict=True):
                assert status == "duplicate" or each["id"] not in counted
            assert client.bandit("ads")["reports"] == {"taken": len(sent), "refused": 0}
        child.stop()
    finally:
        parent.close()
