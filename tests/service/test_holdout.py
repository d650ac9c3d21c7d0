"""Decisions that are held out: by their number alone, the same for whoever decides and learns."""

import numpy as np
import pytest

from discreet.service.client import ServiceError
from tests.service.conftest import Running
from tests.service.test_dashboard import Visitor

EXACT = {"privacy": {"epsilon": None}, "holdout": 0.3, "policy": "greedy"}
LISTED = {
    **EXACT,
    "context": {"x": {"number": [0, 1]}},
    "actions": ["first", "second", "third"],
    "baseline": "third",
}
UNSORTED = {  # stored in another order than it was sent
    **EXACT,
    "context": {"x": {"number": [0, 1]}},
    "actions": {"z": {"price": 1}, "a": {"price": 2}},
    "action_features": {"price": {"number": [0, 2]}},
    "baseline": "z",
}


def play(server: Running, definition: dict, rounds: int) -> None:
    """Whoever gets the baseline brings 0, everybody else 1."""
    client = server.client()
    for one in range(rounds):
        if one % 2:
            made = [client.decide("b", {"x": 0.5})]
        else:
            made = client.decide_many("b", [{"x": 0.5}] * 20)
        rewards = [float(each.action != definition["baseline"]) for each in made]
        client.learn_many("b", zip(made, rewards, strict=True))


def totals(server: Running):
    server.client().bandit("b")  # brings what the writer knows up to date
    return server.server.tenants["b"].learner.totals


@pytest.mark.parametrize("definition", [LISTED, UNSORTED])
def test_holdout__every_held_out_decision_gets_the_baseline_and_counts_apart(tmp_path, definition):
    server = Running(tmp_path)
    server.client().create("b", definition)
    play(server, definition, 10)
    server.stop()
    server = Running(tmp_path)  # another run of the same server holds out the same rounds
    try:
        play(server, definition, 10)
        found = totals(server)
        assert len(found) >= 3
        held, count = sum(each.held for each in found), sum(each.rounds for each in found)
        assert 0.1 < held / count < 0.5
        assert sum(each.held_sum for each in found) == 0.0
        # The greedy policy leaves the baseline, which brings nothing, to the three tenths that are
        # held out: half of 100 decisions would be more than four standard deviations.
        made = server.client().decide_many("b", [{"x": 0.5}] * 100)
        assert sum(each.action == definition["baseline"] for each in made) < 50
        value = server.server.tenants["b"].learner.value
        assert value.holdout.estimate == 0.0
        assert value.uplift.low <= value.uplift.estimate
        page = Visitor(server).log_in().get("/bandits/b")[1]
        assert "measured in 30% of decisions" in page
    finally:
        server.stop()


def test_holdout__what_cannot_be_measured_is_refused(tmp_path):
    server = Running(tmp_path)
    client = server.client()
    client.create("b", LISTED)
    try:
        with pytest.raises(ServiceError, match="leave out actions"):
            client.decide("b", {"x": 0.5}, actions=["third", "first"])
        for wrong in ({"holdout": 0.0}, {"holdout": 0.6}, {"baseline": "fourth"}):
            with pytest.raises(ServiceError, match=f"(?i){next(iter(wrong))}"):
                client.create("c", {**LISTED, **wrong})
        without = {name: each for name, each in LISTED.items() if name != "baseline"}
        client.create("blind", without)
        assert client.decide("blind", {"x": 0.5}, actions=["third", "first"]).action != "second"
    finally:
        server.stop()


@pytest.mark.parametrize("made", [{"features": {"hashed": 8}}, {"dim": 2}], ids=["hashed", "rows"])
def test_baseline__is_a_place_where_actions_come_with_the_request(tmp_path, made):
    """Held-out rounds, and they alone at epsilon = inf and greedy, get the place; too few actions
    are refused, whoever's round it is."""
    server = Running(tmp_path)
    client = server.client()
    definition = made | {"baseline": 1, "holdout": 0.5, "privacy": {"epsilon": None}}
    client.create("b", definition)
    many = {"actions": ["x", "y", "z"]} if "features" in made else {"features": [[1.0, 0.0]] * 3}
    few = {name: each[:1] for name, each in many.items()}
    found = client.call("POST", "/v1/bandits/b/decide", {"requests": [many] * 60})["decisions"]
    sealed = server.server.sealer.open(server.server.about("b"), [d["decision"] for d in found])
    held = server.server.tenants["b"].learner.held_out(np.array([each.round for each in sealed]))
    chosen = [each["action"] in ("y", 1) for each in found]
    assert all(place for place, is_held in zip(chosen, held, strict=True) if is_held)
    assert held.any()
    assert not all(chosen)
    for _ in range(8):
        with pytest.raises(ServiceError, match="at least 2 actions"):
            client.call("POST", "/v1/bandits/b/decide", few)
    with pytest.raises(ServiceError, match="place"):
        client.create("c", {"actions": ["a"], "baseline": 0, "privacy": {"epsilon": None}})
    server.stop()
