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
- The rate is computed from the steps of s as they are released (`smoothed_descent.py`).
"""

import math
from dataclasses import dataclass, replace

import numpy as np

from discreet.arrays import Array, finite_range, integer, integer_or_none, positive
from discreet.decisions import LossDecision, PointDecision
from discreet.domains import Domain
from discreet.domains.base import as_domain
from discreet.online.feedback import UNPROTECTED, Feedback
from discreet.online.reduction import PrivateBandit
from discreet.online.smoothed_descent import Aim, SmoothedDescent, Steps
from discreet.privacy import Budget, Guarantee, PrefixSum, SeededNoise
from discreet.privacy.noise import Noise, source
from discreet.state import damaged, value

LEVEL = 0.1  # weight of the coordinate that sums the losses: half a percent more noise


@value
@dataclass(frozen=True, eq=False, slots=True)
class Terms:
    """The sum of what came for one release; it holds no noise yet."""

    release: int  # which: the number of releases before it
    gradient: Array  # (m,), sum of (loss - baseline) direction
    level: float  # sum of loss - middle


class GradientSums(Feedback):
    """Sums the gradient estimates of a batch, and releases the sum so far when the next begins.

    A loss enters the batch that is open when it comes, with the direction and the baseline of its
    own decision: late losses count and missing ones leave nothing. None counts in the last batch,
    which no release follows.

    The number of releases made tells what remains to be done, so that a round that failed at any
    place can be tried again: terms of an earlier release are never added, nor released, again.

    scale   n/zeta
    """

    _state = ("sums", "_terms")

    def __init__(
        self,
        sums: PrefixSum,
        *,
        scale: float,
        horizon: int,
        loss_range: tuple[float, float],
        contributions: int,
    ) -> None:
        self.scale = scale
        self.horizon = horizon
        self.contributions = contributions
        self.middle = sum(loss_range) / 2
        self.half = (loss_range[1] - loss_range[0]) / 2
        self.sums = sums
        self._terms = Terms(0, np.zeros(sums.dim - 1), 0.0)

    def choose(self, bandit: SmoothedDescent, t: int) -> Aim:
        """The next point; the first round of a batch makes the release."""
        batch, i = divmod(t, bandit.size)
        last = (self.horizon - 1) // bandit.size  # no release follows the last batch
        if self.sums.rounds < min(batch, last):
            terms = self._open()
            self.sums.add(self.scale * np.append(terms.gradient, LEVEL * terms.level))
        if bandit.batch < batch:
            if 0 < batch <= last:
                total = self.sums.estimate
                mean = float(total[-1]) / (LEVEL * self.scale * t)  # of loss - middle
                baseline = self.middle + min(max(mean, -self.half), self.half)
                bandit.move(total[:-1], baseline)
            else:
                bandit.stay()
        return bandit.aim(i)

    def report(self, loss: float) -> float:
        """The loss itself: its term is released with noise, in the sum of its batch."""
        return loss

    def accept(self, bandit: SmoothedDescent, decision: LossDecision, report: float) -> bool:
        """Add one term to the open batch (lines 10 and 11), which awaits its factor n/zeta."""
        if bandit.batch >= (self.horizon - 1) // bandit.size:
            return False
        aim: Aim = decision.choice
        # Within the range, also if a record of the decision was damaged on its way.
        b = min(max(aim.baseline, self.middle - self.half), self.middle + self.half)
        terms = self._open()
        gradient = terms.gradient + (report - b) * aim.direction
        self._terms = Terms(terms.release, gradient, terms.level + report - self.middle)
        return True

    def guarantee(self, *, taken: bool) -> Guarantee:
        """That of the running sums: points are post-processing of them and of coins."""
        promise = self.sums.guarantee
        filtered = self.sums.mechanism != "tree"
        stolen = (
            "anything, against whoever sees a stolen state"
            if filtered
            else "losses of the open batch, against whoever sees a stolen state; with later "
            "decisions, all of them"
        )
        twice = "anything, against whoever sees a state resumed twice: the same noise in both"
        return replace(
            promise,
            contributions=self.contributions,
            unprotected=(*UNPROTECTED, stolen, twice),
            reference=f"Ene, Nguyen and Vladu (2021), Algorithm 1; {promise.reference}",
        )

    def _open(self) -> Terms:
        """What has come since the last release."""
        if self._terms.release == self.sums.rounds:
            return self._terms
        return Terms(self.sums.rounds, np.zeros(self.sums.dim - 1), 0.0)

    def _validate(self) -> None:
        terms = self._terms
        if not (
            isinstance(terms, Terms)
            and isinstance(terms.gradient, np.ndarray)
            and terms.gradient.shape == (self.sums.dim - 1,)
            and np.isfinite(terms.gradient).all()
            and isinstance(terms.level, float)
            and np.isfinite(terms.level)
        ):
            raise damaged("terms")


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

    `learn` takes losses late and in any order: a loss enters the batch that is open when it comes.
    It returns False in the last batch, where nothing is learned any more.

    A stolen state shows the open batch without noise, in the sum of its terms; of earlier batches
    it shows noisy sums if delta = 0 (a tree), and everything if delta > 0.

    domain          any; only its linear minimiser is asked
    horizon         rounds in which it learns; after that it decides by its last policy
    epsilon         of one person; inf is the same algorithm without noise
    delta           0 is pure
    loss_range      public bounds of one loss
    lipschitz       of the losses, in l2
    shrink          whether points stay in the domain
    contributions   rounds of one person
    seed            of the directions
    noise           None, `SecureNoise()`, or `SeededNoise(seed)` for simulation

    Reference: Ene, Nguyen and Vladu (2021), Algorithms 1 and 2.

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
        domain: Domain,
        horizon: int,
        epsilon: float,
        delta: float = 0.0,
        *,
        loss_range: tuple[float, float] = (0.0, 1.0),
        lipschitz: float = 1.0,
        shrink: bool = False,
        contributions: int = 1,
        seed: int | None = None,
        noise: Noise | None = None,
    ) -> None:
        self.domain = as_domain(domain)
        self.budget = Budget(epsilon, delta, contributions)
        self.epsilon = self.budget.epsilon
        self.delta = self.budget.delta
        self.contributions = self.budget.contributions
        self.lipschitz = positive("lipschitz", lipschitz)
        self.shrink = bool(shrink)
        self.seed = integer_or_none("seed", seed, least=0)
        self.noise = source(noise)
        T = integer("horizon", horizon)
        loss_range = finite_range("loss_range", loss_range)
        descent, feedback = self._parts(T, loss_range)
        super().__init__(descent, feedback, T, loss_range)

    def _parts(
        self, T: int, loss_range: tuple[float, float]
    ) -> tuple[SmoothedDescent, GradientSums]:
        """The plain algorithm, and the private sums from which it learns."""
        domain = self.domain
        n = domain.affine_hull.basis.shape[1]
        D = domain.diameter()
        M = loss_range[1] - loss_range[0]
        if n == 0:
            raise ValueError("the domain is a single point: there is nothing to learn")
        # The paper's D n^1/2/T^1/4 is for losses that vary by L D; its balance of the cost of
        # exploring, L zeta T, with that of estimating, D (n/zeta) M T^1/2, asks for M/L.
        radius = min(math.sqrt(n * D * min(D, M / self.lipschitz)) / T**0.25, D / 4)
        if self.shrink:
            radius = min(radius, domain.inner_radius / 2)
        self.radius = radius
        # Few releases need little noise; .15 sqrt(T) batches is tuned (benchmarks/
        # convex_bandits.py, T = 10^5, epsilon = 1, delta = 10^-6).
        batches = min(T, max(16, math.ceil(0.15 * math.sqrt(T))))
        self.batch_size = size = math.ceil(T / batches)
        releases = max(1, math.ceil(T / size) - 1)
        # A replaced loss changes one term (n/zeta) (f - b) (u, .) of one batch: |u| = 1, and b was
        # released before, so it moves by (n/zeta) M (u, LEVEL), of that length in l2. A batch holds
        # at most all losses, |f - b| <= M each. When losses come, hence which batch they enter, is
        # public: a replaced loss comes when the old one did.
        term = n / radius * M * math.hypot(1.0, LEVEL)
        sums = _sums_of_terms(releases, n + 1, term, T, self.budget, self.noise)
        descent = SmoothedDescent(
            domain,
            steps=Steps(
                reach=D,
                count=releases,
                step_noise=_step_noise(releases, n + 1, term, T, self.budget),
                sum_noise=float(sums.std(releases)) ** 2,
            ),
            radius=radius,
            size=size,
            gap=D**2 / math.sqrt(T),
            baseline=sum(loss_range) / 2,
            shrink=self.shrink,
            seed=self.seed,
        )
        return descent, GradientSums(
            sums,
            scale=n / radius,
            horizon=T,
            loss_range=loss_range,
            contributions=self.contributions,
        )

    @property
    def learning(self) -> bool:
        """Whether a loss can still count: not in the last batch, which no release follows."""
        assert self.horizon is not None
        return bool(self.bandit.batch < (self.horizon - 1) // self.batch_size)

    @property
    def oracle_calls(self) -> int:
        """How often the linear minimiser has been asked."""
        return int(self.bandit.oracle_calls)


def _step_noise(releases: int, dim: int, term: float, rounds: int, budget: Budget) -> float:
    """The mean square of the noise in a step of the sums: of a twin that saw zeros."""
    if budget.off:
        return 0.0
    twin = _sums_of_terms(releases, dim, term, rounds, budget, SeededNoise(0))
    sums = np.vstack([np.zeros((1, dim)), [twin.add(np.zeros(dim)) for _ in range(releases)]])
    return float(np.mean(np.diff(sums, axis=0) ** 2))


def _sums_of_terms(
    releases: int, dim: int, term: float, rounds: int, budget: Budget, noise: Noise
) -> PrefixSum:
    """Private running sums of batches, where a replaced loss changes one term of this l2 length."""
    k = budget.contributions

    def running(sensitivity: float) -> PrefixSum:
        return PrefixSum(
            releases,
            dim,
            Budget(budget.epsilon, budget.delta),
            sensitivity=sensitivity,
            bound=rounds * term,
            noise=noise,
        )

    # k rounds of one person may fall into one batch, which is one row of the running sum: the row
    # moves by k terms. (PrefixSum's own k supposes k different rows.)
    sums = running(k * term)
    if k > 1 and (spacing := sums._calibration.spacing):
        # k rows are rounded to the lattice of exact noise, sqrt(dim) spacings each in l2, and
        # PrefixSum adds that for one row; twice, as the lattice grows with the noise.
        sums = running(k * (term + 2 * math.sqrt(dim) * spacing))
    return sums
