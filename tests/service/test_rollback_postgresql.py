"""The same on PostgreSQL: point-in-time restores, failovers to an older state while servers run."""

import shutil
from dataclasses import replace

import pytest

from discreet.service import beats, migrations
from discreet.service.client import ServiceError
from discreet.service.fence import RolledBack
from discreet.service.restoring import backup, restore
from discreet.service.server import Server
from tests.service.conftest import Running

RAW = {"dim": 2, "reward": {"range": [-1, 1]}, "privacy": {"epsilon": 1.0}}
ROWS = [[0.5, 0.0], [0.0, 0.5]]


def play(client, rounds: int) -> list:
    made = []
    for _ in range(rounds):
        decision = client.decide("b", features=ROWS)
        client.learn("b", decision, 0.5)
        made.append(decision)
    return made


@pytest.fixture
def name(postgresql):
    made = postgresql.new()
    yield made
    postgresql.drop(made)


def snapshot(postgresql, server: Running, name: str) -> str:
    """A copy of the database as it is now; a template must not be in use."""
    store = server.server.store
    with store._lock:
        store.engine.dispose()
        return postgresql.new(template=name)


def test_a_point_in_time_restore_is_refused_and_restore_begins_a_new_epoch(
    postgresql, name, tmp_path
):
    server = Running(tmp_path, store=postgresql.url(name))
    client = server.client()
    client.call("PUT", "/v1/populations/people", {"epsilon": 1.2})
    client.create("b", RAW)
    old = play(client, 2)
    key = client.call("POST", "/v1/keys", {"name": "k", "scopes": ["read"]})
    server.stop()
    copy = postgresql.new(template=name)
    server = Running(tmp_path, store=postgresql.url(name))
    client = server.client()
    new = play(client, 2)
    client.call("DELETE", f"/v1/keys/{key['id']}")
    client.create("paid", RAW | {"privacy": {"epsilon": 1.0, "population": "people"}})
    server.stop()
    postgresql.rename(copy, name)
    with pytest.raises(RolledBack, match="discreet restore"):
        Server(server.settings)
    with pytest.raises(ValueError, match="pg_dump"):
        backup(server.settings, tmp_path / "backup")
    assert "new epoch" in restore(server.settings)[-1]
    again = Running(tmp_path, store=postgresql.url(name))
    client = again.client()
    try:
        for decision in (*old, *new):
            assert client.learn("b", decision, 0.5) == "unknown"
        assert [client.learn("b", d, 0.5) for d in play(client, 2)] == ["duplicate"] * 2
        assert (
            again.request("GET", "/v1/bandits", Authorization=f"Bearer {key['secret']}")[0] == 401
        )
        (charge,) = client.call("GET", "/v1/populations/people")["bandits"]
        assert charge["bandit"] == "paid"
    finally:
        again.stop()


def test_a_failover_to_an_older_state_while_running_releases_nothing_more(
    postgresql, name, tmp_path
):
    server = Running(tmp_path, store=postgresql.url(name))
    client = server.client()
    client.create("b", RAW)
    play(client, 2)
    server.stop()
    copy = postgresql.new(template=name)
    server = Running(tmp_path, store=postgresql.url(name))
    client = server.client()
    tokens = play(client, 3)
    try:
        postgresql.rename(copy, name)
        for attempt in (
            lambda: client.learn("b", tokens[0], 0.5),
            lambda: client.create("other", RAW),
            lambda: [client.decide("b", features=ROWS) for _ in range(100)],
        ):
            with pytest.raises(ServiceError) as caught:
                attempt()
            assert (caught.value.status, caught.value.kind) == (503, "rolled-back")
        assert client.releases("b") == []
    finally:
        server.stop()


def test_a_failover_that_lost_one_commit_goes_on_and_counts_it_when_it_is_sent_again(
    postgresql, name, tmp_path
):
    """An asynchronous standby may lack the last commit; its window was not released since."""
    server = Running(tmp_path, store=postgresql.url(name))
    client = server.client()
    client.create("b", RAW | {"privacy": {"epsilon": None}})
    try:
        made = [client.decide("b", features=ROWS) for _ in range(3)]
        assert client.learn("b", made[0], 0.5) == "counted"
        copy = snapshot(postgresql, server, name)
        assert client.learn("b", made[1], 0.5) == "counted"  # the standby has not seen this
        postgresql.rename(copy, name)
        assert client.learn("b", made[2], -0.5) == "counted"
        assert client.learn("b", made[0], 0.5) == "duplicate"
        assert client.learn("b", made[1], 0.25) == "counted"
        while not client.releases("b"):
            client.decide("b", features=ROWS)
        (release,) = client.releases("b")
        assert release["count"] == 3
        assert release["sum"] == pytest.approx(0.25, abs=1e-12)
    finally:
        server.stop()


