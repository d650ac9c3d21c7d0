"""The windows of StreamingFrankWolfe: what a row can move, what a window costs, what it tells."""

import math

import numpy as np
import pytest

from discreet.domains import Ball, Cube, LpBall, Simplex
from discreet.optimization import StreamingFrankWolfe
from discreet.optimization.windows import DENSEST, DenseWindows, SparseWindows
from discreet.optimization.windows import window_ends as ends_of
from discreet.privacy import SeededNoise, gaussian_mu
from discreet.privacy.gaussian import zcdp_rho


def rows(domain, count, seed=0):
    q = 2.0 if isinstance(domain, Ball) else 1.0 if isinstance(domain, Cube) else 3.0
    X = np.random.default_rng(seed).normal(size=(count, domain.dim))
    X *= np.random.default_rng(seed).choice([0.3, 1.0], (count, 1))
    return X / np.maximum(np.linalg.norm(X, q, axis=1, keepdims=True), 1e-9)


@pytest.mark.parametrize("loss", ["squared", "logistic", "huber"])
@pytest.mark.parametrize("domain", [LpBall(1.5, 4, 1.5), Ball(4), Cube(4)], ids=str)
def test_term__two_rows_are_no_further_apart_than_the_release_says(domain, loss):
    """Gradient, curvature and count as they are released, for the worst of many pairs of rows."""
    learner = StreamingFrankWolfe(domain, 100, 1.0, loss=loss, noise=SeededNoise(0))
    windows = learner._direction
    C, n = windows.bound, domain.dim
    X = np.vstack([rows(domain, 40), np.eye(n), -np.eye(n)])
    X /= np.maximum(np.linalg.norm(X, learner.problem.q, axis=1, keepdims=True), 1.0)
    labels = np.linspace(*learner.problem.labels, 7)
    terms = np.array([windows.term(x, float(y)) for x in X for y in labels])
    assert np.linalg.norm(terms[:, :n], axis=1).max() <= C * (1 + 1e-12)
    scaled = np.hstack([terms[:, :n], C / windows._largest * terms[:, n:-1],
                        0.25 * C * terms[:, -1:]])  # fmt: skip
    apart = np.linalg.norm(scaled[:, None] - scaled[None], axis=2).max()
    booked = C * math.sqrt(5 + 0.25**2)
    assert 0.75 * booked < apart <= booked * (1 + 1e-12)


@pytest.mark.parametrize("k", [1, 3])
def test_guarantee__every_window_costs_the_whole_budget_and_no_more(k):
    learner = StreamingFrankWolfe(Ball(3), 300, 1.0, 1e-5, contributions=k, noise=SeededNoise(0))
    for x in rows(Ball(3), 300):
        learner.learn(x, 0.5)
    assert learner.theta.shape == (3,)
    releases = learner.guarantee.releases
    assert [each.scope for each in releases] == [f"window {i + 1}" for i in range(len(releases))]
    assert len(releases) == len(learner._direction.ends) > 3
    for each in releases:
        assert each.mu == pytest.approx(gaussian_mu(1.0, 1e-5))
        assert each.sensitivity / each.scale == pytest.approx(each.mu)
    first = 0.3 * math.sqrt(5 + 0.25**2) * k
    assert releases[0].sensitivity == pytest.approx(first)
    assert learner.guarantee.epsilon_at(1e-5) == pytest.approx(1.0, rel=1e-3)


@pytest.mark.parametrize("dim", [3, 40])
def test_guarantee__selections_and_measurements_of_a_window_share_its_budget(dim):
    """p = 1. Where all entries are measured nothing is selected, nor paid."""
    learner = StreamingFrankWolfe(LpBall(1, dim), 400, 1.0, 1e-5, noise=SeededNoise(0))
    rng = np.random.default_rng(0)
    for _ in range(400):
        learner.learn(rng.uniform(-1, 1, dim), 0.3)
    assert learner.theta.shape == (dim,)
    spent = {}
    for each in learner.guarantee.releases:
        spent[each.scope] = spent.get(each.scope, 0.0) + each.rho
    assert len(spent) == len(learner._direction._arms.ends)
    assert all(rho <= zcdp_rho(1.0, 1e-5) * (1 + 1e-9) for rho in spent.values())
    assert max(spent.values()) == pytest.approx(zcdp_rho(1.0, 1e-5))


def test_windows__are_taken_where_curvatures_are_known_and_noise_is_gaussian():
    def direction(domain, delta=1e-6, **more):
        return type(StreamingFrankWolfe(domain, 50, 1.0, delta, **more)._direction)

    assert direction(Ball(3)) is direction(LpBall(1.2, 3), loss="huber") is DenseWindows
    assert direction(LpBall(1, 3)) is direction(Simplex(3), loss="logistic") is SparseWindows
    others = [
        direction(Ball(3), 0.0),
        direction(Ball(DENSEST + 1)),
        direction(Ball(3), mechanism="blt"),
        direction(LpBall(1, 3), 0.0),
        direction(LpBall(1, 3), loss="huber"),
        direction(LpBall(1, 3), mechanism="vertices"),
    ]
    assert not {DenseWindows, SparseWindows} & set(others)


