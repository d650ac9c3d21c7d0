"""Gradient descent without gradients: the plain algorithm inside `ProjectionFreeBandit`.

    paper   T_batch     zeta          x~_R          u_t             eta
    here    self.size   self.radius   self.centre   aim.direction   self.rate

Ene, Nguyen and Vladu (2021), Algorithm 1 without its sums, after Flaxman, Kalai and McMahan (2004).
"""

import json
import math
from typing import Any, NamedTuple

import numpy as np

from discreet.domains import Domain
from discreet.domains.conditional_gradient import nearest_point
from discreet.online import restore
from discreet.privacy.checks import Array

SMOOTH = 0.4  # how far the smoothed sum goes towards the newest one; tuned with the rate


class Aim(NamedTuple):
    """A point to play, and what turns its loss into an estimate of the gradient."""

    point: Array  # (n,)
    direction: Array  # (m,), unit length, in the coordinates of the affine hull
    baseline: float  # what is subtracted from the loss


class SmoothedDescent:
    """The plain algorithm: dual averaging on a smoothed sum of gradients. Not private.

    `move(total, baseline)` places the centre for the next batch; `aim(i)` is its i-th point.
    """

    def __init__(
        self,
        domain: Domain,
        *,
        rate: float,
        radius: float,
        size: int,
        gap: float,
        baseline: float,
        shrink: bool,
        directions: str,
        seed: int | None,
    ) -> None:
        self.domain, self.rate, self.radius, self.size = domain, rate, radius, size
        self.gap, self.directions = gap, directions
        self.basis = domain.affine_hull.basis
        self.dim = self.basis.shape[1]
        self.origin = domain.interior_point
        # x_0 + inside (x - x_0) + zeta u mixes x with a point x_0 + r u of the ball around x_0.
        self.inside = 1 - radius / domain.inner_radius if shrink else 1.0
        self.centre, self.baseline = self.origin.copy(), baseline  # centre: before `inside`
        self.oracle_calls = 0
        self._smooth = np.zeros(self.dim)
        self._coins = np.random.default_rng(seed)
        self._before = self._coins.bit_generator.state  # of the coins of the batch at hand
        self._units, self._points = np.empty((0, self.dim)), np.empty((0, domain.dim))

    def move(self, total: Array, baseline: float) -> None:
        """The centre nearest to x_0 - rate * smoothed total: it minimises (Algorithm 1, line 14).

        With shrinking, the nearest point of the smaller set: in coordinates of the domain the
        step is longer by 1/inside.
        """
        self._smooth = self._smooth + SMOOTH * (total - self._smooth)
        target = self.origin - (self.rate / self.inside) * (self.basis @ self._smooth)
        found = nearest_point(
            self.domain, target, self.centre, gap=self.gap, max_calls=max(self.size, 10)
        )
        self.centre, self.baseline = found.point, baseline
        self.oracle_calls += found.calls

    def aim(self, i: int) -> Aim:
        """The i-th point of the batch; the first one draws all its directions."""
        if i == 0:
            self._before = self._coins.bit_generator.state
            self._draw()
        return Aim(self._points[i], self._units[i], self.baseline)

    def _draw(self) -> None:
        m = self.dim
        if self.directions == "frames":
            raw = self._coins.standard_normal((-(-self.size // (2 * m)), m, m))
            q, r = np.linalg.qr(raw)
            # Columns with the sign of r's diagonal are uniform on the orthogonal group.
            columns = np.swapaxes(q * np.sign(np.einsum("kii->ki", r))[:, None, :], 1, 2)
            units = np.stack([columns, -columns], axis=2).reshape(-1, m)[: self.size]
        else:
            units = self._coins.standard_normal((self.size, m))
            units /= np.sqrt(np.einsum("ij,ij->i", units, units))[:, None]
        units.flags.writeable = False
        middle = self.origin + self.inside * (self.centre - self.origin)
        self._units, self._points = units, middle + self.radius * (units @ self.basis.T)
        self._points.flags.writeable = False

    def pack(self, aim: Aim) -> Array:
        """Point, direction and baseline in a row."""
        return np.concatenate([aim.point, aim.direction, [aim.baseline]])

    def unpack(self, numbers: Array) -> Aim:
        """What `pack` wrote. A direction is a unit vector: what a loss can change rests on that."""
        n, row = self.domain.dim, np.array(numbers)
        if row.shape != (n + self.dim + 1,):
            raise ValueError(f"expected {n + self.dim + 1} numbers")
        error = abs(float(np.linalg.norm(row[n:-1])) - 1)
        if not error <= 1e-9:
            raise ValueError("a direction has length 1")
        if error > 1e-14:  # what was packed comes back bit by bit
            row[n:-1] /= np.linalg.norm(row[n:-1])
        row.flags.writeable = False
        return Aim(row[:n], row[n:-1], float(row[-1]))

    def state_dict(self) -> dict[str, Any]:
        """Centre, smoothed sum and the coins from which the batch at hand was drawn."""
        return {
            "centre": self.centre.copy(),
            "baseline": self.baseline,
            "smooth": self._smooth.copy(),
            "calls": self.oracle_calls,
            "coins": json.dumps(self._before),
            "drawn": bool(len(self._units)),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from `state_dict`: the directions of the batch at hand are drawn again."""
        centre = restore.array(state, "centre", self.centre.shape)
        smooth = restore.array(state, "smooth", (self.dim,))
        baseline = float(restore.array(state, "baseline", ()))
        calls, coins = restore.count(state, "calls", math.inf), np.random.default_rng()
        try:
            coins.bit_generator.state = before = json.loads(state["coins"])
        except (KeyError, TypeError, ValueError, OverflowError):
            raise restore.damaged("coins") from None
        if not isinstance(state.get("drawn"), bool):
            raise restore.damaged("drawn")
        self._coins, self._before = coins, before
        self.centre, self._smooth, self.baseline = centre, smooth, baseline
        self.oracle_calls = calls
        if state["drawn"]:
            self._draw()
