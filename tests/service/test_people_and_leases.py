"""One person counts once, with the first decision; rounds are not lost between replicas."""

import time

import pytest
import sqlalchemy as sa

from discreet.privacy.gaussian import gaussian_mu
from discreet.service import leasing
from discreet.service import store as tables
from tests.service.conftest import Running

ROWS = [[0.5, 0.0], [0.0, 0.5]]
RAW = {"dim": 2, "reward": {"range": [-1, 1]}, "privacy": {"epsilon": None}}
PEOPLE = {"privacy": {"epsilon": None, "unit": "person"}}


def released(client, person: str = "somebody else") -> dict:
    while not client.releases("b"):
        client.decide("b", features=ROWS, person=person)
    return client.releases("b")[0]


def test_where_decisions_are_kept_the_first_decision_counts_not_the_first_reward(running):
    client = running.client()
    client.create("b", RAW | PEOPLE)
    first = client.decide("b", features=ROWS, person="anna", id="one")
    second = client.decide("b", features=ROWS, person="anna", id="two")
    other = client.decide("b", features=ROWS, person="ben", id="three")
    for decision, reward in ((second, -1.0), (first, 0.5), (other, 0.25)):
        assert client.learn("b", decision, reward) == "accepted"
    release = released(client)
    assert (release["count"], release["sum"]) == (2, pytest.approx(0.75, abs=1e-12))


def test_where_nothing_is_kept_the_first_reward_that_arrives_counts(running):
    client = running.client()
    client.create("b", RAW | PEOPLE)
    first = client.decide("b", features=ROWS, person="anna")
    second = client.decide("b", features=ROWS, person="anna")
    assert client.learn("b", second, -1.0) == "accepted"
    assert client.learn("b", first, 0.5) == "accepted"
    release = released(client)
    assert (release["count"], release["sum"]) == (1, pytest.approx(-1.0, abs=1e-12))


ALL = {"privacy": {"epsilon": None, "unit": "person", "visits": "all"}}


def stored(server) -> list[bytes]:
    with server.server.store.transaction() as connection:
        return [bytes(p) for p in connection.execute(sa.select(tables.people.c.person)).scalars()]


def test_visits_all__each_person_counts_once_in_each_window(running):
    """...whichever reward arrives first, and the store forgets who was in it when it closes."""
    client = running.client()
    client.create("b", RAW | ALL)
    late = client.decide("b", features=ROWS, person="anna")
    seen = []
    for window in range(3):
        rounds = client.bandit("b")["window"]["rounds"]
        while client.bandit("b")["window"]["number"] == window + 1:
            person = "anna" if client.bandit("b")["rounds"] % 2 else "ben"
            made = client.decide("b", features=ROWS, person=person)
            if client.bandit("b")["window"]["number"] > window + 1:
                break  # this decision opened the next window
            assert client.learn("b", made, 0.5) == "accepted"
            seen.append(frozenset(stored(running)))
        release = client.releases("b")[window]
        assert (release["rounds"], release["count"]) == (rounds, pytest.approx(2, abs=1e-9))
        assert stored(running) == []
    assert client.learn("b", late, 0.5) == "accepted"  # in the window where it arrives
    assert len(frozenset.union(*seen)) == 2 * 3  # nobody's hash is the same in two windows
    assert max(map(len, seen)) == 2


def test_visits_all__a_default_reward_counts_as_a_visit(running):
    client = running.client()
    reward = {"range": [-1, 1], "wait": "1s", "default": -1}
    client.create("b", RAW | ALL | {"reward": reward})
    for _ in range(3):
        client.decide("b", features=ROWS, person="anna")
    time.sleep(3)
    release = released(client, "anna")  # whose defaults may be due before the window is full
    assert (release["count"], release["sum"]) == (1, pytest.approx(-1.0, abs=1e-12))


def test_visits_all__the_promise_adds_up_over_windows_and_names_people(running):
    client = running.client()
    privacy = {"epsilon": 2.0, "delta": 1e-6, "unit": "person", "visits": "all"}
    client.create("b", RAW | {"privacy": privacy})
    for _ in range(4):
        size = client.bandit("b")["window"]["rounds"]
        rows = [{"features": ROWS, "person": str(i)} for i in range(size)]
        client.call("POST", "/v1/bandits/b/decide", {"requests": rows})
    promise = client.guarantee("b")
    assert (promise["unit"], promise["epsilon"]) == ("person", 2.0)
    mu = [each["mu"] for each in promise["releases"]]
    assert len(mu) >= 4
    assert sum(m * m for m in mu) <= gaussian_mu(2.0, 1e-6) ** 2
    assert "any number of visits" in promise["statement"]


def test_visits_all__replicas_know_the_same_people(postgresql, tmp_path):
    name = postgresql.new()
    servers = [Running(tmp_path, store=postgresql.url(name)) for _ in range(2)]
    one, other = (server.client() for server in servers)
    try:
        one.create("b", RAW | ALL)
        for client in (one, other, one):
            made = client.decide("b", features=ROWS, person="anna")
            assert client.learn("b", made, 0.5) == "accepted"
        assert released(other)["count"] == pytest.approx(1, abs=1e-9)
        made = one.decide("b", features=ROWS, person="anna")
        assert one.learn("b", made, 0.5) == "accepted"
        assert len(stored(servers[1])) == 1
    finally:
        for server in servers:
            server.stop()
        postgresql.drop(name)


def test_three_replicas_with_little_traffic_lose_no_round(postgresql, tmp_path, monkeypatch):
    """A lost number is a decision that teaches nothing: with three replicas as with one."""
    monkeypatch.setattr(leasing, "LEASE_SECONDS", 600.0)  # none ends on a machine that is busy
    monkeypatch.setattr(leasing, "BLOCK_SECONDS", 0.0)  # nor is traffic dense on one that is fast
    name = postgresql.new()
    servers = [Running(tmp_path, store=postgresql.url(name)) for _ in range(3)]
    clients = [server.client() for server in servers]
    try:
        clients[0].create("b", RAW)
        for turn in range(30):
            client = clients[turn % 3]
            assert client.learn("b", client.decide("b", features=ROWS), 0.5) == "counted"
        for server in servers[1:]:
            server.stop()  # gives back what it has not used
        while len(clients[0].releases("b")) < 6:
            made = clients[0].decide("b", features=ROWS)
            assert clients[0].learn("b", made, 0.5) == "counted"
        releases = clients[0].releases("b")
        rounds = sum(each["rounds"] for each in releases)
        counted = sum(each["count"] for each in releases)
        assert counted == rounds  # every round of every window has taught something
    finally:
        servers[0].stop()
        postgresql.drop(name)
