"""Bandit linear optimisation on a convex set: SCRiBLe inside the private reduction.

    paper   R                x_t            eta         epsilon_t     l~_t
    here    domain.barrier   point.centre   self.rate   point.sign    loss * sign * point.weights

SCRiBLe (Abernethy, Hazan, Rakhlin 2008, Algorithm 1): x_t minimises eta <L~, x> + R(x); play x_t
plus or minus a step along a random eigenvector e of R's Hessian; N loss epsilon_t e/|step| is an
unbiased estimate of the loss vector. Two changes keep it unbiased and lower its variance. The
paper's step lambda^(-1/2) ends on the Dikin ellipsoid; ours goes on to the border of the domain.
And the cube is a product: there every coordinate takes its step at once, each with its own sign,
which saves a factor N (E |l~|^2 in the dual local norm: N loss^2 instead of N^2 loss^2).

Local trust: Agarwal and Singh (2017), Algorithm 4, with noise on the scalar loss. Central trust:
centre and step are held for a batch, each round draws its own sign, and one noisy mean of
sign * loss is released: <l, x_t> is the same for both signs and averages out, so long batches
cost little.
"""

import json
import math
import os
from collections.abc import Callable
from typing import Any, NamedTuple, Self

import numpy as np

from discreet.domains import Ball, BarrierDomain, Cube, Domain, from_spec
from discreet.online.feedback import Batches, Decision, Reports
from discreet.online.reduction import PrivateBandit, batch_size
from discreet.privacy import BinaryChannel, Budget, Noise
from discreet.privacy.checks import Array, positive, whole

# Tuned in simulation on the worlds of benchmarks/online_bandits.py (ball and cube, d = 5, T = 10^5,
# epsilon = 1) and only looked at elsewhere; RATE = 1 is the regret bound's.
RATE, BATCH = 1.4, 32.0
_NEWTON, _STEPS = 0.05, 1000  # Newton decrement at which a centre is good enough; most steps
# Centres keep away from the border: a step is never zero, and its length keeps its digits.
_INSIDE, _ROOM = 1 - 1e-9, 1e-6

Placed = tuple[Array, Array, Array]  # centre, step, weights


class Point(NamedTuple):
    """A point centre + sign step, and what turns its loss into an estimate of the loss vector."""

    point: Array  # (n,), to play
    centre: Array  # (m,), coordinates of the affine hull
    step: Array  # (m,)
    weights: Array  # (m,)
    sign: int


