"""What private regression is compared with; correctly calibrated, with the same interface."""

import math
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np

from discreet.arrays import Array, public_bound
from discreet.privacy.noise import Noise
from discreet.regression.base import Estimate, Problem
from discreet.regression.central import least_squares
from discreet.regression.regressor import PrivateRegressor
from discreet.regression.rows import Parts, sums


@dataclass(eq=False, repr=False)
class _Baseline(PrivateRegressor):
    """What baselines take: epsilon, delta (None: 1e-6), the public bounds norm_bound and
    label_bound, contributions (rows of one person), fit_intercept, noise, and random_state.
    """

    trust = "central"
    method = "auto"
    public_X = None

    epsilon: float = 1.0
    delta: float | None = None
    _: KW_ONLY
    norm_bound: float = 1.0
    label_bound: float = 1.0
    contributions: int = 1
    fit_intercept: bool = False
    noise: Noise | None = None
    random_state: Any = None

    def _solve(self, problem: Problem) -> Estimate:
        raise TypeError("a baseline must define how it solves")

    def _methods(self) -> dict[str, Callable[[Problem], Estimate]]:
        return {"auto": lambda p: least_squares(p) if p.budget.off else self._solve(p)}

    def _choose(self, n: int, d: int, budget: Any) -> str:
        return "auto"


class _BySums(_Baseline):
    def _by_sums(self) -> tuple[str, ...]:
        return ("auto",)


class OLS(_BySums):
    """Ordinary least squares: no privacy, and the guarantee says so.

    norm_bound, label_bound   bounds on |x| and |y|; what is beyond is clipped
    fit_intercept             whether to add a constant

    >>> plain = OLS(norm_bound=1.0, label_bound=1.0, fit_intercept=False)
    >>> plain.fit([[0.5], [1.0]], [0.25, 0.5]).coef_.round(3)
    array([0.5])
    """

    def __init__(
        self,
        *,
        norm_bound: float = 1.0,
        label_bound: float = 1.0,
        fit_intercept: bool = False,
    ) -> None:
        super().__init__(
            math.inf, norm_bound=norm_bound, label_bound=label_bound, fit_intercept=fit_intercept
        )


class SSP(_BySums):
    """Sufficient statistics perturbation: one noisy matrix, as it is (Vu, Slavkovic 2009).

    Eigenvalues are only kept positive: where the noise exceeds the signal it fails badly, which
    is why `AdaSSP` adds a ridge.

    epsilon                   the privacy loss of the fit; inf switches privacy off
    delta                     None: 1e-6
    norm_bound, label_bound   public bounds on |x| and |y|; what is beyond is clipped
    contributions             the most rows of one person
    fit_intercept             whether to add a constant
    noise                     source of the noise; None: by `random_state`, else the operating
                              system's entropy
    random_state              seed of a reproducible simulation
    """

    def _solve(self, problem: Problem) -> Estimate:
        gram, moment, std = _second_moments(problem, problem.budget.mu)
        return _ridge(gram, moment, std, 0.0)


