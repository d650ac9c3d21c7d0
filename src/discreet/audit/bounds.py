"""From attack scores to a lower bound on epsilon, with a stated confidence.

An attacker runs the mechanism many times on two neighbouring inputs and scores every output; high
(or low) scores say which input it was. A claim limits the power of every such test:

    power <= e^epsilon (false alarms) + delta               (epsilon, delta)-DP
    power <= Phi(Phi^-1(false alarms) + mu)                 mu-GDP
    D_a(power || false alarms) <= rho a, all orders a       rho-zCDP, D_a of two coins

The latter two are tighter, but each speaks about a claim of its kind only: a mechanism can be
(epsilon, delta)-DP and exceed them. They are converted to epsilon at the given delta.

A quarter of each sample chooses the view, the threshold, the direction and which input is called
the alarm; nothing that is chosen there is counted. On the rest one test is left, and the bound is
the smallest claim that its two counts do not refute (`counted.py`). Against a pure claim the
choosing part may prefer guesses from both tails, whose right ones are one count (there too).

Reference: Jagielski, Ullman, Oprea (2020); Nasr et al. (2023).
"""

import math
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from discreet import __version__
from discreet.arrays import Array, finite, one_of
from discreet.audit.counted import (
    Concentrated,
    Curve,
    Gaussian,
    coins,
    guessed,
    guesses_p_value,
    p_value,
    proved,
    refuted_below,
    split_bounds,
    thresholds,
)
from discreet.privacy.gaussian import gaussian_mu

Counts = NDArray[np.int64]
CURVES = {"clopper-pearson": Curve, "gdp": Gaussian, "zcdp": Concentrated}
GDP = Gaussian.label
GUESSES = "exact test of right guesses"
NO_POWER = 0.1  # of the claim: an attack that proves less says nothing about it


@dataclass(frozen=True, slots=True)
class AuditReport:
    """What an attack proved: epsilon (at delta) is at least `lower_bound`, with `confidence`.

    `claim` is the epsilon that was promised at this delta, `runs` counts both inputs, `p_value` is
    the chance of scores as telling as these under the claim, at most.

    >>> AuditReport(0.8, 1e-6, GDP, 20_000, 0.95, "", "gaussian", claim=1.0, p_value=0.3).verdict
    'not refuted (p = 0.3)'
    >>> AuditReport(0.01, 1e-6, GDP, 20_000, 0.95, attack="gaussian", claim=1.0).verdict
    'no power'
    >>> AuditReport(0.6, 1e-6, GDP, 20_000, 0.95, attack="gaussian", claim=1.0).fraction  # of mu
    0.62...
    """

    lower_bound: float  # of epsilon
    delta: float  # at which epsilon is taken
    method: str  # how the bound was computed
    runs: int  # on both inputs together
    confidence: float  # of the bound
    version: str = __version__  # of discreet that ran
    attack: str = ""  # its name
    claim: float = math.inf  # epsilon promised
    p_value: float = math.nan  # of the claim, at most
    contributions: int = 1  # of one person that the attack replaced

    @property
    def verdict(self) -> str:
        """BROKEN, not refuted (with its p-value), or no power: nothing can be said.

        BROKEN at this report's confidence. An attack that proves less than a tenth of the claim
        has no power: it would hardly notice a broken promise.
        """
        if self.lower_bound > self.claim:
            return "BROKEN"
        if self.fraction < NO_POWER:
            return "no power"
        return "not refuted" + ("" if math.isnan(self.p_value) else f" (p = {self.p_value:.2g})")

    @property
    def unit(self) -> str:
        """What `fraction` is a fraction of: mu for a Gaussian bound, and else epsilon."""
        return "mu" if self.method == GDP else "epsilon"

    @property
    def fraction(self) -> float:
        """How much of the claim was proved; of mu where the bound is Gaussian.

        An ideal attack with n runs a side misses a given part of mu, whatever delta is. The same
        part of epsilon, which is read off at delta, would look worse or better with delta.
        """
        if self.unit == "epsilon" or not 0 < self.lower_bound < math.inf:
            return self.lower_bound / self.claim
        return gaussian_mu(self.lower_bound, self.delta) / gaussian_mu(self.claim, self.delta)

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        record = asdict(self) | {"verdict": self.verdict}
        if math.isinf(self.claim):
            del record["claim"], record["verdict"]
        if math.isnan(self.p_value):
            del record["p_value"]
        return record


