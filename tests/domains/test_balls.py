"""Balls of lp and trace norms against their dual norms and first-order conditions."""

import math

import numpy as np
import pytest

from discreet.domains import LpBall, TraceNormBall
from discreet.online import FTRL
from discreet.privacy import SeededNoise
from discreet.state import decode, encode

POWERS = [1.0, 1.01, 1.3, 1.5, 2.0, 2.5, 4.0, 30.0, math.inf]
BALLS = {f"l{p:g}": LpBall(p, 6, 1.7) for p in POWERS}
BALLS |= {
    "line": LpBall(1.5, 1, 2.0),
    "trace": TraceNormBall(3, 4, 0.8),
    "column": TraceNormBall(5, 1),
    "lanczos": TraceNormBall(30, 26, 2.0),
}
every = pytest.mark.parametrize("ball", BALLS.values(), ids=BALLS)


def norm(ball, x):
    if isinstance(ball, LpBall):
        return np.linalg.norm(x, ball.p)
    return np.linalg.norm(x.reshape(ball.rows, ball.columns), "nuc")


def dual(ball, g):
    size = np.abs(g).max()
    return size * unit_dual(ball, g / size) if size else 0.0


def unit_dual(ball, g):
    if isinstance(ball, TraceNormBall):
        return np.linalg.norm(g.reshape(ball.rows, ball.columns), 2)
    if ball.p == 1:
        return np.abs(g).max()
    return np.linalg.norm(g, 1 / (1 - 1 / ball.p))


def weights(ball, seed=0):
    rng = np.random.default_rng(seed)
    n = ball.dim
    small = rng.integers(-1, 2, (10, n)).astype(float)
    fixed = np.array([np.ones(n), -np.ones(n), np.eye(n)[-1], 1e-200 * small[0], 1e200 * small[1]])
    return np.vstack([rng.standard_normal((10, n)), small, fixed])


@every
def test_linear_minimizer__meets_the_dual_norm(ball):
    for g in weights(ball):
        x = ball.linear_minimizer(g)
        assert norm(ball, x) <= ball.radius * (1 + 1e-9)
        assert g @ x == pytest.approx(-ball.radius * dual(ball, g), rel=1e-9)
    assert ball.contains(ball.linear_minimizer(np.zeros(ball.dim)))


@every
def test_linear_minimizer__is_deterministic_and_many_rows_equal_single_rows(ball):
    G = weights(ball)[:8]
    single = np.array([ball.linear_minimizer(g) for g in G])
    assert np.array_equal(single, [ball.linear_minimizer(g) for g in G])
    assert ball.linear_minimizer(G) == pytest.approx(single, abs=1e-14)


@pytest.mark.parametrize(
    "G",
    [
        np.eye(40),
        np.linalg.qr(np.random.default_rng(0).standard_normal((40, 40)))[0],
        np.ones((40, 40)),
        np.diag(np.append([1, 1 - 1e-12], np.linspace(0, 0.99, 38))),
        1e-290 * np.eye(40),
        1e290 * np.diag(np.arange(40.0)),
        np.outer(np.arange(40) == 3, np.arange(40) == 7) * 1.0,
    ],
    ids=["identity", "rotation", "ones", "near tie", "tiny", "huge", "one entry"],
)
def test_trace_norm__lanczos_bears_equal_and_extreme_singular_values(G):
    ball = TraceNormBall(40, 40)
    x = ball.linear_minimizer(G.ravel())
    assert G.ravel() @ x == pytest.approx(-np.linalg.norm(G, 2), rel=1e-9)
    assert norm(ball, x) == pytest.approx(1.0)


@every
@pytest.mark.parametrize("scale", [0.01, 1.0, 10.0, 1e7])
def test_project__meets_the_first_order_condition(ball, scale):
    rng = np.random.default_rng(1)
    for _ in range(5):
        y = scale * rng.standard_normal(ball.dim) * (rng.random(ball.dim) < 0.8)
        x = ball.project(y)
        assert norm(ball, x) <= ball.radius * (1 + 1e-9)
        assert ball.contains(x)
        if norm(ball, y) <= ball.radius:
            assert np.array_equal(x, y)
        else:
            u = (y - x) / np.linalg.norm(y - x)
            # no point of the ball lies beyond x in the direction of y - x
            assert ball.radius * dual(ball, u) - x @ u <= 1e-7 * ball.radius
            assert not ball.contains(y)


@every
def test_inner_radius__is_the_largest(ball):
    rng = np.random.default_rng(2)
    n = ball.dim
    ends = np.vstack([rng.standard_normal((100, n)), np.eye(n), np.ones(n)])
    if isinstance(ball, TraceNormBall):
        ends = np.vstack([ends, np.eye(ball.rows, ball.columns).ravel()])
    ends *= ball.inner_radius / np.linalg.norm(ends, axis=1, keepdims=True)
    norms = [norm(ball, x) for x in ends]
    assert max(norms) == pytest.approx(ball.radius)
    assert not ball.interior_point.any()
    assert ball.affine_hull.basis == pytest.approx(np.eye(n))


@every
@pytest.mark.parametrize("q", [1.0, 1.5, 2.0, 3.0, math.inf])
def test_diameter__is_reached(ball, q):
    n = ball.dim
    ends = np.vstack(
        [np.random.default_rng(3).standard_normal((50, n)), np.eye(n), np.ones((1, n))]
    )
    ends = np.array([x * ball.radius / norm(ball, x) for x in ends])
    assert 2 * np.linalg.norm(ends, q, axis=1).max() == pytest.approx(ball.diameter(q))
    assert ball.regularizer_range == pytest.approx(ball.diameter() ** 2 / 8)


@every
def test_state__makes_the_same_ball_again(ball):
    again = decode(encode(ball))
    assert encode(again) == encode(ball)
    G = weights(ball)
    assert np.array_equal(again.linear_minimizer(G), ball.linear_minimizer(G))


@pytest.mark.parametrize("ball", [LpBall(1.5, 4), TraceNormBall(2, 3)], ids=["lp", "trace"])
def test_ftrl__learns_on_balls(ball):
    loss = np.eye(ball.dim)[0]
    learner = FTRL(ball, 500, math.inf, 1e-6, noise=SeededNoise(0))
    X = learner.run(np.tile(loss, (500, 1)))
    assert X[-1] @ loss == pytest.approx(-1.0, abs=0.05)


def test_balls__refuse_bad_arguments():
    for p in (0.5, math.nan):
        with pytest.raises(ValueError, match="p must be"):
            LpBall(p, 3)
    for make in (lambda: LpBall(2, 0), lambda: TraceNormBall(0, 2), lambda: TraceNormBall(2, -1)):
        with pytest.raises(ValueError, match="must be"):
            make()
    for radius in (0.0, -1.0, math.inf):
        with pytest.raises(ValueError, match="radius"):
            LpBall(2, 3, radius)
        with pytest.raises(ValueError, match="radius"):
            TraceNormBall(2, 3, radius)
