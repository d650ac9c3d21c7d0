"""Running sums by a tree whose nodes carry generalised Gaussian noise, for moves in l_q.

    paper (Han et al. 2022)   TreeBasedAgg (Algorithm 4)   G_+(0, sigma^2)   |.|_+
    here                      TreeSum, branching 2         `_draw`           l_r

Noise of density exp(-|z|_r^2/(2 s^2)), r = max(2, min(q, ln d)), costs rho = (r-1) D^2/(2 s^2) for
a move of D in l_r; the paper's constants do not belong to this norm and are not used. The binary
tree of the paper is kept, without subtraction: a sum is published from finished nodes only, a round
is in one node of each level, so all outputs are an adaptive composition of as many releases.
"""

import math
from typing import Any

import numpy as np

from discreet.arrays import Array
from discreet.privacy import Budget, Guarantee, Tree
from discreet.privacy.ledger import Ledger
from discreet.privacy.noise import Noise
from discreet.privacy.observation import observe
from discreet.privacy.release import Release
from discreet.privacy.tree import TreeSum
from discreet.state import Stateful, damaged


class GeneralizedNodeNoise(Stateful):
    """Rows of density exp(-|z|_r^2/(2 s^2)), a stream for each level of the tree.

    levels   of the tree
    dim      length of a row
    r        of the norm
    scale    s
    noise    source of the noise
    """

    _state = ("_streams",)

    def __init__(self, levels: int, dim: int, r: float, scale: float, noise: Noise) -> None:
        self._dim = dim
        self._r = r
        self._scale = scale
        self._streams = tuple(noise.spawn(levels + 1))

    def __call__(self, level: int, count: int) -> Array:  # (count, dim)
        """Noise for the next nodes of a level."""
        if self._scale == 0:
            return np.zeros((count, self._dim))
        stream = self._streams[level]
        r = self._r
        shape = (count, self._dim)
        if r == 2:
            return np.asarray(self._scale * stream.normal(shape))
        # Direction by the cone measure of l_r; |z|_r^2 ~ 2 s^2 Gamma(d/2).
        signs = np.where(stream.uniform(shape) < 0.5, -1.0, 1.0)
        rows = signs * stream.gamma(1 / r, shape) ** (1 / r)
        rows /= (np.abs(rows) ** r).sum(axis=1, keepdims=True) ** (1 / r)
        radius = self._scale * np.sqrt(2 * stream.gamma(self._dim / 2, count))
        return np.asarray(rows * radius[:, None])


class GeneralizedGaussianSum(Stateful):
    """The running sum of rows of l_q norm at most `bound`, with l_r noise in every node.

    Guarantee  all `horizon` sums together are (epsilon, delta)-DP through zCDP, for rows that may
               depend on earlier sums. The Gaussian noise of `PrefixSum` is far smaller; this is
               the paper's mechanism, to compare with.

    horizon   rows in all
    dim       of a row
    budget    of one person
    bound     l_q norm of one row
    q         the norm
    noise     where the noise comes from

    >>> from discreet.privacy import SeededNoise
    >>> budget = Budget(1.0, 1e-6)
    >>> sums = GeneralizedGaussianSum(100, 3, budget, bound=1.0, q=3.0, noise=SeededNoise(0))
    >>> sums.add(np.ones(3) / 3).shape
    (3,)
    """

    mechanism = "generalized-gaussian"
    _state = ("_sum", "_ledger")

    def __init__(
        self, horizon: int, dim: int, budget: Budget, *, bound: float, q: float, noise: Noise
    ) -> None:
        self.horizon = horizon
        self.dim = dim
        self.budget = budget
        self.bound = bound
        self.q = q
        self.noise = noise
        self._tree = Tree(branching=2, balanced=False).fitted(horizon, pure=False)
        self._r = r = max(2.0, min(q, math.log(dim)))
        # |x|_r <= d^(1/r - 1/q) |x|_q if r <= q, and |x|_r <= |x|_q if r > q; two rows of l_q norm
        # at most `bound` are 2 bound apart (replace-one).
        one_round = 2 * bound * dim ** max(0.0, 1 / r - 1 / q)
        # Over the levels rho adds up: sum of squared moves = (one_round * sensitivity)^2.
        moved = one_round * self._tree.sensitivity(budget.contributions, pure=False)
        self._scale = moved * math.sqrt((r - 1) / (2 * budget.rho))
        self._ledger = Ledger(budget, "zcdp")
        self._ledger.spend(
            Release.concentrated(
                mechanism="generalized gaussian",
                norm=f"l{r:g}",
                rho=budget.rho,
                sensitivity=moved,
                scale=self._scale,
                what=f"{horizon} running sums (tree, {self._tree.depth} levels)",
                sampler=noise.sampler("generalized gaussian"),
            )
        )
        self._sum = self._begin(noise)

    def _begin(self, noise: Noise) -> TreeSum:
        draw = GeneralizedNodeNoise(self._tree.depth, self.dim, self._r, self._scale, noise)
        return TreeSum(self._tree, self.horizon, self.dim, draw)

    @property
    def rounds(self) -> int:
        """Rounds taken in so far."""
        return self._sum.rounds

    @property
    def estimate(self) -> Array:
        """The last published sum; zero before the first round."""
        return self._sum.estimate.copy()

    @property
    def guarantee(self) -> Guarantee:
        """The promise for the whole stream of sums."""
        return self._ledger.guarantee(
            unprotected=("the number of rounds", "arrival times", "the public bounds"),
            reference="Bassily, Guzman and Nandi (2021)",
        )

    def std(self, t: Any) -> Any:
        """About the standard deviation of a coordinate of the sum of t rounds: E|z|_r^2 = d s^2."""
        one = self._scale * self.dim ** (0.5 - 1 / self._r)
        return one * np.sqrt(self._tree.nodes(np.asarray(t)))

    def add(self, x: Array) -> Array:
        """Take in one round; returns the private estimate of the sum so far."""
        with self._live:
            estimate = self._sum.add(x).copy()
            observe("sum", estimate, self._ledger.releases[0])
            return estimate

    def _validate(self) -> None:
        own = self._ledger.releases
        if not isinstance(self._sum, TreeSum) or [each.scale for each in own] != [self._scale]:
            raise damaged("sum")
