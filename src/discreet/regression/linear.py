"""Private linear regression with scikit-learn's interface."""

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np

import discreet.regression.central as central
import discreet.regression.local as local
from discreet.arrays import Array
from discreet.privacy import Budget, Shuffled
from discreet.privacy.noise import Noise
from discreet.regression.base import Estimate, Problem
from discreet.regression.descent import descent
from discreet.regression.regressor import PrivateRegressor, check_coverage
from discreet.regression.reweighted import reweighted

MANY_FEATURES = 400


@dataclass(eq=False, repr=False)
class PrivateLinearRegression(PrivateRegressor):
    """Linear regression from which nobody can tell what any one row was.

    Requires   public bounds: rows are clipped to |x| <= norm_bound, labels to |y| <= label_bound;
               a person is in at most `contributions` rows.
    Guarantee  central: coef_ is (epsilon, delta)-DP. local: each person's one report is
               epsilon-DP before it leaves the device. shuffled: all that anybody but the relay
               sees is (epsilon, delta)-DP.

    Parameters
    epsilon        the privacy loss of the whole fit; inf switches privacy off
    delta          None: 0 for local trust, 1e-6 otherwise
    norm_bound     public bound on |x|: longer rows are shortened
    label_bound    public bound on |y|: labels beyond are clipped
    label_range    public bounds of y instead, such as (60, 220): what is not symmetric around 0
    contributions  the most rows that one person has
    trust          "central": coef_ is private; "local": every report is, before it is sent;
                   "shuffled": such reports, hidden in batches by a relay, or
                   Shuffled(minimum=0.8, honest=0.5): what those batches are counted on for
    method         central: "information-weighted" (small steps on all rows), "single-pass" (each
                   row in one part), "reweighted", "sgd" (dimension-free), "public-covariates"
                   (needs public_X); local: "information-weighted" (phases), "sgd",
                   "known-covariates" (needs public_X); shuffled: the first and the last of these;
                   "auto" chooses from the number of features and from whether public_X is given
    fit_intercept  whether to add a constant feature, as long as norm_bound; it costs noise (see
                   docs/regression.md)
    public_X       public covariates in the units of X; only labels are paid for then
    noise          where noise comes from: SecureNoise() for release; None: OS entropy
    random_state   seeds the order of rows and, without `noise`, the noise: for simulation

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, (20_000, 3))
    >>> y = X @ [0.5, -0.2, 0.1] + 0.1 * rng.standard_normal(20_000)
    >>> model = PrivateLinearRegression(epsilon=1.0, norm_bound=3**0.5, label_bound=1.0,
    ...                                 fit_intercept=False, random_state=0).fit(X, y)
    >>> bool(np.abs(model.coef_ - [0.5, -0.2, 0.1]).max() < 0.01)
    True
    >>> round(model.guarantee_.epsilon_at(1e-6), 6)
    1.0
    >>> model.predict_interval([[0.5, 0.0, 0.0]], 0.8).round(1)  # 0.25, give or take 1.28 * 0.1
    array([[0.1, 0.4]])
    """

    epsilon: float = 1.0
    delta: float | None = None
    _: KW_ONLY
    norm_bound: float = 1.0
    label_bound: float = 1.0
    label_range: tuple[float, float] | None = None
    contributions: int = 1
    trust: str | Shuffled = "central"
    method: str = "auto"
    fit_intercept: bool = False
    public_X: Any = None
    noise: Noise | None = None
    random_state: Any = None

    def predict_interval(self, X: Any, coverage: float = 0.95) -> Array:  # (n, 2)
        """Where the label of a row lies with this probability: lower and upper ends.

        The fit has released how many rows have which residual (`intervals.py`), and how well theta
        is known. So the interval costs no privacy, and supposes no distribution of the errors but
        that their scale is the same for all rows. Labels are those that `fit` sees, clipped to
        label_bound: an interval never leaves it, and is all of it where the counts are too noisy.
        """
        check_coverage(coverage)
        rows = self._fitted_rows(X)
        residuals = self._estimate.residuals
        if residuals is None:
            raise ValueError(
                f"method {self.method_!r} (trust={self.trust!r}) releases no residuals, hence no "
                "interval for labels; use method='information-weighted' under central trust"
            )
        bound = self._label_scale
        std = np.sqrt(residuals.variance + self._variance(rows))
        half = bound * residuals.quantile(coverage) * std
        centre = np.asarray(rows @ self.coef_ + self.intercept_)
        ends = np.stack([centre - half, centre + half], axis=1)
        return np.clip(ends, self._label_middle - bound, self._label_middle + bound)

    # -- inside -----------------------------------------------------------------------------------

    def _methods(self) -> dict[str, Callable[[Problem], Estimate]]:
        trust, _ = self._trusted()
        known = self.public_X is not None
        methods: dict[str, Callable[[Problem], Estimate]]
        if trust == "shuffled":
            methods = {"information-weighted": local.information_weighted}
            if known:
                methods["known-covariates"] = local.known_covariates
            return methods
        if trust == "local":
            methods = {
                "information-weighted": local.information_weighted,
                "sgd": local.descent,
            }
            if known:
                methods["known-covariates"] = local.known_covariates
            return methods
        methods = {
            "information-weighted": central.information_weighted,
            "single-pass": central.single_pass,
            "reweighted": reweighted,
            "sgd": descent,
        }
        if known:
            methods["public-covariates"] = central.public_covariates
        return methods

    def _by_sums(self) -> tuple[str, ...]:
        if self.trust != "central":
            return ()
        known = ("public-covariates",) if self.public_X is not None else ()
        return ("information-weighted", "single-pass", "reweighted", *known)

    def _on_sparse(self) -> tuple[str, ...]:
        return (*self._by_sums(), "sgd") if self.trust == "central" else ()

    def _choose(self, n: int, d: int, budget: Budget) -> str:
        known = self.public_X is not None
        if self.trust != "central":
            return "known-covariates" if known else "information-weighted"
        if known:
            return "public-covariates"
        # Steps win wherever a Gram matrix can be learned at all, and shrink to zero where it
        # cannot (benchmarks/regression.py auto); beyond, its d^2 noisy entries mislead.
        return "sgd" if d > MANY_FEATURES and not budget.off else "information-weighted"
