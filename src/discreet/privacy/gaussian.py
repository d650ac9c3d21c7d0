"""Gaussian noise in exact numbers: (epsilon, delta) <-> mu <-> standard deviation.

A release with l2 sensitivity D and noise N(0, s^2 I) is mu-GDP with mu = D / s, and adaptive
releases on the same rows add as mu^2. One number, mu, therefore carries a whole budget.

    delta(epsilon, mu) = Phi(-a) - e^epsilon Phi(-b),   a = epsilon/mu - mu/2,  b = a + mu

Since e^epsilon phi(b) = phi(a), this is phi(a) (R(a) - R(b)) with R Mills' ratio (1 - Phi)/phi,
which neither overflows nor cancels; its derivative in mu is just phi(a).

Reference: Dong, Roth, Su (2022), Gaussian differential privacy; Balle, Wang (2018), the analytic
Gaussian mechanism; for zCDP, Canonne, Kamath, Steinke (2020).
"""

import functools
import math
from collections.abc import Callable

import numpy as np
import scipy  # and scipy.special when it is first used: it takes longer to load than this package

from discreet.arrays import positive

# Computed roots are pulled this far towards more noise: rounding must not cost privacy.
_ROUNDING = 1e-12


@functools.lru_cache(maxsize=256)
def gaussian_mu(epsilon: float, delta: float) -> float:
    """The largest mu for which mu-GDP implies (epsilon, delta)-DP.

    >>> round(1 / gaussian_mu(1.0, 1e-6), 9)
    4.224678889
    """
    epsilon = positive("epsilon", epsilon, allow_inf=True)
    _check_delta(delta)
    if math.isinf(epsilon):
        return math.inf
    # delta(mu) <= Phi(-a), so the root of Phi(-a) = delta lies left of ours. log delta is concave
    # and increasing in log mu: Newton from the left climbs to the root and never passes it.
    z = -float(scipy.special.ndtri(delta))
    root = math.sqrt(z * z + 2 * epsilon)
    mu = 2 * epsilon / (z + root) if z > 0 else root - z
    for _ in range(60):
        here, slope = _delta_and_density(epsilon, mu)
        step = math.log(delta / here) * here / (slope * mu)
        mu *= math.exp(step)
        if abs(step) < 1e-15:
            break
    return mu * (1 - _ROUNDING)


def gaussian_std(epsilon: float, delta: float, sensitivity: float) -> float:
    """The standard deviation that makes a sensitivity-`sensitivity` release (epsilon, delta)-DP.

    >>> gaussian_std(float("inf"), 1e-6, sensitivity=2.0)  # no privacy asked, no noise added
    0.0
    """
    return positive("sensitivity", sensitivity) / gaussian_mu(epsilon, delta)


def gaussian_delta(epsilon: float, mu: float) -> float:
    """The smallest delta for which mu-GDP implies (epsilon, delta)-DP.

    >>> round(gaussian_delta(1.0, gaussian_mu(1.0, 1e-6)) * 1e6, 6)
    1.0
    """
    if not epsilon >= 0:
        raise ValueError(f"epsilon must be at least 0, got {epsilon!r}")
    if not mu >= 0:
        raise ValueError(f"mu must be at least 0, got {mu!r}")
    if mu == 0 or math.isinf(epsilon):
        return 0.0
    return 1.0 if math.isinf(mu) else _delta_and_density(epsilon, mu)[0]


def gaussian_epsilon(mu: float, delta: float) -> float:
    """The smallest epsilon for which mu-GDP implies (epsilon, delta)-DP.

    >>> round(gaussian_epsilon(gaussian_mu(1.0, 1e-6), 1e-6), 9)
    1.0
    """
    _check_delta(delta)
    if gaussian_delta(0.0, mu) <= delta:
        return 0.0
    if math.isinf(mu):
        return math.inf
    low, high = 0.0, 1.0
    while gaussian_delta(high, mu) > delta:
        low, high = high, 2 * high
    _, high = bisected(lambda epsilon: gaussian_delta(epsilon, mu) > delta, low, high)
    return high * (1 + _ROUNDING) + _ROUNDING


