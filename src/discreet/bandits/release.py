"""What a window's release teaches: from noisy sums to the next belief; all of it post-processing.

In whitened coordinates a release holds N = H + Z, the Gram matrix of the rows and its noise, their
moments m with the clipped residual and g with what was clipped off, and the sums of squares of
both. For a belief N(mean, C) and delta = M^-1 (theta - centre),

    m = slope H delta + noise        m + g = H delta + noise

where slope is the fraction of residuals that were not clipped. Four steps read it:

    read       the released vector, taken apart
    residuals  how large they were: a grid posterior of their scale
    shrunk     H, without most of its noise          (least_squares/shrinkage.py)
    observe    m and g are a linear observation of theta with errors in variables: the noise of
               their release, that of rewards, and H's error times delta

and the belief is Bayesian linear regression on it (Bishop 2006, section 3.3).
"""

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from discreet.arrays import Array, vector_to_symmetric
from discreet.bandits.belief import Belief
from discreet.bandits.tuning import TUNING
from discreet.bandits.window import COUNT, LONGEST, TOTALS, VALUE, Transform
from discreet.least_squares import Posterior, clipped_normal
from discreet.least_squares.blocks import Blocks
from discreet.least_squares.posterior import information, log_evidence, projected_mean
from discreet.least_squares.shrinkage import expected_gram, product_covariance, shrunk

SCALES = np.geomspace(0.1, 10.0, 81)  # std of residuals against the expected one
LONGER = 2 ** (np.arange(17) / 4)  # times as long
KEPT = 0.7 ** np.arange(24)  # of older evidence, if it has

Observation = tuple[Array, Array, Array]  # design, value and noise covariance


@dataclass(frozen=True)
class Sums:
    """A window's release, taken apart."""

    gram: Array  # N, (d, d), noisy
    moment: Array  # m, (d,), of clipped residuals
    clipped_off: Array  # g, (d,), of what was clipped off
    clipped_squares: float  # sum of (f/R)^2
    squares: float  # sum of squared residuals
    count: float  # weight of all rows
    answers: float  # rows, by all that counts them
    answers_std: float  # of the noise in it
    thin: bool  # there may have been no rows at all
    noise_std: float  # s, on a diagonal entry of the Gram matrix

    @classmethod
    def read(
        cls,
        released: Array,
        transform: Transform,
        release_std: float,
        size: int,
        belief: Belief,
        blocks: Blocks | None = None,
    ) -> "Sums":
        """From the released vector of a window of so many decisions.

        While rewards come steadily, about as many rows as decisions are expected: then a fraction
        of `full` tells a full window from an empty one. Otherwise the count must stand out of its
        noise. Products across `blocks` are 0: what was released of them is noise.
        """
        d = len(transform.mean)
        R, E = transform.units
        a, _ = transform.sides
        matrix = vector_to_symmetric(released[:-TOTALS]) / a**2
        count = released[-TOTALS] / COUNT
        count_std = release_std / COUNT
        plain = released[1 - TOTALS] / VALUE
        # Three counts by their precision. Of n rows each says n, but for weights, which are small
        # where whitening makes rows too long, or the trace, where it leaves them too short.
        precision = np.array([COUNT**2, VALUE**2, a**4 / d])
        counts = precision * [count, plain, float(np.trace(matrix[:d, :d]))]
        answers = float(counts.sum() / precision.sum())
        answers_std = release_std / math.sqrt(precision.sum())
        proven = answers > TUNING.thin * answers_std
        steady = belief.counted(size, answers, answers_std).steady
        untraced = float(counts[:2].sum() / precision[:2].sum())
        if steady:  # the prior of the count is N(size, (size / 2)^2)
            prior = (0.5 * size) ** 2
            count = (size * count_std**2 + count * prior) / (count_std**2 + prior)
        return cls(
            gram=matrix[:d, :d] if blocks is None else matrix[:d, :d] * blocks.together,
            moment=matrix[:d, d] * R,
            clipped_off=matrix[:d, d + 1] * E,
            clipped_squares=matrix[d, d] / transform.balance,
            squares=R**2 * matrix[d, d]
            + 2 * R * E * matrix[d, d + 1]
            + E**2 * matrix[d + 1, d + 1],
            count=min(max(count, 0.5 * count_std), size),
            answers=answers,
            answers_std=answers_std,
            thin=not (proven or (steady and max(answers, untraced) > TUNING.full * size)),
            noise_std=release_std / a**2,
        )


