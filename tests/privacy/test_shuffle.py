"""Amplification by shuffling: the bound against exact arithmetic, exact divergences, the clones."""

import itertools
import math

import mpmath
import numpy as np
import pytest
from dp_accounting.pld import pld_pmf
from hypothesis import given, settings
from hypothesis import strategies as st

from discreet.privacy import BallChannel, Shuffled, shuffle
from discreet.privacy.gaussian import gaussian_delta, gaussian_mu
from discreet.privacy.shuffle import (
    LARGEST_BATCH,
    PlannedBatch,
    batch_keeps_promise,
    batch_local_epsilon,
    shuffled_delta,
    shuffled_epsilon,
)


def forty_digits(epsilon: float, local_epsilon: float, n: int) -> mpmath.mpf:
    """The formula, added up term by term."""
    with mpmath.workdps(40):
        t, L = mpmath.exp(mpmath.mpf(epsilon)), mpmath.exp(mpmath.mpf(local_epsilon))
        p = 2 / (L + 1)
        total = mpmath.mpf(0)
        for m in range(1, n + 1):
            weight = mpmath.binomial(n, m) * p**m * (1 - p) ** (n - m)
            if weight < mpmath.mpf(10) ** -38 and m > n * p:
                break
            inner = mpmath.mpf(0)
            for k in range(m, m // 2, -1):
                value = (L - t) * k - (L * t - 1) * (m - k)
                if value <= 0:
                    break
                inner += value * mpmath.binomial(m, k)
            total += weight * inner / mpmath.mpf(2) ** m
        return total / n


@pytest.mark.parametrize("n", [1, 2, 10, 100])
@pytest.mark.parametrize("local_epsilon", [0.01, 0.5, 2.0, 6.0, 12.0])
@pytest.mark.parametrize("part", [0.02, 0.3, 0.9, 0.9999])
def test_shuffled_delta__agrees_with_forty_digits_and_errs_on_the_private_side(
    n, local_epsilon, part
):
    exact = forty_digits(part * local_epsilon, local_epsilon, n)
    ours = shuffled_delta(part * local_epsilon, local_epsilon, n)
    assert ours >= exact
    assert ours <= exact * (1 + 1e-8) + 1e-20


@pytest.mark.parametrize(
    ("local_epsilon", "epsilon"), [(3.0, 1.0), (5.0, 1.0), (6.0, 5.9), (1.0, 0.2)]
)
def test_shuffled_delta__agrees_with_forty_digits_in_a_crowd(local_epsilon, epsilon):
    exact = forty_digits(epsilon, local_epsilon, 500)
    assert exact <= shuffled_delta(epsilon, local_epsilon, 500) <= exact * (1 + 1e-8) + 1e-20


@pytest.mark.parametrize(("local_epsilon", "n"), [(2.0, 30_000), (0.3, 100_000)])
def test_shuffled_delta__blocks_of_a_long_range_raise_it_by_little(local_epsilon, n, monkeypatch):
    epsilon = shuffled_epsilon(1e-6, local_epsilon, n)
    exact = shuffled_delta(epsilon, local_epsilon, n)
    monkeypatch.setattr(shuffle, "_EDGES", 300)
    assert exact < shuffled_delta(epsilon, local_epsilon, n) < 1.1 * exact


def random_channel(rng: np.random.Generator, local_epsilon: float, outputs: int, inputs: int):
    """Rows within e^epsilon_0 of each other: many entries at the two ends."""
    L = math.exp(local_epsilon)
    base = rng.dirichlet(np.ones(outputs))
    levels = np.where(rng.random((inputs, outputs)) < 0.7, rng.choice([1.0, L], (inputs, outputs)),
                      L ** rng.random((inputs, outputs)))  # fmt: skip
    rows = base * levels
    rows /= rows.sum(axis=1, keepdims=True)
    ratio = max((rows[i] / rows[j]).max() for i in range(inputs) for j in range(inputs))
    return rows, math.log(ratio)


def shuffled_divergence(rows: np.ndarray, others: list[int], epsilon: float) -> float:
    """The exact divergence of the multisets, for record 0 against record 1 and these others."""
    counts: dict[tuple[int, ...], np.ndarray] = {(0,) * rows.shape[1]: np.ones(1)}
    for person in others:
        after: dict[tuple[int, ...], np.ndarray] = {}
        for multiset, chance in counts.items():
            for y, p in enumerate(rows[person]):
                key = tuple(c + (j == y) for j, c in enumerate(multiset))
                after[key] = after.get(key, np.zeros(1)) + chance * p
        counts = after
    both: dict[tuple[int, ...], np.ndarray] = {}
    for multiset, chance in counts.items():
        for y in range(rows.shape[1]):
            key = tuple(c + (j == y) for j, c in enumerate(multiset))
            both[key] = both.get(key, np.zeros(2)) + chance * rows[:2, y]
    return sum(max(0.0, p - math.exp(epsilon) * q) for p, q in both.values())


def test_shuffled_delta__is_above_the_exact_divergence_of_random_channels():
    rng = np.random.default_rng(0)
    closest = 0.0
    for _ in range(400):
        outputs, inputs = int(rng.integers(2, 5)), int(rng.integers(2, 4))
        rows, local_epsilon = random_channel(rng, rng.uniform(0.2, 4.0), outputs, inputs)
        if local_epsilon < 1e-3:
            continue
        n = int(rng.integers(2, 7))
        epsilon = rng.uniform(0, 0.95) * local_epsilon
        others = [int(rng.integers(inputs)) for _ in range(n - 1)]
        exact = shuffled_divergence(rows, others, epsilon)
        bound = shuffled_delta(epsilon, local_epsilon + 1e-12, n)
        assert exact <= bound * (1 + 1e-9)
        closest = max(closest, exact / bound)
    assert closest > 0.9  # the bound is not merely large


def clones_2021(delta: float, local_epsilon: float, n: int) -> float:
    """Feldman, McMillan, Talwar (2021), Theorem 3.1, in closed form."""
    L = math.exp(local_epsilon)
    root = 8 * math.sqrt(L * math.log(4 / delta) / n) + 8 * L / n
    return math.log1p((L - 1) / (L + 1) * root)


@pytest.mark.parametrize("n", [10**3, 10**4, 10**6, 10**9])
@pytest.mark.parametrize("delta", [1e-6, 1e-12])
def test_shuffled_epsilon__is_below_the_closed_form_of_2021(n, delta):
    valid = math.log(n / (16 * math.log(2 / delta)))  # where their theorem holds
    for part in (0.1, 0.5, 1.0):
        if valid > 0:
            ours = shuffled_epsilon(delta, part * valid, n)
            assert ours < clones_2021(delta, part * valid, n)


@pytest.mark.parametrize(
    ("n", "expected"),
    [(100, 1.55), (1000, 3.27), (10**4, 5.47), (10**5, 7.76), (10**6, 10.06), (10**9, 16.97)],
)
def test_batch_local_epsilon__check_values(n, expected):
    assert batch_local_epsilon(1.0, 1e-6, n) == pytest.approx(expected, abs=0.006)


@settings(max_examples=60, deadline=None)
@given(st.floats(0.05, 5.0), st.sampled_from([1e-12, 1e-8, 1e-6, 1e-3]), st.integers(1, 10**9))
def test_batch_local_epsilon__keeps_the_promise_and_never_asks_for_less_than_no_crowd(
    epsilon, delta, n
):
    local_epsilon = batch_local_epsilon(epsilon, delta, n)
    assert local_epsilon >= epsilon * (1 - 1e-4)
    assert shuffled_delta(epsilon, local_epsilon, n) <= delta


@settings(max_examples=60, deadline=None)
@given(st.floats(0.0, 3.0), st.floats(0.1, 10.0), st.integers(2, 10**5))
def test_shuffled_delta__falls_with_the_crowd_and_with_epsilon_and_rises_with_epsilon_0(
    epsilon, local_epsilon, n
):
    here = shuffled_delta(epsilon, local_epsilon, n)
    slack = 1e-8 * here + 1e-18
    assert shuffled_delta(epsilon, local_epsilon, 2 * n) <= here + slack
    assert shuffled_delta(epsilon + 0.1, local_epsilon, n) <= here + slack
    assert shuffled_delta(epsilon, local_epsilon + 0.1, n) >= here - slack
    assert here >= -math.expm1(epsilon)  # at least 1 - e^epsilon


def test_shuffled_delta__agrees_with_simulation():
    rng = np.random.default_rng(1)
    epsilon, local_epsilon, n, runs = 0.3, 2.0, 200, 400_000
    L, t = math.exp(local_epsilon), math.exp(epsilon)
    draws = rng.multinomial(n, [1 / (L + 1), 1 / (L + 1), (L - 1) / (L + 1)], size=runs)
    values = np.maximum((L - t) * draws[:, 0] - (L * t - 1) * draws[:, 1], 0) / n
    error = values.std() / math.sqrt(runs)
    assert shuffled_delta(epsilon, local_epsilon, n) == pytest.approx(values.mean(), abs=4 * error)


def test_ball_channel__has_two_levels():
    channel = BallChannel(5, 2.0)
    v = np.array([1.0, 0, 0, 0, 0])
    uniform = np.random.default_rng(3).normal(size=(200_000, 5))
    uniform *= channel.radius / np.linalg.norm(uniform, axis=1)[:, None]
    density = channel.log_density(uniform, v)
    assert len(np.unique(density.round(9))) == 2
    assert np.ptp(density) == pytest.approx(channel.report_epsilon, rel=1e-9)


# -- several batches ------------------------------------------------------------------------------


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 2.0])
def test_batch_local_epsilon__for_two_reports_keeps_the_promise_in_exact_arithmetic(epsilon):
    """Randomised response, everybody else answering 0, n = 4, two batches: all pairs of counts."""
    delta, n = 1e-3, 4
    local_epsilon = batch_local_epsilon(epsilon, delta, n, reports=2)
    p = 1 / (1 + math.exp(-local_epsilon))
    rows = np.array([[p, 1 - p], [1 - p, p]])
    chance = np.zeros((2, n + 1))
    for reports in itertools.product((0, 1), repeat=n):
        others = math.prod(rows[0, y] for y in reports[1:])
        chance[:, sum(reports)] += others * rows[:, reports[0]]
    both = [np.outer(c, c) for c in chance]
    exact = max(np.maximum(a - math.exp(epsilon) * b, 0).sum() for a, b in (both, both[::-1]))
    assert exact <= delta


