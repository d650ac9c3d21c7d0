"""A snapshot of store and secrets together is refused where a witness stands elsewhere."""

import http.client
import shutil
import threading
import time
from dataclasses import replace

import pytest
import uvicorn

from discreet.service.client import ServiceError
from discreet.service.errors import Problem
from discreet.service.fence import RolledBack
from discreet.service.restoring import restore
from discreet.service.witness import Witness
from discreet.service.witnessing import Words, application, serve
from tests.service.conftest import Running, free_port
from tests.service.test_rollback import RAW, ROWS, play

KEY = "a-witness-key-that-is-long-enough-000"
INSTANCE = "0" * 32


class RunningWitness:
    """A real witness, until `stop`."""

    def __init__(self, file, port=None):
        self.port = port or free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.words = Words(file)
        config = uvicorn.Config(application(self.words, KEY), port=self.port, log_level="error")
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._server.run, daemon=True)
        self._thread.start()
        while not self._server.started:
            time.sleep(0.005)

    def stop(self):
        self._server.should_exit = True
        self._thread.join()
        self.words.close()

    def ask(self, method, path, body=None, key=KEY):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        try:
            connection.request(method, path, body, {"Authorization": f"Bearer {key}"})
            reply = connection.getresponse()
            return reply.status, reply.read()
        finally:
            connection.close()


@pytest.fixture
def witness(tmp_path):
    running = RunningWitness(tmp_path / "witness.db")
    yield running
    running.stop()


def started(folder, witness):
    folder.mkdir(exist_ok=True)
    server = Running(folder, witness=witness.url, witness_key=KEY)
    server.client().create("b", RAW)
    return server


def turned(client):
    """Decide until the open window closes."""
    before = len(client.releases("b"))
    while len(client.releases("b")) == before:
        client.decide("b", features=ROWS)


def test_a_snapshot_of_store_and_secrets_is_refused_once_the_other_went_on(tmp_path, witness):
    server = started(tmp_path / "a", witness)
    play(server.client(), 3)
    server.stop()
    shutil.copytree(tmp_path / "a", tmp_path / "snapshot")
    original = started(tmp_path / "a", witness)  # a start is fenced, so it has a word of its own
    turned(original.client())
    with pytest.raises(RolledBack, match="witness"):
        started(tmp_path / "snapshot", witness)
    play(original.client(), 1)
    original.stop()


def test_of_two_copies_that_run_one_window_closes_once(tmp_path, witness):
    """The copy has the open window's noise, and starts first: the other's release never comes."""
    server = started(tmp_path / "a", witness)
    client = server.client()
    play(client, 3)
    shutil.copytree(tmp_path / "a", tmp_path / "copy")
    play(client, 1)
    copy = started(tmp_path / "copy", witness)
    shown = client.releases("b")
    with pytest.raises(ServiceError) as refused:
        turned(client)
    assert (refused.value.status, refused.value.kind) == (503, "rolled-back")
    assert client.releases("b") == shown
    turned(copy.client())
    server.stop()
    copy.stop()


def test_without_its_witness_nothing_is_released_and_afterwards_all_goes_on(tmp_path, witness):
    server = started(tmp_path / "a", witness)
    client = server.client()
    made = play(client, 2)
    port, file = witness.port, tmp_path / "witness.db"
    witness.stop()
    shown = client.releases("b")
    with pytest.raises(ServiceError) as refused:
        turned(client)
    assert (refused.value.status, refused.value.kind) == (503, "witness-unavailable")
    assert client.releases("b") == shown
    assert client.learn("b", made[0], 0.5) == "duplicate"
    again = RunningWitness(file, port)
    try:
        turned(client)
        assert len(client.releases("b")) == len(shown) + 1
    finally:
        server.stop()
        again.stop()


