"""kill -9 at random moments under load: each acknowledged reward is in the sum exactly once."""

import os
import random
import signal
import subprocess
import sys
import threading
import time

import pytest

from discreet.service.client import Client, ServiceError
from tests.service.conftest import ADMIN, free_port

ROWS = [[0.5, 0.0], [0.0, 0.5]]
KILLS = 20


class Process:
    """A server in a process of its own, which can be killed."""

    def __init__(self, store: str, secrets, port: int) -> None:
        environment = os.environ | {
            "DISCREET_STORE": store,
            "DISCREET_SECRETS": str(secrets),
            "DISCREET_PORT": str(port),
            "DISCREET_ADMIN_KEY": ADMIN,
        }
        self.process = subprocess.Popen(
            [sys.executable, "-m", "discreet.service"],
            env=environment,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.port = port
        assert self.process.stderr is not None
        for line in self.process.stderr:
            if "serves" in line:
                break
        else:
            raise AssertionError(f"the server ended with {self.process.wait()}")

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        self.process.stderr.close()

    def stop(self) -> int:
        self.process.send_signal(signal.SIGINT)
        status = self.process.wait(timeout=30)
        self.process.stderr.close()
        return status


def once(port: int) -> Client:
    return Client(f"http://127.0.0.1:{port}", ADMIN, timeout=5)


class Load:
    """Decides and rewards as fast as it can; remembers what was acknowledged and what was not."""

    def __init__(self, port: int, seed: int) -> None:
        self.port = port
        self.rng = random.Random(seed)
        self.counted: dict[str, float] = {}
        self.open: dict[str, float] = {}  # sent, not acknowledged
        self.stopping = False
        self.thread = threading.Thread(target=self._run)
        self.thread.start()

    def _run(self) -> None:
        client = once(self.port)
        while not self.stopping:
            try:
                made = client.decide("b", features=ROWS)
                reward = self.rng.choice([-1.0, -0.5, 0.25, 1.0])
                self.open[made.decision] = reward
                self._settle(client, made.decision, reward)
                for token, value in list(self.open.items()):  # retries of lost answers
                    self._settle(client, token, value)
            except (OSError, ServiceError, Exception):
                time.sleep(0.02)
        client.close()

    def _settle(self, client: Client, token: str, reward: float) -> None:
        status = client.learn("b", token, reward)
        assert status in ("counted", "duplicate"), status
        self.counted[token] = reward
        self.open.pop(token, None)

    def stop(self) -> None:
        self.stopping = True
        self.thread.join()


@pytest.mark.parametrize("epsilon", [None, 1.0])
def test_killed_at_random_moments_it_counts_each_acknowledged_reward_once(tmp_path, epsilon):
    port = free_port()
    store, secrets = f"sqlite:///{tmp_path}/store.db", tmp_path / "secrets"
    server = Process(store, secrets, port)
    client = once(port)
    definition = {"dim": 2, "reward": {"range": [-1, 1]}, "privacy": {"epsilon": epsilon}}
    client.create("b", definition)
    loads = [Load(port, seed) for seed in range(4)]
    rng = random.Random(5)
    kills = KILLS if epsilon is None else 4
    shown: list = []
    for _ in range(kills):
        time.sleep(rng.uniform(0.05, 0.5))
        shown.append(client.call("GET", "/v1/bandits/b/releases")["releases"])
        server.kill()
        server = Process(store, secrets, port)
        client.close()
    time.sleep(0.3)
    for load in loads:
        load.stop()
    # Every reward whose answer was lost is asked about once more: then all are acknowledged.
    counted: dict[str, float] = {}
    for load in loads:
        for token, reward in load.open.items():
            assert client.learn("b", token, reward) in ("counted", "duplicate")
            load.counted[token] = reward
        counted |= load.counted
    now = client.releases("b")
    while len(client.releases("b")) == len(now):  # close the open window
        client.decide("b", features=ROWS)
    releases = client.releases("b")
    for earlier in shown:  # no release differs from what was shown
        assert releases[: len(earlier)] == earlier
    if epsilon is None:
        assert sum(each["count"] for each in releases) == pytest.approx(len(counted), abs=1e-6)
        total = sum(each["sum"] for each in releases)
        assert total == pytest.approx(sum(counted.values()), abs=1e-6)
    assert len(counted) > 20
    client.close()
    assert server.stop() == 0