@pytest.mark.parametrize(
    "call",
    [
        lambda: shuffled_delta(-1.0, 1.0, 10),
        lambda: shuffled_delta(1.0, 0.0, 10),
        lambda: shuffled_delta(1.0, 26.0, 10),
        lambda: shuffled_delta(1.0, 2.0, 0),
        lambda: shuffled_epsilon(0.0, 2.0, 10),
        lambda: batch_local_epsilon(0.0, 1e-6, 10),
        lambda: batch_local_epsilon(1.0, 1e-6, 10, reports=0),
    ],
)
def test_shuffle__refuses_what_makes_no_sense(call):
    with pytest.raises(ValueError, match=r"must|integer"):
        call()


def losses(local_epsilon, n, step, points):
    """The privacy loss of a batch, on a grid that batches of different sizes share."""
    right = [shuffled_delta(i * step, local_epsilon, n) for i in range(points + 1)]
    right = np.minimum.accumulate(right)
    left = 1 - np.exp(-step * np.arange(points, 0, -1)) * (1 - right[:0:-1])
    return pld_pmf.create_pmf_pessimistic_connect_dots_fixed_gap(
        step, -points, points, np.concatenate([left, right])
    )


@pytest.mark.parametrize("sizes", [(60, 2000, 50_000), (50_000, 60, 60)])
def test_batch_keeps_promise__three_reports_in_batches_of_any_sizes_keep_it(sizes):
    composed = None
    for n in sizes:
        pmf = losses(batch_local_epsilon(1.0, 1e-6, n, reports=3), n, 0.02, 400)
        composed = pmf if composed is None else composed.compose(pmf, 1e-12)
    spent = composed.get_epsilon_for_delta(1e-6)
    assert 0.75 < spent <= 1.0


