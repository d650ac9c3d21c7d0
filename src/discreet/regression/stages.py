"""One stage of private regression: a sketch, a stage plan made from it, one release.

Everything here that touches private rows is a query of `Sample.release`; the plan and the posterior
are computed from what was released.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.arrays import Array, row_norms
from discreet.least_squares import Whitening
from discreet.least_squares.clipping import weight_and_parts
from discreet.privacy.mechanisms import symmetric_to_vector, vector_to_symmetric
from discreet.regression.intervals import Residuals
from discreet.regression.rows import Parts, sums
from discreet.regression.sample import Sample

SLOPE = 0.8  # fraction of residuals that must not be cut: the slope of discrete labels is 1
TAIL = 0.065  # fraction of the residual sum of squares that clipping may cut off
BLOCK = 2**12  # rows at a time: they stay in the cache
LENGTHS = 2.0 ** (np.arange(-6, 9) / 2)  # upper edges of the bins of |x|
LEVELS = 2.0 ** (np.arange(-3, 8) / 2)  # upper edges of the bins of standardised |r|
LOWER = np.append(0.0, LEVELS[:-1])  # their lower edges
# Standard deviations by which a count must stand out of its noise; more for residuals that are far
# off, because few of those make all clips longer.
ALARMS = np.where(LOWER < 3, 2.5, 4.0)
CLIPS = 2.0 ** (np.arange(-6, 15) / 4)  # candidates for c
STRETCHES = 2.0 ** (np.arange(-8, 9) / 4)  # candidates for the scale of a whitening matrix
GRAM_BOUNDS = np.array([1.0, 2.0, 4.0, 8.0])  # candidates for tau


@dataclass(frozen=True)
class Predictive:
    """y given phi has mean <phi, mean> and variance noise + phi' covariance phi (Bishop 3.58)."""

    mean: Array  # (d,)
    covariance: Array  # (d, d), of the posterior: from privacy noise alone
    noise: float  # nu, variance of a label around its mean

    @property
    def limit(self) -> float:
        """No residual is larger: |y| <= 1 and |phi| <= 1."""
        return 1 + math.sqrt(self.mean @ self.mean)


@dataclass(frozen=True)
class Stage:
    """The plan of a stage, how it weighs and clips; public, because it is made from releases."""

    whitening: Whitening  # of the rows
    clip: float  # c: residuals are cut at c standard deviations
    slope: float  # fraction of the residuals that are not cut
    noise: float  # nu / efficiency of the clipped residual
    gram_bound: float  # tau: w |x|^2 <= tau
    gram_weight: float  # g: weight of the Gram matrix in the joint release
    dilution: float  # E[w^2 |x|^2] / E[w |x|^2]
    slope_std: float = 0.0  # standard error of the slope, from the noise of the sketch

    def largest(self, predictive: Predictive) -> float:
        """R, the largest |w x r|: rows whose residuals may be larger weigh less."""
        return min(self.clip * math.sqrt(predictive.noise), 1.0)


@dataclass(frozen=True)
class Sketch:
    """Fractions of the rows by |x| and by standardised |r|, and how one-sided residuals are.

    Cutting one-sided tails biases. Labels of +1 and -1 have symmetric residuals, but the large ones
    all lie on the other side of zero than the prediction: so both kinds of sides are counted.
    """

    lengths: Array  # fractions of the rows by |x|
    levels: Array  # fractions by standardised |r|
    excess: Array  # (2, levels): of r > 0 over r < 0, of r with the prediction over r against it
    level_std: float = 0.0  # of the noise of each of the levels' fractions
    residuals: Residuals | None = None  # the levels as they were released


def second_moments(sample: Sample) -> tuple[Array, Array, float, tuple[float, float]]:
    """Gram, moment and mean square of the labels, in one release of [phi; y][phi; y]^T.

    The last are the standard deviations of the noise of Gram and moment.
    """
    d = sample.X.shape[1]
    # |phi|^2 + y^2 <= 2, and |vv' - ww'|_F <= sqrt(2) max |v|^2 (replace-one, PSD terms).
    sensitivity = sample.problem.budget.contributions * math.sqrt(2) * 2
    vector, record = sample.release(
        _moments,
        lambda parts: symmetric_to_vector(parts[0]),
        sensitivity=sensitivity,
        what="second moments",
    )
    released = vector_to_symmetric(vector)
    nu = float(np.clip(released[d, d] / len(sample.X), 1e-3, 1.0))
    return released[:d, :d], released[:d, d], nu, (record.scale, record.scale / math.sqrt(2))


