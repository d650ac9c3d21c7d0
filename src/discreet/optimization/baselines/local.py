"""An optimiser under local privacy: gradients are private before they leave a device."""

import math
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

from discreet.arrays import Array, integer, positive
from discreet.domains import Domain
from discreet.optimization.losses import Loss
from discreet.optimization.problem import Problem, clipped, projects
from discreet.privacy import BallChannel, Guarantee
from discreet.privacy.guarantee import ONE_PROCESS
from discreet.privacy.noise import Noise, source
from discreet.state import Stateful, damaged


class LocalMD(Stateful):
    """Mirror descent on gradients that leave each person's device through `BallChannel`.

    Dual averaging with |.|_p^2/2 (p < 2) or |.|_2^2/2; theta is the average of the iterates.
    Guarantee  epsilon (pure), local: every report by itself.

    domain           with a projection
    horizon          rows from which it learns; after that theta stays
    epsilon          of one person; inf switches privacy off
    loss             "squared", "logistic", "huber" or a `Loss` of your own
    label_bound      public bound of the labels
    gradient_bound   how long one gradient may be in l2; None is a public rule
    contributions    rows of one person
    step             in units of the rate of the regret bound
    noise            None, `SecureNoise()`, or `SeededNoise(seed)` for simulation

    >>> from discreet.domains import LpBall
    >>> from discreet.privacy import SeededNoise
    >>> w = LocalMD(LpBall(2, 2), 5000, 4.0, noise=SeededNoise(0))
    >>> rng = np.random.default_rng(0)
    >>> for _ in range(5000):
    ...     x = rng.normal(size=2); x /= np.linalg.norm(x)
    ...     _ = w.learn(x, x @ [0.6, -0.4])
    >>> bool(np.abs(w.theta - [0.6, -0.4]).max() < 0.2), w.guarantee.trust
    (True, 'local')
    """

    _state = ("rounds", "_followed", "_total", "_point", "_mean", "_source")

    def __init__(
        self,
        domain: Domain,
        horizon: int,
        epsilon: float,
        *,
        loss: str | Loss = "squared",
        label_bound: float = 1.0,
        gradient_bound: float | None = None,
        contributions: int = 1,
        step: float = 1.0,
        noise: Noise | None = None,
    ) -> None:
        projects(domain)
        self.problem = Problem(domain, loss, label_bound)
        self.domain = domain
        self.horizon = integer("horizon", horizon)
        self._channel = BallChannel(domain.dim, epsilon, contributions=contributions)
        self.epsilon = self._channel.epsilon
        self.contributions = self._channel.contributions
        self.loss = loss
        self.label_bound = self.problem.label_bound
        self.gradient_bound = gradient_bound
        self.step = positive("step", step)
        self.noise = source(noise)
        rule = self.problem.typical / 4 * self.problem.typical_row
        self.bound = self.problem.l2_bound(gradient_bound, rule)
        # Regret D^2/(2 rate) + rate T G^2/2 with G the size of a report.
        size = self.bound * (self._channel.std or 1.0) * math.sqrt(domain.dim)
        self._rate = self.step * domain.diameter() / (size * math.sqrt(horizon))
        self.rounds = 0
        self._followed = 0  # reports that the iterates below have followed
        self._source = self.noise
        self._total = np.zeros(domain.dim)
        self._point = np.array(domain.interior_point, dtype=np.float64)
        self._mean = self._point.copy()

    @property
    def theta(self) -> Array:
        """The average of the iterates so far."""
        with self._live:
            self._follow()
            return self._mean.copy()

    @property
    def learning(self) -> bool:
        """Whether a row still counts; past the horizon theta stays."""
        return self.rounds < self.horizon

    @property
    def guarantee(self) -> Guarantee:
        """The promise for every report by itself."""
        if self.rounds:  # also of a learner that was resumed
            self._channel.draws_from(self._source)
        promise = self._channel.guarantee
        return replace(promise, unprotected=(*promise.unprotected, *ONE_PROCESS))

    def learn(self, x: ArrayLike, y: float) -> bool:  # (n,), a label
        """Take one row; only its report is kept. Whether it counted; a call that fails has not."""
        with self._live:
            row = self.problem.row(x)
            label = self.problem.label(y)
            if not self.learning:
                return False
            self._follow()
            g = self.problem.gradient(self._point, row, label)
            # The channel takes the unit ball: g/bound is in it, whatever the row.
            unit = clipped(g, self.bound) / self.bound
            report = self._channel.privatize(unit, self._source, clip=True)
            self._commit(rounds=self.rounds + 1, _total=self._total + self.bound * report)
            return True  # the step is taken when it is read: it may fail, and the row has counted

    def _follow(self) -> None:
        """Take the step of the last report, unless it has been taken."""
        if self._followed == self.rounds:
            return
        point = self._mirrored(self._total)
        mean = self._mean + (point - self._mean) / self.rounds
        self._commit(_followed=self.rounds, _point=point, _mean=mean)

    def _mirrored(self, total: Array) -> Array:
        """argmin <S, v> + R(v)/rate over the domain."""
        shape = self.domain.lp_shape
        if shape is None or not 1 < shape.p < 2:
            return self.domain.leader(total, self._rate)
        far = self.domain.linear_minimizer(total)
        # argmin <S, v> + |v|_p^2/(2 rate): |v|_p = rate |S|_q, and <S, far> = -radius |S|_q.
        length = self._rate * -float(total.dot(far)) / shape.radius**2
        return np.asarray(far * min(1.0, length))

    def _validate(self) -> None:
        if not 0 <= self.rounds <= self.horizon:
            raise damaged("rounds")
        if not 0 <= self.rounds - self._followed <= 1:
            raise damaged("followed")
