"""Intervals from noisy sums: the mean of what a bet earns, coverage at all looks, exact ends."""

import math
from dataclasses import replace

import numpy as np
import pytest

from discreet.evaluation.intervals import (
    SPREAD,
    Bets,
    Difference,
    Interval,
    Mean,
    difference,
    largest_variance,
    phi,
)
from discreet.evaluation.looks import Reader

MIXTURE = Bets.mixture(np.array([100.0, 1000.0]), np.ones(2))


@pytest.mark.parametrize("chance", [0.01, 0.3, 0.5, 0.9, 1.0])
@pytest.mark.parametrize("noise", [0.0, 9.0])
def test_mean__a_bet_against_the_truth_earns_nothing_on_average(chance, noise):
    # Exactly: the sum of 40 coins is binomial, and the noise enters as its own generating function.
    n = 40
    totals = np.arange(n + 1)
    choose = np.array([math.comb(n, k) for k in totals], dtype=float)
    law = choose * chance**totals * (1 - chance) ** (n - totals)
    nodes, weights = np.polynomial.hermite_e.hermegauss(60)
    weights /= weights.sum()
    earned = [
        math.exp(Mean(k + math.sqrt(noise) * z, n, noise).against(MIXTURE, chance)) * p * w
        for k, p in zip(totals, law, strict=True)
        for z, w in zip(nodes, weights, strict=True)
    ]
    assert sum(earned) == pytest.approx(1.0, rel=1e-6)


def test_difference__a_bet_against_the_truth_earns_no_more_than_it_costs():
    rng = np.random.default_rng(0)
    runs = 40_000  # the standard error of the mean below is at most .01
    a, b = rng.binomial(60, 0.3, runs), rng.binomial(30, 0.1, runs)
    noise = rng.normal(0, 3, (2, runs))
    earned = []
    for x, y, (g, h) in zip(a, b, noise.T, strict=True):
        found = difference(Mean(x + g, 60, 9.0), Mean(y + h, 30, 9.0))
        # Values weigh 1/3 and 2/3: their variances .21 and .09 add up to this.
        found = replace(found, variance=60 / 9 * 0.21 + 30 * 4 / 9 * 0.09)
        earned.append(math.exp(found.against(MIXTURE, 0.2)))
    assert 0.8 < np.mean(earned) < 1.01


def test_phi__a_weight_below_one_counts_at_least_by_its_square():
    bets = np.linspace(-2, 2, 41)
    for weight in (0.0, 0.1, 0.5, 1.0):
        assert (phi(weight * bets) <= weight**2 * phi(bets) + 1e-15).all()


def test_interval__ends_are_where_the_limit_is_reached():
    mean = Mean(30.0, 100.0, 16.0)
    limit = math.log(20)
    found = mean.interval(MIXTURE, limit)
    assert found.low < found.estimate == 0.3 < found.high
    for end in (found.low, found.high):
        assert mean.against(MIXTURE, end) == pytest.approx(limit, abs=1e-6)
    assert Mean(400.0, 100.0, 1.0).interval(MIXTURE, 1.0) == Interval(1.0, 0.0, 1.0)
    far = Difference(0.0, 1e-3, 1e6, 1.0)
    assert (far.interval(MIXTURE, limit).low, far.interval(MIXTURE, limit).high) == (-1.0, 1.0)


@pytest.mark.parametrize(("low", "high"), [(0.4, 0.6), (0.0, 0.2), (0.1, 0.9)])
def test_mean__a_bet_that_knows_the_spread_earns_nothing_on_average_either(low, high):
    n, chance = 40, 0.3
    k = np.arange(n + 1)
    law = np.array([math.comb(n, each) for each in k]) * chance**k * (1 - chance) ** (n - k)
    spread = (1 - chance) * low * (1 - low) + chance * high * (1 - high)
    earned = [
        math.exp(Mean(each, n, 0.0, spread).against(MIXTURE, low + chance * (high - low)))
        for each in low * n + (high - low) * k
    ]
    assert 0.2 < law @ earned <= 1 + 1e-9


def test_interval__holds_every_mean_that_is_not_rejected_beside_a_large_spread():
    # Where m (1 - m) is little more than the spread, smaller means have no variance at all: what
    # is earned must not fall again beyond them.
    rng = np.random.default_rng(0)
    limit = 6.7
    for _ in range(300):
        n = 10 ** rng.uniform(2, 5)
        mean = rng.uniform(0.02, 0.5)
        variance = mean * (1 - mean) * 10 ** rng.uniform(-2, -0.5)
        noise = 10 ** rng.uniform(-1, 2)
        std = math.sqrt(n * variance + noise)
        for z in (-4.06, -3.6, 3.6, 4.06):
            spread = mean * (1 - mean) - variance
            found = Mean(n * mean + z * std, n, noise, spread)
            for bets in (Bets.best(), Bets.mixture(n / 8 * 8.0 ** np.arange(7), np.ones(7))):
                if found.against(bets, mean) < limit:
                    interval = found.interval(bets, limit)
                    assert interval.low <= mean <= interval.high
                    assert interval.low <= interval.estimate <= interval.high


