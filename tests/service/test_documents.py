"""What a newcomer meets: the page of all calls, and errors that say what to do."""

import copy
import json
import re
from pathlib import Path

import jsonschema_rs
import msgspec
import pytest

from discreet.privacy import Guarantee, Shuffled
from discreet.privacy.release import Release
from discreet.service import errors, ofrep
from discreet.service.replies import Promise
from tests.service import test_batches as batches
from tests.service import test_reports as reports
from tests.service.conftest import ADMIN, Running

DEFINITION = {"dim": 2, "privacy": {"epsilon": 1.0}}
SECRET = "something-private"


def sent(running, path, body, method="PUT"):
    status, headers, reply = running.request(method, path, json.dumps(body).encode())
    assert headers["content-type"] == "application/problem+json"
    return status, json.loads(reply)


def test_docs__examples_are_accepted_as_they_stand(running):
    paths = running.client().call("GET", "/openapi.json")["paths"]
    for path, method in (
        ("/v1/bandits/{name}", "put"),
        ("/v1/bandits/{name}/decide", "post"),
        ("/v1/bandits/{name}/learn", "post"),
        ("/v1/populations/{name}", "put"),
        ("/v1/keys", "post"),
    ):
        example = paths[path][method]["requestBody"]["content"]["application/json"]["example"]
        raw = json.dumps(example).encode()
        called = path.replace("{name}", "welcome")
        status, _, reply = running.request(method.upper(), called, raw)
        assert status in (200, 201), reply


def test_docs__the_page_shows_every_call_and_every_status(running):
    _, _, page = running.request("GET", "/docs")
    for path in running.client().call("GET", "/openapi.json")["paths"]:
        assert path.encode() in page
    for word in (b"counted", b"duplicate", b"late", b"accepted", b"closed", b"unknown", b"curl"):
        assert word in page


@pytest.mark.parametrize(
    "change",
    [{"link": SECRET}, {"field": SECRET}, {"privacy": {"epsilon": 1, "field": 1}}, {"dim": SECRET}],
)
def test_errors__say_where_and_never_what(running, change):
    status, problem = sent(running, "/v1/bandits/b", DEFINITION | change)
    assert status == 422
    assert SECRET not in json.dumps(problem)
    assert any(name in problem["detail"] for name in ("link", "field", "dim"))


def test_errors__what_is_too_long_to_be_a_name_is_not_repeated(running):
    status, problem = sent(running, "/v1/bandits/b", DEFINITION | {SECRET * 9: 1})
    assert status == 422
    assert SECRET not in json.dumps(problem)


def test_errors__every_kind_has_its_words_and_is_used():
    room = Path(errors.__file__).parent
    code = "".join(path.read_text() for path in room.rglob("*.py"))
    used = set(re.findall(r'Problem\(\s*"([a-z-]+)"', code)) | {ofrep._MISSING}
    assert used == set(errors.KINDS)


def test_errors__a_missing_promise_says_how_to_state_one(running):
    status, problem = sent(running, "/v1/bandits/b", {"dim": 2})
    assert status == 422
    assert "epsilon" in problem["detail"]


# -- the OpenAPI document --------------------------------------------------------------------------


def strict(document: dict) -> dict:
    """The document with objects that have the fields they state and no others."""
    made = copy.deepcopy(document)
    for name, schema in made["components"]["schemas"].items():
        if "properties" in schema and name != "PolicyReply":  # whose kinds have fields of their own
            schema["additionalProperties"] = False
    return made


def successes(operation: dict) -> dict:
    return {code: each for code, each in operation["responses"].items() if code[0] == "2"}


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    server = Running(tmp_path_factory.mktemp("documents"), personalizer="ranks")
    yield server
    server.stop()


def test_openapi__every_reply_has_a_schema_that_says_something(served):
    document = served.client().call("GET", "/openapi.json")
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            for code, reply in successes(operation).items():
                if code == "204":
                    assert "content" not in reply
                    continue
                ((media, described),) = reply["content"].items()
                schema = described["schema"]
                if media == "application/json" and path != "/openapi.json":
                    assert "$ref" in schema or "oneOf" in schema, (method, path)
                else:
                    assert schema["type"] in ("string", "object")
    served_paths = {route.path for route in served.app.routes if hasattr(route, "methods")}
    of_pages = {route.path for route in served.app.state.dashboard.routes()}
    assert set(document["paths"]) == served_paths - of_pages


