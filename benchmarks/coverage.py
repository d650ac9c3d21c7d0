"""Worst fits and coverage over worlds x rows x epsilon: the tables of docs/regression-why.md.

python benchmarks/coverage.py            # both parts
python benchmarks/coverage.py classes    # classifiers
python benchmarks/coverage.py labels     # linear regression: skewed, rare, bounded labels

Every world is fitted at several sizes and budgets. A classifier is worthless if its AUC (of more
than two classes, the mean over each against the others) is below .5 + .3 (that of the true
probabilities - .5). Coverage is the fraction of fresh rows whose true probability is inside the 95%
interval, beside it that of the worst fit: rows of one fit share its error, so without privacy the
worst one is far below 95%, too. Of linear fits it is that of the means of arms, and of their
differences.
"""

import math
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, lru_cache, partial

import numpy as np
from kit import CONSOLE, new_table, run
from scipy.special import expit, softmax
from sklearn import datasets

from discreet.experiments.measure import Found, grid
from discreet.regression import (
    OLS,
    NoisyFitWarning,
    PrivateLinearRegression,
    PrivateLogisticRegression,
)

EPSILONS = (0.3, 1.0, 3.0)
SEEDS = range(1000, 1200)  # of the worlds where fits were worthless before
SOME = SEEDS[:50]
FRESH = 2_000
Array = np.ndarray


@dataclass(frozen=True)
class Table:
    """Rows and labels to fit; fresh ones to be judged by, with the true probabilities."""

    X: Array
    y: Array
    norm_bound: float
    fresh: Array
    truth: Array  # (fresh, k), probabilities; 0 and 1 of real data, where nobody knows more
    known: bool = True  # whether they are probabilities

    @property
    def classes(self) -> tuple[int, ...]:
        """All that there are."""
        return tuple(range(self.truth.shape[1]))


def categories(columns: int, rows: int, seed: int) -> Table:
    """Some categories of 2 to 8 levels, as one-hot columns, beside three numbers."""
    rng = np.random.default_rng([seed, columns, rows])
    sizes = list[int]()
    while sum(sizes) < columns - 3:
        sizes.append(int(min(columns - 3 - sum(sizes), rng.integers(2, 9))))
    frequencies = [rng.dirichlet(np.ones(k)) for k in sizes]
    theta = rng.standard_normal(columns)
    norm_bound = math.sqrt(len(sizes) + 3)
    theta *= 8 / norm_bound / np.linalg.norm(theta)

    def drawn(n: int) -> Array:
        levels = [np.eye(len(p))[rng.choice(len(p), n, p=p)] for p in frequencies]
        return np.column_stack([*levels, rng.uniform(-1, 1, (n, 3))])

    X = drawn(rows)
    return labelled(X, drawn(FRESH), theta, -float(np.mean(X @ theta)), norm_bound, rng)


def sphere(columns: int, size: float, shift: float, rows: int, seed: int) -> Table:
    """Numbers on the sphere, and a theta of this size."""
    rng = np.random.default_rng([seed, columns, rows])
    theta = rng.standard_normal(columns)
    theta *= size / np.linalg.norm(theta)

    def drawn(n: int) -> Array:
        X = rng.standard_normal((n, columns))
        return X / np.linalg.norm(X, axis=1, keepdims=True)

    return labelled(drawn(rows), drawn(FRESH), theta, shift, 1.0, rng)


def labelled(
    X: Array, fresh: Array, theta: Array, shift: float, norm_bound: float, rng: np.random.Generator
) -> Table:
    """Labels by these probabilities."""
    truth = expit(fresh @ theta + shift)
    y = rng.random(len(X)) < expit(X @ theta + shift)
    return Table(X, y * 1, norm_bound, fresh, np.column_stack([1 - truth, truth]))


def ten_classes(rows: int, seed: int) -> Table:
    """Numbers on the sphere; log-odds of two classes have standard deviation 2."""
    rng = np.random.default_rng([seed, 10, rows])
    theta = rng.standard_normal((8, 10)) * 2

    def drawn(n: int) -> tuple[Array, Array, Array]:
        X = rng.standard_normal((n, 8))
        X /= np.linalg.norm(X, axis=1, keepdims=True)
        p = softmax(X @ theta, axis=1)
        y = (p.cumsum(axis=1) < rng.random((n, 1))).sum(axis=1)
        return X, np.minimum(y, 9), p

    X, y, _ = drawn(rows)
    fresh, _, truth = drawn(FRESH)
    return Table(X, y, 1.0, fresh, truth)


