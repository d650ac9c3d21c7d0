"""What every private estimator shares: scikit-learn's conventions, and bounds at the edge.

Inside, features lie in the unit ball and labels in [-1, 1]; `fit` clips and scales once, methods
never see anything else.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Self, cast

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from discreet.arrays import Array, in_unit_ball, one_of, public_bound
from discreet.frames import Unread, is_unread, label_beside
from discreet.local.server import SHUFFLED
from discreet.privacy import Budget, Guarantee, Ledger, SeededNoise, Shuffled
from discreet.privacy.ledger import purposeful
from discreet.privacy.mechanisms import Mechanisms
from discreet.privacy.noise import Noise, source
from discreet.privacy.shuffle import trusted
from discreet.regression.inference import Inference
from discreet.regression.intervals import Residuals
from discreet.regression.rows import SparseRows, is_distributed, is_sparse
from discreet.regression.surroundings import leaks_around, warn_of_noise
from discreet.regression.validation import (
    Columns,
    checked_labels,
    checked_rows,
)
from discreet.state import value as saved_value
from discreet.state.fitted import Saveable

IN_A_CLUSTER = (  # what stays unprotected where rows are in blocks of dask or Spark
    "rows and sums without noise inside the cluster",
    "whether every pass read the same rows (a fit on a source that changes is refused)",
)
IN_A_FILE = (  # and where they are read from files or an iterator
    "rows in a temporary file without a name, as long as the fit runs",
)
VALUES = (  # what stays unprotected of the values themselves: a bad one refuses the table
    "whether all values are finite numbers; types of columns, which a table may infer from values"
)
ALONE = "fits repeated on the same rows (each fit spends its own budget)"
WITH_A_LEDGER = "fits on the same rows that are not in the ledger of this one"


@saved_value
@dataclass(frozen=True)
class Estimate:
    """theta for unit-ball features and labels in [-1, 1], and the covariance of its error.

    No covariance where the bias is not known, as for early stopped gradient descent; no residuals
    where none were counted.
    """

    theta: Array  # (d,)
    covariance: Array | None  # (d, d)
    residuals: Residuals | None = None  # how labels spread around <phi, theta>
    doubt: float = 0.0  # std of a prediction's error over the spread of predictions, if told


@dataclass(frozen=True)
class Problem:
    """A regression problem inside the public bounds, and the means to solve it privately.

    X and y may be stand-ins for rows elsewhere; `rows.py` says what may be asked.
    """

    X: Array  # (n, d), rows in the unit ball
    y: Array  # (n,), in [-1, 1]
    ledger: Ledger  # asked before every release
    noise: Noise  # for releases
    rng: np.random.Generator  # for everything else (order of rows)
    public_X: Array | None = None  # public covariates in the same units
    crowd: Shuffled | None = None  # what batches are counted on for, where reports are shuffled
    intercept: bool = False  # whether the last feature is the same in all rows: sqrt(1/2)

    @property
    def budget(self) -> Budget:
        """What the whole fit may cost."""
        return self.ledger.budget

    @property
    def release(self) -> Mechanisms:
        """The mechanisms: the only way out for private values."""
        return Mechanisms(self.noise, self.ledger)


class PrivateEstimator(Inference, Saveable, BaseEstimator):  # type: ignore[misc]
    """What private estimators add to scikit-learn's: bounds, a budget, a promise.

    Subclasses say which methods there are and what is predicted.

    `random_state` makes a fit reproducible: it seeds the order of rows and, where no `noise` is
    given, the noise too, which the guarantee then calls a simulation.
    """

    epsilon: float
    delta: float | None
    norm_bound: float
    label_bound: float
    contributions: int
    trust: str | Shuffled
    method: str
    fit_intercept: bool
    public_X: Any
    noise: Noise | None
    random_state: Any

    guarantee_: Guarantee
    n_features_in_: int
    method_: str
    _estimate: Estimate
    _trusts: ClassVar[tuple[str, ...]] = ("central", "local", "shuffled")
    _fitted: ClassVar[tuple[str, ...]] = (
        "coef_",
        "intercept_",
        "guarantee_",
        "method_",
        "n_features_in_",
        "feature_names_in_",
        "_estimate",
        "_scale",
        "_label_scale",
    )
    _scale: float  # what coefficients were divided by: rows were, to fit the unit ball
    _label_scale: float

    def _methods(self) -> dict[str, Callable[[Problem], Estimate]]:
        """The methods for this trust model, by name."""
        raise TypeError("an estimator must define _methods")

    def _by_sums(self) -> tuple[str, ...]:
        """The methods that see rows through sums only, and so run on blocks of dask collections."""
        return ()

    def _on_sparse(self) -> tuple[str, ...]:
        """The methods that take sparse rows: a few at a time become dense."""
        return self._by_sums()

    def _choose(self, n: int, d: int, budget: Budget) -> str:
        """What method="auto" means, from public quantities only."""
        raise TypeError("an estimator must define _choose")

    def _learned(
        self, estimate: Estimate, d: int, scale: float, label_scale: float
    ) -> dict[str, Any]:
        """The attributes that users read, such as coef_, for d features without the intercept."""
        raise TypeError("an estimator must define _learned")

    def _to_labels(self) -> Callable[[Any], Array]:
        """What makes numbers of y; it goes to workers, so it does not know the estimator."""
        return checked_labels

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "guarantee_")

    def __sklearn_tags__(self) -> Any:
        """What scikit-learn's machinery asks."""
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.input_tags.sparse = bool(self._on_sparse())
        tags.non_deterministic = self.random_state is None
        return tags

    # -- fitting ----------------------------------------------------------------------------------

    def fit(
        self,
        X: Any,
        y: Any,
        *,
        ledger: Ledger | None = None,
        purpose: str | None = None,
        **refused: Any,
    ) -> Self:
        """Fit to rows X (n, d) and labels y (n,); clips both to the public bounds.

        X may be sparse (scipy.sparse): a few rows at a time become dense. A table of any library
        has its labels in a column, y="label", or beside it. Both may be dask arrays or data frames,
        and X a Spark data frame: rows stay in their blocks, each stage is one pass of partial sums,
        and releases happen here, once. With X="rows/*.parquet", or an iterator of Arrow record
        batches, rows are read once, and memory does not depend on their number.

        `ledger` counts this fit together with others. A fit for which it has not enough left is
        refused (`BudgetSpent`) before X and y are looked at. `purpose` is its name there, as
        `discreet dossier study.ledger` shows it.
        """
        if refused:
            raise TypeError(_refusal(type(self).__name__, next(iter(refused))))
        leaks = leaks_around(stacklevel=2)
        budget = Budget(self.epsilon, self._delta(), self.contributions)
        if ledger is None:
            if purpose is not None:
                raise ValueError("purpose names a fit in a ledger: pass the ledger too")
            fitted = self._fit(X, y, Ledger(budget, self._accounting()), (ALONE, *leaks))
        else:
            what = purposeful(purpose, f"a fit of {type(self).__name__}")
            with ledger.part(budget, self._accounting(), what=what) as part:
                fitted = self._fit(X, y, part, (WITH_A_LEDGER, *leaks))
        self.__dict__.pop("feature_names_in_", None)
        self.__dict__.update(fitted)
        warn_of_noise(self._estimate.doubt, stacklevel=2)
        return self

    def _fit(self, X: Any, y: Any, ledger: Ledger, around: tuple[str, ...]) -> dict[str, Any]:
        """The attributes of the fitted estimator; a refused fit leaves nothing behind."""
        intercept = bool(self.fit_intercept)
        X, y = label_beside(X, y)
        distributed = is_distributed(X) or (not isinstance(y, str) and is_distributed(y))
        sparse = is_sparse(X)
        if distributed or sparse:
            self._check_rows_elsewhere(self.method, sparse)  # before any pass
        if is_unread(X):
            rows, labels, norm_bound, label_bound, names = self._unread(X, y)
            columns = Columns.of(rows.shape[1] - intercept, names)
        else:
            found = (self._blocks if distributed else self._rows)(X, y)
            rows, labels, norm_bound, label_bound = found
            named = distributed and hasattr(X, "columns")
            columns = Columns(X._meta if named else X)
        public = None
        if self.public_X is not None:
            columns.expect(self.public_X, "public_X")
            public = unit_rows(checked_rows(self.public_X), norm_bound, intercept)
        available = self._methods()
        name = self.method
        if name == "auto":
            name = self._choose(len(rows), rows.shape[1], ledger.budget)
        one_of(f"method (trust={self.trust!r})", name, tuple(available))
        if distributed or sparse:
            self._check_rows_elsewhere(name, sparse)
        noise, rng = self._randomness()
        _, crowd = self._trusted()
        problem = Problem(rows, labels, ledger, noise, rng, public, crowd, intercept)
        estimate = available[name](problem)
        promise = self._promise(ledger, (*around, *_elsewhere(X)))
        scale = norm_bound * math.sqrt(2) if intercept else norm_bound
        return {
            "_estimate": estimate,
            "_scale": scale,
            "_label_scale": label_bound,
            "method_": name,
            "guarantee_": promise,
            **vars(columns),
            **self._learned(estimate, columns.n_features_in_, scale, label_bound),
        }

    @property
    def partial_fit(self) -> Any:
        """There is none: a fit is one release after the other, each on all rows or on its own."""
        raise AttributeError(
            "a private fit cannot go on with more rows: give fit all of them, as an iterator of "
            "record batches or as files (fit('rows/*.parquet', y='label')); where people come one "
            "after the other and decisions cannot wait, take a bandit"
        )

    # -- inside -----------------------------------------------------------------------------------

    def _rows(self, X: Any, y: Any) -> tuple[Array, Array, float, float]:
        """Rows and labels in their units, and their bounds."""
        rows = checked_rows(X, sparse=True)
        labels = self._to_labels()(y)
        if rows.shape[0] != len(labels):
            raise ValueError(f"X has {rows.shape[0]} rows and y has {len(labels)} labels")
        norm_bound, label_bound = self._bounds()
        prepare = self._units(norm_bound, label_bound)
        units, labels = prepare(rows, labels)
        return units, labels, norm_bound, label_bound

    def _blocks(self, X: Any, y: Any) -> tuple[Array, Array, float, float]:
        """The same in blocks of dask collections: the same checks and clips, block by block."""
        if not (is_distributed(X) and is_distributed(y)):
            raise ValueError("X and y must both be dask collections, or both be in memory")
        checked_rows(np.zeros((1,) * X.ndim))  # the shapes' errors and warnings, without data
        checked_labels(np.zeros((1, *y.shape[1:])))
        from discreet.distributed.rows import open_blocks

        norm_bound, label_bound = self._bounds()
        d = int(X.shape[1])
        prepare = partial(
            _checked_units, d, self._to_labels(), self._units(norm_bound, label_bound)
        )
        rows, labels = open_blocks(X, y, prepare, columns=d + bool(self.fit_intercept))
        return cast(Array, rows), cast(Array, labels), norm_bound, label_bound

    def _unread(self, X: Any, y: Any) -> tuple[Array, Array, float, float, tuple[str, ...] | None]:
        """The same of files, iterators and Spark data frames; and the names of the features."""
        from discreet.regression.unread import open_unread

        bounds = self._bounds()
        rows, labels, names = open_unread(X, y, self._to_labels(), self._units(*bounds))
        return rows, labels, *bounds, names

    def _units(
        self, norm_bound: float, label_bound: float
    ) -> Callable[[Any, Array], tuple[Array, Array]]:
        """From checked rows and labels to those of a `Problem`, by public parameters alone."""
        return partial(_units, norm_bound, label_bound, bool(self.fit_intercept))

    def _check_rows_elsewhere(self, name: str, sparse: bool) -> None:
        can = self._on_sparse() if sparse else self._by_sums()
        if name not in (*can, "auto") or not can:
            where = "sparse rows" if sparse else "rows in blocks"
            raise (TypeError if sparse else ValueError)(
                f"method={name!r} (trust={self.trust!r}) needs the rows themselves, one after the "
                f"other, not sums over blocks; on {where}: {', '.join(can) or 'no method'}"
            )

    def _delta(self) -> float:
        if self.delta is not None:
            return self.delta
        return 0.0 if self.trust == "local" else 1e-6

    def _accounting(self) -> str | None:
        return {"local": "pure", "shuffled": "shuffled"}.get(self._trusted()[0])

    def _trusted(self) -> tuple[str, Shuffled | None]:
        """The trust, and what batches are counted on for where reports are shuffled."""
        return trusted(self.trust, self._trusts)

    def _promise(self, ledger: Ledger, around: tuple[str, ...]) -> Guarantee:
        trust, crowd = self._trusted()
        return ledger.guarantee(
            trust=trust,
            unprotected=(
                "the number of rows and columns",
                VALUES,
                "public_X, which must be public",
                *self._public(),
                *around,
                *(SHUFFLED if crowd is not None else ()),
            ),
            reference="Chen, Li, Rakhlin and Simchi-Levi (2025)",
            record="row",
            crowd=crowd,
        )

    def _public(self) -> tuple[str, ...]:
        """Parameters that the promise counts as public."""
        return ("the public bounds",)

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

    def _bounds(self) -> tuple[float, float]:
        """Those of rows and of labels."""
        norm_bound = public_bound("norm_bound", self.norm_bound)
        return norm_bound, public_bound("label_bound", self.label_bound)

    def _fitted_rows(self, X: Any) -> Any:
        """Rows to predict for, checked against the fit; sparse ones stay sparse."""
        check_is_fitted(self)
        return checked_rows(X, self, sparse=True)

    def _unit_rows(self, rows: Any) -> Any:
        """Checked rows in the units of the estimate's theta, not clipped; sparse ones stay so."""
        rows = rows / self._scale
        constant = np.full(rows.shape[0], 1 / math.sqrt(2)) if self.fit_intercept else None
        if is_sparse(rows):
            return SparseRows(rows.tocsr(), constant)
        return rows if constant is None else np.column_stack([rows, constant])


