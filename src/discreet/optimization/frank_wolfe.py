"""Streaming private convex optimisation by Frank-Wolfe (Han et al. 2022, Algorithms 1 and 2).

    paper   theta_t       g_t             (t+1) d_t                 v_t           eta_t = 1/(t+1)
    here    self._path    self._moment    the direction's sum       `direction`   1/(t + 1)

    line 3  g_t = (t+1) grad f(theta_t; x_t) - t grad f(theta_{t-1}; x_t)      `_moment`
    line 4  private running sum of g                                           `PrefixSum`
    line 6  v_t = argmin <d_t, v>                                              `directions.py`
    line 7  theta_{t+1} = theta_t + (v_t - theta_t)/(t+1)                      `_follow`

Two changes, both post-processing of the same private sums. v_t is smoothed as much as the noise
asks for. What is released is not the plain average theta of all v_i but
one with weights growing like i^3 (i at p = 1), which forgets the first rounds, when v is all noise.
Without privacy both vanish and the paper's recursion is left.

Where the loss has a known curvature and noise may be Gaussian, "auto" leaves the recursion: theta
moves at the ends of public windows, by Newton steps (`windows.py`). Each window pays once, where a
running sum pays for every prefix.
"""

import dataclasses
import math

import numpy as np
from numpy.typing import ArrayLike

from discreet.arrays import Array, integer, one_of, public_bound
from discreet.domains import Domain
from discreet.optimization.directions import SmoothedDirection, VertexDirection
from discreet.optimization.problem import Loss, Problem, clipped
from discreet.optimization.windows import DENSEST, DenseWindows, SparseWindows
from discreet.privacy import Budget, Guarantee, PrefixSum, Tree
from discreet.privacy.noise import Noise, source
from discreet.state import Stateful, damaged

WINDOWS = (DenseWindows, SparseWindows)


