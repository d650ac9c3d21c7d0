"""Forecasts against fits, and the speed of `information_matrix`: the figures of docs/planning.md.

    python benchmarks/planning.py

A forecast sees a public sample of 3,000 rows and the numbers n, epsilon, delta and label noise; a
fit sees other rows of the same world. Prints both, and saves the figure docs/planning.png.
"""

import math
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from discreet.experiments.planning import Question, figure
from discreet.regression import PrivateLinearRegression
from discreet.regression.information import expected_error, information_matrix, price_of_privacy

CONSOLE = Console(width=150)
RUNS = 10


def sphere(n: int, d: int, rng: np.random.Generator) -> np.ndarray:
    X = rng.standard_normal((n, d))
    return X / np.linalg.norm(X, axis=1, keepdims=True)


def clipped(X: np.ndarray) -> np.ndarray:
    return X / np.maximum(1, np.linalg.norm(X, axis=1, keepdims=True))


def decay(n: int, d: int, rng: np.random.Generator) -> np.ndarray:
    return clipped(rng.standard_normal((n, d)) * np.arange(1, d + 1) ** -1.5)


def log_normal(n: int, d: int, rng: np.random.Generator) -> np.ndarray:
    return clipped(0.1 * sphere(n, d, rng) * np.exp(rng.standard_normal((n, 1))))


def basis(n: int, d: int, rng: np.random.Generator) -> np.ndarray:
    return np.eye(d)[np.minimum(rng.geometric(0.5, n) - 1, d - 1)]


def correlated(n: int, d: int, rng: np.random.Generator) -> np.ndarray:
    common = rng.standard_normal((n, 1))
    return clipped((0.3 * common + 0.1 * rng.standard_normal((n, d))) / math.sqrt(d))


def dummies(n: int, d: int, rng: np.random.Generator) -> np.ndarray:
    rare = rng.random((n, d - 1)) < np.linspace(0.02, 0.4, d - 1)
    return np.column_stack([np.ones(n), rare]) / math.sqrt(d)


WORLDS: dict[str, Callable[..., np.ndarray]] = {
    "sphere": sphere,
    "sphere, radius .05": lambda n, d, rng: 0.05 * sphere(n, d, rng),
    "Gaussian, scale j^-1.5": decay,
    "log-normal norms": log_normal,
    "basis, frequency 2^-j": basis,
}
HELD_OUT: dict[str, Callable[..., np.ndarray]] = {  # not used when the constants were fitted
    "cube": lambda n, d, rng: rng.uniform(-1, 1, (n, d)) / math.sqrt(d),
    "correlated": correlated,
    "intercept and dummies": dummies,
}


def measured(world: str, n: int, d: int, runs: int, sigma: float, **options) -> np.ndarray:
    """Mean absolute and root mean square error of private fits and of least squares."""
    squares = np.zeros((2, 2))
    for seed in range(runs):
        rng = np.random.default_rng([seed, n, d])
        draw = (WORLDS | HELD_OUT)[world]
        X, test = draw(n, d, rng), draw(4000, d, rng)
        theta = rng.standard_normal(d)
        theta *= 0.8 / np.linalg.norm(theta)
        y = np.clip(X @ theta + sigma * rng.standard_normal(n), -1, 1)
        model = PrivateLinearRegression(random_state=seed, **options).fit(X, y)
        plain = np.linalg.lstsq(X, y, rcond=None)[0]
        for row, estimate in enumerate((model.coef_, plain)):
            error = test @ (estimate - theta)
            squares[row] += np.mean(np.abs(error)), np.mean(error**2)
    squares /= runs
    return np.column_stack([squares[:, 0], np.sqrt(squares[:, 1])])


