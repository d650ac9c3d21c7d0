"""What Gram matrices tell of rows: coordinates in which they are even, and how they lie there.

    M    whitening: x = M phi has a root mean square length of about STRETCH
    H    mean of w x x', with the weights w that steps give rows
    G    mean of phi phi'
    q    E[w |x|] / sqrt(E[w |x|^2]), at most 1: how even lengths are

Three Gram matrices, each of rows whitened by the one before (Chen, Li, Rakhlin, Simchi-Levi 2025,
Algorithm 4, with the budget split instead of the rows):

    sum w x x',  sum w |x|,     w = min(1, 1 / |x|, tau / |x|^2)
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import scipy

from discreet.arrays import Array, symmetric_to_vector, vector_to_symmetric
from discreet.least_squares import Whitening, gram_error_covariance, kept, power, shrink
from discreet.regression.intervals import unseen
from discreet.regression.rows import Parts, Query, row_blocks
from discreet.regression.sample import Sample

GRAMS = 3
GRAM_ROWS = 40.0  # tau^2 = rho over this: then H has noise of 1/sqrt(rho) of its size
STRETCH = 1.2  # root mean square of |x|: most rows use all of |w x| <= 1
EXACT = 400.0  # rho mu from which rows are shorter: the noise of labels exceeds the release's
CONDITION = 16.0  # no direction is stretched more than this against another
LEAST_EIGENVALUE = 0.05  # of H, relative to the mean: noise may leave none
BESIDE = 0.3  # weight of the sum of rows, and of that of lengths, beside a Gram matrix
EVEN = 0.9  # what is expected of q: 1 on a sphere, .8 for normal rows, less for tails
EVEN_STD = 0.1  # of that


@dataclass(frozen=True)
class Shape:
    """What Gram matrices tell of the rows, each divided by their number."""

    whitening: Whitening  # M
    H: Array  # (d, d)
    gram: Array  # (d, d), G, with the weights of the last Gram matrix
    asked: Whitening  # of the rows whose Gram matrix was released last
    std: float  # of what is not known of it: shrunk by k, k of the noise's variance is left
    unseen: Array  # (d, d), variance of directions that did not stand out
    evenness: float  # q
    mean: Array  # (d,), mean of phi, as far as it stands out
    constant: Array  # (d,), c = G^-1 mean: <phi, c> is as near to 1 as rows allow

    def moment_error(self, unknown: Array) -> Array:
        """Cov(Z M^-1 (theta - centre)), Z the noise of H."""
        change = self.asked.inverse @ self.whitening.matrix
        error = gram_error_covariance(change @ unknown @ change.T, self.std)
        return np.asarray(change.T @ error @ change)

    def sides(self, theta: Array) -> tuple[Array, Array]:  # (d, 2), (2,)
        """a_b = G^-1 E[phi | side b], predictions >= 0 first, and P(b).

        As if directions were those of normal rows, whose lengths are as even as q says.
        """
        m = float(self.mean @ theta)
        std = max(math.sqrt(max(float(theta @ self.gram @ theta) - m * m, 0.0)), 1e-8)
        up = min(max(float(scipy.special.ndtr(m / std)), 0.02), 0.98)
        density = math.exp(-min((m / std) ** 2 / 2, 300.0)) / math.sqrt(2 * math.pi)
        away = (theta - self.constant * m) * self.evenness * density / std
        p = np.array([up, 1 - up])
        return self.constant[:, None] + np.outer(away, [1 / up, -1 / (1 - up)]), p


@dataclass(frozen=True)
class Noisy:
    """A Gram matrix as released, and a sum beside it, both divided by the number of rows."""

    gram: Array  # (d, d)
    std: float  # of its noise
    beside: Array  # the sum: of rows, or of lengths
    beside_std: float  # of the noise in it

    @classmethod
    def of(cls, sample: Sample, query: Query, *, beside: float, sensitivity: float) -> "Noisy":
        """A query's matrix and vector, this weighed by `beside`."""
        n, d = sample.X.shape
        released, record = sample.release(
            query,
            lambda parts: np.append(symmetric_to_vector(parts[0]), beside * parts[1]),
            sensitivity=sample.problem.budget.contributions * sensitivity,
            what="Gram matrix and a sum beside it",
        )
        size = d * (d + 1) // 2
        unit = beside * n if beside else 1.0
        return cls(
            vector_to_symmetric(released[:size]) / n,
            record.scale / n,
            released[size:] / unit,
            record.scale / unit,
        )


