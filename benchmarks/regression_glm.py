"""Private logistic regression against its baselines: L1 error of predicted probabilities.

python benchmarks/regression_glm.py [contests] [links]

Target: d = 10, T = 50,000, covariates uniform on the sphere, epsilon = 1, delta = 1e-6: at most
twice the error of non-private logistic regression, and below objective perturbation. Sampling
error is common to all, so "from non-private", the distance to the non-private fit's predictions,
is what tells private methods apart.
"""

import math
import sys
import time
from collections.abc import Callable

import numpy as np
from kit import CONSOLE, new_table, run
from regression_hard import links
from scipy.optimize import brentq
from scipy.special import expit, ndtri

from discreet.experiments.measure import Found, grid
from discreet.privacy import SeededNoise, gaussian_mu
from discreet.regression.glm import PrivateGLM

DIM = 10
EPSILON = 1.0
DELTA = 1e-6
UNIT = {"norm_bound": 1.0, "label_bound": 1.0, "fit_intercept": False}
SEEDS = 24
Array = np.ndarray


def logistic_regression(X: Array, y: Array, ridge: float, tilt: Array | float = 0.0) -> Array:
    """argmin sum loss + ridge/2 |theta|^2 + <tilt, theta>, by Newton's method."""
    theta = np.zeros(X.shape[1])
    for _ in range(60):
        p = expit(X @ theta)
        gradient = X.T @ (p - y) + ridge * theta + tilt
        hessian = (X * (p * (1 - p))[:, None]).T @ X + ridge * np.eye(len(theta))
        step = np.linalg.solve(hessian, gradient)
        theta = theta - step * min(1.0, 3 / np.linalg.norm(step))
        if np.linalg.norm(step) < 1e-11:
            break
    return theta


def objective_std(ridge: float) -> float:
    """s of the tilt b ~ N(0, s^2 I) that makes objective perturbation (epsilon, delta)-DP.

    Kifer, Smith, Thakurta (2012), Gaussian tilt, recalibrated for replace-one and for a tilt that
    moves by D(theta) = c x - c' x' with |c|, |c'| <= 1, |x|, |x'| <= 1, which depends on theta.
    Log density ratio of the minimiser: (2 <b, D> + |D|^2)/(2 s^2) from the tilt, and the ratio of
    two determinants, each in [1, 1 + 1/(4 ridge)], because a row has curvature <= 1/4. Now
    <b, D> <= |<b, x>| + |<b, x'>|, which exceeds s u with probability at most 2 Phi(-u/2) (worst
    at x' = +-x), and |D| <= 2:  epsilon = u/s + 2/s^2 + log(1 + 1/(4 ridge)), delta = 2 Phi(-u/2).
    """
    u = -2 * float(ndtri(DELTA / 2))
    left = EPSILON - math.log1p(1 / (4 * ridge))
    return float(brentq(lambda s: u / s + 2 / s**2 - left, 1e-3, 1e6))


def objective_perturbation(X: Array, y: Array, seed: int) -> Array:
    ridge = 1 / (4 * math.expm1(EPSILON / 10))  # a tenth of epsilon for the determinants
    tilt = SeededNoise(seed).gaussian(objective_std(ridge), X.shape[1])
    return logistic_regression(X, y, ridge, tilt)


def optimistic_perturbation(X: Array, y: Array, seed: int) -> Array:
    """The noise of a plain Gaussian sum of gradients, determinants for free: NOT private as such.

    No calibration of objective perturbation can do better."""
    tilt = SeededNoise(seed).gaussian(2 / gaussian_mu(EPSILON, DELTA), X.shape[1])
    return logistic_regression(X, y, 0.1, tilt)


def output_perturbation(X: Array, y: Array, seed: int, ridge: float) -> Array:
    """Gradients differ by 2, curvature is at least ridge: the minimiser moves by 2 / ridge."""
    theta = logistic_regression(X, y, ridge)
    std = 2 / ridge / gaussian_mu(EPSILON, DELTA)
    return theta + SeededNoise(seed).gaussian(std, len(theta))


def glm(**options: object) -> Callable[[Array, Array, int], Array]:
    def run(X: Array, y: Array, seed: int) -> Array:
        model = PrivateGLM(
            **UNIT, random_state=seed, **{"epsilon": EPSILON, "delta": DELTA, **options}
        )
        return model.fit(X, y).coef_

    return run


def sphere(n: int, rng: np.random.Generator) -> Array:
    X = rng.standard_normal((n, DIM))
    return X / np.linalg.norm(X, axis=1, keepdims=True)


def decaying(n: int, rng: np.random.Generator) -> Array:
    X = rng.standard_normal((n, DIM)) * np.arange(1, DIM + 1) ** -1.5 / 3
    return X / np.maximum(1, np.linalg.norm(X, axis=1, keepdims=True))


COVARIATES = {"sphere": sphere, "decaying": decaying}
PUBLIC = 2000  # rows