@dataclass(frozen=True)
class Residuals:
    """What the sums of squares say: how large residuals were, and whether they look normal."""

    variance: float  # of a residual
    slope: float  # of the clipped residual
    second: float  # moment of the clipped residual, relative to the variance
    normal: bool  # whether they look normal
    pooled: tuple[float, float, float]  # rows, sum of squares and its noise, of recent windows


def residuals(belief: Belief, transform: Transform, sums: Sums) -> Residuals:
    """The scale of residuals from the squares of the clipped ones, as if they were normal.

    They are not if the squares of all, pooled over recent windows, are far above that.
    """
    R, E = transform.units
    rows = TUNING.recent * belief.effective_rows + sums.count
    squares = TUNING.recent * belief.residual_sum_of_squares + sums.squares
    noise = math.hypot(TUNING.recent * belief.residual_noise_std, sums.noise_std * (R**2 + E**2))
    pooled = (rows, squares, noise)
    if R >= E:  # nothing was clipped: nothing needs to be normal
        return Residuals(math.nan, 1.0, 1.0, True, pooled)
    nu = belief.reward_variance
    if not belief.informed and not transform.spread.any():  # then they hold all of the signal
        nu += (transform.steepness * belief.radius) ** 2 / len(belief.mean)
    clip = transform.clip / math.sqrt(nu)
    expected = sums.count * clipped_normal(clip / SCALES)[1] * (SCALES / clip) ** 2
    variance = max((sums.noise_std / transform.balance) ** 2, 1e-12 * sums.count**2)
    log = -((sums.clipped_squares - expected) ** 2) / (2 * variance)
    log -= (np.log(SCALES) / TUNING.spread) ** 2 / 2
    below = np.cumsum(np.exp(log - log.max()))
    scale = float(SCALES[np.searchsorted(below / below[-1], 0.5)])
    slope, second = clipped_normal(clip / scale)
    return Residuals(
        variance=nu * scale**2,
        slope=max(float(slope), 0.1),
        second=float(second),
        normal=squares / rows <= 2 * nu * scale**2 + TUNING.heavy * noise / rows,
        pooled=pooled,
    )


