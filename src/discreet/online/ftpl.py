"""Follow the perturbed leader: privacy noise perturbs (Agarwal and Singh 2017, Algorithm 3).

    paper   x_t                              L~_{t-1}      sigma (its first argument)
    here    decide()                         self._sums    self.perturbation(t)

    line 5  x_t = argmin over x of <x, L~_{t-1}>    `_leader`, one call of the linear minimiser
    line 7  L~_t = TreeBasedAgg(l_t, ...)           `PrefixSum.add`

Theorem 3.5 takes the larger of the noise that privacy needs and the noise that low regret needs.
Here a perturbation sigma_t z, z ~ N(0, I) drawn once from the coins, is added where the privacy
noise is smaller than the regret needs at round t, such that the two together have that standard
deviation: it grows like sqrt(t), as a decreasing rate does.

The bound is for losses fixed in advance. Whoever chooses losses by looking at the decisions sees
the perturbation in them and can punish the leader in every round; privacy still holds.
"""

from typing import Any

import numpy as np

from discreet.arrays import Array, integer_or_none
from discreet.domains import Domain
from discreet.online.leader import PrivateLeader
from discreet.privacy import Tree
from discreet.privacy.noise import Noise

_BLOCK = 1024  # rounds


class FTPL(PrivateLeader):
    """Online linear optimisation with one linear minimisation a round, private as a whole.

        x_t = argmin <x, private sum of the losses so far + sigma_t z>

    Requires   losses as for `FTRL`, fixed in advance (for the regret, not for privacy).
    Guarantee  (epsilon, delta), central: decisions are post-processing of `PrefixSum` and of z,
               which does not depend on the data.

    domain          any
    horizon         rounds in which it learns; after that its last decision stays
    epsilon         of one person; inf switches privacy off
    delta           0 is pure
    loss_bound      public bound of the losses
    mechanism       of the running sums: "auto", "blt", "toeplitz", "tree" or a `Tree`
    contributions   rounds of one person
    seed            of z, drawn once
    noise           None, `SecureNoise()`, or `SeededNoise(seed)` for simulation

    >>> from discreet.domains import Simplex
    >>> from discreet.privacy import SeededNoise
    >>> learner = FTPL(Simplex(3), 2000, 1.0, 1e-6, seed=0, noise=SeededNoise(0))
    >>> X = learner.run(np.tile([0.2, 0.9, 0.9], (1000, 1)))
    >>> learner.decide()
    array([1., 0., 0.])
    """

    _state = ("_sums", "_direction")
    _reference = "Agarwal and Singh (2017), Algorithm 3"

    def __init__(
        self,
        domain: Domain,
        horizon: int,
        epsilon: float,
        delta: float = 0.0,
        *,
        loss_bound: float = 1.0,
        mechanism: str | Tree = "auto",
        contributions: int = 1,
        seed: int | None = None,
        noise: Noise | None = None,
    ) -> None:
        self.seed = integer_or_none("seed", seed, least=0)
        super().__init__(
            domain,
            horizon,
            epsilon,
            delta,
            loss_bound=loss_bound,
            mechanism=mechanism,
            contributions=contributions,
            noise=noise,
        )

    def _prepare(self) -> None:
        self._block = (-1, np.empty(0))  # the first round of a block, and its sigmas
        self._needed = self.loss_bound * self.domain.perturbation_std
        self._direction = np.random.default_rng(self.seed).standard_normal(self.domain.dim)

    def perturbation(self, t: Any) -> Any:
        """sigma_t: what the privacy noise in the sum of t - 1 losses lacks, t = 1, 2, ..."""
        needed = self._needed**2 * np.asarray(t, dtype=np.float64)
        held = np.asarray(self._sums.std(np.maximum(np.asarray(t) - 1, 1)))
        return np.sqrt(np.maximum(needed - np.where(np.asarray(t) > 1, held, 0.0) ** 2, 0.0))

    def _leader(self, total: Array, t: Any) -> Array:
        sigma = self._one(t) if isinstance(t, int) else self.perturbation(t)
        return self.domain.linear_minimizer(total + sigma * self._direction)

    def _one(self, t: int) -> float:
        """`perturbation(t)`, computed for many rounds at once."""
        start = t - t % _BLOCK
        held, sigmas = self._block
        if start != held:
            rounds = np.arange(max(start, 1), min(start + _BLOCK, self.horizon + 2))
            sigmas = self.perturbation(rounds)
            self._block = (start, sigmas)
        return float(sigmas[t - max(start, 1)])
