"""Loss sequences for convex bandits: play a point of a domain, see one number.

They are fixed before the first round (an oblivious adversary), convex, and 1-Lipschitz in l2. A
learner may play up to `margin` outside the domain, within its affine hull; `loss_range(margin)`
says where losses lie then.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from discreet.arrays import Array, integer, one_of
from discreet.domains import Domain

NAMES = ("absolute", "linear")
_SLOPES = 256  # different slopes; each takes two calls of the linear minimiser


@dataclass(frozen=True)
class ConvexLosses:
    """f_t(x) = |<slope_t, x> - offset_t|, or <slope_t, x> - offset_t; slopes have length 1.

    `best` is the comparator of regret, a point of the domain.
    """

    name: str  # for tables
    best: Array  # (n,)
    slopes: Array  # (k, n)
    which: NDArray[np.intp]  # (rounds,), the row of `slopes` of each round
    offsets: Array  # (rounds,)
    bounds: tuple[float, float]  # on the losses of points of the domain

    @property
    def rounds(self) -> int:
        """How many losses there are."""
        return len(self.which)

    def loss_range(self, margin: float) -> tuple[float, float]:
        """Bounds for the losses of points that are at most `margin` outside the domain."""
        low, high = self.bounds
        return (low if self.name == "absolute" else low - margin), high + margin

    def loss(self, t: int, x: Array) -> float:
        """f_t(x), t = 0, 1, ..."""
        value = float(self.slopes[self.which[t]].dot(x)) - float(self.offsets[t])
        return abs(value) if self.name == "absolute" else value

    def losses(self, points: Array) -> Array:  # (rounds, n) or (n,) -> (rounds,)
        """The losses of a point for each round, or of one point in all rounds."""
        if points.ndim == 1:
            values = (self.slopes @ points)[self.which] - self.offsets
        else:
            values = np.einsum("ij,ij->i", self.slopes[self.which], points) - self.offsets
        return np.abs(values) if self.name == "absolute" else values

    def regret(self, points: Array) -> float:  # (rounds, n) or (n,)
        """What the points lost beyond `best`."""
        return float(self.losses(points).sum() - self.losses(self.best).sum())


def convex_losses(
    name: str,
    domain: Domain,
    rounds: int,
    *,
    noise: float = 0.1,
    drift: float = 1.0,
    seed: int,
) -> ConvexLosses:
    """A sequence by name; the seed decides its draws. Slopes are drawn from 256 directions.

    absolute  median regression, |<a_t, x> - y_t|: y_t is <a_t, vertex> for one vertex drawn at
              random, plus Gaussian noise of std `noise` times the diameter, clipped to the
              values that <a_t, x> takes on the domain. That vertex has the least expected loss;
              the best point in hindsight gains a few units on it, whatever the horizon.
    linear    <a_t, x - interior_point>: random directions, pulled by `drift` to one of them;
              `best` is the best point in hindsight.

    >>> from discreet.domains import Simplex
    >>> world = convex_losses("linear", Simplex(3), 500, seed=0)
    >>> world.regret(world.best), world.regret(Simplex(3).interior_point) > 10
    (0.0, True)
    """
    one_of("name", name, NAMES)
    T = integer("rounds", rounds)
    if not (0 <= noise < np.inf and 0 <= drift < np.inf):
        raise ValueError(f"noise and drift must not be negative, got {noise!r}, {drift!r}")
    rng = np.random.default_rng([integer("seed", seed, least=0), 0x636F6E76])
    basis = domain.affine_hull.basis
    m = int(basis.shape[1])
    raw = rng.standard_normal((_SLOPES, m))
    if name == "linear":
        pull = rng.standard_normal(m)
        raw += drift * np.sqrt(m) * pull / np.linalg.norm(pull)
    slopes = raw @ basis.T
    slopes /= np.linalg.norm(slopes, axis=1, keepdims=True)
    low, high = (
        np.array([row @ domain.linear_minimizer(sign * row) for row in slopes]) for sign in (1, -1)
    )
    which = rng.integers(_SLOPES, size=T)
    if name == "linear":
        best = domain.linear_minimizer(np.bincount(which, minlength=_SLOPES) @ slopes)
        middle = slopes @ domain.interior_point
        bounds = (float((low - middle).min()), float((high - middle).max()))
        return ConvexLosses(name, best, slopes, which, middle[which], bounds)
    best = domain.linear_minimizer(rng.standard_normal(domain.dim))
    answers = (slopes @ best)[which] + noise * domain.diameter() * rng.standard_normal(T)
    answers = np.clip(answers, low[which], high[which])
    return ConvexLosses(name, best, slopes, which, answers, (0.0, float((high - low).max())))
