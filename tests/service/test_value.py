"""What a bandit is worth, over the API and on its page: from releases, the same numbers in both."""

import re

import pytest

from discreet.service import demo
from discreet.service.client import ServiceError
from tests.service import test_reports as reports
from tests.service.conftest import Running
from tests.service.test_dashboard import Visitor
from tests.service.test_dashboard import play as play_demo
from tests.service.test_holdout import LISTED, play

UNKNOWN = {"mean": None, "holdout": None, "uplift": None}
EMPTY = {"confidence": 0.95, "rounds": 0, **UNKNOWN, "proved": None, "more": None, "releases": []}


@pytest.fixture
def server(tmp_path):
    made = Running(tmp_path)
    yield made
    made.stop()


def plain(interval):
    return {"estimate": interval.estimate, "low": interval.low, "high": interval.high}


def page_of(server: Running, bandit: str) -> str:
    status, page = Visitor(server).log_in().get(f"/bandits/{bandit}")
    assert status == 200
    return page


def test_value__before_the_first_release_nothing_is_known(server):
    client = server.client()
    client.create("b", demo.DEFINITION)
    assert client.value("b") == EMPTY
    client.decide("b", {"age": 40, "plan": "gold"})
    assert client.value("b") == EMPTY
    assert "Nothing was released yet" in page_of(server, "b")


def test_value__of_no_bandit_is_not_found(server):
    with pytest.raises(ServiceError) as caught:
        server.client().value("none")
    assert (caught.value.status, caught.value.kind) == (404, "not-found")


def test_value__is_the_learners_after_every_release_and_says_since_when_it_is_proved(tmp_path):
    server = Running(tmp_path)
    client = server.client()
    client.create("b", LISTED)
    seen = []
    for _ in range(12):
        play(server, LISTED, 10)
        found = client.value("b")
        learner = server.server.tenants["b"].learner
        assert found["releases"][: len(seen)] == seen  # what was released stays
        seen = found["releases"]
        released = client.releases("b")
        assert [each["window"] for each in seen] == [each["window"] for each in released]
        for each, value in zip(seen, learner.values(), strict=True):
            for name in UNKNOWN:
                known = getattr(value, name)
                assert each[name] == (None if known is None else plain(known))
    value = learner.value
    assert found["uplift"] == seen[-1]["uplift"] == plain(value.uplift)
    assert found["rounds"] == value.rounds
    first = next(each for each in seen if each["uplift"] and each["uplift"]["low"] > 0)
    assert found["proved"] == {name: first[name] for name in ("window", "decisions", "at")}
    assert found["proved"]["decisions"] == value.proved
    assert found["more"] is None
    page = page_of(server, "b")
    server.stop()

    assert f"with the release of window {first['window']}, after {value.proved:,} decisions" in page
    drawn = re.search(r'<svg class="spark".*?</svg>', page)[0]
    known = [each for each in seen if each["uplift"]]
    line = re.search(r'<polyline class="line" points="([^"]*)"', drawn)[1].split()
    band = re.search(r'<polygon class="band" points="([^"]*)"', drawn)[1].split()
    assert (len(line), len(band)) == (len(known), 2 * len(known))
    assert all(0 <= float(each) <= 200 for pair in line + band for each in pair.split(","))
    heights = [float(pair.split(",")[1]) for pair in line]
    assert heights[-1] < 20  # a gain stands above the line of zero
    numbers = re.search(r'<details class="numbers".*?</details>', page, re.DOTALL)[0]
    for each in known:
        assert f"+{each['uplift']['estimate']:.3f}" in numbers
    server = Running(tmp_path)
    try:
        assert server.client().value("b") == found
    finally:
        server.stop()


def test_value__without_a_holdout_a_mean_is_known_and_no_gain(server):
    without = {**LISTED, "holdout": None}
    client = server.client()
    client.create("b", without)
    play(server, without, 10)
    found = client.value("b")
    assert found["mean"]["low"] <= found["mean"]["estimate"] <= found["mean"]["high"]
    assert [found[name] for name in ("holdout", "uplift", "proved", "more")] == [None] * 4
    assert all(each["uplift"] is None for each in found["releases"])
    page = page_of(server, "b")
    assert "A definition with a <code>holdout</code>" in page
    assert 'class="spark"' not in page


def test_value__under_local_trust_nobody_knows(server):
    client = server.client()
    client.create("rows", reports.ROWS)
    assert client.value("rows") == EMPTY
    public = client.call("GET", "/v1/bandits/rows/policy")
    size = client.bandit("rows")["window"]["rounds"]
    for seed in range(size + 1):
        client.call("POST", "/v1/bandits/rows/reports", reports.report(public, seed))
    found = client.value("rows")
    (released,) = found.pop("releases")
    assert released | UNKNOWN == released
    assert found | {"releases": []} == EMPTY


def test_value__of_the_demo_is_shown_after_some_thousand_decisions(server):
    """With its noise: known as soon as windows speak, and a forecast until it is proved."""
    client = server.client()
    client.create("welcome", demo.DEFINITION)
    play_demo(server, "welcome", 6000)
    found = client.value("welcome")
    for name in UNKNOWN:
        assert found[name]["low"] <= found[name]["estimate"] <= found[name]["high"]
    assert found["mean"]["high"] - found["mean"]["low"] < 0.4
    uplift = found["uplift"]["estimate"]
    assert found["more"] is None or found["more"] > 0
    page = page_of(server, "welcome")
    assert "always nothing, measured in 5.0% of decisions" in page
    assert f"{abs(uplift):.3f}" in page
    shown = "proved</span> since" if found["proved"] else "not proved</span>"
    assert shown in page
    (window,) = {each["what"] for each in client.guarantee("welcome")["releases"]}
    assert "sum of rewards, apart where held out" in window  # what all of it is computed from
