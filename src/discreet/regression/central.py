"""Information-weighted linear regression under central privacy, in a few stages on all rows.

Chen, Li, Rakhlin, Simchi-Levi (2025), Algorithms 4 and 5, reworked so that it wins at real sizes:
the budget is split over stages instead of the rows, residuals are released instead of labels, and
what a stage clips and how it weighs is planned from a cheap private sketch.

    paper   W^(1/2)     1/(1 + gamma |W phi|)     H      psi      theta
    here    whitening   min(1, 1/|x|, tau/|x|^2)  gram   moment   posterior.mean

Stage 0 releases the second moments of (phi, y) in one matrix. Every later stage looks at whitened
rows x = M phi, for which the earlier Gram matrix is isotropic, at residuals r = y - <phi, theta>
around the earlier estimate, first through a sketch (histograms of |x|, of standardised |r| and of
the side on which r lies), then as

    gram = sum w x x^T,    moment = sum w x clip(r, R(phi)),    R(phi) = c sqrt(nu + phi^T Cov phi)

R(phi) grows where theta is uncertain, so that a rare direction is not clipped before it is known; w
falls with it, so that no row has |w x| R(phi) > R = min(c sqrt(nu), 1), though |r| may exceed 1.
One-sided tails are cut only where the bias is less than the noise that it saves: it does not vanish
with the number of rows, so the more there are the less is cut.
The stages are combined by least squares with their known noise and a Gaussian prior.
"""

import math
from dataclasses import dataclass

import numpy as np

from discreet.arrays import Array
from discreet.least_squares import (
    Posterior,
    Whitening,
    gram_error_covariance,
    larger,
    shrink,
)
from discreet.regression.base import Estimate, Problem
from discreet.regression.few_rows import few_rows, has_few_rows
from discreet.regression.intervals import inverse
from discreet.regression.intervals import unseen as unseen_variance
from discreet.regression.rows import Places, compressed, some_places
from discreet.regression.sample import EARLY_ROWS, EARLY_SCOPE, MANY_ROWS, Sample
from discreet.regression.stages import (
    Predictive,
    Stage,
    plain_residuals,
    plan_stage,
    second_moments,
    sketch_rows,
    statistics,
)

FRACTIONS = (0.2, 0.15, 0.27, 0.38)  # of mu^2, over the stages
SKETCH_FRACTION = 0.05  # of mu^2, for a sketch: one-sided tails have to stand out of its noise
EARLY_FRACTION = 0.5  # of mu^2, where early stages and sketches have a few of very many rows
PUBLIC_FRACTIONS = (0.1, 0.3, 0.6)  # of mu^2 where covariates are public
SKETCH_ROWS = EARLY_ROWS  # sketches look at no more rows
CONDITION = 16.0  # a whitening matrix stretches no direction more than this against another

Rows = Places | slice
ALL = slice(None)


@dataclass(frozen=True)
class StagePlan:
    """Which rows a stage and its sketch see, and their fractions of mu^2."""

    rows: Rows  # that the stage sees
    sketch_rows: Rows  # that its sketch sees
    fraction: float  # of mu^2, for the stage
    sketch_fraction: float  # of mu^2, for the sketch
    scope: str | None = None  # that pays; None: every row
    early: Places | None = None  # rows that have spent some of mu^2 in earlier stages, others none

    def sample(self, problem: Problem) -> Sample:
        """The rows of the stage."""
        if self.early is not None:
            return Sample.last(problem, self.early)
        return Sample.of(
            problem, self.rows, problem.budget.mu * math.sqrt(self.fraction), self.scope
        )

    def sketch_sample(self, problem: Problem) -> Sample:
        """The rows of its sketch."""
        mu = problem.budget.mu * math.sqrt(self.sketch_fraction)
        return Sample.of(problem, self.sketch_rows, mu, self.scope)


def information_weighted(problem: Problem) -> Estimate:
    """All rows in every stage, or of very many rows some in early stages and all in the last.

    Where rows are few against the noise, many small steps instead of stages.
    """
    if problem.budget.off:
        return least_squares(problem)
    n = len(problem.X)
    if has_few_rows(problem):
        return few_rows(problem)
    some = np.sort(some_places(problem.rng, n, SKETCH_ROWS)) if n > SKETCH_ROWS else np.arange(n)
    sketch = SKETCH_FRACTION
    if n > MANY_ROWS:
        early = FRACTIONS[:-1]
        scale = EARLY_FRACTION / (sum(early) + sketch * len(early))
        plans = [StagePlan(some, some, scale * f, scale * sketch, EARLY_SCOPE) for f in early]
        plans.append(StagePlan(ALL, some, 1.0, scale * sketch, EARLY_SCOPE, some))
        return _run(problem, plans)
    total = sum(FRACTIONS) + sketch * (len(FRACTIONS) - 1)
    sketched = ALL if len(some) == n else some
    return _run(problem, [StagePlan(ALL, sketched, f / total, sketch / total) for f in FRACTIONS])


def single_pass(problem: Problem) -> Estimate:
    """Each row in one stage only, with the whole budget: the streaming form."""
    if problem.budget.off:
        return least_squares(problem)
    n = len(problem.X)
    if n < 10 * len(FRACTIONS):
        raise ValueError(f"single-pass needs at least {10 * len(FRACTIONS)} rows, got {n}")
    order = problem.rng.permutation(n)
    ends = np.round(n * np.cumsum(FRACTIONS) / sum(FRACTIONS)).astype(int)
    plans = []
    for k, rows in enumerate(np.split(order, ends[:-1])):
        some = np.sort(rows[:SKETCH_ROWS])
        sketch = SKETCH_FRACTION if k else 0.0
        plans.append(StagePlan(np.sort(rows), some, 1 - sketch, sketch, f"rows of stage {k}"))
    return _run(problem, plans, disjoint=True)


