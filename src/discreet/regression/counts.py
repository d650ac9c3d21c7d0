"""Fisher scoring for counts: labels are clipped a few standard deviations from their mean.

    nu = exp(t), t = <phi, theta>                the mean of a count
    low, high = nu -+ c, integers                inside [0, label_bound]
    c = max(sqrt(Var(y) + v nu^2), S/|u|)        v: how well t is known, from earlier releases
    m = E[clip(y, low, high)]                    under the model of counts (`dispersion.py`)
    psi = clip(y, low, high) - m                 in the place of y - nu
    r = max(high - m, m - low)                   the largest |psi| attainable
    w = min(1, S/(|u| r), tau^2/(|u|^2 nu'))     u = M phi, whitened: |u|^2 nu is 1 on average

Without a clip one count moves the gradient by label_bound, though it is sqrt(nu) from its mean. The
clip is no bias, because psi has mean zero at the right theta for every c (Cantoni and Ronchetti
2001): so noise is that of a few standard deviations. c is short where a row is long and wide where
it is short (Schweppe's form), which loses least for terms of the gradient of at most S.

That holds as far as the model of counts does. A histogram tells how much they vary; where that is
more than Poisson's, they are centred as negative binomial ones, and S grows like Var(y) / nu rather
than its root, so that what is cut off, and with it an error of the model, stays small.

Seven releases. The first stage regresses log(y + 1/2), bounded by the logarithm of label_bound, and
needs no start. Newton steps follow, with a histogram before each of the last two: the first is
taken around means that took counts for Poisson, the second around better ones. Only the last stage
is in the estimate.
"""

import math
from dataclasses import dataclass

import numpy as np

from discreet.arrays import Array
from discreet.links import BoundedLink
from discreet.regression.base import Estimate, Problem
from discreet.regression.dispersion import Dispersion, labels, means, released_dispersion
from discreet.regression.newton import (
    first_weighting,
    posterior_of,
    stage,
    stand_ins,
    whitening_of,
)
from discreet.regression.rows import Parts
from discreet.regression.sample import Sample
from discreet.regression.scores import Score, Weighting

FRACTIONS = (0.03, 0.03, 0.04, 0.06, 0.78)  # of mu^2, over the stages
HISTOGRAMS = (0.0, 0.0, 0.0, 0.02, 0.04)  # of mu^2, before a stage
SLACK = (0.0, 0.25, 0.1, 0.02, 0.0)  # added to v: the start may be off by more than noise
FARTHEST = 1.0  # move of t in a stage, in root mean square
STEP = 0.001  # of t, for a derivative


def counts(problem: Problem, model: BoundedLink, radius: float) -> Estimate:
    """theta with |theta| <= radius and the covariance of its error."""
    n, d = problem.X.shape
    spread = Dispersion()
    more = 1.0
    start = Estimate(np.zeros(d), None)
    first = first_weighting(problem)
    now, information = _step(problem, LogScore(model), first, start, radius, 0, None)
    rows = stand_ins(problem, information / n)
    length = math.sqrt(min(float(np.trace(information)) / n, 1.0))  # of a row
    for number in range(1, len(FRACTIONS)):
        covariance = np.asarray(now.covariance)
        if HISTOGRAMS[number]:
            mu = problem.budget.mu * math.sqrt(HISTOGRAMS[number])
            sample = Sample(problem, problem.X, problem.y, mu)
            v = float(np.sum(covariance * information) / np.trace(information))
            spread, more = released_dispersion(sample, model, now.theta, v)
        score = CountScore(model, spread, more, covariance, SLACK[number])
        whitening = whitening_of(information / n)
        weighting = Weighting(whitening, _tau(problem))
        after, information = _step(problem, score, weighting, now, radius, number, rows)
        now = _no_further(now.theta, after, information, length)
    return now


def _no_further(start: Array, found: Estimate, information: Array, length: float) -> Estimate:
    """At most FARTHEST from start in t, because exp runs away from its tangent; the rest is error.

    `length` is that of a row, in root mean square.
    """
    way = found.theta - start
    change = float(way @ information @ way) / max(float(np.trace(information)), 1e-300)
    move = length * math.sqrt(max(change, 0.0))  # of t, in root mean square over rows
    rest = way * max(1 - FARTHEST / max(move, 1e-300), 0.0)
    return Estimate(found.theta - rest, np.asarray(found.covariance) + np.outer(rest, rest))


def _step(
    problem: Problem,
    score: Score,
    weighting: Weighting,
    start: Estimate,
    radius: float,
    number: int,
    rows: Array | None,
) -> tuple[Estimate, Array]:
    """One release, theta after it, and the information; rows that stand in for the private ones."""
    n = len(problem.X)
    mu = problem.budget.mu * math.sqrt(FRACTIONS[number])
    sample = Sample(problem, problem.X, problem.y, mu)
    what = f"gradient and information, stage {number + 1} of {len(FRACTIONS)}"
    found = stage(sample, score, weighting, start.theta, what, rows).lifted
    drawn = stand_ins(problem, found.information / n) if rows is None else rows
    posterior = posterior_of([found], score, drawn, radius**2 / problem.X.shape[1], off=False)
    norm = float(np.linalg.norm(posterior.mean))
    theta = posterior.mean * min(1.0, radius / max(norm, 1e-300))
    return Estimate(theta, posterior.covariance), found.information


