"""The JavaScript client: in Node, against a real server, and in a real Chromium."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from discreet.bandits import LocalServer, PublicPolicy
from discreet.privacy import Shuffled
from discreet.service.demo import LOCAL_BANDIT, LOCAL_DEFINITION
from tests.browser.running import run_node
from tests.local.vectors import document
from tests.service.conftest import ADMIN, Running

HERE = Path(__file__).parent
PACKAGE = HERE.parents[1] / "clients" / "js"


def node() -> str:
    found = shutil.which("node")
    if found is None:
        pytest.skip("the JavaScript client needs Node 20")
    if not (PACKAGE / "node_modules").is_dir():
        pytest.skip("the JavaScript client needs its packages: make test, or npm ci in clients/js")
    return found


@pytest.mark.parametrize("file", sorted(PACKAGE.glob("test/*.test.js")), ids=lambda f: f.name)
def test_client__passes_its_own_tests_in_node(file):
    done = subprocess.run(
        [node(), "--test", "--test-reporter=spec", str(file)],
        env=dict(os.environ), capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture
def running(tmp_path):
    server = Running(tmp_path)
    yield server
    server.stop()


def test_client__works_with_a_real_server(running, tmp_path):
    node()
    run_node(HERE / "service.node.js", URL=running.url, KEY=ADMIN, FOLDER=str(tmp_path))


def test_readme__its_examples_of_joint_and_local_trust_run(running, tmp_path):
    node()
    run_node(HERE / "readme.node.js", URL=running.url, KEY=ADMIN, FOLDER=str(tmp_path))


def test_client__computes_the_price_of_every_channel_as_the_server_does(tmp_path):
    """Within 1e-9 of epsilon at all sizes: series on the device, special functions in Python."""
    node()
    sizes = [(0.001, 1), (0.3, 1), (1.0, 1000), (2.0, 3), (8.0, 1), (24.0, 1)]
    policies = [
        document(PublicPolicy.start(dim, epsilon, contributions=k))
        for dim in (1, 2, 3, 5, 8, 13, 31, 64, 128)
        for epsilon, k in sizes
    ]
    # The same for crowds: what a batch of a size hides, at a delta.
    shuffled = [
        document(LocalServer(dim, epsilon, delta=delta, crowd=crowd).policy)
        for dim, epsilon, delta in [(1, 0.3, 1e-4), (2, 1.0, 1e-6), (3, 3.0, 1e-9), (8, 1.0, 1e-6)]
        for crowd in (Shuffled(), Shuffled(1.0, 1.0), Shuffled(local_epsilon=2.0))
    ]
    path = tmp_path / "policies.json"
    path.write_text(json.dumps({"local": policies, "shuffled": shuffled}))
    run_node(HERE / "sizes.node.js", POLICIES=str(path))


def test_client__in_chromium(running):
    """The same vectors bit by bit; IndexedDB and Web Locks in two tabs; what the network sees."""
    run_node(HERE / "device.browser.js", URL=running.url, KEY=ADMIN)


def test_try__sends_a_private_report_and_nothing_else(tmp_path):
    """In a real Chromium, which tells every request that the page makes."""
    server = Running(tmp_path, demo=True)
    try:
        server.client().create(LOCAL_BANDIT, LOCAL_DEFINITION)
        run_node(HERE / "try.browser.js", URL=server.url)
    finally:
        server.stop()


def test_try__is_for_demos_only(running):
    assert running.request("GET", "/try/private")[0] == 404