def test_a_folder_of_secrets_that_is_an_old_copy_is_refused_and_nothing_changes(
    postgresql, name, tmp_path
):
    server = Running(tmp_path, store=postgresql.url(name))
    try:
        server.client().create("b", RAW)
        shutil.copytree(tmp_path / "secrets", tmp_path / "copy")
        second = Server(server.settings)  # has started since
        with pytest.raises(ValueError, match="DISCREET_SECRETS") as caught:
            Server(replace(server.settings, secrets=tmp_path / "copy"))
        assert "restore" not in str(caught.value)
        second.close()
        assert play(server.client(), 1)
        server.client().create("c", RAW)
    finally:
        server.stop()


def test_servers_of_two_schemas_never_work_on_one_store(postgresql, name, tmp_path, monkeypatch):
    """Neither does a newer one bring it forward under an older, nor goes an older one on after."""
    server = Running(tmp_path, store=postgresql.url(name))
    client = server.client()
    client.create("b", RAW)
    try:
        now = migrations.CURRENT
        monkeypatch.setattr(migrations, "STEPS", {**migrations.STEPS, now: lambda _: None})
        monkeypatch.setattr(migrations, "CURRENT", now + 1)
        with pytest.raises(ValueError, match="stop them all first"):
            Server(server.settings)
        monkeypatch.setattr(beats, "LOOKS", 0.0)
        Server(server.settings).close()
        monkeypatch.setattr(migrations, "CURRENT", now)
        for call in (lambda: play(client, 2), lambda: client.call("GET", "/readyz")):
            with pytest.raises(ServiceError) as caught:
                call()
            assert caught.value.kind == "other-version"
    finally:
        server.stop()


def test_a_restore_while_servers_run_is_refused_and_noticed_by_them(
    postgresql, name, tmp_path, monkeypatch
):
    server = Running(tmp_path, store=postgresql.url(name))
    client = server.client()
    client.create("b", RAW)
    made = play(client, 1)
    try:
        with pytest.raises(ValueError, match="stop them all first"):
            restore(server.settings)
        assert client.learn("b", made[0], 0.5) == "duplicate"  # nothing has changed
        monkeypatch.setattr(beats, "LOOKS", 0.0)  # a server that was paused
        restore(server.settings)
        with pytest.raises(ServiceError) as caught:
            client.learn("b", made[0], 0.5)
        assert caught.value.kind == "rolled-back"
    finally:
        server.stop()


@pytest.mark.parametrize("kind", ["in no population", "with a limit", "without a limit"])
def test_people_cannot_be_counted_again_after_a_restore_unless_somebody_pays(
    postgresql, name, tmp_path, kind
):
    server = Running(tmp_path, store=postgresql.url(name))
    client = server.client()
    privacy = {"epsilon": 1.0, "unit": "person"}
    if kind == "with a limit":
        client.call("PUT", "/v1/populations/people", {"epsilon": 1.5, "unit": "person"})
    if kind != "in no population":
        privacy["population"] = "people"
    client.create("b", RAW | {"privacy": privacy})
    assert client.guarantee("b")["unit"] == "person"
    server.stop()
    said = []
    for restores in (1, 2):  # the first is paid by what is left of a limit
        said += restore(server.settings)
        again = Running(tmp_path, store=postgresql.url(name))
        paid = kind == "without a limit" or (kind == "with a limit" and restores == 1)
        assert again.client().bandit("b")["retired"] is not paid
        if kind != "in no population":
            shown = again.client().call("GET", "/v1/populations/people")
            assert len(shown["bandits"]) == (1 + restores if paid else restores)
        again.stop()
    assert any("no population pays" in line for line in said) == (kind == "in no population")
    assert any("people has no room" in line for line in said) == (kind == "with a limit")
