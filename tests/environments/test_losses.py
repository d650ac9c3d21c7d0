import math

import numpy as np
import pytest

from discreet.environments.losses import (
    NAMES,
    expert_losses,
    regret,
)

T, N = 20_000, 6


@pytest.mark.parametrize("name", NAMES)
def test_expert_losses__lie_in_the_unit_box_and_follow_their_seed(name):
    L = expert_losses(name, T, N, seed=3)
    assert L.shape == (T, N)
    assert L.dtype == np.float64
    assert set(np.unique(L)) == {0.0, 1.0}
    assert np.array_equal(L, expert_losses(name, T, N, seed=3))
    if name != "killer":
        assert not np.array_equal(L, expert_losses(name, T, N, seed=4))


def test_gap__one_expert_is_better_by_the_gap():
    for gap in (0.05, 0.3):
        means = np.sort(expert_losses("gap", 200_000, N, gap=gap, seed=0).mean(axis=0))
        assert means[0] == pytest.approx(0.5 - gap, abs=0.006)  # five deviations
        assert means[1:] == pytest.approx(np.full(N - 1, 0.5), abs=0.006)


def test_shifting__the_leader_of_each_tenth_is_another_one():
    tenths = expert_losses("shifting", T, N, gap=0.2, seed=1).reshape(10, T // 10, N).mean(axis=1)
    best = tenths.argmin(axis=1)
    assert (best[1:] != best[:-1]).all()
    assert (tenths.min(axis=1) < 0.4).all()


def test_walk__means_wander():
    L = expert_losses("walk", T, N, seed=1)
    parts = L.reshape(20, T // 20, N).mean(axis=1)
    assert parts.std(axis=0).mean() > 0.1  # fair coins: 0.016
    assert np.abs(np.diff(parts, axis=0)).mean() < 0.3


def test_coins__are_fair():
    assert expert_losses("coins", T, N, seed=1).mean() == pytest.approx(0.5, abs=0.01)


def test_killer__following_the_leader_loses_every_round():
    L = expert_losses("killer", T, N, seed=0)
    totals = np.concatenate([np.zeros((1, N)), np.cumsum(L, axis=0)[:-1]])
    leaders = totals[:, :2].argmin(axis=1)
    assert (L[np.arange(T), leaders] == 1).all()
    assert (totals.argmin(axis=1) == leaders).all()
    follow = np.eye(N)[leaders]
    assert regret(L, follow) == pytest.approx(T / 2)


def test_regret__is_against_the_best_fixed_expert():
    L = np.array([[0.0, 1.0, 0.5], [1.0, 0.0, 0.5], [0.0, 0.0, 0.5]])
    X = np.array([[1.0, 0, 0], [1.0, 0, 0], [0, 0, 1.0]])
    assert regret(L, X) == pytest.approx(1.5 - 1.0)


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"name": "easy"}, "name"),
        ({"rounds": 0}, "rounds"),
        ({"n": 1}, "n must"),
        ({"gap": 0.6}, "gap"),
        ({"gap": math.nan}, "gap"),
        ({"seed": -1}, "seed"),
    ],
)
def test_expert_losses__refuse_bad_arguments(changed, words):
    with pytest.raises(ValueError, match=words):
        expert_losses(**{"name": "gap", "rounds": 10, "n": 3, "seed": 0, **changed})
