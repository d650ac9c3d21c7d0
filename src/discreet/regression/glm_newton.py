"""Newton's method for one number t = <phi, theta> and a link nu.

Logistic and probit regression are Fisher scoring (`fisher.py`). Counts are clipped (`counts.py`).
The identity link is least squares, for which there are the stages of `PrivateLinearRegression`
(`central.py`): they clip residuals as far as sketches of them allow.
"""

import math
from dataclasses import dataclass

import numpy as np

from discreet.arrays import Array
from discreet.links import BoundedLink
from discreet.regression import central
from discreet.regression.base import Estimate, Problem
from discreet.regression.counts import counts
from discreet.regression.fisher import Weighting, scoring
from discreet.regression.rows import Parts

GRAM_COST = 0.25  # (move of the information / move of the gradient)^2; at most 1/4


def newton(problem: Problem, model: BoundedLink, radius: float) -> Estimate:
    """theta with |theta| <= radius and the covariance of its error."""
    if model.link.name == "identity":
        return _least_squares(problem, model, radius)
    if model.link.name == "poisson" and not problem.budget.off:
        return counts(problem, model, radius)
    return scoring(problem, LinkScore(model), radius)


def _least_squares(problem: Problem, model: BoundedLink, radius: float) -> Estimate:
    """The stages of linear regression, which count theta in units of the label bound."""
    known = problem.public_X is not None
    found = (central.public_covariates if known else central.information_weighted)(problem)
    theta = found.theta * model.unit
    theta = theta * min(1.0, radius / max(float(np.linalg.norm(theta)), 1e-300))
    covariance = None if found.covariance is None else found.covariance * model.unit**2
    return Estimate(theta, covariance)


@dataclass(frozen=True)
class LinkScore:
    """The score of a generalised linear model."""

    model: BoundedLink  # nu

    # A row is p tau h long in g and q L cap in H, 0 <= p, q <= 1; with c moves_H = sqrt(G) moves_g
    # two rows with cosine a move both, in units of tau h, by
    # p^2 + p'^2 + 2 a p p' + 2 G (q^2 + q'^2 - 2 a^2 q q') in squares (replace-one). That is
    # convex in the q's and grows with the p's: largest at p = p' = 1, q = 1, q' = 0 or 1. Those
    # are 2 + 2 a + 2 G and, growing with a for G <= 1/4, 2 + 2 a + 4 G (1 - a^2): both at most
    # 4 (1 + G/2).
    entries = 1
    gram_cost = GRAM_COST
    joint = 1 + GRAM_COST / 2
    longest_step = math.inf

    @property
    def half_range(self) -> float:
        """h."""
        return half_range(self.model)

    @property
    def slope(self) -> float:
        """The largest nu'."""
        return self.model.largest

    @property
    def dispersion(self) -> float:
        """Var(y | phi) <= dispersion nu'."""
        return self.model.dispersion

    def surprise(self, theta: Array) -> float:
        """The largest r(t) / h: |t| <= |theta|, because |phi| <= 1."""
        return self.model.residual(float(np.linalg.norm(theta))) / self.half_range

    def statistics(self, weighting: Weighting, theta: Array, X: Array, y: Array) -> Parts:
        """g and H of a block of rows, labels clipped to what the link allows."""
        return statistics(X, np.clip(y, *self.model.labels), self.model, weighting, theta)

    def sensitivities(self, weighting: Weighting) -> tuple[float, float]:
        """How far one replaced row moves g and H."""
        return sensitivities(self.model, weighting)

    def gram(self, information: Array) -> Array:
        """The information, in units of the largest nu'."""
        return information / self.model.largest

    def target(self, noisy: Array, noise_std: float) -> None:
        """A multiple of I: rows are whitened."""

    def within(self, theta: Array, radius: float) -> Array:
        """Shortened to the radius."""
        return np.asarray(theta * min(1.0, radius / max(float(np.linalg.norm(theta)), 1e-300)))


def statistics(
    X: Array, y: Array, model: BoundedLink, weighting: Weighting, theta: Array
) -> tuple[Array, Array]:  # -> (d,), (d, d)
    """g and H: the only place where labels and features are read."""
    t = X @ theta
    u, w = weighting.transform(X, model.residuals(t) / half_range(model))
    g = u.T @ (w * (y - model.mean(t)))
    return g, (u * (w * model.slope(t))[:, None]).T @ u


def half_range(model: BoundedLink) -> float:
    """h, half the range of labels: for every t some label is at least so far from nu(t)."""
    least, most = model.labels
    return (most - least) / 2


def sensitivities(model: BoundedLink, weighting: Weighting) -> tuple[float, float]:
    """How far one replaced row moves g (l2) and H (Frobenius)."""
    # |w u (y - nu(t))| <= w |u| r(t) <= tau h; two such rows differ by 2 tau h (replace-one).
    gradient = 2 * weighting.tau * half_range(model)
    # H sums a a^T with |a|^2 = w nu' |u|^2 <= L cap: sqrt(2) L cap (replace-one, PSD terms).
    return gradient, math.sqrt(2) * model.largest * weighting.cap