@dataclass(frozen=True)
class Seen:
    """What a window tells of its rows, beside their moments."""

    sums: Sums  # released
    transform: Transform  # of the rows
    H: Array  # (d, d), of information about theta
    gram: Array  # (d, d), the Gram matrix of rows as they came
    gram_noise: Array  # (d, d), variances of the errors of its entries
    delta: Array  # (d, d), E[delta delta']
    unlike: Array  # (d, d), covariance of what delta differs by between windows
    found: Residuals  # how large they were
    explained: float  # mean square of what the belief did not know, in residuals
    signal: float  # the same, from the centre
    whole_variance: float  # of a residual, if nothing is clipped

    @property
    def clips(self) -> bool:
        """Whether some residuals were clipped."""
        return self.transform.clip < self.transform.residual_bound

    @property
    def variance(self) -> float:
        """Of a residual."""
        return self.found.variance if self.clips else self.whole_variance

    @cached_property
    def told(self) -> Array:
        """What `whole` tells of theta, whatever was known."""
        return information(*self.whole)

    @cached_property
    def whole(self) -> Observation:
        """m + g = H delta + noise: as an observation of theta, whatever residuals are."""
        R, E = self.transform.units
        clips = self.clips
        value = self.sums.moment + self.sums.clipped_off if clips else self.sums.moment
        noise = self._noise(E**2 + R**2 * clips, self.whole_variance) + self.wrong
        design = self.H @ self.transform.isotropic.inverse
        return design, value + design @ self.transform.mean, noise

    def observation(self, posterior: Posterior) -> Observation:
        """[m; g] = [a H; (1 - a) H] delta + noise, a the slope, for what was believed before.

        How much of a shift is clipped depends on the shift: a is uncertain by a (1 - a), with
        opposite signs in m and g, for a shift as it is once m + g is known.
        """
        if not self.clips:
            return self.whole
        R, E = self.transform.units
        a, second = self.found.slope, self.found.second
        b = 1 - a
        H = self.H
        once = posterior.seeing(self.told)
        shift = once.mean - self.transform.mean
        after = self.transform.isotropic.of_parameters(once.covariance + np.outer(shift, shift))
        unsure = (a * b) ** 2 * H @ after @ H
        first = self._noise(R**2, second * self.variance) + a * a * self.wrong + unsure
        rest = self._noise(E**2, (1 - 2 * a + second) * self.variance) + b * b * self.wrong + unsure
        cross = (a - second) * self.variance * H + a * b * self.wrong - unsure
        whole = H @ self.transform.isotropic.inverse
        design = np.vstack([a * whole, b * whole])
        value = np.concatenate([self.sums.moment, self.sums.clipped_off])
        d = len(H)
        noise = np.empty((2 * d, 2 * d))
        noise[:d, :d], noise[:d, d:], noise[d:, :d], noise[d:, d:] = first, cross, cross.T, rest
        return design, value + design @ self.transform.mean, noise

    def _noise(self, bound2: float, variance: float) -> Array:
        """Of the release, which is off its matrix's diagonal, and of rewards."""
        release = self.sums.noise_std**2 / 2 * bound2
        return np.asarray(release * np.eye(len(self.H)) + variance * self.H)

    @cached_property
    def wrong(self) -> Array:
        """Covariance of H's error times delta, and of what theta differs by between windows."""
        H = self.H
        return np.asarray(product_covariance(self.gram_noise, self.delta) + H @ self.unlike @ H)

    def visible(self, width: float) -> Array:  # (d, k)
        """Orthonormal directions of theta in which there were rows: that noise alone cannot make.

        A symmetric matrix of noise has operator norm about s sqrt(2 width).
        """
        values, vectors = np.linalg.eigh(self.sums.gram)
        rows = vectors[:, values > TUNING.visible * self.sums.noise_std * math.sqrt(2 * width)]
        return np.asarray(np.linalg.qr(self.transform.whitening @ rows)[0])

    def rho2(self, nu: float) -> float:
        """Mean of rho^2 over the rows."""
        varies = self.transform.spread.any()
        return 1 / (1 - min(self.explained / nu, 0.95)) if varies else 1.0

    def reward_variance(self, nu: float, variance: float, forgets: bool) -> float:
        """nu, after residuals of this variance."""
        least = TUNING.rest * variance if self.clips else variance
        now = self.rho2(nu) * max(variance - self.signal * self.clips, least)
        if forgets:  # a belief that forgets stays wide: residuals say less about nu
            now = nu * (now / nu) ** (1 - min(self.explained / nu, 1.0))
        return min(max(now, TUNING.fall * nu), 1.0)

    def recent(self, belief: Belief) -> dict[str, Any]:
        """What a belief keeps of recent rows and residuals, and of how many windows had some."""
        whitening = self.transform.isotropic
        rows, squares, noise = self.found.pooled
        here = self.sums.noise_std / max(whitening.norm, 1.0) ** 2
        gram = self.rho2(belief.reward_variance) * whitening.unwhitened(self.gram)
        return {
            "gram": TUNING.recent * belief.gram + gram,
            "effective_rows": rows,
            "gram_noise_std": math.hypot(TUNING.recent * belief.gram_noise_std, here),
            "residual_sum_of_squares": squares,
            "residual_noise_std": noise,
            "windows": belief.windows + 1,
            "informative_windows": belief.informative_windows + 1,
        }


def seen(belief: Belief, transform: Transform, sums: Sums, blocks: Blocks | None) -> Seen:
    """Scale of residuals, and Gram matrix, for what is believed."""
    whitening = transform.isotropic
    s = sums.noise_std
    found = residuals(belief, transform, sums)
    expected = expected_gram(sums.gram, _shape(belief, transform), sums.count, s)
    earlier = belief.informative_windows
    H, gram, gram_noise = shrunk(sums.gram, expected, s, earlier, blocks)
    # How far theta may be from the centre: E[(theta - centre)(theta - centre)'].
    shift = belief.mean - transform.mean
    error = belief.covariance + np.outer(shift, shift)
    # Of the residuals' squares, part is what the belief did not know: not noise.
    rows = whitening.unwhitened(H) / sums.count
    signal = float(np.sum(error * rows))
    prior = np.diag(1 / np.diag(belief.posterior.prior))
    mean_square = float(np.clip(sums.squares / sums.count, 0.3 * belief.reward_variance, 4.0))
    least = TUNING.rest if transform.clip < transform.residual_bound else TUNING.floor
    return Seen(
        sums=sums,
        transform=transform,
        H=H,
        gram=gram,
        gram_noise=gram_noise,
        delta=whitening.of_parameters(error),
        unlike=TUNING.unlike**2 * whitening.of_parameters(prior),
        found=found,
        explained=float(np.sum(belief.covariance * rows)),
        signal=signal,
        whole_variance=max(mean_square - signal, least * mean_square),
    )


