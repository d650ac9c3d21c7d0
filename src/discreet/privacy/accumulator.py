"""Sums with noise: one that is published once, and what those published every round share."""

import math
from abc import abstractmethod
from typing import Any

import numpy as np

from discreet.arrays import Array, finite, integer, positive
from discreet.privacy.noise import Noise, source, to_lattice
from discreet.privacy.release import Release, observe
from discreet.state import Stateful, damaged


class NoisySum(Stateful):
    """N(0, s^2 I) plus terms added one by one, published once, s = sensitivity / mu.

    It holds its noise from the start: what a thief finds in memory is already private.

    Requires   one person's terms together move the sum by at most `sensitivity` in l2, and come
               in at most `contributions` calls of `add`; a neighbour's may come in other calls.
    Guarantee  what `publish` returns is mu-GDP. It ends the sum: nothing can be added afterwards,
               and `publish` returns the same value again. One stolen snapshot of the running sum is
               private too, by itself; a snapshot together with the value gives the exact
               difference.

    The noise is drawn when the sum is made. Nothing is booked: whoever makes a sum books its
    `release` in the same step in which the sum comes to be used (`Ledger._including`); one that is
    dropped before has cost nothing.

    what, scope   name the release and the rows that it saw

    sensitivity     l2 distance by which one person's terms move the sum
    mu              the cost of publishing the sum; inf for no noise
    contributions   calls of `add` in which one person may take part

    >>> from discreet.privacy import SeededNoise
    >>> total = NoisySum(2, sensitivity=2.0, mu=0.5, noise=SeededNoise(0))
    >>> total.add(np.array([1.0, 0.0])); total.add(np.array([0.0, 1.0]))
    >>> total.release.scale
    4.0
    >>> once = total.publish()
    >>> bool((total.publish() == once).all())
    True
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
        "_value",
        "_published",
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
        # Sums of up to 2^26 terms of norm 1 stay exact.
        scale = self.sensitivity / self.mu
        self._spacing = self.noise.spacing("gaussian", scale, largest=2.0**26)
        # Each call of `add` is rounded to the lattice: one that is not the same for two neighbours
        # adds one spacing per coordinate. A term that changes places changes two calls: of one sum,
        # 2 sqrt(dim); or of two sums, whose noise is independent, sqrt(2 dim).
        moved = self.sensitivity + self._spacing * 2 * math.sqrt(self.dim) * self.contributions
        scale = moved / self.mu
        self.release = Release.gaussian(
            sensitivity=moved,
            scale=scale,
            what=what,
            sampler=self.noise.sampler("gaussian"),
            scope=scope,
        )
        drawn = self.noise.gaussian(scale, dim, self._spacing) if scale else np.zeros(dim)
        self._value = drawn
        self._published = False

    def add(self, term: Array) -> None:  # (dim,)
        """Add one term, or the sum of several; refused once the sum was published."""
        with self._live:
            self._add(self._checked(term))

    def _add(self, term: Array) -> None:
        """`add` of floats of the right shape, for an owner who holds a guard of its own."""
        if self._published:
            raise ValueError(
                "this sum was published: another value with the same noise would give the "
                "exact difference; add to a new NoisySum"
            )
        self._value = self._plus(term)  # in one assignment

    def publish(self, last: Array | None = None) -> Array:  # (dim,)
        """The value, to be shown, and the end of the sum; `last` is added in the same step.

        Asked again, it is the same value.
        """
        with self._live:
            if not self._published:
                value = self._value if last is None else self._plus(self._checked(last))
                self._commit(_value=value, _published=True)
            observe("release", self._value, self.release)
            return self._value.copy()

    def _checked(self, term: Array) -> Array:
        term = finite("a term", term)
        if term.shape != (self.dim,):
            raise ValueError(f"a term must have shape ({self.dim},), got {term.shape}")
        return term

    def _plus(self, term: Array) -> Array:
        return (to_lattice(term, self._spacing) if self._spacing else term) + self._value


class RunningSum(Stateful):
    """The noisy sum of the rounds so far, after every round: what the mechanisms share.

    A round is taken in whole or not at all: what a failed draw leaves behind is noise that nobody
    uses, and all changes are one step.
    """

    def __init__(self, horizon: int, dim: int) -> None:
        self.horizon = horizon
        self.dim = dim
        self.rounds = 0
        self.estimate = np.zeros(dim)

    def add(self, x: Array) -> Array:
        estimate, changes = self._advanced(x)
        self._commit(rounds=self.rounds + 1, estimate=estimate, **changes)
        return estimate

    def add_many(self, X: Array) -> Array:  # (n, dim) -> (n, dim)
        """n rounds at once: the same sums as n calls of `add`."""
        if not len(X):
            return np.empty_like(X)
        sums, changes = self._advanced_by(X)
        self._commit(rounds=self.rounds + len(X), estimate=sums[-1].copy(), **changes)
        return sums

    @abstractmethod
    def _advanced(self, x: Array) -> tuple[Array, dict[str, Any]]:
        """The next noisy sum, and what else changes with it; changes nothing yet."""

    @abstractmethod
    def _advanced_by(self, X: Array) -> tuple[Array, dict[str, Any]]:
        """`_advanced` for n > 0 rounds, and all n sums."""

    def _validate(self) -> None:
        if not 0 <= self.rounds <= self.horizon:
            raise damaged("rounds")
