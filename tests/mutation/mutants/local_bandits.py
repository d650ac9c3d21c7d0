"""Planted bugs in the contextual bandit under local trust."""

import contextlib
from dataclasses import replace
from typing import Any

import numpy as np

from discreet.bandits import Device, LinearBandit, LocalServer, Promise, PublicPolicy
from discreet.local import report as reporting
from discreet.privacy import SeededNoise
from mutants.kit import Edit, Mutant, both, proved

DIM = 2
E1 = np.eye(DIM)[:1]  # on the boundary


def question_asked() -> float:
    """Which question a device answers is in the clear; the person's reward is 0 or 1."""
    policy, noise = PublicPolicy.start(DIM, 1.0), SeededNoise(1)

    def run(neighbour: int, seed: int) -> float:
        coin = np.random.default_rng(seed).random(1)
        reports = reporting.report_many(E1, np.array([float(neighbour)]), policy, coin, noise)
        return float(next(r for r in reports if len(r.values)).question == "gram")

    return proved(*both(run, 1000))


def reports_of_one_reward() -> float:
    """A state from before the reward is loaded eight times: how many reports the server hears.

    Noise comes from the operating system, as in life, so that each is a look of its own.
    """
    kept, heard = LocalServer.take_answers, set[float]()

    def listen(self: Any, answers: Any) -> int:
        many = list(answers)
        heard.update(float(np.ravel(each.values)[0]) for each in many if each.values.size)
        return kept(self, many)

    LocalServer.take_answers = listen
    try:
        learner = LinearBandit(DIM, 1000, 1.0, trust="local", seed=0)
        decision = learner.decide(E1)
        state = learner.state_dict()
        for _ in range(8):
            learner.learn(decision, 1.0)
            learner.load_state_dict(state)
    except ValueError:
        pass
    finally:
        LocalServer.take_answers = kept
    assert heard  # else this detector is deaf
    return float(len(heard))  # epsilon = 1 each


def reports_after_a_hostile_state() -> float:
    """How surely a server knows whether features are zero, by whether a report comes.

    A whitening of 1.7e308 overflows on the device, for every row but zero.
    """
    record = PublicPolicy.start(DIM, 1.0).to_dict()
    record["whitening"] = np.full((DIM, DIM), 1.7e308).tolist()
    row = np.full((1, DIM), 0.7)

    def run(neighbour: int, seed: int) -> float:
        try:
            device = Device(
                PublicPolicy.from_dict(record),
                Promise(epsilon=1.0),
                seed=seed,
                noise=SeededNoise(seed),
            )
            report = device.report(device.decide(row * neighbour), 1.0)
            channel = device.state.channels[report.question]
            return float(channel.possible(report.values).all())
        except ValueError:
            return -1.0

    with np.errstate(all="ignore"):
        return proved(*both(run, 300))


def epsilon_sent() -> float:
    """The most epsilon of one report after a server raised it; the person was promised 1."""
    device = Device(
        PublicPolicy.start(DIM, 1.0), Promise(epsilon=1.0), seed=0, noise=SeededNoise(0)
    )
    with contextlib.suppress(ValueError):
        device.update(PublicPolicy.start(DIM, 9.0))
    question = device.report(device.decide(E1), 1.0).question
    return float(device.state.channels[question].epsilon)


def reports_after_an_interruption() -> float:
    """How many reports leave a device of one contribution whose caller is interrupted each time."""
    left = []

    class Wire(SeededNoise):
        def uniform(self, size: Any) -> Any:
            left.append(super().uniform(size))
            raise KeyboardInterrupt  # the draw is out: whoever listens has the report

    policy = PublicPolicy.start(DIM, 1.0)
    question = replace(policy.question("moment"), fraction=1.0)
    device = Device(
        replace(policy, questions=(question,)), Promise(epsilon=1.0), seed=0, noise=Wire(0)
    )
    for _ in range(5):
        try:
            device.answer(E1[0], 1.0)
        except (KeyboardInterrupt, ValueError):
            continue
    return float(len(left))


MUTANTS = [
    Mutant(
        "question chosen by private values",
        "LinearBandit, local",
        "The reward, not a public coin, says which question a device answers.",
        "audit",
        1.0,
        question_asked,
        (
            Edit(
                "local.report:report_many",
                "state.asked(coins)",
                "state.asked(np.abs(outcomes))",
            ),
        ),
    ),
    Mutant(
        "a local state loaded twice",
        "LinearBandit, local",
        "A state from before a reward is taken back, and the reward is reported again.",
        "state",
        1.0,
        reports_of_one_reward,
        (
            Edit(
                "state.live:Stateful.load_state_dict",
                "if self._live.begun:",
                "if False:",
            ),
            Edit(
                "state.claims:resume",
                "if fingerprint(heir._encoded()) != name:",
                "if False:",
            ),
        ),
    ),
    Mutant(
        "a device believes huge numbers",
        "LinearBandit, local",
        "A whitening of 1e308 is accepted and overflows on the device, unless the features are 0.",
        "audit",
        1.0,
        reports_after_a_hostile_state,
        (
            Edit("local.state:bounded", "np.abs(array).max() > LARGEST", "False"),
            Edit(
                "local.device:Device._send",
                "values = answer(",
                "from discreet.local.questions import _answer\n    values = _answer(",
            ),
        ),
    ),
    Mutant(
        "a device follows a larger epsilon",
        "LinearBandit, local",
        "The server publishes a larger epsilon after the first state, and the device answers.",
        "trace",
        1.0,
        epsilon_sent,
        (Edit("local.device:Device.update", "self.promise.check(state)", "pass"),),
    ),
    Mutant(
        "a report counted after it is sent",
        "LinearBandit, local",
        "A device that is interrupted between sending and counting sends again.",
        "trace",
        1.0,
        reports_after_an_interruption,
        (Edit("local.device:Device._count", "self.sent += 1", "pass"),),
    ),
]
