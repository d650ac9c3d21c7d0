"""Where a private Frank-Wolfe step goes: from gradients to a point of the domain.

    paper (Han et al. 2022)   (t+1) d_t        v_t
    here                      running sum      `point`, after `add(g)`

`SmoothedDirection` (1 < p) reads a noisy running sum S. It is a linear minimiser, smoothed as much
as the noise asks for, so that noise alone moves v little; without noise it is the plain one.
`VertexDirection` (p = 1) chooses one of the vertices by the exponential mechanism: no dimension
in the noise, only its logarithm.
"""

import math
from typing import Any

import numpy as np

from discreet.arrays import Array
from discreet.domains import Domain, LpBall
from discreet.optimization.problem import clipped
from discreet.privacy import Budget, Guarantee, PrefixSum
from discreet.privacy.guarantee import STREAM
from discreet.privacy.ledger import Ledger
from discreet.privacy.noise import Noise
from discreet.privacy.release import Release, observe
from discreet.state import Stateful, damaged


class SmoothedDirection(Stateful):
    """A point of low <S, v> that noise alone moves little, S a private running sum of gradients.

    On lp balls v = -rate S, brought back into the ball: scaled for p <= 2, to the nearest point for
    p > 2. At p = 2 and above that is argmin <S, v> + |v|_2^2/(2 rate), and as the rate grows the
    linear minimiser. The rate is public: radius n^(-1/p)/level, the size of an even entry, with
    level = .8 noise (horizon bound/(n noise))^0.6; the bracket is how far a gradient of size
    `bound` stands out of the noise in the end. Elsewhere, and without noise, v is the linear
    minimiser.

    bound    the length of a typical gradient
    """

    _state = ("_sums",)

    def __init__(self, domain: Domain, sums: PrefixSum, bound: float) -> None:
        self.domain = domain
        self._sums = sums
        self._rate = 0.0
        rounds = np.unique(np.geomspace(1, sums.horizon, 64).astype(np.int64))
        noise = float(np.max(sums.std(rounds)))
        n = domain.dim
        if domain.lp_shape is None or noise == 0:
            self._kind = "plain"
            return
        self._p, self._radius = domain.lp_shape
        self._ball = LpBall(self._p, n, self._radius)
        self._kind = "scale" if self._p <= 2 else "clip" if math.isinf(self._p) else "nearest"
        level = 0.8 * noise * math.pow(sums.horizon * bound / (n * noise), 0.6)
        self._rate = self._radius * n ** (-1 / self._p) / level

    @property
    def rounds(self) -> int:
        return self._sums.rounds

    @property
    def guarantee(self) -> Guarantee:
        return self._sums.guarantee

    @property
    def point(self) -> Array:
        """The point to move to, from the last private sum."""
        total = self._sums.estimate
        if self._kind == "plain":
            return self.domain.linear_minimizer(total)
        v = total * -self._rate
        if self._kind == "scale":
            return clipped(v, self._radius, self._p)
        if self._kind == "clip":
            return np.minimum(np.maximum(v, -self._radius), self._radius)
        return self._ball.project(v)

    def _validate(self) -> None:
        if not isinstance(self._sums, Stateful):
            raise damaged("sums")

    def add(self, g: Array) -> None:
        """Take in one gradient; `point` is then computed from the next private sum.

        Not here: what fails after the gradient has counted would invite a second try.
        """
        self._sums.add(g)