def least_squares(problem: Problem) -> Estimate:
    """Ordinary least squares: what every method is without privacy."""
    n, d = problem.X.shape
    X, y = compressed(problem.X, problem.y)
    rcond = np.finfo(np.float64).eps * max(n, d)
    theta = np.asarray(np.linalg.lstsq(X, y, rcond=rcond)[0], dtype=np.float64)
    residual = y - X @ theta
    freedom = max(n - d, 1)
    noise = float(residual @ residual) / freedom
    predictive = Predictive(theta, np.zeros((d, d)), max(noise, 1e-24))
    residuals = plain_residuals(problem.X, problem.y, predictive)
    return Estimate(theta, noise * np.linalg.pinv(X.T @ X), residuals)


def public_covariates(problem: Problem) -> Estimate:
    """Only labels are private: Gram matrices and lengths come from `public_X` (Algorithm 10)."""
    if problem.budget.off:
        return least_squares(problem)
    n = len(problem.X)
    rows: Rows = some_places(problem.rng, n, SKETCH_ROWS) if n > SKETCH_ROWS else ALL
    sketch = SKETCH_FRACTION
    total = sum(PUBLIC_FRACTIONS) + sketch * (len(PUBLIC_FRACTIONS) - 1)
    plans = [StagePlan(ALL, rows, f / total, sketch / total) for f in PUBLIC_FRACTIONS]
    return _run(problem, plans, public=problem.public_X)


def _run(
    problem: Problem,
    plans: list[StagePlan],
    *,
    public: Array | None = None,
    disjoint: bool = False,
) -> Estimate:
    """Every stage in turn: sketch, plan, release, learn; then choose the next whitening matrix."""
    n, d = problem.X.shape
    mu = problem.budget.mu
    k = problem.budget.contributions
    posterior = Posterior.unobserved(d * np.eye(d))
    label_noise = 1.0
    condition = max(CONDITION, 0.5 * math.sqrt(n * mu / d))
    whitening = Whitening.identity(d)
    residuals = None  # of the last sketch
    if public is not None:
        whitening = Whitening.from_gram(public.T @ public / len(public), condition=condition)
    for plan in plans:
        sample = plan.sample(problem)
        first = plan is plans[0]
        predictive = Predictive(posterior.mean, posterior.covariance, label_noise)
        if first and public is None:
            gram, moment, nu, noise_stds = second_moments(sample)
            stage = Stage(whitening, 1.0, 1.0, nu, 1.0, 1.0, 1.0)
            plain = shrink(gram, noise_stds[0]) / len(sample.X)
        else:
            if first:  # residuals are expected to be at least 1: nothing is clipped
                stage = Stage(whitening, 1.0, 1.0, 1.0, 4.0, 0.0, 1.0)
            else:
                sketch = sketch_rows(plan.sketch_sample(problem), whitening, predictive, public)
                residuals = sketch.residuals
                stage = plan_stage(
                    sketch,
                    whitening,
                    predictive,
                    sample.weight_of_rows,  # after the sketch, for which early rows have paid
                    sample.mu / k,
                    gram_known=public is not None,
                )
            gram, moment, noise_stds = statistics(sample, stage, predictive, public)
        gram_std = noise_stds[0]
        unseen = unseen_variance(gram, gram_std, stage.whitening)
        gram = shrink(gram, gram_std)
        design = stage.slope * gram @ stage.whitening.inverse
        observed = moment + design @ posterior.mean
        noise = _moment_noise(stage, gram, noise_stds, posterior, disjoint=disjoint)
        posterior = posterior.observe(design, observed, noise).with_fitted_prior()
        label_noise = stage.noise if first else min(stage.noise, label_noise)
        information = stage.whitening.unwhitened(gram)
        if public is None:
            # No finer than the noise allows: sum phi phi' has noise gram_std M^-2.
            rows = len(sample.X)
            floor = gram_std / rows * stage.whitening.unwhitened(np.eye(d))
            whitening = Whitening.from_gram(information / rows, floor=floor, condition=condition)
    if disjoint:  # the labels' randomness is in the posterior already
        return Estimate(posterior.mean, posterior.covariance + unseen, residuals)
    if public is not None:
        plain = public.T @ public / len(public)
    # Variance from the labels: exact if weights do not depend on the direction, or on nothing else.
    # Early rows with weight a add a^2 <= a to it, where information counts them as a.
    weighted = stage.noise * stage.dilution * inverse(information)
    labels_covariance = larger(weighted, stage.noise * inverse(plain * n))
    return Estimate(posterior.mean, posterior.covariance + labels_covariance + unseen, residuals)


def _moment_noise(
    stage: Stage,
    gram: Array,
    noise_stds: tuple[float, float],
    posterior: Posterior,
    *,
    disjoint: bool,
) -> Array:
    """The covariance of   moment - slope gram M^-1 (theta - centre).

    Beside the moment's own noise, that of the Gram matrix and the error of the slope act on the
    unknown M^-1 (theta - centre), whose second moment the posterior tells.
    """
    d = len(gram)
    gram_std, moment_std = noise_stds
    unknown = stage.whitening.of_parameters(posterior.covariance)
    noise = moment_std**2 * np.eye(d) + gram_error_covariance(unknown, gram_std)
    noise += stage.slope_std**2 * gram @ unknown @ gram
    if disjoint:  # other rows, other labels: their randomness is news each time
        labels = stage.noise * stage.slope**2 * stage.dilution * float(np.trace(gram)) / d
        noise += labels * np.eye(d)
    return noise
