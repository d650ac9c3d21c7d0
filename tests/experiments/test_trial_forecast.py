"""How many people an experiment needs: the forecast against simulated experiments."""

import json
import math

import numpy as np
import pytest

from discreet.cli import main
from discreet.evaluation.looks import Reader
from discreet.evaluation.totals import RunningTotals
from discreet.experiments.trial_forecast import Trial
from discreet.privacy import Budget, SeededNoise


def test_people_needed__prove_the_lift_as_often_as_was_asked_for():
    each = Trial(0.1, 0.05, looks=10).people_needed(0.5) // 2
    proved = 0
    for seed in range(200):
        rng = np.random.default_rng(seed)
        totals = RunningTotals(2, Budget(0.5, 1e-6), 10, SeededNoise(seed))
        for _ in range(9):
            _, totals = totals.closed()
        totals.add(rng.binomial(each, (0.1, 0.15)).astype(float))
        std = totals.std
        sums, _ = totals.closed()
        reader = Reader(10, 0.05, 2)
        reader.take([each, each], sums.tolist(), [std, std])
        proved += reader.differences()[0, 1].high < 0
    assert 140 <= proved <= 182  # .8 of 200, 3.5 standard deviations either way


def test_people_needed__grow_with_privacy_arms_and_small_lifts():
    usual = Trial(0.1, 0.02)
    private = usual.people_needed(1.0)
    assert usual.people_needed(0.3) > private > usual.people_needed(math.inf)
    assert Trial(0.1, 0.02, arms=3).people_needed(1.0) > private
    assert Trial(0.1, -0.02).people_needed(1.0) < 1.2 * private
    assert Trial(0.1, 1e-5).people_needed(1.0) is None


def test_interval__narrows_with_people_and_budget():
    trial = Trial(0.1, 0.02, looks=5)
    for epsilon in (0.3, 3.0):
        few, many = (trial.interval(n, epsilon) for n in (20_000, 200_000))
        assert many.half_width < 0.6 * few.half_width
        assert many.low < 0.02 < many.high
    assert trial.interval(20_000, 0.3).half_width > trial.interval(20_000, 1.0).half_width


@pytest.mark.parametrize(
    "wrong", [{"baseline": 1.5}, {"lift": 0.0}, {"lift": 0.95}, {"power": 1.0}, {"arms": 1}]
)
def test_trial__refuses_what_is_no_experiment(wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        Trial(**{"baseline": 0.1, "lift": 0.02, **wrong})


def test_command__says_the_price_and_draws_widths(capsys, tmp_path):
    arguments = ["forecast", "experiment", "--baseline", ".1", "--lift", ".05", "--looks", "5"]
    files = ["--out", str(tmp_path), "--json", str(tmp_path / "all.json")]
    assert main([*arguments, "--epsilon", "0.5", *files]) == 0
    out = capsys.readouterr().out
    assert "people needed" in out
    assert "price of privacy" in out
    plain, private = json.loads((tmp_path / "all.json").read_text())["answers"]
    assert plain["price"] == 1.0
    assert private["price"] == private["people"] / plain["people"] > 1
    assert (tmp_path / "forecast.png").read_bytes().startswith(b"\x89PNG")
