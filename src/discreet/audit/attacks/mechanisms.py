"""Attacks on the one-shot mechanisms: one release, two values at the full sensitivity.

The score is the log-likelihood ratio of the release, or a monotone function of it.
"""

import math
from functools import partial

import numpy as np

from discreet.arrays import Array
from discreet.audit.rows import Claim, attack
from discreet.audit.views import each, rounded
from discreet.privacy import SeededNoise
from discreet.privacy.mechanisms import Mechanisms

released = partial(attack, room="mechanisms")


@released("gaussian", kind="gaussian")
def gaussian(claim: Claim, runs: int, neighbour: int, noise: SeededNoise) -> Array:
    """Opposite rows on the unit sphere; the attacker sees the release and projects it on them."""
    row = np.array([0.6, -0.8, 0.0])
    value = (-row, row)[neighbour]  # 2 apart
    privatize = partial(Mechanisms(noise).gaussian, sensitivity=2.0, mu=claim.mu)
    return np.asarray(np.array([privatize(value).value for _ in range(runs)]) @ row)


@released("gaussian symmetric", kind="gaussian")
@each
def gaussian_symmetric(claim: Claim, neighbour: int, noise: SeededNoise) -> float:
    """a a^T against b b^T for orthogonal unit vectors; they differ off the diagonal only.

    There the isometry matters: a wrong factor would scale change and noise apart.
    """
    a = np.array([1.0, 1.0]) / math.sqrt(2)
    b = np.array([1.0, -1.0]) / math.sqrt(2)
    pair = (np.outer(a, a), np.outer(b, b))  # sqrt(2) apart in Frobenius norm
    out = Mechanisms(noise).gaussian_symmetric(
        pair[neighbour], sensitivity=math.sqrt(2), mu=claim.mu
    )
    return float(np.einsum("ij,ij", out.value, pair[1] - pair[0]))


@released("laplace", kind="pure")
@each
def laplace(claim: Claim, neighbour: int, noise: SeededNoise) -> float:
    """A count with and without one person; the score is the released count."""
    count = float(neighbour)
    out = Mechanisms(noise).laplace(count, sensitivity=1.0, epsilon=claim.epsilon)
    return float(out.value)


def _k_norm(norm: str, order: float, pair: tuple[Array, Array]) -> None:
    size = float(np.linalg.norm(pair[1] - pair[0], ord=order))

    @released(f"k-norm {norm}", kind="pure")
    @each
    def k_norm(claim: Claim, neighbour: int, noise: SeededNoise) -> Array:
        """Two vectors at the full distance of the norm; the score is the log-likelihood ratio."""
        out = Mechanisms(noise).k_norm(
            pair[neighbour], sensitivity=size, epsilon=claim.epsilon, norm=norm
        )
        away, near = (np.linalg.norm(out.value - value, ord=order) for value in pair)
        return rounded(away - near)


_k_norm("linf", math.inf, (np.zeros(3), np.ones(3)))
_k_norm("l2", 2, (np.array([-0.6, -0.8]), np.array([0.6, 0.8])))


# The first option goes from odds 1/20 to e/20: log of ((e/20)/(1 + e/20)) / ((1/20)/(1 + 1/20)).
@released("selection", kind="pure", attainable=0.922)
@each
def selection(claim: Claim, neighbour: int, noise: SeededNoise) -> bool:
    """One score moves up and ten down, each by its sensitivity: was the first one chosen?"""
    others = 10
    # Before the change the first option has odds 1/20: rare enough that the normaliser does not
    # eat the ratio, and likely enough to be counted. It starts below the others: Gumbel noise of
    # the wrong sign, with its thin upper tail, would hardly ever lift it.
    options = np.zeros(others + 1)
    options[0] = 2 * math.log(others / 20) / claim.epsilon
    options += neighbour * np.append(1.0, -np.ones(others))
    out = Mechanisms(noise).select(options, sensitivity=1.0, epsilon=claim.epsilon)
    return bool(out.value == 0)
