"""Sparse parameters, learned in private: of `SparseBandit`'s arms, or of one stream (p = 1).

    paper (Han et al. 2022, Algorithm 3)   theta_{t,i}     I_i                     zeta
    here                                   theta[i]        the sums of arm i       `Link`

A row enters the sums of the arm that was chosen; the others get the zero row, whose gradient is
zero. (`StreamingFrankWolfe` has one arm.) So replacing one person changes

    one arm     by the difference of two terms, each at most `bound` in size: 2 bound
    two arms    by one term each, if the replacement chooses another arm: bound and bound

in each entry of the sums. Selections cost rho in the square of the move, so the second costs
2 (1/2)^2 = 1/2 of the first, and a budget for the first pays for both. When arms release is a
function of the round alone: if an arm released only after it was chosen, the choice itself, which
depends on the person's context, would show.
"""

import math

import numpy as np
from numpy.typing import NDArray

from discreet.arrays import Array
from discreet.domains import Domain, LpBall
from discreet.links import Link
from discreet.privacy import Budget, Guarantee
from discreet.privacy.ledger import Ledger
from discreet.privacy.mechanisms import Mechanisms, Released
from discreet.privacy.noise import Noise
from discreet.privacy.release import Release, observe
from discreet.state import Stateful, damaged

# Tuned in simulation (benchmarks/convex_sparse.py: d = 10^4, 5 arms, T = 20,000, epsilon = 1).
GROWTH = 1.5  # each window is so much longer than the last
SELECTING = 0.8  # fraction of the budget that selects entries; the rest measures them
SIGNAL = 0.2  # what an entry worth finding adds to its sum in each row, in units of the bound
CURVATURE = 0.5  # weight of the curvatures: sqrt(1 + CURVATURE^2/4), 3% more noise in slopes


