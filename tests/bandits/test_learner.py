"""Rounds, rewards, records and states: what every bandit shares, on LinearBandit."""

import json
import math
import re

import numpy as np
import pytest

from discreet.bandits import Decision, LinearBandit
from discreet.bandits.learner import FOREVER
from discreet.bandits.window import SENSITIVITY
from discreet.privacy import SeededNoise

D = 3
THETA = np.array([0.6, -0.5, 0.3])


def make(**more):
    return LinearBandit(D, **{"epsilon": 3.0, "seed": 1, "noise": SeededNoise(2), **more})


def contexts(n, actions=5, seed=0):
    z = np.random.default_rng(seed).standard_normal((n, actions, D))
    return z / np.linalg.norm(z, axis=2, keepdims=True)


def rewards(rows, seed=0):
    noise = np.random.default_rng(seed).uniform(-0.1, 0.1, len(rows))
    return np.clip(rows @ THETA + noise, -1, 1)


def play(bandit, X, by=None):
    actions = []
    while len(actions) < len(X):
        n = min(by or bandit.rounds_until_release, len(X) - len(actions))
        chosen = bandit.decide_many(X[len(actions) : len(actions) + n])
        assert bandit.learn_many(chosen, rewards(chosen.rows, bandit.rounds)) == 0
        actions.extend(chosen.action.tolist())
    return actions


def total(bandit):
    return bandit._estimator._sum.value.copy()


def same_state(one, other):
    names = ("name", "estimator.ledger.run")  # of this learner and its ledger alone
    a, b = ({k: v for k, v in x.state_dict().items() if k not in names} for x in (one, other))
    return str(a) == str(b)


# -- deciding --------------------------------------------------------------------------------------


def test_decide__one_coin_for_a_round_whatever_the_number_of_actions():
    for actions in (1, 2, 50):
        bandit, coins = make(), np.random.default_rng(1)
        bandit.decide_many(contexts(30, actions))
        for offered in contexts(15, actions):
            bandit.decide(offered)
        coins.random(45)
        assert bandit._coins.bit_generator.state == coins.bit_generator.state


def test_decide__the_number_of_actions_may_change_from_round_to_round():
    X = [contexts(1, 1 + t % 7, seed=t)[0] for t in range(200)]
    one, many = make(), make()
    for bandit in (one, many):
        play(bandit, contexts(60), by=20)
    singles = [one.decide(offered) for offered in X]
    chosen = many.decide_many(X)
    assert chosen.action.tolist() == [each.action for each in singles]
    assert all(a < len(offered) for a, offered in zip(chosen.action, X, strict=True))
    assert np.allclose(chosen.probability, [each.probability for each in singles])
    assert same_state(one, many)


def test_rounds_until_release__is_exact():
    bandit, left = make(horizon=500), []
    X = contexts(1)[0]
    while bandit.rounds < 500:
        n = bandit.rounds_until_release
        assert n >= 1
        left.append(n)
        policies = set()
        for k in range(n, 0, -1):
            assert bandit.rounds_until_release == k
            policies.add(id(bandit.decide(X).policy))
        assert len(policies) == 1
        assert len(bandit.guarantee.releases) == len(left)
    assert sum(left) == 500
    assert left == sorted(left[:-1]) + left[-1:]
    last = bandit.decide(X)
    assert id(last.policy) not in policies
    assert bandit.rounds_until_release > FOREVER / 2


def test_decide_many__across_windows_is_one_policy_for_each():
    bandit = make()
    n = bandit.rounds_until_release
    chosen = bandit.decide_many(contexts(3 * n))
    assert [first for first, _ in chosen.policies] == [0, n, 2 * n]


def test_decide__does_not_keep_or_change_the_callers_array():
    X = 2 * contexts(1)[0]
    before, bandit = X.copy(), make()
    decision = bandit.decide(X)
    assert np.array_equal(X, before)
    X[:] = 9
    assert np.linalg.norm(decision.row) == pytest.approx(1)
    assert decision.probability == 0.2