def _elsewhere(X: Any) -> tuple[str, ...]:
    """What stays unprotected where rows are not in memory."""
    source = X.source if isinstance(X, Unread) else X
    if is_unread(source) and not hasattr(source, "mapInArrow"):
        return IN_A_FILE
    return IN_A_CLUSTER if is_distributed(source) else ()


def _refusal(kind: str, name: str) -> str:
    """Why `fit` takes no such argument."""
    if name != "sample_weight":
        return f"{kind}.fit() got an unexpected keyword argument {name!r}"
    return (
        f"{kind}.fit takes no sample_weight: noise hides one row of weight 1, and residual scales "
        "and intervals are of rows that count alike; a weight read off a row's own values would be "
        "private, too. Where weights are public and say how often, leave out rows by public coins"
    )


def unit_rows(X: Any, bound: float, intercept: bool) -> Any:
    """Rows clipped to the bound, in units in which they fit the unit ball; sparse ones stay so."""
    rows = _sparse_in_unit_ball(X, bound) if is_sparse(X) else in_unit_ball(X, bound)
    if not intercept:
        return SparseRows(rows) if is_sparse(X) else rows
    # A constant feature as long as the others may be: both together at most 1.
    if is_sparse(X):
        return SparseRows(rows / math.sqrt(2), np.full(rows.shape[0], 1 / math.sqrt(2)))
    units = np.empty((len(rows), rows.shape[1] + 1))
    np.divide(rows, math.sqrt(2), out=units[:, :-1])
    units[:, -1] = 1 / math.sqrt(2)
    return units


