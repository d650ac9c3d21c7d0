"""The page of a run: plain words first, then tables, pictures, details."""

import itertools
import json
import math
from pathlib import Path

import numpy as np

from discreet.experiments import figures
from discreet.experiments.pages import render
from discreet.experiments.results import Results
from discreet.experiments.writing import write_atomically
from discreet.words import budget, count, listed, percent

FEW = 5  # seeds; with fewer the intervals say little
WORSE = 1.05  # times the mean at a smaller budget: worth a word
BESIDE = "beside.html"  # in a folder of results: a section that stands beside them


def write_report(results: Results, out: Path) -> Path:
    """Write report.html into the folder; returns its path.

    A section that was kept there (`BESIDE`), as the demo does, follows the first table.
    """
    path = out / "report.html"
    beside = out / BESIDE
    more = beside.read_text(encoding="utf-8") if beside.exists() else ""
    write_atomically(path, html(results, more))
    return path


def html(results: Results, beside: str = "") -> str:
    """The page; `beside` is mark-up that follows the first table."""
    experiment = results.experiment
    seconds = results.seconds()
    parts = ", ".join(f"{part} {used:,.1f} s" for part, used in seconds.items())
    return render(
        "report.html",
        title=experiment.name,
        results=results,
        experiment=experiment,
        task=results.task,
        figures=figures,
        learner=headline_learner(results),
        reference=results.reference and results.reference.title,
        not_private=not_private(results),
        warnings=_warnings(results),
        headline=headline(results),
        compared=_compared(results),
        beside=beside,
        summary=results.summary().to_dict("records"),
        worse_with_more=_worse_with_more(results),
        seconds=f"{sum(seconds.values()):,.0f} s: {parts}",
        plain=json.dumps(experiment.to_dict(), indent=2, ensure_ascii=False),
        inf=math.inf,
        nan=math.nan,
    )


def headline_learner(results: Results) -> str | None:
    """The first private learner of the experiment: the one the first page speaks of."""
    entry = results.task.learner_entry
    private = (each.title for each in results.experiment.learners if entry(each).private)
    return next(private, None)


def headline(results: Results) -> list[str]:
    """What privacy costs, a sentence or two for each environment, without mark-up."""
    learner = headline_learner(results)
    reference = results.reference
    verb, _, what = results.task.gains
    sentences = []
    for environment, here in results.summary().groupby("environment", sort=False):
        plain = here[here["learner"] == (reference.title if reference else None)]
        words = f"{environment}: "
        if len(plain) and reference is not None:
            gained = percent(plain["gained"].iloc[0], 1)
            words += f"without privacy, {reference.title} {verb} {gained} {what}. "
        rows = here[(here["learner"] == learner) & np.isfinite(here["epsilon"])]
        fractions = [
            f"{percent(gained, 1)} at {budget(epsilon)}"
            for gained, epsilon in zip(rows["gained"], rows["epsilon"], strict=True)
        ]
        if fractions:
            words += f"With privacy, {learner} {verb} {listed(fractions)}."
        sentences.append(words)
    return sentences


def not_private(results: Results) -> str:
    """What whoever holds results on data of their own must know first; "" where data are public."""
    files = results.reads_files
    if not files:
        return ""
    return (
        f"NOT PRIVATE, NOT TO BE SHARED. Errors, regrets and curves on {listed(files)} were "
        "computed from the data without noise, and may show what single people did. The promises "
        "of learners hold for what a learner publishes, not for these figures. Keep them as you "
        "keep the data."
    )


def _warnings(results: Results) -> list[str]:
    words = []
    if not results.complete:
        words.append("This run is not finished: some cells are missing. Run the experiment again.")
    seeds = len(results.experiment.seeds)
    if seeds < FEW:
        words.append(
            f"Only {count(seeds, 'seed')}: too few to trust the intervals, or to tell close "
            "learners apart."
        )
    return words


def _compared(results: Results) -> list[tuple[str, list[dict[str, object]], float]]:
    """For each environment: lines without and with privacy, and what a blind choice has."""
    shown = [headline_learner(results)]
    if results.reference is not None:
        shown.append(results.reference.title)
    compared = []
    summary = results.summary()
    for environment, here in summary.groupby("environment", sort=False):
        lines = here[here["learner"].isin(shown)]
        lines = lines.sort_values("epsilon", ascending=False, kind="stable")
        compared.append((environment, lines.to_dict("records"), float(lines["blind"].mean())))
    return compared


def _worse_with_more(results: Results) -> list[str]:
    """Learners that lose by a larger budget, and where."""
    odd = []
    groups = results.summary().groupby(["environment", "learner"], sort=False)
    for (environment, learner), rows in groups:
        means = rows.sort_values("epsilon")["mean"].to_list()
        if any(larger > WORSE * smaller for smaller, larger in itertools.pairwise(means)):
            odd.append(f"{learner} on {environment}")
    return odd
