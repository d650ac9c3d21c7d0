"""Can a server learn whom to offer what, and never see a record?

    python examples/local_devices.py

Two processes: the parent is the server, which publishes policies and takes reports. The child plays
the people: every one has a device of its own, decides by the policy it has last seen, and sends one
private report. Nothing but JSON lines crosses the border.
"""

import json
import subprocess
import sys
from typing import Any

import numpy as np

from discreet.bandits import Device, LocalServer, Promise, PublicPolicy
from discreet.environments.linear import linear_world
from discreet.local import Report

PEOPLE = 5_000
EPSILON = 4.0
DIM = 3


def people() -> None:
    """The child: one person after the other, until the server has heard enough."""
    world = linear_world("sphere", DIM, seed=3)
    rng = np.random.default_rng(0)
    policy = PublicPolicy.from_dict(_hear())
    regret = uniform = 0.0
    for person in range(PEOPLE):
        # The person's own limits; whatever asks for more is refused. noise=None: OS entropy.
        device = Device(policy, Promise(EPSILON, contributions=1), seed=person)
        one = world.people(1, rng)
        decision = device.decide(one.features[0])
        reward = float(one.rewards([decision.action], rng)[0])
        _say({"report": device.report(decision, reward).to_dict()})
        regret += float(one.regret([decision.action])[0])
        uniform += float(one.best[0] - one.means.mean())
        news = _hear()
        if news:
            policy = PublicPolicy.from_dict(news)
    _say({"regret": regret, "uniform": uniform})  # known to the simulated world, to nobody else


def serve() -> None:
    """The parent: publish, take, close; it imports no world and holds no record."""
    server = LocalServer(DIM, EPSILON, seed=1)
    command = [sys.executable, __file__, "people"]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        _say(server.ask().to_dict(), child.stdin)
        for line in child.stdout:
            message = json.loads(line)
            if "report" not in message:
                break
            server.take(Report.from_dict(message["report"]))
            news: dict[str, Any] = server.close().to_dict() if server.full else {}
            _say(news, child.stdin)
    print(f"{server.taken:,} reports, {server.ask().window} policies published")
    print(f"{'':26}regret")
    print(f"{'any action, at random':26}{message['uniform']:.0f}")
    print(f"{f'private, epsilon = {EPSILON:g}':26}{message['regret']:.0f}")
    print(server.guarantee.statement())


def _say(message: dict[str, Any], stream: Any = sys.stdout) -> None:
    print(json.dumps(message), file=stream, flush=True)


def _hear() -> dict[str, Any]:
    heard: dict[str, Any] = json.loads(sys.stdin.readline())
    return heard


if __name__ == "__main__":
    people() if sys.argv[1:] == ["people"] else serve()
