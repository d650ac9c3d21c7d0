"""Private estimators of numbers: coefficients, predictions, and how sure they are."""

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import scipy
from sklearn.base import RegressorMixin

from discreet.arrays import Array, public_bound
from discreet.regression.base import Estimate, PrivateEstimator
from discreet.regression.rows import SparseRows
from discreet.regression.validation import checked_labels


class PrivateRegressor(RegressorMixin, PrivateEstimator):  # type: ignore[misc]
    """predict, score and confidence_width, from <x, theta>."""

    label_range: tuple[float, float] | None = None
    coef_: Array
    intercept_: float
    _label_middle: float = 0.0  # labels lie around it, within the label bound
    _fitted = (*PrivateEstimator._fitted, "_label_middle")

    def predict(self, X: Any) -> Array:
        """Predicted labels for rows X."""
        rows = self._fitted_rows(X)
        return np.asarray(rows @ self.coef_ + self.intercept_)

    def score(self, X: Any, y: Any) -> float:
        """R^2 of the predictions on X, y: an evaluation on raw data, not a private release."""
        return float(super().score(X, y))

    def confidence_width(self, X: Any, coverage: float = 0.95) -> Array:
        """Half widths around <x, theta> that hold with this probability, at no privacy cost.

        The distribution of the noise is known, so its part is computed; the part of the labels' own
        randomness uses the residual scale that was released inside the budget. It supposes that
        errors have the same scale everywhere and are about symmetric beyond a few of them
        (one-sided tails are detected once enough rows show them), and says little about directions
        that few rows have.
        """
        quantile = normal_quantile(coverage)
        variance = self._variance(self._fitted_rows(X))
        return np.asarray(quantile * self._label_scale * np.sqrt(variance))

    def __sklearn_tags__(self) -> Any:
        """What scikit-learn's machinery asks."""
        tags = super().__sklearn_tags__()
        tags.regressor_tags.poor_score = True  # noise, at the sizes of its checks
        return tags

    # -- inside -----------------------------------------------------------------------------------

    def _labels_within(self) -> tuple[float, float]:
        """Middle and half width of the public range of labels."""
        if self.label_range is None:
            return 0.0, public_bound("label_bound", self.label_bound)
        if self.label_bound != 1:
            raise ValueError(
                "label_range and label_bound are two ways to bound labels: state one of them"
            )
        try:
            low, high = (float(each) for each in self.label_range)
        except (TypeError, ValueError):
            raise ValueError("label_range must be two numbers, such as (60, 220)") from None
        if not low < high:
            raise ValueError(
                f"label_range must be (low, high) with low < high, got {low:g}, {high:g}"
            )
        half = public_bound("half the width of label_range", (high - low) / 2)
        return (low + high) / 2, half

    def _bounds(self) -> tuple[float, float]:
        return public_bound("norm_bound", self.norm_bound), self._labels_within()[1]

    def _to_labels(self) -> Callable[[Any], Array]:
        # Labels less their public middle: `_units` clips and divides by half the width.
        return partial(_around, self._labels_within()[0])

    def _learned(
        self, estimate: Estimate, d: int, scale: float, label_scale: float
    ) -> dict[str, Any]:
        theta = estimate.theta
        last = theta[d] * label_scale / math.sqrt(2) if self.fit_intercept else 0.0
        return {
            "coef_": theta[:d] * (label_scale / scale),
            "intercept_": float(last) + self._labels_within()[0],
            "_label_middle": self._labels_within()[0],
        }

    def _from_theta(self) -> Array:
        d = self.n_features_in_
        units = [self._label_scale / self._scale] * d
        return np.diag([*units, *[self._label_scale / math.sqrt(2)] * bool(self.fit_intercept)])

    def _variance(self, rows: Any) -> Array:  # of <phi, theta>, in squares of the label bound
        covariance = self._estimate.covariance
        if covariance is None:
            raise ValueError(
                f"method {self.method_!r} has a bias of unknown size, hence no confidence width; "
                "use method='information-weighted'"
            )
        return np.maximum(quadratic_forms(self._unit_rows(rows), covariance), 0.0)


def _around(middle: float, y: Any) -> Array:
    labels = checked_labels(y)
    return labels - middle if middle else labels


def normal_quantile(coverage: float) -> float:
    """How many standard deviations to both sides hold this probability."""
    check_coverage(coverage)
    return float(scipy.special.ndtri((1 + coverage) / 2))


def check_coverage(coverage: float) -> None:
    """Refuse what is no probability of an interval."""
    if not 0 < coverage < 1:
        raise ValueError(f"coverage must lie strictly between 0 and 1, got {coverage!r}")


def quadratic_forms(rows: Any, matrix: Array) -> Array:
    """phi' A phi for every row; of sparse rows a few at a time are dense."""
    if isinstance(rows, SparseRows):
        found: Array
        (found,) = rows.fold(
            lambda X, _: (quadratic_forms(X, matrix),),
            lambda parts: (np.concatenate([part for (part,) in parts]),),
            np.zeros(len(rows)),
        )
        return found
    return np.asarray(np.einsum("ij,ij->i", rows @ matrix, rows))