@lru_cache(maxsize=2)
def fair(one_hot: bool) -> Table:
    """Of statsmodels: five scales, as one-hot columns or as numbers, and three numbers."""
    import statsmodels.api

    data = statsmodels.api.datasets.fair.load_pandas().data
    scales = ("rate_marriage", "religious", "educ", "occupation", "occupation_husb")
    numbers = {"age": (17.5, 42.0), "yrs_married": (0.5, 23.0), "children": (0.0, 5.5)}
    levels = [scale(np.asarray(data[c]), one_hot) for c in scales]
    units = [(np.asarray(data[c]) - low) / (high - low) for c, (low, high) in numbers.items()]
    X = np.column_stack([*levels, *units]).astype(float)
    y = np.asarray(data["affairs"] > 0) * 1
    return Table(X, y, math.sqrt(len(scales) + len(numbers)), X, np.eye(2)[y], known=False)


def scale(values: Array, one_hot: bool) -> Array:
    """Its levels as columns, or in [0, 1]."""
    known = np.unique(values)
    return values[:, None] == known if one_hot else (values - known[0]) / (known[-1] - known[0])


@cache
def small(name: str) -> tuple[Array, Array]:
    """A small table of scikit-learn, columns in [0, 1]; of 1,797 rows at most."""
    X, y = getattr(datasets, f"load_{name}")(return_X_y=True)
    return (X - X.min(axis=0)) / np.maximum(np.ptp(X, axis=0), 1e-9), y


