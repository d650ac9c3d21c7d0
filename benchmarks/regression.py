"""Private linear regression against OLS, AdaSSP and friends: figures of docs/regression-why.md.

    python benchmarks/regression.py [hard] [families] [many] [labels] [coverage] [real] [wide]
                                    [auto] [intercept] [speed]

Without arguments everything, with the local and generalised linear parts in their own scripts
(regression_local.py, regression_glm.py).
"""

import math
import resource
import sys
import time
from functools import lru_cache

import numpy as np
from kit import CONSOLE, new_table, run
from regression_hard import hard
from rich.table import Table
from scipy.special import ndtri

from discreet.environments.datasets import DATA
from discreet.experiments.measure import Found, grid
from discreet.experiments.statistics import standard_error
from discreet.privacy import SeededNoise
from discreet.regression import OLS, AdaSSP, PrivateLinearRegression
from discreet.regression.baselines import DPGradientDescent

FAMILIES = ("sphere", "small", "decay", "log-normal", "basis")
SIZES = (2_000, 20_000, 200_000)
MANY = 300_000
EPSILONS = (0.03, 0.1, 0.3, 1.0)
D = 8
UNIT = {"norm_bound": 1.0, "label_bound": 1.0, "fit_intercept": False}  # of all worlds here


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
    X = covariates(family, n, D, rng)
    test = covariates(family, 10_000, D, rng)
    theta = directions(rng, 1, D)[0]
    y = np.clip(X @ theta + 0.1 * rng.standard_normal(n), -1, 1)
    return X, y, theta, test


def coin_world(mean: float, n: int, seed: int):
    """0/1 labels of a given mean on the sphere."""
    rng = np.random.default_rng([seed, n, 7])
    X = directions(rng, n, D)
    test = directions(rng, 10_000, D)
    theta = 0.9 * min(mean, 1 - mean) * directions(rng, 1, D)[0]
    return X, (rng.random(n) < mean + X @ theta).astype(float), theta, test


def error(coef, theta, test) -> float:
    return float(np.abs(test @ (coef - theta)).mean())


def errors(*, kind: str, what: str | float, n: int, seed: int) -> dict[str, float]:
    X, y, theta, test = (world if kind == "family" else coin_world)(what, n, seed)
    seeded = {**UNIT, "random_state": seed}
    model = PrivateLinearRegression(**seeded).fit(X, y)
    inside = np.abs(test @ (model.coef_ - theta)) <= model.confidence_width(test)
    return {
        "OLS": error(OLS(**UNIT).fit(X, y).coef_, theta, test),
        "private": error(model.coef_, theta, test),
        "single-pass": error(
            PrivateLinearRegression(method="single-pass", **seeded).fit(X, y).coef_, theta, test),
        "reweighted": error(
            PrivateLinearRegression(method="reweighted", **seeded).fit(X, y).coef_, theta, test),
        "AdaSSP": error(AdaSSP(**UNIT, random_state=seed).fit(X, y).coef_, theta, test),
        "zero": error(0 * theta, theta, test),
        "coverage": float(inside.mean()),
    }  # fmt: skip


COLUMNS = ("OLS", "private", "single-pass", "reweighted", "AdaSSP", "zero", "coverage")


def runs(found: Found, kind: str, what: str | float, n: int) -> dict[str, np.ndarray]:
    return {name: found.over(errors, name, kind=kind, what=what, n=n) for name in COLUMNS}


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


HEADS = ("T", "OLS", "private", "single-pass", "reweighted", "AdaSSP", "zero", "/OLS", "/AdaSSP",
         "coverage")  # fmt: skip


def families() -> None:
    found = run(grid(errors, seeds=range(40), kind=("family",), what=FAMILIES, n=SIZES))
    table = new_table("L1 error x 10^4, d = 8, epsilon = 1, delta = 1e-6: median (quartiles)",
                      ("covariates", *HEADS))  # fmt: skip
    for n in SIZES:
        for family in FAMILIES:
            add_row(table, [family, f"{n:,}"], runs(found, "family", family, n))
        table.add_section()
    CONSOLE.print(table)


