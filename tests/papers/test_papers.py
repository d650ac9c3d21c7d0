import math

import numpy as np
import pytest

from discreet.experiments import measure
from discreet.experiments.measure import grid
from papers import NAMES, run
from papers.__main__ import main
from papers.exhibit import (
    BETTER,
    EQUAL,
    VERDICTS,
    WORSE,
    WRONG,
    Exhibit,
    Line,
    Panel,
    Paper,
    Row,
    compare,
    draw,
    judge_slope,
)
from papers.information_weighted_bounds import (
    central_bound,
    central_scale,
    local_bound,
)
from papers.online_learning import bandit, full_information
from papers.slopes import Slope, slope
from papers.streaming import suboptimality
from papers.worlds import FAMILIES, covariates, fit, regret


def doubled(*, side, seed):
    return {"value": 2.0 * side + seed, "many": [side, seed]}


def toy_exhibits(found, quick):
    mine = found.over(doubled, side=3)
    rows = (Row("a", "1 < 2", "<b>", compare(mine, mine + 10**6), "x & y"), Row("b", "", "", WRONG))
    lines = (Line("ours", (1, 2), (1, 2), "ours"), Line("bound", (1, 2), (2, 3), "bound"))
    return [Exhibit("Toy", "claims", rows, "words", (Panel("p", "x", "y", lines),), "caption")]


TOY = Paper("toy", "A toy", "Nobody (2000)", "About nothing.",
            lambda quick: grid(doubled, seeds=2, side=(3, 4) if quick else (3, 4, 5)),
            toy_exhibits)  # fmt: skip


def test_run__resumes_where_it_was_and_a_full_set_keeps_what_the_quick_one_found(
    tmp_path, monkeypatch
):
    ran = []
    real = measure.run_measurement
    monkeypatch.setattr(measure, "run_measurement", lambda c, f: ran.append(c) or real(c, f))
    run.reproduce([TOY], tmp_path, quick=True, workers=1)
    assert len(ran) == 4
    (tmp_path / "cells" / f"{ran[0].key}.json").unlink()
    run.reproduce([TOY], tmp_path, quick=True, workers=1)
    assert len(ran) == 5  # the one that was lost
    run.reproduce([TOY], tmp_path, workers=1)
    assert len(ran) == 7  # the new side
    assert (tmp_path / "quick" / "toy.html").exists()
    assert (tmp_path / "toy.html").exists()


def test_page__stands_alone_and_shows_text_as_text(tmp_path):
    run.reproduce([TOY], tmp_path, quick=True, workers=1)
    page = (tmp_path / "quick" / "toy.html").read_text(encoding="utf-8")
    assert "&lt;b&gt;" in page
    assert "x &amp; y" in page
    assert "<svg" in page
    assert "src=" not in page
    assert "<link" not in page
    assert "better: 1, paper wrong: 1" in page


def test_summary__counts_every_verdict_of_every_paper(tmp_path, monkeypatch):
    monkeypatch.setattr(run, "PAPERS", {"toy": TOY})
    shown = run.reproduce([TOY], tmp_path, quick=True, workers=1)
    page = (tmp_path / "quick" / "index.html").read_text(encoding="utf-8")
    assert 'href="toy.html"' in page
    assert [shown[TOY][0].count(v) for v in VERDICTS] == [1, 0, 0, 1]


def test_compare__needs_a_difference_that_seeds_can_tell():
    rng = np.random.default_rng(0)
    few = rng.normal(1.0, 1.0, 4)
    many = rng.normal(1.0, 0.01, 50)
    assert compare(few, many) == EQUAL
    assert compare(many, many + 1) == BETTER
    assert compare(many + 1, many) == WORSE
    assert compare(many, 1.05 * many) == EQUAL  # within a tenth
    assert judge_slope(Slope(0.9, 0.3), 0.5) == EQUAL  # not told apart


def test_draw__labels_are_in_the_picture_once():
    lines = (Line("ours", (1, 2), (1, 2), "ours", (0.1, math.nan)),)
    svg = draw([Panel("first", "x", "y", lines), Panel("second", "x", "y", lines)])
    assert svg.startswith("<svg")
    assert "mathdefault" not in svg


def test_papers__have_the_names_that_are_promised():
    assert tuple(run.PAPERS) == NAMES
    with pytest.raises(ValueError, match="did you mean 'streaming-2022'"):
        run.chosen(["streming-2022"])
    assert len(run.chosen([])) == 5


@pytest.mark.parametrize("name", NAMES)
def test_papers__quick_cells_are_unique_fewer_and_cheap_to_list(name):
    quick, full = (run.PAPERS[name].cells(flag) for flag in (True, False))
    assert 0 < len({c.key for c in quick}) <= len({c.key for c in full})
    assert all(cell.seed >= 3000 for cell in full)


def test_cells__are_pure_functions_of_their_arguments():
    cases = (
        (full_information, {"world": "experts", "rounds": 200, "n": 3, "epsilon": 1.0,
                            "how": "paper"}),
        (bandit, {"kind": "points", "rounds": 200, "epsilon": 1.0, "how": "paper"}),
        (suboptimality, {"rounds": 100, "dim": 3, "p": 1.5, "how": "ours", "step": 1.0}),
        (fit, {"family": "rare .1", "rows": 400, "epsilon": 1.0, "method": "auto",
               "labels": "signs"}),
        (regret, {"world": "sphere", "rounds": 500, "epsilon": 1.0, "how": "joint"}),
    )  # fmt: skip
    for function, parameters in cases:
        first, again, other = (function(seed=seed, **parameters) for seed in (1, 1, 2))
        assert first == again
        assert first != other


def test_worlds__rows_are_in_the_unit_ball_and_rare_ones_as_rare_as_told():
    for family in FAMILIES:
        X = covariates(family, 2000, np.random.default_rng(0))
        assert np.linalg.norm(X, axis=1).max() <= 1 + 1e-12
    X = covariates("rare .01", 100_000, np.random.default_rng(0))
    smallest = np.linalg.eigvalsh(X.T @ X / len(X))[0]
    assert smallest == pytest.approx(0.01, rel=0.15)


@pytest.mark.parametrize("family", FAMILIES)
def test_lower_bounds__are_positive_and_below_the_scale_of_the_upper_bound(family):
    assert 0 < central_bound(family, 2000, 1.0) < central_scale(family, 2000, 1.0)
    assert local_bound(family, 20_000, 1.0) > 0


def test_command__an_unknown_paper_is_told(tmp_path, capsys):
    with pytest.raises(SystemExit) as stop:
        main(["nothing", "--out", str(tmp_path)])
    assert stop.value.code == 2
    assert "no paper 'nothing'" in capsys.readouterr().err


def test_command__prints_verdicts_and_writes_pages(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(run, "PAPERS", {"toy": TOY})
    main(["toy", "--quick", "--workers", "1", "--out", str(tmp_path)])
    shown = capsys.readouterr().out
    assert "Nobody (2000)" in shown
    assert "paper wrong" in shown
    assert (tmp_path / "quick" / "toy.html").exists()


def test_slope__its_error_is_that_of_the_means():
    rng = np.random.default_rng(1)
    x = (1.0, 10.0, 100.0)
    found = [slope(x, [t**0.5 * rng.normal(1, 0.2, 8) for t in x]) for _ in range(400)]
    values, errors = np.array(found).T
    assert values.mean() == pytest.approx(0.5, abs=0.01)
    assert errors.mean() == pytest.approx(values.std(), rel=0.15)
    assert math.isnan(slope((1.0, 2.0), (-1.0, 1.0)).value)