BAD_FEATURES = [
    np.zeros(3), np.zeros((2, 2)), np.zeros((0, 3)), np.zeros((1, 2, 3)), np.full((2, 3), np.nan),
    np.full((2, 3), np.inf), [[1.0, 2.0, None]], 0.5, [],
]  # fmt: skip


@pytest.mark.parametrize("features", BAD_FEATURES, ids=lambda x: str(np.shape(x)))
def test_decide__bad_features_are_refused_and_change_nothing(features):
    bandit, fresh = make(), make()
    with pytest.raises(ValueError, match="features"):
        bandit.decide(features)
    with pytest.raises(ValueError, match="features"):
        bandit.decide_many([contexts(1)[0], features])
    assert same_state(bandit, fresh)


def test_decide__long_rows_are_shortened_to_the_bound():
    bandit = make(norm_bound=2.0)
    decision = bandit.decide([[30.0, 40.0, 0.0]])
    assert np.allclose(decision.row, [0.6, 0.8, 0.0])
    assert np.allclose(bandit.decide([[0.0, 1.0, 0.0]]).row, [0.0, 0.5, 0.0])
    assert (np.linalg.norm(bandit.decide_many(1e9 * contexts(5)).rows, axis=1) < 1 + 1e-12).all()
    assert (np.linalg.norm(bandit.decide_many(1e200 * contexts(5)).rows, axis=1) < 1 + 1e-12).all()


# -- learning --------------------------------------------------------------------------------------


def test_learn__in_any_order_and_late_counts_once_in_the_window_that_is_open():
    X = contexts(400)
    one, other = make(), make()
    n = one.rounds_until_release
    a, b = one.decide_many(X[: n - 1]), other.decide_many(X[: n - 1])
    y = rewards(a.rows)
    one.learn_many(a, y)
    for i in np.random.default_rng(0).permutation(n - 1):
        other.learn(b[int(i)], y[i])
    assert np.allclose(total(one), total(other))
    # The next window: a late reward goes there, and the old release stays as it was.
    late = make()
    c = late.decide_many(X[: n + 5])
    theta = late.theta
    empty = total(late)
    late.learn(c[3], 0.5)
    assert np.array_equal(late.theta, theta)
    moved = total(late) - empty
    v, weight = late._estimator._lens.look(c.rows[3:4], np.array([0.5]))
    assert moved[-1] == pytest.approx(0.5 * weight[0])
    assert np.linalg.norm(moved[:-1]) == pytest.approx(float((v**2).sum()))


def test_learn__a_reward_that_never_comes_is_fine():
    bandit = make()
    bandit.decide_many(contexts(500))
    assert len(bandit.guarantee.releases) > 4
    assert np.isfinite(bandit.theta).all()


BAD_REWARDS = [math.nan, math.inf, -math.inf, 1.0000001, -1.5]


@pytest.mark.parametrize("reward", BAD_REWARDS)
def test_learn__bad_rewards_are_refused_alone_and_may_come_again(reward):
    bandit = make()
    chosen = bandit.decide_many(contexts(4))
    before = total(bandit)
    with pytest.raises(ValueError, match="reward"):
        bandit.learn(chosen[0], reward)
    assert np.array_equal(total(bandit), before)
    assert bandit.learn_many(chosen, [reward, 0.1, 0.2, reward]) == 2
    assert bandit._rewarded[:4].tolist() == [False, True, True, False]
    other = make()
    b = other.decide_many(contexts(4))
    other.learn_many([b[1], b[2]], [0.1, 0.2])
    assert np.allclose(total(bandit), total(other))
    bandit.learn(chosen[0], 0.3)
    bandit.learn(chosen[3], 0.4)


def test_learn__a_second_reward_is_refused():
    bandit = make()
    chosen = bandit.decide_many(contexts(6))
    bandit.learn(chosen[0], 0.1)
    before = total(bandit)
    with pytest.raises(ValueError, match="counts once"):
        bandit.learn(chosen[0], 0.1)
    assert np.array_equal(total(bandit), before)
    assert bandit.learn_many(chosen, np.full(6, 0.2)) == 1
    assert bandit.learn_many(chosen, np.full(6, 0.2)) == 6
    with pytest.raises(ValueError, match="counts once"):
        bandit.learn(chosen[5], 0.1)