def audit_scores(
    first: ArrayLike,
    second: ArrayLike,
    *,
    delta: float = 0.0,
    confidence: float = 0.95,
    method: str = "clopper-pearson",
    claim: float = math.inf,
) -> AuditReport:
    """The epsilon that two samples of attack scores prove, by a bound of the field, by name.

    Scores are (n,), or (n, views): then the choosing part takes the best view, or the best linear
    mixture of them. method="clopper-pearson" holds against any (epsilon, delta) claim;
    method="gdp" against a claim of Gaussian differential privacy only, method="zcdp" against one
    of zero-concentrated privacy only; both need delta > 0. With the epsilon that is claimed at
    delta, the report has a p-value too. Order the scores as they were drawn, not sorted.

    >>> rng = np.random.default_rng(0)
    >>> report = audit_scores(rng.normal(0, 1, 20_000), rng.normal(1, 1, 20_000),
    ...                       delta=1e-5, method="gdp")
    >>> 3.5 < report.lower_bound < 4.38  # what mu = 1 is at this delta
    True
    """
    one_of("method", method, tuple(CURVES))
    a, b = (_columns(name, x) for name, x in (("first", first), ("second", second)))
    if a.shape != b.shape or len(a) < 8:
        raise ValueError(f"expected two samples of the same size >= 8, got {len(a)}, {len(b)}")
    if not 0 <= delta < 1:
        raise ValueError(f"delta must lie in [0, 1), got {delta!r}")
    if not 0 < confidence < 1:
        raise ValueError(f"confidence must lie strictly between 0 and 1, got {confidence!r}")
    if method != "clopper-pearson" and delta == 0:
        raise ValueError(f"the {method} bound is converted to epsilon at a delta above 0")
    curve = CURVES[method](delta)
    test = _chosen(a, b, curve, confidence)
    label = curve.label
    chance = math.nan
    if delta == 0 and (tails := _two_tails(test, confidence)):
        label = GUESSES
        bound = proved(*tails, confidence)
        if math.isfinite(claim):
            chance = guesses_p_value(*tails, claim)
    else:
        bound = curve.epsilon(refuted_below(*test.counts, curve, confidence))
        if math.isfinite(claim):
            chance = p_value(*test.counts, curve, curve.theta(claim))
    return AuditReport(bound, delta, label, 2 * len(a), confidence, claim=claim, p_value=chance)


class _Test(NamedTuple):
    """A test that the choosing runs preferred, and the runs that are counted.

    tried        scores of the choosing runs, in both neighbours
    counted      scores of the runs that are counted
    threshold    of the test, on scores
    kind         of the test: its place among `_attacks`
    curve        what a claim allows
    """

    tried: tuple[Array, Array]
    counted: tuple[Array, Array]
    threshold: float
    kind: int
    curve: Curve

    @property
    def counts(self) -> tuple[int, int, int]:
        """False alarms, hits, and the runs on each side."""
        return self._of(self.counted)

    def reach(self, confidence: float) -> float:
        """What it seems to prove, on the runs that chose it."""
        return max(0.0, float(split_bounds(*self._of(self.tried), self.curve, _strict(confidence))))

    def _of(self, sides: tuple[Array, Array]) -> tuple[int, int, int]:
        alarms, hits = _attacks(*sides, np.array([self.threshold]))[self.kind]
        return int(alarms[0]), int(hits[0]), len(sides[0])


def _two_tails(test: _Test, confidence: float) -> tuple[int, int] | None:
    """Against a pure claim: (right, all) guesses from both tails, if they seem to prove more."""
    low, high, reach = thresholds(*test.tried, _strict(confidence))
    if reach <= test.reach(confidence):
        return None
    return guessed(*test.counted, low, high, coins(*test.tried))


