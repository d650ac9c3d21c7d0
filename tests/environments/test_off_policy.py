from dataclasses import dataclass, replace
from functools import cache

import numpy as np
import pytest

from discreet.bandits import LinearBandit
from discreet.environments import world
from discreet.environments.logs import Log
from discreet.environments.off_policy import METHODS, policy_value, predicted_rewards, replay
from discreet.privacy import SeededNoise

N, RUNS = 600, 400


def softmax(scores):
    chances = np.exp(scores)
    return chances / chances.sum(axis=1, keepdims=True)


def logged_by(lean, people, rng):
    """A log of a policy that likes actions by their third feature."""
    chances = softmax(lean * people.features[:, :, 2])
    actions = (rng.random((len(people), 1)) > np.cumsum(chances, axis=1)[:, :-1]).sum(axis=1)
    taken = chances[np.arange(len(people)), actions]
    rewards = people.rewards(actions, rng)
    return Log(
        "made", people.features, actions, rewards, taken, chances.shape[1], (0.0, 1.0), chances
    )


def policy_of(people):
    """One that likes the second feature, and the third more than the logger does."""
    return softmax(2 * people.features[:, :, 1] + 3 * people.features[:, :, 2])


@cache
def truth():
    people = world("half", dim=4, actions=4, seed=0).people(400_000, np.random.default_rng(7))
    return np.einsum("na,na->n", policy_of(people), people.means).mean()


@cache
def trials(method, change=lambda log: log):
    """Estimates minus the truth, and the same in standard errors, of many logs."""
    each, scores, misses = world("half", dim=4, actions=4, seed=0), [], []
    for seed in range(RUNS):
        rng = np.random.default_rng(seed)
        people = each.people(N, rng)
        found = policy_value(change(logged_by(1.5, people, rng)), policy_of(people), method=method)
        misses.append(found.value - truth())
        scores.append(misses[-1] / found.standard_error)
        assert (found.low <= truth() <= found.high) == (abs(scores[-1]) <= 1.959964)
    return np.array(scores), np.array(misses)


@pytest.mark.parametrize("method", METHODS)
def test_policy_value__estimates_are_unbiased_and_their_intervals_cover(method):
    # 400 logs: a fraction of 95% has std 1.1%; the mean error is taken in units of its own std.
    scores, misses = trials(method)
    assert 0.91 < np.mean(np.abs(scores) < 1.96) < 0.985
    assert abs(misses.mean()) < 4.5 * misses.std() / np.sqrt(RUNS)
    assert 0.85 < scores.std() < 1.15


def evenly(log):
    uniform = np.full(len(log), 1 / log.n_actions)
    return Log(log.name, log.features, log.actions, log.rewards, uniform, log.n_actions)


def test_policy_value__wrong_propensities_fail_the_same_test():
    scores, misses = trials("ips", evenly)
    assert np.mean(np.abs(scores) < 1.96) < 0.8
    assert abs(misses.mean()) > 10 * misses.std() / np.sqrt(RUNS)


def test_policy_value__snips_follows_a_shift_of_all_rewards_and_ips_grows_noisy():
    rng = np.random.default_rng(0)
    people = world("half", dim=4, actions=4, seed=0).people(N, rng)
    log, policy = logged_by(1.5, people, rng), policy_of(people)
    high = replace(log, rewards=0.9 + 0.1 * log.rewards)
    before, after = (policy_value(each, policy, method="snips") for each in (log, high))
    assert after.value == pytest.approx(0.9 + 0.1 * before.value)
    assert after.standard_error == pytest.approx(0.1 * before.standard_error)
    assert policy_value(high, policy, method="ips").standard_error > 3 * after.standard_error


def test_policy_value__dr_with_the_right_predictions_has_no_luck_of_rewards_in_it():
    rng = np.random.default_rng(0)
    people = replace(world("half", dim=4, actions=4, seed=0).people(N, rng), distribution="known")
    log, policy = logged_by(1.5, people, rng), policy_of(people)
    value = np.einsum("na,na->n", policy, people.means)
    found = policy_value(log, policy, predictions=people.means)
    assert found.value == pytest.approx(value.mean())
    assert found.standard_error == pytest.approx(value.std(ddof=1) / np.sqrt(N))
    assert policy_value(log, policy, method="ips").standard_error > 1.5 * found.standard_error


def small():
    return Log(
        "small",
        np.arange(12.0).reshape(3, 2, 2) / 20,
        np.array([0, 1, 1]),
        np.array([1.0, 0.5, 0.0]),
        np.array([0.5, 0.25, 0.8]),
        2,
    )


def test_policy_value__equals_the_formulas_by_hand():
    policy = np.array([[0.2, 0.8], [0.5, 0.5], [1.0, 0.0]])
    w = np.array([0.2 / 0.5, 0.5 / 0.25, 0.0])
    r = np.array([1.0, 0.5, 0.0])
    q = np.array([[0.3, 0.6], [0.1, 0.2], [0.9, 0.4]])
    assert policy_value(small(), policy, method="ips").value == pytest.approx((w * r).mean())
    snips = policy_value(small(), policy, method="snips")
    assert snips.value == pytest.approx((w * r).sum() / w.sum())
    error = np.sqrt((w**2 * (r - snips.value) ** 2).sum() * 3 / 2) / w.sum()
    assert snips.standard_error == pytest.approx(error)
    dr = (policy * q).sum(axis=1) + w * (r - q[[0, 1, 2], [0, 1, 1]])
    found = policy_value(small(), policy, predictions=q)
    assert found.value == pytest.approx(dr.mean())
    assert found.standard_error == pytest.approx(dr.std(ddof=1) / np.sqrt(3))
    assert found.high - found.value == pytest.approx(1.959964 * found.standard_error)