def many_errors(*, family: str, seed: int) -> dict[str, float]:
    X, y, theta, test = world(family, MANY, seed)
    fits = [
        PrivateLinearRegression(epsilon, random_state=seed, **UNIT).fit(X, y)
        for epsilon in EPSILONS
    ]
    width = np.abs(test @ (fits[0].coef_ - theta)) <= fits[0].confidence_width(test)
    found = {
        "OLS": error(OLS(**UNIT).fit(X, y).coef_, theta, test),
        "coverage": float(width.mean()),
    }
    for epsilon, fit in zip(EPSILONS, fits, strict=True):
        found[f"epsilon = {epsilon:g}"] = error(fit.coef_, theta, test)
    return found


def many() -> None:
    found = run(grid(many_errors, seeds=range(16), family=FAMILIES))
    columns = ("OLS", *(f"epsilon = {epsilon:g}" for epsilon in EPSILONS))
    table = new_table(f"T = {MANY:,}: L1 error x 10^4",
                      ("covariates", *columns, f"coverage at {EPSILONS[0]:g}"))  # fmt: skip
    for family in FAMILIES:
        errors = (np.median(found.over(many_errors, name, family=family)) for name in columns)
        coverage = found.over(many_errors, "coverage", family=family).mean()
        table.add_row(family, *(f"{value * 1e4:.1f}" for value in errors), f"{coverage:.3f}")
    CONSOLE.print(table)


def labels() -> None:
    means = (0.5, 0.12, 0.03)
    found = run(grid(errors, seeds=range(40), kind=("coins",), what=means, n=(20_000,)))
    table = new_table("0/1 labels on the sphere, T = 20,000: L1 error x 10^4", ("mean", *HEADS))
    for mean in means:
        add_row(table, [f"{mean:g}", "20,000"], runs(found, "coins", mean, 20_000))
    CONSOLE.print(table)


def coverage() -> None:
    counts = {20_000: 100, 200_000: 40}
    found = run([cell for n, count in counts.items()
                 for cell in grid(errors, seeds=range(count), kind=("family",), what=FAMILIES,
                                  n=(n,))])  # fmt: skip
    table = new_table("Coverage of the nominal 95% width, 100 fits (40 at T = 200,000)",
                      ("covariates", "T = 20,000", "T = 200,000"))  # fmt: skip
    for family in FAMILIES:
        cells = (found.mean(errors, "coverage", kind="family", what=family, n=n) for n in counts)
        table.add_row(family, *(f"{cell:.3f}" for cell in cells))
    CONSOLE.print(table)


@lru_cache(maxsize=1)
def data(name: str) -> tuple[np.ndarray, np.ndarray]:
    return DATA[name]()


