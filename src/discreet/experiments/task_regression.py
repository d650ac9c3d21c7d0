"""Linear regression: squared error on rows that were held out, against the number of rows."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from discreet.arrays import Array, finite_range, integer
from discreet.environments.datasets import DATA
from discreet.environments.tables import read_table
from discreet.experiments.experiment import Cell, Choice, suggestion
from discreet.experiments.own import made
from discreet.experiments.task import Clock, Curve, Learner, Task, marks
from discreet.regression import PrivateLinearRegression
from discreet.regression.baselines import OLS, SSP, AdaSSP

HELD_OUT = 0.2  # of a table's rows; as many rows again for a synthetic one, at most MOST
MOST = 10_000
FEWEST = 50  # rows to begin a curve with


@dataclass(frozen=True)
class Rows:
    """Rows to learn from, in the order they come, and rows to be judged by."""

    X: Array  # (n, d), in the unit ball
    y: Array  # (n,), in [-1, 1]
    test_X: Array  # (m, d), in the unit ball
    test_y: Array  # (m,), in [-1, 1]


class Regression(Task):
    """A fit on the first n rows for each n; predictions have an intercept."""

    name = "regression"
    measure = "squared error"
    axis = "rows"
    gains = ("explains", "explained", "of the labels' variance")
    blind = "predicting the mean"
    meaning = (
        "The squared error is that of predictions for rows that were held out, with labels scaled "
        "to [-1, 1]."
    )
    logarithmic = True
    given = ("epsilon", "delta", "norm_bound", "label_bound", "fit_intercept", "public_X", "noise",
             "random_state")  # fmt: skip
    does = ("fit", "predict")
    learners: ClassVar[Mapping[str, Learner]] = {
        "PrivateLinearRegression": Learner(
            PrivateLinearRegression, "central",
            'information-weighted steps; trust = "local" and method are options',
            "Chen, Li, Rakhlin and Simchi-Levi (2025)",
        ),
        "AdaSSP": Learner(AdaSSP, "central", "noisy second moments and a ridge as large as needed",
                          "Wang (2018), Algorithm 2"),
        "SSP": Learner(SSP, "central", "noisy second moments", "Vu and Slavkovic (2009)"),
        "OLS": Learner(OLS, "none", "least squares without privacy: the yardstick", "Gauss (1809)"),
    }  # fmt: skip

    def about(self, choice: Choice) -> str:
        return "a number (the label) is predicted for each person from what else is known of them."

    def environment(self, choice: Choice, rounds: int, seed: int) -> Rows:
        """Synthetic rows ("sphere": dim, noise), real data, or your own (`regression_table`)."""
        rng = np.random.default_rng([seed, 0x726F7773])
        name = choice.name
        options = dict(choice.options)
        if name == "sphere":
            return _sphere(rounds, rng, **options)
        if name == "table":
            X, y = regression_table(**options)
        elif name in DATA:
            X, y = DATA[name](**options)
            X = X / np.sqrt(X.shape[1])  # from the cube into the unit ball
        else:
            make = self.own_world(choice, ("sphere", "table", *DATA))
            X, y = _inside(name, made(make, {"seed": seed}, options))
        order = rng.permutation(len(y))
        kept = len(y) - int(HELD_OUT * len(y))
        if kept < rounds:
            raise ValueError(
                f"the table has {kept:,} rows besides those held out and the experiment wants "
                f"{rounds:,}; set rounds = {kept} or less"
            )
        first = order[:rounds]
        last = order[kept:]
        return Rows(X[first], y[first], X[last], y[last])

    def offers(self, cell: Cell, environment: Rows) -> dict[str, Any]:
        bounds = {"norm_bound": 1.0, "label_bound": 1.0}
        return {**bounds, "fit_intercept": True, "random_state": cell.seed}

    def play(self, cell: Cell, environment: Rows, learner: Any, clock: Clock) -> Curve:
        n = marks(cell.rounds, cell.points, first=FEWEST)
        value = np.empty(len(n))
        blind = np.empty(len(n))
        X = environment.X
        y = environment.y
        test_y = environment.test_y
        for i, rows in enumerate(n):
            clock.to("learner")
            learner.fit(X[:rows], y[:rows])
            clock.to("environment")
            value[i] = np.mean((learner.predict(environment.test_X) - test_y) ** 2)
            blind[i] = np.mean((y[:rows].mean() - test_y) ** 2)
        return n, value, blind


def _inside(name: str, found: Any) -> tuple[Array, Array]:
    """Rows and labels of a world of one's own, if they keep to the units of the task."""
    try:
        X, y = (np.asarray(each, dtype=np.float64) for each in found)
    except (TypeError, ValueError):
        raise ValueError(f"{name} must return rows (n, d) and labels (n,)") from None
    if X.ndim != 2 or y.shape != (len(X),):
        raise ValueError(f"{name} must return rows (n, d) and labels (n,)")
    if np.linalg.norm(X, axis=1).max() > 1 + 1e-9 or np.abs(y).max() > 1 + 1e-9:
        raise ValueError(f"{name} must return rows in the unit ball and labels in [-1, 1]")
    return X, y


def _sphere(n: int, rng: np.random.Generator, dim: int = 5, noise: float = 0.1) -> Rows:
    """Features uniform on the unit sphere, labels linear in them plus Gaussian noise, cut to 1."""
    d = integer("dim", dim)
    extra = min(n, MOST)
    theta = rng.standard_normal(d)
    X = rng.standard_normal((n + extra, d))
    theta /= np.linalg.norm(theta)
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    y = np.clip(X @ theta + noise * rng.standard_normal(n + extra), -1.0, 1.0)
    return Rows(X[:n], y[:n], X[n:], y[n:])


def regression_table(
    path: str, label: str, label_range: Any, features: Any, clip: bool = False
) -> tuple[Array, Array]:  # (n, d) in the unit ball, (n,) in [-1, 1]
    """Columns of a .csv or .parquet file, scaled by their public bounds to [-1, 1].

    `features` maps a column to its bounds [low, high]. Values outside the bounds are refused, or
    with `clip` moved to them. Messages name columns, never what is in them.
    """
    if not os.path.isfile(path):
        raise ValueError(f"path: no file {path!r}; paths are relative to where you are")
    frame = read_table(path)
    if not isinstance(features, Mapping) or not features:
        raise ValueError("features: give each column its public bounds: { age = [0, 100] }")
    columns = []
    for column, bounds in {**features, label: label_range}.items():
        key = "label" if column == label else f"features.{column}"
        if column not in frame.columns:
            known = tuple(str(each) for each in frame.columns)
            raise ValueError(f"{key}: {path} has no column {column!r}{suggestion(column, known)}")
        columns.append(_scaled(key, column, frame[column], bounds, clip))
    *inside, y = columns
    return np.column_stack(inside) / np.sqrt(len(inside)), y


def _scaled(key: str, column: str, series: Any, bounds: Any, clip: bool) -> Array:
    key = "label_range" if key == "label" else key
    low, high = finite_range(f"{key}: the public range of {column!r}", bounds)
    try:
        values = series.to_numpy(dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError(f"{key}: {column!r} is not a column of numbers; encode it first") from None
    if np.isnan(values).any():
        raise ValueError(f"{key}: {column!r} has missing values; drop or fill them first")
    if not clip and ((values < low) | (values > high)).any():
        raise ValueError(
            f"{key}: {column!r} has values outside its public bounds [{low:g}, {high:g}]; widen "
            "them by what is publicly known, or set clip = true"
        )
    return np.asarray(np.clip((2 * values - low - high) / (high - low), -1.0, 1.0))
