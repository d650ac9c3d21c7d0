"""A template for a decision set of your own: a budget split among channels, at most so much each.

    python examples/own_domain.py [rounds]

`linear_minimizer` (the best decision for linear losses) is all that follow-the-perturbed-leader and
Frank-Wolfe need; a domain that can `project` works in more learners (docs/online.md).
"""

import sys

import numpy as np

from discreet.domains import Domain
from discreet.online import FTPL
from discreet.privacy import SeededNoise


class CappedSimplex(Domain):
    """{x : sum x = 1, 0 <= x <= cap}: nobody gets more than the cap."""

    loss_set = "box"  # losses lie in [0, 1]^n

    def __init__(self, n, cap):
        if not 1 / n <= cap <= 1:
            raise ValueError(f"cap must lie in [1/{n}, 1]: {n} channels share one budget")
        self.dim = n
        self.cap = cap

    def linear_minimizer(self, g):  # (..., n) -> (..., n)
        """Fill the cheapest channels first."""
        order = np.argsort(g, axis=-1)
        full = int(1 / self.cap)
        shares = np.zeros(self.dim)
        shares[:full] = self.cap
        shares[full : full + 1] = 1 - full * self.cap
        x = np.empty(np.shape(g))
        np.put_along_axis(x, order, np.broadcast_to(shares, np.shape(g)), axis=-1)
        return x


if __name__ == "__main__":
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 20_000
    rng = np.random.default_rng(0)
    means = np.linspace(0.3, 0.7, 6)
    losses = (rng.random((rounds, 6)) < means).astype(float)
    domain = CappedSimplex(6, cap=0.4)
    print(f"{'':26}{'mean loss':>10}")
    for epsilon in (0.3, 3.0):
        learner = FTPL(domain, rounds, epsilon, 1e-6, seed=0, noise=SeededNoise(0))
        mean = np.einsum("ij,ij->i", learner.run(losses), losses).mean()
        print(f"{f'private, epsilon = {epsilon:g}':26}{mean:10.3f}")
    best = losses @ domain.linear_minimizer(losses.sum(axis=0))
    print(f"{'the best fixed split':26}{best.mean():10.3f}")
    print(f"{'spread evenly':26}{losses.mean():10.3f}")
