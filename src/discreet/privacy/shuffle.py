"""Shuffled trust: reports hide in a batch, whose order a relay has thrown away.

A window is one batch, and everybody in it answers the same questions through the same channels with
the same epsilon_0, once. What a report costs once it is shuffled among n:

Each of n people sends one report through the same epsilon_0-local channel R; only the permuted
batch is seen. Write L = e^epsilon_0, t = e^epsilon, and let R0, R1 be the distributions of the
report for the two records that are compared.

    delta(epsilon) = 1/n E( (L - t) N0 - (L t - 1) N1 )_+ ,
                     (N0, N1) ~ two cells of probability 1/(L + 1) each, n draws.

Proof.  Everybody else's distribution is at least w = max(R0, R1)/L, whatever their records. So with
the probability of w their report is drawn from w, else from what is left. Tell the observer who did
the latter, and what they sent: what remains is the one report among those drawn from w. The
likelihood of that multiset is a mean of ratios, and summed over its size (Balle et al. 2019, Lemma
5.3)
    delta(epsilon) <= 1/n E( X_1 + ... + X_n )_+ ,
                      X_i = (R0 - t R1)/w at a draw of w, and 0 without one.
Split an output with densities (R0, R1) into two, a (L, 1) + b (1, L) = (R0, R1) with a, b >= 0: its
part of X becomes the mass a at L - t and b at 1 - L t. Counting the mass min(a, b) (1 - 1/L) that
was at 0, mass and mean stay what they were, and all of it lay between these two ends: the sum grows
in convex order, and so does E(.)_+. At the end sum a = sum b = 1/(L + 1), which is the formula.

Needs    one channel for all, one report each, no report that reacts to others of its batch.
Gives    the promise for the number of *honest* reports that arrived, against all but the relay.
         Batches of other people cost nothing more, even if their channels depend on this one.

Reference: Balle, Bell, Gascon, Nissim (2019), the privacy blanket; Feldman, McMillan, Talwar
(2021), the clones, which this is below. Composition: `batch_keeps_promise`.
"""

import functools
import itertools
import math
from collections.abc import Iterable
from dataclasses import asdict, dataclass

import numpy as np
import scipy  # and scipy.stats when it is first used: it is slow to load

from discreet.arrays import Array, integer, one_of, positive, real
from discreet.privacy.gaussian import bisected, gaussian_delta, gaussian_mu
from discreet.state import register

LARGEST_EPSILON = 25.0  # of one report: beyond, it hides nothing
LARGEST_BATCH = 10**9  # reports
_EDGES = 3000  # of the blocks of a binomial with more values than twice that


@dataclass(frozen=True)
class Shuffled:
    """What the batches of a learner are counted on for.

    minimum         of the planned reports of a batch; one with fewer is not released
    honest          of the planned reports: so many arrive that are drawn as they should be. The
                    promise counts on these alone, and nobody can check it
    local_epsilon   the most that a report costs by itself, against the relay and the server
                    together, however large a batch is

    >>> batch = Shuffled().batch(20_000, 1.0, 1e-6)
    >>> batch.minimum, batch.honest, round(batch.report_epsilon(1), 2)
    (16000, 10000, 5.47)
    """

    minimum: float = 0.8
    honest: float = 0.5
    local_epsilon: float = 8.0

    def __post_init__(self) -> None:
        for name in ("minimum", "honest"):
            object.__setattr__(self, name, float(real(name, getattr(self, name))))
        object.__setattr__(self, "local_epsilon", _local(self.local_epsilon))
        if not 0 < self.honest <= self.minimum <= 1:
            raise ValueError("expected 0 < honest <= minimum <= 1, fractions of a batch")

    def batch(self, size: int, epsilon: float, delta: float) -> "PlannedBatch":
        """A batch of this planned size, whose people are promised (epsilon, delta)."""
        size = integer("size", size)
        return PlannedBatch(
            size=size,
            minimum=math.ceil(self.minimum * size),
            honest=max(1, math.floor(self.honest * size)),
            epsilon=epsilon,
            delta=delta,
            local_epsilon=self.local_epsilon,
            minimum_fraction=self.minimum,
            honest_fraction=self.honest,
        )


