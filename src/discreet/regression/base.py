"""What every private estimator shares: scikit-learn's conventions, and bounds at the edge.

Inside, features lie in the unit ball and labels in [-1, 1]; `fit` clips and scales once, methods
never see anything else. scikit-learn itself is not needed.
"""

import inspect
import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Self, cast

import numpy as np
import scipy

from discreet.arrays import (
    LARGEST_BOUND,
    SMALLEST_BOUND,
    Array,
    in_unit_ball,
    one_of,
    public_bound,
    row_norms,
)
from discreet.privacy import Budget, Guarantee, Ledger, Noise, SeededNoise
from discreet.privacy.noise import source
from discreet.regression.assumed import ASSUMED, warn_of_assumptions
from discreet.regression.rows import is_distributed
from discreet.regression.saving import Saveable
from discreet.regression.surroundings import PrivacyLeakWarning, leaks_around
from discreet.regression.validation import (
    checked_labels,
    checked_rows,
    names_of,
    not_fitted,
    refuse_other_names,
    remember_names,
)
from discreet.state import value as saved_value

IN_A_CLUSTER = (  # what stays unprotected where rows are in blocks of a dask collection
    "rows and sums without noise inside the cluster",
    "whether every pass read the same rows (a fit on a source that changes is refused)",
)


@saved_value
@dataclass(frozen=True)
class Estimate:
    """theta for unit-ball features and labels in [-1, 1], and the covariance of its error.

    No covariance where the bias is not known, as for early stopped gradient descent.
    """

    theta: Array  # (d,)
    covariance: Array | None  # (d, d)


@dataclass(frozen=True)
class Problem:
    """A regression problem inside the public bounds, and the means to solve it privately.

    X and y may be stand-ins for rows in blocks on a cluster; `rows.py` says what may be asked.
    """

    X: Array  # (n, d), rows in the unit ball
    y: Array  # (n,), in [-1, 1]
    ledger: Ledger  # asked before every release
    noise: Noise  # for releases
    rng: np.random.Generator  # for everything else (order of rows)
    public_X: Array | None = None  # public covariates in the same units

    @property
    def budget(self) -> Budget:
        """What the whole fit may cost."""
        return self.ledger.budget


