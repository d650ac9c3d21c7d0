import math

import dp_accounting
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from discreet.bandits.baselines import ContinualLinUCB, LinUCB
from discreet.bandits.baselines.continual import outer_vectors
from discreet.bandits.baselines.linucb import ucb
from discreet.environments.linear import linear_world
from discreet.privacy import SecureNoise, SeededNoise, Tree

T = 400


def contexts(n, seed=0, actions=6, dim=4):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, actions, dim))
    return X / np.maximum(1, np.linalg.norm(X, axis=2, keepdims=True)) * rng.random((n, actions, 1))


def world_rewards(rows, seed=1):
    theta = np.resize([0.7, -0.5, 0.4, 0.1], rows.shape[1])
    noise = np.random.default_rng(seed).uniform(-0.1, 0.1, len(rows))
    return np.clip(rows @ theta + noise, -1, 1)


def plain(item):
    """A state to compare: without the random names of objects."""
    if isinstance(item, dict):
        return {name: plain(each) for name, each in item.items() if name != "run"}
    if isinstance(item, list):
        return [plain(each) for each in item]
    return item.tolist() if isinstance(item, np.ndarray) else item


def continual(horizon=T, epsilon=1.0, **more):
    return ContinualLinUCB(4, horizon, epsilon, **{"noise": SeededNoise(3), "seed": 5, **more})


def play(learner, X, *, by=None):
    """Actions on X, each window (or `by` rounds) learnt before the next."""
    done, actions = 0, []
    while done < len(X):
        n = min(by or learner.rounds_until_release, len(X) - done)
        chosen = learner.decide_many(X[done : done + n])
        assert learner.learn_many(chosen, world_rewards(chosen.rows, seed=done)) == 0
        actions.extend(chosen.action)
        done += n
    return actions


