"""Learners and worlds of one's own in an experiment: they run, and mistakes are told in a line."""

import json
import os
import sys
import textwrap

import numpy as np
import pytest

from discreet.bandits.baselines import LinUCB
from discreet.environments.linear import linear_world
from discreet.experiments import expected_regret, own
from discreet.experiments.experiment import Experiment
from discreet.experiments.runner import load, run
from discreet.experiments.tasks import TASKS, cells_of, check, read_experiment

MODULE = '''
import numpy as np
from discreet.environments.linear import linear_world
from discreet.online import FTRL
from discreet.regression.baselines import SSP

class First:
    """Always the first action."""
    action = 0
    def decide(self, features):
        return self
    def learn(self, decision, reward):
        pass

class Silent(First):
    """Takes epsilon and promises nothing."""
    def __init__(self, epsilon):
        pass

class Half:
    def decide(self, features):
        return self

class Mean:
    """Predicts the mean."""
    def fit(self, X, y):
        self.mean = y.mean()
        return self
    def predict(self, X):
        return np.full(len(X), self.mean)

class Mine(SSP):
    """A private regression."""

class Spread:
    """Spreads evenly over experts."""
    def __init__(self, domain):
        self.n = domain.dim
    def decide(self):
        return np.full(self.n, 1 / self.n)
    def learn(self, loss):
        pass
    def run(self, losses):
        return np.full(losses.shape, 1 / self.n)

class Leader(FTRL):
    """Follow the leader, private."""

def world(dim=3, seed=0):
    """People of our own; one of ten offers is made to each."""
    return linear_world("sphere", dim=dim, seed=seed)

def rows(seed):
    X = np.random.default_rng(seed).uniform(-0.5, 0.5, (300, 2))
    return X, X[:, 0]

def wide(seed):
    return np.full((300, 2), 9.0), np.zeros(300)

def losses(rounds, seed, n=3):
    return np.random.default_rng(seed).random((rounds, n))

def no_world():
    return object()

number = 3
'''


@pytest.fixture
def module(tmp_path, monkeypatch):
    name = f"mine_{tmp_path.name}".replace("-", "_")
    (tmp_path / f"{name}.py").write_text(MODULE)
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path)])
    return name


def experiment(task, learners, world, **more):
    return Experiment.from_dict({
        "task": task, "environments": [{"name": world}], "rounds": 100, "seeds": 2, "points": 3,
        "learners": [{"name": each} for each in learners], "epsilons": [1.0, 2.0], **more,
    })  # fmt: skip


@pytest.mark.parametrize(
    ("task", "private", "plain", "place"),
    [
        ("bandits", "LinearBandit", "First", "world"),
        ("regression", "Mine", "Mean", "rows"),
        ("online", "Leader", "Spread", "losses"),
    ],
)
def test_own__learners_and_worlds_run_in_every_task(task, private, plain, place, module, tmp_path):
    names = [private if private == "LinearBandit" else f"{module}:{private}", f"{module}:{plain}"]
    found = run(experiment(task, names, f"{module}:{place}"), tmp_path / "out", workers=1)
    summary = found.summary()
    assert len(summary) == 3  # two budgets, and the one without privacy once
    assert found.reference.name == f"{module}:{plain}"
    trusts = dict(zip(summary["learner"], summary["trust"], strict=True))
    assert trusts[f"{module}:{plain}"] == "none"
    assert len(load(tmp_path / "out").found) == len(found.found)


def test_own__the_same_numbers_as_by_hand(module, tmp_path):
    plan = experiment("bandits", [f"{module}:First"], f"{module}:world", seeds=[5])
    (value,) = run(plan, tmp_path, workers=1).summary()["mean"]
    mine = sys.modules[module]
    by_hand = expected_regret(lambda seed: mine.First(), mine.world(seed=5), 100, [5])
    assert value == pytest.approx(by_hand.mean, rel=1e-12)


def test_own__an_edit_of_the_module_runs_the_cell_again(module, tmp_path):
    plan = experiment("bandits", [f"{module}:First", "LinUCB"], "sphere")
    before = {cell.learner.name: cell.key for cell in cells_of(plan)}
    path = tmp_path / f"{module}.py"
    path.write_text(MODULE.replace("    action = 0", "    action = 1"))
    os.utime(path, (0, 0))  # another time than that of the compiled module
    del sys.modules[module]
    after = {cell.learner.name: cell.key for cell in cells_of(plan)}
    assert after["LinUCB"] == before["LinUCB"]
    assert after[f"{module}:First"] != before[f"{module}:First"]


