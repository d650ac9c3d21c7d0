"""Follow the regularised leader on private running sums (Agarwal and Singh 2017, Algorithm 1).

    paper   x_t                 L~_{t-1}      R, D_R                        eta
    here    decide()            self._sums    domain.leader and its range   self.learning_rate(t)

    line 5  x_t = argmin over x of eta <x, L~_{t-1}> + R(x)     `_leader`
    line 6  observe l_t                                         `learn`
    line 7  L~_t = TreeBasedAgg(l_t, ...)                       `PrefixSum.add`: a tree with K-norm
                                                                noise (delta = 0) or filtered
                                                                Gaussian noise (delta > 0)

The rate balances the two terms of the bound without noise, D_R/eta and eta times the sum of squared
losses: the noise adds D_Z = E[max <Z, x> - min <Z, x>] to the regret whatever the rate (Theorem
3.4). Holding the rate below 1/(standard deviation of the noise) costs half as much again on easy
losses (benchmarks/online.py, "capped").

The theorem is for losses fixed in advance. Whoever chooses losses by looking at the decisions sees
the noise in them and can punish it as long as rate times deviation is not small (the same
benchmark, "adaptive"). Privacy holds all the same. rate="robust" is for such adversaries. With z_t
the noise, x_t the decision and y_t the one without noise, |x_t - y_t| <= eta |z_t|*, as R is
1-strongly convex: whatever the adversary knows, noise costs at most b eta |z_t|* in round t, and

    regret <= D_R/eta + eta T (b^2/8 + b E|z|*)        (b^2/2 for b^2/8 off the simplex)

which eta balances: regret of the order sqrt(T D_R (b^2 + b E|z|*)), E|z|* of the order 1/epsilon.
"""

import math
from typing import Any

import numpy as np

from discreet.arrays import Array, one_of
from discreet.domains import Domain
from discreet.online.leader import PrivateLeader
from discreet.privacy import Tree
from discreet.privacy.noise import Noise


class FTRL(PrivateLeader):
    """Online linear optimisation whose whole sequence of decisions is private.

        x_t = argmin <x, private sum of the losses so far> + R(x)/rate_t

    Requires   every loss in [0, loss_bound]^n on the simplex, of l1 norm at most loss_bound on the
               cube, of l2 norm at most loss_bound elsewhere; one person's round is one loss.
    Guarantee  (epsilon, delta), central, for losses that may depend on earlier decisions:
               decisions are post-processing of `PrefixSum`. delta=0 is pure.

    domain          with a projection
    horizon         rounds in which it learns; after that its last decision stays
    epsilon         of one person; inf switches privacy off
    delta           0 is pure
    loss_bound      public bound of the losses
    rate            "decreasing" is far better on easy sequences and no worse on hard ones; "fixed"
                    is the paper's; "robust" is for losses that are chosen by looking at decisions:
                    slower on easy sequences, with a regret bound against everybody
    mechanism       of the running sums: "auto", "blt", "toeplitz", "tree" or a `Tree`
    contributions   rounds of one person
    noise           None, `SecureNoise()`, or `SeededNoise(seed)` for simulation

    >>> from discreet.domains import Simplex
    >>> from discreet.privacy import SeededNoise
    >>> learner = FTRL(Simplex(3), 2000, epsilon=1.0, delta=1e-6, noise=SeededNoise(0))
    >>> for _ in range(1000):
    ...     x = learner.decide()
    ...     _ = learner.learn([0.2, 0.9, 0.9])
    >>> learner.decide().round(2)
    array([1., 0., 0.])
    >>> learner.run(np.tile([0.2, 0.9, 0.9], (1000, 1))).shape
    (1000, 3)
    >>> learner.guarantee.epsilon, learner.guarantee.delta, learner.guarantee.trust
    (1.0, 1e-06, 'central')
    """

    _reference = "Agarwal and Singh (2017), Algorithm 1"

    def __init__(
        self,
        domain: Domain,
        horizon: int,
        epsilon: float,
        delta: float = 0.0,
        *,
        loss_bound: float = 1.0,
        rate: str = "decreasing",
        mechanism: str | Tree = "auto",
        contributions: int = 1,
        noise: Noise | None = None,
    ) -> None:
        self.rate = one_of("rate", rate, ("decreasing", "fixed", "robust"))
        if isinstance(domain, Domain) and not domain.projects:
            raise ValueError(
                f"domain must have a projection, and {domain!r} has none; FTPL takes any domain"
            )
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
        # Regret <= D_R/eta + eta T b^2/8 on the simplex (Hoeffding), D_R/eta + eta T b^2/2
        # elsewhere; a decreasing rate c/sqrt(t) pays the second term twice.
        b = self.loss_bound
        curved = b**2 / (8 if self._centre else 2)
        if self.rate == "robust":
            curved += b * self._noise_size()
        best = math.sqrt(self.domain.regularizer_range / curved)
        self._scale = best / math.sqrt(self.horizon if self.rate == "fixed" else 2)

    def _noise_size(self) -> float:
        """E|z|*, about: the largest entry on the simplex, else the length; z the noise.

        Rounds weigh as in the sum of decreasing rates, roughly: early ones more.
        """
        n = self.domain.dim
        rounds = np.unique(np.geomspace(1, self.horizon, 64).astype(np.int64))
        std = float(np.sqrt(np.mean(np.square(self._sums.std(rounds)))))
        return std * (math.sqrt(2 * math.log(2 * n)) if self._centre else math.sqrt(n))

    def learning_rate(self, t: Any) -> Any:
        """eta at round t = 1, 2, ..."""
        if self.rate == "fixed":
            return self._scale
        return self._scale / (math.sqrt(t) if isinstance(t, int) else np.sqrt(t))

    def _leader(self, total: Array, t: Any) -> Array:
        return self.domain.leader(total, self.learning_rate(t))
