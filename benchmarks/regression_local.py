"""Locally private regression against one-shot statistics: the figures of docs/regression-why.md.

python benchmarks/regression_local.py [seeds]
"""

import sys
import time

import numpy as np
from kit import CONSOLE, new_table, run

from discreet.experiments.measure import grid
from discreet.privacy import Budget, Ledger, SeededNoise
from discreet.regression import local
from discreet.regression.base import Problem
from papers.local_methods import one_dimensional, one_shot

TARGETS = {"sphere": 3.0, "decay": 6.0, "log-normal": 6.0, "basis": 6.0}  # x 10^-3, at 10^6 people
FIRST = 1000  # seed; the constants of the phases were tuned on seeds 0 to 8
METHODS = {
    "phases": local.information_weighted,
    "known covariates": local.known_covariates,
    "one shot": one_shot,
    "sgd": local.descent,
}


def covariates(name, n, rng, d=5):
    normal = rng.standard_normal((n, d))
    directions = normal / np.linalg.norm(normal, axis=1, keepdims=True)
    if name == "sphere":
        return directions
    if name == "decay":
        rows = normal * np.arange(1, d + 1) ** -1.5
        return rows / np.maximum(1, np.linalg.norm(rows, axis=1, keepdims=True))
    if name == "log-normal":
        return directions * np.minimum(1, np.exp(1.2 * rng.standard_normal(n) - 2))[:, None]
    frequency = 2.0 ** -np.arange(1, d + 1)
    return np.eye(d)[rng.choice(d, n, p=frequency / frequency.sum())]


def world(name, n, seed, d=5, std=0.1):
    rng = np.random.default_rng(seed)
    X = covariates(name, n, rng, d)
    theta = rng.standard_normal(d)
    theta /= np.linalg.norm(theta)
    y = np.clip(X @ theta + std * rng.standard_normal(n), -1, 1)
    return X, y, theta


def problem(X, y, seed, epsilon=1.0, public=None):
    ledger = Ledger(Budget(epsilon), "pure")
    return Problem(X, y, ledger, SeededNoise(seed), np.random.default_rng(seed + 999), public)


def fit(*, method: str, name: str, n: int, seed: int) -> dict[str, float]:
    """Mean |<phi, theta^ - theta*>|, and theta's squared error in units of its covariance."""
    X, y, theta = world(name, n, seed)
    public = covariates(name, 50_000, np.random.default_rng(seed + 10**6))
    estimate = METHODS[method](problem(X, y, seed, 1.0, public))
    error = estimate.theta - theta
    found = {"value": np.abs(X[:100_000] @ error).mean()}
    if estimate.covariance is not None:
        found["squared"] = error @ np.linalg.solve(estimate.covariance, error) / len(error)
    return found


def accuracy(seeds):
    sizes = (10**5, 10**6)
    methods = [method for method in METHODS if method != "sgd"]  # for very many features, see below
    chosen = range(FIRST, FIRST + seeds)
    found = run(grid(fit, seeds=chosen, method=tuple(methods), name=tuple(TARGETS), n=sizes))
    table = new_table(
        f"d = 5, epsilon = 1, |label noise| .1: mean |error| x 10^3, median of {seeds} seeds "
        "(squared error / stated variance)",
        ("covariates", "people", *methods, "one shot / phases", "target"),
    )
    for name, target in TARGETS.items():
        for n in sizes:
            medians = {method: 1e3 * np.median(found.over(fit, method=method, name=name, n=n))
                       for method in methods}  # fmt: skip
            cells = []
            for method, median in medians.items():
                stated = found.mean(fit, "squared", method=method, name=name, n=n)
                cells.append(f"{median:.2f} ({stated:.2f})")
            ratio = medians["one shot"] / medians["phases"]
            goal = f"{target:g}, 4x" if n == 10**6 else ""
            table.add_row(name, f"{n:,}", *cells, f"{ratio:.1f}", goal)
    CONSOLE.print(table)


def speed():
    X, y, _ = world("sphere", 10**6, 0)
    start = time.perf_counter()
    local.information_weighted(problem(X, y, 0))
    CONSOLE.print(f"10^6 people, d = 5: {time.perf_counter() - start:.1f} s")


def dimension_free(d=2000):
    table = new_table(f"sgd, d = {d}, Gaussian scale j^-1: root mean square error of predictions",
                      ("people", "epsilon", "sgd", "predicting zero"))  # fmt: skip
    for n, epsilon in ((10_000, 1.0), (10_000, 4.0), (40_000, 1.0), (40_000, 4.0)):
        rng = np.random.default_rng(0)
        X = rng.standard_normal((n, d)) / np.arange(1, d + 1)
        X /= np.maximum(1.0, np.linalg.norm(X, axis=1, keepdims=True))
        theta = rng.standard_normal(d) / np.arange(1, d + 1)
        theta /= np.linalg.norm(theta)
        y = np.clip(X @ theta + 0.1 * rng.standard_normal(n), -1, 1)
        found = local.descent(problem(X, y, 0, epsilon)).theta
        sizes = [np.sqrt(np.mean((X[:5000] @ v) ** 2)) for v in (found - theta, theta)]
        table.add_row(f"{n:,}", f"{epsilon:g}", *(f"{size:.3f}" for size in sizes))
        del X
    CONSOLE.print(table)


def one_feature(*, method: str, n: int, seed: int) -> dict[str, float]:
    """|theta^ - .7| for |phi| = min(1, exp(1.2 N - 2))."""
    rng = np.random.default_rng(seed)
    X = np.minimum(1, np.exp(1.2 * rng.standard_normal((n, 1)) - 2))
    X *= rng.choice([-1.0, 1.0], (n, 1))
    y = np.clip(0.7 * X[:, 0] + 0.1 * rng.standard_normal(n), -1, 1)
    return {"value": abs(ONE_FEATURE[method](problem(X, y, seed)).theta[0] - 0.7)}


ONE_FEATURE = {
    "Algorithm 1": one_dimensional,
    "phases": local.information_weighted,
    "one shot": one_shot,
}


def one_dimension(seeds):
    sizes = (10**4, 10**5, 10**6)
    chosen = range(FIRST, FIRST + seeds)
    found = run(grid(one_feature, seeds=chosen, method=tuple(ONE_FEATURE), n=sizes))
    table = new_table("one dimension, |phi| = min(1, exp(1.2 N - 2)): |theta^ - theta*| x 10^3",
                      ("people", *ONE_FEATURE))  # fmt: skip
    for n in sizes:
        cells = (1e3 * np.median(found.over(one_feature, method=m, n=n)) for m in ONE_FEATURE)
        table.add_row(f"{n:,}", *(f"{cell:.1f}" for cell in cells))
    CONSOLE.print(table)


if __name__ == "__main__":
    seeds = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    accuracy(seeds)
    speed()
    one_dimension(max(seeds, 9))
    dimension_free()
