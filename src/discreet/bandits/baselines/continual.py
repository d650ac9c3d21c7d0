"""LinUCB on private running sums (Shariff and Sheffet 2018, Algorithm 1).

    paper   [phi; y]   M_t + N_t              rho_min           c I       beta_t
    here    v          self._sums.estimate    shift * noise     A's rest  `ucb`'s widths

The sums are those of vv^T with v = [phi; y], as isometric vectors: Gram matrix, moment and square
of the rewards in one release. Their noise is symmetric Gaussian, s on the diagonal and s/sqrt(2)
off it, so its operator norm is about s sqrt(2 d); that and s itself are known, and give the shift
that makes the Gram matrix invertible and the width of a confidence interval. Neither noise nor
widths use the paper's constants.
"""

import math
from dataclasses import asdict, replace
from typing import Any, Self

import numpy as np

from discreet.bandits.baselines.linucb import recalled, refresh, remembered, ucb
from discreet.bandits.learner import Bandit
from discreet.bandits.policies import Uniform
from discreet.privacy import Budget, Guarantee, PrefixSum, Tree
from discreet.privacy.checks import Array, positive
from discreet.privacy.mechanisms import symmetric_to_vector, vector_to_symmetric
from discreet.privacy.noise import Noise, source, source_named

_BLOCK = 1024  # rows at a time, each an outer product


class ContinualLinUCB(Bandit):
    """LinUCB whose Gram matrix and moment are published, with noise, after every reward.

    Requires   features of norm at most `norm_bound` (longer ones are shortened), rewards within
               `reward_range`; one person's round is one reward with the features it is for.
    Guarantee  (epsilon, delta), joint: every policy is post-processing of `PrefixSum`.

    `width` and `regularizer` are LinUCB's. The noise comes on top: `shift` times its operator norm
    is added to the Gram matrix, and `noise_width` times its deviation widens every interval.
    `mechanism` is PrefixSum's: "auto" (buffered Toeplitz, or a tree with SecureNoise or delta = 0),
    "blt", "toeplitz", "tree" for the best tree, Tree(2, balanced=False) for the published one.
    With epsilon = inf this is LinUCB. A stolen state hides nothing unless the mechanism is a tree.

    >>> from discreet.environments import linear_world
    >>> from discreet.privacy import SeededNoise
    >>> world, rng = linear_world("sphere", dim=5, seed=0), np.random.default_rng(1)
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

    def __init__(
        self,
        dim: int,
        horizon: int,
        epsilon: float,
        delta: float = 1e-6,
        *,
        mechanism: str | Tree = "auto",
        width: float = 0.3,
        noise_width: float = 1.5,
        shift: float = 2.0,
        regularizer: float = 0.1,
        contributions: int = 1,
        norm_bound: float = 1.0,
        reward_range: tuple[float, float] = (-1.0, 1.0),
        clip: bool = False,
        seed: int | None = None,
        noise: Noise | None = None,
    ) -> None:
        if horizon is None:
            raise ValueError("horizon must be a whole number: the noise is calibrated for it")
        super().__init__(
            dim, horizon, norm_bound=norm_bound, reward_range=reward_range, clip=clip, seed=seed
        )
        self.width, self.noise_width = (
            positive("width", width),
            positive("noise_width", noise_width),
        )
        self.shift, self.regularizer = (
            positive("shift", shift),
            positive("regularizer", regularizer),
        )
        self._mechanism, self._source = mechanism, source(noise)
        self._sums = PrefixSum(
            horizon,
            (self.dim + 1) * (self.dim + 2) // 2,
            Budget(epsilon, delta, contributions),
            # v = [phi; y] has |v|^2 <= 2 and |vv' - ww'|_F <= sqrt(2) max |v|^2 (replace-one, PSD
            # terms); vv' itself has norm |v|^2. Rewards enter in order of arrival: a reward that
            # comes for one neighbour only would move all later ones, so arrival is unprotected.
            sensitivity=math.sqrt(2) * 2,
            bound=2.0,
            mechanism=mechanism,
            noise=self._source,
        )
        self._policy = Uniform()

    @property
    def guarantee(self) -> Guarantee:
        """The promise of the running sums, for everybody but the person who is served."""
        sums = self._sums.guarantee
        own = ("a person's own action", "decision records", "the horizon")
        return replace(
            sums,
            trust="joint",
            unprotected=(*own, *sums.unprotected),
            reference=f"Shariff and Sheffet (2018), Algorithm 1; running sums: {sums.reference}",
        )

    def _size(self) -> int:
        return refresh(self.rounds)

    def _begin(self, size: int) -> None:
        pass  # the sums go on

    def _absorb(self, rows: Array, rewards: Array) -> None:
        if len(rows) == 1:
            self._sums.add(outer_vectors(rows, rewards)[0])
            return
        for start in range(0, len(rows), _BLOCK):
            block = slice(start, start + _BLOCK)
            self._sums.add_many(outer_vectors(rows[block], rewards[block]))

    def _release(self) -> None:
        if self._sums.rounds == 0:
            return
        total, d = vector_to_symmetric(self._sums.estimate), self.dim
        s = self._sums.deviation(self._sums.rounds)  # on the diagonal; s / sqrt(2) off it
        self._policy = ucb(
            total[:d, :d],
            total[:d, d],
            width=self.width,
            regularizer=self.regularizer,
            shift=self.shift * s * math.sqrt(2 * d),
            # A coordinate of (moment noise - gram noise theta) has variance s^2/2 + s^2/2 |theta|^2
            # or so; |theta| = 1.
            deviation=self.noise_width * s,
        )

    def _config(self) -> dict[str, Any]:
        tree = self._mechanism if isinstance(self._mechanism, Tree) else None
        return {
            "dim": self.dim,
            "horizon": self.horizon,
            "epsilon": self._sums.budget.epsilon,
            "delta": self._sums.budget.delta,
            "mechanism": asdict(tree) if tree else self._mechanism,
            "width": self.width,
            "noise_width": self.noise_width,
            "shift": self.shift,
            "regularizer": self.regularizer,
            "contributions": self._sums.budget.contributions,
            "norm_bound": self.norm_bound,
            "reward_range": self.reward_range,
            "clip": self.clip,
            "seed": self.seed,
            "noise": type(self._source).__name__,
        }

    @classmethod
    def _rebuilt(cls, config: dict[str, Any]) -> Self:
        asked = config["mechanism"]
        tree = Tree(**asked) if isinstance(asked, dict) else asked
        return cls(**{**config, "mechanism": tree, "noise": source_named(config["noise"])})

    def _memory(self) -> dict[str, Any]:
        sums = {f"sums.{name}": value for name, value in self._sums.state_dict().items()}
        return {**sums, **remembered(self._policy)}

    def _recall(self, memory: dict[str, Any]) -> None:
        policy = recalled(memory)
        sums = {name[5:]: value for name, value in memory.items() if name.startswith("sums.")}
        self._sums.load_state_dict(sums)  # the last step that can fail
        self._policy = policy


def outer_vectors(rows: Array, rewards: Array) -> Array:  # (n, d), (n,) -> (n, (d+1)(d+2)/2)
    """vv^T as isometric vectors, v = [phi; y]: of norm |v|^2 <= 2, any two sqrt(2) 2 apart."""
    v = np.concatenate([rows, rewards[:, None]], axis=1)
    return symmetric_to_vector(v[:, :, None] * v[:, None, :])
