"""Private optimisers to compare `StreamingFrankWolfe` with, calibrated from first principles.

    NoisySFW   variance-reduced Frank-Wolfe, one pass in batches (Bassily, Guzman, Nandi 2021,
               Algorithm 3): half the rows start the gradient, the others refine it
    NoisySGD   noisy projected gradient descent, several passes (Bassily et al. 2020, Algorithm 2)
    LocalMD    mirror descent under local privacy: every row is reported through `BallChannel`

The first two see the whole data set and release one theta; the third learns row by row. They need
delta > 0, and one row with NaN or infinity refuses the whole `fit`, which an onlooker would see:
drop or impute such rows first.
"""

import math
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from discreet.domains import Domain, ProjectionDomain
from discreet.online.feedback import ONE_PROCESS
from discreet.online.losses import Loss
from discreet.online.problem import Problem, ball_shape, clipped
from discreet.privacy import BallChannel, Budget, Guarantee
from discreet.privacy.checks import Array, finite, numbers, positive, public_bound, whole
from discreet.privacy.ledger import Ledger
from discreet.privacy.mechanisms import gaussian
from discreet.privacy.noise import Noise, source


class _Batch:
    """fit(X, y) -> self; theta; guarantee."""

    _reference: str

    def __init__(
        self,
        domain: Domain,
        epsilon: float,
        delta: float = 1e-6,
        *,
        loss: str | Loss = "squared",
        label_bound: float = 1.0,
        clip: float | None = None,
        contributions: int = 1,
        noise: Noise | None = None,
    ) -> None:
        self.problem = Problem(domain, loss, label_bound)
        self.domain, self.budget = domain, Budget(epsilon, delta, contributions)
        self._noise = source(noise)
        self._ledger = Ledger(self.budget)
        self._mu = self.budget.mu  # an error for delta = 0: noise is Gaussian
        # The l2 norm of one gradient; clip may be lower, and then it is the bound.
        worst = self.problem.loss.lipschitz * self.problem.stretch
        self.clip = worst if clip is None else min(worst, public_bound("clip", clip))
        self.theta = np.array(domain.interior_point, dtype=np.float64)

    @property
    def guarantee(self) -> Guarantee:
        """The promise for theta and everything on the way to it."""
        return self._ledger.guarantee(
            unprotected=("the number of rows", "the public bounds"), reference=self._reference
        )

    def _data(self, X: ArrayLike, y: ArrayLike) -> tuple[list[Array], list[float]]:
        rows, labels = finite("X", X), numbers("y", y)
        if rows.ndim != 2 or labels.shape != rows.shape[:1] or len(rows) < 4:
            raise ValueError(
                f"expected at least 4 rows X (rows, {self.problem.dim}) and as many labels, "
                f"got {rows.shape} and {labels.shape}"
            )
        if self._ledger.releases:
            raise ValueError("this learner has spent its budget; make a new one for new data")
        return [self.problem.row(x) for x in rows], [self.problem.label(v) for v in labels]

    def _mean(self, terms: list[Array], bound: float, mu: float, scope: str | None) -> Array:
        """The noisy mean of vectors of l2 norm at most `bound`."""
        # Replacing one term moves the mean by at most 2 bound/n, k terms by k times that.
        sensitivity = 2 * bound * self.budget.contributions / len(terms)
        mean = np.mean([clipped(g, bound) for g in terms], axis=0)
        released = gaussian(
            mean,
            sensitivity=sensitivity,
            mu=mu,
            noise=self._noise,
            ledger=self._ledger,
            what="mean gradient",
            scope=scope,
        )
        return np.asarray(released.value)


class NoisySFW(_Batch):
    """One pass of variance-reduced Frank-Wolfe in batches; every batch has the whole budget.

        d <- (1 - eta)(d + mean[grad f(theta) - grad f(before)]) + eta mean[grad f(theta)] + noise

    Half the rows make the first d, then about sqrt(n) batches of sqrt(n)/2 rows refine it,
    eta = step/sqrt(n).

    >>> from discreet.domains import LpBall
    >>> from discreet.privacy import SeededNoise
    >>> X = np.random.default_rng(0).normal(size=(400, 2)) / 4
    >>> m = NoisySFW(LpBall(2, 2), 1.0, 1e-6, noise=SeededNoise(0)).fit(X, X @ [0.6, -0.4])
    >>> bool(np.linalg.norm(m.theta) <= 1), m.guarantee.epsilon
    (True, 1.0)
    """

    _reference = "Bassily, Guzman and Nandi (2021), Algorithm 3"

    def __init__(self, domain: Domain, epsilon: float, delta: float = 1e-6, **options: Any) -> None:
        self.step = positive("step", options.pop("step", 1.0))
        super().__init__(domain, epsilon, delta, **options)

    def fit(self, X: ArrayLike, y: ArrayLike) -> "NoisySFW":
        """One pass over the rows in the order given."""
        rows, labels = self._data(X, y)
        n, gradient = len(rows), self.problem.gradient
        half, size = n // 2, max(1, math.isqrt(n) // 2)
        eta = min(1.0, self.step / math.sqrt(n))
        # Batches are disjoint: each is a scope with the whole budget. k rows of one person in one
        # batch are covered by the k in `_mean`; spread over batches they cost sum (k_i/k)^2 <= 1.
        mu = self._mu
        theta = before = self.theta
        first = [gradient(theta, rows[i], labels[i]) for i in range(half)]
        d = self._mean(first, self.clip, mu, "batch 0")
        # |(1-eta)(grad f(theta) - grad f(before)) + eta grad f(theta)|: the first part is at most
        # beta |theta - before|_p <= beta eta diameter, in l_q.
        smooth = self.problem.loss.smoothness * self.problem.diameter * self.problem.stretch
        bound = eta * ((1 - eta) * smooth + self.clip)
        for number, start in enumerate(range(half, n - size + 1, size), 1):
            v = self.domain.linear_minimizer(d)
            before, theta = theta, theta + eta * (v - theta)
            terms = []
            for x, label in zip(rows[start : start + size], labels[start:], strict=False):
                now = gradient(theta, x, label)
                terms.append((1 - eta) * (now - gradient(before, x, label)) + eta * now)
            d = (1 - eta) * d + self._mean(terms, bound, mu, f"batch {number}")
        self.theta = theta + eta * (self.domain.linear_minimizer(d) - theta)
        return self