def test_policy_value__the_logging_policy_is_worth_what_it_earned():
    rng = np.random.default_rng(0)
    log = logged_by(1.5, world("half", dim=4, actions=4, seed=0).people(N, rng), rng)
    for method in ("ips", "snips"):
        found = policy_value(log, log.all_propensities, method=method)
        assert found.value == pytest.approx(log.mean_reward)
        assert found.effective_sample_size == pytest.approx(N)
        assert found.largest_weight == pytest.approx(1)
        assert found.concerns == ()


def test_policy_value__overlap_equals_its_definition():
    found = policy_value(small(), [[0.2, 0.8], [0.5, 0.5], [1.0, 0.0]], method="ips")
    assert found.effective_sample_size == pytest.approx(2.4**2 / (0.4**2 + 2**2))
    assert found.largest_weight == pytest.approx(2.0)
    assert found.unsupported is None
    assert "only 1 effective decisions" in found.concerns


def test_policy_value__overlap_says_how_much_was_never_tried():
    n = 1000
    chances = np.tile([0.5, 0.5, 0.0], (n, 1))
    log = Log("two of three", np.ones((n, 3, 1)), np.arange(n) % 2, np.ones(n), np.full(n, 0.5), 3,
              all_propensities=chances)  # fmt: skip
    found = policy_value(log, [0.2, 0.2, 0.6], method="ips")
    assert found.unsupported == pytest.approx(0.6)
    assert any("60.0%" in said for said in found.concerns)
    assert policy_value(log, [0.5, 0.5, 0.0], method="ips").unsupported == 0


def test_predicted_rewards__no_row_is_predicted_from_its_own_fold():
    rng = np.random.default_rng(0)
    log = logged_by(1.5, world("half", dim=4, actions=4, seed=0).people(N, rng), rng)
    q = predicted_rewards(log)
    changed = log.rewards.copy()
    changed[::5] = 1 - changed[::5]  # fold 0
    again = predicted_rewards(Log("", log.features, log.actions, changed, log.propensities, 4))
    assert np.allclose(q[::5], again[::5], rtol=0, atol=1e-12)
    assert not np.allclose(q[1::5], again[1::5])


def test_predicted_rewards__is_ridge_regression_of_the_other_folds():
    rng = np.random.default_rng(0)
    log = logged_by(1.5, world("half", dim=4, actions=4, seed=0).people(2500, rng), rng)
    rows = log.features[np.arange(2500), log.actions]
    others = np.arange(2500) % 5 != 3
    X, y = rows[others], log.rewards[others] - 0.5
    theta = np.linalg.solve(X.T @ X + np.eye(4), X.T @ y)
    q = predicted_rewards(log)
    assert np.allclose(q[3::5], np.clip(log.features[3::5] @ theta + 0.5, 0, 1))


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"method": "magic"}, "method must"),
        ({"confidence": 1.0}, "confidence must"),
        ({"policy": [0.5, 0.6]}, "sum to 1"),
        ({"policy": [1.5, -0.5]}, "sum to 1"),
        ({"policy": [1.0]}, "shape"),
        ({"policy": [np.nan, 1.0]}, "finite"),
        ({"method": "ips", "predictions": np.zeros((3, 2))}, "predictions are for"),
        ({"predictions": np.zeros((3, 3))}, "predictions must"),
    ],
    ids=str,
)
def test_policy_value__bad_arguments_are_refused(change, told):
    given = {"policy": [0.5, 0.5], **change}
    with pytest.raises(ValueError, match=told):
        policy_value(small(), **given)


def test_policy_value__a_policy_that_was_never_logged_is_refused_by_snips():
    log = Log("one", np.ones((4, 2, 1)), np.zeros(4, dtype=int), np.ones(4), np.ones(4), 2)
    with pytest.raises(ValueError, match="never does"):
        policy_value(log, [0.0, 1.0], method="snips")


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"rewards": np.zeros(2)}, "one length"),
        ({"actions": np.array([0, 2, 1])}, "integers"),
        ({"actions": np.array([0.0, 1.0, 1.0])}, "integers"),
        ({"rewards": np.array([0.0, 2.0, 0.0])}, "reward_range"),
        ({"rewards": np.array([0.0, np.nan, 0.0])}, "finite"),
        ({"propensities": np.array([0.5, 0.0, 0.5])}, "propensities must"),
        ({"propensities": np.array([0.5, 1.2, 0.5])}, "propensities must"),
        ({"all_propensities": np.full((3, 2), 0.5)}, "agree"),
        ({"reward_range": (1.0, 0.0)}, "low < high"),
    ],
    ids=str,
)
def test_log__bad_columns_are_refused(change, told):
    fields = {name: getattr(small(), name) for name in Log.__dataclass_fields__}
    with pytest.raises(ValueError, match=told):
        Log(**{**fields, **change})


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
