"""Bandit convex optimisation by linear minimisation alone (Ene, Nguyen and Vladu 2021).

    paper   T_batch   zeta          x~_R             u_t             F_t u_t    s~_R
    here    `size`    self.radius   bandit.centre    aim.direction   `take`     self.sums

Algorithm 1: in a batch play centre + zeta u with u on the sphere; (n/zeta) f(x) u is an unbiased
estimate of the gradient of f, smoothed (Lemma 3); the centre of the next batch minimises
|x - x_0|^2/2 + eta <s, x> over the domain, s a private running sum of all estimates. That is
NoisyOCO (Algorithm 2): `PrefixSum` for its noisy gradients, conditional gradient for its noisy map.
Where this differs from the paper:

- One person's round is one term of a batch, (n/zeta) f(x_t) u_t: that is what noise must hide, not
  the whole batch (Lemmas 7 and 10).
- Sets without interior: u is drawn in the affine hull, and n is its dimension.
- f(x) - b instead of f(x), with b the mean loss so far: the estimate stays unbiased, because b was
  released before u was drawn, and has far less variance. The losses are one more coordinate of the
  running sum, scaled down to LEVEL so that it costs half a percent of noise.
- The centre follows s smoothed over two or three batches, which is post-processing, and is ready
  when its batch begins: the paper computes it during that batch and plays it one later. Batches
  are longer than sqrt(T): fewer releases need less noise.
"""

import math
import os
from dataclasses import replace
from typing import Any, Self

import numpy as np

from discreet.domains import Domain, from_spec
from discreet.online import restore
from discreet.online.barrier import PointDecision
from discreet.online.feedback import UNPROTECTED, Decision, Feedback
from discreet.online.reduction import PrivateBandit
from discreet.online.smoothed_descent import Aim, SmoothedDescent
from discreet.privacy import Budget, Guarantee, Noise, PrefixSum
from discreet.privacy.checks import one_of, positive, whole
from discreet.privacy.noise import source
from discreet.privacy.state import copied

# Tuned in simulation (benchmarks/convex_bandits.py, T = 10^5, epsilon = 1, delta = 10^-6), for
# private learners: with epsilon = inf a rate two or three times that does better.
RATE = 6.5  # eta in units of D/((n/zeta) range sqrt(n T)); the paper has sqrt(T)
BATCHES, FEWEST = 0.15, 16  # batches in units of sqrt(T), and at least
LEVEL = 0.1  # weight of the coordinate that sums the losses


