import gc
import json
import math
import os
import signal
import subprocess
import sys
import time
import warnings
from dataclasses import replace

import dp_accounting
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm

from discreet.bandits import Decision, LinearBandit, Model, People
from discreet.bandits.descent import Descent
from discreet.bandits.policies import POLICIES, Stage
from discreet.bandits.window import sensitivity
from discreet.environments import play as play_world
from discreet.environments.linear import linear_world
from discreet.features import FeatureMap, Number
from discreet.privacy import Budget, SecureNoise, SeededNoise, gaussian_mu

SENSITIVITY = sensitivity(None, People(rounds=1))

D, THETA = 4, np.array([0.5, -0.4, 0.3, 0.1])


def make(**more):
    given = {"dim": D, "epsilon": 3.0, "seed": 1, "noise": SeededNoise(2), **more}
    return LinearBandit(**given)


def contexts(n, actions=5, seed=0, dim=D):
    z = np.random.default_rng(seed).standard_normal((n, actions, dim))
    return z / np.linalg.norm(z, axis=2, keepdims=True)


def rewards(rows, seed=0):
    noise = np.random.default_rng(seed).uniform(-0.1, 0.1, len(rows))
    return np.clip(rows @ np.resize(THETA, rows.shape[1]) + noise, -1, 1)


def play(bandit, X, by=None, reward=rewards):
    actions = []
    while len(actions) < len(X):
        n = min(by or bandit.rounds_until_release, len(X) - len(actions))
        chosen = bandit.decide_many(X[len(actions) : len(actions) + n])
        assert bandit.learn_many(chosen, reward(chosen.rows, bandit.rounds)) == 0
        actions.extend(chosen.action.tolist())
    return actions


# -- decisions -------------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("ragged", [False, True])
def test_decide_many__equals_decide_across_windows(policy, ragged):
    X = contexts(700)
    offered = [x[: 2 + t % 4] for t, x in enumerate(X)] if ragged else X
    one, many = make(policy=policy), make(policy=policy)
    t = 0
    for n in (3, 200, 1, 496):  # windows end inside
        chosen = many.decide_many(offered[t : t + n])
        singles = [one.decide(x) for x in offered[t : t + n]]
        assert chosen.action.tolist() == [each.action for each in singles]
        assert chosen.round.tolist() == [each.round for each in singles] == list(range(t, t + n))
        assert np.array_equal(chosen.rows, [each.row for each in singles])
        assert np.array_equal(chosen.probability, [each.probability for each in singles])
        y = rewards(chosen.rows, t)
        many.learn_many(chosen, y)
        one.learn_many(singles, y)
        t += n
    assert len(one.guarantee.releases) == len(many.guarantee.releases) > 3
    assert np.array_equal(one.theta, many.theta)


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("link", ["identity", "logistic"])
def test_decision__probabilities_are_true(policy, link):
    # The learner's own coins, 4,000 times the same offer under one policy: every frequency within
    # 6 deviations of its probability.
    limits = {} if link == "identity" else {"reward_range": (0.0, 1.0)}
    bandit = make(policy=policy, model=Model(link=link), **limits)
    play(bandit, contexts(400), reward=lambda rows, s: (rewards(rows, s) > 0) * 1.0)
    while bandit.rounds_until_release < 4000:
        bandit.decide_many(np.zeros((bandit.rounds_until_release, 1, D)))
    (offered,) = contexts(1, seed=9)
    chosen = bandit.decide_many(np.broadcast_to(offered, (4000, 5, D)))
    probabilities = chosen[0].probabilities
    assert probabilities.sum() == pytest.approx(1)
    seen = np.bincount(chosen.action, minlength=5) / 4000
    assert (
        np.abs(seen - probabilities)
        <= 6 * np.sqrt(probabilities * (1 - probabilities) / 4000) + 1e-12
    ).all()
    assert (chosen.probability > 0).all()
    assert np.array_equal(chosen.probability, probabilities[chosen.action])


