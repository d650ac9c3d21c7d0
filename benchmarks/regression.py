"""Private linear regression against OLS, AdaSSP and friends: every figure of docs/regression.md.

    python benchmarks/regression.py [families] [many] [labels] [coverage] [real] [wide] [auto]
                                    [speed]

Without arguments everything, with the local and generalised linear parts in their own scripts
(regression_local.py, regression_glm.py).
"""

import math
import resource
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from discreet.environments.regression_data import DATA
from discreet.regression import (
    OLS,
    SSP,
    AdaSSP,
    DPGradientDescent,
    PrivateLinearRegression,
)

CONSOLE = Console(width=118)
FAMILIES = ("sphere", "small", "decay", "log-normal", "basis")
SIZES = (2_000, 20_000, 200_000)
MANY = 300_000
EPSILONS = (0.03, 0.1, 0.3, 1.0)
D = 8


def directions(rng, n: int, d: int) -> np.ndarray:
    g = rng.standard_normal((n, d))
    return g / np.linalg.norm(g, axis=1, keepdims=True)


def covariates(family: str, n: int, d: int, rng) -> np.ndarray:
    if family == "sphere":
        return directions(rng, n, d)
    if family == "small":  # the bound is 1, the rows have norm 0.05
        return 0.05 * directions(rng, n, d)
    if family == "decay":
        X = rng.standard_normal((n, d)) * np.arange(1, d + 1) ** -1.5
        return X / np.maximum(1, np.linalg.norm(X, axis=1, keepdims=True))
    if family == "log-normal":
        radius = np.minimum(1, np.exp(1.2 * rng.standard_normal(n) - 2))
        return directions(rng, n, d) * radius[:, None]
    frequency = 2.0 ** -np.arange(1, d + 1)
    return np.eye(d)[rng.choice(d, n, p=frequency / frequency.sum())]


def world(family: str, n: int, seed: int):
    """Rows, labels, the true parameter, and rows to predict."""
    rng = np.random.default_rng([seed, n])
    X, test = covariates(family, n, D, rng), covariates(family, 10_000, D, rng)
    theta = directions(rng, 1, D)[0]
    y = np.clip(X @ theta + 0.1 * rng.standard_normal(n), -1, 1)
    return X, y, theta, test


def coin_world(mean: float, n: int, seed: int):
    """0/1 labels of a given mean on the sphere."""
    rng = np.random.default_rng([seed, n, 7])
    X, test = directions(rng, n, D), directions(rng, 10_000, D)
    theta = 0.9 * min(mean, 1 - mean) * directions(rng, 1, D)[0]
    return X, (rng.random(n) < mean + X @ theta).astype(float), theta, test


def error(coef, theta, test) -> float:
    return float(np.abs(test @ (coef - theta)).mean())


def one_run(job) -> dict[str, float]:
    kind, what, n, seed = job
    X, y, theta, test = (world if kind == "family" else coin_world)(what, n, seed)
    model = PrivateLinearRegression(random_state=seed).fit(X, y)
    inside = np.abs(test @ (model.coef_ - theta)) <= model.confidence_width(test)
    return {
        "OLS": error(OLS().fit(X, y).coef_, theta, test),
        "private": error(model.coef_, theta, test),
        "single-pass": error(
            PrivateLinearRegression(random_state=seed, method="single-pass").fit(X, y).coef_,
            theta, test),
        "reweighted": error(
            PrivateLinearRegression(random_state=seed, method="reweighted").fit(X, y).coef_,
            theta, test),
        "AdaSSP": error(AdaSSP(random_state=seed).fit(X, y).coef_, theta, test),
        "zero": error(0 * theta, theta, test),
        "coverage": float(inside.mean()),
    }  # fmt: skip


def runs(kind: str, what, n: int, seeds: int) -> dict[str, np.ndarray]:
    with ProcessPoolExecutor(2) as pool:
        results = list(pool.map(one_run, [(kind, what, n, seed) for seed in range(seeds)]))
    return {name: np.array([r[name] for r in results]) for name in results[0]}


def add_row(table: Table, label: list[str], r: dict[str, np.ndarray]) -> None:
    med = {name: np.median(values) for name, values in r.items()}
    low, high = np.quantile(r["private"], [0.25, 0.75]) * 1e4
    table.add_row(
        *label, f"{med['OLS'] * 1e4:.1f}", f"{med['private'] * 1e4:.1f} ({low:.1f}-{high:.1f})",
        f"{med['single-pass'] * 1e4:.1f}", f"{med['reweighted'] * 1e4:.1f}",
        f"{med['AdaSSP'] * 1e4:.1f}", f"{med['zero'] * 1e4:.0f}",
        f"{med['private'] / med['OLS']:.2f}", f"{med['private'] / med['AdaSSP']:.2f}",
        f"{r['coverage'].mean():.3f}",
    )  # fmt: skip


