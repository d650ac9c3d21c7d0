"""DP-ERM: the weighted minimiser with output perturbation (information-weighted regression 2025).

Algorithms 13 and 14 on all rows: the budget is split, not the data.

    paper   W      gamma   lambda   H~          mu_nu         L^(w)         Delta_N
    here    W      gamma   lam      released    model.least   objective     moves

The noise has the curvature of the objective, which the released H~ shows, not the paper's constant.
Instead of a minimiser to some tolerance, a public number of gradient steps is released: a step
contracts, so that the bound on the minimiser's move holds for every number of steps.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from discreet.arrays import Array, row_norms
from discreet.least_squares import Posterior, power, symmetrised
from discreet.links import BoundedLink
from discreet.privacy.gaussian import bisected
from discreet.regression.base import Estimate, Problem
from discreet.regression.information import information_matrix

PHASES = 3  # spectral iterations
WHITENING_FRACTION = 0.2  # of mu^2, for all phases together
TEST_FRACTION = 0.2
OUTPUT_FRACTION = 0.6
# Of the way to the minimiser is left after the steps, at worst: where every prediction lies at the
# end of its range, and the objective is as flat as can be. Of rows on a sphere (d = 5 to 20, 10,000
# to 50,000 rows) 1e-3 was left for coef_bound=1 and 1e-6 for 3; noise is far more.
PRECISION = 1e-2
EXACT = 1e-6  # the same where there is no noise
MOST_STEPS = 1000


def erm(problem: Problem, model: BoundedLink, radius: float) -> Estimate:
    """The minimiser, perturbed; 0 where the released H fails its test.

    Without noise: sum w loss + least/2 n lam |W^(-1/2) theta|^2 is minimised, lam = sqrt(d/n), the
    loss continued beyond |<phi, theta>| <= radius with the least slope there.
    """
    # Strong convexity needs a slope of at least mu_nu wherever |t| <= radius.
    model = BoundedLink(model.link, -radius, radius, model.unit)
    n, d = problem.X.shape
    mu = problem.budget.mu
    k = problem.budget.contributions
    gamma = math.sqrt(d / n) / mu
    lam = math.sqrt(d / n)
    W = _whitening(problem, gamma, lam, mu * math.sqrt(WHITENING_FRACTION / PHASES))
    kappa = _kappa(W, gamma)
    # Terms z z^T with |z|^2 <= kappa: sqrt(2) kappa / n (replace-one, PSD terms).
    released = problem.release.gaussian_symmetric(
        weighted_gram(problem.X, W, gamma) + lam * np.eye(d),
        sensitivity=k * math.sqrt(2) * kappa / n,
        mu=mu * math.sqrt(TEST_FRACTION),
        what="weighted Gram matrix",
    ).value
    # The test looks at the released matrix alone: H~ >= W^-1 / 4.
    root = power(W, 0.5)
    S = root @ released @ root
    firm = float(np.linalg.eigvalsh(S)[0])
    if firm < 0.25:
        return Estimate(np.zeros(d), None)
    back = W @ power(S, -0.5)  # theta = back v
    # A row's gradient is w back' phi (s - y)/n, and |w back' phi| <= kappa / sqrt(firm): two rows
    # differ by at most twice kappa worst_residual / (sqrt(firm) n) (replace-one), which strong
    # convexity, or every step of `descend`, turns into a move of v: divided by mu_nu.
    moves = 2 * worst_residual(model, radius) * kappa / (model.least * math.sqrt(firm) * n)
    objective = Objective(
        np.asfortranarray(problem.X @ back),  # few long columns: products with them are faster
        np.clip(problem.y, *model.labels),
        weights(problem.X, W, gamma) / n,
        model,
        # w |back' phi|^2 <= |back|^2, and also <= w |W phi|^2 / firm <= kappa |W| / firm.
        largest=float(min(np.linalg.norm(back, 2) ** 2, kappa * np.linalg.norm(W, 2) / firm)),
    )
    v = objective.descend(EXACT if problem.budget.off else PRECISION)
    v, record = problem.release.gaussian(
        v,
        sensitivity=k * moves,
        # Public covariates whiten at no cost: their part of the budget is left.
        mu=mu * math.sqrt(OUTPUT_FRACTION + WHITENING_FRACTION * (problem.public_X is not None)),
        what="minimiser",
    )
    # theta + back N(0, s^2 I) was released; the prior N(0, radius^2/d I) draws back what is noise.
    known = Posterior.unobserved(np.eye(d) * (d / radius**2))
    theta = known.observe(np.eye(d), back @ v, record.scale**2 * back @ back.T).mean
    theta *= min(1.0, radius / max(float(np.linalg.norm(theta)), 1e-300))
    return Estimate(theta, None)


@dataclass(frozen=True)
class Objective:
    """f(v) = m |v|^2 / 2 + sum_i weight_i q(<a_i, v>, y_i),  m = mu_nu, q convex in t.

    q' = s(t) - y with s(t) = nu(c) - m c, c = t clipped to +-radius: where |t| <= radius this is
    the loss of the link, less a quadratic. In the coordinates v in which H~ is I, those quadratics
    and the ridge that tops them up to m H~ add up to m |v|^2 / 2, whatever the rows are.

    `largest` bounds weight_i |a_i|^2 n for every row in the public bounds.
    """

    rows: Array  # (n, d): a_i
    y: Array  # (n,), labels
    weight: Array  # (n,)
    model: BoundedLink  # the link
    largest: float  # bound, as above

    def gradient(self, v: Array) -> Array:
        """The gradient of f."""
        m = self.model.least
        c = np.clip(self.rows @ v, self.model.low, self.model.high)
        s = self.model.mean(c) - m * c
        return np.asarray(m * v + self.rows.T @ (self.weight * (s - self.y)))

    def descend(self, left: float = EXACT) -> Array:
        """A public number of gradient steps from 0: `left` of the way is left, at worst.

        f is m-strongly convex and L-smooth, L = m + (steepest - m) largest, since 0 <= q'' <=
        steepest - m. A step of length eta = 2/(L + m) brings two points closer by 1 - eta m. If a
        row is replaced, and gradients move by at most g, then iterates that were D apart are at
        most (1 - eta m) D + eta g apart after a step: never more than g/m, as the minimisers.
        """
        m = self.model.least
        L = m + (self.model.largest - m) * self.largest
        step = 2 / (L + m)
        v = np.zeros(self.rows.shape[1])
        for _ in range(min(MOST_STEPS, math.ceil(-math.log(left) / (step * m)))):
            v = v - step * self.gradient(v)
        return v


def weights(X: Array, W: Array, gamma: float) -> Array:
    """1/(1 + gamma |W phi|), or for gamma = inf 1/|W phi|, 0 at phi = 0."""
    norms = row_norms(X @ W, "l2")
    if math.isinf(gamma):
        seen = norms > 1e-150  # shorter rows count as zero: their squares have lost their digits
        return np.where(seen, 1 / np.where(seen, norms, 1.0), 0.0)
    return np.asarray(1 / (1 + gamma * norms))


def weighted_gram(X: Array, W: Array, gamma: float) -> Array:
    """The mean of z z^T, z = W^(1/2) phi sqrt(w): |z|^2 <= |phi| |W phi| w."""
    z = X @ power(W, 0.5) * np.sqrt(weights(X, W, gamma))[:, None]
    return z.T @ z / len(X)


def spectral(phases: Sequence[Callable[[Array], tuple[Array, float]]], d: int) -> Array:
    """W <- sym(F^(-1/2) W), F = W^(1/2) (H + lam I) W^(1/2); H(W) and lam are a phase's answer."""
    W = np.eye(d)
    for released in phases:
        root = power(W, 0.5)
        gram, lam = released(W)
        F = root @ (power(gram, 1.0) + lam * np.eye(d)) @ root
        W = symmetrised(power(F, -0.5) @ W)
    return W


