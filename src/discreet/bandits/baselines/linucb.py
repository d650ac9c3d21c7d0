"""LinUCB without privacy: the yardstick (Li et al. 2010, Algorithm 1; Abbasi-Yadkori et al. 2011).

    paper   A_t = lambda I + sum phi phi^T   b_t = sum phi y    alpha   theta_t = A_t^-1 b_t
    here    gram + regularizer I             moment             width   mean

A new policy every round for the first hundred, then whenever rounds have grown by 2%: a delay that
costs nothing which can be measured.
"""

import math
from typing import Any, ClassVar

import numpy as np

from discreet.arrays import Array, positive
from discreet.bandits.learner import Bandit
from discreet.bandits.policies import Ucb, Uniform
from discreet.privacy import Budget, Guarantee
from discreet.privacy.ledger import Ledger
from discreet.privacy.release import Release
from discreet.state import Stateful

WIDTH = 0.3  # deviations; good in practice, the theory's is not
REGULARIZER = 0.1


class ExactSums(Stateful):
    """The sum of v v', v = [phi; y], as it is: Gram matrix, moment and squares of rewards.

    dim   number of features
    """

    _state: ClassVar[tuple[str, ...]] = ("total",)

    def __init__(self, dim: int) -> None:
        self.total = np.zeros((dim + 1, dim + 1))

    def fold(self, rows: Array, rewards: Array) -> None:
        """Add rewarded rows, in one step."""
        v = np.concatenate([rows, rewards[:, None]], axis=1)
        self.total += v.T @ v

    def fold_one(self, row: Array, reward: float) -> None:
        """`fold` for one row."""
        self.fold(row[None], np.array([reward]))


class LinUCB(Bandit):
    """The action whose reward is largest if every estimate is off by `width` deviations.

        <phi, theta> + width |phi|_{A^-1},    A = regularizer I + sum phi phi^T

    Until the first reward comes every action is alike.

    Guarantee  none: epsilon is infinite.

    Parameters
        dim           number of features of a row
        horizon       rounds that count; None to learn for ever
        width         standard deviations by which estimates are optimistic
        regularizer   added to every eigenvalue of the Gram matrix
        norm_bound    length of the longest feature row; longer ones are shortened to it
        reward_range  least and largest reward
        seed          of the coins that choose before the first reward

    >>> from discreet import environments
    >>> world, rng = environments.world("sphere", dim=5, seed=0), np.random.default_rng(1)
    >>> learner, regret = LinUCB(dim=5, seed=2), 0.0
    >>> for _ in range(200):
    ...     people = world.people(learner.rounds_until_release, rng)
    ...     chosen = learner.decide_many(people.features)
    ...     regret += float(people.regret(chosen.action).sum())
    ...     refused = learner.learn_many(chosen, people.rewards(chosen.action, rng))
    >>> learner.rounds, regret < 20
    (584, True)
    """

    _window: ExactSums | None

    def __init__(
        self,
        dim: int,
        horizon: int | None = None,
        *,
        width: float = WIDTH,
        regularizer: float = REGULARIZER,
        norm_bound: float = 1.0,
        reward_range: tuple[float, float] = (-1.0, 1.0),
        seed: int | None = None,
    ) -> None:
        super().__init__(dim, horizon, norm_bound=norm_bound, reward_range=reward_range, seed=seed)
        self.width = positive("width", width)
        self.regularizer = positive("regularizer", regularizer)
        self.policy = Uniform()

    @property
    def guarantee(self) -> Guarantee:
        """That there is none."""
        # |vv' - ww'|_F <= sqrt(2) max |v|^2 for v = [phi; y], |v|^2 <= 2, and no noise at all.
        release = Release.gaussian(
            what="every policy", sensitivity=math.sqrt(2) * 2, scale=0.0, sampler="no noise"
        )
        return (
            Ledger(Budget(math.inf))
            ._including(release)
            .guarantee(
                trust="joint",
                unprotected=("everything",),
                reference="Li et al. (2010); Abbasi-Yadkori, Pal and Szepesvari (2011)",
            )
        )

    def _size(self) -> int:
        return refresh(self.rounds)

    def _turned(self, size: int | None) -> dict[str, Any]:
        window, policy = self._window or ExactSums(self.dim), self.policy
        if window.total.any():
            gram, moment = window.total[:-1, :-1], window.total[:-1, -1]
            policy = ucb(gram, moment, width=self.width, regularizer=self.regularizer)
        return {"policy": policy, "_window": window if size else None}


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
    noise_std: float = 0.0,
) -> Ucb:
    """Ridge regression and its width, when the sums carry noise of a known standard deviation.

    With V the positive part of the gram, r the regularizer and A = V + (r + shift) I:

        theta = A^-1 moment,    |phi|^2 = phi^T A^-1 (width^2 (V + r I) + noise_std^2 I) A^-1 phi

    Without noise (shift = noise_std = 0) the latter is width^2 phi^T A^-1 phi, LinUCB's own.
    """
    values, vectors = np.linalg.eigh(gram)
    known = np.maximum(values, 0.0) + regularizer
    inverse = 1 / (known + shift)
    mean = vectors @ (inverse * (vectors.T @ moment))
    return Ucb(mean, vectors * (inverse * np.sqrt(width**2 * known + noise_std**2)))
