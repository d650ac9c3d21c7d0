"""What a fit is worth on rows that it has not seen, as one private release with intervals.

    classifier   counts of rows by label and predicted log-odds (two classes) or by label and
                 predicted class (more), and the sum of Brier's scores
    regressor    sums of label, label^2 and error^2, each over its public bound, and of products of
                 them

Everything else is computed from these: AUC, calibration, confusion matrix and accuracy from
counts, R^2 from sums. Intervals hold noise and sampling: sums are redrawn around what was released,
with the covariance that both together have, and quantiles of a metric over such draws are its ends.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from discreet.arrays import Array, public_bound
from discreet.privacy import Budget, Guarantee, Ledger
from discreet.privacy.mechanisms import Mechanisms
from discreet.privacy.noise import Noise
from discreet.regression.base import VALUES, WITH_A_LEDGER, PrivateEstimator
from discreet.regression.classes import ToNumbers
from discreet.regression.inference import Effect, Summary
from discreet.regression.regressor import normal_quantile
from discreet.regression.validation import checked_labels

ODDS = np.arange(-8.0, 8.25, 0.5)  # edges of log-odds; 0 is where the prediction changes
SHORTEST = 1e-50  # error bound, in label bounds: fourth powers of noise in its units are floats
DRAWS = 2000  # of sums around the released ones: an error is known to 2%


@dataclass(frozen=True)
class PrivateScore:
    """Metrics with intervals, all of one release."""

    metrics: Summary  # a line for each metric
    guarantee: Guarantee  # what the score has cost
    confusion: Array | None = None  # (k, k), labels x predictions, as released; of classifiers
    calibration: Summary | None = None  # of two classes: how often it is the second, by prediction

    def __getitem__(self, metric: str) -> Effect:
        """One metric by its name, such as "auc"."""
        return next(each for each in self.metrics.effects if each.term == metric)

    def __repr__(self) -> str:
        return repr(self.metrics)

    def _repr_html_(self) -> str:
        return self.metrics._repr_html_()


def score_private(
    model: Any,
    X: Any,
    y: Any,
    epsilon: float,
    delta: float = 1e-6,
    *,
    error_bound: float | None = None,
    contributions: int = 1,
    coverage: float = 0.95,
    ledger: Ledger | None = None,
    noise: Noise | None = None,
) -> PrivateScore:
    """Metrics of a fitted model, or pipeline, on rows that it was not fitted to.

    Two classes: auc, accuracy, brier, a confusion matrix and a calibration curve; more: accuracy,
    brier and a confusion matrix; numbers: r2 and rmse. Labels and predictions of numbers are
    clipped to the label bound, errors to `error_bound` (by default twice the label bound, which
    clips none, and more is the same): a smaller public bound makes intervals shorter. Accuracy and
    confusion matrix are those of the most likely class, whatever `class_weight` is.

    Requires   X, y without rows of the fit: rows of both would be scored too well. A row with a
               label that was not declared, or so long that its prediction overflows, adds nothing.
    Guarantee  (epsilon, delta) for a person's `contributions` rows replaced, beside the fit's own.

    >>> from discreet.regression import PrivateLogisticRegression
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, (20_000, 2)) / 2
    >>> y = rng.random(20_000) < 1 / (1 + np.exp(-X @ [4.0, -2.0]))
    >>> model = PrivateLogisticRegression(1.0, classes=(False, True), random_state=0)
    >>> from discreet.privacy import SeededNoise
    >>> score = score_private(model.fit(X[:15_000], y[:15_000]), X[15_000:], y[15_000:], 1.0,
    ...                       noise=SeededNoise(0))
    >>> score["auc"].low < 0.8 < score["auc"].high
    True
    """
    normal_quantile(coverage)  # refuse a bad one before anything is released
    budget = Budget(epsilon, delta, contributions)
    labels = getattr(model, "classes_", None)
    tally = _Numbers.of(model, error_bound) if labels is None else _Classes(np.asarray(labels))
    read = partial(tally.sums, model, X, y)
    if ledger is not None:  # refused before the rows are read
        with ledger.part(budget, what="a score on held-out rows") as part:
            return _scored(tally, read(), part, len(y), coverage, noise)
    return _scored(tally, read(), Ledger(budget), len(y), coverage, noise)


def _scored(
    tally: Any, sums: Array, ledger: Ledger, n: int, coverage: float, noise: Noise | None
) -> PrivateScore:
    budget = ledger.budget
    released, record = Mechanisms(noise, ledger).gaussian(
        sums,
        sensitivity=budget.contributions * tally.sensitivity,
        mu=budget.mu,
        what="sums for metrics on held-out rows",
    )
    promise = ledger.guarantee(
        unprotected=("the number of held-out rows", VALUES, WITH_A_LEDGER),
        record="row",
    )  # fmt: skip
    std = 0.0 if budget.off else record.scale
    drawn = _redrawn(released, tally.covariance(released, n, std), std)
    note = f"{coverage:.0%} intervals, from privacy noise and sampling; {n:,} rows held out"

    def summary(metrics: dict[str, Callable[[Array], Array]], title: str, unit: str) -> Summary:
        ends = [(1 - coverage) / 2, (1 + coverage) / 2]
        effects = []
        for name, metric in metrics.items():
            value = float(metric(released[None, :])[0])
            spread = metric(drawn)
            found = [value, *np.quantile(spread, ends, method="inverted_cdf")]
            value, low, high = (float(each) for each in np.clip(found, *tally.limits(name)))
            error = float(np.std(spread)) if np.isfinite(spread).all() else math.inf
            effects.append(Effect(name, "", value, error, low, high))
        return Summary(title, tuple(effects), note, unit)

    metrics = summary(tally.metrics(n), "On held-out rows", "metric")
    curve = tally.curve(released, std)
    return PrivateScore(
        metrics,
        promise,
        tally.confusion(released),
        summary(curve, "Calibration: predicted, and how often it was so", "rate")
        if curve
        else None,
    )


def _redrawn(released: Array, covariance: Array, std: float) -> Array:  # (DRAWS, sums)
    """Sums as they may have been: normal around the released ones."""
    d = len(released)
    values, vectors = np.linalg.eigh(covariance + std**2 * np.eye(d))
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    return np.asarray(released + np.random.default_rng(0).standard_normal((DRAWS, d)) @ root.T)


class _Classes:
    """Counts of rows by label and prediction, and the sum of Brier's scores.

    classes   the declared ones
    """

    # A row is 1 in one cell and adds a number in [0, 1], or is nothing at all. Replaced, it moves
    # two cells by 1 and the number by 1 at most: sqrt(3) (replace-one).
    sensitivity = math.sqrt(3)

    def __init__(self, classes: Any) -> None:
        self.classes = classes
        self.k = len(classes)
        self.columns = len(ODDS) + 1 if self.k == 2 else self.k

    def sums(self, model: Any, X: Any, y: Any) -> Array:
        """Counts (k, columns), then Brier's sum."""
        numbers = ToNumbers(self.classes)(y)
        p = np.asarray(model.predict_proba(X))
        if len(p) != len(numbers):
            raise ValueError(f"X has {len(p)} rows and y has {len(numbers)} labels")
        known = (numbers >= 0) & np.isfinite(p).all(axis=1)  # an overflow is a row's own
        label = numbers[known].astype(np.intp)
        p = p[known]
        if self.k == 2:
            odds = np.log(np.maximum(p[:, 1], 1e-300)) - np.log(np.maximum(p[:, 0], 1e-300))
            column = np.searchsorted(ODDS, odds, side="left")
        else:
            column = np.argmax(p, axis=1)
        counts = np.bincount(label * self.columns + column, minlength=self.k * self.columns)
        # |p - e_y|^2 <= 2: halved, it is (1 - p)^2 for two classes.
        brier = np.minimum(np.sum((p - np.eye(self.k)[label]) ** 2, axis=1) / 2, 1.0)
        return np.append(counts, brier.sum()).astype(np.float64)

    def covariance(self, released: Array, n: int, std: float) -> Array:
        """Of sampling: multinomial counts; Brier's scores in [0, 1] with this mean."""
        share = np.maximum(released[:-1], 0.0)
        share = share / max(float(share.sum()), 1.0)
        found = np.zeros((len(released), len(released)))
        found[:-1, :-1] = n * (np.diag(share) - np.outer(share, share))
        mean = min(max(float(released[-1]) / n, 0.0), 1.0)
        found[-1, -1] = n * mean * (1 - mean)  # Bhatia and Davis
        return found

    def limits(self, name: str) -> tuple[float, float]:
        """Of a metric."""
        return 0.0, 1.0

    def metrics(self, n: int) -> dict[str, Callable[[Array], Array]]:
        """Of sums (draws, sums)."""
        found: dict[str, Callable[[Array], Array]] = {
            "accuracy": self._accuracy,
            "brier": lambda sums: sums[:, -1] / n,
        }
        return {"auc": self._auc, **found} if self.k == 2 else found

    def confusion(self, released: Array) -> Array:
        """(k, k), with the noise."""
        return np.asarray(self._confusion(released[None, :])[0])

    def curve(self, released: Array, std: float) -> dict[str, Callable[[Array], Array]]:
        """How often rows are of the second class, in bins where noise leaves anything to see."""
        if self.k != 2:
            return {}
        counts = released[:-1].reshape(2, -1).sum(axis=0)
        edges = 1 / (1 + np.exp(-np.concatenate([[-np.inf], ODDS, [np.inf]])))

        def rate(column: int) -> Callable[[Array], Array]:
            def at(sums: Array) -> Array:
                both = sums[:, [column, column + self.columns]]
                return np.asarray(both[:, 1] / np.maximum(both.sum(axis=1), 1.0))

            return at

        return {
            f"{edges[j]:.3g} to {edges[j + 1]:.3g}": rate(j)
            for j in np.flatnonzero(counts > 5 * std * math.sqrt(2) + 1).tolist()
        }

    def _confusion(self, sums: Array) -> Array:  # (draws, k, k)
        counts = sums[:, :-1].reshape(len(sums), self.k, self.columns)
        if self.k > 2:
            return counts
        middle = int(np.searchsorted(ODDS, 0.0)) + 1  # log-odds <= 0 are of the first class
        return np.stack([counts[:, :, :middle].sum(2), counts[:, :, middle:].sum(2)], axis=2)

    def _accuracy(self, sums: Array) -> Array:
        matrix = self._confusion(sums)
        right = np.trace(matrix, axis1=1, axis2=2)
        return np.asarray(right / np.maximum(matrix.sum(axis=(1, 2)), 1.0))

    def _auc(self, sums: Array) -> Array:
        """The probability that the row of the second class has the higher odds, ties half."""
        zeros, ones = (sums[:, :-1].reshape(len(sums), 2, -1)[:, j] for j in (0, 1))
        below = np.cumsum(zeros, axis=1) - zeros / 2
        pairs = zeros.sum(axis=1) * ones.sum(axis=1)
        return np.asarray(np.sum(ones * below, axis=1) / np.maximum(pairs, 1.0))