def test_a_commit_that_failed_after_the_witness_agreed_is_done_again(tmp_path, witness):
    server = started(tmp_path / "a", witness)
    inner = server.server
    sequence = inner.next_sequence

    def fails(connection):
        raise OSError("the disk is full")

    inner.next_sequence = fails
    with pytest.raises(OSError, match="full"):
        inner.retire("b", "test")
    inner.next_sequence = sequence
    advance = inner.witness.advance

    def then_fails(*args):
        advance(*args)
        raise OSError("the connection is gone")

    inner.witness.advance = then_fails
    with pytest.raises(OSError, match="gone"):
        inner.retire("b", "test")
    inner.witness.advance = advance
    turned(server.client())
    server.stop()


def test_a_crash_between_the_witness_and_the_commit_needs_a_restore(tmp_path, witness):
    server = started(tmp_path / "a", witness)
    inner = server.server
    with inner.fence.held() as grip:
        inner.witness.advance(grip, grip.last, inner.epoch)
    server.stop()
    with pytest.raises(RolledBack):
        started(tmp_path / "a", witness)
    assert any("witness" in line for line in restore(server.settings))
    again = started(tmp_path / "a", witness)
    turned(again.client())
    again.stop()


def test_a_restore_of_an_old_copy_says_that_the_witness_has_seen_more(tmp_path, witness):
    server = started(tmp_path / "a", witness)
    server.stop()
    shutil.copytree(tmp_path / "a", tmp_path / "old")
    started(tmp_path / "a", witness).stop()
    old = replace(
        server.settings,
        store=f"sqlite:///{tmp_path}/old/store.db",
        secrets=tmp_path / "old" / "secrets",
    )
    assert any("has seen more than this copy" in line for line in restore(old))
    assert not any("has seen more" in line for line in restore(old))


def test_a_service_with_a_witness_does_not_start_without(tmp_path, witness):
    server = started(tmp_path / "a", witness)
    server.stop()
    with pytest.raises(ValueError, match="--witness"):
        Running(tmp_path / "a")
    without = replace(server.settings, witness=None, witness_key=None)
    assert any("no witness any more" in line for line in restore(without))
    Running(tmp_path / "a").stop()


def test_a_word_is_replaced_only_by_whoever_knows_it(tmp_path, witness):
    path = f"/v1/words/{INSTANCE}"
    first, second = "a" * 32, "b" * 32
    assert witness.ask("GET", path) == (200, b'{"word":null}')
    sent = f'{{"before": null, "after": "{first}"}}'.encode()
    assert witness.ask("POST", path, sent)[0] == 200
    assert witness.ask("POST", path, sent) == (409, f'{{"word":"{first}"}}'.encode())
    wrong = f'{{"before": "{second}", "after": "{second}"}}'.encode()
    assert witness.ask("POST", path, wrong)[0] == 409
    right = f'{{"before": "{first}", "after": "{second}"}}'.encode()
    assert witness.ask("POST", path, right) == (200, f'{{"word":"{second}"}}'.encode())
    assert witness.ask("GET", path, key="another")[0] == 401
    assert witness.ask("GET", "/v1/words/none")[0] == 404
    for body in (b"", b"{}", b"[" * 10_000, b'{"before": null, "after": "short"}'):
        assert 400 <= witness.ask("POST", path, body)[0] < 500
    assert witness.ask("GET", path) == (200, f'{{"word":"{second}"}}'.encode())


def test_a_wrong_key_a_missing_key_and_a_wrong_url_are_said(tmp_path, witness):
    with pytest.raises(Problem, match="key"):
        Witness(witness.url, "another", INSTANCE).read()
    with pytest.raises(ValueError, match="http"):
        Witness("ftp://somewhere", KEY, INSTANCE)
    with pytest.raises(ValueError, match="DISCREET_WITNESS_KEY"):
        Running(tmp_path, witness=witness.url)
    with pytest.raises(ValueError, match="DISCREET_WITNESS_KEY"):
        serve(tmp_path / "w.db", "short", "127.0.0.1", free_port())
