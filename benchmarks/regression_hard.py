"""Worlds in which private regression has lost to something simple: the part `hard`.

Each row is a world; each estimator's root mean squared error of predictions, over fits and fresh
rows, x 10^4. Gradient descent is tuned in hindsight: the best mean over fits of a grid of steps,
clips and rates. Beside it the fraction of fresh predictions inside the nominal 95% width.
"""

import math

import numpy as np
from kit import CONSOLE, new_table, run

from discreet.experiments.measure import grid
from discreet.links import link
from discreet.regression import OLS, AdaSSP, PrivateGLM, PrivateLinearRegression
from discreet.regression.baselines import DPGradientDescent

SEEDS = 20
UNIT = {"norm_bound": 1.0, "label_bound": 1.0, "fit_intercept": False}
TEST = 20_000
# steps, gradient_clip, learning_rate
DESCENTS = [(k, c, r) for k in (1, 3, 10, 30, 100) for c in (0.1, 0.3, 1.0) for r in (1.8, 7.0)]
FEW_DESCENTS = [(k, c, 7.0) for k in (30, 100) for c in (0.1, 0.3)]  # where rows are many

LINEAR = {  # world: (family, rows, features)
    "rare .01": ("rare .01", 10_000, 4),
    "rare .03": ("rare .03", 10_000, 4),
    "basis": ("basis", 20_000, 8),
    "log-normal": ("log-normal", 20_000, 8),
    "tails, sphere": ("sphere", 20_000, 8),
    "tails, decay": ("decay", 20_000, 8),
    "tails, log-normal": ("log-normal", 20_000, 8),
    **{f"sphere, {n:,} rows": ("sphere", n, 8) for n in (100, 300, 1_000, 2_000, 5_000)},
    **{f"decay, {n:,} rows": ("decay", n, 8) for n in (100, 300, 1_000, 2_000, 5_000)},
}
TAIL = (0.02, 0.7)  # fraction of rows whose label is so far off, against the prediction


def directions(rng, n: int, d: int) -> np.ndarray:
    g = rng.standard_normal((n, d))
    return g / np.linalg.norm(g, axis=1, keepdims=True)


def covariates(family: str, n: int, d: int, rng) -> np.ndarray:
    if family.startswith("rare"):  # a sphere of d - 1 dimensions, and now and then the missing one
        X = np.column_stack([np.zeros(n), directions(rng, n, d - 1)])
        X[rng.random(n) < float(family.split()[1])] = np.eye(d)[0]
        return X
    if family == "decay":
        X = rng.standard_normal((n, d)) * np.arange(1, d + 1) ** -1.5
        return X / np.maximum(1, np.linalg.norm(X, axis=1, keepdims=True))
    if family == "basis":
        frequency = 2.0 ** -np.arange(1, d + 1)
        return np.eye(d)[rng.choice(d, n, p=frequency / frequency.sum())]
    X = directions(rng, n, d)
    if family == "log-normal":
        X *= np.minimum(1, np.exp(1.2 * rng.standard_normal(n) - 2))[:, None]
    return X


def world(name: str, seed: int):
    """Rows, labels, the best linear predictor, rows to predict."""
    family, n, d = LINEAR[name]
    rng = np.random.default_rng([seed, n, d])
    X = covariates(family, n, d, rng)
    test = covariates(family, TEST, d, rng)
    theta = directions(rng, 1, d)[0]
    if family.startswith("rare"):  # all of theta where hardly anyone is
        theta = 0.9 * np.eye(d)[0]
        test = np.eye(d)[:1]
    y = X @ theta + 0.1 * rng.standard_normal(n)
    if name.startswith("tails"):
        fraction, size = TAIL
        y -= size * np.sign(X @ theta) * (rng.random(n) < fraction)
        # E[y | x] = <x, theta> - fraction size sign(<x, theta>), as well as a line can.
        mean = test @ theta - fraction * size * np.sign(test @ theta)
        theta = np.linalg.lstsq(test, mean, rcond=None)[0]
    return X, np.clip(y, -1, 1), theta, test


def contest(*, name: str, epsilon: float, seed: int) -> dict[str, float]:
    """Mean squared errors, and the coverage of the width."""
    X, y, theta, test = world(name, seed)
    seeded = {**UNIT, "random_state": seed}
    model = PrivateLinearRegression(epsilon, **seeded).fit(X, y)
    inside = np.abs(test @ (model.coef_ - theta)) <= model.confidence_width(test)
    fits = {
        "OLS": OLS(**UNIT).fit(X, y),
        "private": model,
        "AdaSSP": AdaSSP(epsilon, **seeded).fit(X, y),
    }
    for steps, clip, rate in descents(name):
        fits[f"descent {steps} {clip} {rate}"] = DPGradientDescent(
            epsilon, steps=steps, gradient_clip=clip, learning_rate=rate, **seeded
        ).fit(X, y)
    found = {each: float(np.mean((test @ (fit.coef_ - theta)) ** 2)) for each, fit in fits.items()}
    zero = float(np.mean((test @ theta) ** 2))
    return {**found, "zero": zero, "coverage": float(inside.mean())}