def sketch_rows(
    sample: Sample, whitening: Whitening, predictive: Predictive, public: Array | None
) -> Sketch:
    """Histograms of |x| and of r over its standard deviation, as fractions of the rows."""
    n = len(sample.X)
    # A row is one count in each histogram: replacing it moves two counts by one in each.
    released, record = sample.release(
        partial(_counts, whitening, predictive),
        lambda parts: np.append(parts[1], parts[0]) if public is None else parts[1].ravel(),
        sensitivity=sample.problem.budget.contributions * math.sqrt(4 if public is None else 2),
        what="sketch of lengths and residuals",
    )
    sides = released[: 4 * len(LEVELS)]
    if public is None:
        lengths = _sure(released[sides.size :], record.scale)
    else:
        bins = _bins(row_norms(whitening.transform(public), "l2"), LENGTHS)
        lengths = np.bincount(bins, minlength=len(LENGTHS)).astype(np.float64) * (n / len(public))
    return _sketch(_normalised(lengths), sides, record.scale, n, predictive)


def sketch_residuals(sample: Sample, predictive: Predictive) -> Sketch:
    """The histogram of r over its standard deviation alone."""
    released, record = sample.release(
        partial(_counts, Whitening.identity(sample.X.shape[1]), predictive),
        lambda parts: parts[1].ravel(),
        # A row is one count: replacing it moves two counts by one.
        sensitivity=sample.problem.budget.contributions * math.sqrt(2),
        what="sketch of residuals",
    )
    return _sketch(np.zeros(0), released, record.scale, len(sample.X), predictive, one=True)


def _sketch(
    lengths: Array,
    sides: Array,
    std: float,
    n: int,
    predictive: Predictive,
    *,
    one: bool = False,
) -> Sketch:
    """From fractions by length, and released counts by level and side with noise of this std.

    Levels that do not stand out are taken to be empty; by two standard deviations, or by more
    where `one` sketch plans all that is left.
    """
    sides = sides.reshape(2, 2, len(LEVELS))
    # No residual is beyond the limit: what is counted there is noise.
    sides = sides * (math.sqrt(predictive.noise) * LOWER < predictive.limit)
    counts = sides.sum(axis=(0, 1))
    return Sketch(
        lengths=lengths,
        levels=_normalised(_sure(counts, 2 * std, ALARMS if one else 2.0)),
        excess=_excess(sides, std) / n,
        level_std=2 * std / n,  # of a sum of four counts
        residuals=Residuals(LEVELS, counts, 2 * std, n, predictive.noise),
    )


def plain_residuals(X: Array, y: Array, predictive: Predictive) -> Residuals:
    """The counts of a sketch without noise."""
    (counts,) = sums(partial(residual_levels, predictive), X, y)
    return Residuals(LEVELS, counts, 0.0, len(X), predictive.noise)


@dataclass(frozen=True)
class Clippings:
    """What a sketch lets expect of each candidate of c: CLIPS, and the one that cuts nothing."""

    at: Array  # c
    tilt: Array  # how far one-sided tails, if cut, pull
    kept: Array  # second moment of what is left
    slope: Array  # fraction of residuals that are not cut
    slope_std: Array  # its standard error
    allowed: NDArray[np.bool_]  # neither too many residuals nor too much of their squares are cut


