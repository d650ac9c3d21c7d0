"""One sparse parameter for each arm, learned in private: what `SparseBandit` knows about its arms.

    paper (Han et al. 2022, Algorithm 3)   theta_{t,i}     I_i                     zeta
    here                                   theta[i]        the sums of arm i       `Link`

A row enters the sums of the arm that was chosen; the others get the zero row, whose gradient is
zero. So replacing one person changes

    one arm     by the difference of two terms, each at most `clip` in size: 2 clip
    two arms    by one term each, if the replacement chooses another arm: clip and clip

in each entry of the sums. Selections cost rho in the square of the move, so the second costs
2 (1/2)^2 = 1/2 of the first, and a budget for the first pays for both. When arms release is a
function of the round alone: if an arm released only after it was chosen, the choice itself, which
depends on the person's context, would show.
"""

import json
import math
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from discreet.domains import LpBall
from discreet.links import Link
from discreet.online.restore import array, count
from discreet.privacy import Budget, Guarantee
from discreet.privacy.checks import Array
from discreet.privacy.ledger import Ledger
from discreet.privacy.mechanisms import gaussian
from discreet.privacy.noise import Noise, SeededNoise
from discreet.privacy.release import Release

# Tuned in simulation (benchmarks/convex_sparse.py: d = 10^4, 5 arms, T = 20,000, epsilon = 1).
GROWTH = 1.5  # each window is so much longer than the last
SELECTING = 0.8  # share of the budget that selects entries; the rest measures them
SIGNAL = 0.2  # what an entry worth finding adds to its sum in each row, in units of the clip
MOST = 32  # entries that one arm changes in one window
CURVATURE = 0.5  # weight of the curvatures in the measurement, in units of the clip
FLATTEST = 0.25  # least curvature that is believed, as a share of the largest
FAR = 2.0  # a step so many times too long makes things worse