def test_thompson__draws_from_the_belief():
    # Whitened, 64 draws of 4 numbers are standard normal; 5 deviations.
    bandit = make(policy="thompson")
    turn = np.linalg.qr(np.random.default_rng(0).standard_normal((D, D)))[0]
    narrow = replace(
        bandit._belief, covariance=turn @ np.diag([1, 0.1, 1e-3, 1e-4]) @ turn.T,
        mean=THETA, windows=1,
    )  # fmt: skip
    stage = Stage(narrow, 50, 100, 50, lambda: np.random.default_rng(1), bandit.policy)
    draws = POLICIES["thompson"](stage).draws
    z = (draws - THETA) @ turn / np.sqrt([1, 0.1, 1e-3, 1e-4])
    assert z.shape == (64, D)
    assert np.abs((z**2).mean(axis=0) - 1).max() < 5 * math.sqrt(2 / 64)
    assert np.abs(z.mean(axis=0)).max() < 5 / 8


def test_bandit__one_action_and_few_dimensions_work():
    for dim in (1, 2):
        for policy in POLICIES:
            bandit = make(dim=dim, policy=policy)
            assert set(play(bandit, contexts(300, 1, dim=dim))) == {0}
            assert np.isfinite(bandit.theta).all()
            play(bandit, contexts(300, 3, dim=dim))
            assert bandit.decide(np.zeros((2, dim))).probability > 0


def test_bandit__in_one_dimension_it_learns_the_sign():
    bandit = make(dim=1, epsilon=2.0)
    X = np.tile([[0.7], [-0.7]], (600, 1, 1))
    actions = play(bandit, X, reward=lambda rows, _: -rows[:, 0])
    assert np.mean(np.array(actions[-100:]) == 1) > 0.95
    assert bandit.theta[0] < -0.5


# -- units -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", ["squarecb", "descent"])
@pytest.mark.parametrize("bound", [3.0, 0.25])
def test_bandit__a_norm_bound_only_changes_units(bound, policy):
    X = contexts(600)
    one = make(policy=policy)
    other = make(policy=policy, norm_bound=bound)
    assert play(one, X) == play(other, bound * X)
    assert np.allclose(one.theta, bound * other.theta)
    assert np.abs(one.theta).max() > 0.01


def test_bandit__rewards_in_other_units_only_change_units():
    X = contexts(600)
    one, other = make(), make(reward_range=(-5.0, 5.0))
    a = play(one, X)
    b = play(other, X, reward=lambda rows, seed: 5 * rewards(rows, seed))
    assert a == b
    assert np.allclose(5 * one.theta, other.theta)


@pytest.mark.parametrize(
    ("low", "high"), [(0.0, 1.0), (-5.0, 5.0), (0.0, 4.0), (-1.0, 0.0), (3.0, 4.0)]
)
def test_bandit__theta_and_intercept_predict_in_the_users_units(low, high):
    # A constant feature and the intercept can stand for one another; their sum can not.
    middle, half = (low + high) / 2, (high - low) / 2
    theta = np.array([middle, 0.6 * half, -0.3 * half, 0.0]) * math.sqrt(2)
    u = contexts(4000, dim=3)
    X = np.concatenate([np.ones((4000, 5, 1)), u], axis=2) / math.sqrt(2)
    bandit = make(reward_range=(low, high), epsilon=math.inf)
    noise = np.random.default_rng(0)
    play(
        bandit,
        X,
        reward=lambda rows, _: np.clip(
            rows @ theta + 0.05 * half * noise.uniform(-1, 1, len(rows)), low, high
        ),
    )
    bandit.decide(X[0])
    largest = max(abs(low), abs(high))
    found = X @ bandit.theta + bandit.intercept
    assert np.abs(found - X @ theta).max() < 0.05 * largest
    assert (bandit.intercept == 0) == (low + high == 0)
    best = np.argmax(X[:500] @ theta, axis=1)
    assert np.mean(bandit.decide_many(X[:500]).action == best) > 0.8


