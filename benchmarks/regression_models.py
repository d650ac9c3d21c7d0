"""Classes, intervals for labels, private search: tables of docs/regression.md, regression-why.md.

python benchmarks/regression_models.py [classes] [intervals] [search]
"""

import math
import sys
import warnings
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from kit import CONSOLE, new_table, run
from scipy.special import expit, softmax

from discreet.environments.datasets import DATA
from discreet.experiments.measure import Found, grid
from discreet.privacy import Budget, Ledger, SeededNoise
from discreet.privacy.gaussian import bounded_range_mu, gaussian_epsilon
from discreet.privacy.mechanisms import Mechanisms
from discreet.regression import (
    AdaSSP,
    PrivateGLM,
    PrivateLinearRegression,
    PrivateLogisticRegression,
    PrivateSearchCV,
)
from discreet.regression.base import Problem
from discreet.regression.newton import scoring
from discreet.regression.scores import Score, Weighting

DELTA = 1e-6
Array = np.ndarray


# -- classes ---------------------------------------------------------------------------------------

WORLDS = (("sphere", 5_000, 3), ("sphere", 20_000, 3), ("sphere", 20_000, 6), ("decay", 20_000, 6))
D = 8


def classes_world(covariates: str, n: int, k: int, seed: int):
    """Rows, labels, fresh rows and the true probabilities there."""
    rng = np.random.default_rng(seed)

    def rows(n: int) -> Array:
        X = rng.standard_normal((n, D))
        if covariates == "decay":
            X = X / np.arange(1, D + 1) / 3
        else:
            X /= np.linalg.norm(X, axis=1, keepdims=True)
        return X / np.maximum(1, np.linalg.norm(X, axis=1, keepdims=True))

    theta = rng.standard_normal((D, k))
    theta *= 4 / np.linalg.norm(theta, axis=0)
    shift = 2 * rng.standard_normal(k)
    X, fresh = rows(n), rows(4000)
    P = softmax(X @ theta + shift, axis=1)
    y = (P.cumsum(axis=1) < rng.random((n, 1))).sum(axis=1).clip(0, k - 1)
    return X, y, fresh, softmax(fresh @ theta + shift, axis=1)


@dataclass(frozen=True)
class OneVsRest(Score):
    """k logistic regressions in one joint release: the other way that was tried."""

    classes: int
    joint = 1.25
    slope = 0.25

    @property
    def entries(self) -> int:
        return self.classes

    @property
    def half_range(self) -> float:
        return math.sqrt(1 - 1 / self.classes)

    def surprise(self, theta: Array) -> float:
        return math.sqrt(self.classes) / self.half_range

    def statistics(self, weighting: Weighting, theta: Array, X: Array, y: Array):
        d, k = X.shape[1], self.classes
        p = expit(X @ theta.reshape(d, k))
        # max over y of |e_y - p|^2 = 1 + |p|^2 - 2 min p
        farthest = np.sqrt(1 + (p * p).sum(axis=1) - 2 * p.min(axis=1))
        u, w = weighting.transform(X, np.maximum(farthest / self.half_range, 1.0))
        H = np.zeros((d, k, d, k))
        for a in range(k):
            H[:, a, :, a] = (u * (w * p[:, a] * (1 - p[:, a]))[:, None]).T @ u
        g = u.T @ (w[:, None] * (np.eye(k)[y.astype(int)] - p))
        return g.ravel(), H.reshape(d * k, d * k)

    def sensitivities(self, weighting: Weighting) -> tuple[float, float]:
        # |diag p (1 - p)|_F <= sqrt(k) / 4
        moves = math.sqrt(2) * weighting.cap * math.sqrt(self.classes) / 4
        return 2 * weighting.tau * self.half_range, moves

    def gram(self, information: Array) -> Array:
        d = len(information) // self.classes
        parts = information.reshape(d, self.classes, d, self.classes)
        return np.einsum("iaja->ij", parts) / (self.slope * self.classes)

    def within(self, theta: Array, radius: float) -> Array:
        columns = theta.reshape(-1, self.classes)
        lengths = np.maximum(np.linalg.norm(columns, axis=0), 1e-300)
        return (columns * np.minimum(1.0, radius / lengths)).ravel()


