"""A Gram matrix whose noise is known: symmetric, std s on the diagonal and s / sqrt(2) beside it.

That is the noise of a release of `symmetric_to_vector`, which is isotropic in the Frobenius norm.
"""

import math

import numpy as np
import scipy

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
) -> tuple[Array, Array, float]:
    """A^, E[(A - A^)^2] and what noise hides, for A >= 0 in noisy = A + noise.

    A^ is a target T but for a few directions.

    The noise's eigenvalues lie within 2 sqrt(v) of 0, v = d s^2 / 2 (Wigner). A direction in which
    A - T has a > sqrt(v) shows as an eigenvalue l = a + v/a beyond them, and along its eigenvector
    A - T has mean a - v/a = sqrt(l^2 - 4 v) and variance v - v^2/a^2 (Benaych-Georges and
    Nadakuditi 2011). All other directions are pooled: they differ by what noise does not explain,
    give or take the error of that, s^2; and by no more than the size of A there.

    T is a multiple of the identity if none is given, but for the last entry of A where that is
    known: the mean of the pooled eigenvalues, which has noise and is not negative. No direction in
    which A^ is small is known to have less than s, or than the size that it should have.
    Eigenvalues of A^ are at least `floor`.

    >>> clean(np.diag([9.0, 1.0, 1.0, 2.0]), noise_std=1.0)[0].round(1)  # edge 2.8
    array([[8.5, 0. , 0. , 0. ],
           [0. , 1.3, 0. , 0. ],
           [0. , 0. , 1.3, 0. ],
           [0. , 0. , 0. , 1.3]])
    """
    d = len(noisy)
    square = noise_std**2
    v = d * square / 2
    if target is None:
        noisy, target, most = _isotropic(noisy, noise_std, last)
    else:
        most = (float(np.trace(target)) / d) ** 2
    values, vectors = np.linalg.eigh(noisy - target)
    mean = np.copysign(np.sqrt(np.maximum(values**2 - 4 * v, 0.0)), values)
    a = (np.abs(values) + np.abs(mean)) / 2
    variance = v - v**2 / np.maximum(a**2, max(v, 1e-300)) + square / 2
    rest = values[mean == 0]
    if rest.size:
        differ = max(float(np.mean(rest**2)) - v - square / 2, 0.0)
        variance[mean == 0] = min(differ + square, most)
    error = (vectors * variance) @ vectors.T
    values, basis = np.linalg.eigh(target + (vectors * mean) @ vectors.T)
    cleaned = np.asarray((basis * np.maximum(values, floor)) @ basis.T)
    return cleaned, np.asarray(error), max(math.sqrt(min(square, most)), floor)


def _isotropic(noisy: Array, noise_std: float, last: float | None) -> tuple[Array, Array, float]:
    """The noisy matrix with its last entry where that is known, the target, and E[size^2]."""
    d = len(noisy)
    target = np.zeros_like(noisy)
    free = np.eye(d)
    if last is not None:
        noisy = noisy.copy()
        noisy[-1, -1] = target[-1, -1] = last
        free[-1, -1] = 0.0
    values = np.linalg.eigvalsh(noisy - target)
    away = np.abs(values - np.median(values))
    edge = noise_std * math.sqrt(2 * d)
    pooled = values[away <= max(edge, float(away.min()))]
    size, square = positive_part(float(np.mean(pooled)), noise_std / math.sqrt(len(pooled)))
    return noisy, target + size * free, square


def positive_part(seen: float, std: float) -> tuple[float, float]:
    """E[a] and E[a^2] of a >= 0 that was seen with normal noise: a normal law cut at 0."""
    if std == 0:
        return max(seen, 0.0), max(seen, 0.0) ** 2
    z = max(seen / std, -30.0)
    ratio = math.exp(-z * z / 2) / math.sqrt(2 * math.pi) / float(scipy.special.ndtr(z))
    return std * (z + ratio), std**2 * (1 + z * (z + ratio))


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
# Times the variance of an eigenvalue over it, which is taken from it: noise counts as rows, with
# the same sign in every window. Coverage of 95% intervals in fixed lists, and regret in sphere (100
# seeds): .5: .80, 98; 2: .91, 107.
DISCOUNT = 2.0