class Scrible:
    """SCRiBLe (Algorithm 1) with steps to the border. Not private.

    Takes any number as a loss, noisy ones too.

    >>> plain = Scrible(Ball(2), rate=0.02, seed=0)
    >>> for _ in range(2000):
    ...     choice = plain.decide()
    ...     plain.learn(choice, float(choice.point[0]))
    >>> bool(plain.decide().centre[0] < -0.8)
    True
    """

    def __init__(self, domain: BarrierDomain, *, rate: float, seed: int | None = None) -> None:
        self.domain, self.rate = domain, positive("rate", rate)
        self.hull = domain.affine_hull
        self.dim = self.hull.basis.shape[1]
        self._flat = self.dim == domain.dim  # x = z: no map between points and coordinates
        self._total = np.zeros(self.dim)
        self._coins = np.random.default_rng(seed)
        self._centre = self.hull.coordinates(domain.interior_point)
        known = {Ball: self._in_ball, Cube: self._in_cube}
        self._place: Callable[[], Placed] = known.get(type(domain), self._in_any)
        if self._place == self._in_any:
            barrier: Any = domain.barrier
            self._sides: tuple[Array, Array] = barrier.A, barrier.b
            self._least = _ROOM * (barrier.b - barrier.A @ self._centre)

    def decide(self) -> Point:
        """Centre and step from the estimates so far, and a random sign."""
        return self._signed(*self._place())

    def learn(self, point: Point, loss: float) -> None:
        """Add the estimate of the loss vector to their total."""
        self._total += (loss * point.sign) * point.weights

    def again(self, point: Point) -> Point:
        """The same centre and step, with a new sign."""
        return self._signed(point.centre, point.step, point.weights)

    def _signed(self, centre: Array, step: Array, weights: Array) -> Point:
        sign = 1 if self._coins.random() < 0.5 else -1
        z = centre + step if sign > 0 else centre - step
        for shown in (centre, step, weights):
            shown.setflags(write=False)
        return Point(z if self._flat else self.hull.point(z), centre, step, weights, sign)

    def _in_cube(self) -> Placed:
        """a + 2 x/(1 - x^2) = 0 in each coordinate; 1 - |x| to the border, with random signs."""
        a = self.rate * self._total
        centre = (a * _INSIDE) / (-1 - np.sqrt(1 + a * a))
        step = np.copysign(1 - np.abs(centre), self._coins.random(self.dim) - 0.5)
        return centre, step, 1 / step

    def _in_ball(self) -> Placed:
        """The same along the total; the eigenvectors are x/|x| and any basis across it."""
        i = int(self._coins.random() * self.dim)
        a = self.rate * self._total
        length = math.sqrt(a.dot(a))
        radius = _INSIDE * length / (1 + math.sqrt(1 + length * length))
        if length:
            direction = a / length
        else:
            direction = np.zeros(self.dim)
            direction[0] = 1.0
        centre = -radius * direction
        if i == 0:
            far = 1 - radius
        else:  # column i of the reflection that takes the first axis to +-direction
            mirror, far = direction, math.sqrt(1 - radius * radius)
            mirror[0] += math.copysign(1.0, mirror[0])
            direction = mirror * (-2 * mirror[i] / mirror.dot(mirror))
            direction[i] += 1.0
        return centre, far * direction, (self.dim / far) * direction

    def _in_any(self) -> Placed:
        """Damped Newton from the last centre, which is close to the next one; eigenvectors."""
        i = int(self._coins.random() * self.dim)
        A, b = self._sides
        z, pull = self._centre, self.rate * self._total
        for _ in range(_STEPS):
            rows = A / (b - A @ z)[:, None]
            hessian, gradient = rows.T @ rows, pull + rows.sum(axis=0)
            step = np.linalg.solve(hessian, gradient)
            decrement = math.sqrt(max(0.0, float(step @ gradient)))
            nearer = z - step / (1 + decrement)
            if decrement <= _NEWTON or not (b - A @ nearer >= self._least).all():
                break
            z = nearer
        self._centre = z
        rows = A / (b - A @ z)[:, None]
        direction = np.linalg.eigh(rows.T @ rows)[1][:, i]
        far = 1 / float(np.abs(rows @ direction).max())  # the nearest side, on either side
        return z, far * direction, (self.dim / far) * direction

    def pack(self, point: Point) -> Array:
        """Centre, step, weights and sign in a row."""
        return np.concatenate([point.centre, point.step, point.weights, [point.sign]])

    def unpack(self, numbers: Array) -> Point:
        """The point that `pack` wrote."""
        centre, step, weights = np.array(numbers[:-1]).reshape(3, self.dim)
        sign = int(numbers[-1])
        if sign not in (-1, 1):
            raise ValueError("a sign is 1 or -1")
        return Point(self.hull.point(centre + sign * step), centre, step, weights, sign)

    def state_dict(self) -> dict[str, Any]:
        """Totals, the last centre and coins."""
        return {
            "total": self._total.copy(),
            "centre": self._centre.copy(),
            "coins": json.dumps(self._coins.bit_generator.state),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from `state_dict`."""
        total, centre = np.array(state["total"]), np.array(state["centre"])
        if not total.shape == centre.shape == (self.dim,):
            raise ValueError(f"expected a state in {self.dim} dimensions, got {total.shape}")
        self._coins.bit_generator.state = json.loads(state["coins"])
        self._total, self._centre = total, centre


class PointDecision(Decision):
    """A decision for a point of the domain."""

    __slots__ = ()

    @property
    def point(self) -> Array:  # (n,)
        """The point to play."""
        return np.asarray(self.choice.point)


class BarrierBandit(PrivateBandit[PointDecision]):
    """Bandit linear optimisation: play a point of a convex set, see one number, <loss, point>.

    Requires   |<loss, point>| <= loss_bound; a ball, cube, simplex or polytope.
    Guarantee  epsilon (pure). trust="local": each loss is randomised before anything else sees it;
               trust="central": the sequence of points, by one Laplace release for each batch of
               32/epsilon rounds.

    epsilon=inf is SCRiBLe itself. Reference: Abernethy, Hazan and Rakhlin (2008), Algorithm 1;
    Agarwal and Singh (2017), Algorithm 4 and Theorem 4.5. The rate under central trust is tuned:
    no theorem covers it.

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
        domain: Domain | str,
        horizon: int,
        epsilon: float,
        *,
        trust: str = "local",
        loss_bound: float = 1.0,
        contributions: int = 1,
        seed: int | None = None,
        noise: Noise | None = None,
    ) -> None:
        if isinstance(domain, str):
            domain = from_spec(domain)
        if not isinstance(domain, BarrierDomain):
            raise ValueError(f"domain must be a discreet.domains.BarrierDomain, got {domain!r}")
        horizon, bound = whole("horizon", horizon), positive("loss_bound", loss_bound)
        budget = Budget(epsilon, 0.0, contributions)
        seed = None if seed is None else whole("seed", seed, least=0)
        self.domain, self.batch_size = domain, batch_size(BATCH, horizon, budget, trust)
        channel = BinaryChannel(epsilon, low=-bound, high=bound, contributions=contributions)
        # Of the scalar that SCRiBLe is fed: its second moment, and its size.
        moment, reach = channel.second_moment, channel.reach
        if trust == "central" and not budget.off:
            scale = 2 * bound * contributions / (self.batch_size * budget.epsilon)
            # For losses whose mean along the step is small. One that an adversary keeps aligned
            # with the step has a mean up to `bound`: there the rate is larger than Theorem 4.5's.
            moment = bound**2 / self.batch_size + 2 * scale**2
            reach = bound / math.sqrt(self.batch_size) + 2 * scale
        updates = math.ceil(horizon / self.batch_size)
        rate = RATE * self._best_rate(domain, horizon, updates * moment, reach)
        bandit = Scrible(domain, rate=rate, seed=seed)
        config = {
            "domain": domain.spec(),
            "horizon": horizon,
            "epsilon": budget.epsilon,
            "trust": trust,
            "loss_bound": bound,
            "contributions": budget.contributions,
            "seed": seed,
        }
        super().__init__(bandit, horizon, (-bound, bound), noise, config)
        self._feedback = (
            Reports(bandit, channel, self._noise)
            if trust == "local"
            else Batches(bandit, self.batch_size, horizon, budget, self.loss_range, self._noise)
        )

    @staticmethod
    def _best_rate(domain: BarrierDomain, horizon: int, moments: float, reach: float) -> float:
        """sqrt(nu log T/(2 K sum of second moments)), at most 1/(4 sqrt(K) reach) (Theorem 4.5).

        K bounds E |l~|^2 for a loss of 1, in the local norm where SCRiBLe is analysed: d^2; d on
        the cube; and d (d + 1)/2 on the ball, where steps across are sqrt(2) times Dikin's.
        """
        d = domain.affine_hull.basis.shape[1]
        K = {Cube: d, Ball: d * (d + 1) / 2}.get(type(domain), d * d)
        best = math.sqrt(domain.barrier.nu * math.log(horizon + 1) / (2 * K * moments))
        return min(best, 1 / (4 * math.sqrt(K) * reach))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Go on from a file, with the same kind of noise."""
        return cls._loaded(path)