def one_vs_rest_joint(X: Array, y: Array, k: int, epsilon: float, seed: int, fresh: Array) -> Array:
    def units(X: Array) -> Array:
        return np.column_stack([X, np.ones(len(X))]) / math.sqrt(2)

    ledger = Ledger(Budget(epsilon, DELTA))
    task = Problem(units(X), y * 1.0, ledger, SeededNoise(seed), np.random.default_rng(0))
    theta = scoring(task, OneVsRest(k), 20.0).theta
    p = expit(units(fresh) @ theta.reshape(-1, k))
    return p / p.sum(axis=1, keepdims=True)


def one_vs_rest_split(X: Array, y: Array, k: int, epsilon: float, seed: int, fresh: Array) -> Array:
    share = gaussian_epsilon(Budget(epsilon, DELTA).mu / math.sqrt(k), DELTA)
    bounds = {"norm_bound": 1.0, "label_bound": 1.0, "fit_intercept": True}
    models = [PrivateGLM(share, DELTA, random_state=100 * seed + c, **bounds) for c in range(k)]
    p = np.column_stack([model.fit(X, y == c).predict(fresh) for c, model in enumerate(models)])
    return p / p.sum(axis=1, keepdims=True)


def contest(*, covariates: str, rows: int, k: int, epsilon: float, seed: int) -> dict[str, float]:
    """Half the l1 distance between predicted and true probabilities."""
    X, y, fresh, P = classes_world(covariates, rows, k, seed)

    def multinomial(epsilon: float) -> Array:
        model = PrivateLogisticRegression(
            epsilon, DELTA, classes=range(k), norm_bound=1.0, random_state=seed
        )
        return model.fit(X, y).predict_proba(fresh)

    found = {
        "non-private": multinomial(math.inf),
        "multinomial (default)": multinomial(epsilon),
        "one against all, one release": one_vs_rest_joint(X, y, k, epsilon, seed, fresh),
        "one against all, shares": one_vs_rest_split(X, y, k, epsilon, seed, fresh),
        "frequencies of classes": np.tile(np.bincount(y, minlength=k) / len(y), (len(P), 1)),
    }
    return {name: np.abs(Q - P).sum(axis=1).mean() / 2 for name, Q in found.items()}


CLASS_SEEDS = range(4)


def classes_cells():
    return [
        cell
        for covariates, rows, k in WORLDS
        for cell in grid(
            contest,
            seeds=CLASS_SEEDS,
            covariates=(covariates,),
            rows=(rows,),
            k=(k,),
            epsilon=(1.0, 3.0),
        )
    ]


def show_classes(found: Found) -> None:
    names = ("non-private", "multinomial (default)", "one against all, one release",
             "one against all, shares", "frequencies of classes")  # fmt: skip
    table = new_table("Several classes", ("covariates", "T", "k", "epsilon", *names))
    for covariates, rows, k in WORLDS:
        for epsilon in (1.0, 3.0):
            setting = {"covariates": covariates, "rows": rows, "k": k, "epsilon": epsilon}
            cells = [f"{1e3 * found.over(contest, n, **setting).mean():.1f}" for n in names]
            table.add_row(covariates, f"{rows:,}", str(k), f"{epsilon:g}", *cells)
    CONSOLE.print(table)


# -- intervals -------------------------------------------------------------------------------------

INTERVAL_EPSILONS = (0.3, 1.0, 3.0, math.inf)
SPLITS = range(4)


@lru_cache(maxsize=1)
def real(name: str):
    return DATA[name]()


