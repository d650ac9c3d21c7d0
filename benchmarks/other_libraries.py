"""Other libraries held to the same light: what attacks prove of them, and accuracy beside ours.

    make others                     installs other_libraries.txt in build/others, and runs this
    build/others/bin/python benchmarks/other_libraries.py [attacks] [accuracy]

Each library as PyPI has it, by its documented interface, with every public bound that it takes;
rows lie within the bounds. An attack runs 10^4 times on each of two neighbouring data sets, with
two seeds (OpenDP and PipelineDP draw from the operating system: two repetitions). What each proves
is at 95%; a claim is called refuted if both together do so, at 99.9% over all attacks. Where one
is, a row below it takes away what we think is the cause, and nothing else.
"""

import math
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from typing import Any

import numpy as np
from kit import CONSOLE, new_table, run
from scipy.special import expit

from discreet.arrays import Array
from discreet.audit import audit_scores
from discreet.experiments.measure import grid
from discreet.privacy import SeededNoise
from discreet.privacy.mechanisms import Mechanisms
from discreet.regression import PrivateLinearRegression, PrivateLogisticRegression

RUNS = 10_000  # on each side
SEEDS = (0, 1)
CLAIM = 1.0  # epsilon, of everything here
CONFIDENCE = 0.999  # of all verdicts together
FITS = 20  # of each estimator, for its accuracy
SIZES = (1_000, 10_000)  # rows
FRESH = 10_000


@dataclass(frozen=True)
class Case:
    """One use of one library, and an attack on it.

    library      its name on PyPI
    use          as in its documentation
    neighbours   how the two data sets differ
    scores       (side, seed) -> RUNS scores, or rows of views
    """

    library: str
    use: str
    neighbours: str
    scores: Callable[[int, int], Array]


# -- diffprivlib -----------------------------------------------------------------------------------


def diffprivlib_linear(side: int, seed: int, *, sign: float) -> Array:
    """99 rows at sign * .05, and one there or at sign; labels .5, bounds [0, 1] or [-1, 0].

    The score is the size of the slope: (noise on x y) / (noisy sum of squares).
    """
    from diffprivlib.models import LinearRegression

    X = np.full((100, 1), 0.05 * sign)
    X[-1] = sign if side else X[-1]
    y = np.full(100, 0.5)
    bounds = (min(0.0, sign), max(0.0, sign))
    coins = np.random.RandomState(2 * seed + side)

    def slope() -> float:
        model = LinearRegression(
            epsilon=CLAIM, bounds_X=bounds, bounds_y=(0.0, 1.0), random_state=coins
        )
        return float(model.fit(X, y).coef_[0])

    return np.abs([slope() for _ in range(RUNS)])


def diffprivlib_logistic(side: int, seed: int, *, norm: float) -> Array:
    """999 rows at 0 with both labels, and one there or at the norm's end: is the slope near 0?"""
    from diffprivlib.models import LogisticRegression

    X = np.zeros((1000, 1))
    X[-1] = norm * side
    y = np.arange(1000) % 2
    coins = np.random.RandomState(2 * seed + side)

    def slope() -> float:
        model = LogisticRegression(epsilon=CLAIM, data_norm=norm, random_state=coins)
        return float(model.fit(X, y).coef_[0, 0])

    return np.abs([slope() for _ in range(RUNS)])


def diffprivlib_mean(side: int, seed: int) -> Array:
    """100 values, one of which is 0 or 1."""
    from diffprivlib.tools import mean

    values = np.r_[np.full(99, 0.5), side]
    coins = np.random.RandomState(2 * seed + side)
    return np.array(
        [mean(values, epsilon=CLAIM, bounds=(0, 1), random_state=coins) for _ in range(RUNS)]
    )


# -- OpenDP ----------------------------------------------------------------------------------------

LOW, HIGH = 4.5, 8.0  # labels: of nearly all rows, and at the other end of x
CUTS = np.array([2.5, 7.5])  # where Theil-Sen predicts