def descents(name: str):
    return DESCENTS if LINEAR[name][1] <= 5_000 else FEW_DESCENTS


def rmse(squares: np.ndarray) -> str:
    """Root of the mean x 10^4, and its standard error by the delta method."""
    root = math.sqrt(squares.mean())
    error = squares.std(ddof=1) / math.sqrt(len(squares)) / (2 * root)
    digits = 1 if root < 0.01 else 0
    return f"{1e4 * root:.{digits}f} ± {1e4 * error:.{digits}f}"


def linear(found, epsilon: float) -> None:
    table = new_table(
        f"Hard worlds: RMSE of predictions x 10^4, epsilon = {epsilon:g}, {SEEDS} fits",
        ("world", "OLS", "private", "AdaSSP", "gradient descent, tuned", "zero", "/OLS",
         "/best other", "coverage"),
    )  # fmt: skip
    for name in LINEAR:

        def over(what, name=name):
            return found.over(contest, what, name=name, epsilon=epsilon)

        tuned = min((over(f"descent {k} {c} {r}") for k, c, r in descents(name)),
                    key=lambda v: v.mean())  # fmt: skip
        ours, ssp, zero = over("private"), over("AdaSSP"), over("zero")
        best = min(ssp.mean(), tuned.mean(), zero.mean())
        table.add_row(
            name, rmse(over("OLS")), rmse(ours), rmse(ssp), rmse(tuned),
            f"{1e4 * math.sqrt(zero.mean()):.0f}",
            f"{math.sqrt(ours.mean() / over('OLS').mean()):.2f}",
            f"{math.sqrt(ours.mean() / best):.2f}", f"{over('coverage').mean():.3f}",
        )  # fmt: skip
    CONSOLE.print(table)


GLMS = {  # world: (link, |theta|, label_bound)
    "logistic, 1": ("logistic", 1.0, 1.0),
    "logistic, 5": ("logistic", 5.0, 1.0),
    "logistic, 10": ("logistic", 10.0, 1.0),
    "probit, 1": ("probit", 1.0, 1.0),
    "probit, 5": ("probit", 5.0, 1.0),
    "poisson, 1, counts to 20": ("poisson", 1.0, 20.0),
    "poisson, 3, counts to 50": ("poisson", 3.0, 50.0),
    "poisson, 4, counts to 100": ("poisson", 4.0, 100.0),
    "identity, 1": ("identity", 1.0, 1.5),
}
GLM_ROWS = 50_000
GLM_DIM = 10


def glm_contest(*, name: str, method: str, seed: int) -> dict[str, float]:
    """Mean squared error of means, in units of label_bound, and the coverage of the width."""
    kind, size, bound = GLMS[name]
    rng = np.random.default_rng([seed, GLM_ROWS])
    X = directions(rng, GLM_ROWS, GLM_DIM)
    test = directions(rng, 5_000, GLM_DIM)
    theta = size * directions(rng, 1, GLM_DIM)[0]
    mean = link(kind).mean(X @ theta)
    if kind == "poisson":
        y = np.minimum(rng.poisson(mean), bound).astype(float)
    elif kind == "identity":
        y = np.clip(mean + 0.1 * rng.standard_normal(GLM_ROWS), -bound, bound)
    else:
        y = (rng.random(GLM_ROWS) < mean).astype(float)
    epsilon = math.inf if method == "plain" else 1.0
    model = PrivateGLM(
        epsilon, 1e-6, link=kind, norm_bound=1.0, label_bound=bound, fit_intercept=False,
        random_state=seed, method="newton" if method == "plain" else method,
        coef_bound=size if method == "erm" else None,
    ).fit(X, y)  # fmt: skip
    miss = np.abs(model.predict(test) - link(kind).mean(test @ theta)) / bound
    found = {"value": float(np.mean(miss**2))}
    if method == "newton":
        found["coverage"] = float(np.mean(miss <= model.confidence_width(test) / bound))
    return found


def glms(found, methods) -> None:
    table = new_table(
        f"PrivateGLM: RMSE of means x 10^4 over label_bound, sphere, d = {GLM_DIM}, "
        f"T = {GLM_ROWS:,}, epsilon = 1, {GLM_SEEDS} fits",
        ("link, |theta|", *methods, "newton / plain", "coverage"),
    )
    for name in GLMS:
        squares = {m: found.over(glm_contest, name=name, method=m) for m in methods}
        coverage = found.mean(glm_contest, "coverage", name=name, method="newton")
        ratio = math.sqrt(squares["newton"].mean() / squares["plain"].mean())
        table.add_row(
            name, *(rmse(each) for each in squares.values()), f"{ratio:.2f}", f"{coverage:.3f}"
        )
    CONSOLE.print(table)


GLM_SEEDS = 20


def hard(epsilon: float = 1.0) -> None:
    linear(run(grid(contest, seeds=SEEDS, name=tuple(LINEAR), epsilon=(epsilon,))), epsilon)


def links() -> None:
    methods = ("plain", "newton")
    glms(run(grid(glm_contest, seeds=GLM_SEEDS, name=tuple(GLMS), method=methods)), methods)
