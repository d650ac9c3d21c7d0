"""One HTML page that can be sent to somebody: plain words first, then tables, pictures, details.

It needs nothing from outside: style and pictures are inside.
"""

import itertools
import json
import math
from collections.abc import Sequence
from html import escape
from pathlib import Path

import numpy as np

from discreet.experiments import figures
from discreet.experiments.cells import write_atomically
from discreet.experiments.markup import figure, items, observer, page, paragraph, table, versions
from discreet.experiments.results import Results

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
    parts = [
        f"<h1>{escape(experiment.name)}</h1>",
        _not_private(results),
        f'<p class="soft">{_subtitle(results)}</p>',
        _warnings(results),
        _answer(results),
        _headline(results),
        beside,
        _pictures(results),
        _all_results(results),
        _statements(results),
        _notes(results),
        _made_with(results),
    ]
    return page(experiment.name, parts)


# -- words ----------------------------------------------------------------------------------------


def headline_learner(results: Results) -> str | None:
    """The first private learner of the experiment: the one the first page speaks of."""
    entry = results.task.learner_entry
    private = (each.title for each in results.experiment.learners if entry(each).private)
    return next(private, None)


def headline(results: Results) -> list[str]:
    """What privacy costs, a sentence or two for each environment, without mark-up."""
    learner = headline_learner(results)
    task = results.task
    reference = results.reference
    summary = results.summary()
    sentences = []
    for environment in dict.fromkeys(summary["environment"]):
        here = summary[summary["environment"] == environment]
        verb, _, what = task.gains
        plain = here[here["learner"] == (reference.title if reference else None)]
        words = f"{environment}: "
        if len(plain) and reference is not None:
            gained = _percent(plain["gained"].iloc[0])
            words += f"without privacy, {reference.title} {verb} {gained} {what}. "
        rows = here[(here["learner"] == learner) & np.isfinite(here["epsilon"])]
        fractions = [f"{_percent(row['gained'])} at {_epsilon(row['epsilon'])}"
                  for _, row in rows.iterrows()]  # fmt: skip
        if fractions:
            words += f"With privacy, {learner} {verb} {_listed(fractions)}."
        sentences.append(words)
    return sentences


def not_private(results: Results) -> str:
    """What whoever holds results on data of their own must know first; "" where data are public."""
    files = results.reads_files
    if not files:
        return ""
    return (
        f"NOT PRIVATE, NOT TO BE SHARED. Errors, regrets and curves on {_listed(files)} were "
        "computed from the data without noise, and may show what single people did. The promises "
        "of learners hold for what a learner publishes, not for these figures. Keep them as you "
        "keep the data."
    )


def _not_private(results: Results) -> str:
    words = not_private(results)
    return f'<div class="answer warning">{paragraph(words)}</div>' if words else ""


def _subtitle(results: Results) -> str:
    experiment = results.experiment
    parts = (
        _count(len(experiment.environments), "environment"),
        _count(len(experiment.learners), "learner"),
        f"{experiment.rounds:,} {results.task.axis}",
        _count(len(experiment.seeds), "seed"),
    )
    return ", ".join(parts)


def _warnings(results: Results) -> str:
    words = []
    if not results.complete:
        words.append("This run is not finished: some cells are missing. Run the experiment again.")
    if len(results.experiment.seeds) < FEW:
        words.append(f"Only {_count(len(results.experiment.seeds), 'seed')}: too few to trust the "
                     "intervals, or to tell close learners apart.")  # fmt: skip
    return f'<div class="answer warning">{"".join(map(paragraph, words))}</div>' if words else ""


def _answer(results: Results) -> str:
    learner = headline_learner(results)
    about = (
        f"Privacy is that of {learner}, the first private learner of the experiment. Privacy hides "
        "what any one person did; its price is paid in noise, so that more people are needed to "
        "learn the same. Less epsilon hides more."
    )
    sentences = "".join(paragraph(sentence) for sentence in headline(results))
    note = (
        f'<p class="note">{escape(results.experiment.note)}</p>' if results.experiment.note else ""
    )
    task = results.task
    experiment = results.experiment
    decided = [f"{each.title}: {task.about(each)}" for each in experiment.environments]
    first = "".join(map(paragraph, [*decided, task.meaning]))
    answer = f'<div class="answer">{sentences}</div>{paragraph(about)}{note}'
    return f"<h2>What privacy costs here</h2>{first}{answer}"


