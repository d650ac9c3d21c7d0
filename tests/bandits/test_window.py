import math
from dataclasses import fields, replace

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from discreet.arrays import symmetric_to_vector
from discreet.bandits import LinearBandit, Model, People
from discreet.bandits.belief import Belief
from discreet.bandits.release import Sums, _radius, learned
from discreet.bandits.release import seen as read_window
from discreet.bandits.tuning import TUNING
from discreet.bandits.window import (
    COUNT,
    LONGEST,
    TOTALS,
    VALUE,
    Transform,
    _within,
    bounded,
    sensitivity,
    totals,
    transform,
)
from discreet.environments import play
from discreet.environments.linear import drifting_world, linear_world
from discreet.least_squares import Posterior
from discreet.links import LINKS, link
from discreet.privacy import SeededNoise

SENSITIVITY = sensitivity(None, People(rounds=1))

NOISES = [1e-4, 0.01, 0.1, 1.0]
RANGES = [(-1.0, 1.0), (0.0, 1.0), (-1.0, 0.0), (0.5, 1.0), (-0.2, 1.0)]
SEEDS = st.integers(0, 2**32)


def beliefs(rng, d, radius=1.0):
    """What may be known after many windows: ill-conditioned, far from the truth, nearly sure."""
    A = rng.standard_normal((d, d)) * np.geomspace(1, 10 ** rng.uniform(-4, 0), d)
    G = rng.standard_normal((d, d)) * np.geomspace(1, 10 ** rng.uniform(-3, 0), d)
    mean = rng.standard_normal(d)
    size = 10 ** rng.uniform(-4, 0)
    C = size * radius**2 * A @ A.T / d
    return replace(
        Belief.prior(
            d, float(rng.choice(NOISES)), radius=radius, may_clip=bool(rng.random() < 0.7)
        ),
        mean=mean * radius * rng.choice([0.0, 0.3, 1.0]) / np.linalg.norm(mean),
        covariance=(C + C.T) / 2,
        gram=G @ G.T,
        effective_rows=float(rng.choice([0.0, 1.0, 1e3, 1e6])),
        gram_noise_std=float(rng.choice([0.0, 1.0, 100.0])),
    )


def some_transform(rng, d, name="identity", limits=(-1.0, 1.0), unit=1.0):
    radius = 1.0 if name == "identity" else link(name).predictor_bound
    size, deviation = int(10 ** rng.uniform(0, 6)), float(rng.choice([0.0, 0.1, 12.0, 300.0]))
    belief = beliefs(rng, d, radius)
    return transform(belief, size, deviation, limits, bounded(link(name), unit))


def worst_rows(rng, view, n=8):
    """Rows on the edges of the ball: along the whitening's axes, the mean, zero, tiny, inside."""
    d = len(view.mean)
    z = rng.standard_normal((n, d))
    z /= np.linalg.norm(z, axis=1, keepdims=True)
    axes = np.linalg.eigh(view.whitening)[1].T
    along = view.mean / max(np.linalg.norm(view.mean), 1e-300)
    return np.concatenate(
        [z, -z, axes, -axes, [along, -along, 0 * along], 1e-9 * z, 1e-300 * z, 0.5 * z]
    )


def seen(view, rows, rewards):
    """The vector that a row adds to the release: isometric vv' and the count."""
    v, weight = view.rows(rows, rewards)
    return np.concatenate(
        [symmetric_to_vector(v[:, :, None] * v[:, None, :]), totals(weight, rewards)], axis=1
    )


def alone(view, row, reward):
    """[v; weight; reward; 1] of one row."""
    entries, place, write = view.one_by_one(zero=0.0)
    write(row, float(reward))
    return entries[place:]


def looked_at(rng, view, limits):
    rows = worst_rows(rng, view)
    low, high = limits
    for y in (low, high, (low + high) / 2):
        yield rows, np.full(len(rows), y)
    yield rows, rng.uniform(low, high, len(rows))


def assert_bounded(view, v, weight):
    a, b = view.sides
    assert a**2 + b**2 == pytest.approx(2, abs=1e-15)
    assert np.isfinite(v).all()
    assert ((v[:, :-2] ** 2).sum(axis=1) <= a**2 + 1e-12).all(), "features"
    assert ((v[:, -2:] ** 2).sum(axis=1) <= b**2 + 1e-12).all(), "residuals"
    assert (weight >= 0).all()
    assert (weight <= 1).all()


@given(SEEDS, st.integers(1, 6), st.sampled_from(RANGES))
def test_transform__no_row_has_more_than_its_share(seed, d, limits):
    rng = np.random.default_rng(seed)
    view = some_transform(rng, d, limits=limits)
    for rows, rewards in looked_at(rng, view, limits):
        assert_bounded(view, *view.rows(rows, rewards))


@given(SEEDS, st.integers(1, 4), st.sampled_from(["logistic", "probit"]))
def test_transform__no_row_has_more_than_its_share_when_means_are_in_range(seed, d, name):
    rng = np.random.default_rng(seed)
    view = some_transform(rng, d, name, (0.0, 1.0))
    for rows, rewards in looked_at(rng, view, (0.0, 1.0)):
        assert_bounded(view, *view.rows(rows, rewards))


@pytest.mark.parametrize(
    ("name", "limits", "unit"),
    [
        ("logistic", (0.0, 1.0), 0.5),
        ("logistic", (0.2, 1.0), 0.5),
        ("logistic", (-1.0, 1.0), 1.0),
        ("logistic", (-1.0, 1.0), 5.0),
        ("probit", (0.0, 1.0), 0.2),
        ("poisson", (0.0, 1.0), 1.0),
        ("poisson", (0.0, 1.0), 10.0),
    ],
)
def test_transform__no_row_has_more_than_its_share_when_means_leave_the_range(name, limits, unit):
    for seed in range(40):
        rng = np.random.default_rng(seed)
        view = some_transform(rng, 3, name, limits, unit)
        for rows, rewards in looked_at(rng, view, limits):
            assert_bounded(view, *view.rows(rows, rewards))


