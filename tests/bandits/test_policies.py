import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from discreet.bandits import LinearBandit
from discreet.bandits.belief import Belief
from discreet.bandits.policies import (
    Elimination,
    Greedy,
    Interval,
    Mixed,
    SquareCB,
    Stage,
    Thompson,
    Ucb,
    Uniform,
    spanner,
)
from discreet.bandits.tuning import TUNING
from discreet.privacy import SeededNoise

RNG = np.random.default_rng(0)
D = 3
MEAN = np.array([0.5, -0.3, 0.2])
ROOT = np.array([[0.3, 0.0, 0.0], [0.1, 0.2, 0.0], [0.0, -0.1, 0.4]])

POLICIES = {
    "uniform": Uniform(),
    "greedy": Greedy(MEAN),
    "ucb": Ucb(MEAN, ROOT, 2.0),
    "thompson": Thompson(MEAN + 0.5 * RNG.standard_normal((64, D)) @ ROOT.T),
    "mixed": Mixed(0.3, Ucb(MEAN, ROOT, 2.5), Greedy(MEAN)),
    "mixed of random ones": Mixed(0.6, Uniform(), SquareCB(MEAN, 0.3)),
    "squarecb": SquareCB(MEAN, 0.2),
    "elimination": Elimination((Interval(MEAN, ROOT, 1.0), Interval(MEAN, ROOT, 0.5))),
}


def features(n, actions, d=D, seed=0):
    z = np.random.default_rng(seed).standard_normal((n, actions, d))
    return z / np.maximum(1, np.linalg.norm(z, axis=2, keepdims=True))


@pytest.mark.parametrize("name", POLICIES)
@pytest.mark.parametrize("actions", [1, 2, 9])
def test_policy__probabilities_are_exactly_those_of_choose(name, actions):
    # An even grid of coins: each action is an interval (or few) of them, so frequencies differ
    # from the probabilities by a few steps of the grid at most. No randomness, no false alarm.
    policy, steps = POLICIES[name], 6400
    coins = (np.arange(steps) + 0.5) / steps
    for offered in features(5, actions, seed=actions):
        probabilities = policy.probabilities(offered[None])[0]
        assert probabilities.shape == (actions,)
        assert probabilities.min() >= 0
        assert probabilities.sum() == pytest.approx(1, abs=1e-12)
        chosen = policy.choose(np.broadcast_to(offered, (steps, actions, D)), coins)
        seen = np.bincount(chosen, minlength=actions) / steps
        assert np.abs(seen - probabilities).max() <= 2 * actions / steps
        assert (probabilities[np.unique(chosen)] > 0).all(), "what was chosen must be possible"


@pytest.mark.parametrize("name", POLICIES)
def test_policy__many_rounds_equal_single_ones_bit_by_bit(name):
    policy, X, coins = POLICIES[name], features(300, 7), np.random.default_rng(1).random(300)
    many = policy.choose(X, coins)
    probabilities = policy.probabilities(X)
    for i in range(300):
        assert policy.choose_one(X[i], float(coins[i])) == many[i]
        assert policy.draw_one(X[i], float(coins[i])) == (many[i], probabilities[i, many[i]])
        assert policy.choose(X[i : i + 1], coins[i : i + 1])[0] == many[i]
        assert np.array_equal(policy.probabilities(X[i : i + 1])[0], probabilities[i])