def covered(*, data: str, epsilon: float, seed: int) -> dict[str, list[float]]:
    """Fraction of test labels inside, and the mean width over the range of labels."""
    X, y = real(data)
    test, train = np.split(np.random.default_rng(seed).permutation(len(y)), [len(y) // 5])
    model = PrivateLinearRegression(
        epsilon,
        DELTA,
        norm_bound=math.sqrt(X.shape[1]),
        label_bound=1.0,
        fit_intercept=True,
        random_state=seed,
    ).fit(X[train], y[train])
    found = {}
    for coverage in (0.8, 0.95):
        low, high = model.predict_interval(X[test], coverage).T
        inside = np.mean((low <= y[test]) & (y[test] <= high))
        found[f"{coverage:g}"] = [inside, np.mean(high - low) / 2]
    return found


def interval_cells():
    return list(grid(covered, seeds=SPLITS, data=tuple(DATA), epsilon=INTERVAL_EPSILONS))


def show_intervals(found: Found) -> None:
    table = new_table(
        "Intervals for labels",
        ("data", "rows", *(f"epsilon = {e:g}" for e in INTERVAL_EPSILONS)),
    )
    for data in DATA:
        cells = []
        for epsilon in INTERVAL_EPSILONS:
            each = []
            for coverage in ("0.8", "0.95"):
                inside, width = found.over(covered, coverage, data=data, epsilon=epsilon).T
                each.append(f"{inside.mean():.3f} ({width.mean():.2f})")
            cells.append(" / ".join(each))
        table.add_row(data, f"{len(real(data)[1]):,}", *cells)
    CONSOLE.print(table)


# -- search ----------------------------------------------------------------------------------------

SEARCH_SEEDS = range(6)
SEARCHES = ("bound", "prior", "degree")
ROWS = 10_000


class Powers:
    """1 column to its powers, by their degree; it learns nothing."""

    def __init__(self, degree: int = 1) -> None:
        self.degree = degree

    def get_params(self, deep: bool = True):
        return {"degree": self.degree}

    def set_params(self, degree: int):
        self.degree = degree
        return self

    def fit(self, X: Array, y: Array | None = None):
        return self

    def transform(self, X: Array) -> Array:
        return np.column_stack([X[:, 0] ** j for j in range(1, self.degree + 1)])

    def fit_transform(self, X: Array, y: Array | None = None) -> Array:
        return self.transform(X)

    def __sklearn_tags__(self):
        from sklearn.utils import Tags, TargetTags

        return Tags(estimator_type=None, target_tags=TargetTags(required=False), requires_fit=False)


def search_world(kind: str, n: int, seed: int):
    """An estimator, its candidates, rows and labels."""
    rng = np.random.default_rng(seed)
    if kind == "degree":
        from sklearn.pipeline import make_pipeline

        X = rng.uniform(-1, 1, (n, 1))
        y = np.clip(0.6 * np.sin(5 * X[:, 0]) + 0.2 * rng.standard_normal(n), -1, 1)
        model = PrivateLinearRegression(
            1.0, DELTA, norm_bound=3.0, label_bound=1.0, fit_intercept=True, random_state=seed
        )
        return make_pipeline(Powers(), model), {"powers__degree": [1, 3, 5]}, X, y
    if kind == "bound":
        X = 0.1 * rng.standard_normal((n, D)) / math.sqrt(D)
        theta = rng.standard_normal(D)
        y = np.clip(X @ theta + 0.1 * rng.standard_normal(n), -1, 1)
        model = AdaSSP(1.0, DELTA, label_bound=1.0, fit_intercept=False, random_state=seed)
        return model, {"norm_bound": [0.01, 0.03, 0.1, 0.3, 1.0, 3.0]}, X, y
    X, y, *_ = classes_world("sphere", n, 2, seed)
    model = PrivateLogisticRegression(
        1.0, DELTA, classes=range(2), norm_bound=1.0, random_state=seed
    )
    return model, {"coef_bound": [0.1, 1.0, 10.0]}, X, y


def strategies(*, kind: str, seed: int) -> dict[str, float]:
    """The loss on fresh rows of what each way of searching ends with, at epsilon = 1."""
    from sklearn.base import clone

    warnings.simplefilter("ignore")
    estimator, parameters, X, y = search_world(kind, 2 * ROWS, seed)
    test = slice(ROWS, None)
    rng = np.random.default_rng([seed, 1])
    ((name, values),) = parameters.items()
    prefix = "privatelinearregression__" if kind == "degree" else ""
    mu = Budget(1.0, DELTA).mu

    def losses(model, X: Array, y: Array) -> Array:
        """One for each row, at most 1."""
        if kind == "prior":
            p = model.predict_proba(X)[np.arange(len(y)), y]
            return np.minimum(-np.log(np.maximum(p, 1e-6)), 4.0) / 4
        return np.minimum((y - model.predict(X)) ** 2, 1.0)

    def fitted(value, mu: float, X: Array, y: Array):
        epsilon = math.inf if math.isinf(mu) else gaussian_epsilon(mu, DELTA)
        seed = int(rng.integers(2**31))
        changes = {f"{prefix}epsilon": epsilon, f"{prefix}random_state": seed, name: value}
        return clone(estimator).set_params(**changes).fit(X, y)

    def loss(model) -> float:
        return float(losses(model, X[test], y[test]).mean())

    def chosen(models, X: Array, y: Array, mu: float):
        """Report noisy max over sums of losses in [0, 1], at mu."""
        epsilon = 1.0
        while bounded_range_mu(epsilon) > mu:
            epsilon *= 0.99
        totals = [losses(model, X, y).sum() for model in models]
        noise = SeededNoise(int(rng.integers(2**31)))
        release = Mechanisms(noise)
        return release.select(totals, sensitivity=1.0, epsilon=epsilon, minimize=True).value

    part = 4 * ROWS // 5  # to fit; the rest, disjoint, to choose at the whole mu
    first, rest = slice(0, part), slice(part, ROWS)
    train_X, train_y = X[:ROWS], y[:ROWS]
    m = len(values)
    shares = [fitted(v, mu / math.sqrt(m), X[first], y[first]) for v in values]
    halves = [fitted(v, mu / math.sqrt(2 * m), X[first], y[first]) for v in values]
    at = chosen(halves, X[rest], y[rest], mu)
    plain = [fitted(v, math.inf, X[first], y[first]) for v in values]
    search = PrivateSearchCV(estimator, parameters).fit(train_X, train_y)
    every = [loss(fitted(v, mu, train_X, train_y)) for v in values]
    best = int(np.argmin([losses(model, X[rest], y[rest]).mean() for model in plain]))
    return {
        "votes (default)": loss(search),
        "shares, the chosen fit": loss(shares[chosen(shares, X[rest], y[rest], mu)]),
        "half for shares, fit again": loss(
            fitted(values[at], mu / math.sqrt(2), X[first], y[first])
        ),
        "chosen without privacy": loss(fitted(values[best], mu, train_X, train_y)),
        "best candidate": min(every),
        "any candidate": float(np.mean(every)),
    }


def search_cells():
    return list(grid(strategies, seeds=SEARCH_SEEDS, kind=SEARCHES))


def show_search(found: Found) -> None:
    names = ("votes (default)", "shares, the chosen fit", "half for shares, fit again",
             "chosen without privacy", "best candidate", "any candidate")  # fmt: skip
    table = new_table("Private search", ("what is chosen", *names))
    for kind in SEARCHES:
        cells = [f"{1e3 * found.over(strategies, n, kind=kind).mean():.1f}" for n in names]
        table.add_row(kind, *cells)
    CONSOLE.print(table)


PARTS = {
    "classes": (classes_cells, show_classes),
    "intervals": (interval_cells, show_intervals),
    "search": (search_cells, show_search),
}


def main() -> None:
    for name in sys.argv[1:] or PARTS:
        cells, show = PARTS[name]
        show(run(cells()))


if __name__ == "__main__":
    main()
