"""`discreet serve --demo`: a store that is thrown away, two bandits, and simulated people who play.

The people come through the API like everybody else. They are made up here, so the demo may print
what they bring; the service itself never shows a mean of rewards. The second bandit is under local
trust: its people are devices, and so is the browser of whoever opens /try/private.
"""

import secrets
import sys
import tempfile
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from discreet.bandits import PublicPolicy
from discreet.environments import People
from discreet.features import FeatureMap
from discreet.local import report_many
from discreet.local.record import scaled_outcomes, scaled_rows
from discreet.privacy.noise import SystemNoise
from discreet.service import keys
from discreet.service.client import Client, ServiceError
from discreet.service.schema import Column
from discreet.service.serving import check_port, serve
from discreet.service.settings import Settings

BANDIT = "welcome"
DEFINITION: dict[str, Any] = {
    "context": {"age": {"number": [18, 90]}, "plan": {"category": ["basic", "gold"]}},
    "actions": ["email", "call", "nothing"],
    "reward": {"range": [0, 1], "wait": "7d"},
    "privacy": {"epsilon": 1.0, "delta": 1e-6, "population": "customers"},
}
LOCAL_BANDIT = "private"
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
    """People who come, are decided for, and answer: on a thread of their own.

    url, key  of the server
    out       where they tell how they fare
    seed      who comes
    """

    def __init__(self, url: str, key: str, out: TextIO, seed: int = 0) -> None:
        self._client = Client(url, key)
        self._out = out
        self._rng = np.random.default_rng(seed)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="players", daemon=True)
        self.seen = 0

    def start(self) -> None:
        """Come."""
        self._thread.start()

    def stop(self) -> None:
        """Stop coming."""
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
                    self._client.create(LOCAL_BANDIT, LOCAL_DEFINITION)
                    ready = True
                self._report()
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

    def _report(self) -> None:
        """As many people again, on devices of their own."""
        path = f"/v1/bandits/{LOCAL_BANDIT}"
        document = self._client.call("GET", f"{path}/policy")
        if not document["learning"]:
            return
        policy = PublicPolicy.from_dict(document)
        contexts, people = visitors(AT_ONCE, self._rng)
        columns = {name: Column(**each) for name, each in LOCAL_DEFINITION["context"].items()}
        features = {name: column.feature(name) for name, column in columns.items()}
        rows = FeatureMap(features, LOCAL_DEFINITION["actions"]).many(contexts)
        actions = policy.rule.choose(rows, self._rng.random(AT_ONCE))
        chosen = scaled_rows(rows[np.arange(AT_ONCE), actions], policy.dim, policy.norm_bound)
        rewards = scaled_outcomes(people.rewards(actions, self._rng), policy.outcome_range)
        coins = self._rng.random(AT_ONCE)
        sent = [
            {
                "id": secrets.token_hex(16),
                "policy": f"{document['epoch']}-{document['version']}",
                "question": report.question,
                "values": np.atleast_1d(codes).tolist(),
            }
            for report in report_many(chosen, rewards, policy, coins, SystemNoise())
            for codes in policy.channels[report.question].encode(report.values)
        ]
        self._client.call("POST", f"{path}/reports", {"reports": sent})


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
    check_port(settings)
    secret = settings.admin_key or keys.new_secret(keys.ADMIN_ID)
    with tempfile.TemporaryDirectory(prefix="discreet-demo-") as folder:
        here = replace(
            settings,
            store=f"sqlite:///{folder}/demo.db",
            secrets=Path(folder) / "secrets",
            admin_key=secret,
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
    return f"""\
A demo: bandits {BANDIT!r} and {LOCAL_BANDIT!r} on a store that is thrown away at the end, played by
simulated people.
Try in another terminal:

  KEY={secret}
  curl -H "Authorization: Bearer $KEY" {url}/v1/bandits/{BANDIT}/decide -d '{context}'
  curl -H "Authorization: Bearer $KEY" {url}/v1/bandits/{BANDIT}/learn -d '{reward}'
  curl -H "Authorization: Bearer $KEY" {url}/v1/bandits/{BANDIT}/releases
  curl -H "Authorization: Bearer $KEY" {url}/v1/bandits/{BANDIT}/guarantee

Your browser as a device that reports in private: {url}/try/{LOCAL_BANDIT}
All calls: {url}/docs      Stop: Ctrl-C
"""