@pytest.mark.parametrize("name", POLICIES)
@pytest.mark.parametrize("d", [1, 3, 16, 33])
def test_policy__ties_are_broken_alike_by_one_many_and_probabilities(name, d):
    # Equal rows among many: if the last bit of their values depended on how they were computed,
    # the action taken could have probability 0.
    rng = np.random.default_rng(d)
    mean, root = rng.standard_normal(d), rng.standard_normal((d, d)) / d
    policy = {
        "uniform": Uniform(),
        "greedy": Greedy(mean),
        "ucb": Ucb(mean, root, 2.0),
        "thompson": Thompson(mean + rng.standard_normal((16, d)) @ root.T),
        "mixed": Mixed(0.3, Ucb(mean, root, 2.5), Greedy(mean)),
        "mixed of random ones": Mixed(0.6, Uniform(), SquareCB(mean, 0.3)),
        "squarecb": SquareCB(mean, 0.2),
        "elimination": Elimination((Interval(mean, root, 1.0),)),
    }[name]
    for actions in (2, 5, 13):
        X = features(60, actions, d, seed=actions)
        X[:, :] = X[:, rng.integers(0, 2, actions)]
        coins = rng.random(60)
        many, probabilities = policy.choose(X, coins), policy.probabilities(X)
        ones = [policy.choose_one(x, float(c)) for x, c in zip(X, coins, strict=True)]
        assert many.tolist() == ones
        alone = np.array([policy.probabilities(x[None])[0] for x in X])
        assert np.array_equal(alone, probabilities)
        assert (probabilities[np.arange(60), many] > 0).all()


@pytest.mark.parametrize("name", POLICIES)
@pytest.mark.parametrize("actions", [1, 2, 3, 5, 7, 1000])
def test_policy__the_ends_of_the_coin_choose_an_action_that_exists(name, actions):
    policy, X = POLICIES[name], features(4, actions)
    coins = np.array([0.0, 2.0**-1074, 0.3, 1 - 2.0**-53])
    chosen = policy.choose(X, coins)
    assert ((chosen >= 0) & (chosen < actions)).all()
    assert (policy.probabilities(X)[np.arange(4), chosen] > 0).all()


@pytest.mark.parametrize("name", POLICIES)
def test_policy__rows_of_zeros_and_ties_are_fine(name):
    policy, X = POLICIES[name], np.zeros((2, 5, D))
    X[1] = MEAN
    probabilities = policy.probabilities(X)
    assert np.allclose(probabilities.sum(axis=1), 1)
    assert np.isfinite(probabilities).all()
    chosen = policy.choose(X, np.array([0.2, 0.9]))
    assert (probabilities[[0, 1], chosen] > 0).all()


def test_greedy__and_ucb_maximise_their_formula():
    X = features(200, 6)
    coins = np.zeros(200)
    greedy, ucb = Greedy(MEAN).choose(X, coins), Ucb(MEAN, ROOT, 2.0).choose(X, coins)
    covariance = ROOT @ ROOT.T
    for i, offered in enumerate(X):
        means = [phi @ MEAN for phi in offered]
        upper = [phi @ MEAN + 2.0 * math.sqrt(phi @ covariance @ phi) for phi in offered]
        assert greedy[i] == int(np.argmax(means))
        assert ucb[i] == int(np.argmax(upper))
    assert (greedy != ucb).sum() > 20


def test_thompson__each_draw_decides_an_equal_share_of_the_coins():
    policy, X = POLICIES["thompson"], features(1, 5)
    preferred = [int(np.argmax(X[0] @ draw)) for draw in policy.draws]
    coins = (np.arange(64) + 0.5) / 64
    assert policy.choose(np.repeat(X, 64, axis=0), coins).tolist() == preferred
    assert np.array_equal(policy.probabilities(X)[0], np.bincount(preferred, minlength=5) / 64)


def test_mixed__takes_the_first_policy_in_its_share_of_the_coins():
    X, coins = features(1000, 6), np.random.default_rng(0).random(1000)
    policy = POLICIES["mixed"]
    expected = np.where(
        coins < 0.3, policy.one.choose(X, coins), policy.other.choose(X, coins)
    )  # both ignore their coin
    assert np.array_equal(policy.choose(X, coins), expected)


@given(st.integers(0, 2**32), st.integers(1, 12), st.floats(1e-4, 1.0))
def test_squarecb__equals_the_paper(seed, actions, error):
    # Algorithm 17: p(a) = 1 / (|A| + gamma (f(a^) - f(a))) for a != a^, the rest on a^, with
    # gamma = sqrt(|A|) / E where E is the root mean square error of f.
    (offered,) = features(1, actions, seed=seed)
    gamma = math.sqrt(actions) / error
    f = [float(phi @ MEAN) for phi in offered]
    best = int(np.argmax(f))
    expected = [1 / (actions + gamma * (f[best] - f[a])) for a in range(actions)]
    expected[best] = 1 - sum(p for a, p in enumerate(expected) if a != best)
    actual = SquareCB(MEAN, error).probabilities(offered[None])[0]
    assert np.allclose(actual, expected, atol=1e-12)
    assert actual[best] >= 1 / actions - 1e-12
    assert actual.min() > 0


