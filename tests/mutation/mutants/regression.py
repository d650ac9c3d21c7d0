"""Planted bugs in private regression, central and local."""

import math
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from discreet.least_squares import Posterior, Whitening
from discreet.links import link
from discreet.privacy import Budget, Ledger, SeededNoise
from discreet.privacy.gaussian import gaussian_epsilon
from discreet.privacy.release import Release
from discreet.regression import (
    PrivateGLM,
    PrivateLinearRegression,
    PrivateLogisticRegression,
    PrivateSearchCV,
    Problem,
    base,
    central,
    glm_erm,
    local,
    sample,
    search,
    shape,
    steps,
)
from discreet.regression.glm import METHODS
from mutants.kit import (
    DELTA,
    EPSILON,
    MU,
    Edit,
    Mutant,
    audited,
    both,
    gaussian_proved,
    moved,
    spied,
)


def problem(X: Any, y: Any, noise: SeededNoise, *, k: int = 1, delta: float = DELTA) -> Problem:
    """A problem whose ledger books all that is asked and refuses nothing: the detectors add up."""
    ledger = Ledger(Budget(EPSILON, delta, k), "gaussian" if delta else "pure")
    ledger._limit = math.inf
    X, y = np.asarray(X, dtype=np.float64), np.asarray(y, dtype=np.float64)
    return Problem(X, y, ledger, noise, np.random.default_rng(0))


def everyone(task: Problem) -> sample.Sample:
    """All rows, with all of mu."""
    return sample.Sample(task, task.X, task.y, MU)


