"""Attacks by theft: ONE stolen state, by itself, of those that claim to withstand it.

Trees and window accumulators hold their noise from the start. A second state, or a later release
beside the first, would give exact differences: that is not claimed. Nor do "blt" and "toeplitz"
claim anything here; their buffers give the noise away.
"""

from typing import Any

import numpy as np

from discreet.arrays import Array
from discreet.audit.attack import Claim, attack
from discreet.audit.attacks.bandits import E1, NOBODY, canary_term, joint_bandit
from discreet.audit.attacks.sums import best_weights
from discreet.privacy import Budget, PrefixSum, SeededNoise, Tree
from discreet.privacy.tree import TreeSum

T = 24


def stolen(
    claim: Claim, runs: int, neighbour: int, noise: SeededNoise, mechanism: str | Tree
) -> Array:  # (runs, numbers)
    """All numbers of a running sum's state, right after the canary's round; each run a row.

    Not the generator's position: only simulations save it, and say so.
    """
    budget = Budget(claim.epsilon, claim.delta)
    sums = PrefixSum(T, runs, budget, sensitivity=1.0, bound=runs, mechanism=mechanism, noise=noise)
    sums.add(np.full(runs, neighbour - 0.5))
    return np.concatenate(_arrays(sums.state_dict()["state"], runs)).T


def _arrays(part: Any, width: int) -> list[Array]:
    """All arrays of a state whose rows are this wide, in order."""
    if isinstance(part, np.ndarray):
        return [np.atleast_2d(part)] if part.size and part.shape[-1] == width else []
    parts = part.values() if isinstance(part, dict) else part if isinstance(part, list) else ()
    return [each for inner in parts for each in _arrays(inner, width)]


# A round is in one node of each level, and right after it all of them are in the state: 1.
@attack("snapshot of a tree", room="sums", kind="gaussian")
def snapshot_tree(claim: Claim, runs: int, neighbour: int, noise: SeededNoise) -> Array:
    """One stolen state of a tree of running sums: the best mixture of its numbers, or any."""
    numbers = stolen(claim, runs, neighbour, noise, Tree(2))
    tree = Tree(2).fitted(T, pure=False)
    # The same code with unit noise, one column for each draw, and the canary in the last column.
    columns = 2 * tree.depth + 1
    fresh = iter(np.eye(columns))
    sums = TreeSum(tree, T, columns, lambda level, count: np.array([next(fresh)] * count))
    sums.add(np.eye(columns)[-1])
    parts = [sums.estimate[None], *sums.node_sums().values()]  # as a state has them
    rows = np.concatenate([part for part in parts if len(part)])
    weights = best_weights(rows[:, :-1], rows[:, -1])
    return np.column_stack([numbers @ weights, numbers])


@attack("snapshot of a window", room="bandits", kind="gaussian", attainable=0.97)
def snapshot_window(claim: Claim, runs: int, neighbour: int, noise: SeededNoise) -> Array:
    """One stolen state of LinearBandit in the middle of a window: its sum, along the canary."""
    scores = []
    for _ in range(runs):
        learner: Any = joint_bandit(claim, noise)
        learner.learn(learner.decide(E1), 2.0 * neighbour - 1.0)
        learner.decide(NOBODY)
        view = learner._window.transform
        held = learner._window.total._value
        scores.append(held @ (canary_term(view, 1.0) - canary_term(view, -1.0)))
    return np.array(scores)
