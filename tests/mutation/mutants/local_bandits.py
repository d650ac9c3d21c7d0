"""Planted bugs in the contextual bandit under local trust."""

from typing import Any

import numpy as np

from discreet.bandits import LinearBandit, local_protocol
from discreet.bandits.local_server import LocalServer
from discreet.privacy import SeededNoise
from mutants.kit import Edit, Mutant, both, proved

DIM = 2
E1 = np.eye(DIM)[:1]  # on the boundary


def question_asked() -> float:
    """Which question a device answers is in the clear; the person's reward is 0 or 1."""
    policy, noise = local_protocol.PublicPolicy.start(DIM, 1.0), SeededNoise(1)

    def run(world: int, seed: int) -> float:
        coin = np.random.default_rng(seed).random(1)
        reports = local_protocol.report_many(E1, np.array([float(world)]), policy, coin, noise)
        return float(next(r for r in reports if len(r.values)).question == "gram")

    return proved(*both(run, 1000))


def reports_of_one_reward() -> float:
    """A state from before the reward is loaded eight times: how many reports the server hears.

    Noise comes from the operating system, as in life, so that each is a look of its own.
    """
    kept, heard = LocalServer.take_many, set[float]()

    def listen(self: Any, reports: Any) -> None:
        many = list(reports)
        heard.update(float(np.ravel(r.values)[0]) for r in many if r.values.size)
        kept(self, many)

    LocalServer.take_many = listen
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
        LocalServer.take_many = kept
    return float(len(heard))  # epsilon = 1 each


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
                "bandits.local_protocol:report_many",
                'coins, side="right"',
                'np.abs(rewards), side="right"',
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
                "bandits.learner:Bandit._assert_not_older",
                "or not self._rewarded <= resumed._rewarded",
                "",
            ),
        ),
    ),
]
