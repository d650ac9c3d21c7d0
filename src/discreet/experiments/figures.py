"""The pictures of a report, as SVG text: colours that the colour-blind can tell apart, and ink that
follows the page, light or dark. And that of an audit, as a file."""

import io
import itertools
import math
import re
import textwrap
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib import rc_context
from matplotlib.cm import viridis
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, MaxNLocator, NullFormatter

from discreet.evaluation.looks import Look
from discreet.evaluation.worth import Value
from discreet.experiments.results import Results
from discreet.words import budget, fixed, number, places

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")  # Okabe and Ito
MARKS = "osD^vP"
INK = "#123456"  # stands for the colour of the page's text
GREY = "#8a8a8a"
PANELS = 3  # side by side
WIDTH = 3.4  # inches of one
STEP = 0.85  # inches of a step and what is written on it
_STYLE: Any = {
    "text.color": INK, "axes.labelcolor": INK, "axes.edgecolor": INK, "xtick.color": INK,
    "ytick.color": INK, "axes.facecolor": "none", "figure.facecolor": "none",
    "font.size": 10, "axes.titlesize": 11, "axes.spines.top": False, "axes.spines.right": False,
    "legend.frameon": False, "svg.hashsalt": "discreet", "axes.grid": True, "grid.alpha": 0.25,
    "grid.linewidth": 0.6, "lines.linewidth": 1.8, "svg.fonttype": "path",
    "text.parse_math": False,  # a title may have a $ in it
}  # fmt: skip


def curves(results: Results, environment: str) -> str:
    """Value against n, a panel for each budget: mean and 95% band of every learner."""
    found = results.curves(environment)
    task = results.task
    private = _private(results)
    epsilons = sorted({e for learner, e in found if learner in private}, reverse=True) or [math.inf]
    blind = _blind(results, environment)
    above = all((mean[1:] > 0).all() for _, mean, _ in found.values())
    with panels(len(epsilons), same_scale=True) as (figure, axes):
        for axis, epsilon in zip(axes, epsilons, strict=False):
            for (learner, e), (n, mean, half) in found.items():
                if learner in private and e != epsilon:
                    continue
                colour = _colour(results, learner)
                dashed = {} if learner in private else {"linestyle": (0, (5, 1.5))}
                axis.plot(n, mean, color=colour, label=label(learner), **dashed)
                low, high = ends(mean, half, logarithmic=above)
                axis.fill_between(n, low, high, color=colour, alpha=0.18, lw=0)
            axis.plot(*blind, ":", color=GREY, label=task.blind)
            axis.set(xlabel=task.axis, title=budget(epsilon))
        if above:
            for axis in axes:
                logarithmic(axis, "xy")
        for row_start in range(0, len(epsilons), PANELS):
            axes[row_start].set_ylabel(
                task.measure if task.logarithmic else f"{task.measure} so far"
            )
        legend(figure, axes[0])
        return svg(figure)


def against_epsilon(results: Results) -> str:
    """Value at the end against the budget, a panel for each environment."""
    summary = results.summary()
    task = results.task
    private = _private(results)
    names = [each.title for each in results.experiment.environments]
    with panels(len(names)) as (figure, axes):
        for axis, name in zip(axes, names, strict=False):
            here = summary[summary["environment"] == name]
            wide = 0 < 3 * here["mean"].min() < here[["mean", "blind"]].max(axis=None)
            for learner, rows in here.groupby("learner", sort=False):
                colour = _colour(results, learner)
                mark = MARKS[_place(results, learner) % len(MARKS)]
                finite = rows[np.isfinite(rows["epsilon"])]
                if learner in private and len(finite):
                    mean, half = finite["mean"].to_numpy(), finite["half"].fillna(0).to_numpy()
                    low, high = ends(mean, half, logarithmic=wide)
                    axis.errorbar(finite["epsilon"], mean, (mean - low, high - mean),
                                  color=colour, marker=mark, markersize=5,
                                  capsize=3, label=label(learner))  # fmt: skip
                elif learner not in private:
                    mean, half = rows[["mean", "half"]].iloc[0]
                    axis.axhline(mean, color=colour, linestyle=(0, (5, 1.5)), label=label(learner))
                    if half == half:
                        span = ends(mean, half, logarithmic=wide)
                        axis.axhspan(*span, color=colour, alpha=0.12, lw=0)
            axis.axhline(here["blind"].mean(), color=GREY, linestyle=":", label=task.blind)
            ticks = [e for e in results.experiment.epsilons if math.isfinite(e)]
            axis.set(xscale="log", xlabel="epsilon (less hides more)", title=label(name))
            axis.set_xticks(ticks, [f"{e:g}" for e in ticks])
            axis.minorticks_off()
            if wide:
                logarithmic(axis, "y")
        axes[0].set_ylabel(f"{task.measure} at the end")
        legend(figure, axes[0])
        return svg(figure)


