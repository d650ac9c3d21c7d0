"""Rounds, rewards, records and states: what every bandit shares, on LinearBandit."""

import json
import math
import re

import numpy as np
import pytest

from discreet import arrays
from discreet.bandits import Decision, Holdout, LinearBandit, People, estimators, learner
from discreet.bandits.learner import FOREVER
from discreet.bandits.window import sensitivity
from discreet.privacy import SeededNoise

SENSITIVITY = sensitivity(None, People(rounds=1))

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
    return bandit._window.total._value.copy()


def plain(item):
    """A state to compare: without the random names of objects."""
    if isinstance(item, dict):
        return {name: plain(each) for name, each in item.items() if name != "run"}
    if isinstance(item, list):
        return [plain(each) for each in item]
    return item.tolist() if isinstance(item, np.ndarray) else item


def same_state(one, other):
    return plain(one.state_dict()) == plain(other.state_dict())


# -- deciding --------------------------------------------------------------------------------------


def test_decide__one_coin_for_a_round_whatever_the_number_of_actions():
    for actions in (1, 2, 50):
        bandit, coins = make(), np.random.default_rng(1)
        bandit.decide_many(contexts(30, actions))
        for offered in contexts(15, actions):
            bandit.decide(offered)
        coins.random(45)
        assert bandit._rng.bit_generator.state == coins.bit_generator.state


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


@pytest.mark.parametrize("block", [1, 7, 10**6])
def test_batches__in_blocks_of_any_size_are_the_rounds_one_by_one(block, monkeypatch):
    X = contexts(400)
    X[[3, 130]] *= 2.0  # shortened
    X[200, 1, 0] = np.nan  # refused alone
    single = make(horizon=400)
    expected = []
    for i, x in enumerate(X):
        if i == 200:
            expected.append(-1)
            single.decide_many(X[i : i + 1])  # where `decide` would raise
            continue
        decision = single.decide(x)
        expected.append(decision.action)
        single.learn(decision, rewards(decision.row[None], i)[0])
    for module in (learner, estimators):
        monkeypatch.setattr(module, "BLOCK", block)
    batches = make(horizon=400)
    found = []
    while len(found) < 400:
        part = X[len(found) : len(found) + batches.rounds_until_release]
        chosen = batches.decide_many(part)
        rounds = range(len(found), len(found) + len(part))
        batches.learn_many(
            chosen,
            [rewards(row[None], i)[0] for i, row in zip(rounds, chosen.rows, strict=True)],
        )
        found += chosen.action.tolist()
    assert found == expected
    np.testing.assert_allclose(total(batches), total(single), rtol=1e-9, atol=1e-9)
    one, other = (each._belief.mean for each in (batches, single))
    np.testing.assert_allclose(one, other, rtol=1e-7)


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
    assert same_state(bandit, fresh)
    chosen = bandit.decide_many([contexts(1)[0], features])  # refused alone
    assert chosen.action.tolist() == [fresh.decide(contexts(1)[0]).action, -1]
    assert bandit.rounds == 2


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
    v, weight = late._window.transform.rows(c.rows[3:4], np.array([0.5]))
    assert moved[-3] == pytest.approx(0.5 * weight[0])
    assert np.linalg.norm(moved[:-3]) == pytest.approx(float((v**2).sum()))


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
    assert bandit._rewarded.contains(range(4)).tolist() == [False, True, True, False]
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


@pytest.mark.parametrize("mine", ["0.5", np.float32(0.1), True, np.timedelta64(5, "s"), [0.5]])
def test_rewards__what_a_person_brings_is_read_the_same_whatever_others_bring(mine):
    """A span of time was a number or none, by whether another's reward was missing."""
    others = (0.5, 1, None, "x", 1j, np.timedelta64(1, "ms"), [1, 2], 10**400)
    read = np.array([arrays.numbers_or_nan([mine, other, 0.25]) for other in others])
    np.testing.assert_array_equal(read[:, 0], np.full(len(others), read[0, 0]))
    assert (read[:, 2] == 0.25).all()


def test_learn_many__a_decision_twice_in_one_call_counts_its_first_good_reward():
    one, other = make(), make()
    a, b = one.decide_many(contexts(3)), other.decide_many(contexts(3))
    assert one.learn_many([a[0], a[1], a[0], a[1]], [math.nan, 0.3, 0.2, 0.9]) == 2
    other.learn(b[0], 0.2)
    other.learn(b[1], 0.3)
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
    assert not one._rewarded.contains(range(5)).any()
    assert one.learn_many([foreign[1], mine[0]], [0.1, 0.1]) == 1  # alone, never the batch
    assert 0 in one._rewarded


