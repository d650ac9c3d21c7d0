"""LinUCB on private running sums (Shariff and Sheffet 2018, Algorithm 1).

    paper   [phi; y]   M_t + N_t              rho_min           c I       beta_t
    here    v          sums.estimate          shift * noise     A's rest  `ucb`'s widths

The sums are those of vv^T with v = [phi; y], as isometric vectors: Gram matrix, moment and square
of the rewards in one release. Their noise is symmetric Gaussian, s on the diagonal and s/sqrt(2)
off it, so its operator norm is about s sqrt(2 d); that and s itself are known, and give the shift
that makes the Gram matrix invertible and the width of a confidence interval. Neither noise nor
widths use the paper's constants.
"""

import math
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from discreet.arrays import Array, symmetric_to_vector, vector_to_symmetric
from discreet.bandits.baselines.linucb import REGULARIZER, WIDTH, refresh, ucb
from discreet.bandits.learner import RESUMED_TWICE, Bandit
from discreet.bandits.policies import Ucb, Uniform
from discreet.privacy import Budget, Guarantee, PrefixSum, Tree
from discreet.privacy.noise import Noise, source
from discreet.state import Stateful

_BLOCK = 1024  # rows at a time, each an outer product


class RunningSums(Stateful):
    """Rewarded rows on their way into the running sums.

    sums   the noisy prefix sums
    """

    _state: ClassVar[tuple[str, ...]] = ()

    def __init__(self, sums: PrefixSum) -> None:
        self.sums = sums

    def fold(self, rows: Array, rewards: Array) -> None:
        """Add the products of rows, a block at a time."""
        for start in range(0, len(rows), _BLOCK):
            block = slice(start, start + _BLOCK)
            self.sums.add_many(outer_vectors(rows[block], rewards[block]))

    def fold_one(self, row: Array, reward: float) -> None:
        """`fold` for one row."""
        self.sums.add(outer_vectors(row[None], np.array([reward]))[0])


class ContinualLinUCB(Bandit):
    """LinUCB whose Gram matrix and moment are published, with noise, after every reward.

    Requires   features of norm at most `norm_bound` (longer ones are shortened), rewards within
               `reward_range`; one person's round is one reward with the features it is for.
    Guarantee  (epsilon, delta), joint: every policy is post-processing of `PrefixSum`.

    Parameters
        dim            number of features of a row
        horizon        rounds that count: the noise is calibrated for it
        epsilon        privacy loss; with inf this is LinUCB
        delta          probability of a larger loss
        mechanism      PrefixSum's: "auto" (buffered Toeplitz, or a tree with SecureNoise or
                       delta = 0), "blt", "toeplitz", "tree" for the best tree, Tree(2,
                       balanced=False) for the published one. A stolen state hides nothing unless it
                       is a tree
        contributions  rounds in which one person may take part; the caller enforces that limit
        norm_bound     length of the longest feature row; longer ones are shortened to it
        reward_range   least and largest reward
        seed           of the coins that choose before the first release; for simulations
        noise          SecureNoise(), SeededNoise(seed) for simulations, None for float noise

    >>> from discreet import environments
    >>> from discreet.privacy import SeededNoise
    >>> world, rng = environments.world("sphere", dim=5, seed=0), np.random.default_rng(1)
    >>> learner = ContinualLinUCB(5, 20_000, epsilon=3.0, seed=2, noise=SeededNoise(3))
    >>> regret = 0.0
    >>> while learner.rounds < 20_000:
    ...     people = world.people(learner.rounds_until_release, rng)
    ...     chosen = learner.decide_many(people.features)
    ...     regret += float(people.regret(chosen.action).sum())
    ...     refused = learner.learn_many(chosen, people.rewards(chosen.action, rng))
    >>> regret < 250  # 13,000 for uniform choices
    True
    >>> learner.guarantee.trust, learner.guarantee.epsilon, learner.guarantee.delta
    ('joint', 3.0, 1e-06)
    """

    _state: ClassVar[tuple[str, ...]] = (*Bandit._state, "_sums")

    def __init__(
        self,
        dim: int,
        horizon: int,
        epsilon: float,
        delta: float = 1e-6,
        *,
        mechanism: str | Tree = "auto",
        contributions: int = 1,
        norm_bound: float = 1.0,
        reward_range: tuple[float, float] = (-1.0, 1.0),
        seed: int | None = None,
        noise: Noise | None = None,
    ) -> None:
        if horizon is None:
            raise ValueError("horizon must be an integer: the noise is calibrated for it")
        super().__init__(dim, horizon, norm_bound=norm_bound, reward_range=reward_range, seed=seed)
        budget = Budget(epsilon, delta, contributions)
        self.epsilon, self.delta = budget.epsilon, budget.delta
        self.contributions = budget.contributions
        self.mechanism = mechanism
        self.noise = source(noise)
        self._sums = PrefixSum(
            horizon,
            (self.dim + 1) * (self.dim + 2) // 2,
            budget,
            # v = [phi; y] has |v|^2 <= 2 and |vv' - ww'|_F <= sqrt(2) max |v|^2 (replace-one, PSD
            # terms); vv' itself has norm |v|^2. Rewards enter in order of arrival: a reward that
            # comes for one neighbour only would move all later ones, so arrival is unprotected.
            sensitivity=math.sqrt(2) * 2,
            bound=2.0,
            mechanism=mechanism,
            noise=self.noise,
        )
        self.policy = Uniform()

    @property
    def guarantee(self) -> Guarantee:
        """The promise of the running sums, for everybody but the person who is served."""
        sums = self._sums.guarantee
        own = ("a person's own action", "decision records", "the horizon", RESUMED_TWICE)
        return replace(
            sums,
            trust="joint",
            unprotected=(*own, *sums.unprotected),
            reference=f"Shariff and Sheffet (2018), Algorithm 1; running sums: {sums.reference}",
        )

    def _size(self) -> int:
        return refresh(self.rounds)

    def _turned(self, size: int | None) -> dict[str, Any]:
        policy = self._estimated() if self._sums.rounds else self.policy
        return {"policy": policy, "_window": RunningSums(self._sums) if size else None}

    def _estimated(self) -> Ucb:
        total, d = vector_to_symmetric(self._sums.estimate), self.dim
        s = self._sums.std(self._sums.rounds)  # on the diagonal; s / sqrt(2) off it
        return ucb(
            total[:d, :d],
            total[:d, d],
            width=WIDTH,
            regularizer=REGULARIZER,
            shift=2.0 * s * math.sqrt(2 * d),  # twice the operator norm of the noise
            # A coordinate of (moment noise - gram noise theta) has variance s^2/2 + s^2/2 |theta|^2
            # or so; |theta| = 1.
            noise_std=1.5 * s,
        )

    def _validate(self) -> None:
        super()._validate()
        if self._window is not None:
            self._window = RunningSums(self._sums)


def outer_vectors(rows: Array, rewards: Array) -> Array:  # (n, d), (n,) -> (n, (d+1)(d+2)/2)
    """vv^T as isometric vectors, v = [phi; y]: of norm |v|^2 <= 2, any two sqrt(2) 2 apart."""
    v = np.concatenate([rows, rewards[:, None]], axis=1)
    return symmetric_to_vector(v[:, :, None] * v[:, None, :])
