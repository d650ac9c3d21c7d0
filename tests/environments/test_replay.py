from dataclasses import dataclass

import numpy as np
import pytest

from discreet.bandits import LinearBandit
from discreet.environments import Log, replay, world
from discreet.privacy import SeededNoise


@dataclass
class Choice:
    action: int


class Always:
    """One action for everybody; remembers what it was taught."""

    def __init__(self, action):
        self.action, self.taught = action, []

    def decide(self, features):
        self.offered = features
        return Choice(self.action)

    def learn(self, decision, reward):
        assert decision.action == self.action
        self.taught.append(reward)


def log_of(n, chances, seed=0, name="half"):
    """A log by a policy that prefers another half of the actions for each half of the people."""
    rng = np.random.default_rng([seed, 5])
    people = world(name, dim=4, actions=len(chances), seed=0).people(n, rng)
    flip = people.features[:, 0, 1] > 0
    probabilities = np.where(flip[:, None], np.array(chances), np.array(chances)[::-1])
    actions = (rng.random((n, 1)) > np.cumsum(probabilities, axis=1)[:, :-1]).sum(axis=1)
    rewards = people.rewards(actions, rng)
    propensities = probabilities[np.arange(n), actions]
    return people, Log("made", people.features, actions, rewards, propensities, len(chances))


def test_replay__only_decisions_that_agree_with_the_log_are_learnt():
    _, log = log_of(3000, [0.5, 0.3, 0.2])
    learner = Always(1)
    run = replay(learner, log, seed=0)
    assert (log.actions[run.kept] == 1).all()
    assert learner.taught == log.rewards[run.kept].tolist() == run.rewards.tolist()
    assert (np.diff(run.kept) > 0).all()
    assert np.array_equal(learner.offered, log.features[-1:][0])
    assert run.decisions == 3000


def test_replay__everybody_is_kept_equally_often_so_the_value_is_that_of_a_live_run():
    # A person's first action is worth more if feature 1 is positive, and then it is logged more
    # often: agreement alone favours such people. 20,000 rows, kept with probability .2: 4,000.
    people, log = log_of(20_000, [0.5, 0.3, 0.2])
    rich = people.features[:, 0, 1] > 0
    run = replay(Always(0), log, seed=1)
    assert len(run.kept) == pytest.approx(0.2 * 20_000, abs=6 * np.sqrt(3200))
    assert rich[run.kept].mean() == pytest.approx(rich.mean(), abs=0.045)  # 6 deviations
    low, high = run.interval(0.9999)
    assert low < people.means[:, 0].mean() < high
    agreed = np.flatnonzero(log.actions == 0)
    assert rich[agreed].mean() > rich.mean() + 0.1, "agreement alone would fail this test"


def test_replay__the_seed_decides_which_rows_are_kept():
    _, log = log_of(2000, [0.7, 0.3])
    one, same, other = (replay(Always(0), log, seed=s).kept for s in (1, 1, 2))
    assert np.array_equal(one, same)
    assert not np.array_equal(one, other)


def test_replay__with_even_propensities_every_agreement_is_kept():
    _, log = log_of(2000, [0.5, 0.5])
    assert np.array_equal(replay(Always(1), log, seed=0).kept, np.flatnonzero(log.actions == 1))


def test_replay__a_private_learner_learns_from_a_log():
    people, log = log_of(12_000, [0.25] * 4)
    bandit = LinearBandit(4, len(log), 2.0, reward_range=(0, 1), seed=0, noise=SeededNoise(0))
    run = replay(bandit, log, seed=0)
    late = run.rewards[len(run.rewards) // 2 :]
    # The best is worth .65 here and chance .5; 1,500 zeros and ones have deviation .013.
    assert people.best.mean() > 0.6
    assert late.mean() > log.mean_reward + 0.06


def test_replay__nothing_kept_is_no_value():
    log = Log("one", np.ones((4, 2, 1)), np.zeros(4, dtype=int), np.ones(4), np.ones(4), 2)
    run = replay(Always(1), log, seed=0)
    assert len(run.kept) == 0
    assert np.isnan(run.value)
    assert np.isnan(run.interval()).all()
