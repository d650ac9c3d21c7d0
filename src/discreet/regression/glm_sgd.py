"""Re-weighted batched SGD, central and local (re-weighted regression 2025, Algorithms 1, 2, 7-10).

    paper   U     w_(k)   g_t = U phi/|U phi| (nu(<U phi, w>) - y)     eta            K
    here    U     w       directions, residuals                       step           STEPS

Rows fall into disjoint batches, so each release has the whole budget; under local trust a row is
a person who reports once, either for U or for a gradient. Steps shrink slowly and all but the
first iterates are averaged, which is as good as knowing the curvature: the paper's 2/(mu_nu t) and
K = 16 L_nu/mu_nu log T are useless where mu_nu is tiny.
"""

import math
from collections.abc import Callable
from functools import partial

import numpy as np

from discreet.arrays import Array, symmetric_to_vector, vector_to_symmetric
from discreet.least_squares import power
from discreet.links import BoundedLink
from discreet.privacy import BallChannel
from discreet.regression.base import Estimate, Problem
from discreet.regression.glm_erm import project, spectral, weighted_gram, weights
from discreet.regression.information import information_matrix
from discreet.regression.local import book

PHASES = 3  # spectral iterations
STEPS = 24
BURN_IN = 6  # steps whose iterates are not averaged
WHITENING_FRACTION = 0.15  # of the rows, from which U is learned

Mean = Callable[[Array, float, str], Array]  # rows of norm <= bound, bound, scope -> their mean
Gram = Callable[[Array, str, Array], Array]  # rows, scope, U -> mean of U^.5 phi phi' U^.5/|U phi|


def sgd(problem: Problem, model: BoundedLink, radius: float) -> Estimate:
    """Batched SGD on noisy gradients: one Gaussian release for each batch of rows."""
    mu = problem.budget.mu
    k = problem.budget.contributions

    def gram(X: Array, scope: str, U: Array) -> Array:
        # |z|^2 <= |phi| |U phi| / |U phi| <= 1: sqrt(2)/n (replace-one, PSD terms).
        return np.asarray(
            problem.release.gaussian_symmetric(
                weighted_gram(X, U, math.inf),
                sensitivity=k * math.sqrt(2) / len(X),
                mu=mu,
                what="spectral iteration",
                scope=scope,
            ).value
        )

    def mean(rows: Array, bound: float, scope: str) -> Array:
        # Rows of norm <= bound: two differ by at most 2 bound, divided by the batch's length.
        return np.asarray(
            problem.release.gaussian(
                rows.mean(axis=0),
                sensitivity=k * 2 * bound / len(rows),
                mu=mu,
                what="gradient",
                scope=scope,
            ).value
        )

    size = WHITENING_FRACTION * len(problem.X) / PHASES
    return _descend(problem, model, radius, gram, mean, 2 * k * math.sqrt(2) / (size * mu))


def local_sgd(problem: Problem, model: BoundedLink, radius: float) -> Estimate:
    """Batched SGD on reports of single people: pure epsilon, one report each."""
    d = problem.X.shape[1]
    budget = problem.budget
    k = budget.contributions
    matrices = BallChannel(d * (d + 1) // 2, budget.epsilon, contributions=k)
    vectors = BallChannel(d, budget.epsilon, contributions=k)

    def gram(X: Array, scope: str, U: Array) -> Array:
        book(problem, scope, matrices)
        z = X @ power(U, 0.5) * np.sqrt(weights(X, U, math.inf))[:, None]
        # |z z^T|_F = |z|^2 <= 1: in the channel's unit ball.
        products = symmetric_to_vector(z[:, :, None] * z[:, None, :])
        reports = matrices.privatize(products, problem.noise, clip=True)
        return np.asarray(vector_to_symmetric(reports).mean(axis=0))

    def mean(rows: Array, bound: float, scope: str) -> Array:
        book(problem, scope, vectors)
        reports = vectors.privatize(rows / bound, problem.noise, clip=True)
        return np.asarray(bound * reports.mean(axis=0))

    size = WHITENING_FRACTION * len(problem.X) / PHASES
    lam = 2 * matrices.std / math.sqrt(size)
    return _descend(problem, model, radius, gram, mean, lam)


def directions(X: Array, U: Array) -> Array:
    """U phi / |U phi|, 0 at phi = 0: norm at most 1."""
    return (X @ U) * weights(X, U, math.inf)[:, None]


def _descend(
    problem: Problem,
    model: BoundedLink,
    radius: float,
    gram: Gram,
    mean: Mean,
    noise_level: float,
) -> Estimate:
    n, d = problem.X.shape
    if n < 2 * (PHASES + STEPS):
        raise ValueError(f"method='sgd' needs at least {2 * (PHASES + STEPS)} rows, got {n}")
    order = problem.rng.permutation(n)
    X, y = problem.X[order], np.clip(problem.y[order], *model.labels)
    lam = max(1 / math.sqrt(n), noise_level * math.sqrt(d))
    if problem.public_X is not None:
        first = 0
        U = information_matrix(problem.public_X, gamma=math.inf, lam=lam)
    else:
        first = math.ceil(WHITENING_FRACTION * n)
        parts = np.array_split(X[:first], PHASES)

        def phase(k: int, U: Array) -> tuple[Array, float]:
            return gram(parts[k], f"phase {k + 1}", U), lam

        U = spectral([partial(phase, k) for k in range(PHASES)], d)
    w = np.zeros(d)
    total = np.zeros(d)
    batches = np.array_split(np.arange(first, n), STEPS)
    for number, batch in enumerate(batches):
        theta = U @ w
        # |t| <= |theta|, and directions are unit vectors: rows of norm at most r.
        bound = model.residual(float(np.linalg.norm(theta)))
        residuals = model.mean(X[batch] @ theta) - y[batch]
        rows = directions(X[batch], U) * residuals[:, None]
        g = mean(rows, bound, f"batch {number + 1}") + lam * model.least * theta
        step = 1 / (model.largest * math.sqrt(1 + number / 8))
        w = project(w - step * g, U, radius)
        if number >= BURN_IN:
            total += w
    theta = U @ (total / (STEPS - BURN_IN))
    return Estimate(theta, None)
