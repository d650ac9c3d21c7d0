"""A Python device over HTTP: through a relay, within the person's limits, once."""

import json

import msgspec
import pytest

from discreet.bandits import Promise
from discreet.service import sealing
from discreet.service.device import RemoteDevice
from tests.service.conftest import Running
from tests.service.test_relay import RunningRelay, until

ROWS = [[0.6, 0.1], [0.1, -0.5]]
LOCAL = {"dim": 2, "reward": {"range": [0, 1]}, "privacy": {"epsilon": 8.0, "trust": "local"}}
SHUFFLED = {**LOCAL, "privacy": {"epsilon": 3.0, "delta": 1e-4, "trust": "shuffled"}}


@pytest.fixture
def server(tmp_path):
    made = Running(tmp_path)
    yield made
    made.stop()


@pytest.fixture
def relay(server, tmp_path):
    made = RunningRelay(tmp_path, server.url, minimum=2)
    yield made
    made.stop()


@pytest.fixture
def made(server, tmp_path):
    """A function that makes a device; its connections are closed in the end."""
    devices = []

    def make(memory="device", relay=None, person=None, noise=None, **limits):
        promise = Promise(**limits) if limits else None
        ends = {"relay": relay, "person": person, "noise": noise}
        devices.append(RemoteDevice(server.url, "ads", tmp_path / memory, promise, **ends))
        return devices[-1]

    yield make
    for each in devices:
        each.close()


def start(server, relay, definition):
    server.client().create("ads", definition)
    until(lambda: relay.request("GET", "/v1/bandits/ads/terms")[0] == 200)
    return server.client().bandit("ads")["window"]["rounds"]


@pytest.mark.parametrize("definition", [LOCAL, SHUFFLED], ids=["local", "shuffled"])
def test_device__a_window_of_people_reports_through_a_relay(server, relay, made, definition):
    people = start(server, relay, definition)
    privacy = definition["privacy"]
    limits = {name: privacy[name] for name in ("epsilon", "delta") if name in privacy}
    for person in range(people):
        device = made(f"device-{person}", relay=relay.url, **limits)
        assert device.report(device.decide(ROWS), 1.0) == "accepted"
        assert device.sent == 1
    until(lambda: server.client().bandit("ads")["policy"] == 2)
    assert server.client().bandit("ads")["reports"] == {"taken": people, "refused": 0}


def test_device__without_a_relay_reports_to_the_server(server, made):
    server.client().create("ads", LOCAL)
    device = made(epsilon=8.0)
    assert device.report(device.decide(ROWS), 1.0) == "counted"
    with pytest.raises(ValueError, match="no budget is left"):
        device.report(device.decide(ROWS), 1.0)


def test_device__remembers_what_it_sent_and_promised(server, made):
    server.client().create("ads", LOCAL)
    first = made(epsilon=8.0)
    first.report(first.decide(ROWS), 1.0)
    again = made(epsilon=8.0)
    assert again.sent == 1
    with pytest.raises(ValueError, match="no budget is left"):
        again.report(again.decide(ROWS), 1.0)
    with pytest.raises(ValueError, match="other limits"):
        made(epsilon=9.0)


def test_device__no_policy_sets_its_epsilon(server, made):
    server.client().create("ads", LOCAL)
    with pytest.raises(ValueError, match="state the promise"):
        made()
    made(epsilon=8.0)
    assert made().sent == 0  # the memory holds it


def test_device__refuses_what_its_person_does_not_allow(server, relay, made):
    start(server, relay, SHUFFLED)
    for number, limits in enumerate(
        ({"epsilon": 2.0, "delta": 1e-4}, {"epsilon": 3.0, "delta": 1e-5},
         {"epsilon": 3.0, "delta": 1e-4, "local_epsilon": 1.0})
    ):  # fmt: skip
        with pytest.raises(ValueError, match="this device"):
            made(f"d{number}", relay=relay.url, **limits)


def test_device__never_sends_a_shuffled_report_past_the_relay(server, relay, made):
    """By itself such a report costs more than its person allows."""
    start(server, relay, SHUFFLED)
    with pytest.raises(ValueError, match="state a relay"):
        made(epsilon=3.0, delta=1e-4)


def test_device__sends_nothing_where_others_would_draw_by_another_channel(server, relay, made):
    """The document's channels are for other languages: a batch needs one channel for all."""
    start(server, relay, SHUFFLED)
    device = made(relay=relay.url, epsilon=3.0, delta=1e-4)
    decision = device.decide(ROWS)
    honest = device._server.document

    def lying(path):
        found = json.loads(honest(path))
        if "channels" in found:
            found["channels"]["joint"]["likely"] -= 1
        return json.dumps(found).encode()

    device._server.document = lying
    with pytest.raises(ValueError, match="split the crowd"):
        device.report(decision, 1.0)
    assert device.sent == 0


def test_device__sends_nothing_to_a_bandit_that_learns_no_more(server, relay, made):
    start(server, relay, LOCAL)
    device = made(relay=relay.url, epsilon=8.0)
    decision = device.decide(ROWS)
    server.client().call("DELETE", "/v1/bandits/ads")
    server.server.public.clear()
    assert device.report(decision, 1.0) == "closed"
    assert device.sent == 0


def test_device__a_report_that_could_not_be_sent_is_sent_later_with_the_same_bytes(
    server, relay, made
):
    start(server, relay, LOCAL)
    device = made(relay=relay.url, epsilon=8.0)
    decision = device.decide(ROWS)
    terms = device._follow()
    device._follow = lambda: terms  # the relay goes away after it was asked
    device.close()
    device._relay._port = 1
    assert device.report(decision, 1.0) == "waiting"
    (body,) = device._waiting
    again = made(relay=relay.url, epsilon=8.0)
    assert again._waiting == [body]
    assert again.flush() == {body["id"]: "accepted"}
    assert again.flush() == {}


@pytest.mark.parametrize(
    "lie", [{"key": "relay"}, {"digest": "0" * 64}, {"policy": "e-9"}, {"batch": 3}], ids=str
)
def test_device__sends_nothing_when_relay_and_server_do_not_agree(server, relay, made, lie):
    """A key of the relay's own, or a policy for one person, would undo the crowd."""
    start(server, relay, LOCAL)
    device = made(relay=relay.url, epsilon=8.0)
    decision = device.decide(ROWS)
    honest = device._relay.document
    if "key" in lie:
        lie = {"key": sealing.public_key(sealing.new_secret())}

    def lying(path):
        terms = msgspec.json.decode(honest(path), type=sealing.Terms)
        return msgspec.json.encode(msgspec.structs.replace(terms, **lie))

    device._relay.document = lying
    with pytest.raises(ValueError, match="do not agree"):
        device.report(decision, 1.0)
    assert device.sent == 0
    assert json.loads(relay.request("GET", "/healthz")[2]) == {"status": "ok"}


def test_device__refuses_a_size_that_only_some_reports_fit(server, relay, made):
    start(server, relay, LOCAL)
    device = made(relay=relay.url, epsilon=8.0)
    terms = device._follow()
    longest = sealing.longest_report(device._device.state, terms.policy)
    small = msgspec.json.encode(msgspec.structs.replace(terms, size=longest - 1))
    for client in (device._server, device._relay):
        honest = client.document
        client.document = lambda path, honest=honest: small if "terms" in path else honest(path)
    with pytest.raises(ValueError, match="size that reports do not fit"):
        device.report(device.decide(ROWS), 1.0)
    assert device.sent == 0