def test_transform__even_a_row_outside_the_unit_ball_has_no_more_than_its_share():
    first = np.eye(10)[0]
    sure = replace(
        Belief.prior(10, 0.1),
        mean=0.5 * first,
        covariance=1e-9 * np.eye(10),
        gram=1000 * np.diag([0.9] + [0.1 / 9] * 9),
        effective_rows=1000.0,
    )
    view = transform(sure, 1000, 12.0, (-1.0, 1.0), None)
    assert_bounded(view, *view.rows(first[None], np.array([-1.0])))
    for length in (1.5, 2.0, 1e3):
        assert_bounded(view, *view.rows(length * first[None], np.array([-1.0])))
        one = alone(view, length * first, -1.0)
        assert_bounded(view, one[None, :12], one[12:13])


@given(SEEDS, st.integers(1, 5), st.sampled_from(["identity", "logistic"]))
def test_transform__one_row_at_a_time_is_the_same(seed, d, name):
    rng = np.random.default_rng(seed)
    limits = (-0.5, 1.0) if name == "identity" else (0.0, 1.0)
    view = some_transform(rng, d, name, limits)
    for rows, rewards in looked_at(rng, view, limits):
        v, weights = view.rows(rows, rewards)
        for i in range(len(rows)):
            one = alone(view, rows[i], rewards[i])
            assert_bounded(view, one[None, : d + 2], one[d + 2 : d + 3])
            assert one[d + 2] == pytest.approx(weights[i], rel=1e-9)
            assert np.allclose(one[: d + 2], v[i], rtol=1e-9, atol=1e-12)
            assert one[d + 3 : d + 5].tolist() == [rewards[i], 1.0]


@given(
    st.floats(-1, 1),
    st.floats(1e-12, 1.0),
    st.floats(1e-3, 2.0),
)
@example(1.0, 1e-12, 1.0)
@example(-1.0, 1.0, 1.0)
@example(1.0, 0.5, 1.0)
@example(0.5, 0.5, 1.0)
def test_transform__residuals_split_into_two_scales_without_loss(share, ratio, limit):
    eye = np.eye(2)
    view = Transform(
        mean=np.zeros(2), spread=0 * eye, whitening=eye, clip=ratio * limit,
        residual_bound=limit, link=None,
    )  # fmt: skip
    reward = share * limit
    v, weight = view.rows(np.array([[1.0, 0.0]]), np.array([reward]))
    assert weight[0] == 1
    f, g = v[0, 2] * view.clip, v[0, 3] * view.residual_bound
    assert f + g == pytest.approx(reward, abs=1e-12)
    size = v[0, 2] ** 2 + v[0, 3] ** 2
    assert size <= 1 + 1e-12
    if abs(reward) <= view.clip:
        assert g == 0
    else:  # all that is allowed is used, and f keeps the sign
        assert size == pytest.approx(1, abs=1e-6)
        assert f * reward > 0
        assert abs(f) <= view.clip


def test_transform__weights_whitening_and_deviations_are_the_formulas():
    rng = np.random.default_rng(0)
    for _ in range(20):
        belief = beliefs(rng, 3)
        view = transform(belief, 500, 12.0, (-1.0, 1.0), None)
        rows, rewards = worst_rows(rng, view), rng.uniform(-1, 1, 3 * 3)
        rows = rows[: len(rewards)]
        v, weight = view.rows(rows, rewards)
        for i, (phi, y) in enumerate(zip(rows, rewards, strict=True)):
            rho = math.sqrt(1 + float((phi @ view.spread) @ (phi @ view.spread)))
            x = view.whitening @ phi / rho
            w = min(1, 1 / max(float(x @ x), 1e-300))
            assert weight[i] == pytest.approx(w)
            a, b = view.sides
            assert b**2 / a**2 == pytest.approx(TUNING.balance if belief.effective_rows else 1.0)
            assert np.allclose(v[i, :-2], a * math.sqrt(w) * x)
            r = np.clip((y - phi @ view.mean) / rho, -view.residual_bound, view.residual_bound)
            split = v[i, -2] * view.clip + v[i, -1] * view.residual_bound
            assert split == pytest.approx(b * math.sqrt(w) * r)


def test_transform__a_link_gives_the_row_its_slope():
    rng, logistic = np.random.default_rng(1), link("logistic")
    belief = beliefs(rng, 3, logistic.predictor_bound)
    view = transform(belief, 500, 12.0, (0.0, 1.0), bounded(logistic, 1.0))
    phi = worst_rows(rng, view)[0]
    t = phi @ view.mean
    mean = float(logistic.mean(t))
    slope = float(logistic.slope(t)) / max(mean, 1 - mean)  # the largest residual there
    rho = math.sqrt(1 + slope**2 * float((phi @ view.spread) @ (phi @ view.spread)))
    x = slope * view.whitening @ phi / rho
    v, weight = view.rows(phi[None], np.array([1.0]))
    assert weight[0] == pytest.approx(min(1, 1 / float(x @ x)))
    assert view.residual_bound == 1
    assert np.allclose(v[0, :-2], view.sides[0] * math.sqrt(weight[0]) * x)