def _headline(results: Results) -> str:
    learner = headline_learner(results)
    task = results.task
    reference = results.reference
    summary = results.summary()
    rows = []
    shown = [learner] if reference is None else [reference.title, learner]
    for environment in dict.fromkeys(summary["environment"]):
        here = summary[(summary["environment"] == environment) & summary["learner"].isin(shown)]
        here = here.sort_values("epsilon", ascending=False, kind="stable")
        for i, (_, row) in enumerate(here.iterrows()):
            plain = reference is not None and row["learner"] == reference.title
            rows.append((
                i == 0,
                escape(environment) if i == 0 else "",
                f"none ({escape(row['learner'])})" if plain else _epsilon(row["epsilon"]),
                "sees everything" if math.isinf(row["epsilon"]) else observer(row["epsilon"]),
                _bar(row["gained"]),
                _value(row["mean"], row["half"]),
                "" if plain else _cost(row["cost"], row["cost_half"], row["mean"]),
            ))  # fmt: skip
        rows.append((False, "", f"perfect: {escape(task.blind)}", "50%", _bar(0.0),
                     _value(float(here["blind"].mean()), math.nan), ""))  # fmt: skip
    columns = ("", "privacy", "an observer's best guess is right", " ".join(task.gains[1:]),
               f"{task.measure} at the end", "cost of privacy")  # fmt: skip
    note = (
        "An observer who sees everything published, and already knows all the others, guesses "
        "which of two things one person did; a coin would be right 50% of the time. "
        f"{task.measure.capitalize()}: less is better; ± is a 95% interval of the mean over seeds. "
        "Cost of privacy: difference to the learner without privacy on the same people; where it "
        "is another method, the difference is not all noise."
    )
    return table(columns, rows, right=(4, 5)) + f'<p class="note">{note}</p>'


def _pictures(results: Results) -> str:
    task = results.task
    learner = headline_learner(results)
    parts = ["<h2>Pictures</h2>"]
    if learner is not None:
        parts += [
            "<h3>Where the price is paid</h3>",
            figure(figures.waterfall(results, learner),
                    f"Grey: what learning itself costs without privacy. Orange: what each budget "
                    f"adds for {learner}. Green: less than the step before."),
            f"<h3>{task.measure.capitalize()} against the budget</h3>",
            figure(figures.against_epsilon(results),
                    f"At the end of {results.experiment.rounds:,} {task.axis}; bars are 95% "
                    "intervals. Dashed: without privacy. Dotted: who learns nothing."),
        ]  # fmt: skip
    for environment in results.experiment.environments:
        caption = (f"Mean over seeds, with its 95% band. Dotted: {task.blind}. Both axes are "
                   "logarithmic where all values are positive.")  # fmt: skip
        parts.append(f"<h3>{escape(environment.title)}: {task.measure} against {task.axis}</h3>")
        parts.append(figure(figures.curves(results, environment.title), caption))
    return "\n".join(parts)


def _all_results(results: Results) -> str:
    task = results.task
    rows = []
    before = None
    for _, row in results.summary().iterrows():
        rows.append((
            row["environment"] != before, escape(row["environment"]), escape(row["learner"]),
            row["trust"], "-" if math.isinf(row["epsilon"]) else f"{row['epsilon']:g}",
            _value(row["mean"], row["half"]), _value(row["worst"], math.nan),
            _percent(row["gained"]), str(row["seeds"]),
        ))  # fmt: skip
        before = row["environment"]
    columns = ("environment", "learner", "trust", "epsilon", f"{task.measure}, mean ± 95%",
               "worst seed", task.gains[1], "seeds")  # fmt: skip
    made = table(columns, rows, right=(3, 4, 5, 6, 7))
    return f"<h2>All results</h2>{made}{_worse_with_more(results)}"


