"""What every bandit must do. To hold another learner to it, add a line to `LEARNERS`; one that the
registry has and this list has not fails.

A factory takes keyword arguments of the constructor that all share (horizon, seed, ...); rewards
lie in [0, 1], features have DIM entries.
"""

import json
import math

import numpy as np
import pytest
from registry import REGISTRY, Contextual

from discreet.bandits import Decision, LinearBandit
from discreet.bandits.baselines import ContinualLinUCB, LinUCB, LocalLinUCB, LocalSGDBandit
from discreet.bandits.linear import POLICIES
from discreet.privacy import SeededNoise

DIM, T = 3, 400
THETA = np.array([0.5, -0.4, 0.3])


def linear(**fixed):
    def make(**more):
        common = {"dim": DIM, "epsilon": 3.0, "seed": 1, "noise": SeededNoise(2)}
        return LinearBandit(**{**common, "reward_range": (0.0, 1.0), **fixed, **more})

    return make


def linucb(**more):
    return LinUCB(**{"dim": DIM, "seed": 1, "reward_range": (0.0, 1.0), **more})


def baseline(learner):
    def make(**more):
        common = {"dim": DIM, "horizon": T, "epsilon": 3.0, "seed": 1, "noise": SeededNoise(2)}
        return learner(**{**common, "reward_range": (0.0, 1.0), **more})

    return make


LEARNERS = {
    **{f"LinearBandit {policy}": linear(policy=policy) for policy in POLICIES},
    "LinearBandit elimination theory": linear(policy="elimination", width="theory"),
    "LinearBandit sgd squarecb": linear(estimator="sgd", policy="squarecb"),
    "LinearBandit sgd greedy": linear(estimator="sgd", policy="greedy"),
    "LinearBandit logistic": linear(link="logistic"),
    "LinearBandit without privacy": linear(epsilon=math.inf),
    "LinearBandit, 3 contributions": linear(contributions=3),
    "LinUCB": linucb,
    "ContinualLinUCB": baseline(ContinualLinUCB),
    "LinearBandit local": linear(trust="local"),
    "LinearBandit local ucb": linear(trust="local", policy="ucb"),
    "LocalLinUCB": baseline(LocalLinUCB),
    "LocalSGDBandit": baseline(LocalSGDBandit),
}

every = pytest.mark.parametrize("make", LEARNERS.values(), ids=LEARNERS)


def contexts(n=T, actions=4, seed=0):
    z = np.random.default_rng(seed).standard_normal((n, actions, DIM))
    return z / np.linalg.norm(z, axis=2, keepdims=True)


def rewards(rows, seed=0):
    noise = np.random.default_rng(seed).uniform(-0.1, 0.1, len(rows))
    return np.clip(0.5 + rows @ THETA / 2 + noise, 0, 1)


def play(learner, X, by=37):
    """Actions, with rewards for each `by` rounds at once: windows end anywhere."""
    actions = []
    for start in range(0, len(X), by):
        chosen = learner.decide_many(X[start : start + by])
        assert learner.learn_many(chosen, rewards(chosen.rows, learner.rounds)) == 0
        actions.extend(chosen.action.tolist())
    return actions


def assert_same(one, other):
    """The same state, but for the random names of learners and of their streams."""
    a, b = one.state_dict(), other.state_dict()
    assert a.keys() == b.keys()
    for key in a.keys() - {"name", "sums.run"}:
        assert np.array_equal(a[key], b[key]), key


def test_learners__hold_every_bandit_of_the_registry():
    known = {e.of for e in REGISTRY.values() if isinstance(e.family, Contextual)}
    assert known == {type(make()) for make in LEARNERS.values()}


@every
def test_bandit__the_same_seeds_give_the_same_run(make):
    X = contexts()
    one, other = make(), make()
    assert play(one, X) == play(other, X)
    assert_same(one, other)
    assert one.rounds == T


@every
@pytest.mark.parametrize("ragged", [False, True])
def test_bandit__many_decisions_equal_single_ones(make, ragged):
    X = contexts()
    offered = [x[: 1 + t % 4] for t, x in enumerate(X)] if ragged else X
    one, many = make(), make()
    for learner in (one, many):
        play(learner, X[:100])
    singles = [one.decide(x) for x in offered[100:350]]
    chosen = many.decide_many(offered[100:350])
    assert chosen.action.tolist() == [each.action for each in singles]
    assert chosen.round.tolist() == [each.round for each in singles]
    assert np.array_equal(chosen.rows, [each.row for each in singles])
    assert np.array_equal(chosen.probability, [each.probability for each in singles])
    assert_same(one, many)


