import json
import math
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from discreet import environments
from discreet.arrays import symmetric_to_vector, vector_to_symmetric
from discreet.bandits import Device, LinearBandit, LocalServer, People, Promise, PublicPolicy
from discreet.bandits.local import own_seed
from discreet.bandits.local_protocol import FRACTIONS, questions
from discreet.bandits.policies import Thompson
from discreet.environments.linear import linear_world
from discreet.local import Report
from discreet.local.questions import answer as answer_to
from discreet.local.report import Answers, report_many
from discreet.privacy import SeededNoise

EXAMPLE = Path(__file__).parents[2] / "examples" / "local_devices.py"
ACTIONS = np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.6, 0.8]])


def late_policy(d, rng, epsilon=1.0, **more):
    """A public policy late in a badly conditioned run."""
    root = rng.standard_normal((d, d)) * np.geomspace(1e-3, 1e3, d)
    whitening = np.linalg.cholesky(root @ root.T + 1e-9 * np.eye(d))
    return PublicPolicy(
        window=7,
        theta=rng.standard_normal(d),
        root=root,
        draws=rng.standard_normal((64, d)),
        whitening=(whitening + whitening.T) / 2,
        questions=questions(float(np.exp(rng.uniform(-8, 0)))),
        epsilon=epsilon,
        **more,
    )


def answer(rows, rewards, name, policy):
    return answer_to(rows, rewards, policy.question(name), policy.theta, policy.whitening)


def corners(policy, rng):
    """Records at the edges of what is allowed, and beyond."""
    d = len(policy.theta)
    unit = rng.standard_normal(d)
    unit /= np.linalg.norm(unit)
    longest = np.linalg.eigh(policy.whitening)[1][:, -1]
    rows = [unit, -unit, 1e-12 * unit, 0 * unit, 50 * unit, longest, -longest]
    return np.repeat(rows, 4, axis=0), np.tile([1.0, -1.0, 0.0, 1e6], len(rows))


def play(bandit, rounds, seed=0, name="sphere", dim=3):
    """Regret of a bandit and of uniform play in the same world."""
    world, rng = linear_world(name, dim, seed=seed), np.random.default_rng([seed, 1])
    people = world.people(rounds, rng)
    regret = done = 0
    while done < rounds:
        some = people[done : done + bandit.rounds_until_release]
        decisions = bandit.decide_many(some.features)
        bandit.learn_many(decisions, some.rewards(decisions.action, rng))
        regret += some.regret(decisions.action).sum()
        done += len(some)
    return regret, (people.best - people.means.mean(axis=1)).sum()


def bandit(seed=0, **more):
    return LinearBandit(
        3, trust="local", **{"epsilon": 4.0, "seed": seed, "noise": SeededNoise(seed)} | more
    )


# -- the device ------------------------------------------------------------------------------------


@given(st.sampled_from(tuple(FRACTIONS)), st.integers(1, 6), st.integers(0, 2**31))
def test_local__an_answer_has_norm_at_most_one_whatever_the_record(question, d, seed):
    rng = np.random.default_rng(seed)
    policy = late_policy(d, rng)
    rows, rewards = corners(policy, rng)
    values = answer(rows, rewards, question, policy).reshape(len(rows), -1)
    assert np.linalg.norm(values, axis=1).max() <= 1 + 1e-12


@given(st.sampled_from(tuple(FRACTIONS)), st.integers(1, 5), st.integers(0, 2**31))
def test_local__no_report_tells_two_records_apart_by_more_than_its_epsilon(question, d, seed):
    rng = np.random.default_rng(seed)
    policy = late_policy(d, rng, epsilon=3.0, contributions=2)
    rows, rewards = corners(policy, rng)
    channel, answers = policy.channels[question], answer(rows, rewards, question, policy)
    sent = channel.privatize(np.repeat(answers, 10, axis=0), SeededNoise(seed), clip=True)
    answers = answers / np.maximum(
        1, np.linalg.norm(answers.reshape(len(rows), -1), axis=1)
    ).reshape(-1, *[1] * (answers.ndim - 1))
    densities = np.array([channel.log_density(sent, value) for value in answers])
    assert np.ptp(densities, axis=0).max() <= 3.0 / 2 + 1e-9


