"""The server of a locally private regression: it asks, adds answers up, and estimates.

Chen, Li, Rakhlin, Simchi-Levi (2025), Algorithms 2 and 3; symbols in `discreet.local.questions`.
Under shuffled trust each window is one batch, and everybody in a fit tells Gram and moment at once.
"""

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from discreet.arrays import Array, integer, positive
from discreet.least_squares import (
    Posterior,
    Whitening,
    discounted_eigenvalues,
    gram_error_covariance,
)
from discreet.local import PublicState, Question, ReportSum
from discreet.local import Server as LocalServer
from discreet.local.questions import answer
from discreet.local.report import pieces
from discreet.privacy import Crowd
from discreet.regression.base import Estimate

PHASES = (0.1, 0.15, 0.25, 0.5)  # fraction of the people
GRAM = (0.5, 0.5, 0.4, 0.2)  # of them, who report the Gram term
CLIP = (1.0, 2.0, 2.0, 1.5)  # residual stds; below 1.5 the slope costs what the noise saves
# Where reports are shuffled: fewer and larger, since a small batch hides little. Mean error x 10^3,
# sphere, d = 5, 10^4 and 10^5 people (16 and 5 seeds): four phases 14.7 and 1.47, these 12.0 and
# 1.21, (.15, .25, .6) 13.2 and 1.72, two phases 17.8 and 2.59.
SHUFFLED_PHASES, SHUFFLED_CLIP = (0.3, 0.3, 0.4), (1.0, 2.0, 1.5)
CLIP_KNOWN = (1.0, 2.5, 2.5, 2.5)  # without Gram reports nobody measures the slope: keep it near 1
SCALE = 0.1  # of a later phase's people
LEVELS = 2.0 ** -np.arange(6, -1, -1)  # clips that "scale" tries, as a fraction of the label bound
COVER = 1.5  # standard deviations of theta's error within the clip
SHRINK = 0.3  # of the eigenvalues' noise; more loses rare directions
HEAVY = 5.0  # standard deviations that should hold all but 2% of residuals; normal ones need 2.3


def _steps(phases: tuple[float, ...]) -> tuple[tuple[int, str], ...]:
    """Every phase fits; later ones first measure the residuals."""
    return tuple(
        (k, step) for k in range(len(phases)) for step in (("scale", "fit") if k else ("fit",))
    )


@dataclass(frozen=True)
class _Belief:
    """What the reports so far have told.

    theta          the estimate
    covariance     of its error
    whitening      that the next window asks with
    residual_std   of the labels around it
    heavy_tail     whether a few residuals are much longer than that
    """

    theta: Array
    covariance: Array
    whitening: Array
    residual_std: float = 1.0
    heavy_tail: bool = False
    unclipped: tuple[Array, Array] | None = None  # theta and covariance of the first phase


