"""The API as its table says: what each call answers, and what each status means."""

import json
import math
import time

import numpy as np
import pytest

from discreet.service import definitions, learning
from discreet.service.buckets import Buckets
from discreet.service.client import ServiceError
from tests.service.conftest import Running

DECLARED = {
    "context": {"age": {"number": [18, 100]}, "plan": {"category": ["basic", "gold"]}},
    "actions": ["email", "call", "nothing"],
    "reward": {"range": [0, 1]},
    "privacy": {"epsilon": 1.0, "delta": 1e-6},
}
RAW = {"dim": 3, "reward": {"range": [-1, 1]}, "privacy": {"epsilon": None}}
PERSON = {"age": 40, "plan": "gold"}
ROWS = [[0.5, 0.0, 0.1], [0.0, 0.5, -0.1]]


def raised(status: int, kind: str, call) -> ServiceError:
    with pytest.raises(ServiceError) as caught:
        call()
    assert (caught.value.status, caught.value.kind) == (status, kind)
    return caught.value


def test_create_is_201_then_200_and_another_definition_409(running):
    client = running.client()

    def put(definition: dict) -> int:
        return running.request("PUT", "/v1/bandits/b", json.dumps(definition).encode())[0]

    assert put(DECLARED) == 201
    assert put(DECLARED) == 200
    reordered = dict(reversed(DECLARED.items())) | {"horizon": None, "link": "identity"}
    assert put(reordered) == 200
    raised(409, "other-definition", lambda: client.create("b", DECLARED | {"horizon": 10}))


def test_a_definition_is_compared_by_what_it_means(running):
    """Defaults that are written out, other units of time, other orders: the same bandit."""
    client = running.client()
    waiting = DECLARED | {"reward": {"range": [0, 1], "wait": "168h", "default": 0}}
    full = {
        "policy": "auto",
        "link": "identity",
        "horizon": None,
        "privacy": {"unit": "round", "trust": "joint", "delta": 1e-6, "epsilon": 1},
        "reward": {"typical_reward": None, "default": 0.0, "wait": "7d", "range": [0.0, 1.0]},
        "actions": DECLARED["actions"],
        "context": dict(reversed(DECLARED["context"].items())),
    }
    client.create("b", waiting)
    assert running.request("PUT", "/v1/bandits/b", json.dumps(full).encode())[0] == 200
    shown = client.bandit("b")["definition"]
    assert {name: shown[name] for name in full} == full | {
        "privacy": shown["privacy"] | full["privacy"]
    }
    people = RAW | {"privacy": {"epsilon": None, "unit": "person"}}
    client.create("p", people)
    people["privacy"] |= {"visits": "first"}
    assert running.request("PUT", "/v1/bandits/p", json.dumps(people).encode())[0] == 200


def test_a_definition_states_a_typical_reward():
    def reads(reward: dict) -> tuple[float | None, float]:
        definition = definitions.parsed(json.dumps(DECLARED | {"reward": reward}).encode())
        made = definitions.learner(definition)
        return made.model.typical_reward, made.belief.intercept_std

    assert reads({"range": [0, 1]}) == (None, 1.0)
    assert reads({"range": [0, 1], "typical_reward": None}) == (None, 1.0)
    assert reads({"range": [0, 1], "typical_reward": 0.25}) == (0.25, 0.5)


def test_rounds_are_those_that_were_decided(running):
    client = running.client()
    client.create("b", DECLARED)
    for i in range(12):
        assert client.bandit("b")["rounds"] == i
        client.decide("b", PERSON)
    client.decide_many("b", [PERSON] * 30)
    assert client.call("GET", "/v1/bandits")["bandits"][0]["rounds"] == 42


