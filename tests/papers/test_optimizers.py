"""NoisySFW, NoisySGD, LocalMD: calibration, attacks, limits, and that they learn."""

import math

import numpy as np
import pytest

from discreet.audit import audit_scores
from discreet.audit.rows import Claim
from discreet.audit.views import Likelihood, in_crowds
from discreet.domains import Ball, Cube, LpBall
from discreet.privacy import SeededNoise, gaussian_mu
from discreet.privacy.gaussian import gaussian_epsilon
from discreet.privacy.release import observed, values
from papers.optimizers import LocalMD, NoisySFW, NoisySGD


def world(n, d, p=2.0, seed=0):
    rng = np.random.default_rng(seed)
    q = 1.0 if math.isinf(p) else p / (p - 1)
    X = rng.normal(size=(n, d))
    X /= np.linalg.norm(X, q, axis=1, keepdims=True)
    theta = np.full(d, 0.7 * d ** (-1 / p))
    return X, X @ theta, theta


@pytest.mark.parametrize("kind", [NoisySFW, NoisySGD])
def test_batch__one_row_never_pays_more_than_the_budget(kind):
    X, y, _ = world(400, 3)
    learner = kind(Ball(3), 1.0, 1e-5, noise=SeededNoise(0)).fit(X, y)
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


def test_local__a_bad_row_changes_nothing():
    learner = LocalMD(Ball(2), 10, 1.0, noise=SeededNoise(0))
    with pytest.raises(ValueError, match="finite"):
        learner.learn([math.nan, 0.0], 0.0)
    assert learner.rounds == 0
    assert not learner.theta.any()


CLIP = 0.1


def one_label(neighbour):
    """Four rows; the label of the first is 1 or -1, and the others say nothing."""
    X, y = np.zeros((4, 2)), np.zeros(4)
    X[0, 0], y[0] = 1.0, 2.0 * neighbour - 1.0
    return X, y


def first_batch(claim, neighbour, noise):
    learner = NoisySFW(Ball(2), claim.epsilon, claim.delta, gradient_bound=CLIP, noise=noise)
    learner.fit(*one_label(neighbour))


def all_passes(claim, neighbour, noise):
    kind = {"gradient_bound": CLIP, "passes": 5, "step": 1e-3, "noise": noise}
    NoisySGD(Ball(2), claim.epsilon, claim.delta, **kind).fit(*one_label(neighbour))


def reports(claim, neighbour, noise):
    kind = {"gradient_bound": CLIP, "step": 1e-3, "noise": noise}
    learner = LocalMD(Ball(2), 2000, claim.epsilon, **kind)
    with observed("report") as heard:
        for _ in range(2000):
            learner.learn([1.0, 0.0], 1.0 - 2.0 * neighbour)
    return np.array([report[0, 0] for report in values(heard)])


# Later batches of NoisySFW hold other rows.
ATTACKS = {
    "NoisySFW": (Likelihood(first_batch, limit=1), "gdp"),
    "NoisySGD": (Likelihood(all_passes), "gdp"),
    "LocalMD": (in_crowds(reports), None),
}


@pytest.mark.parametrize("name", ATTACKS)
def test_attack__proves_most_of_the_claim_never_more_and_catches_half_the_noise(name):
    draw, method = ATTACKS[name]
    delta, epsilon, runs = (1e-6, 4.0, 500) if method else (0.0, 1.0, 2000)
    twice = gaussian_epsilon(2 * gaussian_mu(epsilon, delta), delta) if method else 2.0
    options = {"delta": delta, "method": method} if method else {}

    def seen(epsilon):
        claim = Claim(epsilon, delta, "gaussian" if method else "pure")
        return [draw(claim, runs, side, SeededNoise(side)) for side in (0, 1)]

    def bound(sides, confidence):
        return audit_scores(*sides, confidence=confidence, **options).lower_bound

    right = seen(epsilon)
    assert bound(right, 0.95) >= (0.4 if method else 0.8) * epsilon
    assert bound(right, 0.9999) <= epsilon
    assert bound(seen(twice), 0.9999) > epsilon


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