class AdaSSP(_BySums):
    """Adaptive sufficient statistics perturbation (Wang 2018): a ridge as large as needed.

    A tenth of mu^2 is spent on the smallest eigenvalue; the ridge tops it up to the noise level.

    epsilon                   the privacy loss of the fit; inf switches privacy off
    delta                     None: 1e-6
    norm_bound, label_bound   public bounds on |x| and |y|; what is beyond is clipped
    contributions             the most rows of one person
    fit_intercept             whether to add a constant
    noise                     source of the noise; None: by `random_state`, else the operating
                              system's entropy
    random_state              seed of a reproducible simulation

    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-0.5, 0.5, (50_000, 3))
    >>> model = AdaSSP(norm_bound=1.0, label_bound=1.0, fit_intercept=False, random_state=0)
    >>> model = model.fit(X, X @ [0.5, 0.2, -0.4])
    >>> bool(np.abs(model.coef_ - [0.5, 0.2, -0.4]).max() < 0.05)
    True
    """

    def _solve(self, problem: Problem) -> Estimate:
        budget = problem.budget
        d = problem.X.shape[1]
        smallest = np.linalg.eigvalsh(sums(_products, problem.X, problem.y)[0][:d, :d])[0]
        # Replacing a row moves the Gram matrix by aa' - bb', of operator norm at most 1.
        least, record = problem.release.gaussian(
            smallest,
            sensitivity=budget.contributions * 1.0,
            mu=budget.mu * math.sqrt(0.1),
            what="smallest eigenvalue",
        )
        gram, moment, std = _second_moments(problem, budget.mu * math.sqrt(0.9))
        lower = max(float(least) - 1.96 * record.scale, 0.0)
        ridge = max(1.2 * std * math.sqrt(d) - lower, 0.0)
        return _ridge(gram, moment, std, ridge)


@dataclass(eq=False, repr=False)
class DPGradientDescent(_Baseline):
    """Full-batch gradient descent with clipped gradients and Gaussian noise in every step.

    epsilon                   the privacy loss of the fit; inf switches privacy off
    delta                     None: 1e-6
    steps                     of descent, each on all rows
    gradient_clip             public bound on a row's gradient, in units of the bounds
    learning_rate             in units of 1/n
    norm_bound, label_bound   public bounds on |x| and |y|; what is beyond is clipped
    contributions             the most rows of one person
    fit_intercept             whether to add a constant
    noise                     source of the noise; None: by `random_state`, else the operating
                              system's entropy
    random_state              seed of a reproducible simulation
    """

    _: KW_ONLY
    steps: int = 300
    gradient_clip: float = 1.0
    learning_rate: float = 1.8

    def _solve(self, problem: Problem) -> Estimate:
        X = problem.X
        y = problem.y
        budget = problem.budget
        n, d = X.shape
        clip = public_bound("gradient_clip", self.gradient_clip)
        theta = np.zeros(d)
        average = np.zeros(d)
        rate = self.learning_rate / n  # the largest curvature is at most n
        norms = np.sqrt(np.einsum("ij,ij->i", X, X))
        for step in range(self.steps):
            residual = y - X @ theta
            size = np.abs(residual) * norms
            residual = residual * np.minimum(1.0, clip / np.maximum(size, 1e-300))
            # Clipped gradients have norm at most gradient_clip: replace-one moves the sum by two.
            total, _ = problem.release.gaussian(
                X.T @ residual,
                sensitivity=budget.contributions * 2 * clip,
                mu=budget.mu / math.sqrt(self.steps),
                what=f"gradient {step}",
            )
            theta = theta + rate * total
            if step >= self.steps // 2:
                average += theta / (self.steps - self.steps // 2)
        return Estimate(average, None)


def _second_moments(problem: Problem, mu: float) -> tuple[Array, Array, float]:
    (products,) = sums(_products, problem.X, problem.y)
    d = problem.X.shape[1]
    # |phi|^2 + y^2 <= 2, and |vv' - ww'|_F <= sqrt(2) max |v|^2 (replace-one, PSD terms).
    total, record = problem.release.gaussian_symmetric(
        products,
        sensitivity=problem.budget.contributions * math.sqrt(2) * 2,
        mu=mu,
        what="second moments",
    )
    return total[:d, :d], total[:d, d], record.scale


def _products(X: Array, y: Array) -> Parts:
    rows = np.column_stack([X, y])
    return (rows.T @ rows,)


def _ridge(gram: Array, moment: Array, std: float, ridge: float) -> Estimate:
    d = len(gram)
    values, vectors = np.linalg.eigh(gram + ridge * np.eye(d))
    inverse = (vectors / np.maximum(values, 1e-3 * std)) @ vectors.T
    return Estimate(inverse @ moment, None)  # the ridge's bias is not known