def test_local__reports_have_the_mean_that_the_server_solves_for():
    """clip E[moment] = E[gram] w exactly, for residuals that are errors of theta alone."""
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((500, 3))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    truth = np.array([0.5, -0.4, 0.3])
    policy = PublicPolicy.start(3, math.inf, clip=0.1)  # most residuals are cut
    moment = answer(rows, rows @ truth, "moment", policy).mean(axis=0)
    gram = vector_to_symmetric(answer(rows, rows @ truth, "gram", policy)).mean(axis=0)
    assert np.abs(moment).max() > 0.1
    assert np.allclose(0.1 * moment, gram @ truth, atol=1e-12)


def test_local__a_device_reports_a_round_once_and_at_most_k_rounds():
    device = Device(
        PublicPolicy.start(3, 1.0, contributions=2),
        Promise(epsilon=1.0),
        seed=0,
        noise=SeededNoise(0),
    )
    first, second, third = (device.decide(ACTIONS) for _ in range(3))
    device.report(second, 0.1)
    with pytest.raises(ValueError, match="not been reported"):
        device.report(second, 0.1)
    device.report(first, 99.0)  # cut to the bound
    with pytest.raises(ValueError, match="no budget"):
        device.report(third, 0.1)


def test_local__a_device_keeps_its_promise_whatever_the_server_publishes():
    device = Device(PublicPolicy.start(3, 1.0), Promise(epsilon=1.0), seed=0)
    rng = np.random.default_rng(0)
    with pytest.raises(ValueError, match="epsilon=1"):
        device.update(late_policy(3, rng, epsilon=50.0))
    with pytest.raises(ValueError, match="contributions=1"):
        device.update(late_policy(3, rng, contributions=2))
    device.update(late_policy(3, rng))
    with pytest.raises(ValueError, match="newer"):
        device.update(PublicPolicy.start(3, 1.0))


def test_local__a_late_reward_answers_the_question_that_is_open():
    device = Device(PublicPolicy.start(3, 1.0), Promise(epsilon=1.0), seed=0, noise=SeededNoise(0))
    decision = device.decide(ACTIONS)
    device.update(late_policy(3, np.random.default_rng(0)))
    assert device.report(decision, 0.5).window == 7


def test_local__features_of_a_wrong_shape_are_refused_without_quoting_them():
    device = Device(PublicPolicy.start(3, 1.0), Promise(epsilon=1.0), seed=0)
    for features in ([0.125, 0.5, 0.5], [[0.125, 0.5]], [[0.125], [0.5, 0.5]], []):
        with pytest.raises(ValueError, match="shape") as caught:
            device.decide(features)
        assert "0.125" not in str(caught.value)


@pytest.mark.parametrize("kind", ["thompson", "ucb", "greedy"])
def test_local__probabilities_are_the_law_of_the_choice(kind):
    rule = late_policy(3, np.random.default_rng(3), policy=kind).rule
    features = np.random.default_rng(4).standard_normal((1, 5, 3))
    coins = (np.arange(6400) + 0.5) / 6400
    chosen = rule.choose(np.repeat(features, 6400, axis=0), coins)
    shares = np.bincount(chosen, minlength=5) / 6400
    assert np.allclose(shares, rule.probabilities(features)[0])
    assert isinstance(rule, Thompson) == (kind == "thompson")


# -- JSON ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("epsilon", [1.0, math.inf])
def test_local__policies_and_reports_survive_json(epsilon):
    policy = late_policy(3, np.random.default_rng(0), epsilon=epsilon, outcome_range=(0.0, 1.0))
    again = PublicPolicy.from_dict(json.loads(json.dumps(policy.to_dict(), allow_nan=False)))
    rows, rewards = ACTIONS, np.array([0.1, 0.2, 0.3])
    coins = np.array([0.1, 0.22, 0.9])
    sent = [list(report_many(rows, rewards, p, coins, SeededNoise(5))) for p in (policy, again)]
    assert [report.question for report in sent[0]] == ["gram", "scale", "moment"]
    for report, other in zip(*sent, strict=True):
        told = Report(other.window, other.question, other.values)
        back = Report.from_dict(json.loads(json.dumps(told.to_dict(), allow_nan=False)))
        assert (back.window, back.question) == (7, report.question)
        assert (back.values == report.values).all()
    assert again.outcome_range == (0.0, 1.0)


