"""A parameter that moves at the ends of public windows, by Newton steps on noisy sums.

Each window has the whole budget, because a row is in one of them, and is longer than all before it
together need to be: where a running sum pays for every prefix, a window pays once. Within a window
theta and the bound are fixed. A row adds

    g      the gradient, shortened to `bound` in l2
    H      its curvature f'' x x^T, if the gradient was not shortened
    1      if the gradient was not shortened

and at the end their sums are released together, with Gaussian noise. All that follows reads the
release alone:

    curvature  the mean of all windows' H, whose eigenvalues are pulled to their mean as far as
               noise alone would have spread them, and never below what they seem to be; where a
               steeper direction may hide in the noise the step is shorter
    step       H^-1 times the sum, times the gain P/(P + R): R is the variance that the noise gives
               the step, P that of theta before it (a Kalman filter; P also trebles)
    bound      halved, or more, while few gradients were shortened, raised if many were
"""

import math
from dataclasses import replace
from typing import Any

import numpy as np

from discreet.arrays import Array, symmetric_to_vector, vector_to_symmetric
from discreet.links import link as link_named
from discreet.optimization.problem import Problem
from discreet.optimization.sparse_windows import GROWTH, WindowArms
from discreet.privacy import Budget, Guarantee
from discreet.privacy.guarantee import STREAM
from discreet.privacy.ledger import Ledger
from discreet.privacy.mechanisms import Mechanisms
from discreet.privacy.noise import Noise
from discreet.state import Stateful, damaged

DENSEST = 128  # dimensions in which curvatures are a matrix
# These and the numbers in the equations are tuned in simulation (p = 1.5, 2 and inf, T = 10^3 to
# 10^4, epsilon = 1; correlated rows, skewed and large label noise among them), on seeds that no
# table uses.
SHORTENED = 0.4  # fraction of gradients that may be shortened
COUNT = 0.25  # weight of the count in a release: sqrt(1 + COUNT^2/5), 0.6% of noise
UNPROTECTED = (
    *STREAM,
    "anything of the open window, against whoever sees a stolen state: its sums hold no noise yet",
)