def test_squarecb__no_error_left_is_greedy():
    X = features(50, 6)
    best = np.argmax(X @ MEAN, axis=1)
    assert (SquareCB(MEAN, 0.0).choose(X, np.full(50, 0.5)) == best).all()


@given(st.integers(0, 2**32), st.integers(1, 12), st.integers(1, 5))
def test_elimination__never_removes_the_best_while_intervals_are_true(seed, actions, windows):
    rng = np.random.default_rng(seed)
    theta = rng.standard_normal(D)
    theta /= np.linalg.norm(theta)
    intervals = []
    for _ in range(windows):  # |<phi, mean - theta>| <= width |root' phi|: the mean is inside
        root = rng.standard_normal((D, D)) * rng.uniform(0.01, 1)
        u = rng.standard_normal(D)
        u *= rng.random() / np.linalg.norm(u)
        intervals.append(Interval(theta + 1.5 * root @ u, root, 1.5, most=math.inf))
    X = features(20, actions, seed=seed % 1000)
    policy = Elimination(tuple(intervals))
    best = np.argmax(X @ theta, axis=1)
    alive = np.ones(X.shape[:2], dtype=bool)
    for each in intervals:
        low, high = each.ends(X)
        assert (low <= X @ theta + 1e-9).all()
        assert (high >= X @ theta - 1e-9).all()
        alive &= high >= low.max(axis=1, keepdims=True)
    assert alive[np.arange(20), best].all()
    # With at most as many survivors as dimensions they all stay; else a spanner of them does.
    probabilities = policy.probabilities(X)
    few = alive.sum(axis=1) <= D
    assert np.array_equal(probabilities[few] > 0, alive[few])
    assert ((probabilities > 0) <= alive).all()
    assert (probabilities[np.arange(20), best] > 0)[few].all()
    for row in probabilities:
        assert np.allclose(row[row > 0], row.max()), "uniform over those that are left"


def test_elimination__when_nobody_is_left_the_last_survivors_count():
    X = np.eye(3)[None]
    sure = 1e-3 * np.eye(3)
    first = Interval(np.array([1.0, 0.0, 0.0]), sure, 1.0)  # only action 0
    last = Interval(np.array([0.0, 1.0, 1.0]), sure, 1.0)  # only actions 1 and 2
    assert Elimination((first,)).probabilities(X)[0].tolist() == [1, 0, 0]
    assert Elimination((first, last)).probabilities(X)[0].tolist() == [0, 0.5, 0.5]
    assert Elimination((last, first)).probabilities(X)[0].tolist() == [1, 0, 0]
    # Round by round: the second round's survivors are not touched by the first's conflict.
    both = np.array([np.eye(3), np.zeros((3, 3))])
    probabilities = Elimination((first, last)).probabilities(both)
    assert np.allclose(probabilities, [[0, 0.5, 0.5], [1 / 3] * 3])


def test_interval__is_no_wider_than_most():
    X = features(50, 4)
    low, high = Interval(MEAN, 100 * ROOT, 3.0, most=0.7).ends(X)
    assert np.allclose((low + high) / 2, X @ MEAN)
    assert (high - low).max() == pytest.approx(1.4)
    low, high = Interval(MEAN, ROOT, 3.0, most=math.inf).ends(X)
    assert np.allclose((high - low) / 2, 3 * np.linalg.norm(X @ ROOT, axis=2))


KINDS = ["sphere", "low rank", "scales", "copies", "more dimensions", "zeros", "tiny"]


