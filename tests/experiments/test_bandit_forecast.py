"""The forecast of a bandit: the learner on a stand-in, read from public things only."""

import itertools
import math

import numpy as np
import pytest

from discreet.bandits import LinearBandit
from discreet.cli import main
from discreet.environments.linear import linear_world
from discreet.experiments.bandit_forecast import Forecast, Stream, forecast
from discreet.privacy import SeededNoise


def played(seed, *, dim, rounds, epsilon, trust="joint"):
    """Regret in a fresh world: no pool, no stand-in, one decision record after another."""
    world, rng = linear_world("sphere", dim=dim, seed=seed), np.random.default_rng(seed)
    bandit = LinearBandit(dim, rounds, epsilon, trust=trust, seed=seed, noise=SeededNoise(seed))
    regret = 0.0
    while bandit.rounds < rounds:
        people = world.people(min(bandit.rounds_until_release, rounds - bandit.rounds), rng)
        decisions = bandit.decide_many(people.features)
        bandit.learn_many(decisions, people.rewards(decisions.action, rng))
        regret += float(people.regret(decisions.action).sum())
    return regret


@pytest.mark.parametrize(("trust", "epsilon", "runs"), [("joint", 1.0, 24), ("local", 3.0, 6)])
def test_forecast__is_what_fresh_runs_measure(trust, epsilon, runs):
    # Single runs deviate by up to half of the mean (local: a sixth), so the ratio of two means by
    # a seventh. A factor of 1.6 is 3.3 deviations: one false alarm in 1,000, and seeds are fixed.
    # A forecast that is twice or half the truth passes once in 16.
    guess = forecast(Stream(5, 20_000), epsilon, trust=trust, runs=runs).expected
    fresh = [played(900 + seed, dim=5, rounds=20_000, epsilon=epsilon, trust=trust)
             for seed in range(runs)]  # fmt: skip
    assert 1 / 1.6 < guess / np.mean(fresh) < 1.6


def test_forecast__more_epsilon_less_regret_and_sooner():
    lines = [forecast(Stream(4, 10_000), e, runs=6) for e in (0.2, 1.0, 5.0, math.inf)]
    for less, more in itertools.pairwise(lines):
        assert less.expected > 1.5 * more.expected
        assert less.better_after > more.better_after
    assert [line.trust for line in lines] == ["joint", "joint", "joint", "none"]


def test_forecast__delta_contributions_and_noise_are_used():
    base = forecast(Stream(4, 5000), 1.0, runs=6)
    assert forecast(Stream(4, 5000, delta=1e-15), 1.0, runs=6).expected > 1.2 * base.expected
    often = forecast(Stream(4, 5000, contributions=5), 1.0, runs=6)
    assert often.expected > 2 * base.expected
    weak = forecast(Stream(4, 5000, gap=0.05), 1.0, runs=6)
    noisy = forecast(Stream(4, 5000, gap=0.05, noise=0.8), 1.0, runs=6)
    assert noisy.fraction > weak.fraction > base.fraction


def test_forecast__people_who_come_again():
    """Few people: their first visits teach too little, and counting all of them costs noise."""
    stream = {"features": 4, "rounds": 5000}
    everybody = forecast(Stream(**stream, people=10**6), 1.0, runs=6)
    few = forecast(Stream(**stream, people=100), 1.0, runs=6)
    shared = forecast(Stream(**stream, people=10**6, visits="all"), 1.0, runs=6)
    assert few.expected > 1.5 * everybody.expected
    assert shared.expected > 1.2 * everybody.expected
    with pytest.raises(ValueError, match="leave out contributions"):
        Stream(**stream, people=10, contributions=2)
    with pytest.raises(ValueError, match="in place of people"):
        forecast(Stream(**stream, people=10), 1.0, trust="local", runs=1)


def test_forecast__repeats_itself_and_the_seed_changes_it():
    first, again, other = (forecast(Stream(3, 500), 1.0, runs=2, seed=s) for s in (0, 0, 1))
    assert np.array_equal(first.regret, again.regret)
    assert not np.array_equal(first.regret, other.regret)


