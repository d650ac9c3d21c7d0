"""The fit itself, run on stand-ins for the private rows: what error to expect, and its spread."""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from discreet.arrays import Array
from discreet.experiments.statistics import one_more
from discreet.privacy import SeededNoise
from discreet.regression import PrivateLinearRegression, expected_error

MOST_RUNS = 64
LEAST_RUNS = 4
WORK = 6e7  # numbers in the rows of all runs: 5 seconds, under local trust 20
MOST_COLUMNS = 100  # a fit takes time that grows with their cube
LENGTH = 0.8  # of theta: labels with their noise still fit within the bound
TEST = 4000  # rows on which an error is measured
UNSEEN = 1.5  # where nothing can be simulated: by how much the formula may be off


@dataclass(frozen=True)
class Simulation:
    """Errors of several fits to as many rows as there will be.

    >>> rows = Simulation(np.array([0.010, 0.012, 0.011, 0.013]), np.array([0.02] * 4))
    >>> [round(x, 4) for x in (rows.error, *rows.interval)]
    [0.0115, 0.0077, 0.0171]
    """

    l1: Array  # (runs,), mean absolute error of a prediction
    l2: Array  # (runs,), root mean square

    @property
    def error(self) -> float:
        """To be expected, on average over runs."""
        return float(self.l1.mean())

    @cached_property
    def interval(self) -> tuple[float, float]:
        """Where the error of one more fit lies, with probability .95."""
        return one_more(self.l1)


def simulated(
    covariates: Array | int,
    rows: int,
    epsilon: float,
    delta: float,
    *,
    trust: str,
    noise: float,
    runs: int | None = None,
    seed: int = 0,
) -> Simulation | None:
    """Fits of `PrivateLinearRegression` to rows drawn from the public sample, or on the sphere.

    Theta has a random direction. Where so many rows would take too long, fewer are fitted and
    errors are scaled as `expected_error` scales; None where features are too many for that.
    """
    d = covariates if isinstance(covariates, int) else covariates.shape[1]
    if d > MOST_COLUMNS:
        return None
    fitted = min(rows, int(WORK / (LEAST_RUNS * max(d, 3))))
    one = max(d, 3) * fitted + 2 * d**3  # matrices take their time, too
    many = runs or min(MOST_RUNS, max(LEAST_RUNS, int(WORK / one)))
    errors = np.array(
        [_fit(covariates, fitted, epsilon, delta, trust, noise, [seed, k]) for k in range(many)]
    )
    l1, l2, plain = errors.T
    known = expected_error(covariates, fitted, label_noise=noise)
    factor = _control(np.log(l1), np.log(plain), math.log(known))
    if fitted < rows:
        forecast = [
            expected_error(covariates, n, epsilon, delta, trust=trust, label_noise=noise)
            for n in (rows, fitted)
        ]
        factor *= forecast[0] / forecast[1]
    return Simulation(factor * l1, factor * l2)


def _control(errors: Array, plain: Array, expected: float) -> float:
    """What chance did to least squares on the same rows is taken out of the private errors, too.

    A control variate, all in logs: its coefficient is the slope of one against the other.
    """
    around = plain - plain.mean()
    slope = float(around @ errors) / max(float(around @ around), 1e-300)
    # E log|e| is not log E|e|: both are compared where their means are.
    middle = math.log(float(np.mean(np.exp(plain))))
    return math.exp(min(max(slope, 0.0), 1.0) * (expected - middle))


def _fit(
    covariates: Array | int,
    rows: int,
    epsilon: float,
    delta: float,
    trust: str,
    noise: float,
    seeds: list[int],
) -> tuple[float, float, float]:
    """Mean absolute and root mean square error of one fit's predictions; that of least squares."""
    rng = np.random.default_rng(seeds)
    number = int(rng.integers(2**31))
    X, test = (_drawn(covariates, n, rng) for n in (rows, TEST))
    theta = rng.standard_normal(X.shape[1])
    theta *= LENGTH / float(np.linalg.norm(theta))
    y = np.clip(X @ theta + noise * rng.standard_normal(rows), -1, 1)
    model = PrivateLinearRegression(
        epsilon,
        None if trust == "local" else delta,
        trust=trust,
        norm_bound=1.0,
        label_bound=1.0,
        fit_intercept=False,
        noise=SeededNoise(number),
        random_state=number,
    ).fit(X, y)
    errors = test @ (model.coef_ - theta)
    plain = test @ (np.linalg.lstsq(X, y, rcond=None)[0] - theta)
    square = float(np.sqrt(np.mean(errors**2)))
    return float(np.abs(errors).mean()), square, max(float(np.abs(plain).mean()), 1e-300)


def _drawn(covariates: Array | int, n: int, rng: np.random.Generator) -> Array:
    if isinstance(covariates, int):
        z = rng.standard_normal((n, covariates))
        return np.asarray(z / np.linalg.norm(z, axis=1, keepdims=True))
    return np.asarray(covariates[rng.integers(len(covariates), size=n)])
