"""Old versions of a sum cannot be read, and the current one always can."""

import errno
import fcntl
import json
import os
import stat
import subprocess
import sys
import threading
from contextlib import nullcontext

import pytest

from discreet.service import vault as vaults
from discreet.service.vault import NAME_BYTES, MissingSecret, Vault, WrongFolder, write_all


def test_only_the_last_two_versions_of_a_sum_can_be_opened(tmp_path):
    vault = Vault(tmp_path)
    sealed = {n: vault.seal("b", "e", n, b"%d" % n) for n in range(1, 6)}
    vault.settle()
    assert vault.open("b", "e", 5, sealed[5]) == b"5"
    assert vault.open("b", "e", 4, sealed[4]) == b"4"
    for n in (1, 2, 3):
        with pytest.raises(MissingSecret):
            vault.open("b", "e", n, sealed[n])


def test_a_commit_that_failed_leaves_the_version_before_it(tmp_path):
    vault = Vault(tmp_path)
    stored = vault.seal("b", "e", 1, b"one")
    for _ in range(20):  # the transaction is rolled back each time
        again = vault.seal("b", "e", 2, b"zero")
    assert vault.open("b", "e", 1, stored) == b"one"
    assert vault.open("b", "e", 2, again) == b"zero"


def test_crashes_before_the_next_key_is_written_leave_room(tmp_path):
    stored = Vault(tmp_path).seal("b", "e", 1, b"one")
    for _ in range(20):  # a new process each time
        vault = Vault(tmp_path)
        again = vault.seal("b", "e", 2, b"zero")
        vault.close()
        assert vault.open("b", "e", 1, stored) == b"one"
    assert vault.open("b", "e", 2, again) == b"zero"
    later = vault.open("b", "e", 3, Vault(tmp_path).seal("b", "e", 3, b"two"))
    assert later == b"two"


def test_the_key_of_a_stored_version_is_on_disk_before_it_is_used(tmp_path, monkeypatch):
    """The next key may be written early; a version is sealed only under one that was synced."""
    vault = Vault(tmp_path)
    synced = []
    fsync = os.fsync

    def observed(handle):
        fsync(handle)
        if stat.S_ISREG(os.fstat(handle).st_mode):
            synced.append(os.pread(handle, 4096, 0))

    monkeypatch.setattr(os, "fsync", observed)
    for n in range(1, 6):
        sealed = vault.seal("b", "e", n, b"")
        assert any(sealed[:NAME_BYTES] in content for content in synced)
        assert vault.open("b", "e", n, sealed) == b""


def test_a_writer_that_lost_its_lock_cannot_destroy_a_key_in_use(tmp_path):
    paused, other = Vault(tmp_path), Vault(tmp_path)
    paused.seal("b", "e", 1, b"one")
    for n in range(2, 7):
        last = other.seal("b", "e", n, b"%d" % n)
    other.close()
    with pytest.raises(TimeoutError, match="lost its lock"):
        paused.seal("b", "e", 3, b"stale")
    assert other.open("b", "e", 6, last) == b"6"


def test_a_torn_key_is_no_key(tmp_path):
    vault = Vault(tmp_path)
    first = vault.seal("b", "e", 1, b"one")
    second = vault.seal("b", "e", 2, b"zero")
    vault.settle()
    (path,) = (tmp_path / "windows").iterdir()
    raw = bytearray(path.read_bytes())
    raw[64 + 10] ^= 1  # inside the second place
    path.write_bytes(raw)
    with pytest.raises(MissingSecret):
        vault.open("b", "e", 2, second)
    assert vault.open("b", "e", 1, first) == b"one"


def test_a_sealed_sum_is_bound_to_its_bandit_epoch_and_sequence(tmp_path):
    vault = Vault(tmp_path)
    sealed = vault.seal("b", "e", 1, b"one")
    for place in (("c", "e", 1), ("b", "f", 1), ("b", "e", 2)):
        with pytest.raises(MissingSecret):
            vault.open(*place, sealed)


def test_forgotten_keys_are_gone(tmp_path):
    vault = Vault(tmp_path)
    sealed = vault.seal("b", "e", 1, b"one")
    vault.forget_all_but("f")
    with pytest.raises(MissingSecret):
        vault.open("b", "e", 1, sealed)


def test_secrets_are_for_their_owner_only(tmp_path):
    folder = tmp_path / "secrets"
    Vault(folder).seal("b", "e", 1, b"one")
    assert folder.stat().st_mode & 0o077 == 0
    assert all(path.stat().st_mode & 0o077 == 0 for path in folder.rglob("*"))


def test_the_master_key_stays(tmp_path):
    assert Vault(tmp_path).master == Vault(tmp_path).master


def test_report_keys__are_made_once_and_destroyed_with_their_policy(tmp_path):
    replicas = [Vault(tmp_path), Vault(tmp_path)]
    found = []
    threads = [
        threading.Thread(target=lambda v=vault: found.append(v.report_key("b", "e-1")))
        for vault in replicas * 4
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(found)) == 1
    vault = replicas[0]
    later, other = vault.report_key("b", "e-2"), vault.report_key("c", "e-1")
    assert len({found[0], later, other}) == 3
    vault.forget_report_keys("b", "e-2")
    assert vault.report_key("b", "e-2") == later
    assert vault.report_key("c", "e-1") == other
    assert vault.report_key("b", "e-1") != found[0]  # what was sealed to it opens no more
    vault.forget_all_but("f")  # a restore
    assert not list((tmp_path / "reports").iterdir())