def fifths(name: str, _: int, seed: int) -> Table:
    """Four fifths of a small table to fit, one to be judged by."""
    X, y = small(name)
    test, train = np.split(np.random.default_rng(seed).permutation(len(y)), [len(y) // 5])
    norm_bound = math.sqrt(X.shape[1]) / 2
    truth = np.eye(y.max() + 1)[y[test]]
    return Table(X[train], y[train], norm_bound, X[test], truth, known=False)


@dataclass(frozen=True)
class World:
    """Where tables come from, and how long they are."""

    table: Callable[[int, int], Table]  # rows, seed
    rows: tuple[int, ...]
    seeds: range = SOME

    @property
    def epsilons(self) -> tuple[float, ...]:
        """Without privacy too, where true probabilities say what intervals hold."""
        return (*EPSILONS, math.inf) if self.table(100, 0).known else EPSILONS


WORLDS = {
    "fair, 30 columns": World(lambda *_: fair(True), (6_366,), SEEDS),
    "fair, 8 numbers": World(lambda *_: fair(False), (6_366,), SEEDS),
    "categories, 24 columns": World(
        lambda n, s: categories(24, n, s), (1_500, 6_000, 24_000), SEEDS
    ),
    "categories, 40 columns": World(lambda n, s: categories(40, n, s), (2_000, 8_000, 32_000)),
    "categories, 60 columns": World(lambda n, s: categories(60, n, s), (3_000, 12_000)),
    "numbers, |theta| = 3": World(lambda n, s: sphere(8, 3.0, 0.0, n, s), (1_000, 4_000, 16_000)),
    "numbers, |theta| = 9": World(lambda n, s: sphere(8, 9.0, 0.0, n, s), (1_000, 4_000, 16_000)),
    "rare labels, .8%": World(lambda n, s: sphere(6, 2.0, -5.1, n, s), (12_000, 48_000)),
    "ten classes": World(ten_classes, (5_000, 20_000)),
    "iris": World(partial(fifths, "iris"), (120,)),
    "wine": World(partial(fifths, "wine"), (143,)),
    "breast cancer": World(partial(fifths, "breast_cancer"), (456,)),
    "digits": World(partial(fifths, "digits"), (1_438,), SOME[:5]),  # 577 numbers: 15 s a fit
}


def fitted(*, world: str, rows: int, epsilon: float, seed: int) -> dict[str, float]:
    """AUC of a fit, of the best that there is, coverage, mean width, and whether it warned."""
    table = WORLDS[world].table(rows, seed)

    def model(epsilon: float) -> PrivateLogisticRegression:
        return PrivateLogisticRegression(
            epsilon, classes=table.classes, norm_bound=table.norm_bound, random_state=seed
        ).fit(table.X, table.y)

    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        private = model(epsilon)
    warned = any(issubclass(each.category, NoisyFitWarning) for each in seen)
    found = {"auc": auc(table, private.predict_proba(table.fresh)), "warned": float(warned)}
    if not table.known:
        return {**found, "best": plain_auc(world, 0 if world.startswith("fair") else seed)}
    low, high = np.moveaxis(private.predict_proba_interval(table.fresh), 2, 0)
    inside = (low <= table.truth) & (table.truth <= high)
    best = auc(table, table.truth)
    return {
        **found,
        "best": best,
        "inside": float(inside.mean()),
        "width": float((high - low).mean()),
    }


@cache
def plain_auc(world: str, seed: int) -> float:
    """Of a fit without privacy to the same table."""
    table = WORLDS[world].table(0, seed)
    model = PrivateLogisticRegression(
        math.inf, classes=table.classes, norm_bound=table.norm_bound
    ).fit(table.X, table.y)
    return auc(table, model.predict_proba(table.fresh))


def auc(table: Table, p: Array) -> float:  # (fresh, k)
    """The probability that of two rows, one of them of a class, that one has the higher score.

    Expected over labels of rows, where their probabilities are known. The mean over classes: of two
    it is the same for both.
    """
    found = []
    for each in table.classes:
        order = np.argsort(p[:, each], kind="stable")
        of_class = table.truth[order, each]
        below = np.cumsum(1 - of_class) - (1 - of_class) / 2
        pairs = of_class.sum() * (1 - of_class).sum()
        found.append(float(of_class @ below) / max(pairs, 1e-300))
    return float(np.mean(found))


def show(found: Found) -> None:
    """A row for each world, size and budget."""
    table = new_table(
        "Private classifiers",
        ("world", "rows", "epsilon", "fits", "best AUC", "median", "10%", "worst", "worthless",
         "unwarned", "warned", "coverage", "10%", "worst", "width"),
    )  # fmt: skip
    for name, world in WORLDS.items():
        for rows in world.rows:
            for epsilon in world.epsilons:
                setting = {"world": name, "rows": rows, "epsilon": epsilon}

                def over(what: str, setting=setting) -> Array:
                    return found.over(fitted, what, **setting)

                aucs, best, warned = over("auc"), over("best"), over("warned")
                worthless = aucs < 0.5 + 0.3 * (best - 0.5)
                cells = [f"{best.mean():.3f}", *tail(aucs, np.median), f"{worthless.sum()}",
                         f"{np.sum(worthless & (warned == 0))}", f"{warned.sum():.0f}"]  # fmt: skip
                intervals = ["-"] * 4
                if math.inf in world.epsilons:
                    intervals = [*tail(over("inside"), np.mean), f"{over('width').mean():.3f}"]
                shown = f"{epsilon:g}" if math.isfinite(epsilon) else "no privacy"
                table.add_row(name, f"{rows:,}", shown, f"{len(aucs)}", *cells, *intervals)
    CONSOLE.print(table)


def tail(values: Array, middle: Callable[[Array], np.floating]) -> list[str]:
    """The middle, the 10% quantile and the worst."""
    return [f"{each:.3f}" for each in (middle(values), np.quantile(values, 0.1), values.min())]


# -- labels of linear regression -----------------------------------------------------------------

ARMS = 4
LABEL_SEEDS = range(2000, 2030)
LABEL_ROWS = (3_000, 10_000, 30_000)


def revenue(rng: np.random.Generator, arm: Array, rates: Array) -> Array:
    """Most people buy nothing, the others for a lognormal amount."""
    bought = rng.random(len(arm)) < rates[arm]
    return np.where(bought, np.exp(3.0 + 0.8 * rng.standard_normal(len(arm))), 0.0)


LABELS: dict[str, tuple[float, Callable[[np.random.Generator, Array], Array]]] = {
    "zero-inflated": (200.0, lambda rng, arm: revenue(rng, arm, np.array([4, 5, 6, 5]) / 100)),
    "zero-inflated, by arm": (
        200.0,
        lambda rng, arm: revenue(rng, arm, np.array([1, 4, 10, 30]) / 100),
    ),
    "lognormal": (
        200.0,
        lambda rng, arm: np.exp(2.0 + 0.1 * arm + 0.9 * rng.standard_normal(len(arm))),
    ),
    "rare, 1%": (1.0, lambda rng, arm: (rng.random(len(arm)) < 0.01 + 0.002 * arm) * 1.0),
    "rare, 3%": (1.0, lambda rng, arm: (rng.random(len(arm)) < 0.03 + 0.005 * arm) * 1.0),
    "visits, 0 to 20": (20.0, lambda rng, arm: rng.poisson(0.5 + 0.1 * arm).astype(float)),
    "ratings, 1 to 5": (5.0, lambda rng, arm: rng.binomial(4, 0.6 + 0.05 * arm) + 1.0),
    "Gaussian": (1.0, lambda rng, arm: 0.1 * arm + 0.1 * rng.standard_normal(len(arm))),
    "t, 3 degrees": (1.0, lambda rng, arm: 0.1 * arm + 0.05 * rng.standard_t(3, len(arm))),
}


@lru_cache(maxsize=32)
def arm_means(name: str) -> Array:
    """Of labels within their bound; so many that their error is a hundredth of a fit's."""
    bound, draw = LABELS[name]
    rng = np.random.default_rng(0)
    many = 2_000_000
    arms = [draw(rng, np.full(many, arm)) for arm in range(ARMS)]
    return np.array([np.clip(each, -bound, bound).mean() for each in arms])


def labelled_fit(*, name: str, rows: int, epsilon: float, seed: int) -> dict[str, float]:
    """Errors over the bound, coverage of means and differences, and how wide intervals are."""
    bound, draw = LABELS[name]
    rng = np.random.default_rng([seed, rows])
    arm = rng.integers(ARMS, size=rows)
    X = np.eye(ARMS)[arm]
    y = draw(rng, arm)
    truth = arm_means(name)
    bounds = {"norm_bound": 1.0, "label_bound": bound, "fit_intercept": False}
    model = PrivateLinearRegression(epsilon, **bounds, random_state=seed).fit(X, y)
    plain = OLS(**bounds).fit(X, y)
    eye = np.eye(ARMS)
    pairs = np.array([eye[a] - eye[b] for a in range(ARMS) for b in range(a)])
    found = {}
    for what, asked in (("means", eye), ("differences", pairs)):
        width = model.confidence_width(asked)
        inside = np.abs(model.predict(asked) - asked @ truth) <= width
        found |= {what: float(inside.mean()), f"{what} width": float(width.mean()) / bound}
    error = float(np.mean((model.coef_ - truth) ** 2)) / bound**2
    return {
        **found,
        "square": error,
        "plain": float(np.mean((plain.coef_ - truth) ** 2)) / bound**2,
    }


def show_labels(found: Found) -> None:
    """A row for each world, size and budget."""
    table = new_table(
        f"Intervals of arm means, {len(LABEL_SEEDS)} fits",
        ("labels", "rows", "epsilon", "OLS", "private", "worst", "means", "worst", "differences",
         "width"),
    )  # fmt: skip
    for name in LABELS:
        for rows in LABEL_ROWS:
            for epsilon in EPSILONS:

                def over(what: str, name=name, rows=rows, epsilon=epsilon) -> Array:
                    return found.over(labelled_fit, what, name=name, rows=rows, epsilon=epsilon)

                errors = [1e4 * math.sqrt(each) for each in (
                    over("plain").mean(), over("square").mean(), over("square").max())]  # fmt: skip
                means = over("means")
                table.add_row(
                    name, f"{rows:,}", f"{epsilon:g}", *(f"{each:.1f}" for each in errors),
                    f"{means.mean():.3f}", f"{means.min():.2f}",
                    f"{over('differences').mean():.3f}", f"{1e4 * over('means width').mean():.0f}",
                )  # fmt: skip
    CONSOLE.print(table)


def main() -> None:
    """Measure what is not measured yet, and print the tables."""
    parts = sys.argv[1:] or ["classes", "labels"]
    if "classes" in parts:
        cells = [
            cell
            for name, world in WORLDS.items()
            for cell in grid(
                fitted, seeds=world.seeds, world=(name,), rows=world.rows, epsilon=world.epsilons
            )
        ]
        show(run(cells))
    if "labels" in parts:
        axes = {"name": tuple(LABELS), "rows": LABEL_ROWS, "epsilon": EPSILONS}
        show_labels(run(grid(labelled_fit, seeds=LABEL_SEEDS, **axes)))


if __name__ == "__main__":
    main()
