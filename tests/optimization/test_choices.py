"""What all choices of vertices in a run cost together: computed, not attacked.

The attacks on StreamingFrankWolfe are in `discreet.audit.attacks.optimization`.
"""

import itertools
import math

import numpy as np

from discreet.optimization.directions import VertexDirection
from discreet.privacy import Budget, SeededNoise

EPSILON, DELTA = 1.0, 1e-6


def exact_delta(tamper, n=8, rounds=24):
    """delta(epsilon = 1) of all choices of a run, over every pattern of "vertex 0 or another".

    The row in doubt moves S_0 by `moved` and all other entries by as much the other way, around
    many offsets. tests/optimization/test_frank_wolfe.py tests that choices are distributed so.
    """
    choice = VertexDirection(
        n, rounds, Budget(EPSILON, DELTA), bound=0.1, noise=SeededNoise(0), signed=False
    )
    moved = 2 * 0.1
    tamper(choice)
    times = [t for t in range(1, rounds + 1) if choice.due(t)]
    assert len(times) == 4
    patterns, worst = np.array(list(itertools.product((False, True), repeat=4))), 0.0
    scale = np.array([choice.scale(t) for t in times])
    for offset in np.linspace(-40, 40, 161) * moved:
        first, second = (1 / (1 + (n - 1) * np.exp((s + offset) / scale)) for s in (-moved, moved))
        P, Q = (np.where(patterns, p, 1 - p).prod(axis=1) for p in (first, second))
        for a, b in ((P, Q), (Q, P)):
            worst = max(worst, float(np.maximum(a - math.exp(EPSILON) * b, 0).sum()))
    return worst


def honest(choice):
    pass


def half_moved(choice):
    choice._moved /= 2


def no_composition(choice):
    choice.epsilon = lambda t: math.sqrt(8 * choice._rho)


def whole_budget_each(choice):
    choice.epsilon = lambda t: EPSILON


def test_choices__over_many_rounds_stay_below_the_claim_exactly():
    assert exact_delta(honest) <= DELTA
    for bug in (half_moved, no_composition, whole_budget_each):
        assert exact_delta(bug) > 1e-3
