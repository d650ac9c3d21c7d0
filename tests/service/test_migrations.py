"""A store of an earlier version is brought forward, one of a later version refused, untouched."""

import pytest
import sqlalchemy as sa

from discreet.service import migrations, sweeping
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
