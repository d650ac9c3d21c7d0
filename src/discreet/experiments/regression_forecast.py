"""Before any data: what error to expect, what privacy costs, how many rows a target needs.

The error is that of the fit itself, run on stand-ins for the private rows.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from discreet.arrays import Array, finite, integer, positive, within
from discreet.experiments.sheet import Setting, Sheet, Tick
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
    """What is known before any private row is read. Errors are in the units of labels."""

    covariates: Array | int  # a public sample (rows, d) in the unit ball, or d for the sphere
    rows: int  # how many private rows there will be
    noise: float  # std of a label around its mean, in the units of labels
    delta: float  # under central and shuffled trust; local trust is pure
    target: float | None = None  # an error that is wished for
    label_range: tuple[float, float] = (-1.0, 1.0)  # public bounds of labels: their units

    trusts: ClassVar[tuple[str, ...]] = TRUSTS
    axes: ClassVar[tuple[str, str]] = ("rows", "mean absolute error")

    def __post_init__(self) -> None:
        integer("rows", self.rows, least=LEAST_ROWS)
        positive("noise", self.noise)
        if self.target is not None:
            positive("target", self.target)
        low, high = self.label_range
        if not low < high:
            raise ValueError(f"label_range must be (low, high), low < high; got {low:g}, {high:g}")

    @property
    def dim(self) -> int:
        X = self.covariates
        return X if isinstance(X, int) else X.shape[1]

    @property
    def label_bound(self) -> float:
        """Half the width of the range: fits and formulas count labels in it."""
        low, high = self.label_range
        return (high - low) / 2

    def _known(self, trust: str) -> dict[str, Any]:
        return {"trust": trust, "label_noise": self.noise / self.label_bound}

    def formula(self, rows: int, epsilon: float = math.inf, trust: str = "central") -> float:
        """`expected_error`; by default that of least squares, without privacy."""
        known = self._known(trust)
        return self.label_bound * expected_error(
            self.covariates, rows, epsilon, self.delta, **known
        )

    def limit(self, rows: int, epsilon: float, trust: str) -> float:
        known = self._known(trust)
        return self.label_bound * error_limit(self.covariates, rows, epsilon, **known)

    def _rows_for(self, error: float, epsilon: float = math.inf, trust: str = "central") -> float:
        error /= self.label_bound
        return rows_needed(self.covariates, error, epsilon, self.delta, **self._known(trust))

    # -- answers ---------------------------------------------------------------------------------

    def work(self, settings: Sequence[Setting]) -> int:
        """Answers, and points of curves with privacy."""
        return len(settings) + (len(settings) - 1) * POINTS

    def answers(self, settings: Sequence[Setting], tick: Tick) -> "list[Answer]":
        found = []
        for trust, epsilon in settings:
            found.append(self.answer(trust, epsilon))
            tick(1)
        return found

    def answer(self, trust: str, epsilon: float) -> "Answer":
        """What to expect at this trust and epsilon: the mean of fits to stand-ins for the rows."""
        n = self.rows
        plain = self.formula(n)
        if trust == "none":
            needed = None if self.target is None else self._rows_for(self.target)
            # E|<phi, e>| of one fit, e normal in d dimensions: its log has about this spread
            half = math.exp(1.96 / math.sqrt(2 * self.dim))
            ends = plain / half, plain * half
            return Answer(trust, math.inf, plain, *ends, plain, plain, 1.0, plain, needed)
        formula = self.formula(n, epsilon, trust)
        error, low, high = self._simulated(n, epsilon, trust)
        needed = None
        if self.target is not None:
            needed = self._needed(self.target, epsilon, trust, error / formula)
        price = price_of_privacy(self.covariates, n, epsilon, self.delta, **self._known(trust))
        limit = self.limit(n, epsilon, trust)
        return Answer(trust, epsilon, error, low, high, formula, plain, price, limit, needed)

    def _simulated(self, rows: int, epsilon: float, trust: str) -> tuple[float, float, float]:
        """The error after so many rows, and its interval."""
        runs = self.simulated(rows, epsilon, trust)
        if runs is None:
            formula = self.formula(rows, epsilon, trust)
            return formula, formula / UNSEEN, formula * UNSEEN
        return float(runs[0].mean()), *one_more(runs[0])

    def _needed(self, target: float, epsilon: float, trust: str, factor: float) -> float:
        """Rows for the target: by the formula, corrected by fits to about so many rows."""
        n = self._rows_for(target / factor, epsilon, trust)
        if math.isinf(n) or n < LEAST_ROWS:
            return n
        error, *_ = self._simulated(int(n), epsilon, trust)
        return self._rows_for(target * self.formula(int(n), epsilon, trust) / error, epsilon, trust)

    def simulated(
        self, rows: int, epsilon: float, trust: str, *, runs: int | None = None, seed: int = 0
    ) -> tuple[Array, Array] | None:  # (runs,), (runs,)
        """Mean absolute and root mean square errors of fits to stand-ins for so many rows.

        They are drawn from the public sample, or on the sphere; theta has a random direction. Where
        so many would take too long, fewer are fitted and errors are scaled as the formula scales;
        None where features are too many for that.
        """
        d = max(self.dim, 3)
        if d > MOST_COLUMNS:
            return None
        fitted = min(rows, int(WORK / (LEAST_RUNS * d)))
        one = d * fitted + 2 * d**3  # matrices take their time, too
        many = runs or min(MOST_RUNS, max(LEAST_RUNS, int(WORK / one)))
        errors = [self._fit(fitted, epsilon, trust, [seed, k]) for k in range(many)]
        l1, l2, plain = self.label_bound * np.array(errors).T
        factor = _control(np.log(l1), np.log(plain), math.log(self.formula(fitted)))
        if fitted < rows:
            scaled = (self.formula(n, epsilon, trust) for n in (rows, fitted))
            factor *= next(scaled) / next(scaled)
        return factor * l1, factor * l2

    def _fit(
        self, rows: int, epsilon: float, trust: str, seeds: list[int]
    ) -> tuple[float, float, float]:
        """Mean absolute and root mean square error of a fit's predictions; that of least squares.

        In units of the label bound.
        """
        rng = np.random.default_rng(seeds)
        number = int(rng.integers(2**31))
        X, test = (_drawn(self.covariates, n, rng) for n in (rows, TEST))
        theta = rng.standard_normal(X.shape[1])
        theta *= LENGTH / float(np.linalg.norm(theta))
        spread = self.noise / self.label_bound
        y = np.clip(X @ theta + spread * rng.standard_normal(rows), -1, 1)
        model = PrivateLinearRegression(
            epsilon,
            None if trust == "local" else self.delta,
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

    # -- as people read them -----------------------------------------------------------------------

    def sheet(self, answers: "Sequence[Answer]") -> Sheet:
        what = "on a sphere" if isinstance(self.covariates, int) else "as public"
        low, high = self.label_range
        target = self.target
        note = (
            f"error: mean absolute error of a prediction, labels between {low:g} and {high:g}, on "
            "average over fits to stand-ins for the rows. one fit: 19 in 20 have an error in "
            "between. ratio: to least squares, without privacy. price: of privacy, tr(Sigma "
            "W^2)/d, what ratio^2 comes to with rows enough. limit: scale below which no private "
            "estimator gets. "
            + (f"rows needed: for an error of {target:g}. " if target is not None else "")
            + f"delta = {self.delta:g} (local: 0). "
            + self._classes(answers)
        )
        needed = () if target is None else ("rows needed",)
        return Sheet(
            title=f"What to expect of {self.rows:,} rows, {self.dim} features {what}, label noise "
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

    def _classes(self, answers: "Sequence[Answer]") -> str:
        """From how many rows on a classifier of these features is no gamble."""
        found = []
        for each in answers:
            if each.trust == "central":
                half, rare = (
                    rows_for_classes(self.dim, each.epsilon, self.delta, base_rate=rate)
                    for rate in (0.5, 0.05)
                )
                found.append(f"{half:,} ({rare:,}) at epsilon = {each.epsilon:g}")
        if not found:
            return ""
        return (
            "classes: a classifier may know nothing, and warns, below this many rows, half of them "
            f"(a twentieth) of one class: {', '.join(found)}."
        )

    def draw(self, axis: Any, trust: str, answers: "Sequence[Answer]", tick: Tick) -> None:
        """Error against the number of rows: least squares, private, and the limit.

        Curves are those of the formula, corrected as fits to the question's rows correct it. None
        lies below least squares, and none above that of a smaller epsilon.
        """
        from discreet.experiments.figures import colour_of

        ends = max(10, self.rows / 30), 30 * self.rows
        n = np.unique(np.geomspace(*ends, POINTS).astype(int)).tolist()
        plain = np.array([self.formula(k) for k in n])
        axis.plot(n, plain, color="black", label="without privacy")
        smaller = np.full(len(n), math.inf)  # error at the epsilon before
        for line in answers:
            if line.trust != trust:
                continue
            colour = colour_of(line.epsilon)
            factor = line.error / line.formula
            private, limit = [], []
            for k in n:
                private.append(factor * self.formula(k, line.epsilon, trust))
                limit.append(self.limit(k, line.epsilon, trust))
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
    """One line of the table; errors are E|<phi, theta^ - theta>|, in the units of labels."""

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
        return (
            self.trust,
            "-" if math.isinf(self.epsilon) else f"{self.epsilon:g}",
            rough(self.error),
            f"{rough(self.low)}-{rough(self.high)}",
            *(fixed(x, 2 if x < 10 else 0) for x in (self.error / self.plain, self.price)),
            rough(self.limit),
            *([] if self.needed is None else [at_least(self.needed)]),
        )


def _control(errors: Array, plain: Array, expected: float) -> float:
    """What chance did to least squares on the same rows is taken out of the private errors, too.

    A control variate, all in logs: its coefficient is the slope of one against the other.
    """
    around = plain - plain.mean()
    slope = float(around @ errors) / max(float(around @ around), 1e-300)
    # E log|e| is not log E|e|: both are compared where their means are.
    middle = math.log(float(np.mean(np.exp(plain))))
    return math.exp(min(max(slope, 0.0), 1.0) * (expected - middle))


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