def test_batch_local_epsilon__is_the_largest():
    for reports in (2, 5):
        for n in (30, 10**5):
            ours = batch_local_epsilon(1.0, 1e-6, n, reports=reports)
            assert batch_keeps_promise(1.0, 1e-6, ours, n, reports=reports)
            assert not batch_keeps_promise(1.0, 1e-6, ours + 0.01, n, reports=reports)


def test_shuffled_epsilon__is_zero_from_the_delta_on_at_which_it_is():
    assert shuffled_epsilon(shuffled_delta(0.0, 1.0, 100), 1.0, 100) == 0.0


def test_planned_batch__a_fraction_that_was_not_said_is_the_least_and_none_is_zero():
    batch = {"size": 10, "minimum": 8, "honest": 1, "epsilon": 1.0, "delta": 1e-6}
    assert PlannedBatch(**batch, local_epsilon=8.0).honest_fraction == 1 / LARGEST_BATCH / 10
    with pytest.raises(ValueError, match="0 < honest_fraction"):
        PlannedBatch(**batch, local_epsilon=8.0, honest_fraction=0.0)
    with pytest.raises(ValueError, match="fractions of a batch"):
        Shuffled(minimum=1.5)


def test_batch_keeps_promise__several_batches_together_cost_no_more():
    """What the docstring needs, on a grid of its own: each below a Gaussian that fails with t."""
    epsilon, delta, n, reports = 3.0, 0.01, 50, 10
    each = batch_local_epsilon(epsilon, delta, n, reports=reports)
    mu = gaussian_mu(epsilon, 0.9 * delta) / math.sqrt(reports)
    t = 0.1 * delta / reports
    for e in np.linspace(0.0, each, 90):
        assert shuffled_delta(e, each, n) <= t + (1 - t) * gaussian_delta(e, mu)
    assert gaussian_delta(epsilon, mu * math.sqrt(reports)) + reports * t <= delta * (1 + 1e-9)


def test_planned_batch__no_report_costs_more_by_itself_than_was_said():
    batch = Shuffled(local_epsilon=0.5).batch(10**6, 1.0, 1e-6)
    assert batch.report_epsilon(1) == 0.5
    assert batch.keeps_promise(0.5, 1)
    assert not batch.keeps_promise(0.6, 1)  # although the crowd would hide it
    assert batch_keeps_promise(1.0, 1e-6, 0.6, batch.honest)
