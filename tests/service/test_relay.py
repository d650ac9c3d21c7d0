"""The relay: what it forwards, once, in which order, and what it never does."""

import base64
import hashlib
import hmac
import http.client
import json
import logging
import secrets
import signal
import socket
import sqlite3
import threading
import time
from contextlib import closing

import msgspec
import numpy as np
import pytest
import sqlalchemy as sa

from discreet.cli import main
from discreet.service import limits, reports, sealing
from discreet.service.errors import Problem, not_found
from discreet.service.relay import store as relay_store
from discreet.service.relay.app import application, signed
from discreet.service.settings import RelaySettings
from tests.service.conftest import ADMIN, Running, Serving, free_port
from tests.service.processes import Parent
from tests.service.test_batches import sealed_reports, taken, terms_of
from tests.service.test_reports import ROWS, policy, report

TICK = 0.03


class RunningRelay(Serving):
    """A relay that answers, until `stop`."""

    def __init__(self, folder, server, **more):
        port = free_port()
        self.settings = RelaySettings(
            **{"server": server, "key": ADMIN, "bandits": ("ads",), "port": port,
               "store": f"sqlite:///{folder}/relay.db", "tick": TICK, "minimum": 10,
               "public_rate": 1e6, **more}
        )  # fmt: skip
        super().__init__(application(self.settings), port)
        self.relay = self.app.state.relay

    def request(self, method, path, body=None, **headers):
        return requested(self.port, method, path, body, **headers)


def requested(port, method, path, body=None, **headers):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    try:
        connection.request(method, path, body, headers)
        reply = connection.getresponse()
        return reply.status, dict(reply.headers), reply.read()
    finally:
        connection.close()


def envelope(terms, sealed, person=None, id=None, **more):
    """What a device posts."""
    return {
        "id": id or secrets.token_hex(16),
        "policy": terms.policy,
        "person": person or secrets.token_hex(8),
        "sealed": base64.b64encode(sealed).decode(),
        **more,
    }


def post(port, body, name="ads", **headers):
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    status, _, reply = requested(port, "POST", f"/v1/bandits/{name}/sealed", raw, **headers)
    return status, json.loads(reply)


def send(port, body, **headers):
    """Until it is accepted: between two batches a relay asks to come again."""
    ends = time.monotonic() + 20
    while True:
        status, reply = post(port, body, **headers)
        if status != 503 or time.monotonic() > ends:
            assert status == 200, reply
            return reply["status"]
        time.sleep(0.01)


def until(condition, seconds=20):
    ends = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < ends, "it did not happen in time"
        time.sleep(0.01)
    return found


@pytest.fixture
def server(tmp_path):
    made = Running(tmp_path)
    made.client().create("ads", ROWS)  # a window of 20 reports
    yield made
    made.stop()


@pytest.fixture
def relaying(server, tmp_path):
    """A function that starts a relay with these settings."""
    started = []

    def start(**more):
        started.append(RunningRelay(tmp_path, server.url, **more))
        until(lambda: started[-1].request("GET", "/v1/bandits/ads/terms")[0] == 200)
        return started[-1]

    yield start
    for each in started:
        each.stop()


@pytest.fixture
def received(monkeypatch):
    """Batches as the server receives them: (id, sealed reports)."""
    found = []
    take = reports.take_batch

    async def recorded(server, name, batch, policy, sealed):
        reply = await take(server, name, batch, policy, sealed)
        found.append((batch, sealed, reply.status))
        return reply

    monkeypatch.setattr(reports, "take_batch", recorded)
    return found


def test_relay__publishes_the_terms_of_the_server(server, relaying):
    relay = relaying()
    ours = relay.request("GET", "/v1/bandits/ads/terms")[2]
    assert msgspec.json.decode(ours, type=sealing.Terms) == terms_of(server)