@pytest.mark.parametrize("many", [False, True])
@pytest.mark.parametrize(
    ("policy", "length"),
    [
        ("ucb", 100.0),
        ("ucb", 1.7e308),
        ("descent", 100.0),
    ],
)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_learn__a_record_with_features_beyond_the_bound_counts_no_more_than_any_row(
    policy, length, many
):
    bandit = make(policy=policy)
    fine = bandit.decide(contexts(1)[0])

    def summed():
        inside = bandit._window
        return inside.theta.copy() if policy == "descent" else inside.total._value.copy()

    before = summed()
    broken = {**fine.to_dict(), "features": [length, 0.0, 0.0]}
    try:
        decision = Decision.from_dict(broken)
        bandit.learn_many([decision], [1.0]) if many else bandit.learn(decision, 1.0)
    except ValueError:
        return  # refused is fine too
    # A row that comes or goes may move a window by the sensitivity over sqrt(2).
    most = 2 * bandit._window.step if policy == "descent" else SENSITIVITY / math.sqrt(2)
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
        lambda: bandit.decide_many(np.full((2, 1, 2), 7.125)),
        lambda: Decision.from_dict({**chosen[0].to_dict(), "features": [7.125, math.nan]}),
        lambda: Decision.from_dict({**chosen[0].to_dict(), "features": [[7.125]]}),
        lambda: bandit.learn_many(chosen, [7.125]),
    ]
    for attempt in attempts:
        with pytest.raises(ValueError, match=r".") as caught:
            attempt()
        assert secret not in str(caught.value)