def oracle(X, first, width, regularizer):
    """LinUCB from its definition: sums of outer products, and a solve for every action."""
    A, b, actions, policy_ends = regularizer * np.eye(X.shape[2]), np.zeros(X.shape[2]), [], 0
    for t, offered in enumerate(X):
        if t == policy_ends:  # a policy lasts a fiftieth of the rounds before it
            theta, inverse, policy_ends = (
                np.linalg.solve(A, b),
                np.linalg.inv(A),
                t + (t // 50 or 1),
            )
            window = t
        values = [phi @ theta + width * math.sqrt(phi @ inverse @ phi) for phi in offered]
        actions.append(int(np.argmax(values)) if t else first)
        if t + 1 == policy_ends or t + 1 == len(X):  # rewards are drawn window by window
            rows = np.array([X[i][actions[i]] for i in range(window, t + 1)])
            A += rows.T @ rows
            b += rows.T @ world_rewards(rows, seed=window)
    return actions


@pytest.mark.parametrize(("width", "regularizer"), [(0.3, 0.1), (1.0, 2.0)])
def test_linucb__equals_its_definition_step_by_step(width, regularizer):
    X = contexts(T)
    actions = play(LinUCB(4, width=width, regularizer=regularizer, seed=0), X)
    assert actions == oracle(X, actions[0], width, regularizer)
    assert actions != oracle(X, actions[0], 3 * width, regularizer)
    assert actions != oracle(X, actions[0], width, 10 * regularizer)


@pytest.mark.parametrize("mechanism", ["auto", "blt", "toeplitz", "tree", Tree(2)], ids=str)
def test_continual_linucb__without_noise_equals_linucb(mechanism):
    X = contexts(T)
    private = continual(epsilon=math.inf, mechanism=mechanism)
    actions = play(private, X)
    assert actions == play(LinUCB(4, seed=5), X) == oracle(X, actions[0], 0.3, 0.1)
    assert "NO PRIVACY" in private.guarantee.statement()
    assert actions != play(continual(mechanism=mechanism), X)


def test_linucb__norm_bound_and_reward_scale_only_change_units():
    X = contexts(T)
    one, other = LinUCB(4, seed=0), LinUCB(4, norm_bound=7.0, reward_range=(-3.0, 3.0), seed=0)
    for t in range(0, T, 20):
        a, b = one.decide_many(X[t : t + 20]), other.decide_many(7 * X[t : t + 20])
        assert list(a.action) == list(b.action)
        rewards = world_rewards(a.rows)
        one.learn_many(a, rewards)
        other.learn_many(b, 3 * rewards)


@given(
    st.integers(0, 2**32),
    st.sampled_from(["random", "opposite reward", "opposite row", "orthogonal", "zero"]),
)
def test_continual_linucb__a_replaced_row_moves_the_sum_by_at_most_the_sensitivity(seed, case):
    rng = np.random.default_rng(seed)
    p, q = rng.standard_normal((2, 4))
    p, q = p / np.linalg.norm(p), q / np.linalg.norm(q)
    y, z = rng.choice([-1.0, 1.0, 0.3, 0.0], 2)
    if case == "opposite reward":
        q, z = p, -y
    elif case == "opposite row":
        q, z = -p, y
    elif case == "orthogonal":  # [p; 1] and [q; 1] with <p, q> = -1: the worst there is
        q, y, z = -p, 1.0, 1.0
    elif case == "zero":
        q, z = np.zeros(4), 0.0
    x = outer_vectors(np.array([p, q]), np.array([y, z]))
    sums = continual()._sums
    distance = np.linalg.norm(x[0] - x[1])
    assert distance <= sums.sensitivity * (1 + 1e-12)
    assert np.linalg.norm(x, axis=1).max() <= sums.bound * (1 + 1e-12)
    if case == "orthogonal":
        assert distance == pytest.approx(sums.sensitivity)  # and no noise is wasted
    v = np.append(p, y)
    assert distance == pytest.approx(
        np.linalg.norm(np.outer(v, v) - np.outer(*[np.append(q, z)] * 2))
    )


@pytest.mark.parametrize("mechanism", ["blt", "tree", Tree(2, balanced=False)], ids=str)
@pytest.mark.parametrize("contributions", [1, 3])
def test_continual_linucb__guarantee_is_the_budget_and_agrees_with_dp_accounting(
    mechanism, contributions
):
    learner = continual(10_000, mechanism=mechanism, contributions=contributions)
    promise = learner.guarantee
    assert (promise.epsilon, promise.delta, promise.trust) == (1.0, 1e-6, "joint")
    assert promise.contributions == contributions
    text = " ".join(promise.unprotected)
    for entry in ("own action", "horizon", "public bounds", "arrival times", "decision records"):
        assert entry in text
    assert ("more than 3 rounds" in text) == (contributions == 3)
    assert "Shariff and Sheffet (2018)" in promise.statement()
    (release,) = promise.releases
    accountant = dp_accounting.pld.PLDAccountant(
        dp_accounting.NeighboringRelation.ADD_OR_REMOVE_ONE
    )
    accountant.compose(dp_accounting.GaussianDpEvent(release.scale / release.sensitivity))
    assert accountant.get_epsilon(1e-6) == pytest.approx(1.0, abs=1e-4)
    assert promise.epsilon_at(1e-6) == pytest.approx(1.0, abs=1e-9)


def test_linucb__promises_nothing():
    promise = LinUCB(3).guarantee
    assert not promise.private
    assert promise.epsilon_at(1e-6) == math.inf
    assert "NO PRIVACY" in promise.statement()


def test_continual_linucb__the_noise_of_sums_has_the_deviation_the_policy_uses():
    # 300 learners, 15 coordinates, all rows zero: a chi-square with 4,500 terms, 6 deviations.
    # Off-diagonal entries of the matrix have s / sqrt(2).
    total, zero = [], np.zeros((20, 2, 4))
    for seed in range(300):
        learner = continual(20, mechanism="blt", noise=SeededNoise(seed))
        learner.learn_many(learner.decide_many(zero), np.zeros(20))
        total.append(learner._sums.estimate)
    ratio = np.mean(np.square(total)) / learner._sums.std(20) ** 2
    assert abs(ratio - 1) < 6 * math.sqrt(2 / 4500)


def test_ucb__keeps_its_promise_when_the_gram_matrix_is_known_but_for_noise():
    # |theta| = 1, noise of deviation s as `_release` assumes: the error of <phi, mean> is within
    # the stated deviation (width 1) about as often as a normal variable, plus the shift's bias.
    rng, d, s, n = np.random.default_rng(0), 5, 3.0, 20_000
    theta, inside = np.eye(d)[0], []
    for _ in range(2000):
        E = rng.standard_normal((d, d)) * s / math.sqrt(2)
        E = np.triu(E, 1) + np.triu(E, 1).T + np.diag(rng.standard_normal(d) * s)
        moment = n / d * theta + rng.standard_normal(d) * s / math.sqrt(2)
        policy = ucb(n / d * np.eye(d) + E, moment, width=1e-9, regularizer=1e-9, noise_std=s)
        error = np.abs(policy.mean - theta)
        inside.append(error[1:] < np.linalg.norm(policy.root[1:], axis=1))
    assert np.mean(inside) == pytest.approx(0.683, abs=0.03)


@pytest.mark.parametrize(
    "make",
    [lambda: LinUCB(4, seed=2)]
    + [
        lambda m=m: continual(mechanism=m)
        for m in ("blt", "toeplitz", "tree", Tree(3, balanced=False))
    ],
    ids=["linucb", "blt", "toeplitz", "tree", "Tree"],
)
@pytest.mark.parametrize("stop", [0, 1, 157])
def test_baselines__resume_to_the_same_future(make, stop, tmp_path):
    X, whole, stopped = contexts(T), make(), make()
    waiting = play(whole, X[:stop], by=50) and whole.decide(X[stop])
    if waiting:
        whole.learn(waiting, 0.5)
    waiting = play(stopped, X[:stop], by=50) and stopped.decide(X[stop])
    stopped.save(tmp_path / "state.npz")
    resumed = type(whole).load(tmp_path / "state.npz")
    if waiting:
        resumed.learn(waiting, 0.5)
    assert play(resumed, X[stop:], by=7) == play(whole, X[stop:], by=7)
    assert resumed.guarantee == whole.guarantee
    assert plain(resumed.state_dict()) == plain(whole.state_dict())


def test_continual_linucb__refuses_to_roll_back_even_without_a_new_decision():
    learner = continual()
    decision = learner.decide(contexts(1)[0])
    old = learner.state_dict()
    learner.learn(decision, 0.3)
    with pytest.raises(ValueError, match="older"):
        learner.load_state_dict(old)
    with pytest.raises(ValueError, match="other arguments"):
        continual(norm_bound=2.0).load_state_dict(old)


@pytest.mark.parametrize(
    "make", [lambda: LinUCB(4, T, seed=2), continual], ids=["plain", "private"]
)
def test_baselines__many_decisions_equal_single_ones(make):
    X, one, many = contexts(T + 30), make(), make()
    for learner in (one, many):
        play(learner, X[:60])
    actions = [one.decide(x).action for x in X[60:]]  # across windows and past the horizon
    assert list(many.decide_many(X[60:]).action) == actions
    assert len(set(actions)) > 2


@pytest.mark.parametrize(
    "make", [lambda: LinUCB(4, T, seed=2), continual], ids=["plain", "private"]
)
def test_baselines__one_reward_at_a_time_equals_many(make):
    X, one, many = contexts(T), make(), make()
    for t in range(0, T, 25):
        a, b = one.decide_many(X[t : t + 25]), many.decide_many(X[t : t + 25])
        assert list(a.action) == list(b.action)
        rewards = world_rewards(a.rows)
        for decision, reward in zip(a, rewards, strict=True):
            one.learn(decision, reward)
        many.learn_many(b, rewards)


def test_continual_linucb__sums_hold_the_rewards_that_came_late_once_and_in_range():
    X, learner = contexts(6), continual(epsilon=math.inf, reward_range=(0.0, 2.0))
    decisions = [learner.decide(x) for x in X]
    assert learner._sums.rounds == 0
    learner.learn(decisions[4], 1.0)  # late, out of order
    learner.learn(decisions[0], 2.0)
    for again, reward in ((4, 1.0), (1, 2.5), (1, math.nan), (1, -0.5)):
        with pytest.raises(ValueError, match="reward"):
            learner.learn(decisions[again], reward)
    assert learner.learn_many(decisions[2:4], [math.nan, 1.5]) == 1
    assert learner._sums.rounds == 3
    rows, y = np.array([decisions[i].row for i in (4, 0, 3)]), np.array([0.5, 1.0, 0.75])
    assert np.allclose(learner._sums.estimate, outer_vectors(rows, y).sum(axis=0))


@pytest.mark.parametrize("make", [lambda: LinUCB(4, 50, seed=2), lambda: continual(50)],
                         ids=["plain", "private"])  # fmt: skip
def test_baselines__stop_learning_at_the_horizon(make):
    X, learner = contexts(120), make()
    play(learner, X[:49])
    late = learner.decide(X[49])
    learner.learn(late, 0.5)
    after = learner.decide_many(X[50:80])
    policy = learner.policy
    learner.learn_many(after, np.ones(30))
    assert not learner.learning
    play(learner, X[80:], by=10)
    assert learner.policy is policy
    if isinstance(learner, ContinualLinUCB):
        assert learner._sums.rounds == 50


@pytest.mark.parametrize("make", [lambda: LinUCB(4, seed=2), continual], ids=["plain", "private"])
def test_baselines__choose_uniformly_until_a_reward_comes(make):
    X, learner = contexts(300), make()
    chosen = learner.decide_many(X)
    assert np.allclose(chosen.probability, 1 / 6)
    assert np.bincount(chosen.action, minlength=6).min() > 20
    learner.learn(chosen[0], 1.0)
    later = learner.decide_many(X[:60])  # the open window, then the next
    assert later.probability[-1] == 1.0


def test_continual_linucb__exact_noise_needs_a_tree_and_auto_takes_one():
    learner = continual(64, noise=SecureNoise())
    assert "exact lattice" in learner.guarantee.sampler
    play(learner, contexts(64))
    pure = continual(64, delta=0.0)
    assert pure.guarantee.delta == 0.0
    play(pure, contexts(64))


@pytest.mark.parametrize(
    "change",
    [{"dim": 0}, {"horizon": None}, {"horizon": 2.5}, {"epsilon": 0.0}, {"epsilon": math.nan},
     {"delta": 1.0}, {"mechanism": "magic"}, {"contributions": 0},
     {"norm_bound": 0.0}, {"reward_range": (1.0, 1.0)}, {"noise": 3}],
    ids=str,
)  # fmt: skip
def test_continual_linucb__bad_arguments_are_refused(change):
    arguments = {"dim": 4, "horizon": 10, "epsilon": 1.0, **change}
    with pytest.raises(ValueError, match="must"):
        ContinualLinUCB(**arguments)


@pytest.mark.parametrize(
    "change",
    [{"dim": 0}, {"horizon": 0}, {"width": -0.1}, {"regularizer": 0.0},
     {"norm_bound": -1.0}, {"reward_range": (0.0, math.inf)}],
    ids=str,
)  # fmt: skip
def test_linucb__bad_arguments_are_refused(change):
    with pytest.raises(ValueError, match="must"):
        LinUCB(**{"dim": 4, **change})


def regret(learner, world, T, seed=1):
    rng, total = np.random.default_rng(seed), 0.0
    while learner.rounds < T:
        people = world.people(min(learner.rounds_until_release, T - learner.rounds), rng)
        chosen = learner.decide_many(people.features)
        total += float(people.regret(chosen.action).sum())
        learner.learn_many(chosen, people.rewards(chosen.action, rng))
    return total


@pytest.mark.parametrize("mechanism", ["blt", "tree"])
def test_continual_linucb__learns(mechanism):
    # Uniform choices cost .65 a round here; what is learnt at epsilon = 5 makes it a tenth.
    world, T = linear_world("sphere", 5, seed=0), 5000
    private = ContinualLinUCB(5, T, 5.0, mechanism=mechanism, noise=SeededNoise(1), seed=2)
    plain = LinUCB(5, seed=2)
    people = world.people(T, np.random.default_rng(3))
    uniform = np.sum(people.best - people.means.mean(axis=1))
    assert regret(plain, world, T) < 0.01 * uniform
    assert 0.01 * uniform < regret(private, world, T) < 0.15 * uniform
