"""What a thief finds, whatever was stolen: each test reads the files (the table in SECURITY.md)."""

import hmac
import itertools
import math
import os
import shutil
import sqlite3
import time
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from discreet.service import beats, buckets, leasing, sweeping, tokens
from discreet.service import store as tables
from discreet.service.client import ServiceError
from discreet.service.restoring import backup
from tests.service.conftest import Running

ROWS = [[0.5, 0.0], [0.0, 0.5]]
RAW: dict[str, Any] = {
    "dim": 2,
    "reward": {"range": [0, 1], "wait": "1h"},
    "privacy": {"epsilon": None},
}
WAITS = RAW | {"reward": {"range": [0, 1], "wait": "1h", "default": 0}}
PEOPLE = {"privacy": {"epsilon": None, "unit": "person"}}
PRIVATE = (tables.marks, tables.pending, tables.waiting, tables.settled, tables.people)
N = 12


class Clock:
    """The time of the servers, which a test moves on."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        real = time.time
        self.shift = 0.0
        # In the middle of a day and an hour: a short test stays in both.
        self._start = 86400 * (int(real()) // 86400) + 43200 + 1800 - real()
        monkeypatch.setattr(time, "time", lambda: real() + self._start + self.shift)


@pytest.fixture
def clock(monkeypatch):
    return Clock(monkeypatch)


def written(folder: Path) -> dict[str, tuple[int, int]]:
    """When each file of the store was last written, and its size."""
    found = {path.name: path.stat() for path in folder.glob("store.db*")}
    return {name: (each.st_mtime_ns, each.st_size) for name, each in found.items()}


def stolen(folder: Path, name: str) -> Path:
    """A copy of the store and of the secrets, as they are now."""
    thief = folder / name
    thief.mkdir()
    before = None
    while before != (now := written(folder)):  # a sweep empties SQLite's log just after it
        before = now
        for path in folder.glob("store.db*"):
            shutil.copy(path, thief)
    shutil.copytree(folder / "secrets", thief / "secrets")
    return thief


def read(thief: Path, table: str) -> list[dict[str, Any]]:
    connection = sqlite3.connect(thief / "store.db")
    connection.row_factory = sqlite3.Row
    try:
        return [dict(row) for row in connection.execute(f"SELECT * FROM {table}")]
    finally:
        connection.close()


def visits(server: Running, clicks: set[int], bandit: str = "b") -> list[str]:
    """N visits, named in order; some of them click. Returns the statuses."""
    client = server.client()
    for i in range(N):
        client.decide(bandit, features=ROWS, id=f"order-{i}")
    return [client.learn(bandit, f"order-{i}", 1.0) for i in range(N) if i in clicks]


def shape(server: Running) -> dict[str, Any]:
    """All that stands in clear: of what is sealed or hashed its length."""
    found = {}
    for table in PRIVATE:
        rows = [
            {
                name: len(each) if isinstance(each, bytes) and table is not tables.marks else each
                for name, each in row.items()
                if name not in ("epoch", "deadline")
            }
            for row in server.rows(table)
        ]
        found[table.name] = sorted(rows, key=repr)
    return found


def test_store__after_settlement_it_is_the_same_whoever_clicked(store, tmp_path, clock):
    """...and while they wait: one world where the even ones click, one where three others do."""
    seen = []
    for number, clicks in enumerate(({0, 2, 4, 6}, {1, 3, 5})):
        clock.shift = 0.0
        folder = tmp_path / str(number)
        folder.mkdir()
        url = f"sqlite:///{folder}/store.db" if store.startswith("sqlite") else store
        server = Running(folder, store=url, secrets=tmp_path / str(number) / "secrets")
        try:
            server.client().create("b", WAITS)
            assert set(visits(server, clicks)) == {"counted"}
            waiting = shape(server)
            clock.shift = 7200
            server.swept()
            seen.append((waiting, shape(server), server.inside("b")))
        finally:
            server.stop()
        if not store.startswith("sqlite"):
            engine = sa.create_engine(sa.make_url(store).set(drivername="postgresql+psycopg"))
            tables.metadata.drop_all(engine)
            engine.dispose()
    (open_one, settled_one, one), (open_other, settled_other, other) = seen
    assert open_one == open_other
    assert settled_one == settled_other
    assert (one["sum"], other["sum"]) == (pytest.approx(4), pytest.approx(3))
    assert len(open_one["pending"]) == len(open_one["waiting"]) == N
    assert not settled_one["pending"]
    assert not settled_one["waiting"]
    assert len(settled_one["settled"]) == N


def test_store_and_web_log__what_is_left_knows_days_and_no_order(tmp_path, clock):
    server = Running(tmp_path)
    try:
        server.client().create("b", WAITS)
        visits(server, {1, 2})
        clock.shift = 7200
        server.swept()
        thief = stolen(tmp_path, "thief")
    finally:
        server.stop()
    left = read(thief, "settled")
    assert {row["settled"] for row in left} == {buckets.day(time.time())}
    assert set(left[0]) == {"bandit", "epoch", "id", "settled"}
    named = [row["id"] for row in left]
    assert named == sorted(named)  # not as they came
    (marks,) = read(thief, "marks")
    assert set(marks) == {"bandit", "epoch", "block", "used"}
    assert sum(each.bit_count() for each in marks["used"]) == N


@pytest.mark.parametrize("when", ["while they wait", "once they are settled"])
def test_store__its_log_is_empty_after_a_sweep(tmp_path, clock, when):
    """Frames of the log would tell which row was written with which other, one commit each."""
    server = Running(tmp_path)
    log = tmp_path / "store.db-wal"
    try:
        server.client().create("b", WAITS)
        visits(server, {1, 2})
        if when != "while they wait":
            clock.shift = 7200
            server.swept()
        ends = time.monotonic() + 5
        while log.stat().st_size and time.monotonic() < ends:
            time.sleep(0.05)
        thief = stolen(tmp_path, "thief")
        assert (thief / "store.db-wal").read_bytes() == b""
        assert len(read(thief, "waiting")) == (N if when == "while they wait" else 0)
        reader = sqlite3.connect(tmp_path / "store.db", isolation_level=None)
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM bandits").fetchone()
        server.client().decide("b", features=ROWS)
        began = time.monotonic()
        server.server.store.forget_commits()  # a backup does not stop the writer
        assert time.monotonic() - began < 2
        assert log.stat().st_size
        reader.close()
    finally:
        server.stop()


def test_people__no_row_links_a_person_to_a_round(running):
    running.client().create("b", RAW | PEOPLE)
    running.client().decide("b", features=ROWS, person="anna", id="one")
    assert [set(row) for row in running.rows(tables.people)] == [{"bandit", "epoch", "person"}]


def every_key(secrets: Path) -> list[bytes]:
    """All that lies in the secrets folder, and what derives from it for ids."""
    raw = [path.read_bytes() for path in secrets.rglob("*") if path.is_file()]
    return [each for each in raw if len(each) == 32]


def ids_found(thief: Path, secrets: Path, table: str, owner: str = "admin") -> list[str]:
    """Which of the guessable ids a thief recovers from a table, with every key of the folder."""
    master = (secrets / "master.key").read_bytes()
    rows = {row["id"] for row in read(thief, table)}
    (epoch,) = {row["epoch"] for row in read(thief, "bandits")}
    found = []
    for i, key in itertools.product(range(N), every_key(secrets)):
        for name in tokens.hashed_id(master, f"{epoch}\nb".encode(), owner, f"order-{i}"):
            hashes = {name, tokens.derived(key, b"id", name)}
            found += [f"order-{i}"] if hashes & rows else []
    return found


def opened(thief: Path, secrets: Path) -> int:
    """How many sealed decisions and rewards a thief opens with every key of the folder."""
    (epoch,) = {row["epoch"] for row in read(thief, "bandits")}
    count = 0
    for table, column in (("pending", "answer"), ("waiting", "reward")):
        for row, key in itertools.product(read(thief, table), every_key(secrets)):
            for number in range(4 * N):
                about = b"%d\n%s" % (number, f"{epoch}\nb".encode())
                try:
                    AESGCM(key).decrypt(row[column][:12], row[column][12:], about)
                    count += 1
                except InvalidTag:
                    continue
    return count


def test_store_and_secrets__a_settled_decision_leaves_that_its_id_was_used(tmp_path, clock):
    """...for some days, then nothing. While it waits a thief of both reads it, which is said."""
    server = Running(tmp_path)
    try:
        server.client().create("b", WAITS)
        visits(server, {1, 2})
        waiting = stolen(tmp_path, "waiting")
        assert opened(waiting, waiting / "secrets") == 2 * N  # the search can find something
        assert len(ids_found(waiting, waiting / "secrets", "pending")) == N
        clock.shift = 7200
        server.swept()
        settled = stolen(tmp_path, "settled")
        assert len(ids_found(settled, settled / "secrets", "settled")) == N
        assert opened(settled, settled / "secrets") == 0
        assert opened(waiting, settled / "secrets") == 2 * N  # the hour's key lives a while
        clock.shift = 86400 * (buckets.KEPT_DAYS + 2)
        client = server.client()
        ends = time.monotonic() + 20
        while server.rows(tables.settled) and time.monotonic() < ends:
            time.sleep(0.05)
        later = stolen(tmp_path, "later")
        assert client.learn("b", "order-1", 1.0) == "unknown"
    finally:
        server.stop()
    assert read(later, "settled") == []
    # The secrets of today open nothing of what was stolen before, or is in an old backup.
    for old in (waiting, settled):
        assert opened(old, later / "secrets") == 0
        assert ids_found(old, later / "secrets", "pending") == []
        assert ids_found(old, later / "secrets", "settled") == []


def test_backup__it_tells_neither_who_clicked_nor_how_many(tmp_path, clock):
    server = Running(tmp_path)
    try:
        server.client().create("b", WAITS)
        visits(server, {1, 2, 3})
        thief = tmp_path / "backup"
        thief.mkdir()
        backup(server.settings, thief / "store.db")
    finally:
        server.stop()
    rewards = read(thief, "waiting")
    assert len(rewards) == N
    assert len({len(row["reward"]) for row in rewards}) == 1
    assert [row["place"] for row in rewards] == sorted(row["place"] for row in rewards)


def test_two_snapshots__rewards_between_them_have_no_round(tmp_path, clock):
    """How many came is told by what changed; whose they were only by keys that are elsewhere."""
    server = Running(tmp_path)
    try:
        client = server.client()
        client.create("b", WAITS)
        visits(server, set())
        before = stolen(tmp_path, "before")
        client.learn("b", "order-3", 1.0)
        after = stolen(tmp_path, "after")
    finally:
        server.stop()
    assert read(before, "pending") == read(after, "pending")
    old = {row["place"]: row["reward"] for row in read(before, "waiting")}
    changed = [row["place"] for row in read(after, "waiting") if old[row["place"]] != row["reward"]]
    assert len(changed) == 1
    key = next((before / "secrets" / "pending").iterdir()).read_bytes()
    (epoch,) = {row["epoch"] for row in read(before, "bandits")}
    places = {_place(key, row["round"], epoch) for row in read(before, "pending")}
    assert changed[0] in places  # whoever has the key may compute it,
    assert not {_place(bytes(32), number, epoch) for number in range(4 * N)} & set(old)  # no other


def _place(key: bytes, number: int, epoch: str) -> bytes:
    about = b"%d\n%s" % (number, f"{epoch}\nb".encode())
    return hmac.digest(tokens.derived(key, b"place"), about, "sha256")[:16]


def test_status__of_a_named_decision_through_its_life_and_after(running, clock):
    """By id and by token: exact while it waits, to the day for a week, then nobody knows it."""
    client = running.client()
    client.create("b", RAW)
    paid = client.decide("b", features=ROWS, id="paid")
    idle = client.decide("b", features=ROWS, id="idle")
    assert client.learn("b", "paid", 1.0) == "counted"
    assert [client.learn("b", each, 1.0) for each in ("paid", paid)] == ["duplicate"] * 2
    with pytest.raises(ServiceError) as caught:
        client.decide("b", features=ROWS, id="paid")
    assert caught.value.kind == "settled"
    clock.shift = 7200
    assert [client.learn("b", each, 1.0) for each in ("idle", idle, paid)] == ["late"] * 3
    clock.shift = 86400
    running.swept()
    for each in ("paid", paid, "idle", idle):
        assert client.learn("b", each, 1.0) == "late"
    assert running.inside("b")["count"] == pytest.approx(1)
    (marks,) = running.rows(tables.marks)
    assert sum(each.bit_count() for each in marks["used"]) == 2  # which of them was paid?
    clock.shift = 86400 * (buckets.KEPT_DAYS + 3)
    ends = time.monotonic() + 20
    while running.rows(tables.settled) and time.monotonic() < ends:
        time.sleep(0.05)
    assert [client.learn("b", each, 1.0) for each in ("paid", "idle")] == ["unknown"] * 2
    assert [client.learn("b", each, 1.0) for each in (paid, idle)] == ["late"] * 2


def test_sweep__others_have_their_turn_between_its_pieces(running, clock, monkeypatch):
    client = running.client()
    client.create("b", WAITS)
    visits(running, set())
    monkeypatch.setattr(sweeping, "AT_ONCE", 3)
    server = running.server
    jobs = []
    real = server.writer.do

    async def noted(group: Any, handler: Any, payload: Any) -> Any:
        before = len(running_rows())
        found = await real(group, handler, payload)
        jobs.append(before)
        return found

    def running_rows() -> list[Any]:
        with server.store.transaction() as connection:
            return list(connection.execute(sa.select(tables.pending.c.round)))

    monkeypatch.setattr(server.writer, "do", noted)
    clock.shift = 7200
    running.swept()
    steps = [one - other for one, other in itertools.pairwise(jobs) if one != other]
    assert steps
    assert max(steps) <= 3


# -- ids belong to the key that decided ------------------------------------------------------------


def test_ids__belong_to_the_name_of_the_key_and_are_unknown_to_others(running):
    """A name is an application's: its keys share ids. Nobody else learns that an id exists."""
    admin = running.client()
    admin.create("b", RAW)

    def key(name: str, *scopes: str) -> Any:
        made = admin.call("POST", "/v1/keys", {"name": name, "scopes": list(scopes)})
        return running.client(made["secret"])

    decides, learns, spy = (
        key("shop", "decide"),
        key("shop", "learn"),
        key("spy", "decide", "learn"),
    )
    mine = decides.decide("b", features=ROWS, id="one")
    other = [[0.1, 0.2], [0.3, 0.4]]
    theirs = spy.decide("b", features=other, id="one")  # no conflict: another decision
    assert theirs.decision != mine.decision
    assert spy.decide("b", features=ROWS, id="two").decision != mine.decision
    decides.decide("b", features=ROWS, id="three")
    assert spy.learn("b", "three", 1.0) == "unknown"
    assert admin.learn("b", "three", 1.0) == "unknown"
    assert learns.learn("b", "three", 1.0) == "counted"
    assert spy.learn("b", "three", 1.0) == "unknown"
    assert learns.learn("b", "three", 1.0) == "duplicate"
    assert learns.learn("b", "one", 1.0) == "counted"
    assert spy.learn("b", "one", 1.0) == "counted"


