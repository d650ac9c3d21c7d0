"""What operators are told, and what is refused before it does harm."""

import json
import logging
import os
import re
import signal
import sqlite3
import stat
import threading
import time
from pathlib import Path

import pytest

from discreet.service import administration, clock, logs, sweeping
from discreet.service.client import Client, ServiceError
from discreet.service.restoring import backup
from discreet.service.server import Server
from discreet.service.settings import RelaySettings, Settings, text_of
from tests.service.conftest import ADMIN, Running, free_port

ROWS = [[0.5, 0.0], [0.0, 0.5]]
RAW = {"dim": 2, "reward": {"range": [0, 1]}, "privacy": {"epsilon": 1.0}}


# -- settings --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("variables", "said"),
    [
        ({"DISCREET_BODY_LIMTI": "1"}, "DISCREET_BODY_LIMTI.*DISCREET_BODY_LIMIT"),
        ({"DISCREET_ADMINKEY_FILE": "x"}, "DISCREET_ADMIN_KEY_FILE"),
        ({"DISCREET_PORT": "84000"}, "DISCREET_PORT must be a number from 1 to 65535"),
        ({"DISCREET_PORT": "many"}, "DISCREET_PORT must be a number"),
        ({"DISCREET_METRICS_PORT": "8360"}, "DISCREET_METRICS_PORT must differ"),
        ({"DISCREET_METRICS_PORT": "0"}, "DISCREET_METRICS_PORT"),
        ({"DISCREET_PUBLIC_RATE": "nan"}, "DISCREET_PUBLIC_RATE"),
        ({"DISCREET_PUBLIC_SHARE": "10"}, "DISCREET_PUBLIC_SHARE"),
        ({"DISCREET_BODY_LIMIT": "-1"}, "DISCREET_BODY_LIMIT"),
        ({"DISCREET_ADDRESS_CONNECTIONS": "0"}, "DISCREET_ADDRESS_CONNECTIONS"),
        ({"DISCREET_PERSONALIZER": "a b"}, "DISCREET_PERSONALIZER"),
        ({"DISCREET_ADMIN_KEY": "short"}, "DISCREET_ADMIN_KEY must have at least 32"),
        ({"DISCREET_WITNESS": "http://w"}, "DISCREET_WITNESS_KEY must be set"),
        ({"DISCREET_LOG": "everything"}, "DISCREET_LOG must be requests or events"),
        ({"DISCREET_STORE_FILE": "/nowhere"}, "DISCREET_STORE_FILE names a file.*cannot be read"),
        ({"DISCREET_STORE": "a", "DISCREET_STORE_FILE": "b"}, "not both"),
    ],
)
def test_settings__a_mistake_names_its_variable(variables, said):
    with pytest.raises(ValueError, match=said):
        Settings.from_environment(variables)


def test_settings__other_programs_have_their_own(monkeypatch):
    Settings.from_environment({"DISCREET_RELAY_PORT": "1", "PATH": "x"})
    monkeypatch.setenv("DISCREET_RELAY_WAITS", "1")
    with pytest.raises(ValueError, match=r"DISCREET_RELAY_WAITS.*DISCREET_RELAY_WAIT"):
        RelaySettings.from_environment()


def test_settings__every_secret_may_stand_in_a_file(tmp_path, monkeypatch):
    names = ("ADMIN_KEY", "WITNESS_KEY", "STORE")
    given = {}
    for name in names:
        path = tmp_path / name
        path.write_text(f"sqlite:///{name}-that-is-long-enough-to-be-one\n")
        given[f"DISCREET_{name}_FILE"] = str(path)
    monkeypatch.setenv("DISCREET_RELAY_KEY_FILE", given["DISCREET_STORE_FILE"])
    monkeypatch.setenv("DISCREET_RELAY_BANDITS", "b")
    relay = RelaySettings.from_environment(server="https://d.example")
    assert relay.key == text_of("DISCREET_STORE", given)
    found = Settings.from_environment(given)
    for name in names:
        expected = f"sqlite:///{name}-that-is-long-enough-to-be-one"
        assert getattr(found, name.lower()) == expected


def test_first_key__goes_to_a_file_that_only_its_owner_reads(tmp_path, capfd):
    path = tmp_path / "admin.key"
    given = {
        "DISCREET_STORE": f"sqlite:///{tmp_path}/s.db",
        "DISCREET_SECRETS": str(tmp_path / "secrets"),
        "DISCREET_ADMIN_KEY_FILE": str(path),
    }
    first = Server(Settings.from_environment(given))
    secret = path.read_text()
    assert first.first_admin_key is None  # nothing is shown
    assert first.keys.authenticate(secret).scopes == {"admin"}
    first.close()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    again = Server(Settings.from_environment(given))
    assert again.has_admin_key()
    again.close()
    assert path.read_text() == secret
    assert secret not in "".join(capfd.readouterr())


# -- logs ------------------------------------------------------------------------------------------