def waterfall(results: Results, learner: str) -> str:
    """What a learner pays, step by step: for learning, then for each smaller budget."""
    summary = results.summary()
    task = results.task
    reference = results.reference
    names = [each.title for each in results.experiment.environments]
    wide = STEP * (len(results.experiment.epsilons) + 2)
    with panels(len(names), width=max(WIDTH, wide)) as (figure, axes):
        for axis, name in zip(axes, names, strict=False):
            here = summary[summary["environment"] == name]
            rows = here[here["learner"] == learner].sort_values("epsilon", ascending=False)
            steps = [(budget(e), m) for e, m in zip(rows["epsilon"], rows["mean"], strict=True)]
            if reference is not None:
                plain = here[here["learner"] == reference.title]["mean"].iloc[0]
                steps.insert(0, ("without\nprivacy", plain))
            levels = [level for _, level in steps] or [1.0]
            digits = places(max(levels))
            before = 0.0
            for place, (_, level) in enumerate(steps):
                grew = level >= before
                colour = GREY if place == 0 else COLOURS[1] if grew else COLOURS[2]
                axis.bar(place, level - before, bottom=before, color=colour, width=0.62)
                change = fixed(level - before, digits, "+" if place else "")
                axis.annotate(change, (place, max(level, before)), (0, 4), ha="center", fontsize=9,
                              textcoords="offset points")  # fmt: skip
                if place + 1 < len(steps):
                    axis.plot([place, place + 1], [level, level], color=INK, lw=0.6)
                before = level
            below = [step.replace("epsilon = ", "ε = ").replace("no ", "no\n") for step, _ in steps]
            axis.set_xticks(range(len(steps)), below, fontsize=9)
            axis.set(title=label(name), xlim=(-0.6, len(steps) - 0.4))
            # Room for the words above a bar, also of one that begins where the highest ends.
            axis.set_ylim(1.14 * min(0.0, *levels), 1.14 * max(0.0, *levels) or 1.0)
            axis.grid(visible=False, axis="x")
            axis.set_xlabel(f"{task.blind}: {number(float(here['blind'].mean()))}")
        axes[0].set_ylabel(f"{task.measure} at the end")
        return svg(figure)


def worth(values: Sequence[Value]) -> str:
    """Mean reward under the policy and of the hold-out against windows, with their intervals.

    `values` is `LinearBandit.values()`: released numbers only.
    """
    with panels(1) as (figure, (axis, *_)):
        for name, colour in (("policy", COLOURS[0]), ("hold-out", COLOURS[1])):
            picked = [each.mean if name == "policy" else each.holdout for each in values]
            known = [(k, each) for k, each in enumerate(picked, start=1) if each is not None]
            if not known:
                continue
            windows = [k for k, _ in known]
            estimates = [each.estimate for _, each in known]
            axis.plot(windows, estimates, color=colour, marker="o", markersize=4, label=name)
            low = [each.low for _, each in known]
            high = [each.high for _, each in known]
            _between(axis, windows, low, high, colour)
        axis.set(xlabel="window", ylabel="mean reward")
        legend(figure, axis)
        return svg(figure)


def _between(
    axis: Any, places: Sequence[int], low: Sequence[float], high: Sequence[float], colour: str
) -> None:
    """A band of intervals at whole numbers; of a single one, which has no width, a bar."""
    if len(places) == 1:
        axis.vlines(places, low, high, color=colour, alpha=0.5)
    else:
        axis.fill_between(places, low, high, color=colour, alpha=0.18, lw=0)
    axis.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))


def looks(history: Sequence[Look]) -> str:
    """Differences of each arm to the first, metric by metric, look by look."""
    names = list(history[0].metrics)
    with panels(len(names)) as (figure, axes):
        for axis, name in zip(axes, names, strict=True):
            control, *others = history[0].people
            for arm, colour in zip(others, itertools.cycle(COLOURS)):
                numbers = [look.number for look in history]
                found = [look[name].difference(arm, control) for look in history]
                middle = [each.estimate for each in found]
                low = [each.low for each in found]
                high = [each.high for each in found]
                axis.plot(numbers, middle, color=colour, marker="o", markersize=3, label=arm)
                _between(axis, numbers, low, high, colour)
            axis.axhline(0.0, color=GREY, lw=0.8)
            axis.set(title=name, xlabel="look", ylabel=f"difference to {control}")
        legend(figure, *axes)
        return svg(figure)


def audit_figure(bars: Sequence[tuple[str, float, float]], out: Path) -> Path:
    """Bars of (attack, fraction of the claim proved, fraction attainable), saved as audit.svg.

    Fractions are of mu where the claim is Gaussian, and else of epsilon.
    """
    out.mkdir(parents=True, exist_ok=True)
    picture = Figure(figsize=(8, 1 + 0.22 * len(bars)), layout="constrained")
    axis = picture.subplots()
    names, proved, best = (list(column)[::-1] for column in zip(*bars, strict=True))
    axis.barh(names, best, color="#d9d9d9", label="attainable by an ideal attack")
    axis.barh(names, proved, color=COLOURS[0], height=0.5, label="proved, 95% confidence")
    axis.axvline(1.0, color=COLOURS[1], label="claimed")
    axis.set(
        xlabel="fraction of the claim: mu if Gaussian, else epsilon", xlim=(0, max(1.1, *proved))
    )
    axis.tick_params(axis="y", labelsize=7)
    axis.margins(y=0.01)
    picture.legend(loc="outside lower center", ncols=3, frameon=False)
    path = out / "audit.svg"
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": "discreet"}):
        picture.savefig(path, metadata={"Date": None})
    return path


