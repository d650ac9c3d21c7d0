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
from discreet.least_squares import Whitening, shrink
from discreet.local import Server as LocalServer
from discreet.local.questions import Question, answer
from discreet.local.report import ReportSum, pieces
from discreet.local.state import PublicState
from discreet.privacy import Shuffled
from discreet.regression.base import Estimate

PHASES = (0.1, 0.15, 0.25, 0.5)  # fraction of the people
# Where reports are shuffled: fewer and larger, since a small batch hides little. Mean error x 10^3,
# sphere, d = 5, 10^4 and 10^5 people (60 and 12 seeds from 6100): these 8.7 and 1.5; phases
# (.3, .3, .4) 11.6 and 2.2; two phases 14.0 and 2.1. 10^4 people whose rows decay lose: 13.1, 11.2.
SHUFFLED_PHASES = (0.3, 0.25, 0.45)
SCALE = 0.1  # of the people of a later phase, who tell about residuals first
CLIP = 1.5  # residual stds; below, the slope costs what the noise saves
LEAST_GRAM = 0.05  # of the people of a window
NOTHING = 1e-16  # variance of theta that is none
TAIL, SURE = 5.0, 3.0  # residual stds that hold all normal ones; standard errors that prove a tail

LEVELS = 2.0 ** -np.arange(6, -1, -1)  # clips of the histogram, as a fraction of the label bound
HISTOGRAM = tuple(
    Question(f"scale {k}", "within", float(level), 1 / len(LEVELS))
    for k, level in enumerate(LEVELS)
)


@dataclass(frozen=True)
class _Belief:
    """What the reports so far have told.

    theta          the estimate
    covariance     of its error
    whole          theta and covariance of the windows that cut no residual
    grams          of the last of these windows, which ask with one whitening
    tail           whether a window has shown one: residuals are not cut again
    """

    theta: Array
    covariance: Array
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
    >>> [(each.name, round(each.fraction, 2)) for each in server.ask().questions], server.size
    ([('gram', 0.46), ('moment', 0.54)], 100)
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
        first = np.eye(dim) if whitening is None else whitening / np.linalg.norm(whitening, 2)
        nothing = (np.zeros(dim), np.eye(dim) / dim)
        belief = _Belief(*nothing, whole=nothing)
        state = PublicState(
            window=0,
            contributions=self.contributions,
            norm_bound=norm_bound,
            outcome_range=label_range,
            **self._fit(0, belief, np.zeros(dim), first, 1.0),
            **self._promise(0),
        )
        self._publish(belief, state)

    @property
    def size(self) -> int:
        """How many people the open window wants."""
        return self._size(self.ask().window)

    def _size(self, window: int) -> int:
        """Every phase fits; later ones first measure the residuals, in a window of their own."""
        phase = (window + 1) // 2
        first = round(self.people * sum(self._phases[:phase]))
        everyone = round(self.people * sum(self._phases[: phase + 1])) - first
        scale = int(SCALE * everyone) if phase else 0
        return scale if window % 2 else everyone - scale

    def _promise(self, window: int) -> dict[str, Any]:
        return self._cost(max(1, self._size(window)))

    def estimate(self) -> Estimate:
        """theta and the covariance of its error, after the windows closed so far."""
        return Estimate(self._belief.theta.copy(), self._belief.covariance.copy())

    # -- learning: post-processing of sums --------------------------------------------------------

    def _learn(self) -> tuple[_Belief, PublicState | None]:
        window = self.ask().window + 1
        if window % 2 == 0:
            belief, asked = self._rescaled(window)
        else:
            belief = self._fitted()
            asked = {"theta": belief.theta, "questions": HISTOGRAM}
            if window == 2 * len(self._phases) - 1:
                return belief, None
        return belief, replace(self.ask(), window=window, **asked, **self._promise(window))

    def _rescaled(self, window: int) -> tuple[_Belief, dict[str, Any]]:
        """Around which theta the next fit asks, where it cuts residuals, and its whitening.

        Residuals of the estimate, cut at a few standard deviations, have less noise than labels if
        they are much shorter. A tail, say of 0/1 labels that are mostly 0, must not be cut, since
        it may be one-sided: then labels are asked for as they are from now on, and what was learned
        with cuts is forgotten. (Around another theta the same tail may not stand out again.) While
        labels are asked for as they are the whitening stays, so that Gram reports add up.
        """
        belief = self._belief
        std, tail = residual_std(self._sums)
        if tail and not belief.tail:
            theta, covariance = belief.whole
            belief = replace(belief, theta=theta, covariance=covariance, tail=True)
        clip = CLIP * std
        if not belief.tail and clip < 1:
            belief = replace(belief, grams=None)
            whitening = Whitening.covering(belief.covariance, 1 / std).matrix
            return belief, self._fit(window, belief, belief.theta, whitening, clip)
        whitening = self.ask().whitening
        if belief.grams is None:
            known = belief.covariance + NOTHING * np.eye(self.dim)  # without noise it may become 0
            whitening = Whitening.covering(known, 0.0).matrix
        return belief, self._fit(window, belief, np.zeros(self.dim), whitening, 1.0)

    def _fit(
        self, window: int, belief: _Belief, centre: Array, whitening: Array, clip: float
    ) -> dict[str, Any]:
        """What a fit asks, with as many people for the Gram as make theta's error least.

        An error Z of the Gram moves the moment by Z w: with G Gram reports before and n people,
        minimise |w|^2 (1 + 1/d) / 2 / (G + g n) + clip^2 / ((1 - g) n), entries of reports being
        about as noisy in all dimensions.
        """
        asked = {"theta": centre, "whitening": whitening}
        if self._public is not None:
            return asked | {"questions": (Question("moment", "moment", clip, 1.0),)}
        if self.crowd is not None:
            return asked | {"questions": (Question("joint", "joint", clip, 1.0),)}
        M = Whitening(whitening)
        w = M.inverse @ (belief.theta - centre)
        square = float(w @ w) + float(np.trace(M.of_parameters(belief.covariance)))
        ratio = math.sqrt(square * (1 + 1 / self.dim) / 2) / clip
        before = 0 if belief.grams is None else belief.grams.count
        g = max((ratio - before / max(self._size(window), 1)) / (1 + ratio), LEAST_GRAM)
        gram = Question("gram", "gram", clip, g)
        moment = Question("moment", "moment", clip, 1 - g)
        return asked | {"questions": (gram, moment)}

    def _fitted(self) -> _Belief:
        """What is known after the reports of a fit."""
        belief = self._belief
        whole = self.ask().question_of("moment").clip >= 1
        grams = self._known() if self._public is not None else self._sums["gram"]
        if whole and self._public is None:
            grams = _pooled(grams, belief.grams)
            belief = replace(belief, grams=grams)
        if min(self._sums["moment"].count, grams.count) < 2:
            return belief
        gram, std = gram_estimate(grams)
        theta, covariance = self._posterior(belief.theta, belief.covariance, gram, std)
        unclipped = self._posterior(*belief.whole, gram, std) if whole else belief.whole
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
            told = answer(rows, zeros, everyone, nothing, self.ask().whitening)
            reports.add(everyone.split(told, self.dim)["gram"])
        return reports