# -- privacy ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", ["squarecb", "descent"])
@pytest.mark.parametrize("contributions", [1, 3])
@pytest.mark.parametrize("secure", [False, True])
def test_guarantee__is_the_budget_and_agrees_with_dp_accounting(policy, contributions, secure):
    bandit = make(
        epsilon=1.0,
        policy=policy,
        people=People(rounds=contributions),
        noise=SecureNoise() if secure else SeededNoise(0),
    )
    assert "nothing" in bandit.guarantee.statement()
    play(bandit, contexts(1200))
    promise = bandit.guarantee
    assert (promise.epsilon, promise.delta, promise.trust) == (1.0, 1e-6, "joint")
    assert promise.contributions == contributions
    assert promise.neighbours == "replace-one"
    assert len(promise.releases) >= 3
    scopes = [each.scope for each in promise.releases]
    assert scopes == [f"window {k + 1}" for k in range(len(scopes))]
    assert promise.epsilon_at(1e-6) == pytest.approx(1.0, abs=1e-9)
    for release in promise.releases:
        accountant = dp_accounting.pld.PLDAccountant(
            dp_accounting.NeighboringRelation.ADD_OR_REMOVE_ONE
        )
        accountant.compose(dp_accounting.GaussianDpEvent(release.scale / release.sensitivity))
        assert accountant.get_epsilon(1e-6) == pytest.approx(1.0, abs=1e-4)
    assert ("exact lattice" if secure else "simulation only") in promise.sampler
    text = " ".join(promise.unprotected)
    for entry in ("own action", "decision records", "horizon", "arrival times", "public bounds"):
        assert entry in text
    assert "stolen state" in text
    assert ("more than 3 rounds" in text) == (contributions == 3)
    json.dumps(promise.to_dict())


def test_guarantee__contributions_multiply_the_noise():
    scales = []
    for k in (1, 3):
        bandit = make(people=People(rounds=k))
        bandit.decide(contexts(1)[0])
        (release,) = bandit.guarantee.releases
        scales.append(release.scale)
        mu = gaussian_mu(3.0, 1e-6)
        assert release.scale == pytest.approx(k * SENSITIVITY / mu)
        # And the noise that is really there: the sum before any reward.
        noise = bandit._window.total._value
        assert np.array_equal(noise, SeededNoise(2).gaussian(release.scale, len(noise)))
    assert scales[1] == pytest.approx(3 * scales[0])


def test_bandit__every_window_has_fresh_noise_of_the_stated_scale(assert_distribution):
    values, bandit = [], make(epsilon=1.0)
    while len(values) < 20:
        bandit.decide_many(np.zeros((bandit.rounds_until_release, 1, D)))
        values.append(bandit._window.total._value.copy())
        scale = bandit.guarantee.releases[-1].scale
    more = []
    for seed in range(150):
        other = make(epsilon=1.0, noise=SeededNoise(100 + seed))
        other.decide(np.zeros((1, D)))
        more.append(other._window.total._value)
    assert len({each[0] for each in values}) == 20
    assert_distribution(np.concatenate(values + more), norm(scale=scale).cdf)


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("link", ["identity", "logistic"])
def test_bandit__without_privacy_runs_learns_and_says_so(policy, link):
    unit = {} if link == "identity" else {"reward_range": (0.0, 1.0)}
    bandit = make(epsilon=math.inf, policy=policy, model=Model(link=link), **unit)
    X = contexts(3000)

    def reward(rows, seed):
        y = rewards(rows, seed)
        return y if link == "identity" else np.clip(0.5 + y / 2, 0, 1)

    play(bandit, X, reward=reward)
    promise = bandit.guarantee
    assert promise.epsilon == math.inf
    assert promise.epsilon_at(1e-6) == math.inf
    assert "NO PRIVACY" in promise.statement()
    chosen = bandit.decide_many(X[:500])
    lost = (X[:500] @ THETA).max(axis=1) - chosen.rows @ THETA
    assert lost.mean() < (0.1 if policy in ("squarecb", "elimination") else 0.02)


def test_bandit__with_real_noise_two_runs_differ_and_work():
    for noise in (None, SecureNoise()):
        runs = [make(noise=noise) for _ in range(2)]
        for bandit in runs:
            play(bandit, contexts(200))
        assert not np.array_equal(runs[0].theta, runs[1].theta)