def split(name: str, seed: int):
    """Rows to learn from and a fifth of them, drawn by the seed, to predict."""
    X, y = data(name)
    order = np.random.default_rng(seed).permutation(len(X))
    test = order[: len(X) // 5]
    train = order[len(X) // 5 :]
    return X[train], y[train], X[test], y[test]


def score(*, name: str, epsilon: float, seed: int) -> dict[str, float]:
    """R^2 on a fifth of the rows, of each estimator; gradient descent at each of its settings."""
    X, y, X_test, y_test = split(name, seed)
    common = {"norm_bound": math.sqrt(X.shape[1]), "label_bound": 1.0, "fit_intercept": True}
    private = {**common, "random_state": seed}
    fits = {
        "OLS": OLS(**common),
        "private": PrivateLinearRegression(epsilon, **private),
        "AdaSSP": AdaSSP(epsilon, **private),
    }
    for steps, clip in descents(len(X)):
        fits[f"descent {steps} {clip}"] = DPGradientDescent(
            epsilon, steps=steps, gradient_clip=clip, **private
        )
    found = {each: fit.fit(X, y).score(X_test, y_test) for each, fit in fits.items()}
    for clip in CLIPS:
        fit = objective_perturbation(X, y, epsilon, clip, seed)
        rest = y_test - np.column_stack([X_test, np.ones(len(X_test))]) @ fit
        found[f"objective {clip}"] = 1 - np.mean(rest**2) / np.var(y_test)
    return found


CLIPS = (0.1, 0.3, 1.0)
BUDGETS = (0.1, 0.3, 1.0, 3.0)


def descents(rows: int):
    """Steps and clips of gradient descent, of which the best is shown."""
    steps = (100, 300) if rows > 10**5 else (10, 30, 100, 300)
    return [(k, c) for k in steps for c in ((0.1, 1.0) if rows > 10**5 else CLIPS)]


def objective_perturbation(X, y, epsilon: float, clip: float, seed: int) -> np.ndarray:
    """argmin of Huber's loss (slope `clip`) + ridge/2 |theta|^2 + <tilt, theta>, private.

    `regression_glm.objective_std` has the proof for slope 1 and curvature 1/4: here gradients are
    `clip` times as long, which scales the tilt, and curvature is at most 1.
    """
    d = X.shape[1]
    rows = np.column_stack([X / math.sqrt(d), np.ones(len(X))]) / math.sqrt(2)
    ridge = 1 / math.expm1(epsilon / 10)  # a tenth of epsilon for the determinants
    std = clip * tilt_std(epsilon - math.log1p(1 / ridge))
    tilt = SeededNoise(seed).gaussian(std, d + 1)
    theta = np.zeros(d + 1)

    def objective(theta) -> float:
        size = np.abs(y - rows @ theta)
        huber = np.where(size < clip, size**2 / 2, clip * (size - clip / 2))
        return huber.sum() + ridge / 2 * (theta @ theta) + tilt @ theta

    # Newton's method; Huber's loss has kinks in its slope, so a step is halved until it descends.
    for _ in range(200):
        r = y - rows @ theta
        inside = np.abs(r) < clip
        gradient = ridge * theta + tilt - rows.T @ np.clip(r, -clip, clip)
        hessian = rows[inside].T @ rows[inside] + ridge * np.eye(d + 1)
        step = np.linalg.solve(hessian, gradient)
        now = objective(theta)
        while objective(theta - step) > now - 1e-4 * (gradient @ step) and step @ step > 1e-16:
            step = step / 2
        theta = theta - step
        if np.linalg.norm(gradient) < 1e-6 * len(X):
            break
    return theta / math.sqrt(2) / np.append(np.full(d, math.sqrt(d)), 1.0)


def tilt_std(epsilon: float) -> float:
    """s with u/s + 2/s^2 = epsilon, 2 Phi(-u/2) = 1e-6."""
    u = -2 * float(ndtri(1e-6 / 2))
    return (u + math.sqrt(u**2 + 8 * epsilon)) / (2 * epsilon)


def real() -> None:
    table = new_table(
        "Real data: test R^2, mean over 20 random splits (2 for flights) and its standard error",
        ("data", "rows", "epsilon", "OLS", "private", "AdaSSP", "gradient descent, tuned",
         "objective perturbation, tuned"),
    )  # fmt: skip
    for name in sorted(DATA, key=lambda name: len(data(name)[0])):
        rows = len(data(name)[0])
        splits = 2 if rows > 10**5 else 20
        found = run(grid(score, seeds=splits, name=(name,), epsilon=BUDGETS))
        for epsilon in BUDGETS:
            setting = {"name": name, "epsilon": epsilon}

            def tuned(settings, found=found, setting=setting):
                return max((found.over(score, each, **setting) for each in settings), key=np.mean)

            scores = [
                found.over(score, "private", **setting),
                found.over(score, "AdaSSP", **setting),
                tuned([f"descent {k} {c}" for k, c in descents(rows * 4 // 5)]),
                tuned([f"objective {c}" for c in CLIPS]),
            ]
            plain = found.mean(score, "OLS", **setting)
            cells = (f"{v.mean():.3f} ± {standard_error(v):.3f}" if v.mean() > -1 else "< -1"
                     for v in scores)  # fmt: skip
            table.add_row(name, f"{rows:,}", f"{epsilon:g}", f"{plain:.3f}", *cells)
        table.add_section()
    CONSOLE.print(table)


def wide_fit(*, d: int, seed: int) -> dict[str, float]:
    """Rank-20 covariates in d features."""
    rng = np.random.default_rng(seed)
    Z = directions(rng, 20_000, 20)
    w = directions(rng, 1, 20)[0]
    noise = 0.1 * rng.standard_normal(20_000)
    T = directions(rng, 5_000, 20)
    B = np.linalg.qr(np.random.default_rng(99).standard_normal((d, 20)))[0]
    X = Z @ B.T
    start = time.perf_counter()
    model = PrivateLinearRegression(**UNIT, random_state=seed).fit(X, np.clip(Z @ w + noise, -1, 1))
    seconds = time.perf_counter() - start
    assert model.method_ == "sgd"
    return {
        "value": np.abs(T @ (B.T @ model.coef_ - w)).mean(),
        "zero": np.abs(T @ w).mean(),
        "seconds": seconds,
    }


def wide() -> None:
    dims = (1_000, 10_000)
    found = run(grid(wide_fit, seeds=range(8), d=dims))
    table = new_table("Dimension-free: T = 20,000, rank-20 covariates, epsilon = 1, 8 fits",
                      ("features", "L1 error x 10^4", "deviation", "zero", "seconds"))  # fmt: skip
    for d in dims:
        fits = 1e4 * found.over(wide_fit, d=d)
        zero = 1e4 * found.over(wide_fit, "zero", d=d)[-1]
        seconds = found.over(wide_fit, "seconds", d=d).max()
        table.add_row(f"{d:,}", f"{fits.mean():.0f}", f"{fits.std():.0f}", f"{zero:.0f}",
                      f"{seconds:.1f}")  # fmt: skip
    CONSOLE.print(table)


def two_methods(*, kind: str, n: int, d: int, seed: int) -> dict[str, float]:
    rng = np.random.default_rng([seed, n, d])
    rank = min(20, d)
    basis = np.linalg.qr(rng.standard_normal((d, rank)))[0]

    def rows(m):
        if kind == "rank 20":
            return directions(rng, m, rank) @ basis.T
        g = rng.standard_normal((m, d)) * (np.arange(1, d + 1) ** -1.0 if kind == "1/j" else 1.0)
        size = np.linalg.norm(g, axis=1, keepdims=True)
        return g / (np.maximum(size, 1) if kind == "1/j" else size)

    X = rows(n)
    test = rows(3_000)
    theta = basis @ directions(rng, 1, rank)[0] if kind == "rank 20" else directions(rng, 1, d)[0]
    y = np.clip(X @ theta + 0.1 * rng.standard_normal(n), -1, 1)
    found = {
        method: error(
            PrivateLinearRegression(**UNIT, random_state=seed, method=method).fit(X, y).coef_,
            theta,
            test,
        )
        for method in ("information-weighted", "sgd")
    }
    return {**found, "zero": error(0 * theta, theta, test)}


def intercept_error(*, n: int, intercept: bool, seed: int) -> dict[str, float]:
    X, y, theta, test = world("sphere", n, seed)
    bounds = {"norm_bound": 1.0, "label_bound": 1.0}
    model = PrivateLinearRegression(fit_intercept=intercept, random_state=seed, **bounds)
    miss = model.fit(X, y).predict(test) - test @ theta
    return {"value": float(np.mean(miss**2))}


def intercept() -> None:
    sizes = (500, 2_000, 20_000)
    both = (False, True)
    found = run(grid(intercept_error, seeds=20, n=sizes, intercept=both))
    table = new_table("What an intercept costs where none is needed: RMSE x 10^4, d = 8, 20 fits",
                      ("T", "without", "with"))  # fmt: skip
    for n in sizes:
        errors = (1e4 * found.mean(intercept_error, n=n, intercept=each) ** 0.5 for each in both)
        table.add_row(f"{n:,}", *(f"{each:.0f}" for each in errors))
    CONSOLE.print(table)


def auto() -> None:
    kinds = ("sphere", "1/j", "rank 20")
    dims = (30, 100, 300)
    sizes = (1_000, 3_000, 10_000)
    found = run(grid(two_methods, seeds=range(6), kind=kinds, n=sizes, d=dims))
    names = ("information-weighted", "sgd", "zero")
    table = new_table("What auto chooses between: L1 error x 10^4, epsilon = 1, median of 6 fits",
                      ("covariates", "features", "rows", *names))  # fmt: skip
    for kind in kinds:
        for d in dims:
            for n in sizes:
                cells = (1e4 * np.median(found.over(two_methods, name, kind=kind, n=n, d=d))
                         for name in names)  # fmt: skip
                table.add_row(kind, str(d), f"{n:,}", *(f"{cell:.0f}" for cell in cells))
        table.add_section()
    CONSOLE.print(table)


def speed() -> None:
    rng = np.random.default_rng(0)
    X = directions(rng, 10**6, 20)
    y = np.clip(X @ (np.ones(20) / math.sqrt(20)) + 0.1 * rng.standard_normal(10**6), -1, 1)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    private = PrivateLinearRegression(**UNIT, random_state=0)
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


PARTS = {"speed": speed, "hard": hard, "families": families, "many": many, "labels": labels,
         "coverage": coverage, "real": real, "wide": wide, "auto": auto,
         "intercept": intercept}  # fmt: skip

if __name__ == "__main__":
    for part in sys.argv[1:] or PARTS:
        PARTS[part]()