class Server(LocalServer[PublicState, _Belief]):
    """Asks, adds up, estimates; sees reports only.

    The prior is theta ~ N(0, I/d). With public covariates nobody reports the Gram term.

    dim             number of features
    people          how many will answer, one question each
    epsilon         of all reports of one person together
    contributions   the most reports of one person
    public_X        public covariates, in units of the norm bound
    whitening       of the first phase, if something is known
    norm_bound      devices shorten features to this Euclidean norm
    label_range     devices clip labels to it
    delta           of all reports, where they are shuffled
    crowd           where reports are shuffled: what batches are counted on for; None: they are not

    >>> server = Server(2, people=1000, epsilon=1.0)
    >>> [(question.name, question.fraction) for question in server.ask().questions], server.size
    ([('gram', 0.5), ('moment', 0.5)], 100)
    """

    def __init__(
        self,
        dim: int,
        people: int,
        epsilon: float,
        *,
        contributions: int = 1,
        public_X: Array | None = None,
        whitening: Array | None = None,
        norm_bound: float = 1.0,
        label_range: tuple[float, float] = (-1.0, 1.0),
        delta: float = 0.0,
        crowd: Crowd | None = None,
    ) -> None:
        self.dim = integer("dim", dim)
        self.people = integer("people", people)
        self.epsilon = positive("epsilon", epsilon, allow_inf=True)
        self.contributions = integer("contributions", contributions)
        self.delta = float(delta)
        self.crowd = crowd
        if (crowd is None) != (self.delta == 0):
            raise ValueError("delta and crowd belong together: both where reports are shuffled")
        self._public = public_X
        self._phases = PHASES if crowd is None else SHUFFLED_PHASES
        self._steps = _steps(self._phases)
        self._clips = CLIP if crowd is None else SHUFFLED_CLIP
        if public_X is not None:
            self._clips = CLIP_KNOWN
        first = np.eye(dim) if whitening is None else whitening / np.linalg.norm(whitening, 2)
        belief = _Belief(np.zeros(dim), np.eye(dim) / dim, first)
        state = PublicState(
            window=0,
            theta=belief.theta,
            whitening=first,
            questions=self._questions(0, belief),
            contributions=self.contributions,
            norm_bound=norm_bound,
            outcome_range=label_range,
            **self._cost(0),
        )
        super().__init__(state, belief)

    @property
    def phase(self) -> int:
        """The phase of the open window."""
        return self._steps[self.ask().window][0]

    @property
    def size(self) -> int:
        """How many people the open window wants."""
        return self._size(self.ask().window)

    def _size(self, window: int) -> int:
        phase, step = self._steps[window]
        first = round(self.people * sum(self._phases[:phase]))
        everyone = round(self.people * sum(self._phases[: phase + 1])) - first
        scale = int(SCALE * everyone) if phase else 0
        return scale if step == "scale" else everyone - scale

    def _cost(self, window: int) -> dict[str, Any]:
        """What a window says about privacy."""
        if self.crowd is None:
            return {"epsilon": self.epsilon}
        batch = self.crowd.batch(max(1, self._size(window)), self.epsilon, self.delta)
        k = self.contributions
        return {"epsilon": k * batch.report_epsilon(k), "batch": batch}

    def estimate(self) -> Estimate:
        """theta and the covariance of its error, after the windows closed so far."""
        return Estimate(self._belief.theta.copy(), self._belief.covariance.copy())

    def _questions(self, window: int, belief: _Belief) -> tuple[Question, ...]:
        phase, step = self._steps[window]
        if step == "scale":
            each = 1 / len(LEVELS)
            return tuple(
                Question(f"scale {k}", "within", float(level), each)
                for k, level in enumerate(LEVELS)
            )
        clip = self._clips[phase] * belief.residual_std
        if self._public is not None:
            return (Question("moment", "moment", clip, 1.0),)
        if self.crowd is not None:
            return (Question("joint", "joint", clip, 1.0),)
        gram = GRAM[phase]
        return (
            Question("gram", "gram", clip, gram),
            Question("moment", "moment", clip, 1 - gram),
        )

    # -- learning: post-processing of sums --------------------------------------------------------

    def _learn(self) -> tuple[_Belief, PublicState | None]:
        state = self.ask()
        phase, step = self._steps[state.window]
        belief = self._rescaled() if step == "scale" else self._fitted(phase)
        window = state.window + 1
        if window == len(self._steps):
            return belief, None
        public = replace(
            state,
            window=window,
            theta=belief.theta,
            whitening=belief.whitening,
            questions=self._questions(window, belief),
            **self._cost(window),
        )
        return belief, public

    def _rescaled(self) -> _Belief:
        """The standard deviation of residuals: where the fraction within it is a normal one's.

        A heavy tail, say of 0/1 labels that are mostly 0, must not be cut: it may be one-sided.
        Then the clip holds 98% of the residuals, and what was learned with less is forgotten.
        """
        belief = self._belief
        sums = list(self._sums.values())
        if all(reports.count > 1 for reports in sums):
            levels = np.append(LEVELS, 2.0)  # no residual is larger: nobody needs to report that
            fractions = _isotonic(np.array([*(reports.mean for reports in sums), 1.0]))
            rising = np.minimum(fractions, 1.0) + 1e-9 * np.arange(len(fractions))
            std = float(np.exp(np.interp(0.683, rising, np.log(levels))))
            error = 2 * math.sqrt(max(float(reports.variance) for reports in sums))
            most = float(levels[np.argmax(rising >= 0.98 - error)])
            if most > HEAVY * std and not belief.heavy_tail and belief.unclipped is not None:
                theta, covariance = belief.unclipped
                belief = replace(belief, theta=theta, covariance=covariance, heavy_tail=True)
            heavy = belief.heavy_tail
            std = most / min(self._clips[1:]) if heavy else std
            belief = replace(belief, residual_std=std)
        whitening = Whitening.covering(belief.covariance, COVER / belief.residual_std)
        return replace(belief, whitening=whitening.matrix)

    def _fitted(self, phase: int) -> _Belief:
        """The posterior of w = whitening^-1 (theta* - theta) given  clip moment = H w + noise."""
        belief = self._belief
        moments = self._sums["moment"]
        if phase == 0:
            belief = replace(belief, unclipped=(belief.theta, belief.covariance))
        grams = self._known() if self._public is not None else self._sums["gram"]
        if min(moments.count, grams.count) < 2:
            return belief
        clip = self.ask().questions[0].clip
        whitening = Whitening(belief.whitening)
        prior = whitening.of_parameters(belief.covariance)
        w = fitted(prior, grams, clip * moments.mean, clip**2 * moments.variance)
        theta = belief.theta + whitening.matrix @ w.mean
        covariance = whitening.to_parameters(w.covariance)
        belief = replace(belief, theta=theta, covariance=covariance)
        return replace(belief, unclipped=(theta, covariance)) if phase == 0 else belief

    def _known(self) -> ReportSum:
        """The Gram term of public covariates, in the open whitening."""
        assert self._public is not None
        reports = ReportSum()
        everyone = Question("gram", "gram", 1e6, 1.0)
        for piece in pieces(len(self._public), self.dim**2):
            rows = self._public[piece]
            nothing = np.zeros(self.dim)
            zeros = np.zeros(len(rows))
            reports.add(answer(rows, zeros, everyone, nothing, self._belief.whitening))
        return reports


