"""Gradient descent without gradients: the plain algorithm inside `ProjectionFreeBandit`.

    paper   T_batch     zeta          x~_R          u_t             eta
    here    self.size   self.radius   self.centre   aim.direction   self.rate

Ene, Nguyen and Vladu (2021), Algorithm 1 without its sums, after Flaxman, Kalai and McMahan (2004).

The rate balances the two terms of the bound of dual averaging, D^2/(2 eta) and eta/2 times the sum
of squared steps of s. Those steps are nearly all chance, the same in all n directions and
independent of the losses to come, and chance costs regret only along the gradient of the round:
that is one direction of n, hence

    eta = D/sqrt(2 V),    V = (sum of squared steps, all of them by the mean so far)/n

of steps as released, less what noise adds to the squares of steps, plus what it adds to s itself.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from discreet.arrays import Array, finite
from discreet.domains import Domain
from discreet.domains.conditional_gradient import nearest_point
from discreet.state import Stateful, damaged, value


@value
@dataclass(frozen=True, slots=True)
class Steps:
    """What the rate is computed from, before anything is released: public."""

    reach: float  # D
    count: int  # steps of s, in all
    step_noise: float  # variance of the noise in an entry of a step of s
    sum_noise: float  # variance of the noise in an entry of s, in the end

    def rate(self, moment: float, done: int, dim: int) -> float:
        """eta after `done` steps whose squares add up to `moment`."""
        chance = max(moment / (done * dim) - self.step_noise, 0.0)
        V = max(self.count * chance + self.sum_noise, math.ulp(0.0))  # any rate, if s never moved
        return self.reach / math.sqrt(2 * V)


@value
@dataclass(frozen=True, eq=False, slots=True)
class Aim:
    """A point to play, and what turns its loss into an estimate of the gradient."""

    point: Array  # (n,)
    direction: Array  # (m,), unit length, in the coordinates of the affine hull
    baseline: float  # what is subtracted from the loss


class SmoothedDescent(Stateful):
    """The plain algorithm: dual averaging on a smoothed sum of gradients. Not private.

    `move(total, baseline)` places the centre and draws the directions of the next batch, `stay()`
    only draws them; `aim(i)` is the i-th point of the batch.

    radius     zeta: how far points are from the centre
    size       rounds in a batch
    gap        how exactly the nearest point is found
    baseline   the first one
    shrink     whether points stay in the domain
    seed       of the directions: as many numbers for each batch, whatever happens
    """

    _state = (
        "batch",
        "centre",
        "baseline",
        "oracle_calls",
        "_smooth",
        "_last",
        "_moment",
        "_moves",
        "_rng",
        "_before",
    )

    def __init__(
        self,
        domain: Domain,
        *,
        steps: Steps,
        radius: float,
        size: int,
        gap: float,
        baseline: float,
        shrink: bool,
        seed: int | None,
    ) -> None:
        self.domain = domain
        self.steps = steps
        self.radius = radius
        self.size = size
        self.gap = gap
        self.shrink = shrink
        self.seed = seed
        self.basis = domain.affine_hull.basis
        self.dim = self.basis.shape[1]
        self.origin = domain.interior_point
        # x_0 + inside (x - x_0) + zeta u mixes x with a point x_0 + r u of the ball around x_0.
        self.inside = 1 - radius / domain.inner_radius if shrink else 1.0
        self.batch = -1  # the one whose directions are drawn
        self.centre = self.origin.copy()  # before `inside`
        self.baseline = baseline
        self.oracle_calls = 0
        self._smooth = np.zeros(self.dim)
        self._last = np.zeros(self.dim)  # the last released sum,
        self._moment = 0.0  # and the sum of the squared steps so far
        self._moves = 0
        self._rng = np.random.default_rng(seed)
        self._before = np.random.default_rng(seed)  # `_rng` before it drew the batch at hand
        self._units = np.empty((0, self.dim))
        self._points = np.empty((0, domain.dim))

    def move(self, total: Array, baseline: float) -> None:
        """The centre nearest to x_0 - rate * smoothed total: it minimises (Algorithm 1, line 14).

        With shrinking, the nearest point of the smaller set: in coordinates of the domain the
        step is longer by 1/inside.
        """
        smooth = self._smooth + 0.4 * (total - self._smooth)  # .4 is tuned
        step = total - self._last
        moment = self._moment + float(step.dot(step))
        rate = self.steps.rate(moment, self._moves + 1, self.dim)
        target = self.origin - (rate / self.inside) * (self.basis @ smooth)
        found = nearest_point(
            self.domain, target, self.centre, gap=self.gap, max_calls=max(self.size, 10)
        )
        self._draw(
            centre=found.point,
            baseline=baseline,
            oracle_calls=self.oracle_calls + found.calls,
            _smooth=smooth,
            _last=total,
            _moment=moment,
            _moves=self._moves + 1,
        )

    @property
    def rate(self) -> float:
        return self.steps.rate(self._moment, max(self._moves, 1), self.dim)

    def stay(self) -> None:
        """One more batch around the same centre."""
        self._draw(centre=self.centre)

    def aim(self, i: int) -> Aim:
        return Aim(self._points[i], self._units[i], self.baseline)

    def choice(self, record: dict[str, Any]) -> Aim:
        """The aim of a decision record. What a loss can change rests on |direction| = 1."""
        point, direction = (finite(name, record[name]) for name in ("point", "direction"))
        if point.shape != (self.domain.dim,) or direction.shape != (self.dim,):
            raise ValueError(f"expected {self.domain.dim} and {self.dim} coordinates")
        length = float(np.linalg.norm(direction))
        if not abs(length - 1) <= 1e-9:
            raise ValueError("a direction has length 1")
        if abs(length - 1) > 1e-14:  # what was saved comes back bit by bit
            direction = direction / length
        baseline = float(finite("baseline", [record["baseline"]])[0])
        for shown in (point, direction):
            shown.flags.writeable = False
        return Aim(point, direction, baseline)

    def _draw(self, *, centre: Array, **changes: Any) -> None:
        """The directions of the next batch; all that changes with it, in one step."""
        before = self._rng
        after = _copied(before)
        units = self._drawn(after)
        self._commit(
            batch=self.batch + 1,
            centre=centre,
            _units=units,
            _points=self._around(centre, units),
            _rng=after,
            _before=before,
            **changes,
        )

    def _drawn(self, rng: np.random.Generator) -> Array:  # (size, m), rows of length 1
        units = rng.standard_normal((self.size, self.dim))
        units /= np.sqrt(np.einsum("ij,ij->i", units, units))[:, None]
        units.flags.writeable = False
        return units

    def _around(self, centre: Array, units: Array) -> Array:  # (n,), (size, m) -> (size, n)
        middle = self.origin + self.inside * (centre - self.origin)
        points = np.asarray(middle + self.radius * (units @ self.basis.T))
        points.flags.writeable = False
        return points

    def _validate(self) -> None:
        """The directions of the batch at hand are not saved: they are drawn again."""
        if self.batch < -1 or self.oracle_calls < 0 or not 0 <= self._moves <= self.batch + 1:
            raise damaged("batch")
        if self.batch >= 0:
            self._units = self._drawn(_copied(self._before))
            self._points = self._around(self.centre, self._units)


def _copied(rng: np.random.Generator) -> np.random.Generator:
    """A generator at the same place."""
    after = np.random.default_rng()
    after.bit_generator.state = rng.bit_generator.state
    return after