def test_own__modules_beside_the_file_are_found_by_other_processes_too(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "beside_the_file.py").write_text(MODULE)
    text = """
        rounds = 50
        seeds = 2
        [[environments]]
        name = "beside_the_file:world"
        dim = 2
        [[learners]]
        name = "beside_the_file:First"
        """
    (tmp_path / "plan.toml").write_text(textwrap.dedent(text))
    found = run(read_experiment(tmp_path / "plan.toml"), tmp_path / "out", workers=2)
    assert len(found.found) == 2


@pytest.mark.parametrize(
    ("task", "learner", "place", "message"),
    [
        ("bandits", "no_such_module:X", "sphere", "there is no module 'no_such_module'"),
        ("bandits", "{}:Frist", "sphere", "has no 'Frist'"),
        ("bandits", "{}:number", "sphere", "is not a class or function that makes a learner"),
        ("bandits", "{}:Half", "sphere", "must have decide, learn; Half lacks learn"),
        ("bandits", "First", "sphere", "One of your own: 'module:Class'"),
        ("bandits", "{}:First", "spheer", "did you mean 'sphere'?"),
        ("bandits", "{}:First", "{}:no_world", "object lacks dim, n_actions, reward_range, people"),
        ("regression", "{}:First", "{}:rows", "a learner must have fit, predict"),
        ("regression", "{}:Mean", "{}:wide", "rows in the unit ball and labels in [-1, 1]"),
        ("regression", "{}:Mean", "{}:losses", "missing 1 required positional argument"),
        ("online", "{}:Spread", "{}:rows", "unexpected keyword argument 'rounds'"),
    ],
)
def test_own__mistakes_are_told_before_anything_runs(task, learner, place, message, module):
    plan = experiment(task, [learner.format(module)], place.format(module))
    with pytest.raises(ValueError, match=r".") as error:
        check(plan)
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_own__who_takes_epsilon_must_promise_something(module, tmp_path):
    plan = experiment("bandits", [f"{module}:Silent"], "sphere")
    with pytest.raises(ValueError, match="takes epsilon, so it must promise something"):
        run(plan, tmp_path, workers=1)


def test_own__a_broken_module_is_told_by_name(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path)])
    (tmp_path / "broken_module.py").write_text("1 / 0")
    (tmp_path / "half_module.py").write_text("import no_such_package")
    for name, message in (
        ("broken_module", "broken_module cannot be imported: ZeroDivisionError"),
        ("half_module", "half_module imports 'no_such_package', which is missing"),
    ):
        with pytest.raises(ValueError, match=message):
            check(experiment("bandits", [f"{name}:X"], "sphere"))


def test_own__installed_packages_offer_learners_and_worlds(module, tmp_path, monkeypatch):
    info = tmp_path / "offering-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: offering\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        f"[discreet.learners]\nFirstOne = {module}:First\n"
        f"[discreet.worlds]\nour-people = {module}:world\n"
    )
    own.offered.cache_clear()
    plan = experiment("bandits", ["FirstOne"], "our-people")
    assert own.offered("learner") == ("FirstOne",)
    assert len(run(plan, tmp_path / "out", workers=1).found) == 2
    about = TASKS["bandits"].about(plan.environments[0])
    assert "one of ten offers is made to each" in about
    own.offered.cache_clear()


def test_expected_regret__mean_and_interval_are_those_of_the_runs():
    found = expected_regret(lambda seed: LinUCB(5, seed=seed), "fixed", 300, [1, 2, 3])
    assert found.mean == pytest.approx(found.runs.mean())
    # Student, 2 degrees of freedom: 4.303 standard errors.
    assert found.half == pytest.approx(4.3027 * found.runs.std(ddof=1) / np.sqrt(3), rel=1e-4)
    assert 0 < found.gained < 1
    assert "3 runs" in str(found)
    fixed = linear_world("fixed", seed=1)
    again = expected_regret(lambda seed: LinUCB(5, seed=seed), lambda seed: fixed, 300, [1])
    assert json.dumps(again.runs.tolist()) == json.dumps(
        expected_regret(lambda seed: LinUCB(5, seed=seed), fixed, 300, [1]).runs.tolist()
    )
