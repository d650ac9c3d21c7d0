"""How many people an experiment needs: the forecast against simulated experiments."""

import math

import numpy as np
import pytest

from discreet.cli import main
from discreet.evaluation.forecast import people_needed
from discreet.evaluation.looks import Reader
from discreet.evaluation.totals import RunningTotals
from discreet.privacy import Budget, SeededNoise


def test_people_needed__prove_the_lift_as_often_as_was_asked_for():
    found = people_needed(0.1, 0.05, epsilon=0.5, looks=10)
    each = found.private // 2
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
    usual = people_needed(0.1, 0.02, epsilon=1.0)
    assert people_needed(0.1, 0.02, epsilon=0.3).private > usual.private > usual.plain
    assert people_needed(0.1, 0.02, epsilon=1.0, arms=3).private > usual.private
    assert people_needed(0.1, -0.02, epsilon=1.0).private < 1.2 * usual.private
    tiny = people_needed(0.1, 1e-5, epsilon=1.0)
    assert tiny.private is tiny.plain is tiny.price is None
    assert people_needed(0.1, 0.02, epsilon=math.inf).price == 1.0


@pytest.mark.parametrize(
    "wrong", [{"baseline": 1.5}, {"lift": 0.0}, {"lift": 0.95}, {"power": 1.0}, {"arms": 1}]
)
def test_people_needed__refuses_what_is_no_experiment(wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        people_needed(**{"baseline": 0.1, "lift": 0.02, "epsilon": 1.0, **wrong})


def test_command__says_the_price(capsys):
    assert main(["abtest", "forecast", "--baseline", ".1", "--lift", ".05", "--looks", "5"]) == 0
    out = capsys.readouterr().out
    assert "people needed with privacy" in out
    assert "price of privacy" in out