@dataclass(frozen=True)
class PlannedBatch:
    """What a public state says about the crowd that a report will hide in.

    size               planned reports
    minimum            fewer are not released
    honest             reports that the promise counts on
    epsilon            promised against everybody but the relay, for all reports of one person
    delta              of that promise
    local_epsilon      the most that a report may cost by itself, in any window
    minimum_fraction   `Shuffled.minimum` as it was said: what a device holds later batches to.
                       NaN: a state that was stored earlier does not say it; the largest that is
                       certain
    honest_fraction    `Shuffled.honest` as it was said; NaN: the smallest that is certain

    >>> batch = Shuffled(0.8, 0.5).batch(1, 1.0, 1e-6)
    >>> batch.honest, batch.honest_fraction
    (1, 0.5)
    """

    size: int
    minimum: int
    honest: int
    epsilon: float
    delta: float
    local_epsilon: float
    minimum_fraction: float = math.nan
    honest_fraction: float = math.nan

    def __post_init__(self) -> None:
        for name in ("size", "minimum", "honest"):
            object.__setattr__(self, name, integer(name, getattr(self, name)))
        object.__setattr__(self, "epsilon", positive("epsilon", self.epsilon, allow_inf=True))
        object.__setattr__(self, "local_epsilon", _local(self.local_epsilon))
        object.__setattr__(self, "delta", real("delta", self.delta))
        if not self.honest <= self.minimum <= self.size <= LARGEST_BATCH:
            raise ValueError(
                f"expected honest <= minimum <= size <= {LARGEST_BATCH}: numbers of reports"
            )
        if not 0 < self.delta < 1:  # False for NaN
            raise ValueError("delta must lie strictly between 0 and 1 under shuffled trust")
        self._check_fractions()

    def _check_fractions(self) -> None:
        """The numbers must be those of the fractions, up to rounding."""
        # One honest report may be the rounding of any fraction below 2 / size.
        certain = {
            "minimum_fraction": self.minimum / self.size,
            "honest_fraction": (self.honest if self.honest > 1 else 1 / LARGEST_BATCH) / self.size,
        }
        for name, least in certain.items():
            said = real(name, getattr(self, name))
            object.__setattr__(self, name, least if math.isnan(said) else said)
        if not 0 < self.honest_fraction <= self.minimum_fraction <= 1:
            raise ValueError("expected 0 < honest_fraction <= minimum_fraction <= 1")
        # A report may always count on itself.
        counted = max(1.0, self.honest_fraction * self.size * (1 + 1e-12))
        if not (
            self.honest <= counted
            and self.minimum >= self.minimum_fraction * self.size * (1 - 1e-12)
        ):
            raise ValueError("minimum and honest are not those of the stated fractions of the size")

    @property
    def off(self) -> bool:
        return math.isinf(self.epsilon)

    @property
    def crowd(self) -> Shuffled:
        """What batches of such a learner are counted on for, as it was said."""
        return Shuffled(self.minimum_fraction, self.honest_fraction, self.local_epsilon)

    def report_epsilon(self, contributions: int) -> float:
        """The epsilon_0 of each report: the largest that keeps the promise."""
        if self.off:
            return math.inf
        return batch_local_epsilon(
            self.epsilon,
            self.delta,
            self.honest,
            reports=contributions,
            most=self.local_epsilon,
        )

    def keeps_promise(self, report_epsilon: float, contributions: int) -> bool:
        """Whether reports of this epsilon_0 cost no more than is promised: computed, not believed.

        >>> batch = Shuffled().batch(20_000, 1.0, 1e-6)
        >>> batch.keeps_promise(5.4, 1), batch.keeps_promise(5.5, 1)
        (True, False)
        """
        if self.off:
            return True
        return report_epsilon <= self.local_epsilon and batch_keeps_promise(
            self.epsilon, self.delta, report_epsilon, self.honest, reports=contributions
        )


# Under the name that stores of version 0.3 know.
register(Shuffled, asdict, lambda plain: Shuffled(**plain), name="Crowd")
# Not @value: states that were stored earlier lack the fractions.
register(PlannedBatch, asdict, lambda plain: PlannedBatch(**plain))


