"""Bandit linear optimisation on a convex set: SCRiBLe inside the private reduction.

    paper   R                x_t            eta         epsilon_t     l~_t
    here    domain.barrier   point.centre   self.rate   point.sign    loss * sign * point.weights

SCRiBLe (Abernethy, Hazan, Rakhlin 2008, Algorithm 1): x_t minimises eta <L~, x> + R(x); play x_t
plus or minus a step along a random eigenvector e of R's Hessian; N loss epsilon_t e/|step| is an
unbiased estimate of the loss vector. Two changes keep it unbiased and lower its variance, where the
domain's barrier knows how. The paper's step lambda^(-1/2) ends on the Dikin ellipsoid; ours
continues to the border of the domain. And the cube is a product: there every coordinate takes its
step at once, each with its own sign, which saves a factor N (E |l~|^2 in the dual local norm: N
loss^2 instead of N^2 loss^2).

Local trust: Agarwal and Singh (2017), Algorithm 4, with noise on the scalar loss. Central trust:
centre and step are held for a batch, each round draws its own sign, and one noisy mean of
sign * loss is released: <l, x_t> is the same for both signs and averages out, so long batches
cost little.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from discreet.arrays import Array, finite, integer, integer_or_none, positive, public_bound
from discreet.decisions import PointDecision
from discreet.domains import Domain
from discreet.domains.barriers import Barrier
from discreet.domains.base import as_domain
from discreet.online.reduction import PrivateBandit, batch_size, mean_noise, reduced
from discreet.privacy import Budget
from discreet.privacy.channels import BinaryChannel
from discreet.privacy.noise import Noise, source
from discreet.state import Stateful, value


@value
@dataclass(frozen=True, eq=False, slots=True)
class SignedPoint:
    """A point centre + sign step, and what turns its loss into an estimate of the loss vector."""

    point: Array  # (n,), to play
    centre: Array  # (m,), coordinates of the affine hull
    step: Array  # (m,)
    weights: Array  # (m,)
    sign: int  # +1 or -1, equally likely


class Scrible(Stateful):
    """SCRiBLe (Algorithm 1), with the steps of the domain's barrier. Not private.

    Takes any number as a loss, noisy ones too.

    domain   with a barrier
    rate     eta
    seed     of the coins; each decision takes as many as the barrier says, and one for the sign

    >>> from discreet.domains import Ball
    >>> plain = Scrible(Ball(2), rate=0.02, seed=0)
    >>> for _ in range(2000):
    ...     choice = plain.decide()
    ...     plain.learn(choice, float(choice.point[0]))
    >>> bool(plain.decide().centre[0] < -0.8)
    True
    """

    _state = ("updates", "_total", "_centre", "_rng")

    def __init__(self, domain: Domain, *, rate: float, seed: int | None = None) -> None:
        self.domain = domain
        self.rate = positive("rate", rate)
        self.seed = seed
        self.barrier = barrier_of(domain)
        self.hull = domain.affine_hull
        self.dim = self.hull.basis.shape[1]
        self.updates = 0  # losses learned
        self._total = np.zeros(self.dim)  # of the estimates
        self._centre = self.hull.coordinates(domain.interior_point)
        self._rng = np.random.default_rng(seed)
        self._coins: Array | None = None  # of a decision that was not made yet

    def decide(self) -> SignedPoint:
        if self._coins is None:  # kept while the barrier, which may be the caller's, fails
            self._coins = self._rng.random(self.barrier.coins(self.dim) + 1)
        coins = self._coins
        centre = self.barrier.minimizer(self.rate * self._total, self._centre)
        step, weights = self.barrier.exploration(centre, coins[:-1])
        self._commit(_centre=centre, _coins=None)  # where the next search begins
        for shown in (centre, step, weights):
            shown.setflags(write=False)
        return self._point(centre, step, weights, 1 if coins[-1] < 0.5 else -1)

    def learn(self, point: SignedPoint, loss: float) -> None:
        total = self._total + (loss * point.sign) * point.weights
        self._commit(_total=total, updates=self.updates + 1)

    def again(self, point: SignedPoint) -> SignedPoint:
        """The same centre and step, with a new sign."""
        sign = 1 if self._rng.random() < 0.5 else -1
        return self._point(point.centre, point.step, point.weights, sign)

    def choice(self, record: dict[str, Any]) -> SignedPoint:
        centre, step, weights = (
            finite(name, record[name]) for name in ("centre", "step", "weights")
        )
        if any(part.shape != (self.dim,) for part in (centre, step, weights)):
            raise ValueError(f"expected {self.dim} coordinates")
        if record["sign"] not in (-1, 1):
            raise ValueError("a sign is 1 or -1")
        return self._point(centre, step, weights, int(record["sign"]))

    def _point(self, centre: Array, step: Array, weights: Array, sign: int) -> SignedPoint:
        return SignedPoint(self.hull.point(centre + sign * step), centre, step, weights, sign)


class BarrierBandit(PrivateBandit[PointDecision]):
    """Bandit linear optimisation: play a point of a convex set, see one number, <loss, point>.

    Requires   |<loss, point>| <= loss_bound; a domain with a barrier.
    Guarantee  epsilon (pure). trust="local": each loss is randomised before anything else sees it;
               trust="central": the sequence of points, by one Laplace release for each batch of
               32/epsilon rounds.

    domain          with a `barrier`: ball, cube, simplex, polytope, or one of your own
    horizon         rounds in which it learns; after that it decides by its last policy
    epsilon         of one person; inf is SCRiBLe itself
    trust           "local" or "central"
    loss_bound      of |<loss, point>|
    contributions   rounds of one person
    seed            of the exploration
    noise           None, `SecureNoise()`, or `SeededNoise(seed)` for simulation

    Reference: Abernethy, Hazan and Rakhlin (2008), Algorithm 1; Agarwal and Singh (2017),
    Algorithm 4 and Theorem 4.5. The rate under central trust is tuned: no theorem covers it.

    >>> from discreet.domains import Ball
    >>> from discreet.privacy import SeededNoise
    >>> bandit = BarrierBandit(Ball(3), 5000, epsilon=1.0, seed=0, noise=SeededNoise(1))
    >>> for _ in range(5000):
    ...     d = bandit.decide()
    ...     _ = bandit.learn(d, float(d.point[0]))
    >>> bool(d.choice.centre[0] < -0.5), bandit.guarantee.trust
    (True, 'local')
    """

    _decision = PointDecision

    def __init__(
        self,
        domain: Domain,
        horizon: int,
        epsilon: float,
        *,
        trust: str = "local",
        loss_bound: float = 1.0,
        contributions: int = 1,
        seed: int | None = None,
        noise: Noise | None = None,
    ) -> None:
        barrier = barrier_of(domain)
        self.domain = domain
        self.budget = Budget(epsilon, 0.0, contributions)
        self.epsilon = self.budget.epsilon
        self.contributions = self.budget.contributions
        self.trust = trust
        self.loss_bound = public_bound("loss_bound", loss_bound)
        self.seed = integer_or_none("seed", seed, least=0)
        self.noise = source(noise)
        horizon = integer("horizon", horizon)
        self.batch_size = batch_size(32.0, horizon, self.budget, trust)
        bound = self.loss_bound
        channel = BinaryChannel(epsilon, low=-bound, high=bound, contributions=contributions)
        if trust == "local" or self.budget.off:
            moment = channel.second_moment  # of the scalar that SCRiBLe is fed
            largest = channel.report_bound
        else:
            # For losses whose mean along the step is small. One that an adversary keeps aligned
            # with the step has a mean up to `bound`: there the rate is larger than Theorem 4.5's.
            scale = mean_noise(2 * bound, self.batch_size, self.budget)
            moment = bound**2 / self.batch_size + 2 * scale**2
            largest = bound / math.sqrt(self.batch_size) + 2 * scale
        updates = math.ceil(horizon / self.batch_size)
        # sqrt(nu log T/(2 K sum of second moments)), at most 1/(4 sqrt(K) largest) (Theorem 4.5);
        # K bounds E |l~|^2 for a loss of 1, in the local norm where SCRiBLe is analysed. 1.4 of it,
        # and 32/epsilon rounds a batch, are tuned (benchmarks/online_bandits.py: ball and cube,
        # d = 5, T = 10^5, epsilon = 1).
        K = barrier.variance(domain.affine_hull.basis.shape[1])
        best = math.sqrt(barrier.nu * math.log(horizon + 1) / (2 * K * updates * moment))
        rate = 1.4 * min(best, 1 / (4 * math.sqrt(K) * largest))
        super().__init__(
            Scrible(domain, rate=rate, seed=self.seed),
            reduced(trust, channel, self.batch_size, horizon, self.noise.spawn(1)[0]),
            horizon,
            (-bound, bound),
        )


def barrier_of(domain: Domain) -> Barrier:
    """The domain's barrier, or a ValueError that says what is missing."""
    barrier = as_domain(domain).barrier
    if barrier is None:
        raise ValueError(
            f"domain must have a barrier (discreet.domains.barriers.Barrier), and {domain!r} has "
            "none; ProjectionFreeBandit takes any domain"
        )
    return barrier
