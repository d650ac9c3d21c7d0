"""Information-weighted linear regression under central privacy, in a few stages on all rows.

Chen, Li, Rakhlin, Simchi-Levi (2025), Algorithms 4 and 5, reworked so that it wins at real sizes:
the budget is split over stages instead of the rows, residuals are released instead of labels, and
what a stage clips and how it weighs is planned from a cheap private sketch.

    paper   W^(1/2)   1/(1 + gamma |W phi|)       H      psi      theta
    here    frame     min(1, 1/|x|, reach/|x|^2)  gram   moment   posterior.mean

Stage 0 releases the second moments of (phi, y) in one matrix. Every later stage looks at rows in a
frame x = M phi in which the earlier Gram matrix is round, at residuals r = y - <phi, theta> around
the earlier estimate, first through a sketch (histograms of |x|, of standardised |r| and of the side
on which r lies), then as

    gram = sum w x x^T,    moment = sum w x clip(r, R(phi)),    R(phi) = c sqrt(nu + phi^T Cov phi)

R(phi) grows where theta is uncertain, so that a rare direction is not clipped before it is known; w
falls with it, so that no row has |w x| R(phi) > R = min(c sqrt(nu), 1), though |r| may exceed 1.
One-sided tails are cut only where the bias is less than the noise that it saves: it does not vanish
with the number of rows, so the more there are the less is cut.
The stages are combined by least squares with their known noise and a Gaussian prior.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from discreet.privacy.checks import Array
from discreet.regression.base import Estimate, Problem
from discreet.regression.posterior import Posterior
from discreet.regression.rows import compressed, some_places
from discreet.regression.stages import (
    Stage,
    plan_stage,
    round_frame,
    second_moments,
    shrunk,
    sketch_rows,
    statistics,
)

SHARES = (0.06, 0.12, 0.2, 0.27, 0.35)  # of mu^2, over the stages
PUBLIC_SHARES = (0.1, 0.3, 0.6)  # the same where covariates are public
MANY_ROWS = 2**18  # beyond, all stages but the last look at EARLY_ROWS rows only
EARLY_ROWS = 2**16
SKETCH_ROWS = 2**16  # nor do the sketches


Rows = NDArray[np.int64] | slice


@dataclass(frozen=True)
class Turn:
    """When a stage comes: which rows it sees, and its shares of mu^2 on them."""

    rows: Rows
    few: Rows  # for the sketch
    share: float
    sketch_share: float
    scope: str | None = None  # named if no other stage sees these rows


def information_weighted(problem: Problem) -> Estimate:
    """All rows in every stage, the budget split over the stages."""
    if problem.budget.off:
        return least_squares(problem)
    n = len(problem.X)
    size = min(n, max(SKETCH_ROWS, EARLY_ROWS))
    order = some_places(problem.coins, n, size) if n > SKETCH_ROWS else np.arange(n)
    few = np.sort(order[:SKETCH_ROWS])
    early: Rows = np.sort(order[:EARLY_ROWS]) if n > MANY_ROWS else slice(None)
    sketch_share = _sketch_share(len(few), problem.budget.mu)
    total = sum(SHARES) + sketch_share * (len(SHARES) - 1)
    turns = [
        Turn(
            slice(None) if k == len(SHARES) - 1 else early,
            slice(None) if len(few) == n else few,
            share / total,
            sketch_share / total,
        )
        for k, share in enumerate(SHARES)
    ]
    return _run(problem, turns)


def single_pass(problem: Problem) -> Estimate:
    """Each row in one stage only, with the whole budget: the streaming form."""
    if problem.budget.off:
        return least_squares(problem)
    n = len(problem.X)
    if n < 10 * len(SHARES):
        raise ValueError(f"single-pass needs at least {10 * len(SHARES)} rows, got {n}")
    order = problem.coins.permutation(n)
    ends = np.round(n * np.cumsum(SHARES) / sum(SHARES)).astype(int)
    turns = []
    for k, rows in enumerate(np.split(order, ends[:-1])):
        few = np.sort(rows[:SKETCH_ROWS])
        share = _sketch_share(len(few), problem.budget.mu) if k else 0.0
        turns.append(Turn(np.sort(rows), few, 1 - share, share, f"rows of stage {k}"))
    return _run(problem, turns)


def least_squares(problem: Problem) -> Estimate:
    """Ordinary least squares: what every method is without privacy."""
    n, d = problem.X.shape
    X, y = compressed(problem.X, problem.y)
    rcond = np.finfo(np.float64).eps * max(n, d)
    theta = np.asarray(np.linalg.lstsq(X, y, rcond=rcond)[0], dtype=np.float64)
    residual = y - X @ theta
    freedom = max(n - d, 1)
    return Estimate(theta, float(residual @ residual) / freedom * np.linalg.pinv(X.T @ X))


def public_covariates(problem: Problem) -> Estimate:
    """Only labels are private: Gram matrices and lengths come from `public_X` (Algorithm 10)."""
    if problem.budget.off:
        return least_squares(problem)
    n = len(problem.X)
    rows: Rows = some_places(problem.coins, n, SKETCH_ROWS) if n > SKETCH_ROWS else slice(None)
    sketch_share = _sketch_share(min(n, SKETCH_ROWS), problem.budget.mu)
    total = sum(PUBLIC_SHARES) + sketch_share * (len(PUBLIC_SHARES) - 1)
    return _run(
        problem,
        [Turn(slice(None), rows, share / total, sketch_share / total) for share in PUBLIC_SHARES],
        public=problem.public_X,
    )


def _run(problem: Problem, turns: list["Turn"], public: Array | None = None) -> Estimate:
    """Every stage in turn: look, plan, release, learn; then choose the next frame."""
    mu, (n, d) = problem.budget.mu, problem.X.shape
    k = problem.budget.contributions
    posterior, frame = Posterior.prior(d), np.eye(d)
    if public is not None:
        frame = round_frame(public.T @ public * (n / len(public)), 0.0, np.eye(d), n, mu)
    for turn in turns:
        X, y = problem.X[turn.rows], problem.y[turn.rows]
        stage_mu = mu * math.sqrt(turn.share)
        first = turn is turns[0]
        if first and public is None:
            gram, moment, nu, deviations = second_moments(problem, X, y, stage_mu, turn.scope)
            stage = Stage(frame, 1.0, 1.0, nu, 1.0, 1.0, 1.0)
            plain = shrunk(gram, deviations[0]) / len(X)
        else:
            if first:  # spread >= 1 at first: nothing is clipped
                stage = Stage(frame, 1.0, 1.0, 1.0, 4.0, 0.0, 1.0)
            else:
                few = problem.X[turn.few], problem.y[turn.few]
                sketch_mu = mu * math.sqrt(turn.sketch_share)
                sketch = sketch_rows(problem, *few, frame, posterior, sketch_mu, turn.scope, public)
                stage = plan_stage(
                    sketch, frame, posterior, len(X), stage_mu / k, public is not None
                )
            gram, moment, deviations = statistics(
                problem, X, y, stage, posterior, stage_mu, turn.scope, public
            )
        gram_noise, moment_noise = deviations
        unseen = _unseen(gram, gram_noise, stage.frame)
        gram = shrunk(gram, gram_noise)
        back: Array = np.asarray(np.linalg.inv(stage.frame), dtype=np.float64)
        # moment = slope * gram (M^-1 (theta - centre)) + noise; the Gram matrix's own noise acts
        # on the unknown M^-1 (theta - centre), whose size the posterior tells.
        design = stage.slope * gram @ back
        uncertain = float(np.trace(back @ posterior.covariance @ back))
        variance = moment_noise**2 + gram_noise**2 / 2 * uncertain
        if turn.scope is not None:  # other rows, other labels: their randomness is news each time
            variance += stage.noise * stage.slope**2 * stage.dilution * float(np.trace(gram)) / d
        seen = moment + design @ posterior.mean
        nu = stage.noise if first else min(stage.noise, posterior.noise)
        posterior = posterior.updated(design, seen, variance, nu)
        information = back @ gram @ back
        if public is None:
            frame = round_frame(information, gram_noise, back, len(X), mu)
    if turns[-1].scope is not None:  # the labels' randomness is in the posterior already
        return Estimate(posterior.mean, posterior.covariance + unseen)
    if public is not None:
        plain = public.T @ public / len(public)
    # Variance from the labels: exact if weights do not depend on the direction, or on nothing else.
    weighted = stage.noise * stage.dilution * _inverse(information)
    return Estimate(
        posterior.mean,
        posterior.covariance + _larger(weighted, stage.noise * _inverse(plain * n)) + unseen,
    )


def _unseen(gram: Array, noise: float, frame: Array) -> Array:
    """The prior's variance for directions whose rows do not stand out of the Gram matrix's noise.

    Shrinking lends them information that they do not have: the estimate may use it, the width not.
    """
    values, vectors = np.linalg.eigh(gram)
    hidden = frame @ vectors[:, values < 2 * noise]
    hidden = hidden / np.maximum(np.linalg.norm(hidden, axis=0), 1e-300)
    return np.asarray(hidden @ hidden.T / len(gram))


def _inverse(matrix: Array) -> Array:
    """The inverse, but no variance above 1: directions without information are the prior's."""
    values, vectors = np.linalg.eigh(matrix)
    return np.asarray((vectors / np.maximum(values, 1.0)) @ vectors.T)


def _larger(first: Array, second: Array) -> Array:
    """A covariance at least as large as each of two."""
    values, vectors = np.linalg.eigh(first - second)
    return np.asarray(second + (vectors * np.maximum(values, 0.0)) @ vectors.T)


def _sketch_share(rows: int, mu: float) -> float:
    """A share of mu^2 that makes the histograms' noise a small part of the rows."""
    return float(np.clip((100 / (rows * mu)) ** 2, 0.02, 0.05))
