"""What a window's release teaches: from noisy sums to the next belief; all of it post-processing.

The released matrix holds, in whitened coordinates, the Gram matrix H of the rows, their moments
with the clipped residual and with what was clipped off, and the sums of squares of both. For a
belief N(mean, C) and delta = M^-1 (theta - centre),

    moment = slope H delta + noise

where slope is the fraction of residuals that were not clipped. The noise has a known distribution:
that of the release, that of the error of H times delta, that of rewards. So the release is a linear
observation of theta, and the belief is Bayesian linear regression (Bishop, section 3.3).
"""

import math
from dataclasses import dataclass, replace

import numpy as np

from discreet.arrays import Array
from discreet.bandits.belief import Belief, prior_precision, prior_precisions
from discreet.bandits.window import COUNT, LONGEST, TOTALS, VALUE, Transform
from discreet.least_squares import Posterior, clipped_normal
from discreet.least_squares.blocks import Blocks
from discreet.least_squares.posterior import log_evidence, projected_mean
from discreet.least_squares.shrinkage import (
    GramEstimate,
    expected_gram,
    shrink_entries,
    unproven_rows,
)
from discreet.least_squares.symmetric import power
from discreet.privacy.mechanisms import vector_to_symmetric

SCALES = np.geomspace(0.1, 10.0, 81)  # std of residuals against the expected one
SPREAD = 0.4  # prior std of log(scale)
MISFIT = 0.02  # how far residuals may be from normal, as a fraction of the rows
HEAVY = 4.5  # standard deviations above twice the normal sum of squares: residuals are not normal
QUIET = 1e-3  # the least nu; less would gain nothing
FALL, RISE = 0.3, 3.0  # nu changes by no more than this from window to window
RECENT = 0.5  # how much of what earlier windows said about rows and residuals stays
EVIDENCE = 1000.0  # for a theta that is longer than was thought
VISIBLE = 2.0  # eigenvalues of a Gram matrix above this many times its noise's norm are rows
LONGER = 2 ** (np.arange(17) / 4)  # times as long
THIN = 3.0  # std by which a window's count of rows must stand out, or
FULL = 0.3  # of the decisions, while every window had rows
CHANGED = 1000.0  # times as likely must a release be if theta has moved since
KEPT = 0.25 ** np.arange(12)  # of older evidence, if it has
COINS = 0.75  # of the largest mean square in the first window: rewards are coins, never clip
CALM = 0.15  # of the largest variance: rewards are no coins, clip again
FLOOR = 0.3  # of the mean square is noise, at least, where nothing is clipped
REST = 0.05  # the same where residuals are clipped
CONTRADICTION = 3.0  # std by which clipped and unclipped moments must differ
# Of the slope, 1, that is used then; the unclipped moment in its place is ten times as noisy and
# one cause of lock-in: fixed, 150 seeds, worst 9,125 with that, 5,328 with this.
SHIFT_VARIANCE = 0.25


@dataclass(frozen=True)
class Sums:
    """A window's release, taken apart."""

    gram: Array  # (d, d), noisy
    moment: Array  # (d,), of clipped residuals
    clipped_off: Array  # (d,), of what was clipped off
    clipped_squares: float  # sum of (f/R)^2
    squares: float  # sum of squared residuals
    count: float  # weight of all rows
    answers: float  # rows, by all that counts them
    answers_std: float  # of the noise in it
    thin: bool  # there may have been no rows at all
    proven: bool  # there were rows
    noise_std: float  # on a diagonal entry of the Gram matrix

    @classmethod
    def read(
        cls, released: Array, transform: Transform, release_std: float, size: int, steady: bool
    ) -> "Sums":
        """From the released vector of a window of so many decisions.

        While rewards come steadily, about as many rows as decisions are expected: then FULL of them
        tell a full window from an empty one. Otherwise the count must stand out of its noise.
        """
        d = len(transform.mean)
        R, E = transform.units
        a, _ = transform.sides
        matrix = vector_to_symmetric(released[:-TOTALS]) / a**2
        squares = R**2 * matrix[d, d] + 2 * R * E * matrix[d, d + 1] + E**2 * matrix[d + 1, d + 1]
        count = released[-TOTALS] / COUNT
        count_std = release_std / COUNT
        plain = released[1 - TOTALS] / VALUE
        # Three counts by their precision. Of n rows each says n, but for weights, which are small
        # where whitening makes rows too long, or the trace, where it leaves them too short.
        precision = np.array([COUNT**2, VALUE**2, a**4 / d])
        counts = precision * [count, plain, float(np.trace(matrix[:d, :d]))]
        answers = float(counts.sum() / precision.sum())
        answers_std = release_std / math.sqrt(precision.sum())
        proven = answers > THIN * answers_std
        untraced = float(counts[:2].sum() / precision[:2].sum())
        thin = not (proven or (steady and max(answers, untraced) > FULL * size))
        if steady:  # the prior of the count is N(size, (size / 2)^2)
            prior = (0.5 * size) ** 2
            count = (size * count_std**2 + count * prior) / (count_std**2 + prior)
        return cls(
            gram=matrix[:d, :d],
            moment=matrix[:d, d] * R,
            clipped_off=matrix[:d, d + 1] * E,
            clipped_squares=matrix[d, d] / transform.balance,
            squares=squares,
            count=min(max(count, 0.5 * count_std), size),
            answers=answers,
            answers_std=answers_std,
            thin=thin,
            proven=proven,
            noise_std=release_std / a**2,
        )


