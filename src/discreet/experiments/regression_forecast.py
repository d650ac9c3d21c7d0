"""Before any data: what error to expect, what privacy costs, how many rows a target needs."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from discreet.arrays import Array, finite, integer, one_of, positive, within
from discreet.experiments.regression_simulation import UNSEEN, simulated
from discreet.experiments.sheet import Files, Sheet
from discreet.regression.information import (
    TRUSTS,
    error_limit,
    expected_error,
    price_of_privacy,
    rows_needed,
)
from discreet.words import at_least, fixed, rough

MOST_ROWS = 5000  # of a public sample; more would change nothing but the time
MOST_COLUMNS = 100  # of a public sample: time grows with their cube, here to about a minute
POINTS = 11  # of a curve
LEAST_ROWS = 10  # of a fit
COLOURS = ("#c9a227", "#5b8e7d", "#2f4b7c", "#a05195", "#d45087")


@dataclass(frozen=True)
class Question:
    """What is known before any private row is read."""

    covariates: Array | int  # a public sample (rows, d) in the unit ball, or d for the sphere
    rows: int  # how many private rows there will be
    noise: float  # std of a label around its mean, relative to the label bound
    delta: float  # under central and shuffled trust; local trust is pure


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


def answer(question: Question, trust: str, epsilon: float, target: float | None = None) -> Answer:
    """What to expect at this trust and epsilon: the mean of fits to stand-ins for the rows.

    >>> line = answer(Question(8, 20_000, noise=0.1, delta=1e-6), "central", epsilon=1.0)
    >>> f"error {line.error:.4f}, without privacy {line.plain:.4f}, price {line.price:.1f}"
    'error 0.0017, without privacy 0.0016, price 1.3'
    """
    X = question.covariates
    n = question.rows
    sigma = question.noise
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


def run(
    question: Question,
    epsilons: Sequence[float],
    *,
    trust: str = "central",
    target: float | None = None,
    files: Files,
) -> None:
    """Print the table, save the figure and what else is asked for."""
    integer("rows", question.rows, least=LEAST_ROWS)
    positive("noise", question.noise)
    if target is not None:
        positive("target", target)
    one_of("trust", trust, (*TRUSTS, "both", "all"))
    trusts = {"both": ("central", "local"), "all": TRUSTS}.get(trust, (trust,))
    for epsilon in epsilons:
        positive("epsilon", epsilon)
    settings = [("none", math.inf), *((model, e) for model in trusts for e in sorted(epsilons))]
    files.prepare()
    with _progress(len(settings) + len(trusts) * len(epsilons) * POINTS) as tick:
        answers = []
        for model, e in settings:
            answers.append(answer(question, model, e, target))
            tick()
        factors = {(line.trust, line.epsilon): line.error / line.formula for line in answers}
        figure(files.figure, question, sorted(epsilons), trusts, target, tick, factors)
    _sheet(question, answers, target).tell(files)


@contextmanager
def _progress(total: int) -> Iterator[Callable[[], object]]:
    """A bar while forecasts are computed, on a terminal only."""
    from rich.console import Console
    from rich.progress import Progress

    console = Console(stderr=True)
    with Progress(console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task("forecasting", total=total)
        yield lambda: progress.advance(task)


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


def _sheet(question: Question, answers: Sequence[Answer], target: float | None) -> Sheet:
    X = question.covariates
    what = f"{X} features on a sphere" if isinstance(X, int) else f"{X.shape[1]} features as public"
    columns = ["trust", "epsilon", "error", "one fit", "ratio", "price", "limit"]
    if target is not None:
        columns.append("rows needed")
    rows = [
        [
            line.trust,
            "-" if math.isinf(line.epsilon) else f"{line.epsilon:g}",
            rough(line.error),
            f"{rough(line.low)}-{rough(line.high)}",
            _ratio(line.error / line.plain),
            _ratio(line.price),
            rough(line.limit),
            *([] if line.needed is None else [at_least(line.needed)]),
        ]
        for line in answers
    ]
    note = (
        "error: mean absolute error of a prediction, in units of the label bound, on average over "
        "fits to stand-ins for the rows. one fit: 19 in 20 have an error in between. ratio: to "
        "least squares, without privacy. price: of privacy, tr(Sigma W^2)/d, what ratio^2 comes to "
        "with rows enough. limit: scale below which no private estimator gets. "
        + (f"rows needed: for an error of {target:g}. " if target is not None else "")
        + f"delta = {question.delta:g} (local: 0)."
    )
    return Sheet(
        title=f"What to expect of {question.rows:,} rows, {what}, label noise {question.noise:g}",
        columns=columns,
        rows=rows,
        lines=[i for i, line in enumerate(answers) if line.trust == "none"],
        note=note,
        caption="Error against the number of rows; dashed: the limit. Both axes are logarithmic.",
        question={**vars(question), "target": target},
        answers=[vars(line) for line in answers],
    )


def _ratio(value: float) -> str:
    return fixed(value, 2 if value < 10 else 0)


def figure(
    path: Path,
    question: Question,
    epsilons: Sequence[float],
    trusts: Sequence[str],
    target: float | None = None,
    tick: Callable[[], object] = lambda: None,
    factors: Mapping[tuple[str, float], float] | None = None,
) -> None:
    """Error against the number of rows: least squares, private, and the limit.

    `factors` correct the formula for a trust and an epsilon, as fits to the question's rows do. No
    curve lies below least squares, and none above that of a smaller epsilon.
    """
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    X = question.covariates
    sigma = question.noise
    n = np.unique(np.geomspace(max(10, question.rows / 30), 30 * question.rows, POINTS).astype(int))
    picture, axes = plt.subplots(
        1, len(trusts), figsize=(6.2 * len(trusts), 4.2), constrained_layout=True, squeeze=False
    )
    for axis, trust in zip(axes[0], trusts, strict=True):
        plain = np.array([expected_error(X, int(k), label_noise=sigma) for k in n])
        axis.loglog(n, plain, color="black", label="without privacy")
        smaller = np.full(len(n), math.inf)  # error at the epsilon before
        for epsilon, colour in zip(epsilons, COLOURS * len(epsilons), strict=False):
            factor = (factors or {}).get((trust, epsilon), 1.0)
            private = []
            limit = []
            for k in map(int, n):
                formula = expected_error(
                    X, k, epsilon, question.delta, trust=trust, label_noise=sigma
                )
                private.append(factor * formula)
                limit.append(error_limit(X, k, epsilon, trust=trust, label_noise=sigma))
                tick()
            smaller = np.minimum(np.maximum(private, plain), smaller)
            axis.loglog(n, smaller, color=colour, label=f"epsilon = {epsilon:g}")
            axis.loglog(n, limit, "--", color=colour, linewidth=0.9)
        axis.plot([], [], "--", color="grey", linewidth=0.9, label="limit (scale)")
        axis.axvline(question.rows, color="grey", linewidth=0.6)
        if target is not None:
            axis.axhline(target, color="grey", linewidth=0.6)
        axis.set(xlabel="rows", ylabel="mean absolute error", title=f"{trust} trust")
        axis.spines[["top", "right"]].set_visible(False)
        axis.legend(frameon=False)
    picture.savefig(path, dpi=110)
    plt.close(picture)
