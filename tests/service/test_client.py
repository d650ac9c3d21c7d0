"""The Python client: what it does when answers get lost, and what it gives back."""

import socket
import subprocess
import sys
import threading
import tomllib
from pathlib import Path

import pytest

from discreet.service import client as module
from discreet.service.client import Client, Decided, ServiceError
from tests.service.conftest import ADMIN

FREE = {"dim": 2, "reward": {"range": [-1, 1]}, "privacy": {"epsilon": None}}
ROWS = [[0.5, 0.0], [0.0, 0.5]]


class FlakyProxy:
    """Passes requests on, and drops some answers after the server has given them."""

    def __init__(self, port: int, drop) -> None:
        self._target, self._drop = port, drop
        self.seen: list[bytes] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while True:
            try:
                caller, _ = self._listener.accept()
            except OSError:
                return
            with caller, socket.create_connection(("127.0.0.1", self._target)) as server:
                self._pass(caller, server)

    def _pass(self, caller: socket.socket, server: socket.socket) -> None:
        while request := _message(caller):
            self.seen.append(request)
            server.sendall(request)
            answer = _message(server)
            if self._drop(len(self.seen)):
                return  # the server has answered; the caller never hears of it
            caller.sendall(answer)

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join()


def _message(source: socket.socket) -> bytes:
    """One HTTP message with its body."""
    got = b""
    while b"\r\n\r\n" not in got:
        piece = source.recv(65536)
        if not piece:
            return b""
        got += piece
    head, _, body = got.partition(b"\r\n\r\n")
    length = 0
    for line in head.lower().split(b"\r\n"):
        if line.startswith(b"content-length:"):
            length = int(line.partition(b":")[2])
    while len(body) < length:
        body += source.recv(65536)
    return head + b"\r\n\r\n" + body


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(module, "PAUSE", 0.001)


def test_client__a_reward_whose_answer_was_lost_is_sent_again_and_counts_once(running):
    direct = running.client()
    direct.create("b", FREE)
    decisions = [direct.decide("b", features=ROWS) for _ in range(6)]
    proxy = FlakyProxy(running.port, drop=lambda n: n % 2 == 1)
    try:
        with Client(f"http://127.0.0.1:{proxy.port}", ADMIN) as flaky:
            statuses = [flaky.learn("b", each, 0.5) for each in decisions]
    finally:
        proxy.close()
    assert statuses == ["duplicate"] * 6  # counted the first time, whose answer was lost
    assert len(proxy.seen) == 12
    bodies = [request.partition(b"\r\n\r\n")[2] for request in proxy.seen]
    assert bodies[::2] == bodies[1::2]  # the same token
    size = direct.bandit("b")["window"]["rounds"]
    while not direct.releases("b"):
        for _ in range(size):
            direct.decide("b", features=ROWS)
    assert sum(each["count"] for each in direct.releases("b")) == pytest.approx(6)


def test_client__gives_up_when_nobody_ever_answers(running):
    proxy = FlakyProxy(running.port, drop=lambda n: True)
    flaky = Client(f"http://127.0.0.1:{proxy.port}", ADMIN)
    try:
        with pytest.raises(OSError, match=r"cut off|reset|aborted|[Cc]onnection"):
            flaky.call("GET", "/v1/bandits")
    finally:
        flaky.close()
        proxy.close()
    assert len(proxy.seen) == module.TRIES


def test_client__a_refusal_is_not_tried_again(running):
    proxy = FlakyProxy(running.port, drop=lambda n: False)
    client = Client(f"http://127.0.0.1:{proxy.port}", ADMIN)
    try:
        with pytest.raises(ServiceError, match=r"no such bandit.*create it: PUT") as error:
            client.bandit("nobody")
    finally:
        client.close()
        proxy.close()
    assert (error.value.status, error.value.kind) == (404, "not-found")
    assert len(proxy.seen) == 1


def test_client__answers_are_typed(running):
    client = running.client()
    client.create("b", FREE)
    made = client.decide("b", features=ROWS)
    assert isinstance(made, Decided)
    assert isinstance(made.decision, str)
    assert isinstance(made.probability, float)
    assert isinstance(made.policy, int)
    assert client.learn_many("b", [(made, 1.0), (made.decision, 1.0)]) == ["counted", "duplicate"]


def test_client__names_are_escaped_in_paths(running):
    with pytest.raises(ServiceError) as error:
        running.client().bandit("a/../../keys")
    assert error.value.status == 404


@pytest.mark.parametrize("url", ["127.0.0.1:8360", "ftp://x", ""])
def test_client__an_address_that_cannot_be_used_is_refused(url):
    with pytest.raises(ValueError, match="http"):
        Client(url, ADMIN)


# -- many people; without the library --------------------------------------------------------------


def test_decide_many__takes_a_person_for_each_context(running):
    client = running.client()
    about = {"context": {"age": {"number": [0, 1]}}, "actions": ["a", "b"]}
    client.create("people", about | {"privacy": {"epsilon": 1, "unit": "person"}})
    contexts = [{"age": 0.1}, {"age": 0.2}, {"age": 0.3}]
    found = client.decide_many("people", contexts, person=["ada", "bob", "ada"], actions=["a"])
    opened = running.server.sealer.open(
        running.server.about("people"), [each.decision for each in found]
    )
    assert [each.person == opened[0].person for each in opened] == [True, False, True]
    assert {each.action for each in found} == {"a"}
    with pytest.raises(ValueError, match="zip"):
        client.decide_many("people", contexts, person=["ada"])


CLIENT = Path(module.__file__)
PACKAGE = Path(__file__).parents[2] / "clients/python"


def test_package__is_this_file_and_runs_where_nothing_is_installed(running, tmp_path):
    included = tomllib.loads((PACKAGE / "pyproject.toml").read_text())
    targets = included["tool"]["hatch"]["build"]["targets"]["wheel"]["force-include"]
    ((source, name),) = targets.items()
    assert (PACKAGE / source).resolve() == CLIENT.resolve()
    (tmp_path / name).write_bytes(CLIENT.read_bytes())
    running.client().create("plain", FREE)
    script = f"""if True:
        import sys
        sys.path.insert(0, {str(tmp_path)!r})
        from discreet_client import Client
        with Client({running.url!r}, {ADMIN!r}) as client:
            decision = client.decide("plain", features={ROWS!r})
            print(client.learn("plain", decision, 1.0))
        assert "numpy" not in sys.modules
    """
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", script], capture_output=True, check=False
    )
    assert done.stdout.strip() == b"counted", done.stderr.decode()


def test_dossier__of_a_running_bandit_from_its_address(running, tmp_path, monkeypatch, capsys):
    from discreet.cli import main

    promised = FREE | {"horizon": 100, "privacy": {"epsilon": 1.0}}
    running.client().create("welcome", promised)
    monkeypatch.setenv("DISCREET_KEY", ADMIN)
    out = tmp_path / "running.html"
    assert main(["dossier", f"{running.url}/v1/bandits/welcome", "-o", str(out)]) == 0
    page = out.read_text(encoding="utf-8")
    assert "LinearBandit of the decision service" in page
    assert f"{running.url}/v1/bandits/welcome" in page


def test_dossier__of_a_service_that_is_away_says_which(tmp_path, capsys):
    from discreet.cli import main

    with socket.socket() as free:  # bound, and nobody listens
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}"
        with pytest.raises(SystemExit):
            main(["dossier", f"{url}/v1/bandits/welcome", "-o", str(tmp_path / "x.html")])
    assert f"{url} cannot be reached" in capsys.readouterr().err