@cache
def theil_sen(moved: int, low: float, high: float) -> Any:
    """OpenDP's regression, with the scale at which its own map promises CLAIM for so many rows."""
    dp = opendp()
    make = dp.sklearn.linear_model.LinearRegression
    bounds: dict[str, Any] = {"x_bounds": [(low, high)], "y_bounds": (low, high)}
    unit = make(dp.max_divergence(), **bounds, scale=1.0).measurement.map(moved)
    model = make(dp.max_divergence(), **bounds, scale=unit / CLAIM)
    if not math.isclose(model.measurement.map(moved), CLAIM):
        raise ValueError("the map is not inverse to the scale")
    return model


def opendp_theil_sen(side: int, seed: int, *, added: bool) -> Array:
    """How many of two predictions lie between the labels of most rows and the line to the last.

    A row added to 11, or one of 10 replaced.
    """
    low = np.column_stack([np.linspace(0, 0.1, 10), np.full(10, LOW)])
    high = np.array([[10.0, HIGH], [9.9, HIGH]])
    kept, others = (10, 1 + side) if added else (10 - side, side)
    rows = np.vstack([low[:kept], high[:others]])
    model = theil_sen(1 if added else 2, 0, 10)

    def predicted() -> Array:
        fit = model.fit(rows[:, :1], rows[:, 1])
        return np.asarray(fit.intercept_ + fit.coef_[0] * CUTS)

    lines = np.array([predicted() for _ in range(RUNS)])
    between = (lines > LOW) & (lines < LOW + (HIGH - LOW) / 10 * CUTS)
    return between.sum(axis=1).astype(float)


def opendp_sum(side: int, seed: int) -> Array:
    """Ten zeros, and one more value: none, or 1."""
    dp = opendp()
    space = dp.vector_domain(dp.atom_domain(T=float, nan=False)), dp.symmetric_distance()
    total = space >> dp.t.then_clamp((0.0, 1.0)) >> dp.t.then_sum() >> dp.m.then_laplace(1 / CLAIM)
    if not math.isclose(total.map(1), CLAIM, rel_tol=1e-3):
        raise ValueError(f"the map says {total.map(1)}")
    values = [0.0] * 10 + [1.0] * side
    return np.array([total(values) for _ in range(RUNS)])


@cache
def opendp() -> Any:
    import opendp.prelude as dp

    dp.enable_features("contrib", "idealized-numerics", "honest-but-curious")
    return dp


# -- PipelineDP ------------------------------------------------------------------------------------


def pipelinedp(side: int, seed: int, *, metric: str) -> Array:
    """One metric in RUNS public partitions: ten people with 0 in each, and one more, with 1.

    Nobody is in two partitions, and noise is drawn for each: one call is as good as RUNS.
    """
    import pipeline_dp

    rows = [(place, f"{place}/{k}", 0.0) for place in range(RUNS) for k in range(10)]
    rows += [(place, f"{place}/more", 1.0) for place in range(RUNS * side)]
    accountant = pipeline_dp.NaiveBudgetAccountant(total_epsilon=CLAIM, total_delta=1e-6)
    engine = pipeline_dp.DPEngine(accountant, pipeline_dp.LocalBackend())
    bounds = {"min_value": 0.0, "max_value": 1.0} if metric != "COUNT" else {}
    found = engine.aggregate(
        rows,
        pipeline_dp.AggregateParams(
            noise_kind=pipeline_dp.NoiseKind.LAPLACE,
            metrics=[getattr(pipeline_dp.Metrics, metric)],
            max_partitions_contributed=1,
            max_contributions_per_partition=1,
            **bounds,
        ),
        pipeline_dp.DataExtractors(
            partition_extractor=lambda row: row[0],
            privacy_id_extractor=lambda row: row[1],
            value_extractor=lambda row: row[2],
        ),
        public_partitions=list(range(RUNS)),
    )
    accountant.compute_budgets()
    return np.array([getattr(metrics, metric.lower()) for _, metrics in found])


