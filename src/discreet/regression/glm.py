"""Private generalised linear regression: E[y | x] = nu(<x, theta>), for a known link nu.

    paper   nu       mu_nu, L_nu                 B                           ||theta|| <= 1
    here    link     least, largest slope        norm_bound                  coef_bound

A method works on rows in the unit ball and theta in a ball of radius `radius`, the largest
|<x, theta>| there can be; labels are divided by label_bound.
"""

import math
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from discreet.arrays import Array, public_bound
from discreet.links import BoundedLink, Link, link
from discreet.privacy import Budget
from discreet.privacy.noise import Noise
from discreet.regression import central
from discreet.regression.base import Estimate, Problem
from discreet.regression.counts import counts
from discreet.regression.glm_erm import erm
from discreet.regression.glm_sgd import local_sgd, sgd
from discreet.regression.newton import scoring
from discreet.regression.regressor import PrivateRegressor
from discreet.regression.scores import LinkScore


def newton(problem: Problem, model: BoundedLink, radius: float) -> Estimate:
    """theta with |theta| <= radius and the covariance of its error.

    Logistic and probit regression are Fisher scoring, counts are clipped, and the identity link is
    least squares, whose stages clip residuals as far as sketches of them allow.
    """
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


Solver = Callable[[Problem, BoundedLink, float], Estimate]
METHODS: dict[str, dict[str, Solver]] = {
    "central": {"newton": newton, "erm": erm, "sgd": sgd},
    "local": {"sgd": local_sgd},
}


