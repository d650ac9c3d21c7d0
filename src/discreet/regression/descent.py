"""Dimension-free regression: one pass of gradient steps, one release at the end.

Chen, Li, Rakhlin, Simchi-Levi (2025), Algorithm 16. The error of a prediction does not grow with
the number of features: noise of std s in every coordinate moves <phi, theta> by s |phi|.

    paper   eta    theta_bar
    here    step   average

Every step is non-expansive (a gradient step on a convex loss of smoothness 1, then a projection),
so replacing a row moves all later iterates by no more than the step in which it was used.
"""

import math

import numpy as np

from discreet.regression.base import Estimate, Problem
from discreet.regression.central import least_squares

CLIP = 1.0  # on the residual inside a gradient


def descent(problem: Problem) -> Estimate:
    """Projected stochastic gradient descent on the unit ball, Huber loss, averaged at the end.

    After time t = step * n the bias of a prediction is about 1/sqrt(2 e t) for the worst
    spectrum, and the noise is 2 CLIP t / (n mu): the step balances the two. The iterates stay in
    the unit ball, so |theta| <= 1 (in units of label bound over norm bound) is supposed.
    """
    if problem.budget.off:
        return least_squares(problem)
    X, y = problem.X, problem.y
    mu = problem.budget.mu
    k = problem.budget.contributions
    n, d = X.shape
    time = (n * mu / (k * CLIP)) ** (2 / 3) / (4 * math.sqrt(math.e)) ** (2 / 3)
    step = min(time / n, 1.0)
    theta = np.zeros(d)
    average = np.zeros(d)
    last = n // 4
    for i, row in enumerate(problem.rng.permutation(n)):
        phi = X[row]
        residual = min(max(float(y[row] - phi @ theta), -CLIP), CLIP)
        theta += (step * residual) * phi
        theta /= max(1.0, math.sqrt(theta @ theta))  # the same work, inside the ball or not
        if i >= n - last:
            average += (theta - average) / (i - (n - last) + 1)
    if last == 0:
        average = theta
    # A gradient has norm at most CLIP; replacing k rows moves the average by 2 CLIP step each.
    released, _ = problem.release.gaussian(
        average,
        sensitivity=k * 2 * CLIP * step,
        mu=mu,
        what="averaged iterate",
    )
    return Estimate(released, None)  # never projected: that would bring the dimension back