class DenseWindows(Stateful):
    """Newton steps at the ends of windows; for losses of a prediction, in up to 128 dimensions.

    Requires   a domain with a projection, delta > 0.
    Guarantee  (epsilon, delta), central, for the whole sequence of thetas.

    bound     how long a gradient may be in l2; None begins at a public rule and follows the
              released fraction of gradients that were shortened
    """

    _growing = frozenset({"_told"})
    _state = (
        "rounds",
        "window",
        "bound",
        "shortened",
        "_theta",
        "_variance",
        "_curvature",
        "_weight",
        "_sums",
        "_told",
        "_ledger",
        "_noise",
    )

    def __init__(
        self,
        problem: Problem,
        horizon: int,
        budget: Budget,
        *,
        bound: float | None,
        noise: Noise,
    ) -> None:
        if problem.margin is None:
            raise ValueError("windows need a loss whose curvature is known: a named one")
        self.horizon = horizon
        self.budget = budget
        self._problem = problem
        self._margin = problem.margin
        self._noise = noise
        self._mu = budget.mu
        n = problem.dim
        self.ends = window_ends(horizon, n, self._mu, growth=1.7)
        self._most = problem.l2_bound(None)
        self._free = bound is None
        # Of a row's curvature f'' x x^T, in Frobenius norm: rows longer than usual count less.
        self._largest = min(problem.stretch**2, 1.5 * problem.typical_row**2)
        first = 0.3 * problem.typical * problem.typical_row  # of a typical gradient
        self.bound = min(self._most, first if bound is None else bound)  # of the open window
        self.shortened = 0.0  # fraction of the last window's gradients that were, as released
        self._theta = np.array(problem.domain.interior_point, dtype=np.float64)
        self._variance = (problem.radius * n ** (-1 / problem.p)) ** 2  # of an entry of theta
        self._curvature = np.zeros((n, n))  # of all windows, by the precision of each,
        self._weight = 0.0  # and the sum of the precisions: their ratio is that of one row
        self.rounds = 0
        self.window = 0  # released so far
        self._sums = np.zeros(n + n * n + 1)
        self._told = np.empty(0)  # the last release, until theta has moved by it
        self._ledger = Ledger(budget)

    @property
    def theta(self) -> Array:  # (n,)
        return self._theta.copy()

    @property
    def guarantee(self) -> Guarantee:
        return self._ledger.guarantee(unprotected=UNPROTECTED, reference="windows of Newton steps")

    def take(self, x: Array, y: float) -> None:
        self._commit(rounds=self.rounds + 1, _sums=self._sums + self.term(x, y))

    def term(self, x: Array, y: float) -> Array:
        """What one row adds: its gradient, its curvature, and whether the first is as it was."""
        square = float(x.dot(x))
        m = float(x.dot(self._theta))
        # Whatever comes, NaN too, becomes a number whose square is one.
        g = min(max(-1e150, self._margin.slope(m, y)), 1e150) * x
        # Of g itself: the square of a tiny row is 0, that of a g longer than any bound is not.
        size = math.sqrt(float(g.dot(g)))
        # No branch: times tell nothing. |g| <= bound, whatever the row and the label.
        short = min(1.0, self.bound / max(size, 1e-200))
        whole = float(size <= self.bound)
        bend = whole * min(max(0.0, self._margin.bend(m, y) / self._margin.smoothness), 1.0)
        bend *= min(1.0, self._largest / max(square, 1e-200))
        return np.concatenate([short * g, (bend * np.outer(x, x)).ravel(), [whole]])

    def follow(self) -> None:
        """Release the window that is full, if there is one, and move; asked again does nothing.

        A release is in place before anything reads it: a projection that fails may be tried again,
        and no noise is drawn again.
        """
        if self.window < len(self.ends) and self.rounds == self.ends[self.window]:
            self._release()
        if len(self._told):
            self._commit(**self._moved(self._told), _told=np.empty(0))

    def _release(self) -> None:
        """All that a window publishes; its sums are dropped in the same step."""
        n = len(self._theta)
        C = self.bound
        # In units of C a row adds a gradient g u, |g| <= 1, its curvature m u u^T, 0 <= m <= 1, and
        # a count w of 0 or 1, where m = 0 if w = 0. With c = |u1 . u2| another row moves that by at
        # most 2 + 2 c + m1^2 + m2^2 - 2 m1 m2 c^2 + COUNT^2 (w1 - w2)^2, convex in m1 and in m2:
        # at m1 = m2 = 1 by 4 + 2 c - 2 c^2 <= 4.5, elsewhere by 5 + COUNT^2, if g1 u1 = -g2 u2 and
        # m1 = w1 = 1 and m2 = w2 = 0. k rows of a person, also in one window, by k times its root.
        turn = C / self._largest
        moved = C * math.sqrt(5 + COUNT**2) * self.budget.contributions
        matrix = symmetric_to_vector(self._sums[n:-1].reshape(n, n))
        released, release = Mechanisms(self._noise).gaussian(
            np.concatenate([self._sums[:n], turn * matrix, COUNT * C * self._sums[-1:]]),
            sensitivity=moved,
            mu=self._mu,
            what="gradients, curvatures and how many were shortened",
            scope=f"window {self.window + 1}",
        )
        self._commit(
            window=self.window + 1,
            _sums=np.zeros_like(self._sums),
            _told=released,
            _ledger=self._ledger._including(release),
        )

    def _moved(self, released: Array) -> dict[str, Any]:
        """What is known after a window, from released values only."""
        n = len(self._theta)
        C = self.bound
        noise = self._ledger.releases[-1].scale
        unit = self._margin.smoothness / (C / self._largest)
        total = released[:n]
        curvature = vector_to_symmetric(released[n:-1]) * unit
        count = float(released[-1]) / (COUNT * C)
        ends = [0, *self.ends]
        rows = ends[self.window] - ends[self.window - 1]
        part = min(max(count / rows, 0.25), 1.0)
        whole = rows * part
        # The mean curvature of a row, over all windows by the precision of each.
        precision = whole**2 / max(noise * unit, 1e-200) ** 2
        summed = self._curvature + curvature * (precision / whole)
        weight = self._weight + precision
        values, frame = np.linalg.eigh(summed / weight)
        smooth = self._margin.smoothness
        mean = max(float(values.mean()), smooth * self._problem.typical_row**2 / (4 * n))
        # Noise of this size spreads eigenvalues so far to both sides.
        edge = math.sqrt(2 * n / weight)
        apart = values - mean
        pulled = mean + np.sign(apart) * np.sqrt(np.maximum(apart**2 - edge**2, 0.0))
        # A step that is too long diverges: as steep as it looks, if that may be noise too; and what
        # cannot be told from the mean may be as steep as mean + edge, of which half is safe.
        steep = np.maximum(np.maximum(pulled, np.abs(values)), (mean + edge) / 2)
        error = (noise / whole) ** 2 / steep**2
        gain = self._variance / (self._variance + error)
        step = frame @ (gain * (frame.T @ total) / (whole * steep))
        return {
            "bound": self._next_bound(1 - part) if self._free else self.bound,
            "shortened": 1 - min(max(count / rows, 0.0), 1.0),
            "_theta": self._problem.domain.project(self._theta - step),
            "_variance": (1 - float(gain.mean())) * self._variance * 3.0,
            "_curvature": summed,
            "_weight": weight,
        }

    def _next_bound(self, shortened: float) -> float:
        factor = 1.0
        if shortened < SHORTENED / 4:
            factor = 1 / 2
        elif shortened < SHORTENED / 2:
            factor = 2 / 3
        elif shortened > SHORTENED:
            factor = 3 / 2
        return min(factor * self.bound, self._most)

    def _validate(self) -> None:
        if not (isinstance(self._noise, Noise) and isinstance(self._ledger, Ledger)):
            raise damaged("noise")
        if not 0 < self.bound <= self._most:
            raise damaged("bound")
        ends = [0, *self.ends, self.horizon]
        if not 0 <= self.window <= len(self.ends):
            raise damaged("window")
        n = len(self._theta)
        if len(self._told) not in (0, self.window and n + n * (n + 1) // 2 + 1):
            raise damaged("told")
        if not ends[self.window] <= self.rounds <= ends[self.window + 1]:
            raise damaged("rounds")


class SparseWindows(Stateful):
    """`WindowArms` with one arm: a few entries at a time, for l1 balls and the simplex."""

    _state = ("_arms",)

    def __init__(
        self, problem: Problem, horizon: int, budget: Budget, *, bound: float, noise: Noise
    ) -> None:
        self.bound = bound
        loss = problem.margin
        self._arms = WindowArms(
            1,
            problem.dim,
            horizon,
            budget,
            forced=1,
            link=link_named("logistic" if loss and loss.name == "logistic" else "identity"),
            bound=bound,
            radius=problem.radius,
            noise=noise,
            domain=problem.domain,
            ends=window_ends(horizon, problem.dim, budget.mu, GROWTH),
        )

    @property
    def rounds(self) -> int:
        arms = self._arms
        return (arms.ends[arms.window - 1] if arms.window else 0) + arms.taken

    @property
    def theta(self) -> Array:  # (n,)
        return np.array(self._arms.theta[0])

    @property
    def guarantee(self) -> Guarantee:
        promise = self._arms.guarantee
        return replace(
            promise, trust="central", unprotected=UNPROTECTED, reference="windows of Newton steps"
        )

    def take(self, x: Array, y: float) -> None:
        self._arms.take(0, x, y)

    def follow(self) -> None:
        self._arms.advance(self.rounds)

    def _validate(self) -> None:
        if not isinstance(self._arms, WindowArms):
            raise damaged("arms")


def window_ends(horizon: int, dim: int, mu: float, growth: float) -> list[int]:
    """Where windows end, the last with the horizon; a first one of about 20 dim/mu rows is enough.

    >>> window_ends(1000, 5, 0.3, 1.7)
    [53, 143, 296, 557, 1000]
    """
    parts = min(float(horizon), max(30.0, horizon * mu / (20 * dim)))
    count = max(1, int(math.log(1 + (growth - 1) * parts) / math.log(growth)))
    lengths = growth ** np.arange(count)
    ends = np.round(np.cumsum(lengths) / lengths.sum() * horizon).astype(int)
    return [int(end) for end in np.unique(ends) if end > 0]