def all_releases() -> float:
    """What a row costs that is in every release, from what was booked."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(100, 2)) / 4
    X /= np.maximum(1, np.linalg.norm(X, axis=1))[:, None]
    task = problem(X, np.clip(X @ [0.5, -0.5], -1, 1), SeededNoise(3))
    central.information_weighted(task)
    mu = math.sqrt(sum(each.mu**2 for each in task.ledger.releases))
    return gaussian_epsilon(mu, DELTA)


def gram_matrix() -> float:
    """Two rows at nearly a right angle, in the first Gram matrix, whose sum of rows they move."""
    with spied(base) as seen:
        for row in ([1.0, 0.0], [-0.09, math.sqrt(1 - 0.09**2)]):
            before = len(seen)
            central.information_weighted(problem([row], [0.0], SeededNoise(5)))
            del seen[before + 1 :]
    return moved(seen)


def replaced_row() -> float:
    """A row ten times as long as the public bound, against a row of zeros; exact sums compared."""
    with spied(base) as seen:
        for length in (0.0, 10.0):
            before = len(seen)
            X, y = np.zeros((1500, 2)), np.zeros(1500)
            X[0], y[0] = [length, 0.0], 1.0
            PrivateLinearRegression(
                EPSILON, DELTA, method="information-weighted", noise=SeededNoise(4), random_state=0
            ).fit(X, y)
            del seen[before + 1 :]
    return moved(seen)


def step_moment() -> float:
    """A label of 1 or -1 in a step that knows theta well and cuts residuals at .2."""
    same, zeros, none = Whitening.identity(1), np.zeros((1, 1)), np.zeros(1)
    covariates = shape.Shape(same, np.eye(1), np.eye(1), same, 0.0, zeros, 1.0, none, none)
    theta = Posterior.unobserved(1e6 * np.eye(1))
    both = steps.HiddenPosterior.of_theta(theta, steps.REST)
    known = steps.Known(both, theta, math.log(0.01))
    clip = steps.Clip(at=2.0, bound=0.2, slope=0.9, inner=0.5, second=0.9, bias=0.0)
    with spied(base) as seen:
        for y in (-1.0, 1.0):
            task = problem([[1.0]], [y], SeededNoise(5))
            steps._release(everyone(task), covariates, known, clip)
    return moved(seen)


def early_row() -> float:
    """How far the label of an early row moves the last release, against what it was booked for."""
    n, early = 40, np.arange(10)
    with spied(base) as seen:
        for y in (-1.0, 1.0):
            task = problem(np.ones((n, 1)), np.zeros(n), SeededNoise(11))
            task.ledger._limit = 2 * MU**2  # half of it is spent before the last release
            about = {"sensitivity": 1.0, "scale": 1 / MU, "what": "early", "sampler": "none"}
            task.ledger.spend(Release.gaussian(scope=sample.EARLY_SCOPE, **about))
            task.y[0] = y
            last = sample.Sample.last(task, early)
            last.release(
                lambda X, y: (X.T @ y,), lambda parts: parts[0], sensitivity=2.0, what="moment"
            )
    return moved(seen) / math.sqrt(0.5)


def glm_gradient() -> float:
    """A label of 0 or 1 of a row on the boundary, in the first stage of a logistic regression."""
    with spied(base) as seen:
        for y in (0.0, 1.0):
            before = len(seen)
            labels, X = np.full(30, 0.5), np.zeros((30, 1))
            X[0], labels[0] = 1.0, y
            PrivateGLM(EPSILON, DELTA, link="logistic", method="newton", noise=SeededNoise(6)).fit(
                X, labels
            )
            del seen[before + 1 :]
    return moved(seen)


def class_gradient() -> float:
    """A row and its opposite, of the same one of four classes, in the first stage."""
    with spied(base) as seen:
        for sign in (-1.0, 1.0):
            before = len(seen)
            X, y = np.zeros((30, 1)), np.zeros(30)
            X[0], y[0] = sign, 3.0
            options = {"classes": range(4), "norm_bound": 1.0, "fit_intercept": False}
            PrivateLogisticRegression(EPSILON, DELTA, noise=SeededNoise(6), **options).fit(X, y)
            del seen[before + 1 :]
    return moved(seen)


def moved_vote() -> float:
    """A label that decides the vote of its block."""
    with spied(search) as seen:
        for label in (-1.0, 1.0):
            X, y = np.ones((20, 1)), np.zeros(20)
            y[0] = label
            options = {"norm_bound": 1.0, "label_bound": 1.0, "fit_intercept": False}
            model = PrivateLinearRegression(EPSILON, DELTA, random_state=0, **options)
            PrivateSearchCV(
                model,
                {"norm_bound": [1.0, 2.0]},
                blocks=2,
                scoring=lambda model, _, y: np.sum(y) * (model.norm_bound - 1.5),
            ).fit(X, y)
    return moved(seen)


def minimiser() -> float:
    """A label of 0 or 1 of the longest row; the others are half as long as the public ones.

    So the curvature is hardly above the edge of its test, and a small bound keeps slopes equal.
    """
    n, bound = 2000, 0.05
    X, y = np.full((n, 1), 0.5), np.full(n, 0.5)
    X[0] = 1.0
    with spied(base, "minimiser") as seen:
        for y[0] in (0.0, 1.0):
            task = replace(problem(X, y.copy(), SeededNoise(7)), public_X=np.ones((n, 1)))
            glm_erm.erm(task, link("logistic").within(bound, 1.0), bound)
    return moved(seen)


@dataclass(frozen=True)
class SolverEdit(Edit):
    """An edit of a solver of `PrivateGLM`, which keeps its solvers in a table."""

    @contextmanager
    def planted(self) -> Iterator[None]:
        method = self.where.partition(":")[2]
        solvers, kept = METHODS["central"], METHODS["central"][method]
        with super().planted():
            solvers[method] = getattr(glm_erm, method)
            try:
                yield
            finally:
                solvers[method] = kept


def published(make: Callable[..., Any], rows: int, rest: float = 0.0) -> float:
    """The coefficients alone; one row has label 1 or -1, the others say nothing."""
    noise = SeededNoise(8)

    def run(neighbour: int, _: int) -> float:
        X, y = np.tile(np.eye(2), (rows // 2, 1)), np.full(rows, rest)
        y[0] = (-1.0, 1.0)[neighbour]
        return float(np.arctan(make(noise=noise, random_state=0).fit(X, y).coef_[0]))

    return gaussian_proved(*both(run, 300))


def reports_sent() -> float:
    """The most reports that anyone sends, times the epsilon of one."""
    people, sent = np.arange(1, 601) / 1000, Counter[float]()
    task = problem(np.column_stack([people, people * 0]), people * 0, SeededNoise(6), delta=0.0)
    kept = local.report_many

    def spy(X: Any, *about: Any) -> Any:
        sent.update(np.asarray(X)[:, 0].tolist())
        return kept(X, *about)

    local.report_many = spy
    try:
        local.information_weighted(task)
    finally:
        local.report_many = kept
    return EPSILON * max(sent.values())


MUTANTS = [
    Mutant(
        "wrong sensitivity of a Gram matrix and a sum",
        "regression, central",
        "|phi|^2 <= 1 is used for |[phi; b]|^2 <= 1 + b^2: the sum of rows is forgotten.",
        "sensitivity",
        1.0,
        gram_matrix,
        (
            Edit(
                "regression.shape:private_shape",
                "math.sqrt(2) * (1 + b**2)",
                "math.sqrt(2)",
            ),
        ),
        unit="of the booked move",
    ),
    audited(
        "contributions ignored by a fit",
        "regression, central",
        "Noise for one row of a person who has three.",
        "linear regression single-pass, three rows of one person",
        (
            Edit(
                "regression.steps:_release",
                "sample.problem.budget.contributions * 2.0",
                "2.0",
            ),
        ),
    ),
    Mutant(
        "every step spends a tenth of the budget",
        "regression, central",
        "All steps see the same rows, and each is given a tenth of mu^2.",
        "ledger",
        EPSILON,
        all_releases,
        (
            Edit(
                "regression.central:information_weighted",
                "share = (1 - (GRAMS + 1) * SHARE) / steps",
                "share = 0.1",
            ),
        ),
    ),
    Mutant(
        "unclipped row",
        "regression, central",
        "Rows longer than the public bound are taken as they are.",
        "sensitivity",
        1.0,
        replaced_row,
        (
            Edit(
                "regression.base:unit_rows",
                "else in_unit_ball(X, bound)",
                "else X / bound",
            ),
        ),
        unit="of the booked move",
    ),
    Mutant(
        "unclipped residual",
        "regression, central",
        "Residuals enter the moment uncut, with noise for cut ones.",
        "sensitivity",
        1.0,
        step_moment,
        (Edit("regression.steps:_sums", "(w * f * cut)", "(w * r)"),),
        unit="of the booked move",
        attack="linear regression information-weighted",
    ),
    Mutant(
        "early rows weigh as much as all others",
        "regression, central",
        "The last stage of a fit on very many rows forgets what its early rows have spent.",
        "sensitivity",
        1.0,
        early_row,
        (Edit("regression.sample:Sample.release", "total = total - (1 - weight) * some", "pass"),),
        unit="of the booked move",
    ),
    Mutant(
        "opposite gradients forgotten",
        "regression, central",
        "Logistic regression: two gradients of length tau h are taken to be tau h apart.",
        "sensitivity",
        1.0,
        glm_gradient,
        (
            Edit(
                "regression.scores:LinkScore.sensitivities",
                "gradient = 2 * weighting.tau",
                "gradient = weighting.tau",
            ),
        ),
        unit="of the booked move",
        attack="glm newton, logistic",
    ),
    Mutant(
        "opposite gradients of classes forgotten",
        "regression, central",
        "Multinomial regression: two gradients of length tau h are taken to be tau h apart.",
        "sensitivity",
        1.0,
        class_gradient,
        (
            Edit(
                "regression.scores:SoftmaxScore.sensitivities",
                "gradient = 2 * weighting.tau",
                "gradient = weighting.tau",
            ),
        ),
        unit="of the booked move",
        attack="logistic regression, four classes",
    ),
    Mutant(
        "a vote reaches a candidate and leaves none",
        "regression, central",
        "Private search: a vote that changes is taken to change one count.",
        "sensitivity",
        1.0,
        moved_vote,
        (
            Edit(
                "regression.search:PrivateSearchCV._fit",
                "sensitivity=budget.contributions * math.sqrt(2)",
                "sensitivity=float(budget.contributions)",
            ),
        ),
        unit="of the booked move",
    ),
    Mutant(
        "strong convexity forgotten",
        "regression, central",
        "DP-ERM: the curvature that the released matrix shows is taken for 1.",
        "sensitivity",
        1.0,
        minimiser,
        (SolverEdit("regression.glm_erm:erm", "math.sqrt(firm) * n)", "n)"),),
        unit="of the booked move",
        attack="glm erm, logistic, public covariates",
    ),
    audited(
        "sufficient statistics keep the exact moment",
        "regression, central",
        "SSP: noise is drawn and booked, but the estimate is computed from the moment without it.",
        "ssp",
        (Edit("regression.baselines:_second_moments", "total[:d, d]", "products[:d, d]"),),
    ),
    audited(
        "re-weighted regression keeps the exact moment",
        "regression, central",
        "Noise is drawn and booked, but the estimate is computed from the moment without it.",
        "linear regression reweighted",
        (Edit("regression.linear:reweighted", "solve @ released[:d]", "solve @ moment"),),
    ),
    audited(
        "the exact minimiser is published",
        "regression, central",
        "DP-ERM: noise is drawn and booked, and not added.",
        "glm erm, logistic",
        (SolverEdit("regression.glm_erm:erm", "v, record = problem", "_, record = problem"),),
    ),
    Mutant(
        "a person answers in every phase",
        "regression, local",
        "Each question goes to the first people in line again: they report many times.",
        "trace",
        EPSILON,
        reports_sent,
        (Edit("regression.local:_run", "start += len(people)", "start += 0"),),
    ),
    audited(
        "contributions ignored by a report",
        "regression, local",
        "Each of a person's three reports runs at epsilon, not at a third of it.",
        "local regression moment report, three of one person",
        (
            Edit(
                "local.questions:Question.channel",
                "entries, epsilon, contributions=contributions",
                "entries, epsilon, contributions=1",
            ),
        ),
    ),
]
