"""Optimisers that see all rows at once and release one theta.

They need delta > 0, and one row with NaN or infinity refuses the whole `fit`, which an onlooker
would see: drop or impute such rows first.
"""

import hmac
import math
import secrets
from abc import ABC, abstractmethod
from collections.abc import Callable
from itertools import starmap
from typing import Self

import numpy as np
from numpy.typing import ArrayLike

from discreet.arrays import Array, finite, integer, numbers, positive
from discreet.domains import Domain
from discreet.optimization.losses import Loss
from discreet.optimization.problem import Problem, clipped, projects
from discreet.privacy import Budget, Guarantee
from discreet.privacy.ledger import Ledger
from discreet.privacy.mechanisms import gaussian
from discreet.privacy.noise import Noise, source
from discreet.state import Stateful


class _Batch(Stateful, ABC):
    """fit(X, y) -> self; theta; guarantee.

    Every release is booked, and kept, in the step in which it is made. A fit that fails in the
    caller's code, a loss or a projection, may be tried again with the same rows: it reads what was
    released, and draws only what was not.
    """

    _state = ("theta", "_told", "_ledger", "_source")

    _reference: str

    def __init__(
        self,
        domain: Domain,
        epsilon: float,
        delta: float = 1e-6,
        *,
        loss: str | Loss = "squared",
        label_bound: float = 1.0,
        gradient_bound: float | None = None,
        contributions: int = 1,
        step: float = 1.0,
        noise: Noise | None = None,
    ) -> None:
        self.problem = Problem(domain, loss, label_bound)
        self.domain = domain
        self.budget = Budget(epsilon, delta, contributions)
        self.epsilon = self.budget.epsilon
        self.delta = self.budget.delta
        self.contributions = self.budget.contributions
        self.loss = loss
        self.label_bound = self.problem.label_bound
        self.gradient_bound = gradient_bound
        self.step = positive("step", step)
        self.noise = source(noise)
        self._source = self.noise
        self._ledger = Ledger(self.budget)
        self._told: tuple[Array, ...] = ()  # means that a fit has released, until it ends
        self._asked = 0  # means that the fit has asked for
        self._key = secrets.token_bytes(32)
        self._of = b""  # keyed digest of the rows that are being fitted; never part of a state
        self._mu = self.budget.mu  # an error for delta = 0: noise is Gaussian
        self.bound = self.problem.l2_bound(gradient_bound)
        self.theta = np.array(domain.interior_point, dtype=np.float64)

    @property
    def guarantee(self) -> Guarantee:
        """The promise for theta and everything on the way to it."""
        return self._ledger.guarantee(
            unprotected=("the number of rows", "the public bounds"), reference=self._reference
        )

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:  # (n, dim), (n,)
        """Learn from all rows, once."""
        rows, labels = self._data(X, y)
        with self._live:
            here = self._digest(rows, labels)
            if self._ledger.releases and not (self._told and here == self._of):
                raise ValueError(
                    "this learner has spent its budget; make a new one for new data (a fit that "
                    "failed may be tried again here with the same rows)"
                )
            self._of = here
            self._asked = 0
            self._commit(theta=self._fitted(rows, labels), _told=())
        return self

    @abstractmethod
    def _fitted(self, rows: list[Array], labels: list[float]) -> Array:
        """theta, from means that are released on the way to it."""

    def _digest(self, rows: list[Array], labels: list[float]) -> bytes:
        content = np.concatenate([np.ravel(rows), labels]).tobytes()
        return hmac.digest(self._key, content, "sha256")

    def _data(self, X: ArrayLike, y: ArrayLike) -> tuple[list[Array], list[float]]:
        rows, labels = finite("X", X), numbers("y", y)
        if rows.ndim != 2 or labels.shape != rows.shape[:1] or len(rows) < 4:
            raise ValueError(
                f"expected at least 4 rows X (rows, {self.problem.dim}) and as many labels, "
                f"got {rows.shape} and {labels.shape}"
            )
        return [self.problem.row(x) for x in rows], [self.problem.label(v) for v in labels]

    def _mean(
        self, terms: Callable[[], list[Array]], bound: float, mu: float, scope: str | None
    ) -> Array:
        """The noisy mean of vectors of l2 norm at most `bound`; released once, also if retried."""
        place = self._asked
        self._asked += 1
        if place < len(self._told):
            return self._told[place]
        shortened = [clipped(g, bound) for g in terms()]
        # Replacing one term moves the mean by at most 2 bound/n, k terms by k times that.
        sensitivity = 2 * bound * self.contributions / len(shortened)
        mean, release = gaussian(
            np.mean(shortened, axis=0),
            sensitivity=sensitivity,
            mu=mu,
            noise=self._source,
            what="mean gradient",
            scope=scope,
        )
        self._commit(_told=(*self._told, mean), _ledger=self._ledger._including(release))
        return np.asarray(mean)