def worst_residual(model: BoundedLink, radius: float) -> float:
    """The largest |nu(t) - mu_nu t - y| over |t| <= radius and all labels y."""
    # nu' >= mu_nu: nu(t) - mu_nu t increases, so both signs are largest at an end of t and of y.
    ends = np.array([-radius, radius])
    (least, most) = model.labels
    low, high = model.mean(ends) - model.least * ends
    return float(max(high - least, most - low))


def project(w: Array, W: Array, radius: float) -> Array:
    """The point of {w: |W w| <= radius} nearest to w: (I + c W^2)^-1 w, by bisection in log c."""
    if np.linalg.norm(W @ w) <= radius:
        return w
    values, vectors = np.linalg.eigh(W)
    a = vectors.T @ w

    def outside(log_c: float) -> bool:
        return bool(np.linalg.norm(values * a / (1 + math.exp(log_c) * values**2)) > radius)

    _, log_c = bisected(outside, -80.0, 80.0)
    return np.asarray(vectors @ (a / (1 + math.exp(log_c) * values**2)))


def _kappa(W: Array, gamma: float) -> float:
    """|W phi|/(1 + gamma |W phi|) for |phi| <= 1 is at most this: it grows with |W phi|."""
    omega = float(np.linalg.norm(W, 2))
    return omega / (1 + gamma * omega)


def _whitening(problem: Problem, gamma: float, lam: float, mu: float) -> Array:
    n, d = problem.X.shape
    if problem.public_X is not None:
        return information_matrix(problem.public_X, gamma=gamma, lam=lam)

    def released(W: Array) -> tuple[Array, float]:
        # |z|^2 <= kappa: sqrt(2) kappa / n (replace-one, PSD terms).
        gram, _ = problem.release.gaussian_symmetric(
            weighted_gram(problem.X, W, gamma),
            sensitivity=problem.budget.contributions * math.sqrt(2) * _kappa(W, gamma) / n,
            mu=mu,
            what="spectral iteration",
        )
        return gram, lam

    return spectral([released] * PHASES, d)