@pytest.mark.parametrize("where", ["learn", "decide"])
def test_learn__errors_quote_no_data_that_is_not_a_number(where):
    bandit = make()
    decision = bandit.decide(contexts(1)[0])
    call = {
        "learn": lambda: bandit.learn(decision, "secret"),
        "decide": lambda: bandit.decide([["secret", 0.0, 0.0]]),
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


def sizes(item, name="state"):
    """(name, bytes) of the arrays and numbers in a state."""
    if isinstance(item, dict):
        return [found for key, each in item.items() for found in sizes(each, f"{name}.{key}")]
    if isinstance(item, list):
        return [found for each in item for found in sizes(each, f"{name}[]")]
    return [(name, np.asarray(item).nbytes)]


def test_state__holds_no_rows_and_grows_by_one_bit_a_round():
    grown, bandit = [], make(horizon=10**6)
    for n in (500, 5000, 50_000):
        play(bandit, contexts(n - bandit.rounds, seed=n))
        bandit.decide(contexts(1)[0])
        found = sizes(bandit.state_dict())
        rewarded = sum(size for name, size in found if "_rewarded.of" in name)
        assert rewarded <= n / 8 + 256
        grown.append(sum(size for name, size in found if "_ledger" not in name) - rewarded)
    assert grown[-1] <= 1.3 * grown[0] + 64


def test_state__of_a_million_rounds_summarises_what_is_settled():
    """Blocks that all have had their reward, or none, are one entry; others are exact."""
    bandit = make()
    bandit.decide(contexts(1)[0])
    bandit._commit(rounds=10**6, _end=2 * 10**6)
    bandit._rewarded.update(np.arange(10**6))
    settled = sum(size for _, size in sizes(bandit.state_dict()))
    assert settled < 20_000
    rng = np.random.default_rng(0)
    other = make()
    other.decide(contexts(1)[0])
    other._commit(rounds=10**6, _end=2 * 10**6)
    some = np.sort(rng.choice(10**6, 1000, replace=False))
    other._rewarded.update(np.setdiff1d(np.arange(10**6), some))
    state = other.state_dict()
    assert sum(size for _, size in sizes(state)) < settled + 1000 * (64 + 32)
    resumed = make()
    resumed.load_state_dict(state)
    assert np.flatnonzero(~resumed._rewarded.contains(np.arange(10**6))).tolist() == some.tolist()


def test_state__an_old_one_or_one_of_another_is_refused():
    bandit = make()
    play(bandit, contexts(30))
    old = bandit.state_dict()
    play(bandit, contexts(30))
    now = bandit.state_dict()
    with pytest.raises(ValueError, match="twice"):
        bandit.load_state_dict(old)
    other = make()
    play(other, contexts(90))
    with pytest.raises(ValueError, match="another LinearBandit"):
        bandit.load_state_dict(other.state_dict())
    for change in ({"epsilon": 2.0}, {"policy": "greedy"}, {"horizon": 99}, {"norm_bound": 2.0}):
        with pytest.raises(ValueError, match=f"other arguments.*{next(iter(change))}"):
            make(**change).load_state_dict(now)
    with pytest.raises(ValueError, match="format"):
        make().load_state_dict({**now, "format": 1})
    with pytest.raises(ValueError, match="expected 'LinearBandit'"):
        make().load_state_dict({**now, "kind": "LinUCB"})
    assert plain(bandit.state_dict()) == plain(now)


@pytest.mark.parametrize(
    "missing", ["_window", "_belief", "_rewarded", "_rng", "policy", "_ledger"]
)
def test_state__is_loaded_whole_or_not_at_all(missing):
    source, bandit = make(), make()
    play(source, contexts(100))
    broken = source.state_dict()
    del broken["state"][missing]
    before = plain(bandit.state_dict())
    with pytest.raises(ValueError, match="damaged"):
        bandit.load_state_dict(broken)
    assert plain(bandit.state_dict()) == before


def test_state__a_seed_of_numpys_own_integers_can_be_saved():
    assert make(seed=np.int64(3)).state_dict()["config"]["seed"] == 3


def test_state__without_a_seed_it_still_goes_on_to_the_same_coins(tmp_path):
    bandit = make(seed=None, policy="thompson")
    play(bandit, contexts(100))
    twin = make(seed=None, policy="thompson")
    twin._restore(bandit._stored())  # a copy, as only a test may make one
    bandit.save(tmp_path / "state.npz")
    resumed = LinearBandit.load(tmp_path / "state.npz")
    assert play(resumed, contexts(300), by=7) == play(twin, contexts(300), by=7)
    assert (tmp_path / "state.npz").stat().st_mode & 0o077 == 0


def test_state__real_noise_saves_no_generator_and_keeps_the_noise_drawn(tmp_path):
    bandit = make(noise=None)
    chosen = bandit.decide_many(contexts(5))
    bandit.learn(chosen[0], 0.5)
    state = bandit.state_dict()
    assert "bit_generator" not in json.dumps(plain(state["state"]["noise"]))
    bandit.save(tmp_path / "state.npz")
    resumed = LinearBandit.load(tmp_path / "state.npz")
    assert np.array_equal(total(resumed), total(bandit))
    assert re.search("SystemNoise", json.dumps(state["config"]))


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


# -- a release happens once ------------------------------------------------------------------------


@pytest.mark.parametrize("where", ["open", "policy"])
def test_turn__that_fails_after_closing_does_not_release_the_same_noise_twice(where, monkeypatch):
    """The exception comes in opening the next window or in making its policy; a person comes after.

    What was computed from the sum without the person is released, and the person counts in the next
    window: it and a release with the person would differ by exactly that person's row.
    """
    bandit = make()
    n = bandit.rounds_until_release
    chosen = bandit.decide_many(contexts(n))
    bandit.learn_many(list(chosen)[1:], np.full(n - 1, 0.5))
    shown, window = [bandit.theta], bandit._window
    with monkeypatch.context() as patch:
        patch.setattr(type(bandit._estimator), where, lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            bandit.decide(contexts(1)[0])
        shown.append(bandit.theta)
        assert bandit._window is window
    assert np.array_equal(*shown), "nothing of the window was shown"
    assert bandit.learn(chosen[0], 1.0)
    assert bandit._window is not window, "the released sum is gone"
    twin = make()
    chosen = twin.decide_many(contexts(n))
    twin.learn_many(list(chosen)[1:], np.full(n - 1, 0.5))
    twin.turn()
    twin.learn(chosen[0], 1.0)
    assert np.array_equal(bandit.theta, twin.theta), "one release, as if nothing had failed"
    assert bandit.guarantee == twin.guarantee
    late = bandit.decide(contexts(1)[0])
    before = window.total._value.copy()
    bandit.learn(late, 1.0)
    assert np.array_equal(window.total._value, before)


def test_guarantee__names_states_that_are_resumed_twice_or_stolen():
    for more in ({}, {"policy": "descent"}):
        text = " ".join(make(**more).guarantee.unprotected)
        assert "resumed twice" in text
        assert "stolen state" in text


@pytest.mark.parametrize("bound", [0.25, 4.0])
def test_rows__are_shortened_to_the_bound_whatever_it_is(bound):
    row = np.full((2, D), 1.5 * bound / math.sqrt(D))
    decision = make(norm_bound=bound).decide(row)
    assert np.linalg.norm(decision.row) == pytest.approx(1.0)


@pytest.mark.parametrize("more", [{}, {"holdout": Holdout(0.3)}, {"policy": "descent"}])
def test_learn__a_reward_counts_as_its_part_of_the_range(more):
    apart = []
    for width in (1.0, 4.0):
        bandit = make(reward_range=(-width, width), **more)
        bandit.decide(contexts(1)[0])  # opens the window
        before = state_of_window(bandit)
        for _ in range(20):
            chosen = bandit.decide(contexts(1)[0])
            bandit.learn(chosen, 0.5 * width)
        apart.append(state_of_window(bandit) - before)
    assert np.abs(apart[0]).max() > 0.01
    np.testing.assert_allclose(*apart, atol=1e-9)


def state_of_window(bandit):
    window = bandit._window
    return window.average.copy() if hasattr(window, "average") else total(bandit)


def test_descent__is_as_unsure_as_its_noise_and_its_steps():
    bandit = make(policy="descent", horizon=4000)
    bandit.decide(contexts(1)[0])
    window = bandit._window
    scale, steps = window.total.release.scale, window.step * window.size
    play(bandit, contexts(window.size))
    assert bandit._belief.error == pytest.approx(min(math.hypot(scale, steps**-0.5), 1.0))


def test_fold__where_no_window_is_open_is_refused():
    with pytest.raises(ValueError, match="no window is open"):
        make()._fold_checked(np.zeros((1, D)), [0.0], None)