# -- the same answer costs the same ----------------------------------------------------------------


def work(server: Running, monkeypatch: pytest.MonkeyPatch, call: Any) -> list[str]:
    """Statements, commits, writes and syncs of a call, in their order."""
    done: list[str] = []
    engine = server.server.store.engine

    def statement(_: Any, __: Any, text: str, *___: Any) -> None:
        done.append(text.split("(")[0][:60])

    with monkeypatch.context() as patch:
        for name in ("fsync", "pwrite"):
            real = getattr(os, name)

            def counted(*args: Any, real: Any = real, name: str = name) -> Any:
                done.append(name)
                return real(*args)

            patch.setattr(os, name, counted)
        sa.event.listen(engine, "before_cursor_execute", statement)
        sa.event.listen(engine, "commit", lambda _: done.append("commit"))
        try:
            assert call() == "accepted"
            server.server.vault.settle()
        finally:
            sa.event.remove(engine, "before_cursor_execute", statement)
    return sorted(done)


@pytest.mark.parametrize("visits", ["first", "all"])
def test_person__who_is_new_and_who_has_counted_cost_the_same(running, monkeypatch, visits):
    client = running.client()
    privacy = {"epsilon": 1.0, "unit": "person", "visits": visits}
    client.create("b", RAW | {"privacy": privacy})
    made = [client.decide("b", features=ROWS, person="anna") for _ in range(3)]
    news = [client.decide("b", features=ROWS, person=f"p{i}") for i in range(3)]
    client.learn("b", made[0], 1.0)
    for chore in ("SWEEP_EVERY", "KEYS_EVERY"):
        monkeypatch.setattr(sweeping, chore, math.inf)
    monkeypatch.setattr(leasing, "IDLE_SECONDS", math.inf)
    monkeypatch.setattr(beats, "EVERY", math.inf)
    time.sleep(1.0)  # until what has begun is over
    known, fresh = (
        work(running, monkeypatch, partial(client.learn, "b", some[-1], 1.0))
        for some in (made, news)
    )
    assert known == fresh
    assert "fsync" in known


# -- defaults --------------------------------------------------------------------------------------


def test_default__early_clicks_do_not_stand_for_everybody(running, clock):
    """One in ten clicks at once; nothing counts before the wait is over, then all do."""
    client = running.client()
    client.create("b", WAITS)
    made = [client.decide("b", features=ROWS) for _ in range(40)]
    for decision in made[::10]:
        assert client.learn("b", decision, 1.0) == "counted"
        assert client.learn("b", decision, 0.5) == "duplicate"
    assert running.inside("b")["count"] == pytest.approx(0)
    clock.shift = 3590
    time.sleep(1.5)
    assert running.inside("b")["count"] == pytest.approx(0)
    clock.shift = 3700
    running.swept()
    assert running.inside("b") == pytest.approx({"count": 40, "sum": 4})
