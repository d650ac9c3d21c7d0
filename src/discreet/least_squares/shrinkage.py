"""A Gram matrix whose noise is known: symmetric, std s on the diagonal and s / sqrt(2) beside it.

That is the noise of a release of `symmetric_to_vector`, which is isotropic in the Frobenius norm.
"""

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from discreet.arrays import Array
from discreet.least_squares.blocks import Blocks


def shrink(
    noisy: Array, noise_std: float, *, target: Array | None = None, floor: float = 0.0
) -> Array:
    """T + k (G - T) with k = 1 - E|noise|_F^2 / |G - T|_F^2, eigenvalues of at least `floor`.

    Ledoit and Wolf (2004) where the noise is known: E|noise|_F^2 = s^2 d (d + 1) / 2. The target T
    is the mean eigenvalue times the identity if none is given.

    >>> shrink(np.diag([3.0, 1.0]), noise_std=0.5).round(2)  # k = 1 - 0.75 / 2
    array([[2.62, 0.  ],
           [0.  , 1.38]])
    """
    d = len(noisy)
    if target is None:
        target = max(float(np.trace(noisy)) / d, 0.0) * np.eye(d)
    difference = noisy - target
    values, vectors = np.linalg.eigh(target + kept(difference, noise_std) * difference)
    return np.asarray((vectors * np.maximum(values, floor)) @ vectors.T)


def clean(
    noisy: Array,
    noise_std: float,
    *,
    target: Array | None = None,
    last: float | None = None,
    floor: float = 0.0,
) -> tuple[Array, Array]:
    """A^ and E[(A - A^)^2], for A in noisy = A + noise: a target T but for a few directions.

    The noise's eigenvalues lie within 2 sqrt(v) of 0, v = d s^2 / 2 (Wigner). A direction in which
    A - T has a > sqrt(v) shows as an eigenvalue l = a + v/a beyond them, and along its eigenvector
    A - T has mean a - v/a = sqrt(l^2 - 4 v) and variance v - v^2/a^2 (Benaych-Georges and
    Nadakuditi 2011). All other directions are pooled: they differ by what noise does not explain,
    give or take the error of that, s^2; from a target that is given, by no more than its own size.

    T is a multiple of the identity if none is given, but for the last entry of A where that is
    known. Eigenvalues of A^ are at least `floor`.

    >>> clean(np.diag([9.0, 1.0, 1.0, 2.0]), noise_std=1.0)[0].round(1)  # edge 2.8
    array([[8.5, 0. , 0. , 0. ],
           [0. , 1.3, 0. , 0. ],
           [0. , 0. , 1.3, 0. ],
           [0. , 0. , 0. , 1.3]])
    """
    d = len(noisy)
    square = noise_std**2
    v = d * square / 2
    most = math.inf if target is None else float(np.trace(target)) / d
    if target is None:
        noisy, target = _isotropic(noisy, 2 * math.sqrt(v), last)
    values, vectors = np.linalg.eigh(noisy - target)
    mean = np.copysign(np.sqrt(np.maximum(values**2 - 4 * v, 0.0)), values)
    a = (np.abs(values) + np.abs(mean)) / 2
    variance = v - v**2 / np.maximum(a**2, max(v, 1e-300)) + square / 2
    rest = values[mean == 0]
    if rest.size:
        differ = max(float(np.mean(rest**2)) - v - square / 2, 0.0)
        variance[mean == 0] = min(differ + square, most**2)
    error = (vectors * variance) @ vectors.T
    values, basis = np.linalg.eigh(target + (vectors * mean) @ vectors.T)
    return np.asarray((basis * np.maximum(values, floor)) @ basis.T), np.asarray(error)


def _isotropic(noisy: Array, edge: float, last: float | None) -> tuple[Array, Array]:
    """The noisy matrix with its last entry where that is known, and the target: the bulk's mean."""
    target = np.zeros_like(noisy)
    free = np.eye(len(noisy))
    if last is not None:
        noisy = noisy.copy()
        noisy[-1, -1] = target[-1, -1] = last
        free[-1, -1] = 0.0
    values = np.linalg.eigvalsh(noisy - target)
    away = np.abs(values - np.median(values))
    middle = float(np.mean(values[away <= max(edge, float(away.min()))]))
    return noisy, target + max(middle, 0.0) * free


