"""Hidden in a crowd: what a report costs once a relay has shuffled it among n.

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

import numpy as np
from scipy.stats import binom

from discreet.arrays import Array, integer, positive
from discreet.privacy.gaussian import gaussian_delta, gaussian_mu

_ROUNDING = 1e-9  # relative, of every delta: far above the error that 40 digits show
_WIDTH = 12.0  # standard deviations of a binomial that are summed; the rest counts in full
_LARGEST = 25.0  # epsilon_0 of any channel
_EDGES = 3000  # of the blocks of a binomial with more values than twice that
_POINTS = 60  # of the curve delta(epsilon) that is compared with a Gaussian one
_TAIL = 0.1  # of delta, for what no Gaussian covers


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
    return min(1.0, _delta_of_any_channel(epsilon, local_epsilon, n) * (1 + _ROUNDING))


def shuffled_epsilon(delta: float, local_epsilon: float, n: int) -> float:
    """An epsilon such that one of n shuffled reports is (epsilon, delta)-DP.

    >>> round(shuffled_epsilon(1e-6, 5.47, 10_000), 2)
    1.0
    """
    delta = _delta(delta)
    local_epsilon = _local(local_epsilon)
    if shuffled_delta(0.0, local_epsilon, n) <= delta:
        return 0.0
    low, high = 0.0, local_epsilon
    while high - low > 1e-9 * local_epsilon:
        middle = (low + high) / 2
        if shuffled_delta(middle, local_epsilon, n) > delta:
            low = middle
        else:
            high = middle
    return high


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
    mu = gaussian_mu(epsilon, (1 - _TAIL) * delta) / math.sqrt(reports)
    tail = _TAIL * delta / reports
    last = shuffled_epsilon(tail, local_epsilon, n)
    points = np.linspace(0.0, last, _POINTS)
    return all(
        shuffled_delta(float(left), local_epsilon, n)
        <= tail + (1 - tail) * gaussian_delta(float(right), mu)
        for left, right in itertools.pairwise(points)
    )


@functools.lru_cache(maxsize=4096)
def batch_local_epsilon(
    epsilon: float, delta: float, n: int, *, reports: int = 1, most: float = _LARGEST
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
    low, above = 0.0, most
    while above - low > 1e-5 * above:
        middle = (low + above) / 2
        if batch_keeps_promise(epsilon, delta, middle, n, reports=reports):
            low = middle
        else:
            above = middle
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
    width = _WIDTH * math.sqrt(n * p * (1 - p)) + _WIDTH**2
    low = max(0, math.floor(n * p - width))
    high = min(n, math.ceil(n * p + width))
    if high - low < 2 * _EDGES:
        values = np.arange(low, high + 1.0)
        weight = binom.pmf(values, n, p)
    else:
        values = np.unique(np.floor(np.linspace(low, high + 1, _EDGES)))
        weight = np.diff(binom.cdf(values - 1, n, p))
        values = values[:-1]
    return values, weight, float(binom.cdf(low - 1, n, p) + binom.sf(high, n, p))


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
        terms = np.where((values > 0) & (N0 >= 0), values, 0.0) * binom.pmf(N0, m, 0.5)
        return np.asarray(terms.sum(axis=0))
    at, above = binom.pmf(first, m, 0.5), binom.sf(first - 1, m, 0.5)
    drift = (math.exp(local_epsilon) + 1) * math.expm1(epsilon)  # b - a
    result = (gain + loss) * first / 2 * at - drift * m / 2 * above
    return np.asarray(np.maximum(result, 0.0))


def _local(local_epsilon: float) -> float:
    if local_epsilon > _LARGEST:
        raise ValueError(f"local_epsilon must be at most {_LARGEST:g}, got {local_epsilon!r}")
    return positive("local_epsilon", local_epsilon)


def _delta(delta: float) -> float:
    if not 0 < delta < 1:
        raise ValueError(f"delta must lie strictly between 0 and 1, got {delta!r}")
    return float(delta)
