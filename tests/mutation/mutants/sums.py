"""Planted bugs in running sums: trees, filtered noise, their noise and their states."""

from typing import Any

import numpy as np

from discreet.privacy import Budget, PrefixSum, SeededNoise, Tree
from mutants.kit import (
    DELTA,
    EPSILON,
    Edit,
    Mutant,
    audited,
    gaussian_proved,
    lines_run,
)

T, RUNS = 16, 3000
BINARY = Tree(2, balanced=False)


def released(mechanism: Any, moves: Any, *, k: int = 1, restart: bool = False) -> list[Any]:
    """All T sums of RUNS streams at once, one in each coordinate; rows of +-moves/2."""
    sides = []
    for seed, sign in ((1, -0.5), (2, 0.5)):
        sums = made(mechanism, SeededNoise(seed), k)
        out = []
        for move in moves:
            out.append(sums.add(np.full(RUNS, sign * move)))
            if restart:  # a service that saves and starts again after every round
                state, sums = sums.state_dict(), made(mechanism, SeededNoise(0), k)
                sums.load_state_dict(state)
        sides.append(np.array(out))
    return sides


def made(mechanism: Any, noise: SeededNoise, k: int = 1) -> PrefixSum:
    budget = Budget(EPSILON, DELTA, k)
    return PrefixSum(T, RUNS, budget, sensitivity=1.0, bound=RUNS, mechanism=mechanism, noise=noise)


def canary(*rounds: int) -> Any:
    return np.eye(T)[list(rounds)].sum(axis=0)


def filter_with_restarts() -> float:
    """The mean over all sums: the best there is against noise that is fresh after each restart."""
    sides = released("blt", canary(0), restart=True)
    return gaussian_proved(*(side.mean(axis=0) for side in sides))


def rounds_counted() -> float:
    """How much the public number of rounds depends on a row, and the lines that ran."""
    found = []
    for row in (np.zeros(2), np.array([0.4, 0.0])):
        sums = PrefixSum(4, 2, Budget(1.0, DELTA), sensitivity=1.0, noise=SeededNoise(0))

        def learn(sums: PrefixSum = sums, row: Any = row) -> None:
            sums.add(row)

        found.append((lines_run(learn), sums.rounds))
    (first, rounds), (second, other) = found
    return float(len(first ^ second) + abs(rounds - other))


MUTANTS = [
    audited(
        "one draw reused per level",
        "PrefixSum, tree",
        "All nodes of a level but the first carry the same noise, which differences take away.",
        "prefix sum tree, middle round",
        (
            Edit(
                "privacy.tree:TreeSum._next",
                "self.draw(level, 1)[0]",
                'self.__dict__.setdefault(f"kept{level}", self.draw(level, 1)[0])',
            ),
        ),
    ),
    audited(
        "reused noise",
        "PrefixSum, tree",
        "Every level draws from the same stream: two sums share their noise.",
        "prefix sum tree, middle round",
        (
            Edit(
                "privacy.noise:SeededNoise.spawn",
                "child._begin(seeds)",
                "child._begin(self._seeds)",
            ),
        ),
    ),
    audited(
        "contributions ignored by a tree",
        "PrefixSum, tree",
        "The sensitivity to three rounds of one person is that of one.",
        "prefix sum tree, three rounds of one user",
        (
            Edit(
                "privacy.tree:Tree.sensitivity",
                "return math.sqrt(contributions * float(np.max(squares / k)))",
                "return math.sqrt(squares[0])",
            ),
        ),
    ),
    audited(
        "contributions ignored by filtered noise",
        "PrefixSum, blt",
        "Only the first column of C counts, however many rounds a person has.",
        "prefix sum blt, three rounds of one user",
        (
            Edit(
                "privacy.toeplitz:Buffered.sensitivity",
                "_over_streams(self._sensitivity, contributions, self.horizon)",
                "_over_streams(self._sensitivity, 1, self.horizon)",
            ),
        ),
    ),
    audited(
        "fresh noise at every read",
        "PrefixSum, blt",
        "Every sum gets noise of its own, enough for one sum only; their mean has little.",
        "prefix sum blt, first round",
        (
            Edit(
                "privacy.toeplitz:Buffers.step",
                "np.asarray(self._weights @ after)",
                "np.asarray(self._weights.sum() * z)",
            ),
        ),
    ),
    Mutant(
        "redrawn noise on restore",
        "PrefixSum, blt",
        "A restored sum forgets its buffers and draws noise anew for rounds already published.",
        "audit",
        EPSILON,
        filter_with_restarts,
        (
            Edit(
                "privacy.toeplitz:FilteredSum._validate",
                "if not fits:",
                "self._memory = fresh\n    if not fits:",
            ),
        ),
    ),
    Mutant(
        "data-dependent count",
        "PrefixSum",
        "A row of zeros is passed over, so that the number of rounds tells of it.",
        "trace",
        0.0,
        rounds_counted,
        (
            Edit(
                "privacy.prefix:PrefixSum.add",
                "self._room(1)",
                "self._room(1)\n        if not np.any(x):\n            return self.estimate",
            ),
        ),
        unit="lines and rounds that differ",
    ),
]