def families() -> None:
    table = Table(title="L1 error x 10^4, d = 8, epsilon = 1, delta = 1e-6: median (quartiles)")
    for column in ("covariates", "T", "OLS", "private", "single-pass", "reweighted", "AdaSSP",
                   "zero", "/OLS", "/AdaSSP", "coverage"):  # fmt: skip
        table.add_column(column, justify="right")
    for n in SIZES:
        for family in FAMILIES:
            add_row(table, [family, f"{n:,}"], runs("family", family, n, 40))
        table.add_section()
    CONSOLE.print(table)


def many_run(job) -> list[float]:
    family, seed = job
    X, y, theta, test = world(family, MANY, seed)
    fits = [PrivateLinearRegression(epsilon, random_state=seed).fit(X, y) for epsilon in EPSILONS]
    width = np.abs(test @ (fits[0].coef_ - theta)) <= fits[0].confidence_width(test)
    plain = error(OLS().fit(X, y).coef_, theta, test)
    return [plain, *(error(fit.coef_, theta, test) for fit in fits), float(width.mean())]


def many() -> None:
    table = Table(title=f"T = {MANY:,}, where only the last stage sees all rows: L1 error x 10^4")
    columns = ("covariates", "OLS", *(f"epsilon = {epsilon:g}" for epsilon in EPSILONS))
    for column in (*columns, f"coverage at {EPSILONS[0]:g}"):
        table.add_column(column, justify="right")
    for family in FAMILIES:
        with ProcessPoolExecutor(2) as pool:
            runs = np.array(list(pool.map(many_run, [(family, seed) for seed in range(16)])))
        errors = (f"{value * 1e4:.1f}" for value in np.median(runs[:, :-1], axis=0))
        table.add_row(family, *errors, f"{runs[:, -1].mean():.3f}")
    CONSOLE.print(table)


def labels() -> None:
    table = Table(title="0/1 labels on the sphere, T = 20,000: L1 error x 10^4")
    for column in ("mean", "T", "OLS", "private", "single-pass", "reweighted", "AdaSSP", "zero",
                   "/OLS", "/AdaSSP", "coverage"):  # fmt: skip
        table.add_column(column, justify="right")
    for mean in (0.5, 0.12, 0.03):
        add_row(table, [f"{mean:g}", "20,000"], runs("coins", mean, 20_000, 40))
    CONSOLE.print(table)


def coverage() -> None:
    table = Table(title="Coverage of the nominal 95% width, 100 fits (40 at T = 200,000)")
    for column in ("covariates", "T = 20,000", "T = 200,000"):
        table.add_column(column, justify="right")
    for family in FAMILIES:
        cells = [runs("family", family, n, count)["coverage"].mean()
                 for n, count in ((20_000, 100), (200_000, 40))]  # fmt: skip
        table.add_row(family, *(f"{cell:.3f}" for cell in cells))
    CONSOLE.print(table)