class Arms(Protocol):
    """Parameters of all arms; `theta` is released, all else is private."""

    theta: Array  # (arms, dim)

    @property
    def guarantee(self) -> Guarantee:
        """The promise for the whole sequence of thetas."""

    def take(self, arm: int, x: Array, reward: float) -> None:
        """Add one row to the sums of its arm."""

    def advance(self, t: int) -> None:
        """Round t = 1, 2, ... is over; release if it is time. Looks at t alone to know."""

    def state_dict(self) -> dict[str, Any]:
        """Arrays and plain values."""

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from `state_dict`."""


class WindowArms:
    """At the end of a window every arm changes a few entries of its parameter.

    Windows are public and each has the whole budget, because a row is in one of them. Within a
    window theta is fixed. From the sums of one arm, S = sum psi(y - nu(x . theta)) x with psi the
    clip and Q_j = sum nu' x_j^2 over rows that were not clipped:

        k entries of greatest |S_j|, by the exponential mechanism without replacement
        S_j and Q_j of those entries, and the slope along the last step, with Gaussian noise
        theta_j += S_j/Q_j, then back into the l1 ball

    That is a Newton step with a diagonal Hessian, too long if entries of contexts are correlated.
    The slope along the last step tells (its sign has turned): then the arm takes back what was too
    much, by the secant rule, and makes smaller steps for a while.
    Without privacy nothing is clipped and the entries are the greatest.
    """

    def __init__(
        self,
        n_arms: int,
        dim: int,
        horizon: int,
        budget: Budget,
        *,
        forced: int,
        link: Link,
        clip: float,
        radius: float,
        noise: Noise,
    ) -> None:
        self.budget, self._link, self.clip, self._noise = budget, link, clip, noise
        self._ball = LpBall(1, dim, radius)
        self._steepest = link.slopes(-radius, radius)[1]
        self.theta = np.zeros((n_arms, dim))
        self._moment, self._curvature = np.zeros((n_arms, dim)), np.zeros((n_arms, dim))
        self._along = np.zeros(n_arms)  # sums of slopes along the last step
        self._step, self._slope = np.zeros((n_arms, dim)), np.zeros(n_arms)  # the last, released
        self._pace = np.ones(n_arms)  # how much of a Newton step is made
        self.ends = _window_ends(n_arms * forced, horizon)
        self.window = 0  # windows released so far
        self._rho, self._ledger = budget.rho, Ledger(budget, "zcdp")

    @property
    def guarantee(self) -> Guarantee:
        """The promise, with the windows released so far."""
        return self._ledger.guarantee(trust="joint")

    def entries(self, window: int) -> int:
        """k: how many entries an arm changes at the end of this window; public.

        As many as stand out of the noise if each row of an arm adds `SIGNAL` to their sums, and
        of chance.
        """
        dim = self.theta.shape[1]
        log = max(1.0, math.log(dim))
        spend = math.sqrt(8 * self._rho * SELECTING) / self.budget.contributions
        clear = (self.rows(window) * SIGNAL * spend / (4 * log)) ** 2
        return int(min(dim, MOST, max(1, round(min(clear, self.rows(window) / (5 * log))))))

    def rows(self, window: int) -> float:
        """The length of a window, for each arm."""
        before = self.ends[window - 1] if window else 0
        return (self.ends[window] - before) / len(self.theta)

    def take(self, arm: int, x: Array, reward: float) -> None:
        """Add one row to the sums of its arm; after the last window it is not used."""
        if self.window == len(self.ends):
            return
        at = np.array([x.dot(self.theta[arm])])
        residual = reward - float(self._link.mean(at)[0])
        pull = min(max(residual, -self.clip), self.clip)
        bend = float(self._link.slope(at)[0]) if abs(residual) <= self.clip else 0.0
        # |x_j| <= 1 and |x . step| <= |step|_1, hence per row: moments and slopes along a step of
        # l1 norm 1 within +-clip, curvatures within [0, steepest].
        self._moment[arm] += pull * x
        self._curvature[arm] += bend * (x * x)
        size = float(np.abs(self._step[arm]).sum())
        self._along[arm] += pull * float(x.dot(self._step[arm])) / size if size else 0.0

    def advance(self, t: int) -> None:
        """The end of round t."""
        if self.window < len(self.ends) and t == self.ends[self.window]:
            self._release(self.entries(self.window))

    def _release(self, k: int) -> None:
        chosen = self._select(k)
        slopes, bends, along = self._measure(chosen)
        bends = np.maximum(bends, FLATTEST * self._steepest * self.rows(self.window))
        for i in range(len(self.theta)):
            self._move(i, chosen[i], slopes[i], bends[i], float(along[i]))
        self._moment[:], self._curvature[:], self._along[:] = 0.0, 0.0, 0.0
        self.window += 1

    def _select(self, k: int) -> NDArray[np.intp]:  # -> (arms, k)
        # One row moves |S_j| by at most 2 clip in one arm, or by clip in each of two arms; k rows
        # of a person, wherever they fall, cost at most k^2 times one.
        moved = 2 * self.clip * self.budget.contributions
        spend = math.sqrt(8 * self._rho * SELECTING / k)  # each of k choices: rho = spend^2/8
        scale = 2 * moved / spend
        release = Release.concentrated(
            mechanism="exponential",
            norm="linf",
            sensitivity=moved,
            scale=scale,
            rho=self._rho * SELECTING,
            what=f"{k} entries of each arm",
            sampler=self._noise.sampler("exponential"),
            scope=self._scope,
        )
        self._ledger.spend(release)
        return np.array([self._peel(np.abs(S), k, scale) for S in self._moment])

    def _measure(self, chosen: NDArray[np.intp]) -> tuple[Array, Array, Array]:
        """Slopes and curvatures of the chosen entries (arms, k), slopes along the last step."""
        rows, k = np.arange(len(self.theta))[:, None], chosen.shape[1]
        weight = CURVATURE * self.clip / self._steepest
        slopes, bends = self._moment[rows, chosen], self._curvature[rows, chosen]
        # Replaced in one arm: k + 1 slopes move by 2 clip, k curvatures in [0, CURVATURE clip] by
        # that. In two arms, each: k + 1 slopes by clip, k curvatures as before; that is less, as
        # 2 (k + 1) + 2 k CURVATURE^2 <= 4 (k + 1) + k CURVATURE^2.
        wide = self.clip * math.sqrt(4 * (k + 1) + k * CURVATURE**2)
        value, _ = gaussian(
            np.concatenate([slopes, weight * bends, self._along[:, None]], axis=1),
            sensitivity=wide * self.budget.contributions,
            mu=math.sqrt(2 * self._rho * (1 - SELECTING)),
            noise=self._noise,
            ledger=self._ledger,
            what="slopes and curvatures",
            scope=self._scope,
        )
        return value[:, :k], value[:, k : 2 * k] / weight, value[:, 2 * k]

    def _move(
        self, arm: int, chosen: NDArray[np.intp], slopes: Array, bends: Array, along: float
    ) -> None:
        """A step, or the last one corrected; from released values only."""
        theta, last, rows = self.theta[arm], self._step[arm], float(bends.mean())
        now = along * float(np.abs(last).sum()) / rows
        # The slope along the last step fell from `before` to `now`: so many times too far.
        before = self._slope[arm]
        far = 1 - now / before if before > 0 else 1.0
        if far > FAR:
            theta -= (1 - 1 / far) * last
            self._pace[arm] /= far
            self._step[arm], self._slope[arm] = 0.0, 0.0
            return
        aim = theta.copy()
        aim[chosen] += self._pace[arm] * slopes / bends
        aim = self._ball.project(aim)
        self._step[arm], self.theta[arm] = aim - theta, aim
        self._slope[arm] = float(slopes.dot(self._step[arm, chosen])) / rows
        self._pace[arm] = min(1.0, GROWTH * self._pace[arm])

    @property
    def _scope(self) -> str:
        return f"window {self.window + 1}"

    def _peel(self, scores: Array, k: int, scale: float) -> NDArray[np.intp]:  # (dim,) -> (k,)
        """k choices without replacement: the k greatest of score + Gumbel (Durfee, Rogers 2019)."""
        if "exponential" in self._noise.exact and scale > 0:
            left, places, taken = scores.copy(), np.arange(len(scores)), []
            for _ in range(k):
                best = self._noise.select(left, scale)
                taken.append(places[best])
                left, places = np.delete(left, best), np.delete(places, best)
            return np.array(taken, dtype=np.intp)
        if scale > 0:
            scores = scores - scale * np.log(-np.log(self._noise.uniform(scores.shape)))
        return np.argsort(-scores, kind="stable")[:k]

    def state_dict(self) -> dict[str, Any]:
        """The sums of the open window, in the clear; the generator only for SeededNoise."""
        return {
            "theta": self.theta.copy(),
            "moment": self._moment.copy(),
            "curvature": self._curvature.copy(),
            "along": self._along.copy(),
            "step": self._step.copy(),
            "slope": self._slope.copy(),
            "pace": self._pace.copy(),
            "window": self.window,
            "ledger": json.dumps(self._ledger.state_dict()),
            "stream": self._noise.state(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from `state_dict`; if it raises, this object is not to be used any more."""
        ledger = Ledger(self.budget, "zcdp")
        ledger.load_state_dict(json.loads(state["ledger"]))
        if isinstance(self._noise, SeededNoise):
            self._noise = SeededNoise.restored(state["stream"])
        for name in ("moment", "curvature", "along", "step", "slope", "pace"):
            shape = getattr(self, f"_{name}").shape
            setattr(self, f"_{name}", array(state, name, shape))
        self.theta = array(state, "theta", self.theta.shape)
        self.window, self._ledger = count(state, "window", len(self.ends)), ledger


def _window_ends(first: int, horizon: int) -> list[int]:
    """Where windows end: the forced rounds, then `GROWTH` times the last; none is cut short."""
    ends, length = [first], float(first)
    while ends[-1] + math.ceil(GROWTH * length) <= horizon:
        length *= GROWTH
        ends.append(ends[-1] + math.ceil(length))
    return ends
