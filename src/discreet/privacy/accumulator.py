"""A sum that holds its noise from the start: what a thief finds in memory is already private."""

import json
import math
from typing import Any

import numpy as np

from discreet.privacy.checks import Array, positive, whole
from discreet.privacy.ledger import Ledger
from discreet.privacy.noise import Noise, source, to_lattice
from discreet.privacy.release import Release

_MOST = 2.0**26  # terms of norm 1 whose sum stays exact under SecureNoise


class NoisySum:
    """N(0, s^2 I) plus terms added one by one; `value` may be published once, s = sensitivity / mu.

    Requires   one person's terms together move the sum by at most `sensitivity` in l2.
    Guarantee  `value` is mu-GDP. One stolen snapshot of the running sum is too, by itself; a
               snapshot together with the value gives the exact difference.

    >>> from discreet.privacy import SeededNoise
    >>> total = NoisySum(2, sensitivity=2.0, mu=0.5, noise=SeededNoise(0))
    >>> total.add(np.array([1.0, 0.0])); total.add(np.array([0.0, 1.0]))
    >>> total.release.scale
    4.0
    """

    def __init__(
        self,
        dim: int,
        *,
        sensitivity: float,
        mu: float,
        noise: Noise | None = None,
        ledger: Ledger | None = None,
        what: str = "sum",
        scope: str | None = None,
    ) -> None:
        noise, dim = source(noise), whole("dim", dim)
        sensitivity, mu = positive("sensitivity", sensitivity), positive("mu", mu, allow_inf=True)
        self._spacing = noise.spacing("gaussian", sensitivity / mu, largest=_MOST)
        # Each call of `add` that one person is in is rounded to the lattice: for two neighbouring
        # inputs that is one spacing more per coordinate, sqrt(2) for a term that changes sums.
        calls = ledger.budget.contributions if ledger is not None else 1
        sensitivity += self._spacing * math.sqrt(2 * dim) * calls
        self.release = Release.gaussian(
            sensitivity=sensitivity,
            scale=sensitivity / mu,
            what=what,
            sampler=noise.sampler("gaussian"),
            scope=scope,
        )
        if ledger is not None:
            ledger.spend(self.release)
        scale = self.release.scale
        self.value = noise.gaussian(scale, dim, self._spacing) if scale else np.zeros(dim)

    def state(self) -> dict[str, Any]:
        """The noisy sum and its record, as arrays and plain scalars."""
        record = json.dumps(self.release.to_dict())
        return {"value": self.value.copy(), "spacing": self._spacing, "release": record}

    @classmethod
    def restored(cls, state: dict[str, Any]) -> "NoisySum":
        """Go on from `state()`: nothing is drawn again, nothing is spent again."""
        total = cls.__new__(cls)
        total.value, total._spacing = np.array(state["value"]), float(state["spacing"])
        total.release = Release.from_dict(json.loads(state["release"]))
        return total

    def add(self, term: Array) -> None:  # (dim,)
        """Add one term, or the sum of several."""
        self.value += to_lattice(term, self._spacing) if self._spacing else term
