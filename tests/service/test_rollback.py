"""A database that is older than what was shown is refused, or fenced off."""

import shutil
import sqlite3
import time
from dataclasses import replace

import pytest

from discreet.service import budgets, rows
from discreet.service import store as tables
from discreet.service.client import ServiceError
from discreet.service.errors import StoreBusy
from discreet.service.fence import Grip, RolledBack
from discreet.service.key_access import KeyAccess
from discreet.service.keys import id_of
from discreet.service.restoring import backup, restore
from discreet.service.server import Server
from discreet.service.settings import Settings
from tests.service.conftest import ADMIN, Running

RAW = {"dim": 2, "reward": {"range": [-1, 1]}, "privacy": {"epsilon": 1.0}}
ROWS = [[0.5, 0.0], [0.0, 0.5]]


def play(client, rounds: int, bandit: str = "b") -> list:
    made = []
    for _ in range(rounds):
        decision = client.decide(bandit, features=ROWS)
        client.learn(bandit, decision, 0.5)
        made.append(decision)
    return made


def started(folder) -> Running:
    server = Running(folder)
    server.client().create("b", RAW)
    return server


def put_back(folder) -> None:
    shutil.copy(folder / "backup.db", folder / "store.db")
    for extra in ("-wal", "-shm"):
        (folder / f"store.db{extra}").unlink(missing_ok=True)


@pytest.fixture
def folder(tmp_path):
    return tmp_path


def test_an_old_database_is_refused_and_restore_begins_a_new_epoch(folder):
    server = started(folder)
    old = play(server.client(), 3)
    backup(server.settings, folder / "backup.db")
    after = server.client().decide("b", features=ROWS)
    server.stop()
    Running(folder).stop()  # one more start
    put_back(folder)
    with pytest.raises(RolledBack, match="discreet restore"):
        Server(server.settings)
    assert "new epoch" in restore(server.settings)[-1]
    again = Running(folder)
    client = again.client()
    try:
        for decision in (*old, after):
            assert client.learn("b", decision, 0.5) == "unknown"
        assert [client.learn("b", d, 0.5) for d in play(client, 2)] == ["duplicate"] * 2
        assert client.bandit("b")["learning"] is True
    finally:
        again.stop()


def test_the_same_backup_restored_twice_is_two_epochs(folder):
    server = started(folder)
    play(server.client(), 2)
    backup(server.settings, folder / "backup.db")
    tokens = play(server.client(), 3)  # the window's sum has moved on since
    server.stop()
    for _ in range(2):
        shutil.copy(folder / "backup.db", folder / "store.db")
        for extra in ("-wal", "-shm"):
            (folder / f"store.db{extra}").unlink(missing_ok=True)
        with pytest.raises(RolledBack):
            Server(server.settings)
        restore(server.settings)
        again = Running(folder)
        client = again.client()
        for token in tokens:
            assert client.learn("b", token, 0.5) == "unknown"
        tokens += play(client, 1)
        again.stop()


def test_a_copy_that_is_served_beside_the_original_stops_it_from_releasing(folder):
    server = started(folder)
    client = server.client()
    play(client, 1)
    (folder / "copy").mkdir()
    backup(server.settings, folder / "copy" / "store.db")
    other = Running(folder, store=f"sqlite:///{folder}/copy/store.db")
    try:
        size = client.bandit("b")["window"]["rounds"]

        def until_it_turns() -> None:
            for _ in range(size + 1):
                client.decide("b", features=ROWS)

        with pytest.raises(ServiceError, match="older than what"):
            until_it_turns()
        assert client.releases("b") == []
    finally:
        other.stop()
        server.stop()


def test_a_missing_or_foreign_fence_is_refused(folder):
    server = started(folder)
    server.stop()
    fence = folder / "secrets" / "fence.log"
    kept = fence.read_bytes()
    fence.unlink()
    with pytest.raises(RolledBack, match="no fence"):
        Server(server.settings)
    Running(
        folder / "other", store=f"sqlite:///{folder}/other.db", secrets=folder / "foreign"
    ).stop()
    fence.write_bytes((folder / "foreign" / "fence.log").read_bytes())
    with pytest.raises(RolledBack, match="another instance"):
        Server(server.settings)
    fence.write_bytes(kept)
    Running(folder).stop()