def test_forecast__no_better_than_uniform_when_privacy_is_too_strong():
    line = forecast(Stream(20, 1000), 0.1, trust="local", runs=4)
    assert line.better_after == math.inf
    assert line.fraction == pytest.approx(1.0, abs=0.15)


def test_forecast__better_after_is_the_last_time_above_half():
    rounds = np.array([0.0, 10.0, 20.0, 30.0, 40.0])
    per_round = np.array([[1.0, 0.2, 0.7, 0.0], [1.0, 0.4, 0.5, 0.2]])
    regret = np.hstack([np.zeros((2, 1)), np.cumsum(10 * per_round, axis=1)])
    assert Forecast("joint", 1.0, rounds, regret, uniform=1.0).better_after == 30  # means .6, .1
    assert Forecast("joint", 1.0, rounds, regret, uniform=1.5).better_after == 10  # limit .75
    assert Forecast("joint", 1.0, rounds, regret, uniform=0.1).better_after == math.inf
    assert Forecast("joint", 1.0, rounds, regret, uniform=3.0).better_after == 0
    line = Forecast("joint", 1.0, rounds, regret, uniform=1.0)
    assert (line.expected, line.worst) == (pytest.approx(20.0), pytest.approx(21.0))
    assert line.median == pytest.approx(20.0)
    assert line.fraction == pytest.approx(20 / 40)


def test_stream__gap_is_what_a_uniform_choice_loses():
    lines = [forecast(Stream(6, 2000, gap=gap), math.inf, runs=8) for gap in (0.02, 0.3)]
    assert [line.uniform for line in lines] == pytest.approx([0.02, 0.3], rel=0.05)


def test_stream__clicks_are_yes_or_no_of_the_given_mean():
    stream = Stream(4, 1000, clicks=0.1, gap=0.05)
    assert stream.dim == 5  # the constant is one of the learner's features
    rng = np.random.default_rng(0)
    people = stream.world(3).people(5000, rng)
    assert np.linalg.norm(people.features, axis=2).max() <= 1 + 1e-12
    means = people.means
    assert 0 <= means.min() < means.max() <= 1
    assert means.mean() == pytest.approx(0.1, abs=0.002)
    assert np.mean(means.max(axis=1) - means.mean(axis=1)) == pytest.approx(0.05, rel=0.1)
    assert set(people.rewards(np.zeros(5000, dtype=int), rng)) == {0.0, 1.0}
    assert forecast(stream, math.inf, runs=2).uniform == pytest.approx(0.05, rel=0.1)


def test_stream__draws_from_the_public_sample():
    rng = np.random.default_rng(0)
    rows = np.eye(4)[:3] * 0.5
    offered = Stream(rows, 1000, actions=2).contexts(500, rng)
    assert offered.shape == (500, 2, 4)
    assert np.allclose(offered.sum(axis=(0, 1)) / 500, [1 / 3, 1 / 3, 1 / 3, 0], atol=0.04)
    sets = np.stack([rows, -rows])
    stream = Stream(sets, 1000)
    assert stream.offered == 3
    offered = stream.contexts(500, rng)
    assert all((each == rows).all() or (each == -rows).all() for each in offered)
    assert 150 < np.sum(offered[:, 0, 0] > 0) < 350


def test_stream__public_rows_of_a_round_are_different_and_all_equally_likely():
    rows = np.eye(6) / 2
    offered = Stream(rows, 1000, actions=3).contexts(4000, np.random.default_rng(0))
    places = offered.argmax(axis=2)
    assert all(len(set(each)) == 3 for each in places)
    for position in places.T:  # 4,000 / 6 = 667 each, +- 24: 4.6 deviations
        assert np.bincount(position, minlength=6) == pytest.approx(np.full(6, 667), abs=110)
    pairs = np.bincount(6 * places[:, 0] + places[:, 1], minlength=36).reshape(6, 6)
    assert pairs[~np.eye(6, dtype=bool)] == pytest.approx(np.full(30, 133), abs=53)