class NoisySGD(_Batch):
    """Projected gradient descent on noisy full gradients, `passes` times; theta is the average
    of the second half.

    Every pass sees every row once, so each gets mu/sqrt(passes).

    >>> from discreet.domains import Cube
    >>> from discreet.privacy import SeededNoise
    >>> X = np.random.default_rng(0).normal(size=(1000, 2)) / 4
    >>> m = NoisySGD(Cube(2), 4.0, 1e-6, clip=0.2, noise=SeededNoise(0)).fit(X, X @ [0.6, -0.4])
    >>> bool(np.abs(m.theta - [0.6, -0.4]).max() < 0.4)
    True
    """

    _reference = "Bassily, Feldman, Guzman and Talwar (2020), Algorithm 2"

    def __init__(
        self,
        domain: ProjectionDomain,
        epsilon: float,
        delta: float = 1e-6,
        *,
        passes: int = 50,
        step: float = 1.0,
        **options: Any,
    ) -> None:
        self.passes, self.step = whole("passes", passes), positive("step", step)
        self._set = domain
        super().__init__(domain, epsilon, delta, **options)

    def fit(self, X: ArrayLike, y: ArrayLike) -> "NoisySGD":
        """`passes` steps, each on the noisy mean gradient of all rows."""
        rows, labels = self._data(X, y)
        mu, theta, kept = self._mu / math.sqrt(self.passes), self.theta, []
        # A step of diameter/(gradient sqrt(passes)), in l2.
        rate = self.step * self.domain.diameter() / (self.clip * math.sqrt(self.passes))
        for _ in range(self.passes):
            gradients = [
                self.problem.gradient(theta, x, v) for x, v in zip(rows, labels, strict=True)
            ]
            d = self._mean(gradients, self.clip, mu, None)
            theta = self._set.project(theta - rate * d)
            kept.append(theta)
        self.theta = np.mean(kept[self.passes // 2 :], axis=0)
        return self


class LocalMD:
    """Mirror descent on gradients that leave each person's device through `BallChannel`.

    Dual averaging with |.|_p^2/2 (p < 2) or |.|_2^2/2; theta is the average of the iterates.
    Guarantee  epsilon (pure), local: every report by itself.

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
        domain: ProjectionDomain,
        horizon: int,
        epsilon: float,
        *,
        loss: str | Loss = "squared",
        label_bound: float = 1.0,
        clip: float | None = None,
        contributions: int = 1,
        step: float = 1.0,
        noise: Noise | None = None,
    ) -> None:
        self.problem, self.domain = Problem(domain, loss, label_bound), domain
        self.horizon, self.rounds = whole("horizon", horizon), 0
        self._noise = source(noise)
        self._channel = BallChannel(domain.dim, epsilon, contributions=contributions)
        worst = self.problem.loss.lipschitz * self.problem.stretch
        rule = self.problem.typical / 4 * self.problem.typical_row
        self.clip = min(worst, rule if clip is None else public_bound("clip", clip))
        # Regret D^2/(2 rate) + rate T G^2/2 with G the size of a report.
        size = self.clip * (self._channel.deviation or 1.0) * math.sqrt(domain.dim)
        self._rate = positive("step", step) * domain.diameter() / (size * math.sqrt(horizon))
        self._total = np.zeros(domain.dim)
        self._point = np.array(domain.interior_point, dtype=np.float64)
        self._mean = self._point.copy()

    @property
    def theta(self) -> Array:
        """The average of the iterates so far."""
        return self._mean.copy()

    @property
    def guarantee(self) -> Guarantee:
        """The promise for every report by itself."""
        promise = self._channel.guarantee
        return replace(promise, unprotected=(*promise.unprotected, *ONE_PROCESS))

    def learn(self, x: ArrayLike, y: float) -> None:
        """Take one row; only its report is kept."""
        if self.rounds == self.horizon:
            raise ValueError(f"the horizon is {self.horizon} rounds and all have been learned")
        g = self.problem.gradient(self._point, self.problem.row(x), self.problem.label(y))
        # The channel takes the unit ball: g/clip is in it, whatever the row.
        report = self._channel.privatize(clipped(g, self.clip) / self.clip, self._noise, clip=True)
        self._total += self.clip * report
        self.rounds += 1
        shape = ball_shape(self.domain)
        if shape is not None and 1 < shape[0] < 2:
            far = self.domain.linear_minimizer(self._total)
            # argmin <S, v> + |v|_p^2/(2 rate): |v|_p = rate |S|_q, and <S, far> = -radius |S|_q.
            length = self._rate * -float(self._total.dot(far)) / shape[1] ** 2
            self._point = far * min(1.0, length)
        else:
            self._point = self.domain.leader(self._total, self._rate)
        self._mean += (self._point - self._mean) / self.rounds
