"""Attacks on running sums: the attacker sees every sum and knows every round but the canary's.

The canary is +1/2 or -1/2, the full sensitivity. Coordinates carry independent noise of one scale,
so each coordinate of one wide stream is a run of its own.
"""

from functools import partial
from typing import Any

import numpy as np

from discreet.arrays import Array
from discreet.audit.rows import Claim, attack
from discreet.audit.views import best_weights, one_noise, stolen, summed, whitening
from discreet.privacy import Budget, PrefixSum, SeededNoise, Tree
from discreet.privacy.tree import TreeSum

T = 24
running = partial(attack, room="sums", kind="gaussian")


def wide(
    claim: Claim, rounds: int, runs: int, mechanism: str | Tree, noise: SeededNoise
) -> PrefixSum:
    """Running sums of as many coordinates as there are runs, each of sensitivity 1."""
    budget = Budget(claim.epsilon, claim.delta, claim.contributions)
    options: dict[str, Any] = {"sensitivity": 1.0, "bound": runs, "mechanism": mechanism}
    return PrefixSum(rounds, runs, budget, noise=noise, **options)


def _running(
    mechanism: str | Tree, name: str, canary: tuple[int, ...], when: str, attainable: float
) -> None:
    @running(
        f"prefix sum {name}, {when}", PrefixSum, attainable=attainable, contributions=len(canary),
        lost="the attack: the first round is in more sums" if attainable < 0.6 else "",
        fits=lambda sums, promise: sums.mechanism == name,
    )  # fmt: skip
    def sequence(claim: Claim, runs: int, neighbour: int, noise: SeededNoise) -> Array:
        """The whole sequence of 24 sums, or more, against one person's rounds: +1/2 or -1/2."""
        own = claim.contributions
        move = np.zeros(max(T, own))
        move[canary[0] : canary[0] + own] = 1.0
        sums = wide(claim, len(move), runs, mechanism, noise)
        out = np.array([sums.add(np.full(runs, (neighbour - 0.5) * x)) for x in move])
        return summed(out, whitening(mechanism, move), canary[0])


# How much of mu the best attack reaches, sqrt(move . weights) / reach: a round late in the stream
# is in fewer sums and nodes.
ATTAINABLE = {
    "blt": (1.0, 0.95, 0.67, 1.0),
    "toeplitz": (1.0, 0.95, 0.69, 1.0),
    "tree": (1.0, 0.63, 0.45, 0.97),
}
WHEN = {
    "first round": (0,),
    "middle round": (11,),
    "last round": (23,),
    "three rounds of one user": (0, 1, 2),
}
for _name, _shares in ATTAINABLE.items():
    for (_when, _rounds), _attainable in zip(WHEN.items(), _shares, strict=True):
        _running(Tree(2) if _name == "tree" else _name, _name, _rounds, _when, _attainable)
_running(Tree(5), "wide tree", WHEN["first round"], "first round", 0.94)


# In nine sums of this tree every node of the first round shows: sqrt(move . weights) is the reach.
@running("prefix sum adaptive", PrefixSum, fits=lambda sums, promise: sums.mechanism == "tree")
def adaptive(claim: Claim, runs: int, neighbour: int, noise: SeededNoise) -> Array:
    """Later inputs copy the sign of the last sum of a tree that runs ahead of the data."""
    rounds = 9
    tree = Tree(3)
    sums = wide(claim, rounds, runs, tree, noise)
    known = np.zeros(runs)
    out = []
    x = np.full(runs, neighbour - 0.5)
    for t in range(rounds):
        estimate = sums.add(x)
        known = known + (x if t else 0.0)  # the attacker knows the rule, hence all but the canary
        out.append(estimate - known)
        x = 0.5 * np.sign(estimate)
    return summed(np.array(out), whitening(tree, np.eye(rounds)[0]), 0)


def snapshot(
    claim: Claim, runs: int, neighbour: int, noise: SeededNoise, mechanism: str | Tree
) -> Array:  # (runs, numbers)
    """All numbers of a running sum's state, right after the canary's round; each run a row.

    ONE stolen state, by itself, of those that claim to withstand it: trees hold their noise from
    the start. A second state, or a later release beside the first, would give exact differences:
    that is not claimed. Nor do "blt" and "toeplitz" claim anything here; their buffers give the
    noise away. The generator's position is left out: only simulations save it, and say so.
    """
    sums = wide(claim, T, runs, mechanism, noise)
    sums.add(np.full(runs, neighbour - 0.5))
    return np.concatenate(stolen(sums.state_dict()["state"], runs)).T


# A round is in one node of each level, and right after it all of them are in the state: 1.
@running("snapshot of a tree")
def snapshot_tree(claim: Claim, runs: int, neighbour: int, noise: SeededNoise) -> Array:
    """One stolen state of a tree of running sums: the best mixture of its numbers, or any."""
    numbers = snapshot(claim, runs, neighbour, noise, Tree(2))
    tree = Tree(2).fitted(T, pure=False)
    # The same code with unit noise, one column for each draw, and the canary in the last column.
    columns = 2 * tree.depth + 1
    sums = TreeSum(tree, T, columns, one_noise(columns))
    sums.add(np.eye(columns)[-1])
    parts = [sums.estimate[None], *sums.node_sums().values()]  # as a state has them
    rows = np.concatenate([part for part in parts if len(part)])
    weights = best_weights(rows[:, :-1], rows[:, -1])
    return np.column_stack([numbers @ weights, numbers])