CASES = {
    "linear": Case(
        "diffprivlib",
        "LinearRegression(bounds_X=(0, 1), bounds_y=(0, 1))",
        "one row replaced",
        lambda side, seed: diffprivlib_linear(side, seed, sign=1.0),
    ),
    "linear, mirrored": Case(
        "diffprivlib",
        "the same with X negated, bounds_X=(-1, 0)",
        "one row replaced",
        lambda side, seed: diffprivlib_linear(side, seed, sign=-1.0),
    ),
    "logistic, norm 100": Case(
        "diffprivlib",
        "LogisticRegression(data_norm=100)",
        "one row replaced",
        lambda side, seed: diffprivlib_logistic(side, seed, norm=100.0),
    ),
    "logistic, norm 12": Case(
        "diffprivlib",
        "LogisticRegression(data_norm=12)",
        "one row replaced",
        lambda side, seed: diffprivlib_logistic(side, seed, norm=12.0),
    ),
    "logistic, norm 1": Case(
        "diffprivlib",
        "LogisticRegression(data_norm=1)",
        "one row replaced",
        lambda side, seed: diffprivlib_logistic(side, seed, norm=1.0),
    ),
    "mean": Case("diffprivlib", "mean(bounds=(0, 1))", "one row replaced", diffprivlib_mean),
    "theil-sen, added": Case(
        "opendp",
        "LinearRegression, scale by map(1)",
        "one row added",
        lambda side, seed: opendp_theil_sen(side, seed, added=True),
    ),
    "theil-sen, replaced": Case(
        "opendp",
        "LinearRegression, scale by map(2)",
        "one row replaced",
        lambda side, seed: opendp_theil_sen(side, seed, added=False),
    ),
    "sum": Case("opendp", "clamp >> sum >> laplace", "one row added", opendp_sum),
    **{
        f"pipeline {metric}": Case(
            "pipeline-dp",
            f"aggregate(Metrics.{metric})",
            "one person added",
            lambda side, seed, metric=metric: pipelinedp(side, seed, metric=metric),
        )
        for metric in ("COUNT", "SUM", "MEAN")
    },
}