def test_learn_many__a_decision_twice_in_one_call_counts_its_first_good_reward():
    one, other = make(), make()
    a, b = one.decide_many(contexts(3)), other.decide_many(contexts(3))
    assert one.learn_many([a[0], a[1], a[0], a[1]], [math.nan, 0.3, 0.2, 0.9]) == 2
    other.learn(b[0], 0.2)
    other.learn(b[1], 0.3)
    assert np.allclose(total(one), total(other))


def test_learn__clips_only_when_asked():
    X = contexts(6)
    one, other = make(clip=True), make(clip=True)
    a, b = one.decide_many(X), other.decide_many(X)
    for i, (given, meant) in enumerate([(9.0, 1.0), (-math.inf, -1.0), (0.3, 0.3)]):
        one.learn(a[i], given)
        other.learn(b[i], meant)
    with pytest.raises(ValueError, match="reward"):
        one.learn(a[3], math.nan)
    assert one.learn_many([a[3], a[4], a[5]], [7.0, math.nan, -7.0]) == 1
    other.learn_many([b[3], b[5]], [1.0, -1.0])
    assert np.allclose(total(one), total(other))


def test_learn__refuses_decisions_of_others_and_of_the_future():
    one, other = make(), make()
    mine, foreign = one.decide_many(contexts(5)), other.decide_many(contexts(5))
    before = total(one)
    for wrong in (foreign[0], "decision", None, mine[0].to_dict()):
        with pytest.raises(ValueError, match="this learner"):
            one.learn(wrong, 0.5)
    assert one.learn_many(foreign, np.zeros(5)) == 5
    assert one.learn_many([foreign[0], foreign[1]], [0.1, 0.1]) == 2
    future = Decision.from_dict({**mine[0].to_dict(), "round": 5})
    with pytest.raises(ValueError, match="never made"):
        one.learn(future, 0.1)
    assert one.learn_many([future], [0.1]) == 1
    short = Decision.from_dict({**mine[0].to_dict(), "features": [0.1, 0.2]})
    with pytest.raises(ValueError, match="never made"):
        one.learn(short, 0.1)
    assert one.learn_many([short], [0.1]) == 1
    negative = Decision(-1, 0, mine[0].row, mine[0].learner)
    with pytest.raises(ValueError, match="never made"):
        one.learn(negative, 0.1)
    assert one.learn_many([negative], [0.1]) == 1
    with pytest.raises(ValueError, match="expected 5 rewards"):
        one.learn_many(mine, np.zeros(4))
    assert np.array_equal(total(one), before)
    assert not one._rewarded.any()
    assert one.learn_many([foreign[1], mine[0]], [0.1, 0.1]) == 1  # alone, never the batch
    assert one._rewarded[0]


@pytest.mark.parametrize("many", [False, True])
@pytest.mark.parametrize(
    ("estimator", "length"),
    [
        ("information-weighted", 100.0),
        ("information-weighted", 1.7e308),
        ("sgd", 100.0),
    ],
)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_learn__a_record_with_features_beyond_the_bound_counts_no_more_than_any_row(
    estimator, length, many
):
    bandit = make(estimator=estimator, policy="greedy")
    fine = bandit.decide(contexts(1)[0])

    def summed():
        inside = bandit._estimator
        return inside._theta.copy() if estimator == "sgd" else inside._sum.value.copy()

    before = summed()
    broken = {**fine.to_dict(), "features": [length, 0.0, 0.0]}
    try:
        decision = Decision.from_dict(broken)
        bandit.learn_many([decision], [1.0]) if many else bandit.learn(decision, 1.0)
    except ValueError:
        return  # refused is fine too
    # A row that comes or goes may move a window by the sensitivity over sqrt(2).
    most = 2 * bandit._estimator._step if estimator == "sgd" else SENSITIVITY / math.sqrt(2)
    assert np.linalg.norm(summed() - before) <= most * (1 + 1e-9)