def test_local__damaged_records_are_refused():
    good = PublicPolicy.start(2, 1.0).to_dict()
    broken = [
        {},
        good | {"whitening": [[1.0]]},
        good | {"epsilon": -1.0},
        good | {"policy": "other"},
        good | {"draws": [[1.0]]},
        good | {"exploring": 1.0},
        good | {"root": None},
    ]
    for record in broken:
        with pytest.raises(ValueError, match=r"policy|epsilon|state|must"):
            PublicPolicy.from_dict(record)
    report = {"window": 0, "question": "moment", "values": [[1.0, 2.0]]}
    for record in (None, report | {"question": 3}, report | {"values": [[math.nan, 0.0]]}):
        with pytest.raises(ValueError, match=r"report|question|finite"):
            Report.from_dict(record)


# -- the server ------------------------------------------------------------------------------------


def test_local__the_server_takes_reports_and_nothing_else():
    server = LocalServer(3, epsilon=1.0, seed=0)
    for record in (
        np.zeros((1, 3)),
        ([0.1, 0.2, 0.3], 0.4),
        {"values": [[0.0] * 3]},
        None,
        Report(0, "moment", [[0.0] * 3]),
    ):
        with pytest.raises(TypeError, match="takes a Report"):
            server.take(record)
    assert server.taken == 0


def test_local__whatever_is_sent_counts_once_or_not_at_all_and_alone():
    """1e9j entered a sum, and one report of 10^5 answers counted as 100,000 people."""
    server = LocalServer(3, epsilon=1.0, seed=0)
    radius = server.policy.channels["moment"].radius
    fine = radius * np.eye(3)[:1]
    swung = fine + 0j
    swung[0, 1] = 1e9j
    odd = [
        Report(0, "moment", swung),
        Report(0, "moment", fine + 0j),
        Report(0, "moment", fine.astype(object)),
        Report(0, "moment", np.full((1, 3), 10**400, dtype=object)),
        Report(0, "moment", np.full((1, 3), "7")),
        Report(0, "moment", np.repeat(fine, 100_000, axis=0)),
        Report(0, "moment", fine[:0]),
        Report(0, "moment", fine[0]),
        Report(0, "moment", np.array(radius)),
        Report(0, "moment", np.ma.masked_array(fine, mask=True)),
        Report(0, "moment", fine.tolist()),
        Report(np.array([0, 0]), "moment", fine),
        Report(False, "moment", fine),
        Report(0, ["moment"], fine),
        Answers(0, "moment", fine),
        None,
        fine,
        "report",
    ]
    assert server.take_many([Report(0, "moment", fine), *odd, Report(0, "moment", fine)]) == len(
        odd
    )
    assert (server.taken, server.refused) == (2, len(odd))
    assert server._sums["moment"].total.dtype == np.float64
    np.testing.assert_array_equal(server._sums["moment"].total, 2 * fine[0])


def test_local__late_and_impossible_reports_are_left_out_alone():
    server = LocalServer(3, epsilon=1.0, seed=0)
    radius = server.policy.channels["moment"].radius
    fine = radius * np.eye(3)[:1]
    assert server.take(Report(0, "moment", fine))
    assert not server.take(Report(1, "moment", fine))
    assert not server.take(Report(0, "moment", np.zeros((1, 2))))
    assert server.take_many([Report(0, "moment", x * fine) for x in (1, 2, np.nan)]) == 2
    assert not server.take(Report(0, "scale", np.array([50.0])))
    assert not server.take(Report(0, "scale", np.array([0.3])))
    assert not server.take(Report(0, "gram", symmetric_to_vector(50 * np.eye(3)[None])))
    assert not server.take(Report(0, "moment", ACTIONS[:1]))  # a bare record
    assert not server.take(
        Report(0, "gram", symmetric_to_vector(ACTIONS[:1, :, None] * ACTIONS[:1, None]))
    )
    assert (server.taken, server.refused) == (2, 9)
    server.close()
    assert not server.take(Report(0, "moment", fine))  # late


