import math

import numpy as np
import pytest

from discreet.bandits import LinearBandit, Model
from discreet.bandits.belief import Belief
from discreet.privacy import SeededNoise
from discreet.state.values import decode, encode

DIM = 6
BLOCKS = (0, 0, 0, 1, 1, 1)  # two actions, three kinds of people


def made(typical_reward=None, reward_range=(0.0, 1.0), **options):
    model = Model(blocks=BLOCKS, typical_reward=typical_reward)
    return LinearBandit(
        DIM, reward_range=reward_range, model=model, seed=0, noise=SeededNoise(0), **options
    )


def played(bandit, rounds=1500, scale=1.0):
    """After rewards of which a tenth are not 0."""
    rng = np.random.default_rng(0)
    while bandit.rounds < rounds:
        n = min(bandit.rounds_until_release, rounds - bandit.rounds)
        kinds = np.eye(3)[rng.integers(3, size=n)]
        rows = np.einsum("ab,nk->nabk", np.eye(2), kinds).reshape(n, 2, DIM)
        decided = bandit.decide_many(rows)
        bandit.learn_many(decided, scale * (rng.random(n) < 0.1))
    return bandit


def test_typical_reward__scales_the_prior_of_weights_and_intercept():
    stated, plain = made(0.03).belief, made().belief
    assert stated.radius == pytest.approx(0.06 * plain.radius)  # .03 of half a range
    assert stated.intercept_std == pytest.approx(0.06)
    assert np.allclose(stated.covariance, 0.06**2 * plain.covariance, rtol=1e-12)
    assert np.array_equal(stated.mean, plain.mean)
    assert stated.reward_variance == plain.reward_variance  # a coin's, however seldom it is 1


def test_typical_reward__is_what_is_expected_before_anything_is_known():
    assert made(0.03).intercept == pytest.approx(0.03)
    assert made(0.03, (-1.0, 0.0)).intercept == pytest.approx(-0.03)
    assert made(0.5, (1.0, 2.0)).intercept == pytest.approx(1.0)
    assert made().intercept == pytest.approx(0.5)


def test_typical_reward__smaller_signals_take_a_longer_first_window():
    plain, small, large = (made(each).rounds_until_release for each in (None, 0.05, 0.9))
    assert plain == large
    assert small == pytest.approx(10 * plain, rel=0.01)
    assert made(0.05, horizon=900).rounds_until_release == 300


def test_typical_reward__rewards_far_beyond_it_are_not_clipped():
    assert not made(0.03).belief.may_clip
    assert made(0.6).belief.may_clip


def test_typical_reward__is_in_units_of_the_rewards():
    one, other = played(made(0.03)), played(made(0.3, (0.0, 10.0)), scale=10.0)
    assert np.allclose(10 * one.theta, other.theta, rtol=1e-9)
    assert 10 * one.intercept == pytest.approx(other.intercept)
    low, high = (made(typical, (-2.0, 2.0)).belief.radius for typical in (0.2, None))
    assert low == pytest.approx(0.1 * high)


@pytest.mark.parametrize(("reward_range", "half"), [((0.0, 1.0), 0.5), ((-1.0, 1.0), 1.0)])
def test_typical_reward__is_half_of_the_range_unless_stated(reward_range, half):
    stated, plain = (played(made(each, reward_range)) for each in (half, None))
    assert np.array_equal(stated.theta, plain.theta)
    assert np.array_equal(stated.belief.covariance, plain.belief.covariance)
    assert not np.array_equal(played(made(0.1, reward_range)).theta, plain.theta)


@pytest.mark.parametrize("value", [0, -0.1, math.nan, math.inf, "small"])
def test_typical_reward__bad_values_are_refused(value):
    with pytest.raises(ValueError, match="typical_reward"):
        Model(typical_reward=value)


def test_typical_reward__is_no_larger_than_the_largest_reward():
    assert made(2.0, (0.0, 2.0)).belief.intercept_std == 2.0
    with pytest.raises(ValueError, match="at most the largest reward, 2, got 2"):
        made(2.1, (0.0, 2.0))


def test_typical_reward__belongs_to_the_identity():
    with pytest.raises(ValueError, match="link='logistic' does not measure"):
        Model("logistic", typical_reward=0.1)


@pytest.mark.parametrize("more", [{"policy": "descent"}, {"trust": "local"}])
def test_typical_reward__is_refused_where_there_is_no_such_prior(more):
    with pytest.raises(ValueError, match=r"takes no Model\(typical_reward=\)"):
        LinearBandit(5, model=Model(typical_reward=0.1), **more)


def test_typical_reward__is_kept_when_the_radius_grows_and_in_intervals():
    bandit = played(made(0.03))
    constant, prior = bandit.belief.constant, bandit.belief.prior_precision(5.0)
    assert prior[-1, -1] == pytest.approx((constant / 0.06) ** 2)
    assert np.allclose(np.diag(prior)[:-1], (DIM + 1) / 25)


def test_typical_reward__is_resumed(tmp_path):
    whole, stopped = played(made(0.03), 3000), played(made(0.03), 900)
    stopped.save(tmp_path / "state.npz")
    resumed = LinearBandit.load(tmp_path / "state.npz")
    assert resumed.model == Model(blocks=BLOCKS, typical_reward=0.03)
    assert resumed.belief.intercept_std == pytest.approx(0.06)
    turns = [played(each, 3000) for each in (resumed, played(made(0.03), 900))]
    assert np.array_equal(turns[0].theta, turns[1].theta)
    assert whole.belief.windows == resumed.belief.windows


def test_typical_reward__a_state_from_before_it_has_the_default():
    plain = encode(Belief.prior(2, 0.1, constant=0.3))
    del plain["of"]["intercept_std"]
    assert decode(plain).intercept_std == 1.0
    del plain["of"]["radius"]  # which has no default: the state is damaged
    with pytest.raises(KeyError):
        decode(plain)