class VertexDirection(Stateful):
    """A vertex of low <S, v> by the exponential mechanism; S is the exact sum of gradients.

    The vertices are +-radius e_j (`signed`), or radius e_j. P(v) is proportional to
    exp(-<S, v>/(radius scale)), drawn by inversion of one uniform: the same distribution as the
    maximum of 2 n scores with Gumbel noise.

    choices=None holds a vertex for a while and chooses anew at a public number of evenly spaced
    rounds, about (horizon sqrt(8 rho)/(4 ln 2n))^(2/3): few choices that are mostly right, where
    one in every round is hardly better than chance. choices=horizon is the paper's Algorithm 2,
    epsilon_t = sqrt(8 rho/(t H_n)) on <S, v>/(t + 1).

    Requires   every gradient has linf norm at most `bound`.
    Guarantee  all choices together are (epsilon, delta)-DP: selections have bounded range, each
               costs rho = epsilon_t^2/8. delta=0 is pure. The state holds S in the clear.

    bound     linf norm of one gradient
    radius    of the set
    signed    whether -radius e_j are vertices too
    choices   how many, or None

    >>> from discreet.privacy import SeededNoise
    >>> choice = VertexDirection(3, 1000, Budget(4.0, 1e-6), bound=1.0, noise=SeededNoise(0))
    >>> for _ in range(1000):
    ...     choice.add(np.array([0.1, -0.9, 0.2]))
    >>> choice.point
    array([0., 1., 0.])
    """

    _state = ("rounds", "_total", "_vertex", "_noise", "_ledger")

    def __init__(
        self,
        dim: int,
        horizon: int,
        budget: Budget,
        *,
        bound: float,
        noise: Noise,
        radius: float = 1.0,
        signed: bool = True,
        choices: int | None = None,
    ) -> None:
        self.dim = dim
        self.horizon = horizon
        self.budget = budget
        self.bound = bound
        self.noise = noise
        self.radius = radius
        self.signed = signed
        self.rounds = 0
        self._noise = noise
        self._total = np.zeros(dim)
        # Before the first choice: the centre, which belongs to the set.
        self._vertex = np.full(dim, 0.0 if signed else radius / dim)
        self._rho = 0.0 if budget.pure else budget.rho
        self._harmonic = _harmonic(horizon)
        self.choices = min(horizon, choices or self._best_choices())
        # Replacing one round moves each entry of S by at most 2 bound; k rounds by k times that.
        self._moved = 2 * bound * budget.contributions
        self._ledger = Ledger(budget, "pure" if budget.pure else "zcdp")
        about: dict[str, Any] = {
            "mechanism": "exponential",
            "norm": "linf",
            "sensitivity": self._moved,
            "scale": self.scale(horizon),
            "what": f"{self.choices} choices of a vertex",
            "sampler": noise.sampler("exponential"),
        }
        self._release = (
            Release(epsilon=budget.epsilon, mu=math.inf, rho=math.inf, **about)
            if budget.pure
            else Release.concentrated(rho=self._rho, **about)
        )
        self._ledger.spend(self._release)

    @property
    def guarantee(self) -> Guarantee:
        return self._ledger.guarantee(
            unprotected=(
                *STREAM,
                "anything, against whoever sees a stolen state: it holds the exact sum",
            ),
            reference="McSherry and Talwar (2007); Dong et al. (2020)",
        )

    def epsilon(self, t: int) -> float:
        """What the choice of round t spends."""
        if self.budget.pure:
            return self.budget.epsilon / self.choices
        if self.choices < self.horizon:
            return math.sqrt(8 * self._rho / self.choices)
        return math.sqrt(8 * self._rho / (t * self._harmonic))

    def scale(self, t: int) -> float:
        """Gumbel scale on the entries of S at round t: 2 D/epsilon_t."""
        return 2 * self._moved / self.epsilon(t)

    def due(self, t: int) -> bool:
        """Whether round t chooses anew: the middles of `choices` equal stretches."""
        if self.choices == self.horizon:
            return True
        step = 2 * self.horizon  # integers: round j is ceil((2 j + 1) horizon/(2 choices))
        j = (2 * self.choices * t - self.horizon) // step
        return j >= 0 and 2 * self.choices * (t - 1) < (2 * j + 1) * self.horizon

    @property
    def point(self) -> Array:
        """The vertex in force; the centre before the first choice."""
        return self._vertex.copy()

    def add(self, g: Array) -> None:
        t = self.rounds + 1
        total = self._total + g
        vertex = self._vertex
        if self.due(t):
            j, sign = self._choose(total, t)
            vertex = np.zeros(self.dim)
            vertex[j] = sign * self.radius
            observe("choice", vertex, self._release)
        self._commit(rounds=t, _total=total, _vertex=vertex)

    def _validate(self) -> None:
        if not 0 <= self.rounds <= self.horizon:
            raise damaged("rounds")
        # Sums of longer gradients, or paid for with another number of choices, need other noise.
        if self._ledger.releases != (self._release,):
            raise damaged("the calibration")
        if not isinstance(self._noise, Noise):
            raise damaged("noise")

    def _best_choices(self) -> int:
        if self.budget.off:
            return self.horizon
        spend = self.budget.epsilon if self.budget.pure else math.sqrt(8 * self._rho)
        signal = self.horizon * spend / (4 * math.log(2 * self.dim) * self.budget.contributions)
        power = 1 / 2 if self.budget.pure else 2 / 3
        return max(4, round(0.7 * math.pow(signal, power)))

    def _choose(self, total: Array, t: int) -> tuple[int, float]:
        """(j, sign) of the vertex: low <S, v>, hence the sign against S_j."""
        scale = self.scale(t)
        if scale == 0:
            j = int(np.argmax(np.abs(total)) if self.signed else np.argmin(total))
            return j, -1.0 if self.signed and total[j] > 0 else 1.0
        if "exponential" in self._noise.exact:
            scores = np.concatenate([total, -total]) if self.signed else -total
            best = self._noise.select(scores, scale)  # the vertex -e_j has score S_j
            return best % self.dim, -1.0 if self.signed and best < self.dim else 1.0
        u, coin = self._noise.uniform(2)  # as many, whatever the sums are
        if not self.signed:
            depths = (total - np.minimum.reduce(total)) / -scale
            return _invert(np.exp(depths), u), 1.0
        weights = np.abs(total)
        weights *= 1 / scale
        top = float(np.maximum.reduce(weights))
        weights -= top
        np.exp(weights, out=weights)
        if top < 300:  # both signs of e_j together; beyond, the far sign is below e^-300
            weights += math.exp(-2 * top) / weights
        j = _invert(weights, u)
        against = coin < 1 / (1 + math.exp(-2 * abs(float(total[j])) / scale))
        return j, -1.0 if against == (total[j] > 0) else 1.0


def _invert(weights: Array, u: Any) -> int:
    """The index whose stretch of the summed weights holds the fraction u."""
    sums = np.add.accumulate(weights)
    place = int(np.searchsorted(sums, u * sums[-1], side="right"))
    return place if place < len(sums) else len(sums) - 1


def _harmonic(n: int) -> float:
    """H_n, rounded up."""
    if n <= 1000:
        return math.fsum(1 / k for k in range(1, n + 1)) * (1 + 1e-15)
    return math.log(n) + np.euler_gamma + 1 / (2 * n)
