"""A warm start: an old log is released once, as windows are, and costs what they cost."""

import math

import numpy as np
import pytest
from scipy import stats

from discreet.bandits import Holdout, LinearBandit, Model, People
from discreet.bandits import history as module
from discreet.bandits.window import sensitivity
from discreet.privacy import SeededNoise
from discreet.privacy.release import observed

OPTIONS = [
    {},
    {"holdout": Holdout(0.1)},
    {"people": People(rounds=3)},
    {"model": Model("logistic"), "reward_range": (0.0, 1.0)},
    {"reward_range": (0.0, 1.0)},
]


def log(n=200, d=3, seed=0):
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(n, d))
    rows /= np.maximum(1.0, np.linalg.norm(rows, axis=1))[:, None]
    return rows, np.clip(rows @ np.linspace(0.9, -0.3, d), 0, 1)


def bandit(epsilon=1.0, seed=0, **options):
    return LinearBandit(3, epsilon=epsilon, seed=0, noise=SeededNoise(seed), **options)


def released(learner, rows, rewards, public=False):
    with observed("release") as seen:
        learner.warm_start(rows, rewards, public=public)
    return [np.asarray(each.value) for each in seen]


# -- what it costs ---------------------------------------------------------------------------------


@pytest.mark.parametrize("options", OPTIONS)
def test_sensitivity__replacing_or_losing_a_row_stays_within_what_is_booked(options):
    """Worst cases: opposite rows and rewards on the boundary, zeros, a row that is not finite."""
    learner = bandit(**options)
    low, high = learner.reward_range
    e1, many = np.eye(3)[0], learner.rounds_until_release + 1
    worst = [
        (e1, high),
        (-e1, low),
        (e1, low),
        (0 * e1, high),
        (9 * e1, 9 * high),
        (e1 * math.nan, 0),
    ]
    moved = []
    for row, reward in worst:
        rows, rewards = log(many)
        rows[0], rewards[0] = row, reward
        (value,) = released(bandit(**options), rows, rewards)
        moved.append(value)
    most = max(np.linalg.norm(a - b) for a in moved for b in moved)
    people = options.get("people", People(rounds=1))
    bound = sensitivity(options.get("holdout"), people) / people.contributions
    assert most <= bound + 1e-9
    assert most >= 0.7 * bound or "model" in options  # a link's first residuals are half as large


def test_noise__is_that_of_the_booked_scale(assert_distribution):
    rows, rewards = log(8)
    exact = released(bandit(math.inf), rows, rewards)[0]
    learners = [bandit(seed=seed) for seed in range(200)]
    values = np.array([released(each, rows, rewards)[0] - exact for each in learners])
    scale = learners[0].guarantee.releases[0].scale
    assert_distribution(values, stats.norm(0, scale).cdf)


def test_guarantee__counts_the_log_beside_the_windows_within_the_same_budget():
    learner = bandit()
    rows, rewards = log(2000)
    learner.warm_start(rows, rewards, public=False)
    booked = learner.guarantee.releases
    assert len(booked) > 1
    assert all(each.scope == f"log, window {i}" for i, each in enumerate(booked, 1))
    assert all(each.mu == pytest.approx(learner.guarantee.releases[0].mu) for each in booked)
    learner.decide(np.eye(3))
    assert learner.guarantee.releases[-1].scope == f"window {len(booked) + 1}"
    assert (learner.guarantee.epsilon, learner.guarantee.delta) == (1.0, 1e-6)
    assert "old log" in str(learner.guarantee.to_dict())


def test_public__neither_noise_nor_cost_and_no_release():
    learner = bandit()
    rows, rewards = log()
    learner.warm_start(rows, rewards, public=True)
    assert learner.guarantee.releases == ()
    plain = bandit(math.inf)
    plain.warm_start(rows, rewards, public=False)
    assert np.allclose(learner.theta, plain.theta)


def test_public__is_said_in_the_guarantee_in_every_window_and_after_a_save(tmp_path):
    learner = bandit()
    learner.warm_start(*log(2000), public=True)
    for _ in range(2):
        learner.decide_many(np.tile(np.eye(3), (learner.rounds_until_release, 1, 1)))
    learner.save(tmp_path / "bandit")
    for each in (learner, LinearBandit.load(tmp_path / "bandit")):
        assert "2,000 rows, declared public" in each.guarantee.unprotected[-1]
    assert "declared public" not in str(bandit().guarantee.unprotected)