@every
def test_bandit__every_decision_carries_its_true_law(make):
    learner = make()
    play(learner, contexts(200))
    for decision in learner.decide_many(contexts(20, seed=5)):
        law = decision.probabilities
        assert law.shape == (4,)
        assert law.min() >= 0
        assert law.sum() == pytest.approx(1)
        assert decision.probability == law[decision.action] > 0
        steps = 256
        coins = (np.arange(steps) + 0.5) / steps
        again = decision.policy.choose(np.broadcast_to(decision.offered, (steps, 4, DIM)), coins)
        seen = np.bincount(again, minlength=4) / steps
        assert np.abs(seen - law).max() <= 10 / steps


@every
def test_bandit__rounds_until_release_is_how_long_the_policy_stays(make):
    learner, X = make(), contexts()
    t = 0
    while t < 300:
        n = learner.rounds_until_release
        assert n >= 1
        n = min(n, 300 - t)
        chosen = learner.decide_many(X[t : t + n])
        assert len(chosen.policies) == 1
        learner.learn_many(chosen, rewards(chosen.rows, t))
        t += n


@every
def test_bandit__rewards_in_an_open_window_do_not_reach_its_policy(make):
    X, one, other = contexts(), make(), make()
    for learner in (one, other):
        play(learner, X[:150])
    n = min(one.rounds_until_release, 100)
    for x in X[150 : 150 + n]:
        a, b = one.decide(x), other.decide(x)
        assert a.action == b.action
        assert np.array_equal(a.probabilities, b.probabilities)
        one.learn(a, 1.0)
        other.learn(b, 0.0)


@every
def test_bandit__learns_late_out_of_order_or_not_at_all(make):
    learner, X = make(), contexts()
    waiting = [learner.decide(x) for x in X[:300]]
    for i in np.random.default_rng(0).permutation(300)[:200]:
        learner.learn(waiting[i], 0.5)
    play(learner, X[300:])
    missing = next(i for i in range(300) if not learner._rewarded[i])
    learner.learn(waiting[missing], 1.0)
    with pytest.raises(ValueError, match="reward"):
        learner.learn(waiting[missing], 1.0)


@every
def test_bandit__refuses_bad_rewards_alone_and_says_nothing_about_them(make):
    learner, twin = make(), make()
    chosen, same = learner.decide_many(contexts(6)), twin.decide_many(contexts(6))
    for reward in (math.nan, math.inf, 1.625, -0.375):
        with pytest.raises(ValueError, match="reward") as caught:
            learner.learn(chosen[0], reward)
        assert str(reward) not in str(caught.value)
    assert learner.learn_many(chosen, [math.nan, 0.5, 1.625, 0.25, -0.375, 0.75]) == 3
    twin.learn_many([same[1], same[3], same[5]], [0.5, 0.25, 0.75])
    assert_same(learner, twin)
    assert learner.learn_many(chosen, [0.1, 0.5, 0.2, 0.25, 0.3, 0.75]) == 3


@every
def test_bandit__refuses_decisions_it_did_not_make(make):
    learner, other = make(), make()
    mine, foreign = learner.decide(contexts(1)[0]), other.decide(contexts(1)[0])
    before = learner.state_dict()
    for wrong in (foreign, None, mine.to_dict()):
        with pytest.raises(ValueError, match="this learner"):
            learner.learn(wrong, 0.5)
    future = Decision.from_dict({**mine.to_dict(), "round": 1})
    with pytest.raises(ValueError, match="never made"):
        learner.learn(future, 0.5)
    after = learner.state_dict()
    assert all(np.array_equal(after[k], before[k]) for k in before)


@every
@pytest.mark.parametrize(
    "features",
    [np.zeros(DIM), np.zeros((2, DIM + 1)), np.zeros((0, DIM)), np.full((2, DIM), np.nan)],
    ids=["flat", "wide", "nobody", "nan"],
)
def test_bandit__refuses_bad_features_and_changes_nothing(make, features):
    learner, fresh = make(), make()
    with pytest.raises(ValueError, match="features"):
        learner.decide(features)
    with pytest.raises(ValueError, match="features"):
        learner.decide_many([np.zeros((2, DIM)), features])
    assert_same(learner, fresh)


@every
def test_bandit__long_rows_count_as_rows_on_the_bound(make):
    learner, X = make(), contexts(200)
    for start in (0, 100):
        long = X[start : start + 100] * np.random.default_rng(0).uniform(1, 1e6, (100, 4, 1))
        chosen = learner.decide_many(long)
        assert np.allclose(chosen.rows, X[start + np.arange(100), chosen.action])
        learner.learn_many(chosen, rewards(chosen.rows))
    short = learner.decide(0.5 * X[0])
    assert np.allclose(short.row, 0.5 * X[0, short.action])