def unit_labels(y: Array, bound: float) -> Array:
    """Labels clipped to the bound, in its units."""
    return np.asarray(np.clip(y, -bound, bound) / bound)


def _sparse_in_unit_ball(matrix: Any, bound: float) -> Any:
    """`in_unit_ball` of a CSR matrix: the same numbers, and zeros stay zeros."""
    rows = matrix.copy()
    rows.data = np.clip(rows.data, -1e50 * bound, 1e50 * bound) / bound
    lengths = np.diff(rows.indptr)
    places = np.repeat(np.arange(rows.shape[0]), lengths)
    norms = np.sqrt(np.bincount(places, rows.data**2, minlength=rows.shape[0]))
    rows.data /= np.repeat(np.maximum(1.0, norms), lengths)
    return rows


def _units(
    norm_bound: float, label_bound: float, intercept: bool, X: Any, y: Array
) -> tuple[Array, Array]:
    """Rows and labels in their units, from public parameters alone."""
    return unit_rows(X, norm_bound, intercept), unit_labels(y, label_bound)


def _checked_units(
    columns: int,
    labels: Callable[[Any], Array],
    units: Callable[[Any, Array], tuple[Array, Array]],
    X: Any,
    y: Any,
) -> tuple[Array, Array]:
    """A block's rows and labels as those of a `Problem`."""
    rows = checked_rows(X)
    if rows.shape[1] != columns:
        raise ValueError(f"a block of X has {rows.shape[1]} features, not {columns}")
    return units(rows, labels(y.squeeze(axis=1) if y.ndim == 2 else y))
