"""Before any data: what error to expect, what privacy costs, how many rows a target needs.

The error is that of the fit itself, run on stand-ins for the private rows.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from discreet.arrays import Array, finite, integer, positive, within
from discreet.experiments.sheet import Setting, Sheet
from discreet.experiments.statistics import one_more
from discreet.privacy import SeededNoise
from discreet.regression import PrivateLinearRegression
from discreet.regression.information import (
    TRUSTS,
    error_limit,
    expected_error,
    price_of_privacy,
    rows_for_classes,
    rows_needed,
)
from discreet.words import at_least, fixed, rough

MOST_ROWS = 5000  # of a public sample; more would change nothing but the time
MOST_COLUMNS = 100  # time grows with their cube, here to about a minute
POINTS = 11  # of a curve
LEAST_ROWS = 10  # of a fit
MOST_RUNS = 64
LEAST_RUNS = 4
WORK = 6e7  # numbers in the rows of all runs: 5 seconds, under local trust 20
LENGTH = 0.8  # of theta: labels with their noise still fit within the bound
TEST = 4000  # rows on which an error is measured
UNSEEN = 1.5  # where nothing can be simulated: by how much the formula may be off


@dataclass(frozen=True)
class Question:
    """What is known before any private row is read."""

    covariates: Array | int  # a public sample (rows, d) in the unit ball, or d for the sphere
    rows: int  # how many private rows there will be
    noise: float  # std of a label around its mean, relative to the label bound
    delta: float  # under central and shuffled trust; local trust is pure
    target: float | None = None  # an error that is wished for

    trusts: ClassVar[tuple[str, ...]] = TRUSTS
    axes: ClassVar[tuple[str, str]] = ("rows", "mean absolute error")

    def __post_init__(self) -> None:
        integer("rows", self.rows, least=LEAST_ROWS)
        positive("noise", self.noise)
        if self.target is not None:
            positive("target", self.target)

    def work(self, settings: Sequence[Setting]) -> int:
        """Answers, and points of curves with privacy."""
        return len(settings) + (len(settings) - 1) * POINTS

    def answers(self, settings: Sequence[Setting], tick: Callable[[int], object]) -> "list[Answer]":
        found = []
        for trust, epsilon in settings:
            found.append(answer(self, trust, epsilon))
            tick(1)
        return found

    def sheet(self, answers: "Sequence[Answer]") -> Sheet:
        X = self.covariates
        what = "as public" if isinstance(X, np.ndarray) else "on a sphere"
        known = X.shape[1] if isinstance(X, np.ndarray) else X
        target = self.target
        needed = () if target is None else ("rows needed",)
        note = (
            "error: mean absolute error of a prediction, in units of the label bound, on average "
            "over fits to stand-ins for the rows. one fit: 19 in 20 have an error in between. "
            "ratio: to least squares, without privacy. price: of privacy, tr(Sigma W^2)/d, what "
            "ratio^2 comes to with rows enough. limit: scale below which no private estimator "
            "gets. "
            + (f"rows needed: for an error of {target:g}. " if target is not None else "")
            + f"delta = {self.delta:g} (local: 0). "
            + self._classes(answers, known)
        )
        return Sheet(
            title=f"What to expect of {self.rows:,} rows, {known} features {what}, label noise "
            f"{self.noise:g}",
            columns=("trust", "epsilon", "error", "one fit", "ratio", "price", "limit", *needed),
            rows=[line.row for line in answers],
            lines=[i for i, line in enumerate(answers) if line.trust == "none"],
            note=note,
            caption="Error against the number of rows; dashed: the limit. Both axes are "
            "logarithmic.",
            question=vars(self),
            answers=[vars(line) for line in answers],
        )

    def _classes(self, answers: "Sequence[Answer]", known: int) -> str:
        """From how many rows on a classifier of these features is no gamble."""
        found = [
            f"{rows_for_classes(known, each.epsilon, self.delta):,} "
            f"({rows_for_classes(known, each.epsilon, self.delta, base_rate=0.05):,}) at epsilon = "
            f"{each.epsilon:g}"
            for each in answers
            if each.trust == "central"
        ]
        if not found:
            return ""
        return (
            "classes: a classifier may know nothing, and warns, below this many rows, half of them "
            f"(a twentieth) of one class: {', '.join(found)}."
        )

    def draw(
        self, axis: Any, trust: str, answers: "Sequence[Answer]", tick: Callable[[int], object]
    ) -> None:
        """Error against the number of rows: least squares, private, and the limit.

        Curves are those of the formula, corrected as fits to the question's rows correct it. None
        lies below least squares, and none above that of a smaller epsilon.
        """
        from discreet.experiments.figures import colour_of

        X = self.covariates
        known: dict[str, Any] = {"label_noise": self.noise}
        ends = max(10, self.rows / 30), 30 * self.rows
        n = np.unique(np.geomspace(*ends, POINTS).astype(int)).tolist()
        plain = np.array([expected_error(X, k, **known) for k in n])
        axis.plot(n, plain, color="black", label="without privacy")
        smaller = np.full(len(n), math.inf)  # error at the epsilon before
        lines = [line for line in answers if line.trust == trust]
        for line in lines:
            colour = colour_of(line.epsilon)
            factor = line.error / line.formula
            private = []
            limit = []
            for k in n:
                formula = expected_error(X, k, line.epsilon, self.delta, trust=trust, **known)
                private.append(factor * formula)
                limit.append(error_limit(X, k, line.epsilon, trust=trust, **known))
                tick(1)
            smaller = np.minimum(np.maximum(private, plain), smaller)
            axis.plot(n, smaller, color=colour, label=f"epsilon = {line.epsilon:g}")
            axis.plot(n, limit, "--", color=colour, linewidth=0.9)
        axis.plot([], [], "--", color="grey", linewidth=0.9, label="dashed: limit (scale)")
        axis.axvline(self.rows, color="grey", linewidth=0.6)
        if self.target is not None:
            axis.axhline(self.target, color="grey", linewidth=0.6)


@dataclass(frozen=True)
class Answer:
    """One line of the table; errors are E|<phi, theta^ - theta>|, labels in [-1, 1]."""

    trust: str  # "central", "shuffled", "local", or "none" for least squares
    epsilon: float  # inf without privacy
    error: float  # to be expected
    low: float  # of one fit: 19 in 20 lie between this
    high: float  # and this
    formula: float  # `expected_error`, whose growth with rows the figure shows
    plain: float  # error of least squares
    price: float  # of privacy, tr(Sigma W^2)/d
    limit: float  # scale of the lower bound
    needed: float | None  # rows for the target, if there is one

    @property
    def row(self) -> tuple[str, ...]:
        """As a table shows it."""
        return (
            self.trust,
            "-" if math.isinf(self.epsilon) else f"{self.epsilon:g}",
            rough(self.error),
            f"{rough(self.low)}-{rough(self.high)}",
            *(fixed(x, 2 if x < 10 else 0) for x in (self.error / self.plain, self.price)),
            rough(self.limit),
            *([] if self.needed is None else [at_least(self.needed)]),
        )


def answer(question: Question, trust: str, epsilon: float) -> Answer:
    """What to expect at this trust and epsilon: the mean of fits to stand-ins for the rows."""
    X = question.covariates
    n = question.rows
    sigma = question.noise
    target = question.target
    plain = expected_error(X, n, label_noise=sigma)
    if trust == "none":
        needed = None if target is None else rows_needed(X, target, label_noise=sigma)
        # E|<phi, e>| of one fit, e normal in d dimensions: its log has about this spread
        half = 1.96 / math.sqrt(2 * (X if isinstance(X, int) else X.shape[1]))
        ends = plain * math.exp(-half), plain * math.exp(half)
        return Answer(trust, math.inf, plain, *ends, plain, plain, 1.0, plain, needed)
    delta = question.delta
    known: dict[str, Any] = {"trust": trust, "label_noise": sigma}
    formula = expected_error(X, n, epsilon, delta, **known)
    error, ends = _simulated(question, n, trust, epsilon, formula)
    return Answer(
        trust,
        epsilon,
        error,
        *ends,
        formula,
        plain,
        price_of_privacy(X, n, epsilon, delta, **known),
        error_limit(X, n, epsilon, **known),
        None if target is None else _needed(question, trust, epsilon, target, error / formula),
    )


def _simulated(
    question: Question, rows: int, trust: str, epsilon: float, formula: float
) -> tuple[float, tuple[float, float]]:
    """The error after so many rows, and its interval."""
    runs = simulated(
        question.covariates, rows, epsilon, question.delta, trust=trust, noise=question.noise
    )
    if runs is None:
        return formula, (formula / UNSEEN, formula * UNSEEN)
    return runs.error, runs.interval


def _needed(question: Question, trust: str, epsilon: float, target: float, factor: float) -> float:
    """Rows for the target: by the formula, corrected by fits to about so many rows."""
    X = question.covariates
    known: dict[str, Any] = {"trust": trust, "label_noise": question.noise}
    n = rows_needed(X, target / factor, epsilon, question.delta, **known)
    if math.isinf(n) or n < LEAST_ROWS:
        return n
    formula = expected_error(X, int(n), epsilon, question.delta, **known)
    error, _ = _simulated(question, int(n), trust, epsilon, formula)
    return rows_needed(X, target * formula / error, epsilon, question.delta, **known)


# -- fits to stand-ins for the rows ----------------------------------------------------------------


@dataclass(frozen=True)
class Simulation:
    """Errors of several fits to as many rows as there will be.

    >>> rows = Simulation(np.array([0.010, 0.012, 0.011, 0.013]), np.array([0.02] * 4))
    >>> [round(x, 4) for x in (rows.error, *rows.interval)]
    [0.0115, 0.0077, 0.0171]
    """

    l1: Array  # (runs,), mean absolute error of a prediction
    l2: Array  # (runs,), root mean square

    @property
    def error(self) -> float:
        """To be expected, on average over runs."""
        return float(self.l1.mean())

    @cached_property
    def interval(self) -> tuple[float, float]:
        """Where the error of one more fit lies, with probability .95."""
        return one_more(self.l1)


def simulated(
    covariates: Array | int,
    rows: int,
    epsilon: float,
    delta: float,
    *,
    trust: str,
    noise: float,
    runs: int | None = None,
    seed: int = 0,
) -> Simulation | None:
    """Fits of `PrivateLinearRegression` to rows drawn from the public sample, or on the sphere.

    Theta has a random direction. Where so many rows would take too long, fewer are fitted and
    errors are scaled as `expected_error` scales; None where features are too many for that.
    """
    d = covariates if isinstance(covariates, int) else covariates.shape[1]
    if d > MOST_COLUMNS:
        return None
    fitted = min(rows, int(WORK / (LEAST_RUNS * max(d, 3))))
    one = max(d, 3) * fitted + 2 * d**3  # matrices take their time, too
    many = runs or min(MOST_RUNS, max(LEAST_RUNS, int(WORK / one)))
    errors = np.array(
        [_fit(covariates, fitted, epsilon, delta, trust, noise, [seed, k]) for k in range(many)]
    )
    l1, l2, plain = errors.T
    known = expected_error(covariates, fitted, label_noise=noise)
    factor = _control(np.log(l1), np.log(plain), math.log(known))
    if fitted < rows:
        forecast = [
            expected_error(covariates, n, epsilon, delta, trust=trust, label_noise=noise)
            for n in (rows, fitted)
        ]
        factor *= forecast[0] / forecast[1]
    return Simulation(factor * l1, factor * l2)


def _control(errors: Array, plain: Array, expected: float) -> float:
    """What chance did to least squares on the same rows is taken out of the private errors, too.

    A control variate, all in logs: its coefficient is the slope of one against the other.
    """
    around = plain - plain.mean()
    slope = float(around @ errors) / max(float(around @ around), 1e-300)
    # E log|e| is not log E|e|: both are compared where their means are.
    middle = math.log(float(np.mean(np.exp(plain))))
    return math.exp(min(max(slope, 0.0), 1.0) * (expected - middle))


def _fit(
    covariates: Array | int,
    rows: int,
    epsilon: float,
    delta: float,
    trust: str,
    noise: float,
    seeds: list[int],
) -> tuple[float, float, float]:
    """Mean absolute and root mean square error of one fit's predictions; that of least squares."""
    rng = np.random.default_rng(seeds)
    number = int(rng.integers(2**31))
    X, test = (_drawn(covariates, n, rng) for n in (rows, TEST))
    theta = rng.standard_normal(X.shape[1])
    theta *= LENGTH / float(np.linalg.norm(theta))
    y = np.clip(X @ theta + noise * rng.standard_normal(rows), -1, 1)
    model = PrivateLinearRegression(
        epsilon,
        None if trust == "local" else delta,
        trust=trust,
        norm_bound=1.0,
        label_bound=1.0,
        fit_intercept=False,
        noise=SeededNoise(number),
        random_state=number,
    ).fit(X, y)
    errors = test @ (model.coef_ - theta)
    plain = test @ (np.linalg.lstsq(X, y, rcond=None)[0] - theta)
    square = float(np.sqrt(np.mean(errors**2)))
    return float(np.abs(errors).mean()), square, max(float(np.abs(plain).mean()), 1e-300)


