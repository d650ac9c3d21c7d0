"""The server of a locally private regression: it asks, adds answers up, and estimates.

Chen, Li, Rakhlin, Simchi-Levi (2025), Algorithms 2 and 3; symbols in `discreet.local.questions`.
Under shuffled trust each window is one batch, and everybody in a fit tells Gram and moment at once.
"""

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy

from discreet.arrays import Array, integer
from discreet.least_squares import (
    Posterior,
    Whitening,
    discounted_eigenvalues,
    gram_error_covariance,
    shrink,
)
from discreet.local import Server as LocalServer
from discreet.local.questions import Question, answer
from discreet.local.report import ReportSum, pieces
from discreet.local.state import PublicState
from discreet.privacy import Shuffled
from discreet.regression.base import Estimate

PHASES = (0.1, 0.15, 0.25, 0.5)  # fraction of the people
SCALE = (0.0, 0.2, 0.1, 0.1)  # of them, who tell about residuals first
FIRST_GRAM = 0.5  # of the others in the first phase, who report the Gram term
CLIP = (1.0, 2.0, 2.0, 1.5)  # residual stds; below 1.5 the slope costs what the noise saves
# Where reports are shuffled: fewer and larger, since a small batch hides little, and cut at less,
# since every report measures the slope. Mean error x 10^3, sphere, d = 5, 10^4 and 10^5 people (60
# and 12 seeds from 6100): these 8.7 and 1.5; phases (.3, .3, .4), clips (1, 2, 1.5) and a cover of
# 1.5 11.6 and 2.2; two phases 14.0 and 2.1. 10^4 people whose rows decay lose: 13.1 for 11.2.
SHUFFLED_PHASES, SHUFFLED_CLIP = (0.3, 0.25, 0.45), (1.0, 1.5, 1.0)
CLIP_KNOWN = (1.0, 2.5, 2.5, 2.5)  # without Gram reports nobody measures the slope: keep it near 1
WHOLE = 0.6  # a clip above this saves nothing: labels as they are, around 0, never pass 1
LEAST_GRAM, MOST_GRAM = 0.05, 0.5  # of the people of a window
LEVELS = 2.0 ** -np.arange(6, -1, -1)  # clips that "scale" tries, as a fraction of the label bound
COVER, SHUFFLED_COVER = 1.5, 1.0  # standard deviations of theta's error within the clip
SHRINK = 0.3  # of the eigenvalues' noise; more loses rare directions
NOTHING = 1e-16  # variance of theta that is none
NEAR = 0.5  # relative change of a whitening that is not worth new Gram reports
TAIL, SURE = 5.0, 3.0  # residual stds that hold all normal ones; standard errors that prove a tail


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
    centre         the theta whose residuals the next fit asks for: the estimate, or 0
    clip           of these residuals
    whole          theta and covariance of the windows that cut no residual
    grams          of these windows, while they ask with the same whitening
    tail           whether a window has shown one: residuals are not cut again
    """

    theta: Array
    covariance: Array
    whitening: Array
    centre: Array
    clip: float
    whole: tuple[Array, Array]
    grams: ReportSum | None = None
    tail: bool = False


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
        crowd: Shuffled | None = None,
    ) -> None:
        super().__init__(dim, epsilon, contributions, delta, crowd)
        self.people = integer("people", people)
        self._public = public_X
        self._phases = PHASES if crowd is None else SHUFFLED_PHASES
        self._steps = _steps(self._phases)
        self._clips = CLIP if crowd is None else SHUFFLED_CLIP
        self._cover = COVER if crowd is None else SHUFFLED_COVER
        if public_X is not None:
            self._clips = CLIP_KNOWN
        first = np.eye(dim) if whitening is None else whitening / np.linalg.norm(whitening, 2)
        nothing = (np.zeros(dim), np.eye(dim) / dim)
        belief = _Belief(*nothing, first, np.zeros(dim), 1.0, nothing)
        state = PublicState(
            window=0,
            theta=belief.theta,
            whitening=first,
            questions=self._questions(0, belief),
            contributions=self.contributions,
            norm_bound=norm_bound,
            outcome_range=label_range,
            **self._window_cost(0),
        )
        self._publish(belief, state)

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
        scale = int(SCALE[phase] * everyone)
        return scale if step == "scale" else everyone - scale

    def _window_cost(self, window: int) -> dict[str, Any]:
        return self._cost(max(1, self._size(window)))

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
        clip = belief.clip
        if self._public is not None:
            return (Question("moment", "moment", clip, 1.0),)
        if self.crowd is not None:
            return (Question("joint", "joint", clip, 1.0),)
        gram = self._gram_fraction(window, belief) if phase else FIRST_GRAM
        return (
            Question("gram", "gram", clip, gram),
            Question("moment", "moment", clip, 1 - gram),
        )

    def _gram_fraction(self, window: int, belief: _Belief) -> float:
        """Of the people of a window, such that theta's error is least.

        An error Z of the Gram moves the moment by Z w: with G Gram reports before and n people,
        minimise |w|^2 (1 + 1/d) / 2 / (G + g n) + clip^2 / ((1 - g) n), entries of reports being
        about as noisy in all dimensions.
        """
        whitening = Whitening(belief.whitening)
        w = whitening.inverse @ (belief.theta - belief.centre)
        square = float(w @ w) + float(np.trace(whitening.of_parameters(belief.covariance)))
        ratio = math.sqrt(square * (1 + 1 / self.dim) / 2) / belief.clip
        before = 0 if belief.grams is None else belief.grams.count
        gram = (ratio - before / max(self._size(window), 1)) / (1 + ratio)
        return min(max(gram, LEAST_GRAM), MOST_GRAM)

    # -- learning: post-processing of sums --------------------------------------------------------

    def _learn(self) -> tuple[_Belief, PublicState | None]:
        state = self.ask()
        phase, step = self._steps[state.window]
        belief = self._rescaled(phase) if step == "scale" else self._fitted()
        window = state.window + 1
        if window == len(self._steps):
            return belief, None
        public = replace(
            state,
            window=window,
            theta=belief.theta if self._steps[window][1] == "scale" else belief.centre,
            whitening=belief.whitening,
            questions=self._questions(window, belief),
            **self._window_cost(window),
        )
        return belief, public

    def _rescaled(self, phase: int) -> _Belief:
        """Around which theta the next fit asks, where it cuts residuals, and its whitening.

        Residuals of the estimate, cut at a few standard deviations, have less noise than labels if
        they are much shorter. A tail, say of 0/1 labels that are mostly 0, must not be cut, since
        it may be one-sided: then labels are asked for as they are from now on, and what was learned
        with cuts is forgotten. (Around another theta the same tail may not stand out again.)
        """
        belief = self._belief
        std, tail = self._residuals()
        if tail and not belief.tail:
            theta, covariance = belief.whole
            belief = replace(belief, theta=theta, covariance=covariance, tail=True)
        tail = belief.tail
        clip = self._clips[phase] * std
        if not tail and clip < WHOLE:
            whitening = Whitening.covering(belief.covariance, self._cover / std).matrix
            return replace(belief, whitening=whitening, centre=belief.theta, clip=clip, grams=None)
        belief = replace(belief, centre=np.zeros(self.dim), clip=1.0)
        known = belief.covariance + NOTHING * np.eye(self.dim)  # without noise it may become 0
        whitening = Whitening.covering(known, 0.0).matrix
        if belief.grams is not None:
            moved = np.linalg.solve(belief.whitening, whitening) - np.eye(self.dim)
            if np.linalg.norm(moved, 2) < NEAR:
                return belief
        return replace(belief, whitening=whitening, grams=None)

    def _residuals(self) -> tuple[float, bool]:
        """Their standard deviation, and whether some are far beyond it.

        The first is where the fraction within it is a normal one's.
        """
        sums = list(self._sums.values())
        if any(reports.count < 2 for reports in sums):
            return 1.0, False
        levels = np.append(LEVELS, 2.0)  # no residual is larger: nobody needs to report that
        means = np.array([float(reports.mean) for reports in sums])
        fractions = scipy.optimize.isotonic_regression(np.append(means, 1.0)).x
        rising = np.minimum(fractions, 1.0) + 1e-9 * np.arange(len(fractions))
        std = float(np.exp(np.interp(0.683, rising, np.log(levels))))
        far = (TAIL * std <= LEVELS) & (LEVELS < 1)
        if not far.any():
            return std, False
        variances = np.array([float(reports.variance) for reports in sums])[far]
        error = math.sqrt(max(float(variances.sum()), 0.0)) / len(variances)
        return std, 1 - float(means[far].mean()) > SURE * error

    def _fitted(self) -> _Belief:
        """The posterior of w = whitening^-1 (theta* - centre) given  clip moment = H w + noise."""
        belief = self._belief
        moments = self._sums["moment"]
        grams = self._known() if self._public is not None else self._sums["gram"]
        whole = belief.clip >= 1
        if whole and self._public is None:
            grams = _pooled(grams, belief.grams)
            belief = replace(belief, grams=grams)
        if min(moments.count, grams.count) < 2:
            return belief
        whitening = Whitening(belief.whitening)
        b = belief.clip * moments.mean
        noise = belief.clip**2 * moments.variance

        def after(theta: Array, covariance: Array) -> tuple[Array, Array]:
            before = whitening.inverse @ (theta - belief.centre)
            w = fitted(whitening.of_parameters(covariance), grams, b, noise, before)
            return (
                theta + whitening.matrix @ w.mean,
                whitening.to_parameters(w.covariance),
            )

        theta, covariance = after(belief.theta, belief.covariance)
        unclipped = after(*belief.whole) if whole else belief.whole
        return replace(belief, theta=theta, covariance=covariance, whole=unclipped)

    def _known(self) -> ReportSum:
        """The Gram term of public covariates, in the open whitening."""
        assert self._public is not None
        reports = ReportSum()
        everyone = Question("gram", "gram", 1e6, 1.0)
        for piece in pieces(len(self._public), self.dim**2):
            rows = self._public[piece]
            nothing = np.zeros(self.dim)
            zeros = np.zeros(len(rows))
            told = answer(rows, zeros, everyone, nothing, self._belief.whitening)
            reports.add(everyone.split(told, self.dim)["gram"])
        return reports


def fitted(
    prior: Array, grams: ReportSum, b: Array, noise: Array, before: Array | None = None
) -> Posterior:
    """w - before ~ N(0, prior) after  b = H w + noise  and noisy reports of H."""
    d = len(b)
    w = np.zeros(d) if before is None else before
    # Of an entry on the diagonal; rounding may leave less than 0 of equal reports.
    variance = max(float(grams.variance), 0.0) / (d * (d + 1) / 2)
    noise = noise + gram_error_covariance(prior + np.outer(w, w), math.sqrt(variance))
    # An eigenvalue of the mean has noise of about s^2 (d + 1) / 2.
    values, vectors = np.linalg.eigh(shrink(grams.mean, math.sqrt(variance)))
    values = discounted_eigenvalues(values, variance * (d + 1) / 2, SHRINK)
    H = (vectors * values) @ vectors.T
    # No direction becomes a million times as well known as another: inverses would lose the latter.
    noise = noise + 1e-12 * float(values.max()) ** 2 * float(np.trace(prior)) * np.eye(d)
    return Posterior.from_covariance(prior).observe(H, b - H @ w, noise)


def _pooled(grams: ReportSum, before: ReportSum | None) -> ReportSum:
    """Reports of two windows that asked with the same whitening."""
    both = ReportSum()
    for reports in (grams, before):
        if reports is not None and reports.count:
            both.merge(reports)
    return both