def gram_estimate(reports: ReportSum) -> tuple[Array, float]:
    """The mean Gram, drawn to isotropy by its noise, and its std on the diagonal."""
    d = len(reports.mean)
    # Rounding may leave a variance of less than 0 of equal reports.
    std = math.sqrt(max(float(reports.variance), 0.0) / (d * (d + 1) / 2))
    return shrink(reports.mean, std), std


def residual_std(sums: dict[str, ReportSum]) -> tuple[float, bool]:
    """The standard deviation of residuals, and whether some are far beyond it: by their histogram.

    The first is where the fraction within it is a normal one's.
    """
    told = [sums[question.name] for question in HISTOGRAM]
    if any(reports.count < 2 for reports in told):
        return 1.0, False
    levels = np.append(LEVELS, 2.0)  # no residual is larger: nobody needs to report that
    means = np.array([float(reports.mean) for reports in told])
    fractions = scipy.optimize.isotonic_regression(np.append(means, 1.0)).x
    rising = np.minimum(fractions, 1.0) + 1e-9 * np.arange(len(fractions))
    std = float(np.exp(np.interp(0.683, rising, np.log(levels))))
    far = (TAIL * std <= LEVELS) & (LEVELS < 1)
    if not far.any():
        return std, False
    variances = np.array([float(reports.variance) for reports in told])[far]
    error = math.sqrt(max(float(variances.sum()), 0.0)) / len(variances)
    return std, 1 - float(means[far].mean()) > SURE * error


def _pooled(grams: ReportSum, before: ReportSum | None) -> ReportSum:
    """Reports of two windows that asked with the same whitening."""
    both = ReportSum()
    for reports in (grams, before):
        if reports is not None and reports.count:
            both.merge(reports)
    return both
