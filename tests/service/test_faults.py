"""What must be true when something breaks: acknowledged rewards count once, releases stay."""

import errno
import math
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
import sqlalchemy as sa

from discreet.service import store as tables
from discreet.service.client import Client, Decided, ServiceError
from tests.service.conftest import ADMIN, Running, free_port
from tests.service.processes import Parent

ROWS = [[0.5, 0.0], [0.0, 0.5]]
KILLS = 10  # on each of two stores
REWARDS = (-1.0, -0.5, 0.25, 1.0)


def definition(epsilon):
    return {"dim": 2, "reward": {"range": [-1, 1]}, "privacy": {"epsilon": epsilon}}


@pytest.fixture
def parent(tmp_path):
    made = Parent(tmp_path, ADMIN)
    yield made
    made.close()


class Load:
    """Decides and rewards as fast as it can; remembers what was acknowledged and what was not."""

    def __init__(self, ports, seed: int) -> None:
        self.ports = ports
        self.rng = random.Random(seed)
        self.counted: dict[str, float] = {}
        self.open: dict[str, float] = {}  # sent, not acknowledged
        self.wrong: list[str] = []
        self.stopping = False
        self.thread = threading.Thread(target=self._run)
        self.thread.start()

    def _run(self) -> None:
        while not self.stopping:
            port = self.rng.choice(self.ports)
            with Client(f"http://127.0.0.1:{port}", ADMIN, timeout=20) as client:
                try:
                    for _ in range(10):
                        if not self.stopping:
                            self._round(client)
                except (OSError, ServiceError) as error:
                    if isinstance(error, ServiceError) and error.status != 503:
                        self.wrong.append(str(error))
                    time.sleep(0.01)

    def _round(self, client: Client) -> None:
        made = client.decide("b", features=ROWS)
        self.open[made.decision] = self.rng.choice(REWARDS)
        for token, value in list(self.open.items()):  # retries of lost answers too
            self.settle(client, token, value)
            if self.rng.random() < 0.2:
                self.settle(client, token, -value)  # a duplicate with another reward

    def settle(self, client: Client, token: str, reward: float) -> None:
        status = client.learn("b", token, reward)
        if status not in ("counted", "duplicate"):
            self.wrong.append(status)
        if token in self.counted and status == "counted":
            self.wrong.append("counted twice")
        self.counted.setdefault(token, reward)
        self.open.pop(token, None)


def settled(loads, client) -> dict[str, float]:
    """Stop, and ask once more about every reward whose answer was lost: all are acknowledged."""
    counted: dict[str, float] = {}
    for load in loads:
        load.stopping = True
    for load in loads:
        load.thread.join()
        for token, reward in list(load.open.items()):
            load.settle(client, token, reward)
        assert load.wrong == []
        assert not counted.keys() & load.counted.keys()
        counted |= load.counted
    return counted


def many(client, number: int) -> list[Decided]:
    body = {"requests": [{"features": ROWS}] * number}
    reply = client.call("POST", "/v1/bandits/b/decide", body)
    return [Decided(**each) for each in reply["decisions"]]


def closed(client) -> list[dict]:
    """All releases, once the open window is full."""
    before = len(client.releases("b"))
    while len(client.releases("b")) == before:
        many(client, 200)
    return client.releases("b")


def assert_totals(releases, counted) -> None:
    assert sum(each["count"] for each in releases) == len(counted)
    total = math.fsum(each["sum"] for each in releases)
    assert total == pytest.approx(math.fsum(counted.values()), abs=1e-9)


@pytest.mark.parametrize("epsilon", [None, 1.0])
def test_killed_at_random_moments_it_counts_each_acknowledged_reward_once(
    parent, store, tmp_path, epsilon
):
    port, secrets = free_port(), tmp_path / "secrets"
    server = parent.server(store, secrets, port)
    client = server.client()
    client.create("b", definition(epsilon))
    loads = [Load([port], seed) for seed in range(4)]
    rng = random.Random(5)
    shown = []
    for _ in range(KILLS if epsilon is None else 3):
        time.sleep(rng.uniform(0.05, 0.4))
        shown.append(client.releases("b"))
        server.kill()
        server = parent.server(store, secrets, port)
    time.sleep(0.3)
    counted = settled(loads, client)
    releases = closed(client)
    for earlier in shown:
        assert releases[: len(earlier)] == earlier
    if epsilon is None:
        assert_totals(releases, counted)
    assert len(counted) > 20
    client.close()
    server.stop()


def test_three_replicas_and_32_clients_count_what_one_would(parent, postgresql, tmp_path):
    name = postgresql.new()
    ports = [free_port() for _ in range(3)]
    with ThreadPoolExecutor() as pool:  # all three at once on an empty database
        servers = list(
            pool.map(lambda p: parent.server(postgresql.url(name), tmp_path / "s", p), ports)
        )
    client = servers[0].client()
    client.create("b", definition(None))
    loads = [Load(ports, seed) for seed in range(32)]
    time.sleep(4)
    counted = settled(loads, client)
    assert len(counted) > 100
    assert_totals(closed(client), counted)
    policies = [server.client() for server in servers]
    shown = [each.call("GET", "/v1/bandits/b/policy") for each in policies]
    assert shown[0] == shown[1] == shown[2]
    for each in (client, *policies):
        each.close()
    for server in servers:
        server.stop()
    postgresql.drop(name)