def private_shape(
    samples: Sequence[Callable[[], Sample]], rho: float, mu: float, *, intercept: bool
) -> Shape:
    """From GRAMS releases, one of each sample."""
    first = samples[0]()
    d = first.X.shape[1]
    condition = _condition(rho)
    stretch = _stretch(rho, mu)
    tau = math.sqrt(rho / GRAM_ROWS)
    # Where tau is small, long rows would hide each other: all are taken at length 1, and what they
    # tell together is used once more.
    again = tau < 2
    tau = 1.0 if again else tau
    # [phi; b] [phi; b]' has the sum of rows beside the Gram matrix. |[phi; b]|^2 <= 1 + b^2, and
    # two such differ by sqrt(2) times that (replace-one, PSD terms). An intercept is in phi.
    b = 0.0 if intercept else BESIDE
    noisy = rows = Noisy.of(
        first, _moments, beside=math.sqrt(2) * b, sensitivity=math.sqrt(2) * (1 + b**2)
    )
    # A constant has half of the squared length that rows may have: what is known before.
    others = np.full(d - 1, 1 / max(d - 1, 1))
    prior = np.diag(np.append(others, 1.0)) if intercept else np.eye(d)
    M = Whitening.identity(d)
    gram, left = _shrunk(noisy, M, prior, 1.0)
    for k, sample in enumerate(samples[1:], start=2):
        scale = stretch if k == GRAMS and not again else 1.0
        M = _whitening(noisy, M, gram, condition).scaled(scale)
        cut = tau * min(scale, 1.0) ** 2
        longest = min(1.0, math.sqrt(cut))
        noisy = Noisy.of(
            sample(),
            partial(_weighted, M, cut),
            beside=BESIDE * cut / longest,
            # |w x x'|_F <= cut, and PSD terms differ by sqrt(2) times that (replace-one). Beside
            # them 0 <= w |x| <= longest differ by it: 2 cut^2 + (BESIDE cut)^2 in squares.
            sensitivity=math.sqrt(2 + BESIDE**2) * cut,
        )
        gram, left = _shrunk(noisy, M, gram, cut)
    asked = M
    H = M.matrix @ gram @ M.matrix
    size = math.sqrt(max(float(np.trace(H)), 1e-3))
    if again:
        M = _whitening(noisy, M, gram, condition).scaled(stretch)
        # Rows of this length have weights of about 1 / stretch; those before had about 1.
        H, left = M.matrix @ gram @ M.matrix / stretch, left / stretch
    mean, constant = _mean(gram, rows, intercept)
    return Shape(
        whitening=M,
        H=H,
        gram=gram,
        asked=asked,
        std=left,
        unseen=unseen(noisy.gram, noisy.std, asked),
        evenness=_evenness(float(noisy.beside[0]) / size, noisy.beside_std / size),
        mean=mean,
        constant=constant,
    )


def public_shape(X: Array, rho: float, mu: float) -> Shape:
    """Of public rows: nothing is released, and nothing is noise."""
    n, d = X.shape
    gram = X.T @ X / n
    M = Whitening.from_gram(gram, floor=1e-12, condition=_condition(rho))
    M = M.scaled(_stretch(rho, mu))
    H, lengths = (part / n for part in _weighted(M, math.inf, X, np.zeros(n)))
    trace = float(np.trace(H))
    mean = X.mean(axis=0)
    inv = np.linalg.pinv(gram, hermitian=True)
    return Shape(
        whitening=M,
        H=shrink(H, 0.0, target=H, floor=max(LEAST_EIGENVALUE * trace / d, 1e-12)),
        gram=gram,
        asked=M,
        std=0.0,
        unseen=np.zeros((d, d)),
        evenness=float(lengths[0]) / math.sqrt(max(trace, 1e-300)),
        mean=mean,
        constant=inv @ mean,
    )


def _stretch(rho: float, mu: float) -> float:
    """Length of rows."""
    return min(STRETCH, math.sqrt(EXACT / (rho * mu)))


def _condition(rho: float) -> float:
    """The more rows, the rarer the directions that can be known."""
    return max(CONDITION, math.sqrt(rho) / 2)


def _shrunk(noisy: Noisy, M: Whitening, gram: Array, tau: float) -> tuple[Array, float]:
    """G, the noisy matrix drawn to the G before; and how much of the noise is left."""
    d = len(gram)
    # The trace has noise of std sqrt(d): below that, it is not known to be less.
    trace = min(max(float(np.trace(noisy.gram)), noisy.std * math.sqrt(d)), tau)
    target = M.matrix @ gram @ M.matrix
    target *= trace / float(np.trace(target))
    H = shrink(noisy.gram, noisy.std, target=target, floor=LEAST_EIGENVALUE * trace / d)
    return M.unwhitened(H), math.sqrt(kept(noisy.gram - target, noisy.std)) * noisy.std


def _whitening(noisy: Noisy, M: Whitening, gram: Array, condition: float) -> Whitening:
    """For rows of this Gram matrix, no finer than the noise of the last one."""
    floor = noisy.std * M.unwhitened(np.eye(len(gram)))
    new = Whitening.from_gram(gram, floor=floor, condition=condition)
    # The floor makes rows short.
    return new.scaled(1 / math.sqrt(min(max(new.mean_square(gram), 0.02), 1.0)))


def _mean(gram: Array, rows: Noisy, intercept: bool) -> tuple[Array, Array]:
    """Mean of phi, and c."""
    if intercept:
        constant = math.sqrt(2) * np.eye(len(gram))[-1]
        return gram @ constant, constant
    inv = power(gram, -1.0)
    noise = rows.beside_std**2 * float(np.trace(inv))
    explained = max(float(rows.beside @ inv @ rows.beside), 1e-300)  # of the variance of a constant
    mean = rows.beside * max(1 - noise / explained, 0.0)  # James and Stein
    return mean, inv @ mean / max(1.0, explained)


def _evenness(seen: float, std: float) -> float:
    """q from a noisy value."""
    mean = (seen * EVEN_STD**2 + EVEN * std**2) / (EVEN_STD**2 + std**2)
    return min(max(mean, 0.3), 1.0)


# -- queries: sums over a block of rows, from public parameters ----------------------------------


def _moments(X: Array, y: Array) -> Parts:
    return X.T @ X, X.sum(axis=0)


def _weighted(M: Whitening, tau: float, X: Array, y: Array) -> Parts:
    """sum w x x' and sum w |x|, w = min(1, 1 / |x|, tau / |x|^2): |w x x'|_F <= tau, w |x| <= 1."""
    total, lengths = np.zeros_like(M.matrix), np.zeros(1)
    for x, _ in row_blocks(X, y, M.matrix):
        size = np.sqrt(np.einsum("ij,ij->i", x, x)) + 1e-150
        w = np.minimum(1.0, np.minimum(1 / size, tau / size**2))
        total += (x * w[:, None]).T @ x
        lengths += w @ size
    return total, lengths
