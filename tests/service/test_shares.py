"""What an application may take of a horizon and of a window: across keys, replicas and restarts."""

import json
import time
from typing import Any

import pytest

from discreet.service import leasing, shares
from discreet.service import store as tables
from discreet.service.client import ServiceError
from discreet.service.errors import Problem
from discreet.service.key_access import KeyAccess
from discreet.service.messages import KeyBody
from tests.service.conftest import Running

ROWS = [[0.5, 0.0], [0.0, 0.5]]
ENDS: dict[str, Any] = {"dim": 2, "privacy": {"epsilon": None}, "horizon": 400}
GOES_ON: dict[str, Any] = {"dim": 2, "privacy": {"epsilon": 1.0}}


@pytest.fixture
def running(tmp_path):
    made = Running(tmp_path)
    yield made
    made.stop()


def key(server: Running, name: str, *scopes: str, **more: Any) -> Any:
    body = {"name": name, "scopes": list(scopes), **more}
    return server.client(server.client().call("POST", "/v1/keys", body)["secret"])


refused: list[tuple[int, str]] = []  # the last refusals


def decided(client: Any, most: int = 1000, at_once: int = 20) -> int:
    """How many decisions a key gets until it is refused."""
    body = {"requests": [{"features": ROWS}] * at_once}
    for done in range(0, most, at_once):
        try:
            client.call("POST", "/v1/bandits/b/decide", body)
        except ServiceError as error:
            refused.append((error.status, error.kind))
            return done
    return most


def status(server: Running, client: Any, at_once: int | None = None) -> int:
    """What one call is answered, which is not repeated: for one decision, or for many at once."""
    one = {"features": ROWS}
    body = json.dumps(one if at_once is None else {"requests": [one] * at_once}).encode()
    bearer = f"Bearer {client._key}"
    return server.request("POST", "/v1/bandits/b/decide", body, Authorization=bearer)[0]


def test_horizon__a_key_that_only_decides_does_not_end_it_by_many_calls(running):
    running.client().create("b", ENDS)
    thief = key(running, "page", "decide", bandits=["b"])
    assert decided(thief) == 200
    assert refused[-1] == (403, "share-used")
    assert running.client().bandit("b")["learning"]
    with pytest.raises(ServiceError, match="share"):
        thief.decide("b", features=ROWS)
    assert decided(key(running, "page", "decide")) == 0  # another key of the same name
    assert decided(running.client(), most=100) == 100  # administrators go on
    key(running, "page", "decide", share=0.75, bandits=["b"])
    assert decided(thief) == 100


@pytest.mark.parametrize("retired", [True, False])
def test_horizon__once_learning_has_ended_decisions_go_on_for_everybody(running, retired):
    admin = running.client()
    admin.create("b", ENDS)
    page = key(running, "page", "decide", bandits=["b"])
    assert decided(page) == 200
    if retired:
        admin.call("DELETE", "/v1/bandits/b")
    else:
        assert decided(admin, most=220) == 220
    assert not admin.bandit("b")["learning"]
    assert decided(page, most=300) == 300


def test_horizon__who_decides_and_learns_alone_has_all_of_it_and_else_a_half(running):
    running.client().create("b", ENDS)
    shop = key(running, "shop", "decide", "learn")
    key(running, "other", "decide", "learn", bandits=["c"])
    assert decided(shop, most=100) == 100
    assert running.rows(tables.shares) == []
    other = key(running, "other", "decide", "learn")
    assert decided(other) == 200
    assert decided(shop, most=40) == 40  # it is counted since there is another one


def test_window__a_stated_share_of_each_where_there_is_no_horizon(running):
    admin = running.client()
    admin.create("b", GOES_ON)
    size = admin.bandit("b")["window"]["rounds"]
    guest = key(running, "guest", "decide", share=0.25)
    key(running, "page", "decide")
    for _ in range(2):
        assert decided(guest, at_once=1) == size // 4
        assert refused[-1] == (429, "share-used")
        now = admin.bandit("b")["window"]
        rest = now["rounds"] - now["decided"]
        admin.call("POST", "/v1/bandits/b/decide", {"requests": [{"features": ROWS}] * (rest + 1)})
        size = admin.bandit("b")["window"]["rounds"]


