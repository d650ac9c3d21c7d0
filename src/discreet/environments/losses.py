"""Loss sequences for online learning, less is better: n experts with losses in [0, 1].

They are fixed before the first round (an oblivious adversary), so that all rounds can be
vectorised.
"""

import numpy as np
from numpy.typing import NDArray

from discreet.arrays import Array, integer, one_of
from discreet.environments.people import generator

NAMES = ("gap", "shifting", "walk", "coins", "killer")


def expert_losses(
    name: str, rounds: int, n: int = 10, *, gap: float = 0.1, seed: int
) -> Array:  # (rounds, n)
    """A sequence by name; the seed decides its draws.

    gap       coins of mean 1/2; those of one expert, drawn at random, have mean 1/2 - gap
    shifting  the same, and the better expert is another one in each tenth of the rounds
    walk      coins whose means are random walks reflected in [0, 1], steps of std
              rounds^-1/2: the best expert keeps changing
    coins     fair coins for all: nothing to learn, any noise costs
    killer    of the first two experts the one with the smaller total loses 1 and the other
              nothing (ties: the first); the rest lose 1. Following the leader loses every round.

    >>> expert_losses("gap", 1000, 3, seed=0).mean(axis=0).min() < 0.45
    np.True_
    """
    one_of("name", name, NAMES)
    T = integer("rounds", rounds)
    n = integer("n", n, least=2)
    if not 0 <= gap <= 0.5:
        raise ValueError(f"gap must lie in [0, 1/2], got {gap!r}")
    rng = generator(seed, b"loss")
    if name == "killer":
        return _killer(T, n)
    means = np.full((1, n), 0.5)
    if name == "gap":
        means[0, rng.integers(n)] -= gap
    elif name == "shifting":
        means = np.repeat(means, T, axis=0)
        means[np.arange(T), _shifting_best(T, n, rng)] -= gap
    elif name == "walk":
        means = 0.5 + np.cumsum(rng.standard_normal((T, n)), axis=0) / np.sqrt(T)
        means = np.abs((means + 1) % 2 - 1)  # reflected at 0 and 1
    return (rng.random((T, n)) < means).astype(np.float64)


def regret(losses: Array, decisions: Array) -> float:  # (T, n), (T, n)
    """What the decisions lost beyond the best fixed expert.

    >>> regret(np.array([[0.0, 1.0], [0.0, 1.0]]), np.full((2, 2), 0.5))
    1.0
    """
    suffered = float(np.einsum("ij,ij->", losses, decisions))
    return suffered - float(losses.sum(axis=0).min())


def _killer(T: int, n: int) -> Array:
    losses = np.ones((T, n))
    losses[0::2, 1] = 0.0  # after an even number of rounds the two are level
    losses[1::2, 0] = 0.0
    return losses


def _shifting_best(T: int, n: int, rng: np.random.Generator) -> NDArray[np.intp]:
    """One expert for each tenth of the rounds, never the same twice in a row."""
    moves = np.cumsum(rng.integers(1, n, size=10)) + rng.integers(n)
    return np.asarray(moves[np.arange(T) * 10 // T] % n, dtype=np.intp)