class Line:
    """What was logged, as operators read it."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "log"
        self.file = self.path.open("w")
        self._before = logging.root.handlers[:], logging.root.level
        logs.begin(self.file)

    def all(self, requests: int = 0) -> list[dict[str, object]]:
        """Every line, once so many are of requests: they are written after the answer."""
        ends = time.monotonic() + 10
        while True:
            logs._requests.flush()
            found = [json.loads(line) for line in self.path.read_text().splitlines()]
            if sum(line["message"] == "request" for line in found) >= requests:
                return found
            assert time.monotonic() < ends
            time.sleep(0.01)

    def close(self) -> None:
        logging.root.handlers[:] = self._before[0]
        logging.root.setLevel(self._before[1])
        logs._requests.out = None
        self.file.close()


@pytest.fixture
def log(tmp_path):
    found = Line(tmp_path)
    yield found
    found.close()


def test_log__a_line_for_each_request_and_no_value_in_it(tmp_path, log, monkeypatch):
    server = Running(tmp_path)
    secret = "blue-giraffe"
    try:
        client = server.client()
        client.create("b", RAW)
        made = client.decide("b", features=ROWS, id=secret)
        client.learn("b", made, 1.0)
        server.request("GET", f"/{secret}?{secret}={secret}", User_Agent=secret)
        server.request("POST", "/v1/bandits/b/decide", f'{{"{secret}": 1}}'.encode())
        server.request("GET", f"/v1/bandits/{secret}", Authorization=f"Bearer {secret}")
        _, headers, _ = server.request("GET", "/healthz")

        def fails(*_: object) -> None:
            raise RuntimeError(secret)

        monkeypatch.setattr(Server, "create", fails)
        with pytest.raises(ServiceError):
            client.create("c", RAW)
        lines = log.all(8)
    finally:
        server.stop()
    assert secret not in log.path.read_text()
    assert made.decision not in log.path.read_text()
    for line in lines:
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", str(line["time"]))
    requests = [line for line in lines if line["message"] == "request"]
    seen = [(each["method"], each["route"], each["status"]) for each in requests]
    assert seen == [
        ("PUT", "/v1/bandits/{name}", 201),
        ("POST", "/v1/bandits/{name}/decide", 200),
        ("POST", "/v1/bandits/{name}/learn", 200),
        ("other", "other", 404),
        ("POST", "/v1/bandits/{name}/decide", 422),
        ("GET", "/v1/bandits/{name}", 401),
        ("GET", "/healthz", 200),
        ("PUT", "/v1/bandits/{name}", 500),
    ]
    assert requests[-2]["request"] == headers["x-request-id"]
    assert requests[4]["problem"] == "invalid"
    assert all(0 < float(str(each["ms"])) < 60_000 for each in requests)
    (error,) = [line for line in lines if "unexpected RuntimeError" in str(line["message"])]
    assert any("test_operating.py" in place for place in error["at"])
    assert error["level"] == "error"


def test_log__events_alone_are_failures_and_alarms(tmp_path, log):
    server = Running(tmp_path, log="events")
    try:
        server.client().create("b", RAW)
        with sqlite3.connect(tmp_path / "store.db") as old:
            old.execute("UPDATE instance SET sequence = sequence - 1")
        old.close()
        with pytest.raises(ServiceError):
            server.client().create("c", RAW)
        ends = time.monotonic() + 20
        while "alarm" not in log.path.read_text() and time.monotonic() < ends:
            time.sleep(0.05)
    finally:
        server.stop()
    lines = log.all()
    failed = [line for line in lines if line["message"] == "request"]
    assert {(each["status"], each["problem"]) for each in failed} == {(503, "rolled-back")}
    alarms = [line["message"] for line in lines if "alarm" in str(line["message"])]
    assert alarms == ["alarm: rolled-back"]


def test_log__text_on_a_terminal_and_nothing_of_what_others_say():
    record = logging.LogRecord("asyncio", logging.ERROR, "", 0, "a secret", (), None)
    ours = logging.LogRecord("discreet", logging.INFO, "", 0, "request", (), None)
    ours.fields = {"status": 200}
    for formatter in (logs._Text(), logs._Json()):
        assert "secret" not in formatter.format(record)
        assert "200" in formatter.format(ours)


# -- metrics and traces ----------------------------------------------------------------------------


def scraped(port: int) -> str:
    with Client(f"http://127.0.0.1:{port}", ADMIN) as client:
        return client._send("GET", "/metrics", None)[2].decode()


def counts(text: str) -> set[str]:
    """All lines but those that say how long something took."""
    return {line for line in text.splitlines() if "_seconds" not in line}


def test_metrics__on_their_port_say_how_the_server_runs_and_nothing_of_rewards(tmp_path):
    port = free_port()
    server = Running(tmp_path, metrics_port=port, personalizer="hashed")
    monkey = pytest.MonkeyPatch()
    monkey.setattr("discreet.service.metrics.FRESH", 0.0)
    try:
        client = server.client()
        client.create("b", RAW)
        made = [client.decide("b", features=ROWS) for _ in range(3)]
        before = scraped(port)
        route = 'route="/v1/bandits/{name}/decide"'
        assert f'discreet_http_requests_total{{{route},status="2xx"}} 3.0' in before
        assert f'discreet_http_request_duration_seconds_bucket{{le="+Inf",{route}}} 3.0' in before
        for name in ("queue_seconds", "commit_seconds", "sweep_age_seconds", "window", "clock"):
            assert f"discreet_{name}" in before
        again = scraped(port)
        for reward in (1.0, 0.0, 7.0):
            server.request(
                "POST",
                "/v1/bandits/b/learn",
                json.dumps({"decision": made[int(reward) % 3].decision, "reward": reward}).encode(),
            )
        server.request("POST", "/personalizer/v1.0/events/x/reward", b"{}")
        after = scraped(port)
        assert counts(before) == counts(again) == counts(after)
        assert "seconds_count" in after
        assert "/learn" not in after
        assert "/reward" not in after
        public = server.request("GET", "/metrics")[2].decode()
        assert "http_requests" not in public
    finally:
        server.stop()
        monkey.undo()


def test_traces__a_span_for_each_request_without_its_values(tmp_path):
    pytest.importorskip("opentelemetry.sdk")
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    from discreet.service import tracing

    kept = InMemorySpanExporter()
    server = Running(tmp_path)
    server.server.requests._trace = tracing.noting(SimpleSpanProcessor(kept))
    parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    try:
        server.request("GET", "/v1/bandits/secret", traceparent=parent)
    finally:
        server.stop()
    (span,) = kept.get_finished_spans()
    assert span.name == "GET /v1/bandits/{name}"
    assert dict(span.attributes)["http.response.status_code"] == 404
    assert f"{span.context.trace_id:032x}" == parent.split("-")[1]
    assert "secret" not in span.to_json()


# -- readiness, backups, the clock -----------------------------------------------------------------


def test_readyz__answers_in_time_while_a_database_is_frozen(tmp_path, monkeypatch):
    monkeypatch.setattr(administration, "READY_SECONDS", 0.2)
    monkeypatch.setattr(administration, "PROBED", 0.0)
    server = Running(tmp_path)
    thaws = threading.Event()
    real = server.server.store.lock_instance
    monkeypatch.setattr(server.server.store, "lock_instance", lambda c: thaws.wait(20) and real(c))
    try:
        began = time.monotonic()
        assert [server.request("GET", "/readyz")[0] for _ in range(3)] == [503] * 3
        assert time.monotonic() - began < 5
        thaws.set()
        ends = time.monotonic() + 10
        while server.request("GET", "/readyz")[0] != 200:
            assert time.monotonic() < ends
    finally:
        thaws.set()
        server.stop()


def test_backup__on_a_full_disk_leaves_no_file(tmp_path):
    server = Running(tmp_path)
    target = tmp_path / "backup" / "b.db"
    target.parent.mkdir()
    child = os.fork()
    if child == 0:
        import resource

        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
        try:
            backup(server.settings, target)
        except ValueError as error:
            os._exit(3 if "no backup was made" in str(error) else 4)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 3
    assert not list(target.parent.iterdir())
    backup(server.settings, target)
    assert [path.name for path in target.parent.iterdir()] == ["b.db"]
    assert stat.S_IMODE(target.stat().st_mode) == 0o600
    server.stop()


@pytest.mark.parametrize("jump", [7200.0, -7200.0])
def test_clock__that_jumps_stops_settlements_until_it_is_back(tmp_path, monkeypatch, jump):
    real, shift = time.clock_gettime, [0.0]
    monkeypatch.setattr(
        time,
        "clock_gettime",
        lambda which: real(which) + (shift[0] if which == time.CLOCK_REALTIME else 0.0),
    )
    monkeypatch.setattr(sweeping, "SWEEP_EVERY", 0.0)
    swept = []
    whole = sweeping.sweep

    async def counted(server: Server) -> int:
        swept.append(shift[0])
        return await whole(server)

    monkeypatch.setattr(sweeping, "sweep", counted)
    server = Running(tmp_path)

    def wait(jumped: bool) -> list[str]:
        ends = time.monotonic() + 20
        while server.server.clock.jumped is not jumped and time.monotonic() < ends:
            time.sleep(0.02)
        return server.client().call("GET", "/readyz")["alarms"]

    try:
        shift[0] = 1800.0  # within the hour
        time.sleep(0.6)
        assert 1800.0 in swept
        shift[0] += jump
        assert wait(True) == [clock.TEXT]
        time.sleep(0.6)
        assert set(swept) <= {0.0, 1800.0}
        shift[0] = 1800.0
        assert wait(False) == []
    finally:
        server.stop()
