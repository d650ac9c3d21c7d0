"""Attacks by theft: ONE stolen state, by itself, of those that claim to withstand it.

Trees and window accumulators hold their noise from the start. A second state, or a later release
beside the first, would give exact differences: that is not claimed. Nor do "blt" and "toeplitz"
claim anything here; their buffers give the noise away.
"""

from typing import Any

import numpy as np

from discreet.audit.attack import Claim, attack
from discreet.audit.attacks_bandits import E1, NOBODY, _joint, _term
from discreet.privacy import Budget, PrefixSum, SeededNoise, Tree
from discreet.privacy.checks import Array


def stolen(
    claim: Claim, runs: int, world: int, noise: SeededNoise, mechanism: str | Tree
) -> Array:  # (runs, numbers)
    """All numbers of a running sum's state, three rounds after the canary; each run a row.

    Not the generator's position: only simulations save it, and say so.
    """
    budget = Budget(claim.epsilon, claim.delta)
    sums = PrefixSum(
        24, runs, budget, sensitivity=1.0, bound=runs, mechanism=mechanism, noise=noise
    )
    for t in range(4):
        sums.add(np.full(runs, 0.0 if t else world - 0.5))
    state = sums.state_dict()
    parts = [np.reshape(state[name], (-1, runs)) for name in state if name.startswith("sum.")]
    return np.concatenate(parts).T


@attack("snapshot of a tree", room="sums", kind="gaussian")
def snapshot_tree(claim: Claim, runs: int, world: int, noise: SeededNoise) -> Array:
    """One stolen state of a tree of running sums: any of its numbers, or the best mixture."""
    return stolen(claim, runs, world, noise, Tree(2))


@attack("snapshot of a window", room="bandits", kind="gaussian", near=0.97)
def snapshot_window(claim: Claim, runs: int, world: int, noise: SeededNoise) -> Array:
    """One stolen state of LinearBandit in the middle of a window: its sum, along the canary."""
    scores = []
    for _ in range(runs):
        learner: Any = _joint(claim, noise)
        learner.learn(learner.decide(E1), 2.0 * world - 1.0)
        learner.decide(NOBODY)
        state, view = learner._estimator.state(), learner._estimator._lens
        scores.append(state["sums.value"] @ (_term(view, 1.0) - _term(view, -1.0)))
    return np.array(scores)
