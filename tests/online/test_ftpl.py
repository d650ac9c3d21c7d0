"""FTPL: what is its own; what it shares with FTRL is tested in test_ftrl.py."""

import math

import numpy as np
import pytest

from discreet.domains import Ball, Cube, Polytope, Simplex
from discreet.environments.losses import expert_losses, regret
from discreet.online import FTPL
from discreet.privacy import SeededNoise

SQUARE = Polytope(np.vstack([np.eye(2), -np.eye(2)]), np.ones(4))


@pytest.mark.parametrize("domain", [Simplex(4), Cube(3), Ball(3), SQUARE])
def test_ftpl__without_privacy_follows_the_leader_of_a_growing_perturbation(domain):
    n, T = domain.dim, 200
    rng = np.random.default_rng(0)
    L = rng.random((T, n)) if domain.loss_set == "box" else rng.uniform(-1, 1, (T, n)) / n
    learner = FTPL(domain, T, math.inf, seed=7)
    z = np.random.default_rng(7).standard_normal(n)
    unit = {"Simplex": 0.3, "Polytope": 2**-0.25 / math.sqrt(2)}.get(
        type(domain).__name__, 1 / math.sqrt(2 * n)
    )
    total = np.zeros(n)
    for t, loss in enumerate(L, 1):
        x = domain.linear_minimizer(total + unit * math.sqrt(t) * z)
        assert learner.decide() == pytest.approx(x, abs=1e-9)
        learner.learn(loss)
        total += loss


@pytest.mark.parametrize(("epsilon", "delta"), [(1.0, 1e-6), (10.0, 0.0), (20.0, 1e-6)])
def test_perturbation__tops_up_the_privacy_noise_and_no_more(epsilon, delta):
    T = 50_000
    learner = FTPL(Simplex(3), T, epsilon, delta, loss_bound=2.0, noise=SeededNoise(0))
    t = np.arange(2, T + 1)
    held, added = learner.std(t - 1), learner.perturbation(t)
    needed = 0.3 * 2.0 * np.sqrt(t)
    assert np.allclose(np.hypot(held, added), np.maximum(held, needed))
    assert (added > 0).any()
    assert added[held > needed].max(initial=0.0) == 0
    assert learner.perturbation(1) == pytest.approx(0.6)
    assert [learner._one(k) for k in (1, 2, 1023, 1024, 1025, T, T + 1)] == pytest.approx(
        [float(learner.perturbation(k)) for k in (1, 2, 1023, 1024, 1025, T, T + 1)]
    )


def test_seed__decides_the_perturbation_and_noise_does_not():
    L = np.full((50, 4), 0.5)
    runs = [FTPL(Simplex(4), 50, math.inf, seed=s).run(L) for s in (1, 1, 2, 3, 4, 5)]
    assert np.array_equal(runs[0], runs[1])
    assert any(not np.array_equal(runs[0], other) for other in runs[2:])


def test_ftpl__decides_at_vertices():
    L = expert_losses("coins", 500, 5, seed=0)
    X = FTPL(Simplex(5), 500, 1.0, 1e-6, seed=0, noise=SeededNoise(0)).run(L)
    assert np.array_equal(np.sort(X, axis=1), np.tile([0, 0, 0, 0, 1.0], (500, 1)))


def test_ftpl__regret_on_easy_and_on_hostile_losses():
    """T = 10^5, N = 10, 4 draws: 98 +- 35 and 280 +- 86 each; the issue asks for 150 and 350.
    Following the leader without noise loses 50,000 on the killer."""
    T = 100_000
    means = {}
    for name in ("gap", "killer"):
        L = expert_losses(name, T, 10, seed=0)
        means[name] = np.mean(
            [
                regret(L, FTPL(Simplex(10), T, 1.0, 1e-6, seed=s, noise=SeededNoise(s)).run(L))
                for s in range(4)
            ]
        )
    assert means["gap"] < 150
    assert means["killer"] < 350


def test_guarantee__names_its_algorithm():
    promise = FTPL(Simplex(3), 5000, 1.0, 1e-6, noise=SeededNoise(0)).guarantee
    assert "Algorithm 3" in promise.reference
    assert (promise.epsilon, promise.delta, promise.trust) == (1.0, 1e-6, "central")