def _chosen(a: Array, b: Array, curve: Curve, confidence: float) -> _Test:
    split = len(a) // 4
    if a.shape[1] > 1:
        a, b = _with_mixture(a, b, split // 2)
    view, threshold, kind = _preferred(a[:split], b[:split], curve, confidence)
    tried = a[:split, view], b[:split, view]
    return _Test(tried, (a[split:, view], b[split:, view]), threshold, kind, curve)


_LEVELS = np.concatenate(
    [np.geomspace(1e-3, 0.1, 60), np.linspace(0.1, 0.9, 81)[1:-1], 1 - np.geomspace(0.1, 1e-3, 60)]
)


def _columns(name: str, scores: ArrayLike) -> Array:
    array = finite(name, scores)
    return array.reshape(len(array), -1) if array.ndim else array.reshape(1, 1)


def _with_mixture(a: Array, b: Array, fit: int) -> tuple[Array, Array]:
    """One more view: Fisher's linear discriminant, fitted on the first `fit` runs of each side."""
    within = np.cov(a[:fit].T) + np.cov(b[:fit].T)
    size = np.trace(within) / len(within)
    if not size > 0:
        return a, b
    within += 1e-9 * size * np.eye(len(within))
    weights = np.linalg.solve(within, b[:fit].mean(axis=0) - a[:fit].mean(axis=0))
    return np.column_stack([a, a @ weights]), np.column_stack([b, b @ weights])


def _preferred(a: Array, b: Array, curve: Curve, confidence: float) -> tuple[int, float, int]:
    """(view, threshold, kind of attack) with the best bound on the choosing runs.

    The first view is the one that was designed. Another must prove more than the first seems to
    show: among equals the luck of the choosing runs would decide.
    """
    best = -math.inf
    chosen = (0, 0.0, 0)
    for view in range(a.shape[1]):
        pooled = np.concatenate([a[:, view], b[:, view]])
        thresholds = np.unique(np.quantile(pooled, _LEVELS, method="higher"))
        tests = _attacks(a[:, view], b[:, view], thresholds)
        bounds = np.array([_promise(*test, len(a), curve, confidence) for test in tests])
        kind, place = np.unravel_index(int(np.argmax(bounds)), bounds.shape)
        if view == 0 or bounds[kind, place] > best:
            best = float(bounds[kind, place])
            chosen = (view, float(thresholds[place]), int(kind))
        if view == 0:
            alarms, hits = (count[place] for count in tests[kind])
            best = max(best, float(curve.parameter(hits / len(a), (alarms + 0.5) / len(a))))
    return chosen


def _promise(alarms: Counts, hits: Counts, runs: int, curve: Curve, confidence: float) -> Array:
    """How promising a test is; where the choosing runs prove nothing, the clearest is the best.

    An event is as clear as its complement; of the two, the one with fewer alarms proves more.
    Choosing among many thresholds favours lucky tails: they are compared at a stricter confidence.
    """
    proved = split_bounds(alarms, hits, runs, curve, _strict(confidence))
    spread = np.sqrt(alarms * (1 - alarms / runs) + hits * (1 - hits / runs) + 1)
    clearness = (hits - alarms) / spread * (1 - 1e-6 * alarms / runs)
    return np.where(proved > 0, proved, -1 / np.maximum(clearness, 1e-6))


def _strict(confidence: float) -> float:
    return 1 - (1 - confidence) / len(_LEVELS)


def _attacks(a: Array, b: Array, thresholds: Array) -> list[tuple[Counts, Counts]]:
    """(false alarms, hits) of four attacks: high or low scores name the second or first input."""
    high_a = len(a) - np.searchsorted(np.sort(a), thresholds, side="left")
    high_b = len(b) - np.searchsorted(np.sort(b), thresholds, side="left")
    low_a = len(a) - high_a
    low_b = len(b) - high_b
    return [(high_a, high_b), (low_b, low_a), (high_b, high_a), (low_a, low_b)]
