"""NoisySFW, NoisySGD, LocalMD: calibration, limits, and that they learn."""

import math

import numpy as np
import pytest

from discreet.domains import Ball, Cube, LpBall
from discreet.optimization.baselines import LocalMD, NoisySFW, NoisySGD
from discreet.privacy import SeededNoise, gaussian_mu


def world(n, d, p=2.0, seed=0):
    rng = np.random.default_rng(seed)
    q = 1.0 if math.isinf(p) else p / (p - 1)
    X = rng.normal(size=(n, d))
    X /= np.linalg.norm(X, q, axis=1, keepdims=True)
    theta = np.full(d, 0.7 * d ** (-1 / p))
    return X, X @ theta, theta


@pytest.mark.parametrize("kind", [NoisySFW, NoisySGD])
@pytest.mark.parametrize("k", [1, 2])
def test_batch__one_row_never_pays_more_than_the_budget(kind, k):
    X, y, _ = world(400, 3)
    learner = kind(Ball(3), 1.0, 1e-5, contributions=k, noise=SeededNoise(0)).fit(X, y)
    costs = {}
    for release in learner.guarantee.releases:
        costs[release.scope] = costs.get(release.scope, 0.0) + release.mu**2
    assert max(costs.values()) == pytest.approx(gaussian_mu(1.0, 1e-5) ** 2)
    assert len(costs) == (1 if kind is NoisySGD else 1 + 200 // 10)
    with pytest.raises(ValueError, match="spent"):
        learner.fit(X, y)


@pytest.mark.parametrize("kind", [NoisySFW, NoisySGD])
def test_batch__replacing_a_row_moves_the_first_mean_by_the_stated_sensitivity(kind):
    """Opposite labels on an extreme row, against the sensitivity in the record."""
    X, y, _ = world(100, 3)
    X[0], means = [1.0, 0.0, 0.0], []
    for label in (-1.0, 1.0):
        y[0] = label
        learner = kind(Ball(3), math.inf)
        seen = []
        learner._mean_of = learner._mean
        learner._mean = lambda terms, *rest, of=learner, at=seen: (
            at.append(of._mean_of(terms, *rest)) or at[-1]
        )
        learner.fit(X, y)
        means.append(seen[0])
    (release, *_) = learner.guarantee.releases
    moved = np.linalg.norm(means[0] - means[1])
    assert 0.4 * release.sensitivity <= moved <= release.sensitivity


def test_sfw__without_privacy_is_its_recursion():
    X, y, _ = world(100, 2)
    learner = NoisySFW(Ball(2), math.inf).fit(X, y)
    theta, eta = np.zeros(2), 0.1
    d = X[:50].T @ (X[:50] @ theta - y[:50]) / 50
    for start in range(50, 100, 5):
        x, label = X[start : start + 5], y[start : start + 5]
        before, theta = theta, theta + eta * (-d / np.linalg.norm(d) - theta)
        now, then = (x.T @ (x @ at - label) / 5 for at in (theta, before))
        d = (1 - eta) * (d + now - then) + eta * now
    theta = theta + eta * (-d / np.linalg.norm(d) - theta)
    assert learner.theta == pytest.approx(theta)


@pytest.mark.parametrize("p", [1.5, 2.0, math.inf])
def test_batch__learns_with_a_large_budget(p):
    X, y, theta = world(4000, 3, p)
    for kind in (NoisySFW, NoisySGD):
        learner = kind(LpBall(p, 3), 20.0, 1e-5, noise=SeededNoise(0)).fit(X, y)
        assert np.linalg.norm(learner.theta - theta) < 0.5 * np.linalg.norm(theta), kind


@pytest.mark.parametrize("domain", [LpBall(1.5, 2), Ball(2), Cube(2)], ids=str)
def test_local__reports_are_pure_and_theta_is_near(domain):
    p = {"Ball": 2.0, "Cube": math.inf}.get(type(domain).__name__, 1.5)
    X, y, theta = world(6000, 2, p)
    learner = LocalMD(domain, 6000, 4.0, noise=SeededNoise(0))
    for x, label in zip(X, y, strict=True):
        learner.learn(x, label)
    assert np.linalg.norm(learner.theta - theta) < 0.5 * np.linalg.norm(theta)
    promise = learner.guarantee
    assert (promise.epsilon, promise.delta, promise.trust) == (4.0, 0.0, "local")
    assert any("whoever runs this process" in line for line in promise.unprotected)
    assert not learner.learning
    assert learner.learn(X[0], y[0]) is False


def test_local__a_bad_row_changes_nothing():
    learner = LocalMD(Ball(2), 10, 1.0, noise=SeededNoise(0))
    with pytest.raises(ValueError, match="finite"):
        learner.learn([math.nan, 0.0], 0.0)
    assert learner.rounds == 0
    assert not learner.theta.any()


@pytest.mark.parametrize("kind", [NoisySFW, NoisySGD])
def test_batch__needs_delta_from_the_start(kind):
    with pytest.raises(ValueError, match="delta"):
        kind(Ball(2), 1.0, 0.0)
    kind(Ball(2), math.inf, 0.0)


def test_batch__refuses_what_does_not_fit():
    with pytest.raises(ValueError, match="rows"):
        NoisySFW(Ball(2), 1.0).fit(np.zeros((10, 2)), np.zeros(9))
    with pytest.raises(ValueError, match="finite"):
        NoisySFW(Ball(2), 1.0).fit(np.full((10, 2), math.nan), np.zeros(10))
