"""One person counts once, with the first decision; rounds are not lost between replicas."""

import pytest

from tests.service.conftest import Running

ROWS = [[0.5, 0.0], [0.0, 0.5]]
RAW = {"dim": 2, "reward": {"range": [-1, 1]}, "privacy": {"epsilon": None}}
PEOPLE = {"privacy": {"epsilon": None, "unit": "person"}}


def released(client) -> dict:
    while not client.releases("b"):
        client.decide("b", features=ROWS, person="somebody else")
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


def test_visits_all_is_refused_in_words(running):
    body = b'{"dim": 2, "privacy": {"epsilon": 1, "unit": "person", "visits": "all"}}'
    status, _, text = running.request("PUT", "/v1/bandits/b", body)
    assert status == 422
    assert b"not served yet" in text


def test_three_replicas_with_little_traffic_lose_no_round(postgresql, tmp_path):
    """A lost number is a decision that teaches nothing: with three replicas as with one."""
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