def test_interval__of_a_known_case_holds_the_mean_that_is_not_rejected():
    n, mean, variance, noise = 1904.0, 0.0343, 0.00183, 0.27
    found = Mean(
        n * mean - 4.06 * math.sqrt(n * variance + noise), n, noise, mean * (1 - mean) - variance
    )
    bets = Bets.best()
    assert found.against(bets, mean) < 6.7
    assert found.interval(bets, 6.7).high >= mean


def test_largest_variance__is_the_largest_of_the_interval():
    for low, high in ((0.0, 0.2), (0.3, 0.6), (0.7, 0.9)):
        inside = np.linspace(low, high, 1001)
        found = largest_variance(Interval(0.5, low, high))
        assert found == pytest.approx((inside * (1 - inside)).max(), abs=1e-6)


def looks(reader, chances, sizes, std, rng, running, ends=(0.0, 1.0)):
    """Whether all that is shown holds, over releases of these sizes; values at one of two ends."""
    low, high = ends
    arms = len(chances)
    means = low + (high - low) * np.array(chances)
    sums, people, held = np.zeros((2, arms)), np.zeros(arms), True
    noise = np.zeros((2, arms))
    units = np.array([[1.0], [1 / SPREAD]])
    for _ in range(sizes[0]):
        n = np.full(arms, sizes[1])
        k = rng.binomial(n, chances)
        values = np.stack([low * (n - k) + high * k,
                           low * (1 - low) * (n - k) + high * (1 - high) * k])  # fmt: skip
        fresh = std * units * rng.standard_normal((2, arms))
        noise = noise + fresh
        if running:
            sums, people = sums + values, people + n
            total, calm = sums + noise
            reader.take(people, total, [std * math.sqrt(people[0] / sizes[1])] * arms, calm)
        else:
            total, calm = values + fresh
            reader.take(n, total, [std] * arms, calm)
        for each, mean in zip(reader.shown, means, strict=True):
            held &= each.low <= mean <= each.high
        if reader.speaks:  # as the ends of intervals say, without finding them
            for (i, j), each in reader._differences().items():
                held &= each.against(reader.bets, means[i] - means[j]) < reader.limit
    return held


@pytest.mark.parametrize("running", [True, False])
@pytest.mark.parametrize(
    ("chances", "ends"),
    [((0.5, 0.5), (0.0, 1.0)), ((0.02, 0.05), (0.0, 1.0)), ((0.5, 0.3), (0.4, 0.7))],
)
def test_reader__everything_holds_at_all_looks_together(running, chances, ends):
    # .05 may fail; of 100 runs more than 13 fail with probability below .001 if it does.
    failed = 0
    for seed in range(100):
        reader = Reader(8 if running else 0, 0.05, 2)
        rng = np.random.default_rng(seed)
        failed += not looks(reader, chances, (8, 150), 4.0, rng, running, ends)
    assert failed <= 13


@pytest.mark.parametrize("running", [True, False])
def test_reader__values_that_are_no_coins_have_narrow_intervals(running):
    widths = []
    for ends in ((0.4, 0.6), (0.0, 1.0)):
        reader = Reader(8 if running else 0, 0.05, 2)
        looks(reader, (0.5, 0.5), (8, 4000), 4.0, np.random.default_rng(0), running, ends)
        widths.append([reader.differences()[0, 1].half_width, reader.shown[0].half_width])
    assert max(widths[0][i] / widths[1][i] for i in (0, 1)) < 0.45  # .2, without noise


def test_spread__is_free_beside_its_value():
    x = np.linspace(0, 1, 401)
    a, b = np.meshgrid(x, x)
    moved = np.hypot(a - b, SPREAD * (a * (1 - a) - b * (1 - b)))
    assert moved.max() <= 1
    d = (math.sqrt(5) - 1) / 2  # where the bound is reached besides the ends
    assert math.hypot(d, SPREAD * d * (1 - d)) == pytest.approx(1, abs=1e-9)


def test_reader__without_a_difference_p_values_are_large_and_with_one_they_are_small():
    rng = np.random.default_rng(3)
    for chances, small in (((0.5, 0.5), False), ((0.3, 0.7), True)):
        reader = Reader(5, 0.05, 2)
        looks(reader, chances, (5, 400), 4.0, rng, True)
        (found,) = reader.differences().values()
        (p,) = reader.p_values.values()
        assert (p < 0.05) == small == (found.low > 0 or found.high < 0)
        assert p >= 0.005  # the bounds of variances may fail
