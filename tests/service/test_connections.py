"""Connections of every kind: none is held for ever, none fills the memory."""

import socket
import time
from contextlib import suppress
from typing import Any

import pytest

from discreet.service import connections
from tests.service.conftest import ADMIN, Running, free_port

RAW = {"dim": 2, "privacy": {"epsilon": 1.0}}


@pytest.fixture
def patient(tmp_path):
    server = Running(tmp_path)
    yield server
    server.stop()


def test_headers_that_do_not_come_or_do_not_end_are_given_up(patient, monkeypatch):
    monkeypatch.setattr(connections, "HEADER_SECONDS", 0.3)
    for begun in (b"", b"GET /healthz HTTP/1.1\r\nHost: x\r\nX-Slow: "):
        with socket.create_connection(("127.0.0.1", patient.port), timeout=10) as slow:
            slow.sendall(begun)
            assert slow.recv(100).startswith(b"HTTP/1.1 400")
    monkeypatch.setattr(connections, "HEADER_SECONDS", 60.0)
    with socket.create_connection(("127.0.0.1", patient.port), timeout=10) as endless:
        endless.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\n")
        found = b""
        try:
            for i in range(2000):
                endless.sendall(b"X-%d: %s\r\n" % (i, b"y" * 100))
            found = endless.recv(100)
        except OSError:  # closed while we wrote
            found = found or b"HTTP/1.1 400"
        assert found.startswith(b"HTTP/1.1 400")
    assert patient.request("GET", "/healthz")[0] == 200


def test_connections_have_a_cap_that_is_logged_once(patient, monkeypatch, caplog):
    monkeypatch.setattr(connections, "MOST", 5)
    monkeypatch.setattr(connections.Guarded, "said", -connections.SAID_EVERY)
    made = []
    try:
        for _ in range(12):
            made.append(socket.create_connection(("127.0.0.1", patient.port), timeout=10))
        refused = 0
        for each in made:
            each.settimeout(1.0)
            try:
                each.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
                refused += not each.recv(100)
            except ConnectionError:
                refused += 1
        assert refused >= 7
    finally:
        for each in made:
            each.close()
    said = [record for record in caplog.records if "connections" in record.message]
    assert len(said) == 1


def opened(port: int, begun: bytes) -> socket.socket:
    """A connection on which something was sent."""
    connection = socket.create_connection(("127.0.0.1", port), timeout=10)
    connection.sendall(begun)
    return connection


def is_closed(connection: socket.socket) -> bool:
    """Whether the other side closes it within the socket's own patience."""
    try:
        while connection.recv(4096):
            pass
    except TimeoutError:
        return False
    except ConnectionError:
        pass
    return True