def test_relay__a_full_batch_is_forwarded_once_and_forgotten(server, relaying, received, tmp_path):
    relay = relaying()
    terms, sealed = sealed_reports(server, range(20))
    people = [f"person-{i}" for i in range(20)]
    for person, each in zip(people, sealed, strict=True):
        assert send(relay.port, envelope(terms, each, person)) == "accepted"
    until(lambda: server.client().bandit("ads")["policy"] == 2)
    assert taken(server) == 20
    # The next batch is open, on the terms of the next policy; of the old one nothing is left.
    later = until(lambda: terms_of(server) if terms_of(server) != terms else None)
    until(lambda: relay.request("GET", "/v1/bandits/ads/terms")[2] == msgspec.json.encode(later))
    assert len({batch for batch, _, _ in received}) == 1
    assert sorted(pieces(received[0][1], terms)) == sorted(sealed)
    with closing(sqlite3.connect(tmp_path / "relay.db")) as database:
        for table in ("reports", "people", "seen"):
            assert database.execute(f"select count(*) from {table}").fetchone() == (0,)
    for path in tmp_path.glob("relay.db*"):
        raw = path.read_bytes()
        assert not any(each in raw for each in sealed)
        assert not any(person.encode() in raw for person in people)
    # A report on the old policy comes too late.
    assert send(relay.port, envelope(terms, sealed[0])) == "closed"


def pieces(content, terms):
    size = terms.sealed_size
    return [content[at : at + size] for at in range(0, len(content), size)]


def test_relay__a_report_id_counts_once_and_so_does_a_person(server, relaying, received):
    relay = relaying()
    terms, sealed = sealed_reports(server, range(24))
    first = envelope(terms, sealed[0], "anna")
    for _ in range(3):
        assert send(relay.port, first) == "accepted"
    # Another report of the same person is answered alike, and is not in the batch.
    assert send(relay.port, envelope(terms, sealed[1], "anna")) == "accepted"
    # The same id with something else in it neither.
    assert send(relay.port, envelope(terms, sealed[2], "bert", first["id"])) == "accepted"
    for each in sealed[3:22]:
        assert send(relay.port, envelope(terms, each)) == "accepted"
    until(lambda: received)
    assert sorted(pieces(received[0][1], terms)) == sorted([sealed[0], *sealed[3:22]])
    assert taken(server) == 20


def test_relay__the_key_of_the_hashes_goes_with_the_batch(server, relaying, tmp_path):
    """The same person counts in the next batch; hashes of two batches have nothing in common."""
    relay = relaying()
    terms, sealed = sealed_reports(server, range(14))
    found = []
    for some in (sealed[:7], sealed[7:]):
        for number, each in enumerate(some):
            assert send(relay.port, envelope(terms, each, f"person-{number}")) == "accepted"
        with closing(sqlite3.connect(tmp_path / "relay.db")) as database:
            found.append({row[0] for row in database.execute("select person from people")})
        end(relay)
        until(lambda: relay.relay.dropped["ads"] == len(found))
    assert len(found[0]) == len(found[1]) == 7
    assert not found[0] & found[1]


def end(relay):
    """The time of the open batch is up."""
    with relay.relay.store.transaction() as connection:
        connection.execute(sa.update(relay_store.batches).values(ends=0.0))


def test_relay__below_the_minimum_nothing_is_forwarded_ever(server, relaying, received):
    """With its minimum, a batch goes when its time is up; what was dropped never does."""
    relay = relaying()
    terms, sealed = sealed_reports(server, range(30))
    for each in sealed[:9]:
        send(relay.port, envelope(terms, each))
    end(relay)
    until(lambda: relay.relay.dropped["ads"] == 1)
    for each in sealed[9:19]:
        send(relay.port, envelope(terms, each))
    time.sleep(5 * TICK)
    assert not received
    end(relay)
    until(lambda: received)
    assert sorted(pieces(received[0][1], terms)) == sorted(sealed[9:19])


def test_relay__its_own_minimum_holds_when_the_server_asks_for_less(server, relaying, received):
    relay = relaying(minimum=25)
    terms, sealed = sealed_reports(server, range(25))
    assert terms.batch == 20
    for each in sealed[:24]:
        send(relay.port, envelope(terms, each))
    time.sleep(5 * TICK)
    assert not received
    send(relay.port, envelope(terms, sealed[24]))
    until(lambda: received)
    assert taken(server) == 25