@dataclass(frozen=True)
class LogScore(Score):
    """log(y + 1/2) as the label of a linear model, around theta = 0."""

    model: BoundedLink  # for the bound on labels

    # Var(log(y + 1/2)) of a Poisson count is less than `dispersion`, which is 1.

    @property
    def half_range(self) -> float:
        """h: |log(y + 1/2)| <= h for y in [0, label_bound]."""
        return max(math.log(2), math.log(self.model.unit + 0.5))

    def statistics(self, weighting: Weighting, theta: Array, X: Array, y: Array) -> Parts:
        """g = sum w u log(y + 1/2) and H = sum w u u'; theta is 0."""
        u, w = weighting.transform(X, np.ones(len(X)))
        return u.T @ (w * np.log(labels(self.model, y) + 0.5)), (u * w[:, None]).T @ u

    def sensitivities(self, weighting: Weighting) -> tuple[float, float]:
        """How far one replaced row moves g and H."""
        # w |u| <= tau and |log(y + 1/2)| <= h: 2 tau h (replace-one). w |u|^2 <= cap: sqrt(2) cap
        # (replace-one, PSD terms).
        return 2 * weighting.tau * self.half_range, math.sqrt(2) * weighting.cap


@dataclass(frozen=True)
class CountScore(Score):
    """The clipped score of counts."""

    model: BoundedLink  # nu
    spread: Dispersion  # Var(y) / nu of every row
    more: float  # Var(y) / nu of rows of average information
    covariance: Array  # (d, d), of the error of theta
    slack: float  # added to the variance of t

    @property
    def dispersion(self) -> float:
        """Var(y) / nu of rows of average information."""
        return self.more

    def longest(self, weighting: Weighting) -> float:
        """S: no row's part of g is longer."""
        return weighting.tau * self.dispersion

    def statistics(self, weighting: Weighting, theta: Array, X: Array, y: Array) -> Parts:
        """g = sum w u psi and H = sum w u u' nu'; everything but psi is a function of phi."""
        S = self.longest(weighting)
        u = weighting.whitening.transform(X)
        size = np.maximum(np.sqrt(np.einsum("ij,ij->i", u, u)), 1e-100)
        nu = means(self.model, theta, X)
        v = np.maximum(np.einsum("ij,ij->i", X @ self.covariance, X), 0.0) + self.slack
        c = np.maximum(np.sqrt(nu * (self.spread.at(nu) + nu * v)), S / size)
        low = np.maximum(np.floor(nu - c), 0.0)
        high = np.minimum(np.ceil(nu + c), self.model.unit)
        # label_bound cuts nothing off, by assumption: counts stay below it, whatever their model.
        m, slope = clipped_mean(self.spread, nu, low, high, high < self.model.unit)
        psi = np.clip(labels(self.model, y), low, high) - m
        r = np.maximum(high - m, m - low)
        w = np.minimum(1.0, S / np.maximum(size * r, 1e-100))
        w = np.minimum(w, weighting.tau**2 / np.maximum(size**2 * slope, 1e-100))
        return u.T @ (w * psi), (u * (w * slope)[:, None]).T @ u

    def sensitivities(self, weighting: Weighting) -> tuple[float, float]:
        """How far one replaced row moves g and H."""
        # m is in [low, high], so |psi| <= r for every label: |w u psi| <= S, and two rows differ by
        # 2 S (replace-one). w |u|^2 nu' <= tau^2: sqrt(2) tau^2 (replace-one, PSD terms).
        return 2 * self.longest(weighting), math.sqrt(2) * weighting.tau**2


def clipped_mean(
    spread: Dispersion, nu: Array, low: Array, high: Array, cut: Array
) -> tuple[Array, Array]:  # (n,), (n,)
    """m = E[clip(Y, low, high)] and its derivative in t = log nu, low and high kept.

    Where `cut` is not, Y is taken to stay below high: m = E[max(Y, low)], at most high.

    For Poisson the derivative is E[clip(Y) (Y - nu)] = nu E[clip(Y + 1) - clip(Y)]
    = nu P(low <= Y < high) for integers low and high: at most nu, and at least Var(clip(Y)).

    >>> one, two, four = np.array([1.0]), np.array([2.0]), np.array([4.0])
    >>> clipped_mean(Dispersion(), two, one, four, four > 0)[0].round(2)  # 1 e^-2 + 2 e^-2 + ...
    array([2.06])
    """
    mean, inside = _clipped_mean(spread, nu, low, high, cut)
    if spread.poisson:
        return mean, nu * np.maximum(inside, 0.0)
    ahead = _clipped_mean(spread, nu * math.exp(STEP), low, high, cut)[0]
    return mean, np.clip((ahead - mean) / STEP, 0.0, 2 * nu)


def _clipped_mean(
    spread: Dispersion, nu: Array, low: Array, high: Array, cut: Array
) -> tuple[Array, Array]:  # m, P(low <= Y < high)
    top, below_top = (np.where(cut, each, 1.0) for each in spread.below(nu, np.ceil(high) - 1))
    bottom, below_bottom = spread.below(nu, low - 1)
    mean = nu * (below_top - below_bottom) + high * (1 - top) + low * bottom
    # Inside its range also where a distribution function is not accurate (means beyond 10^15).
    return np.clip(np.nan_to_num(mean, nan=0.0), low, high), np.nan_to_num(top - bottom, nan=1.0)


def _tau(problem: Problem) -> float:
    """S in standard deviations, for the least error: the more rows, the less is worth clipping.

    With the model known, the best S is 1.5, 1.6, 2.3 and 3.7 at 2,000, 5,000, 50,000 and 500,000
    rows (d = 10, epsilon = 1).
    """
    n, d = problem.X.shape
    sampling_over_noise = math.sqrt(n / d) * problem.budget.mu / (2 * problem.budget.contributions)
    return max(1.5, 1.15 * math.cbrt(sampling_over_noise))