def bounded_range_mu(width: float) -> float:
    """The smallest mu such that a privacy loss confined to an interval of this width is mu-GDP.

    An epsilon-DP release has width 2 epsilon, an exponential mechanism of parameter epsilon has
    width epsilon. The trade-off curve of such a release is at worst a chord polygon with one
    corner, and a convex Gaussian curve lies below it as soon as it passes below that corner;
    the worst corner is the symmetric one.

    >>> round(bounded_range_mu(0.01) / 0.01, 4)  # sqrt(2 pi) / 4
    0.6267
    """
    if width <= 0 or math.isinf(width):
        return max(width, 0.0)
    # -2 Phi^-1(1 / (1 + e^(width / 2))), without cancellation at either end
    if width < 1:
        mu = 2 * math.sqrt(2) * float(scipy.special.erfinv(math.tanh(width / 4)))
    else:
        mu = -2 * float(scipy.special.ndtri_exp(scipy.special.log_expit(-width / 2)))
    return mu * (1 + _ROUNDING)


def zcdp_delta(epsilon: float, rho: float) -> float:
    """A delta for which rho-zCDP implies (epsilon, delta)-DP (every order gives a valid bound)."""
    if rho == 0 or math.isinf(epsilon):
        return 0.0
    if math.isinf(rho):
        return 1.0
    # The best order is near (epsilon + rho) / (2 rho); a fine grid around it loses < 0.1%.
    order = 1 + np.geomspace(1e-4, 1e4, 4001) * max(1.0, (epsilon + rho) / (2 * rho))
    log_delta = (order - 1) * (order * rho - epsilon) + order * np.log1p(-1 / order)
    return float(min(1.0, np.exp(np.min(log_delta - np.log(order - 1)))))


@functools.lru_cache(maxsize=256)
def zcdp_rho(epsilon: float, delta: float) -> float:
    """A rho for which rho-zCDP implies (epsilon, delta)-DP; by bisection on `zcdp_delta`."""
    epsilon = positive("epsilon", epsilon, allow_inf=True)
    _check_delta(delta)
    if math.isinf(epsilon):
        return math.inf
    low, high = 0.0, epsilon + 1.0
    while zcdp_delta(epsilon, high) <= delta:
        high *= 2
    low, _ = bisected(lambda rho: zcdp_delta(epsilon, rho) <= delta, low, high)
    return low


@functools.lru_cache(maxsize=256)
def zcdp_epsilon(rho: float, delta: float) -> float:
    """An epsilon for which rho-zCDP implies (epsilon, delta)-DP; by bisection on `zcdp_delta`."""
    _check_delta(delta)
    if rho == 0:
        return 0.0
    if math.isinf(rho):
        return math.inf
    low, high = 0.0, rho + 2 * math.sqrt(rho * math.log(1 / delta))
    _, high = bisected(lambda epsilon: zcdp_delta(epsilon, rho) > delta, low, high)
    return high


def bisected(
    below: Callable[[float], bool], low: float, high: float, *, within: float = 0.0
) -> tuple[float, float]:
    """Two floats, `below` holds at the first only: neighbours, or so near, relative to the second.

    Or the ends of 100 halvings.

    >>> low, high = bisected(lambda x: x * x < 2, 0.0, 2.0)
    >>> low <= math.sqrt(2) <= high
    True
    """
    for _ in range(100):
        middle = (low + high) / 2
        if not low < middle < high or high - low <= within * high:
            break
        if below(middle):
            low = middle
        else:
            high = middle
    return low, high


def _check_delta(delta: float) -> None:
    if delta == 0:
        raise ValueError(
            "Gaussian noise cannot give delta = 0; set delta (for example 1e-6), "
            "or use a pure mechanism such as Laplace noise"
        )
    if not 0 < delta < 1:
        raise ValueError(f"delta must lie strictly between 0 and 1, got {delta!r}")


def _delta_and_density(epsilon: float, mu: float) -> tuple[float, float]:
    """delta(epsilon, mu) and its derivative phi(a) in mu."""
    a = epsilon / mu - mu / 2
    b = epsilon / mu + mu / 2
    density = math.exp(-a * a / 2) / math.sqrt(2 * math.pi)
    if a < -1:  # Phi(-a) is not small, so the plain difference is exact enough
        return 0.5 * math.erfc(a / math.sqrt(2)) - density * _mills(b), density
    if mu < 1e-3:  # the two ratios agree in most digits: take the difference by Taylor's formula
        x = epsilon / mu
        first = x * _mills(x) - 1  # R' = x R - 1, and so on
        third = 2 * first + x * (_mills(x) + x * first)
        return -density * (mu * first + mu**3 / 24 * third), density
    return density * (_mills(a) - _mills(b)), density


def _mills(x: float) -> float:
    """(1 - Phi(x)) / phi(x)."""
    return math.sqrt(math.pi / 2) * float(scipy.special.erfcx(x / math.sqrt(2)))