@pytest.mark.parametrize(
    "body",
    [
        {"contex": PERSON},
        {"context": PERSON, "actoins": ["call"]},
        {"context": PERSON, "actions": ["call", "call"]},
        {"context": PERSON, "contexts": [PERSON]},
        {"contexts": [PERSON], "requests": [{"context": PERSON}]},
        {"requests": [{"context": PERSON, "actoins": ["call"]}]},
        {"requests": [{"context": PERSON}], "actions": ["call"]},
        {"contexts": [PERSON], "id": "one for all"},
    ],
)
def test_a_request_to_decide_that_means_two_things_or_nothing_is_422(running, body):
    client = running.client()
    client.create("b", DECLARED)
    raised(422, "invalid", lambda: client.call("POST", "/v1/bandits/b/decide", body))
    assert client.bandit("b")["rounds"] == 0


def test_a_definition_without_privacy_is_refused(running):
    definition = {name: each for name, each in DECLARED.items() if name != "privacy"}
    raised(422, "invalid", lambda: running.client().create("b", definition))


@pytest.mark.parametrize(
    "change",
    [
        {"privacy": {"epsilon": -1}},
        {"privacy": {"epsilon": 1, "delta": 2}},
        {"privacy": {}},
        {"privacy": {"epsilon": 1, "visits": "all"}},
        {"privacy": {"epsilon": 1, "unit": "person", "contributions": 2}},
        {"reward": {"range": [1, 0]}},
        {"reward": {"range": [-1e308, 1e308]}},
        {"reward": {"range": [0, 1], "default": 0}},
        {"reward": {"range": [0, 1], "wait": "soon"}},
        {"reward": {"range": [0, 1], "typical_reward": 0}},
        {"reward": {"range": [0, 1], "typical_reward": 1.5}},
        {"reward": {"range": [0, 1], "typical_reward": 0.1}, "link": "logistic"},
        {"actions": []},
        {"actions": ["a", "a"]},
        {"dim": 3},
        {"link": "cosine"},
        {"policy": "best"},
        {"horizon": 0},
        {"more": 1},
        {"context": {"age": {}}},
        {"context": {"age": {"number": [1, 1]}}},
        {"features": {"hashed": 1}, "context": None},
    ],
)
def test_a_definition_that_cannot_be_served_is_422(running, change):
    raised(422, "invalid", lambda: running.client().create("b", DECLARED | change))
    assert running.client().call("GET", "/v1/bandits")["bandits"] == []


def test_a_decision_has_an_action_a_probability_and_a_policy(running):
    client = running.client()
    client.create("b", DECLARED)
    made = client.decide("b", PERSON)
    assert made.action in DECLARED["actions"]
    assert made.probability == pytest.approx(1 / 3)
    assert made.policy == 1
    some = client.decide("b", PERSON, actions=["call"])
    assert (some.action, some.probability) == ("call", 1.0)


def test_raw_rows_are_chosen_by_place(running):
    client = running.client()
    client.create("b", RAW)
    assert client.decide("b", features=ROWS).action in (0, 1)


def test_hashed_features_take_any_json(running):
    client = running.client()
    client.create("b", {"features": {"hashed": 16}, "privacy": {"epsilon": 1.0}})
    made = client.decide(
        "b",
        {"time": {"hour": 7}, "tags": ["a", "b"], "old": True},
        actions=["plain", {"id": "rich", "price": 3, "size": "xl"}],
    )
    assert made.action in ("plain", "rich")


def test_many_requests_get_many_decisions_in_order(running):
    client = running.client()
    client.create("b", DECLARED)
    made = client.decide_many("b", [PERSON] * 500)
    assert len(made) == len({each.decision for each in made}) == 500
    requests = [{"context": PERSON, "actions": [name]} for name in ("call", "email")]
    reply = client.call("POST", "/v1/bandits/b/decide", {"requests": requests})
    assert [each["action"] for each in reply["decisions"]] == ["call", "email"]


def test_a_reward_counts_once(running):
    client = running.client()
    client.create("b", RAW)
    made = client.decide("b", features=ROWS)
    assert client.learn("b", made, 0.5) == "counted"
    assert client.learn("b", made, 0.5) == "duplicate"
    assert client.learn("b", made, -0.5) == "duplicate"


