"""`discreet serve --demo`: a store that is thrown away, a bandit, and simulated people who play it.

The people come through the API like everybody else. They are made up here, so the demo may print
what they bring; the service itself never shows a mean of rewards.
"""

import json
import sys
import tempfile
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from discreet.environments.people import People
from discreet.service import keys
from discreet.service.client import Client, ServiceError
from discreet.service.serving import check_port, serve
from discreet.service.settings import Settings

BANDIT = "welcome"
DEFINITION: dict[str, Any] = {
    "context": {"age": {"number": [18, 90]}, "plan": {"category": ["basic", "gold"]}},
    "actions": ["email", "call", "nothing"],
    "reward": {"range": [0, 1], "wait": "7d"},
    "privacy": {"epsilon": 1.0, "delta": 1e-6, "population": "customers"},
    "baseline": "nothing",
    "holdout": 0.05,
}
LOCAL_BANDIT = "private"  # that a visitor may create, to try a browser as a device
LOCAL_DEFINITION: dict[str, Any] = {
    "context": DEFINITION["context"],
    "actions": DEFINITION["actions"],
    "reward": {"range": [0, 1]},
    "privacy": {"epsilon": 2.0, "trust": "local"},
}
AT_ONCE = 20  # people who come together
PAUSE = 0.1  # seconds between them
TOLD_EVERY = 4000  # people


class Players:
    """People who come, are decided for, and answer: on a thread of their own."""

    def __init__(self, url: str, key: str, out: TextIO, seed: int = 0) -> None:
        self._client = Client(url, key)
        self._out = out
        self._rng = np.random.default_rng(seed)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="players", daemon=True)
        self.seen = 0

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._ended.set()
        self._thread.join()
        self._client.close()

    def _run(self) -> None:
        ready = False
        gained = possible = 0.0
        while not self._ended.wait(PAUSE):
            try:
                if not ready:
                    self._client.create(BANDIT, DEFINITION)
                    ready = True
                contexts, people = visitors(AT_ONCE, self._rng)
                decisions = self._client.decide_many(BANDIT, contexts)
                actions = [DEFINITION["actions"].index(each.action) for each in decisions]
                rewards = people.rewards(actions, self._rng)
                pairs = zip(decisions, rewards.tolist(), strict=True)
                self._client.learn_many(BANDIT, pairs)
            except (OSError, ServiceError):  # the server is not there yet, or not any more
                continue
            self.seen += AT_ONCE
            blind = people.means.mean(axis=1)
            gained += float((people.best - people.regret(actions) - blind).sum())
            possible += float((people.best - blind).sum())
            if self.seen % TOLD_EVERY == 0:
                print(
                    f"{self.seen:,} people came; the last {TOLD_EVERY:,} gained "
                    f"{gained / possible:.0%} of what the best choice has over a blind one",
                    file=self._out,
                    flush=True,
                )
                gained = possible = 0.0


def visitors(n: int, rng: np.random.Generator) -> tuple[list[dict[str, Any]], People]:
    """What the server is told of n people, and what each action is worth to them.

    The young like emails, the old like calls, and owners of gold want to be left alone.
    """
    age = rng.integers(18, 91, n)
    gold = rng.random(n) < 0.4
    old = (age - 18) / 72
    means = np.column_stack([0.8 - 0.7 * old, 0.1 + 0.7 * old, np.where(gold, 0.9, 0.2)])
    contexts = [
        {"age": int(years), "plan": "gold" if owns else "basic"}
        for years, owns in zip(age, gold, strict=True)
    ]
    return contexts, People(np.zeros((n, 3, 1)), means, "zero-one", reward_range=(0.0, 1.0))


def serve_demo(settings: Settings, out: TextIO = sys.stderr) -> None:
    """Serve a temporary store, played by simulated people, until interrupted."""
    check_port(settings.host, settings.port)
    secret = settings.admin_key or keys.new_secret(keys.ADMIN_ID)
    with tempfile.TemporaryDirectory(prefix="discreet-demo-") as folder:
        here = replace(
            settings,
            store=f"sqlite:///{folder}/demo.db",
            secrets=Path(folder) / "secrets",
            admin_key=secret,
            log="events",  # twenty requests a second would push what is printed off the screen
            demo=True,
        )
        url = f"http://{here.host}:{here.port}"
        players = Players(url, secret, out)
        print(_what_to_try(url, secret), file=out, flush=True)
        players.start()
        try:
            serve(here, out)
        finally:
            players.stop()


def _what_to_try(url: str, secret: str) -> str:
    context = """{"context": {"age": 40, "plan": "gold"}}"""
    reward = """{"decision": "dt1...", "reward": 1}"""
    local = json.dumps(LOCAL_DEFINITION)
    return f"""\
A demo: the bandit {BANDIT!r} on a store that is thrown away at the end, played by simulated people.
Try in another terminal:

  KEY={secret}
  curl -H "Authorization: Bearer $KEY" {url}/v1/bandits/{BANDIT}/decide -d '{context}'
  curl -H "Authorization: Bearer $KEY" {url}/v1/bandits/{BANDIT}/learn -d '{reward}'
  curl -H "Authorization: Bearer $KEY" {url}/v1/bandits/{BANDIT}/releases
  curl -H "Authorization: Bearer $KEY" {url}/v1/bandits/{BANDIT}/value
  curl -H "Authorization: Bearer $KEY" {url}/v1/bandits/{BANDIT}/guarantee

Local trust, with your browser as a device that reports in private, at {url}/try/{LOCAL_BANDIT}
once it is created:

  curl -H "Authorization: Bearer $KEY" -X PUT {url}/v1/bandits/{LOCAL_BANDIT} -d '{local}'

All calls: {url}/docs      Stop: Ctrl-C
"""