def _worse_with_more(results: Results) -> str:
    """Says which learners lose by a larger budget, and how to read that."""
    summary = results.summary()
    odd = []
    for (environment, learner), rows in summary.groupby(["environment", "learner"], sort=False):
        means = rows.sort_values("epsilon")["mean"].to_list()
        if any(larger > WORSE * smaller for smaller, larger in itertools.pairwise(means)):
            odd.append(f"{learner} on {environment}")
    if not odd:
        return ""
    words = (
        f"Worse with a larger budget: {_listed(odd)}. Noise is not what holds a method back there. "
        "Where its curve still rises as fast at the end as before, it has settled on choices that "
        "are not the best, and never tries the others again; on which it settles is the luck of "
        "the seeds, so that its interval is wide."
    )
    return paragraph(words)


def _statements(results: Results) -> str:
    parts = [
        "<h2>What each learner promises</h2>",
        paragraph(
            "Computed by the library from the noise that was drawn, not typed by anybody. "
            "Each speaks of what that learner publishes, not of this page."
        ),
    ]
    for (learner, epsilon), statement in results.statements().items():
        title = learner if math.isinf(epsilon) else f"{learner}, {_epsilon(epsilon)}"
        parts.append(
            f"<details><summary>{escape(title)}</summary>"
            f'<p class="statement">{escape(statement)}</p></details>'
        )
    return "\n".join(parts)


def _notes(results: Results) -> str:
    task = results.task
    notes = [
        "The noise is seeded so that this page can be made again. Such noise hides nothing from "
        "whoever knows the seed: for real people use SecureNoise() or leave noise out.",
        f"“{task.blind.capitalize()}” is computed on the same people: it is what somebody has who "
        f"never learns. The fraction {task.gains[1]} is 1 minus the ratio to it.",
        "Intervals tell how far the mean over seeds may be off. They do not tell how another "
        "world, other people or another horizon would turn out.",
        "Learners have the library's defaults where the experiment does not set options. Options "
        "that were chosen by looking at such runs make a learner look better than it is elsewhere.",
        "The same experiment and versions give the same numbers on the same kind of processor, "
        "whatever the number of processes. Another linear algebra library may round differently.",
    ]
    return "<h2>Honest notes</h2>" + items(notes)


def _made_with(results: Results) -> str:
    experiment = results.experiment
    seconds = results.seconds()
    rows = [
        *versions(),
        (False, "seeds", escape(", ".join(map(str, experiment.seeds)))),
        (False, "processor time", f"{sum(seconds.values()):,.0f} s: " + ", ".join(
            f"{part} {used:,.1f} s" for part, used in seconds.items())),
    ]  # fmt: skip
    made = table(("", ""), rows, right=())
    plain = escape(json.dumps(experiment.to_dict(), indent=2, ensure_ascii=False))
    details = f"<details><summary>The experiment (JSON)</summary><pre>{plain}</pre></details>"
    return f"<h2>Made with</h2>{made}{details}"


# -- mark-up --------------------------------------------------------------------------------------


def _bar(fraction: float) -> str:
    width = 100 * min(max(fraction, 0.0), 1.0) if fraction == fraction else 0.0
    return f'<span class="bar"><i style="width:{width:.1f}%"></i></span>{_percent(fraction)}'


def _percent(fraction: float) -> str:
    return "-" if fraction != fraction else f"{100 * fraction:.1f}%".replace("-", "\N{MINUS SIGN}")


def _epsilon(epsilon: float) -> str:
    return "no noise" if math.isinf(epsilon) else f"epsilon = {epsilon:g}"


def _digits(value: float) -> int:
    """Digits after the point, so that three or so are shown."""
    return min(max(2 - math.floor(math.log10(abs(value))), 0), 6) if value else 0


def _value(mean: float, half: float) -> str:
    return f"{mean:,.{_digits(mean)}f}{_plus_minus(half, mean)}"


def _cost(cost: float, half: float, mean: float) -> str:
    """A difference, as finely as the mean it is a part of."""
    if cost != cost:
        return ""
    shown = f"{cost:+,.{_digits(mean)}f}".replace("-", "\N{MINUS SIGN}")
    return shown + _plus_minus(half, mean)


def _plus_minus(half: float, mean: float) -> str:
    return "" if half != half else f" ± {half:,.{_digits(mean)}f}"


def _listed(words: Sequence[str]) -> str:
    """With commas and "and".

    >>> _listed(["one", "two", "three"])
    'one, two and three'
    """
    return " and ".join(filter(None, [", ".join(words[:-1]), words[-1]]))


def _count(n: int, what: str) -> str:
    return f"{n} {what}" if n == 1 else f"{n} {what}s"
