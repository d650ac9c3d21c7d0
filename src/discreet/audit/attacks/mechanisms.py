"""Attacks on the one-shot mechanisms: one release, two values at the full sensitivity.

The score is the log-likelihood ratio of the release, or a monotone function of it. Scores of float
noise are rounded: its last bits give the input away, and that is another attack (`lattice.py`).
"""

import math

import numpy as np

from discreet.arrays import Array
from discreet.audit.attack import Claim, attack
from discreet.privacy import SeededNoise, mechanisms


@attack("gaussian", room="mechanisms", kind="gaussian")
def gaussian(claim: Claim, runs: int, neighbour: int, noise: SeededNoise) -> Array:
    """Opposite rows on the unit sphere; the attacker sees the release and projects it on them."""
    row = np.array([0.6, -0.8, 0.0])
    values = (-row, row)  # 2 apart
    out = [
        mechanisms.gaussian(values[neighbour], sensitivity=2.0, mu=claim.mu, noise=noise).value
        for _ in range(runs)
    ]
    return np.asarray(np.array(out) @ row)


@attack("gaussian symmetric", room="mechanisms", kind="gaussian")
def gaussian_symmetric(claim: Claim, runs: int, neighbour: int, noise: SeededNoise) -> Array:
    """a a^T against b b^T for orthogonal unit vectors; they differ off the diagonal only.

    There the isometry matters: a wrong factor would scale change and noise apart.
    """
    a = np.array([1.0, 1.0]) / math.sqrt(2)
    b = np.array([1.0, -1.0]) / math.sqrt(2)
    values = (np.outer(a, a), np.outer(b, b))  # sqrt(2) apart in Frobenius norm
    canary = values[1] - values[0]
    size = math.sqrt(2)
    out = [
        mechanisms.gaussian_symmetric(
            values[neighbour], sensitivity=size, mu=claim.mu, noise=noise
        ).value
        for _ in range(runs)
    ]
    return np.asarray(np.einsum("nij,ij->n", np.array(out), canary))


@attack("laplace", room="mechanisms", kind="pure")
def laplace(claim: Claim, runs: int, neighbour: int, noise: SeededNoise) -> Array:
    """A count with and without one person; the score is the released count."""
    epsilon = claim.epsilon
    out = [
        mechanisms.laplace(float(neighbour), sensitivity=1.0, epsilon=epsilon, noise=noise).value
        for _ in range(runs)
    ]
    return np.array(out, dtype=np.float64)


def _k_norm(norm: str, order: float, rows: tuple[Array, Array]) -> None:
    size = float(np.linalg.norm(rows[1] - rows[0], ord=order))

    @attack(f"k-norm {norm}", room="mechanisms", kind="pure")
    def k_norm(claim: Claim, runs: int, neighbour: int, noise: SeededNoise) -> Array:
        """Two vectors at the full distance of the norm; the score is the log-likelihood ratio."""
        out = np.array(
            [
                mechanisms.k_norm(
                    rows[neighbour], sensitivity=size, epsilon=claim.epsilon, norm=norm, noise=noise
                ).value
                for _ in range(runs)
            ]
        )
        away, near = (np.linalg.norm(out - row, ord=order, axis=1) for row in rows)
        return np.asarray(np.round(away - near, 9))


_k_norm("linf", math.inf, (np.zeros(3), np.ones(3)))
_k_norm("l2", 2, (np.array([-0.6, -0.8]), np.array([0.6, 0.8])))


# The first option goes from odds 1/20 to e/20: log of ((e/20)/(1 + e/20)) / ((1/20)/(1 + 1/20)).
@attack("selection", room="mechanisms", kind="pure", attainable=0.922)
def selection(claim: Claim, runs: int, neighbour: int, noise: SeededNoise) -> Array:
    """One score moves up and ten down, each by its sensitivity: was the first one chosen?"""
    others = 10
    # Before the change the first option has odds 1/20: rare enough that the normaliser does not
    # eat the ratio, and likely enough to be counted. It starts below the others: Gumbel noise of
    # the wrong sign, with its thin upper tail, would hardly ever lift it.
    start = np.zeros(others + 1)
    start[0] = 2 * math.log(others / 20) / claim.epsilon
    move = np.append(1.0, -np.ones(others))
    options = start if neighbour == 0 else start + move
    out = [
        mechanisms.select(options, sensitivity=1.0, epsilon=claim.epsilon, noise=noise).value
        for _ in range(runs)
    ]
    return np.asarray(np.array(out) == 0, dtype=np.float64)
