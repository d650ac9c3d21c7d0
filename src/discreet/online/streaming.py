"""Streaming private convex optimisation by Frank-Wolfe (Han et al. 2022, Algorithms 1 and 2).

    paper   theta_t       g_t             (t+1) d_t                 v_t           eta_t = 1/(t+1)
    here    self._path    self._moment    the direction's sum       `direction`   1/(t + 1)

    line 3  g_t = (t+1) grad f(theta_t; x_t) - t grad f(theta_{t-1}; x_t)      `_moment`
    line 4  private running sum of g                                           `PrefixSum`
    line 6  v_t = argmin <d_t, v>                                              `directions.py`
    line 7  theta_{t+1} = theta_t + (v_t - theta_t)/(t+1)                      `learn`

Two changes, both post-processing of the same private sums. v_t is smoothed as much as the noise
asks for. What is released is not the plain average theta of all v_i but
one with weights growing like i^3 (i at p = 1), which forgets the first rounds, when v is all noise.
Without privacy both vanish and the paper's recursion is left.
"""

import dataclasses
import json
import math
import os
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from discreet.domains import Domain, from_spec
from discreet.online import restore
from discreet.online.directions import SmoothedDirection, VertexDirection
from discreet.online.generalized import GeneralizedGaussianSum
from discreet.online.losses import Loss
from discreet.online.problem import Problem, clipped
from discreet.privacy import Budget, Guarantee, PrefixSum, Tree
from discreet.privacy.checks import Array, one_of, positive, whole
from discreet.privacy.noise import Noise, source, source_named
from discreet.privacy.state import expect, load_state, save_state


