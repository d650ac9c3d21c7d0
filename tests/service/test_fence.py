"""The fence keeps its marks, and refuses what is damaged or another instance's."""

import errno
import fcntl
import os
import resource
import shutil
import sqlite3
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
import sqlalchemy as sa

from discreet.service import administration
from discreet.service import store as tables
from discreet.service.client import ServiceError
from discreet.service.fence import ROOM, Fence, Mark, RolledBack
from discreet.service.key_access import KeyAccess
from discreet.service.restoring import backup, restore
from discreet.service.server import Server
from discreet.service.store import Store
from tests.service.conftest import ADMIN, Running, free_port
from tests.service.processes import Parent


def fence(folder, instance="one") -> Fence:
    made = Fence(folder, instance)
    made.begin()
    return made


def add(made: Fence, *sequences: int) -> None:
    for sequence in sequences:
        with made.held() as grip:
            grip.append(Mark(sequence, "e", "turn", {"bandit": "b"}))


def test_marks_come_back_in_order(tmp_path):
    made = fence(tmp_path)
    add(made, 1, 2, 3)
    assert [mark.sequence for mark in Fence(tmp_path, "one").marks()] == [1, 2, 3]


def test_two_replicas_see_each_others_marks(tmp_path):
    made = fence(tmp_path)
    other = Fence(tmp_path, "one")
    add(made, 1)
    add(other, 2)
    add(made, 3)
    with other.held() as grip:
        assert grip.last == 3


def test_a_missing_fence_is_refused(tmp_path):
    with pytest.raises(RolledBack, match="no fence"), Fence(tmp_path, "one").held():
        pass


def test_the_fence_of_another_instance_is_refused(tmp_path):
    fence(tmp_path, "one")
    with pytest.raises(RolledBack, match="another instance"):
        Fence(tmp_path, "two").marks()


def test_a_line_that_was_changed_or_left_out_is_noticed(tmp_path):
    made = fence(tmp_path)
    add(made, 1, 2, 3)
    lines = made.path.read_bytes().splitlines(keepends=True)
    for damaged in (
        [lines[0], lines[2], lines[3]],
        [lines[0], lines[1].replace(b'"b"', b'"c"'), *lines[2:]],
        [b"not json\n", *lines[1:]],
    ):
        made.path.write_bytes(b"".join(damaged))
        with pytest.raises(RolledBack, match="damaged"):
            Fence(tmp_path, "one").marks()


def test_a_mark_that_was_half_written_was_never_relied_on(tmp_path):
    made = fence(tmp_path)
    add(made, 1, 2)
    whole = made.path.read_bytes().rstrip(b"\0")
    for torn in (whole[:-10], whole[:-10] + bytes(200), whole[:-30] + bytes(10) + whole[-20:]):
        made.path.write_bytes(torn)
        again = Fence(tmp_path, "one")
        assert [mark.sequence for mark in again.look().marks] == [1]
        assert [mark.sequence for mark in again.marks()] == [1]
        add(again, 2)
        assert made.path.read_bytes().rstrip(b"\0") == whole


# -- a disk that is full ---------------------------------------------------------------------------

_FULL = """
import resource, signal, sys
from pathlib import Path
from discreet.service.fence import Fence, Mark
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
fence = Fence(Path(sys.argv[1]), "one")
fence.begin()
_, most = resource.getrlimit(resource.RLIMIT_FSIZE)
kept, number = [], 0
for limit in (300, 5000, 7777, 9000, most):
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, most))
    for _ in range(40):
        number += 1
        try:
            with fence.held() as grip:
                grip.append(Mark(number, "e", "revoke", {"key": str(number)}))
            kept.append(number)
        except OSError:
            pass
resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
print(len(kept) < number)
print(kept == [mark.sequence for mark in Fence(Path(sys.argv[1]), "one").marks()])
"""


def test_a_full_disk_loses_nothing_that_was_acknowledged(tmp_path):
    """A real limit on the size of files, which ends in the middle of a line."""
    command = [sys.executable, "-c", _FULL, str(tmp_path)]
    found = subprocess.run(command, capture_output=True, text=True, check=True)
    assert found.stdout.split() == ["True", "True"]