def test_stream__as_many_rows_as_actions_are_the_same_actions_every_round():
    rows = np.random.default_rng(0).standard_normal((7, 3)) / 5
    stream = Stream(rows, 1000)
    assert stream.offered == 7
    for offered in stream.contexts(20, np.random.default_rng(1)):
        assert np.array_equal(np.sort(offered[:, 0]), np.sort(rows[:, 0]))


def test_stream__theta_has_coins_of_its_own():
    coins = np.random.default_rng(5).standard_normal(4)  # what a bandit of this seed draws
    theta = Stream(4, 1000).world(5).theta
    assert abs(float(theta @ coins)) < 0.9 * np.linalg.norm(coins)


def test_forecast__one_run_in_twenty_lies_outside_of_the_interval():
    # Of 40 fresh runs 38 +- 1.4 lie inside; 33 are 3.5 deviations. An interval a third as long
    # (on the log scale) holds 19 +- 3.2 of them, and fails here.
    guess = forecast(Stream(2, 200), 3.0, runs=20)
    fresh = forecast(Stream(2, 200), 3.0, runs=40, seed=1).regret[:, -1]
    low, high = guess.interval
    assert low < guess.median < high
    assert np.sum((low < fresh) & (fresh < high)) >= 33
    middle = math.sqrt(low * high)
    third = (high / middle) ** (1 / 3)
    assert np.sum((middle / third < fresh) & (fresh < middle * third)) < 33


def test_stream__a_public_sample_that_is_not_a_sphere_changes_the_forecast():
    flat = np.random.default_rng(0).standard_normal((2000, 5)) * np.arange(1, 6) ** -3.0
    flat /= np.maximum(1, np.linalg.norm(flat, axis=1, keepdims=True))
    sample, sphere = (forecast(Stream(x, 3000), 1.0, runs=4) for x in (flat, 5))
    assert sample.uniform < 0.9 * sphere.uniform


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rounds": 99}, "rounds must be at least 100"),
        ({"rounds": 10**9}, "rounds must be at most"),
        ({"features": 1}, "dim must be at least 2"),
        ({"features": 151}, "at most 150 features"),
        ({"features": np.ones((3, 2))}, "norm at most 1"),
        ({"features": np.zeros(3)}, "rows .n, d. or action sets"),
        ({"features": np.zeros((5, 3, 2)), "actions": 3}, "leave out actions"),
        ({"features": np.zeros((5, 1, 2))}, "actions must be at least 2"),
        ({"actions": 1}, "actions must be at least 2"),
        ({"features": np.eye(4), "actions": 5}, "only 4 rows: give more rows"),
        ({"noise": 0.0}, "noise must be positive"),
        ({"noise": 2.0}, "noise is relative to the reward bound"),
        ({"clicks": 1.0}, "clicks must lie between 0 and 1"),
        ({"clicks": 0.5, "noise": 0.5}, "clicks or noise, not both"),
        ({"features": np.full((4, 2), 0.5)}, "look alike"),
        ({"gap": 0.9}, "gap must be at most 0.6"),
        ({"gap": 0.1, "clicks": 0.1}, "gap must be at most 0.06"),
        ({"gap": -1.0}, "gap must be positive"),
        ({"delta": 0.0}, "delta must lie between 0 and 1"),
        ({"contributions": 0}, "contributions must be at least 1"),
    ],
)
def test_stream__says_what_is_wrong(options, message):
    with pytest.raises(ValueError, match=message):
        Stream(**{"features": 5, "rounds": 1000, **options})


def test_runs__long_forecasts_have_fewer_runs():
    settings = [("none", math.inf), ("joint", 1.0), ("local", 1.0)]
    short, long = (Stream(5, rounds).runs(settings) for rounds in (1000, 10**6))
    assert short == 60
    assert long == 7


