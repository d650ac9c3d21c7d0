"""Private optimisers that Han et al. (2022) compare with, calibrated from first principles.

    NoisySFW   variance-reduced Frank-Wolfe, one pass in batches (Bassily, Guzman and Nandi 2021,
               Algorithm 3): half the rows start the gradient, the others refine it
    NoisySGD   noisy projected gradient descent, several passes (Bassily, Feldman, Guzman and Talwar
               2020, Algorithm 2)
    LocalMD    mirror descent under local privacy: every gradient is reported through `BallChannel`

All three minimise the squared error of rows x with |x|_q <= 1 and labels in [-1, 1]. The first two
need delta > 0, see all rows and release one theta; the third learns row by row.
"""

import math
from abc import ABC, abstractmethod
from dataclasses import replace
from typing import Self

import numpy as np
from numpy.typing import ArrayLike

from discreet.arrays import Array, finite
from discreet.domains import Domain
from discreet.optimization.problem import Problem, clipped
from discreet.privacy import BallChannel, Budget, Guarantee
from discreet.privacy.guarantee import ONE_PROCESS
from discreet.privacy.ledger import Ledger
from discreet.privacy.mechanisms import Mechanisms
from discreet.privacy.noise import Noise, source


class _Batch(ABC):
    """fit(X, y) -> self, once; theta; guarantee."""

    _reference: str

    def __init__(
        self,
        domain: Domain,
        epsilon: float,
        delta: float = 1e-6,
        *,
        gradient_bound: float | None = None,
        step: float = 1.0,
        noise: Noise | None = None,
    ) -> None:
        self.domain = domain
        self.problem = Problem(domain, "squared", 1.0)
        self.step = step
        self.noise = source(noise)
        self.bound = self.problem.l2_bound(gradient_bound)
        self.theta = np.array(domain.interior_point, dtype=np.float64)
        budget = Budget(epsilon, delta)
        self._mu = budget.mu  # an error for delta = 0: noise is Gaussian
        self._ledger = Ledger(budget)

    @property
    def guarantee(self) -> Guarantee:
        """The promise for theta and everything on the way to it."""
        return self._ledger.guarantee(
            unprotected=("the number of rows", "the public bounds"), reference=self._reference
        )

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:  # (n, dim), (n,)
        """Learn from all rows, once."""
        if self._ledger.releases:
            raise ValueError("this optimiser has spent its budget; make a new one")
        rows = [self.problem.row(x) for x in finite("X", X)]
        labels = [self.problem.label(label) for label in finite("y", y)]
        if len(rows) != len(labels) or len(rows) < 4:
            raise ValueError(f"expected at least 4 rows, got {len(rows)}, {len(labels)} labels")
        self.theta = self._fitted(rows, labels)
        return self

    @abstractmethod
    def _fitted(self, rows: list[Array], labels: list[float]) -> Array:
        """theta, from means that are released on the way to it."""

    def _mean(self, terms: list[Array], bound: float, mu: float, scope: str | None) -> Array:
        """The noisy mean of vectors, each shortened to `bound` in l2."""
        mean, release = Mechanisms(self.noise).gaussian(
            np.mean([clipped(g, bound) for g in terms], axis=0),
            sensitivity=2 * bound / len(terms),  # one replaced term of n moves it by 2 bound / n
            mu=mu,
            what="mean gradient",
            scope=scope,
        )
        self._ledger.spend(release)
        return np.asarray(mean)