@dataclass(eq=False, repr=False)
class PrivateGLM(PrivateRegressor):
    """Logistic, probit, Poisson and linear regression whose coefficients are private.

    E[y | x] = nu(<x, theta>), with `link` identity, logistic, probit or poisson. `predict` returns
    the mean (for 0/1 labels the probability), `score` the R^2 of those means on raw data (not a
    release), `confidence_width` half widths around them (method "newton").

    Requires   |x| <= norm_bound; labels in [0, 1] (logistic, probit), in [0, label_bound]
    (poisson) or in [-label_bound, label_bound] (identity): whatever is beyond is clipped.
    |theta| <= coef_bound in the units of x, public like every bound. Unset, it allows
    |<x, theta>| <= 10 (logistic), 6 (probit), 5 (poisson) or 3 label_bound (identity): models with
    odds of 22,000 to 1. It is also the prior: theta ~ N(0, (norm_bound coef_bound)^2/d I), in units
    of 1/norm_bound, but for the identity link, whose stages learn theirs. An intercept may be as
    large as norm_bound * coef_bound.

    Guarantee  (epsilon, delta), central, or pure epsilon, local: each person reports once.

    Parameters
    epsilon        the privacy loss of the whole fit; inf switches privacy off
    delta          None: 1e-6 for central trust, 0 for local trust
    link           "identity", "logistic", "probit" or "poisson"
    norm_bound     public bound on |x|: longer rows are shortened
    label_bound    public bound on labels: labels beyond are clipped. 1.0 for logistic and probit,
                   whose labels are 0 and 1 (1 and 2 would all be 1)
    label_range    public bounds of y instead, such as (60, 220), for the identity link
    contributions  the most rows that one person has
    trust          "central" or "local"
    method         central "newton" (the default; Fisher scoring on noisy gradients, of counts
                   clipped around their mean; for the identity link the stages of
                   PrivateLinearRegression), "erm"
                   (information-weighted regression 2025, Algorithms 13 and 14; needs a small
                   coef_bound, its noise grows like 1/mu_nu), "sgd" (re-weighted regression 2025,
                   Algorithms 1, 2 and 7); local "sgd" (Algorithms 8 to 10)
    coef_bound     public bound on |theta|, see above
    fit_intercept  whether to add a constant feature, as long as norm_bound; it costs noise
    public_X       public covariates in the units of X; only labels are paid for then
    noise          where noise comes from: SecureNoise() for release; None: OS entropy
    random_state   seeds the order of rows and, without `noise`, the noise: for simulation

    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((20_000, 3)); X /= np.linalg.norm(X, axis=1, keepdims=True)
    >>> y = rng.random(20_000) < 1 / (1 + np.exp(-X @ [3.0, 0.0, -2.0]))
    >>> model = PrivateGLM(epsilon=1.0, norm_bound=1.0, label_bound=1.0, fit_intercept=False,
    ...                    random_state=0).fit(X, y)
    >>> model.predict([[1.0, 0.0, 0.0]]).round(1)
    array([1.])
    >>> model.guarantee_.epsilon, model.guarantee_.delta
    (1.0, 1e-06)
    """

    _trusts = tuple(METHODS)
    _fitted = (*PrivateRegressor._fitted, "_domain")

    epsilon: float = 1.0
    delta: float | None = None
    _: KW_ONLY
    link: str = "logistic"
    norm_bound: float = 1.0
    label_bound: float = 1.0
    label_range: tuple[float, float] | None = None
    contributions: int = 1
    trust: str = "central"
    method: str = "auto"
    coef_bound: float | None = None
    fit_intercept: bool = False
    public_X: Any = None
    noise: Noise | None = None
    random_state: Any = None

    def predict(self, X: Any) -> Array:
        """Predicted means nu(<x, theta>): probabilities for a logistic or probit link."""
        return np.asarray(link(self.link).mean(super().predict(X)))

    def confidence_width(self, X: Any, coverage: float = 0.95) -> Array:
        """Half widths around `predict(X)` that hold with this probability, row by row.

        From the distribution of the privacy noise and the sampling error: Var(y | x) as large as
        a probability allows, as a histogram in the fit has told (poisson), or as the residuals are
        (identity). An interval for <x, theta>, carried through nu.
        """
        t = super().predict(X)
        if self._estimate.covariance is None:
            raise ValueError(
                f"method={self.method_!r} has no honest confidence width; use method='newton'"
            )
        width = super().confidence_width(X, coverage)
        mean = link(self.link).mean
        return np.asarray(np.maximum(mean(t + width) - mean(t), mean(t) - mean(t - width)))

    # -- inside -----------------------------------------------------------------------------------

    def _methods(self) -> dict[str, Callable[[Problem], Estimate]]:
        trust, _ = self._trusted()
        link(self.link)
        return {name: partial(self._solve, solver) for name, solver in METHODS[trust].items()}

    def _by_sums(self) -> tuple[str, ...]:
        return ("newton",) if self.trust == "central" else ()

    def _choose(self, n: int, d: int, budget: Budget) -> str:
        return "newton" if self.trust == "central" else "sgd"

    def _bounds(self) -> tuple[float, float]:
        kind = link(self.link)
        if self.label_range is not None and kind.name != "identity":
            raise ValueError(
                f"label_range goes with the identity link; labels of a {kind.name} link lie in "
                "[0, label_bound]: state that"
            )
        norm_bound, label_bound = super()._bounds()
        if kind.inverse(1.0) == math.inf and label_bound != 1:  # a probability
            raise ValueError(
                f"labels of a {kind.name} link lie in [0, 1]; leave label_bound at 1, "
                f"got {label_bound!r}"
            )
        self._radius(kind, norm_bound, label_bound)  # refuse a bad coef_bound before rows are read
        return norm_bound, label_bound

    def _radius(self, kind: Link, norm_bound: float, label_bound: float) -> float:
        """The largest |theta| for rows in the unit ball."""
        if self.coef_bound is None:
            radius = kind.predictor_bound * (label_bound if kind.signed else 1.0)
        else:
            radius = public_bound("coef_bound", self.coef_bound) * norm_bound
            public_bound("norm_bound * coef_bound", radius)
        # With an intercept b, rows are [x/norm_bound, 1]/sqrt(2) and theta is sqrt(2) times
        # [norm_bound coef, b], of norm at most 2 radius if both parts are at most radius.
        return 2 * radius if self.fit_intercept else radius

    def _solve(self, solver: Solver, problem: Problem) -> Estimate:
        norm_bound, unit = self._bounds()
        radius = self._radius(link(self.link), norm_bound, unit)
        estimate = solver(problem, link(self.link).within(radius, unit), radius)
        # `fit` multiplies by the label bound, as linear models need it; here it is in the link.
        covariance = estimate.covariance
        covariance = None if covariance is None else covariance / unit**2
        return replace(estimate, theta=estimate.theta / unit, covariance=covariance)