@given(
    SEEDS,
    st.integers(1, 5),
    st.sampled_from(["random", "opposite reward", "opposite row", "zero", "heavy and light"]),
)
def test_window__replacing_a_row_moves_the_sum_by_at_most_the_sensitivity(seed, d, case):
    rng = np.random.default_rng(seed)
    limits = RANGES[seed % len(RANGES)]
    view = some_transform(rng, d, limits=limits)
    rows = worst_rows(rng, view)
    low, high = limits
    one, other = rows[rng.permutation(len(rows))], rows[rng.permutation(len(rows))]
    y = rng.choice([low, high], len(rows))
    z = rng.choice([low, high], len(rows))
    if case == "opposite reward":
        other, z = one, low + high - y
    elif case == "opposite row":
        other, z = -one, y
    elif case == "zero":
        other = 0 * one
    elif case == "heavy and light":
        other = 1e-6 * one
    moved = np.linalg.norm(seen(view, one, y) - seen(view, other, z), axis=1)
    assert moved.max() <= SENSITIVITY * (1 + 1e-12)
    # A row that comes into one window instead of another moves both: their squares add up.
    later = some_transform(rng, d, limits=limits)
    both = np.hypot(
        np.linalg.norm(seen(view, one, y), axis=1), np.linalg.norm(seen(later, other, z), axis=1)
    )
    assert both.max() <= SENSITIVITY * (1 + 1e-12)


def test_window__the_sensitivity_is_reached_by_a_row_that_changes_windows():
    # |vv'| = 2 and a weight of 1 in both windows: a row of norm 1 whose residual is clipped.
    view = transform(Belief.prior(2, 0.1), 50, 12.0, (-1.0, 1.0), None)
    term = seen(view, np.array([[1.0, 0.0]]), np.array([1.0]))
    assert math.hypot(*np.linalg.norm([term, term], axis=(1, 2))) == pytest.approx(SENSITIVITY)
    # Within one window the opposite reward comes to 97% of it: orthogonal v, equal counts, and
    # the sum of rewards moves by 2.
    other = seen(view, np.array([[1.0, 0.0]]), np.array([-1.0]))
    assert np.linalg.norm(term - other) == pytest.approx(math.sqrt(8 + 4 * VALUE**2))
    assert np.linalg.norm(term - other) / SENSITIVITY == pytest.approx(0.971, abs=0.001)
    # So nothing smaller would do.
    assert pytest.approx(math.sqrt(8 + 2 * COUNT**2 + 4 * VALUE**2)) == SENSITIVITY


def test_window__an_uneven_balance_reaches_the_same_sensitivity_and_no_more():
    # v v' and u u' are farthest apart, sqrt(8), where v and u are orthogonal: opposite rewards and
    # rows whose cosine is q. With q = 1 that is one row; with less, the same row moves less.
    view = replace(
        transform(Belief.prior(2, 1.0), 50, 12.0, (-1.0, 1.0), None), balance=TUNING.balance
    )  # nothing is clipped
    here = np.array([[1.0, 0.0]])
    there = np.array([[TUNING.balance, math.sqrt(1 - TUNING.balance**2)]])
    one, other = np.array([1.0]), np.array([-1.0])
    n = 10  # entries of v v'
    apart = np.linalg.norm((seen(view, here, one) - seen(view, there, other))[0, :n])
    same = np.linalg.norm((seen(view, here, one) - seen(view, here, other))[0, :n])
    assert apart == pytest.approx(math.sqrt(8))
    assert same == pytest.approx(math.sqrt(8 - 2 * (view.sides[0] ** 2 - view.sides[1] ** 2) ** 2))
    for angle in np.linspace(0, math.pi, 50):
        row = np.array([[math.cos(angle), math.sin(angle)]])
        moved = seen(view, here, one) - seen(view, row, other)
        assert np.linalg.norm(moved) <= SENSITIVITY


@pytest.mark.parametrize(
    ("rows", "noise_std", "balance"),
    [(0.0, 12.0, 1.0), (100.0, 12.0, TUNING.balance), (100.0, 0.0, 1.0)],
)
def test_transform__is_balanced_after_the_first_window_and_only_where_there_is_noise(
    rows, noise_std, balance
):
    belief = replace(Belief.prior(2, 0.1), gram=rows * np.eye(2), effective_rows=rows)
    assert transform(belief, 50, noise_std, (-1.0, 1.0), None).balance == balance


def test_window__sums_are_those_of_the_rows_whatever_the_balance():
    rng = np.random.default_rng(3)
    rows = rng.standard_normal((50, 3))
    rows /= 2 * np.linalg.norm(rows, axis=1, keepdims=True)
    rewards = rng.uniform(-1, 1, 50)
    belief = Belief.prior(3, 0.1)
    found = []
    for balance in (1.0, TUNING.balance, 0.1):
        view = replace(transform(belief, 50, 12.0, (-1.0, 1.0), None), balance=balance)
        sums = Sums.read(seen(view, rows, rewards).sum(axis=0), view, 12.0, 50, belief)
        assert np.allclose(sums.gram, rows.T @ rows)
        assert np.allclose(sums.moment + sums.clipped_off, rows.T @ rewards)
        assert sums.squares == pytest.approx(float(rewards @ rewards))
        assert sums.noise_std == pytest.approx(12.0 * (1 + balance) / 2)  # 1 + q
        found.append(sums.clipped_squares)
    assert np.allclose(found, found[0])