def accuracy(
    trust: str,
    worlds: dict[str, Callable[..., np.ndarray]],
    cases: list[tuple[int, int, float, float]],
    runs: int,
) -> None:
    table = Table(title=f"{trust} trust: mean absolute error x 10^4, forecast / fits ({runs} runs)")
    for column in ("covariates", "d", "rows", "epsilon", "label noise", "least squares", "private",
                   "forecast / fit", "the same in l2", "price / measured"):  # fmt: skip
        table.add_column(column, justify="right")
    off = {}
    for world, draw in worlds.items():
        for d, n, epsilon, sigma in cases:
            X = draw(3000, d, np.random.default_rng(99))
            fits, plain = measured(world, n, d, runs, sigma, epsilon=epsilon, trust=trust)
            known = {"trust": trust, "label_noise": sigma}
            guess = [expected_error(X, n, epsilon, norm=norm, **known) for norm in ("l1", "l2")]
            simple = expected_error(X, n, label_noise=sigma)
            price = price_of_privacy(X, n, epsilon, **known)
            ratios = np.array(guess) / fits
            off.setdefault(world, []).append(ratios)
            table.add_row(
                world, str(d), f"{n:,}", f"{epsilon:g}", f"{sigma:g}",
                f"{simple * 1e4:.1f} / {plain[0] * 1e4:.1f}",
                f"{guess[0] * 1e4:.1f} / {fits[0] * 1e4:.1f}",
                f"{ratios[0]:.2f}", f"{ratios[1]:.2f}",
                f"{price:.2f} / {(fits[1] / plain[1]) ** 2:.2f}",
            )  # fmt: skip
        table.add_section()
    CONSOLE.print(table)
    for world, ratios in off.items():
        logs = np.abs(np.log(ratios))
        CONSOLE.print(f"{world:>24}: off by a factor {np.exp(logs.mean(0))[0]:.2f} on average, "
                      f"{np.exp(logs.max(0))[0]:.2f} at worst (l2: {np.exp(logs.mean(0))[1]:.2f}, "
                      f"{np.exp(logs.max(0))[1]:.2f})")  # fmt: skip


def choices() -> None:
    table = Table(title="Forecast over least squares: central (d = 8, 20,000 rows), local (10^6)")
    deltas = (1e-5, 1e-6, 1e-9, 1e-12)
    for column in ("epsilon", *(f"delta = {delta:g}" for delta in deltas), "local: root of price"):
        table.add_column(column, justify="right")
    for epsilon in (0.1, 0.3, 1.0, 3.0):
        ratios = [expected_error(8, 20_000, epsilon, delta) / expected_error(8, 20_000)
                  for delta in deltas]  # fmt: skip
        local = math.sqrt(price_of_privacy(8, 10**6, epsilon, trust="local"))
        table.add_row(f"{epsilon:g}", *(f"{ratio:.2f}" for ratio in ratios), f"{local:.0f}")
    CONSOLE.print(table)


def speed() -> None:
    table = Table(title="information_matrix to 1e-8, covariates with scale j^-1.5, lam = .01")
    for column in ("d", "rows", "gamma", "time", "against one X' X and one eigh"):
        table.add_column(column, justify="right")
    for d, rows in ((8, 5000), (100, 5000), (500, 5000)):
        X = decay(rows, d, np.random.default_rng(0))
        start = time.perf_counter()
        np.linalg.eigh(X.T @ X)
        base = time.perf_counter() - start
        for gamma in (0.01, 1.0, math.inf):
            start = time.perf_counter()
            information_matrix(X, gamma=gamma, lam=0.01)
            ours = time.perf_counter() - start
            table.add_row(str(d), f"{rows:,}", f"{gamma:g}", f"{ours:.2f} s", f"{ours / base:.0f}")
    CONSOLE.print(table)


def main() -> None:
    speed()
    choices()
    accuracy(
        "central",
        WORLDS,
        [(8, 2000, 1.0, 0.1), (8, 20_000, 1.0, 0.1), (8, 200_000, 1.0, 0.1), (8, 20_000, 0.3, 0.1),
         (8, 20_000, 3.0, 0.1), (8, 20_000, 1.0, 0.3), (30, 50_000, 1.0, 0.1)],
        RUNS,
    )  # fmt: skip
    accuracy("central", HELD_OUT, [(5, 5000, 0.7, 0.2), (12, 30_000, 0.7, 0.1)], RUNS)
    accuracy("local", WORLDS, [(5, 100_000, 1.0, 0.1), (5, 1_000_000, 1.0, 0.1)], 3)
    accuracy("local", HELD_OUT, [(5, 200_000, 2.0, 0.1)], 3)
    path = Path(__file__).parents[1] / "docs" / "planning.png"
    figure(path, Question(8, 20_000, 0.1, 1e-6), (0.3, 1.0, 3.0), ("central", "local"), 0.005)
    CONSOLE.print(f"Figure: docs/{path.name}")


if __name__ == "__main__":
    main()
