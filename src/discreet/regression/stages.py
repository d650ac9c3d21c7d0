"""One stage of private regression: a sketch, a plan made from it, one release, what it teaches.

Everything here that touches private rows ends in `gaussian(...)` or `gaussian_symmetric(...)`; the
plan and the posterior are computed from what those released.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np

from discreet.privacy.checks import Array, row_norms
from discreet.privacy.mechanisms import (
    gaussian,
    gaussian_symmetric,
    symmetric_to_vector,
    vector_to_symmetric,
)
from discreet.regression.base import Problem
from discreet.regression.rows import Parts, sums

KNOWN = 30.0  # times the prior's precision: what counts as known
SLOPE = 0.8  # share of the residuals that must not be cut: the slope of discrete labels is 1
TAIL = 0.05  # how much of the residuals' energy clipping may cut off
CONDITION = 16.0  # a frame stretches no direction more than this against another
BLOCK = 2**12  # rows at a time: they stay in the cache
LENGTHS = 2.0 ** (np.arange(-6, 9) / 2)  # upper edges of the bins of |x|
LEVELS = 2.0 ** (np.arange(-3, 8) / 2)  # upper edges of the bins of standardised |r|
CLIPS = 2.0 ** (np.arange(-6, 15) / 4)  # candidates for c
STRETCHES = 2.0 ** (np.arange(-8, 9) / 4)  # candidate scales of a frame
REACHES = np.array([1.0, 2.0, 4.0, 8.0])  # candidates for tau


@dataclass(frozen=True)
class Posterior:
    """What the releases so far say about theta: N(mean, covariance), from privacy noise alone."""

    mean: Array  # (d,)
    covariance: Array  # (d, d)
    precision: Array  # (d, d), of the releases without the prior
    weighted: Array  # (d,), precision times the least squares estimate
    noise: float  # nu, variance of a label around its mean

    @classmethod
    def prior(cls, d: int) -> "Posterior":
        """N(0, I/d), before anything was released."""
        zeros = np.zeros((d, d))
        return cls(np.zeros(d), np.eye(d) / d, zeros, np.zeros(d), 1.0)

    @property
    def limit(self) -> float:
        """No residual is larger: |y| <= 1 and |phi| <= 1."""
        return 1 + math.sqrt(self.mean @ self.mean)

    def updated(self, design: Array, seen: Array, variance: float, noise: float) -> "Posterior":
        """After seeing design @ theta with independent noise of this variance."""
        precision = self.precision + design.T @ design / variance
        weighted = self.weighted + design.T @ seen / variance
        d = len(weighted)
        # In coordinates that diagonalise the precision. The prior's variance is fitted by a few
        # steps of expectation-maximisation; for directions that are not known well it is at least
        # 1/d, so that a direction nobody has seen stays unknown.
        values, vectors = np.linalg.eigh(precision)
        along = vectors.T @ weighted
        known = values > KNOWN * d
        spread = np.full(d, 1.0 / d)
        for _ in range(8):
            variance_left = 1 / (values + 1 / spread)
            mean = variance_left * along
            sizes = np.clip(mean**2 + variance_left, 1e-8, 1e4)
            spread = np.where(
                known, sizes[known].mean() if known.any() else 0.0, max(float(sizes.mean()), 1 / d)
            )
        covariance = np.asarray((vectors * variance_left) @ vectors.T)
        return Posterior(vectors @ mean, covariance, precision, weighted, noise)


@dataclass(frozen=True)
class Stage:
    """How a stage weighs and clips; public, because it is computed from releases."""

    frame: Array  # (d, d)
    clip: float  # c: residuals are cut at c standard deviations
    slope: float  # share of the residuals that are not cut
    noise: float  # nu / efficiency of the clipped residual
    reach: float  # tau: w |x|^2 <= tau
    gram_weight: float  # g: weight of the Gram matrix in the joint release
    dilution: float  # E[w^2 |x|^2] / E[w |x|^2]


@dataclass(frozen=True)
class Sketch:
    """Shares of the rows by |x| and by standardised |r|, and by how much r > 0 outweighs r < 0."""

    lengths: Array
    levels: Array
    excess: Array


def second_moments(
    problem: Problem, X: Array, y: Array, mu: float, scope: str | None
) -> tuple[Array, Array, float, tuple[float, float]]:
    """Gram, moment and mean square of the labels, in one release of [phi; y][phi; y]^T."""
    d = X.shape[1]
    total = np.empty((d + 1, d + 1))
    total[:d, :d], total[:d, d], total[d, d] = sums(_moments, X, y)
    total[d, :d] = total[:d, d]
    # |phi|^2 + y^2 <= 2, and |vv' - ww'|_F <= sqrt(2) max |v|^2 (replace-one, PSD terms).
    sensitivity = problem.budget.contributions * math.sqrt(2) * 2
    released, record = gaussian_symmetric(
        total,
        sensitivity=sensitivity,
        mu=mu,
        noise=problem.noise,
        ledger=problem.ledger,
        what="second moments",
        scope=scope,
    )
    nu = float(np.clip(released[d, d] / len(X), 1e-3, 1.0))
    return released[:d, :d], released[:d, d], nu, (record.scale, record.scale / math.sqrt(2))


def sketch_rows(
    problem: Problem,
    X: Array,
    y: Array,
    frame: Array,
    posterior: Posterior,
    mu: float,
    scope: str | None,
    public: Array | None,
) -> "Sketch":
    """Histograms of |x| and of r over its standard deviation, as shares of the rows."""
    lengths, up, down = sums(partial(_counts, frame, posterior), X, y)
    if public is not None:
        lengths = _histogram(row_norms(public @ frame, "l2"), LENGTHS) * (len(X) / len(public))
    # A row is one count in each histogram: replacing it moves two counts by one in each.
    residuals = np.concatenate([up, down])
    counts = residuals if public is not None else np.concatenate([residuals, lengths])
    released, record = gaussian(
        counts,
        sensitivity=problem.budget.contributions * math.sqrt(2 if public is not None else 4),
        mu=mu,
        noise=problem.noise,
        ledger=problem.ledger,
        what="sketch of lengths and residuals",
        scope=scope,
    )
    up, down = released[: len(LEVELS)], released[len(LEVELS) : 2 * len(LEVELS)]
    if public is None:
        lengths = _sure(released[2 * len(LEVELS) :], record.scale)
    both, odd = math.sqrt(2) * record.scale, up - down
    excess = np.where(np.abs(odd) > 2 * both, odd, 0.0) / len(X)
    return Sketch(_normalised(lengths), _normalised(_sure(up + down, both)), excess)


def plan_stage(
    sketch: Sketch,
    frame: Array,
    posterior: Posterior,
    n: int,
    mu: float,
    gram_known: bool,
) -> Stage:
    """Scale of the frame, clipping and weights with the least expected error, from the sketch."""
    lengths, levels = sketch.lengths, sketch.levels
    d = len(frame)
    size, level = LENGTHS * 2**-0.25, LEVELS * 2**-0.25  # middles of the bins
    back = np.linalg.inv(frame)
    # Clipping, for each candidate: what is cut off, what is left, and how many are not cut.
    beyond = np.maximum(level - CLIPS[:, None], 0.0)
    cut, tilt = beyond**2 @ levels, beyond @ sketch.excess * math.sqrt(posterior.noise)
    kept = np.minimum(level, CLIPS[:, None]) ** 2 @ levels * posterior.noise
    slope = np.maximum((level <= CLIPS[:, None]) @ levels, SLOPE)
    allowed = (cut <= TAIL * (levels @ level**2)) & (slope > SLOPE)
    allowed[-1] = True
    # Weights, for each scale of the frame and each reach.
    stretch, reach = STRETCHES[:, None], REACHES[None, :]
    x = STRETCHES[:, None, None] * size
    w = np.minimum(1.0, np.minimum(1 / x, REACHES[:, None] / x**2))  # (stretch, reach, bin)
    signal, label = (w * x**2) @ lengths, (w * x) ** 2 @ lengths
    pull = (w * x) @ lengths  # how far one-sided tails, if cut, could pull along one direction
    # Noise of moment and Gram matrix together, (4 + 2 g^2 reach^2) (R^2 + unknown / (2 g^2)),
    # is least at g^4 = unknown / (reach R)^2.
    R = np.minimum(CLIPS * math.sqrt(posterior.noise), posterior.limit)[:, None, None]
    unknown = float(np.trace(back @ posterior.covariance @ back)) / stretch**2
    g = (unknown / (reach * R) ** 2) ** 0.25
    noise = 4 * R**2 + 0 * g
    if not gram_known:
        noise = (4 + 2 * (g * reach) ** 2) * (R**2 + unknown / (2 * g**2))
    bias = (tilt[:, None, None] * n * pull) ** 2 / d
    error = stretch**2 * (kept[:, None, None] * n * label / d + noise / mu**2 + bias)
    error = error / (slope[:, None, None] * n * signal / d) ** 2
    error[~allowed] = np.inf
    i, j, k = np.unravel_index(int(np.argmin(error)), error.shape)
    return Stage(
        frame=STRETCHES[j] * frame,
        clip=float(CLIPS[i]),
        slope=float(slope[i]),
        noise=float(kept[i] / slope[i] ** 2),
        reach=float(REACHES[k]),
        gram_weight=0.0 if gram_known else float(g[i, j, k]),
        dilution=float(label[j, k] / signal[j, k]),
    )


def statistics(
    problem: Problem,
    X: Array,
    y: Array,
    stage: Stage,
    posterior: Posterior,
    mu: float,
    scope: str | None,
    public: Array | None,
) -> tuple[Array, Array, tuple[float, float]]:
    """Weighted Gram matrix and clipped residual moment, in one release."""
    d, root = X.shape[1], math.sqrt(posterior.noise)
    moment, gram = sums(partial(_weighted, stage, posterior, public is None), X, y)
    if public is not None:
        gram = _weighted(stage, posterior, True, public, np.zeros(len(public)))[1]
        gram *= len(X) / len(public)
    # |w x| spread <= root <= spread, so |w x clip(r)| <= min(c root, limit) =: R, and
    # |w x x'|_F <= reach. Replacing a row moves moment / R by at most 2 and g * gram by at most
    # sqrt(2) g reach (PSD terms).
    R, g = min(stage.clip * root, posterior.limit), stage.gram_weight
    sensitivity = math.sqrt(4 + 2 * (g * stage.reach) ** 2)
    joint = [moment / R] if public is not None else [moment / R, g * symmetric_to_vector(gram)]
    released, record = gaussian(
        np.concatenate(joint),
        sensitivity=problem.budget.contributions * sensitivity,
        mu=mu,
        noise=problem.noise,
        ledger=problem.ledger,
        what="weighted Gram matrix and residual moment",
        scope=scope,
    )
    if public is not None:
        return gram, released * R, (0.0, record.scale * R)
    deviations = record.scale / g, record.scale * R
    return vector_to_symmetric(released[d:]) / g, released[:d] * R, deviations


# -- what is asked of a block of rows: sums, from public parameters -------------------------------


def _moments(X: Array, y: Array) -> Parts:
    return X.T @ X, X.T @ y, y @ y


def _counts(frame: Array, posterior: Posterior, X: Array, y: Array) -> Parts:
    """How many rows have which length, residuals above and residuals below zero which size."""
    lengths, up, down = np.zeros(len(LENGTHS)), np.zeros(len(LEVELS)), np.zeros(len(LEVELS))
    for x, r, spread in _looks(X, y, frame, posterior):
        lengths += _histogram(row_norms(x, "l2"), LENGTHS)
        up += _histogram((r / spread)[r >= 0], LEVELS)
        down += _histogram((-r / spread)[r < 0], LEVELS)
    return lengths, up, down


def _weighted(stage: Stage, posterior: Posterior, with_gram: bool, X: Array, y: Array) -> Parts:
    """The clipped residual moment and the Gram matrix, which stays zero if it is not asked for."""
    d, root = X.shape[1], math.sqrt(posterior.noise)
    gram, moment = np.zeros((d, d)), np.zeros(d)
    for x, r, spread in _looks(X, y, stage.frame, posterior):
        cut = np.minimum(stage.clip * spread, posterior.limit)
        weighted = x * _weights(x, spread / root, stage.reach)[:, None]
        moment += weighted.T @ np.clip(r, -cut, cut)
        if with_gram:
            gram += weighted.T @ x
    return moment, gram


def _weights(x: Array, inflation: Array, reach: float) -> Array:
    """min(1, 1/(|x| inflation), reach/|x|^2); inflation >= 1 is R(phi) against its least value."""
    size = np.maximum(row_norms(x, "l2"), 1e-150)
    return np.asarray(np.minimum(1.0, np.minimum(1 / (inflation * size), reach / size**2)))


def _looks(
    X: Array, y: Array, frame: Array, posterior: Posterior
) -> Iterator[tuple[Array, Array, Array]]:
    """Rows in the frame, residuals, and the deviation a residual should have; block by block."""
    d = X.shape[1]
    root = np.linalg.cholesky(posterior.covariance + 1e-12 * np.eye(d))
    for start in range(0, len(X), BLOCK):
        rows = X[start : start + BLOCK]
        wide = rows @ root
        spread = np.sqrt(posterior.noise + np.einsum("ij,ij->i", wide, wide))
        yield rows @ frame, y[start : start + BLOCK] - rows @ posterior.mean, spread


def shrunk(gram: Array, deviation: float) -> Array:
    """The noisy Gram matrix, shrunk towards its mean eigenvalue by its known noise, and PSD."""
    d = len(gram)
    mean = max(float(np.trace(gram)) / d, 0.0)
    odd = gram - mean * np.eye(d)
    noise = deviation**2 * d * (d + 1) / 2
    odd *= 1 - min(1.0, noise / max(float(np.sum(odd**2)), 1e-300))
    values, vectors = np.linalg.eigh(mean * np.eye(d) + odd)
    return np.asarray((vectors * np.maximum(values, 0.0)) @ vectors.T)


def round_frame(information: Array, noise: float, back: Array, n: int, mu: float) -> Array:
    """A frame in which this information is round, no finer than its noise allows."""
    d = len(information)
    floor = noise * back @ back
    values, vectors = np.linalg.eigh(information)
    least = np.einsum("ji,jk,ki->i", vectors, floor, vectors)
    values = np.maximum(values, least)
    condition = max(CONDITION, 0.5 * math.sqrt(n * mu / d))
    values = np.maximum(values, values.max() / condition**2)
    return np.asarray((vectors * values**-0.5) @ vectors.T * math.sqrt(n / d))


def _histogram(values: Array, edges: Array) -> Array:
    places = np.minimum(np.searchsorted(edges, values), len(edges) - 1)
    return np.bincount(places, minlength=len(edges)).astype(np.float64)


def _sure(counts: Array, deviation: float) -> Array:
    """Counts that stand out of their noise; the others are taken to be zero."""
    return np.where(counts > 2 * deviation, counts, 0.0)


def _normalised(counts: Array) -> Array:
    total = counts.sum()
    return counts / total if total > 0 else np.full(len(counts), 1 / len(counts))