def test_window__publishes_number_and_sum_of_rewards_in_the_users_units():
    bandit = LinearBandit(3, epsilon=math.inf, reward_range=(-2.0, 5.0), seed=0)
    rows = np.random.default_rng(0).standard_normal((7, 2, 3))
    rewards = np.random.default_rng(1).uniform(-2, 5, 7)
    bandit.learn_many(bandit.decide_many(rows), rewards)
    bandit.advance(bandit.rounds_until_release)
    bandit.turn()
    found = bandit.totals[0].published()
    assert found["count"] == 7
    assert found["sum"] == pytest.approx(rewards.sum(), abs=1e-12)
    private = LinearBandit(3, epsilon=1.0, noise=SeededNoise(0), reward_range=(-2.0, 5.0))
    private.decide(rows[0])
    noise = private._window.total.release.scale / VALUE  # of the count; of the sum 5 times that
    private.advance(private.rounds_until_release)
    private.turn()
    assert 0 < abs(private.totals[0].published()["count"]) < 8 * noise


@pytest.mark.parametrize("contributions", [1, 3])
def test_window__k_rows_of_one_person_move_the_windows_by_at_most_k_times(contributions):
    rng = np.random.default_rng(0)
    worst = 0.0
    for _ in range(200):
        views = [some_transform(rng, 2) for _ in range(3)]
        moved = np.zeros((3, 13))  # by window: 4 x 4 symmetric, weight, count, rewards
        for _ in range(contributions):
            for sign in (1, -1):  # leaves one window, enters another
                k = int(rng.integers(3))
                row = worst_rows(rng, views[k])[:1]
                moved[k] += sign * seen(views[k], row, rng.choice([-1.0, 1.0], 1))[0]
        worst = max(worst, float(np.linalg.norm(moved)))
    assert worst <= contributions * SENSITIVITY
    assert worst > 0.5 * SENSITIVITY
    bandit = LinearBandit(2, noise=SeededNoise(0), people=People(rounds=contributions))
    bandit.decide(np.eye(2))
    (release,) = bandit.guarantee.releases
    assert release.sensitivity == contributions * SENSITIVITY


def test_window__rows_added_one_by_one_or_together_give_the_same_sum():
    X = np.random.default_rng(0).standard_normal((40, 1, 3))
    rewards = np.random.default_rng(1).uniform(-1, 1, 40)
    values = []
    for together in (True, False):
        bandit = LinearBandit(3, noise=SeededNoise(0), seed=0)
        chosen = bandit.decide_many(X)
        if together:
            bandit.learn_many(chosen, rewards)
        else:
            for decision, reward in zip(chosen, rewards, strict=True):
                bandit.learn(decision, reward)
        values.append(bandit._window.total._value)
    assert np.allclose(*values, atol=1e-12)


# -- what a release teaches ------------------------------------------------------------------------


def released(view, rows, rewards):
    return seen(view, rows, rewards).sum(axis=0)


def test_learned__without_noise_is_a_weighted_ridge_regression():
    # Computed from raw rows, row by row: weights w, prior N(0, I/d), and a theta that differs
    # from window to window by `unlike` of that: moments vary by  variance G + unlike^2 G G / d.
    rng, d, n = np.random.default_rng(0), 3, 400
    theta = np.array([0.5, -0.4, 0.3])
    belief = Belief.prior(d, 0.1, may_clip=False)
    A, b = d * np.eye(d), np.zeros(d)
    for _ in range(3):
        rows = rng.standard_normal((n, d)) * [1.0, 0.5, 0.2]
        rows /= np.maximum(1, np.linalg.norm(rows, axis=1, keepdims=True))
        y = np.clip(rows @ theta + 0.1 * rng.standard_normal(n), -1, 1)
        view = transform(belief, n, 0.0, (-1.0, 1.0), None)
        scales, squares, weights, signal = [], 0.0, 0.0, 0.0
        shift = belief.mean - view.mean
        for phi, reward in zip(rows, y, strict=True):
            x = view.whitening @ phi  # rho = 1 where nothing is clipped
            w = min(1.0, 1 / float(x @ x))
            scales.append(w)
            squares += w * (reward - phi @ view.mean) ** 2
            weights += w
            signal += w * (phi @ belief.covariance @ phi + (phi @ shift) ** 2)
        whole = min(max(squares / weights, 0.3 * belief.reward_variance), 4.0)
        variance = max(whole - signal / weights, TUNING.floor * whole)
        belief = learned(belief, view, released(view, rows, y), 0.0, n)
        G, moment = np.zeros((d, d)), np.zeros(d)
        for scale, phi, reward in zip(scales, rows, y, strict=True):
            G += scale * np.outer(phi, phi)
            moment += scale * reward * phi
        weigh = G @ np.linalg.inv(variance * G + TUNING.unlike**2 * G @ G / d)
        A += weigh @ G
        b += weigh @ moment
        assert np.allclose(belief.mean, np.linalg.solve(A, b), atol=1e-8)
        assert np.allclose(belief.covariance, np.linalg.inv(A), rtol=1e-6)
    assert belief.windows == 3
    assert np.abs(belief.mean - theta).max() < 0.05