@pytest.mark.parametrize("horizon", [1, 2, 7, 24, 1000, 10**6])
@pytest.mark.parametrize("dim", [1, 10, 1000])
def test_ends__grow_to_the_horizon(horizon, dim):
    ends = ends_of(horizon, dim, 0.24, 1.7)
    lengths = np.diff([0, *ends])
    assert ends[-1] == horizon
    assert lengths.min() >= 1
    assert (lengths[1:] >= lengths[:-1]).all()


def test_shortened__tells_of_a_bound_that_is_too_small():
    """Labels of +-1 whatever x is: nothing explains them, and a small bound shortens them all."""
    told = {}
    for bound in (0.05, None):
        learner = StreamingFrankWolfe(
            Ball(2), 4000, 1.0, 1e-6, gradient_bound=bound, noise=SeededNoise(1)
        )
        rng = np.random.default_rng(2)
        for _ in range(4000):
            x = rng.normal(size=2)
            learner.learn(x / np.linalg.norm(x), rng.choice([-1.0, 1.0]))
        told[bound] = learner.shortened, learner.bound
    assert told[0.05] == (pytest.approx(1.0, abs=0.05), 0.05)
    assert told[None][1] > 0.3  # the first one: it has grown


def test_theta__is_found_though_columns_are_correlated():
    """A direction 13 times as steep as the others: steps for the mean curvature would diverge."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(6000, 5)) + 1.5 * rng.normal(size=(6000, 1))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    theta = np.array([0.4, -0.4, 0.4, -0.4, 0.0])
    learner = StreamingFrankWolfe(LpBall(2, 5), 6000, 1.0, 1e-6, noise=SeededNoise(0))
    for x in X:
        learner.learn(x, x @ theta)
    assert np.mean((X @ (learner.theta - theta)) ** 2) < 0.02 * np.mean((X @ theta) ** 2)


@pytest.mark.parametrize("seed", [704, 706, 708, 712, 719])
def test_theta__is_found_where_steep_directions_hide_in_the_noise(seed):
    """Steps for curvatures pulled to their mean diverged on these: errors of 1 to 5 times theta."""
    d, T = 6, 3000
    rng = np.random.default_rng([seed, T, d])
    turned = np.linalg.qr(np.random.default_rng(seed).normal(size=(d, d)))[0]
    X = rng.normal(size=(2 * T, d)) * np.arange(1, d + 1) ** -0.5 @ turned
    X /= np.linalg.norm(X, 3, axis=1, keepdims=True)
    theta = rng.normal(size=d)
    theta *= 0.7 / np.linalg.norm(theta, 1.5)
    y = X @ theta + 0.05 * rng.normal(size=2 * T)
    learner = StreamingFrankWolfe(
        LpBall(1.5, d), T, 1.0, 1 / T, loss="huber", noise=SeededNoise(seed)
    )
    for x, label in zip(X[:T], y[:T], strict=True):
        learner.learn(x, label)
    assert np.mean((X @ (learner.theta - theta)) ** 2) < 0.01 * np.mean((X @ theta) ** 2)


def test_selection__all_choices_of_a_window_together_cost_what_is_booked():
    """k selections of bounded range 2 D / s: k (2 D / s)^2 / 8 of zCDP."""
    learner = StreamingFrankWolfe(LpBall(1, 40), 20_000, 8.0, 1e-5, noise=SeededNoise(0))
    arms = learner._direction._arms
    most = 0
    for end in arms.ends[:-1]:
        arms.advance(end)
        release = arms.guarantee.releases[-2]
        k = int(release.what.split()[0])
        most = max(most, k)
        assert k * (2 * release.sensitivity / release.scale) ** 2 / 8 == pytest.approx(release.rho)
    assert most > 3


@pytest.mark.parametrize("length", [0.1, 1.0, 3.0])
def test_take__the_slope_along_a_step_is_bounded_however_long_the_step_is(length):
    learner = StreamingFrankWolfe(LpBall(1, 4, 2.0), 400, 1.0, 1e-5, noise=SeededNoise(0))
    arms = learner._direction._arms
    arms._step[0] = length * np.array([0.5, -0.5, 0.0, 0.0])
    for sign in (1.0, -1.0):
        before = arms._sums.copy()
        arms.take(0, np.array([1.0, -1.0, 1.0, 1.0]), sign)
        moved = np.abs(arms._sums - before)[0]
        assert moved[-2] == pytest.approx(arms.bound)
        assert moved[:4] == pytest.approx(np.full(4, arms.bound))


@pytest.mark.parametrize("domain", [Ball(2), LpBall(1.5, 2), Cube(2)], ids=str)
def test_row__that_is_a_little_too_long_is_shortened_too(domain):
    problem = StreamingFrankWolfe(domain, 100, 1.0, noise=SeededNoise(0)).problem
    for x in ([0.9, 0.9], [3.0, -4.0]):
        assert np.linalg.norm(problem.row(x), problem.q) == pytest.approx(1.0)