def kept(difference: Array, noise_std: float) -> float:
    """1 - E|noise|_F^2 / |difference|_F^2, at least 0: the part that is not noise."""
    d = len(difference)
    noise = noise_std**2 * d * (d + 1) / 2
    return 1 - min(1.0, noise / max(float(np.sum(difference**2)), 1e-300))


def discounted_eigenvalues(values: Array, variances: Array | float, times: float) -> Array:
    """max(h - times var / h, 0): what noise alone could have made counts as nothing."""
    values = np.maximum(values, 1e-300)
    return np.asarray(np.maximum(values - times * variances / values, 0.0))


def gram_error_covariance(second_moment: Array, noise_std: float) -> Array:
    """Cov(Z w) = s^2 (E|w|^2 I + E[w w']) / 2, for w of this second moment and Z the noise."""
    d = len(second_moment)
    spread = float(np.trace(second_moment)) * np.eye(d) + second_moment
    return np.asarray(noise_std**2 / 2 * spread)


TRACE_STD = 2.0  # of the trace, relative to the count; .5 finds short rows later: regret 65, not 55
ENTRY_STD = 0.5  # of an entry around what was expected, relative to both its diagonals
OPEN = 0.2  # of an even part of the rows: may have come from directions that had none
MOVED = 0.3  # of the rows: may have moved to the preferred direction
DIFFER, VARY, LEAST = 0.3, 0.5, 0.03  # how much of these variances is used: prior mean, std, least
LEFT = 0.05  # of what was expected, at least, where rows in other directions leave less
# Times the variance of an eigenvalue over it. Cautious: runs of fixed above 1,500 of 150 seeds
# (differences of one or two are chance) and mean regret of sphere: 2: 2, 95; 4: 1, 98; 8: 3, 102.
DISCOUNT, CAUTIOUS_DISCOUNT = 0.5, 3.0


@dataclass(frozen=True)
class GramEstimate:
    """A Gram matrix H without most of its noise, and what its error does to H delta."""

    matrix: Array  # (d, d), eigenvalues discounted
    unreduced: Array  # (d, d), the same before that
    error: Array  # (d, d), covariance of (H - true H) delta
    delta: Array  # (d, d), second moment of delta


def expected_gram(noisy: Array, shape: Array, count: float, noise_std: float) -> Array:
    """`shape` (of trace 1) times the trace that the noisy matrix and the count let expect.

    Whitened rows have mean square length 1 if the whitening fits: the trace is `count`, give or
    take TRACE_STD of it, and tr(noise) has variance d s^2.
    """
    prior = (TRACE_STD * count) ** 2
    noise = len(noisy) * noise_std**2
    trace = (prior * float(np.trace(noisy)) + noise * count) / max(prior + noise, 1e-300)
    return np.asarray(min(max(trace, 0.02 * count), count) * shape)


def unproven_rows(total: Array, variance: float, width: float | None = None) -> Array:
    """P = sum p u u' over the eigenvectors u of a noisy Gram matrix: where there may be no rows.

    p = 1 / (1 + (h / s)^4) for noise of this variance s^2, h the eigenvalue without the one that
    noise alone has in its place: about 1 for noise, 0 for many rows. The noise's operator norm is
    s sqrt(2 width), where width is d unless blocks make it less.
    """
    if variance == 0:
        return np.zeros_like(total)
    values, vectors = np.linalg.eigh(total)
    edge = math.sqrt((width or len(total)) / len(total))
    rows = np.maximum(values / math.sqrt(variance) - edge * noise_eigenvalues(len(total)), 0.0)
    return np.asarray((vectors / (1 + rows**4)) @ vectors.T)


@lru_cache(maxsize=16)
def noise_eigenvalues(d: int) -> Array:  # (d,)
    """Of a symmetric matrix of noise with s = 1, ascending: quantiles of Wigner's semicircle."""
    x = np.linspace(-1, 1, 1001)
    below = 0.5 + (x * np.sqrt(1 - x**2) + np.arcsin(x)) / math.pi
    values = math.sqrt(2 * d) * np.interp((np.arange(d) + 0.5) / d, below, x)
    values.setflags(write=False)
    return values


def squeezed(expected: Array, seen: Array, total: float) -> Array:
    """Directions that were not seen (columns of `seen` are those that were) get what is left."""
    on = seen @ seen.T
    off = np.eye(len(on)) - on
    rest = off @ expected @ off
    here = float(np.trace(on @ expected @ on))
    fraction = (total - here) / max(float(np.trace(rest)), 1e-300)
    return np.asarray(expected + (min(max(fraction, LEFT), 1.0) - 1) * rest)