def test_a_replica_that_was_paused_for_longer_than_its_leases_does_no_harm(
    parent, postgresql, tmp_path
):
    """Paused at a random moment, perhaps with a row lock: others go on once it is taken away."""
    name = postgresql.new()
    ports = [free_port() for _ in range(2)]
    # Leases of one second, so that the pause is longer than any.
    before = (
        "import discreet.service.deciding as d, discreet.service.store as s\n"
        "d.LEASE_SECONDS, s.PAUSED = 1.0, 1000"
    )
    servers = [parent.server(postgresql.url(name), tmp_path / "s", port, before) for port in ports]
    client = servers[1].client()
    client.create("b", definition(None))
    loads = [Load([port], seed) for seed, port in enumerate([*ports, *ports])]
    for _ in range(3):
        time.sleep(0.3)
        servers[0].signal(signal.SIGSTOP)
        time.sleep(1.6)
        servers[0].signal(signal.SIGCONT)
    counted = settled(loads, client)
    assert len(counted) > 20
    assert_totals(closed(client), counted)
    client.close()
    for server in servers:
        server.stop()
    postgresql.drop(name)


def test_a_store_that_goes_and_comes_back_has_lost_nothing_that_was_acknowledged(
    postgresql, tmp_path
):
    name = postgresql.new()
    server = Running(tmp_path, store=postgresql.url(name))
    client = server.client()
    client.create("b", definition(None))
    counted = {}
    try:
        before = many(client, 4)
        counted[before[0].decision] = 0.5
        assert client.learn("b", before[0], 0.5) == "counted"
        client.decide("b", features=ROWS)
        live = server.server.live["b"]
        live.rate, live.first = 1000.0, live.end  # the next lease is a block
        client.decide("b", features=ROWS)
        assert live.first < live.end
        live.used_at = time.monotonic() + 60  # busy: it keeps its block
        postgresql.stop()
        for path, body in [
            ("learn", b'{"decision": "%s", "reward": 1}' % before[1].decision.encode()),
            ("decide", b'{"features": [[0.1, 0]], "id": "mine"}'),
        ]:
            status, headers, _ = server.request("POST", f"/v1/bandits/b/{path}", body)
            assert (status, headers["content-type"]) == (503, "application/problem+json")
        # A leased block is used up with the last policy, then that is 503 too.
        live.lease_ends = time.monotonic() + 60
        body = b'{"features": [[0.1, 0]]}'
        left = live.end - live.first
        found = [server.request("POST", "/v1/bandits/b/decide", body)[0] for _ in range(left + 1)]
        assert found == [200] * left + [503]
        assert server.request("GET", "/readyz")[0] == 503
        assert server.request("GET", "/healthz")[0] == 200
        postgresql.start()
        assert client.learn("b", before[0], 0.5) == "duplicate"
        assert client.learn("b", before[1], 1.0) == "counted"
        counted[before[1].decision] = 1.0
        assert_totals(closed(client), counted)
    finally:
        postgresql.start()
        server.stop()
        postgresql.drop(name)


class Breaks:
    """os.fsync that fails, as on a full disk."""

    def __init__(self) -> None:
        self.real = os.fsync
        self.full = False

    def __call__(self, handle: int) -> None:
        if self.full:
            raise OSError(errno.ENOSPC, "No space left on device")
        self.real(handle)


