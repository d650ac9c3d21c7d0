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

from discreet.domains import LpBall
from discreet.links import Link
from discreet.online.directions import VertexDirection
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
        S_j and Q_j of those entries, with Gaussian noise
        theta_j += S_j/Q_j, then back into the l1 ball

    That is a Newton step with a diagonal Hessian: right for contexts whose entries are little
    correlated, an oscillation for strongly correlated ones.
    Without privacy k is `MOST`, nothing is clipped and the entries are the greatest.
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
        self.ends = _window_ends(n_arms * forced, horizon)
        self.window = 0  # windows released so far
        self._ledger = Ledger(budget, "zcdp")

    @property
    def guarantee(self) -> Guarantee:
        """The promise, with the windows released so far."""
        return self._ledger.guarantee(trust="joint")

    def entries(self, window: int) -> int:
        """k: how many entries an arm changes at the end of this window; public.

        As many as stand out of the noise if each row of an arm adds `SIGNAL` to their sums.
        """
        dim = self.theta.shape[1]
        if self.budget.off:
            return min(dim, MOST)
        spend = math.sqrt(8 * self.budget.rho * SELECTING) / self.budget.contributions
        clear = self.rows(window) * SIGNAL * spend / (4 * max(1.0, math.log(dim)))
        return int(min(dim, MOST, max(1, round(clear**2))))

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
        # |x_j| <= 1: entries of the moment are within +-clip, of the curvature within [0, slope].
        self._moment[arm] += min(max(residual, -self.clip), self.clip) * x
        inside = abs(residual) <= self.clip
        self._curvature[arm] += (float(self._link.slope(at)[0]) * inside) * (x * x)

    def advance(self, t: int) -> None:
        """The end of round t."""
        if self.window < len(self.ends) and t == self.ends[self.window]:
            self._release(self.entries(self.window))

    def _release(self, k: int) -> None:
        scope, times, arms = f"window {self.window + 1}", self.budget.contributions, len(self.theta)
        rho = self.budget.rho
        # One row moves |S_j| by at most 2 clip in one arm, or by clip in each of two arms.
        moved = 2 * self.clip * times
        spend = math.sqrt(8 * rho * SELECTING / k)  # each of k choices: rho = spend^2/8
        scale = 2 * moved / spend
        about = {"norm": "linf", "sensitivity": moved, "scale": scale, "scope": scope}
        selection = Release.concentrated(
            mechanism="exponential",
            rho=rho * SELECTING,
            what=f"{k} entries of each arm",
            sampler=self._noise.sampler("exponential"),
            **about,
        )
        self._ledger.spend(selection)
        chosen = np.array([self._peel(np.abs(S), k, scale) for S in self._moment])  # (arms, k)
        rows = np.arange(arms)[:, None]
        weight = CURVATURE * self.clip / self._steepest
        measured = np.stack([self._moment[rows, chosen], weight * self._curvature[rows, chosen]])
        # k entries of one arm: moments move by 2 clip and curvatures, in [0, CURVATURE clip], by
        # that; in two arms moments by clip, curvatures by the same: 2 + 2 CURVATURE^2 is less.
        wide = self.clip * math.sqrt(k * (4 + CURVATURE**2)) * times
        value, _ = gaussian(
            measured,
            sensitivity=wide,
            mu=math.sqrt(2 * rho * (1 - SELECTING)),
            noise=self._noise,
            ledger=self._ledger,
            what="their slopes and curvatures",
            scope=scope,
        )
        least = FLATTEST * self._steepest * self.rows(self.window)
        step = value[0] / np.maximum(value[1] / weight, least)
        theta = self.theta.copy()
        theta[rows, chosen] += step
        self.theta = self._ball.project(theta)
        self._moment[:], self._curvature[:] = 0.0, 0.0
        self.window += 1

    def _peel(self, scores: Array, k: int, scale: float) -> Array:  # (dim,) -> (k,)
        """k choices without replacement: the k greatest of score + Gumbel (Durfee, Rogers 2019)."""
        if "exponential" in self._noise.exact and scale > 0:
            left, places = scores.copy(), np.arange(len(scores))
            taken = []
            for _ in range(k):
                best = self._noise.select(left, scale)
                taken.append(places[best])
                left, places = np.delete(left, best), np.delete(places, best)
            return np.array(taken)
        if scale > 0:
            scores = scores - scale * np.log(-np.log(self._noise.uniform(scores.shape)))
        return np.argsort(-scores, kind="stable")[:k]

    def state_dict(self) -> dict[str, Any]:
        """The sums of the open window, in the clear; the generator only for SeededNoise."""
        return {
            "theta": self.theta.copy(),
            "moment": self._moment.copy(),
            "curvature": self._curvature.copy(),
            "window": self.window,
            "ledger": json.dumps(self._ledger.state_dict()),
            "stream": self._noise.state(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from `state_dict`."""
        ledger = Ledger(self.budget, "zcdp")
        ledger.load_state_dict(json.loads(state["ledger"]))
        if isinstance(self._noise, SeededNoise):
            self._noise = SeededNoise.restored(state["stream"])
        self.theta, self._moment = np.array(state["theta"]), np.array(state["moment"])
        self._curvature, self.window = np.array(state["curvature"]), int(state["window"])
        self._ledger = ledger


class VertexArms:
    """The paper's step: every arm takes a Frank-Wolfe step in every round (Algorithms 2 and 3).

    g = (m+1) grad f(theta_m; x) - m grad f(theta_{m-1}; x) for the arm that was chosen, m its own
    number of steps, and zero for the others; all arms then choose a vertex from their sums and
    move by 1/(m+1) towards it. In the forced rounds of one arm the others stand still, so an arm
    makes n = T - (K-1) t_0 choices, epsilon_m = sqrt(8 rho/(m H_n)).
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
        self._link, self.clip, self._forced = link, clip, n_arms * forced
        n = horizon - (n_arms - 1) * forced
        # Each alone is calibrated for the replacement of a row that stays in its arm; a row that
        # changes arms moves two sums by half of that, at half the price together.
        self._directions = [
            VertexDirection(
                dim, n, budget, bound=clip, noise=own, radius=radius, signed=True, choices=n
            )
            for own in noise.spawn(n_arms)
        ]
        self.theta, self._before = np.zeros((n_arms, dim)), np.zeros((n_arms, dim))
        self._new = np.zeros((n_arms, dim))  # gradients that have come in this round

    @property
    def guarantee(self) -> Guarantee:
        """That of one arm: two arms together cost no more."""
        return self._directions[0].guarantee

    def take(self, arm: int, x: Array, reward: float) -> None:
        """Add one gradient; its entries are within +-clip."""
        m = self._directions[arm].rounds + 1
        if m > self._directions[arm].horizon:
            return
        at = np.array([x.dot(self.theta[arm]), x.dot(self._before[arm])])
        now, before = self._link.mean(at) - reward
        slope = float((m + 1) * now - m * before)
        size = abs(slope) * float(np.abs(x).max())
        self._new[arm] += (slope * min(1.0, self.clip / size) if size else 0.0) * x

    def advance(self, t: int) -> None:
        """The end of round t: a step of the forced arm, or of all."""
        arms = len(self.theta)
        for i in [(t - 1) % arms] if t <= self._forced else range(arms):
            step = self._directions[i]
            if step.rounds < step.horizon:
                v = step.add(self._new[i])
                self._before[i] = self.theta[i]
                self.theta[i] += (v - self.theta[i]) / (step.rounds + 1)
                self._new[i] = 0.0

    def state_dict(self) -> dict[str, Any]:
        """The exact sums, in the clear."""
        state = {
            "theta": self.theta.copy(),
            "before": self._before.copy(),
            "new": self._new.copy(),
        }
        for i, each in enumerate(self._directions):
            state |= {f"arm {i}.{name}": value for name, value in each.state_dict().items()}
        return state

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from `state_dict`."""
        for i, each in enumerate(self._directions):
            head = f"arm {i}."
            inner = {k.removeprefix(head): v for k, v in state.items() if k.startswith(head)}
            each.load_state_dict(inner)
        self.theta, self._before = np.array(state["theta"]), np.array(state["before"])
        self._new = np.array(state["new"])


def _window_ends(first: int, horizon: int) -> list[int]:
    """Where windows end: the forced rounds, then `GROWTH` times the last; none is cut short."""
    ends, length = [first], float(first)
    while ends[-1] + math.ceil(GROWTH * length) <= horizon:
        length *= GROWTH
        ends.append(ends[-1] + math.ceil(length))
    return ends