def test_a_bad_item_is_invalid_and_the_others_count(running):
    client = running.client()
    client.create("b", RAW)
    first, second, third = (client.decide("b", features=ROWS) for _ in range(3))
    items = [(first, 0.5), (second, 2.0), (third, 0.1), (first, 0.2), ("dt1.nonsense", 0.2)]
    statuses = client.learn_many("b", items)
    assert statuses == ["counted", "invalid", "counted", "duplicate", "unknown"]
    assert client.learn("b", second, 0.3) == "counted"


def test_an_item_that_is_no_object_is_invalid_alone(running):
    client = running.client()
    client.create("b", RAW)
    made = client.decide("b", features=ROWS)
    good = {"decision": made.decision, "reward": 0.5}
    for bad in (4, None, "x", [good], {"decision": made.decision}):
        body = {"rewards": [bad, good, bad]}
        reply = client.call("POST", "/v1/bandits/b/learn", body)
        assert reply["statuses"][::2] == ["invalid", "invalid"]
        assert reply["statuses"][1] in ("counted", "duplicate")


@pytest.mark.parametrize("reward", [2.0, "1", None, True, [1], 10**400])
def test_a_single_reward_out_of_range_is_422_and_changes_nothing(running, reward):
    client = running.client()
    client.create("b", RAW)
    made = client.decide("b", features=ROWS)
    body = {"decision": made.decision, "reward": reward}
    error = raised(422, "invalid", lambda: client.call("POST", "/v1/bandits/b/learn", body))
    assert "2.0" not in str(error)
    assert client.learn("b", made, 0.5) == "counted"


def test_tokens_of_other_bandits_are_unknown(running):
    client = running.client()
    client.create("b", RAW)
    client.create("c", RAW)
    assert client.learn("c", client.decide("b", features=ROWS), 0.5) == "unknown"


def test_a_reward_after_its_wait_is_late(running):
    client = running.client()
    client.create("b", RAW | {"reward": {"range": [-1, 1], "wait": "1s"}})
    made, other = client.decide("b", features=ROWS), client.decide("b", features=ROWS)
    assert client.learn("b", other, 0.5) == "counted"
    time.sleep(1.1)
    assert client.learn("b", made, 0.5) == "late"
    assert client.learn("b", other, 0.5) == "late"  # whatever came before


def test_past_the_horizon_decisions_go_on_and_rewards_are_closed(running):
    client = running.client()
    client.create("b", RAW | {"horizon": 40})
    for _ in range(40):
        client.learn("b", client.decide("b", features=ROWS), 0.5)
    made = client.decide("b", features=ROWS)
    assert client.learn("b", made, 0.5) == "closed"
    assert client.bandit("b")["learning"] is False


def test_a_retired_bandit_decides_and_does_not_learn(running):
    client = running.client()
    client.create("b", RAW)
    before = client.decide("b", features=ROWS)
    assert client.call("DELETE", "/v1/bandits/b")["retired"] is True
    assert client.call("DELETE", "/v1/bandits/b")["retired"] is True
    assert client.learn("b", before, 0.5) == "closed"
    assert client.learn("b", client.decide("b", features=ROWS), 0.5) == "closed"
    raised(409, "other-definition", lambda: client.create("b", DECLARED))


def test_the_same_id_gets_the_same_decision_and_another_request_409(running):
    client = running.client()
    client.create("b", DECLARED)
    made = client.decide("b", PERSON, id="order 1")
    assert client.decide("b", PERSON, id="order 1") == made
    raised(409, "id-taken", lambda: client.decide("b", {"age": 41, "plan": "gold"}, id="order 1"))
    assert client.learn("b", "order 1", 1.0) == "counted"
    assert client.learn("b", "order 1", 1.0) == "duplicate"
    assert client.learn("b", made, 1.0) == "duplicate"
    assert client.learn("b", "order 2", 1.0) == "unknown"
    raised(422, "invalid", lambda: client.decide("b", PERSON, id="dt1.mine"))