def rank_correlation(server, relay, received, people):
    """Between the order in which reports came and the order in which they were forwarded."""
    terms, sealed = sealed_reports(server, range(people))
    for each in sealed:
        send(relay.port, envelope(terms, each))
    until(lambda: received)
    place = {each: at for at, each in enumerate(pieces(received[0][1], terms))}
    return float(np.corrcoef(np.arange(people), [place[each] for each in sealed])[0, 1])


def test_order__of_arrival_says_nothing_about_the_order_forwarded(server, relaying, received):
    """4.5 standard deviations of 1/sqrt(n - 1): a false alarm in 150,000 runs."""
    people = 100
    found = rank_correlation(server, relaying(minimum=people), received, people)
    assert abs(found) < 4.5 / np.sqrt(people - 1)


def test_order__left_in_is_caught(server, relaying, received, monkeypatch):
    """A relay that keeps the order of arrival fails the test above."""
    numbers = iter(range(10**6))
    monkeypatch.setattr(relay_store, "new_place", lambda: next(numbers).to_bytes(16, "big"))
    people = 100
    found = rank_correlation(server, relaying(minimum=people), received, people)
    assert abs(found) > 4.5 / np.sqrt(people - 1)


def test_relay__cannot_open_what_it_carries(server, relaying, tmp_path):
    """Nothing that a relay has opens a report; the server's key does."""
    relay = relaying()
    terms, (sealed,) = sealed_reports(server, [0])
    send(relay.port, envelope(terms, sealed))
    raw = b"".join(path.read_bytes() for path in tmp_path.glob("relay.db*"))
    assert sealed in raw  # it is there, and sealed
    (document, _) = policy(server)
    plain = msgspec.json.encode(report(document, 0))
    assert plain not in raw
    for secret in (sealing.new_secret(), bytes.fromhex(terms.key)[1:33], ADMIN.encode()[:32]):
        assert sealing.opened(terms, secret, sealed) is None
    secret = server.server.vault.report_key("ads", terms.policy)
    assert sealing.opened(terms, secret, sealed).rstrip() == plain


def test_relay__junk_is_left_out_by_the_server_and_the_rest_counts(server, relaying):
    relay = relaying()
    terms, sealed = sealed_reports(server, range(15))
    for each in sealed:
        send(relay.port, envelope(terms, each))
    for _ in range(5):
        send(relay.port, envelope(terms, secrets.token_bytes(terms.sealed_size)))
    until(lambda: taken(server) == 15)
    assert server.client().bandit("ads")["reports"]["refused"] == 5


def test_relay__too_many_bad_reports_lose_their_places_and_the_others_none(
    server, relaying, received
):
    """Who shares a batch with somebody who fills it with junk still counts, once others came."""
    relay = relaying()
    terms, sealed = sealed_reports(server, range(25))
    for each in sealed[:8]:
        assert send(relay.port, envelope(terms, each)) == "accepted"
    for _ in range(12):
        send(relay.port, envelope(terms, secrets.token_bytes(terms.sealed_size)))
    until(lambda: received)
    assert [status for _, _, status in received] == ["small"]
    assert taken(server) == 0
    # As many must come as to a new batch: the server knows the first eight, and these would be few.
    for each in sealed[8:17]:
        assert send(relay.port, envelope(terms, each)) == "accepted"
    time.sleep(5 * TICK)
    assert len(received) == 1
    assert send(relay.port, envelope(terms, sealed[17])) == "accepted"
    end(relay)
    until(lambda: relay.relay.forwarded["ads"] == 1)
    assert taken(server) == 18
    assert sorted(pieces(received[-1][1], terms)) == sorted(sealed[:18])
    assert relay.relay.dropped["ads"] == 0


def test_accepted__is_said_of_what_can_still_count(server, relaying, received):
    """A report whose batch was dropped is taken again, and one that was delivered is not."""
    relay = relaying()
    terms, sealed = sealed_reports(server, range(21))
    letters = [envelope(terms, each) for each in sealed]
    send(relay.port, letters[0])
    end(relay)
    until(lambda: relay.relay.dropped["ads"] == 1)
    for _ in range(2):
        assert send(relay.port, letters[0]) == "accepted"
    for each in letters[1:12]:
        send(relay.port, each)
    end(relay)
    until(lambda: relay.relay.forwarded["ads"] == 1)  # a window of 20 goes on
    assert len(received[0][1]) == 12 * terms.sealed_size
    for each in letters:
        assert send(relay.port, each) == "accepted"
    assert taken(server) == 12
    assert in_open_batch(relay) == 9
    end(relay)
    until(lambda: relay.relay.dropped["ads"] == 2)
    for each in letters:
        assert send(relay.port, each) == "accepted"
    assert in_open_batch(relay) == 9


