"""What was answered `counted` counts: where a horizon ends, and where a bandit is retired."""

from typing import Any

import pytest

from discreet.service import store as tables
from tests.service.conftest import Running
from tests.service.test_what_remains import ROWS, Clock

N = 40
ENDS: dict[str, Any] = {
    "dim": 2,
    "reward": {"range": [0, 1], "wait": "1h", "default": 0},
    "privacy": {"epsilon": None},
    "horizon": N,
}


@pytest.fixture
def clock(monkeypatch):
    return Clock(monkeypatch)


def settled(server: Running, clock: Clock) -> None:
    clock.shift += 3700
    server.swept()


def test_horizon__rewards_that_wait_are_in_the_last_release(running, clock):
    """Decisions go on past the horizon meanwhile; what they earn counts for nothing."""
    client = running.client()
    client.create("b", ENDS)
    made = [client.decide("b", features=ROWS) for _ in range(N)]
    assert {client.learn("b", each, 1.0) for each in made} == {"counted"}
    beyond = [client.decide("b", features=ROWS, id=f"order-{i}") for i in range(N)]
    assert client.decide("b", features=ROWS, id="order-0") == beyond[0]
    assert {client.learn("b", each, 1.0) for each in beyond} == {"closed"}
    settled(running, clock)
    later = []
    while client.bandit("b")["learning"]:
        later.append(client.decide("b", features=ROWS))
        assert len(later) < 200
    found = client.call("GET", "/v1/bandits/b/releases")["releases"]
    assert sum(each["count"] for each in found) == pytest.approx(N)
    assert sum(each["sum"] for each in found) == pytest.approx(N)
    assert sum(each["rounds"] for each in found) == N
    rounds = client.bandit("b")["rounds"]
    assert rounds >= 2 * N  # none was given away twice
    settled(running, clock)
    assert running.rows(tables.pending) == []


def test_retired__what_was_counted_counts_and_nothing_that_comes_after(running, clock):
    client = running.client()
    client.create("b", {**ENDS, "horizon": None})
    made = [client.decide("b", features=ROWS) for _ in range(N)]
    assert {client.learn("b", each, 1.0) for each in made[::2]} == {"counted"}
    client.call("DELETE", "/v1/bandits/b")
    assert {client.learn("b", each, 1.0) for each in made[1::2]} == {"closed"}
    after = [client.decide("b", features=ROWS) for _ in range(N)]
    assert {client.learn("b", each, 1.0) for each in after} == {"closed"}
    settled(running, clock)
    assert running.inside("b") == pytest.approx({"count": N, "sum": N / 2})


def test_settled__once_a_wait_is_over_ids_with_a_reward_look_like_those_without(running, clock):
    client = running.client()
    client.create("b", {**ENDS, "horizon": None, "reward": {"range": [0, 1], "wait": "1h"}})
    for i in range(N):
        client.decide("b", features=ROWS, id=f"order-{i}")
    rewarded = {client.learn("b", f"order-{i}", 1.0) for i in range(0, N, 2)}
    assert rewarded == {"counted"}
    assert client.learn("b", "order-0", 1.0) == "duplicate"
    clock.shift = 86400
    running.swept()
    found = running.rows(tables.settled)
    assert len(found) == N
    assert len({tuple(each[name] for name in each if name != "id") for each in found}) == 1
    assert {client.learn("b", f"order-{i}", 1.0) for i in range(N)} == {"late"}