def test_window__who_decides_alone_has_all_of_each_whatever_is_stated(running):
    running.client().create("b", GOES_ON)
    guest = key(running, "guest", "decide", share=0.25)
    key(running, "page", "decide", bandits=["c"])
    assert decided(guest, most=100) == 100
    assert running.client().bandit("b")["window"]["number"] > 1
    other = key(running, "page", "decide")
    assert decided(guest) < 100
    assert refused[-1] == (429, "share-used")
    assert decided(other, most=60) == 60


def test_horizon__a_stated_share_holds_for_who_cannot_learn_though_nobody_else_decides(running):
    running.client().create("b", ENDS)
    assert decided(key(running, "page", "decide", share=0.25)) == 100
    assert refused[-1] == (403, "share-used")
    key(running, "page", "learn")
    assert decided(key(running, "page", "decide"), most=100) == 100


def test_window__another_share_comes_when_nobody_wanted_a_round_for_long(running, monkeypatch):
    admin = running.client()
    admin.create("b", GOES_ON)
    size = admin.bandit("b")["window"]["rounds"]
    guest = key(running, "guest", "decide", share=0.25)
    key(running, "page", "decide")

    admin.decide("b", features=ROWS)
    live = running.server.live["b"]

    def idle() -> None:
        while live.unused or live.shares:  # until what was leased has gone back
            time.sleep(0.05)

    assert [status(running, guest) for _ in range(size // 4 + 1)] == [200] * (size // 4) + [429]
    idle()
    assert status(running, guest) == 429
    monkeypatch.setattr(shares, "WAIT_SECONDS", 0.0)
    admin.decide("b", features=ROWS)
    idle()
    assert status(running, guest) == 429  # somebody has decided meanwhile
    assert [status(running, guest) for _ in range(size // 4)] == [200] * (size // 4)


def test_lease__that_fails_costs_no_share(running, monkeypatch):
    def lost(*_: Any) -> Any:
        raise Problem("store-unavailable")

    running.client().create("b", ENDS)
    page = key(running, "page", "decide")
    with monkeypatch.context() as broken:
        broken.setattr(leasing, "_granted", lost)
        assert [status(running, page, at_once) for at_once in (1, 20, None)] == [503] * 3
    assert decided(page) == 200


def test_replicas_and_restarts_share_one_count(tmp_path, postgresql):
    name = postgresql.new()
    url = postgresql.url(name)
    both = [Running(tmp_path, store=url) for _ in range(2)]
    try:
        both[0].client().create("b", ENDS)
        secret = key(both[0], "page", "decide")._key
        for each in both:
            each.client().call("GET", "/v1/keys")  # reads what the other one made
        assert sum(decided(each.client(secret), most=100) for each in both) == 200
        assert [decided(each.client(secret)) for each in both] == [0, 0]
        both.pop().stop()
        both.append(Running(tmp_path, store=url))
        assert decided(both[1].client(secret)) == 0
    finally:
        for each in both:
            each.stop()
        postgresql.drop(name)


def test_unused__what_was_taken_in_advance_is_given_back(running):
    running.client().create("b", ENDS)
    page = key(running, "page", "decide")
    for _ in range(30):
        page.decide("b", features=ROWS)
    server = running.server
    live = server.live["b"]
    live.shares["page", 0] = live.shares.get(("page", 0), 0) + 7
    running.stop()
    again = Running(running.settings.secrets.parent, store=running.settings.store)
    try:
        (row,) = again.rows(tables.shares)
        assert row["taken"] == 30 - 7
    finally:
        again.stop()


def test_refused__a_call_that_is_not_answered_costs_nothing(running):
    running.client().create("b", ENDS)
    page = key(running, "page", "decide")
    with pytest.raises(ServiceError, match="numbers"):
        page.call("POST", "/v1/bandits/b/decide", {"requests": [{"features": [[1.0]]}] * 3})
    assert page.call("POST", "/v1/bandits/b/decide", {"requests": []}) == {"decisions": []}
    for _ in range(3):
        page.decide("b", features=ROWS, id="the same")  # a repeated request is no round
    assert decided(page, at_once=1) == 199


def test_share__is_a_fraction(running):
    for share in (0, -0.5, 1.5):
        with pytest.raises(ServiceError, match="share"):
            key(running, "k", "decide", share=share)


@pytest.mark.parametrize("share", [0.0, -0.5, 5.0, float("nan")])
def test_share__is_a_fraction_on_the_command_line_too(running, share):
    running.stop()
    with pytest.raises(Problem, match="share"):
        KeyAccess(running.settings).create(KeyBody("k", ["decide"], share=share))
