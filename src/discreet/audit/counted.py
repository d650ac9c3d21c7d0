"""What counts prove: hits among n runs with the canary, false alarms among n runs without.

    theta             what is claimed: epsilon (at delta), mu, or rho
    Curve.power       the largest power that the claim allows at a false alarm rate
    p-value of theta  the worst chance, over all tests the claim allows, of counts as telling

Bounding the two rates one by one, each with half the risk, is valid and wasteful: both would have
to be unlucky at once. `refuted_below` tests the pair. The false alarm rate q is not known: it is
confined with a fiftieth of the risk, and the p-value is the worst over that interval (Berger, Boos
1994). Within a cell of the interval the chance is bounded by the cell's ends, by monotonicity: the
statistic grows with the hits and falls with the alarms. So the bound is exact, not a grid search.
"""

import hashlib
import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import betainc, betaincinv, expit, gammaln, logit, ndtr, ndtri

from discreet.arrays import Array, integer
from discreet.privacy.gaussian import gaussian_epsilon, gaussian_mu, zcdp_epsilon, zcdp_rho

SIMPLE = 0.1  # of the risk, for the bound that splits
_CELLS = 48
_LEAST_RISK = 1e-4  # p-values are not resolved below a fiftieth of it
_REACH = 6.0  # standard deviations of a count that are summed; what is beyond counts as telling


def clopper_pearson(
    successes: ArrayLike, trials: int, confidence: float = 0.95
) -> tuple[Array, Array]:
    """One-sided bounds (low, high) on a success probability, each valid with `confidence`.

    >>> low, high = clopper_pearson(0, 100, 0.95)
    >>> float(low), round(float(high), 4)
    (0.0, 0.0295)
    """
    k = np.asarray(successes, dtype=np.float64)
    integer("trials", trials)
    if not 0 < confidence < 1:
        raise ValueError(f"confidence must lie strictly between 0 and 1, got {confidence!r}")
    if k.size and not (k.min() >= 0 and k.max() <= trials):
        raise ValueError(f"successes must lie in 0..{trials}")
    low = np.where(k > 0, betaincinv(np.maximum(k, 1), trials - k + 1, 1 - confidence), 0.0)
    high = np.where(k < trials, betaincinv(k + 1, np.maximum(trials - k, 1), confidence), 1.0)
    return low, high


@dataclass(frozen=True)
class Curve:
    """The tests that a claim of (theta, delta)-DP allows; theta is epsilon."""

    delta: float = 0.0  # at which theta is shown as epsilon
    label: ClassVar[str] = "exact test of two counts"

    def epsilon(self, theta: float) -> float:
        """At `delta`, of a claim in the curve's own terms."""
        return theta

    def theta(self, epsilon: float) -> float:
        """The largest claim that implies (epsilon, delta)."""
        return epsilon

    def power(self, false_alarm: Array, theta: float) -> Array:
        """The largest power at a false alarm rate."""
        return np.minimum(1.0, math.exp(theta) * false_alarm + self.delta)

    def parameter(self, power: Any, false_alarm: Any) -> Array:
        """The claim under which these rates are just allowed; -inf where any claim allows them."""
        with np.errstate(divide="ignore", invalid="ignore"):
            theta = np.log(np.maximum(np.asarray(power) - self.delta, 0.0)) - np.log(false_alarm)
        return _or_none(theta)


def _or_none(theta: Array) -> Array:
    return np.asarray(np.nan_to_num(theta, nan=-math.inf, posinf=math.inf, neginf=-math.inf))


class Gaussian(Curve):
    """The tests that mu-GDP allows; theta is mu."""

    label = "GDP bound, valid against a GDP claim only"

    def epsilon(self, theta: float) -> float:
        return gaussian_epsilon(theta, self.delta)

    def theta(self, epsilon: float) -> float:
        return gaussian_mu(epsilon, self.delta)

    def power(self, false_alarm: Array, theta: float) -> Array:
        return np.asarray(ndtr(ndtri(false_alarm) + theta))

    def parameter(self, power: Any, false_alarm: Any) -> Array:
        with np.errstate(invalid="ignore"):
            return _or_none(ndtri(power) - ndtri(false_alarm))