def clippings(sketch: Sketch, predictive: Predictive) -> Clippings:
    """For each candidate: what is cut off, what is left, and how many are not cut."""
    levels = sketch.levels
    std = math.sqrt(predictive.noise)
    upper = np.append(LEVELS[:-1], max(LEVELS[-1], predictive.limit / std))
    at = np.append(CLIPS, upper[-1])
    # With residuals spread evenly over their bins: means of (|r| - c)+, of its square, and of r^2.
    c = at[:, None]
    width = upper - LOWER
    over, cut, square = (
        (np.maximum(upper - a, 0.0) ** k - np.maximum(LOWER - a, 0.0) ** k) / (k * width)
        for a, k in ((c, 2), (c, 3), (0.0, 3))
    )
    within = np.clip((c - LOWER) / width, 0.0, 1.0)  # (clip, level): the part that is not cut
    slope = np.maximum(within @ levels, SLOPE)
    # slope = sum within_i levels_i / sum levels_i; its derivative along level i: within_i - slope.
    changes = (within - slope[:, None]) * (std * LOWER < predictive.limit)
    allowed = (cut @ levels <= TAIL * (square @ levels)) & (slope > SLOPE)
    allowed[-1] = True
    return Clippings(
        at=at,
        tilt=np.abs(over @ sketch.excess.T).sum(axis=1) * std,
        kept=(square - cut - 2 * c * over) @ levels * predictive.noise,
        slope=slope,
        slope_std=sketch.level_std * np.sqrt(np.sum(changes**2, axis=1)),
        allowed=allowed,
    )


def plan_stage(
    sketch: Sketch,
    whitening: Whitening,
    predictive: Predictive,
    n: float,
    mu: float,
    gram_known: bool,
) -> Stage:
    """The scale, the clipping and the weights with the least expected error, from the sketch."""
    lengths = sketch.lengths
    d = len(predictive.mean)
    size = LENGTHS * 2**-0.25  # the middles of the bins
    clips = clippings(sketch, predictive)
    tilt, kept, slope, slope_std = clips.tilt, clips.kept, clips.slope, clips.slope_std
    # Weights, for each scale of the whitening matrix and each tau.
    stretch = STRETCHES[:, None]
    tau = GRAM_BOUNDS[None, :]
    x = STRETCHES[:, None, None] * size
    w = np.minimum(1.0, np.minimum(1 / x, GRAM_BOUNDS[:, None] / x**2))  # (stretch, tau, bin)
    signal = (w * x**2) @ lengths
    label = (w * x) ** 2 @ lengths
    pull = (w * x) @ lengths  # how far one-sided tails, if cut, could pull along one direction
    # Noise of moment and Gram matrix together, moves (R^2 + unknown / (2 g^2)): where the moves are
    # 4 + (g tau)^2 it is least at g^4 = 2 unknown / (tau R)^2.
    R = np.minimum(clips.at * math.sqrt(predictive.noise), 1.0)[:, None, None]
    unknown = float(np.trace(whitening.of_parameters(predictive.covariance))) / stretch**2
    g = (2 * unknown / (tau * R) ** 2) ** 0.25
    noise = 4 * R**2 + 0 * g
    if not gram_known:
        noise = _moves((g * tau) ** 2) * (R**2 + unknown / (2 * g**2))
    bias = (tilt[:, None, None] * n * pull) ** 2 / d
    # The error of the slope acts on what is unknown of theta, as that of the Gram matrix does.
    misjudged = (slope_std[:, None, None] * n * signal / d) ** 2 * unknown / d
    labels = kept[:, None, None] * n * label / d
    error = stretch**2 * (labels + noise / mu**2 + bias + misjudged)
    error = error / (slope[:, None, None] * n * signal / d) ** 2
    error[~clips.allowed] = np.inf
    # Ties to nine digits go to the first: rows added up in another order must not choose anew.
    relative = np.round(error / error.min(), 9)
    i, j, k = np.unravel_index(int(np.argmin(relative)), error.shape)
    return Stage(
        whitening=whitening.scaled(float(STRETCHES[j])),
        clip=float(clips.at[i]),
        slope=float(slope[i]),
        noise=float(kept[i] / slope[i] ** 2),
        gram_bound=float(GRAM_BOUNDS[k]),
        gram_weight=0.0 if gram_known else float(g[i, j, k]),
        dilution=float(label[j, k] / signal[j, k]),
        slope_std=float(slope_std[i]),
    )


