"""One run, many canaries: a bound for learners too slow to run ten thousand times.

Each of m people is one of two records, by a fair coin; the learner runs once; the attacker guesses
the coins of the r people it is surest of. For an (epsilon, delta)-DP learner the number of right
guesses is hardly larger than Binomial(r, e^epsilon / (1 + e^epsilon)) (Steinke, Nasr, Jagielski
2023, Theorem 5.2):

    P[right >= v] <= f(v) + 2 m delta max_i (f(v - i) - f(v)) / i,   f(v) = P[Binomial >= v]

Exact for randomised response, weak for Gaussian releases: one run tells about one mu what
m guesses of one bit tell, never what a tail tells.
"""

import math

import numpy as np
from scipy.special import bdtrc, expit

from discreet.arrays import integer
from discreet.audit.bounds import AuditReport

METHOD = "one run, many canaries"


def audit_one_run(
    right: int, guesses: int, canaries: int, *, delta: float = 0.0, confidence: float = 0.95
) -> AuditReport:
    """The epsilon that `right` of `guesses` guesses prove, with `canaries` people in the run.

    >>> report = audit_one_run(740, 1000, 1000)
    >>> 0.85 < report.lower_bound < 1.05
    True
    """
    integer("right", right, least=0), integer("guesses", guesses), integer("canaries", canaries)
    if not right <= guesses <= canaries:
        raise ValueError(f"expected right <= guesses <= canaries: {right}, {guesses}, {canaries}")
    if not (0 < confidence < 1 and 0 <= delta < 1):
        raise ValueError("confidence must lie strictly between 0 and 1, delta in [0, 1)")
    low = 0.0
    high = 1.0
    while high < 64 and p_value(high, right, guesses, canaries, delta) <= 1 - confidence:
        low, high = high, 2 * high
    for _ in range(40):
        middle = (low + high) / 2
        if p_value(middle, right, guesses, canaries, delta) <= 1 - confidence:
            low = middle
        else:
            high = middle
    return AuditReport(low, delta, METHOD, 1, confidence)


def p_value(epsilon: float, right: int, guesses: int, canaries: int, delta: float) -> float:
    """An upper bound on the chance of so many right guesses under (epsilon, delta)-DP."""

    def at_least(v: int) -> float:
        return 1.0 if v <= 0 else float(bdtrc(v - 1, guesses, expit(epsilon)))

    here = at_least(right)
    if delta == 0:
        return here
    steps = np.arange(1, right + 1)
    tails = np.array([at_least(right - int(i)) for i in steps])
    slope = float(np.max((tails - here) / steps)) if right else 0.0
    return min(1.0, here + 2 * canaries * delta * slope)


def coins(canaries: int, seed: int) -> list[int]:
    """A fair coin for each person."""
    return [int(c) for c in np.random.default_rng(seed).integers(0, 2, canaries)]


def surest(scores: list[float], fraction: float = 1.0) -> list[tuple[int, int]]:
    """(person, guess) for the fraction of people whose scores are farthest from 0."""
    order = sorted(range(len(scores)), key=lambda k: -abs(scores[k]))
    kept = order[: max(1, math.ceil(fraction * len(scores)))]
    return [(k, int(scores[k] > 0)) for k in kept]