@pytest.mark.parametrize("public", [True, False])
def test_windows__end_by_the_number_of_rows_alone(public):
    rows, rewards = log(3000)
    sizes = [
        len(released(bandit(), x, y, public)) for x, y in ((rows, rewards), (-rows, 0 * rewards))
    ]
    assert sizes[0] == sizes[1]


# -- what it teaches -------------------------------------------------------------------------------


def test_without_noise__the_log_is_a_regression():
    rows, _ = log(3000)
    truth = np.array([0.6, -0.2, 0.3])
    learner = bandit(math.inf)
    learner.warm_start(rows, rows @ truth, public=False)
    assert np.linalg.norm(learner.theta - truth) < 0.02


def test_a_row_that_is_not_finite_counts_for_nothing_and_alone():
    rows, rewards = log(400)
    dirty_rows, dirty_rewards = rows.copy(), rewards.copy()
    dirty_rows[3, 1], dirty_rewards[7] = math.nan, math.inf
    learner = bandit(math.inf)
    n = learner.rounds_until_release
    (value,) = released(learner, dirty_rows[:n], dirty_rewards[:n])
    other = dirty_rows.copy()
    other[7] = math.nan
    (same,) = released(bandit(math.inf), other[:n], rewards[:n])
    assert np.isfinite(value).all()
    assert np.array_equal(value, same)
    (whole,) = released(bandit(math.inf), rows[:n], rewards[:n])
    assert not np.allclose(value, whole)


@pytest.mark.parametrize("norm_bound", [1e-10, 0.5])
def test_a_row_that_overflows_over_the_bound_is_shortened_as_any_other(norm_bound):
    """An exception would tell of it."""
    rows, rewards = log()
    want = None
    for far in (1.0, 1e300, 1.7e308):
        rows[7] = [0.0, 0.0, far]
        values = np.stack(released(bandit(math.inf, norm_bound=norm_bound), rows, rewards))
        want = values if want is None else want
        np.testing.assert_allclose(values, want)


def test_the_first_decisions_use_it():
    rows, rewards = log(3000)
    learner = bandit(policy="greedy")
    learner.warm_start(rows, rewards, public=False)
    offered = np.array([[0.9, 0, -0.3], [-0.9, 0, 0.3]])
    assert {learner.decide(offered).action for _ in range(20)} == {0}
    assert learner.rounds == 20


# -- when ------------------------------------------------------------------------------------------


def test_it_comes_first_and_once():
    rows, rewards = log()
    learner = bandit()
    learner.warm_start(rows, rewards, public=False)
    with pytest.raises(ValueError, match="once"):
        learner.warm_start(rows, rewards, public=False)
    learner = bandit()
    learner.decide(np.eye(3))
    with pytest.raises(ValueError, match="before the first decision"):
        learner.warm_start(rows, rewards, public=True)


@pytest.mark.parametrize(
    "options",
    [
        {"trust": "local"},
        {"trust": "shuffled"},
        {"policy": "descent"},
        {"people": People(visits="first")},
    ],
)
def test_it_is_refused_where_its_cost_is_not_known(options):
    with pytest.raises(ValueError, match="log"):
        bandit(**options).warm_start(*log(), public=False)


def test_people__a_public_log_is_a_prior_for_those_who_come_back():
    learner = bandit(people=People(visits="first"))
    learner.warm_start(*log(), public=True)
    assert learner.guarantee.releases == ()
    assert np.linalg.norm(learner.theta) > 0


def test_an_interrupt_leaves_nothing_behind(monkeypatch):
    learner = bandit()
    before = learner.state_dict()["state"]

    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(module, "replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        learner.warm_start(*log(), public=False)
    monkeypatch.undo()
    assert learner.guarantee.releases == ()
    assert np.array_equal(learner.theta, bandit().theta)
    learner.warm_start(*log(), public=False)
    assert before.keys() == learner.state_dict()["state"].keys()


def test_a_saved_state_goes_on_with_what_the_log_taught(tmp_path):
    learner = bandit()
    learner.warm_start(*log(), public=False)
    theta, releases = learner.theta.copy(), learner.guarantee.releases
    learner.save(tmp_path / "state")
    del learner
    again = LinearBandit.load(tmp_path / "state")
    assert np.array_equal(again.theta, theta)
    assert again.guarantee.releases == releases
    with pytest.raises(ValueError, match="once"):
        again.warm_start(*log(), public=False)
