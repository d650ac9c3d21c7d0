"""What a release may cost and how often it may happen, where that is easy to get wrong."""

import math

import numpy as np
import pytest

from discreet.domains import Ball, LpBall
from discreet.optimization import StreamingFrankWolfe
from discreet.optimization.problem import MarginLoss
from discreet.optimization.windows import COUNT
from discreet.privacy import SeededNoise
from discreet.regression import local_server
from discreet.regression.local_server import CLIP, Server


def full(domain, **options):
    """A learner whose first window is full and not released yet."""
    rng = np.random.default_rng(0)
    learner = StreamingFrankWolfe(domain, 300, 8.0, 1e-6, noise=SeededNoise(0), **options)
    for _ in range(learner._direction.ends[0]):
        x = rng.normal(size=domain.dim)
        learner.learn(x / np.abs(x).sum(), math.copysign(1.0, x[0]))
    return learner


class Failing(Ball):
    """A ball whose projection fails a few times."""

    failures = 3

    def project(self, y):
        if self.failures:
            self.failures -= 1
            raise RuntimeError("no convergence")
        return super().project(y)


def test_windows__a_projection_that_fails_does_not_draw_the_noise_again(monkeypatch):
    """An exception is an output: noise drawn anew after each would be a release each time."""
    domain = Failing(3)
    learner = full(domain)
    draws = []
    normal = SeededNoise.normal
    monkeypatch.setattr(
        SeededNoise, "normal", lambda self, size: draws.append(size) or normal(self, size)
    )
    for _ in range(3):
        with pytest.raises(RuntimeError):
            assert learner.theta is None
    theta = learner.theta
    assert len(draws) == 1
    assert len(learner.guarantee.releases) == 1
    assert np.array_equal(theta, full(Ball(3)).theta)


def test_windows__a_state_between_release_and_move_is_resumed_there():
    learner = full(Failing(3))
    before = learner.state_dict()
    with pytest.raises(RuntimeError):
        assert learner.theta is None
    between = learner.state_dict()
    with pytest.raises(ValueError, match="older"):
        learner.load_state_dict(before)
    domain = Failing(3)
    domain.failures = 0
    resumed = StreamingFrankWolfe(domain, 300, 8.0, 1e-6, noise=SeededNoise(0))
    resumed.load_state_dict(between)
    assert np.array_equal(resumed.theta, full(Ball(3)).theta)
    assert len(resumed.guarantee.releases) == 1


@pytest.mark.parametrize("p", [1.01, 1.5, 7.0, 100.0, 1e3, 1e6])
def test_lp_ball__far_points_have_a_nearest_one_for_every_p(p):
    rng = np.random.default_rng(0)
    for n in (1, 4, 60):
        ball = LpBall(p, n)
        for size in (1.0, 3.0, 50.0, 1e6, 1e30):
            y = size * rng.normal(size=n)
            near = ball.project(y)
            assert np.linalg.norm(near, math.inf) <= 1 + 1e-9
            assert ball.contains(near)
            # No worse than another point of the ball: y cut to the cube, then scaled into it.
            other = np.clip(y, -1, 1)
            top = max(np.abs(other).max(), 1e-300)
            other = other / max(1.0, top * float(np.sum((np.abs(other) / top) ** p) ** (1 / p)))
            assert np.linalg.norm(near - y) <= np.linalg.norm(other - y) * (1 + 1e-9)


@pytest.mark.parametrize("scale", [1.0, 1e-150, 1e-162, 1e-170, 1e-300])
def test_windows__no_row_is_too_short_to_be_clipped(scale):
    """Squares of such entries are 0; gradients of large labels are longer than the bound."""
    learner = StreamingFrankWolfe(
        Ball(2), 100, 1.0, label_bound=1e100, gradient_bound=1e-100, noise=SeededNoise(0)
    )
    windows = learner._direction
    C = windows.bound
    terms = np.array(
        [
            windows.term(learner.problem.row([scale, 0.0]), learner.problem.label(y))
            for y in (-1e100, 0.0, 1e100)
        ]
    )
    assert np.hypot(terms[:, 0], terms[:, 1]).max() <= C * (1 + 1e-12)
    scaled = np.hstack([terms[:, :2], C / windows._largest * terms[:, 2:-1],
                        COUNT * C * terms[:, -1:]])  # fmt: skip
    apart = np.linalg.norm(scaled[:, None] - scaled[None], axis=2).max()
    assert apart <= C * math.sqrt(4 + 2 + COUNT**2) * (1 + 1e-12)


WRONG = [1e9, -1e9, 1e308, -1e308, math.inf, -math.inf, math.nan, 0.0, 1.0]


@pytest.mark.parametrize("smoothness", [1e-6, 1.0])
def test_windows__a_loss_with_wrong_bounds_costs_accuracy_and_never_privacy(smoothness):
    """Slope and curvature are what the label says: anything."""

    def at(m, y):
        return WRONG[round(abs(y)) % len(WRONG)]

    def bend(m, y):
        return WRONG[round(abs(y)) // len(WRONG)]

    labels = (0.0, float(len(WRONG) ** 2 - 1))
    loss = MarginLoss("mine", at, bend, 1.0, smoothness, labels, 1.0)
    learner = StreamingFrankWolfe(Ball(2), 100, 1.0, loss=loss, noise=SeededNoise(0))
    windows = learner._direction
    C = windows.bound
    X = [np.zeros(2), np.array([1.0, 0.0]), np.array([0.0, 1.0]), np.array([-0.6, 0.8])]
    terms = np.array([windows.term(x, float(y)) for x in X for y in range(len(WRONG) ** 2)])
    assert np.isfinite(terms).all()
    scaled = np.hstack([terms[:, :2], C / windows._largest * terms[:, 2:-1],
                        COUNT * C * terms[:, -1:]])  # fmt: skip
    apart = np.linalg.norm(scaled[:, None] - scaled[None], axis=2).max()
    assert apart <= C * math.sqrt(4 + 2 + COUNT**2) * (1 + 1e-12)


def test_windows__a_loss_without_curvature_takes_running_sums():
    loss = MarginLoss("linear", lambda m, y: -y, lambda m, y: 0.0, 1.0, 0.0, (-1.0, 1.0), 1.0)
    learner = StreamingFrankWolfe(Ball(2), 100, 1.0, loss=loss, noise=SeededNoise(0))
    assert learner.learn([0.6, 0.8], 1.0)
    assert np.isfinite(learner.theta).all()


def test_local_regression__a_tail_that_was_shown_is_not_cut_again(monkeypatch):
    """0/1 labels of mean .1, 10^6 people: predictions of .03 where the last phase cut them."""
    shown = iter([(0.1, False), (0.09, True), (0.18, False)])
    monkeypatch.setattr(local_server, "residual_std", lambda sums: next(shown))
    server = Server(2, people=1000, epsilon=1.0)
    clips = []
    while not server.done:
        state = server.ask()
        if state.question("moment") is not None:
            clips.append(state.question("moment").clip)
        server.close()
    assert clips == [1.0, pytest.approx(0.1 * CLIP), 1.0, 1.0]
