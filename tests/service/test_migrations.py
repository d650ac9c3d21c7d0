"""A store of an earlier version is brought forward, one of a later version refused, untouched."""

import msgspec
import pytest
import sqlalchemy as sa

from discreet.service import migrations, sweeping
from discreet.service import store as tables
from discreet.service.client import ServiceError
from discreet.service.pending import Pending
from discreet.service.store import Store
from tests.service.conftest import Running

RAW = {"dim": 2, "reward": {"range": [-1, 1], "wait": "1h", "default": 0}}
RAW |= {"privacy": {"epsilon": None}}
ROWS = [[0.5, 0.0], [0.0, 0.5]]


def described(url: str) -> dict:
    """Tables with their columns, and indexes, as the database knows them."""
    store = Store(url)
    try:
        with store.transaction() as connection:
            inspector = sa.inspect(connection)
            return {
                name: (
                    [column["name"] for column in inspector.get_columns(name)],
                    sorted(index["name"] for index in inspector.get_indexes(name)),
                )
                for name in inspector.get_table_names()
            }
    finally:
        store.close()


def changed(url: str, *statements: str) -> None:
    store = Store(url)
    try:
        with store.transaction() as connection:
            for statement in statements:
                connection.execute(sa.text(statement))
    finally:
        store.close()


AS_OF_4 = ("ALTER TABLE keys DROP COLUMN share", "DROP TABLE shares")


def as_of_schema_1(url: str) -> None:
    binary = "BLOB" if url.startswith("sqlite") else "BYTEA"
    changed(
        url,
        "ALTER TABLE marks RENAME COLUMN used TO rewarded",
        f"ALTER TABLE marks ADD COLUMN defaulted {binary}",
        f"ALTER TABLE pending ADD COLUMN request {binary}",
        "ALTER TABLE people ADD COLUMN round BIGINT",
        "DROP TABLE waiting",
        "DROP TABLE settled",
        *AS_OF_4,
        "DROP INDEX pending_due",
        "DROP INDEX pending_bucket",
        "CREATE INDEX pending_deadline ON pending (deadline)",
        "UPDATE instance SET schema = 1",
    )


def test_an_old_store_upgrades_when_a_server_starts_and_loses_nothing(store, tmp_path):
    server = Running(tmp_path, store=store)
    server.client().create("b", RAW)
    made = server.client().decide("b", features=ROWS, id="mine")
    server.stop()
    new = described(store)
    as_of_schema_1(store)
    assert described(store) != new
    server = Running(tmp_path, store=store)
    try:
        assert server.client().decide("b", features=ROWS, id="mine") == made
        assert server.client().learn("b", "mine", 0.5) == "counted"
    finally:
        server.stop()
    assert described(store) == new


def as_of_schema_3(url: str) -> None:
    binary = "BLOB" if url.startswith("sqlite") else "BYTEA"
    changed(
        url,
        *AS_OF_4,
        "DROP TABLE settled",
        f"CREATE TABLE settled (bandit TEXT NOT NULL, epoch TEXT NOT NULL, id {binary} NOT NULL, "
        f"settled INTEGER NOT NULL, late INTEGER, PRIMARY KEY (bandit, epoch, id))",
        "CREATE INDEX settled_day ON settled (settled)",
        "UPDATE instance SET schema = 3",
    )


def test_ids_that_were_settled_before_stay_used(store, tmp_path):
    """...and nothing of them tells any more in which order they were, or by what."""
    server = Running(tmp_path, store=store)
    client = server.client()
    client.create("b", RAW | {"reward": {"range": [-1, 1], "wait": "1h"}})
    client.decide("b", features=ROWS, id="mine")
    assert client.learn("b", "mine", 0.5) == "counted"
    (row,) = server.rows(tables.settled)
    server.stop()
    new = described(store)
    as_of_schema_3(store)
    old = Store(store)
    with old.transaction() as connection:
        given = {"i": row["id"], "b": "b", "e": row["epoch"], "d": row["settled"]}
        statement = "INSERT INTO settled VALUES (:b, :e, :i, :d, :d)"
        connection.execute(sa.text(statement), given)
    old.close()
    server = Running(tmp_path, store=store)
    try:
        assert server.rows(tables.settled) == [row]
        with pytest.raises(ServiceError) as caught:
            server.client().decide("b", features=ROWS, id="mine")
        assert caught.value.kind == "settled"
        if store.startswith("sqlite"):
            with server.server.store.transaction() as connection:
                query = "SELECT sql FROM sqlite_master WHERE name = 'settled'"
                assert "WITHOUT ROWID" in connection.execute(sa.text(query)).scalar_one()
    finally:
        server.stop()
    assert described(store) == new


def test_an_id_of_before_requests_were_kept_answers_no_request(running):
    """Nothing tells who asked, and for what: a reward for it counts, a decision is refused."""
    client = running.client()
    client.create("b", RAW)
    client.decide("b", features=ROWS, id="mine")
    server = running.server
    about = server.about("b")
    with server.store.transaction() as connection:
        row = connection.execute(sa.select(tables.pending)).one()
        pending = Pending(connection, server.buckets, server.sealer, "b", server.epoch)
        kept = msgspec.structs.replace(pending.kept(row), request=b"")
        _, before = server.hashed_id(about, "admin", "mine")
        pending.add(row.round, row.bucket, kept, row.deadline, active=True)
        new = pending._new.pop() | {"id": before}
        connection.execute(sa.update(tables.pending).values(**new))
    with pytest.raises(ServiceError) as caught:
        client.decide("b", features=ROWS[::-1], id="mine")
    assert caught.value.kind == "id-taken"
    assert client.learn("b", "mine", 0.5) == "counted"


def test_a_later_store_is_refused_in_a_sentence_and_untouched(store, tmp_path):
    Running(tmp_path, store=store).stop()
    later = migrations.CURRENT + 1
    changed(store, f"UPDATE instance SET schema = {later}")
    before = described(store)
    with pytest.raises(ValueError, match="install that version"):
        Running(tmp_path, store=store)
    assert described(store) == before


def test_an_upgrade_that_fails_leaves_the_old_store(store, tmp_path, monkeypatch):
    Running(tmp_path, store=store).stop()
    as_of_schema_1(store)
    before = described(store)

    def fails(connection):
        migrations._open_decisions(connection)
        raise RuntimeError("power failure")

    monkeypatch.setitem(migrations.STEPS, 1, fails)
    with pytest.raises(RuntimeError):
        Running(tmp_path, store=store)
    assert described(store) == before


def test_sweeps_use_an_index_that_holds_no_tombstones(tmp_path):
    server = Running(tmp_path)
    try:
        with server.server.store.transaction() as connection:
            found = (
                (sweeping.DUE.params(now=1.0), "pending_due"),
                (sweeping.BUCKETS, "pending_bucket"),
            )
            for statement, index in found:
                text = str(statement.compile(compile_kwargs={"literal_binds": True}))
                plan = connection.execute(sa.text(f"EXPLAIN QUERY PLAN {text}")).all()
                assert any(index in row.detail for row in plan), plan
    finally:
        server.stop()