@pytest.mark.parametrize("epsilon", [0.3, 1.0, 6.0, math.inf])
def test_local__no_honest_report_is_refused(epsilon):
    server, rng = LocalServer(3, epsilon=epsilon, seed=0), np.random.default_rng(0)
    rows = rng.standard_normal((3000, 3))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    reports = report_many(
        rows, rng.uniform(-1, 1, 3000), server.policy, rng.random(3000), SeededNoise(0)
    )
    assert server.take_answers(reports) == 0
    assert server.taken == 3000


def test_local__the_servers_state_does_not_grow_with_people():
    learner = bandit()
    sizes = []
    for rounds in (50, 2000):
        play(learner, rounds)
        state = learner._estimator.server.state_dict()
        sizes.append(sum(value.size for value in state.values() if isinstance(value, np.ndarray)))
    # Gram sums 10, moment sums 12, scale sums 2, covariance and running Gram 9 each.
    assert max(sizes) <= 10 + 12 + 2 + 9 + 9


def test_local__windows_close_empty_without_harm():
    server = LocalServer(3, epsilon=1.0, seed=0)
    for _ in range(5):
        policy = server.close()
    assert policy.window == 5
    assert (policy.theta == 0).all()
    assert np.isfinite(policy.draws).all()


# -- the bandit ------------------------------------------------------------------------------------


def test_local__without_privacy_the_first_window_is_a_plain_posterior():
    learner = bandit(epsilon=math.inf)
    world, rng = linear_world("sphere", 3, seed=0), np.random.default_rng(0)
    n = learner.rounds_until_release
    people = world.people(n, rng)
    decisions = learner.decide_many(people.features)
    rewards = people.rewards(decisions.action, rng)
    asked = np.random.default_rng(own_seed(0, "questions")).random(n)  # the same public coins
    learner.learn_many(decisions, rewards)
    learner.decide(world.people(1, rng).features[0])
    X, y, clip, d = decisions.rows, rewards, 0.4, 3
    moments = X[asked >= 0.25] * np.clip(y[asked >= 0.25, None], -clip, clip)
    G = X[asked < 0.2]
    weights = np.minimum(1, clip / np.abs(y[asked < 0.2]))
    prior = 8.0 * d**2 * 2 / (d * (d + 1))  # reports that the start H = I/d is worth
    H = (prior * np.eye(d) / d + (G * weights[:, None]).T @ G) / (prior + len(G))
    v = 2 / (d * (d + 1)) / (prior + len(G))
    C = np.eye(d) / d
    noise = np.cov(moments.T, ddof=1) / len(moments) + v / 2 * (np.trace(C) * np.eye(d) + C)
    theta = C @ H @ np.linalg.solve(H @ C @ H + noise, moments.mean(axis=0))
    assert np.allclose(learner._estimator.server.policy.theta, theta)


@pytest.mark.parametrize("kind", ["thompson", "ucb", "greedy"])
def test_local__decide_many_is_many_times_decide_across_windows(kind):
    one, many = bandit(policy=kind), bandit(policy=kind)
    features = linear_world("sphere", 3, seed=0).people(400, np.random.default_rng(0)).features
    together = many.decide_many(features)
    apart = [one.decide(each) for each in features]
    assert [d.action for d in apart] == together.action.tolist()
    assert np.allclose([d.probability for d in apart], together.probability)
    assert one._estimator.server.policy.window > 2


def test_local__saving_and_loading_changes_no_future(tmp_path):
    learner, stopped = bandit(), bandit()
    assert play(learner, 300) == play(stopped, 300)
    stopped.save(tmp_path / "state.npz")
    again = LinearBandit.load(tmp_path / "state.npz")
    assert play(learner, 700, seed=5) == play(again, 700, seed=5)
    assert (learner._estimator.server.policy.theta == again._estimator.server.policy.theta).all()
    assert learner._estimator.server.policy.window > 5


def test_local__rewards_come_late_once_or_never():
    learner = bandit()
    decisions = learner.decide_many(np.tile(ACTIONS, (200, 1, 1)))
    late = decisions[0]
    assert learner.learn_many(decisions, np.full(200, np.nan)) == 200
    assert learner._estimator.server.policy.window > 1
    learner.learn(late, 0.5)
    assert learner._estimator.server.taken == 1  # in the open window, though decided in the first
    with pytest.raises(ValueError, match="once"):
        learner.learn(late, 0.5)
    with pytest.raises(ValueError, match="reward must lie"):
        learner.learn(decisions[1], 7.0)
    assert (learner._estimator.server.taken, learner._estimator.server.refused) == (1, 0)