def test_observation__what_was_clipped_and_what_was_kept_add_up_to_whole_residuals():
    # The sum of both moments does not know of the slope, nor of the doubt about it.
    rng, d, n = np.random.default_rng(5), 3, 4000
    belief = replace(
        Belief.prior(d, 0.01), gram=n / d * np.eye(d), effective_rows=float(n), windows=1,
        informative_windows=1,
    )  # fmt: skip
    rows = rng.standard_normal((n, d))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    view = transform(belief, n, 12.0, (-1.0, 1.0), None)
    noise = 12.0 * rng.standard_normal((d + 2) * (d + 3) // 2 + TOTALS)
    total = released(view, rows, rows @ [0.5, 0.0, -0.3]) + noise
    window = read_window(belief, view, Sums.read(total, view, 12.0, n, belief), None)
    assert window.clips
    assert 0 < window.found.slope < 1
    design, value, covariance = window.observation(belief.posterior)
    both = np.hstack([np.eye(d), np.eye(d)])
    whole_design, whole_value, _ = window.whole
    assert np.allclose(both @ design, whole_design)
    assert np.allclose(both @ value, whole_value)
    R, E = view.units
    s = window.sums.noise_std
    expected = s**2 / 2 * (R**2 + E**2) * np.eye(d) + window.variance * window.H + window.wrong
    assert np.allclose(both @ covariance @ both.T, expected)
    assert np.linalg.eigvalsh(covariance).min() > 0
    apart = np.hstack([np.eye(d), -np.eye(d)])  # the doubt is in their difference
    plain = s**2 / 2 * (R**2 + E**2) * np.eye(d)
    assert np.linalg.eigvalsh(apart @ covariance @ apart.T - plain).max() > 0


@pytest.mark.parametrize("windows", [0, 3])
def test_learned__a_window_without_rewards_leaves_the_belief_as_it_was(windows):
    rng, d, std = np.random.default_rng(0), 5, 12.0
    belief = replace(Belief.prior(d, 0.1), windows=windows)
    if windows:
        rows = 100.0 * windows
        belief = replace(
            belief, gram=rows / d * np.eye(d), effective_rows=rows, decided=100 * windows,
            answers=rows, answers_variance=100.0, informative_windows=windows,
        )  # fmt: skip
    kept = 0
    for _ in range(200):
        view = transform(belief, 500, std, (-1.0, 1.0), None)
        after = learned(belief, view, std * rng.standard_normal(28 + TOTALS), std, 500)
        kept += after.effective_rows == belief.effective_rows
        assert after.windows == belief.windows + 1
    assert kept >= 195  # the count stands out of its noise by THIN deviations in 0.13% of cases


def test_learned__what_a_first_window_seemed_to_know_goes_if_the_next_has_no_rewards():
    # A small window is believed while rewards may be coming steadily: few and noise, in truth.
    rng, d, std = np.random.default_rng(0), 5, 12.0
    prior = Belief.prior(d, 0.1)
    view = transform(prior, 85, std, (-1.0, 1.0), None)
    few = rng.standard_normal((20, d))
    few = released(view, few / np.linalg.norm(few, axis=1, keepdims=True), np.zeros(20))
    fooled = 0
    for _ in range(100):
        first = learned(prior, view, few + std * rng.standard_normal(len(few)), std, 85)
        fooled += first.informed and not first.proven
        after = learned(first, view, -np.abs(std * rng.standard_normal(28 + TOTALS)), std, 85)
        if not first.proven:
            assert not after.informed
            assert np.array_equal(after.mean, prior.mean)
            assert np.allclose(after.covariance, prior.covariance)
            assert after.effective_rows == 0
    assert fooled >= 2


def test_belief__rewards_are_steady_while_most_decisions_have_one_by_all_windows_together():
    # One window cannot tell 25 rewards of 85 decisions from 85; five can, and are not believed.
    rng, d, std = np.random.default_rng(0), 5, 12.0
    prior = Belief.prior(d, 0.1)
    assert prior.steady
    assert not prior.proven
    view = transform(prior, 85, std, (-1.0, 1.0), None)
    rows = rng.standard_normal((25, d))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    total = released(view, rows, np.zeros(25))
    steady = []
    for _ in range(60):
        belief, seen = prior, []
        for _ in range(5):
            noisy = total + std * rng.standard_normal(len(total))
            belief = learned(belief, view, noisy, std, 85)
            seen.append(belief.steady)
        steady.append(seen)
    first, *_, last = np.mean(steady, axis=0)
    assert 0.05 < first < 0.3
    assert last < 0.05
    often = prior.counted(1000, 800.0, 20.0)
    assert often.steady
    assert often.proven


def seldom_bandit(horizon=50_000, **more):
    return LinearBandit(5, horizon, seed=0, noise=SeededNoise(0), **more)


def test_bandit__windows_wait_for_rewards_and_then_grow_from_there():
    # Rewards begin after 2,000 decisions: what comes then is a learner's first window.
    bandit = seldom_bandit()
    world, rng = linear_world("sphere", 5, seed=0), np.random.default_rng(0)
    sizes = []
    while bandit.rounds < 6000:
        size = bandit.rounds_until_release
        sizes.append((bandit.rounds, size))
        people = world.people(size, rng)
        chosen = bandit.decide_many(people.features)
        if bandit.rounds > 2000:
            bandit.learn_many(chosen, people.rewards(chosen.action, rng))
    belief = bandit._belief
    assert belief.proven
    assert 1000 < belief.waited < 3000
    after = [size for start, size in sizes if start > belief.waited + 2000]
    assert max(after) < 0.5 * 6000


def test_bandit__where_rewards_are_few_windows_are_long_enough_to_hold_some():
    bandit = seldom_bandit()
    rng = np.random.default_rng(0)
    while bandit.rounds < 40_000:
        X = rng.standard_normal((bandit.rounds_until_release, 3, 5))
        X /= np.linalg.norm(X, axis=2, keepdims=True)
        chosen = bandit.decide_many(X)
        rewards = np.where(rng.random(len(X)) < 0.03, 0.5 * chosen.rows[:, 0], np.nan)
        bandit.learn_many(chosen, rewards)
    belief = bandit._belief
    assert belief.informed
    assert not belief.steady
    assert 0.01 < belief.answered < 0.06
    assert bandit._end - bandit.rounds == 0 or bandit._size() >= bandit._estimator.first / 0.06


# -- forgetting ------------------------------------------------------------------------------------


@pytest.mark.parametrize(("half_life", "longest"), [(400, 200), ("auto", 2000)])
def test_half_life__windows_stay_short_and_no_release_costs_more(half_life, longest):
    bandit = seldom_bandit(None, model=Model(half_life=half_life))
    sizes = []
    while bandit.rounds < 20_000:
        sizes.append(bandit.rounds_until_release)
        bandit.decide_many(np.zeros((sizes[-1], 2, 5)))
    assert sizes[-1] <= longest < seldom_bandit(None)._estimator.size(20_000, 0)
    assert {r.scale for r in bandit.guarantee.releases} == {seldom_bandit_scale()}
    assert bandit.guarantee.epsilon == 1.0


def seldom_bandit_scale():
    bandit = seldom_bandit(None)
    bandit.decide(np.zeros((2, 5)))
    return bandit.guarantee.releases[0].scale


def test_half_life__older_evidence_counts_half_after_so_many_decisions():
    rng, d, n = np.random.default_rng(0), 3, 400
    belief = Belief.prior(d, 0.1, may_clip=False)
    rows = rng.standard_normal((n, d))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    view = transform(belief, n, 0.0, (-1.0, 1.0), None)
    once = learned(belief, view, released(view, rows, rows @ [0.5, -0.4, 0.3]), 0.0, n)
    view = transform(once, n, 0.0, (-1.0, 1.0), None)
    total = released(view, rows, rows @ [0.5, -0.4, 0.3])
    alone = learned(once.discounted(0.5), view, total, 0.0, n)
    halved = learned(once, view, total, 0.0, n, half_life=float(n))
    assert np.allclose(halved.precision, alone.precision)
    assert np.allclose(once.discounted(0.5).precision, once.precision / 2)
    assert np.allclose(halved.weighted, alone.weighted)


def test_half_life__auto_follows_a_theta_that_switches_and_forgets_nothing_else():
    lost, sizes, beliefs = {}, {}, {}
    for name, world in (
        ("switch", drifting_world("switch", 5, period=6000, seed=0)),
        ("sphere", linear_world("sphere", 5, seed=0)),
    ):
        for half_life in (None, "auto"):
            bandit = LinearBandit(5, seed=0, noise=SeededNoise(0), model=Model(half_life=half_life))
            lost[name, half_life] = play(bandit, world, 12_000, seed=0).regret.sum()
            sizes[name, half_life] = bandit._size()
            beliefs[name, half_life] = bandit.belief
    moved = beliefs["switch", "auto"]
    assert moved.moved
    assert 0 < moved.calm <= 6000  # decisions since it switched
    assert not beliefs["sphere", "auto"].moved
    assert sizes["switch", "auto"] == math.ceil(0.1 * moved.calm)
    just = replace(moved, calm=0)
    first = bandit._estimator.first
    assert bandit._estimator.planned(just, 12_000, 9) == math.ceil(1.5 * first)
    assert sizes["switch", "auto"] < sizes["sphere", "auto"] < sizes["sphere", None]
    assert lost["switch", "auto"] < 0.5 * lost["switch", None]
    assert lost["sphere", "auto"] < 1.3 * lost["sphere", None]


def test_half_life__windows_that_share_the_budget_are_planned_as_short_as_they_will_be():
    known = {"model": Model(half_life="auto"), "people": People(visits="all")}
    bandit = LinearBandit(5, 50_000, seed=0, noise=SeededNoise(0), **known)
    bandit.decide_many(np.zeros((20_000, 2, 5)))
    bandit._belief = replace(bandit._belief, moved=True)
    opened, rounds, left = bandit._belief.windows, bandit.rounds, 1.0
    shares = []
    while rounds < 50_000:
        size = bandit._estimator.size_after(bandit._belief, rounds, opened)
        rounds += size
        to_come = bandit._schedule.windows(bandit._belief, rounds, opened + 1)
        shares.append(left / (1 + to_come))
        left -= shares[-1]
        opened += 1
    assert len(shares) > 20
    assert max(shares) < 1.5 * min(shares)  # none has next to nothing


@pytest.mark.parametrize("value", ["never", 1, math.nan, math.inf, -5])
def test_half_life__bad_values_are_refused(value):
    with pytest.raises(ValueError, match="half_life must be"):
        LinearBandit(5, model=Model(half_life=value))


@pytest.mark.parametrize("more", [{"policy": "descent"}, {"trust": "local"}])
def test_half_life__is_refused_where_nothing_would_be_forgotten(more):
    with pytest.raises(ValueError, match=r"takes no Model\(half_life=\)"):
        LinearBandit(5, model=Model(half_life=500), **more)


def test_learned__rows_whose_weights_are_tiny_are_rows():
    # A whitening that stretches rows 8 times gives each the weight 1/64: the weighted count of
    # 1,000 is lost in its noise, their plain number is not.
    rng, d, n, std = np.random.default_rng(0), 5, 1000, 12.5
    belief = replace(Belief.prior(d, 0.1), windows=1, gram=np.eye(d) / 1000, effective_rows=1.0)
    view = transform(belief, n, std, (-1.0, 1.0), None)
    rows = rng.standard_normal((n, d))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    assert view.rows(rows, np.zeros(n))[1].max() < 1 / 50
    total = released(view, rows, rows @ np.full(d, 0.4))
    for _ in range(20):
        noisy = total + std * rng.standard_normal(len(total))
        assert learned(belief, view, noisy, std, n).effective_rows > 1


def test_bandit__without_any_reward_chooses_uniformly_for_ever():
    bandit = LinearBandit(5, 20_000, 1.0, seed=0, noise=SeededNoise(0))
    X = np.random.default_rng(0).standard_normal((20_000, 4, 5))
    X /= np.linalg.norm(X, axis=2, keepdims=True)
    actions = bandit.decide_many(X).action
    assert (np.bincount(actions, minlength=4) > 4_000).all()


def test_learned__more_noise_means_a_wider_belief():
    rng, d, n = np.random.default_rng(0), 3, 2000
    belief = Belief.prior(d, 0.1)
    rows = rng.standard_normal((n, d))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    y = rows @ np.array([0.5, -0.4, 0.3]) + 0.1 * rng.standard_normal(n)
    sizes = []
    for deviation in (1.0, 10.0, 100.0, 1000.0):
        view = transform(belief, n, deviation, (-1.0, 1.0), None)
        total = released(view, rows, y)
        noisy = total + deviation * rng.standard_normal(len(total))
        sizes.append(np.trace(learned(belief, view, noisy, deviation, n).covariance))
    assert sizes == sorted(sizes)
    assert sizes[0] < 0.1 * sizes[-1]
    assert sizes[-1] == pytest.approx(1.0, rel=0.2)  # nothing learnt: the prior's trace


@given(SEEDS, st.integers(1, 6), st.sampled_from([0.0, 0.1, 12.0, 1e4]))
def test_learned__changes_nothing_it_is_given_and_stays_sane_on_any_release(seed, d, deviation):
    rng = np.random.default_rng(seed)
    belief, size = beliefs(rng, d), int(10 ** rng.uniform(0, 5))
    view = transform(belief, size, deviation, (-1.0, 1.0), None)
    rows = worst_rows(rng, view)
    total = released(view, rows, rng.uniform(-1, 1, len(rows)))
    total += deviation * rng.standard_normal(len(total))
    arguments = (belief, view, total)
    before = (
        [{f.name: np.array(getattr(each, f.name)) for f in fields(each)} for each in arguments[:2]],
        total.copy(),
    )
    one = learned(*arguments, deviation, size)
    two = learned(*arguments, deviation, size)
    for old, now in zip(before[0], arguments[:2], strict=True):
        for name, value in old.items():
            assert np.array_equal(value, getattr(now, name)), name
    assert np.array_equal(total, before[1])
    for field in fields(Belief):
        assert np.array_equal(getattr(one, field.name), getattr(two, field.name)), field.name
        assert np.isfinite(getattr(one, field.name)).all(), field.name
    assert np.linalg.norm(one.mean) <= one.radius * (1 + 1e-12)
    assert np.array_equal(one.covariance, one.covariance.T)
    assert np.linalg.eigvalsh(one.covariance).min() > 0
    assert 0 < one.reward_variance <= 1
    assert one.windows == belief.windows + 1


@pytest.mark.parametrize(("dim", "epsilon"), [(2, 1.0), (5, 1.0), (5, 4.0)])
def test_belief__its_covariance_is_the_size_of_its_error(dim, epsilon):
    # z = (theta - mean)' C^-1 (theta - mean) / d has mean 1 if the belief is right. 40 worlds.
    z = []
    for seed in range(40):
        # A shorter theta: the world cuts rewards to [-1, 1], so that near 1 they are not linear.
        world, rng = linear_world("sphere", dim, seed=seed), np.random.default_rng(seed)
        world = replace(world, theta=0.7 * world.theta)
        bandit = LinearBandit(dim, 3000, epsilon, seed=seed, noise=SeededNoise(seed))
        while bandit.rounds < 3000:
            people = world.people(bandit.rounds_until_release, rng)
            chosen = bandit.decide_many(people.features)
            bandit.learn_many(chosen, people.rewards(chosen.action, rng))
        bandit.decide(np.zeros((1, dim)))
        belief = bandit._belief
        assert belief.windows >= 5
        error = world.theta - belief.mean
        z.append(error @ np.linalg.solve(belief.covariance, error) / dim)
    assert 0.2 < np.mean(z) < 3
    assert 0.1 < np.median(z) < 2


def test_links__all_are_known_to_the_transform():
    assert set(LINKS) == {"identity", "logistic", "probit", "poisson"}, "add it to the tests above"


def test_radius__grows_only_where_the_releases_leave_no_doubt():
    d = 6
    precision = 400.0 * np.eye(d)
    short, long = np.full(d, 1 / np.sqrt(d)), np.full(d, 2.5 / np.sqrt(d))
    every = np.eye(d)

    def radius(precision, weighted, least, visible):
        belief = Belief.prior(d, 0.1, radius=least)
        return _radius(Posterior(every, precision, weighted), belief, visible)

    assert radius(precision, precision @ short, 1.0, every) == 1.0
    assert 1.8 < radius(precision, precision @ long, 1.0, every) < 3.5
    hardly = 1e-3 * precision
    assert radius(hardly, hardly @ long, 1.0, every) == 1.0
    assert radius(precision, precision @ long, 4.0, every) == 4.0  # never shorter than thought
    # No evidence from directions that nobody showed, and never more than the cap.
    assert radius(precision, precision @ long, 1.0, every[:, :0]) == 1.0
    far = np.array([100.0, 0, 0, 0, 0, 0])
    assert radius(precision, precision @ far, 1.0, every[:, 1:]) == 1.0
    assert radius(precision, precision @ far, 1.0, every) == LONGEST
    assert radius(precision, precision @ far, 8.0, every) == LONGEST


# -- whatever is known, a contribution is finite ---------------------------------------------------

WILD = st.floats(allow_nan=False, allow_infinity=False)
HUGE = st.floats(min_value=0.0, allow_nan=False, allow_infinity=False)


@st.composite
def wild_beliefs(draw, d):
    """Any finite belief, also such as no release could make."""
    numbers = st.one_of(WILD, st.sampled_from([0.0, 1.0, -1e308, 1e308, 1e-308, 53.8]))

    def array(*shape):
        items = draw(st.lists(numbers, min_size=math.prod(shape), max_size=math.prod(shape)))
        return np.array(items).reshape(shape)

    def symmetric():
        half = array(d, d) / 2
        return half + half.T

    return replace(
        Belief.prior(d, draw(HUGE), may_clip=draw(st.booleans())),
        radius=draw(HUGE),
        mean=array(d),
        covariance=symmetric(),
        gram=symmetric(),
        effective_rows=draw(HUGE),
        gram_noise_std=draw(HUGE),
    )


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@given(
    st.data(),
    st.integers(1, 3),
    st.sampled_from(sorted(LINKS)),
    st.sampled_from([*RANGES, (0.0, 10.0), (-3.0, 1.0), (0.0, 1e-3)]),
    st.integers(1, 10**7),
    HUGE,
)
def test_transform__any_finite_belief_makes_finite_contributions_of_length_at_most_2(
    data, d, name, reward_range, size, noise_std
):
    belief = data.draw(wild_beliefs(d))
    scale = max(map(abs, reward_range))
    low, high = (end / scale for end in reward_range)
    view = transform(belief, size, noise_std, (low, high), bounded(link(name), scale))
    rng = np.random.default_rng(data.draw(SEEDS))
    rows = worst_rows(rng, view, 3)
    for rewards in (np.full(len(rows), low), np.full(len(rows), high)):
        with np.errstate(all="raise", under="ignore"):
            v, weight = view.rows(rows, rewards)
        assert_bounded(view, v, weight)
        assert ((v**2).sum(axis=1) <= 2 + 1e-12).all()
        for row, reward in zip(rows, rewards, strict=True):
            one = alone(view, row, reward)
            assert_bounded(view, one[None, : d + 2], one[d + 2 : d + 3])
            assert one[: d + 2] @ one[: d + 2] <= 2 + 1e-12


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@given(
    st.data(),
    st.integers(1, 3),
    st.sampled_from([(0.0, 1.0), (0.0, 10.0), (-3.0, 1.0), (0.0, 1e-3), (5.0, 6.0)]),
    st.integers(1, 10**7),
    HUGE,
)
def test_transform__with_an_intercept_any_finite_belief_makes_contributions_of_length_at_most_2(
    data, d, reward_range, size, noise_std
):
    belief = replace(
        data.draw(wild_beliefs(d + 1)),
        constant=data.draw(st.floats(0.01, 0.9)),
        radius=data.draw(st.floats(1e-3, 1e3)),
    )
    scale = max(map(abs, reward_range))
    low, high = (end / scale for end in reward_range)
    view = transform(belief, size, noise_std, (low, high), None)
    rng = np.random.default_rng(data.draw(SEEDS))
    rows = rng.standard_normal((6, d))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    rows[0] = 0.0
    for rewards in (np.full(len(rows), low), np.full(len(rows), high)):
        with np.errstate(all="raise", under="ignore"):
            v, weight = view.rows(rows, rewards)
        assert_bounded(view, v, weight)
        assert ((v**2).sum(axis=1) <= 2 + 1e-12).all()


@pytest.mark.parametrize("name", sorted(LINKS))
def test_bandit__a_theta_that_others_drove_up_makes_nobodys_sum_overflow(name):
    """The demonstration: a huge theta, then one row on which the bare exp would overflow."""
    bandit = LinearBandit(
        2,
        epsilon=50.0,
        reward_range=(0.0, 1.0),
        seed=0,
        noise=SeededNoise(0),
        model=Model(link=name),
    )
    for _ in range(30):
        n = bandit.rounds_until_release
        if n > 3000:
            break
        chosen = bandit.decide_many(np.tile([[[0.01, 0.0]], [[-0.01, 0.0]]], (n, 1, 1))[:n])
        bandit.learn_many(chosen, (chosen.rows[:, 0] > 0) * 1.0)
    bandit.learn(bandit.decide([[1.0, 0.0]]), 0.0)
    bandit.learn_many(bandit.decide_many(np.tile([[[1.0, 0.0]]], (3, 1, 1))), np.zeros(3))
    assert np.isfinite(bandit._window.total._value).all()
    assert np.linalg.norm(bandit._window.transform.mean) <= LONGEST + 1e-9


@pytest.mark.parametrize("name", sorted(LINKS))
def test_radius__noise_alone_makes_no_long_theta(name):
    """Features that nobody shows, rewards that depend on none: noise is no evidence of length."""
    start = 1.0 if name == "identity" else TUNING.steep
    for seed in range(12):
        rng = np.random.default_rng(seed)
        bandit = LinearBandit(
            6,
            epsilon=1.0,
            reward_range=(0.0, 1.0),
            seed=seed,
            noise=SeededNoise(seed),
            model=Model(link=name),
        )
        while bandit.rounds < 20_000:
            X = np.zeros((bandit.rounds_until_release, 2, 6))
            X[:, :, 0] = rng.uniform(-1, 1, X.shape[:2])
            chosen = bandit.decide_many(X)
            bandit.learn_many(chosen, (rng.random(len(X)) < 0.5) * 1.0)
        assert bandit._belief.radius == start


@pytest.mark.parametrize("length", [0.5, 5.0, 7.0, 1e300])
def test_within__is_no_longer_and_of_the_same_direction(length):
    for vector in (np.array([3.0, -4.0]), np.array([3e300, -4e300]), np.zeros(2)):
        kept, whole = _within(vector, length), math.hypot(*vector)
        assert math.hypot(*kept) == pytest.approx(min(length, whole))
        assert kept[0] * 4 == pytest.approx(-kept[1] * 3)