def shuffled_delta(epsilon: float, local_epsilon: float, n: int) -> float:
    """A delta such that one of n shuffled reports is (epsilon, delta)-DP.

    local_epsilon  what each report costs by itself
    n              honest reports in the batch

    >>> round(shuffled_delta(1.0, 5.47, 10_000) * 1e6, 2)
    1.0
    """
    if not epsilon >= 0:
        raise ValueError(f"epsilon must be at least 0, got {epsilon!r}")
    local_epsilon = _local(local_epsilon)
    n = integer("n", n)
    if epsilon >= local_epsilon:
        return 0.0
    # Raised by far more than the error that 40 digits show.
    return min(1.0, _delta_of_any_channel(epsilon, local_epsilon, n) * (1 + 1e-9))


def shuffled_epsilon(delta: float, local_epsilon: float, n: int) -> float:
    """An epsilon such that one of n shuffled reports is (epsilon, delta)-DP.

    >>> round(shuffled_epsilon(1e-6, 5.47, 10_000), 2)
    1.0
    """
    delta = _delta(delta)
    local_epsilon = _local(local_epsilon)
    if shuffled_delta(0.0, local_epsilon, n) <= delta:
        return 0.0
    _, high = bisected(
        lambda epsilon: shuffled_delta(epsilon, local_epsilon, n) > delta,
        0.0,
        local_epsilon,
        within=1e-9,
    )
    return high


@functools.lru_cache(maxsize=4096)
def batch_keeps_promise(
    epsilon: float, delta: float, local_epsilon: float, n: int, *, reports: int = 1
) -> bool:
    """Whether a batch with n honest reports does its part in keeping (epsilon, delta).

    One report of a person is in one batch: delta(epsilon) <= delta says it all. Several are in
    several batches, whose n and epsilon_0 differ and may depend on the batches before. What each of
    them has to be below is therefore the same for all: a Gaussian of mu(epsilon, .9 delta) /
    sqrt(reports), which nothing but the record itself replaces with probability t = .1 delta /
    reports. `reports` of these are (epsilon, delta)-DP, whichever batches they are and however they
    were chosen, since a pair of distributions whose delta(epsilon) is nowhere above another's is a
    function of it (Blackwell; Dong, Roth and Su 2022). Delta falls: between two points of the grid
    the left one counts for the batch and the right one for the Gaussian.

    >>> batch_keeps_promise(1.0, 1e-6, 5.47, 10_000)
    True
    >>> batch_keeps_promise(1.0, 1e-6, 5.47, 9_000), batch_keeps_promise(1.0, 1e-6, 5.0, 20_000,
    ...                                                                  reports=3)
    (False, True)
    """
    epsilon = positive("epsilon", epsilon)
    delta = _delta(delta)
    reports = integer("reports", reports)
    if reports == 1:
        return shuffled_delta(epsilon, local_epsilon, n) <= delta
    mu = gaussian_mu(epsilon, 0.9 * delta) / math.sqrt(reports)
    tail = 0.1 * delta / reports
    points = np.linspace(0.0, shuffled_epsilon(tail, local_epsilon, n), 60)
    return all(
        shuffled_delta(float(left), local_epsilon, n)
        <= tail + (1 - tail) * gaussian_delta(float(right), mu)
        for left, right in itertools.pairwise(points)
    )


@functools.lru_cache(maxsize=4096)
def batch_local_epsilon(
    epsilon: float, delta: float, n: int, *, reports: int = 1, most: float = LARGEST_EPSILON
) -> float:
    """The largest epsilon_0, at most `most`, with which `batch_keeps_promise`.

    >>> round(batch_local_epsilon(1.0, 1e-6, 10_000), 2)
    5.47
    >>> round(batch_local_epsilon(1.0, 1e-6, 10_000, reports=3), 2)  # 3.54 if epsilons were added
    4.38
    """
    most = _local(most)
    if batch_keeps_promise(epsilon, delta, most, n, reports=reports):
        return most
    low, _ = bisected(
        lambda each: batch_keeps_promise(epsilon, delta, each, n, reports=reports),
        0.0,
        most,
        within=1e-5,
    )
    if not low > 0:
        raise ValueError("no crowd hides that much: raise epsilon, delta or the size of batches")
    return low


