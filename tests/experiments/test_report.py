import io
import json
import math
import re
from dataclasses import replace
from html import unescape
from html.parser import HTMLParser

import pytest
from rich.console import Console

from discreet.bandits.predictions import Effect
from discreet.cli.run import run_and_show
from discreet.evaluation.intervals import Interval
from discreet.evaluation.worth import Value
from discreet.experiments import figures, live
from discreet.experiments.demo import Worth
from discreet.experiments.experiment import Choice, Experiment
from discreet.experiments.report import headline, html, write_report
from discreet.experiments.runner import load, run

BANDITS = Experiment(
    environments=(Choice("sphere", {"dim": 3}), Choice("half", {"dim": 3}, "<b>clicks</b>")),
    learners=(Choice("LinearBandit"), Choice("LinUCB")),
    epsilons=(0.5, 2.0),
    rounds=500,
    seeds=(1, 2),
    points=5,
    note="chosen by a coin",
)
REGRESSION = Experiment(
    environments=(Choice("sphere", {"dim": 3}),),
    learners=(Choice("PrivateLinearRegression"), Choice("AdaSSP"), Choice("OLS")),
    epsilons=(1.0,),
    rounds=400,
    seeds=(1, 2),
    points=4,
    task="regression",
)
ONLINE = Experiment(
    environments=(Choice("gap", {"n": 3}),),
    learners=(Choice("FTRL"),),  # no learner without privacy
    epsilons=(1.0,),
    rounds=300,
    seeds=(1,),
    points=4,
    task="online",
)


@pytest.fixture(
    scope="module", params=[BANDITS, REGRESSION, ONLINE], ids=lambda experiment: experiment.task
)
def results(request, tmp_path_factory):
    return run(request.param, tmp_path_factory.mktemp("out"), workers=1)


@pytest.fixture(scope="module")
def page(results):
    return html(results)


class Tags(HTMLParser):
    """Checks that tags are closed in order; collects what a page would fetch."""

    def __init__(self):
        super().__init__()
        self.open, self.fetched = [], []

    def handle_starttag(self, tag, attributes):
        if tag not in ("meta", "br", "path", "use", "line", "rect"):
            self.open.append(tag)
        self.fetched += [
            value for name, value in attributes
            if name in ("src", "href", "xlink:href") and not value.startswith("#")
        ]  # fmt: skip

    def handle_startendtag(self, tag, attributes):
        self.handle_starttag(tag, attributes)
        if self.open and self.open[-1] == tag:
            self.open.pop()

    def handle_endtag(self, tag):
        if tag in ("path", "use", "line", "rect"):
            return
        assert self.open.pop() == tag


def test_report__is_one_whole_page_that_fetches_nothing(results, page):
    tags = Tags()
    tags.feed(page)
    assert not tags.open
    assert not tags.fetched
    assert "@import" not in page
    assert not re.search(r"url\((?!#)", page)
    assert page.count("<svg") == 2 + len(results.experiment.environments)
    assert "nan" not in re.sub(r"<svg.*?</svg>|<style>.*?</style>", "", page, flags=re.DOTALL)


def test_report__states_every_promise_the_seeds_and_the_versions(results, page):
    for (learner, _), statement in results.statements().items():
        assert learner in page
        assert statement.splitlines()[0] in unescape(page)
    for word in ("SIMULATION ONLY", "seeds", "numpy", "discreet", "What privacy costs here"):
        assert word in page
    assert "too few to trust" in page
    assert ("chosen by a coin" in page) == (results.experiment is BANDITS)
    assert "<b>clicks" not in page
    assert ("&lt;b&gt;clicks" in page) == (results.experiment is BANDITS)


def test_report__shows_the_numbers_of_the_summary(results, page):
    sentences = " ".join(headline(results))
    learner = results.experiment.learners[0].title
    for _, row in results.summary().iterrows():
        if row["learner"] == learner:
            fraction = f"{100 * row['gained']:.1f}%".replace("-", "\N{MINUS SIGN}")
            assert fraction in page
            assert f"{fraction} at epsilon = {row['epsilon']:g}" in sentences