def _private(results: Results) -> set[str]:
    entry = results.task.learner_entry
    return {each.title for each in results.experiment.learners if entry(each).private}


def _blind(results: Results, environment: str) -> tuple[Any, Any]:
    here = results.frame[results.frame["environment"] == environment]
    line = here.groupby("n")["blind"].mean()
    return line.index.to_numpy(), line.to_numpy()


def _place(results: Results, learner: str) -> int:
    return [each.title for each in results.experiment.learners].index(learner)


def _colour(results: Results, learner: str) -> str:
    if results.reference is not None and learner == results.reference.title:
        return INK
    return COLOURS[_place(results, learner) % len(COLOURS)]


def label(title: str) -> str:
    """A title where there is little room: in lines, at most three of them.

    >>> label("_hidden"), label("a title that has more words than fit below one small panel")
    ('hidden', 'a title that has more words than fit\\nbelow one small panel')
    """
    named = title.lstrip("_") or title  # matplotlib leaves labels with a leading _ out
    return "\n".join(textwrap.wrap(named, 40, max_lines=3, placeholder="…"))


@contextmanager
def panels(
    count: int, *, same_scale: bool = False, width: float = WIDTH
) -> Iterator[tuple[Any, Sequence[Any]]]:
    """A picture with so many panels, in the style of all pictures; fewer side by side if wider."""
    columns = min(count, max(1, int(PANELS * WIDTH / width)))
    rows = math.ceil(count / columns)
    with rc_context(_STYLE):
        figure = Figure(figsize=(max(width * columns, 5.6), 3.1 * rows + 0.5), layout="constrained")
        axes = figure.subplots(rows, columns, squeeze=False, sharey=same_scale).ravel()
        for spare in axes[count:]:
            spare.set_visible(False)
        yield figure, list(axes[:count])


def ends(mean: Any, half: Any, *, logarithmic: bool) -> tuple[Any, Any]:
    """Of an interval around a mean; on a logarithmic axis the one of its logarithm.

    >>> ends(10.0, 5.0, logarithmic=False)
    (5.0, 15.0)
    >>> [round(float(each), 2) for each in ends(10.0, 5.0, logarithmic=True)]
    [6.07, 16.49]
    """
    if not logarithmic:
        return mean - half, mean + half
    factor = np.exp(half / np.maximum(mean, 1e-300))
    return mean / factor, mean * factor


def colour_of(epsilon: float) -> Any:
    """One colour for one budget, in every picture: light is little noise; black is no privacy."""
    if math.isinf(epsilon):
        return "black"
    place = (math.log10(epsilon) + 1.5) / 3  # from 0.03 to 30
    return viridis(1 - min(max(place, 0.0), 1.0) * 0.9)


def logarithmic(axis: Any, which: str) -> None:
    """Logarithmic "x", "y" or "xy" with plain numbers at their ticks; after all is drawn."""
    for name in which:
        if getattr(axis, f"get_{name}scale")() != "log":
            axis.set(**{f"{name}scale": "log"})  # again, it would take labels off panels beside it
        ticks = getattr(axis, f"{name}axis")
        low, high = ticks.get_view_interval()
        steps = LogLocator(subs=(1.0,) if high > 100 * low else (1.0, 2.0, 5.0))
        ticks.set_major_locator(steps if high > 3 * low else MaxNLocator(4))
        ticks.set_major_formatter(lambda value, _: number(value))
        ticks.set_minor_formatter(NullFormatter())


def legend(figure: Any, *axes: Any) -> None:
    """One legend below all panels; each label once, from the first panel that has it."""
    known: dict[str, Any] = {}
    for axis in axes:
        for handle, name in zip(*axis.get_legend_handles_labels(), strict=True):
            known.setdefault(name, handle)
    wide = 2 if figure.get_figwidth() < 8 else 3
    figure.legend(known.values(), known, loc="outside lower center", ncols=min(len(known), wide))


def svg(figure: Any) -> str:
    """The picture without what only a file needs; ids are made unique by their content."""
    buffer = io.StringIO()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing")  # a box; tables have the letter
        figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
    text = buffer.getvalue()
    text = text[text.index("<svg") :].replace(INK, "currentColor")
    # As wide as it was drawn, or less where the page is narrower: the page's style says how.
    wide = r'(<svg [^>]*?)width="([\d.]+)pt" height="[\d.]+pt"'
    return re.sub(wide, r'\1style="--drawn: \2pt"', text, count=1)
