"""DP-ERM: the weighted minimiser with output perturbation (information-weighted regression 2025).

Algorithms 13 and 14 on all rows: the budget is split, not the data.

    paper   W      gamma   lambda   H~          mu_nu         L^(w)         Delta_N
    here    W      gamma   lam      released    model.least   objective     moves

The noise has the curvature of the objective, which the released H~ shows, not the paper's constant.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from discreet.links import BoundedLink
from discreet.privacy.checks import Array
from discreet.privacy.mechanisms import gaussian, gaussian_symmetric
from discreet.regression.base import Estimate, Problem
from discreet.regression.information import information_matrix
from discreet.regression.matrices import power, symmetrised

PHASES, FRAME, TEST, OUTPUT = 3, 0.2, 0.2, 0.6  # spectral iterations; shares of mu^2


def erm(problem: Problem, model: BoundedLink, reach: float) -> Estimate:
    """The minimiser over |theta| <= reach, perturbed; 0 where the released H fails its test.

    Without noise: sum w loss + least/2 n lam |W^(-1/2) theta|^2 is minimised, lam = sqrt(d/n).
    """
    # Strong convexity needs a slope of at least mu_nu wherever |t| <= reach.
    model = BoundedLink(model.link, -reach, reach, model.unit)
    n, d = problem.X.shape
    mu, k = problem.budget.mu, problem.budget.contributions
    gamma, lam = math.sqrt(d / n) / mu, math.sqrt(d / n)
    W = _frame(problem, gamma, lam, mu * math.sqrt(FRAME / PHASES))
    kappa = _kappa(W, gamma)
    H = weighted_gram(problem.X, W, gamma) + lam * np.eye(d)
    # Terms z z^T with |z|^2 <= kappa: sqrt(2) kappa / n (replace-one, PSD terms).
    released = gaussian_symmetric(
        H,
        sensitivity=k * math.sqrt(2) * kappa / n,
        mu=mu * math.sqrt(TEST),
        noise=problem.noise,
        ledger=problem.ledger,
        what="weighted Gram matrix",
    ).value
    root = power(W, 0.5)
    # The test looks at the released matrix alone: H~ >= W^-1 / 4.
    shape = root @ released @ root
    firm, top = np.linalg.eigvalsh(shape)[[0, -1]]
    if firm < 0.25:
        return Estimate(np.zeros(d), None)
    objective = Objective(
        problem.X @ W,
        np.clip(problem.y, *model.labels),
        weights(problem.X, W, gamma) / n,
        model,
        model.least * root @ (lam * np.eye(d) + released - H) @ root,
    )
    # Where |W v| <= reach, a row adds w W phi phi^T W (nu' - mu_nu)/n >= 0 to the Hessian; the rest
    # is mu_nu S, S = shape, whatever the rows. It adds w W phi (nu - mu_nu t - y)/n to gradients,
    # at most kappa worst_residual/n long; two rows differ by g, at most twice that (replace-one).
    # Minimisers v, v': mu_nu |S^.5 (v - v')|^2 <= <g, v - v'> <= |g| |S^.5 (v - v')| / sqrt(firm).
    moves = 2 * worst_residual(model, reach) * kappa / (model.least * math.sqrt(firm) * n)
    tol = 1e-3 * moves
    # |S^.5 (v - w)| <= sqrt(top) |v - w|: each minimiser is off by tol at most.
    w = objective.minimise(W, reach, curvature=model.least * firm, tol=tol / math.sqrt(top))
    w, record = gaussian(
        power(shape, 0.5) @ w,
        sensitivity=k * (moves + 2 * tol),
        # A public frame costs nothing: its share is left.
        mu=mu * math.sqrt(OUTPUT if problem.public_X is None else OUTPUT + FRAME),
        noise=problem.noise,
        ledger=problem.ledger,
        what="minimiser",
    )
    back = W @ power(shape, -0.5)
    # Noise of covariance s^2 back back^T against the prior N(0, reach^2/d I): shrink what is mostly
    # noise.
    shrink = np.linalg.inv(np.eye(d) + back @ back.T * (record.scale**2 * d / reach**2))
    theta = shrink @ back @ w
    theta *= min(1.0, reach / max(float(np.linalg.norm(theta)), 1e-300))
    return Estimate(theta, None)


@dataclass(frozen=True)
class Objective:
    """sum_i weight_i loss(<a_i, w>, y_i) + w^T ridge w / 2."""

    rows: Array  # (n, d)
    y: Array
    weight: Array
    model: BoundedLink
    ridge: Array

    def value(self, w: Array) -> float:
        """The objective at w."""
        return float(self.weight @ self.model.loss(self.rows @ w, self.y) + w @ self.ridge @ w / 2)

    def gradient(self, w: Array) -> Array:
        """Its gradient."""
        residual = self.model.mean(self.rows @ w) - self.y
        return self.rows.T @ (self.weight * residual) + self.ridge @ w

    def hessian(self, w: Array) -> Array:
        """Its second derivative."""
        slope = self.weight * self.model.slope(self.rows @ w)
        return (self.rows * slope[:, None]).T @ self.rows + self.ridge

    def minimise(self, W: Array, reach: float, *, curvature: float, tol: float) -> Array:
        """A point within tol of the minimiser over |W w| <= reach, by certificate."""
        w = self._newton(np.zeros(len(W)))
        gram = (self.rows * self.weight[:, None]).T @ self.rows
        smooth = self.model.largest * np.linalg.norm(gram, 2) + np.linalg.norm(self.ridge, 2)
        fast = (1 - math.sqrt(curvature / smooth)) / (1 + math.sqrt(curvature / smooth))
        w = ahead = project(np.where(np.isfinite(w).all(), w, 0.0), W, reach)
        while True:
            after = project(ahead - self.gradient(ahead) / smooth, W, reach)
            # |x - minimiser| <= 2 |gradient mapping at x| / curvature (Nesterov 2004, 2.2.7).
            if 2 * smooth * float(np.linalg.norm(ahead - after)) <= curvature * tol:
                return ahead
            ahead, w = after + fast * (after - w), after
            if np.linalg.norm(W @ ahead) > reach:
                ahead = after  # the certificate needs a point of the domain

    def _newton(self, w: Array) -> Array:
        for _ in range(50):
            g = self.gradient(w)
            step = np.linalg.lstsq(self.hessian(w), g, rcond=None)[0]
            size, here, slope = 1.0, self.value(w), float(g @ step)
            while size > 1e-4 and self.value(w - size * step) > here - 0.1 * size * slope:
                size /= 2
            w = w - size * step
            if np.linalg.norm(size * step) <= 1e-12 * (1 + np.linalg.norm(w)):
                break
        return w


def weights(X: Array, W: Array, gamma: float) -> Array:
    """1/(1 + gamma |W phi|), or for gamma = inf 1/|W phi|, 0 at phi = 0."""
    norms = np.linalg.norm(X @ W, axis=1)
    if math.isinf(gamma):
        seen = norms > 1e-150  # shorter rows count as zero: their squares have lost their digits
        return np.where(seen, 1 / np.where(seen, norms, 1.0), 0.0)
    return np.asarray(1 / (1 + gamma * norms))


def weighted_gram(X: Array, W: Array, gamma: float) -> Array:
    """The mean of z z^T, z = W^(1/2) phi sqrt(w): |z|^2 <= |phi| |W phi| w."""
    z = X @ power(W, 0.5) * np.sqrt(weights(X, W, gamma))[:, None]
    return z.T @ z / len(X)


def spectral(phases: Sequence[Callable[[Array], Array]], d: int, lam: float) -> Array:
    """W <- sym(F^(-1/2) W), F = W^(1/2) H(W) W^(1/2) + lam W, H from one phase after the other."""
    W = np.eye(d)
    for released in phases:
        root = power(W, 0.5)
        F = root @ power(released(W), 1.0) @ root + lam * W
        W = symmetrised(power(F, -0.5) @ W)
    return W


def worst_residual(model: BoundedLink, reach: float) -> float:
    """The largest |nu(t) - mu_nu t - y| over |t| <= reach and all labels y."""
    # nu' >= mu_nu: nu(t) - mu_nu t increases, so both signs are largest at an end of t and of y.
    ends, (least, most) = np.array([-reach, reach]), model.labels
    low, high = model.mean(ends) - model.least * ends
    return float(max(high - least, most - low))


def project(w: Array, W: Array, reach: float) -> Array:
    """The point of {w: |W w| <= reach} nearest to w: (I + c W^2)^-1 w, by bisection in log c."""
    if np.linalg.norm(W @ w) <= reach:
        return w
    values, vectors = np.linalg.eigh(W)
    a = vectors.T @ w
    low, high = -80.0, 80.0
    for _ in range(100):
        middle = (low + high) / 2
        inside = np.linalg.norm(values * a / (1 + math.exp(middle) * values**2)) <= reach
        low, high = (low, middle) if inside else (middle, high)
    return np.asarray(vectors @ (a / (1 + math.exp(high) * values**2)))


def _kappa(W: Array, gamma: float) -> float:
    """|W phi|/(1 + gamma |W phi|) for |phi| <= 1 is at most this: it grows with |W phi|."""
    omega = float(np.linalg.norm(W, 2))
    return omega / (1 + gamma * omega)


def _frame(problem: Problem, gamma: float, lam: float, mu: float) -> Array:
    n, d = problem.X.shape
    if problem.public_X is not None:
        return information_matrix(problem.public_X, gamma=gamma, lam=lam)

    def released(W: Array) -> Array:
        # |z|^2 <= kappa: sqrt(2) kappa / n (replace-one, PSD terms).
        return np.asarray(
            gaussian_symmetric(
                weighted_gram(problem.X, W, gamma),
                sensitivity=problem.budget.contributions * math.sqrt(2) * _kappa(W, gamma) / n,
                mu=mu,
                noise=problem.noise,
                ledger=problem.ledger,
                what="spectral iteration",
            ).value
        )

    return spectral([released] * PHASES, d, lam)