def statistics(
    sample: Sample, stage: Stage, predictive: Predictive, public: Array | None
) -> tuple[Array, Array, tuple[float, float]]:
    """Weighted Gram matrix and clipped residual moment in one release, and the std of their noise.

    With public covariates the Gram matrix is theirs, and has no noise.
    """
    d = sample.X.shape[1]
    R = stage.largest(predictive)
    g = stage.gram_weight

    def pack(parts: Parts) -> Array:
        moment, gram = parts
        if public is not None:
            return moment / R
        return np.concatenate([moment / R, g * symmetric_to_vector(gram)])

    # |w x| cut <= R, so |w x clip(r)| <= R, and |w x x'|_F <= gram_bound: see `_moves`.
    sensitivity = math.sqrt(_moves((g * stage.gram_bound) ** 2))
    released, record = sample.release(
        partial(_weighted, stage, predictive, public is None),
        pack,
        sensitivity=sample.problem.budget.contributions * sensitivity,
        what="weighted Gram matrix and residual moment",
    )
    if public is not None:
        gram = _weighted(stage, predictive, True, public, np.zeros(len(public)))[1]
        return gram * (len(sample.X) / len(public)), released * R, (0.0, record.scale * R)
    gram = vector_to_symmetric(released[d:]) / g
    return gram, released[:d] * R, (record.scale / g, record.scale * R)


def _moves(G: Any) -> Any:
    """The most by which a replaced row moves (moment / R, g gram), squared; G = (g tau)^2.

    A row adds (s u, t u u'), u a unit vector, |s| <= 1, 0 <= t^2 <= G. Two rows of cosine a differ
    by s1^2 + s2^2 - 2 a s1 s2 + t1^2 + t2^2 - 2 a^2 t1 t2, convex in both s and in both t: largest
    at corners, 2 + 2 |a| + max(G, 2 G (1 - a^2)), and there at |a| = 1 or |a| = 1/(2 G).
    """
    return np.maximum(4 + G, np.where(G > 0.5, 2 + 2 * G + 0.5 / np.maximum(G, 0.5), 0.0))


# -- queries: sums over a block of rows, from public parameters ----------------------------------


def _moments(X: Array, y: Array) -> Parts:
    d = X.shape[1]
    total = np.empty((d + 1, d + 1))
    total[:d, :d] = X.T @ X
    total[:d, d] = total[d, :d] = X.T @ y
    total[d, d] = y @ y
    return (total,)


def _counts(whitening: Whitening, predictive: Predictive, X: Array, y: Array) -> Parts:
    """How many rows have which length; which size, sign and prediction's sign their residuals."""
    lengths = np.zeros(len(LENGTHS))
    sides = np.zeros(4 * len(LEVELS))
    for x, prediction, r, std in _transformed(X, y, whitening, predictive):
        lengths += np.bincount(_bins(row_norms(x, "l2"), LENGTHS), minlength=len(lengths))
        side = 2 * (r < 0) + (prediction < 0)
        level = _bins(np.abs(r) / std, LEVELS)
        sides += np.bincount(side * len(LEVELS) + level, minlength=len(sides))
    return lengths, sides.reshape(2, 2, len(LEVELS))


def _weighted(stage: Stage, predictive: Predictive, with_gram: bool, X: Array, y: Array) -> Parts:
    """The clipped residual moment and the Gram matrix, which stays zero if it is not asked for."""
    d = X.shape[1]
    R = stage.largest(predictive)
    gram = np.zeros((d, d))
    moment = np.zeros(d)
    for x, prediction, r, std in _transformed(X, y, stage.whitening, predictive):
        cut = np.minimum(stage.clip * std, 1 + np.abs(prediction))  # |r| is no larger: |y| <= 1
        weighted = x * _weights(x, cut / R, stage.gram_bound)[:, None]
        moment += weighted.T @ np.clip(r, -cut, cut)
        if with_gram:
            gram += weighted.T @ x
    return moment, gram