def _delta_of_any_channel(epsilon: float, local_epsilon: float, n: int) -> float:
    """The bound at the head of this file: over m = N0 + N1, then over N0 ~ Bin(m, 1/2).

    P(m; n) m/n is p P(m - 1; n - 1), and the mean of the rest, E(.)_+ / m, falls with m: it is the
    divergence given that m - 1 others answered at random, and one more only hides. A long range of
    m is therefore cut into blocks, each taken at its lower edge.
    """
    p = 2 / (1 + math.exp(local_epsilon))
    others, weight, tail = _binomial(n - 1, p)
    m = others + 1
    inner = _positive_part(epsilon, local_epsilon, m)
    return p * (float(weight @ (inner / m)) + _gains(epsilon, local_epsilon)[0] * tail)


def _gains(epsilon: float, local_epsilon: float) -> tuple[float, float]:
    """L - t and L t - 1."""
    gain = math.exp(epsilon) * math.expm1(local_epsilon - epsilon)
    return gain, math.expm1(local_epsilon + epsilon)


def _binomial(n: int, p: float) -> tuple[Array, Array, float]:
    """The middle of Bin(n, p): values, or lower edges of blocks; probabilities; the rest."""
    width = 12 * math.sqrt(n * p * (1 - p)) + 12**2  # standard deviations; the rest counts in full
    low = max(0, math.floor(n * p - width))
    high = min(n, math.ceil(n * p + width))
    if high - low < 2 * _EDGES:
        values = np.arange(low, high + 1.0)
        weight = scipy.stats.binom.pmf(values, n, p)
    else:
        values = np.unique(np.floor(np.linspace(low, high + 1, _EDGES)))
        weight = np.diff(scipy.stats.binom.cdf(values - 1, n, p))
        values = values[:-1]
    return (
        values,
        weight,
        float(scipy.stats.binom.cdf(low - 1, n, p) + scipy.stats.binom.sf(high, n, p)),
    )


def _positive_part(epsilon: float, local_epsilon: float, m: Array) -> Array:
    """E( a N0 - b (m - N0) )_+ for N0 ~ Bin(m, 1/2), a = L - t, b = L t - 1.

    With k the first N0 that counts, de Moivre's  E[N0 - m/2; N0 >= k] = k/2 P(N0 = k)  gives
    (a + b) k/2 P(N0 = k) - (b - a) m/2 P(N0 >= k), which hardly cancels. Few terms are added up as
    they are.
    """
    gain, loss = _gains(epsilon, local_epsilon)
    first = np.floor(loss * m / (gain + loss)) + 1
    longest = float(np.max(m - first))
    if longest < 0:
        return np.zeros(len(m))
    if longest <= 64:
        N0 = m - np.arange(longest + 1)[:, None]
        values = gain * N0 - loss * (m - N0)
        terms = np.where((values > 0) & (N0 >= 0), values, 0.0) * scipy.stats.binom.pmf(N0, m, 0.5)
        return np.asarray(terms.sum(axis=0))
    at, above = scipy.stats.binom.pmf(first, m, 0.5), scipy.stats.binom.sf(first - 1, m, 0.5)
    drift = (math.exp(local_epsilon) + 1) * math.expm1(epsilon)  # b - a
    result = (gain + loss) * first / 2 * at - drift * m / 2 * above
    return np.asarray(np.maximum(result, 0.0))


def trusted(trust: str | Shuffled, names: Iterable[str]) -> tuple[str, Shuffled | None]:
    """The name of a trust, and what batches are counted on for where reports are shuffled."""
    if isinstance(trust, Shuffled):
        return one_of("trust", "shuffled", tuple(names)), trust
    return one_of("trust", trust, tuple(names)), Shuffled() if trust == "shuffled" else None


def _local(local_epsilon: float) -> float:
    if local_epsilon > LARGEST_EPSILON:
        raise ValueError(
            f"local_epsilon must be at most {LARGEST_EPSILON:g}, got {local_epsilon!r}: beyond, a "
            "report hides nothing"
        )
    return positive("local_epsilon", local_epsilon)


def _delta(delta: float) -> float:
    if not 0 < delta < 1:
        raise ValueError(f"delta must lie strictly between 0 and 1, got {delta!r}")
    return float(delta)