class StreamingFrankWolfe:
    """Minimises E f(theta; x, y) over a domain in one pass; theta is released after every row.

    Requires   rows with |x|_q <= 1, q dual to the domain's p (q = 2 on other sets), labels in
               [-label_bound, label_bound] ([0, 1] for the logistic loss). Longer rows are
               shortened and labels clipped; NaN is refused. One person's round is one row.
    Guarantee  (epsilon, delta), central, for the whole sequence of thetas.

    Geometry comes from the domain. Lp balls with 1 < p: Gaussian noise on running sums
    (mechanism "auto", "blt", "toeplitz", "tree", or a `Tree`), or "generalized-gaussian", the
    paper's tree with l_r noise. p = 1 and the simplex: vertices by the exponential mechanism
    ("auto"; "every-round" is the paper's schedule); noise grows with log n only.

    `clip` bounds each g_t: in l2, in linf at p = 1, in l_q for "generalized-gaussian". The worst
    case G = lipschitz + smoothness * diameter (in l2 times n^(1/2 - 1/q) if q > 2) bounds it in any
    case. clip=None is a public rule: G/4 at p = 1; else 1/20 of a typical slope (label_bound; 1 for
    the logistic loss; lipschitz for a loss of one's own) times n^(1/2 - 1/q), the l2 norm of a row
    of unit l_q norm whose entries are alike, times (s/100)^(1/4) if s > 100, where s is
    horizon/(n noise), the noise that of the running sum per unit of clip.
    Small clips win: noise falls with the clip, the signal only as far as gradients are longer.

    >>> from discreet.domains import LpBall
    >>> from discreet.privacy import SeededNoise
    >>> rng = np.random.default_rng(0)
    >>> w = StreamingFrankWolfe(LpBall(2, 2), 2000, 1.0, 1e-6, noise=SeededNoise(0))
    >>> for _ in range(2000):
    ...     x = rng.normal(size=2); x /= np.linalg.norm(x)
    ...     w.learn(x, x @ [0.6, -0.4])
    >>> bool(np.abs(w.theta - [0.6, -0.4]).max() < 0.1)
    True
    >>> w.guarantee.epsilon, w.guarantee.trust
    (1.0, 'central')
    """

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
        clip: float | None = None,
        mechanism: str | Tree = "auto",
        contributions: int = 1,
        noise: Noise | None = None,
    ) -> None:
        self.problem = Problem(domain, loss, label_bound)
        self.domain, self.horizon = domain, whole("horizon", horizon)
        self.budget = Budget(epsilon, delta, contributions)
        self._asked_clip = None if clip is None else positive("clip", clip)
        self._mechanism = mechanism
        self._noise = source(noise)
        p, f = self.problem.p, self.problem.loss
        # With steps 1/(t+1): g_t = grad f(theta_t) + t (grad f(theta_t) - grad f(theta_{t-1})),
        # and t |theta_t - theta_{t-1}|_p <= diameter.
        worst = f.lipschitz + f.smoothness * self.problem.diameter
        self._direction = self._vertices(worst) if p == 1 else self._sums(worst)
        private = not self.budget.off
        self._power = (1 if p == 1 else 3) if private else 0
        start = np.array(domain.interior_point, dtype=np.float64)
        self._before, self._path, self._theta = start, start, start

    @property
    def theta(self) -> Array:  # (n,)
        """The released parameter."""
        return self._theta.copy()

    @property
    def rounds(self) -> int:
        """Rows learned so far."""
        return self._direction.rounds

    @property
    def guarantee(self) -> Guarantee:
        """The promise for the whole sequence of thetas: post-processing of the private steps."""
        promise = self._direction.guarantee
        return dataclasses.replace(promise, reference=f"{self._reference}; {promise.reference}")

    def learn(self, x: ArrayLike, y: float) -> None:  # (n,), a label
        """Take one row. A bad one raises ValueError and changes nothing."""
        t = self._direction.rounds + 1
        if t > self.horizon:
            raise ValueError(
                f"the horizon is {self.horizon} rounds and all have been learned; "
                "make a learner with a larger horizon"
            )
        g = self._moment(self.problem.row(x), self.problem.label(y), t)
        v = self._direction.add(g)
        self._before = self._path
        self._path = self._path + (v - self._path) * (1 / (t + 1))
        if not self._power:
            self._theta = self._path
        else:
            share = (self._power + 1) / (t + self._power + 1)
            self._theta = self._theta + (v - self._theta) * share

    def state_dict(self) -> dict[str, Any]:
        """What `load_state_dict` goes on from. Keep it secret: it may hold exact sums."""
        inner = {f"direction.{k}": value for k, value in self._direction.state_dict().items()}
        points = {"before": self._before.copy(), "path": self._path.copy(), "theta": self.theta}
        return {
            "format": 1,
            "kind": type(self).__name__,
            "config": self._config(),
            **points,
            **inner,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from a saved state; one that is older than this learner is refused."""
        expect(state, format=1, kind=type(self).__name__, config=self._config())
        shape = self._theta.shape
        points = [restore.array(state, name, shape) for name in ("before", "path", "theta")]
        inner = {k[10:]: value for k, value in state.items() if k.startswith("direction.")}
        try:
            self._direction.load_state_dict(inner)  # the last that can fail
        except (KeyError, TypeError):
            raise restore.damaged("a part of the sums") from None
        self._before, self._path, self._theta = points

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the state to a file, for the owner's eyes only. A state may go on once."""
        save_state(path, self.state_dict())

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Go on from a file, with the same kind of noise; not for a loss of one's own."""
        state = load_state(path)
        expect(state, format=1, kind=cls.__name__)
        config = json.loads(state["config"])
        if config["loss"] == "own":
            raise ValueError(
                "a loss of one's own is not in the file; make the learner with it and call "
                "load_state_dict"
            )
        shape = config["mechanism"]
        arguments = {
            **config,
            "domain": from_spec(config["domain"]),
            "mechanism": Tree(**shape) if isinstance(shape, dict) else shape,
            "noise": source_named(config["noise"]),
        }
        learner = cls(**arguments)
        learner.load_state_dict(state)
        return learner

    def _config(self) -> str:
        shape = self._mechanism
        config = {
            "domain": self.domain.spec(),
            "horizon": self.horizon,
            "epsilon": self.budget.epsilon,
            "delta": self.budget.delta,
            "contributions": self.budget.contributions,
            "loss": self.problem.margin.name if self.problem.margin else "own",
            "label_bound": self.problem.label_bound,
            "clip": self._asked_clip,
            "mechanism": dataclasses.asdict(shape) if isinstance(shape, Tree) else shape,
            "noise": type(self._noise).__name__,
        }
        return json.dumps(config)

    def _vertices(self, worst: float) -> VertexDirection:
        name = one_of("mechanism", self._mechanism, ("auto", "every-round"))
        self._norm, self.clip = math.inf, self._clip(worst, worst / 4)
        return VertexDirection(
            self.domain.dim,
            self.horizon,
            self.budget,
            bound=self.clip,
            noise=self._noise.spawn(1)[0],
            radius=self.problem.radius,
            signed=not self.problem.simplex,
            choices=self.horizon if name == "every-round" else None,
        )

    def _sums(self, worst: float) -> SmoothedDirection:
        n, q, budget = self.domain.dim, self.problem.q, self.budget
        own = self._mechanism == "generalized-gaussian"
        self._norm = q if own else 2.0
        worst *= 1.0 if own else self.problem.stretch

        def running(bound: float) -> PrefixSum | GeneralizedGaussianSum:
            if own:
                return GeneralizedGaussianSum(
                    self.horizon, n, budget, bound=bound, q=q, noise=self._noise
                )
            # Two rows of l2 norm at most `bound` are at most 2 bound apart (replace-one).
            return PrefixSum(
                self.horizon,
                n,
                budget,
                sensitivity=2 * bound,
                mechanism=self._mechanism,
                noise=self._noise,
            )

        rule = self.problem.typical / 20 * (1.0 if own else self.problem.typical_row)
        if not budget.off and self._asked_clip is None:
            signal = self.horizon / (n * float(running(1.0).deviation(self.horizon)))
            rule *= max(1.0, signal / 100) ** 0.25
        self.clip = self._clip(worst, rule)
        return SmoothedDirection(self.domain, running(self.clip), self.clip)

    def _clip(self, worst: float, rule: float) -> float:
        if self._asked_clip is not None:
            return min(worst, self._asked_clip)
        return worst if self.budget.off else min(worst, rule)

    def _moment(self, x: Array, y: float, t: int) -> Array:
        """g_t, no longer than `clip`."""
        if self.problem.margin:
            slope = self.problem.margin.slope
            now, before = float(x.dot(self._path)), float(x.dot(self._before))
            g = x * ((t + 1) * slope(now, y) - t * slope(before, y))
        else:
            gradient = self.problem.gradient
            with np.errstate(over="ignore", invalid="ignore"):  # `clipped` makes zeros of them
                g = (t + 1) * gradient(self._path, x, y) - t * gradient(self._before, x, y)
        # Never longer than clip, whatever the row and the label: two of them are 2 clip apart.
        return clipped(g, self.clip, self._norm)
