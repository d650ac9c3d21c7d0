"""Templates for learners, worlds, domains, methods and attacks of one's own run as they stand."""

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"
SMALL = {
    "own_learner": "2000",
    "own_world": "1000",
    "own_domain": "2000",
    "own_method": "2000",
    "own_attack": "1000",
}


@pytest.fixture
def examples(monkeypatch):
    monkeypatch.setattr(sys, "path", [str(EXAMPLES), *sys.path])


def numbers(name):
    command = [sys.executable, f"{name}.py", SMALL[name]]
    done = subprocess.run(command, cwd=EXAMPLES, capture_output=True, text=True, check=True)
    return done.stdout, [float(each) for each in re.findall(r"\d+\.\d+", done.stdout)]


@pytest.mark.parametrize("name", SMALL)
def test_template__runs_is_short_and_says_how_to_run_it(name):
    text = (EXAMPLES / f"{name}.py").read_text()
    assert f"python examples/{name}.py" in text
    assert len(text.splitlines()) <= 100
    out, found = numbers(name)
    assert found
    if name == "own_attack":
        assert "not refuted" in out


def test_own_learner__promises_what_it_spends_and_counts_a_round_once(examples):
    from own_learner import ExploreThenCommit

    from discreet.privacy import SeededNoise

    learner = ExploreThenCommit(2, 100, 1.0, noise=SeededNoise(0))
    first = learner.decide(None)
    assert learner.learn(first, 5.0)  # clipped
    assert not learner.learn(first, 1.0)  # a second one would cost twice
    with pytest.raises(ValueError, match="finite"):
        learner.learn(learner.decide(None), np.nan)
    while learner.best is None:
        learner.learn(learner.decide(None), 0.0)
    (release,) = learner.guarantee.releases
    assert release.sensitivity == 2.0
    assert learner.guarantee.epsilon_at(1e-6) == pytest.approx(1.0)


def test_own_domain__its_minimiser_is_the_best_of_its_corners(examples):
    from own_domain import CappedSimplex

    rng = np.random.default_rng(0)
    domain = CappedSimplex(5, 0.3)
    g = rng.standard_normal(5)
    best = domain.linear_minimizer(g)
    assert best.sum() == pytest.approx(1.0)
    corners = (rng.permutation([0.3, 0.3, 0.3, 0.1, 0.0]) for _ in range(200))
    assert all(best @ g <= corner @ g + 1e-12 for corner in corners)


def test_own_method__its_sensitivity_covers_the_worst_pair(examples):
    # Opposite labels on the boundary move v v' by sqrt(2) 2: what is booked is not too much.
    from own_method import RidgeOnce

    bounds = {"norm_bound": 1.0, "label_bound": 1.0, "fit_intercept": False, "random_state": 0}
    model = RidgeOnce(1.0, **bounds).fit(np.eye(2), [1.0, 0.0])
    (release,) = model.guarantee_.releases
    v, w = np.array([1.0, 0.0, 1.0]), np.array([0.0, 1.0, 0.0])
    assert np.linalg.norm(np.outer(v, v) - np.outer(w, w)) <= release.sensitivity
    v, w = np.array([1.0, 0.0, 1.0]), np.array([1.0, 0.0, -1.0])
    assert np.linalg.norm(np.outer(v, v) - np.outer(w, w)) == pytest.approx(release.sensitivity)


def test_own_attack__notices_half_of_the_noise_and_is_found_for_a_dossier(examples):
    # Power: noise of half the scale is caught; a false alarm has probability 1 in 1,000.
    from own_attack import explore_then_commit
    from own_learner import ExploreThenCommit

    from discreet.audit import ATTACKS, audit_scores
    from discreet.audit.attacks import attacks_on
    from discreet.audit.rows import Claim, noise_of

    half = Claim(2.1, 1e-6, "gaussian")  # the noise of about half of what (1, 1e-6) needs
    sides = [explore_then_commit(half, 3000, side, noise_of(0, side)) for side in (0, 1)]
    found = audit_scores(*sides, delta=1e-6, confidence=0.999, method="gdp", claim=1.0)
    assert found.verdict == "BROKEN"
    learner = ExploreThenCommit(2, 100, 1.5)
    (attack,) = attacks_on(learner, learner.guarantee)
    assert attack.name == "explore then commit"
    assert attack.claim.epsilon == 1.5
    del ATTACKS["explore then commit"]


def test_own_experiment__names_a_learner_and_a_world_of_its_own(tmp_path, monkeypatch, capsys):
    from dataclasses import replace

    from discreet.experiments.report import html
    from discreet.experiments.runner import run
    from discreet.experiments.tasks import read_experiment

    monkeypatch.setattr(sys, "path", list(sys.path))
    plan = replace(read_experiment(EXAMPLES / "own_experiment.toml"), rounds=300, seeds=(1, 2))
    results = run(plan, tmp_path, workers=1)
    page = html(results)
    assert "Visitors of a shop, of two kinds" in page
    assert set(results.summary()["learner"]) == {"explore, then commit", "LinearBandit", "LinUCB"}