def fitted(prior: Array, grams: ReportSum, b: Array, noise: Array) -> Posterior:
    """w ~ N(0, prior) after  b = H w + noise  and noisy reports of H."""
    d = len(b)
    # Of an entry on the diagonal; rounding may leave less than 0 of equal reports.
    variance = max(float(grams.variance), 0.0) / (d * (d + 1) / 2)
    noise = noise + gram_error_covariance(prior, math.sqrt(variance))
    # An eigenvalue of the mean has noise of about s^2 (d + 1) / 2.
    values, vectors = np.linalg.eigh(grams.mean)
    values = discounted_eigenvalues(values, variance * (d + 1) / 2, SHRINK)
    H = (vectors * values) @ vectors.T
    # No direction becomes a million times as well known as another: inverses would lose the latter.
    noise = noise + 1e-12 * float(values.max()) ** 2 * float(np.trace(prior)) * np.eye(d)
    return Posterior.from_covariance(prior).observe(H, b, noise)


def _isotonic(values: Array) -> Array:
    """The closest non-decreasing sequence: the largest over starts of the least mean over ends."""
    n = len(values)
    sums = np.concatenate([[0.0], np.cumsum(values)])
    return np.array(
        [
            max(
                min((sums[b] - sums[a]) / (b - a) for b in range(i + 1, n + 1))
                for a in range(i + 1)
            )
            for i in range(n)
        ]
    )
