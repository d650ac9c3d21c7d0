import json
import re
from html.parser import HTMLParser

import pytest

from discreet.experiments import figures
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
        assert statement.splitlines()[0].replace("'", "&#x27;") in page
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
