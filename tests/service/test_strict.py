"""What was not declared is refused by its name, on every route, or ignored where that is stated."""

import json

import numpy as np
import pytest

from discreet.features import Category, FeatureMap, Number
from discreet.service.api import CALLS, PERSONALIZER
from discreet.service.client import ServiceError
from discreet.service.definitions import parsed
from discreet.service.offers import features
from tests.service.conftest import ADMIN, Running

SECRET = "a-value-that-nobody-may-repeat"
DEFINITION = {
    "context": {"age": {"number": [18, 100]}, "plan": {"category": ["basic", "gold", 1]}},
    "actions": ["email", "call"],
    "privacy": {"epsilon": None},
}
FITS = {"age": 40, "plan": "gold"}


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    made = Running(tmp_path_factory.mktemp("strict"), personalizer="any")
    client = made.client()
    client.create("b", DEFINITION)
    client.create("ignores", DEFINITION | {"unknown": "ignore"})
    client.create("people", DEFINITION | {"privacy": {"epsilon": 1, "unit": "person"}})
    client.create("raw", {"dim": 2, "privacy": {"epsilon": None}})
    client.create("any", {"features": {"hashed": 8}, "privacy": {"epsilon": None}})
    local = {"epsilon": 1, "trust": "local"}
    client.create("local", {"dim": 2, "privacy": local})
    yield made
    made.stop()


def sent(server: Running, path: str, body: object, method: str = "POST"):
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    status, _, reply = server.request(method, path, raw, Ocp_Apim_Subscription_Key=ADMIN)
    return status, json.loads(reply) if reply else {}


def decide(server: Running, body: object, bandit: str = "b"):
    return sent(server, f"/v1/bandits/{bandit}/decide", body)


# -- every route that takes a message --------------------------------------------------------------


def path_of(call) -> str:
    """Of a call, for a bandit that it may be about."""
    bandit = "local" if call.path.endswith("reports") else "b"
    return call.path.replace("{name}", bandit).replace("{id}", "e")


EXAMPLES = {"rank": {"actions": [{"id": "x"}]}, "reward": {"value": 1}}
WITH_BODY = [call for call in CALLS + PERSONALIZER if call.body is not None]


@pytest.mark.parametrize("call", WITH_BODY, ids=lambda call: call.path)
def test_a_field_that_does_not_exist_is_refused_by_its_name(server, call):
    body = (call.example or {}) | {"fild": SECRET}
    status, problem = sent(server, path_of(call), body, call.method)
    assert status in (400, 422)
    assert "fild" in json.dumps(problem)
    assert SECRET not in json.dumps(problem)


@pytest.mark.parametrize("call", WITH_BODY, ids=lambda call: call.path)
def test_a_name_that_stands_twice_in_an_object_is_refused_by_its_name(server, call):
    body = EXAMPLES.get(call.path.rpartition("/")[2], call.example)
    name = next(iter(body))
    raw = f"{{{json.dumps(body)[1:-1]}, {json.dumps({name: body[name]})[1:]}"
    status, problem = sent(server, path_of(call), raw.encode(), call.method)
    assert status in (400, 422)
    assert f"`{name}`" in json.dumps(problem)


@pytest.mark.parametrize(
    "raw",
    [
        b'{"context": {"age": 40, "plan": "gold", "age": 41}}',
        b'{"context": {"age": 40, "plan": "gold", "\\u0061ge": 41}}',
        b'{"context": {"plan": "a:b", "age": 40, "age": 40}}',
        b'{"requests": [{"context": {}}, {"context": {"age": 1, "age": 2}}]}',
    ],
)
def test_a_column_that_stands_twice_is_refused_by_its_name(server, raw):
    status, problem = decide(server, raw)
    assert status == 422
    assert "`age`" in problem["detail"]


def test_colons_and_escapes_are_no_duplicates(server):
    hashed = {"context": {"a:b": "c:d", "e": '\\:"', "ü": "\u2028:"}, "actions": ["x", "y"]}
    assert decide(server, hashed, "any")[0] == 200


# -- columns, and what stands in them --------------------------------------------------------------

