"""What a newcomer meets: the page of all calls, and errors that say what to do."""

import json

import pytest

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
    [{"link": SECRET}, {SECRET: 1}, {"privacy": {"epsilon": 1, SECRET: 1}}, {"dim": SECRET}],
)
def test_errors__say_where_and_never_what(running, change):
    status, problem = sent(running, "/v1/bandits/b", DEFINITION | change)
    assert status == 422
    assert SECRET not in json.dumps(problem)
    assert problem["detail"]


def test_errors__a_missing_promise_says_how_to_state_one(running):
    status, problem = sent(running, "/v1/bandits/b", {"dim": 2})
    assert status == 422
    assert "epsilon" in problem["detail"]