def in_open_batch(relay):
    with relay.relay.store.transaction() as connection:
        return relay.relay.store.batch(connection, "ads").count


def test_retry__of_what_the_server_has_seen_enters_no_other_batch(
    server, relaying, received, monkeypatch
):
    """A server that refuses a batch it has read would find whose answer was lost in the next."""
    take = reports.take_batch

    async def refused(*arguments):
        await take(*arguments)
        raise not_found("batch")

    monkeypatch.setattr(reports, "take_batch", refused)
    relay = relaying()
    terms, sealed = sealed_reports(server, range(12))
    letters = [envelope(terms, each) for each in sealed]
    for each in letters[:11]:
        send(relay.port, each)
    end(relay)
    until(lambda: relay.relay.dropped["ads"] == 1)
    assert len(received) == 1  # it was handed over
    for each in letters:
        assert send(relay.port, each) == "accepted"
    assert in_open_batch(relay) == 1


def test_errors__are_problems_that_quote_nothing(server, relaying):
    relay = relaying()
    terms, (sealed,) = sealed_reports(server, [0])
    good = envelope(terms, sealed)
    word = "something-private"
    bad = [
        (b"", 400), (b"{", 400), (b"[" * 5000, 422), (b"\xff", 400), (b"null", 422),
        ({**good, "id": word}, 422), ({**good, "sealed": word + "!"}, 422), ({"x": word}, 422),
        ({**good, "x": word}, 422), ({**good, "person": ""}, 422),
        ({**good, "person": "p" * 257}, 422),
        ({**good, "policy": word * 9}, 422), ({**good, "person": None}, 422),
        ({**good, "sealed": good["sealed"][:-8]}, 422), ({**good, "sealed": ""}, 422),
        ({**good, "sealed": 5}, 422), ({**good, "sealed": "A" * 2**20}, 413),
    ]  # fmt: skip
    for body, expected in bad:
        status, reply = post(relay.port, body)
        assert status == expected, (body, reply)
        assert reply["type"].startswith("urn:discreet:problem:")
        assert word not in json.dumps(reply)
    assert post(relay.port, good, name="other")[0] == 404
    assert relay.request("GET", "/nothing")[0] == 404
    assert relay.request("GET", "/v1/bandits/ads/sealed")[0] == 405
    assert post(relay.port, good) == (200, {"status": "accepted"})


def test_person__may_be_what_a_login_in_front_says(server, relaying, received):
    relay = relaying(person_header="X-Person")
    terms, sealed = sealed_reports(server, range(21))
    assert post(relay.port, envelope(terms, sealed[0]))[0] == 422
    for number, each in enumerate(sealed):
        body = envelope(terms, each)
        send(relay.port, body, **{"X-Person": f"p{max(1, number)}"})  # the first two are one person
    until(lambda: received)
    assert len(received[0][1]) == 20 * terms.sealed_size


def test_person__may_have_to_be_signed_by_the_application_that_knows_people(server, relaying):
    """One token for each person: without one nobody gets a place, with one each gets one."""
    key = secrets.token_hex(16)
    relay = relaying(person_key=key)
    terms, sealed = sealed_reports(server, range(21))
    anna = signed(key, "ads", "anna")
    assert anna == "anna." + hmac.new(key.encode(), b"ads\nanna", "sha256").hexdigest()
    other = signed(secrets.token_hex(16), "ads", "anna"), signed(key, "news", "anna")
    mangled = "anna.", "." + anna, anna[:-1], f"bert{anna[4:]}", "\u00fc." * 9
    for person in ("anna", *mangled, *other):
        status, problem = post(relay.port, envelope(terms, sealed[0], person))
        assert (status, problem["type"]) == (403, "urn:discreet:problem:not-admitted"), person
    for each in sealed:
        assert send(relay.port, envelope(terms, each, anna)) == "accepted"
    with relay.relay.store.transaction() as connection:
        assert relay.relay.store.batch(connection, "ads").count == 1