_ORDERS = np.array([1.2, 1.5, 2.0, 3.0, 5.0, 8.0, 13.0, 21.0, 34.0, 55.0])  # and 1


class Concentrated(Curve):
    """The tests that rho-zCDP allows; theta is rho.

    A test turns two outputs into two coins, and coins cannot be told apart better than the outputs
    they come from: D_a(power || false alarms) <= rho a for every order a, in both directions. Any
    set of orders gives a valid bound.
    """

    label = "zCDP bound, valid against a zCDP claim only"

    def epsilon(self, theta: float) -> float:
        return zcdp_epsilon(theta, self.delta)

    def theta(self, epsilon: float) -> float:
        return zcdp_rho(epsilon, self.delta)

    def power(self, false_alarm: Array, theta: float) -> Array:
        low = np.array(false_alarm, dtype=np.float64)
        high = np.ones(np.shape(false_alarm))
        for _ in range(30):
            middle = (low + high) / 2
            allowed = self.parameter(middle, false_alarm) <= theta
            low, high = np.where(allowed, middle, low), np.where(allowed, high, middle)
        return np.where(np.asarray(false_alarm) > 0, high, 0.0)

    def parameter(self, power: Any, false_alarm: Any) -> Array:
        p, q = np.broadcast_arrays(np.asarray(power, float), np.asarray(false_alarm, float))
        with np.errstate(divide="ignore", invalid="ignore"):
            rates = [np.log(p), np.log(q), np.log1p(-p), np.log1p(-q)]
            up = _divergences(*rates)
            down = _divergences(rates[1], rates[0], *rates[:1:-1])
        rho = np.maximum(up, down)
        return np.asarray(np.where(p > q, np.where(np.isnan(rho), math.inf, rho), -math.inf))


def _divergences(p: Array, q: Array, not_p: Array, not_q: Array) -> Array:
    """max over orders of D_a / a between two coins, from logarithms of their chances."""
    kl = np.where(np.isneginf(p), 0.0, np.exp(p) * (p - q))
    kl = kl + np.where(np.isneginf(not_p), 0.0, np.exp(not_p) * (not_p - not_q))
    a = _ORDERS.reshape(-1, *[1] * np.ndim(p))
    one = np.where(np.isneginf(p), -math.inf, a * p + (1 - a) * q)
    other = np.where(np.isneginf(not_p), -math.inf, a * not_p + (1 - a) * not_q)
    return np.asarray(np.maximum(kl, np.max(np.logaddexp(one, other) / (a - 1) / a, axis=0)))


def split_bounds(
    alarms: ArrayLike, hits: ArrayLike, trials: int, curve: Curve, confidence: float
) -> Array:
    """Simple lower bounds on the claim: each of the two rates is bounded with half the risk."""
    each = 1 - (1 - confidence) / 2
    false_alarm = clopper_pearson(alarms, trials, each)[1]
    power = clopper_pearson(hits, trials, each)[0]
    return curve.parameter(power, false_alarm)


def refuted_below(alarms: int, hits: int, trials: int, curve: Curve, confidence: float) -> float:
    """Every claim below this is refuted by the two counts, with `confidence`; at least 0.

    The larger of two bounds: the simple one has a tenth of the risk, the joint test the rest.

    >>> simple = float(split_bounds(3000, 4000, 10_000, Curve(), 0.95))
    >>> exact = refuted_below(3000, 4000, 10_000, Curve(), 0.95)
    >>> 0 < simple < exact < math.log(4 / 3)
    True
    """
    simple = 1 - SIMPLE * (1 - confidence)
    risk = (1 - SIMPLE) * (1 - confidence)
    seen = float(curve.parameter((hits + 0.5) / (trials + 1), (alarms + 0.5) / (trials + 1)))
    if not seen > 0:
        return 0.0
    low = max(float(split_bounds(alarms, hits, trials, curve, simple)), 0.0)
    high = seen
    if _p_value(alarms, hits, trials, curve, low, seen, risk) > risk:
        return low  # rare counts
    for _ in range(10):
        middle = (low + high) / 2
        if _p_value(alarms, hits, trials, curve, middle, seen, risk) <= risk:
            low = middle
        else:
            high = middle
    return low