def test_report__on_a_table_of_ones_own_says_on_top_that_it_is_not_private(tmp_path, page, capsys):
    assert "NOT TO BE SHARED" not in page
    table = tmp_path / "mine.csv"
    table.write_text("x,y\n" + "".join(f"{i % 7},{i % 5}\n" for i in range(200)))
    options = {"path": str(table), "label": "y", "label_range": [0, 4], "features": {"x": [0, 6]}}
    mine = Experiment(**{**vars(REGRESSION), "rounds": 100,
                         "environments": (Choice("table", options, "my people"),)})  # fmt: skip
    results = run(mine, tmp_path, workers=1)
    top = html(results).partition("<h2>")[0]
    assert "NOT PRIVATE, NOT TO BE SHARED" in top
    assert "my people" in top
    run_and_show(mine, tmp_path, 1, show=False)
    assert "NOT PRIVATE, NOT TO BE SHARED" in capsys.readouterr().out


def test_report__says_what_is_decided_for_whom_and_what_is_measured(results, page):
    task = results.task
    before = page.partition("<table")[0]
    assert task.meaning in before
    for each in results.experiment.environments:
        assert task.about(each) in unescape(before)


def test_report__holds_no_python_repr_and_fits_a_phone(page):
    text = re.sub(r"<svg.*?</svg>", "", page, flags=re.DOTALL)
    assert "{'" not in unescape(text)
    assert "Choice(" not in text
    assert "max-width: 40rem" in text


def test_report__a_learner_that_loses_by_a_larger_budget_is_explained(tmp_path):
    results = run(BANDITS, tmp_path, workers=1)
    frame = results.frame
    private = frame["learner"] == "LinearBandit"
    frame.loc[private, "value"] = 100 / frame["epsilon"][private] + frame["seed"][private]
    assert "Worse with a larger budget" not in html(results)
    frame.loc[private, "value"] = frame["epsilon"][private] * 100 + frame["seed"][private]
    assert "Worse with a larger budget: LinearBandit on" in html(results)


HOSTILE = ("$x^", "[/b] [red]", "_hidden", "two\nlines", "wörter und 漢字 ✓", "w" * 200, "%s {} \\")


@pytest.mark.thorough
@pytest.mark.filterwarnings("error")
def test_titles__whatever_they_are_tables_figures_and_pages_hold(tmp_path, monkeypatch):
    environments = tuple(Choice("sphere", {"dim": 2}, title) for title in HOSTILE)
    learners = (Choice("LinearBandit", title="_[bold]$"), Choice("LinUCB", title="</td>"))
    experiment = Experiment(
        **{**vars(BANDITS), "environments": environments, "learners": learners, "rounds": 60}
    )
    monkeypatch.setenv("COLUMNS", "80")
    run_and_show(experiment, tmp_path, 1, show=False)
    tags = Tags()
    tags.feed((tmp_path / "report.html").read_text(encoding="utf-8"))
    assert not tags.open


@pytest.mark.parametrize("width", [60, 80, 200])
@pytest.mark.parametrize("count", [1, 2, 3, 6])
@pytest.mark.parametrize("words", ["", " which has a rather long title, of many words"])
def test_live_table__no_column_and_no_number_is_lost(width, count, words):
    environments = tuple(Choice("sphere", {"dim": d}, f"{d}{words}") for d in range(2, 2 + count))
    learners = (Choice("LinearBandit", title=f"private{words}"), Choice("LinUCB"))
    experiment = Experiment(**{**vars(BANDITS), "environments": environments, "learners": learners})
    found = {
        (learner.title, epsilon, each.title): [(12000.0 + d, 90000.0), (13000.0 + d, 90000.0)]
        for d, each in enumerate(environments)
        for learner in learners
        for epsilon in ((0.5, 2.0) if learner.name == "LinearBandit" else (math.inf,))
    }
    console = Console(width=width, record=True, file=io.StringIO())
    console.print(live._table(experiment, found))
    text = console.export_text()
    assert "gained of what there was to gain over choosing blindly" in " ".join(text.split())
    assert max(map(len, text.splitlines())) <= width
    for d in range(count):
        assert text.count(f"{12500 + d:,} ±") == 3
    assert text.count("86.1%") == 3 * count
    assert text.count("\N{HORIZONTAL ELLIPSIS}") == 0


