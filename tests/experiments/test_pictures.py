"""Every picture is drawn and looked at: no text is raw markup, cut off, or over another one."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.text import Text

from discreet.evaluation import ABTest
from discreet.evaluation.worth import Totals, values
from discreet.experiments import figures
from discreet.experiments.demo import demo_experiment
from discreet.experiments.experiment import Cell
from discreet.experiments.results import Results
from discreet.experiments.tasks import cells_of
from discreet.privacy import SeededNoise


def faults(figure):
    """What a reader would stumble over."""
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    renderer = canvas.get_renderer()
    page = figure.bbox
    texts = [each for each in figure.findobj(Text) if each.get_text() and each.get_visible()]
    labels = _labels(figure)
    found = []
    boxes = []
    for each in texts:
        if not labels.get(each, each.axes is None or each.axes.get_visible()):
            continue
        words = each.get_text()
        box = each.get_window_extent(renderer)
        if box.width < 1:
            continue
        if "$" in words or "mathdefault" in words:
            found.append(f"markup: {words}")
        if box.x0 < -1 or box.y0 < -1 or box.x1 > page.x1 + 1 or box.y1 > page.y1 + 1:
            found.append(f"cut: {words}")
        boxes.append((words, box))
    for (one, a), (other, b) in itertools.combinations(boxes, 2):
        wide = min(a.x1, b.x1) - max(a.x0, b.x0)
        high = min(a.y1, b.y1) - max(a.y0, b.y0)
        if wide > 1 and high > 2:
            found.append(f"overlap: {one} / {other}")
    return found


def _labels(figure):
    """The label of each tick, and whether it is shown."""
    found = {}
    for axis in figure.axes:
        for ticks in (axis.xaxis, axis.yaxis):
            low, high = sorted(ticks.get_view_interval())
            seen = axis.get_visible() and ticks.get_visible()
            for tick in ticks.get_major_ticks() + ticks.get_minor_ticks():
                inside = low * (1 - 1e-9) <= tick.get_loc() <= high * (1 + 1e-9)
                found[tick.label1] = found[tick.label2] = seen and inside
    return found


@pytest.fixture
def drawn(monkeypatch):
    """All figures that were drawn, whose faults are the test's."""
    found = []

    def looked_at(figure):
        found.append(faults(figure))
        return "<svg></svg>"

    monkeypatch.setattr(figures, "svg", looked_at)
    return found


def results_of(epsilons, top, dearer=1.0):
    """Made-up results of an experiment of the demo's kind: regrets up to `top`.

    `dearer` says how much more 1/epsilon costs.
    """
    plan = demo_experiment(rounds=20_000, seeds=3)
    plan = replace(plan, epsilons=epsilons)
    rng = np.random.default_rng(0)
    n = np.unique(np.geomspace(10, 20_000, 30).astype(int))

    def record(cell: Cell):
        scale = 1.0 if math.isinf(cell.epsilon) else 1 + dearer / cell.epsilon
        value = top * scale * np.sqrt(n / n[-1]) * rng.uniform(0.8, 1.2)
        return {"n": n, "value": value, "blind": 3 * top * n / n[-1], "trust": "joint",
                "delta": 1e-6, "statement": "", "seconds": {}}  # fmt: skip

    return Results(plan, [(cell, record(cell)) for cell in cells_of(plan)])


FOUR, SIX = (math.inf, 3.0, 1.0, 0.3), (8, 4, 2, 1, 0.5, 0.1)


@pytest.mark.parametrize(
    ("epsilons", "top", "dearer"),
    [
        ((1.0,), 30.0, 1.0), (FOUR, 0.02, 1.0), (FOUR, 5e5, 1.0), (SIX, 0.02, 1.0),
        (SIX, 5e5, 1.0), (FOUR, 30.0, -1e-3),
    ],
)  # fmt: skip
def test_report__pictures_can_be_read(drawn, epsilons, top, dearer):
    results = results_of(epsilons, top, dearer)
    for environment in results.frame["environment"].unique():
        figures.curves(results, environment)
    figures.against_epsilon(results)
    learner = next(iter(results.summary()["learner"]))
    figures.waterfall(results, learner)
    assert len(drawn) >= 3
    assert not [fault for each in drawn for fault in each]


def test_looks__pictures_can_be_read(drawn):
    rng = np.random.default_rng(0)
    metrics = {"converted": (0, 1), "revenue": (0, 200), "minutes on the page": (0, 60)}
    test = ABTest(("control", "short form", "long form"), metrics, 1.0, noise=SeededNoise(0))
    for start in range(0, 6000, 1500):
        people = np.arange(start, start + 1500)
        test.add_many(
            people, {name: high * rng.random(1500) for name, (_, high) in metrics.items()}
        )
        test.look()
    figures.looks(test.history)
    assert drawn == [[]]