def test_slow_clients__are_given_up(server, relaying, monkeypatch):
    monkeypatch.setattr(limits, "BODY_SECONDS", 0.2)
    relay = relaying()
    with socket.create_connection(("127.0.0.1", relay.port)) as slow:
        slow.sendall(
            b"POST /v1/bandits/ads/sealed HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n{"
        )
        assert b" 408 " in slow.recv(1000)


def test_operations__say_nothing_about_persons(server, relaying, caplog, capfd):
    """Health, readiness, metrics and logs are the same before and after reports come."""
    relay = relaying()
    paths = ("/healthz", "/readyz", "/metrics")
    before = [relay.request("GET", path) for path in paths]
    terms, sealed = sealed_reports(server, range(9))
    with caplog.at_level(logging.DEBUG, logger="discreet"):
        for each in sealed:
            send(relay.port, envelope(terms, each, "somebody-known"))
            post(relay.port, b"{")
        after = [relay.request("GET", path) for path in paths]
    assert [each[0] for each in after] == [200, 200, 200]
    assert [each[2] for each in before] == [each[2] for each in after]
    assert json.loads(after[1][2]) == {"status": "ok", "server": "ok"}
    assert not [each for each in caplog.records if each.name.startswith("discreet.relay")]
    out, error = capfd.readouterr()
    assert "127.0.0.1" not in out + error


def test_server_away__a_batch_waits_and_is_delivered_when_it_is_back(tmp_path):
    server = Running(tmp_path)
    server.client().create("ads", ROWS)
    relay = RunningRelay(tmp_path, server.url)
    try:
        until(lambda: relay.request("GET", "/v1/bandits/ads/terms")[0] == 200)
        terms, sealed = sealed_reports(server, range(20))
        port = server.port
        for each in sealed[:19]:
            send(relay.port, envelope(terms, each))
        server.stop()
        send(relay.port, envelope(terms, sealed[19]))
        until(lambda: relay.relay.server == "away")
        _, reply = until(
            lambda: (found := post(relay.port, envelope(terms, sealed[0])))[0] == 503 and found
        )
        assert reply["type"].endswith("between-batches")
        assert json.loads(relay.request("GET", "/readyz")[2])["server"] == "away"
        server = Running(tmp_path, port=port)
        until(lambda: taken(server) == 20)
    finally:
        relay.stop()
        server.stop()


def test_key__that_the_server_refuses_is_said_and_loses_nothing(server, tmp_path):
    key = server.client().call("POST", "/v1/keys", {"name": "r", "scopes": ["report"]})["secret"]
    relay = RunningRelay(tmp_path, server.url, key=key)
    terms, sealed = sealed_reports(server, range(20))
    try:
        for each in sealed:
            send(relay.port, envelope(terms, each))
        until(lambda: relay.relay.server == "refused")
    finally:
        relay.stop()
    right = {"name": "r", "scopes": ["relay"], "bandits": ["ads"]}
    key = server.client().call("POST", "/v1/keys", right)["secret"]
    relay = RunningRelay(tmp_path, server.url, key=key)
    try:
        until(lambda: taken(server) == 20)
    finally:
        relay.stop()


def test_settings__that_cannot_work_are_refused_in_words():
    good = {"server": "https://d.example", "key": "k", "bandits": ("ads",)}
    RelaySettings(**good)
    for change, words in (
        ({"server": "d.example"}, "address"),
        ({"key": ""}, "DISCREET_RELAY_KEY"),
        ({"bandits": ()}, "--bandit"),
        ({"store": "postgresql://x"}, "sqlite"),
        ({"minimum": 1}, "--minimum"),
        ({"wait": 0.0}, "--wait"),
    ):
        with pytest.raises(ValueError, match=words):
            RelaySettings(**{**good, **change})