@dataclass(frozen=True)
class _Numbers:
    """Sums of u, u^2, s t, (u^3, u t, u^4, u^2 t)/3 and t^2: labels and squared errors.

    u and t are in units of their public bounds, and s is that of errors over that of labels. What
    u u^2 and the like add up to is the covariance of the first three, and costs them little.
    """

    label: float  # public bound on labels
    error: float  # public bound on errors
    middle: float = 0.0  # labels lie around it

    @property
    def scale(self) -> float:
        """s."""
        return self.error / self.label

    @property
    def sensitivity(self) -> float:
        """How far one replaced row moves them."""
        # With u, u' in [-1, 1] and t, t' in [0, 1], differences are, in squares and together,
        #     u, u^2       (u - u')^2 (1 + (u + u')^2) <= 4, as (u + u')^2 <= (2 - |u - u'|)^2
        #     u^3, u^4     4: of one sign, 1 + (4/3)^2 < 4; of two, convex in both cubes
        #     u t, u^2 t   (X + Y)^2 + (X - Y^2)^2 <= (1 + Y)^2 (1 + (1 - Y)^2) <= 4, X and Y the
        #                  longer and the shorter of u t and u' t'; of one sign 2
        #     s t, t^2     s^2 and 1
        # 4 + (4 + 4) / 9 + s^2 + 1 (replace-one). A row that adds nothing instead moves each by its
        # weight at most: 2 + 4 / 9 + s^2 + 1.
        return math.sqrt(5 + 8 / 9 + self.scale**2)

    @classmethod
    def of(cls, model: Any, error_bound: float | None) -> "_Numbers":
        """With the bound that the fit was given."""
        last = model[-1] if hasattr(model, "steps") else model
        last = getattr(last, "best_estimator_", last)
        last = last[-1] if hasattr(last, "steps") else last
        if not isinstance(last, PrivateEstimator):
            raise ValueError(f"model must be private, or end in a private one; got {type(last)}")
        bound = last._label_scale
        error = 2 * bound  # none is longer
        if error_bound is not None:
            error = min(public_bound("error_bound", error_bound), error)
        if error < SHORTEST * bound:
            raise ValueError(f"error_bound must be at least {SHORTEST:g} of the label bound")
        return cls(bound, error, getattr(last, "_label_middle", 0.0))

    def sums(self, model: Any, X: Any, y: Any) -> Array:
        """All eight."""
        labels = np.clip(checked_labels(y) - self.middle, -self.label, self.label)
        predicted = np.clip(np.asarray(model.predict(X)) - self.middle, -self.label, self.label)
        if len(predicted) != len(labels):
            raise ValueError(f"X has {len(predicted)} rows and y has {len(labels)} labels")
        known = np.isfinite(predicted)  # an overflow is a row's own
        labels, predicted = labels[known], predicted[known]
        u = labels / self.label
        t = np.clip((labels - predicted) / self.error, -1.0, 1.0) ** 2
        products = [each / 3 for each in (u**3, u * t, u**4, u**2 * t)]
        weighed = (u, u**2, self.scale * t, *products, t**2)
        return np.array([np.sum(each) for each in weighed], dtype=np.float64)

    def covariance(self, released: Array, n: int, std: float) -> Array:
        """Of sampling: that of the first three, drawn to normal errors around a normal law.

        By James and Stein, as far as the noise of the other five could be all that there is.
        """
        s = self.scale
        u, square, t = released[:3] / n / [1.0, 1.0, s]
        cube, ut, fourth, uut = 3 * released[3:7] / n
        tt = released[7] / n
        seen = np.array([[square, cube, ut], [cube, fourth, uut], [ut, uut, tt]])
        seen -= np.outer([u, square, t], [u, square, t])
        variance = max(square - u**2, 0.0)
        error = max(t, 0.0) * s**2  # of u
        normal = np.array([
            [variance, 2 * u * variance, 0.0],
            [2 * u * variance, 2 * variance**2 + 4 * u**2 * variance, 2 * (error / s) ** 2],
            [0.0, 2 * (error / s) ** 2, 2 * (error / s**2) ** 2],
        ])  # fmt: skip
        change = seen - normal
        noise = (1 + 9 * 7) * (std / n) ** 2  # of t^2; of u^4 and, twice, of three others
        kept = max(1 - noise / max(float(np.sum(change**2)), 1e-300), 0.0)
        values, vectors = np.linalg.eigh(normal + kept * change)
        root = np.diag([1.0, 1.0, s]) @ vectors * np.sqrt(n * np.maximum(values, 0.0))
        found = np.zeros((len(released), len(released)))
        found[:3, :3] = root @ root.T
        return found

    def limits(self, name: str) -> tuple[float, float]:
        """Of a metric."""
        return (-math.inf, 1.0) if name == "r2" else (0.0, 2 * self.label)

    def metrics(self, n: int) -> dict[str, Callable[[Array], Array]]:
        """Of sums (draws, sums)."""

        def mean_square(sums: Array) -> Array:
            return np.asarray(np.maximum(sums[:, 2] / self.scale / n, 0.0) * self.error**2)

        def r2(sums: Array) -> Array:
            around = (sums[:, 1] / n - (sums[:, 0] / n) ** 2) * self.label**2
            # Where noise leaves no variance to compare with, nothing bounds it from below.
            fraction = mean_square(sums) / np.where(around > 0, around, 1.0)
            return np.where(around > 0, 1 - fraction, -math.inf)

        return {"r2": r2, "rmse": lambda sums: np.sqrt(mean_square(sums))}

    def confusion(self, released: Array) -> None:
        """There is none of numbers."""

    def curve(self, released: Array, std: float) -> dict[str, Callable[[Array], Array]]:
        """Nor this."""
        return {}
