"""The contextual bandit under local trust: devices and server of the protocol in one process.

Rewarded rows are answered through a channel at once, and only the report enters the state. To run
the two sides apart, use `Device` and `LocalServer` themselves (examples/local_devices.py).
"""

import json
import math
from dataclasses import replace
from typing import Any

import numpy as np

from discreet.bandits.belief import Point
from discreet.bandits.decisions import Policy
from discreet.bandits.estimators import Estimator, section
from discreet.bandits.local_protocol import Device, PublicPolicy
from discreet.bandits.local_server import LocalServer
from discreet.local import Report, local_guarantee, report_many
from discreet.local.server import UNPROTECTED as REPORTS
from discreet.privacy import Guarantee, Noise, SeededNoise
from discreet.privacy.checks import Array

__all__ = ["Device", "LocalReports", "LocalServer", "PublicPolicy", "Report", "bandit_guarantee"]

UNPROTECTED = (
    "the action served, to whoever serves it",
    REPORTS[0],
    "decision records: they stay on the device",
    *REPORTS[1:],
)
REFERENCE = "Chen, Li, Rakhlin, Simchi-Levi (2025), local bandits, with residual reports"


def bandit_guarantee(
    policy: PublicPolicy, noise: Noise | None = None, *, sent: bool = True
) -> Guarantee:
    """What each person is promised who answers the questions of a policy."""
    return local_guarantee(policy, noise, sent=sent, unprotected=UNPROTECTED, reference=REFERENCE)


class LocalReports(Estimator):
    """Devices and server in one process: rows are answered at once, and only reports are kept."""

    def __init__(self, server: LocalServer, noise: Noise, *, seed: int | None) -> None:
        self.server, self._noise = server, noise
        self._question_rng = np.random.default_rng(
            None if seed is None else own_seed(seed, "questions")
        )
        self._opened = 0  # windows
        self.belief = self._read()

    def _read(self) -> Point:
        """The server's estimate."""
        policy = self.server.policy
        error = float(np.linalg.norm(policy.root)) / math.sqrt(policy.dim)
        return Point(policy.theta, error, policy.window)

    @property
    def law(self) -> Policy:
        """What the server publishes: devices decide by it."""
        return self.server.policy.rule

    @property
    def guarantee(self) -> Guarantee:
        """What each person is promised, whatever happens to the reports."""
        promise = bandit_guarantee(self.server.policy, self._noise, sent=self.server.taken > 0)
        here = "anything, against whoever runs this process: devices and server are one here"
        return replace(promise, unprotected=(*promise.unprotected, here))

    def size(self, rounds: int) -> int:
        """As many people as the server wants."""
        return self.server.size(self._opened)

    def open(self, size: int) -> None:
        """The server's policy says what is asked."""
        self._opened += 1

    def add(self, rows: Array, rewards: Array) -> None:
        """Each person answers one question, through a channel."""
        coins = self._question_rng.random(len(rows))
        self.server.take_many(report_many(rows, rewards, self.server.policy, coins, self._noise))

    def close(self) -> None:
        """The server learns from its sums and publishes the next policy."""
        self.server.close()
        self.belief = self._read()

    def state(self) -> dict[str, Any]:
        """The server's state, and where the public coins are."""
        return {
            **{f"server.{name}": value for name, value in self.server.state_dict().items()},
            "noise": self._noise.state(),
            "questions": json.dumps(self._question_rng.bit_generator.state),
            "opened": self._opened,
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Resume from `state()`."""
        self.server.load_state_dict(section(state, "server"))
        self.belief = self._read()
        if isinstance(self._noise, SeededNoise):
            self._noise = SeededNoise.restored(state["noise"])
        self._question_rng.bit_generator.state = json.loads(state["questions"])
        self._opened = int(state["opened"])


def own_seed(seed: int, stream: str) -> int:
    """Another seed for each stream, that no other learner's seed gives."""
    tagged = np.random.SeedSequence([seed, *stream.encode()])
    return int(tagged.generate_state(1, np.uint64)[0])
