"""LinUCB without privacy: the yardstick (Li et al. 2010, Algorithm 1; Abbasi-Yadkori et al. 2011).

    paper   A_t = lambda I + sum phi phi^T   b_t = sum phi y    alpha   theta_t = A_t^-1 b_t
    here    gram + regularizer I             moment             width   mean

A new policy every round for the first hundred, then whenever rounds have grown by 2%: a delay that
costs nothing which can be measured.
"""

import math
from typing import Any

import numpy as np

from discreet.bandits.decisions import Policy
from discreet.bandits.learner import Bandit
from discreet.bandits.policies import Ucb, Uniform
from discreet.privacy import Budget, Guarantee
from discreet.privacy.checks import Array, positive, whole
from discreet.privacy.ledger import Ledger
from discreet.privacy.release import Release


class LinUCB(Bandit):
    """The action whose reward is largest if every estimate is off by `width` deviations.

        <phi, theta> + width |phi|_{A^-1},    A = regularizer I + sum phi phi^T

    One parameter for all actions, or with `n_actions` one for each (the disjoint model: the i-th
    row offered belongs to the i-th action; memory grows with n_actions). Until the first reward
    comes every action is alike. The defaults are good in practice; the theory's width is not.

    Guarantee  none: epsilon is infinite.

    >>> from discreet.environments import linear_world
    >>> world, rng = linear_world("sphere", dim=5, seed=0), np.random.default_rng(1)
    >>> learner, regret = LinUCB(dim=5, seed=2), 0.0
    >>> for _ in range(200):
    ...     people = world.people(learner.rounds_until_release, rng)
    ...     chosen = learner.decide_many(people.features)
    ...     regret += float(people.regret(chosen.action).sum())
    ...     refused = learner.learn_many(chosen, people.rewards(chosen.action, rng))
    >>> learner.rounds, regret < 20
    (584, True)
    """

    def __init__(
        self,
        dim: int,
        horizon: int | None = None,
        *,
        n_actions: int | None = None,
        width: float = 0.3,
        regularizer: float = 0.1,
        norm_bound: float = 1.0,
        reward_range: tuple[float, float] = (-1.0, 1.0),
        clip: bool = False,
        seed: int | None = None,
    ) -> None:
        self.n_actions = None if n_actions is None else whole("n_actions", n_actions)
        self._block = whole("dim", dim)
        super().__init__(
            self._block * (self.n_actions or 1),
            horizon,
            norm_bound=norm_bound,
            reward_range=reward_range,
            clip=clip,
            seed=seed,
        )
        self.width, self.regularizer = (
            positive("width", width),
            positive("regularizer", regularizer),
        )
        self._gram, self._moment = np.zeros((self.dim, self.dim)), np.zeros(self.dim)
        self._ledger = Ledger(Budget(math.inf))
        self._ledger.spend(
            # |vv' - ww'|_F <= sqrt(2) max |v|^2 for v = [phi; y], |v|^2 <= 2, and no noise at all.
            Release.gaussian(
                what="every policy", sensitivity=math.sqrt(2) * 2, scale=0.0, sampler="no noise"
            )
        )
        self._policy = Uniform()

    @property
    def guarantee(self) -> Guarantee:
        """That there is none."""
        return self._ledger.guarantee(
            trust="joint",
            unprotected=("everything",),
            reference="Li et al. (2010); Abbasi-Yadkori, Pal and Szepesvari (2011)",
        )

    def _size(self) -> int:
        return refresh(self.rounds)

    def _begin(self, size: int) -> None:
        pass  # the sums go on

    def _absorb(self, rows: Array, rewards: Array) -> None:
        self._gram += rows.T @ rows
        self._moment += rewards @ rows

    def _release(self) -> None:
        if self._gram.any():
            self._policy = ucb(
                self._gram, self._moment, width=self.width, regularizer=self.regularizer
            )

    def _offered(self, features: Array, ndim: int) -> Array:
        if self.n_actions is None:
            return super()._offered(features, ndim)
        if features.ndim != ndim or features.shape[-2:] != (self.n_actions, self._block):
            shape = f"({'n, ' if ndim == 3 else ''}{self.n_actions}, {self._block})"
            raise ValueError(f"features must have shape {shape}, got {features.shape}")
        # Block i of a row of n_actions blocks belongs to action i; the others are zero.
        rows = np.einsum("...ad,ab->...abd", features, np.eye(self.n_actions))
        return super()._offered(rows.reshape(*features.shape[:-1], self.dim), ndim)

    def _config(self) -> dict[str, Any]:
        return {
            "dim": self._block,
            "horizon": self.horizon,
            "n_actions": self.n_actions,
            "width": self.width,
            "regularizer": self.regularizer,
            "norm_bound": self.norm_bound,
            "reward_range": self.reward_range,
            "clip": self.clip,
            "seed": self.seed,
        }

    def _memory(self) -> dict[str, Any]:
        sums = {"gram": self._gram.copy(), "moment": self._moment.copy()}
        return {**sums, **remembered(self._policy)}

    def _recall(self, memory: dict[str, Any]) -> None:
        policy, gram, moment = recalled(memory), memory["gram"].copy(), memory["moment"].copy()
        self._policy, self._gram, self._moment = policy, gram, moment


def refresh(rounds: int) -> int:
    """How many rounds a policy lasts: one at first, then a fiftieth of those before it."""
    return max(1, rounds // 50)


def ucb(
    gram: Array,
    moment: Array,
    *,
    width: float,
    regularizer: float,
    shift: float = 0.0,
    deviation: float = 0.0,
) -> Ucb:
    """Ridge regression and its width, when the sums carry noise of a known deviation.

    With V the positive part of the gram, r the regularizer and A = V + (r + shift) I:

        theta = A^-1 moment,    |phi|^2 = phi^T A^-1 (width^2 (V + r I) + deviation^2 I) A^-1 phi

    Without noise (shift = deviation = 0) the latter is width^2 phi^T A^-1 phi, LinUCB's own.
    """
    values, vectors = np.linalg.eigh(gram)
    known = np.maximum(values, 0.0) + regularizer
    inverse = 1 / (known + shift)
    mean = vectors @ (inverse * (vectors.T @ moment))
    return Ucb(mean, vectors * (inverse * np.sqrt(width**2 * known + deviation**2)))


def remembered(policy: Policy) -> dict[str, Any]:
    """A policy as arrays; they are empty for the uniform one."""
    if not isinstance(policy, Ucb):
        return {"policy.mean": np.zeros(0), "policy.root": np.zeros(0)}
    return {"policy.mean": policy.mean.copy(), "policy.root": policy.root.copy()}


def recalled(memory: dict[str, Any]) -> Policy:
    """The policy that `remembered` wrote down."""
    mean, root = memory["policy.mean"].copy(), memory["policy.root"].copy()
    return Ucb(mean, root) if mean.size else Uniform()