def real() -> None:
    table = Table(title="Real data: test R^2, mean over random splits (standard error)")
    for column in ("data", "rows", "epsilon", "OLS", "private", "AdaSSP", "SSP", "DP-GD, tuned",
                   "diffprivlib"):  # fmt: skip
        table.add_column(column, justify="right")
    for name, load in DATA.items():
        X, y = load()
        splits = 4 if len(X) > 10**5 else 32
        common = {"norm_bound": math.sqrt(X.shape[1]), "fit_intercept": True}

        def scores(make, count, X=X, y=y):
            values = []
            for seed in range(count):
                order = np.random.default_rng(seed).permutation(len(X))
                test, train = order[: len(X) // 5], order[len(X) // 5 :]
                values.append(make(seed).fit(X[train], y[train]).score(X[test], y[test]))
            return np.array(values)

        for epsilon in (0.3, 1.0, 3.0):

            def shown(make, epsilon=epsilon, splits=splits, common=common, scores=scores):
                v = scores(lambda s: make(epsilon, random_state=s, **common), splits)
                return f"{v.mean():.4f} ({v.std() / math.sqrt(len(v)):.4f})"

            steps = (100, 400) if len(X) > 10**5 else (10, 30, 100, 300, 400)
            tuned = max(
                float(np.mean(scores(
                    lambda s, k=k, e=epsilon, common=common: DPGradientDescent(
                        e, steps=k, random_state=s, **common), splits)))
                for k in steps
            )  # fmt: skip
            plain = scores(lambda s, common=common: OLS(**common), splits).mean()
            table.add_row(
                name, f"{len(X):,}", f"{epsilon:g}", f"{plain:.3f}",
                shown(PrivateLinearRegression), shown(AdaSSP), shown(SSP), f"{tuned:.4f}",
                library(epsilon, scores, splits),
            )  # fmt: skip
        table.add_section()
    CONSOLE.print(table)


def library(epsilon, scores, splits) -> str:
    """diffprivlib's linear regression (pure epsilon), where it can be imported."""
    try:
        from diffprivlib.models import LinearRegression
    except Exception:
        return "does not import"
    values = scores(
        lambda s: LinearRegression(epsilon=epsilon, bounds_X=(-1, 1), bounds_y=(-1, 1),
                                   random_state=s), splits)  # fmt: skip
    return f"{values.mean():.3f}"


def wide() -> None:
    table = Table(title="Dimension-free: T = 20,000, rank-20 covariates, epsilon = 1, 8 fits")
    for column in ("features", "L1 error x 10^4", "deviation", "zero", "seconds"):
        table.add_column(column, justify="right")
    for d in (1_000, 10_000):
        errors, seconds = [], 0.0
        for seed in range(8):
            rng = np.random.default_rng(seed)
            Z, w = directions(rng, 20_000, 20), directions(rng, 1, 20)[0]
            noise = 0.1 * rng.standard_normal(20_000)
            T = directions(rng, 5_000, 20)
            B = np.linalg.qr(np.random.default_rng(99).standard_normal((d, 20)))[0]
            X = Z @ B.T
            start = time.perf_counter()
            model = PrivateLinearRegression(random_state=seed).fit(X, np.clip(Z @ w + noise, -1, 1))
            seconds = max(seconds, time.perf_counter() - start)
            assert model.method_ == "sgd"
            errors.append(np.abs(T @ (B.T @ model.coef_ - w)).mean() * 1e4)
        zero = np.abs(T @ w).mean() * 1e4
        table.add_row(f"{d:,}", f"{np.mean(errors):.0f}", f"{np.std(errors):.0f}", f"{zero:.0f}",
                      f"{seconds:.1f}")  # fmt: skip
    CONSOLE.print(table)


def auto_run(job) -> list[float]:
    kind, n, d, seed = job
    rng = np.random.default_rng([seed, n, d])
    rank = min(20, d)
    basis = np.linalg.qr(rng.standard_normal((d, rank)))[0]

    def rows(m):
        if kind == "rank 20":
            return directions(rng, m, rank) @ basis.T
        g = rng.standard_normal((m, d)) * (np.arange(1, d + 1) ** -1.0 if kind == "1/j" else 1.0)
        size = np.linalg.norm(g, axis=1, keepdims=True)
        return g / (np.maximum(size, 1) if kind == "1/j" else size)

    X, test = rows(n), rows(3_000)
    theta = basis @ directions(rng, 1, rank)[0] if kind == "rank 20" else directions(rng, 1, d)[0]
    y = np.clip(X @ theta + 0.1 * rng.standard_normal(n), -1, 1)
    fits = [PrivateLinearRegression(random_state=seed, method=m).fit(X, y).coef_
            for m in ("information-weighted", "sgd")]  # fmt: skip
    return [error(c, theta, test) for c in (*fits, 0 * theta)]


def auto() -> None:
    table = Table(title="What auto chooses between: L1 error x 10^4, epsilon = 1, median of 6 fits")
    for column in ("covariates", "features", "rows", "information-weighted", "sgd", "zero"):
        table.add_column(column, justify="right")
    for kind in ("sphere", "1/j", "rank 20"):
        for d in (30, 100, 300):
            for n in (1_000, 3_000, 10_000):
                with ProcessPoolExecutor(2) as pool:
                    runs = list(pool.map(auto_run, [(kind, n, d, seed) for seed in range(6)]))
                cells = np.median(runs, axis=0) * 1e4
                table.add_row(kind, str(d), f"{n:,}", *(f"{cell:.0f}" for cell in cells))
        table.add_section()
    CONSOLE.print(table)


def speed() -> None:
    rng = np.random.default_rng(0)
    X = directions(rng, 10**6, 20)
    y = np.clip(X @ (np.ones(20) / math.sqrt(20)) + 0.1 * rng.standard_normal(10**6), -1, 1)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    private = PrivateLinearRegression(random_state=0)
    ours = best_time(lambda: private.fit(X, y))
    plain = best_time(lambda: np.linalg.solve(X.T @ X, X.T @ y))
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    CONSOLE.print(
        f"10^6 x 20: private fit {ours:.2f} s, normal equations {plain:.3f} s, ratio "
        f"{ours / plain:.1f}; memory grew by {grown:.0f} MB (data: {X.nbytes / 2**20:.0f} MB)"
    )


def best_time(call) -> float:
    times = []
    for _ in range(5):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return min(times)


PARTS = {"speed": speed, "families": families, "many": many, "labels": labels, "coverage": coverage,
         "real": real, "wide": wide, "auto": auto}  # fmt: skip

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent))
    for part in sys.argv[1:] or PARTS:
        PARTS[part]()