def test_a_full_disk_is_503_and_nothing_is_lost(tmp_path, monkeypatch):
    """Of the secrets, and of the store: max_page_count makes SQLite say that the disk is full."""
    breaks = Breaks()
    monkeypatch.setattr(os, "fsync", breaks)
    server = Running(tmp_path)
    client = server.client()
    client.create("b", definition(None))
    counted = {}

    def refused(path: str, body: str) -> None:
        status, headers, raw = server.request("POST", f"/v1/bandits/b/{path}", body.encode())
        assert (status, headers["content-type"]) == (503, "application/problem+json")
        assert b"store-unavailable" in raw

    def sent(decision, reward: float) -> str:
        return f'{{"decision": "{decision.decision}", "reward": {reward}}}'

    try:
        made = [client.decide("b", features=ROWS) for _ in range(4)]
        counted[0] = 0.5
        assert client.learn("b", made[0], 0.5) == "counted"
        breaks.full = True
        counted[3] = 0.75  # its key was written when there was room
        assert client.learn("b", made[3], 0.75) == "counted"
        for _ in range(20):  # more often than a file of keys has places
            refused("learn", sent(made[1], 0.25))
        breaks.full = False
        assert client.learn("b", made[0], 0.5) == "duplicate"
        counted[1] = 0.25
        assert client.learn("b", made[1], 0.25) == "counted"
        # The store itself.
        engine = server.server.store.engine
        with engine.connect() as connection:
            raw = connection.connection.driver_connection
            (pages,) = raw.execute("PRAGMA page_count").fetchone()
            raw.execute(f"PRAGMA max_page_count = {pages}")
        full = None
        for i in range(200):
            body = f'{{"features": [[0.1, 0.2]], "id": "order {i}"}}'
            status, _, text = server.request("POST", "/v1/bandits/b/decide", body.encode())
            if status != 200:
                full = (status, b"store-unavailable" in text)
                break
        assert full == (503, True)
        with engine.connect() as connection:
            connection.connection.driver_connection.execute("PRAGMA max_page_count = 1000000000")
        counted[2] = -1.0
        assert client.learn("b", made[2], -1.0) == "counted"
        assert client.learn("b", made[1], 0.25) == "duplicate"
        # A release that cannot be fenced: the window has turned, nobody was told, a retry goes on.
        window = client.bandit("b")["window"]
        while client.bandit("b")["window"]["leased"] < window["rounds"]:
            client.decide("b", features=ROWS)
        breaks.full = True
        refused("decide", '{"features": [[0.1, 0.2]]}')
        breaks.full = False
        client.decide("b", features=ROWS)
        assert_totals(client.releases("b"), counted)
    finally:
        breaks.full = False
        server.stop()


def test_a_clock_that_steps_back_changes_no_release_and_counts_nothing_twice(tmp_path, monkeypatch):
    real = time.time
    shift = [0.0]
    monkeypatch.setattr(time, "time", lambda: real() + shift[0])
    server = Running(tmp_path)
    client = server.client()
    reward = {"range": [-1, 1], "wait": "1h", "default": -1}
    client.create("b", definition(None) | {"reward": reward})
    try:
        first = client.decide("b", features=ROWS, id="one")
        closed(client)
        shown = client.releases("b")
        shift[0] = 2 * 3600  # the deadline is over: defaults count
        waits = sa.select(tables.pending.c.round)
        ends = time.monotonic() + 20
        while time.monotonic() < ends:
            with server.server.store.transaction() as connection:
                if connection.execute(waits).first() is None:
                    break
            time.sleep(0.05)
        shift[0] = -86400
        assert client.learn("b", first, 1.0) == "late"
        assert client.learn("b", "one", 1.0) == "late"
        second = client.decide("b", features=ROWS, id="two")
        assert client.decide("b", features=ROWS, id="two") == second
        assert client.learn("b", "two", 1.0) == "counted"
        assert closed(client)[: len(shown)] == shown
    finally:
        server.stop()


def test_no_reply_precedes_its_sync(parent, tmp_path):
    """strace of a real server: between a reward and its answer the log and the key are synced."""
    if shutil.which("strace") is None:
        pytest.skip("strace is not installed")
    server = parent.server(f"sqlite:///{tmp_path}/store.db", tmp_path / "secrets", free_port())
    client = server.client()
    client.create("b", definition(None))
    made = [client.decide("b", features=ROWS) for _ in range(5)]
    trace = tmp_path / "trace"
    calls = "trace=fsync,fdatasync,write,writev,sendto,sendmsg,pwrite64,read,recvfrom"
    tracer = subprocess.Popen(
        ["strace", "-f", "-y", "-s", "400", "-e", calls, "-o", str(trace), "-p", str(server.pid)],
        stderr=subprocess.PIPE,
        text=True,
    )
    assert tracer.stderr is not None
    line = tracer.stderr.readline()
    if "attached" not in line:
        tracer.wait()
        server.stop()
        pytest.skip("strace may not attach here")
    try:
        for each in made:
            assert client.learn("b", each, 0.5) == "counted"
    finally:
        tracer.send_signal(signal.SIGINT)
        tracer.wait()
        tracer.stderr.close()
        client.close()
        server.stop()
    need, replies = {"wal", "key"}, 0
    synced: set[str] = set()
    for event in trace.read_text().splitlines():
        if "/learn" in event and ("recv" in event or "read" in event):
            synced = set()
        elif "sync(" in event:
            synced |= {"wal"} if "store.db-wal" in event else set()
            synced |= {"key"} if "/windows/" in event else set()
        elif '\\"counted\\"' in event:
            assert synced == need, "a reply came before its sync"
            replies += 1
    assert replies == len(made)


def test_sqlite_waits_for_the_disk_at_every_commit(tmp_path):
    server = Running(tmp_path)
    try:
        with server.server.store.engine.connect() as connection:
            raw = connection.connection.driver_connection
            assert isinstance(raw, sqlite3.Connection)
            assert raw.execute("PRAGMA synchronous").fetchone() == (2,)
            assert raw.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    finally:
        server.stop()
