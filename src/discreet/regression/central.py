"""Information-weighted linear regression under central privacy.

Chen, Li, Rakhlin, Simchi-Levi (2025), Algorithms 4 and 5, reworked so that it wins at real sizes:
the budget is split over releases instead of the rows, residuals are released instead of labels, and
what is clipped is planned from a cheap private sketch.

    paper   W^(1/2)     1/(1 + gamma |W phi|)     H      psi      theta
    here    whitening   min(1, 1/|x|, tau/|x|^2)  gram   moment   posterior.mean

Gram matrices tell the shape of rows (`shape.py`), then steps find theta (`steps.py`). Here stands
which rows each release sums over and what it may cost them.
"""

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np

from discreet.arrays import Array
from discreet.regression.base import Estimate, Problem
from discreet.regression.intervals import Residuals
from discreet.regression.rows import Parts, compressed, some_places, sums
from discreet.regression.sample import EARLY_ROWS, EARLY_SCOPE, MANY_ROWS, Sample
from discreet.regression.shape import GRAMS, private_shape, public_shape
from discreet.regression.sketch import LEVELS, counted
from discreet.regression.steps import Draw, Plan, by_steps, number_of_steps

SHARE = 0.05  # of mu^2, for each Gram matrix and for the sketch
EARLY_FRACTION = 0.5  # of mu^2, where all but the last step have a few of very many rows
PARTS = 5  # of the rows of a single pass
PART_SHARE = 0.3  # of mu^2 of a part, for a Gram matrix or the sketch


def information_weighted(problem: Problem) -> Estimate:
    """All rows in every release; of very many rows some, and all in the last step."""
    if problem.budget.off:
        return least_squares(problem)
    rho, mu = _rho(problem)
    steps = number_of_steps(rho)
    share = (1 - (GRAMS + 1) * SHARE) / steps
    draw, last = _draws(problem)
    shape = private_shape([draw(SHARE)] * GRAMS, rho, mu, intercept=problem.intercept)
    plan = Plan(draw(SHARE), [*[draw(share)] * (steps - 1), last or draw(share)], share * steps)
    return by_steps(problem, shape, plan)


def single_pass(problem: Problem) -> Estimate:
    """Each row in one part only, with the whole budget: the streaming form."""
    if problem.budget.off:
        return least_squares(problem)
    n, mu = len(problem.X), problem.budget.mu
    if n < 10 * PARTS:
        raise ValueError(f"single-pass needs at least {10 * PARTS} rows, got {n}")
    parts = np.array_split(problem.rng.permutation(n), PARTS)

    def draw(part: int, share: float) -> Draw:
        rows = np.sort(parts[part])
        return partial(Sample.of, problem, rows, mu * math.sqrt(share), f"rows of part {part}")

    # The first parts have a Gram matrix each, the next one the sketch; all have two steps.
    grams = [draw(k, PART_SHARE) for k in range(GRAMS)]
    left = [1 - PART_SHARE * (k <= GRAMS) for k in range(PARTS)]
    steps = [draw(k, left[k] / 2) for k in [*range(PARTS)] * 2]
    shape = private_shape(grams, *_rho(problem), intercept=problem.intercept)
    return by_steps(problem, shape, Plan(draw(GRAMS, PART_SHARE), steps, min(left), PARTS))


def public_covariates(problem: Problem) -> Estimate:
    """Only labels are private: `public_X` tells the shape of rows (Algorithm 10)."""
    if problem.budget.off:
        return least_squares(problem)
    assert problem.public_X is not None
    rho, mu = _rho(problem)
    steps = number_of_steps(rho)
    share = (1 - SHARE) / steps
    draw, last = _draws(problem)
    shape = public_shape(problem.public_X, rho, mu)
    plan = Plan(draw(SHARE), [*[draw(share)] * (steps - 1), last or draw(share)], share * steps)
    return by_steps(problem, shape, plan)


def least_squares(problem: Problem) -> Estimate:
    """Ordinary least squares: what every method is without privacy."""
    n, d = problem.X.shape
    X, y = compressed(problem.X, problem.y)
    rcond = np.finfo(np.float64).eps * max(n, d)
    theta = np.asarray(np.linalg.lstsq(X, y, rcond=rcond)[0], dtype=np.float64)
    residual = y - X @ theta
    freedom = max(n - d, 1)
    noise = float(residual @ residual) / freedom
    variance = max(noise, 1e-24)
    (counts,) = sums(partial(_residual_levels, theta, variance), problem.X, problem.y)
    residuals = Residuals(LEVELS, counts, 0.0, n, variance)
    return Estimate(theta, noise * np.linalg.pinv(X.T @ X), residuals)


def _rho(problem: Problem) -> tuple[float, float]:
    """n mu/d, and mu, of a person's one row: from public numbers alone."""
    n, d = problem.X.shape
    mu = problem.budget.mu / problem.budget.contributions
    return n * mu / d, mu


def _draws(problem: Problem) -> tuple[Callable[[float], Draw], Draw | None]:
    """Rows for a release with a share of mu^2; and for the last one, where that differs."""
    n, mu = len(problem.X), problem.budget.mu
    if n <= MANY_ROWS:
        rows = Sample(problem, problem.X, problem.y, mu)
        return lambda share: partial(replace, rows, mu=mu * math.sqrt(share)), None
    early = np.sort(some_places(problem.rng, n, EARLY_ROWS))
    some = Sample.of(problem, early, mu, EARLY_SCOPE)
    # Early rows have at most this part of mu^2 before; `Sample.last` charges them the rest.
    return (
        lambda share: partial(replace, some, mu=mu * math.sqrt(EARLY_FRACTION * share)),
        partial(Sample.last, problem, early),
    )


def _residual_levels(theta: Array, variance: float, X: Array, y: Array) -> Parts:
    """How many rows have which residual, in standard deviations."""
    prediction = X @ theta
    s = np.full(len(X), math.sqrt(variance))
    return (counted(y - prediction, s, prediction).reshape(4, -1).sum(axis=0),)
