"""A template for a regression method of your own: one noisy matrix, and a ridge that you choose.

    python examples/own_method.py [rows]

An estimator of the library turns a `Problem` into an `Estimate`. Inside, rows lie in the unit ball
and labels in [-1, 1] (clipped once, at the edge), and `problem.release` has the mechanisms: it asks
the ledger before every release and draws the noise. The base class does the rest: bounds,
intercept, predictions, the scikit-learn conventions and the guarantee. In an
experiment: "own_method:RidgeOnce".
"""

import math
import sys

import numpy as np

from discreet.privacy import SeededNoise
from discreet.regression import AdaSSP
from discreet.regression.base import Estimate
from discreet.regression.baselines import SSP


class RidgeOnce(SSP):
    """Noisy second moments and a fixed ridge.

    ridge   added to the Gram matrix, in units of the noise's standard deviation
    others  as for `SSP`
    """

    def __init__(self, epsilon=1.0, delta=None, *, ridge=2.0, norm_bound=1.0, label_bound=1.0,
                 contributions=1, fit_intercept=False, noise=None, random_state=None):  # fmt: skip
        super().__init__(epsilon, delta, norm_bound=norm_bound, label_bound=label_bound,
                         contributions=contributions, fit_intercept=fit_intercept, noise=noise,
                         random_state=random_state)  # fmt: skip
        self.ridge = ridge

    def _solve(self, problem):
        d = problem.X.shape[1]
        v = np.column_stack([problem.X, problem.y])
        # |x| <= 1 and |y| <= 1, so |v|^2 <= 2; replacing one v v' moves the sum by sqrt(2) |v|^2 at
        # most (replace-one), and k rows of one person by k times that.
        moved = 2 * math.sqrt(2) * problem.budget.contributions
        released = problem.release.gaussian_symmetric(
            v.T @ v, sensitivity=moved, mu=problem.budget.mu, what="second moments"
        )
        std = released.release.scale
        gram = released.value[:d, :d] + self.ridge * std * np.eye(d)
        values, vectors = np.linalg.eigh(gram)
        gram = (vectors * np.maximum(values, std)) @ vectors.T  # post-processing: free
        return Estimate(np.linalg.solve(gram, released.value[:d, d]), None)


if __name__ == "__main__":
    n = int(sys.argv[1]) if len(sys.argv) > 1 else 20_000
    rng = np.random.default_rng(0)
    theta = np.array([0.5, -0.3, 0.2])
    X = rng.uniform(-1, 1, (n, 3)) / math.sqrt(3)
    y = X @ theta + 0.1 * rng.standard_normal(n)
    bounds = {"norm_bound": 1.0, "label_bound": 1.0, "fit_intercept": False}
    print(f"{'':26}{'root mean square error':>24}")
    for kind in (RidgeOnce, AdaSSP):
        model = kind(1.0, noise=SeededNoise(0), **bounds).fit(X, y)
        error = np.sqrt(np.mean((model.predict(X) - X @ theta) ** 2))
        print(f"{f'private, {kind.__name__}':26}{error:24.4f}")
    print(f"{'no guess at all':26}{np.sqrt(np.mean((X @ theta) ** 2)):24.4f}")