class StreamingFrankWolfe(Stateful):
    """Minimises E f(theta; x, y) over a domain in one pass; theta is released after every row.

    Requires   rows with |x|_q <= 1, q dual to the domain's p (q = 2 on other sets), labels in
               [-label_bound, label_bound] ([0, 1] for the logistic loss). Longer rows are
               shortened and labels clipped; NaN is refused. One person's round is one row.
    Guarantee  (epsilon, delta), central, for the whole sequence of thetas.

    mechanism="auto": windows of Newton steps if the loss is a named one, delta > 0, and the domain
    projects and has up to 128 dimensions; l1 balls and the simplex of any dimension (loss "squared"
    or "logistic") change a few entries a window, with noise that grows with log n only. Theta moves
    at the ends of windows that grow. Elsewhere, and by name, Frank-Wolfe in every round. Lp balls
    with 1 < p: Gaussian noise on running sums ("blt", "toeplitz", "tree", or a `Tree`), or
    "generalized-gaussian", the paper's tree with l_r noise. p = 1 and the simplex: "vertices" by
    the exponential mechanism, or "every-round", the paper's schedule.

    domain          any; its geometry decides, see above
    horizon         rows from which it learns; after that theta stays
    epsilon         of one person; inf is the plain algorithm
    delta           0 is pure, at p = 1 and for trees
    loss            "squared", "logistic", "huber" or a `Loss` of your own
    label_bound     public bound of the labels
    gradient_bound  how long each gradient or g_t may be, see below; None is a public rule
    mechanism       see above
    contributions   rows of one person
    noise           None, `SecureNoise()`, or `SeededNoise(seed)` for simulation

    Windows shorten each gradient to `gradient_bound` in l2 (residuals at p = 1; None: to 1/10 of a
    typical slope). None begins at 3/10 of a typical gradient; then the bound follows the released
    fraction of gradients that were shortened (`shortened`), to keep it between 1/10 and 2/5. A
    bound that you give stays.

    Frank-Wolfe shortens each g_t: in l2, in linf at p = 1, in l_q for "generalized-gaussian". The
    worst case G = lipschitz + smoothness * diameter (in l2 times n^(1/2 - 1/q) if q > 2) bounds it
    in any case. None is a public rule: G/4 at p = 1; else 1/20 of a typical slope (label_bound; 1
    for the logistic loss; lipschitz for a loss of your own) times n^(1/2 - 1/q), the l2 norm of a
    row of unit l_q norm whose entries are alike. Small bounds win: noise falls with the bound, the
    signal only as far as gradients are longer.

    >>> from discreet.domains import LpBall
    >>> from discreet.privacy import SeededNoise
    >>> rng = np.random.default_rng(0)
    >>> w = StreamingFrankWolfe(LpBall(2, 2), 2000, 1.0, 1e-6, noise=SeededNoise(0))
    >>> for _ in range(2000):
    ...     x = rng.normal(size=2); x /= np.linalg.norm(x)
    ...     _ = w.learn(x, x @ [0.6, -0.4])
    >>> bool(np.abs(w.theta - [0.6, -0.4]).max() < 0.1)
    True
    >>> w.guarantee.epsilon, w.guarantee.trust
    (1.0, 'central')
    """

    _state = ("_direction", "_steps", "_before", "_path", "_theta")
    _reference = "Han, Liang, Liang, Wang, Yao and Zhang (2022), Algorithms 1 and 2"

    def __init__(
        self,
        domain: Domain,
        horizon: int,
        epsilon: float,
        delta: float = 1e-6,
        *,
        loss: str | Loss = "squared",
        label_bound: float = 1.0,
        gradient_bound: float | None = None,
        mechanism: str | Tree = "auto",
        contributions: int = 1,
        noise: Noise | None = None,
    ) -> None:
        self.problem = Problem(domain, loss, label_bound)
        self.domain = domain
        self.horizon = integer("horizon", horizon)
        self.budget = Budget(epsilon, delta, contributions)
        self.epsilon = self.budget.epsilon
        self.delta = self.budget.delta
        self.contributions = self.budget.contributions
        self.loss = loss
        self.label_bound = self.problem.label_bound
        self.gradient_bound = (
            None if gradient_bound is None else public_bound("gradient_bound", gradient_bound)
        )
        self.mechanism = mechanism
        self.noise = source(noise)
        f = self.problem.loss
        # With steps 1/(t+1): g_t = grad f(theta_t) + t (grad f(theta_t) - grad f(theta_{t-1})),
        # and t |theta_t - theta_{t-1}|_p <= diameter.
        worst = f.lipschitz + f.smoothness * self.problem.diameter
        self._direction: SmoothedDirection | VertexDirection | DenseWindows | SparseWindows
        power = 1 if domain.axis_vertices else 3
        if self._takes_windows():
            self._direction = self._windows()
        elif domain.axis_vertices:
            self._direction = self._vertices(worst)
        else:
            self._direction = self._sums(worst)
        self._power = 0 if self.budget.off else power
        start = np.array(domain.interior_point, dtype=np.float64)
        self._steps = 0  # rows that the points below have followed
        self._before = start
        self._path = start
        self._theta = start

    @property
    def theta(self) -> Array:  # (n,)
        """The released parameter."""
        with self._live:
            self._follow()
            if isinstance(self._direction, WINDOWS):
                return self._direction.theta
            return self._theta.copy()

    @property
    def rounds(self) -> int:
        """Rows learned so far."""
        return self._direction.rounds

    @property
    def windowed(self) -> bool:
        """Whether theta moves at the ends of windows; else in every round."""
        return isinstance(self._direction, WINDOWS)

    @property
    def bound(self) -> float:
        """How long a row's part may be now: in l2, in linf at p = 1."""
        if isinstance(self._direction, WINDOWS):
            return self._direction.bound
        return self._bound

    @property
    def shortened(self) -> float | None:
        """The fraction of the last window's rows that were shortened, as released with noise.

        None where nothing tells: without windows, at p = 1 and before the first release. Many mean
        that the bound, not the data, may have the say (skewed label noise is then biased).
        """
        with self._live:
            self._follow()
            windows = self._direction
            if isinstance(windows, DenseWindows) and windows.window > 0:
                return windows.shortened
            return None

    @property
    def learning(self) -> bool:
        """Whether a row still counts; past the horizon theta stays."""
        return self.rounds < self.horizon

    @property
    def guarantee(self) -> Guarantee:
        """The promise for the whole sequence of thetas: post-processing of the private steps."""
        promise = self._direction.guarantee
        return dataclasses.replace(promise, reference=f"{self._reference}; {promise.reference}")

    def learn(self, x: ArrayLike, y: float) -> bool:  # (n,), a label
        """Take one row; whether it counted, that is within the horizon.

        A bad one raises ValueError and changes nothing. A call that fails has not counted its row.
        """
        with self._live:
            row = self.problem.row(x)
            label = self.problem.label(y)
            if not self.learning:
                return False
            self._follow()
            if isinstance(self._direction, WINDOWS):
                self._direction.take(row, label)
            else:
                self._direction.add(self._moment(row, label, self.rounds + 1))
            return True  # the step is taken when it is read: it may fail, and the row has counted

    def _follow(self) -> None:
        """Take the step of the last row, unless it has been taken: it reads the release alone."""
        if isinstance(self._direction, WINDOWS):
            self._direction.follow()
            return
        t = self._direction.rounds
        if self._steps == t:
            return
        v = self._direction.point
        path = self._path + (v - self._path) * (1 / (t + 1))
        weight = (self._power + 1) / (t + self._power + 1)
        theta = self._theta + (v - self._theta) * weight if self._power else path
        self._commit(_steps=t, _before=self._path, _path=path, _theta=theta)

    def _takes_windows(self) -> bool:
        """Whether "auto" means windows: where curvatures are known and noise may be Gaussian."""
        if self.mechanism != "auto" or self.budget.off or self.budget.pure:
            return False
        margin = self.problem.margin
        if margin is None or not margin.smoothness or not self.domain.projects:
            return False
        if self.domain.axis_vertices:
            return margin.name in ("squared", "logistic")
        return self.domain.dim <= DENSEST

    def _windows(self) -> DenseWindows | SparseWindows:
        if self.domain.axis_vertices is None:
            return DenseWindows(
                self.problem,
                self.horizon,
                self.budget,
                bound=self.gradient_bound,
                noise=self.noise.spawn(1)[0],
            )
        rule = self.problem.typical / 10
        return SparseWindows(
            self.problem,
            self.horizon,
            self.budget,
            bound=min(
                self.problem.loss.lipschitz,
                rule if self.gradient_bound is None else self.gradient_bound,
            ),
            noise=self.noise.spawn(1)[0],
        )

    def _validate(self) -> None:
        if isinstance(self._direction, WINDOWS):
            return
        if not 0 <= self._direction.rounds - self._steps <= 1:
            raise damaged("steps")

    def _vertices(self, worst: float) -> VertexDirection:
        name = one_of("mechanism", self.mechanism, ("auto", "vertices", "every-round"))
        vertices = self.domain.axis_vertices
        assert vertices is not None
        self._norm = math.inf
        self._bound = self._bound_of(worst, worst / 4)
        return VertexDirection(
            self.domain.dim,
            self.horizon,
            self.budget,
            bound=self._bound,
            noise=self.noise.spawn(1)[0],
            radius=vertices.radius,
            signed=vertices.signed,
            choices=self.horizon if name == "every-round" else None,
        )

    def _sums(self, worst: float) -> SmoothedDirection:
        own = self.mechanism == "generalized-gaussian"
        q = self.problem.q
        self._norm = q if own else 2.0
        worst *= 1.0 if own else self.problem.stretch
        rule = self.problem.typical / 20 * (1.0 if own else self.problem.typical_row)
        self._bound = bound = self._bound_of(worst, rule)
        sums = PrefixSum(
            self.horizon,
            self.domain.dim,
            self.budget,
            # Two rows of this norm at most `bound` are at most 2 bound apart (replace-one).
            sensitivity=2 * bound,
            norm=f"l{q}" if own else "l2",
            mechanism=self.mechanism,
            noise=self.noise,
        )
        return SmoothedDirection(self.domain, sums, bound)

    def _bound_of(self, worst: float, rule: float) -> float:
        """How long a moment may be."""
        if self.gradient_bound is not None:
            return min(worst, self.gradient_bound)
        return worst if self.budget.off else min(worst, rule)

    def _moment(self, x: Array, y: float, t: int) -> Array:
        """g_t, no longer than `bound`."""
        with np.errstate(over="ignore", invalid="ignore"):  # `clipped` makes zeros of them
            if self.problem.margin:
                slope = self.problem.margin.slope
                now = float(x.dot(self._path))
                before = float(x.dot(self._before))
                g = x * ((t + 1) * slope(now, y) - t * slope(before, y))
            else:
                gradient = self.problem.gradient
                g = (t + 1) * gradient(self._path, x, y) - t * gradient(self._before, x, y)
            # Never longer than bound, whatever the row and the label: two are 2 bound apart.
            return clipped(g, self._bound, self._norm)