def test_what_must_not_be_forgotten_comes_back_from_the_fence(folder):
    server = started(folder)
    client = server.client()
    client.call("PUT", "/v1/populations/people", {"epsilon": 1.2, "delta": 1e-6})
    key = client.call("POST", "/v1/keys", {"name": "k", "scopes": ["read"]})
    backup(server.settings, folder / "backup.db")
    client.call("DELETE", f"/v1/keys/{key['id']}")
    client.create("paid", RAW | {"privacy": {"epsilon": 1.0, "population": "people"}})
    client.call("PUT", "/v1/populations/people", {"epsilon": 1.3, "delta": 1e-6})
    client.call("DELETE", "/v1/bandits/b")
    server.stop()
    put_back(folder)
    restore(server.settings)
    again = Running(folder)
    client = again.client()
    try:
        assert (
            again.request("GET", "/v1/bandits", Authorization=f"Bearer {key['secret']}")[0] == 401
        )
        shown = client.call("GET", "/v1/populations/people")
        assert shown["limit"]["epsilon"] == 1.3
        assert [each["bandit"] for each in shown["bandits"]] == ["paid"]
        assert client.bandit("b")["retired"] is True
    finally:
        again.stop()


def test_a_genuine_token_of_a_round_never_leased_stops_learning(folder):
    server = started(folder)
    client = server.client()
    play(client, 2)
    live = server.app.state.server
    token = client.decide("b", features=ROWS).decision
    about = live.live["b"].about
    (sealed,) = live.sealer.open(about, [token])
    (forged,) = live.sealer.seal(about, [10**6], sealed.row[None], [1.0], sealed.deadline)
    try:
        assert client.learn("b", forged, 0.5) == "closed"
        assert client.learn("b", token, 0.5) == "closed"
        assert client.call("GET", "/readyz") == {"status": "ok", "alarms": ["b"]}
        assert client.decide("b", features=ROWS).action in (0, 1)
    finally:
        server.stop()


def test_one_server_for_each_file(folder):
    server = started(folder)
    try:
        with pytest.raises(StoreBusy, match="in use"):
            Server(server.settings)
    finally:
        server.stop()


def test_the_admin_key_is_replaced_by_its_own_command_alone(folder):
    """...for good: a start with another one changes nothing, a backup does not bring it back."""
    server = started(folder)
    backup(server.settings, folder / "backup.db")
    server.stop()
    other = replace(server.settings, admin_key="another-admin-key-that-is-long-enough")
    begun = Server(other)
    assert not begun.has_admin_key()
    begun.close()
    new = KeyAccess(server.settings).rotate()["secret"]
    again = Running(folder, admin_key=None)

    def statuses() -> list[int]:
        secrets = (ADMIN, other.admin_key, new)
        return [again.request("GET", "/v1/keys", Authorization=f"Bearer {s}")[0] for s in secrets]

    try:
        assert statuses() == [401, 401, 200]
        with pytest.raises(ServiceError, match="last admin key"):
            again.client(new).call("DELETE", f"/v1/keys/{id_of(new)}")
        newest = KeyAccess(replace(again.settings, admin_key=new)).rotate()["secret"]  # by its API
        assert statuses() == [401, 401, 401]
        assert again.request("GET", "/v1/keys", Authorization=f"Bearer {newest}")[0] == 200
    finally:
        again.stop()
    put_back(folder)
    restore(server.settings)
    again = Running(folder, admin_key=None)
    try:
        assert statuses() == [401, 401, 401]
    finally:
        again.stop()


def test_a_stolen_disk_shows_at_most_the_last_batch(folder):
    """Differences of sums are exact: so no two versions may be readable, whatever was deleted."""
    server = started(folder)
    client = server.client()
    vault = server.app.state.server.vault
    held = server.app.state.server.tenants
    seen = []
    for _ in range(12):
        play(client, 1)
        seen.append((held["b"].sequence, held["b"].learner._window.total._value.copy()))
    server.stop()
    raw = b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())
    readable = {number for number, *_ in vault._slots("b", held["b"].epoch)}
    assert len(readable & {number for number, _ in seen}) <= 2
    for _, total in seen:
        assert total.tobytes() not in raw


