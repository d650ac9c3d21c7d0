import math

import numpy as np
import pytest

from discreet.bandits import LinearBandit
from discreet.environments import world
from discreet.environments.tables import table_world
from discreet.experiments.experiment import Cell, Choice
from discreet.experiments.task import marks
from discreet.experiments.tasks import TASKS
from discreet.features import Number
from discreet.privacy import SeededNoise


def cell(task, environment, learner, epsilon=1.0, rounds=2000, seed=3):
    return Cell(task, environment, learner, epsilon, 1e-6, rounds, 6, seed)


def test_bandits__equals_a_plain_loop_round_by_round():
    ours = TASKS["bandits"].run(cell("bandits", Choice("sphere", {"dim": 3}),
                                     Choice("LinearBandit"), rounds=400))  # fmt: skip
    bandit = LinearBandit(3, 400, 1.0, 1e-6, reward_range=(-1.0, 1.0), seed=3, noise=SeededNoise(3))
    people = world("sphere", dim=3, seed=3).people(400, np.random.default_rng([3, 1]))
    coins, regret = np.random.default_rng([3, 2]), []
    for i in range(400):
        decision = bandit.decide(people.features[i])
        one = people[i : i + 1]
        regret.append(one.regret([decision.action])[0])
        bandit.learn(decision, one.rewards([decision.action], coins)[0])
    np.testing.assert_allclose(ours.value, np.cumsum(regret)[ours.n.astype(int) - 1])
    np.testing.assert_allclose(ours.blind[-1], np.sum(people.best - people.means.mean(axis=1)))
    assert ours.guarantee.epsilon == 1.0
    assert ours.guarantee.delta == 1e-6


@pytest.mark.parametrize(
    ("learner", "trust"),
    [
        (Choice("LinearBandit", {"trust": "local"}), "local"),
        (Choice("LinearBandit", {"policy": "thompson", "model": {"link": "logistic"}}), "joint"),
        (Choice("ContinualLinUCB", {"mechanism": "blt"}), "joint"),
        (Choice("ContinualLinUCB", {"mechanism": "tree"}), "joint"),
        (Choice("LocalLinUCB"), "local"),
        (Choice("LocalSGDBandit"), "local"),
        (Choice("LinUCB"), "none"),
    ],
)
def test_bandits__every_learner_runs_and_states_its_promise(learner, trust):
    outcome = TASKS["bandits"].run(cell("bandits", Choice("half", {"dim": 3}), learner))
    assert (np.diff(outcome.value) >= 0).all()
    promise = outcome.guarantee
    if trust == "none":
        assert not promise.private
    else:
        assert (promise.trust, promise.epsilon) == (trust, 1.0)
        assert promise.delta == (0.0 if trust == "local" else 1e-6)


@pytest.mark.parametrize(
    ("options", "knows"), [({}, True), ({"trust": "local"}, False), ({"policy": "descent"}, False)]
)
def test_bandits__a_table_tells_a_joint_learner_its_blocks(options, knows):
    here = table_world(
        {"age": [25, 40], "buys": ["tea", "milk"]},
        context={"age": Number(20, 60)}, label="buys", actions=["tea", "milk"],
    )  # fmt: skip
    asked = cell("bandits", Choice("table"), Choice("LinearBandit", options))
    learner = TASKS["bandits"].learner(asked, here)
    assert learner.model.blocks == ((0, 0, 1, 1) if knows else None)


def test_regression__privacy_costs_and_more_rows_help():
    task, environment = TASKS["regression"], Choice("sphere", {"dim": 3})
    private, plain, off = (
        task.run(cell("regression", environment, Choice(name), epsilon=epsilon))
        for name, epsilon in (
            ("PrivateLinearRegression", 1.0),
            ("OLS", math.inf),
            ("PrivateLinearRegression", math.inf),
        )
    )
    assert private.n[0] == 50
    assert private.n[-1] == 2000
    assert plain.value[-1] == pytest.approx(0.01, rel=0.1)  # the labels' own noise
    # One test set: the private fit may err to its side, by chance and little.
    assert 0.99 * plain.value[-1] <= private.value[-1] < private.value[0]
    np.testing.assert_allclose(off.value, plain.value, rtol=1e-3)
    assert private.blind[-1] == pytest.approx(1 / 3 + 0.01, rel=0.1)
    assert private.guarantee.epsilon == 1.0
    assert not plain.guarantee.private


def test_regression__real_data_are_held_out():
    task = TASKS["regression"]
    rows = task.environment(Choice("diabetes"), 300, 0)
    assert len(rows.X) == 300
    assert len(rows.test_X) == 88
    assert np.linalg.norm(rows.X, axis=1).max() <= 1
    with pytest.raises(ValueError, match="set rounds = 354"):
        task.environment(Choice("diabetes"), 400, 0)


@pytest.mark.parametrize("name", ["FTRL", "FTPL", "AdversarialBandit"])
def test_online__regret_is_against_the_best_so_far(name):
    task = TASKS["online"]
    outcome = task.run(cell("online", Choice("gap", {"n": 4}), Choice(name), epsilon=5.0))
    losses = task.environment(Choice("gap", {"n": 4}), 2000, 3)
    best = losses.sum(axis=0).min()
    assert outcome.blind[-1] == pytest.approx(losses.mean(axis=1).sum() - best)
    assert outcome.value[-1] < outcome.blind[-1]
    assert outcome.guarantee.private


def test_online__without_noise_ftrl_is_hedge():
    plain, off = (
        TASKS["online"].run(cell("online", Choice("gap", {"n": 4}), Choice(name), math.inf))
        for name in ("Hedge", "FTRL")
    )
    np.testing.assert_allclose(plain.value, off.value)
    assert 0 < plain.value[-1] < plain.blind[-1]


def test_marks__end_at_the_last_round():
    for rounds in (3, 10, 77, 10**6):
        n = marks(rounds, 40)
        assert n[-1] == rounds
        assert (np.diff(n) > 0).all()
        assert len(n) <= 40
