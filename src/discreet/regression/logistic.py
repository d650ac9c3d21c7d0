"""Private logistic regression: a scikit-learn classifier for two classes or more."""

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from functools import partial
from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin

from discreet.arrays import Array, positive, public_bound
from discreet.links import link
from discreet.privacy import Budget
from discreet.privacy.noise import Noise
from discreet.regression.base import Estimate, PrivateEstimator, Problem, unit_rows
from discreet.regression.classes import ToNumbers, declared_classes
from discreet.regression.newton import scoring
from discreet.regression.regressor import normal_quantile, quadratic_forms
from discreet.regression.rows import without
from discreet.regression.scores import LinkScore, SoftmaxScore


@dataclass(eq=False, repr=False)
class PrivateLogisticRegression(ClassifierMixin, PrivateEstimator):  # type: ignore[misc]
    """A classifier from which nobody can tell what any one row was.

    For two classes P(second | x) = 1/(1 + exp(-<x, theta> - b)), fitted as `PrivateGLM` fits it;
    for more, multinomial logistic regression by the same steps (`newton.py`), all classes in one
    release. Under local trust take `PrivateGLM`.

    Requires   public classes: they are declared, because which labels there are is private. A row
               with a label that is not declared adds nothing to any sum. Public bounds: rows are
               clipped to |x| <= norm_bound; a person is in at most `contributions` rows.
    Guarantee  (epsilon, delta), central: coef_ and all that is computed from it.

    Parameters
    epsilon        the privacy loss of the whole fit; inf switches privacy off
    delta          None: 1e-6
    classes        the labels there may be, of any one kind, such as ("no", "yes")
    norm_bound     public bound on |x|: longer rows are shortened
    contributions  the most rows that one person has
    coef_bound     public bound on the log-odds between two classes, for each unit of |x|: a prior
                   too (see `PrivateGLM`). None: log-odds of 10 at norm_bound, and as much again in
                   an intercept
    class_weight   {class: weight}: what an error on a row of this class costs; 1 if not named.
                   `predict` takes the class of the largest weight times probability, which costs
                   no privacy; probabilities stay those of the rows. "balanced" is refused: counts
                   of classes are private
    fit_intercept  whether to add a constant feature, as long as norm_bound; it costs noise
    public_X       public covariates in the units of X; only labels are paid for then
    noise          where noise comes from: SecureNoise() for release; None: OS entropy
    random_state   seeds the noise, without `noise`: for simulation

    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, (20_000, 2))
    >>> odds = np.exp(X @ [[3.0, 0.0, -3.0], [0.0, 2.0, 0.0]])
    >>> drawn = (odds / odds.sum(axis=1, keepdims=True)).cumsum(axis=1) < rng.random((20_000, 1))
    >>> y = np.array(["bus", "car", "train"])[drawn.sum(axis=1)]
    >>> model = PrivateLogisticRegression(epsilon=1.0, classes=("bus", "car", "train"),
    ...                                   norm_bound=2**0.5, random_state=0).fit(X, y)
    >>> model.predict([[0.9, -0.5], [0.0, 0.9]])
    array(['bus', 'car'], dtype='<U5')
    >>> model.predict_proba([[1.0, 0.0]]).round(1)
    array([[1., 0., 0.]])
    >>> model.guarantee_.epsilon, model.guarantee_.delta
    (1.0, 1e-06)
    """

    _fitted = (*PrivateEstimator._fitted, "classes_")

    trust = "central"
    method = "newton"
    label_bound = 1.0

    epsilon: float = 1.0
    delta: float | None = None
    _: KW_ONLY
    classes: Sequence[Hashable]
    norm_bound: float = 1.0
    contributions: int = 1
    coef_bound: float | None = None
    class_weight: Mapping[Any, float] | None = None
    fit_intercept: bool = True
    public_X: Any = None
    noise: Noise | None = None
    random_state: Any = None

    # -- predictions ------------------------------------------------------------------------------

    def decision_function(self, X: Any) -> Array:  # (n,) or (n, k)
        """Log-odds of the second of two classes; of more, logarithms of odds up to a constant."""
        logits = np.asarray(self._fitted_rows(X) @ self.coef_.T + self.intercept_)
        return logits[:, 0] if len(self.classes_) == 2 else logits

    def predict_proba(self, X: Any) -> Array:  # (n, k)
        """Probabilities of the classes, in the order of `classes_`."""
        return self._probabilities(self.decision_function(X))

    def predict_log_proba(self, X: Any) -> Array:  # (n, k)
        """Their logarithms."""
        logits = self.decision_function(X)
        if logits.ndim == 1:
            return np.stack([scipy.special.log_expit(-logits), scipy.special.log_expit(logits)], 1)
        return np.asarray(scipy.special.log_softmax(logits, axis=1))

    def predict(self, X: Any) -> NDArray[Any]:
        """The most likely class of each row; with `class_weight` the one of the least cost."""
        logits = self.decision_function(X)
        if logits.ndim == 1:
            logits = np.column_stack([np.zeros(len(logits)), logits])
        best = np.argmax(logits + self._log_weights(self.classes_), axis=1)
        return np.asarray(self.classes_[best])

    def score(self, X: Any, y: Any) -> float:
        """The fraction of rows whose class is predicted: on raw data, not a private release."""
        numbers = ToNumbers(self.classes_)
        return float(np.mean(numbers(y) == numbers(self.predict(X))))

    def predict_proba_interval(self, X: Any, coverage: float = 0.95) -> Array:  # (n, k, 2)
        """Lower and upper ends that hold the true probability of each class so often.

        Normal intervals for the log-odds of each class against all others: from the distribution
        of the noise, and from a sampling error as large as the model allows. They suppose that the
        model is right, cost no privacy, and hold for one class and row at a time.
        """
        quantile = normal_quantile(coverage)
        rows = self._fitted_rows(X)
        probabilities = self.predict_proba(X)
        covariance = self._estimate.covariance
        if covariance is None:
            raise ValueError("method 'newton' knows the covariance of its error; fit again")
        units = self._unit_rows(rows)
        if len(self.classes_) == 2:
            variance = np.tile(quadratic_forms(units, covariance)[:, None], 2)
        else:
            variance = _log_odds_variance(units, covariance, probabilities)
        middle = scipy.special.logit(np.clip(probabilities, 1e-300, 1 - 1e-16))
        half = quantile * np.sqrt(np.maximum(variance, 0.0))
        return np.stack([scipy.special.expit(middle - half), scipy.special.expit(middle + half)], 2)

    def __sklearn_tags__(self) -> Any:
        """What scikit-learn's machinery asks."""
        tags = super().__sklearn_tags__()
        tags.classifier_tags.poor_score = True  # noise, at the sizes of its checks
        return tags

    # -- inside -----------------------------------------------------------------------------------

    def _methods(self) -> dict[str, Callable[[Problem], Estimate]]:
        return {"newton": self._solve}

    def _by_sums(self) -> tuple[str, ...]:
        return ("newton",)

    def _choose(self, n: int, d: int, budget: Budget) -> str:
        return "newton"

    def _solve(self, problem: Problem) -> Estimate:
        k = len(declared_classes(self.classes))
        radius = self._radius()
        if k == 2:
            return scoring(problem, LinkScore(link("logistic").within(radius)), radius)
        return multinomial(problem, k, radius)

    def _to_labels(self) -> Callable[[Any], Array]:
        return ToNumbers(declared_classes(self.classes))

    def _units(
        self, norm_bound: float, label_bound: float
    ) -> Callable[[Any, Array], tuple[Array, Array]]:
        return partial(_units, norm_bound, bool(self.fit_intercept))

    def _bounds(self) -> tuple[float, float]:
        norm_bound, _ = super()._bounds()
        self._radius()  # refuse a bad coef_bound before rows are read
        self._log_weights(declared_classes(self.classes))
        return norm_bound, 1.0

    def _log_weights(self, classes: NDArray[Any]) -> Array:
        weights = {} if self.class_weight is None else self.class_weight
        if not isinstance(weights, Mapping) or not set(weights) <= set(classes.tolist()):
            raise ValueError(
                "class_weight must be {declared class: public weight}; 'balanced' would read "
                "how many rows each class has, which is private"
            )
        return np.log([positive("class_weight", weights.get(each, 1)) for each in classes.tolist()])

    def _radius(self) -> float:
        """The largest |theta| for rows in the unit ball."""
        radius = link("logistic").predictor_bound
        if self.coef_bound is not None:
            radius = public_bound("coef_bound", self.coef_bound) * self.norm_bound
            public_bound("norm_bound * coef_bound", radius)
        # With an intercept, theta is sqrt(2) [norm_bound coef, b]: see `PrivateGLM`.
        return 2 * radius if self.fit_intercept else radius

    def _public(self) -> tuple[str, ...]:
        return ("the public classes", *super()._public())

    def _learned(
        self, estimate: Estimate, d: int, scale: float, label_scale: float
    ) -> dict[str, Any]:
        known = declared_classes(self.classes)
        k = len(known)
        theta = estimate.theta[:, None]  # (d, 1): log-odds of the second class
        if k > 2:
            theta = estimate.theta.reshape(-1, k - 1) @ SoftmaxScore(k).basis.T  # (d, k)
        last = theta[d] / math.sqrt(2) if self.fit_intercept else np.zeros(theta.shape[1])
        return {"coef_": theta[:d].T / scale, "intercept_": last, "classes_": known}

    def _from_theta(self) -> Array:
        units = [1 / self._scale] * self.n_features_in_
        units += [1 / math.sqrt(2)] * bool(self.fit_intercept)
        k = len(self.classes_)
        basis = SoftmaxScore(k).basis if k > 2 else np.ones((1, 1))
        return np.vstack([np.kron(np.diag(units), each) for each in basis])

    def _probabilities(self, logits: Array) -> Array:
        if logits.ndim == 1:
            return np.stack([scipy.special.expit(-logits), scipy.special.expit(logits)], 1)
        return np.asarray(scipy.special.softmax(logits, axis=1))


