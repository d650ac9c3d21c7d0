"""Cells that the two regression papers share: fits, and contextual bandits."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from scipy.special import expit

from discreet.arrays import Array
from discreet.bandits import LinearBandit, baselines
from discreet.environments import play
from discreet.environments.linear import linear_world
from discreet.privacy import SeededNoise, Tree
from discreet.regression import OLS, AdaSSP, PrivateGLM, PrivateLinearRegression

D = 5  # features, by default
TEST = 10_000
UNIT: dict[str, Any] = {"norm_bound": 1.0, "label_bound": 1.0, "fit_intercept": False}
FAMILIES = ("sphere", "small", "decay", "log-normal", "rare .01")
TREE = Tree(2, balanced=False)  # of Shariff and Sheffet


def covariates(family: str, n: int, rng: np.random.Generator, d: int = D) -> Array:  # (n, d)
    """Rows in the unit ball.

    sphere      uniform on the unit sphere
    small       the same of length .05
    decay       Gaussian of scale j^-1.5, cut to the unit ball
    log-normal  uniform directions, length min(1, exp(1.2 N - 2))
    rare r      a sphere of d - 1 dimensions; a fraction r of the rows is the missing unit vector
    """
    z = rng.standard_normal((n, d))
    if family == "decay":
        z *= np.arange(1, d + 1) ** -1.5
        return np.asarray(z / np.maximum(1, np.linalg.norm(z, axis=1, keepdims=True)))
    if family.startswith("rare"):
        z[:, -1] = 0.0
        z[rng.random(n) < float(family.split()[1])] = np.eye(d)[-1]
    z /= np.linalg.norm(z, axis=1, keepdims=True)
    if family == "small":
        return 0.05 * z
    if family == "log-normal":
        return z * np.minimum(1, np.exp(1.2 * rng.standard_normal(n) - 2))[:, None]
    return z


def fit(
    *, family: str, rows: int, epsilon: float, method: str, labels: str, seed: int
) -> Mapping[str, float]:
    """Mean |<phi, error>| (l1) and mean <phi, error>^2 (l2) on fresh rows.

    method: "OLS", "AdaSSP", "local", "local, one shot", or a method of PrivateLinearRegression.
    labels: "gaussian" (std .1, |theta| = 1) or "signs" (+-1, |theta| = 1/2).
    """
    rng = np.random.default_rng([seed, rows])
    X = covariates(family, rows, rng)
    test = covariates(family, TEST, rng)
    theta = rng.standard_normal(D)
    theta /= np.linalg.norm(theta) * (1 if labels == "gaussian" else 2)
    mean = X @ theta
    if labels == "gaussian":
        y = np.clip(mean + 0.1 * rng.standard_normal(rows), -1, 1)
    else:
        y = np.where(rng.random(rows) < (1 + mean) / 2, 1.0, -1.0)
    miss = test @ (_coefficients(method, X, y, epsilon, seed) - theta)
    return {"l1": float(np.abs(miss).mean()), "l2": float(np.mean(miss**2))}


def _coefficients(method: str, X: Array, y: Array, epsilon: float, seed: int) -> Array:
    common: dict[str, Any] = {"noise": SeededNoise(seed), "random_state": seed, **UNIT}
    if method == "OLS":
        return np.asarray(OLS(**UNIT).fit(X, y).coef_)
    if method == "AdaSSP":
        return np.asarray(AdaSSP(epsilon, **common).fit(X, y).coef_)
    if method == "local":
        return np.asarray(PrivateLinearRegression(epsilon, trust="local", **common).fit(X, y).coef_)
    return np.asarray(PrivateLinearRegression(epsilon, method=method, **common).fit(X, y).coef_)


def logistic(*, rows: int, epsilon: float, method: str, seed: int) -> Mapping[str, float]:
    """Mean error of predicted probabilities, |theta| = 3, ten features on the sphere."""
    rng = np.random.default_rng([seed, rows])
    X = covariates("sphere", rows, rng, 10)
    test = covariates("sphere", TEST, rng, 10)
    theta = rng.standard_normal(10)
    theta *= 3 / np.linalg.norm(theta)
    y = (rng.random(rows) < expit(X @ theta)).astype(float)
    if method == "none":
        found = _maximum_likelihood(X, y)
    else:
        model = PrivateGLM(epsilon, method=method, coef_bound=5.0, noise=SeededNoise(seed),
                           random_state=seed, **UNIT)  # fmt: skip
        found = np.asarray(model.fit(X, y).coef_)
    return {"value": float(np.abs(expit(test @ found) - expit(test @ theta)).mean())}


def _maximum_likelihood(X: Array, y: Array) -> Array:
    theta = np.zeros(X.shape[1])
    for _ in range(30):  # Newton's method
        p = expit(X @ theta)
        hessian = (X * (p * (1 - p))[:, None]).T @ X + 1e-6 * np.eye(len(theta))
        theta = theta - np.linalg.solve(hessian, X.T @ (p - y) + 1e-6 * theta)
    return theta


def wide(*, rows: int, dim: int, trust: str, epsilon: float, seed: int) -> Mapping[str, float]:
    """Mean |error| of a prediction: rows of rank 20 in many features, method "sgd"."""
    rng = np.random.default_rng([seed, rows])
    Z, test, w = (covariates("sphere", n, rng, 20) for n in (rows, 2000, 1))
    y = np.clip(Z @ w[0] + 0.1 * rng.standard_normal(rows), -1, 1)
    basis = np.linalg.qr(np.random.default_rng([seed, dim]).standard_normal((dim, 20)))[0]
    model = PrivateLinearRegression(epsilon, trust=trust, method="sgd", noise=SeededNoise(seed),
                                    random_state=seed, **UNIT).fit(Z @ basis.T, y)  # fmt: skip
    miss = test @ (basis.T @ model.coef_ - w[0])
    return {"l1": float(np.abs(miss).mean()), "l2": float(np.mean(miss**2))}


def regret(
    *, world: str, rounds: int, epsilon: float, how: str, seed: int, dim: int = D
) -> Mapping[str, float]:
    """Regret, and that of its last half.

    how: "joint" or "local" (LinearBandit), "tree" (Shariff and Sheffet), "LinUCB", "LocalLinUCB".
    """
    place = linear_world(world, dim, seed=seed)
    common: dict[str, Any] = {"seed": seed}
    private: dict[str, Any] = {**common, "noise": SeededNoise(seed)}
    learner: Any
    if how == "LinUCB":
        learner = baselines.LinUCB(dim, rounds, **common)
    elif how == "tree":
        learner = baselines.ContinualLinUCB(dim, rounds, epsilon, mechanism=TREE, **private)
    elif how == "LocalLinUCB":
        learner = baselines.LocalLinUCB(dim, rounds, epsilon, **private)
    else:
        learner = LinearBandit(dim, rounds, epsilon, trust=how, **private)
    lost = play(learner, place, rounds, seed=seed).regret
    return {"value": float(lost.sum()), "late": float(lost[rounds // 2 :].sum())}


def printed_std(epsilon: float, delta: float) -> float:
    """Standard deviation per unit of replace-one l2 distance of the papers' Gaussian channels.

    sigma = 4 sqrt(log(2.5/beta))/alpha per half the distance, so half of that per unit.
    """
    return 2 * math.sqrt(math.log(2.5 / delta)) / epsilon