def scored(*, case: str, seed: int) -> dict[str, list[Any]]:
    """The scores of RUNS runs on each of the two data sets."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return {str(side): CASES[case].scores(side, seed).tolist() for side in (0, 1)}


def attacks() -> None:
    found = run(grid(scored, seeds=SEEDS, case=tuple(CASES)))
    table = new_table(
        f"Other libraries: epsilon = {CLAIM:.0f} claimed, {RUNS:,} runs a side, twice",
        ("library", "use", "neighbours", "proved", "again", "both, all together", "refuted"),
    )
    level = 1 - (1 - CONFIDENCE) / len(CASES)
    for name, case in CASES.items():
        sides = [found.over(scored, str(side), case=name) for side in (0, 1)]
        close = [audit_scores(*each).lower_bound for each in zip(*sides, strict=True)]
        pooled = [np.concatenate(side) for side in sides]
        sure = audit_scores(*pooled, confidence=level, claim=CLAIM)
        table.add_row(
            f"{case.library} {version(case.library)}",
            case.use,
            case.neighbours,
            *(f"{bound:.2f}" for bound in (*close, sure.lower_bound)),
            "yes" if sure.lower_bound > CLAIM else "no",
        )
    CONSOLE.print(table)


# -- accuracy beside ours --------------------------------------------------------------------------


def fitted(*, task: str, size: int, who: str, seed: int) -> dict[str, float]:
    """R^2, or the share of right labels, on fresh rows of a simulated world."""
    rng = np.random.default_rng(seed)
    dim = 1 if task == "one feature" else 5
    theta = rng.choice([-0.8, 0.8], dim) / dim
    X, fresh = (rng.uniform(-1, 1, (count, dim)) for count in (size, FRESH))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if task == "logistic":
            y, truth = (rng.random(len(rows)) < expit(10 * rows @ theta) for rows in (X, fresh))
            return {
                "value": float(np.mean(classifier(who, seed).fit(X, y).predict(fresh) == truth))
            }
        y, truth = (
            np.clip(0.1 + rows @ theta + rng.normal(0, 0.1, len(rows)), -1, 1)
            for rows in (X, fresh)
        )
        error = truth - regressor(who, dim, seed).fit(X, y).predict(fresh)
    return {"value": float(1 - np.mean(error**2) / np.var(truth))}


def classifier(who: str, seed: int) -> Any:
    """Rows have a norm of at most sqrt(5)."""
    norm = math.sqrt(5)
    if who == "discreet":
        return PrivateLogisticRegression(
            CLAIM, classes=(False, True), norm_bound=norm, random_state=seed
        )
    if who == "scikit-learn":
        from sklearn.linear_model import LogisticRegression

        return LogisticRegression()
    from diffprivlib.models import LogisticRegression

    return LogisticRegression(epsilon=CLAIM, data_norm=norm, random_state=seed)


def regressor(who: str, dim: int, seed: int) -> Any:
    """Features and labels lie in [-1, 1]."""
    if who == "discreet":
        return PrivateLinearRegression(
            CLAIM, norm_bound=math.sqrt(dim), fit_intercept=True, random_state=seed
        )
    if who == "scikit-learn":
        from sklearn.linear_model import LinearRegression

        return LinearRegression()
    if who == "opendp":
        return theil_sen(2, -1, 1)  # one row replaced, as for the others
    from diffprivlib.models import LinearRegression

    return LinearRegression(
        epsilon=CLAIM, bounds_X=(-1.0, 1.0), bounds_y=(-1.0, 1.0), random_state=seed
    )


TASKS = {
    "five features": ("diffprivlib", "discreet", "scikit-learn"),
    "one feature": ("diffprivlib", "opendp", "discreet", "scikit-learn"),
    "logistic": ("diffprivlib", "discreet", "scikit-learn"),
}


def accuracy() -> None:
    cells = [
        cell
        for task, libraries in TASKS.items()
        for cell in grid(fitted, seeds=FITS, task=(task,), size=SIZES, who=libraries)
    ]
    found = run(cells)
    table = new_table(
        f"Accuracy at epsilon = {CLAIM:.0f}, {FITS} fits",
        ("task", "rows", "library", "mean", "10% quantile", "worst"),
    )
    for task, libraries in TASKS.items():
        for size in SIZES:
            for who in libraries:
                values = found.over(fitted, task=task, size=size, who=who)
                tail = (values.mean(), np.quantile(values, 0.1), values.min())
                table.add_row(task, f"{size:,}", who, *(f"{x:.3f}" for x in tail))
    CONSOLE.print(table)
    sums()


def sums() -> None:
    """Root mean square error of one private sum of values in [0, 1]."""
    release = Mechanisms(SeededNoise(0))
    ours = [
        release.laplace(0.0, sensitivity=1.0, epsilon=CLAIM, what="sum").value for _ in range(RUNS)
    ]
    table = new_table("Error of one sum", ("library", "root mean square"))
    for name, errors in (
        ("opendp", opendp_sum(0, 0)),
        ("pipeline-dp", pipelinedp(0, 0, metric="SUM")),
        ("discreet", np.array(ours)),
    ):
        table.add_row(f"{name} {version(name)}", f"{math.sqrt(np.mean(errors**2)):.2f}")
    CONSOLE.print(table)


def main() -> None:
    chosen = sys.argv[1:] or ["attacks", "accuracy"]
    if "attacks" in chosen:
        attacks()
    if "accuracy" in chosen:
        accuracy()


if __name__ == "__main__":
    main()
