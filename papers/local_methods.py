"""Two local methods that papers compare: Algorithm 1 (one feature) and one-shot statistics.

Chen, Li, Rakhlin, Simchi-Levi (2025). `ComparedRegression` offers them beside the library's own.
"""

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from discreet.arrays import symmetric_to_vector, vector_to_symmetric
from discreet.local.report import ReportSum, pieces
from discreet.local.server import posterior
from discreet.privacy import BallChannel, IntervalChannel
from discreet.regression import PrivateLinearRegression
from discreet.regression.base import Estimate, Problem
from discreet.regression.local import book
from discreet.regression.local_server import gram_estimate

Rows = NDArray[np.int64]


def one_dimensional(problem: Problem) -> Estimate:
    """theta = E[sign(phi) y] / E|phi|, half of the people each."""
    d = problem.X.shape[1]
    budget = problem.budget
    if d != 1:
        raise ValueError(f"one_dimensional needs one feature, got {d}; use information_weighted")
    first, second = _halves(problem)
    # sign(phi) y lies in [-1, 1] and |phi| in [0, 1]: the channels' intervals.
    signed = np.sign(problem.X[first, 0]) * problem.y[first]
    channel = IntervalChannel(budget.epsilon, contributions=budget.contributions)
    lengths = np.abs(problem.X[second, 0])
    other = IntervalChannel(budget.epsilon, low=0.0, high=1.0, contributions=budget.contributions)
    book(problem, "window 1", channel)
    book(problem, "window 2", other)
    top, bottom = ReportSum(), ReportSum()
    top.add(channel.privatize(signed, problem.noise, clip=True))
    bottom.add(other.privatize(lengths, problem.noise, clip=True))
    if min(top.count, bottom.count) < 2:
        return Estimate(np.zeros(1), np.eye(1))
    top_variance = max(float(top.variance), 0.0)  # rounding may leave less than 0 of equal reports
    bottom_variance = max(float(bottom.variance), 0.0)
    # Not below its noise: it divides, and so does its square.
    length = max(float(bottom.mean), math.sqrt(bottom_variance), 1e-150)
    theta = float(top.mean / length)
    variance = (top_variance + theta**2 * bottom_variance) / length**2
    return Estimate(np.array([theta]), np.array([[min(variance, 1.0)]]))


def one_shot(problem: Problem) -> Estimate:
    """Sufficient statistics: half of the people report phi phi^T, half phi y. The baseline."""
    d = problem.X.shape[1]
    budget = problem.budget
    first, second = _halves(problem)
    k = budget.contributions
    gram, moment = ReportSum(), ReportSum()
    matrices = BallChannel(d * (d + 1) // 2, budget.epsilon, contributions=k)
    vectors = BallChannel(d, budget.epsilon, contributions=k)
    book(problem, "window 1", matrices)
    book(problem, "window 2", vectors)
    for piece in pieces(len(first), d * d):
        X = problem.X[first[piece]]  # |phi phi^T|_F = |phi|^2 <= 1
        products = symmetric_to_vector(X[:, :, None] * X[:, None, :])
        sent = matrices.privatize(products, problem.noise, clip=True)
        gram.add(vector_to_symmetric(sent))
    for piece in pieces(len(second), d):
        rows = second[piece]
        products = problem.X[rows] * problem.y[rows, None]  # |phi y| <= 1
        moment.add(vectors.privatize(products, problem.noise, clip=True))
    if min(gram.count, moment.count) < 2:
        return Estimate(np.zeros(d), np.eye(d) / d)
    theta, covariance = posterior(np.eye(d) / d, *gram_estimate(gram), moment.mean, moment.variance)
    return Estimate(theta, covariance)


class ComparedRegression(PrivateLinearRegression):
    """PrivateLinearRegression with method="one-dimensional" and "one-shot" under local trust."""

    def _methods(self) -> dict[str, Callable[[Problem], Estimate]]:
        methods = super()._methods()
        if self.trust == "local":
            methods |= {"one-dimensional": one_dimensional, "one-shot": one_shot}
        return methods


def _halves(problem: Problem) -> tuple[Rows, Rows]:
    order = problem.rng.permutation(len(problem.X))
    return order[: len(order) // 2], order[len(order) // 2 :]