@dataclass(frozen=True)
class Residuals:
    """What the sums of squares say: how large residuals were, and whether they look normal."""

    variance: float  # of a residual
    slope: float  # of the clipped residual
    second: float  # moment of the clipped residual, relative to the variance
    overconfidence: float  # residuals were at least this many times as large as the belief said
    normal: bool  # whether they look normal


@dataclass(frozen=True)
class Moment:
    """moment = slope H delta + noise."""

    value: Array  # (d,)
    slope: float  # the fraction of residuals that were not clipped
    bound2: float  # square of the residuals' bound: the release's noise is in units of that
    variance: float  # of a (clipped) residual
    slope_variance: float  # of the slope

    def observation(
        self, gram: GramEstimate, transform: Transform, noise_std: float
    ) -> tuple[Array, Array, Array]:
        """Design, value and noise covariance of what it says about theta, for these rows."""
        d = len(self.value)
        H = gram.matrix
        slope = self.slope
        design = slope * H @ transform.isotropic.inverse
        noise = noise_std**2 / 2 * self.bound2 * np.eye(d)  # of the release, off the diagonal
        noise += self.variance * H  # of rewards
        noise += slope**2 * gram.error  # of H, times delta
        noise += self.slope_variance * H @ gram.delta @ H
        return design, self.value + design @ transform.mean, noise

    def observed_by(
        self, posterior: Posterior, gram: GramEstimate, transform: Transform, noise_std: float
    ) -> Posterior:
        """The posterior of theta after this moment."""
        return posterior.observe(*self.observation(gram, transform, noise_std))


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

    `half_life` (decisions) discounts older evidence; "auto" does so only if the release is much
    more likely then.
    """
    if not isinstance(half_life, str | None):
        belief = belief.discounted(2 ** (-size / half_life))
    d = len(belief.mean)
    R, E = transform.units
    nu = belief.reward_variance
    whitening = transform.isotropic
    sums = Sums.read(released, transform, release_std, size, belief.steady)
    if sums.thin:  # what a release does not know it must not believe
        if not belief.proven:  # nor must what earlier ones seemed to know
            belief = belief.unlearnt()
        return replace(_waiting(belief, sums, size), windows=belief.windows + 1)
    noise_std = sums.noise_std
    if blocks is not None:  # other products are 0, so what was released of them is noise
        sums = replace(sums, gram=sums.gram * blocks.together)
    width = d if blocks is None else blocks.width
    rows = RECENT * belief.effective_rows + sums.count
    squares = RECENT * belief.residual_sum_of_squares + sums.squares
    squares_noise = math.hypot(RECENT * belief.residual_noise_std, noise_std * (R**2 + E**2))
    first = not belief.informed and not transform.spread.any()
    unit = nu + belief.radius**2 / d if first else nu  # then residuals hold all of the signal
    found = _residuals(sums, transform, unit, squares / rows, squares_noise / rows)
    # Where the belief was too sure of itself, it is made less so.
    certain = 1 / found.overconfidence**2
    before = belief.posterior.discounted(certain)
    cautious_before = belief.cautious_posterior.discounted(certain)
    # How far theta may be from the centre: E[(theta - centre)(theta - centre)'].
    shift = belief.mean - transform.mean
    error = before.covariance + np.outer(shift, shift)
    expected = expected_gram(sums.gram, _shape(belief, transform), sums.count, noise_std)
    # Gaussian information has no bound: rows that were expected and never came would seem to say,
    # window by window, that theta is 0 there. Until they are proven, they say no more than once.
    proof = belief.proof + sums.gram
    proof_variance = belief.proof_variance + noise_std**2
    unproven = unproven_rows(proof, proof_variance if belief.effective_rows > 0 else 0.0, width)
    at_first = whitening.of_parameters(np.asarray(np.linalg.inv(before.prior), float))
    delta = _unproven_error(whitening.of_parameters(error), at_first, unproven)
    gram, cautious_gram = shrink_entries(
        sums.gram, expected, whitening.matrix @ belief.mean, delta, noise_std, unproven, blocks
    )
    # Of the residuals' squares, part is what the belief did not know: not noise.
    seen = whitening.unwhitened(gram.matrix)
    explained = float(np.sum(before.covariance * seen)) / sums.count
    signal = float(np.sum(error * seen)) / sums.count
    mean_square = float(np.clip(sums.squares / sums.count, 0.3 * nu, 4.0))
    unclipped_variance = max(mean_square - signal, FLOOR * mean_square)
    variance = found.variance if R < E else unclipped_variance

    if R < E:
        total = sums.moment + sums.clipped_off
        unclipped_moment = Moment(total, 1.0, R**2 + E**2, unclipped_variance, 0.0)
    else:
        unclipped_moment = Moment(sums.moment, 1.0, E**2, unclipped_variance, 0.0)
    unclipped = Posterior(before.prior, belief.unclipped[:, :d], belief.unclipped[:, d])
    unclipped = unclipped_moment.observed_by(unclipped, gram, transform, noise_std)
    spare = 2 * noise_std * (R**2 + E**2) / sums.count
    coins = first and sums.squares > COINS * size
    calm = R >= E and unclipped_variance + spare < CALM and noise_std > 0
    may_clip = (belief.may_clip and found.normal and not coins) or calm
    if belief.may_clip and not may_clip:  # clipped windows mislead: drop them
        posterior = cautious = unclipped
        variance = unclipped_variance
    else:
        slope = found.slope
        label = found.second * variance
        moment = Moment(sums.moment, slope, R**2, label, ((1 - slope) * slope) ** 2)
        if R < E and _contradicts(moment, sums, E):  # a clipped residual never exaggerates
            moment = Moment(sums.moment, 1.0, R**2, variance, SHIFT_VARIANCE)
        if half_life == "auto" and belief.informed:
            kept = _kept(before, *moment.observation(gram, transform, noise_std))
            if kept < 1:
                older = replace(belief.discounted(kept), moved=True)
                return learned(older, transform, released, release_std, size, "once", blocks)
        posterior = moment.observed_by(before, gram, transform, noise_std)
        cautious = moment.observed_by(cautious_before, cautious_gram, transform, noise_std)
    rho2 = 1 / (1 - min(explained / nu, 0.95)) if transform.spread.any() else 1.0
    recent = RECENT * belief.gram + rho2 * whitening.unwhitened(gram.unreduced)
    # A longer theta would promise rewards beyond their range, for rows such as these.
    longest_theta = math.sqrt(d * rows / max(float(np.trace(recent)), 1e-12 * rows))
    visible = _visible(sums.gram, noise_std * math.sqrt(width / d), transform.whitening)
    radius = _radius(posterior, belief.radius, belief.constant, visible)
    radius = min(radius, max(belief.radius, longest_theta))
    posterior = posterior.with_prior(prior_precision(d, radius, belief.constant))
    rest = max(variance - signal, REST * variance) if R < E else variance
    noise_now = rest * rho2
    # A belief that forgets stays wide: residuals say less about nu.
    if not isinstance(half_life, str | None):
        noise_now = nu * (noise_now / nu) ** (1 - min(explained / nu, 1.0))
    longest = max(whitening.norm, 1.0)
    return Belief(
        mean=projected_mean(posterior, radius, d - (belief.constant > 0)),
        covariance=posterior.covariance,
        precision=posterior.precision,
        weighted=posterior.weighted,
        unclipped=np.column_stack([unclipped.precision, unclipped.weighted]),
        cautious=np.column_stack([cautious.precision, cautious.weighted]),
        reward_variance=float(
            np.clip(noise_now, max(FALL * nu, QUIET), min(max(RISE * nu, QUIET), 1.0))
        ),
        gram=recent,
        effective_rows=rows,
        gram_noise_std=math.hypot(RECENT * belief.gram_noise_std, noise_std / longest**2),
        residual_sum_of_squares=squares,
        residual_noise_std=squares_noise,
        may_clip=may_clip,
        radius=radius,
        proof=proof,
        proof_variance=proof_variance,
        constant=belief.constant,
        windows=belief.windows + 1,
        informative_windows=belief.informative_windows + 1,
        proven=belief.proven or sums.proven,
        waited=belief.waited,
        answers=belief.answers,
        answers_variance=belief.answers_variance,
        answered=1.0 if belief.steady else min(max(sums.answers, 1.0) / size, 1.0),
        moved=belief.moved,
    )


def _waiting(belief: Belief, sums: Sums, size: int) -> Belief:
    """After a window that may have had no rewards: how seldom they are, once that is known."""
    if belief.informed:
        return belief
    waited = belief.waited + size
    answers = belief.answers + sums.answers
    variance = belief.answers_variance + sums.answers_std**2
    known = answers > THIN * math.sqrt(variance)
    return replace(
        belief,
        waited=waited,
        answers=answers,
        answers_variance=variance,
        answered=min(answers / waited, 1.0) if known else 0.0,
    )


def _kept(posterior: Posterior, design: Array, observed: Array, noise: Array) -> float:
    """How much of the evidence so far makes the observation most likely; 1 in any doubt."""
    likely = []
    for factor in KEPT:
        before = posterior.discounted(float(factor))
        surprise = observed - design @ before.mean
        covariance = noise + design @ before.covariance @ design.T
        fit = float(surprise @ np.linalg.solve(covariance, surprise))
        likely.append(-(fit + float(np.linalg.slogdet(covariance)[1])) / 2)
    best = int(np.argmax(likely))
    return float(KEPT[best]) if likely[best] - likely[0] > math.log(CHANGED) else 1.0


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
    seen = M @ belief.gram @ M
    return np.asarray(seen / max(float(np.trace(seen)), 1e-300))


def _unproven_error(error: Array, prior: Array, unproven: Array) -> Array:
    """E[delta delta'], as it was before any window where rows are unproven."""
    more = power(prior - error, 1.0, floor=0.0)
    half = power(unproven, 0.5, floor=0.0)
    return np.asarray(error + half @ more @ half)


def _contradicts(moment: Moment, sums: Sums, limit: float) -> bool:
    """Whether the clipped moment over its slope is not the unclipped one, up to noise.

    Residuals that are a shift rather than noise look like very wide noise when clipped.
    """
    d = len(moment.value)
    gap = moment.value / moment.slope - sums.moment - sums.clipped_off
    R2 = moment.bound2 * (1 / moment.slope - 1) ** 2
    variance = sums.noise_std**2 / 2 * (R2 + limit**2)
    return float(gap @ gap) > variance * (d + CONTRADICTION * math.sqrt(2 * d))


def _visible(gram: Array, noise_std: float, whitening: Array) -> Array:  # (d, k)
    """Orthonormal directions of theta in which there were rows: that noise alone cannot make."""
    values, vectors = np.linalg.eigh(gram)
    # A symmetric matrix of noise has operator norm about sqrt(2 d) standard deviations.
    rows = vectors[:, values > VISIBLE * noise_std * math.sqrt(2 * len(gram))]
    return np.asarray(np.linalg.qr(whitening @ rows)[0])


def _radius(posterior: Posterior, least: float, constant: float, visible: Array) -> float:
    """The length of theta, if the releases leave no doubt that it is more than was thought.

    The evidence for theta ~ N(0, radius^2 I / d) (Bishop 2006, equation 3.86), from directions that
    are `visible`; a longer theta must be EVIDENCE times as likely, and has no more than LONGEST.
    """
    d = len(posterior.weighted)
    lengths = np.minimum(least * LONGER, max(LONGEST, least))
    precision = visible.T @ posterior.precision @ visible
    weighted = visible.T @ posterior.weighted
    diagonals = prior_precisions(d, lengths, constant)
    priors = visible.T @ (diagonals[:, :, None] * visible)
    evidence = log_evidence(priors, precision, weighted)
    best = int(np.argmax(evidence))
    sure = evidence[best] - evidence[0] > math.log(EVIDENCE)
    return float(lengths[best]) if sure else least


def _residuals(
    sums: Sums, transform: Transform, nu: float, mean_square: float, noise_std: float
) -> Residuals:
    """The scale of residuals from the squares of the clipped ones, as if they were normal.

    They are not if the squares of all, pooled over recent windows, are far above that.
    """
    if (
        transform.clip >= transform.residual_bound
    ):  # nothing was clipped: nothing needs to be normal
        return Residuals(math.nan, 1.0, 1.0, 1.0, True)
    clip = transform.clip / math.sqrt(nu)
    expected = sums.count * clipped_normal(clip / SCALES)[1] * (SCALES / clip) ** 2
    variance = (sums.noise_std / transform.balance) ** 2 + (MISFIT * sums.count) ** 2
    log = -((sums.clipped_squares - expected) ** 2) / (2 * variance)
    log -= (np.log(SCALES) / SPREAD) ** 2 / 2
    below = np.cumsum(np.exp(log - log.max()))
    likely, least = SCALES[np.searchsorted(below / below[-1], [0.5, 0.2])]
    slope, second = clipped_normal(clip / likely)
    return Residuals(
        variance=nu * float(likely) ** 2,
        slope=max(float(slope), 0.1),
        second=float(second),
        overconfidence=max(float(least), 1.0),
        normal=mean_square <= 2 * nu * float(likely) ** 2 + HEAVY * noise_std,
    )