def test_command__says_what_it_needs_and_touches_nothing(capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    for name in ("SERVER", "KEY", "BANDITS"):
        monkeypatch.delenv(f"DISCREET_RELAY_{name}", raising=False)
    for arguments, words in (
        ([], "--server must be"),
        (["--server", "https://d.example"], "DISCREET_RELAY_KEY must hold"),
    ):
        with pytest.raises(SystemExit) as stop:
            main(["relay", *arguments])
        assert stop.value.code == 2
        assert words in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_delivery__an_answer_that_is_lost_counts_a_batch_once(server, relaying, monkeypatch):
    """The server has committed, and the relay does not hear of it."""
    take, statuses = reports.take_batch, []

    async def deaf(*arguments):
        reply = await take(*arguments)
        statuses.append(reply.status)
        if len(statuses) <= 7:  # more often than one call is tried
            raise Problem("store-unavailable")
        return reply

    monkeypatch.setattr(reports, "take_batch", deaf)
    relay = relaying()
    terms, sealed = sealed_reports(server, range(20))
    for each in sealed:
        send(relay.port, envelope(terms, each))
    until(lambda: relay.relay.forwarded["ads"] == 1)
    assert statuses == ["counted", *["duplicate"] * 7]
    assert taken(server) == 20


def test_delivery__a_relay_that_does_not_come_to_forget_sends_the_same_batch(
    server, relaying, received, monkeypatch
):
    """Delivered, and the relay dies before it has written that down."""
    relay = relaying()
    forget, failures = relay.relay.store.forget, [1, 1]

    def unlucky(connection, bandit):
        if failures:
            failures.pop()
            raise Problem("store-unavailable")
        forget(connection, bandit)

    monkeypatch.setattr(relay.relay.store, "forget", unlucky)
    terms, sealed = sealed_reports(server, range(20))
    for each in sealed:
        send(relay.port, envelope(terms, each))
    until(lambda: relay.relay.forwarded["ads"] == 1)
    assert [status for _, _, status in received] == ["counted", "duplicate", "duplicate"]
    assert len({(batch, content) for batch, content, _ in received}) == 1
    assert taken(server) == 20


# What the server was sent: one line for each answer, written before it is given.
RECORD = """
import json, hashlib
from discreet.service import reports
take = reports.take_batch
async def recorded(server, name, batch, policy, sealed):
    reply = await take(server, name, batch, policy, sealed)
    size = json.loads((await reports.public_policy(server, name)).terms)["size"] + 81
    found = [hashlib.sha256(sealed[i:i + size]).hexdigest() for i in range(0, len(sealed), size)]
    with open({path!r}, "a") as file:
        file.write(json.dumps([batch.hex(), reply.status, found]) + "\\n")
    return reply
reports.take_batch = recorded
"""


def test_kill__at_any_moment_every_acknowledged_report_is_delivered_exactly_once(tmp_path):
    """20 times kill -9, of the relay and of the server, at random moments."""
    rng = np.random.default_rng()
    parent = Parent(tmp_path, ADMIN)
    log = tmp_path / "batches.log"
    log.touch()
    ports = free_port(), free_port()
    before = RECORD.format(path=str(log))

    def start_server():
        store = f"sqlite:///{tmp_path}/store.db"
        return parent.server(store, tmp_path / "secrets", ports[0], before)

    def start_relay():
        url = f"http://127.0.0.1:{ports[0]}"
        return parent.relay(
            ports[1], server=url, key=ADMIN, bandits="ads", tick=0.01, minimum=10,
            store=f"sqlite:///{tmp_path}/relay.db",
        )  # fmt: skip

    children = [start_server(), start_relay()]
    acknowledged, sent = set(), set()
    stop = threading.Event()

    def people(seed):
        """Send new reports one after the other; retry each until it is answered."""
        number = 0
        while not stop.is_set():
            try:
                terms, (sealed,) = read(seed + number)
                body = envelope(terms, sealed)
                name = hashlib.sha256(sealed).hexdigest()
                sent.add(name)
                while not stop.is_set():
                    try:
                        status, reply = post(ports[1], body)
                    except (OSError, http.client.HTTPException):
                        time.sleep(0.01)
                        continue
                    if status == 200:
                        if reply["status"] == "accepted":
                            acknowledged.add(name)
                        break
                    time.sleep(0.01)
            except (OSError, http.client.HTTPException, KeyError, ValueError):
                time.sleep(0.01)
            number += 1

    def read(seed):
        """What a device reads and seals; KeyError while the server is away."""
        document = json.loads(requested(ports[0], "GET", "/v1/bandits/ads/policy")[2])
        raw = requested(ports[0], "GET", "/v1/bandits/ads/terms")[2]
        terms = msgspec.json.decode(raw, type=sealing.Terms)
        made = msgspec.json.encode(report(document, seed))
        return terms, [sealing.seal(terms, made)]

    try:
        with children[0].client() as client:
            client.create("ads", ROWS)
        threads = [threading.Thread(target=people, args=(10**6 * i,)) for i in range(3)]
        for thread in threads:
            thread.start()
        for kill in range(20):
            goal, ends = len(acknowledged) + rng.integers(0, 7), time.monotonic() + 2
            while len(acknowledged) < goal and time.monotonic() < ends:
                time.sleep(0.002)
            time.sleep(rng.uniform(0.0, 0.05))
            which = kill % 3 != 0  # two of three times the relay
            children[which].kill()
            children[which] = start_relay() if which else start_server()
        time.sleep(0.3)
        stop.set()
        for thread in threads:
            thread.join()
        time.sleep(0.5)  # what is closed goes
        children[1].signal(signal.SIGINT)
        children[1]._gone()
        with closing(sqlite3.connect(tmp_path / "relay.db")) as database:
            kept = {
                hashlib.sha256(sealed).hexdigest()
                for (sealed,) in database.execute("select sealed from reports")
            }
        delivered = {}
        for line in log.read_text().splitlines():
            batch, status, found = json.loads(line)
            assert status in ("counted", "duplicate")
            assert delivered.setdefault(batch, found) == found  # sent again: the same bytes
        reports_delivered = [each for found in delivered.values() for each in found]
        assert len(reports_delivered) == len(set(reports_delivered))  # at most once
        assert set(reports_delivered) <= sent
        assert not kept & set(reports_delivered)
        assert acknowledged <= kept | set(reports_delivered)  # exactly once, or on its way
        assert len(acknowledged) > 20
        with children[0].client() as client:
            assert client.bandit("ads")["reports"]["taken"] == len(reports_delivered)
            assert all(each["count"] >= 10 for each in client.releases("ads"))
    finally:
        stop.set()
        for child in children:
            child.signal(signal.SIGKILL) if alive(child) else None
        parent.close()


def alive(child):
    try:
        child.signal(0)
    except ProcessLookupError:
        return False
    return True


def test_store__has_no_order_of_arrival_and_forgets_people_when_a_batch_closes(tmp_path):
    """A write-ahead log would list reports as they came, and keep people's hashes and their key."""
    store = relay_store.RelayStore(f"sqlite:///{tmp_path}/relay.db")
    store.prepare()
    with store.transaction() as connection:
        store.open(connection, "ads", b"{}", "e-1", 1e5)
        secret = bytes(store.batch(connection, "ads").secret)
    hashes = [secrets.token_bytes(32) for _ in range(100)]
    sealed = [secrets.token_bytes(300) for _ in range(100)]
    for person, body in zip(hashes, sealed, strict=True):
        place = secrets.token_bytes(16)
        with store.transaction() as connection:
            row = {"bandit": "ads", "place": place, "sealed": body}
            connection.execute(sa.insert(relay_store.reports).values(**row))
            row = {"bandit": "ads", "person": person}
            connection.execute(sa.insert(relay_store.people).values(**row))

    def on_disk():
        return b"".join(path.read_bytes() for path in tmp_path.iterdir() if path.is_file())

    assert secret in on_disk()  # while it is open
    assert {path.name for path in tmp_path.iterdir() if path.stat().st_size} == {"relay.db"}
    with store.transaction() as connection:
        store.close_batch(connection, "ads")
    assert secret not in on_disk()
    assert not any(person in on_disk() for person in hashes)
    with store.transaction() as connection:
        store.forget(connection, "ads")
    assert not any(body[:100] in on_disk() for body in sealed)
    store.close()