class NoisySFW(_Batch):
    """One pass of variance-reduced Frank-Wolfe in batches; every batch has the whole budget.

        d <- (1 - eta)(d + mean[grad f(theta) - grad f(before)]) + eta mean[grad f(theta)] + noise

    Half the rows make the first d, then about sqrt(n) batches of sqrt(n)/2 rows refine it,
    eta = step/sqrt(n).

    domain           any
    epsilon          of one person; inf switches privacy off
    delta            above 0
    loss             "squared", "logistic", "huber" or a `Loss` of your own
    label_bound      public bound of the labels
    gradient_bound   how long one gradient may be in l2; None is the worst case
    contributions    rows of one person
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
        """One pass over the rows in the order given."""
        n = len(rows)
        gradient = self.problem.gradient
        half = n // 2
        size = max(1, math.isqrt(n) // 2)
        eta = min(1.0, self.step / math.sqrt(n))
        # Batches are disjoint: each is a scope with the whole budget. k rows of one person in one
        # batch are covered by the k in `_mean`; spread over batches they cost sum (k_i/k)^2 <= 1.
        mu = self._mu
        theta = before = self.theta
        d = self._mean(
            lambda: [gradient(theta, rows[i], labels[i]) for i in range(half)],
            self.bound,
            mu,
            "batch 0",
        )
        # |(1-eta)(grad f(theta) - grad f(before)) + eta grad f(theta)|: the first part is at most
        # beta |theta - before|_p <= beta eta diameter, in l_q.
        smooth = self.problem.loss.smoothness * self.problem.diameter * self.problem.stretch
        bound = eta * ((1 - eta) * smooth + self.bound)

        def term(x: Array, label: float) -> Array:
            now = gradient(theta, x, label)
            return np.asarray((1 - eta) * (now - gradient(before, x, label)) + eta * now)

        for number, start in enumerate(range(half, n - size + 1, size), 1):
            v = self.domain.linear_minimizer(d)
            before = theta
            theta = theta + eta * (v - theta)
            batch = zip(rows[start : start + size], labels[start:], strict=False)
            mean = self._mean(lambda: list(starmap(term, batch)), bound, mu, f"batch {number}")  # noqa: B023 - called at once
            d = (1 - eta) * d + mean
        return np.asarray(theta + eta * (self.domain.linear_minimizer(d) - theta))


class NoisySGD(_Batch):
    """Projected gradient descent on noisy full gradients, `passes` times; theta is the average
    of the second half.

    Every pass sees every row once, so each gets mu/sqrt(passes).

    domain           with a projection
    epsilon          of one person; inf switches privacy off
    delta            above 0
    loss             "squared", "logistic", "huber" or a `Loss` of your own
    label_bound      public bound of the labels
    gradient_bound   how long one gradient may be in l2; None is the worst case
    contributions    rows of one person
    passes           over all rows
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
        loss: str | Loss = "squared",
        label_bound: float = 1.0,
        gradient_bound: float | None = None,
        contributions: int = 1,
        passes: int = 50,
        step: float = 1.0,
        noise: Noise | None = None,
    ) -> None:
        self.passes = integer("passes", passes)
        super().__init__(
            domain,
            epsilon,
            delta,
            loss=loss,
            label_bound=label_bound,
            gradient_bound=gradient_bound,
            contributions=contributions,
            step=step,
            noise=noise,
        )
        projects(domain)

    def _fitted(self, rows: list[Array], labels: list[float]) -> Array:
        """`passes` steps, each on the noisy mean gradient of all rows."""
        mu = self._mu / math.sqrt(self.passes)
        theta = self.theta
        kept = []
        # A step of diameter/(gradient sqrt(passes)), in l2.
        rate = self.step * self.domain.diameter() / (self.bound * math.sqrt(self.passes))

        def gradients() -> list[Array]:
            return [self.problem.gradient(theta, x, v) for x, v in zip(rows, labels, strict=True)]

        for _ in range(self.passes):
            theta = self.domain.project(theta - rate * self._mean(gradients, self.bound, mu, None))
            kept.append(theta)
        return np.asarray(np.mean(kept[self.passes // 2 :], axis=0))