class GradientSums(Feedback):
    """Sums the gradient estimates of a batch, and releases the sum so far when the next begins.

    A loss enters the batch that is open when it comes, with the direction and the baseline of its
    own decision: late losses count and missing ones leave nothing. None counts in the last batch,
    which no release follows.
    """

    def __init__(
        self,
        bandit: SmoothedDescent,
        sums: PrefixSum,
        horizon: int,
        loss_range: tuple[float, float],
        contributions: int,
    ) -> None:
        self.bandit, self.sums, self.contributions = bandit, sums, contributions
        self.horizon = horizon
        self.middle, self.half = sum(loss_range) / 2, (loss_range[1] - loss_range[0]) / 2
        self.scale = bandit.dim / bandit.radius  # n/zeta
        self._last = (horizon - 1) // bandit.size * bandit.size  # where the last batch begins
        self._open = self._last > 0  # whether a release follows
        self._gradient, self._level = np.zeros(bandit.dim), 0.0

    def choose(self, t: int) -> Aim:
        """The next point; the first round of a batch makes the release."""
        i = t % self.bandit.size
        if t and i == 0:
            row = self.scale * np.append(self._gradient, LEVEL * self._level)
            total = self.sums.add(row)
            self._gradient, self._level = np.zeros(self.bandit.dim), 0.0
            mean = float(total[-1]) / (LEVEL * self.scale * t)  # of loss - middle
            self.bandit.move(total[:-1], self.middle + min(max(mean, -self.half), self.half))
            self._open = t < self._last
        return self.bandit.aim(i)

    def take(self, decision: Decision, loss: float) -> bool:
        """Add one term to the open batch (lines 10 and 11), which awaits its factor n/zeta."""
        if self._open:
            aim: Aim = decision.choice
            # Within the range, also if a record of the decision was damaged on its way.
            b = min(max(aim.baseline, self.middle - self.half), self.middle + self.half)
            self._gradient += (loss - b) * aim.direction
            self._level += loss - self.middle
        return self._open

    def guarantee(self, taken: bool) -> Guarantee:
        """That of the running sums: points are post-processing of them and of coins."""
        promise, k = self.sums.guarantee, self.contributions
        limit = f"people in more than {k} rounds (whoever calls must enforce that limit)"
        return replace(
            promise,
            contributions=k,
            unprotected=(*UNPROTECTED, *((limit,) if k > 1 else ())),
            reference=f"Ene, Nguyen and Vladu (2021), Algorithm 1; {promise.reference}",
        )

    def state(self) -> dict[str, Any]:
        """The running sums and the open batch, which holds no noise yet."""
        sums = {f"sums.{name}": value for name, value in self.sums.state_dict().items()}
        return {"gradient": self._gradient.copy(), "level": self._level, **sums}

    def read(self, state: dict[str, Any]) -> dict[str, Any]:
        """The attributes that `state` described; a damaged one raises ValueError."""
        sums, rounds = copied(self.sums), restore.count(state, "rounds", self.horizon)
        inner = {k[5:]: value for k, value in state.items() if k.startswith("sums.")}
        try:
            sums.load_state_dict(inner)
        except (KeyError, TypeError):
            raise restore.damaged("a part of the sums") from None
        if sums.rounds != max(0, rounds - 1) // self.bandit.size:
            raise restore.damaged("the number of releases")
        baseline = float(restore.array(state, "bandit.baseline", ()))
        if abs(baseline - self.middle) > self.half * (1 + 1e-9):
            raise restore.damaged("baseline")
        if state.get("bandit.drawn") != (rounds > 0):
            raise restore.damaged("the batch at hand")
        return {
            "sums": sums,
            "_gradient": restore.array(state, "gradient", self._gradient.shape),
            "_level": float(restore.array(state, "level", ())),
            "_open": 0 < self._last >= rounds,
        }


