"""OpenFeature's published clients work unchanged; refusals have the protocol's own shape."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from discreet.service.client import Client
from tests.service.conftest import ADMIN, Running

ofrep = pytest.importorskip("openfeature.contrib.provider.ofrep")
from openfeature.evaluation_context import EvaluationContext  # noqa: E402
from openfeature.exception import (  # noqa: E402
    FlagNotFoundError,
    GeneralError,
    InvalidContextError,
    OpenFeatureError,
    TargetingKeyMissingError,
    TypeMismatchError,
)

CLIENTS = Path(__file__).parents[2] / "clients/js"
COLUMNS = {"age": {"number": [18, 100]}}
OFF = {"epsilon": None}
PATH = "/ofrep/v1/evaluate/flags"
ADA = {"targetingKey": "ada", "age": 40}


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    made = Running(tmp_path_factory.mktemp("ofrep"))
    client = made.client()
    flag = {"context": COLUMNS, "privacy": OFF}
    client.create("colour", flag | {"actions": ["red", "blue"]})
    client.create("button", flag | {"actions": ["true", "false"], "unknown": "ignore"})
    client.create("size", flag | {"actions": ["1", "2.5"]})
    client.create("count", flag | {"actions": ["1", "2"]})
    people = {"epsilon": 1, "unit": "person"}
    client.create("people", {"actions": ["a", "b"], "privacy": people})
    client.create(
        "default", {"actions": ["a"], "privacy": OFF, "reward": {"default": 0, "wait": "1h"}}
    )
    client.create("any", {"features": {"hashed": 8}, "actions": ["x", "y"], "privacy": OFF})
    client.create("raw", {"dim": 2, "privacy": OFF})
    client.create("local", {"dim": 2, "privacy": {"epsilon": 1, "trust": "local"}})
    yield made
    made.stop()


@pytest.fixture(scope="module")
def provider(server):
    made = ofrep.OFREPProvider(
        server.url, headers_factory=lambda: {"Authorization": f"Bearer {ADMIN}"}
    )
    yield made
    made.session.close()


def evaluate(server, path, body, **headers):
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    status, found, reply = server.request("POST", f"{PATH}{path}", raw, **headers)
    return status, found, json.loads(reply) if reply else None


# -- the published client for Python ---------------------------------------------------------------


def test_python__a_flag_is_decided_and_its_reward_counts(server, provider):
    details = provider.resolve_string_details(
        "colour", "none", EvaluationContext("ada", {"age": 40})
    )
    assert details.value == details.variant in ("red", "blue")
    assert details.reason.name == "SPLIT"
    assert details.flag_metadata["probability"] == pytest.approx(0.5)
    token = details.flag_metadata["decision"]
    assert server.client().learn("colour", token, 1.0) == "counted"
    assert server.client().learn("colour", token, 1.0) == "duplicate"


def test_python__values_have_the_type_of_all_actions(provider):
    context = EvaluationContext(None, {"age": 40})
    assert provider.resolve_boolean_details("button", False, context).value in (True, False)
    assert provider.resolve_float_details("size", 0.0, context).value in (1.0, 2.5)
    assert provider.resolve_integer_details("count", 0, context).value in (1, 2)
    with pytest.raises(TypeMismatchError):
        provider.resolve_boolean_details("colour", False, context)


@pytest.mark.parametrize(
    ("flag", "context", "error"),
    [
        ("nowhere", ADA, FlagNotFoundError),
        ("people", {}, TargetingKeyMissingError),
        ("colour", {}, InvalidContextError),
        ("colour", {"age": "40"}, InvalidContextError),
        ("colour", {"age": 40, "plan": "gold"}, InvalidContextError),
        ("raw", {}, GeneralError),
        ("local", {}, GeneralError),
    ],
)
def test_python__refusals_are_the_errors_of_the_protocol(provider, flag, context, error):
    attributes = {name: each for name, each in context.items() if name != "targetingKey"}
    with pytest.raises(error):
        provider.resolve_string_details(flag, "", EvaluationContext(None, attributes))


def test_python__a_key_that_may_not_is_refused(server):
    nobody = ofrep.OFREPProvider(server.url)
    with pytest.raises(OpenFeatureError, match="unauthorized"):
        nobody.resolve_string_details("colour", "")
    nobody.session.close()


# -- the published client for JavaScript -----------------------------------------------------------


def test_javascript__the_published_provider_evaluates_and_tracks(server):
    node = shutil.which("node")
    if node is None or not (CLIENTS / "node_modules/@openfeature/ofrep-provider").exists():
        pytest.skip("needs node and clients/js/node_modules (make clients/js/node_modules/.made)")
    script = CLIENTS / "test/ofrep.node.js"
    done = subprocess.run(
        [node, str(script), server.url, ADMIN], capture_output=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr.decode()
    found = json.loads(done.stdout)
    assert found["value"] in ("red", "blue")
    assert found["reason"] == "SPLIT"
    assert found["missing"] == "TARGETING_KEY_MISSING"
    assert found["unknown"] == "FLAG_NOT_FOUND"
    assert server.client().learn("colour", found["token"], 1.0) == "duplicate"  # it was tracked


# -- the shape of answers --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "body", "status", "code"),
    [
        ("/colour", b"{", 400, "PARSE_ERROR"),
        ("/colour", {"fild": 1}, 400, "INVALID_CONTEXT"),
        ("/colour", {"context": {"age": True}}, 400, "INVALID_CONTEXT"),
        ("/people", {"context": {"targetingKey": ""}}, 400, "TARGETING_KEY_MISSING"),
        ("/people", {"context": {"targetingKey": 5}}, 400, "TARGETING_KEY_MISSING"),
        ("/nowhere", {}, 404, "FLAG_NOT_FOUND"),
        ("/%00", {}, 404, "FLAG_NOT_FOUND"),
        ("", b"[]", 400, "INVALID_CONTEXT"),
    ],
)
def test_refusals_name_the_flag_and_the_code(server, path, body, status, code):
    found, headers, reply = evaluate(server, path, body)
    assert (found, reply["errorCode"]) == (status, code)
    assert reply["errorDetails"]
    assert headers["content-type"] == "application/json"
    assert "value" not in reply


def test_a_key_of_other_bandits_sees_no_flag(server):
    made = server.client().call(
        "POST", "/v1/keys", {"name": "k", "scopes": ["decide"], "bandits": ["any"]}
    )
    bearer = f"Bearer {made['secret']}"
    assert evaluate(server, "/colour", {"context": ADA}, Authorization=bearer)[0] == 403
    _, _, reply = evaluate(server, "", {"context": ADA}, Authorization=bearer)
    assert [each["key"] for each in reply["flags"]] == ["any"]


def test_the_person_is_who_counts_once(server):
    """`targetingKey` is the person: the same pseudonym as `person` of /decide; elsewhere unused."""
    client = server.client()
    opened = []
    for token in (
        evaluate(server, "/people", {"context": {"targetingKey": "ada"}})[2]["metadata"][
            "decision"
        ],
        client.decide("people", {}, person="ada").decision,
        evaluate(server, "/people", {"context": {"targetingKey": "bob"}})[2]["metadata"][
            "decision"
        ],
    ):
        opened += server.server.sealer.open(server.server.about("people"), [token])
    assert opened[0].person == opened[1].person != opened[2].person
    hashed = [evaluate(server, "/any", {"context": {"targetingKey": who}})[2] for who in "ab"]
    rows = [
        server.server.sealer.open(server.server.about("any"), [each["metadata"]["decision"]])[0].row
        for each in hashed
        if each["variant"] == hashed[0]["variant"]
    ]
    assert all((row == rows[0]).all() for row in rows)


# -- all flags at once -----------------------------------------------------------------------------


def test_bulk__every_flag_gets_what_it_declares_and_is_decided_once_for_each_policy(server):
    _, headers, reply = evaluate(server, "", {"context": ADA})
    flags = {each["key"]: each for each in reply["flags"]}
    assert set(flags) == {"any", "button", "colour", "count", "default", "people", "size"}
    assert flags["default"]["errorCode"] == "GENERAL"
    assert all("value" in each for name, each in flags.items() if name != "default")
    rounds = server.client().bandit("colour")["rounds"]
    again = evaluate(server, "", {"context": ADA}, If_None_Match=headers["etag"])
    assert (again[0], again[1]["etag"], again[2]) == (304, headers["etag"], None)
    assert server.client().bandit("colour")["rounds"] == rounds
    other = evaluate(server, "", {"context": ADA | {"age": 41}}, If_None_Match=headers["etag"])
    assert (other[0], other[1]["etag"] != headers["etag"]) == (200, True)


def test_bulk__the_etag_changes_with_a_policy(tmp_path):
    made = Running(tmp_path)
    client: Client = made.client()
    client.create("b", {"actions": ["a", "b"], "privacy": OFF})
    tag = evaluate(made, "", {})[1]["etag"]
    assert evaluate(made, "", {}, If_None_Match=tag)[0] == 304
    while client.bandit("b")["policy"] == 1:
        client.decide_many("b", [{}] * client.bandit("b")["window"]["rounds"])
    assert evaluate(made, "", {}, If_None_Match=tag)[0] == 200
    made.stop()


# -- what docs/flags.md shows ----------------------------------------------------------------------


def test_docs__the_code_of_the_page_decides_and_sends_the_reward(server):
    page = (Path(__file__).parents[2] / "docs/flags.md").read_text()
    code = page.split("```python\n")[1].split("```")[0]
    code = code.replace("from discreet_client import", "from discreet.service.client import")
    before = server.inside("colour")["count"]
    found = {"URL": server.url, "KEY": ADMIN}
    exec(compile(code, "docs/flags.md", "exec"), found)
    found["api"].shutdown()
    assert found["shown"].value in ("red", "blue")
    assert server.inside("colour")["count"] == pytest.approx(before + 1)