def _drawn(covariates: Array | int, n: int, rng: np.random.Generator) -> Array:
    if isinstance(covariates, int):
        z = rng.standard_normal((n, covariates))
        return np.asarray(z / np.linalg.norm(z, axis=1, keepdims=True))
    return np.asarray(covariates[rng.integers(len(covariates), size=n)])


def read_sample(path: Path, norm_bound: float, *, sets: bool = False) -> Array:
    """Rows of a public .npy or .csv file (a header is skipped), clipped to the bound and scaled.

    With `sets`, a .npy file may also hold action sets (n, actions, d). Messages never quote the
    file: what is public today may have been a mistake.
    """
    positive("norm_bound", norm_bound)
    if not path.is_file():
        raise ValueError(f"no public sample at {path}")
    try:
        if path.suffix == ".npy":
            rows = np.load(path, allow_pickle=False)
        else:
            with path.open() as lines:
                header = any(mark.isalpha() for mark in lines.readline().replace("e", ""))
            rows = np.loadtxt(path, delimiter=",", skiprows=int(header), ndmin=2)
    except (ValueError, OSError, EOFError):
        raise ValueError(
            f"{path} is not a table of numbers; a .npy matrix or a .csv with features only is "
            "expected"
        ) from None
    rows = finite("the public sample", rows)
    if rows.ndim not in ((2, 3) if sets else (2,)) or 0 in rows.shape:
        shapes = "(rows, d) or (sets, actions, d)" if sets else "(rows, d)"
        raise ValueError(f"the public sample must have shape {shapes}, got {rows.shape}")
    if rows.shape[-1] > MOST_COLUMNS:
        raise ValueError(
            f"a forecast from a sample takes at most {MOST_COLUMNS} features, and this one has "
            f"{rows.shape[-1]:,}: give --dim instead, or a sample of its first principal directions"
        )
    rows = rows[:: math.ceil(len(rows) / MOST_ROWS)]
    return within("the public sample", rows, norm_bound, norm="l2", clip=True) / norm_bound