def test_bandit__coins_and_noise_are_two_streams():
    X = contexts(300)
    base = play(make(seed=5, noise=SeededNoise(5)), X)
    first = make().rounds_until_release
    other_noise = play(make(seed=5, noise=SeededNoise(6)), X)
    other_coins = play(make(seed=6, noise=SeededNoise(5)), X)
    assert base[:first] == other_noise[:first]  # noise does not reach the first window
    assert base != other_noise
    assert base[:first] != other_coins[:first]


@pytest.mark.parametrize(
    "plain", [{"people": "first"}, {"holdout": 0.05}, {"model": "logistic"}, {"holdout": False}]
)
def test_bandit__a_plain_value_for_a_part_is_refused_with_an_example(plain):
    ((name, _),) = plain.items()
    with pytest.raises(ValueError, match=f"{name} must be a .*as in {name}="):
        make(**plain)


def test_bandit__what_decide_and_learn_do_not_take_is_answered_with_what_they_do():
    phi = FeatureMap({"age": Number(18, 100)}, ["email", "call"])
    bandit = make(dim=phi)
    with pytest.raises(ValueError, match=r"decide\(phi\(person\)\)"):
        bandit.decide({"age": 40})
    record = bandit.decide(phi({"age": 40})).to_dict()
    with pytest.raises(ValueError, match=r"learner\.decision\(record\)"):
        bandit.learn(record, 0.5)
    assert bandit.learn(bandit.decision(record), 0.5)


def test_bandit__bad_arguments_are_refused():
    for change in (
        {"dim": 0}, {"dim": 2.5}, {"horizon": 0}, {"epsilon": 0.0}, {"epsilon": math.nan},
        {"delta": 1.0}, {"delta": 0.0}, {"trust": "central"},
        {"policy": "magic"}, {"norm_bound": 0.0},
        {"norm_bound": math.inf}, {"reward_range": (1.0, 1.0)}, {"reward_range": (0.0, math.inf)},
        {"noise": 3}, {"model": Model(blocks=[0, 1])},
        {"policy": "descent", "model": Model(link="logistic")},
    ):  # fmt: skip
        with pytest.raises(ValueError, match=r"must|delta|takes no"):
            make(**change)
    with pytest.raises(ValueError, match="link"):
        Model(link="cauchit")


# -- other processes -------------------------------------------------------------------------------

HEAD = """
import json, os, signal, sys
import numpy as np
from discreet.bandits import Decision, LinearBandit, People
X = np.load("X.npy")
"""