def test_report__of_a_stopped_run_says_so(tmp_path):
    run(ONLINE, tmp_path, workers=1)
    experiment = Experiment(**{**vars(ONLINE), "seeds": (1, 2)})
    (tmp_path / "experiment.json").write_text(json.dumps(experiment.to_dict()))
    stopped = load(tmp_path)
    assert not stopped.complete
    assert "not finished" in write_report(stopped, tmp_path).read_text(encoding="utf-8")


def test_figures__are_the_same_every_time_and_follow_the_page(results, page):
    one = figures.against_epsilon(results)
    assert one in page
    assert "currentColor" in one
    assert figures.INK not in one


def test_figures__ticks_are_plain_numbers_and_no_raw_markup(results):
    learner = results.experiment.learners[0].title
    environment = results.experiment.environments[0].title
    curves = figures.curves(results, environment)
    for picture in (curves, figures.against_epsilon(results), figures.waterfall(results, learner)):
        assert "<!-- " in picture  # where SVG keeps the text that it draws as shapes
        assert "$" not in picture
        assert "mathdefault" not in picture
    last = f"{results.experiment.rounds:,}"
    ticks = set(re.findall(r"<!-- ([\d,.]+) -->", curves))
    assert ticks & {"100", "200", "300", last}


@pytest.mark.parametrize(("low", "high"), [(10, 50_000), (20, 700), (210, 260), (1e-7, 3e-2)])
def test_figures__a_logarithmic_axis_has_labels_whatever_its_range(low, high):
    with figures.panels(1) as (figure, (axis,)):
        axis.plot([low, high], [low, high])
        figures.logarithmic(axis, "xy")
        figure.canvas.draw()
        for ticks in (axis.xaxis, axis.yaxis):
            shown = [each.get_text() for each in ticks.get_majorticklabels()]
            assert len(shown) >= 2
            assert not any("$" in each for each in shown)


def test_figures__what_a_bandit_is_worth_shows_policy_and_hold_out():
    from discreet.evaluation.worth import Totals, values

    noise = (900.0, 900.0, 90.0)
    windows = [Totals(n, n // 10, n, 0.6 * n, 0.03 * n, noise) for n in (100, 4000, 9000)]
    picture = figures.worth(values(windows, (0.0, 1.0), held_out=0.1))
    assert picture.startswith("<svg")
    for words in ("policy", "hold-out", "mean reward"):
        assert words in picture
    alone = figures.worth(values(windows, (0.0, 1.0)))
    assert "hold-out" not in alone


def test_worth__a_decision_maker_reads_value_uplift_and_effects_with_intervals():
    interval = Interval(0.7, 0.6, 0.8)
    value = Value(3, 900, interval, Interval(0.5, 0.2, 0.9), Interval(0.2, -0.1, 0.5), 0.95)
    effects = [Effect("age <60>", -0.4, -0.5, -0.3), Effect("unclear", 0.1, -0.1, 0.3)]
    told = Worth(1000, 1.0, [value], effects)
    words = " ".join(told.sentences)
    assert "70% (60 to 80%) of 900 people" in words
    assert "better by 20 percentage points (\N{MINUS SIGN}10 to 50)" in words
    assert "includes 0" in words
    sure = replace(value, uplift=Interval(0.2, 0.1, 0.3), proved=700)
    *_, last = Worth(1000, 1.0, [sure], effects).sentences
    assert "better by 20 percentage points (10 to 30)" in last
    assert "proved after 700 decisions" in last
    assert "age <60> \N{MINUS SIGN}40%" in words
    assert "unclear" not in words
    page = told.html()
    assert "age &lt;60&gt;" in page
    assert "<svg" in page
    assert Worth(5, 1.0, [], effects).sentences == [
        "Too few decisions to say what the bandit is worth."
    ]
