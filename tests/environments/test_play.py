"""The loop: what a learner meets, what is counted, and that the way of playing changes nothing."""

import numpy as np

from discreet.bandits import LinearBandit, baselines
from discreet.environments import play, world
from discreet.environments.linear import linear_world
from discreet.environments.playing import play_losses
from discreet.privacy import SeededNoise
from papers.sparse_arms import sparse_arms


class Uniform:
    """Draws an action; remembers what it was shown."""

    def __init__(self, actions, seed=0):
        self.actions = actions
        self.rng = np.random.default_rng(seed)
        self.seen = []
        self.told = []

    def decide(self, features):
        self.seen.append(features)
        return type("Decision", (), {"action": int(self.rng.integers(self.actions))})

    def learn(self, decision, reward):
        self.told.append((decision.action, reward))


class Single:
    """A learner without its batches: decide and learn only."""

    def __init__(self, learner):
        self.decide = learner.decide
        self.learn = learner.learn


def bandit(rounds, seed=3):
    return LinearBandit(3, rounds, 1.0, seed=seed, noise=SeededNoise(seed))


def test_play__window_by_window_is_the_same_as_one_by_one():
    place = linear_world("sphere", dim=3, seed=3)
    windows = play(bandit(700), place, 700, seed=3)
    single = play(Single(bandit(700)), place, 700, seed=3)
    np.testing.assert_array_equal(windows.regret, single.regret)
    np.testing.assert_array_equal(windows.uniform, single.uniform)


def test_play__people_do_not_depend_on_the_learner(monkeypatch):
    monkeypatch.setattr("discreet.environments.playing.NUMBERS", 4 * 10 * 3)  # blocks of 4 people
    place = world("rare", dim=3, seed=0)
    one, other = Uniform(10, seed=0), Uniform(10, seed=1)
    first = play(one, place, 30, seed=5)
    second = play(other, place, 30, seed=5)
    np.testing.assert_array_equal(one.seen, other.seen)
    np.testing.assert_array_equal(first.uniform, second.uniform)
    assert (first.regret != second.regret).any()


def test_play__rewards_are_those_of_the_chosen_actions_and_regret_is_expected():
    place = linear_world("half", dim=4, actions=5, seed=1)
    learner = Uniform(5)
    played = play(learner, place, 200, seed=1)
    people = place.people(200, np.random.default_rng([1, 1]))
    actions, rewards = np.array(learner.told).T
    actions = actions.astype(int)
    np.testing.assert_array_equal(rewards, people.rewards(actions, np.random.default_rng([1, 2])))
    np.testing.assert_array_equal(played.regret, people.regret(actions))
    np.testing.assert_array_equal(played.uniform, people.best - people.means.mean(axis=1))


def test_play__a_drifting_world_is_told_the_round(monkeypatch):
    monkeypatch.setattr("discreet.environments.playing.NUMBERS", 10 * 5 * 7)  # blocks of 7 people
    place = world("switch", period=10, seed=0)
    starts = []

    class Watched:
        n_actions, dim = place.n_actions, place.dim

        def people(self, n, rng, start=0):
            starts.append((start, n))
            return place.people(n, rng, start=start)

    play(Uniform(10), Watched(), 20, seed=0)
    assert starts == [(0, 7), (7, 7), (14, 6)]


def test_play__a_context_for_all_arms_is_a_world_too():
    place = sparse_arms(3, 40, nonzero=2, seed=0)
    learner = Uniform(3)
    played = play(learner, place, 50, seed=2)
    X = place.contexts(50, np.random.default_rng([2, 1]))
    np.testing.assert_array_equal(learner.seen, X)
    means = place.means(X)
    chosen = means[np.arange(50), [action for action, _ in learner.told]]
    np.testing.assert_allclose(played.regret, means.max(axis=1) - chosen)
    reward_rng = np.random.default_rng([2, 2])
    expected = [min(max(m + 0.1 * reward_rng.standard_normal(), -1.0), 1.0) for m in chosen]
    np.testing.assert_allclose([reward for _, reward in learner.told], expected)


def test_play__clock_and_progress_are_told():
    parts, rounds = [], []
    learner = baselines.LinUCB(3, 300, seed=0)
    place = linear_world("sphere", dim=3, seed=0)
    play(learner, place, 300, seed=0, clock=parts.append, progress=rounds.append)
    assert sum(rounds) == 300
    assert set(parts) == {"environment", "learner", "runner"}


def test_play_losses__the_learner_is_told_the_loss_of_its_decision():
    told = []

    class Alternating:
        def __init__(self):
            self.t = 0

        def decide(self):
            self.t += 1
            return self.t % 2

        def learn(self, decision, loss):
            told.append((decision, loss))

    losses = np.arange(10.0).reshape(5, 2)
    suffered = play_losses(Alternating(), lambda t, d: losses.item(t, d), 5)
    np.testing.assert_array_equal(suffered, [1.0, 2.0, 5.0, 6.0, 9.0])
    assert told == [(1, 1.0), (0, 2.0), (1, 5.0), (0, 6.0), (1, 9.0)]