@given(st.integers(0, 2**32), st.sampled_from(KINDS))
def test_spanner__every_row_is_a_combination_with_coefficients_within_two(seed, kind):
    rng = np.random.default_rng(seed)
    n, d = int(rng.integers(1, 30)), int(rng.integers(1, 7))
    rows = rng.standard_normal((n, d))
    if kind == "low rank":
        rows = rng.standard_normal((n, 2)) @ rng.standard_normal((2, d))
    elif kind == "scales":
        rows = rows * np.geomspace(1, 1e-4, d)
    elif kind == "copies":
        rows = rows[rng.integers(0, min(n, 2), n)]
    elif kind == "more dimensions":
        rows = rows[:1]
    elif kind == "zeros":
        rows[rng.random(n) < 0.7] = 0
    elif kind == "tiny":
        rows *= 1e-12
    chosen = spanner(rows)
    assert 1 <= len(chosen) <= min(rows.shape)
    assert len(set(chosen.tolist())) == len(chosen)
    assert (np.diff(chosen) > 0).all()
    coefficients, *_ = np.linalg.lstsq(rows[chosen].T, rows.T, rcond=1e-14)
    assert np.abs(coefficients).max() <= 2 + 1e-6
    size = np.abs(rows).max()
    assert np.allclose(coefficients.T @ rows[chosen], rows, atol=1e-7 * size)


@pytest.mark.parametrize(("d", "cosine"), [(4, 0.9), (5, 0.7), (6, 0.5), (6, 0.9)])
def test_spanner__swaps_where_the_greedy_start_is_not_good_enough(d, cosine):
    # Kahan's example: pivoting takes the first d rows, and the last one would need coefficients
    # of 2.5 to 11.7 of them.
    sine = math.sqrt(1 - cosine**2)
    kahan = sine ** np.arange(d)[:, None] * (np.eye(d) - cosine * np.triu(np.ones((d, d)), 1))
    last = 0.999 * sine ** (d - 1) * np.eye(d)[-1]
    rows = np.vstack([kahan.T * (1 + 1e-9 * np.arange(d, 0, -1)[:, None]), last])
    assert np.abs(rows @ np.linalg.inv(rows[:d])).max() > 2.5
    chosen = spanner(rows)
    assert d in chosen
    assert np.abs(rows @ np.linalg.inv(rows[chosen])).max() <= 2


def test_spanner__takes_all_of_a_basis_and_one_of_nothing():
    assert spanner(np.eye(4)).tolist() == [0, 1, 2, 3]
    assert spanner(np.zeros((5, 3))).tolist() == [0]
    # A start that is not good enough: the third row is 10 times the volume of the second.
    assert spanner(np.array([[1.0, 0.0], [0.99, 0.01], [0.99, 0.1]])).tolist() == [0, 2]


@pytest.mark.parametrize(("may_clip", "times"), [(True, 1), (False, TUNING.unclipped_tries)])
def test_ucb__explores_as_many_first_windows_as_residuals_need(may_clip, times):
    # A proven row stands out of the release's noise; unclipped rewards hide it for longer.
    belief = Belief.prior(D, 0.1, may_clip=may_clip)
    first = 2 * TUNING.tries * D

    def exploring(size):
        return Ucb.following(Stage(belief, 500, size, first, lambda: RNG, Uniform())).fraction

    assert exploring(10_000) == pytest.approx(times * first / 10_000)
    assert exploring(first) == TUNING.exploring  # never more than this part of a window


def test_ucb__explores_no_more_where_nothing_follows_that_could_use_it():
    belief = Belief.prior(D, 0.1)
    stage = Stage(belief, 500, 1000, 50, lambda: RNG, Uniform(), last=True)
    assert type(Ucb.following(stage)) is Greedy
    kinds = []
    bandit = LinearBandit(D, 400, 1.0, seed=0, noise=SeededNoise(0))
    while bandit.rounds < 500:
        features = np.broadcast_to(np.eye(D), (10, D, D))
        bandit.learn_many(bandit.decide_many(features), np.zeros(10))
        kinds.append(type(bandit.policy).__name__)
    assert "Mixed" in kinds
    assert kinds[-10:] == ["Greedy"] * 10  # in the last window, and after the horizon
    assert kinds.index("Greedy") == len(kinds) - kinds.count("Greedy")