def test_a_forgotten_bandit_can_be_opened_no_more_and_others_can(tmp_path):
    vault = Vault(tmp_path)
    sealed = {name: vault.seal(name, "e", 1, b"sum") for name in ("gone", "kept")}
    vault.settle()
    vault.forget("gone", "e")
    with pytest.raises(MissingSecret):
        vault.open("gone", "e", 1, sealed["gone"])
    assert vault.open("kept", "e", 1, sealed["kept"]) == b"sum"


# -- the folder ------------------------------------------------------------------------------------

# A life of a service; what it asks of the secrets folder is printed. Python says so for all calls
# but reads and writes through a handle, fsync and fstat.
LIFE = """
import json, sys
from pathlib import Path
from dataclasses import replace
folder, asked = Path(sys.argv[1]), set()
def heard(event, given):
    if event == "fcntl.flock" or any(str(folder / "keys") in str(each) for each in given[:2]):
        asked.add(event)
sys.addaudithook(heard)
from discreet.service.restoring import backup, restore
from tests.service.conftest import Running
rows = {"features": [[0.5, 0.0], [0.0, 0.5]]}
server = Running(folder, secrets=folder / "keys")
client = server.client()
raw = {"dim": 2, "privacy": {"epsilon": 1.0}, "reward": {"range": [0, 1], "wait": "1s"}}
client.create("b", raw)
client.create("kept", raw | {"reward": {"range": [0, 1], "wait": "1s", "default": 0}})
client.create("ads", {"dim": 2, "privacy": {"epsilon": 8.0, "trust": "local"}})
client.call("GET", "/v1/bandits/ads/terms")
backup(server.settings, folder / "backup")
size = client.bandit("b")["window"]["rounds"]
for bandit in ("b", "kept"):
    many = client.call("POST", f"/v1/bandits/{bandit}/decide", {"requests": [rows] * (size + 1)})
    client.learn_many(bandit, [(each["decision"], 1.0) for each in many["decisions"]])
assert client.bandit("b")["policy"] == 2
server.swept()
server.stop()
store = folder / "store.db"
(folder / "backup").replace(store)
for extra in ("-wal", "-shm"):
    Path(f"{store}{extra}").unlink(missing_ok=True)
restore(server.settings)
Running(folder, secrets=folder / "keys").stop()
print(json.dumps(sorted(asked)))
"""
DOCUMENTED = ["fcntl.flock", "open", "os.link", "os.listdir", "os.mkdir", "os.remove", "os.scandir"]


def test_folder__is_asked_for_nothing_but_what_the_page_for_operators_lists(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", LIFE, str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert set(json.loads(done.stdout.splitlines()[-1])) <= set(DOCUMENTED)


@pytest.mark.parametrize("lacks", ["link", "fsync", "flock", "nothing"])
def test_folder__without_links_syncs_or_locks_that_keep_others_out_is_refused(
    tmp_path, monkeypatch, lacks
):
    vault = Vault(tmp_path)

    def refused(*_):
        raise OSError(errno.ENOTSUP, "Operation not supported")

    if lacks in ("link", "fsync"):
        monkeypatch.setattr(vaults.os, lacks, refused)
    if lacks == "flock":
        monkeypatch.setattr(fcntl, "flock", lambda *_: None)  # to whoever asks
    expected = nullcontext() if lacks == "nothing" else pytest.raises(ValueError, match="secrets")
    with expected:
        vault.probe()
    assert not list(tmp_path.glob(".probe*"))


def test_vault__destroys_all_keys_of_earlier_versions_at_once(tmp_path):
    """Commits that failed leave several."""
    vault = Vault(tmp_path / "secrets")
    for _ in range(3):
        vault._made("b", "e", 2, stored=1)
    assert [number for number, _, _ in vault._slots("b", "e")] == [2, 2, 2]
    vault._made("b", "e", 4, stored=3)
    assert [number for number, _, _ in vault._slots("b", "e")] == [4]
    vault.close()


def test_vault__a_key_that_was_half_written_is_none(tmp_path):
    vault = Vault(tmp_path / "secrets")
    vault._made("b", "e", 1, stored=0)
    path = vault._path("b", "e")
    raw = bytearray(path.read_bytes())
    raw[20] ^= 1  # in the key
    path.write_bytes(raw)
    assert vault._slots("b", "e") == []
    vault.close()


def test_vault__a_damaged_or_another_folder_is_refused(tmp_path):
    folder = tmp_path / "secrets"
    with pytest.raises(WrongFolder):
        Vault(folder, make=False)
    Vault(folder).close()
    (folder / "master.key").write_bytes(b"short")
    with pytest.raises(MissingSecret, match="damaged"):
        Vault(folder)


def test_write_all__writes_what_a_disk_takes_in_parts(tmp_path, monkeypatch):
    pwrite = os.pwrite
    monkeypatch.setattr(os, "pwrite", lambda handle, some, at: pwrite(handle, some[:3], at))
    handle = os.open(tmp_path / "file", os.O_RDWR | os.O_CREAT)
    write_all(handle, b"0123456789", 2)
    assert os.pread(handle, 20, 0) == b"\0\0" + b"0123456789"
    os.close(handle)