def shrink_entries(
    noisy: Array,
    expected: Array,
    preferred: Array,
    delta: Array,
    noise_std: float,
    unproven: Array,
    blocks: Blocks | None = None,
) -> tuple[GramEstimate, GramEstimate]:
    """Every entry is drawn to the expected one by empirical Bayes, in a basis with `preferred`.

    Where rows are `unproven`, what was expected may be wrong by all of it: there may be none. With
    `blocks`, products across them are 0 in `noisy` already, and no basis mixes them. The first
    estimate is the likely one, the second is cautious.
    """
    d = len(noisy)
    square = noise_std**2
    if square == 0:
        exact = GramEstimate(noisy, noisy, 0 * noisy, delta)
        return exact, exact
    total = float(np.trace(expected))
    if blocks is not None:  # a policy chooses the block of a person, not their row in it
        preferred = np.zeros(d)
    length = float(np.linalg.norm(preferred))
    width = d if blocks is None else blocks.width
    u = preferred / max(length, 1e-300)
    # What stands out of the noise's spectrum, whose edge is s sqrt(2 d) (Wigner), has been seen,
    # whatever was expected; and so has what lies along the direction the policy prefers.
    values, vectors = np.linalg.eigh(noisy - expected)
    far = np.sqrt(np.maximum(values**2 - 2 * width * square, 0.0))
    expected = expected + (vectors * np.copysign(far, values)) @ vectors.T
    expected = squeezed(expected, vectors[:, (far > 0) & (values > 0)], total)
    moved = (MOVED * total) ** 2
    if length > 0:
        more = float(u @ (noisy - expected) @ u) * moved / (moved + square)
        expected = expected + max(more, -float(u @ expected @ u)) * np.outer(u, u)
        expected = squeezed(expected, u[:, None], total)
    identity = np.eye(d)
    along = np.outer(u, u)
    others = identity - along
    if blocks is None:
        _, basis = np.linalg.eigh(others @ expected @ others + 2 * total * along)
    else:
        basis = blocks.eigenvectors(expected)
    N = basis.T @ noisy @ basis
    T = basis.T @ expected @ basis
    D = basis.T @ delta @ basis
    t = np.maximum(np.diag(T), 0.0)
    half = (1 + identity) / 2
    if blocks is not None:
        half = half * blocks.together
    prior = half * (ENTRY_STD**2 * np.outer(t, t) + (OPEN * total / d) ** 2)
    noise = half * square
    # How far windows differ: the part of the prior that noise does not explain.
    known = np.ones((d, d))
    known[-1, -1] = length == 0
    excess = float(np.sum(((N - T) ** 2 - noise) * known))
    prior_total = float(np.sum(prior * known))
    unsure = max(2 * float(np.sum(noise**2 * (2 - identity) * known)), 1e-300)
    certainty = 1 / VARY**2 + prior_total**2 / unsure
    scale = (DIFFER / VARY**2 + excess * prior_total / unsure) / certainty
    t *= np.clip(np.einsum("ji,ji->i", basis, unproven @ basis), 0.0, 1.0)
    more_prior = half * np.outer(t, t)
    if length > 0:
        more_prior[-1, -1] += moved

    def estimate(scale: float, discount: float) -> GramEstimate:
        wide = min(max(scale, LEAST), 10.0) * prior + more_prior
        keep = wide / np.maximum(wide + noise, 1e-300)
        left = keep * noise  # posterior variance of each entry
        values, vectors = np.linalg.eigh(T + keep * (N - T))
        q = vectors**2
        variances = np.einsum("ik,ik->k", q, (left * (2 - identity)) @ q)
        values = np.maximum(values, 1e-9 * noise_std)
        vectors = basis @ vectors
        reduced = discounted_eigenvalues(values, variances, discount)
        error = left * D
        np.fill_diagonal(error, left @ np.diag(D))
        return GramEstimate(
            matrix=np.asarray((vectors * reduced) @ vectors.T),
            unreduced=np.asarray((vectors * values) @ vectors.T),
            error=np.asarray(basis @ error @ basis.T),
            delta=delta,
        )

    # Cautious: a standard deviation more than what is likely.
    return estimate(scale, DISCOUNT), estimate(scale + certainty**-0.5, CAUTIOUS_DISCOUNT)