class WindowArms(Stateful):
    """At the end of a window every arm changes a few entries of its parameter.

    Windows are public and each has the whole budget, because a row is in one of them. Within a
    window theta is fixed. From the sums of one arm, S = sum psi(y - nu(x . theta)) x with psi the
    cut to +-bound and Q_j = sum nu' x_j^2 over rows that were not cut:

        k entries of greatest |S_j|, by the exponential mechanism without replacement
        S_j and Q_j of those entries, and the slope along the last step, with Gaussian noise
        theta_j += S_j/Q_j, then back into the l1 ball

    That is a Newton step with a diagonal Hessian, too long if entries of contexts are correlated.
    The slope along the last step tells (its sign has turned): then the arm takes back what was too
    much, by the secant rule, and makes smaller steps for a while.
    Without privacy nothing is cut and the entries are the greatest.

    forced    rounds in which each arm is played at first
    link      nu
    bound     of residuals: those beyond are cut
    radius    of the l1 ball that holds theta
    domain    where theta lies, if that is another set in the ball; it must project
    ends      rounds at which windows end; None: the forced rounds, then windows that grow
    """

    _growing = frozenset({"_told", "_chosen"})
    _state = (
        "window",
        "_theta",
        "_sums",
        "_step",
        "_slope",
        "_pace",
        "_chosen",
        "_told",
        "_ledger",
        "_noise",
    )

    def __init__(
        self,
        n_arms: int,
        dim: int,
        horizon: int,
        budget: Budget,
        *,
        forced: int,
        link: Link,
        bound: float,
        radius: float,
        noise: Noise,
        domain: Domain | None = None,
        ends: list[int] | None = None,
    ) -> None:
        self.budget = budget
        self.bound = bound
        self._link = link
        self._noise = noise
        self._set = LpBall(1, dim, radius) if domain is None else domain
        self._steepest = link.slopes(-radius, radius)[1]
        self._theta = np.tile(np.asarray(self._set.interior_point, dtype=np.float64), (n_arms, 1))
        # Of the open window, for each arm: S, then Q, the slope along the last step, and how many
        # rows there are: all of them change in one step.
        self._sums = np.zeros((n_arms, 2 * dim + 2))
        self._step = np.zeros((n_arms, dim))  # the last step, and
        self._slope = np.zeros(n_arms)  # the slope along it: both released
        self._pace = np.ones(n_arms)  # how much of a Newton step is made
        self.ends = _window_ends(n_arms * forced, horizon) if ends is None else ends
        self.window = 0  # windows released so far
        # The last release, until theta has moved by it: entries of each arm, and what was measured.
        self._chosen = np.empty((0, 0), dtype=np.intp)
        self._told = np.empty((0, 0))
        self._rho = budget.rho
        self._ledger = Ledger(budget, "zcdp")

    @property
    def theta(self) -> Array:  # (arms, dim)
        """The released parameters, moved by all that was released; all else is private."""
        self._follow()
        return self._theta

    @property
    def learning(self) -> bool:
        """Whether a row can still count."""
        return self.window < len(self.ends)

    @property
    def guarantee(self) -> Guarantee:
        """The promise for the whole sequence of thetas."""
        return self._ledger.guarantee(trust="joint")

    @property
    def _moment(self) -> Array:  # (arms, dim), a view
        return self._sums[:, : self._theta.shape[1]]

    @property
    def _curvature(self) -> Array:  # (arms, dim), a view
        return self._sums[:, self._theta.shape[1] : -2]

    @property
    def _along(self) -> Array:  # (arms,), a view
        return self._sums[:, -2]

    @property
    def taken(self) -> int:
        """Rows of the open window."""
        return int(self._sums[:, -1].sum())

    def entries(self, window: int) -> int:
        """k: how many entries an arm changes at the end of this window; public.

        As many as stand out of the noise if each row of an arm adds `SIGNAL` to their sums, and
        of chance; 32 at most.
        """
        dim = self._theta.shape[1]
        log = max(1.0, math.log(dim))
        spend = math.sqrt(8 * self._rho * SELECTING) / self.budget.contributions
        clear = (self.rows(window) * SIGNAL * spend / (4 * log)) ** 2
        return int(min(dim, 32, max(1, round(min(clear, self.rows(window) / (5 * log))))))

    def rows(self, window: int) -> float:
        """The length of a window, for each arm."""
        before = self.ends[window - 1] if window else 0
        return (self.ends[window] - before) / len(self._theta)

    def take(self, arm: int, x: Array, reward: float) -> bool:
        """Add one row to the sums of its arm; whether it counts (not after the last window)."""
        if not self.learning:
            return False
        self._follow()
        at = np.array([x.dot(self._theta[arm])])
        residual = reward - float(self._link.mean(at)[0])
        pull = min(max(residual, -self.bound), self.bound)
        bend = float(self._link.slope(at)[0]) if abs(residual) <= self.bound else 0.0
        # |x_j| <= 1 and |x . step| <= |step|_1, hence per row: moments and slopes along a step of
        # l1 norm 1 within +-bound, curvatures within [0, steepest].
        size = float(np.abs(self._step[arm]).sum())
        along = pull * float(x.dot(self._step[arm])) / size if size else 0.0
        self._sums[arm] += np.concatenate([pull * x, bend * (x * x), [along, 1.0]])
        return True

    def advance(self, t: int) -> None:
        """The end of round t = 1, 2, ...: release a full window, then move by what was released.

        It looks at t alone to know whether a window is full; asked again it does nothing more.
        A release is in place before anything reads it: a projection that fails may be tried again,
        and no noise is drawn again.
        """
        if self.learning and t == self.ends[self.window]:
            self._follow()
            self._release(self.entries(self.window))
        self._follow()

    def _release(self, k: int) -> None:
        """All that a window publishes; its sums are dropped in the same step."""
        arms, dim = self._theta.shape
        if k < dim:
            chosen, selection = self._select(k)
            selected = [selection]
            left = 1 - SELECTING
        else:  # all of them: nothing to select, and the whole budget measures
            chosen = np.tile(np.arange(dim), (arms, 1))
            selected = []
            left = 1.0
        measured, measurement = self._measure(chosen, left)
        self._commit(
            window=self.window + 1,
            _sums=np.zeros_like(self._sums),
            _chosen=chosen,
            _told=measured,
            _ledger=self._ledger._including(*selected, measurement),
        )

    def _follow(self) -> None:
        """Move by the last release, unless that was done; reads released values only."""
        if not self._told.size:
            return
        chosen, measured = self._chosen, self._told
        k = chosen.shape[1]
        slopes = measured[:, :k]
        curvatures = measured[:, k : 2 * k] * self._steepest / (CURVATURE * self.bound)
        # Less than a quarter of the largest curvature is not believed: noise.
        flattest = 0.25 * self._steepest * self.rows(self.window - 1)
        curvatures = np.maximum(curvatures, flattest)
        after = [
            self._moved(i, chosen[i], slopes[i], curvatures[i], float(measured[i, 2 * k]))
            for i in range(len(self._theta))
        ]
        theta, step, slope, pace = (np.array(part) for part in zip(*after, strict=True))
        self._commit(
            _theta=theta,
            _step=step,
            _slope=slope,
            _pace=pace,
            _chosen=np.empty((0, 0), dtype=np.intp),
            _told=np.empty((0, 0)),
        )

    def _select(self, k: int) -> tuple[NDArray[np.intp], Release]:  # -> (arms, k)
        # One row moves |S_j| by at most 2 bound in one arm, or by bound in each of two arms; k rows
        # of a person, wherever they fall, cost at most k^2 times one.
        moved = 2 * self.bound * self.budget.contributions
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
        chosen = np.array([self._peel(np.abs(S), k, scale) for S in self._moment])
        observe("choice", chosen, release)
        return chosen, release

    def _measure(self, chosen: NDArray[np.intp], fraction: float) -> Released:
        """Slopes and curvatures of the chosen entries, and slopes along the last step.

        (arms, k) -> (arms, 2 k + 1), for this fraction of the budget.
        """
        arms, k = chosen.shape
        rows = np.arange(arms)[:, None]
        weight = CURVATURE * self.bound / self._steepest
        slopes = self._moment[rows, chosen]
        curvatures = self._curvature[rows, chosen]
        # Replaced in one arm: k + 1 slopes move by 2 bound, k curvatures in [0, CURVATURE bound] by
        # that. In two arms, each: k + 1 slopes by bound, k curvatures as before; that is less, as
        # 2 (k + 1) + 2 k CURVATURE^2 <= 4 (k + 1) + k CURVATURE^2.
        wide = self.bound * math.sqrt(4 * (k + 1) + k * CURVATURE**2)
        return Mechanisms(self._noise).gaussian(
            np.concatenate([slopes, weight * curvatures, self._along[:, None]], axis=1),
            sensitivity=wide * self.budget.contributions,
            mu=math.sqrt(2 * self._rho * fraction),
            what="slopes and curvatures",
            scope=self._scope,
        )

    def _moved(
        self, arm: int, chosen: NDArray[np.intp], slopes: Array, curvatures: Array, along: float
    ) -> tuple[Array, Array, float, float]:
        """theta, step, slope and pace of one arm after the window; from released values only."""
        theta = self._theta[arm]
        last = self._step[arm]
        pace = self._pace[arm]
        rows = float(curvatures.mean())
        now = along * float(np.abs(last).sum()) / rows
        # The slope along the last step fell from `before` to `now`: so many times too far.
        before = self._slope[arm]
        far = 1 - now / before if before > 0 else 1.0
        if far > 2:  # farther from the minimum than before the step
            return theta - (1 - 1 / far) * last, np.zeros_like(theta), 0.0, pace / far
        aim = theta.copy()
        aim[chosen] += pace * slopes / curvatures
        aim = self._set.project(aim)
        step = aim - theta
        slope = float(slopes.dot(step[chosen])) / rows
        return aim, step, slope, min(1.0, GROWTH * pace)

    @property
    def _scope(self) -> str:
        return f"window {self.window + 1}"

    def _peel(self, scores: Array, k: int, scale: float) -> NDArray[np.intp]:  # (dim,) -> (k,)
        """k choices without replacement: the k greatest of score + Gumbel (Durfee, Rogers 2019)."""
        if "exponential" in self._noise.exact and scale > 0:
            left = scores.copy()
            places = np.arange(len(scores))
            taken = []
            for _ in range(k):
                best = self._noise.select(left, scale)
                taken.append(places[best])
                left = np.delete(left, best)
                places = np.delete(places, best)
            return np.array(taken, dtype=np.intp)
        if scale > 0:
            scores = scores - scale * np.log(-np.log(self._noise.uniform(scores.shape)))
        return np.argsort(-scores, kind="stable")[:k]

    def _validate(self) -> None:
        if not 0 <= self.window <= len(self.ends):
            raise damaged("window")
        if not (isinstance(self._noise, Noise) and isinstance(self._ledger, Ledger)):
            raise damaged("noise")
        arms, dim = self._theta.shape
        k = self._chosen.shape[1]
        nothing = self._told.size == self._chosen.size == 0
        fits = self._chosen.shape == (arms, k) and self._told.shape == (arms, 2 * k + 1)
        known = bool(((self._chosen >= 0) & (self._chosen < dim)).all())
        if not nothing and not (fits and known and self.window):
            raise damaged("told")


def _window_ends(first: int, horizon: int) -> list[int]:
    """Where windows end: the forced rounds, then `GROWTH` times the last; none is cut short."""
    ends = [first]
    length = float(first)
    while ends[-1] + math.ceil(GROWTH * length) <= horizon:
        length *= GROWTH
        ends.append(ends[-1] + math.ceil(length))
    return ends