REFUSED = [  # what is changed, the column that is named
    ({"agee": SECRET}, "agee"),
    ({"age": True}, "age"),
    ({"age": "40"}, "age"),
    ({"age": None}, "age"),
    ({"age": [40]}, "age"),
    ({"plan": SECRET}, "plan"),
    ({"plan": True}, "plan"),
    ({"plan": None}, "plan"),
    ({"plan": {"x": SECRET}}, "plan"),
]


@pytest.mark.parametrize(("change", "column"), REFUSED)
def test_a_context_that_does_not_fit_names_its_column(server, change, column):
    status, problem = decide(server, {"context": FITS | change})
    assert (status, problem["column"]) == (422, column)
    assert column in problem["detail"]
    assert SECRET not in json.dumps(problem)
    assert "index" not in problem


@pytest.mark.parametrize("many", ["contexts", "requests"])
@pytest.mark.parametrize(("change", "column"), REFUSED)
def test_in_a_batch_the_item_is_named_by_its_place(server, many, change, column):
    contexts = [FITS, FITS, FITS | change, FITS]
    sends = contexts if many == "contexts" else [{"context": each} for each in contexts]
    status, problem = decide(server, {many: sends})
    assert (status, problem["index"], problem["column"]) == (422, 2, column)
    assert f"{many}[2]" in problem["detail"]
    assert SECRET not in json.dumps(problem)


def test_a_column_that_is_missing_is_named(server):
    status, problem = decide(server, {"context": {"age": 40}})
    assert (status, problem["column"]) == (422, "plan")


def test_a_number_beyond_its_bounds_is_clipped(server):
    for age in (-1, 10**400, 1e300, 17.999):
        assert decide(server, {"context": FITS | {"age": age}})[0] == 200
        assert decide(server, {"contexts": [FITS | {"age": age}, FITS]})[0] == 200


@pytest.mark.parametrize(
    ("features", "named"),
    [
        ([[0.1, True]], "features[0][1]"),
        ([[0, 0], [1]], "features[1]"),
        ([["1", 2]], "features[0]"),
    ],
)
def test_raw_rows_name_the_place_that_does_not_fit(server, features, named):
    status, problem = decide(server, {"features": features}, "raw")
    assert status == 422
    assert named in problem["detail"]


# -- persons ---------------------------------------------------------------------------------------


def test_a_person_is_refused_where_rounds_are_protected_and_needed_where_people_are(server):
    status, problem = decide(server, {"context": FITS, "person": SECRET})
    assert status == 422
    assert "person" in problem["detail"]
    assert SECRET not in json.dumps(problem)
    assert decide(server, {"context": FITS, "person": "p"}, "people")[0] == 200
    some = [{"context": FITS, "person": "p"}, {"context": FITS}]
    status, problem = decide(server, {"requests": some}, "people")
    assert (status, problem["index"]) == (422, 1)


# -- "unknown": "ignore" ---------------------------------------------------------------------------


def test_ignored__a_row_is_as_the_documented_rule_says(server):
    """Columns as if they were not there, categories as none of the declared, booleans as 0 and 1;
    a person as if it had not been sent. What is null or text for a number is refused as ever."""
    assert decide(server, {"context": FITS | {"more": 1}, "person": "p"}, "ignores")[0] == 200
    offer = server.server.live["ignores"].features.offer
    plain = offer(FITS, None).rows
    assert (offer(FITS | {"more": SECRET}, None).rows == plain).all()
    assert (offer(FITS | {"age": True}, None).rows == offer(FITS | {"age": 1}, None).rows).all()
    none = offer(FITS | {"plan": "none of them"}, None).rows
    names = server.server.live["ignores"].features.map.context_names
    at = [i for i, name in enumerate(names) if name.startswith("plan=")]
    assert not none.reshape(2, 2, -1)[:, :, at].any()
    assert (offer(FITS | {"plan": True}, None).rows == none).all()
    for change in ({"age": None}, {"age": "40"}, {"plan": None}, {"plan": [1]}):
        assert decide(server, {"context": FITS | change}, "ignores")[0] == 422


def test_ignored__fields_of_a_request_are_refused_as_ever(server):
    assert decide(server, {"context": FITS, "fild": 1}, "ignores")[0] == 422


