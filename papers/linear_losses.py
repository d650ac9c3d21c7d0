"""Linear losses of unit length, and an adversary that answers each decision."""

import numpy as np
from numpy.typing import ArrayLike

from discreet.arrays import Array, integer, one_of


def linear_losses(
    norm: str, rounds: int, n: int, *, drift: float = 0.5, seed: int
) -> Array:  # (rounds, n)
    """Losses of unit length in l1 or l2: random directions, pulled by `drift` to one of them.

    >>> linear_losses("l1", 100, 3, seed=0).shape
    (100, 3)
    """
    order = {"l1": 1.0, "l2": 2.0}[one_of("norm", norm, ("l1", "l2"))]
    T = integer("rounds", rounds)
    n = integer("n", n)
    rng = np.random.default_rng([integer("seed", seed, least=0), 0x6C696E65])
    towards = rng.standard_normal(n)
    rows = rng.standard_normal((T, n)) + drift * towards / np.linalg.norm(towards)
    return np.asarray(rows / np.linalg.norm(rows, ord=order, axis=1, keepdims=True))


class LeaderPunisher:
    """Gives loss 1 to the expert on which the decision puts most weight, 0 to the others.

    n   experts

    >>> LeaderPunisher(3).loss([0.2, 0.7, 0.1])
    array([0., 1., 0.])
    """

    def __init__(self, n: int) -> None:
        self.n = integer("n", n, least=2)

    def loss(self, decision: ArrayLike) -> Array:  # (n,) -> (n,)
        """The answer to a decision."""
        weights = np.asarray(decision, dtype=np.float64)
        if weights.shape != (self.n,):
            raise ValueError(f"a decision must have shape ({self.n},), got {weights.shape}")
        answer = np.zeros(self.n)
        answer[np.argmax(weights)] = 1.0
        return answer