class PrivateRegressor(Saveable):
    """fit, predict, score, get_params, set_params; subclasses say which methods there are.

    `random_state` makes a fit reproducible: it seeds the order of rows and, where no `noise` is
    given, the noise too, which the guarantee then calls a simulation.
    """

    epsilon: float
    delta: float | None
    norm_bound: float | None
    label_bound: float | None
    contributions: int
    trust: str
    method: str
    fit_intercept: bool | None
    public_X: Any
    bounds_from: str | None
    noise: Noise | None
    random_state: Any

    coef_: Array
    intercept_: float
    guarantee_: Guarantee
    n_features_in_: int
    method_: str

    def _methods(self) -> dict[str, Callable[[Problem], Estimate]]:
        """The methods for this trust model, by name."""
        raise TypeError("a regressor must define _methods")

    def _by_sums(self) -> tuple[str, ...]:
        """The methods that see rows through sums only, and so run on blocks of dask collections."""
        return ()

    def _choose(self, n: int, d: int, budget: Budget) -> str:
        """What method="auto" means, from public quantities only."""
        raise TypeError("a regressor must define _choose")

    # -- scikit-learn's conventions ---------------------------------------------------------------

    @classmethod
    def _parameters(cls) -> list[str]:
        return [name for name in inspect.signature(cls.__init__).parameters if name != "self"]

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The constructor's arguments; `deep` is part of the convention, nothing is nested here."""
        return {name: getattr(self, name) for name in self._parameters()}

    def set_params(self, **changes: Any) -> Self:
        """Change arguments by name."""
        for name, value in changes.items():
            if name not in self._parameters():
                known = ", ".join(self._parameters())
                raise ValueError(f"unknown parameter {name!r}; there are {known}")
            setattr(self, name, value)
        return self

    def __repr__(self) -> str:
        defaults = inspect.signature(type(self).__init__).parameters
        changed = [
            f"{name}={value!r}"
            for name, value in self.get_params().items()
            if not (value is defaults[name].default or repr(value) == repr(defaults[name].default))
        ]
        return f"{type(self).__name__}({', '.join(changed)})"

    def __sklearn_tags__(self) -> Any:
        """What scikit-learn's machinery asks; only scikit-learn calls this."""
        from sklearn.utils import InputTags, RegressorTags, Tags, TargetTags

        return Tags(
            estimator_type="regressor",
            target_tags=TargetTags(required=True),
            regressor_tags=RegressorTags(poor_score=True),  # noise, at the sizes of its checks
            input_tags=InputTags(),
            non_deterministic=self.random_state is None,
        )

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "coef_")

    # -- fitting ----------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any) -> Self:
        """Fit to rows X (n, d) and labels y (n,); clips both to the public bounds.

        Both may be dask arrays or data frames: rows stay in their blocks, each stage is one pass of
        partial sums, and releases happen here, once.
        """
        self._warn_of_assumptions()
        leaks = leaks_around(stacklevel=2)
        intercept = bool(self.fit_intercept)
        distributed = is_distributed(X) or is_distributed(y)
        if distributed:
            self._check_by_sums(self.method)  # before any pass
        rows, labels, norm_bound, label_bound = (self._blocks if distributed else self._rows)(X, y)
        budget = Budget(self.epsilon, self._delta(), self.contributions)
        scale = norm_bound * math.sqrt(2) if intercept else norm_bound
        d = rows.shape[1] - int(intercept)
        public = None
        names = names_of(X)
        if self.public_X is not None:
            refuse_other_names(names_of(self.public_X), names, "public_X: ")
            public = unit_rows(checked_rows(self.public_X, None, d), norm_bound, intercept)
        available = self._methods()
        name = self.method
        if name == "auto":
            name = self._choose(len(rows), rows.shape[1], budget)
        one_of(f"method (trust={self.trust!r})", name, tuple(available))
        if distributed:
            self._check_by_sums(name)
        noise, rng = self._randomness()
        ledger = Ledger(budget, self._accounting())
        self._estimate = available[name](Problem(rows, labels, ledger, noise, rng, public))
        theta = self._estimate.theta
        self._scale = scale
        self._label_scale = label_bound
        self.coef_ = theta[:d] * (label_bound / scale)
        self.intercept_ = float(theta[d] * label_bound / math.sqrt(2)) if intercept else 0.0
        self.n_features_in_ = d
        remember_names(names, self)
        self.method_ = name
        self.guarantee_ = self._promise(ledger, distributed, leaks)
        return self

    def predict(self, X: Any) -> Array:
        """Predicted labels for rows X."""
        rows = self._fitted_rows(X)
        return np.asarray(rows @ self.coef_ + self.intercept_)

    def score(self, X: Any, y: Any) -> float:
        """R^2 of the predictions on X, y: an evaluation on raw data, not a private release."""
        labels = checked_labels(y)
        residual = labels - self.predict(X)
        total = labels - labels.mean()
        return 1.0 - float(residual @ residual) / max(float(total @ total), 1e-300)

    def confidence_width(self, X: Any, coverage: float = 0.95) -> Array:
        """Half widths around <x, theta> that hold with this probability, at no privacy cost.

        The distribution of the noise is known, so its part is computed; the part of the labels' own
        randomness uses the residual scale that was released inside the budget. It supposes that
        errors have the same scale everywhere and are about symmetric beyond a few of them
        (one-sided tails are detected once enough rows show them), and says little about directions
        that few rows have.
        """
        if not 0 < coverage < 1:
            raise ValueError(f"coverage must lie strictly between 0 and 1, got {coverage!r}")
        rows = self._fitted_rows(X) / self._scale
        covariance = self._estimate.covariance
        if covariance is None:
            raise ValueError(
                f"method {self.method_!r} has a bias of unknown size, hence no confidence width; "
                "use method='information-weighted'"
            )
        if self.fit_intercept:
            rows = np.column_stack([rows, np.full(len(rows), 1 / math.sqrt(2))])
        variance = np.einsum("ij,jk,ik->i", rows, covariance, rows)
        quantile = float(scipy.special.ndtri((1 + coverage) / 2))
        return np.asarray(quantile * self._label_scale * np.sqrt(np.maximum(variance, 0.0)))

    # -- inside -----------------------------------------------------------------------------------

    def _warn_of_assumptions(self) -> None:
        """At every fit, whatever the rows are: a warning that looked at them would be a leak."""
        bounds = {
            "norm_bound": (self.norm_bound, "rows longer than 1 are shortened"),
            "label_bound": (self.label_bound, self._beyond_labels()),
        }
        if self.bounds_from is not None:
            bounds = {}
        warn_of_assumptions(bounds, self.fit_intercept, stacklevel=3)

    def _beyond_labels(self) -> str:
        return "labels beyond -1 .. 1 are clipped"

    def _rows(self, X: Any, y: Any) -> tuple[Array, Array, float, float]:
        """Rows and labels in their units, and their bounds."""
        rows = checked_rows(X, None)
        labels = checked_labels(y)
        if len(rows) != len(labels):
            raise ValueError(f"X has {len(rows)} rows and y has {len(labels)} labels")
        norm_bound, label_bound = self._bounds(rows, labels)
        units = unit_rows(rows, norm_bound, bool(self.fit_intercept))
        return units, unit_labels(labels, label_bound), norm_bound, label_bound

    def _blocks(self, X: Any, y: Any) -> tuple[Array, Array, float, float]:
        """The same in blocks of dask collections: the same checks and clips, block by block."""
        if not (is_distributed(X) and is_distributed(y)):
            raise ValueError("X and y must both be dask collections, or both be in memory")
        if self.bounds_from is not None:
            raise ValueError("bounds_from='data' needs rows in memory; state public bounds instead")
        checked_rows(np.zeros((1,) * X.ndim), None)  # the shapes' errors and warnings, without data
        checked_labels(np.zeros((1, *y.shape[1:])))
        from discreet.distributed.rows import open_blocks

        norm_bound, label_bound = self._bounds(np.zeros((1, 1)), np.zeros(1))
        d = int(X.shape[1])
        intercept = bool(self.fit_intercept)
        prepare = partial(_units, d, norm_bound, label_bound, intercept)
        rows, labels = open_blocks(X, y, prepare, columns=d + int(intercept))
        return cast(Array, rows), cast(Array, labels), norm_bound, label_bound

    def _check_by_sums(self, name: str) -> None:
        can = self._by_sums()
        if name not in (*can, "auto") or not can:
            raise ValueError(
                f"method={name!r} (trust={self.trust!r}) needs the rows themselves, one after the "
                f"other, not sums over blocks; on dask collections: {', '.join(can) or 'no method'}"
            )

    def _delta(self) -> float:
        if self.delta is not None:
            return self.delta
        return 0.0 if self.trust == "local" else 1e-6

    def _accounting(self) -> str | None:
        return "pure" if self.trust == "local" else None

    def _promise(self, ledger: Ledger, distributed: bool, leaks: tuple[str, ...] = ()) -> Guarantee:
        return ledger.guarantee(
            trust=self.trust,
            unprotected=(
                "the number of rows and columns",
                "whether all values are finite",
                "public_X, which must be public",
                "the public bounds"
                if self.bounds_from is None
                else "THE LARGEST NORM AND LABEL, read off the data without noise",
                "fits repeated on the same rows (each fit spends its own budget)",
                *leaks,
                *(IN_A_CLUSTER if distributed else ()),
            ),
            reference="Chen, Li, Rakhlin and Simchi-Levi (2025)",
            record="row",
        )

    def _randomness(self) -> tuple[Noise, np.random.Generator]:
        state = self.random_state
        if state is None:
            return source(self.noise), np.random.default_rng()
        if isinstance(state, np.random.RandomState):
            state = int(state.randint(2**31))
        elif isinstance(state, np.random.Generator):
            state = int(state.integers(2**31))
        noise = SeededNoise(int(state)) if self.noise is None else source(self.noise)
        return noise, np.random.default_rng(int(state))

    def _bounds(self, X: Array, y: Array) -> tuple[float, float]:
        if self.bounds_from is not None:
            one_of("bounds_from", self.bounds_from, ("data",))
            warnings.warn(
                "bounds_from='data' reads the largest norm and label off private data without "
                "noise: the guarantee does not cover that. State public bounds instead.",
                PrivacyLeakWarning,
                stacklevel=4,
            )
            in_range = partial(np.clip, a_min=SMALLEST_BOUND, a_max=LARGEST_BOUND)
            longest = np.max(row_norms(X, "l2"))
            return float(in_range(longest)), float(in_range(np.abs(y).max()))
        given = (
            ASSUMED if bound is None else bound for bound in (self.norm_bound, self.label_bound)
        )
        norm_bound, label_bound = map(public_bound, ("norm_bound", "label_bound"), given)
        return norm_bound, label_bound

    def _fitted_rows(self, X: Any) -> Array:
        if not hasattr(self, "coef_"):
            raise not_fitted(self)
        return checked_rows(X, self, self.n_features_in_)


def unit_rows(X: Array, bound: float, intercept: bool) -> Array:
    """Rows clipped to the bound, in units in which they fit the unit ball."""
    rows = in_unit_ball(X, bound)
    if not intercept:
        return rows
    # A constant feature as long as the others may be: both together at most 1.
    units = np.empty((len(rows), rows.shape[1] + 1))
    np.divide(rows, math.sqrt(2), out=units[:, :-1])
    units[:, -1] = 1 / math.sqrt(2)
    return units


def unit_labels(y: Array, bound: float) -> Array:
    """Labels clipped to the bound, in its units."""
    return np.asarray(np.clip(y, -bound, bound) / bound)


def _units(
    columns: int, norm_bound: float, label_bound: float, intercept: bool, X: Any, y: Any
) -> tuple[Array, Array]:
    """A block's rows and labels in their units, from public parameters alone."""
    rows = checked_rows(X, None, columns)
    labels = checked_labels(np.asarray(y).reshape(len(y)))
    return unit_rows(rows, norm_bound, intercept), unit_labels(labels, label_bound)