def elsewhere(code, folder, check=True):
    done = subprocess.run(
        [sys.executable, "-c", HEAD + code],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0 or not check, done.stderr
    return done


@pytest.mark.parametrize("policy", ["ucb", "thompson", "elimination"])
def test_other_process__goes_on_to_the_same_decisions(policy, tmp_path):
    X, bandit, stopped = contexts(400), make(policy=policy), make(policy=policy)
    for each in (stopped, bandit):
        play(each, X[:150], by=40)
        waiting = each.decide(X[150])
        if each is stopped:
            record = json.dumps(waiting.to_dict())
    np.save(tmp_path / "X.npy", X)
    stopped.save(tmp_path / "state.npz")
    del each, stopped
    gc.collect()  # it lets go of its file
    (tmp_path / "record.json").write_text(record)
    done = elsewhere(
        """
bandit = LinearBandit.load("state.npz")
decision = Decision.from_dict(json.load(open("record.json")))
bandit.learn(decision, 0.5)
try:
    bandit.learn(decision, 0.5)
except ValueError as refused:
    print(refused)
chosen = bandit.decide_many(X[151:])
bandit.learn_many(chosen, np.zeros(len(chosen)))
bandit.save("later.npz")
print(json.dumps([chosen.action.tolist(), decision.probability, bandit.theta.tolist()]))
""",
        tmp_path,
    )
    refused, answer = done.stdout.splitlines()
    assert "counts once" in refused
    actions, probability, theta = json.loads(answer)
    bandit.learn(waiting, 0.5)
    chosen = bandit.decide_many(X[151:])
    bandit.learn_many(chosen, np.zeros(len(chosen)))
    assert actions == chosen.action.tolist()
    assert theta == bandit.theta.tolist()
    assert probability == waiting.probability
    # Back again: the reward that came there has come.
    later = LinearBandit.load(tmp_path / "later.npz")
    with pytest.raises(ValueError, match="counts once"):
        later.learn(Decision.from_dict(json.loads(record)), 0.5)
    assert later.guarantee == bandit.guarantee


def test_other_process__killed_after_it_went_on_is_resumed_with_a_new_window(tmp_path):
    """What was open is discarded unread: its noise may have been published. Nothing else is lost,
    and no decision of the old name has a reward."""
    X = contexts(300)
    np.save(tmp_path / "X.npy", X)
    make().save(tmp_path / "state.npz")
    gc.collect()
    killed = elsewhere(
        """
bandit = LinearBandit.load("state.npz")
for t in range(300):
    decision = bandit.decide(X[t])
    bandit.learn(decision, 0.1 * (-1) ** t)
    if t == 130:
        assert bandit.rounds_until_release > 3
        print(json.dumps([bandit.theta.tolist(), bandit._window.total._value.tolist()]))
        json.dump(decision.to_dict(), open("record.json", "w"))
        sys.stdout.flush()
        bandit.save("state.npz")
    if t == 133:  # three rounds after the last save, in the same window
        os.kill(os.getpid(), signal.SIGKILL)
""",
        tmp_path,
        check=False,
    )
    assert killed.returncode == -signal.SIGKILL
    theta, total = json.loads(killed.stdout)
    resumed = LinearBandit.load(tmp_path / "state.npz")
    assert resumed.rounds == 131
    assert resumed.theta.tolist() == theta
    assert not np.isin(resumed._window.total._value, total).any()
    with pytest.raises(ValueError, match="expected a decision that this learner made"):
        resumed.decision(json.loads((tmp_path / "record.json").read_text()))
    play(resumed, X[131:])
    resumed.save(tmp_path / "state.npz")


# -- regret ----------------------------------------------------------------------------------------


def regret(world, bandit, T, seed):
    rng, lost, uniform = np.random.default_rng(seed), [], 0.0
    while bandit.rounds < T:
        people = world.people(min(bandit.rounds_until_release, T - bandit.rounds), rng)
        chosen = bandit.decide_many(people.features)
        lost.append(people.regret(chosen.action))
        uniform += float(np.sum(people.best - people.means.mean(axis=1)))
        bandit.learn_many(chosen, people.rewards(chosen.action, rng))
    return np.concatenate(lost), uniform


@pytest.mark.parametrize("policy", POLICIES)
def test_regret__every_policy_beats_uniform_play_clearly(policy):
    shares = []
    for seed in range(4):
        world = linear_world("sphere", D, seed=seed)
        bandit = make(epsilon=1.0, horizon=4000, policy=policy, noise=SeededNoise(seed))
        lost, uniform = regret(world, bandit, 4000, seed)
        shares.append(lost.sum() / uniform)
        assert lost[-800:].mean() < 0.22 * lost[:100].mean()
    most = {"elimination": 0.35, "squarecb": 0.35}.get(policy, 0.12)
    assert np.mean(shares) < most


@pytest.mark.parametrize("policy", ["ucb", "thompson", "elimination"])
def test_regret__with_a_gap_it_flattens(policy):
    late = []
    for seed in range(5):
        world = linear_world("fixed", D, seed=seed)
        bandit = make(epsilon=1.0, horizon=30_000, policy=policy, noise=SeededNoise(seed))
        lost, uniform = regret(world, bandit, 30_000, seed)
        late.append(lost[-6000:].sum() / (uniform / 5))
    assert np.median(late) < 0.02
    if policy != "thompson":  # it stays with a wrong action now and then: docs/bandits-why.md
        assert max(late) < 0.05


@pytest.mark.parametrize("seed", [112, 128, 149])
def test_regret__rows_that_were_expected_and_never_came_teach_nothing(seed):
    # Regret was 337, 810 and 603 when such rows, in directions that are short, counted as seen.
    world = linear_world("decay", 5, seed=seed)
    bandit = LinearBandit(5, 50_000, seed=seed, noise=SeededNoise(seed))
    assert play_world(bandit, world, 10_000, seed=seed).regret.sum() < 300


def test_regret__less_privacy_means_less_regret():
    total = {}
    for epsilon in (0.3, 1.0, 10.0):
        total[epsilon] = sum(
            regret(
                linear_world("sphere", D, seed=seed),
                make(epsilon=epsilon, horizon=4000, noise=SeededNoise(seed)),
                4000,
                seed,
            )[0].sum()
            for seed in range(4)
        )
    assert total[0.3] > 1.5 * total[1.0] > 1.5 * total[10.0]


def test_regret__logistic_rewards_are_learnt():
    world, rng = linear_world("half", 5, seed=0), np.random.default_rng(0)
    bandit = make(
        dim=5, epsilon=2.0, model=Model(link="logistic"), reward_range=(0.0, 1.0), horizon=8000
    )
    lost, uniform = [], []
    while bandit.rounds < 8000:
        people = world.people(min(bandit.rounds_until_release, 8000 - bandit.rounds), rng)
        chosen = bandit.decide_many(people.features)
        bandit.learn_many(chosen, people.rewards(chosen.action, rng))
        lost.extend(people.regret(chosen.action))
        uniform.extend(people.best - people.means.mean(axis=1))
    assert np.mean(lost[-2000:]) < 0.2 * np.mean(uniform[-2000:])


def test_link__warns_where_the_identity_gains_more():
    few = {"model": Model(link="logistic"), "reward_range": (0.0, 1.0), "horizon": 8000}
    with pytest.warns(UserWarning, match=r"in 8,000 rounds link='identity' gains more"):
        make(**few)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        make(**few, epsilon=9.0)
        make(**(few | {"horizon": None}))
        make(**(few | {"model": None}))


def test_link__has_an_intercept_of_its_own():
    """Clicks of a tenth in rows of no length: nothing but the intercept can tell."""
    bandit = make(epsilon=50.0, model=Model(link="logistic"), reward_range=(0.0, 1.0), horizon=None)
    rng = np.random.default_rng(0)
    while bandit.rounds < 8000:
        chosen = bandit.decide_many(np.zeros((bandit.rounds_until_release, 2, D)))
        bandit.learn_many(chosen, (rng.random(len(chosen.action)) < 0.1) * 1.0)
    bandit.decide(np.zeros((2, D)))
    (seen,) = bandit.predict(np.zeros((1, D))).mean
    assert 0.08 < seen < 0.12
    assert bandit.intercept == pytest.approx(math.log(seen / (1 - seen)), rel=0.05)


# -- gradient steps --------------------------------------------------------------------------------


def descent(size, dim=3, epsilon=1.0, contributions=1, start=None, limits=(-1.0, 1.0)):
    budget = Budget(epsilon, 1e-6, contributions)
    estimator = Descent(dim, budget, limits)
    belief = estimator.prior if start is None else replace(estimator.prior, mean=start)
    return estimator.open(belief, size, SeededNoise(0)).attach(estimator, SeededNoise(0))


def average(window, rows, y):
    """What `close` releases, before its noise."""
    window.fold(rows, y)
    return window.average


def test_sgd__the_average_is_that_of_all_iterates_the_last_one_repeated():
    rng = np.random.default_rng(0)
    rows, y = contexts(12, 1, dim=3)[:, 0], rng.uniform(-1, 1, 12)
    window, theta, iterates = descent(20), np.zeros(3), []
    for phi, reward in zip(rows, y, strict=True):
        theta = theta + window.step * (reward - np.clip(phi @ theta, -1, 1)) * phi
        theta = theta / max(1, np.linalg.norm(theta))
        iterates.append(theta)
    expected = (np.sum(iterates, axis=0) + 8 * theta) / 20
    assert np.allclose(average(window, rows, y), expected, atol=1e-14)
    apart = descent(20)
    for phi, reward in zip(rows, y, strict=True):
        apart.fold_one(phi, reward)
    assert np.array_equal(apart.average, window.average)


def test_sgd__rows_beyond_the_length_of_the_window_move_nothing():
    rows, y = contexts(30, 1, dim=3)[:, 0], np.ones(30)
    window = descent(20)
    full = average(window, rows[:20], y[:20]).copy()
    assert np.array_equal(average(window, rows[20:], y[20:]), full)
    assert np.array_equal(average(descent(20), rows, y), full)
    assert window.taken == 20


LIMITS = [(-1.0, 1.0), (0.0, 1.0), (-1.0, 0.0), (0.5, 1.0)]


def claim(window):
    """In steps: what was derived in `Descent.sensitivity`."""
    rho = window.limits[1] - window.limits[0]
    return max(2 * rho, math.sqrt(2) * (rho + 2 / (window.size * window.step))) * window.step


@given(
    st.integers(0, 2**32),
    st.integers(1, 40),
    st.sampled_from(["random", "one direction", "orthogonal", "alternating", "zero"]),
    st.sampled_from([0.1, 1.0, 50.0]),
    st.sampled_from(LIMITS),
)
def test_sgd__a_row_replaced_moved_removed_or_added_moves_the_average_within_the_claim(
    seed, size, case, epsilon, limits
):
    rng = np.random.default_rng(seed)
    rows = rng.standard_normal((size + 3, 3))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    y = rng.choice(limits, size + 3)
    u, w = rows[0].copy(), np.cross(rows[0], rows[1])
    if case == "one direction":
        rows[:], y[:] = u, limits[1]
    elif case == "orthogonal":
        rows[:] = np.array([u, w / np.linalg.norm(w)])[np.arange(size + 3) % 2]
    elif case == "alternating":
        rows[:], y[:] = u, np.resize(limits, size + 3)
    elif case == "zero":
        rows[1:] = 0
    start = rng.choice([0.0, 1.0, -1.0]) * u
    n = size + int(rng.integers(-min(size - 1, 5), 3))  # fewer, or more than there is room for
    rows, y = rows[:n], y[:n]

    def run(rows, y):
        window = descent(size, epsilon=epsilon, start=start, limits=limits)
        return average(window, rows, y)

    base, window = run(rows, y), descent(size, epsilon=epsilon, start=start, limits=limits)
    limit = claim(window)
    assert window.total.sensitivity == pytest.approx(limit)
    low, high = limits
    for i in {0, n // 2, n - 1}:
        for phi, reward in ((-u, high), (u, low), (-rows[i], y[i]), (rows[i], low), (0 * u, low)):
            other, z = rows.copy(), y.copy()
            other[i], z[i] = phi, reward
            assert np.linalg.norm(run(other, z) - base) <= limit + 1e-12
            j = int(rng.integers(n))  # and at another place of the same window
            moved, late = np.delete(other, i, axis=0), np.delete(z, i)
            moved, late = np.insert(moved, j, phi, axis=0), np.insert(late, j, reward)
            assert np.linalg.norm(run(moved, late) - base) <= limit + 1e-12
        # Gone, perhaps to another window: each of the two may move by the claim over sqrt(2).
        other, z = np.delete(rows, i, axis=0), np.delete(y, i)
        assert np.linalg.norm(run(other, z) - base) <= limit / math.sqrt(2) + 1e-12


@pytest.mark.parametrize("limits", LIMITS[:2])
@pytest.mark.parametrize("size", [3, 30])
def test_sgd__a_search_for_the_worst_rows_stays_within_the_claim(limits, size):
    """Random ascent over everybody's rows, for replacing one of them and for leaving it out."""
    rng = np.random.default_rng(size)
    low, high = limits
    window = descent(size, dim=2, epsilon=8.0, limits=limits)
    limit = claim(window)

    def moves(angles, rewards, start):
        rows = np.column_stack([np.cos(angles), np.sin(angles)])
        first = np.array([np.cos(start), np.sin(start)])

        def run(keep):
            one = descent(size, dim=2, epsilon=8.0, start=first, limits=limits)
            return average(one, rows[keep], rewards[keep])

        # Row 0 is the person; row 1 what they are replaced by.
        others = np.arange(2, size + 2)
        with_row, replaced, gone = (
            run(np.concatenate([head, others])[:size].astype(int)) for head in ([0], [1], [])
        )
        return np.linalg.norm(with_row - replaced), np.linalg.norm(with_row - gone)

    for which, most in ((0, limit), (1, limit / math.sqrt(2))):
        best, found = -1.0, None
        for trial in range(600):
            if trial < 100:
                point = (
                    rng.uniform(0, 2 * math.pi, size + 2),
                    rng.choice(limits, size + 2),
                    rng.uniform(0, 2 * math.pi),
                )
            else:
                angles, rewards, start = found
                point = (
                    angles + 0.3 * rng.standard_normal(size + 2) * (rng.random(size + 2) < 0.3),
                    np.where(rng.random(size + 2) < 0.1, low + high - rewards, rewards),
                    start + 0.2 * rng.standard_normal(),
                )
            value = moves(*point)[which]
            if value > best:
                best, found = value, point
        assert best <= most + 1e-12
        assert best > 0.3 * most, "the search is on something"


def test_sgd__iterates_stay_in_the_unit_ball():
    rows, y = np.tile(np.eye(3), (30, 1)), np.ones(90)  # unprojected they would go to (1, 1, 1)
    window = descent(90, epsilon=50.0)
    theta = average(window, rows, y)
    assert np.linalg.norm(window.theta) == pytest.approx(1)
    assert np.allclose(window.theta, 1 / math.sqrt(3), atol=0.1)
    assert np.linalg.norm(theta) <= 1


def test_sgd__releases_the_average_with_the_claimed_noise():
    rng = np.random.default_rng(0)
    rows = contexts(64, 1, dim=2000)[:, 0]
    window = descent(64, dim=2000)
    expected = average(window, rows, rng.uniform(-1, 1, 64))
    (release,) = window.opening
    belief, _ = window.close(Descent(2000, Budget(1.0, 1e-6), (-1.0, 1.0)).prior)
    errors = belief.mean - expected
    assert errors.std() == pytest.approx(release.scale, rel=0.12)  # 7 deviations of 2,000
    assert release.scale == pytest.approx(release.sensitivity / gaussian_mu(1.0, 1e-6))
    assert release.sensitivity == pytest.approx(claim(window))


def test_sgd__thousands_of_features_run_fast_learn_and_need_little_memory(tmp_path):
    dim, T = 2000, 3000
    bandit = LinearBandit(dim, T, 3.0, seed=0, noise=SeededNoise(0))
    assert isinstance(bandit._estimator, Descent)
    theta = np.zeros(dim)
    theta[:5] = [0.7, -0.5, 0.3, 0.3, 0.2]
    rng, lost, uniform, start = np.random.default_rng(0), [], [], time.perf_counter()
    while bandit.rounds < T:
        n = min(bandit.rounds_until_release, 250, T - bandit.rounds)
        X = np.zeros((n, 4, dim))
        X[:, :, :5] = contexts(n, 4, seed=bandit.rounds, dim=5)
        chosen = bandit.decide_many(X)
        bandit.learn_many(
            chosen, np.clip(chosen.rows @ theta + 0.1 * rng.standard_normal(n), -1, 1)
        )
        means = X @ theta
        lost.extend(means.max(axis=1) - chosen.rows @ theta)
        uniform.extend(means.max(axis=1) - means.mean(axis=1))
    assert time.perf_counter() - start < 10
    assert np.mean(lost[-1000:]) < 0.9 * np.mean(uniform[-1000:])
    bandit.save(tmp_path / "state.npz")
    assert (tmp_path / "state.npz").stat().st_size < 8 * 8 * dim


def test_sgd__is_chosen_for_many_features_only():
    assert isinstance(make(dim=401)._estimator, Descent)
    assert not isinstance(make(dim=400)._estimator, Descent)
    assert not isinstance(make(dim=401, policy="greedy")._estimator, Descent)