def test_local__nothing_is_learned_past_the_horizon():
    learner = bandit(horizon=100)
    play(learner, 100)
    learner.decide(ACTIONS)
    taken, policy = learner._estimator.server.taken, learner._estimator.server.policy
    play(learner, 500)
    assert learner._estimator.server.taken == taken == 100
    assert learner._estimator.server.policy is policy


@pytest.mark.parametrize("kind", ["thompson", "ucb", "greedy"])
def test_local__learning_beats_uniform_play(kind):
    """At epsilon = 4 regret is a few hundredths of that of uniform play; a third is a failure."""
    for seed in range(3):
        regret, uniform = play(bandit(seed, policy=kind), 8000, seed)
        assert regret < uniform / 3


def test_local__regret_at_epsilon_1_flattens():
    """Sphere, d = 5, 10^5 rounds: 1,055 on six seeds, the largest 1,553."""
    learner = LinearBandit(5, epsilon=1.0, trust="local", seed=1, noise=SeededNoise(1))
    early, _ = play(learner, 50_000, seed=1, dim=5)
    late, uniform = play(learner, 50_000, seed=1, dim=5)
    assert early < 3500
    assert late < 0.02 * uniform


# -- the promise -----------------------------------------------------------------------------------


@pytest.mark.parametrize("k", [1, 3])
def test_local__the_promise_is_that_of_the_channels(k):
    learner = bandit(epsilon=0.9, people=People(rounds=k))
    assert learner.guarantee.releases == ()
    play(learner, 50)
    promise = learner.guarantee
    assert (promise.epsilon, promise.delta, promise.trust) == (0.9, 0.0, "local")
    assert promise.epsilon_at(0.0) == pytest.approx(0.9)
    assert promise.epsilon_at(0.0) <= 0.9
    assert promise.contributions == k
    assert any("action served" in each for each in promise.unprotected)
    assert any("more than 3" in each for each in promise.unprotected) == (k == 3)
    assert "simulation only" in promise.sampler
    for channel in learner._estimator.server.policy.channels.values():
        assert channel.report_epsilon * k == pytest.approx(0.9)


def test_local__without_privacy_the_promise_says_so():
    learner = bandit(epsilon=math.inf)
    play(learner, 5)
    promise = learner.guarantee
    assert "NO PRIVACY" in promise.statement()
    assert math.isinf(promise.epsilon_at(0.0))


def test_local__bad_arguments_are_refused():
    for wrong in (
        {"epsilon": 0.0},
        {"policy": "random"},
        {"norm_bound": -1.0},
    ):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            LinearBandit(3, trust="local", **wrong)


def test_local__server_and_devices_run_in_separate_processes():
    run = subprocess.run(
        [sys.executable, str(EXAMPLE)],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    rounds, _, uniform, mine, *statement = run.stdout.splitlines()
    assert "5,000 reports" in rounds
    assert float(mine.split()[-1]) < float(uniform.split()[-1]) / 4
    assert "differentially private (epsilon = 4, delta = 0)" in statement[0]


def test_local__the_length_of_a_window_is_said_before_it_opens():
    learner, server = bandit(), bandit()._estimator.server
    for window in range(4):
        said = learner.rounds_until_release
        assert said == server.size(window)
        learner.decide(ACTIONS)
        assert learner.rounds_until_release == said - 1
        play(learner, said - 1)


@pytest.mark.parametrize("seed", [60205, 60099])
def test_shuffled__a_direction_that_nobody_shows_any_more_stays_uncertain(seed):
    # Everybody is offered the same ten actions. The Gram of earlier windows counted as if it were
    # this one's: the best action was worth nothing by 8 standard errors, and regret 9,000 here.
    world = linear_world("fixed", 5, seed=seed)
    bandit = LinearBandit(5, 20_000, trust="shuffled", seed=seed, noise=SeededNoise(seed))
    played = environments.play(bandit, world, 20_000, seed=seed)
    assert played.regret.sum() < 1500