def _units(norm_bound: float, intercept: bool, X: Any, numbers: Array) -> tuple[Any, Array]:
    """Rows in the unit ball, those of no declared class zero, and the numbers of classes."""
    return without(unit_rows(X, norm_bound, intercept), numbers < 0), np.maximum(numbers, 0.0)


def _log_odds_variance(units: Any, covariance: Array, probabilities: Array) -> Array:  # (n, k)
    """Of log(p_c / (1 - p_c)), whose gradient in t is V' (e_c - p) / (1 - p_c)."""
    k = probabilities.shape[1]
    m = k - 1
    basis = SoftmaxScore(k).basis
    parts = covariance.reshape(-1, m, len(covariance) // m, m)
    of_t = np.empty((len(probabilities), m, m))  # covariance of t at each row
    for a in range(m):
        for b in range(a + 1):
            of_t[:, a, b] = of_t[:, b, a] = quadratic_forms(units, parts[:, a, :, b])
    gradient = (np.eye(k)[None] - probabilities[:, None, :]) @ basis  # (n, class, m)
    gradient /= np.maximum(1 - probabilities, 1e-12)[:, :, None]
    return np.asarray(np.einsum("nca,nab,ncb->nc", gradient, of_t, gradient))


def multinomial(problem: Problem, classes: int, radius: float) -> Estimate:
    """Theta (d, k - 1) row by row; log-odds of two classes are within +-radius.

    Labels are class numbers 0 .. k - 1. A row of zeros adds nothing to any sum.
    """
    # Log-odds are <e_a - e_b, V t>, at most sqrt(2) |t|.
    return scoring(problem, SoftmaxScore(classes), radius / math.sqrt(2))
