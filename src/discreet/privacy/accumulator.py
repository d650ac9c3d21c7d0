"""A sum that holds its noise from the start: what a thief finds in memory is already private."""

import math

import numpy as np

from discreet.arrays import Array, integer, positive
from discreet.privacy.noise import Noise, source, to_lattice
from discreet.privacy.observation import observe
from discreet.privacy.release import Release
from discreet.state import Stateful

_MOST = 2.0**26  # terms of norm 1 whose sum stays exact under SecureNoise


class NoisySum(Stateful):
    """N(0, s^2 I) plus terms added one by one; `value` may be published once, s = sensitivity / mu.

    Requires   one person's terms together move the sum by at most `sensitivity` in l2, and come
               in at most `contributions` calls of `add`.
    Guarantee  `value` is mu-GDP. One stolen snapshot of the running sum is too, by itself; a
               snapshot together with the value gives the exact difference.

    The noise is drawn when the sum is made. Nothing is booked: whoever makes a sum books its
    `release` in the same step in which the sum comes to be used (`Ledger.including`); one that is
    dropped before has cost nothing.

    what, scope   name the release and the rows that it saw

    dim             length of the sum
    sensitivity     l2 distance by which one person's terms move the sum
    mu              the cost of publishing `value`; inf for no noise
    noise           source of the noise
    contributions   calls of `add` in which one person may take part

    >>> from discreet.privacy import SeededNoise
    >>> total = NoisySum(2, sensitivity=2.0, mu=0.5, noise=SeededNoise(0))
    >>> total.add(np.array([1.0, 0.0])); total.add(np.array([0.0, 1.0]))
    >>> total.release.scale
    4.0
    """

    # All of it, so that a state can be resumed where no sum like it is open.
    _state = (
        "dim",
        "sensitivity",
        "mu",
        "noise",
        "what",
        "scope",
        "contributions",
        "release",
        "value",
        "_spacing",
    )

    def __init__(
        self,
        dim: int,
        *,
        sensitivity: float,
        mu: float,
        noise: Noise | None = None,
        what: str = "sum",
        scope: str | None = None,
        contributions: int = 1,
    ) -> None:
        self.dim = integer("dim", dim)
        self.sensitivity = positive("sensitivity", sensitivity)
        self.mu = positive("mu", mu, allow_inf=True)
        self.noise = source(noise)
        self.what = what
        self.scope = scope
        self.contributions = integer("contributions", contributions)
        self._spacing = self.noise.spacing("gaussian", self.sensitivity / self.mu, largest=_MOST)
        # Each call of `add` that one person is in is rounded to the lattice: for two neighbouring
        # inputs that is one spacing more per coordinate, sqrt(2) for a term that changes sums.
        moved = self.sensitivity + self._spacing * math.sqrt(2 * self.dim) * self.contributions
        scale = moved / self.mu
        self.release = Release.gaussian(
            sensitivity=moved,
            scale=scale,
            what=what,
            sampler=self.noise.sampler("gaussian"),
            scope=scope,
        )
        drawn = self.noise.gaussian(scale, dim, self._spacing) if scale else np.zeros(dim)
        self.value = drawn

    def add(self, term: Array) -> None:  # (dim,)
        """Add one term, or the sum of several."""
        rounded = to_lattice(term, self._spacing) if self._spacing else term
        with self._live:
            self.value = self.value + rounded  # in one assignment

    def publish(self) -> Array:  # (dim,)
        """The value, to be shown: once. Drop the sum in the same step."""
        observe("release", self.value, self.release)
        return self.value
