"""Follow the perturbed leader: privacy noise perturbs (Agarwal and Singh 2017, Algorithm 3).

    paper   x_t                              L~_{t-1}      sigma (its first argument)
    here    decide()                         self._total   self.perturbation(t)

    line 5  x_t = argmin over x of <x, L~_{t-1}>    `_leader`, one call of the linear minimiser
    line 7  L~_t = TreeBasedAgg(l_t, ...)           `PrefixSum.add`

Theorem 3.5 takes the larger of the noise that privacy needs and the noise that low regret needs.
Here a perturbation sigma_t z, z ~ N(0, I) drawn once from the coins, is added where the privacy
noise is smaller than the regret needs at round t, such that the two together have that deviation:
it grows like sqrt(t), as a decreasing rate does.

The bound is for losses fixed in advance. Whoever chooses losses by looking at the decisions sees
the perturbation in them and can punish the leader in every round; privacy still holds.
"""

import math
from typing import Any

import numpy as np

from discreet.domains import Domain
from discreet.online.leader import PrivateLeader
from discreet.privacy.checks import Array
from discreet.privacy.state import expect

_BLOCK = 1024  # rounds


class FTPL(PrivateLeader):
    """Online linear optimisation with one linear minimisation a round, private as a whole.

        x_t = argmin <x, private sum of the losses so far + sigma_t z>

    Requires   losses as for `FTRL`, fixed in advance (for the regret, not for privacy).
    Guarantee  (epsilon, delta), central: decisions are post-processing of `PrefixSum` and of z,
               which does not depend on the data.

    >>> from discreet.domains import Simplex
    >>> from discreet.privacy import SeededNoise
    >>> learner = FTPL(Simplex(3), 2000, 1.0, 1e-6, seed=0, noise=SeededNoise(0))
    >>> X = learner.run(np.tile([0.2, 0.9, 0.9], (1000, 1)))
    >>> learner.decide()
    array([1., 0., 0.])
    """

    _reference = "Agarwal and Singh (2017), Algorithm 3"

    def _prepare(self) -> None:
        self._start, self._sigmas = -1, np.empty(0)
        self._needed = self.loss_bound * _unit_deviation(self.domain)
        self._direction = np.random.default_rng(self.seed).standard_normal(self.domain.dim)

    def perturbation(self, t: Any) -> Any:
        """sigma_t: what the privacy noise in the sum of t - 1 losses lacks, t = 1, 2, ..."""
        needed = self._needed**2 * np.asarray(t, dtype=np.float64)
        held = np.asarray(self._sums.deviation(np.maximum(np.asarray(t) - 1, 1)))
        return np.sqrt(np.maximum(needed - np.where(np.asarray(t) > 1, held, 0.0) ** 2, 0.0))

    def _leader(self, total: Array, t: Any) -> Array:
        sigma = self._one(t) if isinstance(t, int) else self.perturbation(t)
        return self.domain.linear_minimizer(total + sigma * self._direction)

    def _one(self, t: int) -> float:
        """`perturbation(t)`, computed for many rounds at once."""
        start = t - t % _BLOCK
        if start != self._start:
            rounds = np.arange(max(start, 1), min(start + _BLOCK, self.horizon + 2))
            self._start, self._sigmas = start, self.perturbation(rounds)
        return float(self._sigmas[t - max(start, 1)])

    def state_dict(self) -> dict[str, Any]:
        """What `load_state_dict` goes on from: as secret as the state of `PrefixSum`."""
        return {**super().state_dict(), "direction": self._direction.copy()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from a saved state; one that is older than this learner is refused."""
        expect(state, format=1, kind="FTPL")
        direction = np.array(state["direction"], dtype=np.float64)
        super().load_state_dict(state)
        self._direction = direction


def _unit_deviation(domain: Domain) -> float:
    """The deviation that balances the regret at t = 1, for losses of unit size.

    Noise of deviation s costs s E max <z, x>, its steps cost (sum |l|^2) h/(2 s) with h/s the
    curvature of E max <L + s z, x>. Ball: sqrt(n) s and h = n^-1/2; cube: n s sqrt(2/pi) and
    h = sqrt(2/pi), both 1/sqrt(2 n). Any domain: |X| n^1/2 s and h = |X|, so n^-1/4/sqrt(2)
    (Theorem 3.5). Simplex: constants measured in benchmarks/online.py.
    """
    if domain.loss_set == "box":
        return 0.3
    round_ = type(domain).__name__ in ("Ball", "Cube")
    return math.sqrt(1 / (2 * domain.dim)) if round_ else domain.dim**-0.25 / math.sqrt(2)