def test_learn__an_open_window_does_not_reach_the_policy():
    # Two runs with other rewards in the open window: the same decisions until it is full.
    X = contexts(600)
    one, other = make(), make()
    for bandit in (one, other):
        play(bandit, X[:100], by=10)
    until = one.rounds_until_release
    assert until > 5
    differ = False
    for t in range(until + 100):
        a, b = one.decide(X[100 + t]), other.decide(X[100 + t])
        if t < until:
            assert a.action == b.action
            assert np.array_equal(a.probabilities, b.probabilities)
            assert np.array_equal(one.theta, other.theta)
        else:
            differ |= not np.array_equal(one.theta, other.theta)
        one.learn(a, 1.0)
        other.learn(b, -1.0)
    assert differ, "and they count afterwards"


def test_learn__errors_quote_no_data():
    bandit = make()
    chosen = bandit.decide_many(contexts(3))
    secret = "7.125"
    attempts = [
        lambda: bandit.learn(chosen[0], 7.125),
        lambda: bandit.learn(chosen[0], -7.125),
        lambda: bandit.decide([[7.125, math.nan, 0.0]]),
        lambda: bandit.decide([[7.125, 0.0]]),
        lambda: bandit.decide_many([[[7.125, 0.0]]]),
        lambda: bandit.decide_many(np.full((2, 1, 2), 7.125)),
        lambda: Decision.from_dict({**chosen[0].to_dict(), "features": [7.125, math.nan]}),
        lambda: Decision.from_dict({**chosen[0].to_dict(), "features": [[7.125]]}),
        lambda: bandit.learn_many(chosen, [7.125]),
    ]
    for attempt in attempts:
        with pytest.raises(ValueError, match=r".") as caught:
            attempt()
        assert secret not in str(caught.value)


@pytest.mark.parametrize("where", ["learn", "learn_many", "decide", "decide_many", "array"])
def test_learn__errors_quote_no_data_that_is_not_a_number(where):
    bandit = make()
    decision = bandit.decide(contexts(1)[0])
    call = {
        "learn": lambda: bandit.learn(decision, "secret"),
        "learn_many": lambda: bandit.learn_many([decision], ["secret"]),
        "decide": lambda: bandit.decide([["secret", 0.0, 0.0]]),
        "decide_many": lambda: bandit.decide_many([[["secret", 0.0, 0.0]]]),
        "array": lambda: bandit.decide_many(np.array([[["secret", "0", "0"]]])),
    }[where]
    with pytest.raises(ValueError, match=r"^((?!secret).)*$"):
        call()


# -- the horizon -----------------------------------------------------------------------------------


@pytest.mark.parametrize("horizon", [1, 2, 3, 7, 100])
def test_horizon__past_it_the_policy_stays_and_rewards_do_not_count(horizon):
    bandit = make(horizon=horizon)
    X = contexts(horizon + 60)
    play(bandit, X[: horizon - 1])
    last = bandit.decide(X[horizon - 1])
    assert bandit.learning
    bandit.learn(last, 0.5)  # it may still come after the last round
    after = bandit.decide(X[horizon])
    assert not bandit.learning
    theta, spent = bandit.theta, bandit.guarantee.releases
    bandit.learn(after, 1.0)
    for reward in (1.0, -1.0):
        later = bandit.decide_many(X[horizon + 1 :])
        assert bandit.learn_many(later, np.full(len(later), reward)) == 0
        assert bandit.learn_many(later, np.full(len(later), reward)) == len(later)
    assert np.array_equal(bandit.theta, theta)
    assert bandit.guarantee.releases == spent
    assert all(each.policy is after.policy for each in later)
    with pytest.raises(ValueError, match="counts once"):
        bandit.learn(after, 0.1)


def test_horizon__none_goes_on_and_windows_grow():
    bandit, sizes = make(), []
    while bandit.rounds < 20_000:
        sizes.append(bandit.rounds_until_release)
        bandit.decide_many(np.zeros((sizes[-1], 1, D)))
    assert sizes == sorted(sizes)
    assert 10 < len(sizes) < 40
    assert [each.scope for each in bandit.guarantee.releases] == [
        f"window {k + 1}" for k in range(len(sizes))
    ]


# -- saving ----------------------------------------------------------------------------------------


