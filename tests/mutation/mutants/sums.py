"""Planted bugs in running sums: trees, filtered noise, their noise and their states."""

from typing import Any

import numpy as np

from discreet.privacy import Budget, PrefixSum, SeededNoise, Tree
from discreet.privacy.tree import TreeSum
from mutants.kit import (
    DELTA,
    EPSILON,
    Edit,
    Mutant,
    best_linear_attack,
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


def noise_in_tree() -> Any:
    """Row t: which noise enters sum t, and how, from the running code; unit noise per draw."""
    fresh = iter(np.eye(4 * T))

    def draw(level: int, count: int) -> Any:
        return np.array([next(fresh) for _ in range(count)]).reshape(count, 4 * T)

    tree = BINARY.fitted(T, pure=False)
    sums = TreeSum(tree, T, 4 * T, draw)
    return np.array([sums.add(np.zeros(4 * T)) for _ in range(T)])


def noise_in_filter() -> Any:
    design = made("blt", SeededNoise(0))._calibration.design
    assert not isinstance(design, Tree)
    steps = design.filter(T)
    return np.array([steps.step(row) for row in np.eye(T)])


def attacked(B: Any, moves: Any, sides: list[Any]) -> float:
    """The best linear attack on all sums; the attacker knows the code, bugs included."""
    weights = best_linear_attack(B, np.cumsum(moves))
    return gaussian_proved(*(weights @ side for side in sides))


def canary(*rounds: int) -> Any:
    return np.eye(T)[list(rounds)].sum(axis=0)


def tree_first_round() -> float:
    return attacked(noise_in_tree(), canary(2), released(BINARY, canary(2)))


def tree_neighbouring_sums() -> float:
    """The second sum less the first: level 1's noise less level 0's, and one person's row."""
    first, second = (side[1] - side[0] for side in released(BINARY, canary(1)))
    return gaussian_proved(first, second)


def tree_one_person_three_rounds() -> float:
    person = canary(0, 1, 2)
    return attacked(noise_in_tree(), person, released(BINARY, person, k=3))


def filter_one_person_three_rounds() -> float:
    person = canary(0, 1, 2)
    return attacked(noise_in_filter(), person, released("blt", person, k=3))


def filter_first_round() -> float:
    return attacked(noise_in_filter(), canary(0), released("blt", canary(0)))


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
    Mutant(
        "one draw reused per level",
        "PrefixSum, tree",
        "All nodes of a level but the first carry the same noise, which differences take away.",
        "audit",
        EPSILON,
        tree_first_round,
        (
            Edit(
                "privacy.tree:TreeSum._next",
                "self.draw(level, 1)[0]",
                'self.__dict__.setdefault(f"kept{level}", self.draw(level, 1)[0])',
            ),
        ),
        attack="prefix sum tree, middle round",
    ),
    Mutant(
        "reused noise",
        "PrefixSum, tree",
        "Every level draws from the same stream: two sums share their noise.",
        "audit",
        EPSILON,
        tree_neighbouring_sums,
        (
            Edit(
                "privacy.noise:SeededNoise.spawn",
                "child._begin(seeds)",
                "child._begin(self._seeds)",
            ),
        ),
        attack="prefix sum tree, middle round",
    ),
    Mutant(
        "contributions ignored by a tree",
        "PrefixSum, tree",
        "The sensitivity to three rounds of one person is that of one.",
        "audit",
        EPSILON,
        tree_one_person_three_rounds,
        (Edit("privacy.tree:Tree.sensitivity", "k = contributions", "k = 1"),),
        attack="prefix sum tree, three rounds of one user",
    ),
    Mutant(
        "contributions ignored by filtered noise",
        "PrefixSum, blt",
        "Only the first column of C counts, however many rounds a person has.",
        "audit",
        EPSILON,
        filter_one_person_three_rounds,
        (
            Edit(
                "privacy.toeplitz:Buffered.sensitivity",
                "_over_streams(self._sensitivity, contributions, self.horizon)",
                "_over_streams(self._sensitivity, 1, self.horizon)",
            ),
        ),
        attack="prefix sum blt, three rounds of one user",
    ),
    Mutant(
        "fresh noise at every read",
        "PrefixSum, blt",
        "Every sum gets noise of its own, enough for one sum only; their mean has little.",
        "audit",
        EPSILON,
        filter_first_round,
        (
            Edit(
                "privacy.toeplitz:Buffers.step",
                "np.asarray(self._weights @ after)",
                "np.asarray(self._weights.sum() * z)",
            ),
        ),
        attack="prefix sum blt, first round",
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
