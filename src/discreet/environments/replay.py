"""A learner on logged decisions: it learns where it would have done what was done.

Li, Chu, Langford and Wang (2011), Algorithm 2, for loggers of any known propensities: a decision
that agrees with the log is kept with probability (smallest propensity) / (its propensity), so that
every logged person is kept equally often, whatever the learner does, and kept rewards are
distributed as in a live run. Not private: the log is read raw, and so is the mean reward.
"""

from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import NDArray

from discreet.arrays import Array
from discreet.environments.logs import Log
from discreet.environments.people import generator
from discreet.environments.playing import Learner


@dataclass(frozen=True)
class Replay:
    """Which decisions agreed with the log, in their order, and what they earned."""

    kept: NDArray[np.intp]  # (k,), places in the log
    rewards: Array  # (k,)
    decisions: int  # of the log
    floor: float  # the smallest propensity: the fraction of the log that is kept, on average

    @property
    def value(self) -> float:
        """Mean reward."""
        return float(self.rewards.mean()) if len(self.rewards) else float("nan")

    def interval(self, confidence: float = 0.95) -> tuple[float, float]:
        """For the mean reward, by the normal approximation."""
        if len(self.rewards) < 2:
            return float("nan"), float("nan")
        error = float(self.rewards.std(ddof=1)) / np.sqrt(len(self.rewards))
        half = float(scipy.special.ndtri((1 + confidence) / 2)) * error
        return self.value - half, self.value + half


def replay(learner: Learner, log: Log, *, seed: int) -> Replay:
    """Run a learner over a log, once, in the log's order; the seed decides which rows are kept.

    The learner decides for every logged person and gets a reward only where it is kept: give it
    `horizon=len(log)`. A log with tiny propensities keeps next to nothing.

    >>> class Second:
    ...     def decide(self, features):
    ...         return self
    ...     action = 1
    ...     def learn(self, decision, reward):
    ...         pass
    >>> log = Log("ours", np.ones((4, 2, 1)), np.array([0, 1, 1, 0]), np.array([1, 0, 1, 0.0]),
    ...           np.full(4, 0.5), 2)
    >>> replay(Second(), log, seed=0).kept
    array([1, 2])
    """
    draws = generator(seed, b"repl").random(len(log))
    floor = float(log.propensities.min())
    admitted = draws * log.propensities < floor
    kept = []
    for some in log.batches():
        for at, offered in enumerate(log.features[some], start=some.start):
            decision = learner.decide(offered)
            if admitted[at] and int(decision.action) == log.actions[at]:
                learner.learn(decision, float(log.rewards[at]))
                kept.append(at)
    places = np.array(kept, dtype=np.intp)
    return Replay(places, log.rewards[places], len(log), floor)