class Disk:
    """The fence's disk: full, or broken in the middle of a line; everything else has room."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, path: Path) -> None:
        self.path, self.state = path, "sound"
        self._write = os.pwrite
        monkeypatch.setattr(os, "pwrite", self.pwrite)

    def pwrite(self, handle: int, content: bytes, offset: int) -> int:
        mine = os.path.samestat(os.fstat(handle), self.path.stat())
        if mine and self.state == "full" and offset + len(content) > self.path.stat().st_size:
            raise OSError(errno.ENOSPC, "full")
        if mine and self.state == "broken" and content.strip(b"\0"):
            self._write(handle, content[: len(content) // 2], offset)
            raise OSError(errno.EIO, "broken")
        if mine and self.state == "short":
            content = content[: max(1, len(content) // 2)]
        return self._write(handle, content, offset)


def test_revocations__those_that_were_acknowledged_outlive_a_restore(tmp_path, monkeypatch):
    """The disk of the fence fails in every way and comes back; then an old backup is put back."""
    server = Running(tmp_path)
    client = server.client()
    made = [
        client.call("POST", "/v1/keys", {"name": f"k{i}", "scopes": ["read"]}) for i in range(27)
    ]
    backup(server.settings, tmp_path / "backup.db")
    disk = Disk(monkeypatch, server.server.fence.path)
    acknowledged = []
    refused = 0
    states = ("sound", "full", "short", "broken", "broken", "sound", "short")
    for at, key in enumerate(made):
        disk.state = states[at % len(states)]
        try:
            client.call("DELETE", f"/v1/keys/{key['id']}")
            acknowledged.append(key["id"])
        except ServiceError as error:
            refused += error.status == 503
    disk.state = "sound"
    client.call("DELETE", f"/v1/keys/{made[0]['id']}")  # it heals by itself
    assert refused >= 6
    assert refused + len(acknowledged) == len(made)
    server.stop()
    shutil.copy(tmp_path / "backup.db", tmp_path / "store.db")
    for extra in ("-wal", "-shm"):
        (tmp_path / f"store.db{extra}").unlink(missing_ok=True)
    restore(server.settings)
    again = Running(tmp_path)
    try:
        keys = again.client().call("GET", "/v1/keys")["keys"]
        revoked = {key["id"] for key in keys if key["revoked"] is not None}
        assert set(acknowledged) <= revoked
    finally:
        again.stop()


def test_a_fence_that_is_two_steps_behind_is_a_copy(tmp_path):
    server = Running(tmp_path)
    client = server.client()
    copy = server.server.fence.path.read_bytes()
    for i in range(2):
        client.create(f"b{i}", {"dim": 2, "privacy": {"epsilon": 1.0}})
    server.server.fence.path.write_bytes(copy)
    try:
        with pytest.raises(ServiceError) as caught:
            client.create("c", {"dim": 2, "privacy": {"epsilon": 1.0}})
        assert caught.value.status == 503
    finally:
        server.stop()


def test_readyz__is_about_the_next_change(tmp_path, monkeypatch):
    """A disk that cannot be written, a database that is older: not ready, and ready again."""
    server = Running(tmp_path)
    monkeypatch.setattr(administration, "PROBED", 0.0)
    try:
        assert server.request("GET", "/readyz", Authorization="")[0] == 200
        real = os.fsync
        mine = server.server.fence.path

        def fails(handle: int) -> None:
            if os.path.samestat(os.fstat(handle), mine.stat()):
                raise OSError(errno.EROFS, "read-only")
            real(handle)

        with monkeypatch.context() as patch:
            patch.setattr(os, "fsync", fails)
            assert server.request("GET", "/readyz", Authorization="")[0] == 503
        assert server.request("GET", "/readyz", Authorization="")[0] == 200
        with sqlite3.connect(tmp_path / "store.db") as old:
            old.execute("UPDATE instance SET sequence = sequence - 1")
        old.close()
        assert server.request("GET", "/readyz", Authorization="")[0] == 503
    finally:
        server.stop()


def test_readyz__writes_to_the_store(tmp_path):
    """Where the fence can be written and the store cannot, nothing can be learnt."""
    parent = Parent(tmp_path, ADMIN)
    secrets = tmp_path / "secrets"
    server = parent.server(f"sqlite:///{tmp_path}/store.db", secrets, free_port())
    try:
        with server.client() as client:
            assert client.call("GET", "/readyz") is not None
            client.create("b", {"dim": 2, "privacy": {"epsilon": None}})
            decision = client.decide("b", features=[[0.5, 0.0]])
            fence, log = ((secrets / "fence.log"), (tmp_path / "store.db-wal"))
            most = fence.stat().st_size + ROOM
            assert log.stat().st_size > most
            resource.prlimit(server.pid, resource.RLIMIT_FSIZE, (most, resource.RLIM_INFINITY))
            time.sleep(administration.PROBED)
            for call in (
                lambda: client.learn("b", decision, 1.0),
                lambda: client.call("GET", "/readyz"),
            ):
                with pytest.raises(ServiceError) as caught:
                    call()
                assert caught.value.status == 503
            whole = resource.RLIM_INFINITY, resource.RLIM_INFINITY
            resource.prlimit(server.pid, resource.RLIMIT_FSIZE, whole)
            assert client.call("GET", "/readyz") is not None
    finally:
        server.kill()
        parent.close()


@pytest.mark.parametrize("serves", [True, False])
def test_a_wrong_folder_of_secrets_is_left_as_it_is(store, tmp_path, serves):
    """...and nothing is proposed that destroys."""
    server = Running(tmp_path, store=store)
    server.stop()
    wrong = tmp_path / "wrong"
    for _ in range(2):  # a folder that is not there, and an empty one
        with pytest.raises(ValueError, match="DISCREET_SECRETS") as caught:
            Server(replace(server.settings, secrets=wrong), serves=serves)
        assert "restore" not in str(caught.value)
        assert "DISCREET_STORE" in str(caught.value)
        assert not wrong.exists() or not list(wrong.iterdir())
        wrong.mkdir(exist_ok=True)
    Server(server.settings, serves=serves).close()


def test_a_first_start_that_was_interrupted_is_begun_again(store, tmp_path, monkeypatch):
    settings = Running(tmp_path, store=store)
    settings.stop()
    fresh = replace(settings.settings, store=f"sqlite:///{tmp_path}/new.db", secrets=tmp_path / "s")
    with monkeypatch.context() as patch:
        patch.setattr(Fence, "begin", lambda _: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            Server(fresh)
    shutil.rmtree(fresh.secrets)
    Server(fresh).close()


def test_commands_that_read_write_nothing(store, tmp_path):
    """...whatever DISCREET_ADMIN_KEY says: only a server that starts sets it."""
    server = Running(tmp_path, store=store)
    server.stop()

    def everything() -> list[object]:
        tables_of = (tables.instance, tables.keys, tables.runs, tables.log)
        opened = Store(store)
        try:
            with opened.transaction() as connection:
                return [connection.execute(sa.select(each)).all() for each in tables_of]
        finally:
            opened.close()

    before = everything(), server.server.fence.path.read_bytes()
    other = replace(server.settings, admin_key="another-admin-key-that-is-long-enough-0")
    assert [key["id"] for key in KeyAccess(other).all()] == ["admin"]
    assert (everything(), server.server.fence.path.read_bytes()) == before
    again = Running(tmp_path, store=store)
    try:
        assert again.request("GET", "/v1/keys")[0] == 200
    finally:
        again.stop()


def test_fence__is_held_by_one_at_a_time(tmp_path):
    fence = Fence(tmp_path, "instance")
    fence.begin()
    with fence.path.open() as other:
        with fence.held(), pytest.raises(BlockingIOError):
            fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
        fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_fence__words_for_the_witness_are_no_place_in_the_history(tmp_path):
    fence = Fence(tmp_path, "instance")
    fence.begin()
    with fence.held() as grip:
        assert grip.last == 0
        grip.append(Mark(1, "epoch", "charge", {}))
        grip.append(Mark(2, "epoch", "witness", {"before": None, "after": "b"}))
        assert grip.last == 1