class NoisySFW(_Batch):
    """One pass of variance-reduced Frank-Wolfe in batches; every batch has the whole budget.

        d <- (1 - eta)(d + mean[grad f(theta) - grad f(before)]) + eta mean[grad f(theta)] + noise

    Half the rows make the first d, then about sqrt(n) batches of sqrt(n)/2 rows refine it,
    eta = step/sqrt(n).

    domain           any
    epsilon          of one person; inf switches privacy off
    delta            above 0
    gradient_bound   how long one gradient may be in l2; None is the worst case
    step             in units of 1/sqrt(n)
    noise            None, `SecureNoise()`, or `SeededNoise(seed)` for simulation

    >>> from discreet.domains import LpBall
    >>> from discreet.privacy import SeededNoise
    >>> X = np.random.default_rng(0).normal(size=(400, 2)) / 4
    >>> m = NoisySFW(LpBall(2, 2), 1.0, 1e-6, noise=SeededNoise(0)).fit(X, X @ [0.6, -0.4])
    >>> bool(np.linalg.norm(m.theta) <= 1), m.guarantee.epsilon
    (True, 1.0)
    """

    _reference = "Bassily, Guzman and Nandi (2021), Algorithm 3"

    def _fitted(self, rows: list[Array], labels: list[float]) -> Array:
        n = len(rows)
        gradient = self.problem.gradient
        half = n // 2
        size = max(1, math.isqrt(n) // 2)
        eta = min(1.0, self.step / math.sqrt(n))
        theta = self.theta
        # Batches are disjoint: each is a scope with the whole budget.
        first = [gradient(theta, rows[i], labels[i]) for i in range(half)]
        d = self._mean(first, self.bound, self._mu, "batch 0")
        # |(1-eta)(grad f(theta) - grad f(before)) + eta grad f(theta)|: the first part is at most
        # beta |theta - before|_p <= beta eta diameter, in l_q.
        smooth = self.problem.loss.smoothness * self.problem.diameter * self.problem.stretch
        bound = eta * ((1 - eta) * smooth + self.bound)
        for number, start in enumerate(range(half, n - size + 1, size), 1):
            before = theta
            theta = theta + eta * (self.domain.linear_minimizer(d) - theta)
            terms = list[Array]()
            for x, label in zip(rows[start : start + size], labels[start:], strict=False):
                now = gradient(theta, x, label)
                terms.append((1 - eta) * (now - gradient(before, x, label)) + eta * now)
            d = (1 - eta) * d + self._mean(terms, bound, self._mu, f"batch {number}")
        return np.asarray(theta + eta * (self.domain.linear_minimizer(d) - theta))


class NoisySGD(_Batch):
    """Projected descent on noisy full gradients; theta is the average of the second half.

    Every pass sees every row once, so each gets mu/sqrt(passes).

    domain           with a projection
    epsilon          of one person; inf switches privacy off
    delta            above 0
    passes           over all rows
    gradient_bound   how long one gradient may be in l2; None is the worst case
    step             in units of diameter/(gradient_bound sqrt(passes))
    noise            None, `SecureNoise()`, or `SeededNoise(seed)` for simulation

    >>> from discreet.domains import Cube
    >>> from discreet.privacy import SeededNoise
    >>> X = np.random.default_rng(0).normal(size=(1000, 2)) / 4
    >>> m = NoisySGD(Cube(2), 4.0, 1e-6, gradient_bound=0.2, noise=SeededNoise(0))
    >>> m = m.fit(X, X @ [0.6, -0.4])
    >>> bool(np.abs(m.theta - [0.6, -0.4]).max() < 0.4)
    True
    """

    _reference = "Bassily, Feldman, Guzman and Talwar (2020), Algorithm 2"

    def __init__(
        self,
        domain: Domain,
        epsilon: float,
        delta: float = 1e-6,
        *,
        passes: int = 50,
        gradient_bound: float | None = None,
        step: float = 1.0,
        noise: Noise | None = None,
    ) -> None:
        self.passes = passes
        super().__init__(
            domain, epsilon, delta, gradient_bound=gradient_bound, step=step, noise=noise
        )

    def _fitted(self, rows: list[Array], labels: list[float]) -> Array:
        theta = self.theta
        kept = []
        # A step of diameter/(gradient sqrt(passes)), in l2.
        rate = self.step * self.domain.diameter() / (self.bound * math.sqrt(self.passes))
        for _ in range(self.passes):
            terms = [self.problem.gradient(theta, x, v) for x, v in zip(rows, labels, strict=True)]
            mean = self._mean(terms, self.bound, self._mu / math.sqrt(self.passes), None)
            theta = self.domain.project(theta - rate * mean)
            kept.append(theta)
        return np.asarray(np.mean(kept[self.passes // 2 :], axis=0))


class LocalMD:
    """Mirror descent on gradients that leave each person's device through `BallChannel`.

    Dual averaging with |.|_p^2/2 (p < 2) or |.|_2^2/2; theta is the average of the iterates.
    Guarantee  epsilon (pure), local: every report by itself.

    domain           with a projection
    horizon          rows from which it learns
    epsilon          of one person; inf switches privacy off
    gradient_bound   how long one gradient may be in l2; None is a public rule
    step             in units of the rate of the regret bound
    noise            None, `SecureNoise()`, or `SeededNoise(seed)` for simulation

    >>> from discreet.domains import LpBall
    >>> from discreet.privacy import SeededNoise
    >>> w = LocalMD(LpBall(2, 2), 5000, 4.0, noise=SeededNoise(0))
    >>> rng = np.random.default_rng(0)
    >>> for _ in range(5000):
    ...     x = rng.normal(size=2); x /= np.linalg.norm(x)
    ...     w.learn(x, x @ [0.6, -0.4])
    >>> bool(np.abs(w.theta - [0.6, -0.4]).max() < 0.2), w.guarantee.trust
    (True, 'local')
    """

    def __init__(
        self,
        domain: Domain,
        horizon: int,
        epsilon: float,
        *,
        gradient_bound: float | None = None,
        step: float = 1.0,
        noise: Noise | None = None,
    ) -> None:
        self.domain = domain
        self.problem = Problem(domain, "squared", 1.0)
        self.noise = source(noise)
        self._channel = BallChannel(domain.dim, epsilon)
        rule = self.problem.typical / 4 * self.problem.typical_row
        self.bound = self.problem.l2_bound(gradient_bound, rule)
        # Regret D^2/(2 rate) + rate T G^2/2 with G the size of a report.
        size = self.bound * (self._channel.std or 1.0) * math.sqrt(domain.dim)
        self._rate = step * domain.diameter() / (size * math.sqrt(horizon))
        self.rounds = 0
        self._total = np.zeros(domain.dim)
        self._point = np.array(domain.interior_point, dtype=np.float64)
        self.theta = self._point

    @property
    def guarantee(self) -> Guarantee:
        """The promise for every report by itself."""
        promise = self._channel.guarantee
        return replace(promise, unprotected=(*promise.unprotected, *ONE_PROCESS))

    def learn(self, x: ArrayLike, y: float) -> None:  # (n,), a label
        """Take one row; only its report is kept."""
        g = self.problem.gradient(self._point, self.problem.row(x), self.problem.label(y))
        # The channel takes the unit ball: g/bound is in it, whatever the row.
        unit = clipped(g, self.bound) / self.bound
        self._total += self.bound * self._channel.privatize(unit, self.noise, clip=True)
        self.rounds += 1
        self._point = self._mirrored(self._total)
        self.theta = self.theta + (self._point - self.theta) / self.rounds

    def _mirrored(self, total: Array) -> Array:
        """argmin <S, v> + R(v)/rate over the domain."""
        shape = self.domain.lp_shape
        if shape is None or not 1 < shape.p < 2:
            return self.domain.leader(total, self._rate)
        far = self.domain.linear_minimizer(total)
        # argmin <S, v> + |v|_p^2/(2 rate): |v|_p = rate |S|_q, and <S, far> = -radius |S|_q.
        length = self._rate * -float(total.dot(far)) / shape.radius**2
        return np.asarray(far * min(1.0, length))
