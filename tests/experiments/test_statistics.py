"""Means over seeds."""

import math

import numpy as np
import pytest

from discreet.experiments.statistics import interval, one_more, standard_error


def test_interval__covers_the_mean_in_95_of_100_cases():
    rng = np.random.default_rng(0)
    inside = 0
    for _ in range(4000):  # false alarm: 3.5 standard errors of .0034, under 1 in 1,000
        mean, half = interval(rng.normal(1.0, 2.0, 5))
        inside += abs(mean - 1.0) <= half
    assert inside / 4000 == pytest.approx(0.95, abs=0.012)


def test_interval__of_one_value_is_unknown():
    mean, half = interval(np.array([3.0]))
    assert mean == 3.0
    assert math.isnan(half)
    assert math.isnan(standard_error(np.array([3.0])))


@pytest.mark.parametrize("runs", [4, 20, 60])
def test_one_more__covers_95_of_100_new_values(runs):
    rng = np.random.default_rng(runs)
    inside = 0
    for _ in range(4000):  # as above
        low, high = one_more(np.exp(rng.normal(3.0, 0.5, runs)))
        inside += low <= math.exp(rng.normal(3.0, 0.5)) <= high
    assert inside / 4000 == pytest.approx(0.95, abs=0.012)


def test_one_more__knows_nothing_of_one_value_and_survives_zeros():
    assert one_more(np.array([3.0])) == (0.0, math.inf)
    low, high = one_more(np.array([0.0, 1.0, 2.0]))
    assert 0 <= low < 1 < high
    assert one_more(np.zeros(3)) == pytest.approx((0.0, 0.0))