class ProjectionFreeBandit(PrivateBandit[PointDecision]):
    """Bandit convex optimisation: play a point of a convex set, see f_t(point), one number.

    Asks nothing of the domain but its linear minimiser: spanning trees, paths, permutations,
    low-rank matrices. A round takes a few microseconds; the linear minimiser is called
    a few times a batch.

    Requires   f_t convex and `lipschitz` (l2) with values in `loss_range` wherever points are
               played: up to `radius` outside the domain, in its affine hull, or with shrink=True
               in the domain only (then the best points near its border are out of reach).
    Guarantee  (epsilon, delta), central: the whole sequence of points, against a change of one
               round's loss to any other in the range; by buffered Toeplitz sums for delta > 0, by
               a tree with K-norm noise (l2) for delta = 0.

    directions="frames" takes u from the columns q_1, -q_1, q_2, -q_2, ... of random orthonormal
    frames. Each u_t is still uniform on the sphere and independent of earlier batches, so if
    the losses are fixed in advance (oblivious) each estimate is unbiased as before, and errors
    cancel in part. Who chooses f_t after seeing x_{t-1} may know u_t = -u_{t-1} and can bias it:
    hence an option. Privacy is the same: no loss enters the directions, and |u_t| = 1 is all that
    the sensitivity uses.

    `learn` takes losses late and in any order: a loss enters the batch that is open when it comes.
    It returns False in the last batch, where nothing is learned any more.

    A stolen state shows the open batch without noise, in the sum of its terms; of earlier batches
    it shows noisy sums if delta = 0 (a tree), and everything if delta > 0.

    epsilon=inf is the same algorithm without noise. A domain made from a function is not in the
    file: make the learner again and use `load_state_dict`. Reference: Ene, Nguyen and Vladu (2021),
    Algorithms 1 and 2.

    >>> from discreet.domains import MatroidPolytope
    >>> from discreet.privacy import SeededNoise
    >>> trees = MatroidPolytope.graphic([(0, 1), (1, 2), (2, 0)], bases=True)
    >>> bandit = ProjectionFreeBandit(trees, 20_000, epsilon=1.0, delta=1e-6,
    ...                               seed=0, noise=SeededNoise(1))
    >>> for _ in range(20_000):
    ...     d = bandit.decide()
    ...     _ = bandit.learn(d, abs(float(d.point[0]) - 0.1) / 2)
    >>> bool(abs(bandit.bandit.centre[0] - 0.1) < 0.2), bandit.guarantee.trust
    (True, 'central')
    """

    _decision = PointDecision

    def __init__(
        self,
        domain: Domain | str,
        horizon: int,
        epsilon: float,
        delta: float = 0.0,
        *,
        loss_range: tuple[float, float] = (0.0, 1.0),
        lipschitz: float = 1.0,
        shrink: bool = False,
        directions: str = "independent",
        contributions: int = 1,
        seed: int | None = None,
        noise: Noise | None = None,
    ) -> None:
        if isinstance(domain, str):
            domain = from_spec(domain)
        if not isinstance(domain, Domain):
            raise ValueError(f"domain must be one of discreet.domains, got {domain!r}")
        T, budget = whole("horizon", horizon), Budget(epsilon, delta, contributions)
        noise = source(noise)
        low, high = (float(bound) for bound in loss_range)
        if not -math.inf < low < high < math.inf:
            raise ValueError(f"loss_range must be finite and increasing, got {loss_range!r}")
        seed = None if seed is None else whole("seed", seed, least=0)
        one_of("directions", directions, ("independent", "frames"))
        n, D, M = domain.affine_hull.basis.shape[1], domain.diameter(), high - low
        if n == 0:
            raise ValueError("the domain is a single point: there is nothing to learn")
        # The paper's D n^1/2/T^1/4 is for losses that vary by L D; its balance of the cost of
        # exploring, L zeta T, with that of estimating, D (n/zeta) M T^1/2, asks for M/L.
        steepest = positive("lipschitz", lipschitz)
        radius = min(math.sqrt(n * D * min(D, M / steepest)) / T**0.25, D / 4)
        if shrink:
            radius = min(radius, domain.inner_radius / 2)
        size = math.ceil(T / min(T, max(FEWEST, math.ceil(BATCHES * math.sqrt(T)))))
        releases = max(1, math.ceil(T / size) - 1)
        # A replaced loss changes one term (n/zeta) (f - b) (u, .) of one batch: |u| = 1, and b was
        # released before, so it moves by (n/zeta) M (u, LEVEL), of that length in l2. A batch holds
        # at most all losses, |f - b| <= M each. When losses come, hence which batch they enter, is
        # public: a replaced loss comes when the old one did.
        term, k = n / radius * M * math.hypot(1.0, LEVEL), budget.contributions

        def running(sensitivity: float) -> PrefixSum:
            plain, about = Budget(budget.epsilon, budget.delta), {"bound": T * term}
            return PrefixSum(releases, n + 1, plain, sensitivity=sensitivity, noise=noise, **about)

        # k rounds of one person may fall into one batch, which is one row of the running sum: the
        # row moves by k terms. (PrefixSum's own k supposes k different rows.)
        sums = running(k * term)
        if k > 1 and (spacing := sums._plan.spacing):
            # k rows are rounded to the lattice of exact noise, sqrt(n+1) spacings each in l2, and
            # PrefixSum adds that for one row; twice, as the lattice grows with the noise.
            sums = running(k * (term + 2 * math.sqrt(n + 1) * spacing))
        spread = float(sums.deviation(releases)) / term  # of the noise, in units of a term
        bandit = SmoothedDescent(
            domain,
            rate=D * radius / (n * M) / math.sqrt(n * (T / RATE**2 + spread**2)),
            radius=radius,
            size=size,
            gap=D**2 / math.sqrt(T),
            baseline=(low + high) / 2,
            shrink=bool(shrink),
            directions=directions,
            seed=seed,
        )
        config = {
            "domain": domain.spec(),
            "horizon": T,
            "epsilon": budget.epsilon,
            "delta": budget.delta,
            "loss_range": [low, high],
            "lipschitz": steepest,
            "shrink": bool(shrink),
            "directions": directions,
            "contributions": budget.contributions,
            "seed": seed,
        }
        super().__init__(bandit, T, (low, high), noise, config)
        self.domain, self.radius, self.batch_size = domain, radius, size
        self._feedback = GradientSums(bandit, sums, T, (low, high), k)

    @property
    def oracle_calls(self) -> int:
        """How often the linear minimiser has been asked."""
        return int(self.bandit.oracle_calls)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Go on from a file, with the same kind of noise."""
        return cls._loaded(path)