def test_a_limit_that_was_lowered_before_a_crash_stays_lowered_after_a_restore(folder, monkeypatch):
    """The database knows it, the fence does not yet: a restore must not bring the old one back."""
    server = Server(Settings(store=f"sqlite:///{folder}/store.db", secrets=folder / "secrets"))

    def limit(epsilon):
        def change(connection):
            budgets.set_limit(connection, "p", epsilon, 1e-6, "round")
            about = {"population": "p", "epsilon": epsilon, "delta": 1e-6, "unit": "round"}
            return None, about

        server.fenced("limit", change)

    def power_failure(grip, mark):
        raise KeyboardInterrupt

    limit(5.0)
    with monkeypatch.context() as patched:
        patched.setattr(Grip, "append", power_failure)
        with pytest.raises(KeyboardInterrupt):
            limit(1.0)
    server.close()
    restore(server.settings)
    again = Server(server.settings)
    with again.store.transaction() as connection:
        assert rows.one(connection, tables.populations, name="p").epsilon == 1.0
    again.close()


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_a_revoked_key_stays_revoked_when_an_old_database_is_put_back_under_us(
    request, tmp_path, kind
):
    """While the server runs, and for every reload of its keys from then on."""
    store = f"sqlite:///{tmp_path}/store.db"
    if kind == "postgresql":
        postgresql = request.getfixturevalue("postgresql")
        name = postgresql.new()
        store = postgresql.url(name)
    server = Running(tmp_path, store=store)
    client = server.client()
    try:
        key = client.call("POST", "/v1/keys", {"name": "k", "scopes": ["read"]})
        other = client.call("POST", "/v1/keys", {"name": "other", "scopes": ["read"]})
        if kind == "postgresql":
            server.server.store.engine.dispose()
            copy = postgresql.new(template=name)
        else:
            backup(server.settings, tmp_path / "backup.db")
        client.call("DELETE", f"/v1/keys/{key['id']}")
        if kind == "postgresql":
            postgresql.rename(copy, name)
        else:
            with sqlite3.connect(tmp_path / "backup.db") as old:
                live = sqlite3.connect(tmp_path / "store.db")
                old.backup(live)
                live.close()
            old.close()
        ends = time.monotonic() + 7  # every reload is within five seconds
        while time.monotonic() < ends:
            for secret, status in ((key, 401), (other, 200)):
                sent = f"Bearer {secret['secret']}"
                assert server.request("GET", "/v1/populations", Authorization=sent)[0] == status
            time.sleep(0.2)
        with pytest.raises(ServiceError) as caught:
            client.call("GET", "/v1/keys")
        assert caught.value.kind == "rolled-back"
    finally:
        server.stop()


def test_an_old_database_under_us_takes_no_reward_and_gives_no_round_away(tmp_path):
    """At once, and not only when keys are read again: a retired bandit would learn in it."""
    server = Running(tmp_path)
    client = server.client()
    waits = RAW | {"reward": {"range": [-1, 1], "wait": "1h", "default": 0}}
    try:
        client.create("b", RAW)
        client.create("waits", waits)
        token = client.decide("b", features=ROWS)
        kept = client.decide("waits", features=ROWS, id="order")
        time.sleep(1.5)  # leases are given back
        backup(server.settings, tmp_path / "backup.db")
        client.call("DELETE", "/v1/bandits/b")
        assert client.learn("b", token, 0.5) == "closed"
        with sqlite3.connect(tmp_path / "backup.db") as old:
            live = sqlite3.connect(tmp_path / "store.db")
            old.backup(live)
            live.close()
        old.close()
        for call in (
            lambda: client.learn("b", token, 0.5),
            lambda: client.learn("waits", kept, 0.5),
            lambda: client.learn("waits", "order", 0.5),
            lambda: client.decide("b", features=ROWS),
            lambda: client.decide("waits", features=ROWS, id="order"),
        ):
            with pytest.raises(ServiceError) as caught:
                call()
            assert caught.value.kind == "rolled-back"
    finally:
        server.stop()
    with pytest.raises(RolledBack):
        started(tmp_path)
    told = restore(server.settings)
    assert any(each.startswith("waits: decisions that waited and are dropped: 1,") for each in told)
    again = Running(tmp_path)
    try:
        assert again.client().bandit("b")["retired"]
    finally:
        again.stop()