def step_sums(stage: Stage, predictive: Predictive, limit: float, X: Array, y: Array) -> Parts:
    """The clipped residual moment, how many residuals are not clipped, sum w |x|^2, and sum g.

    A residual is split into what is kept of it and the rest g, which is counted in units of the
    limit: (kept / cut)^2 + g^2 <= 1 (`bounded_rows`).
    """
    R = stage.largest(predictive)
    moment = np.zeros(X.shape[1])
    inside = np.zeros(1)
    trace = np.zeros(1)
    rest = np.zeros(1)
    for x, prediction, r, std in _transformed(X, y, stage.whitening, predictive):
        cut = np.minimum(np.minimum(stage.clip * std, 1 + np.abs(prediction)), limit)
        weighted = x * _weights(x, cut / R, stage.gram_bound)[:, None]
        _, kept, g = weight_and_parts(0.0, r, cut, limit)
        moment += weighted.T @ (kept * cut)
        inside += np.count_nonzero(np.abs(r) <= cut * (1 + 1e-9))
        trace += np.sum(weighted * x)
        rest += np.sum(g)
    return moment, inside, trace, rest


def weighted_gram(whitening: Whitening, gram_bound: float, X: Array, y: Array) -> Parts:
    """sum w x x' alone, w |x|^2 <= tau."""
    x = whitening.transform(X)
    weighted = x * _weights(x, np.ones(len(x)), gram_bound)[:, None]
    return (weighted.T @ x,)


def residual_levels(predictive: Predictive, X: Array, y: Array) -> Parts:
    """How many rows have which standardised residual."""
    _, sides = _counts(Whitening.identity(X.shape[1]), predictive, X, y)
    return (sides.sum(axis=(0, 1)),)


def _weights(x: Array, inflation: Array, gram_bound: float) -> Array:
    """min(1, 1/(|x| inflation), tau/|x|^2); inflation >= 1 is R(phi) against its least value."""
    size = np.maximum(row_norms(x, "l2"), 1e-150)
    return np.asarray(np.minimum(1.0, np.minimum(1 / (inflation * size), gram_bound / size**2)))


def _transformed(
    X: Array, y: Array, whitening: Whitening, predictive: Predictive
) -> Iterator[tuple[Array, Array, Array, Array]]:
    """Whitened rows, predictions, residuals and the std they should have, in blocks."""
    d = X.shape[1]
    root = np.linalg.cholesky(predictive.covariance + 1e-12 * np.eye(d))
    for start in range(0, len(X), BLOCK):
        rows = X[start : start + BLOCK]
        half = rows @ root
        std = np.sqrt(predictive.noise + np.einsum("ij,ij->i", half, half))
        prediction = rows @ predictive.mean
        yield whitening.transform(rows), prediction, y[start : start + BLOCK] - prediction, std


def _bins(values: Array, edges: Array) -> NDArray[np.int64]:
    return np.minimum(np.searchsorted(edges, values), len(edges) - 1)


def _sure(counts: Array, std: float, times: Array | float = 2.0) -> Array:
    """Counts that stand out of their noise; the others are taken to be zero."""
    return _standing_out(np.maximum(counts, 0.0), times * std)


def _standing_out(values: Array, threshold: Array | float) -> Array:
    """v (1 - (threshold / v)^2)+: what is hardly beyond the threshold counts little."""
    part = np.minimum(threshold / np.maximum(np.abs(values), 1e-300), 1.0)
    return np.asarray(values * (1 - part**2))


def _excess(sides: Array, std: float) -> Array:  # (2, 2, levels) -> (2, levels)
    """By how much a half of the residuals outweighs the other, where it stands out of the noise.

    A half that does not stand out is taken to be empty, and adds no noise to the difference.
    """
    (a, b), (c, d) = sides  # r > 0 with and against the prediction, r < 0 against and with it
    halves = np.array([[a + b, c + d], [a + d, b + c]])
    halves = np.where(halves > ALARMS * math.sqrt(2) * std, halves, 0.0)
    odd = halves[:, 0] - halves[:, 1]
    noise = std * np.sqrt(2 * (halves > 0).sum(axis=1))
    return _standing_out(odd, ALARMS * noise)


def _normalised(counts: Array) -> Array:
    total = counts.sum()
    return counts / total if total > 0 else np.full(len(counts), 1 / len(counts))
