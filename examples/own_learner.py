"""A template for a learner of your own: try every action for a while, then stay with the best.

    python examples/own_learner.py [rounds]

What a bandit needs to be played: `decide(features)` gives something with an `action`, `learn` takes
it back with its reward. What it needs to be private: data meets an output in one place, a release
that a ledger has agreed to, whose sensitivity stands beside it. In an experiment its name is
"own_learner:ExploreThenCommit" (examples/own_experiment.toml); it gets what its constructor names.
"""

import math
import sys
from dataclasses import dataclass

import numpy as np

from discreet.experiments import expected_regret
from discreet.privacy import Budget, Guarantee, Ledger, SeededNoise
from discreet.privacy.mechanisms import Mechanisms
from discreet.privacy.noise import Noise


@dataclass(frozen=True)
class Decision:
    """What was chosen, and in which round."""

    round: int
    action: int


class ExploreThenCommit:
    """Plays actions in turn, releases a noisy sum of rewards for each, then plays the best.

    Requires   rewards in reward_range; what is beyond is clipped. One round of each person.
    Guarantee  (epsilon, delta), central: all later decisions are computed from one release.
    """

    def __init__(self, n_actions, horizon, epsilon, delta=1e-6, *, reward_range=(-1.0, 1.0),
                 noise: Noise | None = None):  # fmt: skip
        self.budget = Budget(epsilon, delta)
        self.reward_range = reward_range
        self.exploring = n_actions * max(1, round(horizon ** (2 / 3) / n_actions))
        self.rounds = 0
        self.best = None
        self._ledger = Ledger(self.budget)
        self._noise = noise
        self._sums = np.zeros(n_actions)
        self._waiting: set[int] = set()  # rounds whose reward may still count

    def decide(self, features):  # (actions, dim); this learner does not look at them
        """The next action: whose turn it is, or the best one."""
        if self.rounds >= self.exploring and self.best is None:
            self.best = self._release()
        action = self.rounds % len(self._sums) if self.best is None else self.best
        if self.best is None:
            self._waiting.add(self.rounds)
        self.rounds += 1
        return Decision(self.rounds - 1, action)

    def learn(self, decision, reward):
        """Take a reward, once for each round; whether it counted."""
        if not math.isfinite(reward):
            raise ValueError("a reward must be a finite number")
        if self.best is not None or decision.round not in self._waiting:
            return False
        self._waiting.remove(decision.round)
        self._sums[decision.action] += np.clip(reward, *self.reward_range)
        return True

    def _release(self) -> int:
        # Whose turn it is does not depend on data: another person in a round changes one sum, by at
        # most high - low (replace-one).
        low, high = self.reward_range
        released = Mechanisms(self._noise, self._ledger).gaussian(
            self._sums,
            sensitivity=high - low,
            mu=self.budget.mu,
            what="sums by action",
        )
        self._sums = np.zeros_like(self._sums)  # released once, and gone
        return int(np.argmax(released.value))

    @property
    def guarantee(self) -> Guarantee:
        """Computed from what was released."""
        return self._ledger.guarantee(unprotected=("the horizon", "arrival times"))


if __name__ == "__main__":
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 20_000
    print(f"{'':26}{'regret':>10}")
    for epsilon in (0.1, 1.0, float("inf")):
        found = expected_regret(
            lambda seed, e=epsilon: ExploreThenCommit(10, rounds, e, noise=SeededNoise(seed)),
            "fixed", rounds, seeds=5,
        )  # fmt: skip
        words = f"private, epsilon = {epsilon:g}" if epsilon < 100 else "not private"
        print(f"{words:26}{found.mean:10.1f} ± {found.half:.1f}")
    print(f"{'choosing blindly':26}{found.blind.mean():10.1f}")
