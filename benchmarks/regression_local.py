"""Locally private regression against one-shot statistics: the figures of docs/regression.md.

python benchmarks/regression_local.py [seeds]
"""

import sys
import time

import numpy as np
from rich.console import Console
from rich.table import Table

from discreet.privacy import Budget, Ledger, SeededNoise
from discreet.regression import local
from discreet.regression.base import Problem

CONSOLE = Console(width=130)
TARGETS = {"sphere": 3.0, "decay": 6.0, "log-normal": 6.0, "basis": 6.0}  # x 10^-3, at 10^6 people
FIRST = 1000  # seed; the constants of the phases were tuned on seeds 0 to 8
METHODS = {
    "phases": local.information_weighted,
    "known covariates": local.known_covariates,
    "one shot": local.one_shot,
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


def world(name, n, seed, d=5, deviation=0.1):
    rng = np.random.default_rng(seed)
    X = covariates(name, n, rng, d)
    theta = rng.standard_normal(d)
    theta /= np.linalg.norm(theta)
    y = np.clip(X @ theta + deviation * rng.standard_normal(n), -1, 1)
    return X, y, theta


def problem(X, y, seed, epsilon=1.0, public=None):
    ledger = Ledger(Budget(epsilon), "pure")
    return Problem(X, y, ledger, SeededNoise(seed), np.random.default_rng(seed + 999), public)


def errors(method, name, n, seeds, epsilon=1.0):
    """Mean |<phi, theta^ - theta*>|, and theta's squared error in units of its covariance."""
    found, normal = [], []
    for seed in range(FIRST, FIRST + seeds):
        X, y, theta = world(name, n, seed)
        public = covariates(name, 50_000, np.random.default_rng(seed + 10**6))
        estimate = METHODS[method](problem(X, y, seed, epsilon, public))
        error = estimate.theta - theta
        found.append(np.abs(X[:100_000] @ error).mean())
        if estimate.covariance is not None:
            normal.append(error @ np.linalg.solve(estimate.covariance, error) / len(error))
    return 1e3 * np.median(found), np.mean(normal) if normal else np.nan


def accuracy(seeds):
    table = Table(title=f"d = 5, epsilon = 1, |label noise| .1: mean |error| x 10^3, median of "
                        f"{seeds} seeds (squared error / stated variance)")  # fmt: skip
    for column in ("covariates", "people", *METHODS, "one shot / phases", "target"):
        table.add_column(column, justify="right")
    for name, target in TARGETS.items():
        for n in (10**5, 10**6):
            row = {method: errors(method, name, n, seeds) for method in METHODS}
            ratio = row["one shot"][0] / row["phases"][0]
            cells = [f"{e:.2f} ({z:.2f})" if z == z else f"{e:.2f}" for e, z in row.values()]
            goal = f"{target:g}, 4x" if n == 10**6 else ""
            table.add_row(name, f"{n:,}", *cells, f"{ratio:.1f}", goal)
    CONSOLE.print(table)


def speed():
    X, y, _ = world("sphere", 10**6, 0)
    start = time.perf_counter()
    local.information_weighted(problem(X, y, 0))
    CONSOLE.print(f"10^6 people, d = 5: {time.perf_counter() - start:.1f} s")


def dimension_free(d=2000):
    table = Table(title=f"sgd, d = {d}, Gaussian scale j^-1: root mean square error of predictions")
    for column in ("people", "epsilon", "sgd", "predicting zero"):
        table.add_column(column, justify="right")
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


def one_dimension(seeds):
    table = Table(title="one dimension, |phi| = min(1, exp(1.2 N - 2)): |theta^ - theta*| x 10^3")
    for column in ("people", "Algorithm 1", "phases", "one shot"):
        table.add_column(column, justify="right")
    for n in (10**4, 10**5, 10**6):
        cells = []
        for method in (local.one_dimensional, local.information_weighted, local.one_shot):
            found = []
            for seed in range(FIRST, FIRST + seeds):
                rng = np.random.default_rng(seed)
                X = np.minimum(1, np.exp(1.2 * rng.standard_normal((n, 1)) - 2))
                X *= rng.choice([-1.0, 1.0], (n, 1))
                y = np.clip(0.7 * X[:, 0] + 0.1 * rng.standard_normal(n), -1, 1)
                found.append(abs(method(problem(X, y, seed)).theta[0] - 0.7))
            cells.append(f"{1e3 * np.median(found):.1f}")
        table.add_row(f"{n:,}", *cells)
    CONSOLE.print(table)


if __name__ == "__main__":
    seeds = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    speed()
    accuracy(seeds)
    one_dimension(max(seeds, 9))
    dimension_free()