def expected_gram(noisy: Array, shape: Array, count: float, noise_std: float) -> Array:
    """`shape` (of trace 1) times the trace that the noisy matrix and the count let expect.

    Whitened rows have mean square length 1 if the whitening fits: the trace is `count`, give or
    take TRACE_STD of it, and tr(noise) has variance d s^2.
    """
    prior = (TRACE_STD * count) ** 2
    noise = len(noisy) * noise_std**2
    trace = (prior * float(np.trace(noisy)) + noise * count) / max(prior + noise, 1e-300)
    return np.asarray(min(max(trace, 0.02 * count), count) * shape)


def shrunk(
    noisy: Array,
    expected: Array,
    noise_std: float,
    earlier: int,
    blocks: Blocks | None = None,
) -> tuple[Array, Array, Array]:
    """H from N = H + Z and what was expected, T: as information, as it is likely to be; variances.

    What stands out of the noise's spectrum, whose edge is s sqrt(2 d), has been seen (Gavish and
    Donoho 2017). Of the rest a part is kept, the noise known (Ledoit and Wolf 2004), that exceeds
    by a standard deviation what noise may make. Products across `blocks` are 0.

    T comes from `earlier` windows. H keeps their errors but for a part k that N corrects, so an
    error lasts: over n windows, to which H is as good as new in each, it adds up as if each had
    1 - (1 - k)^n of Z's variances. These are returned; what was there before N, 1 - (1 - k)^(n-1)
    of them, has made eigenvalues too large each time, which information must not be.
    """
    if noise_std == 0:
        return noisy, noisy, np.zeros_like(noisy)
    d = len(noisy)
    difference = noisy - expected
    variances = noise_variances(d, noise_std, blocks)
    entries = int(np.count_nonzero(np.triu(variances)))
    square = float(np.sum(difference**2)) / noise_std**2  # chi-squared, if T is all there is
    likely = entries + math.sqrt(2 * entries)
    k = 1 - likely / max(square, likely)
    values, vectors = np.linalg.eigh(difference)
    edge2 = 2 * (d if blocks is None else blocks.width) * noise_std**2
    far = np.copysign(np.sqrt(np.maximum(values**2 - edge2, 0.0)), values)
    seen = (vectors * far) @ vectors.T
    H = expected + seen + k * (difference - seen)
    values, vectors = np.linalg.eigh(H if blocks is None else H * blocks.together)
    squares = vectors**2
    of_values = np.einsum("ik,ik->k", squares, (variances * (2 - np.eye(d))) @ squares)
    values = np.maximum(values, 1e-9 * noise_std)
    stays = 1 - not_noise(square, entries)
    lasting = (1 - stays**earlier) * of_values
    reduced = discounted_eigenvalues(values, lasting, DISCOUNT)
    return (
        np.asarray((vectors * reduced) @ vectors.T),
        np.asarray((vectors * values) @ vectors.T),
        (1 - stays ** (earlier + 1)) * variances,
    )


def not_noise(square: float, entries: int) -> float:
    """E[k] if `square` is chi-squared times 1 / (1 - k), and any k in [0, 1] is as likely.

    >>> [round(not_noise(square, 15), 2) for square in (1.0, 15.0, 30.0, 150.0)]
    [0.11, 0.22, 0.45, 0.89]
    """
    shape = entries / 2 + 1  # 1 - k has a gamma law, cut at 1
    below = float(scipy.special.gammainc(shape, square / 2))
    if below < 1e-290:
        return 1 / (shape + 1)
    return 1 - 2 * shape / square * float(scipy.special.gammainc(shape + 1, square / 2)) / below


def noise_variances(d: int, noise_std: float, blocks: Blocks | None = None) -> Array:  # (d, d)
    """Of the noise in each entry: s^2 on the diagonal, s^2 / 2 beside it, 0 across blocks."""
    variances = noise_std**2 * (1 + np.eye(d)) / 2
    return variances if blocks is None else variances * blocks.together


def product_covariance(variances: Array, second_moment: Array) -> Array:
    """Cov(Z w) for a symmetric Z with independent entries of these variances, w apart from it."""
    covariance = variances * second_moment
    np.fill_diagonal(covariance, variances @ np.diag(second_moment))
    return np.asarray(covariance)
