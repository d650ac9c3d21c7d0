"""Re-weighted linear regression: weights 1/|U phi|, two moments released together.

Chen, Li, Rakhlin, Simchi-Levi (2025), "Near-optimal private regression", Algorithms 1 and 12, on
all rows with the budget split over the spectral iterations.

    paper   U_(k)   F_(k)    H                                psi
    here    U       balance  sum U^1/2 phi phi' U^1/2/|U phi|  sum U phi y / |U phi|
"""

import math
from functools import partial

import numpy as np

from discreet.arrays import Array, row_norms, symmetric_to_vector, vector_to_symmetric
from discreet.least_squares import power
from discreet.regression.base import Estimate, Problem
from discreet.regression.central import least_squares
from discreet.regression.glm_erm import spectral
from discreet.regression.rows import Parts, sums

FRACTIONS = (0.1, 0.1, 0.15, 0.65)  # of mu^2: spectral iterations, then the regression itself


def reweighted(problem: Problem) -> Estimate:
    """Learn U by private spectral iterations, then solve the re-weighted normal equations."""
    if problem.budget.off:
        return least_squares(problem)
    X = problem.X
    y = problem.y
    budget = problem.budget
    n, d = X.shape
    k = budget.contributions

    def phase(fraction: float, U: Array) -> tuple[Array, float]:
        total, _ = sums(partial(_moments, U), X, y)
        # |z|^2 = phi' U phi / |U phi| <= |phi| <= 1; replace-one of PSD terms: sqrt(2).
        gram, record = problem.release.gaussian_symmetric(
            total,
            sensitivity=k * math.sqrt(2),
            mu=budget.mu * math.sqrt(fraction),
            what="spectral iteration",
        )
        return gram / n, 2 * record.scale * math.sqrt(d) / n

    U = spectral([partial(phase, fraction) for fraction in FRACTIONS[:-1]], d)
    total, moment = sums(partial(_moments, U), X, y)
    # moment: |direction y| <= 1, so 2; Gram: sqrt(2); together sqrt(4 + 2).
    released, record = problem.release.gaussian(
        np.concatenate([moment, symmetric_to_vector(total)]),
        sensitivity=k * math.sqrt(6),
        mu=budget.mu * math.sqrt(FRACTIONS[-1]),
        what="re-weighted moments",
    )
    gram = vector_to_symmetric(released[d:]) + record.scale * math.sqrt(d) * np.eye(d)
    inverse = power(gram, -1.0, floor=record.scale)
    solve = power(U, 0.5) @ inverse @ power(U, -0.5)
    return Estimate(solve @ released[:d], None)  # the ridge's bias is not known


def _moments(U: Array, X: Array, y: Array) -> Parts:
    z, direction = _transformed(X, U)
    return z.T @ z, direction.T @ y


def _transformed(X: Array, U: Array) -> tuple[Array, Array]:
    """U^(1/2) phi / sqrt(|U phi|) and U phi / |U phi|, both zero at phi = 0."""
    direction = X @ U
    size = row_norms(direction, "l2")
    seen = size > 1e-150  # shorter rows count as zero: their squares have lost their digits
    direction = direction * (seen / np.where(seen, size, 1.0))[:, None]
    z = X @ power(U, 0.5) * np.sqrt(seen / np.where(seen, size, 1.0))[:, None]
    # |z|^2 <= |phi| <= 1 up to the rounding of U^(1/2), which must not cost privacy
    return z / np.maximum(1.0, row_norms(z, "l2"))[:, None], direction