def test_cli__forecasts_a_bandit(capsys, tmp_path, monkeypatch):
    monkeypatch.setattr("discreet.experiments.bandit_forecast.SECONDS", 0.1)
    monkeypatch.setenv("COLUMNS", "80")
    arguments = ["forecast", "--rounds", "3000", "--dim", "4", "--actions", "5", "--trust", "both"]
    assert main([*arguments, "--epsilon", "3,1", "--out", str(tmp_path / "new")]) == 0
    shown = capsys.readouterr()
    for word in ("3,000 rounds", "5 actions", "4 features on a sphere", "none", "joint", "local",
                 "uniform", "better after", "regret", "one run", "d/epsilon", "never",
                 "spread evenly over a sphere"):  # fmt: skip
        assert word in shown.out
    assert "…" not in shown.out  # nothing is cut off
    assert shown.err == ""  # no progress bar in a file
    assert (tmp_path / "new" / "forecast.png").read_bytes().startswith(b"\x89PNG")


def test_cli__forecasts_people(capsys, tmp_path, monkeypatch):
    monkeypatch.setattr("discreet.experiments.bandit_forecast.SECONDS", 0.1)
    arguments = ["forecast", "--rounds", "500", "--dim", "3", "--epsilon", "1", "--people", "90"]
    assert main([*arguments, "--visits", "all", "--out", str(tmp_path)]) == 0
    assert "90 people, all visits count" in " ".join(capsys.readouterr().out.split())
    with pytest.raises(SystemExit):
        main([*arguments[:-2], "--visits", "all", "--out", str(tmp_path)])


@pytest.mark.parametrize("shape", [(50, 3), (20, 4, 3)])
def test_cli__forecasts_a_bandit_on_a_public_sample(capsys, tmp_path, monkeypatch, shape):
    monkeypatch.setattr("discreet.experiments.bandit_forecast.SECONDS", 0.1)
    np.save(tmp_path / "public.npy", np.random.default_rng(0).standard_normal(shape))
    arguments = ["forecast", "--rounds", "500", "--public-sample", str(tmp_path / "public.npy")]
    options = ["--norm-bound", "2", "--epsilon", "1", "--contributions", "2"]
    assert main([*arguments, *options, "--out", str(tmp_path)]) == 0
    text = capsys.readouterr().out
    assert "3 features as public" in text
    assert "over a sphere" not in text
    assert f"{shape[1] if len(shape) == 3 else 10} actions" in text
    assert "2 contributions" in text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--rounds", "1000"], "give either --dim D or --public-sample FILE"),
        (["--rounds", "1000", "--rows", "1000", "--dim", "3"], "not both"),
        (["--rounds", "1000", "--dim", "3", "--target", "0.1"], "--target goes with --rows"),
        (["--dim", "3", "--actions", "4"], "--actions goes with --rounds"),
        (["--rounds", "1000", "--dim", "3", "--noise", "1", "--clicks", ".1"], "not both"),
        (["--dim", "3", "--gap", "0.1"], "--gap goes with --rounds"),
        (["--rounds", "1000", "--dim", "3", "--trust", "central"], "trust must be one of joint"),
        (["--rounds", "1000", "--dim", "3", "--epsilon", "0"], "epsilon must be positive"),
        (["--rounds", "1000", "--dim", "3", "--delta", "2"], "delta"),
    ],
)
def test_cli__mistakes_in_a_bandit_forecast_are_one_clear_line(arguments, message, capsys):
    with pytest.raises(SystemExit) as stop:
        main(["forecast", *arguments])
    assert stop.value.code == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


def test_forecast__shuffled_trust_lies_between_the_other_two():
    stream = Stream(features=3, rounds=8000)
    found = {
        trust: forecast(stream, 1.0, trust=trust, runs=4).expected
        for trust in ("joint", "shuffled", "local")
    }
    assert found["joint"] < found["shuffled"] < found["local"]


def test_stream__noise_as_large_as_the_bound_is_plus_and_minus_one():
    world = Stream(3, 1000, noise=1.0).world(0)
    rng = np.random.default_rng(0)
    people = world.people(50, rng)
    assert set(people.rewards(np.zeros(50, dtype=int), rng)) == {-1.0, 1.0}
    assert Stream(3, 1000, noise=0.5).world(0).distribution == "gaussian"