def test_state__holds_no_rows_and_grows_by_one_bit_a_round():
    def size(state):
        return {k: np.asarray(v).nbytes for k, v in state.items() if k != "rewarded"}

    sizes, bandit = [], make(horizon=10**6)
    for n in (500, 5000, 50_000):
        play(bandit, contexts(n - bandit.rounds, seed=n))
        bandit.decide(contexts(1)[0])
        state = bandit.state_dict()
        assert state["rewarded"].nbytes <= n / 8 + 2
        sizes.append(size(state))
        numbers = sum(np.asarray(v).size for v in state.values() if np.asarray(v).dtype.kind == "f")
        assert numbers < 20 * D**2
    for name in sizes[0]:
        records = ("estimator.ledger.releases",)  # one line for each window
        allowed = 3 if name in records else 1.3
        assert sizes[-1][name] <= allowed * sizes[0][name] + 64, name


def test_state__an_old_one_or_one_of_another_is_refused():
    bandit = make()
    play(bandit, contexts(30))
    old = bandit.state_dict()
    play(bandit, contexts(30))
    now = bandit.state_dict()
    with pytest.raises(ValueError, match="exact differences"):
        bandit.load_state_dict(old)
    other = make()
    play(other, contexts(90))
    with pytest.raises(ValueError, match="another learner"):
        bandit.load_state_dict(other.state_dict())
    for change in ({"epsilon": 2.0}, {"policy": "greedy"}, {"horizon": 99}, {"clip": True}):
        with pytest.raises(ValueError, match="saved with config"):
            make(**change).load_state_dict(now)
    with pytest.raises(ValueError, match="saved with format"):
        make().load_state_dict({**now, "format": 2})
    with pytest.raises(ValueError, match="saved with kind"):
        make().load_state_dict({**now, "kind": "LinUCB"})
    assert str(bandit.state_dict()) == str(now)


@pytest.mark.parametrize("missing", ["window", "estimator.belief.mean", "rewarded", "coins"])
def test_state__is_loaded_whole_or_not_at_all(missing):
    source, bandit = make(), make()
    play(source, contexts(100))
    broken = {k: v for k, v in source.state_dict().items() if k != missing}
    before = bandit.state_dict()
    with pytest.raises((KeyError, ValueError, TypeError)):
        bandit.load_state_dict(broken)
    after = bandit.state_dict()
    assert str(after) == str(before)


def test_state__a_seed_of_numpys_own_integers_can_be_saved():
    assert json.loads(make(seed=np.int64(3)).state_dict()["config"])["seed"] == 3


def test_state__without_a_seed_it_still_goes_on_to_the_same_coins(tmp_path):
    bandit = make(seed=None, policy="thompson")
    play(bandit, contexts(100))
    bandit.save(tmp_path / "state.npz")
    resumed = LinearBandit.load(tmp_path / "state.npz")
    assert play(resumed, contexts(300), by=7) == play(bandit, contexts(300), by=7)
    assert (tmp_path / "state.npz").stat().st_mode & 0o077 == 0


def test_state__real_noise_saves_no_generator_and_keeps_the_noise_drawn(tmp_path):
    bandit = make(noise=None)
    chosen = bandit.decide_many(contexts(5))
    bandit.learn(chosen[0], 0.5)
    state = bandit.state_dict()
    assert state["estimator.noise"] == ""
    bandit.save(tmp_path / "state.npz")
    resumed = LinearBandit.load(tmp_path / "state.npz")
    assert np.array_equal(total(resumed), total(bandit))
    assert re.search("SystemNoise", state["config"])


def test_decide__rows_that_tie_have_true_probabilities_whatever_the_memory_order():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((600, 7, 3))
    X /= 2 * np.linalg.norm(X, axis=2, keepdims=True)
    X[:, 3:] = X[:, :4]  # duplicates
    for order in (np.asfortranarray(X), np.repeat(X, 2, axis=0)[::2], X[:, ::-1][:, ::-1]):
        one, many = make(), make()
        play(one, contexts(200)), play(many, contexts(200))
        chosen = many.decide_many(order)
        assert (chosen.probability > 0).all()
        assert [one.decide(each).action for each in order] == chosen.action.tolist()