def learned(
    belief: Belief,
    transform: Transform,
    released: Array,
    release_std: float,
    size: int,
    half_life: float | str | None = None,
    blocks: Blocks | None = None,
) -> Belief:
    """The belief after a window whose release has noise of `release_std` in every number.

    `half_life` (decisions) discounts older evidence; "auto" does so only if the release is more
    likely then: much more, until theta was seen to move.
    """
    forgets = not isinstance(half_life, str | None)
    if forgets:
        belief = belief.discounted(2 ** (-size / half_life))  # type: ignore[operator]
    sums = Sums.read(released, transform, release_std, size, belief, blocks)
    belief = belief.counted(size, sums.answers, sums.answers_std)
    if sums.thin:  # what a release does not know it must not believe
        if not belief.proven:  # nor must what earlier ones seemed to know
            belief = belief.unlearnt()
        return _waiting(belief, size)
    window = seen(belief, transform, sums, blocks)
    drops = belief.may_clip and not window.found.normal  # clipped windows mislead: drop them
    if half_life == "auto" and belief.informed and not drops:
        times = TUNING.again if belief.moved else TUNING.changed
        kept = _kept(belief.posterior, times, *window.observation(belief.posterior))
        belief = replace(belief, calm=belief.calm + size)
        if kept < 1:
            belief = replace(belief.discounted(kept), moved=True, calm=0)
            window = seen(belief, transform, sums, blocks)
    unclipped = belief.unclipped_posterior.seeing(window.told)
    before = belief.posterior
    posterior = unclipped if drops else before.observe(*window.observation(before))
    width = len(belief.mean) if blocks is None else blocks.width
    radius = _radius(posterior, belief, window.visible(width))
    posterior = posterior.with_prior(belief.prior_precision(radius))
    nu = window.whole_variance if drops else window.variance
    return replace(
        belief,
        mean=projected_mean(posterior, radius, len(belief.mean) - (belief.constant > 0)),
        covariance=posterior.covariance,
        precision=posterior.precision,
        weighted=posterior.weighted,
        unclipped=np.column_stack([unclipped.precision, unclipped.weighted]),
        reward_variance=window.reward_variance(belief.reward_variance, nu, forgets),
        **window.recent(belief),
        may_clip=belief.may_clip and not drops,
        radius=radius,
        answered=1.0 if belief.steady else min(max(sums.answers, 1.0) / size, 1.0),
    )


def _waiting(belief: Belief, size: int) -> Belief:
    """After a window that may have had no rewards: how seldom they are, once that is known."""
    belief = replace(belief, windows=belief.windows + 1)
    if belief.informed:
        return belief
    seldom = min(belief.answers / belief.decided, 1.0) if belief.proven else 0.0
    return replace(belief, waited=belief.decided, answered=seldom)


def _kept(
    posterior: Posterior, times: float, design: Array, observed: Array, noise: Array
) -> float:
    """How much of the evidence makes the observation most likely; 1 if not so many times as all."""
    likely = []
    for factor in KEPT:
        before = posterior.discounted(float(factor))
        surprise = observed - design @ before.mean
        covariance = noise + design @ before.covariance @ design.T
        fit = float(surprise @ np.linalg.solve(covariance, surprise))
        likely.append(-(fit + float(np.linalg.slogdet(covariance)[1])) / 2)
    best = int(np.argmax(likely))
    return float(KEPT[best]) if likely[best] - likely[0] > math.log(times) else 1.0


def _shape(belief: Belief, transform: Transform) -> Array:
    """The whitened Gram matrix that earlier windows let expect, of trace 1."""
    d = len(belief.mean)
    if belief.effective_rows == 0:
        even = np.full(d, 1 / d)
        if belief.constant:  # the last entry of every row is the same
            even[-1] = belief.constant**2
            even[:-1] = (1 - even[-1]) / (d - 1)
        return np.diag(even)
    M = transform.whitening
    rows = M @ belief.gram @ M
    return np.asarray(rows / max(float(np.trace(rows)), 1e-300))


def _radius(posterior: Posterior, belief: Belief, visible: Array) -> float:
    """The length of theta, if the releases leave no doubt that it is more than was thought.

    The evidence for theta ~ N(0, radius^2 I / d) (Bishop 2006, equation 3.86), from directions that
    are `visible`; a longer theta must be `evidence` times as likely, and has no more than LONGEST.
    """
    least = belief.radius
    lengths = np.minimum(least * LONGER, max(LONGEST, least))
    priors = belief.prior_precisions(lengths)
    evidence = log_evidence(
        priors[:, 0],
        visible.T @ posterior.precision @ visible,
        visible.T @ posterior.weighted,
        along=visible[-1],
        prior_along=priors[:, -1],
    )
    best = int(np.argmax(evidence))
    sure = evidence[best] - evidence[0] > math.log(TUNING.evidence)
    return float(lengths[best]) if sure else least
