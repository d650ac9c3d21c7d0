"""What the JavaScript client seals, the server opens; and nothing that was changed."""

import base64
import json
from pathlib import Path

import msgspec
import pytest

pytest.importorskip("msgspec")

from discreet.service import sealing
from discreet.service.sealing import Terms
from tests.browser.running import run_node
from tests.service.conftest import ADMIN, Running
from tests.service.test_relay import RunningRelay, until

HERE = Path(__file__).parent
FILE = HERE.parents[1] / "clients" / "js" / "test" / "sealed.json"


def vectors():
    for each in json.loads(FILE.read_text()):
        secret = base64.urlsafe_b64decode(each["server"] + "==")[:32]
        yield msgspec.convert(each["terms"], Terms), secret, each["text"], each["sealed"]


def test_sealed__python_opens_what_javascript_sealed():
    for terms, secret, text, sealed in vectors():
        assert sealing.public_key(secret) == terms.key
        raw = bytes.fromhex(sealed)
        assert len(raw) == terms.sealed_size
        assert sealing.opened(terms, secret, raw).decode() == text.ljust(terms.size)


def test_sealed__nothing_opens_that_was_changed_or_moved():
    for terms, secret, _, sealed in vectors():
        raw = bytearray.fromhex(sealed)
        for place in (0, 1, 33, 64, 65, len(raw) // 2, len(raw) - 1):
            changed = raw.copy()
            changed[place] ^= 1
            assert sealing.opened(terms, secret, bytes(changed)) is None
        for change in ({"bandit": "bds"}, {"policy": "e-4"}, {"digest": "0"}):
            moved = msgspec.structs.replace(terms, **change)
            assert sealing.opened(moved, secret, bytes(raw)) is None
        assert sealing.opened(terms, sealing.new_secret(), bytes(raw)) is None


def test_client__in_chromium_reports_through_a_relay(tmp_path):
    """Devices in browsers fill a batch; the server counts it and never hears from them."""
    server = Running(tmp_path)
    relay = RunningRelay(tmp_path, server.url, minimum=2)
    try:
        definition = {"dim": 2, "reward": {"range": [0, 1]}}
        definition |= {"privacy": {"epsilon": 3.0, "trust": "shuffled"}}
        server.client().create("ads", definition)
        until(lambda: relay.request("GET", "/v1/bandits/ads/terms")[0] == 200)
        wanted = server.client().bandit("ads")["window"]["rounds"]
        run_node(
            HERE / "relay.browser.js", URL=server.url, KEY=ADMIN, RELAY=relay.url,
            PEOPLE=str(wanted),
            EPSILON="3", DELTA="1e-6",
        )  # fmt: skip
        until(lambda: server.client().bandit("ads")["policy"] == 2)
        assert server.client().bandit("ads")["reports"] == {"taken": wanted, "refused": 0}
    finally:
        relay.stop()
        server.stop()
