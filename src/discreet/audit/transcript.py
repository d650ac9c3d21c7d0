"""The strongest attack on a learner with Gaussian releases: the likelihood of all it released.

A learner is a chain: every release is a function of the rows and of what was released before, plus
noise. Whoever knows both candidate data sets can compute, for each, what every release would have
been before its noise, given the releases that were seen. With v the values seen, a0 and a1 those
centres and s the noise,

    log-likelihood ratio = sum over releases of (|v - a0|^2 - |v - a1|^2) / (2 s^2)

and by Neyman and Pearson no score of the releases is better. The learner runs twice: once on the
true data with real noise (`Tapped`), once on the other data with the same releases (`Forced`).
Both are ordinary noise sources: the learner's code runs as it is.
"""

import math
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np

from discreet.arrays import Array
from discreet.privacy import SeededNoise
from discreet.privacy.noise import Noise, Size


class Seen(NamedTuple):
    """One release."""

    centre: Array  # before the noise
    value: Array  # that was released
    scale: float  # of the noise


class _Draw:
    """Noise that notices what it is added to: `centre + draw` is the release."""

    __array_ufunc__ = None  # arrays leave the addition to us

    def __init__(self, source: "Tapped", scale: float, drawn: Array) -> None:
        self._source = source
        self._scale = scale
        self._drawn = drawn

    def __radd__(self, centre: Array) -> Array:
        return self._source.released(np.asarray(centre), self._scale, self._drawn)


class Enough(Exception):  # noqa: N818 - not an error
    """The releases that concern the canary have been made; what follows cannot depend on it."""


class Tapped(SeededNoise):
    """Real noise; keeps a record of every Gaussian release that a mechanism makes with it.

    After `limit` releases the run is cut short: rows of later batches are not the canary's.
    """

    def __init__(self, noise: Noise, limit: int | None = None) -> None:
        self._noise = noise
        self._limit = limit
        self.seen = list[Seen]()

    def released(self, centre: Array, scale: float, drawn: Array) -> Array:
        """The release, as the mechanism would have computed it."""
        value = np.asarray(centre + drawn)
        self.seen.append(Seen(centre.copy(), value.copy(), scale))
        return value

    def gaussian(self, std: float, size: Size, spacing: float = 0.0) -> Any:
        if self._limit is not None and len(self.seen) >= self._limit:
            raise Enough
        return _Draw(self, std, self._noise.gaussian(std, size, spacing))

    def spawn(self, count: int) -> list[Any]:
        return [self] * count  # all parts of a learner draw here

    def state(self) -> str:
        return ""

    def uniform(self, size: Size) -> Array:
        return self._noise.uniform(size)

    def normal(self, size: Size) -> Array:
        return self._noise.normal(size)


class Forced(Tapped):
    """The releases of another run, whatever the data: only the centres are this run's own."""

    def __init__(self, script: list[Seen]) -> None:
        self._script = script
        self.seen = list[Seen]()

    def released(self, centre: Array, scale: float, drawn: Array) -> Array:
        """The value that was seen in the other run."""
        value = drawn.reshape(centre.shape)
        self.seen.append(Seen(centre.copy(), value, scale))
        if len(self.seen) == len(self._script):
            raise Enough  # what follows the last release is the same in both neighbours
        return value.copy()

    def gaussian(self, std: float, size: Size, spacing: float = 0.0) -> Any:
        return _Draw(self, std, self._script[len(self.seen)].value)

    def uniform(self, size: Size) -> Array:
        """Selections are not in the script: only for choices that do not matter."""
        return np.full(size, 0.5)


class Compared(NamedTuple):
    """The releases of one run, with the centres of the true data and those of its neighbour."""

    neighbour: int  # the true one
    here: list[Seen]  # with the centres of the true data
    there: list[Seen]  # with those of the other
    outcome: Any  # what the run in the true neighbour returned; None if it was cut short

    @property
    def log_ratio(self) -> float:
        """log p(releases | neighbour 1) - log p(releases | neighbour 0)."""
        # A scale that depends on the data would itself be a release: compared by its density.
        pairs = zip(self.here, self.there, strict=True)
        ratio = sum(_log_density(mine) - _log_density(other) for mine, other in pairs)
        return ratio if self.neighbour else -ratio

    @property
    def mu(self) -> float:
        """How far apart the neighbours were in this run: the root of sum |a0 - a1|^2 / s^2.

        The best attack tells them apart as two normal laws this many deviations apart. Against
        the mu that was promised it says how tight a pair is, without counting attacks.
        """
        pairs = zip(self.here, self.there, strict=True)
        return math.sqrt(sum(_squared(a.centre - b.centre) / a.scale**2 for a, b in pairs))


def compare(
    run: Callable[[int, Noise], Any], neighbour: int, noise: Noise, limit: int | None = None
) -> Compared:
    """One run of `run(neighbour, noise)`, and its releases as the other data explain them."""
    here = Tapped(noise, limit)
    outcome = None
    with suppress(Enough):
        outcome = run(neighbour, here)
    there = Forced(here.seen)
    if here.seen:
        with suppress(Enough):
            run(1 - neighbour, there)
    if len(here.seen) != len(there.seen) or not here.seen:
        raise ValueError("expected the same releases, at least one, whatever the data")
    return Compared(neighbour, here.seen, there.seen, outcome)


def _squared(x: Array) -> float:
    return float(np.sum(x * x))


def _log_density(seen: Seen) -> float:
    z = (seen.value - seen.centre) / seen.scale
    return -0.5 * _squared(z) - z.size * math.log(seen.scale)