def learners(covariates: str, size: float) -> dict[str, Callable[[Array, Array, int], Array]]:
    public = COVARIATES[covariates](PUBLIC, np.random.default_rng(999))
    return {
        "non-private": lambda X, y, seed: logistic_regression(X, y, 1e-6),
        "newton (default)": glm(),
        "newton, coef_bound = |theta|": glm(coef_bound=size),
        "newton, public covariates": glm(public_X=public),
        "sgd": glm(method="sgd"),
        "erm, coef_bound = |theta|": glm(method="erm", coef_bound=size),
        "objective perturbation": objective_perturbation,
        "objective perturbation, optimistic": optimistic_perturbation,
        **{
            f"output perturbation, ridge {ridge}": lambda X, y, seed, ridge=ridge: (
                output_perturbation(X, y, seed, ridge)
            )
            for ridge in (30, 100, 300)
        },
        "local sgd (delta = 0)": glm(trust="local", delta=0.0),
    }


def drawn(
    covariates: str, rows: int, size: float, fresh: int, seed: int
) -> tuple[Array, Array, Array, Array]:
    """Rows, labels, fresh rows, and theta."""
    rng = np.random.default_rng(seed)
    theta = rng.standard_normal(DIM)
    theta *= size / np.linalg.norm(theta)
    X = COVARIATES[covariates](rows, rng)
    test = COVARIATES[covariates](fresh, rng)
    return X, (rng.random(rows) < expit(X @ theta)).astype(float), test, theta


def contest(*, covariates: str, rows: int, size: float, seed: int) -> dict[str, list[float]]:
    """Of each learner: the error, the distance to the non-private fit's predictions, seconds."""
    X, y, fresh, theta = drawn(covariates, rows, size, 20_000, seed)
    reference = np.zeros(len(fresh))
    found = {}
    for name, learn in learners(covariates, size).items():
        start = time.process_time()
        learned = learn(X, y, seed)
        seconds = time.process_time() - start
        predicted = expit(fresh @ learned)
        if name == "non-private":
            reference = predicted
        error = np.abs(predicted - expit(fresh @ theta)).mean()
        found[name] = [error, np.abs(predicted - reference).mean(), seconds]
    return found


def show_contest(found: Found, title: str, covariates: str, rows: int, size: float) -> None:
    table = new_table(
        f"{title}, T = {rows:,}, |theta| = {size:g}: L1 error x 10^4, {SEEDS} seeds",
        ("method", "median", "quartiles", "mean", "ratio of means", "from non-private", "ms"),
    )
    setting = {"covariates": covariates, "rows": rows, "size": size}
    plain = found.over(contest, "non-private", **setting)[:, 0].mean()
    for name in learners(covariates, size):
        errors, costs, seconds = found.over(contest, name, **setting).T
        low, middle, high = np.quantile(errors, [0.25, 0.5, 0.75]) * 1e4
        mean = errors.mean()
        table.add_row(name, f"{middle:.1f}", f"{low:.1f} - {high:.1f}", f"{mean * 1e4:.1f}",
                      f"{mean / plain:.2f}", f"{np.median(costs) * 1e4:.1f}",
                      f"{1e3 * seconds.mean():.0f}")  # fmt: skip
    CONSOLE.print(table)


def covered(*, covariates: str, rows: int, size: float, seed: int) -> dict[str, float]:
    """Fraction of fresh points inside the 95% width."""
    X, y, fresh, theta = drawn(covariates, rows, size, 2_000, seed)
    model = PrivateGLM(EPSILON, DELTA, random_state=seed, **UNIT).fit(X, y)
    error = np.abs(model.predict(fresh) - expit(fresh @ theta))
    return {"value": np.mean(error <= model.confidence_width(fresh))}


CONTESTS = (
    ("Uniform on the sphere", "sphere", 50_000, 1.0),
    ("Uniform on the sphere", "sphere", 50_000, 5.0),
    ("Uniform on the sphere", "sphere", 5_000, 5.0),
    ("Gaussian, scale j^-1.5", "decaying", 50_000, 5.0),
)
WIDTHS = ((5_000, 1.0), (50_000, 1.0), (50_000, 5.0))


def main() -> None:
    seeds = range(SEEDS)
    found = run([
        *(cell for _, covariates, rows, size in CONTESTS
          for cell in grid(contest, seeds=seeds, covariates=(covariates,), rows=(rows,),
                           size=(size,))),
        *(cell for rows, size in WIDTHS
          for cell in grid(covered, seeds=seeds, covariates=tuple(COVARIATES), rows=(rows,),
                           size=(size,))),
    ])  # fmt: skip
    for title, covariates, rows, size in CONTESTS:
        show_contest(found, title, covariates, rows, size)
    table = new_table("Fraction of fresh points inside the 95% width of method newton",
                      ("covariates", "T", "|theta|", "covered"))  # fmt: skip
    for covariates in COVARIATES:
        for rows, size in WIDTHS:
            inside = found.mean(covered, covariates=covariates, rows=rows, size=size)
            table.add_row(covariates, f"{rows:,}", f"{size:g}", f"{inside:.3f}")
    CONSOLE.print(table)


PARTS = {"contests": main, "links": links}

if __name__ == "__main__":
    for part in sys.argv[1:] or PARTS:
        PARTS[part]()
