"""What earlier code left behind goes on: a store with open windows, and the OpenAPI document.

golden/make.py made the store and says what is in it; `python -m tests.service.test_golden` writes
the document anew, for a change of the API that is meant.
"""

import json
import time
from pathlib import Path

import msgspec
import numpy as np
import pytest

from discreet.service.api import openapi
from discreet.service.client import ServiceError
from tests.service.conftest import Running
from tests.service.golden import make

GOLDEN = Path(__file__).parent / "golden"
DOCUMENT = GOLDEN / "openapi.json"


def described() -> bytes:
    """The document of all calls, as it is served, on many lines."""
    return msgspec.json.format(msgspec.json.encode(openapi(True)), indent=1) + b"\n"


def test_openapi__is_the_document_that_clients_know_byte_by_byte():
    assert described() == DOCUMENT.read_bytes()


def test_openapi__without_the_retired_api_is_the_same_but_for_its_calls():
    whole, without = openapi(True), openapi(False)
    paths = {p: each for p, each in whole["paths"].items() if not p.startswith("/personalizer")}
    assert list(without["paths"].items()) == list(paths.items())
    assert without["components"]["schemas"].items() <= whole["components"]["schemas"].items()


@pytest.fixture
def left(tmp_path):
    make.unpack(tmp_path)
    server = Running(tmp_path)
    yield server
    server.stop()


def test_store__open_windows_go_on_and_release_what_their_stored_noise_determines(left):
    """Joint, one person once for life, one person once in each window, local: each has an open
    window with some feedback in it. More comes (by token, by id, again), the windows turn."""
    golden = json.loads((GOLDEN / "expected.json").read_text())
    found = make.go_on(left, golden["waiting"])
    for name, expected in golden["expected"].items():
        numbers = found[name].pop("releases")
        for release, published in zip(numbers, expected.pop("releases"), strict=True):
            sums, totals = release.pop("sum"), published.pop("sum")
            if not isinstance(totals, dict):
                sums, totals = {"": sums}, {"": totals}
            assert release == pytest.approx(published)
            assert sums.keys() == totals.keys()
            for question, total in totals.items():
                # A channel's radius is computed, not stored: its last digits are the code's.
                np.testing.assert_allclose(sums[question], total, rtol=1e-5)
        assert found[name] == expected


def test_store__a_reward_more_or_less_would_be_noticed(left):
    """The power of the test above: noise does not hide one reward, for it is stored."""
    golden = json.loads((GOLDEN / "expected.json").read_text())
    golden["waiting"]["round"].pop()
    found = make.go_on(left, golden["waiting"])["round"]["releases"][-1]
    expected = golden["expected"]["round"]["releases"][-1]
    assert found["count"] == pytest.approx(expected["count"] - 1)


def test_store__decisions_that_waited_go_on_whoever_asks_for_them(tmp_path, monkeypatch):
    """They were named before ids had owners: by token, by id, by default each counts once."""
    make.unpack(tmp_path, "waiting.tar.xz")
    tokens = json.loads((GOLDEN / "waiting.json").read_text())
    server = Running(tmp_path)
    client = server.client()

    try:
        with pytest.raises(ServiceError) as caught:  # nothing tells who asked, and for what
            client.decide("named", features=make.ROW, id="open")
        assert caught.value.kind == "id-taken"
        assert client.learn("named", "open", 1.0) == "counted"
        assert client.learn("named", "open", 1.0) == "duplicate"
        assert client.learn("named", tokens["done"], 1.0) == "duplicate"
        assert client.learn("named", "done", 1.0) == "unknown"  # settled before: not known by name
        assert client.learn("waits", tokens["paid"], 2.0) == "late"
        assert client.learn("waits", "kept", 2.0) == "counted"
        assert client.learn("waits", tokens["kept named"], 2.0) == "duplicate"
        for each in ("anna 1", "anna 2"):
            assert client.learn("first", tokens[each], 1.0) == "accepted"
        assert client.learn("first", tokens["ben"], 1.0) == "duplicate"
        assert server.inside("first")["count"] == pytest.approx(2)  # ben's, and anna's first
        real = time.time
        monkeypatch.setattr(time, "time", lambda: real() + 3651 * 86400)
        server.swept()
        # One was paid before the upgrade, one was kept with 2, one had its default, -1.
        assert server.inside("waits") == pytest.approx({"count": 3, "sum": 3.0})
    finally:
        server.stop()


if __name__ == "__main__":
    DOCUMENT.write_bytes(described())
