"""Both tails at once, for pure claims: a coin chooses the input of each run, the attacker guesses.

High scores are taken for the second input, low ones for the first, and between two thresholds the
attacker passes. Under epsilon-DP a guess is right with probability at most

    e^epsilon / (1 + e^epsilon),

whatever the thresholds: P(right) <= e^epsilon P(wrong), for each tail and so for both together.
Given how many guesses there are, right ones are binomial: one count, nothing unknown beside it.
One tail alone would leave the other's evidence unused.

The coins are fair, so the runs that each input needs are not known beforehand: some are left over.
They are a digest of the runs that are not counted: the same scores give the same bound.
"""

import hashlib
import math

import numpy as np
from scipy.special import betainc, expit, logit

from discreet.arrays import Array
from discreet.audit.counted import clopper_pearson

_SPARE = 6.0  # square roots of the runs of a side that are left over: 4 deviations of the coins
_LEVELS = np.concatenate([np.geomspace(2e-3, 0.1, 40), np.linspace(0.1, 0.5, 41)[1:]])


def thresholds(first: Array, second: Array, confidence: float) -> tuple[float, float, float]:
    """(low, high, epsilon that seems within reach) of the best guesses on choosing runs."""
    pooled = np.concatenate([first, second])
    low = np.quantile(pooled, _LEVELS, method="lower")
    high = np.quantile(pooled, 1 - _LEVELS, method="higher")
    # Of equal scores, those on the lower edge stay below it: one step up makes "<" of "<=".
    low = np.minimum(np.nextafter(low, math.inf), high)
    a = np.sort(first)
    b = np.sort(second)
    right = np.searchsorted(a, low) + len(b) - np.searchsorted(b, high)
    wrong = np.searchsorted(b, low) + len(a) - np.searchsorted(a, high)
    reach = [proved(int(r), int(r + w), confidence) for r, w in zip(right, wrong, strict=True)]
    best = int(np.argmax(reach))
    return float(low[best]), float(high[best]), reach[best]


def coins(*uncounted: Array) -> np.random.Generator:
    """Coins that do not depend on the runs that are counted."""
    digest = hashlib.sha256(b"".join(np.ascontiguousarray(x).tobytes() for x in uncounted))
    return np.random.default_rng(int.from_bytes(digest.digest()))


def guessed(
    first: Array, second: Array, low: float, high: float, rng: np.random.Generator
) -> tuple[int, int]:
    """(right, all) guesses about runs whose neighbours are chosen by fair coins."""
    runs = max(0, math.floor(2 * len(first) - _SPARE * math.sqrt(len(first))))
    of_second = int(rng.binomial(runs, 0.5))
    if max(of_second, runs - of_second) > len(first):
        return 0, 0  # the coins want more runs than there are: nothing is proved
    a = first[: runs - of_second]
    b = second[:of_second]
    right = int(np.sum(a < low) + np.sum(b >= high))
    return right, right + int(np.sum(a >= high) + np.sum(b < low))


def proved(right: int, guesses: int, confidence: float) -> float:
    """The epsilon that this many right guesses prove; at least 0.

    >>> 0.9 < proved(7310, 10_000, 0.95) < 1.0
    True
    """
    if guesses == 0:
        return 0.0
    rate = float(clopper_pearson(right, guesses, confidence)[0])
    return max(0.0, float(logit(rate)))


def guesses_p_value(right: int, guesses: int, epsilon: float) -> float:
    """The chance of so many right guesses under the claim, at most.

    >>> guesses_p_value(7310, 10_000, 1.0) > 0.4, guesses_p_value(7600, 10_000, 1.0) < 1e-6
    (True, True)
    """
    if right == 0:
        return 1.0
    return float(betainc(right, guesses - right + 1, expit(epsilon)))