def p_value(alarms: int, hits: int, trials: int, curve: Curve, theta: float) -> float:
    """The worst chance, over all tests that the claim `theta` allows, of counts as telling.

    >>> round(p_value(3000, 3300, 10_000, Curve(), math.log(4 / 3)), 3)
    1.0
    >>> p_value(3000, 5000, 10_000, Curve(), math.log(4 / 3)) < 1e-4
    True
    """
    seen = float(curve.parameter((hits + 0.5) / (trials + 1), (alarms + 0.5) / (trials + 1)))
    if not seen > 0:
        return 1.0
    return min(_p_value(alarms, hits, trials, curve, theta, seen, _LEAST_RISK), 1.0)


def _p_value(
    alarms: int, hits: int, trials: int, curve: Curve, theta: float, seen: float, risk: float
) -> float:
    """An upper bound on the chance of counts as telling as these under the claim `theta`."""
    aside = risk / 50
    low, high = clopper_pearson(alarms, trials, 1 - aside / 2)
    edges = np.linspace(float(low), float(high), _CELLS + 1)
    # Worst in a cell: the fewest alarms (its lower end), the most power (at its upper end).
    q = edges[:-1]
    p = np.clip(curve.power(edges[1:], theta), 0.0, 1.0)
    spread = _REACH * math.sqrt(trials * edges[-1] * (1 - edges[0]) + 1) + 4
    first = max(0, math.floor(trials * edges[0] - spread))
    last = min(trials, math.ceil(trials * edges[-1] + spread))
    k = np.arange(first, last + 1, dtype=np.float64)
    needed = _hits_needed(k, trials, curve, seen)
    chance = _binomial(k, trials, q[:, None])
    with np.errstate(invalid="ignore"):
        telling = betainc(np.maximum(needed, 1), np.maximum(trials - needed + 1, 1), p[:, None])
    telling = np.where(needed <= 0, 1.0, np.where(needed > trials, 0.0, telling))
    beyond = np.maximum(1 - chance.sum(axis=1), 0.0)
    return float(np.max(np.sum(chance * telling, axis=1) + beyond)) + aside


def _hits_needed(alarms: Array, trials: int, curve: Curve, seen: float) -> Array:
    """The fewest hits that are as telling as what was seen, for each count of alarms."""
    rate = curve.power((alarms + 0.5) / (trials + 1), seen)
    # Never more than were seen: the rate may be found by bisection, 2^-30 too large.
    return np.ceil(rate * (trials + 1) - 0.5 - 1e-6 - (trials + 1) * 2.0**-29)


def _binomial(k: Array, trials: int, rate: Array) -> Array:
    """P(count = k), for rates that may be 0 or 1."""
    with np.errstate(divide="ignore", invalid="ignore"):
        log = k * np.log(rate) + (trials - k) * np.log1p(-rate)
    log = np.where((rate == 0) & (k == 0) | (rate == 1) & (k == trials), 0.0, log)
    choose = gammaln(trials + 1) - gammaln(k + 1) - gammaln(trials - k + 1)
    return np.asarray(np.exp(np.nan_to_num(log, nan=-math.inf) + choose))


# -- guesses ---------------------------------------------------------------------------------------
#
# Both tails at once, for pure claims: a coin chooses the input of each run, the attacker guesses.
#
# High scores are taken for the second input, low ones for the first, and between two thresholds the
# attacker passes. Under epsilon-DP a guess is right with probability at most
#
#     e^epsilon / (1 + e^epsilon),
#
# whatever the thresholds: P(right) <= e^epsilon P(wrong), for each tail and so for both together.
# Given how many guesses there are, right ones are binomial: one count, nothing unknown beside it.
# One tail alone would leave the other's evidence unused.
#
# The coins are fair, so the runs that each input needs are not known beforehand: some are left
# over. They are a digest of the runs that are not counted: the same scores give the same bound.

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