def test_a_decision_that_is_kept_can_be_rewarded_by_any_server_after_any_restart(store, tmp_path):
    """Named decisions were `unknown` to every run but the one that had made them."""
    server = Running(tmp_path, store=store)
    server.client().create("b", DECLARED)
    server.client().decide("b", PERSON, id="order 1")
    server.stop()
    server = Running(tmp_path, store=store)
    try:
        assert server.client().learn("b", "order 1", 1.0) == "counted"
        assert server.client().learn("b", "order 1", 1.0) == "duplicate"
    finally:
        server.stop()


def test_a_default_reward_counts_when_nothing_came(running):
    client = running.client()
    reward = {"range": [-1, 1], "wait": "1s", "default": -1}
    client.create("b", RAW | {"reward": reward})
    made, paid = client.decide("b", features=ROWS), client.decide("b", features=ROWS)
    assert client.learn("b", paid, 1.0) == "counted"
    assert client.learn("b", paid, -1.0) == "duplicate"
    time.sleep(3.0)
    assert client.learn("b", made, 1.0) == "late"
    assert client.learn("b", paid, 1.0) == "late"  # nothing says which of the two was paid


def test_without_privacy_counts_and_sums_are_exact(running):
    client = running.client()
    client.create("b", RAW)
    size = client.bandit("b")["window"]["rounds"]
    rng = np.random.default_rng(0)
    sent = []
    for i in range(size):
        made = client.decide("b", features=ROWS)
        if i % 3:
            sent.append(float(rng.uniform(-1, 1)))
            assert client.learn("b", made, sent[-1]) == "counted"
    client.decide("b", features=ROWS)
    (release,) = client.releases("b")
    assert (release["window"], release["rounds"]) == (1, size)
    assert release["count"] == pytest.approx(len(sent), abs=1e-9)
    assert release["sum"] == pytest.approx(math.fsum(sent), abs=1e-9)


def test_the_policy_has_an_etag_that_changes_with_it(running):
    client = running.client()
    client.create("b", RAW)

    def get(tag: str = ""):
        status, headers, _ = running.request("GET", "/v1/bandits/b/policy", If_None_Match=tag)
        return status, headers["etag"]

    status, tag = get()
    assert status == 200
    assert get(tag) == (304, tag)
    for _ in range(client.bandit("b")["window"]["rounds"] + 1):
        client.decide("b", features=ROWS)
    assert get(tag)[0] == 200


def test_people_are_counted_once_in_their_life_and_the_answer_does_not_tell(running):
    client = running.client()
    privacy = {"epsilon": None, "unit": "person"}
    client.create("b", RAW | {"privacy": privacy})
    size = client.bandit("b")["window"]["rounds"]
    raised(422, "invalid", lambda: client.decide("b", features=ROWS))
    for i in range(size):
        made = client.decide("b", features=ROWS, person=f"person {i % 4}")
        assert client.learn("b", made, 0.5) == "accepted"
    client.decide("b", features=ROWS, person="next")
    assert client.releases("b")[0]["count"] == pytest.approx(4, abs=1e-9)


def test_populations_refuse_what_they_cannot_pay_and_say_who_holds_it(running):
    client = running.client()
    client.call("PUT", "/v1/populations/customers", {"epsilon": 1.4, "delta": 1e-6})
    private = {"epsilon": 1.0, "delta": 1e-6, "population": "customers"}
    client.create("one", DECLARED | {"privacy": private})
    error = raised(
        409, "budget-exhausted", lambda: client.create("two", DECLARED | {"privacy": private})
    )
    assert error.more["held_by"][0]["bandit"] == "one"
    assert error.more["excess"] == pytest.approx(error.more["wanted"]["epsilon"] - 1.4)
    assert error.more["excess"] > 0
    small = private | {"epsilon": 0.8}
    client.create("two", DECLARED | {"privacy": small})
    shown = client.call("GET", "/v1/populations/customers")
    assert [each["bandit"] for each in shown["bandits"]] == ["one", "two"]
    assert shown["spent"]["epsilon"] < 1.4
    raised(
        409,
        "limit-below-spent",
        lambda: client.call("PUT", "/v1/populations/customers", {"epsilon": 1.0, "delta": 1e-6}),
    )
    client.call("DELETE", "/v1/bandits/one")  # charges stay for ever
    raised(409, "budget-exhausted", lambda: client.create("three", DECLARED | {"privacy": private}))
    off = DECLARED | {"privacy": {"epsilon": None, "population": "customers"}}
    raised(409, "budget-exhausted", lambda: client.create("four", off))