@pytest.mark.parametrize("line", [b"a:b\r\n", b"x" * 5], ids=["lines", "one-line"])
def test_trailers_without_end_are_dropped_and_given_up(patient, line):
    head = b"POST /nosuch HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n"
    before = protocols(patient)
    with opened(patient.port, head) as endless:
        time.sleep(0.1)
        (protocol,) = protocols(patient) - before
        sent_bytes = 0
        try:
            for _ in range(400):
                endless.sendall(line * 2000)
                sent_bytes += 2000 * len(line)
        except OSError:
            pass
        assert sent_bytes < 4_000_000
        assert len(protocol.headers) == 2
        assert is_closed(endless)
    few = b"POST /nosuch HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\na:b\r\n\r\n"
    with opened(patient.port, few + b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n") as one:
        time.sleep(0.3)
        assert one.recv(100_000).count(b"HTTP/1.1 ") == 2


def protocols(server: Running) -> set[Any]:
    """Open connections."""
    return set(server._server.server_state.connections)


@pytest.mark.parametrize("rest", [b"x", b"\r\n"], ids=["unread-body", "nothing"])
def test_after_an_answer_a_connection_has_a_deadline_whatever_comes(patient, monkeypatch, rest):
    monkeypatch.setattr(connections, "HEADER_SECONDS", 0.5)
    length = b"1000000" if rest == b"x" else b"0"
    head = b"POST /nosuch HTTP/1.1\r\nHost: x\r\nContent-Length: %s\r\n\r\n" % length
    with opened(patient.port, head) as held:
        assert b" 404 " in held.recv(4096)
        held.settimeout(4.0)
        held.sendall(rest)
        assert is_closed(held)


def test_a_body_that_nobody_reads_does_not_end_its_connection(patient):
    with opened(patient.port, b"POST /nosuch HTTP/1.1\r\nContent-Length: 9\r\n\r\n") as one:
        assert b" 404 " in one.recv(4096)
        one.sendall(b"123456789")
        one.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
        assert b" 200 " in one.recv(4096)


def test_who_does_not_take_an_answer_is_given_up(patient, monkeypatch):
    monkeypatch.setattr(connections, "READ_SECONDS", 0.3)
    before = protocols(patient)
    with socket.socket() as lazy:
        lazy.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        lazy.connect(("127.0.0.1", patient.port))
        lazy.sendall(b"GET /openapi.json HTTP/1.1\r\nHost: x\r\n\r\n" * 100)
        ends = time.monotonic() + 10
        time.sleep(0.1)
        (protocol,) = protocols(patient) - before
        while protocol in protocols(patient) and time.monotonic() < ends:
            time.sleep(0.05)
        assert protocol not in protocols(patient)


def test_an_address_has_few_connections_at_once(tmp_path):
    server = Running(tmp_path, address_connections=5)
    try:
        made = [opened(server.port, b"") for _ in range(5)]
        time.sleep(0.2)
        with socket.create_connection(("127.0.0.1", server.port), timeout=10) as refused:
            assert is_closed(refused)
        with socket.socket() as other:
            other.bind(("127.0.0.2", 0))
            other.settimeout(10)
            other.connect(("127.0.0.1", server.port))
            other.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
            assert b" 200 " in other.recv(4096)
        for each in made:
            each.close()
    finally:
        server.stop()


def test_the_port_of_metrics_has_the_same_deadlines(tmp_path, monkeypatch):
    monkeypatch.setattr(connections, "HEADER_SECONDS", 0.3)
    port = free_port()
    server = Running(tmp_path, metrics_port=port)
    try:
        ends = time.monotonic() + 10
        while True:
            try:
                silent = opened(port, b"")
                break
            except ConnectionError:
                assert time.monotonic() < ends
                time.sleep(0.05)
        silent.settimeout(4.0)
        assert is_closed(silent)
        silent.close()
    finally:
        server.stop()


def test_requests_that_come_together_are_answered_in_their_order(patient):
    client = patient.client()
    client.create("b", RAW)
    key = f"Authorization: Bearer {ADMIN}\r\n".encode()

    def decide(rows: bytes) -> bytes:
        body = b'{"features": %b}' % rows
        return b"POST /v1/bandits/b/decide HTTP/1.1\r\n%bContent-Length: %d\r\n\r\n%b" % (
            key,
            len(body),
            body,
        )

    good, bad = decide(b"[[1, 0], [0, 1]]"), decide(b"[[1], [0]]")
    sent = good + bad + good + b"GET /healthz HTTP/1.1\r\nConnection: close\r\n\r\n"
    for pieces in ([sent], [sent[at : at + 50] for at in range(0, len(sent), 50)]):
        with opened(patient.port, b"") as one:
            for piece in pieces:
                one.sendall(piece)
                time.sleep(0.002)
            found = b""
            while more := one.recv(100_000):
                found += more
        statuses = [part[:3] for part in found.split(b"HTTP/1.1 ")[1:]]
        assert statuses == [b"200", b"422", b"200", b"200"]
        assert found.count(b'{"decision":"dt1.') == 2
        assert found.count(b"x-request-id: ") == 4


@pytest.mark.parametrize("call", ["GET /healthz", "POST /v1/bandits/b/learn"])
def test_a_connection_waits_for_its_next_request_longer_than_for_headers(
    patient, monkeypatch, call
):
    monkeypatch.setattr(connections, "HEADER_SECONDS", 0.3)
    before = protocols(patient)
    request = f"{call} HTTP/1.1\r\nContent-Length: 2\r\n\r\n{{}}".encode()
    with opened(patient.port, request) as idle:
        idle.recv(4096)
        time.sleep(0.6)
        idle.sendall(request)
        assert idle.recv(4096).startswith(b"HTTP/1.1 ")
        (protocol,) = protocols(patient) - before
        protocol.timeout_keep_alive = 0.5
        idle.sendall(request)
        assert idle.recv(4096).startswith(b"HTTP/1.1 ")
        idle.settimeout(4.0)
        assert is_closed(idle)


def test_an_offer_to_upgrade_is_declined_and_its_body_read(patient):
    client = patient.client()
    client.create("b", RAW)
    body = b'{"features": [[1, 0], [0, 1]], "id": "\\r\\nupgrade: "}'
    offer = b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAEA\r\n"
    head = b"POST /v1/bandits/b/decide HTTP/1.1\r\n%bAuthorization: Bearer %b\r\n" % (
        offer,
        ADMIN.encode(),
    )
    with opened(patient.port, head + b"Content-Length: %d\r\n\r\n%b" % (len(body), body)) as one:
        assert one.recv(4096).startswith(b"HTTP/1.1 200")
        one.sendall(b"GET /healthz HTTP/1.1\r\n" + offer + b"\r\n")
        assert one.recv(4096).startswith(b"HTTP/1.1 200")
        one.sendall(b"GET /healthz HTTP/1.1\r\n\r\n")
        assert one.recv(4096).startswith(b"HTTP/1.1 200")


def test_what_follows_a_request_that_is_no_http_does_not_get_it_answered_late(patient):
    with opened(
        patient.port, b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n\x00garbage\r\n\r\n"
    ) as one:
        found = b""
        while more := one.recv(4096):
            found += more
    assert found.count(b"HTTP/1.1 400") == 1
    assert found.endswith(b"Invalid HTTP request received.")


@pytest.mark.parametrize("split", [False, True], ids=["whole", "split"])
def test_a_caller_behind_a_proxy_has_a_rate_of_its_own(tmp_path, split):
    server = Running(tmp_path, public_rate=1.0)
    try:
        for host, status in (("10.0.0.1", b"401"), ("10.0.0.1", b"429"), ("10.0.0.2", b"401")):
            body = b'{"decision": "x", "reward": 1}'
            head = b"POST /v1/bandits/b/learn HTTP/1.1\r\nX-Forwarded-For: %b\r\n" % host.encode()
            length = b"Content-Length: %d\r\n\r\n" % len(body)
            for _ in range(1 if status == b"401" else 3):
                with opened(server.port, head + length + (b"" if split else body)) as one:
                    if split:
                        time.sleep(0.02)
                        one.sendall(body)
                    found = one.recv(4096)
            assert found.startswith(b"HTTP/1.1 " + status)
    finally:
        server.stop()


@pytest.mark.parametrize("together", [False, True], ids=["after-an-answer", "before-it"])
def test_headers_that_have_begun_have_their_own_time(patient, monkeypatch, together):
    monkeypatch.setattr(connections, "HEADER_SECONDS", 3.0)
    request = b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"
    before = protocols(patient)
    with opened(patient.port, request) as slow:
        assert slow.recv(4096).startswith(b"HTTP/1.1 200")
        (protocol,) = protocols(patient) - before
        protocol.timeout_keep_alive = 0.8
        slow.sendall(request)
        assert slow.recv(4096).startswith(b"HTTP/1.1 200")
        time.sleep(0.5)  # in time for the next request
        if together:
            slow.sendall(request + request[:10])
            assert slow.recv(4096).startswith(b"HTTP/1.1 200")
        else:
            slow.sendall(request[:10])
        time.sleep(2.75)
        slow.sendall(request[10:])
        assert slow.recv(4096).startswith(b"HTTP/1.1 200")


def test_no_connection_holds_a_body_that_was_answered(patient):
    patient.client().create("b", RAW)
    before = protocols(patient)
    body = b'{"features": [[1, 0], [0, 1]], "id": "x"}' + b" " * 2000
    head = b"POST /v1/bandits/b/decide HTTP/1.1\r\nAuthorization: Bearer %b\r\n" % ADMIN.encode()
    with opened(patient.port, head + b"Content-Length: %d\r\n\r\n%b" % (len(body), body)) as one:
        assert one.recv(4096).startswith(b"HTTP/1.1 200")
        (protocol,) = protocols(patient) - before
        assert not protocol.cycle.body


def test_an_answer_that_fails_late_does_not_leave_its_caller_waiting(patient, monkeypatch):
    patient.client().create("b", RAW)

    def fails(*_: Any) -> None:
        raise RuntimeError("as an exporter of traces may")

    monkeypatch.setattr(patient.app.requests, "note", fails)
    body = b'{"decision": "x", "reward": 1}'  # of what nobody decided: the store is asked
    head = b"POST /v1/bandits/b/learn HTTP/1.1\r\nAuthorization: Bearer %b\r\n" % ADMIN.encode()
    with opened(patient.port, head + b"Content-Length: %d\r\n\r\n%b" % (len(body), body)) as one:
        one.settimeout(4.0)
        assert one.recv(4096).startswith(b"HTTP/1.1 500")
        assert is_closed(one)


@pytest.mark.parametrize("name", [b"Upgrade", b"UPGRADE"])
def test_no_body_is_taken_for_a_request_after_an_offer_to_upgrade(patient, name):
    body = b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"
    head = b"POST /v1/bandits/b/decide HTTP/1.1\r\nContent-Length: %d\r\n" % len(body)
    offer = b"%b: h2c\r\n%b: %b\r\n\r\n" % (name, b"CONNECTION", name)
    with opened(patient.port, head if name == b"Upgrade" else b"") as one:
        time.sleep(0.05)
        one.sendall(offer if name == b"Upgrade" else head + offer)
        time.sleep(0.05)
        found = b""
        with suppress(ConnectionError):
            one.sendall(body)
            while more := one.recv(4096):
                found += more
    assert found.count(b"HTTP/1.1 ") == 1


def test_a_connection_is_not_read_while_its_requests_wait(tmp_path):
    server = Running(tmp_path, public_rate=0.1)  # refusals are slow
    try:
        before = protocols(server)
        with opened(server.port, b"") as many:
            most = []
            for _ in range(6):
                many.sendall(b"POST /v1/bandits/b/decide HTTP/1.1\r\n\r\n" * 40)
                time.sleep(0.3)
                most += [len(each.pipeline) for each in protocols(server) - before]
            assert 0 < max(most) < 40
    finally:
        server.stop()


def test_few_requests_come_together(patient):
    request = b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"
    with opened(patient.port, request * (connections.MOST_AHEAD + 2)) as more:
        assert is_closed(more)
    with opened(patient.port, request * connections.MOST_AHEAD) as fine:
        found = b""
        while found.count(b'{"status":"ok"}') < connections.MOST_AHEAD:
            found += fine.recv(100_000)
