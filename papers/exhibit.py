"""An exhibit: a claim of a paper, a table of theirs and ours, a picture, and a verdict in words.

Verdicts are computed from the numbers of the run, never typed.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from discreet.arrays import Array
from discreet.experiments.figures import COLOURS, GREY, INK, MARKS, legend, logarithmic, panels, svg
from discreet.experiments.measure import Found, Measurement
from discreet.experiments.statistics import interval, standard_error
from discreet.words import fixed, places, plus_minus
from papers.slopes import Slope

BETTER = "better"
EQUAL = "equal"
WORSE = "worse"
WRONG = "paper wrong"
VERDICTS = (BETTER, EQUAL, WORSE, WRONG)
ALIKE = 0.1  # means, and slopes, that are closer are called equal


@dataclass(frozen=True)
class Row:
    """A line of an exhibit's table; cells are plain text."""

    what: str
    theirs: str
    ours: str
    verdict: str  # one of VERDICTS, or "" for a line that only informs
    note: str = ""


@dataclass(frozen=True)
class Line:
    """A curve. kind: "ours", "theirs", "plain" (no privacy), "bound", or "" for any other."""

    label: str
    x: Sequence[float]
    y: Sequence[float]
    kind: str = ""
    half: Sequence[float] | None = None


@dataclass(frozen=True)
class Panel:
    """One of a picture's panels; `logarithmic` says which of its axes are."""

    title: str
    x: str
    y: str
    lines: tuple[Line, ...]
    logarithmic: tuple[bool, bool] = (True, True)


@dataclass(frozen=True)
class Exhibit:
    """A claim and what was measured about it."""

    title: str
    claim: str  # what the paper says, and where
    rows: tuple[Row, ...]
    words: str  # what was measured, how, and what to make of it
    panels: tuple[Panel, ...] = ()
    caption: str = ""
    theirs: str = "theirs"  # heads of the columns
    ours: str = "ours"

    def count(self, verdict: str) -> int:
        """How many rows have this verdict."""
        return sum(row.verdict == verdict for row in self.rows)


@dataclass(frozen=True)
class Paper:
    """A paper, the cells to run for it, and the exhibits that they give."""

    name: str
    title: str
    reference: str
    about: str
    cells: Callable[[bool], list[Measurement]]  # quick -> cells
    exhibits: Callable[[Found, bool], list[Exhibit]]


def compare(ours: Array, theirs: Array) -> str:
    """Less is better. Equal: within 10%, or not told apart by the seeds that there are.

    >>> compare(np.array([1.0, 1.1, 0.9]), np.array([2.0, 2.1, 1.9]))
    'better'
    >>> compare(np.array([1.0, 3.0]), np.array([2.0]))
    'equal'
    """
    a = float(np.mean(ours))
    b = float(np.mean(theirs))
    if abs(a - b) <= ALIKE * max(abs(a), abs(b)):
        return EQUAL
    if abs(a - b) <= 2 * math.hypot(_error(ours), _error(theirs)):
        return EQUAL
    return BETTER if a < b else WORSE


def _error(values: Array) -> float:
    """The standard error; 0 for a single value, which is taken at its word."""
    return standard_error(values) if len(values) > 1 else 0.0


def judge_slope(measured: Slope, claimed: float) -> str:
    """A smaller exponent is better; equal: within 0.1 or two standard errors; "" if there is none.

    >>> [judge_slope(Slope(v, 0.0), 0.5) for v in (0.45, 0.8, -0.1)]
    ['equal', 'worse', 'better']
    """
    if math.isnan(measured.value):
        return ""
    if abs(measured.value - claimed) <= max(ALIKE, 2 * measured.error):
        return EQUAL
    return BETTER if measured.value < claimed else WORSE


def shown(values: Array, scale: float = 1.0) -> str:
    """Mean and 95% interval, with three digits or so.

    >>> shown(np.array([1234.0, 1240.0, 1238.0])), shown(np.array([0.01234]))
    ('1,237 ± 8', '0.0123')
    """
    mean, half = (scale * each for each in interval(np.asarray(values)))
    return plus_minus(mean, half)


def digits(value: float) -> str:
    """Three digits, or all of those before the point."""
    return fixed(value, places(value))


def curve(label: str, x: Sequence[float], runs: Sequence[Array], kind: str = "") -> Line:
    """A line through the means of runs, with their intervals."""
    mean, half = zip(*(interval(np.asarray(run)) for run in runs), strict=True)
    return Line(label, x, mean, kind, half)


def draw(shown_panels: Sequence[Panel]) -> str:
    """The picture of an exhibit as SVG."""
    labels = list(dict.fromkeys(line.label for panel in shown_panels for line in panel.lines))
    with panels(len(shown_panels)) as (figure, axes):
        for axis, panel in zip(axes, shown_panels, strict=True):
            for line in panel.lines:
                _plot(axis, line, labels.index(line.label), logarithmic=panel.logarithmic[1])
            axis.set(title=panel.title, xlabel=panel.x, ylabel=panel.y)
            if panel.logarithmic[0]:
                logarithmic(axis, "x")
            if panel.logarithmic[1] and all(max(line.y) > 0 for line in panel.lines):
                logarithmic(axis, "y")
        legend(figure, *axes)
        return svg(figure)


def _plot(axis: Any, line: Line, place: int, *, logarithmic: bool) -> None:
    looks = {
        "ours": (COLOURS[0], "-", "o"),
        "theirs": (COLOURS[1], "-", "s"),
        "plain": (INK, (0, (5, 1.5)), ""),
        "bound": (GREY, ":", ""),
    }
    spare = (COLOURS[2 + place % (len(COLOURS) - 2)], "-", MARKS[place % len(MARKS)])
    colour, style, mark = looks.get(line.kind, spare)
    x = np.asarray(line.x, dtype=float)
    y = np.asarray(line.y, dtype=float)
    if logarithmic:
        y = np.where(y > 0, y, np.nan)
    axis.plot(x, y, color=colour, linestyle=style, marker=mark, markersize=4, label=line.label)
    if line.half is not None:
        half = np.nan_to_num(np.asarray(line.half, dtype=float))
        low = np.maximum(y - half, y / 3) if logarithmic else y - half
        axis.fill_between(x, low, y + half, color=colour, alpha=0.15, lw=0)