@every
def test_bandit__a_record_through_json_counts_once(make):
    learner, twin, X = make(), make(), contexts(10)
    decision, same = learner.decide(X[0]), twin.decide(X[0])
    record = json.loads(json.dumps(decision.to_dict()))
    back = Decision.from_dict(record)
    assert back.probability == decision.probability
    learner.learn(back, 0.5)
    twin.learn(same, 0.5)
    assert_same(learner, twin)
    with pytest.raises(ValueError, match="reward"):
        learner.learn(decision, 0.5)


@every
@pytest.mark.parametrize("stop", [0, 1, 150])
def test_bandit__resumes_to_the_same_future(make, stop, tmp_path):
    X, whole = contexts(), make()
    play(whole, X[:stop])
    waiting = whole.decide(X[stop])
    whole.save(tmp_path / "state.npz")
    resumed = type(whole).load(tmp_path / "state.npz")
    for learner in (whole, resumed):
        learner.learn(waiting, 0.5)
    assert play(resumed, X[stop + 1 :]) == play(whole, X[stop + 1 :])
    assert resumed.guarantee == whole.guarantee
    assert_same(resumed, whole)
    assert [p.name for p in tmp_path.iterdir()] == ["state.npz"]


@every
def test_bandit__refuses_an_old_state(make):
    learner = make()
    play(learner, contexts(50))
    old = learner.state_dict()
    play(learner, contexts(50))
    now = learner.state_dict()
    with pytest.raises(ValueError, match="exact differences"):
        learner.load_state_dict(old)
    after = learner.state_dict()
    assert all(np.array_equal(after[k], now[k]) for k in now)


@every
def test_bandit__past_the_horizon_the_policy_stays(make):
    learner, X = make(horizon=60), contexts(160)
    play(learner, X[:60])
    first = learner.decide(X[60])
    assert not learner.learning
    promise = learner.guarantee
    learner.learn(first, 1.0)
    chosen = learner.decide_many(X[61:])
    assert learner.learn_many(chosen, np.ones(len(chosen))) == 0
    assert len(chosen.policies) == 1
    assert np.array_equal(chosen[0].policy.probabilities(X), first.policy.probabilities(X))
    assert learner.guarantee == promise


@every
def test_bandit__its_promise_is_computed_and_can_be_read(make):
    learner = make()
    play(learner, contexts())
    promise = learner.guarantee
    assert promise.trust in ("joint", "local")
    assert promise.releases
    assert promise.unprotected
    assert promise.reference
    if promise.private:
        spent = promise.epsilon_at(promise.delta)
        assert 0 < spent <= promise.epsilon * (1 + 1e-9)
        assert "SIMULATION ONLY" in promise.statement()
    else:
        assert promise.epsilon_at(1e-6) == math.inf
        assert "NO PRIVACY" in promise.statement()
    assert json.loads(json.dumps(promise.to_dict()))["trust"] == promise.trust


@every
def test_bandit__state_does_not_grow_with_rounds(make):
    # But for one bit a round, and a line of the ledger (an interval) for each window.
    def numbers(learner):
        state = {k: np.asarray(v) for k, v in learner.state_dict().items() if k != "rewarded"}
        return sum(v.size for k, v in state.items() if not k.startswith("interval"))

    learner = make(horizon=20_000)
    play(learner, contexts(500), by=250)
    before = numbers(learner)
    play(learner, contexts(4000), by=1000)
    assert numbers(learner) <= before + 16 * DIM
    assert learner.state_dict()["rewarded"].nbytes == math.ceil(4500 / 8)


@every
def test_bandit__one_action_and_ties_are_fine(make):
    learner = make()
    assert set(play(learner, contexts(60, actions=1))) == {0}
    zero = learner.decide_many(np.zeros((60, 3, DIM)))
    assert (zero.probability > 0).all()
    assert learner.learn_many(zero, np.zeros(60)) == 0
    assert learner.decide(np.zeros((3, DIM))).probability > 0


@every
def test_state__from_before_a_reward_was_taken_is_refused(make):
    """Under local trust the reward would be reported a second time, with fresh noise."""
    learner = make(horizon=T)
    X = contexts(5)
    decision = learner.decide(X[0])
    before = learner.state_dict()
    learner.learn(decision, 0.5)
    with pytest.raises(ValueError, match="older"):
        learner.load_state_dict(before)
