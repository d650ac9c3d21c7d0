"""From attack scores to a lower bound on epsilon, with a stated confidence.

An attacker runs the mechanism many times on two neighbouring inputs and scores every output; high
(or low) scores say which input it was. The threshold is chosen on one part of the scores, the
error rates are bounded on the rest (Clopper-Pearson): the bound holds with the stated confidence.

    epsilon  >=  log((power - delta) / false alarms)      for every (epsilon, delta)-DP mechanism
    mu       >=  Phi^-1(power) - Phi^-1(false alarms)     for every mu-GDP mechanism

The second is tighter, but it speaks about a claim of mu-GDP only: a mechanism can be
(epsilon, delta)-DP and exceed it. It is converted to epsilon at the given delta.

Reference: Jagielski, Ullman, Oprea (2020); Nasr et al. (2023).
"""

import math
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import betaincinv, ndtri

from discreet import __version__
from discreet.privacy.checks import Array, finite, one_of, whole
from discreet.privacy.gaussian import gaussian_epsilon

Counts = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class AuditReport:
    """What an attack proved: epsilon (at delta) is at least `lower_bound`, with `confidence`."""

    lower_bound: float
    delta: float
    method: str
    runs: int
    confidence: float
    version: str = __version__

    def to_dict(self) -> dict[str, Any]:
        """Plain values, as `Guarantee.with_audit` stores them."""
        return asdict(self)


def clopper_pearson(
    successes: ArrayLike, trials: int, confidence: float = 0.95
) -> tuple[Array, Array]:
    """One-sided bounds (low, high) on a success probability, each valid with `confidence`.

    >>> low, high = clopper_pearson(0, 100, 0.95)
    >>> float(low), round(float(high), 4)
    (0.0, 0.0295)
    """
    k = np.asarray(successes, dtype=np.float64)
    whole("trials", trials)
    if not 0 < confidence < 1:
        raise ValueError(f"confidence must lie strictly between 0 and 1, got {confidence!r}")
    if k.size and not (k.min() >= 0 and k.max() <= trials):
        raise ValueError(f"successes must lie in 0..{trials}")
    low = np.where(k > 0, betaincinv(np.maximum(k, 1), trials - k + 1, 1 - confidence), 0.0)
    high = np.where(k < trials, betaincinv(k + 1, np.maximum(trials - k, 1), confidence), 1.0)
    return low, high


def audit_scores(
    first: ArrayLike,
    second: ArrayLike,
    *,
    delta: float = 0.0,
    confidence: float = 0.95,
    method: str = "clopper-pearson",
) -> AuditReport:
    """The epsilon that two samples of attack scores prove, on neighbouring inputs.

    method="clopper-pearson" holds against any (epsilon, delta) claim; method="gdp" against a claim
    of Gaussian differential privacy only, and needs delta > 0. A quarter of each sample chooses
    threshold and direction, the rest is counted. Order the scores as they were drawn, not sorted.

    >>> rng = np.random.default_rng(0)
    >>> report = audit_scores(rng.normal(0, 1, 20_000), rng.normal(1, 1, 20_000),
    ...                       delta=1e-5, method="gdp")
    >>> 3.5 < report.lower_bound < gaussian_epsilon(1.0, 1e-5)
    True
    """
    one_of("method", method, ("clopper-pearson", "gdp"))
    a, b = finite("first", first).ravel(), finite("second", second).ravel()
    if len(a) != len(b) or len(a) < 8:
        raise ValueError(f"expected two samples of the same size >= 8, got {len(a)}, {len(b)}")
    if not 0 <= delta < 1:
        raise ValueError(f"delta must lie in [0, 1), got {delta!r}")
    if method == "gdp" and delta == 0:
        raise ValueError("the GDP bound is converted to epsilon at a delta above 0")
    split = len(a) // 4
    # Choosing among many thresholds favours lucky tails: compare them at a stricter confidence.
    strict = 1 - (1 - confidence) / len(_LEVELS)
    thresholds = np.unique(np.quantile(np.concatenate([a[:split], b[:split]]), _LEVELS))
    tried = [
        _bounds(alarms, hits, split, delta, strict, method)
        for alarms, hits in _attacks(a[:split], b[:split], thresholds)
    ]
    kind, place = np.unravel_index(int(np.argmax(tried)), (len(tried), len(thresholds)))
    alarms, hits = _attacks(a[split:], b[split:], thresholds[[place]])[kind]
    bound = float(_bounds(alarms, hits, len(a) - split, delta, confidence, method)[0])
    if method == "gdp":
        bound = gaussian_epsilon(max(bound, 0.0), delta)
    name = "GDP bound, valid against a GDP claim only" if method == "gdp" else "Clopper-Pearson"
    return AuditReport(max(bound, 0.0), delta, name, 2 * len(a), confidence)


_LEVELS = np.concatenate(
    [np.geomspace(1e-3, 0.1, 60), np.linspace(0.1, 0.9, 81)[1:-1], 1 - np.geomspace(0.1, 1e-3, 60)]
)


def _attacks(a: Array, b: Array, thresholds: Array) -> list[tuple[Counts, Counts]]:
    """(false alarms, hits) of four attacks: high or low scores name the second or first input."""
    high_a = len(a) - np.searchsorted(np.sort(a), thresholds, side="left")
    high_b = len(b) - np.searchsorted(np.sort(b), thresholds, side="left")
    low_a, low_b = len(a) - high_a, len(b) - high_b
    return [(high_a, high_b), (low_b, low_a), (high_b, high_a), (low_a, low_b)]


def _bounds(
    alarms: Counts,
    hits: Counts,
    trials: int,
    delta: float,
    confidence: float,
    method: str,
) -> Array:
    """Lower bounds on epsilon or mu; each of the two rates is bounded with half the risk."""
    each = 1 - (1 - confidence) / 2
    false_alarm = clopper_pearson(alarms, trials, each)[1]
    power = clopper_pearson(hits, trials, each)[0]
    if method == "gdp":
        with np.errstate(invalid="ignore"):
            return np.nan_to_num(ndtri(power) - ndtri(false_alarm), nan=-math.inf)
    gain = np.maximum(power - delta, 0.0)
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(gain) - np.log(false_alarm))