def test_looks__a_single_one_shows_its_interval_at_a_whole_number(monkeypatch):
    seen = []
    monkeypatch.setattr(figures, "svg", lambda figure: seen.append(figure.axes[0]) or "")
    test = ABTest(("A", "B"), {"bought": (0, 1)}, 1.0, noise=SeededNoise(0))
    test.add_many(np.arange(5000), {"bought": np.arange(5000) % 2})
    gain = test.look()["bought"].difference("B", "A")
    figures.looks(test.history)
    (axis,) = seen
    (bar,) = axis.collections
    assert bar.get_segments()[0][:, 1].tolist() == [gain.low, gain.high]
    assert all(float(tick).is_integer() for tick in axis.get_xticks())


def test_worth__the_picture_can_be_read(drawn):
    noise = (900.0, 900.0, 90.0)
    windows = [Totals(n, n // 10, n, 0.6 * n, 0.03 * n, noise) for n in (100, 4000, 9000, 40_000)]
    figures.worth(values(windows, (0.0, 1.0), held_out=0.1))
    assert drawn == [[]]


def test_audit__the_picture_can_be_read(monkeypatch, tmp_path):
    found = []
    original = Figure.savefig

    def saved(figure, *args, **kwargs):
        found.append(faults(figure))
        return original(figure, *args, **kwargs)

    monkeypatch.setattr(Figure, "savefig", saved)
    bars = [(f"attack number {k} on a learner", k / 40, 0.9) for k in range(30)]
    figures.audit_figure(bars, tmp_path)
    assert found == [[]]


@pytest.mark.parametrize(
    "asked",
    [
        ["--rows", "2000", "--dim", "3", "--epsilon", "1", "--epsilon", "0.3"],
        ["--rounds", "300", "--dim", "3", "--epsilon", "1"],
    ],
    ids=["rows", "rounds"],
)
def test_forecast__pictures_can_be_read(asked, tmp_path, monkeypatch, capsys):
    from discreet.cli import main

    found = []
    original = Figure.savefig

    def saved(figure, *args, **kwargs):
        found.append(faults(figure))
        return original(figure, *args, **kwargs)

    monkeypatch.setattr(Figure, "savefig", saved)
    monkeypatch.setattr("discreet.experiments.bandit_forecast.SECONDS", 0.1)
    monkeypatch.setattr("discreet.experiments.regression_forecast.MOST_RUNS", 8)
    assert main(["forecast", *asked, "--out", str(tmp_path)]) == 0
    assert found == [[]]


def test_faults__raw_ticks_cut_titles_and_overlaps_are_found():
    picture = Figure(figsize=(3, 2))
    axis = picture.subplots()
    axis.set_title("a title that is far too long for such a small picture and is cut")
    axis.text(0.5, 0.5, "one")
    axis.text(0.51, 0.5, "two")
    axis.text(0.1, 0.1, r"$\mathdefault{10^{3}}$", parse_math=False)
    kinds = {each.split(":")[0] for each in faults(picture)}
    assert kinds == {"markup", "cut", "overlap"}


def test_colours__one_for_each_budget_in_every_picture():
    shown = [figures.colour_of(e) for e in (math.inf, 10, 3, 1, 0.3, 0.1)]
    assert len(set(map(tuple, shown[1:]))) == 5
    assert figures.colour_of(1.0) == shown[3]


def test_compare__differences_are_of_the_same_seeds(tmp_path):
    results = results_of((math.inf, 1.0), 30.0)
    learner, other = (each.title for each in results.experiment.learners[:2])
    found = results.compare(learner, other)
    last = results.frame[results.frame["n"] == results.frame["n"].max()]
    (row,) = found.frame[found.frame["epsilon"] == 1.0].to_dict("records")[:1]
    here = last[(last["environment"] == row["environment"]) & (last["epsilon"] == 1.0)]
    a, b = (here[here["learner"] == each].sort_values("seed")["value"] for each in (learner, other))
    assert row["difference"] == pytest.approx(np.mean(a.to_numpy() - b.to_numpy()))
    assert row["low"] < row["difference"] < row["high"]
    assert row["seeds"] == 3
    assert found.markdown().count("\n") == len(found.frame) + 1
    assert found.latex().splitlines()[-1] == r"\end{tabular}"
    assert r"\toprule" in found.latex()
    with pytest.raises(ValueError, match="learner must be one of"):
        results.compare(learner, "nobody")
    results.save(tmp_path)
    assert (tmp_path / "results.csv").read_text().startswith("environment,learner,trust")


def test_compare__a_learner_without_privacy_is_held_against_every_budget():
    results = results_of((1.0,), 30.0)
    private, plain = "LinearBandit", results.reference.title
    there, back = results.compare(private, plain).frame, results.compare(plain, private).frame
    assert set(there["epsilon"]) == set(back["epsilon"]) == {1.0}
    assert back["difference"].tolist() == pytest.approx((-there["difference"]).tolist())