def test_unknown_names_are_404(running):
    client = running.client()
    for method, path in [
        ("GET", "/v1/bandits/none"),
        ("POST", "/v1/bandits/none/decide"),
        ("POST", "/v1/bandits/none/learn"),
        ("GET", "/v1/bandits/none/policy"),
        ("GET", "/v1/bandits/none/guarantee"),
        ("GET", "/v1/bandits/none/releases"),
        ("DELETE", "/v1/bandits/none"),
        ("GET", "/v1/populations/none"),
        ("DELETE", "/v1/keys/none"),
        ("GET", "/nowhere"),
    ]:
        body = {} if method == "POST" else None
        raised(404, "not-found", lambda m=method, p=path, b=body: client.call(m, p, b))


def test_health_readiness_metrics_and_documents_need_no_key(running):
    client = running.client("")
    running.client().create("b", RAW)
    assert client.call("GET", "/healthz") == {"status": "ok"}
    assert client.call("GET", "/readyz") == {"status": "ok", "alarms": []}
    document = client.call("GET", "/openapi.json")
    assert "/v1/bandits/{name}/decide" in document["paths"]
    status, headers, _ = running.request("GET", "/v1/bandits", Authorization="")
    assert (status, headers["www-authenticate"]) == (401, "Bearer")
    assert running.request("GET", "/v1/bandits/")[0] == 404  # one path for each thing
    assert running.request("GET", "/metrics", Authorization="")[0] == 401
    for path in ("/docs", "/"):
        status, _, text = running.request("GET", path, Authorization="")
        assert status == 200
        assert b"discreet" in text


@pytest.mark.parametrize("body", [b"", b"{", b"\xff\xfe", b"[1]", b"null", b"[" * 100_000, b'"x"'])
def test_what_is_not_a_json_object_is_refused(running, body):
    client = running.client()
    client.create("b", RAW)
    for path in ("decide", "learn"):
        status, headers, _ = running.request("POST", f"/v1/bandits/b/{path}", body)
        assert status in (400, 422)
        assert headers["content-type"] == "application/problem+json"


def test_many_ids_take_turns_and_the_folder_is_listed_once_for_each(tmp_path, monkeypatch):
    """An id is looked up under every key: nobody waits for thousands of them."""
    server = Running(tmp_path)
    try:
        client = server.client()
        client.create("b", RAW)
        known = f"id{learning.IDS_AT_ONCE + 7}"  # in the second piece, and again in the third
        client.decide("b", features=ROWS, id=known)
        listed, sizes = [], []
        alive, commit = Buckets._alive, learning._commit

        def listing(buckets):
            listed.append(1)
            return alive(buckets)

        def committing(server, name, payloads):
            sizes.append(sum(len(some) for some in payloads))
            return commit(server, name, payloads)

        monkeypatch.setattr(Buckets, "_alive", listing)
        monkeypatch.setattr(learning, "_commit", committing)
        ids = [f"id{i}" for i in range(2 * learning.IDS_AT_ONCE)] + [known]
        sent = {"rewards": [{"decision": each, "reward": 1} for each in ids]}
        statuses = client.call("POST", "/v1/bandits/b/learn", sent)["statuses"]
        assert sizes == [learning.IDS_AT_ONCE, learning.IDS_AT_ONCE, 1]
        assert len(listed) < 10  # the sweeper looks too
        expected = ["unknown"] * len(ids)
        expected[ids.index(known)] = "counted"
        expected[-1] = "duplicate"
        assert statuses == expected
        assert client.call("POST", "/v1/bandits/b/learn", {"rewards": []})["statuses"] == []
    finally:
        server.stop()