def test_openapi__real_replies_of_every_call_are_as_it_says(served):
    document = strict(served.client().call("GET", "/openapi.json"))
    seen = set()

    def called(method, path, body=None, to=None):
        """The reply, once it is known to be what the document says of it."""
        raw = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        header = {"Ocp_Apim_Subscription_Key": ADMIN} if path.startswith("/personalizer") else {}
        status, headers, reply = served.request(method, to or path, raw, **header)
        described = document["paths"][path][method.lower()]["responses"][str(status)]
        assert 200 <= status < 300, reply
        seen.add((method, path))
        if status == 204:
            assert reply == b""
            return None
        media = headers["content-type"].partition(";")[0]
        schema = described["content"][media]["schema"]
        if media != "application/json":
            return reply
        found = json.loads(reply)
        components = {"components": document["components"]}
        jsonschema_rs.validator_for(schema | components).validate(found)
        return found

    private = {"epsilon": 1.0, "population": "people"}
    declared = {"context": {"age": {"number": [0, 1]}}, "actions": ["a", "b"]}
    joint = declared | {"privacy": private, "reward": {"range": [-1, 1]}, "baseline": "a"}
    definitions = {
        "joint": joint,
        "open": {**DEFINITION, "privacy": {"epsilon": None}, "horizon": 8},
        "device": reports.DEFINITION,
        "rows": reports.ROWS,
        "ranks": {
            "features": {"hashed": 4},
            "privacy": {"epsilon": 1},
            "reward": {"wait": "1h", "default": 0},
        },
    }
    bandit = "/v1/bandits/{name}"
    for name, definition in definitions.items():
        for _ in range(2):  # 201, then 200
            called("PUT", bandit, definition, f"/v1/bandits/{name}")
    decide, learn = f"{bandit}/decide", f"{bandit}/learn"
    one = called("POST", decide, {"context": {"age": 0.5}}, "/v1/bandits/joint/decide")
    called("POST", decide, {"contexts": [{"age": 1.0}]}, "/v1/bandits/joint/decide")
    reward = {"decision": one["decision"], "reward": 1}
    assert called("POST", learn, reward, "/v1/bandits/joint/learn") == {"status": "counted"}
    called("POST", learn, {"rewards": [reward, {}]}, "/v1/bandits/joint/learn")
    for _ in range(3):  # to the end of a horizon
        rows = {"features": [[1.0, 0.0], [0.0, 1.0]]}
        found = called("POST", decide, {"requests": [rows] * 4}, "/v1/bandits/open/decide")
        pairs = [{"decision": each["decision"], "reward": 1} for each in found["decisions"]]
        called("POST", learn, {"rewards": pairs}, "/v1/bandits/open/learn")
    public = called("GET", f"{bandit}/policy", to="/v1/bandits/rows/policy")
    size = called("GET", bandit, to="/v1/bandits/rows")["window"]["rounds"]
    many = [reports.report(public, seed) for seed in range(size)]  # the window turns
    called("POST", f"{bandit}/reports", many[0], "/v1/bandits/rows/reports")
    called("POST", f"{bandit}/reports", {"reports": many}, "/v1/bandits/rows/reports")
    called("GET", f"{bandit}/terms", to="/v1/bandits/rows/terms")
    terms, sealed = batches.sealed_reports(served, range(2), "rows")
    to = f"/v1/bandits/rows/batches/{'0' * 32}?policy={terms.policy}"
    called("PUT", f"{bandit}/batches/{{id}}", b"".join(sealed), to)
    called("PUT", "/v1/populations/{name}", {"epsilon": 9.0}, "/v1/populations/people")
    called("PUT", "/v1/populations/{name}", {"epsilon": 1.0}, "/v1/populations/others")
    key = called("POST", "/v1/keys", {"name": "k", "scopes": ["read"], "bandits": ["joint"]})
    for name in definitions:
        for what in ("", "/releases", "/policy", "/guarantee", "/value"):
            found = called("GET", bandit + what, to=f"/v1/bandits/{name}{what}")
            if what == "/releases":
                assert bool(found["releases"]) == (name in ("open", "rows"))
    log = {"public": True, "rows": [{"action": "a", "context": {"age": 0.5}, "reward": 1.0}]}
    called("PUT", "/v1/bandits/{name}", declared | {"privacy": private}, to="/v1/bandits/new")
    called("POST", "/v1/bandits/{name}/history", log, to="/v1/bandits/new/history")
    flags = "/ofrep/v1/evaluate/flags"
    called("POST", f"{flags}/{{name}}", {"context": {"age": 0.5}}, to=f"{flags}/joint")
    called("POST", flags, {"context": {"age": 0.5}})
    called("GET", "/v1/bandits")
    called("GET", "/v1/populations")
    called("GET", "/v1/populations/{name}", to="/v1/populations/people")
    called("GET", "/v1/keys")
    called("DELETE", "/v1/keys/{id}", to=f"/v1/keys/{key['id']}")
    called("DELETE", bandit, to="/v1/bandits/joint")
    for path in ("/healthz", "/readyz", "/metrics", "/openapi.json", "/docs"):
        called("GET", path)
    ranked = {"contextFeatures": [{"a": 1}], "actions": [{"id": "x"}, {"id": "y"}], "eventId": "e"}
    called("POST", "/personalizer/v1.0/rank", ranked)
    event = "/personalizer/v1.0/events/{id}"
    called("POST", f"{event}/activate", to="/personalizer/v1.0/events/e/activate")
    called("POST", f"{event}/reward", {"value": 1.0}, "/personalizer/v1.0/events/e/reward")
    operations = {(m.upper(), p) for p, methods in document["paths"].items() for m in methods}
    assert seen == operations


def test_openapi__a_reply_that_is_not_as_it_says_is_noticed(served):
    """The power of the test above: a field more, a field less, and another type."""
    document = strict(served.client().call("GET", "/openapi.json"))
    schema = {"$ref": "#/components/schemas/KeyReply", "components": document["components"]}
    found = served.client().call("GET", "/v1/keys")["keys"][0]
    check = jsonschema_rs.validator_for(schema)
    assert check.is_valid(found)
    assert not check.is_valid(found | {"more": 1})
    assert not check.is_valid({name: each for name, each in found.items() if name != "rate"})
    assert not check.is_valid(found | {"created": "today"})


def test_replies__leave_nothing_out_of_a_guarantee():
    """`Promise` takes what `Guarantee.to_dict` says, of any trust; what it lacks is refused."""
    batch = Release.channel(1.0, crowd=50, what="w", mechanism="m", sampler="s", scope="a")
    for more in (
        {},
        {"trust": "shuffled", "crowd": Shuffled(1.0), "releases": (batch,)},
        {"releases": (Release.gaussian(sensitivity=1.0, scale=2.0, what="w", sampler="s"),)},
    ):
        record = Guarantee(1.0, 1e-6, **more).to_dict()
        assert msgspec.to_builtins(msgspec.convert(record, Promise)) == record
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(record | {"more": 1}, Promise)
