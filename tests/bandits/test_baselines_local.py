import math

import numpy as np
import pytest

from discreet.bandits.baselines.local import LocalLinUCB, LocalSGDBandit
from discreet.environments.linear import linear_world
from discreet.privacy import SeededNoise

LEARNERS = [LocalLinUCB, LocalSGDBandit]


def make(kind, seed=0, epsilon=4.0, **more):
    return kind(3, None, epsilon, seed=seed, noise=SeededNoise(seed), **more)


def play(bandit, rounds, seed=0):
    world, rng = linear_world("sphere", 3, seed=seed), np.random.default_rng([seed, 1])
    people = world.people(rounds, rng)
    regret = done = 0
    while done < rounds:
        some = people[done : done + bandit.rounds_until_release]
        decisions = bandit.decide_many(some.features)
        bandit.learn_many(decisions, some.rewards(decisions.action, rng))
        regret += some.regret(decisions.action).sum()
        done += len(some)
    return regret, (people.best - people.means.mean(axis=1)).sum()


@pytest.mark.parametrize("kind", LEARNERS)
def test_baselines__learning_beats_uniform_play(kind):
    for seed in range(3):
        regret, uniform = play(make(kind, seed), 10_000, seed)
        assert regret < uniform / 2


@pytest.mark.parametrize("kind", LEARNERS)
def test_baselines__decide_many_is_many_times_decide(kind):
    one, many = make(kind), make(kind)
    play(one, 500)
    play(many, 500)
    features = linear_world("sphere", 3, seed=0).people(200, np.random.default_rng(0)).features
    together = many.decide_many(features)
    assert [one.decide(each).action for each in features] == together.action.tolist()


@pytest.mark.parametrize("kind", LEARNERS)
def test_baselines__saving_and_loading_changes_no_future(kind, tmp_path):
    bandit, stopped = make(kind), make(kind)
    assert play(bandit, 300) == play(stopped, 300)
    stopped.save(tmp_path / "state.npz")
    again = kind.load(tmp_path / "state.npz")
    assert play(bandit, 500, 5) == play(again, 500, 5)


@pytest.mark.parametrize("k", [1, 4])
@pytest.mark.parametrize("kind", LEARNERS)
def test_baselines__the_promise_is_that_of_the_channel(kind, k):
    bandit = make(kind, epsilon=2.0, contributions=k)
    assert bandit.guarantee.releases == ()
    play(bandit, 100)
    promise = bandit.guarantee
    assert (promise.trust, promise.epsilon, promise.delta) == ("local", 2.0, 0.0)
    assert promise.epsilon_at(0.0) == pytest.approx(2.0)
    assert bandit._window.vectors.report_epsilon * k == pytest.approx(2.0)


class Watched:
    """A channel that remembers how long its inputs were."""

    def __init__(self, channel):
        self.channel, self.longest = channel, 0.0

    def __getattr__(self, name):
        return getattr(self.channel, name)

    def privatize(self, V, noise, clip):
        self.longest = max(self.longest, np.linalg.norm(V, axis=1).max())
        return self.channel.privatize(V, noise, clip=clip)


def opened(kind, theta=None, epsilon=4.0):
    bandit = make(kind, epsilon=epsilon)
    bandit.turn()
    if theta is not None:
        bandit._window.theta = theta
    return bandit


@pytest.mark.parametrize("length", [0.0, 0.4, 100.0])
@pytest.mark.parametrize("kind", LEARNERS)
def test_baselines__what_enters_the_channel_has_norm_at_most_one_and_reaches_it(kind, length):
    bandit = opened(kind, np.array([length, 0.0, 0.0]))
    bandit._window.vectors = Watched(bandit._window.vectors)
    rows = np.repeat([[1.0, 0.0, 0.0], [-1.0, 0.0, 0.0], [0.0, 0.0, 0.0]], 4, axis=0)
    bandit.window.fold(rows, np.tile([1.0, 1.0, -1.0, -1.0], 3))
    assert 0.99 < bandit._window.vectors.longest <= 1.0  # without clipping


def test_baselines__without_privacy_linucb_solves_the_normal_equations():
    bandit = opened(LocalLinUCB, epsilon=math.inf)
    rng = np.random.default_rng(0)
    X, y = rng.uniform(-0.5, 0.5, (400, 3)), rng.uniform(-1, 1, 400)
    bandit.window.fold(X, y)
    bandit.rounds = bandit._end
    bandit.turn()
    A = X[::2].T @ X[::2] / 200 + np.eye(3) / 400
    assert np.allclose(bandit.policy.mean, np.linalg.solve(A, X[1::2].T @ y[1::2] / 200))


def test_baselines__without_privacy_sgd_is_batched_gradient_descent():
    bandit, theta, seen = opened(LocalSGDBandit, epsilon=math.inf), np.zeros(3), 0
    rng = np.random.default_rng(0)
    for n in (50, 20, 10):
        X, y = rng.uniform(-0.5, 0.5, (n, 3)), rng.uniform(-1, 1, n)
        bandit.window.fold(X, y)
        bandit.rounds = bandit._end
        bandit.turn()
        seen += n
        theta = theta - min(3 / seen, 1 / n) * X.T @ (np.clip(X @ theta, -1, 1) - y)
        assert np.allclose(bandit.policy.mean, theta)