# -- rewards ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "item", [{"reward": True}, {"reward": "1"}, {"reward": 1, "weight": 2}, {"reward": 2}]
)
def test_rewards__a_bad_item_is_invalid_in_its_place_and_alone(server, item):
    tokens = [decide(server, {"context": FITS})[1]["decision"] for _ in range(2)]
    sends = [{"decision": tokens[0]} | item, {"decision": tokens[1], "reward": 1}]
    status, reply = sent(server, "/v1/bandits/b/learn", {"rewards": sends})
    assert (status, reply) == (200, {"statuses": ["invalid", "counted"]})
    assert sent(server, "/v1/bandits/b/learn", sends[0])[0] == 422


def test_rewards__a_number_beyond_all_floats_is_invalid_alone(server):
    tokens = [decide(server, {"context": FITS})[1]["decision"] for _ in range(2)]
    items = [
        f'{{"decision": "{t}", "reward": {x}}}' for t, x in zip(tokens, ("1e999", "1"), strict=True)
    ]
    raw = f'{{"rewards": [{", ".join(items)}]}}'.encode()
    assert sent(server, "/v1/bandits/b/learn", raw) == (200, {"statuses": ["invalid", "counted"]})
    assert sent(server, "/v1/bandits/b/learn", items[0].encode())[0] == 422


def test_rewards__one_beside_many_is_refused(server):
    both = {"rewards": [], "decision": "x", "reward": 1}
    assert sent(server, "/v1/bandits/b/learn", both)[0] == 422
    assert sent(server, "/v1/bandits/local/reports", {"reports": [], "id": "0" * 32})[0] == 422


# -- missing values --------------------------------------------------------------------------------

GAPS = {
    "context": {
        "age": {"number": [0, 10], "missing": 4},
        "visits": {"number": [0, 10], "missing": "indicator"},
        "plan": {"category": ["basic", "gold"], "other": True, "missing": True},
        "city": {"category": ["A", "B"], "missing": False},
    },
    "actions": ["email", "call"],
    "privacy": {"epsilon": None},
}
SEEN = {"age": 1, "visits": 2, "plan": "gold", "city": "A"}


def test_missing__null_is_what_the_librarys_feature_map_makes_of_it():
    columns = {
        "age": Number(0, 10, missing=4),
        "visits": Number(0, 10, missing="indicator"),
        "plan": Category("basic", "gold", other=True, missing=True),
        "city": Category("A", "B"),
    }
    library = FeatureMap(columns, GAPS["actions"])
    served = features(parsed(json.dumps(GAPS).encode()))
    assert served.names == library.names
    every = [SEEN, *(SEEN | {name: None} for name in ("age", "visits", "plan"))]
    for each in every:
        assert np.array_equal(served.offer(each, None).rows, library(each))
    assert np.array_equal(served.offers(every, None)[0], library.many(every))


def test_missing__null_is_refused_where_nothing_stands_for_it_and_a_column_must_be_sent(server):
    server.client().create("gaps", GAPS)
    nobody = dict.fromkeys(SEEN) | {"city": "B"}
    assert decide(server, {"context": nobody}, "gaps")[0] == 200
    assert decide(server, {"contexts": [SEEN, nobody]}, "gaps")[0] == 200
    left_out = {name: each for name, each in nobody.items() if name != "age"}
    for context, column in ((nobody | {"city": None}, "city"), (left_out, "age")):
        status, problem = decide(server, {"context": context}, "gaps")
        assert (status, problem["column"]) == (422, column)
    problem = decide(server, {"context": FITS | {"age": None}})[1]
    assert problem["column"] == "age"
    assert "null needs `missing`" in problem["detail"]
    log = {"public": True, "rows": [{"context": nobody, "action": "call", "reward": 1}]}
    server.client().create("log", GAPS)
    assert sent(server, "/v1/bandits/log/history", log)[0] == 200


@pytest.mark.parametrize(
    "column",
    [
        {"number": [0, 1], "missing": 2},
        {"number": [0, 1], "missing": True},
        {"number": [0, 1], "other": True},
        {"category": ["a"], "missing": "indicator"},
        {"category": ["a"], "missing": 1},
    ],
)
def test_missing__what_cannot_stand_for_null_is_refused(server, column):
    with pytest.raises(ServiceError, match="missing"):
        server.client().create("bad", GAPS | {"context": {"age": column}})
